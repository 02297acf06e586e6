//! Swapping by chunks (B-01, B-04, B-05, B-06).

use forebay_core::policy::replacement::{self, Ranking, RankingUser};

use super::background::Background;
use super::belady::{Belady, next_uses};
use super::result::Counters;
use super::workload::{Reference, Workload};
use super::{BufferConfig, Policy, Rates};

/// What is known of a chunk: it was in the buffer once; what is there is dirty.
const SEEN: u8 = 1;
const DIRTY: u8 = 2;

struct Run<'a> {
    workload: &'a Workload,
    capacity_chunks: u64,
    background: Option<Background>,
}

pub(super) fn run(workload: &Workload, config: &BufferConfig, rates: &Rates) -> Counters {
    let capacity_chunks = config.capacity_bytes / u64::from(workload.chunk_bytes());
    let background = Background::of(workload, config, rates);
    let run = Run { workload, capacity_chunks, background };
    match config.policy {
        Policy::Online(kind) => replacement::with(kind, capacity_chunks, run),
        Policy::Belady => run.run(Belady::new(next_uses(&workload.references, workload.chunks()))),
    }
}

impl RankingUser for Run<'_> {
    type Result = Counters;

    fn run(self, ranking: impl Ranking) -> Counters {
        let Run { workload, capacity_chunks, background } = self;
        let known = vec![0; workload.chunks() as usize];
        let mut model = Model { ranking, workload, capacity_chunks, background, known, counters: Counters::default() };
        model.ranking.reserve(workload.chunks());
        if model.background.is_none() {
            workload.references.iter().for_each(|reference| model.reference(*reference));
            return model.finish();
        }
        for (start_ns, references) in workload.by_operation() {
            model.run_background(start_ns);
            references.iter().for_each(|reference| model.reference(*reference));
        }
        model.finish()
    }
}

struct Model<'a, R> {
    ranking: R,
    workload: &'a Workload,
    capacity_chunks: u64,
    background: Option<Background>,
    /// By chunk.
    known: Vec<u8>,
    counters: Counters,
}

impl<R: Ranking> Model<'_, R> {
    fn run_background(&mut self, now_ns: u64) {
        if let Some(background) = &mut self.background {
            let (known, counters) = (&mut self.known, &mut self.counters);
            background.run_until(now_ns, |chunk| {
                known[chunk as usize] &= !DIRTY;
                counters.background_chunks += 1;
            });
        }
    }

    fn finish(mut self) -> Counters {
        self.counters.dirty_chunks_left = self.known.iter().filter(|known| **known & DIRTY != 0).count() as u64;
        self.counters
    }

    #[inline]
    fn reference(&mut self, reference: Reference) {
        let chunk = reference.chunk();
        let known = self.known[chunk as usize];
        let is_hit = self.ranking.contains(chunk);
        self.counters.count(reference, is_hit, known & SEEN != 0, 1);
        if reference.is_write() {
            self.known[chunk as usize] = SEEN | DIRTY;
            if let Some(background) = &mut self.background {
                background.push(chunk);
            }
        } else if known & SEEN == 0 {
            self.known[chunk as usize] = SEEN;
        }
        if is_hit { self.ranking.on_access(chunk, |_| ()) } else { self.enter(chunk) }
    }

    fn enter(&mut self, chunk: u32) {
        self.ranking.on_miss(chunk);
        while self.ranking.len() as u64 >= self.capacity_chunks {
            let victim = self.ranking.victim(|_| true).expect("a full buffer has a chunk that can go");
            self.ranking.on_evict(victim, |_| ());
            self.counters.evicted_chunks += 1;
            if std::mem::replace(&mut self.known[victim as usize], SEEN) & DIRTY != 0 {
                self.counters.write_back_chunks += 1;
                if let Some(background) = &mut self.background {
                    background.remove(victim);
                }
            }
        }
        self.ranking.on_insert(chunk, self.workload.hashes[chunk as usize], |_| ());
    }
}
