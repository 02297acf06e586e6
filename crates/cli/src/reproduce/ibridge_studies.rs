//! What iBridge measured, in the timed simulation: eight data servers, with and without it.

use forebay_core::hybrid::HybridConfig;
use forebay_core::policy::admission::AdmissionConfig;
use forebay_core::policy::admission::ibridge::PartitionMode;
use forebay_core::policy::detector::FragmentRule;
use forebay_core::policy::flush::{FlushConfig, IDLE_NS};
use forebay_sim::hybrid::timed::{Cluster, Job, Outcome};
use forebay_sim::workload::{Alignment, Magnification, MpiIoTest, OneServer, Program, Science};
use forebay_trace::Op;

use super::figure::{Axis, Findings, Line};
use super::hybrid::{Case, GIB, KIB, MB, lines, lines_of, panel, rate, run_all, ssd_share, table};
use super::lab::Lab;
use crate::error::Error;

pub(super) const STOCK: &str = "stock";
pub(super) const IBRIDGE: &str = "iBridge";
const SYSTEMS: [&str; 2] = [STOCK, IBRIDGE];

fn cluster(system: &str) -> Cluster {
    let config = || HybridConfig {
        admission: AdmissionConfig::IBridge(Cluster::ibridge(PartitionMode::Dynamic)),
        flush: FlushConfig::Idle { idle_ns: IDLE_NS },
        regions: 2,
        ..HybridConfig::none(10 * GIB)
    };
    Cluster::of_ibridge(if system == IBRIDGE { config() } else { HybridConfig::none(0) }, 8)
}

/// What was written of the paper's 10 GB.
const BYTES: u64 = GIB;

fn mpi_io_test(processes: u64, request_kib: u64, shift_kib: u64, op: Op) -> Vec<Job> {
    let program = MpiIoTest { bytes: BYTES, ..MpiIoTest::of_ibridge(processes, request_kib * KIB, shift_kib * KIB, op) };
    vec![Job::of_ibridge(program, 0, BYTES + GIB / 64)]
}

fn notes(more: &str) -> Vec<String> {
    let servers = "eight servers, a tenth of the paper's data; the order in which the disks take requests and the clients' pauses were chosen \
        by the paper's figure 2 (docs/SIMULATION.md)";
    [servers, more].into_iter().filter(|note| !note.is_empty()).map(str::to_owned).collect()
}

/// Table I: requests of four programs, judged by size and borders.
pub(super) fn shares(_: &Lab<'_>) -> Result<Findings, Error> {
    let rows = Science::ALL.iter().map(|program| {
        let mut counts = [0u64; 3];
        for step in program.steps(0, 0) {
            counts[Alignment::of(step.offset, step.size, program.unit_bytes) as usize] += 1;
        }
        let percent = |alignment: Alignment| 100.0 * counts[alignment as usize] as f64 / counts.iter().sum::<u64>() as f64;
        let (unaligned, random) = (percent(Alignment::Unaligned), percent(Alignment::Random));
        (program.name.to_owned(), vec![unaligned, random, unaligned + random])
    });
    let panels = vec![table("requests, stripes of 64 KiB", "%", &["unaligned", "random", "both"], rows.collect())];
    Ok(Findings { panels, notes: vec!["the traces are drawn by these shares: this tests the classifier, not the traces".into()] })
}

/// Figure 2: reads that fit the stripes and that do not.
pub(super) fn unaligned(lab: &Lab<'_>) -> Result<Findings, Error> {
    let kinds = [
        ("64 KiB", 64, 0),
        ("65 KiB", 65, 0),
        ("74 KiB", 74, 0),
        ("84 KiB", 84, 0),
        ("94 KiB", 94, 0),
        ("+1 KiB", 64, 1),
        ("+10 KiB", 64, 10),
    ];
    let names = kinds.map(|(name, ..)| name);
    let case = |op: Op| {
        move |name: &str, processes: f64| {
            let (_, kib, shift) = kinds.into_iter().find(|(of, ..)| *of == name).unwrap_or(kinds[0]);
            Case { cluster: cluster(STOCK), jobs: mpi_io_test(processes as u64, kib, shift, op) }
        }
    };
    let places = [16.0, 64.0, 128.0, 512.0];
    let (reads, _) = lines(&names, &places, lab.seed(), case(Op::Read), rate);
    let (writes, _) = lines(&names, &places, lab.seed(), case(Op::Write), rate);
    let panels = vec![panel("reads", Axis::Count, "processes", "MB/s", reads), panel("writes", Axis::Count, "processes", "MB/s", writes)];
    Ok(Findings { panels, notes: notes("") })
}

/// Figure 3: a fragment on a server that is busy.
pub(super) fn magnification(lab: &Lab<'_>) -> Result<Findings, Error> {
    let names = ["whole", "with 1 KiB", "whole, barrier", "with 1 KiB, barrier"];
    let case = |name: &str, stripes: f64| {
        let program = Magnification::of_ibridge(stripes as u64, name.starts_with("with"), 100);
        let busy = OneServer { server: stripes as u64, ..OneServer::reading_at_random(4, 1500, 2000) };
        let file_bytes = program.file_bytes();
        let first = Job::of_ibridge(program, 0, file_bytes);
        let skew = if name.ends_with("barrier") { 0 } else { first.skew };
        let second = Job { skew: u64::MAX / 2, ..Job::new(busy, 1, 2000 * 8 * 64 * KIB) };
        Case { cluster: cluster(STOCK), jobs: vec![Job { skew, ..first }, second] }
    };
    let first = |outcome: &Outcome| outcome.jobs[0].rate() / MB;
    let (rates, _) = lines(&names, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], lab.seed(), case, first);
    let loss = |whole: usize, with: usize, name: &str| {
        let pairs = rates[whole].points.iter().zip(&rates[with].points);
        Line { name: name.into(), points: pairs.map(|((x, whole), (_, with))| (*x, 100.0 * (1.0 - with / whole))).collect() }
    };
    let losses = vec![loss(0, 1, "no barrier"), loss(2, 3, "barrier")];
    let panels = vec![
        panel("throughput of the first program", Axis::Count, "stripes of a request", "MB/s", rates),
        panel("loss by the fragment", Axis::Count, "stripes of a request", "%", losses),
    ];
    let busy = "the second program has four processes; how many the paper's has is not printed";
    Ok(Findings { panels, notes: vec![busy.into()] })
}

/// Figures 4, 6 and 8 in part: writes of 64 processes.
pub(super) fn writes(lab: &Lab<'_>) -> Result<Findings, Error> {
    let sizes = [33.0, 64.0, 65.0, 129.0].map(|kib| kib * KIB as f64);
    let case = |system: &str, size: f64| Case { cluster: cluster(system), jobs: mpi_io_test(64, size as u64 / KIB, 0, Op::Write) };
    let until_home = |outcome: &Outcome| outcome.rate_with_drain() / MB;
    let (rates, found) = lines(&SYSTEMS, &sizes, lab.seed(), case, until_home);
    let panels = vec![
        panel("writes of 64 processes", Axis::Bytes, "request", "MB/s", rates),
        panel("SSD", Axis::Bytes, "request", "share of the bytes that went to SSDs, %", lines_of(&[IBRIDGE], &found, ssd_share)),
    ];
    let drain = "until everything is home; only writes, since reads gain by what an earlier run has left on the SSD, which is not built";
    Ok(Findings { panels, notes: notes(drain) })
}

/// Figure 13: the threshold of fragments.
pub(super) fn thresholds(lab: &Lab<'_>) -> Result<Findings, Error> {
    let thresholds = [10u64, 20, 30, 40];
    let cases = thresholds.map(|kib| {
        let fragments = FragmentRule { threshold_bytes: kib * KIB };
        Case { cluster: Cluster { fragments, ..cluster(IBRIDGE) }, jobs: mpi_io_test(64, 65, 0, Op::Write) }
    });
    let outcomes = run_all(&cases, lab.seed());
    let points =
        |value: fn(&Outcome) -> f64| thresholds.iter().zip(&outcomes).map(|(kib, outcome)| ((kib * KIB) as f64, value(outcome))).collect();
    let panels = vec![
        panel("writes of 65 KiB", Axis::Bytes, "threshold", "MB/s", vec![Line { name: IBRIDGE.into(), points: points(rate) }]),
        panel(
            "SSD",
            Axis::Bytes,
            "threshold",
            "share of the bytes that went to SSDs, %",
            vec![Line { name: IBRIDGE.into(), points: points(ssd_share) }],
        ),
    ];
    Ok(Findings { panels, notes: notes("") })
}
