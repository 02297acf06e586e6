//! Replacement: which chunk goes when the buffer is full.
//!
//! One file per algorithm. B-08 to B-11 are those that the thesis on burst buffers compares (5.4.3); S3-FIFO and SIEVE are what the
//! field has found since. All keep their order in whole numbers, lists and ordered maps: same calls, same victims.

mod fifo;
mod lfu;
mod lfuda;
mod lru;
mod ranked;
mod s3_fifo;
mod sieve;
mod slots;
mod table;

use alloc::boxed::Box;

pub use fifo::Fifo;
pub use lfu::Lfu;
pub use lfuda::Lfuda;
pub use lru::Lru;
pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;

use crate::config::ReplacementKind;
use crate::id::ChunkId;

/// Chunks that one call of [`Replacement::victim`] asks about in the policy's own order, from its first choice on.
pub const ASKS_IN_ORDER_MAX: u32 = 128;
/// Chunks that it asks about after that, from where the call before stopped.
pub const ASKS_BEYOND_MAX: u32 = 128;

/// A replacement policy: hears what happens to chunks and names the one to swap out.
///
/// A chunk that is inserted twice counts as accessed; a call about a chunk that is not there is ignored.
pub trait Replacement: Send {
    /// The chunk has entered the buffer. This is its first access.
    fn on_insert(&mut self, chunk: ChunkId);

    /// A chunk in the buffer was read or written.
    fn on_access(&mut self, chunk: ChunkId);

    /// The chunk left the buffer for another reason than being the victim: unlink, truncate.
    fn on_remove(&mut self, chunk: ChunkId);

    /// The chunk to swap out next among those for which `evictable` holds. It stays until [`Replacement::on_evict`] is called.
    ///
    /// The work is bounded when many chunks cannot go: it asks about at most [`ASKS_IN_ORDER_MAX`] chunks in the policy's order, then
    /// about at most [`ASKS_BEYOND_MAX`] more, going on where the call before stopped. So `None` means that none of *these* can go:
    /// try again when a chunk has become evictable, or at once, as `len() / ASKS_BEYOND_MAX + 2` calls ask about every chunk.
    /// (SIEVE has a hand of its own and asks about at most the sum of the two, wherever its hand stands.)
    fn victim(&mut self, evictable: &mut dyn FnMut(ChunkId) -> bool) -> Option<ChunkId>;

    /// The chunk has been swapped out to make room.
    fn on_evict(&mut self, chunk: ChunkId);

    /// Chunks in the buffer.
    fn len(&self) -> usize;

    /// Whether no chunk is in the buffer.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A policy of this kind for a buffer of about `capacity_chunks` chunks. The buffer may hold more, when chunks are only partly filled.
pub fn new(kind: ReplacementKind, capacity_chunks: u64) -> Box<dyn Replacement> {
    match kind {
        ReplacementKind::Fifo => Box::new(Fifo::new()),
        ReplacementKind::Lru => Box::new(Lru::new()),
        ReplacementKind::Lfu => Box::new(Lfu::new()),
        ReplacementKind::Lfuda => Box::new(Lfuda::new()),
        ReplacementKind::S3Fifo => Box::new(S3Fifo::new(capacity_chunks)),
        ReplacementKind::Sieve => Box::new(Sieve::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Ino;

    fn chunk(letter: char) -> ChunkId {
        ChunkId { ino: Ino(1), index: letter as u64 }
    }

    /// Hits of a reference string in a buffer of `slots` chunks.
    fn hits(kind: ReplacementKind, string: &str, slots: usize) -> usize {
        let mut policy = new(kind, slots as u64);
        let mut resident = alloc::collections::BTreeSet::new();
        let mut hits = 0;
        for chunk in string.chars().map(chunk) {
            if resident.contains(&chunk) {
                hits += 1;
                policy.on_access(chunk);
                continue;
            }
            if resident.len() == slots {
                let victim = policy.victim(&mut |_| true).expect("every chunk is evictable");
                assert!(resident.remove(&victim), "{victim:?} is not in the buffer");
                policy.on_evict(victim);
            }
            resident.insert(chunk);
            policy.on_insert(chunk);
            assert_eq!(policy.len(), resident.len());
        }
        hits
    }

    const CLASSIC: [ReplacementKind; 4] = [ReplacementKind::Fifo, ReplacementKind::Lru, ReplacementKind::Lfu, ReplacementKind::Lfuda];

    fn classic_hits(string: &str, slots: usize) -> [usize; 4] {
        CLASSIC.map(|kind| hits(kind, string, slots))
    }

    /// The reference strings of B-08 to B-11, with the hits worked out by hand for FIFO, LRU, LFU and LFUDA.
    #[test]
    fn reference_strings() {
        assert_eq!(classic_hits("ABCABDABCD", 3), [2, 4, 4, 4]);
        let loop_of_four = "ABCD".repeat(5);
        assert_eq!(classic_hits(&loop_of_four, 3), [0, 0, 0, 0]);
        let pollution = alloc::format!("{}{}", "A".repeat(6), "BCDE".repeat(6));
        assert_eq!(classic_hits(&pollution, 4), [25, 25, 5, 10]);
    }
}
