//! Chunks in queues: doubly linked lists whose links are indices into one slab, so that a chunk moves in O(1) and no node is
//! allocated alone.

use alloc::vec::Vec;

use super::table::{Table, hash};
use super::{ASKS_BEYOND_MAX, ASKS_IN_ORDER_MAX};
use crate::id::ChunkId;

/// No slot.
pub(super) const NIL: u32 = u32::MAX;

/// The chunks of one policy, each with a `state` of the policy's and a place in at most one [`Queue`].
pub(super) struct Slots<S> {
    index: Table,
    slots: Vec<Slot<S>>,
    /// The first of the free slots, which are linked by `newer`.
    free: u32,
}

struct Slot<S> {
    chunk: ChunkId,
    older: u32,
    newer: u32,
    state: S,
}

impl<S> Slots<S> {
    pub(super) fn new() -> Self {
        Slots { index: Table::new(), slots: Vec::new(), free: NIL }
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn find(&self, chunk: ChunkId) -> Option<u32> {
        self.index.find(hash(chunk), |at| self.slots[at as usize].chunk == chunk)
    }

    pub(super) fn chunk(&self, at: u32) -> ChunkId {
        self.slots[at as usize].chunk
    }

    pub(super) fn state(&self, at: u32) -> &S {
        &self.slots[at as usize].state
    }

    pub(super) fn state_mut(&mut self, at: u32) -> &mut S {
        &mut self.slots[at as usize].state
    }

    /// A slot for a chunk that has none yet; it is in no queue.
    pub(super) fn insert(&mut self, chunk: ChunkId, state: S) -> u32 {
        let slot = Slot { chunk, older: NIL, newer: NIL, state };
        let at = match self.free {
            NIL => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
            at => {
                self.free = self.slots[at as usize].newer;
                self.slots[at as usize] = slot;
                at
            }
        };
        self.index.insert(hash(chunk), at);
        at
    }

    /// Frees the slot of a chunk, which must be in no queue any more.
    pub(super) fn remove(&mut self, at: u32) {
        self.index.remove(hash(self.slots[at as usize].chunk), at);
        self.slots[at as usize].newer = self.free;
        self.free = at;
    }
}

/// A queue of slots from the oldest to the newest.
pub(super) struct Queue {
    oldest: u32,
    newest: u32,
    len: usize,
    /// Where the search for an evictable chunk goes on beyond the front of the queue.
    hand: u32,
}

impl Queue {
    pub(super) fn new() -> Self {
        Queue { oldest: NIL, newest: NIL, len: 0, hand: NIL }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn oldest(&self) -> u32 {
        self.oldest
    }

    pub(super) fn newest(&self) -> u32 {
        self.newest
    }

    /// The neighbour towards the newest, or [`NIL`].
    pub(super) fn newer<S>(slots: &Slots<S>, at: u32) -> u32 {
        slots.slots[at as usize].newer
    }

    pub(super) fn push_newest<S>(&mut self, slots: &mut Slots<S>, at: u32) {
        slots.slots[at as usize].older = self.newest;
        slots.slots[at as usize].newer = NIL;
        match self.newest {
            NIL => self.oldest = at,
            newest => slots.slots[newest as usize].newer = at,
        }
        self.newest = at;
        self.len += 1;
    }

    pub(super) fn unlink<S>(&mut self, slots: &mut Slots<S>, at: u32) {
        let Slot { older, newer, .. } = slots.slots[at as usize];
        match older {
            NIL => self.oldest = newer,
            older => slots.slots[older as usize].newer = newer,
        }
        match newer {
            NIL => self.newest = older,
            newer => slots.slots[newer as usize].older = older,
        }
        if self.hand == at {
            self.hand = newer;
        }
        self.len -= 1;
    }

    /// The oldest evictable chunk, within the bounds of [`super::Replacement::victim`].
    pub(super) fn first_evictable<S>(&mut self, slots: &Slots<S>, evictable: &mut dyn FnMut(ChunkId) -> bool) -> Option<ChunkId> {
        let mut search = self.search();
        while let Some(at) = search.next(self, slots) {
            if evictable(slots.chunk(at)) {
                return Some(slots.chunk(at));
            }
        }
        None
    }

    /// Begins a bounded search from the oldest on.
    pub(super) fn search(&self) -> Search {
        Search { next: self.oldest, asks_left: ASKS_IN_ORDER_MAX, beyond: false }
    }
}

/// A walk over a queue, first in its front, then from its hand on. The slot given last may be unlinked during the walk.
pub(super) struct Search {
    next: u32,
    asks_left: u32,
    beyond: bool,
}

impl Search {
    pub(super) fn next<S>(&mut self, queue: &mut Queue, slots: &Slots<S>) -> Option<u32> {
        if self.asks_left == 0 && !self.beyond {
            *self = Search { next: if queue.hand == NIL { self.next } else { queue.hand }, asks_left: ASKS_BEYOND_MAX, beyond: true };
        }
        let at = self.next;
        if self.beyond {
            queue.hand = at;
        }
        if self.asks_left == 0 || at == NIL {
            return None;
        }
        self.asks_left -= 1;
        self.next = Queue::newer(slots, at);
        Some(at)
    }

    /// The chunk given last was moved away without being asked about: that step was free.
    pub(super) fn refund(&mut self) {
        self.asks_left += 1;
    }
}
