//! SSDUP+ (P-01 to P-03): the level follows the streams.
//!
//! A stream above the level sends the next to the SSD, one below it to the disk; one on the level changes nothing. The level comes from
//! all streams so far ([`AdaptiveLevel`]), the one in question included.
//!
//! Source: SSDUP+, 2.3.2, algorithm 1. The released source keeps two marks in addition, as SSDUP has them: the level counts as at least
//! the high mark for going to the SSD and as at least the low mark for going back ([`SsdupPlusConfig::released`]).
//!
//! It is wrong right after the traffic has changed, as the level remembers; and when all traffic is alike, about a part of it goes to
//! the SSD that has nothing to do with what it costs the disk.

use super::ssdup::reason;
use super::{AdaptiveLevel, Admission, AdmissionView, IndexRule, Reason, ResetRule, Verdict, Watermarks};
use crate::policy::detector::{Detector, RandomStreams, StreamConfig};
use crate::policy::{Arrival, Operation, Share, Target};

/// How the level is found and used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SsdupPlusConfig {
    /// Which of the sorted shares is the level.
    pub index_rule: IndexRule,
    /// When the shares so far are forgotten; `None`: never.
    pub reset: Option<ResetRule>,
    /// What the level is at least, on the way up and down.
    pub floors: Watermarks,
}

impl Default for SsdupPlusConfig {
    /// The paper's.
    fn default() -> Self {
        let floors = Watermarks { high: Share::ZERO, low: Share::ZERO };
        SsdupPlusConfig { index_rule: IndexRule::RoundN1, reset: Some(ResetRule::default()), floors }
    }
}

impl SsdupPlusConfig {
    /// What the logs that the authors published were made with.
    pub fn released() -> Self {
        SsdupPlusConfig { index_rule: IndexRule::RoundN1, reset: None, floors: Watermarks::default() }
    }
}

/// See the head of this file.
pub struct SsdupPlus {
    streams: RandomStreams,
    level: AdaptiveLevel,
    floors: Watermarks,
    current: Target,
}

impl SsdupPlus {
    /// The policy before its first stream.
    pub fn new(stream: StreamConfig, config: SsdupPlusConfig) -> Self {
        let level = AdaptiveLevel::new(stream.requests - 1, config.index_rule, config.reset);
        SsdupPlus { streams: RandomStreams::new(stream), level, floors: config.floors, current: Target::Disk }
    }

    /// The level of now.
    pub fn level(&self) -> Share {
        self.level.level()
    }

    /// How often the shares so far were forgotten.
    pub fn resets(&self) -> u64 {
        self.level.resets()
    }

    /// Judges a stream by its share: the device of the next one.
    pub fn on_stream(&mut self, share: Share) -> Target {
        let level = self.level.insert(share);
        let marks = Watermarks { high: level.max(self.floors.high), low: level.max(self.floors.low) };
        self.current = marks.next(self.current, share);
        self.current
    }
}

impl Admission for SsdupPlus {
    fn admit(&mut self, _view: &AdmissionView, arrival: &Arrival<'_>) -> Verdict {
        if arrival.operation == Operation::Read {
            return Verdict::new(Target::Disk, Reason::Class);
        }
        let target = self.current;
        if let Some(share) = self.streams.observe(arrival) {
            self.on_stream(share);
        }
        Verdict::new(target, reason(target))
    }

    fn traffic(&self) -> Target {
        self.current
    }
}
