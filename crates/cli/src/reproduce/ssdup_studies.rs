//! What SSDUP+ measured, in the timed simulation: five systems on two I/O servers.

use std::time::Instant;

use forebay_core::extent::Piece;
use forebay_core::hybrid::{HybridConfig, Runs};
use forebay_core::id::{Ino, Lsn, SegmentId};
use forebay_core::policy::admission::AdmissionConfig;
use forebay_core::policy::detector::{Detector, RandomStreams, StreamConfig};
use forebay_core::policy::flush::FlushConfig;
use forebay_core::policy::{Arrival, Operation, RequestClass};
use forebay_sim::hybrid::timed::{Cluster, Job, Outcome};
use forebay_sim::workload::{Hpio, InPieces, Ior, Pattern, Tile};
use forebay_store::device::model::Scheduling;

use super::figure::{Axis, Findings};
use super::hybrid::{Case, GIB, KIB, MB, lines, lines_of, panel, rate, run_all, ssd_share, table};
use super::lab::Lab;
use crate::error::Error;

/// No buffer.
pub(super) const DISK: &str = "OrangeFS";
/// Everything to the SSD, until it is full.
pub(super) const PLAIN: &str = "OrangeFS-BB";
/// The same, with a flush that has fewer extents under way.
pub(super) const PLAIN_BY_8: &str = "OrangeFS-BB, flushed by 8";
/// Fixed marks, flushes at once.
pub(super) const MARKS: &str = "SSDUP";
/// The adaptive level, flushes at once.
pub(super) const AT_ONCE: &str = "SSDUP+, flushed at once";
pub(super) const PLUS: &str = "SSDUP+";

/// A system with so many bytes of SSD a server. A stream is as long as the scheduler's queue.
fn node(system: &str, ssd_bytes: u64, queue: u32) -> HybridConfig {
    let stream = StreamConfig { requests: queue, ..StreamConfig::default() };
    let plus = HybridConfig { admission: AdmissionConfig::SsdupPlus(stream, Default::default()), ..HybridConfig::ssdup_plus(ssd_bytes) };
    match system {
        DISK => HybridConfig::none(0),
        PLAIN | PLAIN_BY_8 => HybridConfig::all(ssd_bytes),
        MARKS => HybridConfig { admission: AdmissionConfig::Ssdup(stream, Default::default()), ..HybridConfig::ssdup(ssd_bytes) },
        AT_ONCE => HybridConfig { flush: FlushConfig::Immediate, ..plus },
        _ => plus,
    }
}

fn case(system: &str, ssd_bytes: u64, jobs: Vec<Job>) -> Case {
    let mut cluster = Cluster::of_ssdup_plus(node(system, ssd_bytes, 128));
    if system == PLAIN_BY_8 {
        cluster.node.flush_depth = 8;
    }
    Case { cluster, jobs }
}

/// One program, one file.
fn ior(file: u64, pattern: Pattern, processes: f64, bytes: u64, all_processes: f64) -> Job {
    Job::of_ssdup_plus(Ior::of_ssdup_plus(pattern, processes as u64, bytes, file), file, bytes, all_processes as u64)
}

const PROCESSES: [f64; 6] = [4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
const RATE: &str = "MB/s";
const SHARE: &str = "share of the bytes that went to SSDs, %";

fn notes(more: &str) -> Vec<String> {
    let servers = "two servers in the sizes of the paper; the disk's own queue, the clients' pauses and skew were chosen so that the system \
        without a buffer comes out as printed (docs/SIMULATION.md)";
    [servers, more].into_iter().filter(|note| !note.is_empty()).map(str::to_owned).collect()
}

/// Figure 2: three patterns without a buffer.
pub(super) fn patterns(lab: &Lab<'_>) -> Result<Findings, Error> {
    let of = |name: &str| match name {
        "contiguous" => Pattern::Contiguous,
        "strided" => Pattern::Strided,
        _ => Pattern::Random,
    };
    let case = |name: &str, n: f64| case(DISK, 0, vec![ior(0, of(name), n, 16 * GIB, n)]);
    let (lines, _) = lines(&["contiguous", "strided", "random"], &PROCESSES, lab.seed(), case, rate);
    Ok(Findings { panels: vec![panel("OrangeFS", Axis::Count, "processes", RATE, lines)], notes: notes("") })
}

/// Figures 3 and 5: requests, and how random the streams of four patterns are.
pub(super) fn randomness(lab: &Lab<'_>) -> Result<Findings, Error> {
    let one = |pattern| vec![ior(0, pattern, 16.0, 16 * GIB, 16.0)];
    let mixed = vec![ior(0, Pattern::Contiguous, 16.0, 8 * GIB, 32.0), ior(1, Pattern::Random, 16.0, 8 * GIB, 32.0)];
    let names = ["contiguous", "random", "strided", "mixed"];
    let jobs = [one(Pattern::Contiguous), one(Pattern::Random), one(Pattern::Strided), mixed];
    let outcomes = run_all(&jobs.map(|jobs| case(DISK, 0, jobs)), lab.seed());
    let values = |outcome: &Outcome| {
        let share = outcome.random_share().unwrap_or(f64::NAN);
        vec![outcome.requests as f64, 127.0 * share, 100.0 * share]
    };
    let rows = names.iter().zip(&outcomes).map(|(name, outcome)| ((*name).to_owned(), values(outcome))).collect();
    let ticks = ["requests", "S", "random share, %"];
    Ok(Findings { panels: vec![table("16 processes", "mean of all streams", &ticks, rows)], notes: notes("") })
}

/// Figures 6, 7 and 8: strided writes, ever more processes.
pub(super) fn strided(lab: &Lab<'_>) -> Result<Findings, Error> {
    let names = [DISK, MARKS, PLUS];
    // All of it fits.
    let case = |system: &str, n: f64| case(system, 16 * GIB, vec![ior(0, Pattern::Strided, n, 16 * GIB, n)]);
    let (rates, found) = lines(&names, &PROCESSES[1..], lab.seed(), case, rate);
    let random = lines_of(&[DISK], &found, |outcome| 100.0 * outcome.random_share().unwrap_or(f64::NAN));
    let panels = vec![
        panel("throughput", Axis::Count, "processes", RATE, rates),
        panel("random share of the streams", Axis::Count, "processes", "%", random),
        panel("SSD", Axis::Count, "processes", SHARE, lines_of(&names, &found, ssd_share)),
    ];
    Ok(Findings { panels, notes: notes("an SSD that holds all of it") })
}

/// Figures 9 and 13: two programs at once, an SSD of half of the data.
pub(super) fn limited(lab: &Lab<'_>) -> Result<Findings, Error> {
    let names = [PLAIN, PLAIN_BY_8, MARKS, AT_ONCE, PLUS];
    let workloads = [[Pattern::Contiguous, Pattern::Random], [Pattern::Random; 2]];
    let job = |file: usize, pattern| ior(file as u64, pattern, 16.0, 8 * GIB, 32.0);
    let cases: Vec<Case> = workloads
        .iter()
        .flat_map(|patterns| names.map(|name| case(name, 4 * GIB, vec![job(0, patterns[0]), job(1, patterns[1])])))
        .collect();
    let outcomes = run_all(&cases, lab.seed());
    let values = |outcome: &Outcome| {
        let first = &outcome.servers[0];
        let rest = |at: usize| first.reports.get(at).map_or(0.0, |report| report.rested_ns as f64 / 1e9);
        let late = first.reports.iter().skip(2).all(|report| report.to.0 > outcome.answered_ns);
        let mut values = vec![rate(outcome), outcome.jobs[0].rate() / MB, outcome.jobs[1].rate() / MB];
        values.extend([ssd_share(outcome), first.flushes as f64, rest(0), rest(1), f64::from(late)]);
        values
    };
    let ticks = ["both", "first", "second", "to SSDs, %", "flushes", "rest 1, s", "rest 2, s", "third ends late"];
    let of = |title: &str, outcomes: &[Outcome]| {
        let rows = names.iter().zip(outcomes).map(|(name, outcome)| ((*name).to_owned(), values(outcome))).collect();
        table(title, "MB/s", &ticks, rows)
    };
    let panels = vec![of("contiguous and random", &outcomes[..names.len()]), of("random and random", &outcomes[names.len()..])];
    let which = "the paper's SSDUP here is SSDUP+ \"without the traffic-aware flushing scheme\" (4.2.3): it still sends a part to the disk. With the \
        fixed marks everything goes to the SSD at a random share of 62 %, as in the second workload";
    let depth = "a flush has 64 extents of 128 KiB under way, in all systems; the paper does not say how many. With 8 (second row) a plain burst \
        buffer comes out as printed, and SSDUP+ gains nothing from letting a flush rest: the interference is that of a deep flush";
    let mut notes = notes(which);
    notes.push(depth.into());
    Ok(Findings { panels, notes })
}

const SYSTEMS: [&str; 4] = [DISK, PLAIN, MARKS, PLUS];

/// Figure 11: three sets one after the other.
pub(super) fn three_sets(lab: &Lab<'_>) -> Result<Findings, Error> {
    let places = [8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];
    let (rates, found) = lines(&SYSTEMS, &places, lab.seed(), |system, n| case(system, 20 * GIB, in_sequence(n)), rate);
    let panels = vec![
        panel("throughput", Axis::Count, "processes", RATE, rates),
        panel("SSD", Axis::Count, "processes", SHARE, lines_of(&SYSTEMS, &found, ssd_share)),
    ];
    Ok(Findings { panels, notes: notes("an SSD that holds all of it") })
}

/// Contiguous, strided, random: 16, 16 and 8 GiB.
fn in_sequence(n: f64) -> Vec<Job> {
    let sets = [(Pattern::Contiguous, 16), (Pattern::Strided, 16), (Pattern::Random, 8)];
    let job = |(file, (pattern, gib)): (usize, (Pattern, u64))| {
        let after = (file > 0).then(|| (file - 1, 0));
        Job { after, ..ior(file as u64, pattern, n, gib * GIB, n) }
    };
    sets.into_iter().enumerate().map(job).collect()
}

/// Figure 12: the scheduler's queue, and streams of its length.
pub(super) fn queues(lab: &Lab<'_>) -> Result<Findings, Error> {
    let names = [DISK, PLUS];
    let case = |system: &str, queue: f64| {
        let cluster = Cluster::of_ssdup_plus(node(system, 20 * GIB, queue as u32));
        let disk_scheduling = Scheduling { window_requests: queue as usize, ..cluster.disk_scheduling };
        Case { cluster: Cluster { disk_scheduling, ..cluster }, jobs: in_sequence(32.0) }
    };
    let (rates, found) = lines(&names, &[32.0, 128.0, 512.0], lab.seed(), case, rate);
    let panels = vec![
        panel("throughput", Axis::Count, "requests of the queue", RATE, rates),
        panel("SSD", Axis::Count, "requests of the queue", SHARE, lines_of(&[PLUS], &found, ssd_share)),
    ];
    Ok(Findings { panels, notes: notes("32 processes") })
}

/// Figure 14: two random programs, and time to compute between them.
pub(super) fn gaps(lab: &Lab<'_>) -> Result<Findings, Error> {
    let names = [PLAIN, PLUS];
    let case = |system: &str, gap_s: f64| {
        let second = Job { after: Some((0, (gap_s * 1e9) as u64)), ..ior(1, Pattern::Random, 16.0, 8 * GIB, 16.0) };
        case(system, 4 * GIB, vec![ior(0, Pattern::Random, 16.0, 8 * GIB, 16.0), second])
    };
    let at_work = |outcome: &Outcome| {
        let ns: u64 = outcome.jobs.iter().map(|job| job.to_ns - job.from_ns).sum();
        outcome.jobs.iter().map(|job| job.bytes).sum::<u64>() as f64 * 1e9 / ns as f64 / MB
    };
    let (rates, _) = lines(&names, &[0.0, 10.0, 20.0, 30.0, 60.0, 120.0], lab.seed(), case, at_work);
    let panels = vec![panel("throughput while writing", Axis::Seconds, "time between the programs", RATE, rates)];
    Ok(Findings { panels, notes: notes("an SSD of half of the data; 60 and 120 s are not in the paper") })
}

/// Figure 15: HPIO, contiguous and not at once.
pub(super) fn hpio(lab: &Lab<'_>) -> Result<Findings, Error> {
    let case = |system: &str, region: f64| {
        let job = |file: u64| Job::of_ssdup_plus(Hpio::of_ssdup_plus(region as u64, file == 0), file, 8 * GIB, 64);
        case(system, 8 * GIB, vec![job(0), job(1)])
    };
    let places = [32, 64, 128, 256].map(|kib| (kib * KIB) as f64);
    let (rates, found) = lines(&SYSTEMS, &places, lab.seed(), case, rate);
    let random = lines_of(&[DISK], &found, |outcome| 100.0 * outcome.random_share().unwrap_or(f64::NAN));
    let panels = vec![
        panel("throughput", Axis::Bytes, "region", RATE, rates),
        panel("SSD", Axis::Bytes, "region", SHARE, lines_of(&SYSTEMS, &found, ssd_share)),
        panel("random share of the streams", Axis::Bytes, "region", "%", random),
    ];
    Ok(Findings { panels, notes: notes("an SSD that holds all of it") })
}

/// Figure 16: MPI-Tile-IO, bands and tiles at once.
pub(super) fn tiles(lab: &Lab<'_>) -> Result<Findings, Error> {
    let case = |system: &str, n: f64| {
        let job = |file: u64| {
            let program = InPieces { program: Tile::of_ssdup_plus(n as u64, file == 1), bytes: 256 * KIB };
            Job::of_ssdup_plus(program, file, 16 * GIB, 2 * n as u64)
        };
        case(system, 16 * GIB, vec![job(0), job(1)])
    };
    let (rates, found) = lines(&SYSTEMS, &[16.0, 32.0, 64.0, 128.0], lab.seed(), case, rate);
    let random = lines_of(&[DISK], &found, |outcome| 100.0 * outcome.random_share().unwrap_or(f64::NAN));
    let panels = vec![
        panel("throughput", Axis::Count, "processes of each", RATE, rates),
        panel("SSD", Axis::Count, "processes of each", SHARE, lines_of(&SYSTEMS, &found, ssd_share)),
        panel("random share of the streams", Axis::Count, "processes of each", "%", random),
    ];
    let pieces = "an SSD that holds all of it; rows of megabytes reach a server in pieces, as the paper's file system moves them: 256 KiB of the file";
    Ok(Findings { panels, notes: notes(pieces) })
}

/// Table 1: what detection and index cost, measured here on one core, beside the time of the writes in the simulation.
pub(super) fn overhead(lab: &Lab<'_>) -> Result<Findings, Error> {
    let sizes = [32, 64, 128, 256, 512];
    let bytes = 2 * GIB;
    let program = |kib: u64| Ior { request_bytes: kib * KIB, ..Ior::of_ssdup_plus(Pattern::Random, 16, bytes, 0) };
    let cases: Vec<Case> = sizes.iter().map(|kib| case(PLUS, GIB, vec![Job::of_ssdup_plus(program(*kib), 0, bytes, 16)])).collect();
    let outcomes = run_all(&cases, lab.seed());
    let rows = sizes.iter().zip(&outcomes).map(|(kib, outcome)| {
        // Somebody else may use the processor: the best of some counts.
        let (group_ns, index_ns, requests) = (0..COST_RUNS)
            .map(|_| costs(&program(*kib)))
            .fold((u64::MAX, u64::MAX, 0), |best, run| (best.0.min(run.0), best.1.min(run.1), run.2));
        let total_s = outcome.answered_ns as f64 / 1e9;
        let share = 100.0 * (group_ns + index_ns) as f64 / 1e9 / total_s;
        let values = vec![total_s, group_ns as f64 / 1e6, index_ns as f64 / 1e6, share, (group_ns + index_ns) as f64 / requests as f64];
        (format!("{kib} KiB"), values)
    });
    let ticks = ["time, s", "grouping, ms", "index, ms", "share, %", "ns a request"];
    let note = "grouping and index: this machine, all requests of both servers on one core, the best of seven times; the time is simulated";
    Ok(Findings { panels: vec![table("2 GiB at random", "cost", &ticks, rows.collect())], notes: notes(note) })
}

/// How often costs are measured.
const COST_RUNS: u32 = 7;

/// Nanoseconds for taking all requests into streams and judging those, and for entering them into the index and walking it; and how many.
fn costs(ior: &Ior) -> (u64, u64, u64) {
    let requests: Vec<u64> = (0..ior.requests())
        .flat_map(|request| (0..ior.processes).map(move |process| (process, request)))
        .map(|(process, request)| ior.offset(process, request))
        .collect();
    let len = ior.request_bytes;
    let start = Instant::now();
    let mut streams = RandomStreams::new(StreamConfig::default());
    let mut random = 0u64;
    for offset in &requests {
        let class = RequestClass::Ordinary;
        let arrival = Arrival { file: Ino(1), offset: *offset, len, operation: Operation::Write, class, siblings: &[], place: *offset };
        random += streams.observe(&arrival).map_or(0, |share| u64::from(share.part()));
    }
    let group_ns = start.elapsed().as_nanos() as u64;
    let start = Instant::now();
    let mut runs = Runs::new();
    for (at, offset) in requests.iter().enumerate() {
        let place = at as u64 * len;
        let (segment, segment_offset) = (SegmentId(place >> 30), (place & ((1 << 30) - 1)) as u32);
        runs.insert(Piece { offset: *offset, len: len as u32, segment, segment_offset, lsn: Lsn(at as u64 + 1), dirty: true });
    }
    let dirty = runs.into_map().dirty_bytes();
    let index_ns = start.elapsed().as_nanos() as u64;
    std::hint::black_box((random, dirty));
    (group_ns, index_ns, requests.len() as u64)
}
