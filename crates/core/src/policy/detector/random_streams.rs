//! Random share of a request stream (S-02 to S-04).
//!
//! Writes that arrive one after the other are taken together to a stream, as long as the disk scheduler's queue (S-13), and sorted as
//! that would sort them. Each neighbour that does not continue where the one before it ends will cost a seek; their share of all
//! neighbours says how random the stream is for the disk, whatever the order of arrival.
//!
//! Source: SSDUP+, 2.1 to 2.3.1, equation 1. It is wrong where neighbours of one stream are far from what the disk meets: when reads
//! stand between them, when a gap of a few blocks costs next to nothing ([`StreamConfig::gap_requests`] forgives it), or when the
//! queue of the disk is much longer than the stream.

use alloc::vec::Vec;

use super::Detector;
use crate::policy::{Arrival, Operation, Share};

/// How streams are made and judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamConfig {
    /// Requests in a stream; at least 2. The scheduler's queue length. More cost more memory (24 bytes each) and a later verdict.
    pub requests: u32,
    /// A hole of up to as many request sizes behind a request is no seek. 0 is what the paper says; its released source forgives 1.
    pub gap_requests: u32,
}

impl Default for StreamConfig {
    fn default() -> Self {
        StreamConfig { requests: 128, gap_requests: 0 }
    }
}

/// A write of the stream; sorted by file, then offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Write {
    file: u64,
    offset: u64,
    len: u64,
}

/// Takes writes together to streams; see the head of this file.
#[derive(Clone)]
pub struct RandomStreams {
    config: StreamConfig,
    stream: Vec<Write>,
}

impl RandomStreams {
    /// A detector before its first stream.
    pub fn new(config: StreamConfig) -> Self {
        assert!(config.requests >= 2, "a stream of one request has no neighbours");
        RandomStreams { config, stream: Vec::with_capacity(config.requests as usize) }
    }

    /// Judges the stream that is not complete, if it has neighbours at all, and begins a new one.
    pub fn finish(&mut self) -> Option<Share> {
        let share = (self.stream.len() >= 2).then(|| self.judge());
        self.stream.clear();
        share
    }

    /// Requests of the stream so far.
    pub fn len(&self) -> usize {
        self.stream.len()
    }

    /// Whether the stream has no request yet.
    pub fn is_empty(&self) -> bool {
        self.stream.is_empty()
    }

    fn judge(&mut self) -> Share {
        self.stream.sort_unstable();
        let gap_requests = u64::from(self.config.gap_requests);
        // Equation 1. Another file, an overlap and the same offset again count as random, too.
        let continues = |a: &Write, b: &Write| {
            let hole = b.offset.checked_sub(a.offset.saturating_add(a.len));
            a.file == b.file && hole.is_some_and(|hole| hole <= a.len.saturating_mul(gap_requests))
        };
        let random = self.stream.windows(2).filter(|pair| !continues(&pair[0], &pair[1])).count();
        Share::new(random as u32, self.stream.len() as u32 - 1)
    }
}

impl Detector for RandomStreams {
    /// The random share of the stream that this request completes.
    type Finding = Option<Share>;

    fn observe(&mut self, arrival: &Arrival<'_>) -> Option<Share> {
        if arrival.operation == Operation::Read {
            return None;
        }
        self.stream.push(Write { file: arrival.file.0, offset: arrival.offset, len: arrival.len });
        if self.stream.len() < self.config.requests as usize {
            return None;
        }
        self.finish()
    }
}
