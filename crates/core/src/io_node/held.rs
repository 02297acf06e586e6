//! What the buffer holds of each chunk, and chunks that enter and leave as the policy says.
//!
//! With [`IoNode::swaps_at_entry`] a chunk is the policy's from the request on that brings it in, before its bytes are there, and leaves it when
//! it is chosen, before they are home. So no time that anything takes is among the reasons for a choice.

use alloc::collections::btree_map::Entry;
use core::ops::Range;

use super::IoNode;
use crate::extent::Piece;
use crate::id::{ChunkId, Ino};

/// What the buffer has of a chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    /// Bytes that are there.
    bytes: u32,
    /// Bytes that writes under way will add.
    writing_bytes: u32,
    /// These writes.
    writes: u32,
    /// Bytes that fetches under way will add.
    fetching_bytes: u32,
    /// It was swapped out, and stays until it is home.
    leaving: bool,
}

impl Held {
    /// Bytes that count for the policy.
    pub(super) fn all_bytes(&self) -> u64 {
        if self.leaving { 0 } else { u64::from(self.bytes) + u64::from(self.writing_bytes) + u64::from(self.fetching_bytes) }
    }

    fn leaving_bytes(&self) -> u64 {
        if self.leaving { u64::from(self.bytes) } else { 0 }
    }
}

/// What a write under way will add to a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Stake {
    chunk: ChunkId,
    bytes: u32,
}

impl IoNode {
    /// Changes what is held of a chunk; one that was not known enters.
    fn change_held(&mut self, chunk: ChunkId, change: impl FnOnce(&mut Held)) {
        if let Entry::Vacant(new) = self.chunks.entry(chunk) {
            new.insert(Held::default());
            self.policy.on_insert(chunk);
        }
        self.change_known(chunk, change);
    }

    /// Changes what is held of a chunk that is known, and forgets it when that is nothing. False if it is not known.
    fn change_known(&mut self, chunk: ChunkId, change: impl FnOnce(&mut Held)) -> bool {
        let Some(held) = self.chunks.get_mut(&chunk) else { return false };
        let (before_bytes, before_leaving_bytes) = (held.all_bytes(), held.leaving_bytes());
        let was_leaving = held.leaving;
        change(held);
        self.held_bytes = self.held_bytes + held.all_bytes() - before_bytes;
        self.leaving_bytes = self.leaving_bytes + held.leaving_bytes() - before_leaving_bytes;
        if held.bytes == 0 && held.writes == 0 && held.fetching_bytes == 0 {
            self.chunks.remove(&chunk);
            if !was_leaving {
                self.policy.on_remove(chunk);
            }
        }
        true
    }

    /// Adds or removes a piece's bytes in the books of its chunks.
    pub(super) fn account(&mut self, ino: Ino, piece: &Piece, add: bool) {
        for chunk in self.chunks_of(ino, &(piece.offset..piece.end())) {
            let range = self.chunk_range(chunk);
            let bytes = (piece.end().min(range.end) - piece.offset.max(range.start)) as u32;
            if add {
                self.change_held(chunk, |held| held.bytes += bytes);
            } else {
                self.change_known(chunk, |held| held.bytes -= bytes);
            }
        }
    }

    /// A request asks for a chunk. False if it is not there.
    pub fn ask_for(&mut self, chunk: ChunkId) -> bool {
        let is_there = self.chunks.get(&chunk).is_some_and(|held| !held.leaving);
        if is_there {
            self.policy.on_access(chunk);
        } else {
            self.policy.on_miss(chunk);
        }
        is_there
    }

    /// Bytes that a write of `range` adds to the buffer.
    pub fn new_bytes(&self, ino: Ino, range: &Range<u64>) -> u32 {
        let there: u64 = self.files.get(&ino).map_or(0, |file| {
            let parts = file.extents.overlapping(range.clone());
            parts.map(|part| part.end().min(range.end) - part.offset.max(range.start)).sum()
        });
        (range.end - range.start - there) as u32
    }

    /// A write will add bytes to a chunk.
    pub fn write_begins(&mut self, chunk: ChunkId, bytes: u32) -> Stake {
        self.change_held(chunk, |held| {
            held.writes += 1;
            held.writing_bytes += bytes;
        });
        Stake { chunk, bytes }
    }

    /// What it has added is there, or will not come.
    pub fn write_ended(&mut self, stake: Stake) {
        self.change_known(stake.chunk, |held| {
            held.writes -= 1;
            held.writing_bytes -= stake.bytes;
        });
    }

    /// A fetch will add bytes to a chunk.
    pub fn fetch_begins(&mut self, chunk: ChunkId, bytes: u32) {
        self.change_held(chunk, |held| held.fetching_bytes += bytes);
    }

    /// So many bytes of a fetch are there, or will not come.
    pub fn fetched(&mut self, chunk: ChunkId, bytes: u32) {
        if bytes > 0 {
            self.change_known(chunk, |held| held.fetching_bytes = held.fetching_bytes.saturating_sub(bytes));
        }
    }

    /// Whether something of the chunk is dirty.
    pub fn is_dirty(&self, chunk: ChunkId) -> bool {
        let range = self.chunk_range(chunk);
        let dirty = self.files.get(&chunk.ino).and_then(|file| file.extents.first_dirty(range.start));
        dirty.is_some_and(|piece| piece.offset < range.end)
    }

    /// The policy's choice among the chunks for which `may_go` holds; the second argument of that is whether it is dirty. No chunk goes to which a
    /// write is under way.
    pub fn choice(&mut self, may_go: impl Fn(ChunkId, bool) -> bool) -> Option<(ChunkId, bool)> {
        let (files, chunks, chunk_bytes) = (&self.files, &self.chunks, self.chunk_bytes);
        let is_dirty = |chunk: ChunkId| {
            let (start, end) = (chunk.index * chunk_bytes, (chunk.index + 1) * chunk_bytes);
            files.get(&chunk.ino).and_then(|file| file.extents.first_dirty(start)).is_some_and(|piece| piece.offset < end)
        };
        let is_written = |chunk: ChunkId| chunks.get(&chunk).is_some_and(|held| held.writes > 0);
        let chunk = self.policy.victim(&mut |chunk| !is_written(chunk) && may_go(chunk, is_dirty(chunk)))?;
        Some((chunk, is_dirty(chunk)))
    }

    /// Swaps a dirty chunk out: it is not the policy's any more, and its bytes stay until they are home.
    pub fn begin_to_leave(&mut self, chunk: ChunkId) {
        self.policy.on_evict(chunk);
        self.change_held(chunk, |held| {
            held.leaving = true;
            held.fetching_bytes = 0;
        });
        self.file_mut(chunk.ino).swapping.insert(chunk.index);
        self.note_swapped(chunk);
    }

    /// Home does not take it: it is the policy's again.
    pub fn stay(&mut self, chunk: ChunkId) {
        if self.chunks.get(&chunk).is_some_and(|held| held.leaving) {
            self.change_held(chunk, |held| held.leaving = false);
            self.policy.on_insert(chunk);
        }
    }
}
