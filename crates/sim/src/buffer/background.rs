//! Writing back in the background (B-05): a queue of dirty chunks, which home takes from the old end as fast as it can.

use forebay_core::config::WriteBack;

use super::workload::Workload;
use super::{BufferConfig, Level, Rates};

const NIL: u32 = u32::MAX;
const NS_PER_S: u128 = 1_000_000_000;

/// Dirty chunks in the order of their last write.
pub(super) struct Background {
    /// Neighbours of each chunk, towards the older and the newer.
    links: Vec<(u32, u32)>,
    queued: Vec<bool>,
    oldest: u32,
    newest: u32,
    /// What home could have taken and was not given, in bytes times a second's nanoseconds. None is kept while there is nothing to take.
    budget: u128,
    bytes_per_s: u128,
    chunk_cost: u128,
    last_ns: Option<u64>,
}

impl Background {
    /// One, if this buffer writes back in the background.
    pub(super) fn of(workload: &Workload, config: &BufferConfig, rates: &Rates) -> Option<Background> {
        let bytes_per_s = || rates.of(config.nodes, Level::HomeWrite, u64::from(workload.chunk_bytes()));
        (config.write_back == WriteBack::Async).then(|| Background::new(workload, bytes_per_s()))
    }

    /// Home takes this many bytes a second.
    fn new(workload: &Workload, bytes_per_s: f64) -> Background {
        Background {
            links: vec![(NIL, NIL); workload.chunks() as usize],
            queued: vec![false; workload.chunks() as usize],
            oldest: NIL,
            newest: NIL,
            budget: 0,
            bytes_per_s: if bytes_per_s.is_finite() { bytes_per_s as u128 } else { u128::from(u64::MAX) },
            chunk_cost: u128::from(workload.chunk_bytes()) * NS_PER_S,
            last_ns: None,
        }
    }

    /// Time goes on to `now_ns`; gives each chunk that home has taken until then.
    pub(super) fn run_until(&mut self, now_ns: u64, mut is_home: impl FnMut(u32)) {
        let passed = now_ns - self.last_ns.replace(now_ns).unwrap_or(now_ns);
        self.budget = self.budget.saturating_add(u128::from(passed) * self.bytes_per_s);
        while self.budget >= self.chunk_cost && self.oldest != NIL {
            self.budget -= self.chunk_cost;
            let chunk = self.oldest;
            self.remove(chunk);
            is_home(chunk);
        }
        if self.oldest == NIL {
            self.budget = 0;
        }
    }

    /// The chunk was written.
    pub(super) fn push(&mut self, chunk: u32) {
        if self.newest == chunk {
            return;
        }
        self.remove(chunk);
        self.queued[chunk as usize] = true;
        self.links[chunk as usize] = (self.newest, NIL);
        match self.newest {
            NIL => self.oldest = chunk,
            newest => self.links[newest as usize].1 = chunk,
        }
        self.newest = chunk;
    }

    /// The chunk needs no writing back any more.
    pub(super) fn remove(&mut self, chunk: u32) {
        if !std::mem::take(&mut self.queued[chunk as usize]) {
            return;
        }
        let (older, newer) = self.links[chunk as usize];
        match older {
            NIL => self.oldest = newer,
            older => self.links[older as usize].1 = newer,
        }
        match newer {
            NIL => self.newest = older,
            newer => self.links[newer as usize].0 = older,
        }
    }
}
