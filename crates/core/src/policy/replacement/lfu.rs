//! LFU (B-10): the chunk with the fewest accesses since it entered goes first; of equals, the least recently used.
//!
//! Source: least frequently used, as in the thesis, 5.4.3. It keeps what is used often through scans. It is wrong when the workload
//! changes: a chunk that was hot once keeps its count and its place for ever, and newcomers, with a count of one, drive out each other.

use super::Replacement;
use super::ranked::Ranked;
use crate::id::ChunkId;

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

impl Replacement for Lfu {
    fn on_insert(&mut self, chunk: ChunkId) {
        self.chunks.insert(chunk, |count| count);
    }

    fn on_access(&mut self, chunk: ChunkId) {
        self.chunks.access(chunk, |count| count);
    }

    fn on_remove(&mut self, chunk: ChunkId) {
        self.chunks.remove(chunk);
    }

    fn victim(&mut self, evictable: &mut dyn FnMut(ChunkId) -> bool) -> Option<ChunkId> {
        self.chunks.first_evictable(evictable)
    }

    fn on_evict(&mut self, chunk: ChunkId) {
        self.chunks.remove(chunk);
    }

    fn len(&self) -> usize {
        self.chunks.len()
    }
}
