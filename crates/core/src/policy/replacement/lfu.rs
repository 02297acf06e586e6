//! LFU (B-10): the chunk with the fewest accesses since it entered goes first; of equals, the least recently used.
//!
//! Source: least frequently used, as in the thesis, 5.4.3. It keeps what is used often through scans. It is wrong when the workload
//! changes: a chunk that was hot once keeps its count and its place for ever, and newcomers, with a count of one, drive out each other.

use super::Ranking;
use super::ranked::Ranked;

/// Least frequently used; see the head of this file.
pub struct Lfu {
    chunks: Ranked,
}

impl Lfu {
    /// A policy that knows no chunk yet.
    pub fn new() -> Self {
        Lfu { chunks: Ranked::new() }
    }
}

impl Default for Lfu {
    fn default() -> Self {
        Self::new()
    }
}

impl Ranking for Lfu {
    fn reserve(&mut self, numbers: u32) {
        self.chunks.reserve(numbers);
    }

    fn contains(&self, at: u32) -> bool {
        self.chunks.contains(at)
    }

    fn on_insert(&mut self, at: u32, _hash: u32, _forget: impl FnMut(u32)) {
        self.chunks.insert(at, |count| count);
    }

    fn on_access(&mut self, at: u32, _forget: impl FnMut(u32)) {
        self.chunks.access(at, |count| count);
    }

    fn on_remove(&mut self, at: u32, mut forget: impl FnMut(u32)) {
        self.chunks.remove(at);
        forget(at);
    }

    fn victim(&mut self, evictable: impl FnMut(u32) -> bool) -> Option<u32> {
        self.chunks.first_evictable(evictable)
    }

    fn on_evict(&mut self, at: u32, forget: impl FnMut(u32)) {
        self.on_remove(at, forget);
    }

    fn len(&self) -> usize {
        self.chunks.len()
    }
}
