//! Models of devices: how long would a disk, an SSD or a link take?
//!
//! A model knows no clock and no bytes. It is told when a request comes, and says when it would be done; so the simulator runs it in
//! virtual time, and an emulated disk, which does its I/O on something faster, waits until the time that the model gives.
//!
//! [`ModelDevice`] is a device with its queues: the scheduler's window, which sorts and merges, and the drive's own. Behind them stands
//! what serves one command after the other: a disk with arm and platter ([`DiskSpec`]), an SSD with channels ([`SsdSpec`]), or something
//! of which only its rates are known ([`RateSpec`]).
//!
//! Times are nanoseconds from any origin, whole numbers; places and lengths are bytes.

mod disk;
mod geometry;
mod link;
mod presets;
mod queue;
mod rates;
mod seek;
mod ssd;
#[cfg(test)]
mod tests;
mod text;

pub use disk::{Disk, DiskSpec};
pub use geometry::Geometry;
pub use link::{Link, LinkSpec};
pub use presets::{PRESETS, Preset, preset};
pub use queue::{Completion, ModelDevice, ModelRequest, Scheduling};
pub use rates::RateSpec;
pub use seek::{SeekCurve, SeekPoints};
pub use ssd::{SsdSpec, write_amplification};
pub use text::{PresetError, find, parse, text};

use forebay_core::policy::Operation;
use serde::{Deserialize, Serialize};

const NS_PER_S: u64 = 1_000_000_000;

/// The time for `bytes` at a rate, ns, rounded up.
fn bytes_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    (u128::from(bytes) * u128::from(NS_PER_S)).div_ceil(u128::from(bytes_per_s)) as u64
}

/// What a device is like.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceSpec {
    /// Arm and platter.
    Disk(DiskSpec),
    /// Latency, channels and a bus.
    Ssd(SsdSpec),
    /// Rates alone.
    Rates(RateSpec),
}

/// What serves commands, one after the other.
#[derive(Clone, Debug)]
enum Server {
    Disk(Disk),
    Ssd(ssd::Ssd),
    Rates(rates::Rates),
}

impl Server {
    fn new(spec: &DeviceSpec) -> Server {
        match spec {
            DeviceSpec::Disk(spec) => Server::Disk(Disk::new(spec)),
            DeviceSpec::Ssd(spec) => Server::Ssd(ssd::Ssd::new(*spec)),
            DeviceSpec::Rates(spec) => Server::Rates(rates::Rates::new(*spec)),
        }
    }

    /// Takes a command at a time and says when it is done.
    fn serve(&mut self, start_ns: u64, operation: Operation, offset: u64, len: u64) -> u64 {
        match self {
            Server::Disk(disk) => disk.serve(start_ns, operation, offset, len),
            Server::Ssd(ssd) => ssd.serve(start_ns, operation, offset, len),
            Server::Rates(rates) => rates.serve(start_ns, operation, offset, len),
        }
    }

    /// Commands that it works on at a time; the SSD keeps account of its channels itself.
    fn commands_max(&self) -> usize {
        match self {
            Server::Disk(_) | Server::Rates(_) => 1,
            Server::Ssd(_) => usize::MAX,
        }
    }
}
