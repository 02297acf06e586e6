//! What a node has done, for reports.

use alloc::collections::{BTreeMap, VecDeque};

use super::message::Generation;
use crate::policy::admission::{Reason, Verdict};
use crate::policy::{RequestClass, Target};
use crate::time::Time;

/// Requests and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    pub(super) fn add(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
    }
}

/// One flush of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlushReport {
    /// Which filling.
    pub generation: Generation,
    /// When it could have begun.
    pub from: Time,
    /// When all of it was home.
    pub to: Time,
    /// How long of this the policy had it rest, ns.
    pub rested_ns: u64,
    /// Bytes that it brought home.
    pub bytes: u64,
}

/// Flushes that are reported one by one; older ones are in the sums.
pub const FLUSH_REPORTS_MAX: usize = 1024;

/// Sums since the start.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Writes by class, device and reason.
    pub writes: BTreeMap<(RequestClass, Target, Reason), Count>,
    /// Reads, and the bytes of them that the SSD had.
    pub reads: Count,
    /// Bytes of reads that came from the SSD.
    pub read_ssd_bytes: u64,
    /// Writes that waited for room.
    pub waits_for_room: u64,
    /// Writes that waited for others in their range.
    pub waits_for_range: u64,
    /// Writes to the disk that took older bytes on the SSD out of the index.
    pub superseding: u64,
    /// Changes of the disk.
    pub changes: u64,
    /// Regions that were flushed.
    pub flushes: u64,
    /// Ranges that flushes wrote, and their bytes.
    pub flushed: Count,
    /// How long flushes rested in all, ns.
    pub rested_ns: u64,
    /// The latest flushes.
    pub reports: VecDeque<FlushReport>,
}

impl Counters {
    pub(super) fn write(&mut self, class: RequestClass, verdict: Verdict, bytes: u64) {
        self.writes.entry((class, verdict.target, verdict.reason)).or_default().add(bytes);
    }

    pub(super) fn flush(&mut self, report: FlushReport) {
        self.flushes += 1;
        self.rested_ns += report.rested_ns;
        if self.reports.len() == FLUSH_REPORTS_MAX {
            self.reports.pop_front();
        }
        self.reports.push_back(report);
    }

    /// Writes that went to a device.
    pub fn to(&self, target: Target) -> Count {
        let mut sum = Count::default();
        for (_, count) in self.writes.iter().filter(|((_, to, _), _)| *to == target) {
            sum.requests += count.requests;
            sum.bytes += count.bytes;
        }
        sum
    }
}
