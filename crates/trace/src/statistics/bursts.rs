//! When bytes move: bytes in each interval of time, the gaps in between, and how much would wait in a buffer that drains at some rate.

use super::chunks::is_access;
use crate::record::{Op, Record};

/// Intervals that are kept; when time outgrows them, each two become one.
const INTERVALS_MAX: usize = 4096;
/// The shortest interval, nanoseconds.
const INTERVAL_MIN_NS: u64 = 1_000_000;
/// Gaps that are kept, the longest ones.
const GAPS_MAX: usize = 16;

/// Bytes that moved in an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interval {
    /// Read.
    pub read_bytes: u64,
    /// Written.
    pub written_bytes: u64,
}

/// A time without reads and writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Idle {
    /// From the end of the last operation, nanoseconds from the first one on.
    pub from_ns: u64,
    /// How long.
    pub length_ns: u64,
}

/// What waits to go home if home takes `bytes_per_s`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Drained {
    /// What home takes.
    pub bytes_per_s: f64,
    /// The most that waited: a buffer that takes all bursts holds as much.
    pub peak_bytes: f64,
    waiting: f64,
}

/// Counts bursts. Records must come in the order of their begins, more or less.
pub struct Bursts {
    first_ns: Option<u64>,
    last_ns: u64,
    busy_until_ns: u64,
    interval_ns: u64,
    /// From the first record on.
    pub intervals: Vec<Interval>,
    /// The longest times without I/O, longest first.
    pub idle: Vec<Idle>,
    /// For each rate that was asked about.
    pub drained: Vec<Drained>,
}

impl Bursts {
    /// With these rates of home, bytes a second.
    #[must_use]
    pub fn new(rates: &[f64]) -> Bursts {
        let drained = rates.iter().map(|rate| Drained { bytes_per_s: *rate, peak_bytes: 0.0, waiting: 0.0 }).collect();
        Bursts {
            first_ns: None,
            last_ns: 0,
            busy_until_ns: 0,
            interval_ns: INTERVAL_MIN_NS,
            intervals: Vec::new(),
            idle: Vec::new(),
            drained,
        }
    }

    /// Notes a record.
    pub fn add(&mut self, record: &Record) {
        let bytes = record.moved_bytes();
        if bytes == 0 || !is_access(record) {
            return;
        }
        let first_ns = *self.first_ns.get_or_insert(record.start_ns);
        let now_ns = record.start_ns.saturating_sub(first_ns);
        let passed_s = now_ns.saturating_sub(self.last_ns) as f64 / 1e9;
        self.last_ns = self.last_ns.max(now_ns);
        let written = if record.op == Op::Write { bytes } else { 0 };
        for drained in &mut self.drained {
            drained.waiting = (drained.waiting - passed_s * drained.bytes_per_s).max(0.0) + written as f64;
            drained.peak_bytes = drained.peak_bytes.max(drained.waiting);
        }
        if now_ns > self.busy_until_ns {
            self.note_idle(Idle { from_ns: self.busy_until_ns, length_ns: now_ns - self.busy_until_ns });
        }
        self.busy_until_ns = self.busy_until_ns.max(now_ns.saturating_add(record.duration_ns));
        while now_ns / self.interval_ns >= INTERVALS_MAX as u64 {
            self.join_intervals();
        }
        let at = (now_ns / self.interval_ns) as usize;
        if at >= self.intervals.len() {
            self.intervals.resize(at + 1, Interval::default());
        }
        self.intervals[at].written_bytes += written;
        self.intervals[at].read_bytes += bytes - written;
    }

    fn join_intervals(&mut self) {
        self.interval_ns *= 2;
        let sum = |pair: &[Interval]| Interval {
            read_bytes: pair.iter().map(|interval| interval.read_bytes).sum(),
            written_bytes: pair.iter().map(|interval| interval.written_bytes).sum(),
        };
        self.intervals = self.intervals.chunks(2).map(sum).collect();
    }

    fn note_idle(&mut self, idle: Idle) {
        let at = self.idle.partition_point(|known| known.length_ns >= idle.length_ns);
        if at < GAPS_MAX {
            self.idle.insert(at, idle);
            self.idle.truncate(GAPS_MAX);
        }
    }

    /// How long an interval is, nanoseconds.
    #[must_use]
    pub fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// When the first operation began; 0 if there was none.
    #[must_use]
    pub fn first_ns(&self) -> u64 {
        self.first_ns.unwrap_or(0)
    }

    /// From the first operation to the end of the last, nanoseconds.
    #[must_use]
    pub fn span_ns(&self) -> u64 {
        self.busy_until_ns.max(self.last_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(start_ns: u64, duration_ns: u64, bytes: u64) -> Record {
        Record { duration_ns, size: bytes, result: bytes as i64, ..Record::new(Op::Write, start_ns) }
    }

    #[test]
    fn peaks_gaps_and_intervals() {
        let second = 1_000_000_000;
        let mut bursts = Bursts::new(&[10.0, 1000.0]);
        for record in
            [write(5 * second, second, 100), write(6 * second, 0, 50), write(16 * second, second, 100), write(9_000_000 * second, 0, 1)]
        {
            bursts.add(&record);
        }
        // At 10 bytes a second: 100, 90 + 50, 40 + 100, 1.
        assert_eq!(bursts.drained.iter().map(|drained| drained.peak_bytes).collect::<Vec<_>>(), [140.0, 100.0]);
        assert_eq!(bursts.idle[1], Idle { from_ns: second, length_ns: 10 * second });
        assert!(bursts.intervals.len() <= INTERVALS_MAX);
        assert_eq!(bursts.intervals.iter().map(|interval| interval.written_bytes).sum::<u64>(), 251);
        assert_eq!(bursts.span_ns(), 8_999_995 * second);
    }
}
