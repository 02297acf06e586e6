//! What a policy and the index of a hybrid I/O node cost for each write.

use std::hint::black_box;

use forebay_core::extent::{ExtentMap, Piece};
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

fn policies() -> [(&'static str, AdmissionConfig); 4] {
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

pub fn run(bench: &mut Bench) {
    let sizes: &[u64] = if bench.options.test { &[1000] } else { &[100_000, 1_000_000] };
    for &n in sizes {
        let (ordered, shuffled): (Vec<u64>, Vec<u64>) = ((0..n).collect(), Random(1).permutation(n));
        for (name, config) in policies() {
            bench.nanoseconds(&format!("admission, ordered, {name}"), n, || decisions(&config, &ordered));
            bench.nanoseconds(&format!("admission, shuffled, {name}"), n, || decisions(&config, &shuffled));
        }
        let (name, config) = &policies()[1];
        bench.nanoseconds(&format!("admission and index, ordered, {name}"), n, || decided_and_indexed(config, &ordered));
        bench.nanoseconds(&format!("admission and index, shuffled, {name}"), n, || decided_and_indexed(config, &shuffled));
    }
}
