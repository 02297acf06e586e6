//! The model of the buffer against the thesis's examples, worked by hand, and against what must hold for every trace.

use forebay_core::config::{ReplacementKind, WriteBack};
use forebay_sim::buffer::{
    BufferConfig, Counting, Formula, Granularity, Infeasible, Outcome, Policy, Rates, Sweep, SweepError, Times, Workload, WorkloadBuilder,
    simulate,
};
use forebay_sim::rng::Rng;
use forebay_trace::statistics::chunks::{Continuation, Touches};
use forebay_trace::statistics::reuse::Reuse;
use forebay_trace::{FileId, Op, Record};

const CHUNK: u32 = 1 << 20;
const SECOND: u64 = 1_000_000_000;

fn access(op: Op, at_ns: u64, file: u32, chunk: u64) -> Record {
    let size = u64::from(CHUNK);
    Record { file: FileId(file), offset: chunk * size, size, result: size as i64, ..Record::new(op, at_ns) }
}

fn workload(records: &[Record]) -> Workload {
    let mut builder = WorkloadBuilder::new(CHUNK);
    records.iter().for_each(|record| builder.add(record));
    let files = records.iter().map(|record| record.file.0 + 1).max().unwrap_or(0);
    builder.finish((0..files).map(|file| format!("/file{file}")).collect())
}

/// `rA wB`: one operation each second.
fn parse(text: &str) -> Vec<Record> {
    let operation = |(at, word): (usize, &str)| {
        let (op, chunk) = word.split_at(1);
        access(if op == "w" { Op::Write } else { Op::Read }, at as u64 * SECOND, 0, u64::from(chunk.as_bytes()[0] - b'A'))
    };
    text.split_whitespace().enumerate().map(operation).collect()
}

fn config(chunks: u64) -> BufferConfig {
    BufferConfig {
        capacity_bytes: chunks * u64::from(CHUNK),
        policy: Policy::Online(ReplacementKind::Lru),
        granularity: Granularity::Chunk,
        write_back: WriteBack::Sync,
        counting: Counting::Chunks,
        nodes: 1,
    }
}

/// Throughput in chunks a second.
fn rates(home: f64, buffer: f64) -> Rates {
    Rates::constant(home * f64::from(CHUNK), buffer * f64::from(CHUNK))
}

fn run(workload: &Workload, config: BufferConfig) -> Outcome {
    simulate(workload, &config, &rates(0.5, 10.0)).expect("it is feasible")
}

/// IS, RHS, RMS, WS, WBS in chunks.
fn five(outcome: &Outcome) -> [u64; 5] {
    let c = &outcome.counters;
    [c.first_read_chunks, c.read_hit_chunks, c.read_again_chunks, c.write_chunks, c.write_back_chunks]
}

/// Percents with one digit.
fn percents(outcome: &Outcome) -> [f64; 2] {
    [Formula::Paper, Formula::Full].map(|formula| (outcome.throughput(formula).ratio() * 1000.0).round() / 10.0)
}

const TOY: &str = "rA wB rA wC rB wC rA";

/// B-02, B-03 [THESIS-3].
#[test]
fn the_toy_trace_of_the_thesis() {
    let toy = workload(&parse(TOY));
    let sync = run(&toy, config(2));
    assert_eq!((five(&sync), percents(&sync)), ([1, 1, 2, 3, 1], [29.4, 31.0]));
    let chunks_a_second = |outcome: &Outcome, formula| {
        let found = outcome.throughput(formula);
        [found.max, found.actual].map(|rate| (rate / f64::from(CHUNK) * 1e4).round() / 1e4)
    };
    assert_eq!(chunks_a_second(&sync, Formula::Paper), [2.0, 0.5882]);
    assert_eq!(chunks_a_second(&sync, Formula::Full), [2.5926, 0.8046]);
    let later = run(&toy, BufferConfig { write_back: WriteBack::Async, ..config(2) });
    assert_eq!((five(&later), later.counters.background_chunks, percents(&later)), ([1, 1, 2, 3, 0], 2, [38.5, 40.3]));
    let unlimited = run(&toy, config(100));
    assert_eq!(five(&unlimited), [1, 3, 0, 3, 0]);
    for formula in [Formula::Paper, Formula::Full] {
        assert_eq!(unlimited.throughput(formula).ratio(), 1.0, "an unlimited buffer is the best one");
    }
}

/// B-03: IS 1200, RHS 20000, RMS 300, WS 7500, WBS 500 MB, at 100 and 1000 MB/s.
#[test]
fn the_plain_formulas() {
    let times = Times { first_read_s: 12.0, read_again_s: 3.0, write_back_s: 5.0, buffer_s: 29.0, buffer_read_again_s: 0.3 };
    let bytes = [1200.0, 20_000.0, 300.0, 7500.0, 500.0];
    let outcome = Outcome { config: config(1), counters: Default::default(), bytes, asked: [1200.0, 300.0], times };
    let found = outcome.throughput(Formula::Paper);
    assert_eq!((found.total_bytes, (found.max * 1000.0).round(), (found.actual * 1000.0).round()), (28_700.0, 705_160.0, 589_322.0));
    assert_eq!((found.ratio() * 1e4).round(), 8357.0);
}

/// B-01: a write to what is there makes no room, and a write to what is not there reads nothing.
#[test]
fn overwriting_evicts_nothing() {
    let outcome = run(&workload(&parse("wA wB wA wB rA")), config(2));
    assert_eq!((five(&outcome), outcome.counters.evicted_chunks), ([0, 1, 0, 4, 0], 0));
}

/// B-08 to B-12 [THESIS-4]: hits on the three strings, with the optimum.
#[test]
fn reference_strings_with_the_optimum() {
    let hits = |string: &str, slots| {
        let words: String = string.chars().map(|letter| format!("r{letter} ")).collect();
        let workload = workload(&parse(&words));
        ["fifo", "lru", "lfu", "lfuda", "belady"].map(|name| {
            let policy = Policy::named().into_iter().find(|(known, _)| *known == name).expect("it exists").1;
            run(&workload, BufferConfig { policy, ..config(slots) }).counters.read_hit_chunks
        })
    };
    assert_eq!(hits("ABCABDABCD", 3), [2, 4, 4, 4, 5]);
    assert_eq!(hits(&"ABCD".repeat(5), 3), [0, 0, 0, 0, 11]);
    assert_eq!(hits(&format!("{}{}", "A".repeat(6), "BCDE".repeat(6)), 4), [25, 25, 5, 10, 25]);
}

/// A random trace: a hot set, reads and writes, several files, times that go on or stand still.
fn random_records(seed: u64, count: usize) -> Vec<Record> {
    let mut rng = Rng::new(seed);
    let mut now_ns = 0;
    let mut record = |_| {
        now_ns += rng.below(4) * SECOND / 2;
        let chunk = rng.below(60) * rng.below(60) / 60;
        access(if rng.below(10) < 4 { Op::Write } else { Op::Read }, now_ns, (chunk % 7) as u32, chunk / 7)
    };
    (0..count).map(&mut record).collect()
}

#[test]
fn what_holds_for_every_trace_and_policy() {
    for seed in 0..6 {
        println!("FOREBAY_SEED={seed}");
        let records = random_records(seed, 1500);
        let trace = workload(&records);
        for chunks in [1, 2, 5, 13, 30] {
            let best = run(&trace, BufferConfig { policy: Policy::Belady, ..config(chunks) });
            for (name, policy) in Policy::named() {
                let config = BufferConfig { policy, ..config(chunks) };
                let sync = run(&trace, config);
                let hits = |outcome: &Outcome| outcome.counters.read_hit_chunks + outcome.counters.write_hits;
                assert!(hits(&sync) <= hits(&best), "{name} with {chunks} chunks hits more often than the optimum");
                let [first, hit, again, writes, _] = five(&sync);
                assert_eq!(first + hit + again + writes, 1500);
                let sum: f64 = sync.shares().iter().sum();
                assert!((sum - 1.0).abs() < 1e-12, "B-15: shares sum to {sum}");
                let later = BufferConfig { write_back: WriteBack::Async, ..config };
                let [none, some, all] =
                    [0.0, 0.7, 1e12].map(|home| simulate(&trace, &later, &rates(home, 10.0)).expect("feasible").counters);
                assert_eq!(none.write_back_chunks, sync.counters.write_back_chunks, "B-05: a home that takes nothing");
                assert!(some.write_back_chunks <= sync.counters.write_back_chunks, "B-05: {name}, {chunks} chunks");
                assert!(all.write_back_chunks <= some.write_back_chunks);
                assert_eq!(run(&trace, config), sync, "the same again");
            }
        }
    }
}

/// B-05: with time between any two operations, a home that is fast enough leaves nothing to write back for room.
#[test]
fn a_fast_home_takes_everything_in_the_background() {
    let mut records = random_records(3, 800);
    records.iter_mut().enumerate().for_each(|(at, record)| record.start_ns = at as u64);
    let later = BufferConfig { write_back: WriteBack::Async, ..config(3) };
    let outcome = simulate(&workload(&records), &later, &rates(1e12, 1e12)).expect("feasible");
    assert_eq!(outcome.counters.write_back_chunks, 0);
    assert!(outcome.counters.background_chunks > 100);
}

/// The curves of the statistics are the simulation's, at every capacity: misses, and chunks that go home.
#[test]
fn simulation_and_reuse_distances_agree() {
    for seed in 10..14 {
        let records = random_records(seed, 2000);
        let (mut reuse, mut touches) = (Reuse::new(), Touches::new(CHUNK, Continuation::Off));
        records.iter().for_each(|record| touches.of(record, |touch| reuse.touch(&touch)));
        let all = reuse.reads.plus(&reuse.writes);
        let trace = workload(&records);
        for chunks in 1..50 {
            let counters = run(&trace, config(chunks)).counters;
            assert!((counters.miss_ratio() - all.miss_ratios(&[chunks])[0]).abs() < 1e-9, "seed {seed}, {chunks} chunks");
            assert_eq!(
                counters.write_back_chunks + counters.dirty_chunks_left,
                reuse.written_home(&[chunks])[0],
                "seed {seed}, {chunks} chunks"
            );
        }
    }
}

/// B-07 [THESIS-5]: two files of ten chunks. After both were read once, the first chunk of each is read, in turn, eight times.
#[test]
fn files_come_in_and_go_as_a_whole() {
    let mut records: Vec<Record> = (0..2).flat_map(|file| (0..10).map(move |chunk| access(Op::Read, 0, file, chunk))).collect();
    records.extend((0..8).map(|turn| access(Op::Read, turn, (turn % 2) as u32, 0)));
    let files = |chunks| BufferConfig { granularity: Granularity::File { dirty_only: false }, ..config(chunks) };
    let swapped_in = |count: usize, config| {
        let counters = run(&workload(&records[..count]), config).counters;
        counters.first_read_chunks + counters.read_again_chunks
    };
    assert_eq!(swapped_in(28, files(12)) - swapped_in(20, files(12)), 80);
    assert_eq!(swapped_in(28, config(12)) - swapped_in(20, config(12)), 1, "only the first file's first chunk had gone");
    let whole = workload(&records);
    let error = simulate(&whole, &files(9), &rates(1.0, 1.0)).unwrap_err();
    assert_eq!(error, Infeasible::FileTooLarge { path: "/file1".into(), file_bytes: 10 << 20, capacity_bytes: 9 << 20 });
    assert!(simulate(&whole, &config(9), &rates(1.0, 1.0)).is_ok());
    assert!(matches!(simulate(&whole, &config(0), &rates(1.0, 1.0)), Err(Infeasible::NoChunk { .. })));
}

/// A file that is swapped out goes home as a whole, or its dirty chunks only.
#[test]
fn dirty_files_go_home() {
    let mut records = vec![access(Op::Write, 0, 0, 3)];
    records.extend((0..4).map(|chunk| access(Op::Read, 1, 1, chunk)));
    let trace = workload(&records);
    let back =
        |dirty_only| run(&trace, BufferConfig { granularity: Granularity::File { dirty_only }, ..config(5) }).counters.write_back_chunks;
    assert_eq!((back(false), back(true)), (4, 1));
}

/// B-14: more nodes have a faster buffer in front of the same home, so that of a small buffer's best they reach less.
#[test]
fn the_ratio_falls_with_nodes() {
    let trace = workload(&random_records(5, 1500));
    let ratio = |nodes| run(&trace, BufferConfig { nodes, ..config(10) }).throughput(Formula::Paper).ratio();
    let ratios = [1, 2, 8, 32].map(ratio);
    assert!(ratios.windows(2).all(|pair| pair[0] > pair[1]), "{ratios:?}");
}

/// B-19: if all data of a part fits, the order within the part changes no hit.
#[test]
fn order_within_a_part_that_fits_does_not_matter() {
    let part = |seed: u64, rng: &mut Rng, order: &mut Rng| {
        let chunks: Vec<u64> = (0..12).map(|_| seed * 6 + rng.below(8)).collect();
        let mut records: Vec<Record> = chunks.into_iter().map(|chunk| access(Op::Read, seed, 0, chunk)).collect();
        for at in (1..records.len()).rev() {
            records.swap(at, order.below(at as u64 + 1) as usize);
        }
        records
    };
    let hits = |order_seed| {
        let (mut rng, mut order) = (Rng::new(1), Rng::new(order_seed));
        let records: Vec<Record> = (0..20).flat_map(|seed| part(seed, &mut rng, &mut order)).collect();
        run(&workload(&records), config(16)).counters.read_hit_chunks
    };
    let expected = hits(0);
    assert!(expected > 20 * 4);
    (1..30).for_each(|order| assert_eq!(hits(order), expected));
}

#[test]
fn bytes_are_counted_as_asked_for() {
    let half = |op, at| Record { size: u64::from(CHUNK) / 2, result: i64::from(CHUNK / 2), ..access(op, at, 0, 0) };
    let trace = workload(&[half(Op::Read, 0), half(Op::Read, 1), half(Op::Write, 2)]);
    let outcome = run(&trace, BufferConfig { counting: Counting::Bytes, ..config(4) });
    let (chunk, half) = (f64::from(CHUNK), f64::from(CHUNK) / 2.0);
    assert_eq!(outcome.bytes, [chunk, half, 0.0, half, 0.0]);
}

fn sweep_configs() -> Vec<BufferConfig> {
    let policies = Policy::named();
    (1..6).flat_map(|chunks| policies.iter().map(move |(_, policy)| BufferConfig { policy: *policy, ..config(chunks * 4) })).collect()
}

#[test]
fn a_sweep_is_the_same_with_any_threads_and_when_it_goes_on() {
    let (trace, rates) = (workload(&random_records(8, 1200)), rates(1.0, 10.0));
    let configs = sweep_configs();
    let line =
        |config: &BufferConfig, outcome: Result<Outcome, Infeasible>| format!("{} {:?}", config.key(), five(&outcome.expect("feasible")));
    let sweep = |configs: &'static [BufferConfig], threads| Sweep { workload: &trace, rates: &rates, configs, threads };
    let all: &'static [BufferConfig] = configs.leak();
    let alone = sweep(all, 1).run(None, line, |_| ()).unwrap();
    assert_eq!(alone.len(), 50);
    assert_eq!(sweep(all, 4).run(None, line, |_| ()).unwrap(), alone);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results");
    sweep(&all[10..30], 2).run(Some(&path), line, |_| ()).unwrap();
    // The last line is cut off, as by a crash.
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..text.len() - 5]).unwrap();
    let known = std::sync::Mutex::new(usize::MAX);
    let note = |progress: forebay_sim::buffer::Progress| {
        let mut known = known.lock().unwrap();
        *known = (*known).min(progress.done);
    };
    assert_eq!(sweep(all, 3).run(Some(&path), line, note).unwrap(), alone);
    assert_eq!(*known.lock().unwrap(), 19, "what was there is not done again");

    let other = workload(&random_records(9, 1200));
    let refused = Sweep { workload: &other, rates: &rates, configs: all, threads: 1 }.run(Some(&path), line, |_| ());
    assert!(matches!(refused, Err(SweepError::OfAnother { .. })));
}
