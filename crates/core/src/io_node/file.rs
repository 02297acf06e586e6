//! The books of one file.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Range;

use super::Ranges;
use crate::extent::ExtentMap;
use crate::id::{CallId, Position};
use crate::time::Time;

/// Where the bytes of a file are, and what is under way with it.
#[derive(Debug, Default)]
pub struct FileData {
    /// Bytes in the buffer.
    pub extents: ExtentMap,
    /// Bytes of home count below this; above, what is not in the buffer is zeros.
    pub home_valid: u64,
    /// No byte at home lies behind this, once what is in flight has landed.
    pub home_end: u64,
    /// A transfer has failed: home's file may be shorter than `home_end`.
    pub home_end_unsure: bool,
    /// Home may have bytes behind `home_valid` that are not zeros: they must be cut off before anything is written behind it.
    pub home_junk: bool,
    /// Holes that home has yet to be told of: whatever stands there, these are zeros. Nothing of the index stands in them.
    pub holes: Ranges,
    /// The home file's length was learned: `home_valid` and `home_end` mean something.
    pub home_known: bool,
    /// Counts truncations: a transfer of an older epoch says nothing about bytes behind the cut.
    pub epoch: u64,
    /// Writes into the log that are not done: their ranges.
    pub writes: Vec<Range<u64>>,
    /// Transfers to home from write to compare.
    pub transfers: Vec<Transfer>,
    /// Where the last look for something to write home ended: the next one goes on from there.
    pub look_from: u64,
    /// The newest record that says that something was cut off.
    pub cut_position: Position,
    /// A truncate at home is under way.
    pub cutting: bool,
    /// An attribute change at home is under way.
    pub setting_attr: bool,
    /// Fetches from home, by the number of the host's buffer.
    pub fetches: BTreeMap<u64, Fetch>,
    /// Since when the oldest of what is dirty has been so.
    pub dirty_since: Option<Time>,
    /// Chunks that are written back to be swapped out.
    pub swapping: BTreeSet<u64>,
}

/// A range on its way home: bytes, or a hole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// The range.
    pub range: Range<u64>,
    /// [`FileData::epoch`] at its start.
    pub epoch: u64,
}

/// A chunk on its way from home.
#[derive(Debug)]
pub struct Fetch {
    /// The bytes in the host's buffer.
    pub range: Range<u64>,
    /// The parts that only home had when the fetch began. The rest of the buffer may be older than what is, or then was, in the log.
    pub gaps: Vec<Range<u64>>,
    /// What it adds to its chunk, as far as that counts.
    pub stake_bytes: u32,
    /// Something changed the range since: the bytes serve those who already wait, and are not kept.
    pub stale: bool,
    /// The bytes are in the host's buffer.
    pub ready: bool,
    /// Reads that wait for it.
    pub waiters: Vec<CallId>,
}

impl FileData {
    /// Nothing is buffered, nothing under way, and home's file is just as long as it should be: all of it can be learned again.
    pub fn is_idle(&self, size: u64) -> bool {
        self.extents.is_empty() && self.is_settled(size)
    }

    /// Nothing is under way, and home's file has the length and the holes that it should have.
    pub fn is_settled(&self, size: u64) -> bool {
        let is_home = !self.home_known || (!self.home_junk && self.home_valid == size && self.is_length_home(size));
        is_home && self.holes.is_empty() && self.is_quiet() && self.fetches.is_empty()
    }

    /// Home's file is this long, once what is in flight has landed.
    pub fn is_length_home(&self, size: u64) -> bool {
        self.home_end == size && !self.home_end_unsure
    }

    /// Nothing of the file is under way at home but fetches.
    pub fn is_quiet(&self) -> bool {
        self.writes.is_empty() && self.transfers.is_empty() && !self.cutting && !self.setting_attr
    }

    /// A change of `range`: fetches that overlap it must not be kept.
    pub fn spoil_fetches(&mut self, range: &Range<u64>) {
        for fetch in self.fetches.values_mut() {
            if fetch.range.start < range.end && range.start < fetch.range.end {
                fetch.stale = true;
            }
        }
    }

    /// The chunk of `range` is swapped out: what is fetched of it does not count any more, and must not be kept.
    pub fn give_up_fetches(&mut self, range: &Range<u64>) {
        for fetch in self.fetches.values_mut() {
            if fetch.range.start < range.end && range.start < fetch.range.end {
                (fetch.stale, fetch.stake_bytes) = (true, 0);
            }
        }
    }

    /// Whether a range overlaps a write or a transfer that is not done.
    pub fn is_in_flight(&self, range: &Range<u64>) -> bool {
        let overlaps = |r: &Range<u64>| r.start < range.end && range.start < r.end;
        self.writes.iter().any(overlaps) || self.transfers.iter().any(|t| overlaps(&t.range))
    }
}
