//! How long a step takes.

use std::collections::{BTreeMap, HashMap};

use super::Step;
use crate::rng::Rng;

const NS_PER_S: u128 = 1_000_000_000;

fn transfer_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    (u128::from(bytes) * NS_PER_S / u128::from(bytes_per_s.max(1))) as u64
}

/// Says how long a step takes.
pub trait Pace: Send {
    /// The end of a step that begins at `start_ns`. Steps come in the order of their begin.
    fn end_ns(&mut self, start_ns: u64, step: &Step) -> u64;
}

/// One store for all, without a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Direct {
    /// What a step costs however small it is, nanoseconds.
    pub latency_ns: u64,
    /// The most that one worker gets, bytes a second.
    pub worker_bytes_per_s: u64,
    /// The most that all get together, bytes a second.
    pub shared_bytes_per_s: u64,
    /// Until when the store has work, nanoseconds.
    busy_ns: u64,
}

impl Direct {
    /// A store of this speed.
    #[must_use]
    pub fn new(latency_ns: u64, worker_bytes_per_s: u64, shared_bytes_per_s: u64) -> Direct {
        Direct { latency_ns, worker_bytes_per_s, shared_bytes_per_s, busy_ns: 0 }
    }
}

impl Default for Direct {
    /// A parallel file system: 200 us, 500 MB/s for a worker, 10 GB/s for all.
    fn default() -> Direct {
        Direct::new(200_000, 500_000_000, 10_000_000_000)
    }
}

impl Pace for Direct {
    fn end_ns(&mut self, start_ns: u64, step: &Step) -> u64 {
        self.busy_ns = self.busy_ns.max(start_ns) + transfer_ns(step.size, self.shared_bytes_per_s);
        self.busy_ns.max(start_ns + self.latency_ns + transfer_ns(step.size, self.worker_bytes_per_s))
    }
}

/// The same store behind a buffer with LRU: what is in the buffer is as fast as that, and a miss brings the chunk in.
pub struct Buffered {
    buffer: Direct,
    home: Direct,
    chunk_bytes: u64,
    chunks_max: usize,
    /// The last use of each chunk in the buffer.
    uses: HashMap<(u64, u64), u64>,
    /// The same, oldest first; the uses are numbered.
    by_use: BTreeMap<u64, (u64, u64)>,
    next_use: u64,
}

impl Buffered {
    /// A buffer of `capacity_bytes` in chunks in front of `home`.
    #[must_use]
    pub fn new(buffer: Direct, home: Direct, chunk_bytes: u64, capacity_bytes: u64) -> Buffered {
        let chunks_max = (capacity_bytes / chunk_bytes.max(1)).max(1) as usize;
        Buffered { buffer, home, chunk_bytes: chunk_bytes.max(1), chunks_max, uses: HashMap::new(), by_use: BTreeMap::new(), next_use: 0 }
    }

    /// Uses a chunk; whether it was there.
    fn touch(&mut self, chunk: (u64, u64)) -> bool {
        let number = self.next_use;
        self.next_use += 1;
        let before = self.uses.insert(chunk, number);
        if let Some(before) = before {
            self.by_use.remove(&before);
        }
        self.by_use.insert(number, chunk);
        while self.by_use.len() > self.chunks_max {
            if let Some((_, oldest)) = self.by_use.pop_first() {
                self.uses.remove(&oldest);
            }
        }
        before.is_some()
    }
}

impl Pace for Buffered {
    fn end_ns(&mut self, start_ns: u64, step: &Step) -> u64 {
        let last = (step.offset + step.size.max(1) - 1) / self.chunk_bytes;
        let mut missed = 0;
        for index in step.offset / self.chunk_bytes..=last {
            missed += u64::from(!self.touch((step.file, index)));
        }
        // A write of what is not there enters the buffer without its old content, but something must go home for it.
        let brought = Step { size: missed * self.chunk_bytes, ..*step };
        let there_ns = if missed == 0 { start_ns } else { self.home.end_ns(start_ns, &brought) };
        // The buffer has its own queue, in which a hit does not wait for another's miss.
        self.buffer.end_ns(start_ns, step) + (there_ns - start_ns)
    }
}

/// Another pace, with chance in it: a step takes up to twice as long, as on machines that others use, too. No two seeds give the same run.
pub struct Varied<P> {
    pace: P,
    rng: Rng,
}

impl<P: Pace> Varied<P> {
    /// With this seed.
    #[must_use]
    pub fn new(pace: P, seed: u64) -> Varied<P> {
        Varied { pace, rng: Rng::new(seed) }
    }
}

impl<P: Pace> Pace for Varied<P> {
    fn end_ns(&mut self, start_ns: u64, step: &Step) -> u64 {
        let end_ns = self.pace.end_ns(start_ns, step);
        end_ns + self.rng.below(end_ns - start_ns + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_trace::Op;

    fn step(offset: u64, size: u64) -> Step {
        Step { think_ns: 0, op: Op::Read, file: 0, offset, size }
    }

    #[test]
    fn one_is_held_by_its_own_limit_and_many_by_the_store() {
        let mut store = Direct::new(10, 1_000_000_000, 2_000_000_000);
        let ends = [0; 4].map(|start_ns| store.end_ns(start_ns, &step(0, 1000)));
        assert_eq!(ends, [1010, 1010, 1500, 2000]);
        assert_eq!(store.end_ns(10_000, &step(0, 1000)), 11_010, "it was idle");
    }

    #[test]
    fn what_was_used_last_is_fast() {
        let (fast, slow) = (Direct::new(1, 1 << 40, 1 << 40), Direct::new(1000, 1 << 40, 1 << 40));
        let mut pace = Buffered::new(fast, slow, 10, 20);
        let mut took = |offset, size| pace.end_ns(0, &step(offset, size)) / 1000;
        assert_eq!([took(0, 5), took(5, 5), took(10, 10), took(0, 1), took(20, 1), took(10, 1), took(20, 1)], [1, 0, 1, 0, 1, 1, 0]);
    }

    #[test]
    fn chance_only_adds_and_follows_the_seed() {
        let run = |seed| {
            let mut pace = Varied::new(Direct::new(100, 1 << 40, 1 << 40), seed);
            (0..50).map(|_| pace.end_ns(0, &step(0, 1))).collect::<Vec<u64>>()
        };
        assert!(run(1).iter().all(|end_ns| (100..=200).contains(end_ns)) && run(1) == run(1) && run(1) != run(2));
    }
}
