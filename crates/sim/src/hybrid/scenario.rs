//! What a seed of the hybrid node's simulation does.

use forebay_core::hybrid::{HybridConfig, WhenFull};
use forebay_core::id::ServerId;
use forebay_core::policy::Share;
use forebay_core::policy::admission::ibridge::{IBridgeConfig, PartitionMode, SeekProfile, Weights};
use forebay_core::policy::admission::{AdmissionConfig, ForebayConfig, SsdupPlusConfig, Watermarks, WhileFlushing};
use forebay_core::policy::detector::StreamConfig;
use forebay_core::policy::flush::FlushConfig;

use crate::rng::Rng;

/// What may go wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Nothing.
    Mixed,
    /// Effects fail.
    Errors,
    /// The process is killed.
    Kill,
    /// The power fails.
    Power,
    /// All of it.
    Storm,
}

impl Mode {
    /// Every mode, under its name.
    pub const NAMED: [(&str, Mode); 5] =
        [("mixed", Mode::Mixed), ("errors", Mode::Errors), ("kill", Mode::Kill), ("power", Mode::Power), ("storm", Mode::Storm)];
}

/// A bug made on purpose, in the host, to prove that the checkers find such bugs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Canary {
    /// A note that the disk has newer bytes is not written.
    SupersededIsForgotten,
    /// A note that a region is empty is not written.
    EmptiedIsForgotten,
    /// A sync of the disk does nothing.
    SyncDiskDoesNothing,
    /// A sync of the SSD does nothing.
    SyncSsdDoesNothing,
    /// A flush writes to the disk after it said that it was done.
    FlushComesLate,
    /// A read of the SSD brings its bytes after it said that it was done; the place may have been filled again.
    ReadIsOfWhatCameLater,
    /// A flush writes nothing.
    FlushIsLeftOut,
    /// An effect ends, and the machine is not told.
    CompletionIsLost,
    /// A change of the disk does nothing.
    ChangeIsLeftOut,
    /// The machine is not told that it is to go by another policy.
    PolicyIsKept,
    /// After a crash the SSD is divided as the policy of now has it, not as it was.
    LayoutIsForgotten,
}

impl Canary {
    /// Every bug, and the mode in which it must be found.
    pub const ALL: [(Canary, Mode); 11] = [
        (Canary::SupersededIsForgotten, Mode::Kill),
        (Canary::EmptiedIsForgotten, Mode::Kill),
        (Canary::SyncDiskDoesNothing, Mode::Power),
        (Canary::SyncSsdDoesNothing, Mode::Power),
        (Canary::FlushComesLate, Mode::Mixed),
        (Canary::ReadIsOfWhatCameLater, Mode::Mixed),
        (Canary::FlushIsLeftOut, Mode::Mixed),
        (Canary::CompletionIsLost, Mode::Mixed),
        (Canary::ChangeIsLeftOut, Mode::Mixed),
        (Canary::PolicyIsKept, Mode::Mixed),
        (Canary::LayoutIsForgotten, Mode::Kill),
    ];
}

/// Everything that a run depends on.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// All of the run's chance comes from it.
    pub seed: u64,
    /// The node.
    pub config: HybridConfig,
    /// Clients, each with up to two requests at a time.
    pub clients: u64,
    /// Requests of all clients.
    pub requests: u64,
    /// Files, and bytes of each.
    pub files: u64,
    /// Bytes of a file.
    pub file_bytes: u64,
    /// The longest request, bytes.
    pub request_bytes_max: u64,
    /// Effects that fail, in a thousand.
    pub errors_per_mille: u64,
    /// Kills.
    pub kills: u64,
    /// Losses of power.
    pub power_losses: u64,
    /// Requests among a thousand before which the node is told to go by another policy.
    pub policy_changes_per_mille: u64,
    /// The longest pause between two requests of a client, ns.
    pub pause_ns_max: u64,
    /// A bug.
    pub canary: Option<Canary>,
    /// Every step is told on the standard output.
    pub is_verbose: bool,
}

impl Scenario {
    /// The scenario of a seed.
    pub fn new(mode: Mode, seed: u64) -> Scenario {
        let mut rng = Rng::new(seed ^ 0x4859_4252_4944);
        let request_bytes_max = *rng.pick(&[4, 12, 24]);
        let crashes = |rng: &mut Rng, wanted: bool| if wanted { rng.range(1, 4) } else { 0 };
        Scenario {
            seed,
            config: config(&mut rng, request_bytes_max),
            clients: rng.range(1, 4),
            requests: rng.range(50, 400),
            files: rng.range(1, 2),
            file_bytes: *rng.pick(&[32, 96, 256]),
            request_bytes_max,
            errors_per_mille: if matches!(mode, Mode::Errors | Mode::Storm) { rng.range(5, 60) } else { 0 },
            kills: crashes(&mut rng, matches!(mode, Mode::Kill | Mode::Storm)),
            power_losses: crashes(&mut rng, matches!(mode, Mode::Power | Mode::Storm)),
            policy_changes_per_mille: *rng.pick(&[0, 0, 10, 50]),
            pause_ns_max: *rng.pick(&[1_000, 50_000, 1_000_000]),
            canary: None,
            is_verbose: false,
        }
    }
}

/// Any node, for requests of this size.
pub(super) fn config(rng: &mut Rng, request_bytes_max: u64) -> HybridConfig {
    let stream = StreamConfig { requests: rng.range(2, 8) as u32, gap_requests: rng.below(2) as u32 };
    let ibridge = IBridgeConfig {
        server: ServerId(0),
        seek: SeekProfile::new(vec![(1, 1_000), (256, 100_000)]).expect("it rises"),
        rotation_ns: 4_000,
        bytes_per_s: 100_000_000,
        weights: Weights::NewCountsMore,
        partition: PartitionMode::Dynamic,
    };
    let admission = match rng.below(9) {
        0 => AdmissionConfig::None,
        1 => AdmissionConfig::All(*rng.pick(&[WhileFlushing::Disk, WhileFlushing::Wait])),
        2 => AdmissionConfig::Ssdup(stream, Watermarks::default()),
        3 | 4 => AdmissionConfig::SsdupPlus(stream, *rng.pick(&[SsdupPlusConfig::default(), SsdupPlusConfig::released()])),
        5 => AdmissionConfig::IBridge(ibridge),
        6 | 7 => AdmissionConfig::Forebay(ForebayConfig::default()),
        _ => AdmissionConfig::CutOff { run_bytes_min: rng.range(1, 3 * request_bytes_max) },
    };
    let flush = match rng.below(5) {
        0 => FlushConfig::Immediate,
        1 => FlushConfig::TrafficAware { idle_ns: rng.range(1, 100_000) },
        2 => FlushConfig::SpareTime,
        3 => FlushConfig::Idle { idle_ns: rng.range(1, 100_000) },
        _ => FlushConfig::Watermarks { high: Share::new(3, 4), low: Share::new(1, 4) },
    };
    let regions = rng.range(1, 3) as u32;
    HybridConfig {
        admission,
        flush,
        // Now and then a request is larger than a region.
        ssd_bytes: u64::from(regions) * rng.range(request_bytes_max * 3 / 4, 6 * request_bytes_max),
        regions,
        when_full: *rng.pick(&[WhenFull::Wait, WhenFull::Disk]),
        flush_bytes_max: rng.range(1, 64),
        flush_depth: rng.range(1, 5) as u32,
        retry_ns: 200_000,
        flush_bytes_per_s_max: rng.chance(250).then(|| rng.range(100_000, 10_000_000)),
        foreground_share: rng.chance(250).then(|| Share::new(rng.range(1, 9) as u32, 10)),
    }
}
