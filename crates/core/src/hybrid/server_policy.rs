//! The policies that a server can be told by name.

use serde::{Deserialize, Serialize};

use super::{HybridConfig, WhenFull};
use crate::id::ServerId;
use crate::policy::admission::AdmissionConfig;
use crate::policy::admission::ibridge::{IBridgeConfig, PartitionMode, SeekFit, SeekProfile, Weights};
use crate::policy::flush::{FlushConfig, IDLE_NS};

/// Who goes to the SSD and when it is emptied, as users name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug, Default)]
pub enum ServerPolicy {
    /// P-08: the disk alone.
    None,
    /// P-07: everything, as long as there is room.
    All,
    /// S-05: streams of writes that are random.
    Ssdup,
    /// P-01 to P-04: as before, with a level that follows the traffic, and a flush that gives way.
    #[default]
    SsdupPlus,
    /// I-01 to I-08: small requests and fragments that the disk would be slow with.
    IBridge,
    /// Everything but long runs.
    CutOff,
    /// What the disk's time is worth: our own.
    Forebay,
}

/// bcache's.
const RUN_BYTES_MIN: u64 = 4 << 20;
/// A disk of 7200 turns, as long as nobody has measured the real one.
const SEEK: SeekFit = SeekFit { base_ns: 500_000, root_ns: 600_000, knee_bytes: 128 << 30, line_ns_per_gib: 20_000, full_bytes: 512 << 30 };
const ROTATION_NS: u64 = 4_170_000;
const DISK_BYTES_PER_S: u64 = 120_000_000;
/// No server of a client has this number: what others say of their disks is never taken for this one's.
const NO_SERVER: ServerId = ServerId(u32::MAX);

impl ServerPolicy {
    /// Every policy, under the name that users give it.
    pub const NAMED: [(&str, ServerPolicy); 7] = [
        ("none", ServerPolicy::None),
        ("all", ServerPolicy::All),
        ("ssdup", ServerPolicy::Ssdup),
        ("ssdup+", ServerPolicy::SsdupPlus),
        ("ibridge", ServerPolicy::IBridge),
        ("cut-off", ServerPolicy::CutOff),
        ("forebay", ServerPolicy::Forebay),
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, policy)| *policy == self).map_or("", |(name, _)| name)
    }

    /// The policy of this name.
    pub fn named(name: &str) -> Option<ServerPolicy> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, policy)| *policy)
    }

    /// What a node with an SSD of this size is told.
    pub fn config(self, ssd_bytes: u64) -> HybridConfig {
        match self {
            ServerPolicy::None => HybridConfig::none(ssd_bytes),
            ServerPolicy::All => HybridConfig::all(ssd_bytes),
            ServerPolicy::Ssdup => HybridConfig::ssdup(ssd_bytes),
            ServerPolicy::SsdupPlus => HybridConfig::ssdup_plus(ssd_bytes),
            ServerPolicy::Forebay => HybridConfig::forebay(ssd_bytes),
            ServerPolicy::IBridge => HybridConfig {
                admission: AdmissionConfig::IBridge(IBridgeConfig {
                    server: NO_SERVER,
                    seek: SeekProfile::fitted(SEEK),
                    rotation_ns: ROTATION_NS,
                    bytes_per_s: DISK_BYTES_PER_S,
                    weights: Weights::NewCountsMore,
                    partition: PartitionMode::Dynamic,
                }),
                flush: FlushConfig::Idle { idle_ns: IDLE_NS },
                regions: 2,
                when_full: WhenFull::Disk,
                ..HybridConfig::none(ssd_bytes)
            },
            ServerPolicy::CutOff => HybridConfig {
                admission: AdmissionConfig::CutOff { run_bytes_min: RUN_BYTES_MIN },
                flush: FlushConfig::TrafficAware { idle_ns: IDLE_NS },
                regions: 2,
                when_full: WhenFull::Disk,
                ..HybridConfig::none(ssd_bytes)
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_a_name_of_its_own() {
        for (name, policy) in ServerPolicy::NAMED {
            assert_eq!((policy.name(), ServerPolicy::named(name)), (name, Some(policy)));
            assert_eq!(policy.config(1 << 20).ssd_bytes, 1 << 20);
        }
        assert_eq!(ServerPolicy::named("some"), None);
    }
}
