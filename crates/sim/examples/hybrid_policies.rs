//! Policies of the hybrid I/O node over the workloads of the papers, at the same size of the SSD, simulated over models of devices:
//! `cargo run --release -p forebay-sim --example hybrid_policies [-- MiB of a program's file [part of the data that the SSD holds, per cent]]`.

use forebay_core::hybrid::HybridConfig;
use forebay_core::id::ServerId;
use forebay_core::policy::admission::AdmissionConfig;
use forebay_core::policy::admission::ibridge::{IBridgeConfig, PartitionMode, SeekProfile, Weights};
use forebay_core::policy::flush::{FlushConfig, IDLE_NS};
use forebay_sim::hybrid::timed::{Cluster, Job, Jobs, Outcome, run};
use forebay_sim::workload::{Btio, Class, Hpio, Ior, MpiIoTest, Pattern, Tile};
use forebay_store::device::model::{DeviceSpec, LinkSpec, Scheduling, preset};
use forebay_trace::Op;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Programs at work, and the cluster of the paper that they are from.
struct Workload {
    name: &'static str,
    is_of_ibridge: bool,
    jobs: Vec<Job>,
}

impl Workload {
    fn bytes(&self) -> u64 {
        self.jobs.iter().map(|job| job.file_bytes).sum()
    }
}

fn ior(pattern: Pattern, file: u64, bytes: u64) -> Job {
    Job::of_ssdup_plus(Ior::of_ssdup_plus(pattern, 16, bytes, file), file, bytes, 16)
}

fn workloads(bytes: u64) -> Vec<Workload> {
    use Pattern::{Contiguous, Random, Strided};
    let plus = |name, jobs| Workload { name, is_of_ibridge: false, jobs };
    let after = |job, number| Job { after: Some((number, 0)), ..job };
    let hpio = |file, is_contiguous| {
        let regions = bytes / (32 * 64 * KIB);
        let program = Hpio { regions, ..Hpio::of_ssdup_plus(64 * KIB, is_contiguous) };
        Job::of_ssdup_plus(program, file, bytes, 32)
    };
    let tile = |file, is_square| {
        // Of the paper's rows, as many as the file has room for.
        let full = Tile::of_ssdup_plus(32, is_square);
        let height = (bytes / (32 * full.request_bytes())).max(1);
        Job::of_ssdup_plus(Tile { height, ..full }, file, bytes, 32)
    };
    let bridge = |name, jobs| Workload { name, is_of_ibridge: true, jobs };
    let test = |file, size, shift| {
        let program = MpiIoTest { bytes, ..MpiIoTest::of_ibridge(64, size, shift, Op::Write) };
        Job::new(program, file, bytes + MIB)
    };
    let chunks = |size| Job::new(MpiIoTest { bytes, ..MpiIoTest::in_chunks(size, Op::Write) }, 0, bytes + MIB);
    let btio = |file| {
        let full = Btio::simple(Class::C, 64);
        let dumps = (bytes / 8 / full.dump_bytes()).max(1);
        let program = Btio { dumps, ..full };
        Job::new(program, file, dumps * program.dump_bytes())
    };
    vec![
        plus("W-01 contiguous", vec![ior(Contiguous, 0, bytes)]),
        plus("W-01 strided", vec![ior(Strided, 0, bytes)]),
        plus("W-01 random", vec![ior(Random, 0, bytes)]),
        plus(
            "W-01 contiguous, then strided, then random",
            vec![ior(Contiguous, 0, bytes), after(ior(Strided, 1, bytes), 0), after(ior(Random, 2, bytes), 1)],
        ),
        plus("W-01 contiguous and random", vec![ior(Contiguous, 0, bytes), ior(Random, 1, bytes)]),
        plus("W-01 random and random", vec![ior(Random, 0, bytes), ior(Random, 1, bytes)]),
        plus("W-01 random, 20 s, random", vec![ior(Random, 0, bytes), Job { after: Some((0, 20_000_000_000)), ..ior(Random, 1, bytes) }]),
        plus("W-02 HPIO c-c and c-nc", vec![hpio(0, true), hpio(1, false)]),
        plus("W-03 MPI-Tile-IO, bands and tiles", vec![tile(0, false), tile(1, true)]),
        bridge("W-04 BTIO C, 64, simple", vec![btio(0)]),
        bridge("W-05 mpi-io-test 64 KiB", vec![test(0, 64 * KIB, 0)]),
        bridge("W-05 mpi-io-test 65 KiB", vec![test(0, 65 * KIB, 0)]),
        bridge("W-05 mpi-io-test 64 KiB, 10 KiB off", vec![test(0, 64 * KIB, 10 * KIB)]),
        bridge("W-06 ior-mpi-io 33 KiB", vec![chunks(33 * KIB)]),
        bridge("W-06 ior-mpi-io 65 KiB", vec![chunks(65 * KIB)]),
        bridge("W-09 mpi-io-test 65 KiB and BTIO", vec![test(0, 65 * KIB, 0), btio(1)]),
    ]
}

fn disk(name: &str) -> forebay_store::device::model::DiskSpec {
    match preset(name) {
        Some(DeviceSpec::Disk(spec)) => spec,
        other => panic!("{name} is {other:?}"),
    }
}

/// The policies by name, each with an SSD of so many bytes a server.
fn policies(ssd_bytes: u64, disk_name: &str) -> Vec<(&'static str, HybridConfig)> {
    let disk = disk(disk_name);
    let admission = AdmissionConfig::IBridge(IBridgeConfig {
        server: ServerId(0),
        seek: SeekProfile::new(disk.seek_profile()).expect("it rises"),
        rotation_ns: disk.average_rotation_ns(),
        bytes_per_s: disk.outer_bytes_per_s,
        weights: Weights::NewCountsMore,
        partition: PartitionMode::Dynamic,
    });
    let ibridge = HybridConfig { admission, flush: FlushConfig::Idle { idle_ns: IDLE_NS }, regions: 2, ..HybridConfig::none(ssd_bytes) };
    vec![
        ("none", HybridConfig::none(0)),
        ("all", HybridConfig::all(ssd_bytes)),
        ("ssdup", HybridConfig::ssdup(ssd_bytes)),
        ("ssdup+", HybridConfig::ssdup_plus(ssd_bytes)),
        ("ibridge", ibridge),
        ("forebay", HybridConfig::forebay(ssd_bytes)),
        ("forebay, 70 %", HybridConfig::forebay(ssd_bytes / 10 * 7)),
    ]
}

fn cluster(workload: &Workload, node: HybridConfig) -> Cluster {
    let plus = Cluster::of_ssdup_plus(node);
    if !workload.is_of_ibridge {
        return plus;
    }
    Cluster {
        servers: 8,
        disk: DeviceSpec::Disk(disk("constellation-500g")),
        ssd: preset("mk0120-120g").expect("it is a preset"),
        link: LinkSpec { latency_ns: 50_000, bytes_per_s: 117_000_000 },
        disk_scheduling: Scheduling { drive_queue: 32, ..Scheduling::default() },
        ..plus
    }
}

fn outcome(workload: &Workload, node: HybridConfig) -> Outcome {
    run(&cluster(workload, node), &mut Jobs::new(workload.jobs.clone(), 1))
}

fn main() {
    let argument = |number, default| std::env::args().nth(number).map_or(default, |text| text.parse().expect("a number"));
    let (bytes, per_cent) = (argument(1, 2048u64) * MIB, argument(2, 50u64));
    let mut logs: Vec<(f64, f64)> = Vec::new();
    let mut count = 0.0;
    for workload in &workloads(bytes) {
        let (servers, disk_name) = if workload.is_of_ibridge { (8, "constellation-500g") } else { (2, "savvio-300g") };
        let policies = policies(workload.bytes() * per_cent / 100 / servers, disk_name);
        if logs.is_empty() {
            print!("| until the last answer / until all is home, MB/s; written to the SSD |");
            policies.iter().for_each(|(name, _)| print!(" {name} |"));
            println!("\n|---|{}", "---|".repeat(policies.len()));
            logs = vec![(0.0, 0.0); policies.len()];
        }
        print!("| {} |", workload.name);
        for ((_, node), (log, drained_log)) in policies.into_iter().zip(&mut logs) {
            let outcome = outcome(workload, node);
            *log += outcome.rate().ln();
            *drained_log += outcome.rate_with_drain().ln();
            print!(" {:.0}/{:.0} {:.0}% |", outcome.rate() / 1e6, outcome.rate_with_drain() / 1e6, outcome.ssd_share() * 100.0);
        }
        println!();
        count += 1.0;
    }
    print!("| geometric mean |");
    logs.iter().for_each(|(log, drained)| print!(" {:.1}/{:.1} |", (log / count).exp() / 1e6, (drained / count).exp() / 1e6));
    println!();
}
