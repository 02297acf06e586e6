//! Replacement: which chunk goes when the buffer is full.
//!
//! One file per algorithm. B-08 to B-11 are those that the thesis on burst buffers compares (5.4.3); the others are what the field has
//! found before and since. All keep their order in whole numbers, lists and ordered maps: same calls, same victims.
//!
//! An algorithm is a [`Ranking`]: it knows chunks by small numbers and keeps what it knows in arrays. [`ByChunk`] gives numbers to
//! chunks and makes a [`Replacement`] of it, which is what the server uses; who has numbers already, as the simulation of a whole
//! trace does, uses the same [`Ranking`] without the search for them ([`with`]).

mod arc;
mod by_chunk;
mod fifo;
mod lfu;
mod lfuda;
mod lirs;
mod lru;
mod ranked;
mod s3_fifo;
mod sieve;
mod sketch;
mod slots;
mod table;
#[cfg(test)]
mod tests;
mod w_tinylfu;

use alloc::boxed::Box;

pub use arc::Arc;
pub use by_chunk::ByChunk;
pub use fifo::Fifo;
pub use lfu::Lfu;
pub use lfuda::Lfuda;
pub use lirs::Lirs;
pub use lru::Lru;
pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;
pub use table::hash;
pub use w_tinylfu::WTinyLfu;

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
    /// The chunk is wanted and not there. Room will be made, and it will enter. Nothing is wrong if this is not said or nothing enters;
    /// a policy that learns from what it let go too early ([`Arc`]) then learns it a victim later.
    fn on_miss(&mut self, chunk: ChunkId);

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
    /// A policy with several queues does so in each of them that it has to search.
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

/// The algorithm of a replacement policy, over chunks that have small numbers.
///
/// Methods mean what they mean in [`Replacement`], but the caller sees to it that what enters is not there and that the rest concerns
/// chunks that are. A policy may remember a chunk that has left (a ghost). Each number that it remembers nothing of any more is given
/// to `forget`, and may then stand for another chunk.
pub trait Ranking: Send {
    /// Makes room for all numbers below `numbers` at once, if they are known.
    fn reserve(&mut self, numbers: u32);

    /// Whether the chunk is in the buffer.
    fn contains(&self, at: u32) -> bool;

    /// See [`Replacement::on_miss`].
    fn on_miss(&mut self, _at: u32) {}

    /// The chunk, whose name has this hash, has entered the buffer.
    fn on_insert(&mut self, at: u32, hash: u32, forget: impl FnMut(u32));

    /// A chunk in the buffer was read or written.
    fn on_access(&mut self, at: u32, forget: impl FnMut(u32));

    /// The chunk left the buffer for another reason than being the victim, and is forgotten.
    fn on_remove(&mut self, at: u32, forget: impl FnMut(u32));

    /// See [`Replacement::victim`].
    fn victim(&mut self, evictable: impl FnMut(u32) -> bool) -> Option<u32>;

    /// The chunk has been swapped out to make room.
    fn on_evict(&mut self, at: u32, forget: impl FnMut(u32));

    /// Chunks in the buffer.
    fn len(&self) -> usize;

    /// Whether no chunk is in the buffer.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What [`with`] hands an algorithm to; a closure that is generic.
pub trait RankingUser {
    /// What comes out.
    type Result;

    /// Uses the algorithm.
    fn run(self, ranking: impl Ranking + 'static) -> Self::Result;
}

/// Runs `user` with the algorithm of this kind for a buffer of about `capacity_chunks` chunks, compiled for it alone.
pub fn with<U: RankingUser>(kind: ReplacementKind, capacity_chunks: u64, user: U) -> U::Result {
    match kind {
        ReplacementKind::Fifo => user.run(Fifo::new()),
        ReplacementKind::Lru => user.run(Lru::new()),
        ReplacementKind::Lfu => user.run(Lfu::new()),
        ReplacementKind::Lfuda => user.run(Lfuda::new()),
        ReplacementKind::S3Fifo => user.run(S3Fifo::new(capacity_chunks)),
        ReplacementKind::Sieve => user.run(Sieve::new()),
        ReplacementKind::Arc => user.run(Arc::new(capacity_chunks)),
        ReplacementKind::Lirs => user.run(Lirs::new(capacity_chunks)),
        ReplacementKind::WTinyLfu => user.run(WTinyLfu::new(capacity_chunks)),
    }
}

/// A policy of this kind for a buffer of about `capacity_chunks` chunks. The buffer may hold more, when chunks are only partly filled.
pub fn new(kind: ReplacementKind, capacity_chunks: u64) -> Box<dyn Replacement> {
    struct Boxed;
    impl RankingUser for Boxed {
        type Result = Box<dyn Replacement>;
        fn run(self, ranking: impl Ranking + 'static) -> Box<dyn Replacement> {
            Box::new(ByChunk::new(ranking))
        }
    }
    with(kind, capacity_chunks, Boxed)
}

/// A capacity as a number of things in memory.
fn in_memory(capacity_chunks: u64) -> usize {
    usize::try_from(capacity_chunks).unwrap_or(usize::MAX / 4)
}
