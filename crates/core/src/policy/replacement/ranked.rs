//! Chunks ordered by a key that rises with their use: what LFU and LFUDA share.
//!
//! Chunks of one key stand in one queue, in the order of their last use, as a chunk enters its queue when it is used. There are few
//! different keys at a time, so that an access costs two steps in a small ordered map.

use alloc::collections::BTreeMap;

use super::slots::{NIL, Queue, Slots};
use super::{ASKS_BEYOND_MAX, ASKS_IN_ORDER_MAX};

/// The chunks of one policy with their key and the number of their accesses.
pub(super) struct Ranked {
    slots: Slots<Use>,
    queues: BTreeMap<u64, Queue>,
    /// Where the search for an evictable chunk goes on beyond the first ones.
    hand: u32,
    len: usize,
}

#[derive(Clone, Copy, Default)]
struct Use {
    key: u64,
    count: u64,
}

impl Ranked {
    pub(super) fn new() -> Self {
        Ranked { slots: Slots::new(), queues: BTreeMap::new(), hand: NIL, len: 0 }
    }

    pub(super) fn reserve(&mut self, numbers: u32) {
        self.slots.reserve(numbers);
    }

    pub(super) fn contains(&self, at: u32) -> bool {
        self.slots.is_queued(at)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Notes the first access of a chunk that is not there; `key` gives the key from the number of accesses.
    pub(super) fn insert(&mut self, at: u32, key: impl FnOnce(u64) -> u64) {
        self.slots.set(at, Use::default());
        self.enter_queue(at, key);
        self.len += 1;
    }

    /// Notes one more access of a chunk that is there.
    pub(super) fn access(&mut self, at: u32, key: impl FnOnce(u64) -> u64) {
        self.leave_queue(at);
        self.enter_queue(at, key);
    }

    /// Removes a chunk and returns its key.
    pub(super) fn remove(&mut self, at: u32) -> u64 {
        self.leave_queue(at);
        self.len -= 1;
        self.slots.state(at).key
    }

    /// The first evictable chunk, within the bounds of [`super::Ranking::victim`].
    pub(super) fn first_evictable(&mut self, mut evictable: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.queues.first_key_value().map_or(NIL, |(_, queue)| queue.oldest());
        for _ in 0..ASKS_IN_ORDER_MAX {
            if at == NIL {
                return None;
            }
            if evictable(at) {
                return Some(at);
            }
            at = self.behind(at);
        }
        if self.hand == NIL {
            self.hand = at;
        }
        for _ in 0..ASKS_BEYOND_MAX {
            if self.hand == NIL {
                return None;
            }
            if evictable(self.hand) {
                return Some(self.hand);
            }
            self.hand = self.behind(self.hand);
        }
        None
    }

    /// The next slot in the order, or `NIL`.
    fn behind(&self, at: u32) -> u32 {
        match Queue::newer(&self.slots, at) {
            NIL => self.queues.range(self.slots.state(at).key + 1..).next().map_or(NIL, |(_, queue)| queue.oldest()),
            newer => newer,
        }
    }

    fn enter_queue(&mut self, at: u32, key: impl FnOnce(u64) -> u64) {
        let count = self.slots.state(at).count + 1;
        let key = key(count);
        *self.slots.state_mut(at) = Use { key, count };
        self.queues.entry(key).or_insert_with(Queue::new).push_newest(&mut self.slots, at);
    }

    fn leave_queue(&mut self, at: u32) {
        if self.hand == at {
            self.hand = self.behind(at);
        }
        let key = self.slots.state(at).key;
        if let Some(queue) = self.queues.get_mut(&key) {
            queue.unlink(&mut self.slots, at);
            if queue.is_empty() {
                self.queues.remove(&key);
            }
        }
    }
}
