//! The time that a machine is given.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use forebay_core::time::Time;

/// A clock that shows the wall clock's time of its start plus the time that has passed since.
///
/// It never goes back, whatever is done to the wall clock meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Time,
    started: Instant,
}

impl Clock {
    /// A clock that starts at the wall clock's time.
    pub fn start() -> Clock {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { start: Time(u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)), started: Instant::now() }
    }

    /// The time now.
    pub fn now(&self) -> Time {
        self.start + u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The instant at which [`Clock::now`] will show `time`; the start's if that is over, `None` if it is too far away to name.
    pub fn instant(&self, time: Time) -> Option<Instant> {
        self.started.checked_add(std::time::Duration::from_nanos(time.since_ns(self.start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_wall_clock_and_does_not_go_back() {
        let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let clock = Clock::start();
        let mut last = clock.now();
        for _ in 0..1000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        let after = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        // A second of tolerance, for a wall clock that is being set while the test runs.
        assert!(last.as_nanos() + 1_000_000_000 > before && last.as_nanos() < after + 1_000_000_000);
    }

    #[test]
    fn names_the_instant_of_a_time() {
        let clock = Clock::start();
        let later = clock.instant(clock.start + 5_000).unwrap();
        assert_eq!(later.duration_since(clock.started).as_nanos(), 5_000);
        assert_eq!(clock.instant(Time(0)), Some(clock.started));
    }
}
