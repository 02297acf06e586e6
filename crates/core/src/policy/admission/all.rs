//! Plain burst buffer (P-07): every write goes to the SSD as long as it takes any.
//!
//! Source: OrangeFS-BB, which SSDUP+ compares itself with (4.1, 4.2.3). It is wrong when the data is larger than the SSD: sequential
//! writes, which the disk would have taken as fast, fill it, and what comes while it is emptied meets the flush at the disk.

use super::{Admission, AdmissionView, Reason, Verdict};
use crate::policy::{Arrival, Operation, Target};

/// What becomes of writes while the buffer is being emptied; the paper says both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhileFlushing {
    /// They go to the disk (4.2.3, and the released source).
    #[default]
    Disk,
    /// They wait (4.2.4).
    Wait,
}

/// Everything goes to the SSD.
pub struct All {
    while_flushing: WhileFlushing,
}

impl All {
    /// The policy.
    pub fn new(while_flushing: WhileFlushing) -> Self {
        All { while_flushing }
    }
}

impl Admission for All {
    fn admit(&mut self, view: &AdmissionView, arrival: &Arrival<'_>) -> Verdict {
        match arrival.operation {
            Operation::Read => Verdict::new(Target::Disk, Reason::Class),
            Operation::Write if view.buffer_is_flushing && self.while_flushing == WhileFlushing::Disk => {
                Verdict::new(Target::Disk, Reason::Flushing)
            }
            Operation::Write => Verdict::new(Target::Ssd, Reason::Everything),
        }
    }

    fn traffic(&self) -> Target {
        Target::Ssd
    }
}
