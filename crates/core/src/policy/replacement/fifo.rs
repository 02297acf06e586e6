//! FIFO (B-08): the chunk that entered first goes first; hits do not move it.
//!
//! Source: first in, first out, as in the thesis, 5.4.3. It costs nothing at a hit, and is as good as any other for data that is read
//! once. It is wrong where some chunks are used again and again: a hot chunk goes as soon as it has become old.

use super::Ranking;
use super::slots::{Queue, Slots};

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

impl Ranking for Fifo {
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

    fn on_access(&mut self, _at: u32, _forget: impl FnMut(u32)) {}

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
