//! Swapping by chunks (B-01, B-04, B-05, B-06).

use forebay_core::config::WriteBack;
use forebay_core::policy::replacement::{self, Ranking, RankingUser};

use super::background::Background;
use super::belady::{Belady, next_uses};
use super::result::Counters;
use super::workload::{Reference, Workload};
use super::{BufferConfig, Level, Policy, Rates};

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
    let background = (config.write_back == WriteBack::Async)
        .then(|| Background::new(workload, rates.of(config.nodes, Level::HomeWrite, u64::from(workload.chunk_bytes()))));
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
        let mut from = 0;
        for operation in &workload.operations {
            model.run_background(operation.start_ns);
            let to = operation.references_end as usize;
            workload.references[from..to].iter().for_each(|reference| model.reference(*reference));
            from = to;
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
        let counters = &mut self.counters;
        let bytes = u64::from(reference.bytes);
        let is_hit = self.ranking.contains(chunk);
        if reference.is_write() {
            counters.write_chunks += 1;
            counters.write_bytes += bytes;
            counters.write_hits += u64::from(is_hit);
            self.known[chunk as usize] = SEEN | DIRTY;
            if let Some(background) = &mut self.background {
                background.push(chunk);
            }
        } else if is_hit {
            counters.read_hit_chunks += 1;
            counters.read_hit_bytes += bytes;
        } else if known & SEEN == 0 {
            counters.first_read_chunks += 1;
            counters.first_read_references += 1;
            counters.first_read_bytes += bytes;
            self.known[chunk as usize] = SEEN;
        } else {
            counters.read_again_chunks += 1;
            counters.read_again_references += 1;
            counters.read_again_bytes += bytes;
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
