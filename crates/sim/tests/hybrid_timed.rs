//! The hybrid node over models of devices, against what SSDUP and SSDUP+ say of it.

use std::collections::BTreeMap;

use forebay_core::hybrid::{HybridConfig, WhenFull};
use forebay_core::id::ServerId;
use forebay_core::policy::admission::ibridge::{IBridgeConfig, PartitionMode, SeekProfile, Weights};
use forebay_core::policy::admission::{AdmissionConfig, Reason};
use forebay_core::policy::flush::{FlushConfig, IDLE_NS};
use forebay_core::policy::{RequestClass, Target};
use forebay_sim::hybrid::timed::{Cluster, Job, Jobs, Outcome, run};
use forebay_sim::workload::{Ior, MpiIoTest, OneServer, Pattern};
use forebay_store::device::model::{DeviceSpec, Scheduling, preset};
use forebay_trace::Op;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A write of one program over a file of its own.
fn job(file: u64, pattern: Pattern, processes: u64, file_bytes: u64) -> Job {
    Job::new(Ior::of_ssdup_plus(pattern, processes, file_bytes, file), file, file_bytes)
}

fn outcome(node: HybridConfig, jobs: &[Job]) -> Outcome {
    run(&Cluster::of_ssdup_plus(node), &mut Jobs::new(jobs.to_vec(), 1))
}

fn all_home(outcome: &Outcome, bytes: u64) {
    let written: u64 = outcome.servers.iter().flat_map(|counters| counters.writes.values()).map(|count| count.bytes).sum();
    assert_eq!(written, bytes);
}

fn one_program(node: HybridConfig, pattern: Pattern, processes: u64) -> Outcome {
    let bytes = 256 * MIB;
    let outcome = outcome(node, &[job(0, pattern, processes, bytes)]);
    all_home(&outcome, bytes);
    outcome
}

/// Bytes of writes that went to the disk, by reason.
fn to_disk(outcome: &Outcome) -> BTreeMap<Reason, u64> {
    let mut sum = BTreeMap::new();
    for ((_, target, reason), count) in outcome.servers.iter().flat_map(|counters| &counters.writes) {
        if *target == Target::Disk {
            *sum.entry(*reason).or_default() += count.bytes;
        }
    }
    sum
}

/// P-08 in part: without a buffer, segments that are written in order are faster than segments in random order, the more so the fewer
/// there are; and nothing goes to the SSD.
#[test]
fn a_disk_alone_is_slow_at_random() {
    let rates = [8, 16, 32, 64].map(|processes| {
        let [contiguous, random] =
            [Pattern::Contiguous, Pattern::Random].map(|pattern| one_program(HybridConfig::none(0), pattern, processes));
        assert_eq!(to_disk(&random), BTreeMap::from([(Reason::NoBuffer, 256 * MIB)]));
        (contiguous.rate(), random.rate())
    });
    assert!(rates.iter().all(|(contiguous, random)| contiguous > random), "{rates:?}");
    assert!(rates.windows(2).all(|pair| pair[1].0 < pair[0].0), "more segments are not slower: {rates:?}");
}

/// the deeper the scheduler's window, the faster the disk.
#[test]
fn a_deeper_window_is_faster() {
    let rates = [32, 128, 512].map(|window_requests| {
        let scheduling = Scheduling { window_requests, ..Scheduling::default() };
        let cluster = Cluster { disk_scheduling: scheduling, ..Cluster::of_ssdup_plus(HybridConfig::none(0)) };
        run(&cluster, &mut Jobs::new(vec![job(0, Pattern::Random, 32, 512 * MIB)], 1)).rate()
    });
    assert!(rates.windows(2).all(|pair| pair[1] > pair[0] * 1.05), "{rates:?}");
}

/// S-05, P-03: what is in order stays on the disk, what is not goes to the SSD, but for the first stream, of which nothing was known.
#[test]
fn streams_go_where_they_belong() {
    for node in [HybridConfig::ssdup(256 * MIB), HybridConfig::ssdup_plus(256 * MIB)] {
        assert_eq!(one_program(node.clone(), Pattern::Contiguous, 16).ssd_share(), 0.0);
        let random = one_program(node, Pattern::Random, 8);
        assert!(random.ssd_share() > 0.85, "{}", random.ssd_share());
        assert_eq!(to_disk(&random).keys().collect::<Vec<_>>(), [&Reason::OrderedStream]);
        assert!(random.rate() > 1.5 * one_program(HybridConfig::none(0), Pattern::Random, 8).rate());
    }
}

/// P-07: everything goes to the SSD while it lasts, and past it only while it is being emptied.
#[test]
fn a_plain_burst_buffer_takes_everything_until_it_is_full() {
    let fits = one_program(HybridConfig::all(256 * MIB), Pattern::Random, 16);
    assert_eq!((fits.ssd_share(), to_disk(&fits).len()), (1.0, 0));
    let half = one_program(HybridConfig::all(64 * MIB), Pattern::Random, 16);
    assert!(to_disk(&half).keys().all(|reason| matches!(reason, Reason::Flushing | Reason::NoRoom)), "{:?}", to_disk(&half));
    assert!(half.ssd_share() > 0.4 && half.ssd_share() < 1.0, "{}", half.ssd_share());
    let flushes: u64 = half.servers.iter().map(|counters| counters.flushes).sum();
    assert!(flushes >= 2, "each server empties its SSD at least once: {flushes}");
}

/// S-07: when both regions are full, writes wait for the flush, and none goes past it.
#[test]
fn writes_wait_for_a_region_when_all_are_full() {
    let node = HybridConfig::ssdup(16 * MIB);
    assert_eq!(node.when_full, WhenFull::Wait);
    let outcome = one_program(node, Pattern::Random, 16);
    assert_eq!(to_disk(&outcome).keys().collect::<Vec<_>>(), [&Reason::OrderedStream], "only the first streams go past the SSD");
    assert!(outcome.servers.iter().all(|counters| counters.waits_for_room > 0));
    // What was accepted beyond the SSD's size is what was flushed.
    let late = (outcome.drained_ns - outcome.answered_ns) as f64 / outcome.drained_ns as f64;
    assert!(late < 0.25, "a quarter of the time is behind the last answer: {late}");
}

/// SSDUP+ 4.2.3: two programs at once, an SSD of half of the data.
fn two_programs(node: HybridConfig, patterns: [Pattern; 2]) -> Outcome {
    let bytes = 512 * MIB;
    let jobs = [job(0, patterns[0], 16, bytes), job(1, patterns[1], 16, bytes)];
    let outcome = outcome(node, &jobs);
    all_home(&outcome, 2 * bytes);
    outcome
}

/// P-04, S-08: the traffic-aware flush rests while a mixture goes to the disk, and never when all traffic is random; the immediate one
/// never rests.
#[test]
fn a_traffic_aware_flush_rests_beside_ordered_traffic_only() {
    let rested = |outcome: &Outcome| outcome.servers.iter().map(|counters| counters.rested_ns).collect::<Vec<_>>();
    let mixed = [Pattern::Contiguous, Pattern::Random];
    let aware = two_programs(HybridConfig::ssdup_plus(256 * MIB), mixed);
    assert!(rested(&aware).iter().all(|ns| *ns > 0), "{:?}", rested(&aware));
    assert_eq!(rested(&two_programs(HybridConfig::ssdup(256 * MIB), mixed)), [0, 0]);
    assert_eq!(rested(&two_programs(HybridConfig::ssdup_plus(256 * MIB), [Pattern::Random; 2])), [0, 0]);
    // The paper's other effect: less of the mixture goes to the SSD than with fixed marks.
    assert!(aware.ssd_share() < two_programs(HybridConfig::ssdup(256 * MIB), mixed).ssd_share());
}

/// SSDUP+ 4.2.3 in its full size: two programs of 16 processes that write 8 GiB each, an SSD of half the data.
fn workload(node: HybridConfig, patterns: [Pattern; 2]) -> Outcome {
    let bytes = 8 << 30;
    let job = |file, pattern| Job::of_ssdup_plus(Ior::of_ssdup_plus(pattern, 16, bytes, file), file, bytes, 32);
    outcome(node, &[job(0, patterns[0]), job(1, patterns[1])])
}

/// P-04, figures 9 and 13: beside ordered traffic it pays to let a flush rest. The paper has three flushes of 10 GB, the first two resting
/// for 17 and 19 s, the third one after the writers' end; 35 % more than with flushes at once, 24 % more than a plain burst buffer.
#[test]
fn a_flush_that_rests_is_worth_it() {
    let mixed = [Pattern::Contiguous, Pattern::Random];
    let aware = workload(HybridConfig::ssdup_plus(4 << 30), mixed);
    let at_once = workload(HybridConfig { flush: FlushConfig::Immediate, ..HybridConfig::ssdup_plus(4 << 30) }, mixed);
    let plain = workload(HybridConfig::all(4 << 30), mixed);
    let rates = [&aware, &at_once, &plain].map(Outcome::rate);
    assert!(rates[0] > 1.15 * rates[1] && rates[0] > 1.2 * rates[2], "{rates:?}");
    assert!((0.55..0.7).contains(&aware.ssd_share()), "{}", aware.ssd_share());
    for counters in &aware.servers {
        let Ok([first, second, third]) = <[_; 3]>::try_from(counters.reports.iter().collect::<Vec<_>>()) else {
            panic!("{:?}", counters.reports)
        };
        assert!(first.rested_ns > 5_000_000_000 && second.rested_ns > 5_000_000_000, "{:?}", counters.reports);
        assert!(third.to.0 > aware.answered_ns && third.rested_ns == 0, "{:?}", counters.reports);
    }
}

/// P-04, workload 2: where all is random nothing rests, and both policies do the same.
#[test]
fn random_traffic_lets_no_flush_rest() {
    let aware = workload(HybridConfig::ssdup_plus(4 << 30), [Pattern::Random; 2]);
    let marks = workload(HybridConfig::ssdup(4 << 30), [Pattern::Random; 2]);
    let rested_ns: u64 = aware.servers.iter().map(|counters| counters.rested_ns).sum();
    assert!(rested_ns < 1_000_000_000, "{rested_ns}");
    assert!((aware.rate() / marks.rate() - 1.0).abs() < 0.02, "{} {}", aware.rate(), marks.rate());
}

/// W-01, figure 6: the more processes write side by side, the more random it looks to a server, and the slower is a disk alone.
#[test]
fn many_processes_make_strided_writes_random() {
    let found = [8, 16, 32, 64, 128].map(|processes| {
        let bytes = 4 << 30;
        let job = Job::of_ssdup_plus(Ior::of_ssdup_plus(Pattern::Strided, processes, bytes, 0), 0, bytes, processes);
        let outcome = outcome(HybridConfig::none(0), &[job]);
        (outcome.random_share().expect("there are streams"), outcome.rate())
    });
    assert!(found.windows(2).all(|pair| pair[1].0 > pair[0].0 && pair[1].1 < pair[0].1), "{found:?}");
    for ((share, _), printed) in found.iter().zip([0.07, 0.15, 0.28, 0.46, 0.71]) {
        assert!((share - printed).abs() < 0.15, "{share} {printed}");
    }
}

/// S-01: each server decides by itself. Where the traffic is random on one of two servers, the SSD of the other one stays empty.
#[test]
fn each_server_decides_alone() {
    let of =
        |server, is_ordered| OneServer { servers: 2, server, is_ordered, op: Op::Write, ..OneServer::reading_at_random(8, 512, 8 * 512) };
    let bytes = 2 * 8 * 512 * (64 << 10);
    let jobs = [Job::new(of(0, false), 0, bytes), Job::new(of(1, true), 1, bytes)];
    for node in [HybridConfig::ssdup(256 * MIB), HybridConfig::ssdup_plus(256 * MIB)] {
        let outcome = outcome(node, &jobs);
        let to_ssd: Vec<u64> = outcome.servers.iter().map(|counters| counters.to(Target::Ssd).bytes).collect();
        assert!(to_ssd[0] > 200 * MIB && to_ssd[1] == 0, "{to_ssd:?}");
        assert_eq!((outcome.reports, outcome.broadcasts), (0, 0), "servers have told each other something");
    }
}

/// I-15, I-01: iBridge leaves aligned requests to the disk, and of unaligned ones takes fragments alone.
#[test]
fn ibridge_takes_fragments_alone() {
    let Some(DeviceSpec::Disk(disk)) = preset("constellation-500g") else { panic!("the preset is a disk") };
    let share = |request_bytes: u64| {
        let admission = AdmissionConfig::IBridge(IBridgeConfig {
            server: ServerId(0),
            seek: SeekProfile::new(disk.seek_profile()).expect("it rises"),
            rotation_ns: disk.average_rotation_ns(),
            bytes_per_s: disk.outer_bytes_per_s,
            weights: Weights::NewCountsMore,
            partition: PartitionMode::Dynamic,
        });
        let flush = FlushConfig::Idle { idle_ns: IDLE_NS };
        let node = HybridConfig { admission, flush, regions: 2, ..HybridConfig::none(256 * MIB) };
        let cluster = Cluster { servers: 8, disk: DeviceSpec::Disk(disk), ..Cluster::of_ssdup_plus(node) };
        let bytes = 64 * 64 * request_bytes;
        let strided = MpiIoTest { bytes, ..MpiIoTest::of_ibridge(64, request_bytes, 0, Op::Write) };
        let outcome = run(&cluster, &mut Jobs::new(vec![Job::new(strided, 0, bytes)], 1));
        assert!(outcome.servers.iter().all(|counters| {
            counters.writes.keys().all(|(class, target, _)| *target == Target::Disk || *class == RequestClass::Fragment)
        }));
        // I-06: each server reports once a second, and each is told.
        let seconds = outcome.drained_ns / 1_000_000_000;
        assert!((8 * seconds..=8 * (seconds + 1)).contains(&outcome.broadcasts) && outcome.reports == outcome.broadcasts, "{seconds} s");
        outcome.ssd_share()
    };
    assert_eq!(share(64 * KIB), 0.0);
    let unaligned = share(65 * KIB);
    assert!(unaligned > 0.0 && unaligned < 0.102, "{unaligned}");
}

/// Our own policy against SSDUP+, with an SSD of half of the data: faster where a program writes at random, alone or beside another that does
/// not; what is in order is as fast as without an SSD.
#[test]
fn forebay_is_faster_than_ssdup_plus() {
    let bytes = 256 * MIB;
    let rate = |node, patterns: &[Pattern]| {
        let jobs: Vec<Job> = (0..).zip(patterns).map(|(file, pattern)| job(file, *pattern, 16, bytes)).collect();
        let outcome = outcome(node, &jobs);
        all_home(&outcome, patterns.len() as u64 * bytes);
        outcome.rate()
    };
    for patterns in [&[Pattern::Random][..], &[Pattern::Contiguous, Pattern::Random]] {
        let ssd_bytes = patterns.len() as u64 * bytes / 4;
        let theirs = rate(HybridConfig::ssdup_plus(ssd_bytes), patterns);
        let ours = rate(HybridConfig::forebay(ssd_bytes), patterns);
        assert!(ours > 1.1 * theirs, "{patterns:?}: {ours} beside {theirs}");
    }
    let ordered = [Pattern::Contiguous];
    assert!(rate(HybridConfig::forebay(bytes / 4), &ordered) > 0.99 * rate(HybridConfig::none(0), &ordered));
}

#[test]
fn same_seed_same_times() {
    let of = || {
        let jobs = vec![Job { pause_ns_max: 1_000_000, ..job(0, Pattern::Strided, 16, 64 * MIB) }];
        let outcome = run(&Cluster::of_ssdup_plus(HybridConfig::ssdup_plus(64 * MIB)), &mut Jobs::new(jobs, 7));
        (outcome.answered_ns, outcome.drained_ns)
    };
    assert_eq!(of(), of());
}
