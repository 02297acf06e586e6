//! Belady's MIN: what is used again last, or never, goes. It needs the future, so it exists only where a whole trace is known.

use std::collections::BinaryHeap;

use forebay_core::policy::replacement::Ranking;

use super::workload::Reference;

const NEVER: u32 = u32::MAX;

/// For each reference, the number of the next one to the same chunk.
pub(super) fn next_uses(references: &[Reference], chunks: u32) -> Vec<u32> {
    let mut next_of = vec![NEVER; chunks as usize];
    let mut next = vec![NEVER; references.len()];
    for (at, reference) in references.iter().enumerate().rev() {
        next[at] = std::mem::replace(&mut next_of[reference.chunk() as usize], at as u32);
    }
    next
}

/// The optimal policy for a known sequence of uses. It must be told of each use in that order, by [`Ranking::on_insert`] or
/// [`Ranking::on_access`].
pub struct Belady {
    next: Vec<u32>,
    /// The use that comes now.
    now: usize,
    /// When each chunk in the buffer is used next.
    next_of: Vec<u32>,
    present: Vec<bool>,
    len: usize,
    /// Chunks by their next use; an entry that does not agree with `next_of` any more is passed over.
    by_next: BinaryHeap<(u32, u32)>,
}

impl Belady {
    /// For a sequence of uses; of each, the number of the next use of the same chunk.
    #[must_use]
    pub fn new(next: Vec<u32>) -> Belady {
        Belady { next, now: 0, next_of: Vec::new(), present: Vec::new(), len: 0, by_next: BinaryHeap::new() }
    }

    fn used(&mut self, at: u32) {
        let next = self.next[self.now];
        self.now += 1;
        self.next_of[at as usize] = next;
        self.by_next.push((next, at));
        if self.by_next.len() > 4 * self.len + 1024 {
            let (next_of, present) = (&self.next_of, &self.present);
            self.by_next.retain(|(next, at)| present[*at as usize] && next_of[*at as usize] == *next);
        }
    }
}

impl Ranking for Belady {
    fn reserve(&mut self, numbers: u32) {
        if self.present.len() < numbers as usize {
            self.present.resize(numbers as usize, false);
            self.next_of.resize(numbers as usize, NEVER);
        }
    }

    fn contains(&self, at: u32) -> bool {
        self.present.get(at as usize).is_some_and(|present| *present)
    }

    fn on_insert(&mut self, at: u32, _hash: u32, _forget: impl FnMut(u32)) {
        self.reserve(at + 1);
        self.present[at as usize] = true;
        self.len += 1;
        self.used(at);
    }

    fn on_access(&mut self, at: u32, _forget: impl FnMut(u32)) {
        self.used(at);
    }

    fn on_remove(&mut self, at: u32, mut forget: impl FnMut(u32)) {
        self.present[at as usize] = false;
        self.len -= 1;
        forget(at);
    }

    fn victim(&mut self, mut evictable: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut passed = Vec::new();
        let mut found = None;
        while let Some((next, at)) = self.by_next.pop() {
            if !self.present[at as usize] || self.next_of[at as usize] != next {
                continue;
            }
            passed.push((next, at));
            if evictable(at) {
                found = Some(at);
                break;
            }
        }
        self.by_next.extend(passed);
        found
    }

    fn on_evict(&mut self, at: u32, forget: impl FnMut(u32)) {
        self.on_remove(at, forget);
    }

    fn len(&self) -> usize {
        self.len
    }
}
