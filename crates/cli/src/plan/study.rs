//! What a plan rests on: the trace in its own order and in others, each with buffers of many sizes.

use forebay_core::config::WriteBack;
use forebay_sim::buffer::{BufferConfig, Counting, Formula, Granularity, Level, Order, Outcome, Policy, Rates, Workload, simulate};
use forebay_sim::parallel;
use forebay_trace::statistics::chunks::is_access;
use forebay_trace::statistics::phases::{Part, Phases};
use forebay_trace::statistics::totals::{Moved, Totals};
use forebay_trace::{Record, statistics::patterns::Share};

/// Capacities of the curve at most, each the double of the one before.
const CAPACITIES_MAX: u32 = 24;
/// Steps towards the capacity that is enough, between two capacities of the curve: it is right to a sixty-fourth of their distance.
const STEPS: u32 = 6;

/// What the trace says of time and bytes beside its references.
#[derive(Default)]
pub(super) struct Clock {
    pub(super) totals: Totals,
    phases: Phases,
    first_ns: Option<u64>,
    busy_until_ns: u64,
    /// Without reads and writes.
    idle_ns: u64,
}

impl Clock {
    pub(super) fn add(&mut self, record: &Record) {
        self.totals.add(record);
        self.phases.add(record);
        let first_ns = *self.first_ns.get_or_insert(record.start_ns);
        self.busy_until_ns = self.busy_until_ns.max(first_ns);
        // What is neither read nor write passes with or without a buffer.
        let moves = is_access(record) && record.moved_bytes() > 0;
        if record.start_ns > self.busy_until_ns {
            self.idle_ns += record.start_ns - self.busy_until_ns;
            self.busy_until_ns = record.start_ns;
        }
        let end_ns = record.end_ns();
        if end_ns > self.busy_until_ns {
            self.idle_ns += if moves { 0 } else { end_ns - self.busy_until_ns };
            self.busy_until_ns = end_ns;
        }
    }

    pub(super) fn parts(&self) -> Vec<Part> {
        self.phases.parts()
    }

    /// Seconds without reads and writes.
    pub(super) fn other_s(&self) -> f64 {
        self.idle_ns as f64 / 1e9
    }

    pub(super) fn span_s(&self) -> f64 {
        self.busy_until_ns.saturating_sub(self.first_ns.unwrap_or(0)) as f64 / 1e9
    }
}

/// What is asked of the buffer.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) policy: Policy,
    pub(super) write_back: WriteBack,
    pub(super) nodes: u32,
    /// The share of an unlimited buffer's throughput.
    pub(super) target: f64,
}

/// What one order of the trace gives.
#[derive(Clone)]
pub(super) struct Run {
    /// At each capacity of the curve, the share of an unlimited buffer's throughput.
    pub(super) ratios: Vec<f64>,
    /// The smallest capacity that is enough.
    pub(super) needed_bytes: u64,
}

pub(super) struct Study<'a> {
    pub(super) workload: &'a Workload,
    pub(super) rates: &'a Rates,
    pub(super) wanted: Wanted,
    pub(super) capacities: Vec<u64>,
}

impl<'a> Study<'a> {
    pub(super) fn new(workload: &'a Workload, rates: &'a Rates, wanted: Wanted) -> Study<'a> {
        let chunk_bytes = u64::from(workload.chunk_bytes());
        let mut capacities: Vec<u64> = (0..CAPACITIES_MAX)
            .map(|halves| (u64::from(workload.chunks()) >> halves) * chunk_bytes)
            .take_while(|capacity| *capacity > 0)
            .collect();
        capacities.reverse();
        Study { workload, rates, wanted, capacities }
    }

    pub(super) fn outcome(&self, workload: &Workload, capacity_bytes: u64) -> Option<Outcome> {
        let Wanted { policy, write_back, nodes, .. } = self.wanted;
        let config = BufferConfig { capacity_bytes, policy, granularity: Granularity::Chunk, write_back, counting: Counting::Bytes, nodes };
        simulate(workload, &config, self.rates).ok()
    }

    fn ratio(&self, workload: &Workload, capacity_bytes: u64) -> f64 {
        self.outcome(workload, capacity_bytes).map_or(0.0, |outcome| outcome.throughput(Formula::Full).ratio())
    }

    fn run(&self, workload: &Workload) -> Run {
        let ratios: Vec<f64> = self.capacities.iter().map(|capacity| self.ratio(workload, *capacity)).collect();
        // A larger buffer may be worse for some policies: from here on none is too slow.
        let enough = ratios.iter().rposition(|ratio| *ratio < self.wanted.target).map_or(0, |at| at + 1).min(ratios.len() - 1);
        let chunk_bytes = u64::from(workload.chunk_bytes());
        let mut high = self.capacities[enough] / chunk_bytes;
        let mut low = if enough == 0 { high } else { self.capacities[enough - 1] / chunk_bytes };
        for _ in 0..STEPS {
            if high - low <= 1 {
                break;
            }
            let middle = low.midpoint(high);
            if self.ratio(workload, middle * chunk_bytes) >= self.wanted.target { high = middle } else { low = middle }
        }
        Run { ratios, needed_bytes: high * chunk_bytes }
    }

    /// The trace as it is, first, and in so many other orders; on several threads. `each` is called for each that is done.
    pub(super) fn runs(&self, parts: &[Part], variations: u32, seed: u64, threads: usize, each: impl Fn() + Sync) -> Vec<Run> {
        let variations = if parts.iter().any(Part::is_parallel) { variations as usize } else { 0 };
        parallel::map(threads, variations + 1, |at| {
            let run = match at {
                0 => self.run(self.workload),
                _ => self.run(&self.workload.varied(parts, Order::Interleaved, seed.wrapping_add(at as u64))),
            };
            each();
            run
        })
    }

    /// Seconds that home takes for all of it without a buffer.
    pub(super) fn direct_s(&self, moved: &Moved) -> f64 {
        let seconds = |level, share: Share| {
            let size = share.bytes.checked_div(share.requests).unwrap_or(0);
            share.bytes as f64 / self.rates.of(self.wanted.nodes, level, size)
        };
        let both = [(Level::HomeRead, moved.read), (Level::HomeWrite, moved.written)];
        both.into_iter().filter(|(_, share)| share.bytes > 0).map(|(level, share)| seconds(level, share)).sum()
    }

    /// Seconds of reads and writes with the buffer, and then of bringing home what is left.
    pub(super) fn buffered_s(&self, outcome: &Outcome) -> (f64, f64) {
        let times = &outcome.times;
        let chunk_bytes = u64::from(self.workload.chunk_bytes());
        let left = (outcome.counters.dirty_chunks_left * chunk_bytes) as f64;
        let drain_s = left / self.rates.of(self.wanted.nodes, Level::HomeWrite, chunk_bytes);
        (times.first_read_s + times.read_again_s + times.write_back_s + times.buffer_s, drain_s)
    }
}

#[cfg(test)]
mod tests {
    use forebay_trace::{Op, Record};

    use super::*;

    #[test]
    fn only_reads_and_writes_are_bought_off() {
        let mut clock = Clock::default();
        let data = |start_ns, duration_ns| Record { duration_ns, size: 1, result: 1, ..Record::new(Op::Write, start_ns) };
        // Busy 100 to 150 and 300 to 400; a stat from 140 to 200 costs 50 of its own.
        let stat = Record { duration_ns: 60, ..Record::new(Op::Stat, 140) };
        for record in [data(100, 50), stat, data(300, 100), data(320, 10)] {
            clock.add(&record);
        }
        assert_eq!((clock.idle_ns, clock.span_s()), (150, 300.0 / 1e9));
    }
}
