//! Sets of byte ranges of a file.

use alloc::collections::BTreeMap;
use core::ops::Range;

/// A set of bytes, kept as ranges that neither overlap nor touch.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Ranges {
    ends: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Ranges {
    /// Whether no byte is in the set.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Ranges in the set.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes in the set. O(1).
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ends.iter().map(|(start, end)| *start..*end)
    }

    /// The ranges that reach beyond `offset`, in order.
    pub fn from(&self, offset: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let before = self.ends.range(..offset).next_back().filter(|(_, end)| **end > offset);
        before.into_iter().chain(self.ends.range(offset..)).map(|(start, end)| *start..*end)
    }

    /// The range that holds the byte.
    pub fn around(&self, offset: u64) -> Option<Range<u64>> {
        self.from(offset).next().filter(|range| range.start <= offset)
    }

    /// Adds the bytes of a range; says how many are new.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let before = self.bytes;
        let (mut start, mut end) = (range.start, range.end);
        while let Some((s, e)) = self.ends.range(..=end).next_back().map(|(s, e)| (*s, *e)).filter(|(_, e)| *e >= start) {
            (start, end) = (start.min(s), end.max(e));
            self.ends.remove(&s);
            self.bytes -= e - s;
        }
        self.ends.insert(start, end);
        self.bytes += end - start;
        self.bytes - before
    }

    /// Takes the bytes of a range out.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() || self.ends.is_empty() {
            return;
        }
        while let Some((s, e)) = self.ends.range(..range.end).next_back().map(|(s, e)| (*s, *e)).filter(|(_, e)| *e > range.start) {
            self.ends.remove(&s);
            self.bytes -= e - s;
            for part in [s..range.start, range.end..e] {
                if !part.is_empty() {
                    self.bytes += part.end - part.start;
                    self.ends.insert(part.start, part.end);
                }
            }
            if s <= range.start {
                break;
            }
        }
    }

    /// The parts of `range` that are not in the set, in order.
    pub fn gaps(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut from = range.start;
        let mut inside = self.from(range.start);
        core::iter::from_fn(move || {
            while from < range.end {
                let next = inside.next().unwrap_or(range.end..range.end);
                let gap = from..next.start.min(range.end);
                from = next.end;
                if !gap.is_empty() {
                    return Some(gap);
                }
            }
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A small generator: the same numbers every time.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    #[test]
    fn behaves_like_a_set_of_bytes() {
        const SIZE: u64 = 120;
        let (mut ranges, mut model, mut state) = (Ranges::default(), [false; SIZE as usize], 9);
        for _ in 0..4000 {
            let start = next(&mut state) % SIZE;
            let end = start + next(&mut state) % (SIZE + 1 - start).min(40);
            let within = start as usize..end as usize;
            match next(&mut state) % 2 {
                0 => {
                    let new = model[within.clone()].iter().filter(|there| !**there).count() as u64;
                    assert_eq!(ranges.insert(start..end), new);
                    model[within].fill(true);
                }
                _ => {
                    ranges.remove(start..end);
                    model[within].fill(false);
                }
            }
            let all = ranges.iter().collect::<Vec<_>>();
            assert!(all.windows(2).all(|two| two[0].end < two[1].start), "{all:?}");
            let seen = (0..SIZE).map(|at| all.iter().any(|range| range.contains(&at))).collect::<Vec<_>>();
            assert_eq!(seen, model);
            assert_eq!(ranges.bytes(), model.iter().filter(|there| **there).count() as u64);
            let gaps = ranges.gaps(start..end).collect::<Vec<_>>();
            assert!((start..end).all(|at| gaps.iter().any(|gap| gap.contains(&at)) != model[at as usize]));
            assert!(gaps.iter().all(|gap| !gap.is_empty() && start <= gap.start && gap.end <= end));
            assert_eq!(ranges.around(start).is_some(), model[start as usize]);
        }
    }
}
