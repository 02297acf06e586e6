//! The checkers: one promise, one file.

pub mod acknowledged;
pub mod capacity;
pub mod contract;
pub mod determinism;
pub mod drained;
pub mod flush_order;
pub mod liveness;
pub mod reads;
pub mod synced;

use std::fmt;

use forebay_core::time::Time;

/// The promises.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Property {
    /// What was acknowledged survives the death of the process.
    Acknowledged,
    /// What was synced survives a power loss, and what survives is a prefix of history.
    Synced,
    /// Answers are those of POSIX, and reads never give older bytes than acknowledged, nor another file's; holes are zeros.
    Reads,
    /// An old flush never overwrites newer data: after a drain, home holds what the application wrote.
    FlushOrder,
    /// Nothing is called drained before its bytes were compared and durable.
    Drained,
    /// The buffer stays within its limits, and a slot in use is not written.
    Capacity,
    /// Every request is answered, and none fails because of the buffer.
    Liveness,
    /// The same inputs give the same effects.
    Determinism,
    /// Core and host keep their contract.
    Contract,
}

/// A promise that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which one.
    pub property: Property,
    /// How.
    pub what: String,
    /// When, in virtual time.
    pub at: Time,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} violated at {} ns: {}", self.property, self.at.as_nanos(), self.what)
    }
}

impl std::error::Error for Violation {}
