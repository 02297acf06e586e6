//! The same trace as it could have gone otherwise (B-18, B-19). In a part of it where several processes are at work, chance decides
//! whose operation comes first; from part to part nothing changes.

use std::collections::HashMap;
use std::ops::Range;

use forebay_trace::statistics::pairs::mix;
use forebay_trace::statistics::phases::Part;

use super::workload::{Operation, Workload};

/// What chance may change within a parallel part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Each process does what it did, in its own order; every way to lay these rows into each other is as likely as any other.
    Interleaved,
    /// Any operation may come at any place: the phase model as it was published.
    Free,
}

/// Numbers that look like chance, the same ones for the same seed.
struct Chance {
    seed: u64,
    drawn: u64,
}

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.drawn += 1;
        ((u128::from(mix(0, self.drawn, self.seed)) * end as u128) >> 64) as usize
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        for at in (1..all.len()).rev() {
            let other = self.below(at + 1);
            all.swap(at, other);
        }
    }
}

impl Workload {
    /// This trace with the operations of its parallel parts in another order. Times stay: the first operation of a part begins when the
    /// first one began. Without [`WorkloadBuilder::with_processes`](super::WorkloadBuilder::with_processes), processes are not told apart
    /// and [`Order::Interleaved`] changes nothing.
    #[must_use]
    pub fn varied(&self, parts: &[Part], order: Order, seed: u64) -> Workload {
        let mut chance = Chance { seed, drawn: 0 };
        let mut from: Vec<usize> = (0..self.operations.len()).collect();
        for part in parts.iter().filter(|part| part.is_parallel()) {
            let begin = self.operations.partition_point(|operation| operation.start_ns < part.from_ns);
            let end = self.operations.partition_point(|operation| operation.start_ns < part.to_ns);
            match order {
                Order::Free => chance.shuffle(&mut from[begin..end]),
                Order::Interleaved => self.interleave(begin..end, &mut from[begin..end], &mut chance),
            }
        }
        self.in_order(&from)
    }

    /// Puts the operations of a range into `from` so that each process keeps its order.
    fn interleave(&self, range: Range<usize>, from: &mut [usize], chance: &mut Chance) {
        let Some(processes) = self.processes.get(range.clone()) else { return };
        let mut turns = processes.to_vec();
        chance.shuffle(&mut turns);
        let mut next: HashMap<u32, std::vec::IntoIter<usize>> = HashMap::new();
        let mut own: HashMap<u32, Vec<usize>> = HashMap::new();
        for (at, process) in range.zip(processes) {
            own.entry(*process).or_default().push(at);
        }
        next.extend(own.into_iter().map(|(process, all)| (process, all.into_iter())));
        for (place, process) in from.iter_mut().zip(turns) {
            *place = next.get_mut(&process).and_then(Iterator::next).expect("each process has as many turns as operations");
        }
    }

    /// The operations with these numbers, one after the other, at the times that there were.
    fn in_order(&self, from: &[usize]) -> Workload {
        let begin_of = |at: usize| if at == 0 { 0 } else { self.operations[at - 1].references_end as usize };
        let mut references = Vec::with_capacity(self.references.len());
        let mut operations = Vec::with_capacity(self.operations.len());
        for (slot, at) in from.iter().enumerate() {
            references.extend_from_slice(&self.references[begin_of(*at)..self.operations[*at].references_end as usize]);
            operations.push(Operation { start_ns: self.operations[slot].start_ns, references_end: references.len() as u64 });
        }
        let processes = from.iter().filter_map(|at| self.processes.get(*at).copied()).collect();
        Workload { references, operations, processes, ..self.clone_names() }
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::config::{ReplacementKind, WriteBack};
    use forebay_trace::statistics::phases::Phases;
    use forebay_trace::{FileId, Op, ProcessId, Record};

    use super::super::{BufferConfig, Counters, Counting, Granularity, Policy, Rates, WorkloadBuilder, simulate};
    use super::*;

    const CHUNK: u64 = 4096;

    fn record(process: u32, start_ns: u64, op: Op, chunk: u64) -> Record {
        let (process, file) = (ProcessId(process), FileId(0));
        Record { process, file, offset: chunk * CHUNK, size: CHUNK, result: CHUNK as i64, ..Record::new(op, start_ns) }
    }

    fn built(records: &[Record]) -> (Workload, Vec<Part>) {
        let (mut builder, mut phases) = (WorkloadBuilder::new(CHUNK as u32).with_processes(), Phases::default());
        for record in records {
            builder.add(record);
            phases.add(record);
        }
        (builder.finish(Vec::new()), phases.parts())
    }

    fn counters(workload: &Workload, chunks: u64) -> Counters {
        let config = BufferConfig {
            capacity_bytes: chunks * CHUNK,
            policy: Policy::Online(ReplacementKind::Lru),
            granularity: Granularity::Chunk,
            write_back: WriteBack::Sync,
            counting: Counting::Chunks,
            nodes: 1,
        };
        simulate(workload, &config, &Rates::constant(1.0, 10.0)).unwrap().counters
    }

    /// One process, then four at once, then one again: each part has its own 40 chunks, used twice.
    fn three_parts() -> Vec<Record> {
        let part = |part: u64, processes: u64| {
            (0..80).map(move |at| {
                let (chunk, process) = (part * 40 + at % 40, part * 10 + at % processes);
                record(process as u32, part * 1_000_000 + at * 10, if at < 40 { Op::Write } else { Op::Read }, chunk)
            })
        };
        part(0, 1).chain(part(1, 4)).chain(part(2, 1)).collect()
    }

    /// B-19: a buffer that holds the largest part has the same hits in every order.
    #[test]
    fn a_buffer_that_holds_a_part_does_not_see_its_order() {
        let (workload, parts) = built(&three_parts());
        assert_eq!(parts.iter().map(Part::is_parallel).collect::<Vec<_>>(), [false, true, false]);
        let expected = counters(&workload, 40);
        let mut smaller = Vec::new();
        for seed in 0..20 {
            for order in [Order::Interleaved, Order::Free] {
                let varied = workload.varied(&parts, order, seed);
                let found = counters(&varied, 40);
                let hits = |counters: &Counters| counters.read_hit_chunks + counters.write_hits;
                assert_eq!(hits(&found), hits(&expected), "seed {seed}, {order:?}");
                smaller.push(hits(&counters(&varied, 20)));
            }
        }
        assert!(smaller.iter().any(|hits| *hits != smaller[0]), "a smaller buffer does see it: {smaller:?}");
    }

    #[test]
    fn processes_keep_their_order_and_parts_their_place() {
        let (workload, parts) = built(&three_parts());
        let own = |workload: &Workload, process: u32| {
            let at = workload.processes.iter().zip(&workload.references);
            at.filter(|(own, _)| **own == process).map(|(_, reference)| *reference).collect::<Vec<_>>()
        };
        let varied = workload.varied(&parts, Order::Interleaved, 3);
        assert_ne!(varied.processes, workload.processes);
        for process in 0..30 {
            assert_eq!(own(&varied, process), own(&workload, process), "process {process}");
        }
        for order in [Order::Interleaved, Order::Free] {
            let varied = workload.varied(&parts, order, 3);
            for range in [0..80, 160..240] {
                assert_eq!(varied.references[range.clone()], workload.references[range], "{order:?}");
            }
            let starts = |workload: &Workload| workload.operations.iter().map(|operation| operation.start_ns).collect::<Vec<_>>();
            assert_eq!(starts(&varied), starts(&workload));
            assert_eq!(varied.fingerprint(), workload.varied(&parts, order, 3).fingerprint(), "the same seed, the same order");
            assert_ne!(varied.fingerprint(), workload.varied(&parts, order, 4).fingerprint());
        }
    }

    /// B-18: four processes render pictures from a common scene; whatever the order, throughput differs by no more than 15 points.
    #[test]
    fn chance_changes_little() {
        let mut records = Vec::new();
        for frame in 0..30u64 {
            for step in 0..40 {
                for process in 0..4u64 {
                    let now_ns = (frame * 40 + step) * 1000 + process;
                    let op = if step < 30 { Op::Read } else { Op::Write };
                    let chunk = if step < 30 { (step * 7 + frame) % 50 } else { 100 + (frame * 4 + process) * 10 + step - 30 };
                    records.push(record(process as u32, now_ns, op, chunk));
                }
            }
        }
        let (workload, parts) = built(&records);
        let ratio = |workload: &Workload, chunks| {
            let counters = counters(workload, chunks);
            let asked = counters.first_read_chunks + counters.read_hit_chunks + counters.read_again_chunks + counters.write_chunks;
            let best = counters.first_read_chunks as f64 + asked as f64 / 10.0;
            best / (best + (counters.read_again_chunks + counters.write_back_chunks) as f64)
        };
        let mut differences = Vec::new();
        for chunks in [5, 10, 20, 40, 60, 80, 120, 200, 400, 1250] {
            let given = ratio(&workload, chunks);
            for seed in 0..5 {
                differences.push((given - ratio(&workload.varied(&parts, Order::Interleaved, seed), chunks)).abs() * 100.0);
            }
        }
        let most = differences.iter().copied().fold(0.0, f64::max);
        let small = differences.iter().filter(|difference| **difference <= 5.0).count();
        assert!(most <= 15.0 && small * 2 > differences.len(), "{differences:?}");
    }
}
