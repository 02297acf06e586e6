//! What the benchmarks share: sizes and durations as people write them, and a limited home.

pub mod limited_home;
pub mod quantity;
