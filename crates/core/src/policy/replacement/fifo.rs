//! FIFO (B-08): the chunk that entered first goes first; hits do not move it.
//!
//! Source: first in, first out, as in the thesis, 5.4.3. It costs nothing at a hit, and is as good as any other for data that is read
//! once. It is wrong where some chunks are used again and again: a hot chunk goes as soon as it has become old.

use super::Replacement;
use super::slots::{Queue, Slots};
use crate::id::ChunkId;

/// First in, first out; see the head of this file.
pub struct Fifo {
    slots: Slots<()>,
    queue: Queue,
}

impl Fifo {
    /// A policy that knows no chunk yet.
    pub fn new() -> Self {
        Fifo { slots: Slots::new(), queue: Queue::new() }
    }
}

impl Default for Fifo {
    fn default() -> Self {
        Self::new()
    }
}

impl Replacement for Fifo {
    fn on_insert(&mut self, chunk: ChunkId) {
        if self.slots.find(chunk).is_none() {
            let at = self.slots.insert(chunk, ());
            self.queue.push_newest(&mut self.slots, at);
        }
    }

    fn on_access(&mut self, _chunk: ChunkId) {}

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
