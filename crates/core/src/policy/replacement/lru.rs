//! LRU (B-09): the chunk that was not used for the longest time goes first.
//!
//! Source: least recently used, as in the thesis, 5.4.3, and its default in 5.4.1. A read hits if and only if fewer different chunks
//! than the buffer holds were used since the last time. It is wrong for scans: a loop over one chunk more than fits never hits, and one
//! pass over a large file drives out everything that is used often.

use super::Replacement;
use super::slots::{Queue, Slots};
use crate::id::ChunkId;

/// Least recently used; see the head of this file.
pub struct Lru {
    slots: Slots<()>,
    queue: Queue,
}

impl Lru {
    /// A policy that knows no chunk yet.
    pub fn new() -> Self {
        Lru { slots: Slots::new(), queue: Queue::new() }
    }
}

impl Default for Lru {
    fn default() -> Self {
        Self::new()
    }
}

impl Replacement for Lru {
    fn on_insert(&mut self, chunk: ChunkId) {
        if self.slots.find(chunk).is_some() {
            return self.on_access(chunk);
        }
        let at = self.slots.insert(chunk, ());
        self.queue.push_newest(&mut self.slots, at);
    }

    fn on_access(&mut self, chunk: ChunkId) {
        if let Some(at) = self.slots.find(chunk)
            && at != self.queue.newest()
        {
            self.queue.unlink(&mut self.slots, at);
            self.queue.push_newest(&mut self.slots, at);
        }
    }

    fn on_remove(&mut self, chunk: ChunkId) {
        if let Some(at) = self.slots.find(chunk) {
            self.queue.unlink(&mut self.slots, at);
            self.slots.remove(at);
        }
    }

    fn victim(&mut self, evictable: &mut dyn FnMut(ChunkId) -> bool) -> Option<ChunkId> {
        self.queue.first_evictable(&self.slots, evictable)
    }

    fn on_evict(&mut self, chunk: ChunkId) {
        self.on_remove(chunk);
    }

    fn len(&self) -> usize {
        self.slots.len()
    }
}
