//! Drives of the papers, and one of today.
//!
//! Rates and times come from data sheets where there are any. What the sheets do not say is assumed, and said so in `source`.

use super::DeviceSpec;
use super::disk::DiskSpec;
use super::rates::RateSpec;
use super::seek::SeekPoints;
use super::ssd::SsdSpec;

/// A device with a name.
#[derive(Clone, PartialEq, Debug)]
pub struct Preset {
    /// The name that users give it.
    pub name: &'static str,
    /// Where its figures come from.
    pub source: &'static str,
    /// The device.
    pub spec: DeviceSpec,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const MB: u64 = 1_000_000;
const GB: u64 = 1_000_000_000;
/// 7200 turns a minute.
const TURN_7200_NS: u64 = 8_333_333;
/// 10 025 turns a minute.
const TURN_10K_NS: u64 = 5_985_037;

const fn seek(track_us: u64, average_us: u64, full_us: u64) -> SeekPoints {
    SeekPoints { track_ns: track_us * 1000, average_ns: average_us * 1000, full_ns: full_us * 1000 }
}

/// Every preset.
pub const PRESETS: [Preset; 7] = [
    Preset {
        name: "constellation-500g",
        source: "Seagate ST9500430SS, 7200 turns, 500 GB: seeks of the data sheet; command, switches, buffer and inner rate assumed",
        spec: DeviceSpec::Disk(DiskSpec {
            capacity_bytes: 500 * GB,
            rotation_ns: TURN_7200_NS,
            command_ns: 200_000,
            seek_read: seek(500, 8_000, 17_350),
            seek_write: seek(700, 8_400, 17_820),
            outer_bytes_per_s: 115 * MB,
            inner_bytes_per_s: 70 * MB,
            heads: 6,
            head_switch_ns: 500_000,
            cylinder_switch_ns: 500_000,
            buffer_bytes: 16 * MIB,
            interface_bytes_per_s: 300 * MB,
        }),
    },
    Preset {
        name: "savvio-300g",
        source: "Seagate Savvio 10K, 300 GB, for Toshiba MBF2300RC (10 025 turns, 4.1 and 4.6 ms): the rest assumed",
        spec: DeviceSpec::Disk(DiskSpec {
            capacity_bytes: 300 * GB,
            rotation_ns: TURN_10K_NS,
            command_ns: 200_000,
            seek_read: seek(200, 4_100, 8_100),
            seek_write: seek(600, 4_600, 8_600),
            outer_bytes_per_s: 124 * MB,
            inner_bytes_per_s: 76 * MB,
            heads: 4,
            head_switch_ns: 400_000,
            cylinder_switch_ns: 400_000,
            buffer_bytes: 16 * MIB,
            interface_bytes_per_s: 600 * MB,
        }),
    },
    Preset {
        name: "ibridge-disk",
        source: "iBridge, table II: rates alone, 4 KB requests; its random rates are too fast for real seeks",
        spec: DeviceSpec::Rates(RateSpec {
            sequential_read: 85 * MB,
            random_read: 15 * MB,
            sequential_write: 80 * MB,
            random_write: 5 * MB,
            request_bytes: 4 * KIB,
        }),
    },
    Preset {
        name: "ibridge-ssd",
        source: "iBridge, table II: rates alone, 4 KB requests",
        spec: DeviceSpec::Rates(RateSpec {
            sequential_read: 160 * MB,
            random_read: 60 * MB,
            sequential_write: 140 * MB,
            random_write: 30 * MB,
            request_bytes: 4 * KIB,
        }),
    },
    Preset {
        name: "s3520-240g",
        source: "Intel DC S3520, 240 GB: rates and operations a second of the data sheet; channels and amplification assumed",
        spec: DeviceSpec::Ssd(SsdSpec {
            read_ns: 90_000,
            write_ns: 40_000,
            read_bytes_per_s: 320 * MB,
            write_bytes_per_s: 300 * MB,
            channels: 16,
            random_write_amplification_per_mille: 4_500,
        }),
    },
    Preset {
        name: "mk0120-120g",
        source: "HP MK0120EAVDT, 120 GB, SATA of 3 Gbit/s: rates of the data sheet; the rest assumed",
        spec: DeviceSpec::Ssd(SsdSpec {
            read_ns: 100_000,
            write_ns: 60_000,
            read_bytes_per_s: 230 * MB,
            write_bytes_per_s: 180 * MB,
            channels: 8,
            random_write_amplification_per_mille: 4_850,
        }),
    },
    Preset {
        name: "nvme",
        source: "an SSD on PCI Express of today: assumed",
        spec: DeviceSpec::Ssd(SsdSpec {
            read_ns: 70_000,
            write_ns: 15_000,
            read_bytes_per_s: 3_200 * MB,
            write_bytes_per_s: 2_000 * MB,
            channels: 64,
            random_write_amplification_per_mille: 2_480,
        }),
    },
];

/// The device of this name.
pub fn preset(name: &str) -> Option<DeviceSpec> {
    PRESETS.iter().find(|preset| preset.name == name).map(|preset| preset.spec.clone())
}
