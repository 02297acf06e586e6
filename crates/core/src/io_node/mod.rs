//! The I/O node's books: which bytes of which file stand where in the log, by chunk, and what of them is dirty.
//!
//! The decisions that use these books are in [`crate::node`]; here they are only kept in step with each other: the index of each file,
//! the live bytes of each segment, the resident bytes of each chunk and the replacement policy's view of the chunks.

mod file;
mod held;
mod ranges;
mod segments;

pub use file::{Fetch, FileData, Transfer};
pub use held::Stake;
pub use ranges::Ranges;
pub use segments::{LogRecord, Segment, Segments, Space};

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Range;

use crate::config::{CLEANING_SEGMENTS, NodeConfig, WriteBack};
use crate::extent::Piece;
use crate::id::{ChunkId, Ino, Lsn, SegmentId};
use crate::policy::replacement::{self, Replacement};
use held::Held;

/// Chunks remembered as swapped out, to tell a first read from a repeated one; beyond it the oldest inodes' are forgotten.
const SWAPPED_MAX: usize = 1 << 20;

/// The books of the I/O node.
pub struct IoNode {
    chunk_bytes: u64,
    /// Files with bytes in the buffer or something under way.
    pub files: BTreeMap<Ino, Box<FileData>>,
    /// The log.
    pub segments: Segments,
    /// What the buffer has of each chunk, or is about to have.
    chunks: BTreeMap<ChunkId, Held>,
    /// Chunks are swapped out when another enters (B-06): who goes depends on what was asked for and in which order, and on nothing else.
    pub swaps_at_entry: bool,
    /// Bytes of chunks that are not being swapped out, those on their way in among them.
    pub held_bytes: u64,
    /// Bytes of chunks that are being swapped out.
    pub leaving_bytes: u64,
    policy: Box<dyn Replacement>,
    swapped: BTreeSet<ChunkId>,
    /// Dirty bytes in all.
    pub dirty_bytes: u64,
    /// Pieces in all indexes.
    pub pieces: usize,
    /// Holes of all files.
    pub holes: usize,
    /// Live bytes above which chunks are swapped out.
    pub live_bytes_max: u64,
    removed: Vec<Piece>,
}

impl IoNode {
    /// Books of an empty buffer.
    pub fn new(config: &NodeConfig) -> IoNode {
        let live_bytes_max = live_bytes_max(config);
        IoNode {
            chunk_bytes: u64::from(config.chunk_bytes),
            files: BTreeMap::new(),
            segments: Segments::new(config),
            chunks: BTreeMap::new(),
            swaps_at_entry: config.write_back == WriteBack::Sync,
            held_bytes: 0,
            leaving_bytes: 0,
            policy: replacement::new(config.replacement, live_bytes_max / u64::from(config.chunk_bytes)),
            swapped: BTreeSet::new(),
            dirty_bytes: 0,
            pieces: 0,
            holes: 0,
            live_bytes_max,
            removed: Vec::new(),
        }
    }

    /// The chunk that holds a byte.
    pub fn chunk_of(&self, ino: Ino, offset: u64) -> ChunkId {
        ChunkId { ino, index: offset / self.chunk_bytes }
    }

    /// The bytes of a chunk.
    pub fn chunk_range(&self, chunk: ChunkId) -> Range<u64> {
        chunk.index * self.chunk_bytes..(chunk.index + 1) * self.chunk_bytes
    }

    fn chunks_of(&self, ino: Ino, range: &Range<u64>) -> impl Iterator<Item = ChunkId> + use<> {
        let (first, end) = (range.start / self.chunk_bytes, range.end.div_ceil(self.chunk_bytes));
        (first..end.max(first)).map(move |index| ChunkId { ino, index })
    }

    /// The file's books, made when missing.
    pub fn file_mut(&mut self, ino: Ino) -> &mut FileData {
        self.files.entry(ino).or_default()
    }

    /// Enters a dirty piece; what it covers and is older leaves the index. Refused where something newer stands.
    pub fn insert_dirty(&mut self, ino: Ino, piece: Piece) {
        let mut removed = core::mem::take(&mut self.removed);
        let mut refused = Vec::new();
        if !self.swaps_at_entry {
            self.touch(ino, &(piece.offset..piece.end()));
        }
        self.segments.add_live(piece.segment, piece.len);
        self.account(ino, &piece, true);
        self.file_mut(ino);
        self.change_file(ino, |file| {
            file.extents.insert(piece, &mut removed, &mut refused);
            file.holes.remove(piece.offset..piece.end());
        });
        for old in removed.drain(..).chain(refused) {
            self.segments.sub_live(old.segment, old.len);
            self.account(ino, &old, false);
        }
        self.removed = removed;
    }

    /// Enters bytes fetched from home where nothing else stands.
    pub fn insert_clean(&mut self, ino: Ino, piece: Piece) {
        let mut inserted = Vec::new();
        self.file_mut(ino);
        self.change_file(ino, |file| file.extents.insert_gaps(piece, &mut inserted));
        for part in inserted {
            self.segments.add_live(part.segment, part.len);
            self.account(ino, &part, true);
        }
    }

    /// Removes a range of a file from the buffer: truncated, unlinked or swapped out.
    pub fn remove(&mut self, ino: Ino, range: Range<u64>) {
        let mut removed = core::mem::take(&mut self.removed);
        self.change_file(ino, |file| file.extents.remove(range, &mut removed));
        for old in removed.drain(..) {
            self.segments.sub_live(old.segment, old.len);
            self.account(ino, &old, false);
        }
        self.removed = removed;
    }

    /// Marks pieces clean that are home.
    pub fn mark_clean(&mut self, ino: Ino, range: Range<u64>, upto: Lsn) {
        self.change_file(ino, |file| file.extents.mark_clean(range, upto));
    }

    /// Changes the index or the holes of a file, and counts what that changes in all of them. O(1) beside the change.
    fn change_file<T>(&mut self, ino: Ino, change: impl FnOnce(&mut FileData) -> T) -> Option<T> {
        let file = self.files.get_mut(&ino)?;
        let (dirty_bytes, pieces, holes) = (file.extents.dirty_bytes(), file.extents.len(), file.holes.len());
        let result = change(file);
        self.dirty_bytes = self.dirty_bytes + file.extents.dirty_bytes() - dirty_bytes;
        self.pieces = self.pieces + file.extents.len() - pieces;
        self.holes = self.holes + file.holes.len() - holes;
        Some(result)
    }

    /// Changes the holes of a file.
    pub fn change_holes<T>(&mut self, ino: Ino, change: impl FnOnce(&mut Ranges) -> T) -> Option<T> {
        self.change_file(ino, |file| change(&mut file.holes))
    }

    /// For recovery: counts what the journal has put into the books of the files.
    pub(crate) fn count_again(&mut self) {
        self.pieces = self.files.values().map(|file| file.extents.len()).sum();
        self.holes = self.files.values().map(|file| file.holes.len()).sum();
    }

    /// An access to chunks that may be resident, for the policy.
    pub fn touch(&mut self, ino: Ino, range: &Range<u64>) {
        for chunk in self.chunks_of(ino, range) {
            if self.chunks.contains_key(&chunk) {
                self.policy.on_access(chunk);
            } else {
                self.policy.on_miss(chunk);
            }
        }
    }

    /// The chunk to swap out next: a clean one if there is one among the policy's candidates, else a dirty one.
    pub fn victim(&mut self) -> Option<(ChunkId, bool)> {
        let (files, chunk_bytes) = (&self.files, self.chunk_bytes);
        let range = |chunk: ChunkId| chunk.index * chunk_bytes..(chunk.index + 1) * chunk_bytes;
        let is_dirty = |chunk: ChunkId| {
            let dirty = files.get(&chunk.ino).and_then(|f| f.extents.first_dirty(range(chunk).start));
            dirty.is_some_and(|p| p.offset < range(chunk).end)
        };
        if let Some(chunk) = self.policy.victim(&mut |chunk| !is_dirty(chunk)) {
            return Some((chunk, false));
        }
        let idle = |chunk: ChunkId| files.get(&chunk.ino).is_none_or(|f| !f.swapping.contains(&chunk.index));
        self.policy.victim(&mut |chunk| idle(chunk)).map(|chunk| (chunk, true))
    }

    /// Gives the parts of a file that were copied within the log their new place; see [`crate::extent::ExtentMap::relocate`].
    pub fn relocate(&mut self, ino: Ino, range: Range<u64>, lsn: Lsn, from: (SegmentId, u32), to: (SegmentId, u32)) -> u64 {
        self.change_file(ino, |file| file.extents.relocate(range, lsn, from.0, from.1, to.0, to.1)).unwrap_or(0)
    }

    /// What all live pieces take of the log at most, when each counts as at least `record_bytes_min`.
    pub fn live_cost_bytes(&self) -> u64 {
        // With records that weigh next to nothing, as in a log that is small for their number, it is the bytes that count.
        self.segments.live_bytes + self.pieces as u64 * u64::from(self.segments.record_bytes_min - 1)
    }

    /// Swaps a clean chunk out.
    pub fn swap_out(&mut self, chunk: ChunkId) {
        // The policy hears of an eviction, not of a removal: it may remember what it evicted.
        self.policy.on_evict(chunk);
        self.held_bytes -= self.chunks.remove(&chunk).map_or(0, |held| held.all_bytes());
        let range = self.chunk_range(chunk);
        let mut removed = core::mem::take(&mut self.removed);
        self.change_file(chunk.ino, |file| file.extents.remove(range, &mut removed));
        for old in removed.drain(..) {
            self.segments.sub_live(old.segment, old.len);
            // A piece may reach into the neighbours only if the index did not split it: it does at the borders of the range.
            debug_assert!(self.chunk_of(chunk.ino, old.offset) == chunk && self.chunk_of(chunk.ino, old.end() - 1) == chunk);
        }
        self.removed = removed;
        self.note_swapped(chunk);
    }

    fn note_swapped(&mut self, chunk: ChunkId) {
        if self.swapped.len() >= SWAPPED_MAX {
            self.swapped.pop_first();
        }
        self.swapped.insert(chunk);
    }

    /// Whether the chunk had been in the buffer and was swapped out.
    pub fn was_swapped(&self, chunk: ChunkId) -> bool {
        self.swapped.contains(&chunk)
    }

    /// Drops the books of a file of `size` bytes that holds nothing and has nothing under way.
    pub fn forget_if_idle(&mut self, ino: Ino, size: u64) {
        if self.files.get(&ino).is_some_and(|f| f.is_idle(size)) {
            self.files.remove(&ino);
        }
    }
}

/// Free slots below which room is made ahead of need.
pub fn free_slots_low(config: &NodeConfig) -> usize {
    (config.segments_max as usize / 16).clamp(2, 64) + CLEANING_SEGMENTS as usize
}

/// The log needs slack to be emptied segment by segment: the slots that are to stay free, the one that the cleaner fills, and an eighth of
/// the rest are never live.
fn live_bytes_max(config: &NodeConfig) -> u64 {
    let kept_free = free_slots_low(config) as u64 + 1;
    let usable = u64::from(config.ssd_slots()).saturating_sub(kept_free) * u64::from(config.segment_bytes);
    usable - usable / 8
}
