//! How files are walked through: sequentially, in strides or at random, and how requests lie to a stripe unit (iBridge, Table I).

use super::chunks::is_access;
use super::pairs::Pairs;
use crate::record::Record;

/// A request smaller than this is *random* to iBridge (its Table I and I-02), bytes.
pub const SMALL_BYTES: u64 = 20 << 10;

/// Requests and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Share {
    /// How many.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Share {
    fn add(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
    }
}

/// Counts the ways of access. A stream is what one process does with one file.
pub struct Patterns {
    stripe_bytes: u64,
    streams: Pairs,
    last: Vec<Last>,
    /// All requests.
    pub all: Share,
    /// Those that begin where the one before in the stream ended, and each stream's first at the begin of a file.
    pub sequential: Share,
    /// Those as far from the one before as that was from the one before it, forwards.
    pub strided: Share,
    /// All others.
    pub random: Share,
    /// Those larger than a stripe unit that do not begin and end at borders of it (Table I: "unaligned").
    pub unaligned: Share,
    /// Those below 20 KiB (Table I: "random").
    pub small: Share,
}

#[derive(Clone, Copy)]
struct Last {
    offset: u64,
    end: u64,
    stride: u64,
}

impl Patterns {
    /// For stripe units of this many bytes.
    #[must_use]
    pub fn new(stripe_bytes: u64) -> Patterns {
        let none = Share::default();
        Patterns {
            stripe_bytes: stripe_bytes.max(1),
            streams: Pairs::new(),
            last: Vec::new(),
            all: none,
            sequential: none,
            strided: none,
            random: none,
            unaligned: none,
            small: none,
        }
    }

    /// Notes a record.
    pub fn add(&mut self, record: &Record) {
        let bytes = record.moved_bytes();
        if bytes == 0 || !is_access(record) {
            return;
        }
        let (offset, end) = (record.offset, record.offset.saturating_add(bytes));
        self.all.add(bytes);
        if bytes < SMALL_BYTES {
            self.small.add(bytes);
        } else if bytes > self.stripe_bytes && !(offset.is_multiple_of(self.stripe_bytes) && end.is_multiple_of(self.stripe_bytes)) {
            self.unaligned.add(bytes);
        }
        let (stream, is_new) = self.streams.number(record.file.0, u64::from(record.process.0));
        if is_new {
            self.last.push(Last { offset, end, stride: 0 });
            return if offset == 0 { self.sequential.add(bytes) } else { self.random.add(bytes) };
        }
        let last = &mut self.last[stream as usize];
        let stride = offset.saturating_sub(last.offset);
        let share = match () {
            () if offset == last.end => &mut self.sequential,
            () if stride > 0 && stride == last.stride => &mut self.strided,
            () => &mut self.random,
        };
        *last = Last { offset, end, stride };
        share.add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{FileId, Op};

    fn patterns(requests: &[(u64, u64)]) -> Patterns {
        let mut patterns = Patterns::new(64 << 10);
        for (offset, size) in requests {
            patterns.add(&Record { file: FileId(1), offset: *offset, size: *size, result: *size as i64, ..Record::new(Op::Write, 0) });
        }
        patterns
    }

    #[test]
    fn ways_of_access() {
        let found = patterns(&[(0, 10), (10, 10), (100, 10), (190, 10), (280, 10), (5, 10)]);
        let shares = [found.sequential, found.strided, found.random].map(|share| share.requests);
        // 10 to 100 is a jump of 90, which the next two repeat.
        assert_eq!(shares, [2, 2, 2]);
        assert_eq!(found.all, Share { requests: 6, bytes: 60 });
    }

    /// W-08: a trace drawn with the shares of Table I gives them back.
    #[test]
    fn shares_of_a_trace_that_has_them() {
        const UNIT: u64 = 64 << 10;
        let request = |n: u64| match n {
            0..352 => (n * 1_000_000 * UNIT + 1, 2 * UNIT),
            352..425 => (n * UNIT, 4096),
            _ => (n * UNIT * 2, 2 * UNIT),
        };
        let found = patterns(&(0..1000).map(request).collect::<Vec<_>>());
        assert_eq!((found.unaligned.requests, found.small.requests), (352, 73));
    }
}
