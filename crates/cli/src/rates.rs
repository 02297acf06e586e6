//! How fast an instance works, from its sums a moment ago and now.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_core::message::{Counters, Status};
use serde::{Deserialize, Serialize};

/// How often the sums are noted.
pub(crate) const NOTE_EVERY: Duration = Duration::from_secs(1);
/// Notes that are kept: rates are over the last ten seconds.
const NOTES_MAX: usize = 10;
/// Over less than this a rate says nothing.
const SPAN_MIN: Duration = Duration::from_millis(100);

/// Rates over the last seconds, bytes a second.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct RateView {
    /// Over this time, ms.
    pub(crate) span_ms: u64,
    /// By the application.
    pub(crate) written_bytes_per_s: u64,
    pub(crate) read_bytes_per_s: u64,
    pub(crate) home_written_bytes_per_s: u64,
    pub(crate) home_read_bytes_per_s: u64,
    /// Until everything that is dirty now is home, at the rate at which bytes become clean; none if none does.
    pub(crate) drain_eta_s: Option<u64>,
}

/// Sums of the last seconds.
#[derive(Default)]
pub(crate) struct RateBooks {
    notes: Mutex<VecDeque<(Instant, Counters)>>,
}

impl RateBooks {
    /// Notes the sums of now.
    pub(crate) fn note(&self, status: &Status) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() == NOTES_MAX {
            notes.pop_front();
        }
        notes.push_back((Instant::now(), status.counters));
    }

    /// The rates from the oldest note until now.
    pub(crate) fn over(&self, status: &Status) -> Option<RateView> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let (then, before) = notes.front()?;
        rates(before, status, then.elapsed())
    }
}

fn rates(before: &Counters, status: &Status, span: Duration) -> Option<RateView> {
    let now = &status.counters;
    let span_ms = u64::try_from(span.as_millis()).ok().filter(|_| span >= SPAN_MIN)?;
    let per_s = |before: u64, now: u64| (u128::from(now.saturating_sub(before)) * 1000 / u128::from(span_ms)) as u64;
    let cleaned = per_s(before.compared_bytes, now.compared_bytes);
    Some(RateView {
        span_ms,
        written_bytes_per_s: per_s(before.written_bytes, now.written_bytes),
        read_bytes_per_s: per_s(before.read_bytes, now.read_bytes),
        home_written_bytes_per_s: per_s(before.home_written_bytes, now.home_written_bytes),
        home_read_bytes_per_s: per_s(before.home_read_bytes, now.home_read_bytes),
        drain_eta_s: (cleaned > 0).then(|| status.dirty_bytes.div_ceil(cleaned)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_the_time_left_follow_from_two_sums() {
        let before = Counters { written_bytes: 1000, compared_bytes: 500, ..Counters::default() };
        let counters = Counters { written_bytes: 5000, compared_bytes: 1500, home_written_bytes: 2000, ..Counters::default() };
        let status = Status { counters, dirty_bytes: 1001, ..Status::default() };
        let view = rates(&before, &status, Duration::from_secs(2)).unwrap();
        assert_eq!((view.written_bytes_per_s, view.home_written_bytes_per_s, view.read_bytes_per_s), (2000, 1000, 0));
        assert_eq!(view.drain_eta_s, Some(3), "1001 bytes at 500 a second, rounded up");
        assert_eq!(rates(&counters, &status, Duration::from_secs(2)).unwrap().drain_eta_s, None, "nothing becomes clean");
        assert_eq!(rates(&before, &status, Duration::from_millis(3)), None, "too short to say");
    }
}
