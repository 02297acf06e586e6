//! Strings of references, with the hits and victims that each policy has to have.

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
    assert_eq!(victims(ReplacementKind::S3Fifo), "CGHICJKLMNOPQRSTUVWXJGHGHIE");
    assert_eq!(victims(ReplacementKind::Sieve), "CDEFGHICJKLMNOPQRSTUVWXJEFGHEFGH");
    assert_eq!(victims(ReplacementKind::Arc), "CDEFGHICJKLMNOPQRSTUVWXJEFGDABEFGH");
    assert_eq!(victims(ReplacementKind::Lirs), "FGHIJKLMNOPQRSTUVWXJFGHCDAIJAC");
    assert_eq!(victims(ReplacementKind::WTinyLfu), "FGHIJKLMNOPQRSTUVWXJFGHCGHIJ");
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
    let mut policy = ByChunk::new(S3Fifo::new(100));
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
    let mut policy = ByChunk::new(Sieve::new());
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

/// Worked by hand, with 4 chunks: a ghost of the recent ones moves the target up, one of the frequent ones down.
#[test]
fn arc_by_hand() {
    let mut policy = ByChunk::new(Arc::new(4));
    insert_all(&mut policy, "ABCD");
    [chunk('A'), chunk('B')].into_iter().for_each(|c| policy.on_access(c));
    assert_eq!(evict(&mut policy), 'C', "C and D were used once, and the target is none");
    insert_all(&mut policy, "E");
    assert_eq!(evict(&mut policy), 'D');
    policy.on_miss(chunk('C'));
    insert_all(&mut policy, "C");
    assert_eq!(evict(&mut policy), 'A', "C came back: one recent chunk is wanted, E, so the oldest of A, B, C goes");
    policy.on_miss(chunk('A'));
    assert_eq!(evict(&mut policy), 'E', "A came back: no recent chunk is wanted any more");
    insert_all(&mut policy, "A");
    assert_eq!([evict(&mut policy), evict(&mut policy), evict(&mut policy)], ['B', 'C', 'A']);
}

/// Worked by hand, with 3 chunks, of which one is far: who comes back within the stack becomes near, the one at the bottom far.
#[test]
fn lirs_by_hand() {
    let mut policy = ByChunk::new(Lirs::new(3));
    insert_all(&mut policy, "ABC");
    assert_eq!(evict(&mut policy), 'C', "A and B came first and are near");
    insert_all(&mut policy, "D");
    assert_eq!(evict(&mut policy), 'D');
    insert_all(&mut policy, "C");
    assert_eq!(evict(&mut policy), 'A', "C is near; A, at the bottom, is far, and leaves the stack");
    insert_all(&mut policy, "A");
    policy.on_access(chunk('B'));
    assert_eq!(evict(&mut policy), 'A', "far again: nothing was known of it; with B on top, D is off the stack");
    insert_all(&mut policy, "D");
    assert_eq!(evict(&mut policy), 'D', "far: nothing was known of it");
    insert_all(&mut policy, "A");
    assert_eq!(evict(&mut policy), 'C', "A was in the stack and is near; C was at the bottom");
    assert_eq!([evict(&mut policy), evict(&mut policy)], ['B', 'A'], "when no far chunk is left, near ones go");
    assert!(policy.is_empty());
}

/// Worked by hand, with 4 chunks: one in the window; a newcomer gets out of it only if it was used more than the oldest one on probation.
#[test]
fn w_tinylfu_by_hand() {
    let mut policy = ByChunk::new(WTinyLfu::new(4));
    insert_all(&mut policy, "ABCD");
    assert_eq!(evict(&mut policy), 'D', "used once, as A was: the newcomer goes");
    insert_all(&mut policy, "D");
    assert_eq!(evict(&mut policy), 'A', "used twice, though D was away in between");
    policy.on_access(chunk('B'));
    insert_all(&mut policy, "E");
    assert_eq!(evict(&mut policy), 'E', "C and E were used once, B is not on probation any more");
    insert_all(&mut policy, "E");
    assert_eq!(evict(&mut policy), 'C');
    insert_all(&mut policy, "F");
    assert_eq!(evict(&mut policy), 'F', "D was used twice");
}
