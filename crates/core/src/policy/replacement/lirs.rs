//! LIRS: low inter-reference recency. It ranks chunks by how many others were used between their last two uses. Most of the buffer, 99
//! of 100 chunks, belongs to those with the fewest (here: *near*); the others (*far*) pass through a short queue, from whose old end
//! victims go. A stack holds near chunks, and far ones that were used later than the longest unused near one, in order of last use; a far
//! chunk that is used again while it is there, in the buffer or gone, becomes near, and the near chunk at the bottom becomes far.
//!
//! Source: LIRS (Jiang and Zhang, SIGMETRICS 2002, section 3). It holds a part of a loop that is longer than the buffer, where LRU holds
//! nothing, and scans pass by. It is wrong when the workload changes: a new working set has to be used twice within the stack before
//! it is kept, and until then lives in a hundredth of the buffer.
//!
//! Chunks that are gone stay in the stack, which the paper does not bound: here stack and buffer together know at most about twice as
//! many chunks as the buffer holds; the one that has been gone for longest is forgotten.

use super::slots::{NIL, Queue, Slots};
use super::{Ranking, in_memory};

/// The far chunks' share of the buffer is one of this many parts.
const FAR_PARTS: usize = 100;

/// A stack and a short queue; see the head of this file.
pub struct Lirs {
    /// Places in the stack.
    stacked: Slots<Kind>,
    stack: Queue,
    /// Places in the queue of each kind.
    kinds: Slots<()>,
    near: Queue,
    far: Queue,
    gone: Queue,
    capacity_chunks: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Kind {
    #[default]
    Unknown,
    Near,
    Far,
    /// Far, in the stack and no more in the buffer.
    Gone,
}

impl Lirs {
    /// A policy for a buffer of about this many chunks.
    pub fn new(capacity_chunks: u64) -> Self {
        Lirs {
            stacked: Slots::new(),
            stack: Queue::new(),
            kinds: Slots::new(),
            near: Queue::new(),
            far: Queue::new(),
            gone: Queue::new(),
            capacity_chunks: in_memory(capacity_chunks),
        }
    }

    fn capacity(&self) -> usize {
        self.capacity_chunks.max(self.len())
    }

    fn near_max(&self) -> usize {
        let capacity = self.capacity();
        capacity.saturating_sub((capacity / FAR_PARTS).max(1))
    }

    /// Puts a chunk that is of no kind into a kind's queue.
    fn enter(&mut self, at: u32, kind: Kind) {
        self.stacked.set(at, kind);
        self.kinds.set(at, ());
        let queue = match kind {
            Kind::Near => &mut self.near,
            Kind::Far => &mut self.far,
            Kind::Gone => &mut self.gone,
            Kind::Unknown => return,
        };
        queue.push_newest(&mut self.kinds, at);
    }

    /// Takes a chunk out of its kind's queue.
    fn leave(&mut self, at: u32) {
        let queue = match self.stacked.state(at) {
            Kind::Near => &mut self.near,
            Kind::Far => &mut self.far,
            Kind::Gone => &mut self.gone,
            Kind::Unknown => return,
        };
        queue.unlink(&mut self.kinds, at);
        *self.stacked.state_mut(at) = Kind::Unknown;
    }

    fn put_on_top(&mut self, at: u32) {
        if self.stacked.is_queued(at) {
            self.stack.renew(&mut self.stacked, at);
        } else {
            self.stack.push_newest(&mut self.stacked, at);
        }
    }

    /// Makes a chunk that stands in the queue of far or gone ones near, and as many near ones far as are too many then.
    fn draw_near(&mut self, at: u32, forget: &mut impl FnMut(u32)) {
        self.leave(at);
        self.enter(at, Kind::Near);
        while self.near.len() > self.near_max() {
            let bottom = self.near.oldest();
            self.leave(bottom);
            self.enter(bottom, Kind::Far);
            self.stack.unlink(&mut self.stacked, bottom);
            self.prune(forget);
        }
    }

    /// Takes far chunks off the bottom of the stack: no near one has been unused for longer than they.
    fn prune(&mut self, forget: &mut impl FnMut(u32)) {
        loop {
            let bottom = self.stack.oldest();
            if bottom == NIL || self.stacked.state(bottom) == Kind::Near {
                return;
            }
            self.stack.unlink(&mut self.stacked, bottom);
            if self.stacked.state(bottom) == Kind::Gone {
                self.leave(bottom);
                forget(bottom);
            }
        }
    }

    /// Keeps the stack within its bound.
    fn limit(&mut self, forget: &mut impl FnMut(u32)) {
        while self.stack.len() > 2 * self.capacity() && !self.gone.is_empty() {
            let gone = self.gone.oldest();
            self.stack.unlink(&mut self.stacked, gone);
            self.leave(gone);
            forget(gone);
        }
    }
}

impl Ranking for Lirs {
    fn reserve(&mut self, numbers: u32) {
        self.stacked.reserve(numbers);
        self.kinds.reserve(numbers);
    }

    fn contains(&self, at: u32) -> bool {
        matches!(self.stacked.state(at), Kind::Near | Kind::Far)
    }

    fn on_insert(&mut self, at: u32, _hash: u32, mut forget: impl FnMut(u32)) {
        if self.stacked.state(at) == Kind::Gone {
            self.put_on_top(at);
            self.draw_near(at, &mut forget);
        } else {
            let kind = if self.near.len() < self.near_max() { Kind::Near } else { Kind::Far };
            self.enter(at, kind);
            self.put_on_top(at);
        }
        self.limit(&mut forget);
    }

    fn on_access(&mut self, at: u32, mut forget: impl FnMut(u32)) {
        if self.stacked.state(at) == Kind::Near {
            self.near.renew(&mut self.kinds, at);
            self.put_on_top(at);
            return self.prune(&mut forget);
        }
        let was_stacked = self.stacked.is_queued(at);
        self.put_on_top(at);
        if was_stacked {
            self.draw_near(at, &mut forget);
        } else {
            self.far.renew(&mut self.kinds, at);
        }
        self.limit(&mut forget);
    }

    fn on_remove(&mut self, at: u32, mut forget: impl FnMut(u32)) {
        self.leave(at);
        if self.stacked.is_queued(at) {
            self.stack.unlink(&mut self.stacked, at);
            self.prune(&mut forget);
        }
        forget(at);
    }

    /// A near chunk goes only when no far one can.
    fn victim(&mut self, mut evictable: impl FnMut(u32) -> bool) -> Option<u32> {
        let far = self.far.first_evictable(&self.kinds, &mut evictable);
        far.or_else(|| self.near.first_evictable(&self.kinds, &mut evictable))
    }

    fn on_evict(&mut self, at: u32, forget: impl FnMut(u32)) {
        if self.stacked.state(at) == Kind::Far && self.stacked.is_queued(at) {
            self.leave(at);
            self.enter(at, Kind::Gone);
        } else {
            self.on_remove(at, forget);
        }
    }

    fn len(&self) -> usize {
        self.near.len() + self.far.len()
    }
}
