//! Policies and reuse distances at full speed, beside the simulator that most studies of caches use (PyPI's `libcachesim`): one Zipf trace,
//! both in turn, ratios of each round, in processor time of one core.
//!
//! Ours includes what the other does not do: requests are cut at chunks, chunks get their numbers, and what is dirty is kept account of.
//! `simulate` is the policy's run alone, which is what each further configuration of a sweep costs.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use clap::Parser;
use forebay_bench::statistics::Spread;
use forebay_core::config::WriteBack;
use forebay_sim::buffer::{BufferConfig, Counting, Granularity, Policy, Rates, Workload, WorkloadBuilder, simulate};
use forebay_trace::statistics::chunks::{Continuation, Touches};
use forebay_trace::statistics::pairs::mix;
use forebay_trace::statistics::reuse::Reuse;
use forebay_trace::statistics::sampled::{SampledReuse, Sampling};
use forebay_trace::{FileId, Op, ProcessId, Record};

const CHUNK: u32 = 4096;

/// Policies of both, by our name and theirs.
const BOTH: [(&str, &str); 10] = [
    ("fifo", "FIFO"),
    ("lru", "LRU"),
    ("lfu", "LFU"),
    ("lfuda", "LFUDA"),
    ("s3-fifo", "S3FIFO"),
    ("sieve", "Sieve"),
    ("arc", "ARC"),
    ("lirs", "LIRS"),
    ("w-tinylfu", "WTinyLFU"),
    ("belady", "Belady"),
];

/// What the other simulator is asked: policy by policy, seconds and miss ratio.
const OTHER: &str = r#"
import sys, time
import libcachesim as l
path, capacity = sys.argv[1], int(sys.argv[2])
for name in sys.argv[3:]:
    reader = l.TraceReader(path, trace_type=l.TraceType.ORACLE_GENERAL_TRACE)
    cache = getattr(l, name)(capacity)
    begin = time.process_time()
    miss, _ = cache.process_trace(reader)
    print(name, time.process_time() - begin, miss, flush=True)
"#;

#[derive(Parser)]
struct Args {
    /// Requests of the trace.
    #[arg(long, default_value_t = 5_000_000)]
    requests: u64,
    /// Different chunks.
    #[arg(long, default_value_t = 500_000)]
    chunks: u64,
    /// Chunks that the buffer holds.
    #[arg(long, default_value_t = 50_000)]
    capacity: u64,
    /// The exponent of Zipf's law.
    #[arg(long, default_value_t = 0.9)]
    skew: f64,
    /// Rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// A Python that has `libcachesim`; without it only our side is measured.
    #[arg(long)]
    python: Option<PathBuf>,
}

/// Chunks by Zipf's law, three in ten marked as written; the same for the same arguments.
fn chunks_of(args: &Args) -> Vec<u32> {
    let mut sums = Vec::with_capacity(args.chunks as usize);
    let mut sum = 0.0;
    for rank in 1..=args.chunks {
        sum += (rank as f64).powf(-args.skew);
        sums.push(sum);
    }
    let uniform = |n| (mix(7, n, 1) >> 11) as f64 / (1u64 << 53) as f64 * sum;
    let rank = |n| sums.partition_point(|known| *known <= uniform(n)).min(sums.len() - 1) as u64;
    // Ranks are spread over the file, so that neighbours in it are not neighbours in use.
    let step = (args.chunks as f64 * 0.618) as u64 | 1;
    let write = |n| if mix(9, n, 2) % 10 < 3 { WRITE } else { 0 };
    (0..args.requests).map(|n| (rank(n) * step % args.chunks.next_power_of_two()) as u32 | write(n)).collect()
}

/// In a request: it writes.
const WRITE: u32 = 1 << 31;

/// The requests as records; three in ten write. They are made as they are asked for, as a reader of a trace makes them.
fn records(chunks: &[u32]) -> impl Iterator<Item = Record> + '_ {
    chunks.iter().enumerate().map(|(n, chunk)| {
        let op = if chunk & WRITE != 0 { Op::Write } else { Op::Read };
        let (offset, size) = (u64::from(chunk & !WRITE) * u64::from(CHUNK), u64::from(CHUNK));
        Record { file: FileId(0), process: ProcessId(0), offset, size, result: i64::from(CHUNK), ..Record::new(op, n as u64 * 1000) }
    })
}

/// The trace in the other's format: time, name, size and the number of the next use, 24 bytes.
fn write_oracle_general(chunks: &[u32]) -> std::io::Result<tempfile::NamedTempFile> {
    let mut next_of = std::collections::HashMap::new();
    let mut next: Vec<i64> =
        chunks.iter().enumerate().rev().map(|(n, chunk)| next_of.insert(*chunk & !WRITE, n as i64).unwrap_or(-1)).collect();
    next.reverse();
    let mut file = tempfile::NamedTempFile::new()?;
    let mut writer = std::io::BufWriter::new(&mut file);
    for (n, (chunk, next)) in chunks.iter().zip(&next).enumerate() {
        writer.write_all(&((n / 1000) as u32).to_le_bytes())?;
        writer.write_all(&(u64::from(*chunk & !WRITE) + 1).to_le_bytes())?;
        writer.write_all(&1u32.to_le_bytes())?;
        writer.write_all(&next.to_le_bytes())?;
    }
    drop(writer);
    Ok(file)
}

/// Seconds and miss ratio of each policy there.
fn run_other(python: &PathBuf, trace: &std::path::Path, capacity: u64) -> Vec<(f64, f64)> {
    let mut command = Command::new(python);
    command.args(["-c", OTHER]).arg(trace).arg(capacity.to_string()).args(BOTH.map(|(_, theirs)| theirs));
    let output = command.output().unwrap_or_else(|error| panic!("{} does not run: {error}", python.display()));
    assert!(output.status.success(), "libcachesim failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |word: Option<&str>| word.and_then(|word| word.parse().ok()).unwrap_or(f64::NAN);
    text.lines().map(|line| (number(line.split(' ').nth(1)), number(line.split(' ').nth(2)))).collect()
}

fn workload_of(chunks: &[u32]) -> Workload {
    let mut builder = WorkloadBuilder::new(CHUNK);
    builder.reserve(chunks.len());
    records(chunks).for_each(|record| builder.add(&record));
    builder.finish(Vec::new())
}

/// Seconds of this thread's processor time: others on the machine do not count.
fn seconds<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let begin = now();
    let result = work();
    (now() - begin, result)
}

/// One line of a table: the middle of the rounds, and the least and the most.
fn spread(values: &[f64]) -> String {
    let Spread { min, median, max } = Spread::of(values);
    format!("{median:7.2} ({min:.2} to {max:.2})")
}

fn policies(args: &Args, chunks: &[u32]) {
    let trace = args.python.as_ref().map(|_| write_oracle_general(chunks).expect("the temporary directory has room for the trace"));
    let rates = Rates::constant(1e8, 1e9);
    let million = args.requests as f64 / 1e6;
    let (mut whole, mut alone, mut theirs) = (vec![Vec::new(); BOTH.len()], vec![Vec::new(); BOTH.len()], vec![Vec::new(); BOTH.len()]);
    let mut misses = vec![(f64::NAN, f64::NAN); BOTH.len()];
    for _ in 0..args.rounds {
        let other = args.python.as_ref().zip(trace.as_ref()).map(|(python, trace)| run_other(python, trace.path(), args.capacity));
        for (at, (name, _)) in BOTH.iter().enumerate() {
            let policy = Policy::named().into_iter().find(|(known, _)| known == name).expect("it exists").1;
            let config = BufferConfig {
                capacity_bytes: args.capacity * u64::from(CHUNK),
                policy,
                granularity: Granularity::Chunk,
                write_back: WriteBack::Sync,
                counting: Counting::Chunks,
                nodes: 1,
            };
            let (build, workload) = seconds(|| workload_of(chunks));
            let (run, outcome) = seconds(|| simulate(&workload, &config, &rates).expect("the buffer holds a chunk"));
            whole[at].push(million / (build + run));
            alone[at].push(million / run);
            misses[at].0 = outcome.counters.miss_ratio();
            if let Some((time, miss)) = other.as_ref().and_then(|other| other.get(at)) {
                theirs[at].push(million / time);
                misses[at].1 = *miss;
            }
        }
    }
    println!(
        "{:10} {:>9} {:>9}  {:28} {:28} {:28}",
        "policy", "misses", "theirs", "whole, million/s", "simulate, million/s", "whole to theirs"
    );
    for (at, (name, _)) in BOTH.iter().enumerate() {
        let ratio = if theirs[at].is_empty() {
            "-".to_owned()
        } else {
            let Spread { min, median, max } = Spread::of_ratios(&whole[at], &theirs[at]);
            format!("{median:7.2} ({min:.2} to {max:.2})")
        };
        let (ours, other) = misses[at];
        println!("{name:10} {ours:9.6} {other:9.6}  {:28} {:28} {ratio:28}", spread(&whole[at]), spread(&alone[at]));
    }
}

fn distances(args: &Args, chunks: &[u32]) {
    let million = args.requests as f64 / 1e6;
    let capacities: Vec<u64> = (1..=100).map(|n| args.chunks * n / 100).collect();
    let sampling = |rate| Sampling { rate, chunks_max: 1 << 16, seed: 1 };
    let exact = || {
        let (mut reuse, mut touches) = (Reuse::new(), Touches::new(CHUNK, Continuation::PerProcess));
        records(chunks).for_each(|record| touches.of(&record, |touch| reuse.touch(&touch)));
        reuse
    };
    let sampled = |rate| {
        let (mut reuse, mut touches) = (SampledReuse::new(sampling(rate)), Touches::new(CHUNK, Continuation::PerProcess));
        records(chunks).for_each(|record| touches.of(&record, |touch| reuse.touch(&touch)));
        reuse
    };
    let times: Vec<f64> = (0..args.rounds).map(|_| million / seconds(exact).0).collect();
    let truth = exact();
    let truth = truth.reads.plus(&truth.writes).miss_ratios(&capacities);
    println!("\nreuse distances       million references/s            mean error  largest  stated (largest standard error)");
    println!("exact                 {}", spread(&times));
    for rate in [0.1, 0.01, 0.001] {
        let times: Vec<f64> = (0..args.rounds).map(|_| million / seconds(|| sampled(rate)).0).collect();
        let estimate = sampled(rate).miss_ratios(&capacities);
        let errors: Vec<f64> = truth.iter().zip(&estimate.miss_ratios).map(|(truth, found)| (truth - found).abs()).collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let largest = errors.iter().copied().fold(0.0, f64::max);
        println!("sampled, rate {rate:<6}  {:30} {mean:10.4} {largest:8.4} {:8.4}", spread(&times), estimate.standard_error_max());
    }
}

fn main() {
    let args = Args::parse();
    let chunks = chunks_of(&args);
    println!(
        "{} requests of {} bytes to {} chunks, Zipf {}, a buffer of {} chunks, {} rounds, one core\n",
        args.requests, CHUNK, args.chunks, args.skew, args.capacity, args.rounds
    );
    policies(&args, &chunks);
    distances(&args, &chunks);
}
