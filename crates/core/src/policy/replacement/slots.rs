//! Chunks in queues: doubly linked lists whose links are numbers of chunks, in one array, so that a chunk moves in O(1), no node is
//! allocated alone, and what a decision looks at stands in one place of memory.

use alloc::vec::Vec;

use super::{ASKS_BEYOND_MAX, ASKS_IN_ORDER_MAX};

/// No chunk.
pub(super) const NIL: u32 = u32::MAX;
/// In the place of the older neighbour: the chunk is in no queue.
const APART: u32 = u32::MAX - 1;

/// For each number, a `state` of the policy's and a place in at most one [`Queue`].
pub(super) struct Slots<S> {
    slots: Vec<Slot<S>>,
}

#[derive(Clone, Copy)]
struct Slot<S> {
    older: u32,
    newer: u32,
    state: S,
}

impl<S: Copy + Default> Slots<S> {
    pub(super) fn new() -> Self {
        Slots { slots: Vec::new() }
    }

    /// Makes room for all numbers below `numbers`.
    pub(super) fn reserve(&mut self, numbers: u32) {
        if self.slots.len() < numbers as usize {
            self.slots.resize(numbers as usize, Slot { older: APART, newer: NIL, state: S::default() });
        }
    }

    /// Sets the state of a number, which may be new.
    pub(super) fn set(&mut self, at: u32, state: S) {
        if at as usize >= self.slots.len() {
            self.reserve(at + 1);
        }
        self.slots[at as usize].state = state;
    }

    /// The state of a number that was set once; else the default.
    pub(super) fn state(&self, at: u32) -> S {
        self.slots.get(at as usize).map_or(S::default(), |slot| slot.state)
    }

    pub(super) fn state_mut(&mut self, at: u32) -> &mut S {
        &mut self.slots[at as usize].state
    }

    /// Whether it stands in a queue.
    pub(super) fn is_queued(&self, at: u32) -> bool {
        self.slots.get(at as usize).is_some_and(|slot| slot.older != APART)
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

    /// Adds a slot that was set and is in no queue.
    pub(super) fn push_newest<S>(&mut self, slots: &mut Slots<S>, at: u32) {
        debug_assert!(slots.slots[at as usize].older == APART, "{at} is in a queue already");
        slots.slots[at as usize].older = self.newest;
        slots.slots[at as usize].newer = NIL;
        match self.newest {
            NIL => self.oldest = at,
            newest => slots.slots[newest as usize].newer = at,
        }
        self.newest = at;
        self.len += 1;
    }

    /// Takes a slot of this queue out.
    pub(super) fn unlink<S>(&mut self, slots: &mut Slots<S>, at: u32) {
        let Slot { older, newer, .. } = slots.slots[at as usize];
        debug_assert!(older != APART, "{at} is in no queue");
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
        slots.slots[at as usize].older = APART;
        self.len -= 1;
    }

    /// Makes a slot of this queue its newest.
    pub(super) fn renew<S>(&mut self, slots: &mut Slots<S>, at: u32) {
        if at != self.newest {
            self.unlink(slots, at);
            self.push_newest(slots, at);
        }
    }

    /// The oldest evictable chunk, within the bounds of [`super::Ranking::victim`].
    pub(super) fn first_evictable<S>(&mut self, slots: &Slots<S>, mut evictable: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut search = self.search();
        while let Some(at) = search.next(self, slots) {
            if evictable(at) {
                return Some(at);
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
