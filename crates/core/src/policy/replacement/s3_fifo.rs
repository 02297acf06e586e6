//! S3-FIFO: three FIFO queues. A newcomer enters the small queue, a tenth of the buffer. At its end, a chunk that was used again at
//! least twice moves to the main queue, any other goes, and its name enters the ghost queue. A chunk that comes back while its ghost is
//! there enters the main queue at once. At the end of the main queue, a chunk that was used since goes round once more, with one use
//! less; any other goes, without a ghost. Uses are counted to three. While the buffer fills for the first time, the main queue takes
//! what the small one has no room for, as the authors' own program does.
//!
//! Source: S3-FIFO (Yang and others, SOSP 2023, section 4, algorithm 1). One-time data passes through the small queue and leaves the
//! rest alone. It is wrong where most chunks are used a second time only after they left the small queue: each then costs two
//! misses before it is kept; and what filled the main queue at first stays there until something better comes.
//!
//! Where the paper measures queues against the size of a full cache, this measures them against the chunks that are there when a
//! victim is asked for: the same number when chunks are full, and the right one when they are not.

use super::slots::{Queue, Slots};
use super::{Ranking, in_memory};

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
    ghosts: Queue,
    capacity_chunks: usize,
    /// Something had to go; before that, the main queue takes what the small one has no room for.
    has_evicted: bool,
}

#[derive(Clone, Copy, Default)]
struct State {
    place: Place,
    uses: u8,
}

/// The queue that a chunk stands in.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    #[default]
    Nowhere,
    Small,
    Main,
    Ghosts,
}

impl S3Fifo {
    /// A policy for a buffer of about this many chunks; it bounds the ghost queue.
    pub fn new(capacity_chunks: u64) -> Self {
        S3Fifo {
            slots: Slots::new(),
            small: Queue::new(),
            main: Queue::new(),
            ghosts: Queue::new(),
            capacity_chunks: in_memory(capacity_chunks),
            has_evicted: false,
        }
    }

    /// How many of `chunks` belong to the small queue.
    fn small_share(chunks: usize) -> usize {
        (chunks / SMALL_PARTS).max(1)
    }

    fn leave(&mut self, at: u32) {
        let queue = if self.slots.state(at).place == Place::Main { &mut self.main } else { &mut self.small };
        queue.unlink(&mut self.slots, at);
        self.slots.set(at, State::default());
    }

    fn small_victim(&mut self, main_max: usize, evictable: &mut impl FnMut(u32) -> bool) -> Option<u32> {
        let mut search = self.small.search();
        while self.main.len() <= main_max
            && let Some(at) = search.next(&mut self.small, &self.slots)
        {
            if self.slots.state(at).uses >= USES_TO_STAY {
                self.small.unlink(&mut self.slots, at);
                self.main.push_newest(&mut self.slots, at);
                *self.slots.state_mut(at) = State { place: Place::Main, uses: 0 };
                search.refund();
            } else if evictable(at) {
                return Some(at);
            }
        }
        None
    }

    fn main_victim(&mut self, evictable: &mut impl FnMut(u32) -> bool) -> Option<u32> {
        let mut search = self.main.search();
        while let Some(at) = search.next(&mut self.main, &self.slots) {
            if self.slots.state(at).uses > 0 && at != self.main.newest() {
                self.main.renew(&mut self.slots, at);
                self.slots.state_mut(at).uses -= 1;
                search.refund();
            } else if evictable(at) {
                return Some(at);
            }
        }
        None
    }
}

impl Ranking for S3Fifo {
    fn reserve(&mut self, numbers: u32) {
        self.slots.reserve(numbers);
    }

    fn contains(&self, at: u32) -> bool {
        matches!(self.slots.state(at).place, Place::Small | Place::Main)
    }

    fn on_insert(&mut self, at: u32, _hash: u32, mut forget: impl FnMut(u32)) {
        if self.slots.state(at).place == Place::Ghosts {
            self.ghosts.unlink(&mut self.slots, at);
            self.slots.set(at, State { place: Place::Main, uses: 0 });
            self.main.push_newest(&mut self.slots, at);
        } else {
            let is_filling = !self.has_evicted && self.small.len() >= Self::small_share(self.capacity_chunks);
            let (place, queue) = if is_filling { (Place::Main, &mut self.main) } else { (Place::Small, &mut self.small) };
            self.slots.set(at, State { place, uses: 0 });
            queue.push_newest(&mut self.slots, at);
        }
        let full = self.capacity_chunks.max(self.len());
        while self.ghosts.len() > full - Self::small_share(full).min(full) {
            let ghost = self.ghosts.oldest();
            self.ghosts.unlink(&mut self.slots, ghost);
            self.slots.set(ghost, State::default());
            forget(ghost);
        }
    }

    fn on_access(&mut self, at: u32, _forget: impl FnMut(u32)) {
        let state = self.slots.state_mut(at);
        state.uses = (state.uses + 1).min(USES_MAX);
    }

    fn on_remove(&mut self, at: u32, mut forget: impl FnMut(u32)) {
        self.leave(at);
        forget(at);
    }

    /// Each queue is searched within the bounds; moving a chunk that was used is free, as an access has paid for it.
    fn victim(&mut self, mut evictable: impl FnMut(u32) -> bool) -> Option<u32> {
        let small_share = Self::small_share(self.len());
        let main_max = self.len().saturating_sub(small_share);
        if self.small.len() >= small_share
            && let Some(at) = self.small_victim(main_max, &mut evictable)
        {
            return Some(at);
        }
        self.main_victim(&mut evictable).or_else(|| self.small_victim(usize::MAX, &mut evictable))
    }

    fn on_evict(&mut self, at: u32, mut forget: impl FnMut(u32)) {
        self.has_evicted = true;
        let was_small = self.slots.state(at).place == Place::Small;
        self.leave(at);
        if was_small {
            self.slots.set(at, State { place: Place::Ghosts, uses: 0 });
            self.ghosts.push_newest(&mut self.slots, at);
        } else {
            forget(at);
        }
    }

    fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }
}
