//! Chunks ordered by a key that rises with their use: what LFU and LFUDA share.
//!
//! Chunks of one key stand in one queue, in the order of their last use, as a chunk enters its queue when it is used. There are few
//! different keys at a time, so that an access costs two steps in a small ordered map.

use alloc::collections::BTreeMap;

use super::slots::{NIL, Queue, Slots};
use super::{ASKS_BEYOND_MAX, ASKS_IN_ORDER_MAX};
use crate::id::ChunkId;

/// The chunks of one policy with their key and the number of their accesses.
pub(super) struct Ranked {
    slots: Slots<Use>,
    queues: BTreeMap<u64, Queue>,
    /// Where the search for an evictable chunk goes on beyond the first ones.
    hand: u32,
}

#[derive(Clone, Copy)]
struct Use {
    key: u64,
    count: u64,
}

impl Ranked {
    pub(super) fn new() -> Self {
        Ranked { slots: Slots::new(), queues: BTreeMap::new(), hand: NIL }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Notes the first access of a chunk, or one more; `key` gives the key from the number of accesses.
    pub(super) fn insert(&mut self, chunk: ChunkId, key: impl FnOnce(u64) -> u64) {
        if self.slots.find(chunk).is_some() {
            return self.access(chunk, key);
        }
        let at = self.slots.insert(chunk, Use { key: 0, count: 0 });
        self.enter_queue(at, key);
    }

    /// Notes one more access of a chunk, if it is there.
    pub(super) fn access(&mut self, chunk: ChunkId, key: impl FnOnce(u64) -> u64) {
        if let Some(at) = self.slots.find(chunk) {
            self.leave_queue(at);
            self.enter_queue(at, key);
        }
    }

    /// Removes a chunk and returns its key.
    pub(super) fn remove(&mut self, chunk: ChunkId) -> Option<u64> {
        let at = self.slots.find(chunk)?;
        let key = self.slots.state(at).key;
        self.leave_queue(at);
        self.slots.remove(at);
        Some(key)
    }

    /// The first evictable chunk, within the bounds of [`super::Replacement::victim`].
    pub(super) fn first_evictable(&mut self, evictable: &mut dyn FnMut(ChunkId) -> bool) -> Option<ChunkId> {
        let mut at = self.queues.first_key_value().map_or(NIL, |(_, queue)| queue.oldest());
        for _ in 0..ASKS_IN_ORDER_MAX {
            if at == NIL {
                return None;
            }
            if evictable(self.slots.chunk(at)) {
                return Some(self.slots.chunk(at));
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
            if evictable(self.slots.chunk(self.hand)) {
                return Some(self.slots.chunk(self.hand));
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
