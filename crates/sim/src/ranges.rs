//! Sets of byte ranges.

use std::collections::BTreeMap;

/// A set of bytes, kept as disjoint ranges that do not touch.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Ranges {
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds the bytes `start..end`.
    pub fn insert(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        while let Some((s, e)) = self.ends.range(..=end).next_back().map(|(s, e)| (*s, *e)) {
            if e < start {
                break;
            }
            start = start.min(s);
            end = end.max(e);
            self.ends.remove(&s);
        }
        self.ends.insert(start, end);
    }

    /// Takes the bytes `start..end` out.
    pub fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        while let Some((s, e)) = self.ends.range(..end).next_back().map(|(s, e)| (*s, *e)) {
            if e <= start {
                break;
            }
            self.ends.remove(&s);
            if e > end {
                self.ends.insert(end, e);
            }
            if s < start {
                self.ends.insert(s, start);
                break;
            }
        }
    }

    /// Whether no byte is in the set.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Whether a byte of `start..end` is in the set.
    pub fn overlaps(&self, start: u64, end: u64) -> bool {
        start < end && self.ends.range(..end).next_back().is_some_and(|(_, e)| *e > start)
    }

    /// The ranges in order, as (start, end).
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ends.iter().map(|(s, e)| (*s, *e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn behaves_like_a_set_of_bytes() {
        let mut rng = Rng::new(5);
        let (mut ranges, mut model) = (Ranges::default(), [false; 200]);
        for _ in 0..3000 {
            let start = rng.below(200);
            let end = rng.range(start, 200);
            match rng.below(3) {
                0 => {
                    ranges.insert(start, end);
                    model[start as usize..end as usize].fill(true);
                }
                1 => {
                    ranges.remove(start, end);
                    model[start as usize..end as usize].fill(false);
                }
                _ => assert_eq!(ranges.overlaps(start, end), model[start as usize..end as usize].iter().any(|b| *b)),
            }
            let mut seen = [false; 200];
            let mut last_end = None;
            for (s, e) in ranges.iter() {
                assert!(last_end.is_none_or(|last| s > last), "ranges touch");
                last_end = Some(e);
                seen[s as usize..e as usize].fill(true);
            }
            assert_eq!(seen, model);
        }
    }
}
