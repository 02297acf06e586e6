//! What the benchmarks are made of.

pub mod cases;
pub mod limited_home;
pub mod load;
pub mod quantity;
pub mod statistics;
pub mod systems;
