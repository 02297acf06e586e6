//! Swapping by whole files (B-07): a file is in the buffer with all of its chunks or not at all.
//!
//! A read of a file that is not there brings all of it in, and so does a write to one that was swapped out; a write to one that
//! was never there makes it, as a new file. Files are as large as the trace says in the end.

use forebay_core::policy::replacement::{self, Ranking, RankingUser};

use super::background::Background;
use super::result::Counters;
use super::workload::{Reference, Workload};
use super::{Belady, BufferConfig, Infeasible, Policy, Rates};

struct Run<'a> {
    workload: &'a Workload,
    capacity_chunks: u64,
    dirty_only: bool,
    background: Option<Background>,
}

pub(super) fn run(workload: &Workload, config: &BufferConfig, rates: &Rates, dirty_only: bool) -> Result<Counters, Infeasible> {
    let chunk_bytes = u64::from(workload.chunk_bytes());
    let capacity_chunks = config.capacity_bytes / chunk_bytes;
    let sizes = &workload.file_chunks;
    if let Some(largest) = (0..sizes.len()).max_by_key(|file| sizes[*file]).filter(|file| sizes[*file] > capacity_chunks) {
        let (path, file_bytes) = (workload.path(largest).to_owned(), sizes[largest] * chunk_bytes);
        return Err(Infeasible::FileTooLarge { path, file_bytes, capacity_bytes: config.capacity_bytes });
    }
    let used = sizes.iter().filter(|chunks| **chunks > 0).count().max(1) as u64;
    let files_about = (capacity_chunks / (sizes.iter().sum::<u64>() / used).max(1)).max(1);
    let background = Background::of(workload, config, rates);
    let run = Run { workload, capacity_chunks, dirty_only, background };
    Ok(match config.policy {
        Policy::Online(kind) => replacement::with(kind, files_about, run),
        Policy::Belady => run.run(Belady::new(next_uses_of_files(workload))),
    })
}

fn next_uses_of_files(workload: &Workload) -> Vec<u32> {
    let mut next_of = vec![u32::MAX; workload.file_chunks.len()];
    let mut next = vec![u32::MAX; workload.references.len()];
    for (at, reference) in workload.references.iter().enumerate().rev() {
        let file = workload.files[reference.chunk() as usize];
        next[at] = std::mem::replace(&mut next_of[file as usize], at as u32);
    }
    next
}

impl RankingUser for Run<'_> {
    type Result = Counters;

    fn run(self, ranking: impl Ranking) -> Counters {
        let Run { workload, capacity_chunks, dirty_only, background } = self;
        let files = workload.file_chunks.len();
        let mut model = Model {
            ranking,
            workload,
            free_chunks: capacity_chunks,
            dirty_only,
            background,
            dirty: vec![false; workload.chunks() as usize],
            listed: vec![false; workload.chunks() as usize],
            listed_of: vec![Vec::new(); files],
            seen: vec![false; files],
            counters: Counters::default(),
        };
        model.ranking.reserve(files as u32);
        for (start_ns, references) in workload.by_operation() {
            model.run_background(start_ns);
            references.iter().for_each(|reference| model.reference(*reference));
        }
        model.counters.dirty_chunks_left = model.dirty.iter().filter(|dirty| **dirty).count() as u64;
        model.counters
    }
}

struct Model<'a, R> {
    ranking: R,
    workload: &'a Workload,
    free_chunks: u64,
    dirty_only: bool,
    background: Option<Background>,
    /// By chunk.
    dirty: Vec<bool>,
    /// Of each file, the chunks that became dirty since it entered; those that are clean again among them. By chunk, whether it is there.
    listed_of: Vec<Vec<u32>>,
    listed: Vec<bool>,
    /// Files that were in the buffer once.
    seen: Vec<bool>,
    counters: Counters,
}

impl<R: Ranking> Model<'_, R> {
    fn run_background(&mut self, now_ns: u64) {
        if let Some(background) = &mut self.background {
            let (dirty, counters) = (&mut self.dirty, &mut self.counters);
            background.run_until(now_ns, |chunk| {
                dirty[chunk as usize] = false;
                counters.background_chunks += 1;
            });
        }
    }

    fn reference(&mut self, reference: Reference) {
        let chunk = reference.chunk();
        let file = self.workload.files[chunk as usize];
        let is_hit = self.ranking.contains(file);
        let was_seen = self.seen[file as usize];
        if is_hit {
            self.ranking.on_access(file, |_| ())
        } else {
            self.enter(file)
        }
        let loaded_chunks = self.workload.file_chunks[file as usize];
        self.counters.count(reference, is_hit, was_seen, loaded_chunks);
        if reference.is_write() {
            if !is_hit && was_seen {
                self.counters.read_again_chunks += loaded_chunks;
            }
            self.soil(chunk, file);
        }
    }

    fn soil(&mut self, chunk: u32, file: u32) {
        self.dirty[chunk as usize] = true;
        if !std::mem::replace(&mut self.listed[chunk as usize], true) {
            self.listed_of[file as usize].push(chunk);
        }
        if let Some(background) = &mut self.background {
            background.push(chunk);
        }
    }

    fn enter(&mut self, file: u32) {
        self.seen[file as usize] = true;
        self.ranking.on_miss(file);
        let wanted = self.workload.file_chunks[file as usize];
        while self.free_chunks < wanted {
            let victim = self.ranking.victim(|_| true).expect("the largest file fits into the buffer, so something can go");
            self.ranking.on_evict(victim, |_| ());
            let chunks = self.workload.file_chunks[victim as usize];
            self.free_chunks += chunks;
            self.counters.evicted_chunks += chunks;
            self.write_back(victim, chunks);
        }
        self.free_chunks -= wanted;
        self.ranking.on_insert(file, file.wrapping_mul(0x9E37_79B1), |_| ());
    }

    fn write_back(&mut self, file: u32, chunks: u64) {
        let mut dirty = 0;
        for chunk in std::mem::take(&mut self.listed_of[file as usize]) {
            self.listed[chunk as usize] = false;
            if std::mem::take(&mut self.dirty[chunk as usize]) {
                dirty += 1;
                if let Some(background) = &mut self.background {
                    background.remove(chunk);
                }
            }
        }
        if dirty > 0 {
            self.counters.write_back_chunks += if self.dirty_only { dirty } else { chunks };
        }
    }
}
