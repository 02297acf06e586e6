//! Sequential runs: how many bytes have come one after the other up to here?
//!
//! The last few runs are remembered by where they would go on, so that several processes can each write theirs. What caches in the
//! kernel do to leave long runs to the disk (bcache's sequential cut-off is the best known).
//!
//! It is wrong for strided writers who together cover everything: each request begins a run of its own.

use super::Detector;
use crate::id::Ino;
use crate::policy::Arrival;

/// Runs that are remembered; the one that went on longest ago is forgotten for a new one.
pub const RUNS_MAX: usize = 128;

#[derive(Clone, Copy)]
struct Run {
    file: Ino,
    end: u64,
    bytes: u64,
}

/// Follows runs; see the head of this file.
pub struct SequentialRuns {
    /// The one that went on last stands last.
    runs: alloc::collections::VecDeque<Run>,
}

impl SequentialRuns {
    /// Nothing is known yet.
    pub fn new() -> Self {
        SequentialRuns { runs: alloc::collections::VecDeque::with_capacity(RUNS_MAX) }
    }
}

impl Default for SequentialRuns {
    fn default() -> Self {
        Self::new()
    }
}

impl Detector for SequentialRuns {
    /// Bytes of the run that the request continues or begins, its own included.
    type Finding = u64;

    fn observe(&mut self, arrival: &Arrival<'_>) -> u64 {
        let continues = |run: &Run| run.file == arrival.file && run.end == arrival.offset;
        let before = match self.runs.iter().rposition(continues) {
            Some(at) => self.runs.remove(at).map_or(0, |run| run.bytes),
            None => 0,
        };
        if self.runs.len() == RUNS_MAX {
            self.runs.pop_front();
        }
        let bytes = before.saturating_add(arrival.len);
        self.runs.push_back(Run { file: arrival.file, end: arrival.offset.saturating_add(arrival.len), bytes });
        bytes
    }
}
