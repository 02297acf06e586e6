//! Numbers for chunks: makes a policy over chunks of an algorithm over numbers.

use alloc::vec::Vec;

use super::table::{Table, hash};
use super::{Ranking, Replacement};
use crate::id::{ChunkId, Ino};

/// A [`Replacement`] by the algorithm `R`.
pub struct ByChunk<R> {
    ranking: R,
    names: Names,
}

/// Which chunk has which number: those in the buffer, and those that the algorithm remembers.
struct Names {
    index: Table,
    chunks: Vec<ChunkId>,
    free: Vec<u32>,
}

impl Names {
    fn find(&self, chunk: ChunkId) -> Option<u32> {
        self.index.find(hash(chunk), |at| self.chunks[at as usize] == chunk)
    }

    /// A number for a chunk that has none.
    fn add(&mut self, chunk: ChunkId) -> u32 {
        let at = match self.free.pop() {
            Some(at) => {
                self.chunks[at as usize] = chunk;
                at
            }
            None => {
                self.chunks.push(chunk);
                (self.chunks.len() - 1) as u32
            }
        };
        self.index.insert(hash(chunk), at);
        at
    }

    fn forget(&mut self, at: u32) {
        let chunk = core::mem::replace(&mut self.chunks[at as usize], ChunkId { ino: Ino(0), index: u64::MAX });
        self.index.remove(hash(chunk), at);
        self.free.push(at);
    }
}

impl<R: Ranking> ByChunk<R> {
    /// A policy that knows no chunk yet; neither does `ranking`.
    pub fn new(ranking: R) -> Self {
        ByChunk { ranking, names: Names { index: Table::new(), chunks: Vec::new(), free: Vec::new() } }
    }

    /// The number of a chunk in the buffer.
    fn resident(&self, chunk: ChunkId) -> Option<u32> {
        self.names.find(chunk).filter(|at| self.ranking.contains(*at))
    }
}

impl<R: Ranking> Replacement for ByChunk<R> {
    fn on_miss(&mut self, chunk: ChunkId) {
        if let Some(ghost) = self.names.find(chunk)
            && !self.ranking.contains(ghost)
        {
            self.ranking.on_miss(ghost);
        }
    }

    fn on_insert(&mut self, chunk: ChunkId) {
        let names = &mut self.names;
        match names.find(chunk) {
            Some(at) if self.ranking.contains(at) => self.ranking.on_access(at, |gone| names.forget(gone)),
            Some(ghost) => self.ranking.on_insert(ghost, hash(chunk), |gone| names.forget(gone)),
            None => {
                let at = names.add(chunk);
                self.ranking.on_insert(at, hash(chunk), |gone| names.forget(gone));
            }
        }
    }

    fn on_access(&mut self, chunk: ChunkId) {
        if let Some(at) = self.resident(chunk) {
            self.ranking.on_access(at, |gone| self.names.forget(gone));
        }
    }

    fn on_remove(&mut self, chunk: ChunkId) {
        if let Some(at) = self.resident(chunk) {
            self.ranking.on_remove(at, |gone| self.names.forget(gone));
        }
    }

    fn victim(&mut self, evictable: &mut dyn FnMut(ChunkId) -> bool) -> Option<ChunkId> {
        let chunks = &self.names.chunks;
        self.ranking.victim(|at| evictable(chunks[at as usize])).map(|at| chunks[at as usize])
    }

    fn on_evict(&mut self, chunk: ChunkId) {
        if let Some(at) = self.resident(chunk) {
            self.ranking.on_evict(at, |gone| self.names.forget(gone));
        }
    }

    fn len(&self) -> usize {
        self.ranking.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::replacement::{Arc, Lirs, S3Fifo};

    /// Numbers are used again: what is remembered stays bounded however many chunks pass through.
    #[test]
    fn numbers_of_what_is_forgotten_are_used_again() {
        fn numbers_after_many(ranking: impl Ranking) -> usize {
            let mut policy = ByChunk::new(ranking);
            for index in 0..5000 {
                let chunk = ChunkId { ino: Ino(1), index };
                if policy.len() == 50 {
                    let victim = policy.victim(&mut |_| true).expect("every chunk can go");
                    policy.on_evict(victim);
                }
                policy.on_insert(chunk);
                policy.on_access(ChunkId { ino: Ino(1), index: index - index % 3 });
                if index % 7 == 0 {
                    policy.on_remove(ChunkId { ino: Ino(1), index: index.saturating_sub(5) });
                }
            }
            policy.names.chunks.len()
        }
        assert!(numbers_after_many(S3Fifo::new(50)) <= 101);
        assert!(numbers_after_many(Arc::new(50)) <= 102);
        assert!(numbers_after_many(Lirs::new(50)) <= 110);
    }
}
