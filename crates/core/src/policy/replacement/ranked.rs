//! Chunks ordered by a rank that is more than their age: what LFU and LFUDA share.

use alloc::collections::BTreeMap;

use super::{ASKS_BEYOND_MAX, ASKS_IN_ORDER_MAX};
use crate::id::ChunkId;

/// What orders the chunks: the smallest goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// The policy's key.
    pub(super) key: u64,
    /// When the chunk was used last, as a count of uses: of equal keys, the least recently used goes first.
    used: u64,
}

/// The chunks of one policy with their rank and the number of their accesses.
#[derive(Default)]
pub(super) struct Ranked {
    chunks: BTreeMap<ChunkId, (Rank, u64)>,
    order: BTreeMap<Rank, ChunkId>,
    uses: u64,
    /// Where the search for an evictable chunk goes on beyond the first ones.
    hand: Option<Rank>,
}

impl Ranked {
    pub(super) fn len(&self) -> usize {
        self.chunks.len()
    }

    pub(super) fn contains(&self, chunk: ChunkId) -> bool {
        self.chunks.contains_key(&chunk)
    }

    /// Notes an access, the first one for a chunk that is not known; `key` gives the key from the number of accesses.
    pub(super) fn touch(&mut self, chunk: ChunkId, key: impl FnOnce(u64) -> u64) {
        let count = self.remove(chunk).map_or(0, |(_, count)| count) + 1;
        self.uses += 1;
        let rank = Rank { key: key(count), used: self.uses };
        self.chunks.insert(chunk, (rank, count));
        self.order.insert(rank, chunk);
    }

    pub(super) fn remove(&mut self, chunk: ChunkId) -> Option<(Rank, u64)> {
        let (rank, count) = self.chunks.remove(&chunk)?;
        self.order.remove(&rank);
        Some((rank, count))
    }

    /// The first evictable chunk, within the bounds of [`super::Replacement::victim`].
    pub(super) fn first_evictable(&mut self, evictable: &mut dyn FnMut(ChunkId) -> bool) -> Option<ChunkId> {
        let mut chunks = self.order.iter();
        for (_, chunk) in chunks.by_ref().take(ASKS_IN_ORDER_MAX as usize) {
            if evictable(*chunk) {
                return Some(*chunk);
            }
        }
        let (behind_front, _) = chunks.next()?;
        let mut beyond = self.order.range(self.hand.unwrap_or(*behind_front)..);
        for (rank, chunk) in beyond.by_ref().take(ASKS_BEYOND_MAX as usize) {
            if evictable(*chunk) {
                self.hand = Some(*rank);
                return Some(*chunk);
            }
        }
        self.hand = beyond.next().map(|(rank, _)| *rank);
        None
    }
}
