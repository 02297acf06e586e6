//! Sequential cut-off: everything goes to the SSD but what continues a long run.
//!
//! The idea of bcache and of the caches of disk arrays. It costs no look at whole streams and knows nothing of the disk. It is wrong
//! for many writers of short runs, whose requests the scheduler would have put in order, and lets the start of each run in.

use super::{Admission, AdmissionView, Reason, Verdict};
use crate::policy::detector::{Detector, SequentialRuns};
use crate::policy::{Arrival, Operation, Target};

/// See the head of this file.
pub struct CutOff {
    runs: SequentialRuns,
    run_bytes_min: u64,
    traffic: Target,
}

impl CutOff {
    /// Runs of at least so many bytes go to the disk. bcache's default is 4 MiB.
    pub fn new(run_bytes_min: u64) -> Self {
        CutOff { runs: SequentialRuns::new(), run_bytes_min, traffic: Target::Disk }
    }
}

impl Admission for CutOff {
    fn admit(&mut self, _view: &AdmissionView, arrival: &Arrival<'_>) -> Verdict {
        if arrival.operation == Operation::Read {
            return Verdict::new(Target::Disk, Reason::Class);
        }
        let (target, reason) = match self.runs.observe(arrival) {
            run if run >= self.run_bytes_min => (Target::Disk, Reason::LongRun),
            _ => (Target::Ssd, Reason::ShortRun),
        };
        self.traffic = target;
        Verdict::new(target, reason)
    }

    fn traffic(&self) -> Target {
        self.traffic
    }
}
