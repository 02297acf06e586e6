//! Temporal locality: the share of I/O that an unlimited buffer takes (M-04, R_buf): all that is written, and of what is read, what was
//! written or read before.

use std::collections::{BTreeMap, HashMap};

use crate::record::{FileId, Op, Record};

use super::chunks::is_access;

/// Ranges that are kept in memory; beyond them, borders are rounded outwards.
const RANGES_MAX: usize = 1 << 21;

/// Counts R_buf, by the byte as long as there are not too many pieces.
#[derive(Default)]
pub struct Locality {
    /// Of each file, the end of each known range by its begin.
    known: HashMap<FileId, BTreeMap<u64, u64>>,
    ranges: usize,
    /// Borders are multiples of two to this power.
    shift: u32,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Of them, those that had been read or written before.
    pub read_known_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
}

impl Locality {
    /// Notes a record.
    pub fn add(&mut self, record: &Record) {
        let bytes = record.moved_bytes();
        if bytes == 0 || !is_access(record) {
            return;
        }
        let (begin, end) = (record.offset, record.offset.saturating_add(bytes));
        if record.op == Op::Write {
            self.written_bytes += bytes;
        } else {
            self.read_bytes += bytes;
            self.read_known_bytes += self.known_in(record.file, begin, end);
        }
        self.learn(record.file, begin, end);
        while self.ranges > RANGES_MAX {
            self.coarsen();
        }
    }

    fn known_in(&self, file: FileId, begin: u64, end: u64) -> u64 {
        let Some(known) = self.known.get(&file) else { return 0 };
        let before = known.range(..=begin).next_back().map_or(0, |(_, known_end)| known_end.min(&end).saturating_sub(begin));
        let within = known.range((std::ops::Bound::Excluded(begin), std::ops::Bound::Excluded(end)));
        before + within.map(|(from, to)| to.min(&end) - from).sum::<u64>()
    }

    fn learn(&mut self, file: FileId, begin: u64, end: u64) {
        let mask = (1u64 << self.shift) - 1;
        let (mut begin, mut end) = (begin & !mask, end.saturating_add(mask) & !mask);
        let known = self.known.entry(file).or_default();
        if let Some((from, to)) = known.range(..=begin).next_back().map(|(from, to)| (*from, *to))
            && to >= begin
        {
            if to >= end {
                return;
            }
            begin = from;
        }
        while let Some((from, to)) = known.range(begin..=end).next().map(|(from, to)| (*from, *to)) {
            end = end.max(to);
            known.remove(&from);
            self.ranges -= 1;
        }
        known.insert(begin, end);
        self.ranges += 1;
    }

    /// Rounds all borders to twice as much, so that neighbours meet.
    fn coarsen(&mut self) {
        self.shift = if self.shift == 0 { 12 } else { self.shift + 1 };
        self.ranges = 0;
        for (file, ranges) in std::mem::take(&mut self.known) {
            for (begin, end) in ranges {
                self.learn(file, begin, end);
            }
        }
    }

    /// To how many bytes borders are rounded: 1 is exact.
    #[must_use]
    pub fn granule_bytes(&self) -> u64 {
        1 << self.shift
    }

    /// R_buf: (known bytes read + bytes written) / (bytes read + bytes written).
    #[must_use]
    pub fn ratio(&self) -> f64 {
        let all = self.read_bytes + self.written_bytes;
        if all == 0 { 0.0 } else { (self.read_known_bytes + self.written_bytes) as f64 / all as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(locality: &mut Locality, op: Op, offset: u64, size: u64) {
        locality.add(&Record { file: FileId(1), offset, size, result: size as i64, ..Record::new(op, 0) });
    }

    #[test]
    fn what_is_known_is_counted_by_the_byte() {
        let mut locality = Locality::default();
        add(&mut locality, Op::Write, 100, 50);
        add(&mut locality, Op::Read, 140, 20);
        add(&mut locality, Op::Read, 90, 100);
        add(&mut locality, Op::Read, 0, 10);
        assert_eq!((locality.read_bytes, locality.read_known_bytes, locality.written_bytes), (130, 10 + 60, 50));
        assert!((locality.ratio() - 120.0 / 180.0).abs() < 1e-12);
    }

    /// M-04: the arithmetic of Table 2.1.
    #[test]
    fn the_ratios_of_the_thesis() {
        let percent = |known: u64, all: u64| {
            let locality = Locality { read_bytes: all, read_known_bytes: known, ..Locality::default() };
            (locality.ratio() * 1e4).round() / 100.0
        };
        assert_eq!([percent(139_140, 224_100), percent(2_074_500, 2_132_400), percent(29_609_493, 30_250_018)], [62.09, 97.28, 97.88]);
    }

    /// Against one flag a byte, also when borders had to be rounded: then it errs upwards only.
    #[test]
    fn agrees_with_flags() {
        let (mut locality, mut flags, mut known) = (Locality::default(), vec![false; 5000], 0u64);
        for n in 0..3000u64 {
            let random = super::super::pairs::mix(0, n, 2);
            let (offset, size) = (random % 4000, 1 + (random >> 20) % 60);
            let op = if random >> 40 & 3 == 0 { Op::Write } else { Op::Read };
            let range = offset as usize..(offset + size) as usize;
            if op == Op::Read {
                known += flags[range.clone()].iter().filter(|flag| **flag).count() as u64;
            }
            flags[range].fill(true);
            add(&mut locality, op, offset, size);
            assert_eq!(locality.read_known_bytes, known, "operation {n}");
        }
        locality.coarsen();
        assert_eq!((locality.granule_bytes(), locality.ranges), (4096, 1));
    }
}
