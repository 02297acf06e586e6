//! SSDUP (S-05): two watermarks on the random share of streams.
//!
//! A stream above the high mark sends the next to the SSD, one below the low mark to the disk; between them nothing changes. It begins
//! with the disk.
//!
//! Source: SSDUP (ICS'17), as told in SSDUP+, 2.3.2. It is wrong when all of the traffic lies on one side of the marks: then nothing
//! is buffered, or everything.

use super::{Admission, AdmissionView, Reason, Verdict};
use crate::policy::detector::{Detector, RandomStreams, StreamConfig};
use crate::policy::{Arrival, Operation, Share, Target};

/// The marks; a share that equals one is between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watermarks {
    /// Above it, to the SSD.
    pub high: Share,
    /// Below it, to the disk.
    pub low: Share,
}

impl Default for Watermarks {
    fn default() -> Self {
        Watermarks { high: Share::new(45, 100), low: Share::new(30, 100) }
    }
}

impl Watermarks {
    /// The device of the next stream.
    pub fn next(self, current: Target, share: Share) -> Target {
        if share > self.high {
            Target::Ssd
        } else if share < self.low {
            Target::Disk
        } else {
            current
        }
    }
}

/// Why a write goes with its stream.
pub(super) fn reason(target: Target) -> Reason {
    match target {
        Target::Ssd => Reason::RandomStream,
        Target::Disk => Reason::OrderedStream,
    }
}

/// See the head of this file.
pub struct Ssdup {
    streams: RandomStreams,
    watermarks: Watermarks,
    current: Target,
}

impl Ssdup {
    /// The policy before its first stream.
    pub fn new(stream: StreamConfig, watermarks: Watermarks) -> Self {
        Ssdup { streams: RandomStreams::new(stream), watermarks, current: Target::Disk }
    }
}

impl Admission for Ssdup {
    fn admit(&mut self, _view: &AdmissionView, arrival: &Arrival<'_>) -> Verdict {
        if arrival.operation == Operation::Read {
            return Verdict::new(Target::Disk, Reason::Class);
        }
        let target = self.current;
        if let Some(share) = self.streams.observe(arrival) {
            self.current = self.watermarks.next(target, share);
        }
        Verdict::new(target, reason(target))
    }

    fn traffic(&self) -> Target {
        self.current
    }
}
