//! ARC: adaptive replacement. Two LRU queues: chunks that were used once since they entered, and chunks that were used again. Each has a
//! queue of ghosts, the chunks that it lost last. A chunk that comes back while its ghost is among the first kind's says that the first
//! queue is too short, one among the second kind's that it is too long: the target moves, by more the rarer such ghosts are. The queue
//! that is longer than its target gives the victim.
//!
//! Source: ARC (Megiddo and Modha, FAST 2003, figure 4). No scan drives out what is used again, and nothing has to be tuned. It is wrong
//! for loops that are longer than the buffer, where both queues are LRU, and two uses in a row count as use again: a program
//! that reads each chunk by small pieces fills the second queue with what it will never want again.
//!
//! The paper looks at the ghosts before it chooses the victim; so does this if it
//! is told of the miss ([`super::Replacement::on_miss`]), otherwise it learns from a ghost when the chunk enters.

use super::slots::{Queue, Slots};
use super::{Ranking, in_memory};

/// The target is kept in parts of a chunk: its steps are ratios.
const PARTS: u64 = 1 << 16;

/// Two LRU queues with a target between them; see the head of this file.
pub struct Arc {
    slots: Slots<State>,
    /// By [`Place`].
    queues: [Queue; 4],
    /// How many parts of a chunk should be in the queue of the recent ones.
    recent_target: u64,
    /// What is wanted next was among the frequent ones.
    wanted_was_frequent: bool,
    capacity_chunks: usize,
}

#[derive(Clone, Copy, Default)]
struct State {
    place: Place,
    /// The target has moved for this ghost.
    learned: bool,
}

/// The queue that a chunk stands in; its number there.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    Recent,
    Frequent,
    RecentGhosts,
    FrequentGhosts,
    #[default]
    Nowhere,
}

impl Arc {
    /// A policy for a buffer of about this many chunks.
    pub fn new(capacity_chunks: u64) -> Self {
        Arc {
            slots: Slots::new(),
            queues: [Queue::new(), Queue::new(), Queue::new(), Queue::new()],
            recent_target: 0,
            wanted_was_frequent: false,
            capacity_chunks: in_memory(capacity_chunks),
        }
    }

    fn capacity(&self) -> usize {
        self.capacity_chunks.max(self.len())
    }

    fn queue_len(&self, place: Place) -> usize {
        self.queues[place as usize].len()
    }

    /// Moves a chunk from the queue in which it is, if any, to the newest end of another, if any.
    fn move_to(&mut self, at: u32, place: Place) {
        if let Some(queue) = self.queues.get_mut(self.slots.state(at).place as usize) {
            queue.unlink(&mut self.slots, at);
        }
        self.slots.set(at, State { place, learned: false });
        if let Some(queue) = self.queues.get_mut(place as usize) {
            queue.push_newest(&mut self.slots, at);
        }
    }

    /// Drops the oldest ghost of a queue.
    fn drop_ghost(&mut self, place: Place, forget: &mut impl FnMut(u32)) {
        let ghost = self.queues[place as usize].oldest();
        self.move_to(ghost, Place::Nowhere);
        forget(ghost);
    }

    /// Moves the target for a ghost that is wanted, once.
    fn learn(&mut self, at: u32) {
        let State { place, learned } = self.slots.state(at);
        let parts = |place| self.queue_len(place) as u64 * PARTS;
        let (recent, frequent) = (parts(Place::RecentGhosts), parts(Place::FrequentGhosts));
        // `a * PARTS / b`, where both are in parts.
        let step = |a: u64, b: u64| (a / (b / PARTS)).max(PARTS);
        match place {
            _ if learned => return,
            Place::RecentGhosts => {
                self.recent_target = (self.recent_target + step(frequent, recent)).min(self.capacity() as u64 * PARTS);
            }
            Place::FrequentGhosts => self.recent_target = self.recent_target.saturating_sub(step(recent, frequent)),
            _ => return,
        }
        self.slots.state_mut(at).learned = true;
    }
}

impl Ranking for Arc {
    fn reserve(&mut self, numbers: u32) {
        self.slots.reserve(numbers);
    }

    fn contains(&self, at: u32) -> bool {
        matches!(self.slots.state(at).place, Place::Recent | Place::Frequent)
    }

    fn on_miss(&mut self, at: u32) {
        self.learn(at);
        self.wanted_was_frequent = self.slots.state(at).place == Place::FrequentGhosts;
    }

    fn on_insert(&mut self, at: u32, _hash: u32, mut forget: impl FnMut(u32)) {
        self.learn(at);
        self.wanted_was_frequent = false;
        let is_new = self.slots.state(at).place == Place::Nowhere;
        self.move_to(at, if is_new { Place::Recent } else { Place::Frequent });
        let capacity = self.capacity();
        while self.queue_len(Place::Recent) + self.queue_len(Place::RecentGhosts) > capacity && self.queue_len(Place::RecentGhosts) > 0 {
            self.drop_ghost(Place::RecentGhosts, &mut forget);
        }
        let known = |arc: &Self| arc.queues.iter().map(Queue::len).sum::<usize>();
        while known(self) > 2 * capacity && self.queue_len(Place::FrequentGhosts) > 0 {
            self.drop_ghost(Place::FrequentGhosts, &mut forget);
        }
    }

    fn on_access(&mut self, at: u32, _forget: impl FnMut(u32)) {
        if self.slots.state(at).place == Place::Frequent {
            self.queues[Place::Frequent as usize].renew(&mut self.slots, at);
        } else {
            self.move_to(at, Place::Frequent);
        }
    }

    fn on_remove(&mut self, at: u32, mut forget: impl FnMut(u32)) {
        self.move_to(at, Place::Nowhere);
        forget(at);
    }

    fn victim(&mut self, mut evictable: impl FnMut(u32) -> bool) -> Option<u32> {
        let (recent_len, target) = (self.queue_len(Place::Recent) as u64 * PARTS, self.recent_target);
        let from_recent = recent_len > target || (self.wanted_was_frequent && recent_len == target);
        let [recent, frequent, ..] = &mut self.queues;
        let (first, second) = if from_recent { (recent, frequent) } else { (frequent, recent) };
        let found = first.first_evictable(&self.slots, &mut evictable);
        found.or_else(|| second.first_evictable(&self.slots, &mut evictable))
    }

    fn on_evict(&mut self, at: u32, _forget: impl FnMut(u32)) {
        let is_recent = self.slots.state(at).place == Place::Recent;
        self.move_to(at, if is_recent { Place::RecentGhosts } else { Place::FrequentGhosts });
    }

    fn len(&self) -> usize {
        self.queue_len(Place::Recent) + self.queue_len(Place::Frequent)
    }
}
