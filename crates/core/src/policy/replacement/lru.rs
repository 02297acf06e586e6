//! LRU (B-09): the chunk that was not used for the longest time goes first.
//!
//! Source: least recently used, as in the thesis, 5.4.3, and its default in 5.4.1. A read hits if and only if fewer different chunks
//! than the buffer holds were used since the last time. It is wrong for scans: a loop over one chunk more than fits never hits, and one
//! pass over a large file drives out everything that is used often.

use super::Ranking;
use super::slots::{Queue, Slots};

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

impl Ranking for Lru {
    fn reserve(&mut self, numbers: u32) {
        self.slots.reserve(numbers);
    }

    fn contains(&self, at: u32) -> bool {
        self.slots.is_queued(at)
    }

    fn on_insert(&mut self, at: u32, _hash: u32, _forget: impl FnMut(u32)) {
        self.slots.set(at, ());
        self.queue.push_newest(&mut self.slots, at);
    }

    fn on_access(&mut self, at: u32, _forget: impl FnMut(u32)) {
        self.queue.renew(&mut self.slots, at);
    }

    fn on_remove(&mut self, at: u32, mut forget: impl FnMut(u32)) {
        self.queue.unlink(&mut self.slots, at);
        forget(at);
    }

    fn victim(&mut self, evictable: impl FnMut(u32) -> bool) -> Option<u32> {
        self.queue.first_evictable(&self.slots, evictable)
    }

    fn on_evict(&mut self, at: u32, forget: impl FnMut(u32)) {
        self.on_remove(at, forget);
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}
