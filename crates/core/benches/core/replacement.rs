//! The replacement policies.

use forebay_core::config::ReplacementKind;
use forebay_core::id::{ChunkId, Ino};
use forebay_core::policy::replacement::{self, Replacement};

use crate::harness::{Bench, Random, Run, timed};

fn chunk(number: u64) -> ChunkId {
    // Files of 64 chunks.
    ChunkId { ino: Ino(number >> 6), index: number & 63 }
}

fn full(kind: ReplacementKind, n: u64) -> Box<dyn Replacement> {
    let mut policy = replacement::new(kind, n);
    for number in 0..n {
        policy.on_insert(chunk(number));
    }
    policy
}

/// One pass over new data: each use swaps a chunk out and one in.
fn decisions(kind: ReplacementKind, n: u64, decisions: u64) -> Run {
    let mut policy = full(kind, n);
    timed(decisions, || {
        for number in n..n + decisions {
            let victim = policy.victim(&mut |_| true).expect("every chunk can go");
            policy.on_evict(victim);
            policy.on_insert(chunk(number));
        }
    })
}

/// Uses of a working set four times the buffer, of which the small numbers are used much more often.
fn uses(kind: ReplacementKind, n: u64, uses: u64) -> (Run, f64) {
    let mut policy = full(kind, n);
    let mut resident: Vec<bool> = (0..4 * n).map(|number| number < n).collect();
    let mut random = Random(5);
    let mut hits = 0;
    let run = timed(uses, || {
        for _ in 0..uses {
            let number = random.below(4 * n) * random.below(4 * n) / (4 * n);
            if resident[number as usize] {
                hits += 1;
                policy.on_access(chunk(number));
                continue;
            }
            let victim = policy.victim(&mut |_| true).expect("every chunk can go");
            policy.on_evict(victim);
            resident[(victim.ino.0 << 6 | victim.index) as usize] = false;
            resident[number as usize] = true;
            policy.on_insert(chunk(number));
        }
    });
    assert_eq!(policy.len() as u64, n);
    (run, 100.0 * hits as f64 / uses as f64)
}

pub fn run(bench: &mut Bench) {
    let (sizes, count): (&[u64], u64) = if bench.options.test { (&[100], 1000) } else { (&[1_000, 100_000], 300_000) };
    for &n in sizes {
        for (name, kind) in ReplacementKind::NAMED {
            let name = name.to_uppercase();
            bench.nanoseconds(&format!("replacement decision, {name}"), n, || decisions(kind, n, count));
            bench.nanoseconds(&format!("replacement use, {name}"), n, || uses(kind, n, count).0);
            bench.figure(&format!("replacement hits, {name}"), n, "%", || uses(kind, n, count).1);
        }
    }
}
