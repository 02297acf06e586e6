//! No buffer (P-08): what an I/O server without an SSD does.

use super::{Admission, AdmissionView, Reason, Verdict};
use crate::policy::{Arrival, Target};

/// Everything goes to the disk.
pub struct Nothing;

impl Admission for Nothing {
    fn admit(&mut self, _view: &AdmissionView, _arrival: &Arrival<'_>) -> Verdict {
        Verdict::new(Target::Disk, Reason::NoBuffer)
    }

    fn traffic(&self) -> Target {
        Target::Disk
    }
}
