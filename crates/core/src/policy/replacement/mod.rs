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
    use alloc::collections::BTreeSet;
    use alloc::string::String;

    fn chunk(letter: char) -> ChunkId {
        ChunkId { ino: Ino(1), index: letter as u64 }
    }

    /// Hits of a reference string in a buffer of `slots` chunks.
    fn hits(kind: ReplacementKind, string: &str, slots: usize) -> usize {
        let mut policy = new(kind, slots as u64);
        let mut resident = BTreeSet::new();
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

    /// The victims of a workload with 6 slots: a hot set that changes slowly, scans, a loop. A change of a policy's way has to be seen
    /// and meant.
    #[test]
    fn trajectories() {
        let string = "ABABABC DEFGHI ACAB JKLMNOP DBDD QRSTUVWX DJDAB EFGHEFGHIJ ACBD";
        let victims = |kind| {
            let mut policy = new(kind, 6);
            let mut resident = BTreeSet::new();
            let mut victims = String::new();
            for letter in string.chars().filter(|letter| *letter != ' ') {
                if !resident.contains(&letter) && resident.len() == 6 {
                    let victim = evict(&mut *policy);
                    resident.remove(&victim);
                    victims.push(victim);
                }
                if resident.insert(letter) { policy.on_insert(chunk(letter)) } else { policy.on_access(chunk(letter)) }
            }
            victims
        };
        assert_eq!(victims(ReplacementKind::Fifo), "ABCDEFGHIACBJKLMNOPDBQRSTUVWXDJABEFGH");
        assert_eq!(victims(ReplacementKind::Lru), "ABCDEFGHICABJKLMNOPBDQRSTUVWXJDABEFGH");
        assert_eq!(victims(ReplacementKind::Lfu), "CDEFGHICJKLMNOPQRSTUVWXJEFGHEFGH");
        assert_eq!(victims(ReplacementKind::Lfuda), "CDEFGHICJKLMNOPQRSADTUVWXJADEFGH");
        assert_eq!(victims(ReplacementKind::S3Fifo), "CDEFGHIJKLMNOPQRSTUVWXJEFGHCEFIG");
        assert_eq!(victims(ReplacementKind::Sieve), "CDEFGHICJKLMNOPQRSTUVWXJEFGHEFGH");
    }

    fn insert_all(policy: &mut dyn Replacement, letters: &str) {
        letters.chars().for_each(|letter| policy.on_insert(chunk(letter)));
    }

    fn evict(policy: &mut dyn Replacement) -> char {
        let victim = policy.victim(&mut |_| true).expect("every chunk is evictable");
        policy.on_evict(victim);
        char::from(victim.index as u8)
    }

    /// Worked by hand: the small queue lets go what was used once more, keeps what was used twice more, and a ghost comes back to stay.
    #[test]
    fn s3_fifo_by_hand() {
        let mut policy = S3Fifo::new(10);
        insert_all(&mut policy, "ABCDEFGHIJ");
        assert_eq!(evict(&mut policy), 'A', "the oldest, never used again; its ghost stays");
        insert_all(&mut policy, "A");
        [chunk('B'), chunk('C'), chunk('C')].into_iter().for_each(|c| policy.on_access(c));
        assert_eq!(evict(&mut policy), 'B', "one more use is too little");
        assert_eq!(evict(&mut policy), 'D', "C was used twice and moves to the main queue, where A is");
        for gone in "EFGHIJ".chars() {
            assert_eq!(evict(&mut policy), gone);
        }
        policy.on_access(chunk('A'));
        assert_eq!(evict(&mut policy), 'C', "A goes round once more");
        assert_eq!(evict(&mut policy), 'A');
        assert!(policy.is_empty() && policy.victim(&mut |_| true).is_none());
    }

    /// Worked by hand: the hand takes marks off, stays where it took a chunk, and begins again at the oldest.
    #[test]
    fn sieve_by_hand() {
        let mut policy = Sieve::new();
        insert_all(&mut policy, "ABCD");
        [chunk('A'), chunk('C')].into_iter().for_each(|c| policy.on_access(c));
        assert_eq!(evict(&mut policy), 'B', "A loses its mark");
        insert_all(&mut policy, "E");
        assert_eq!(evict(&mut policy), 'D', "C loses its mark");
        policy.on_access(chunk('E'));
        insert_all(&mut policy, "F");
        assert_eq!(evict(&mut policy), 'F', "E loses its mark");
        assert_eq!(evict(&mut policy), 'A', "the hand is past the newest and begins again");
        assert_eq!([evict(&mut policy), evict(&mut policy)], ['C', 'E']);
    }
}
