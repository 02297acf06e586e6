//! What can be learned from a trace, in one pass and in bounded memory.

pub mod analysis;
pub mod bursts;
pub mod chunks;
pub mod curve;
pub mod distance;
pub mod locality;
pub mod miniature;
pub mod pairs;
pub mod patterns;
pub mod phases;
pub mod reuse;
pub mod sampled;
pub mod totals;

pub use analysis::{Analysis, Options};
