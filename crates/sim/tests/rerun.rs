//! A trace that is run again: the counts of the server's machine must not depend on how long anything takes where chunks are swapped out as they
//! enter, and must be those of the published model where operations are about whole chunks.

use forebay_core::config::{NodeConfig, ReplacementKind, WriteBack};
use forebay_core::message::Counters;
use forebay_sim::buffer::{BufferConfig, Counting, Granularity, Policy, Rates, WorkloadBuilder, simulate};
use forebay_sim::rerun::{Costs, Rerun, rerun};
use forebay_sim::rng::Rng;
use forebay_trace::{FileId, Flags, Op, ProcessId, Record};

const CHUNK: u64 = 4096;
const FILES: u32 = 6;

fn config(policy: ReplacementKind) -> NodeConfig {
    NodeConfig {
        chunk_bytes: CHUNK as u32,
        segment_bytes: 4 * CHUNK as u32,
        segments_max: 16,
        memory_segments_max: 4,
        replacement: policy,
        write_back: WriteBack::Sync,
        home_write_bytes_max: 4 * CHUNK as u32,
        ..NodeConfig::default()
    }
}

fn record(start_ns: u64, op: Op, file: u32) -> Record {
    Record { file: FileId(file), process: ProcessId(0), ..Record::new(op, start_ns) }
}

fn moved(start_ns: u64, op: Op, file: u32, offset: u64, bytes: u64) -> Record {
    Record { offset, size: bytes, result: bytes as i64, ..record(start_ns, op, file) }
}

/// Any operations on a few files, of which some were there before. Nothing is left unwritten in between: when home has the zeros of such a place
/// depends on when it gets what is behind.
fn anything(rng: &mut Rng) -> Vec<Record> {
    let mut sizes = [0u64; FILES as usize];
    let mut there = [false; FILES as usize];
    let mut records = Vec::new();
    for file in 0..FILES {
        if rng.chance(500) {
            (there[file as usize], sizes[file as usize]) = (true, rng.range(1, 40 * CHUNK));
            records.push(Record { size: sizes[file as usize], ..record(0, Op::Stat, file) });
        }
    }
    let mut now_ns = 1000;
    for _ in 0..rng.range(50, 600) {
        now_ns += *rng.pick(&[1, 1_000, 10_000_000, 3_000_000_000]);
        let file = rng.below(u64::from(FILES)) as u32;
        let at = file as usize;
        if !there[at] {
            (there[at], sizes[at]) = (true, 0);
            records.push(Record { flags: Flags::CREATE, ..record(now_ns, Op::Open, file) });
            records.push(record(now_ns, Op::Close, file));
        }
        let offset = rng.below(sizes[at] + 1);
        let bytes = *rng.pick(&[1, 500, CHUNK, 3 * CHUNK]);
        match rng.below(100) {
            0..45 => {
                records.push(moved(now_ns, Op::Write, file, offset, bytes));
                sizes[at] = sizes[at].max(offset + bytes);
            }
            45..90 => {
                let there = sizes[at].saturating_sub(offset).min(bytes);
                records.push(Record { result: there as i64, ..moved(now_ns, Op::Read, file, offset, bytes) });
            }
            90..94 => {
                sizes[at] = rng.below(sizes[at] + 1);
                records.push(Record { size: sizes[at], ..record(now_ns, Op::Truncate, file) });
            }
            94..96 => {
                there[at] = false;
                records.push(record(now_ns, Op::Unlink, file));
            }
            96..98 => {
                let to = (file + 1) % FILES;
                (there[at], there[to as usize], sizes[to as usize]) = (false, true, sizes[at]);
                records.push(Record { other: FileId(to), ..record(now_ns, Op::Rename, file) });
            }
            _ => records.push(record(now_ns, Op::Sync, file)),
        }
    }
    records
}

fn run(records: &[Record], config: &NodeConfig, costs: Costs) -> Rerun {
    const PATHS: [&[u8]; FILES as usize] = [b"a", b"b", b"c", b"d", b"e", b"f"];
    rerun(records, |file| PATHS.get(file.0 as usize).copied(), config.clone(), costs).expect("it comes to an end")
}

/// What must not depend on time.
fn counted(counters: &Counters) -> [u64; 8] {
    let c = counters;
    [c.first_read_bytes, c.hit_bytes, c.reread_bytes, c.written_bytes, c.swaps, c.dirty_swaps, c.home_read_bytes, c.reads]
}

fn seeds() -> std::ops::Range<u64> {
    match std::env::var("FOREBAY_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..std::env::var("FOREBAY_SIM_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(1) * 200,
    }
}

#[test]
fn no_count_depends_on_time() {
    let mut swapped = 0;
    for seed in seeds() {
        let mut rng = Rng::new(seed);
        let records = anything(&mut rng);
        let config = config(*rng.pick(&ReplacementKind::ALL));
        let at_once = run(&records, &config, Costs::Nothing);
        assert_eq!(at_once.failed, 0, "seed {seed}");
        swapped += at_once.counters.dirty_swaps;
        for chance in 0..3 {
            let later = run(&records, &config, Costs::Chance(seed * 3 + chance));
            assert_eq!(counted(&later.counters), counted(&at_once.counters), "FOREBAY_SEED={seed}, {:?}", config.replacement);
        }
    }
    assert!(swapped > 100, "{swapped}");
}

/// Whole chunks: three simulations of the same.
#[test]
fn the_machine_counts_what_the_model_counts() {
    for seed in seeds() {
        let mut rng = Rng::new(seed ^ 0xC0DE);
        let policy = *rng.pick(&ReplacementKind::ALL);
        let mut records = Vec::new();
        for file in 0..FILES {
            records.push(Record { flags: Flags::CREATE, ..record(u64::from(file), Op::Open, file) });
        }
        let mut sizes = [0u64; FILES as usize];
        for step in 0..800u64 {
            let file = rng.below(u64::from(FILES)) as u32;
            let size = &mut sizes[file as usize];
            let is_write = *size == 0 || rng.chance(500);
            let index = if is_write { rng.below(*size / CHUNK + 1) } else { rng.below(*size / CHUNK) };
            *size = (*size).max((index + 1) * CHUNK);
            let op = if is_write { Op::Write } else { Op::Read };
            records.push(moved(1000 + step, op, file, index * CHUNK, CHUNK));
        }
        let again = run(&records, &config(policy), Costs::Chance(seed));
        let mut builder = WorkloadBuilder::new(CHUNK as u32);
        records.iter().for_each(|record| builder.add(record));
        let buffer = BufferConfig {
            capacity_bytes: again.live_bytes_max,
            policy: Policy::Online(policy),
            granularity: Granularity::Chunk,
            write_back: WriteBack::Sync,
            counting: Counting::Chunks,
            nodes: 1,
        };
        let model = simulate(&builder.finish(Vec::new()), &buffer, &Rates::constant(1.0, 10.0)).expect("it holds a chunk").counters;
        let c = again.counters;
        let machine = [c.first_read_bytes, c.hit_bytes, c.reread_bytes, c.written_bytes].map(|bytes| bytes / CHUNK);
        assert_eq!(machine, [model.first_read_chunks, model.read_hit_chunks, model.read_again_chunks, model.write_chunks], "seed {seed}");
        assert_eq!((c.swaps, c.dirty_swaps), (model.evicted_chunks, model.write_back_chunks), "seed {seed}, {policy:?}");
    }
}
