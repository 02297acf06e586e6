//! LFUDA (B-11): LFU with dynamic aging. A chunk's key is its number of accesses plus the age of the buffer at its last access; the
//! age is the key of the chunk that went last. The smallest key goes; of equals, the least recently used.
//!
//! Source: the thesis, 5.4.3, names it without a formula; this is the one in common use (Squid's LFUDA, after Arlitt and others, 1999).
//! What is no longer used is overtaken by newcomers in the end, as their keys begin at the age. It is wrong where the old counts
//! were right: a hot set that rests for long is forgotten.

use super::Ranking;
use super::ranked::Ranked;

/// Least frequently used with dynamic aging; see the head of this file.
pub struct Lfuda {
    chunks: Ranked,
    /// The key of the chunk that went last. It never falls, even when a chunk other than the first choice had to go.
    age: u64,
}

impl Lfuda {
    /// A policy that knows no chunk yet.
    pub fn new() -> Self {
        Lfuda { chunks: Ranked::new(), age: 0 }
    }
}

impl Default for Lfuda {
    fn default() -> Self {
        Self::new()
    }
}

impl Ranking for Lfuda {
    fn reserve(&mut self, numbers: u32) {
        self.chunks.reserve(numbers);
    }

    fn contains(&self, at: u32) -> bool {
        self.chunks.contains(at)
    }

    fn on_insert(&mut self, at: u32, _hash: u32, _forget: impl FnMut(u32)) {
        self.chunks.insert(at, |count| count + self.age);
    }

    fn on_access(&mut self, at: u32, _forget: impl FnMut(u32)) {
        self.chunks.access(at, |count| count + self.age);
    }

    fn on_remove(&mut self, at: u32, mut forget: impl FnMut(u32)) {
        self.chunks.remove(at);
        forget(at);
    }

    fn victim(&mut self, evictable: impl FnMut(u32) -> bool) -> Option<u32> {
        self.chunks.first_evictable(evictable)
    }

    fn on_evict(&mut self, at: u32, mut forget: impl FnMut(u32)) {
        self.age = self.age.max(self.chunks.remove(at));
        forget(at);
    }

    fn len(&self) -> usize {
        self.chunks.len()
    }
}
