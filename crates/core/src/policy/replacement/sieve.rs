//! SIEVE: a FIFO queue with a hand. A hit only marks the chunk. To find a victim, the hand walks from old to new; it takes the mark off
//! a marked chunk and leaves it where it stands, and takes the first unmarked one. Then it stays there, and begins again at the oldest
//! when it has passed the newest.
//!
//! Source: SIEVE (Zhang and others, NSDI 2024, section 3). What was never used again goes soon after the hand has reached it, what was
//! used stays without moving: a scan does little harm, and a hit costs one bit. It is wrong for patterns that LRU fits exactly
//! (a working set that shifts slowly), since an old chunk that is marked once stays for a whole round of the hand.

use super::slots::{NIL, Queue, Slots};
use super::{ASKS_BEYOND_MAX, ASKS_IN_ORDER_MAX, Ranking};

/// A FIFO queue with a hand; see the head of this file.
pub struct Sieve {
    /// The state is the mark.
    slots: Slots<bool>,
    queue: Queue,
    /// The slot to look at next; `NIL` stands for the oldest.
    hand: u32,
}

impl Sieve {
    /// A policy that knows no chunk yet.
    pub fn new() -> Self {
        Sieve { slots: Slots::new(), queue: Queue::new(), hand: NIL }
    }
}

impl Default for Sieve {
    fn default() -> Self {
        Self::new()
    }
}

impl Ranking for Sieve {
    fn reserve(&mut self, numbers: u32) {
        self.slots.reserve(numbers);
    }

    fn contains(&self, at: u32) -> bool {
        self.slots.is_queued(at)
    }

    fn on_insert(&mut self, at: u32, _hash: u32, _forget: impl FnMut(u32)) {
        self.slots.set(at, false);
        self.queue.push_newest(&mut self.slots, at);
    }

    fn on_access(&mut self, at: u32, _forget: impl FnMut(u32)) {
        *self.slots.state_mut(at) = true;
    }

    fn on_remove(&mut self, at: u32, mut forget: impl FnMut(u32)) {
        if self.hand == at {
            self.hand = Queue::newer(&self.slots, at);
        }
        self.queue.unlink(&mut self.slots, at);
        forget(at);
    }

    /// Taking marks off is not bounded by itself: each one was set by an access, so that over time the walk is as long as there were
    /// accesses. An unmarked chunk that cannot go is passed, and has its next turn when the hand comes round.
    fn victim(&mut self, mut evictable: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut asks_left = ((ASKS_IN_ORDER_MAX + ASKS_BEYOND_MAX) as usize).min(self.queue.len());
        while asks_left > 0 {
            if self.hand == NIL {
                self.hand = self.queue.oldest();
            }
            let at = self.hand;
            if !core::mem::take(self.slots.state_mut(at)) {
                if evictable(at) {
                    return Some(at);
                }
                asks_left -= 1;
            }
            self.hand = Queue::newer(&self.slots, at);
        }
        None
    }

    fn on_evict(&mut self, at: u32, forget: impl FnMut(u32)) {
        self.on_remove(at, forget);
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}
