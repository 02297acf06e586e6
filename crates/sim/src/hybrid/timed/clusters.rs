//! The servers of the papers.

use forebay_core::hybrid::HybridConfig;
use forebay_core::policy::detector::{FragmentRule, StreamConfig};
use forebay_store::device::model::{DeviceSpec, LinkSpec, Scheduling, preset};

use super::{Cluster, Job};
use crate::workload::Program;

const KIB: u64 = 1 << 10;

/// A device that is among the presets.
fn device(name: &str) -> DeviceSpec {
    preset(name).expect("it is a preset")
}

impl Cluster {
    /// SSDUP+ (4.1): two servers, each with one link of 1 Gbit/s, which bounds what clients reach. The disk is a SAS drive, which orders up
    /// to 32 commands itself: so writes at random come out as fast as the paper has them without a buffer (its figure 2, 95 MB/s).
    ///
    /// A flush hands its extents over as they are, 64 at a time: the scheduler, which merges what is adjacent, has as much of it as of the
    /// clients' writes.
    pub fn of_ssdup_plus(node: HybridConfig) -> Cluster {
        Cluster {
            servers: 2,
            stripe_bytes: 64 * KIB,
            node: HybridConfig { flush_bytes_max: 128 * KIB, flush_depth: 64, ..node },
            disk: device("savvio-300g"),
            disk_scheduling: Scheduling { drive_queue: 32, ..Scheduling::default() },
            ssd: device("s3520-240g"),
            link: LinkSpec { latency_ns: 50_000, bytes_per_s: 117_000_000 },
            fragments: FragmentRule::default(),
            streams: StreamConfig::default(),
        }
    }
}

impl Job {
    /// A write of SSDUP+'s clients, beside which `processes` run in all: eight computers. The longest pause grows with the processes that
    /// share a computer and its link. With this and a skew of four requests, strided writes look as random to a server as the paper prints
    /// for 8 to 128 processes (its figure 6: 7, 15, 28, 46, 71 %).
    pub fn of_ssdup_plus(program: impl Program + 'static, file: u64, file_bytes: u64, processes: u64) -> Job {
        Job { skew: 4, pause_ns_max: 1_250_000 * processes, ..Job::new(program, file, file_bytes) }
    }
}
