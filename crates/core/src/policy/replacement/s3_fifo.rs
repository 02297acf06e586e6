//! S3-FIFO: three FIFO queues. A newcomer enters the small queue, a tenth of the buffer. At its end, a chunk that was used again at
//! least twice moves to the main queue, any other goes, and its name enters the ghost queue. A chunk that comes back while its ghost is
//! there enters the main queue at once. At the end of the main queue, a chunk that was used since goes round once more, with one use
//! less; any other goes, without a ghost. Uses are counted to three.
//!
//! Source: S3-FIFO (Yang and others, SOSP 2023, section 4, algorithm 1). One-time data passes through the small queue and leaves the
//! rest alone. It is wrong where most chunks are used a second time only after they left the small queue: each then costs two
//! misses before it is kept.
//!
//! Where the paper measures queues against the size of a full cache, this measures them against the chunks that are there when a
//! victim is asked for: the same number when chunks are full, and the right one when they are not.

use super::Replacement;
use super::slots::{Queue, Slots};
use crate::id::ChunkId;

/// Uses are counted up to this.
const USES_MAX: u8 = 3;
/// Uses beyond the first access that take a chunk from the small to the main queue.
const USES_TO_STAY: u8 = 2;
/// The small queue's share of the buffer is one of this many parts.
const SMALL_PARTS: usize = 10;

/// Three FIFO queues; see the head of this file.
pub struct S3Fifo {
    slots: Slots<State>,
    small: Queue,
    main: Queue,
    ghosts: Slots<()>,
    ghost_queue: Queue,
    capacity_chunks: usize,
}

struct State {
    in_main: bool,
    uses: u8,
}

impl S3Fifo {
    /// A policy for a buffer of about this many chunks; it bounds the ghost queue.
    pub fn new(capacity_chunks: u64) -> Self {
        S3Fifo {
            slots: Slots::new(),
            small: Queue::new(),
            main: Queue::new(),
            ghosts: Slots::new(),
            ghost_queue: Queue::new(),
            capacity_chunks: usize::try_from(capacity_chunks).unwrap_or(usize::MAX),
        }
    }

    /// How many of `chunks` belong to the small queue.
    fn small_share(chunks: usize) -> usize {
        (chunks / SMALL_PARTS).max(1)
    }

    fn remove(&mut self, at: u32) {
        let queue = if self.slots.state(at).in_main { &mut self.main } else { &mut self.small };
        queue.unlink(&mut self.slots, at);
        self.slots.remove(at);
    }

    fn remember(&mut self, chunk: ChunkId) {
        let full = self.capacity_chunks.max(self.slots.len());
        let ghosts_max = full - Self::small_share(full).min(full);
        let ghost = self.ghosts.insert(chunk, ());
        self.ghost_queue.push_newest(&mut self.ghosts, ghost);
        while self.ghosts.len() > ghosts_max {
            self.forget(self.ghost_queue.oldest());
        }
    }

    fn forget(&mut self, ghost: u32) {
        self.ghost_queue.unlink(&mut self.ghosts, ghost);
        self.ghosts.remove(ghost);
    }

    fn small_victim(&mut self, main_max: usize, evictable: &mut dyn FnMut(ChunkId) -> bool) -> Option<ChunkId> {
        let mut search = self.small.search();
        while self.main.len() <= main_max
            && let Some(at) = search.next(&mut self.small, &self.slots)
        {
            if self.slots.state(at).uses >= USES_TO_STAY {
                self.small.unlink(&mut self.slots, at);
                self.main.push_newest(&mut self.slots, at);
                *self.slots.state_mut(at) = State { in_main: true, uses: 0 };
                search.refund();
            } else if evictable(self.slots.chunk(at)) {
                return Some(self.slots.chunk(at));
            }
        }
        None
    }

    fn main_victim(&mut self, evictable: &mut dyn FnMut(ChunkId) -> bool) -> Option<ChunkId> {
        let mut search = self.main.search();
        while let Some(at) = search.next(&mut self.main, &self.slots) {
            if self.slots.state(at).uses > 0 && at != self.main.newest() {
                self.main.unlink(&mut self.slots, at);
                self.main.push_newest(&mut self.slots, at);
                self.slots.state_mut(at).uses -= 1;
                search.refund();
            } else if evictable(self.slots.chunk(at)) {
                return Some(self.slots.chunk(at));
            }
        }
        None
    }
}

impl Replacement for S3Fifo {
    fn on_insert(&mut self, chunk: ChunkId) {
        if self.slots.find(chunk).is_some() {
            return self.on_access(chunk);
        }
        let ghost = self.ghosts.find(chunk);
        let at = self.slots.insert(chunk, State { in_main: ghost.is_some(), uses: 0 });
        match ghost {
            Some(ghost) => {
                self.forget(ghost);
                self.main.push_newest(&mut self.slots, at);
            }
            None => self.small.push_newest(&mut self.slots, at),
        }
    }

    fn on_access(&mut self, chunk: ChunkId) {
        if let Some(at) = self.slots.find(chunk) {
            let state = self.slots.state_mut(at);
            state.uses = (state.uses + 1).min(USES_MAX);
        }
    }

    fn on_remove(&mut self, chunk: ChunkId) {
        if let Some(at) = self.slots.find(chunk) {
            self.remove(at);
        }
    }

    /// Each queue is searched within the bounds; moving a chunk that was used is free, as an access has paid for it.
    fn victim(&mut self, evictable: &mut dyn FnMut(ChunkId) -> bool) -> Option<ChunkId> {
        let small_share = Self::small_share(self.slots.len());
        let main_max = self.slots.len().saturating_sub(small_share);
        if self.small.len() >= small_share
            && let Some(chunk) = self.small_victim(main_max, evictable)
        {
            return Some(chunk);
        }
        self.main_victim(evictable).or_else(|| self.small_victim(usize::MAX, evictable))
    }

    fn on_evict(&mut self, chunk: ChunkId) {
        if let Some(at) = self.slots.find(chunk) {
            if !self.slots.state(at).in_main {
                self.remember(chunk);
            }
            self.remove(at);
        }
    }

    fn len(&self) -> usize {
        self.slots.len()
    }
}
