//! What a policy and the index of a hybrid I/O node cost for each write.

use std::hint::black_box;

use forebay_core::extent::{ExtentMap, Piece};
use forebay_core::hybrid::Runs;
use forebay_core::id::{Ino, Lsn, SegmentId};
use forebay_core::policy::admission::ibridge::{IBridgeConfig, PartitionMode, SeekFit, SeekProfile, Weights};
use forebay_core::policy::admission::{Admission, AdmissionConfig, AdmissionView, SsdupPlusConfig, Watermarks};
use forebay_core::policy::detector::StreamConfig;
use forebay_core::policy::{Arrival, Operation, RequestClass, Target};

use crate::harness::{Bench, Random, Run, timed};

const BLOCK: u64 = 4096;

fn write(block: u64) -> Arrival<'static> {
    let (operation, class) = (Operation::Write, RequestClass::Random);
    Arrival { file: Ino(1), offset: block * BLOCK, len: BLOCK, operation, class, siblings: &[], place: block * BLOCK }
}

fn policies() -> [(&'static str, AdmissionConfig); 5] {
    let stream = StreamConfig::default();
    let fit = SeekFit { base_ns: 500_000, root_ns: 400_000, knee_bytes: 100 << 30, line_ns_per_gib: 25_000, full_bytes: 500 << 30 };
    let ibridge = IBridgeConfig {
        server: forebay_core::id::ServerId(0),
        seek: SeekProfile::fitted(fit),
        rotation_ns: 4_166_667,
        bytes_per_s: 85_000_000,
        weights: Weights::NewCountsMore,
        partition: PartitionMode::Dynamic,
    };
    [
        ("SSDUP", AdmissionConfig::Ssdup(stream, Watermarks::default())),
        ("SSDUP+", AdmissionConfig::SsdupPlus(stream, SsdupPlusConfig::default())),
        ("iBridge", AdmissionConfig::IBridge(ibridge)),
        ("forebay", AdmissionConfig::Forebay(Default::default())),
        ("cut-off", AdmissionConfig::CutOff { run_bytes_min: 4 << 20 }),
    ]
}

fn decide(policy: &mut dyn Admission, arrival: &Arrival<'_>) {
    if black_box(policy.admit(&AdmissionView::default(), arrival)).target == Target::Disk {
        policy.on_disk(arrival);
    }
}

fn decisions(config: &AdmissionConfig, blocks: &[u64]) -> Run {
    let mut policy = config.build();
    timed(blocks.len() as u64, || blocks.iter().for_each(|block| decide(&mut *policy, &write(*block))))
}

/// Each write is decided about and entered in the index, until that has a piece for each.
fn decided_and_indexed(config: &AdmissionConfig, blocks: &[u64]) -> Run {
    let mut policy = config.build();
    let (mut map, mut removed, mut refused) = (ExtentMap::new(), Vec::new(), Vec::new());
    let run = timed(blocks.len() as u64, || {
        for (block, lsn) in blocks.iter().zip(1..) {
            decide(&mut *policy, &write(*block));
            let (segment, segment_offset) = (SegmentId(lsn >> 10), ((lsn & 1023) << 12) as u32);
            let piece = Piece { offset: block * BLOCK, len: BLOCK as u32, segment, segment_offset, lsn: Lsn(lsn), dirty: true };
            map.insert(piece, &mut removed, &mut refused);
        }
    });
    assert_eq!(map.len(), blocks.len());
    run
}

/// The same with the index that a region has while it is filled, and what that costs when it is put in order for its flush.
fn decided_and_run_indexed(config: &AdmissionConfig, blocks: &[u64], in_order: bool) -> Run {
    let mut policy = config.build();
    let mut runs = Runs::new();
    let mut map = ExtentMap::new();
    let run = timed(blocks.len() as u64, || {
        for (block, lsn) in blocks.iter().zip(1..) {
            decide(&mut *policy, &write(*block));
            let (segment, segment_offset) = (SegmentId(lsn >> 10), ((lsn & 1023) << 12) as u32);
            runs.insert(Piece { offset: block * BLOCK, len: BLOCK as u32, segment, segment_offset, lsn: Lsn(lsn), dirty: true });
        }
        if in_order {
            map = std::mem::take(&mut runs).into_map();
        }
    });
    assert!(!in_order || map.len() == blocks.len());
    run
}

/// A look-up while the region is filled.
fn looked_up_in_runs(blocks: &[u64]) -> Run {
    let mut runs = Runs::new();
    for (block, lsn) in blocks.iter().zip(1..) {
        let (segment, segment_offset) = (SegmentId(lsn >> 10), ((lsn & 1023) << 12) as u32);
        runs.insert(Piece { offset: block * BLOCK, len: BLOCK as u32, segment, segment_offset, lsn: Lsn(lsn), dirty: true });
    }
    const PROBES: u64 = 50_000;
    let mut random = Random(4);
    let mut found = 0;
    let run = timed(PROBES, || {
        for _ in 0..PROBES {
            let offset = random.below(blocks.len() as u64 * BLOCK);
            found += runs.overlapping(offset..offset + 1).len() as u64;
        }
    });
    assert_eq!(found, PROBES);
    run
}

pub fn run(bench: &mut Bench) {
    let sizes: &[u64] = if bench.options.test { &[1000] } else { &[100_000, 1_000_000] };
    for &n in sizes {
        let (ordered, shuffled): (Vec<u64>, Vec<u64>) = ((0..n).collect(), Random(1).permutation(n));
        for (name, config) in policies() {
            bench.nanoseconds(&format!("admission, ordered, {name}"), n, || decisions(&config, &ordered));
            bench.nanoseconds(&format!("admission, shuffled, {name}"), n, || decisions(&config, &shuffled));
        }
        let (name, config) = &policies()[1];
        for (order, blocks) in [("ordered", &ordered), ("shuffled", &shuffled)] {
            bench.nanoseconds(&format!("admission and map, {order}, {name}"), n, || decided_and_indexed(config, blocks));
            bench.nanoseconds(&format!("admission and runs, {order}, {name}"), n, || decided_and_run_indexed(config, blocks, false));
            bench.nanoseconds(&format!("admission and runs to map, {order}"), n, || decided_and_run_indexed(config, blocks, true));
        }
        bench.nanoseconds("look-up in runs, shuffled", n, || looked_up_in_runs(&shuffled));
    }
}
