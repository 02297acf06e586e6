//! W-TinyLFU: a small window in front of a guarded main part. What enters goes into the window, an LRU queue of a hundredth of the
//! buffer. What the window has no room for enters the main part only if it was used more often of late than the chunk that would have
//! to go for it; otherwise it goes itself. The main part is a segmented LRU: a chunk that is used there again is protected, four fifths
//! of it may be; what is no more protected has one more turn. How often a chunk was used is estimated, also for those that are long
//! gone, by counters that many share.
//!
//! Source: TinyLFU (Einziger, Friedman and Manes, ACM Transactions on Storage 2017, sections 3 and 4). It comes close to the best
//! choice where popularity changes slowly, and one-time data does not get past the window. It is wrong for bursts of new data that is
//! used again soon, but later than the window is long: each such chunk is turned away until it has been used as often as the old ones.

use super::sketch::Sketch;
use super::slots::{Queue, Slots};
use super::{Ranking, in_memory};

/// The window's share of the buffer is one of this many parts.
const WINDOW_PARTS: usize = 100;

/// A window, a segmented LRU, and a sketch of frequencies; see the head of this file.
pub struct WTinyLfu {
    slots: Slots<State>,
    window: Queue,
    probation: Queue,
    protected: Queue,
    sketch: Sketch,
    capacity_chunks: usize,
}

#[derive(Clone, Copy, Default)]
struct State {
    place: Place,
    hash: u32,
}

/// The queue that a chunk stands in.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    #[default]
    Nowhere,
    Window,
    Probation,
    Protected,
}

impl WTinyLfu {
    /// A policy for a buffer of about this many chunks.
    pub fn new(capacity_chunks: u64) -> Self {
        let capacity_chunks = in_memory(capacity_chunks);
        WTinyLfu {
            slots: Slots::new(),
            window: Queue::new(),
            probation: Queue::new(),
            protected: Queue::new(),
            sketch: Sketch::new(capacity_chunks),
            capacity_chunks,
        }
    }

    fn window_max(&self) -> usize {
        (self.capacity_chunks.max(self.len()) / WINDOW_PARTS).max(1)
    }

    fn protected_max(&self) -> usize {
        (self.capacity_chunks.max(self.len()) - self.window_max()) / 5 * 4
    }

    fn unlink(&mut self, at: u32) {
        let queue = match self.slots.state(at).place {
            Place::Window => &mut self.window,
            Place::Probation => &mut self.probation,
            Place::Protected => &mut self.protected,
            Place::Nowhere => return,
        };
        queue.unlink(&mut self.slots, at);
        self.slots.state_mut(at).place = Place::Nowhere;
    }

    /// Puts a chunk that is in no queue at the newest end of the probation.
    fn try_out(&mut self, at: u32) {
        self.slots.state_mut(at).place = Place::Probation;
        self.probation.push_newest(&mut self.slots, at);
    }

    fn count(&self, at: u32) -> u8 {
        self.sketch.count(self.slots.state(at).hash)
    }
}

impl Ranking for WTinyLfu {
    fn reserve(&mut self, numbers: u32) {
        self.slots.reserve(numbers);
    }

    fn contains(&self, at: u32) -> bool {
        self.slots.is_queued(at)
    }

    fn on_insert(&mut self, at: u32, hash: u32, _forget: impl FnMut(u32)) {
        self.sketch.add(hash);
        self.slots.set(at, State { place: Place::Window, hash });
        self.window.push_newest(&mut self.slots, at);
        while self.window.len() > self.window_max() {
            let old = self.window.oldest();
            self.unlink(old);
            self.try_out(old);
        }
    }

    fn on_access(&mut self, at: u32, _forget: impl FnMut(u32)) {
        let State { place, hash } = self.slots.state(at);
        self.sketch.add(hash);
        match place {
            Place::Window => self.window.renew(&mut self.slots, at),
            Place::Protected => self.protected.renew(&mut self.slots, at),
            _ => {
                self.unlink(at);
                self.slots.state_mut(at).place = Place::Protected;
                self.protected.push_newest(&mut self.slots, at);
                while self.protected.len() > self.protected_max() {
                    let old = self.protected.oldest();
                    self.unlink(old);
                    self.try_out(old);
                }
            }
        }
    }

    fn on_remove(&mut self, at: u32, mut forget: impl FnMut(u32)) {
        self.unlink(at);
        forget(at);
    }

    fn victim(&mut self, mut evictable: impl FnMut(u32) -> bool) -> Option<u32> {
        let main = self.probation.first_evictable(&self.slots, &mut evictable);
        let main = main.or_else(|| self.protected.first_evictable(&self.slots, &mut evictable));
        // While the window has room, the next chunk drives nothing out of it.
        if self.window.len() < self.window_max() && main.is_some() {
            return main;
        }
        match (self.window.first_evictable(&self.slots, &mut evictable), main) {
            (Some(candidate), Some(main)) if self.count(candidate) > self.count(main) => Some(main),
            (candidate, main) => candidate.or(main),
        }
    }

    fn on_evict(&mut self, at: u32, forget: impl FnMut(u32)) {
        self.on_remove(at, forget);
    }

    fn len(&self) -> usize {
        self.window.len() + self.probation.len() + self.protected.len()
    }
}
