//! Clocks that emulated disks go by.

use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Tells the time and waits; tests have one of their own.
pub trait Clock: Send + Sync {
    /// Now, ns from any origin.
    fn now_ns(&self) -> u64;
    /// Returns at this time or later; at once if it is past.
    fn sleep_until_ns(&self, time_ns: u64);
}

/// The system's monotonic clock.
#[derive(Clone, Copy, Default, Debug)]
pub struct SystemClock;

const NS_PER_S: u64 = 1_000_000_000;

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        let time = clock_gettime(ClockId::Monotonic);
        time.tv_sec.cast_unsigned() * NS_PER_S + time.tv_nsec.cast_unsigned()
    }

    fn sleep_until_ns(&self, time_ns: u64) {
        let until = Timespec { tv_sec: (time_ns / NS_PER_S).cast_signed(), tv_nsec: (time_ns % NS_PER_S).cast_signed() };
        while clock_nanosleep_absolute(ClockId::Monotonic, &until) == Err(Errno::INTR) {}
    }
}
