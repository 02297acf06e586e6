//! What is a device like? Measures one and fits the parameters of the models to it (H-14, I-04).
//!
//! [`profile`] asks a [`Subject`] for requests and looks at nothing but the time that they take. A subject whose small reads take longer
//! than a platter's turn would allow is a disk, and gets rates at both edges, its turn, the curve of its seeks, and what it reads ahead;
//! anything else is an SSD, and gets latencies, rates, channels, and what random writes cost it.
//!
//! What cannot be seen from outside is assumed, and said so in [`Profile::assumed`].

mod disk;
mod fit;
mod real;
mod ssd;
#[cfg(test)]
mod tests;

use std::io;

use forebay_core::policy::Operation;
use thiserror::Error;

use super::model::DeviceSpec;
use crate::random::SplitMix;
pub use real::Real;

/// What is measured.
pub trait Subject {
    /// Bytes of it that may be used.
    fn bytes(&self) -> u64;
    /// Whether its bytes may be written over.
    fn may_write(&self) -> bool;
    /// Lets so much time pass without a request, ns.
    fn pause_ns(&mut self, ns: u64);
    /// Does one request; the time that it took, ns.
    fn one(&mut self, operation: Operation, offset: u64, len: u64) -> io::Result<u64>;
    /// Does requests at these offsets, so many at a time; the time that all of them took, ns.
    fn many(&mut self, depth: usize, operation: Operation, offsets: &[u64], len: u64) -> io::Result<u64>;
}

/// How carefully.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Requests for each point of a curve.
    pub samples: u32,
}

impl Default for Effort {
    /// Two minutes for a disk, seconds for an SSD.
    fn default() -> Self {
        Effort { samples: 200 }
    }
}

impl Effort {
    /// Some seconds for a disk.
    pub const QUICK: Effort = Effort { samples: 16 };
}

/// What came out.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// The device.
    pub spec: DeviceSpec,
    /// What was measured beside it, each as a line.
    pub found: Vec<String>,
    /// What could not be seen and is assumed, each as a line.
    pub assumed: Vec<String>,
}

/// Why there is no profile.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// The device failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is too small to tell anything.
    #[error("{bytes} bytes are too few for a profile: give it {BYTES_MIN} at least")]
    Small {
        /// Bytes of the device.
        bytes: u64,
    },
    /// The answers fit no device.
    #[error("the measurement makes no sense ({0}); is something else using the device?")]
    Senseless(String),
}

/// The smallest device that has a profile, bytes.
pub const BYTES_MIN: u64 = 128 << 20;
/// The unit of all places, bytes.
const BLOCK_BYTES: u64 = 4096;
/// Small reads at random places that take longer than this come from a disk, ns: half the seek of the fastest ones.
const DISK_NS_MIN: u64 = 1_500_000;
const DETECT_REQUESTS: usize = 33;

/// Measures a device. `on_step` is told of each step of [`STEPS`].
pub fn profile(subject: &mut dyn Subject, effort: Effort, on_step: &mut dyn FnMut(&str)) -> Result<Profile, ProfileError> {
    if subject.bytes() < BYTES_MIN {
        return Err(ProfileError::Small { bytes: subject.bytes() });
    }
    on_step("kind");
    let mut bench = Bench { random: SplitMix::new(1), subject, effort };
    let mut times: Vec<u64> = Vec::with_capacity(DETECT_REQUESTS);
    for _ in 0..DETECT_REQUESTS {
        let place = bench.random_place(BLOCK_BYTES);
        times.push(bench.subject.one(Operation::Read, place, BLOCK_BYTES)?);
    }
    if median(&mut times) >= DISK_NS_MIN { disk::profile(&mut bench, on_step) } else { ssd::profile(&mut bench, on_step) }
}

/// Steps of a profile at most.
pub const STEPS: u64 = 8;

/// A subject, and what is needed to ask it.
struct Bench<'a> {
    subject: &'a mut dyn Subject,
    random: SplitMix,
    effort: Effort,
}

impl Bench<'_> {
    /// The start of `len` bytes anywhere.
    fn random_place(&mut self, len: u64) -> u64 {
        let last = self.subject.bytes() - len;
        self.random.below(last / BLOCK_BYTES + 1) * BLOCK_BYTES
    }

    /// The median time of requests of a size at random places, ns.
    fn median_ns(&mut self, operation: Operation, len: u64, count: usize) -> io::Result<u64> {
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let place = self.random_place(len);
            times.push(self.subject.one(operation, place, len)?);
        }
        Ok(median(&mut times))
    }
}

fn median(times: &mut [u64]) -> u64 {
    let middle = times.len() / 2;
    *times.select_nth_unstable(middle).1
}

/// Bytes a second; at least 1.
fn rate(bytes: u64, ns: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / u128::from(ns.max(1))).max(1) as u64
}

/// The time for bytes at a rate, ns.
fn bytes_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s.max(1))) as u64
}
