//! Detection: what is the traffic like?
//!
//! One file per algorithm. Each looks at requests as they arrive and says one thing about them; who admits decides what follows.

mod random_streams;
mod request_class;
mod sequential_runs;

pub use random_streams::{RandomStreams, StreamConfig};
pub use request_class::FragmentRule;
pub use sequential_runs::SequentialRuns;

use super::Arrival;

/// Says what the traffic is like.
pub trait Detector {
    /// What it says.
    type Finding;

    /// Looks at the next request.
    fn observe(&mut self, arrival: &Arrival<'_>) -> Self::Finding;
}
