//! What can be learned from a trace, in one pass and in bounded memory.

pub mod chunks;
pub mod curve;
pub mod distance;
pub mod miniature;
pub mod pairs;
pub mod reuse;
pub mod sampled;
