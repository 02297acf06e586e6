//! The servers of the papers.

use forebay_core::hybrid::HybridConfig;
use forebay_core::id::ServerId;
use forebay_core::policy::admission::ibridge::{IBridgeConfig, PartitionMode, SeekProfile, Weights};
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

impl Cluster {
    /// iBridge (III-A): data servers with a disk of 7200 turns and an SSD each, stripes of 64 KiB, and a network that bounds nothing.
    ///
    /// The disk takes requests one after the other as they come. With a scheduler's window, which merges what is left and right of a border
    /// again, requests that do not fit the stripes cost hardly more than those that do; the paper has half of the throughput for them.
    pub fn of_ibridge(node: HybridConfig, servers: u32) -> Cluster {
        Cluster {
            servers,
            stripe_bytes: 64 * KIB,
            node,
            disk: device("constellation-500g"),
            disk_scheduling: Scheduling::FIFO,
            ssd: device("mk0120-120g"),
            link: LinkSpec { latency_ns: 20_000, bytes_per_s: 3_200_000_000 },
            fragments: FragmentRule::default(),
            streams: StreamConfig::default(),
        }
    }

    /// What iBridge is told of this cluster's disks.
    pub fn ibridge(partition: PartitionMode) -> IBridgeConfig {
        let DeviceSpec::Disk(disk) = device("constellation-500g") else { unreachable!("the preset is a disk") };
        IBridgeConfig {
            server: ServerId(0),
            seek: SeekProfile::new(disk.seek_profile()).expect("a profile of a disk rises"),
            rotation_ns: disk.average_rotation_ns(),
            bytes_per_s: disk.outer_bytes_per_s,
            weights: Weights::NewCountsMore,
            partition,
        }
    }
}

impl Job {
    /// A program of iBridge's clients, without barriers: with pauses of up to 5 ms, reads of 16 processes that do not fit the stripes are as
    /// much slower than those that do as the paper prints (its figure 2, 52 %).
    pub fn of_ibridge(program: impl Program + 'static, file: u64, file_bytes: u64) -> Job {
        Job { skew: 4, pause_ns_max: 5_000_000, ..Job::new(program, file, file_bytes) }
    }

    /// A write of SSDUP+'s clients, beside which `processes` run in all: eight computers. A request of 256 KiB costs its process 3 ms, so
    /// that four processes do not fill the links and eight do; and a pause that grows with the processes that share a computer and its
    /// link. With this and a skew of four requests, strided writes look about as random to a server as the paper prints for 8 to 128
    /// processes (its figure 6: 7, 15, 28, 46, 71 %). Smaller requests cost less in proportion, and drift apart by as many bytes.
    pub fn of_ssdup_plus(program: impl Program + 'static, file: u64, file_bytes: u64, processes: u64) -> Job {
        let request_bytes = program.steps(0, 0).next().map_or(0, |step| step.size);
        let scaled = |ns: u64| (u128::from(ns) * u128::from(request_bytes) / (256 << 10)) as u64;
        let skew = (4 * (256 << 10) / request_bytes.max(1)).max(1);
        Job { skew, client_ns: scaled(3_000_000), pause_ns_max: scaled(1_000_000 * processes), ..Job::new(program, file, file_bytes) }
    }
}
