//! Similar Pages (W-16): pages of text are compared, every pair of them.
//!
//! The thesis prints 54 MB of input, 63 MB touched and 117 MB moved. So each page is read twice in the trace and no more: comparisons that
//! run at the same time read the same pages, and most of these reads meet in the memory of a node. [`Scan::Shared`] is that: a second reading
//! follows the first at some distance, larger with more nodes at work. The distance is not printed; it was chosen so that a buffer of 32 MB
//! takes nearly all of it and one of 16 MB a part. [`Scan::AllPairs`] is every comparison with reads of its own.

use forebay_trace::Op;

use super::{Program, Steps, sweep};
use crate::rng::mix;

/// How pages are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scan {
    /// Twice, the second time some way behind the first.
    Shared,
    /// Once for each other page.
    AllPairs,
}

/// One run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimilarPages {
    /// Pages.
    pub pages: u64,
    /// Bytes of a page, and of a result.
    pub page_bytes: u64,
    /// Results: each after as many pages.
    pub results: u64,
    /// How they are read.
    pub scan: Scan,
    /// Nodes that compare.
    pub nodes: u64,
    /// What is computed before each request, nanoseconds.
    pub think_ns: u64,
    /// Which page is how late.
    pub seed: u64,
}

/// The second reading follows the first by at least so many of 1024 pages, and by up to so many more: with one node, and for each doubling
/// of the nodes.
const LAG_MIN: u64 = 108;
const LAG_SPREAD: u64 = 100;
const LAG_SPREAD_PER_DOUBLING: u64 = 10;

impl SimilarPages {
    /// Sums as in the thesis's Table 5.2.
    #[must_use]
    pub fn on_nodes(nodes: u64) -> SimilarPages {
        SimilarPages {
            pages: 4608,
            page_bytes: 12 << 10,
            results: 768,
            scan: Scan::Shared,
            nodes: nodes.max(1),
            think_ns: 1_000_000,
            seed: 1,
        }
    }

    /// How many pages behind the first reading the second one is, for a page.
    fn lag(&self, page: u64) -> u64 {
        let spread = LAG_SPREAD + LAG_SPREAD_PER_DOUBLING * u64::from(self.nodes.ilog2());
        let lag = LAG_MIN + mix(self.seed ^ page.wrapping_mul(0x9E37_79B9_7F4A_7C15)) % spread;
        lag * self.pages / 1024
    }

    /// The readings in order: a page, and whether it is the second time.
    fn order(&self) -> Vec<(u64, bool)> {
        let mut places: Vec<(u64, bool, u64)> =
            (0..self.pages).flat_map(|page| [(page, false, page), (page + self.lag(page), true, page)]).collect();
        places.sort_unstable();
        places.into_iter().map(|(_, second, page)| (page, second)).collect()
    }
}

impl Program for SimilarPages {
    fn name(&self) -> &str {
        "similar-pages"
    }

    fn phases(&self) -> usize {
        1
    }

    /// As many as nodes: each takes its share of the readings, in turn.
    fn tasks(&self, _: usize) -> u64 {
        match self.scan {
            Scan::Shared => self.nodes,
            Scan::AllPairs => self.pages,
        }
    }

    fn steps(&self, _: usize, task: u64) -> Steps {
        let this = *self;
        let per_result = (this.pages / this.results.max(1)).max(1);
        let read = move |page| sweep(Op::Read, page, 0, this.page_bytes, this.page_bytes, this.think_ns);
        let result = move |page: u64| {
            let number = page / per_result;
            let is_due = page.is_multiple_of(per_result) && number < this.results;
            sweep(Op::Write, this.pages + number, 0, if is_due { this.page_bytes } else { 0 }, this.page_bytes, this.think_ns)
        };
        match this.scan {
            Scan::Shared => {
                let mine = this.order().into_iter().skip(task as usize).step_by(this.nodes as usize);
                let after = move |page, second: bool| second.then(|| result(page)).into_iter().flatten();
                Box::new(mine.flat_map(move |(page, second)| read(page).chain(after(page, second))))
            }
            Scan::AllPairs => Box::new((task..this.pages).flat_map(read).chain(result(task))),
        }
    }

    fn path(&self, file: u64) -> String {
        if file < self.pages { format!("pages/{file:05}.txt") } else { format!("results/{:05}.txt", file - self.pages) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_core::config::{ReplacementKind, WriteBack};

    use super::super::Workers;
    use super::super::tests::{records, sums};
    use super::*;
    use crate::buffer::{BufferConfig, Counting, Formula, Granularity, Policy, Rates, WorkloadBuilder, simulate};

    #[test]
    fn sums_are_as_large_as_printed() {
        for nodes in [1, 32] {
            let found = sums(SimilarPages::on_nodes(nodes), Workers::new(nodes as u32, 1));
            assert_eq!((found.read >> 20, found.written >> 20, found.space >> 20), (108, 9, 63), "MiB on {nodes} nodes");
        }
    }

    #[test]
    fn all_pairs_read_every_page_for_every_page() {
        let pages = SimilarPages { pages: 40, results: 10, scan: Scan::AllPairs, ..SimilarPages::on_nodes(4) };
        let found = sums(pages, Workers::new(4, 1));
        assert_eq!((found.read, found.written), ((40 * 41 / 2) * pages.page_bytes, 10 * pages.page_bytes));
    }

    /// More than 90 % with 32 MB; with 16 MB about 80 % on one node and 60 % on 32, where home is slow beside the buffer.
    #[test]
    fn half_the_space_is_enough() {
        let ratio = |nodes: u64, capacity_bytes, buffer_bytes_per_s| {
            let mut builder = WorkloadBuilder::new(4096);
            let (records, _) = records(Arc::new(SimilarPages::on_nodes(nodes)), Workers::new(nodes as u32, 1));
            records.iter().for_each(|record| builder.add(record));
            let (policy, granularity) = (Policy::Online(ReplacementKind::Lru), Granularity::Chunk);
            let (write_back, counting) = (WriteBack::Async, Counting::Bytes);
            let config = BufferConfig { capacity_bytes, policy, granularity, write_back, counting, nodes: 1 };
            let outcome = simulate(&builder.finish(Vec::new()), &config, &Rates::constant(0.64e9, buffer_bytes_per_s)).unwrap();
            100.0 * outcome.throughput(Formula::Paper).ratio()
        };
        let (one, many) = (1e9, 5e9);
        let found = [ratio(1, 32 << 20, one), ratio(32, 32 << 20, many), ratio(1, 16 << 20, one), ratio(32, 16 << 20, many)];
        assert!(found[0] > 90.0 && found[1] > 90.0, "{found:?}");
        assert!((found[2] - 80.0).abs() < 7.0 && (found[3] - 60.0).abs() < 7.0, "{found:?}");
    }
}
