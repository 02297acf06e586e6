//! Fixtures of the tests of the whole.

pub mod licence;
pub mod repository;
