//! Fixtures of the tests of the whole: the `forebay` program on a real mount, applications to run under it, and what they leave behind.

pub mod history;
pub mod licence;
pub mod listing;
pub mod operations;
pub mod process;
pub mod progress;
pub mod random;
pub mod repository;
pub mod sandbox;
pub mod servers;
pub mod staged;
