//! Time as a machine sees it: a number that the host hands in.

use core::ops::Add;
use serde::{Deserialize, Serialize};

/// Nanoseconds since the Unix epoch. The host makes it monotonic; the simulator makes it up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug, Default)]
pub struct Time(pub u64);

impl Time {
    /// Nanoseconds since the Unix epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Nanoseconds from `earlier` to `self`, 0 if `earlier` is later.
    pub const fn since_ns(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for Time {
    type Output = Time;
    /// `rhs` in nanoseconds.
    fn add(self, rhs: u64) -> Time {
        Time(self.0.saturating_add(rhs))
    }
}
