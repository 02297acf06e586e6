//! The index of a region while it is filled: pieces in sorted runs, newest write wins.
//!
//! A map that is kept in order meets a cold part of memory with every write at a random place: with 10^6 pieces that is nearly all of
//! its cost. Here new pieces are put down as they come; as many as fit into a cache are sorted together to a run, and a few runs of
//! about the same length are merged to a longer one. All of this goes through memory from front to back. A look-up has to ask every run,
//! of which there are at most [`RUNS_MAX`] of each length: dearer than in a map, and next to what a read costs the device nothing.
//!
//! When the region is full, the runs become a map in order ([`Runs::into_map`]): a flush walks, marks and removes.
//!
//! What a write to the disk has superseded is covered by a piece of its own ([`NOWHERE`]), with that write's place in history: nothing
//! has to be searched for and taken out.

use alloc::vec::Vec;
use core::ops::Range;

use crate::extent::{ExtentMap, Piece};
use crate::id::{Lsn, SegmentId};

/// The segment of a piece that stands nowhere: the disk has the bytes.
pub(super) const NOWHERE: SegmentId = SegmentId(u64::MAX);

/// Pieces that are put down before they are sorted: few enough that a look-up can ask each of them.
const RECENT_MAX: usize = 256;
/// Runs of a length before they are merged.
const RUNS_MAX: usize = 8;

/// Pieces in order that do not overlap.
#[derive(Debug, Default, Clone)]
struct Run(Vec<Piece>);

impl Run {
    /// The pieces that overlap a range.
    fn overlapping(&self, range: &Range<u64>) -> &[Piece] {
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else { return &[] };
        if range.end <= first.offset || last.end() <= range.start {
            return &[];
        }
        let from = self.0.partition_point(|piece| piece.end() <= range.start);
        let len = self.0[from..].iter().take_while(|piece| piece.offset < range.end).count();
        &self.0[from..from + len]
    }
}

/// The pieces of one file; see the head of this file.
#[derive(Debug, Default, Clone)]
pub struct Runs {
    recent: Vec<Piece>,
    /// Runs of about [`RECENT_MAX`] pieces, of [`RUNS_MAX`] times as many, and so on.
    levels: Vec<Vec<Run>>,
    /// Merging uses its memory again and again.
    spare: Vec<Piece>,
}

impl Runs {
    /// No piece.
    pub fn new() -> Runs {
        Runs::default()
    }

    /// Enters a piece. Of pieces that overlap, the one with the higher [`Lsn`] counts, whatever the order of arrival.
    pub fn insert(&mut self, piece: Piece) {
        debug_assert!(piece.len > 0, "an empty piece");
        self.recent.push(piece);
        if self.recent.len() >= RECENT_MAX {
            self.spill();
        }
    }

    /// Covers a range: what is older than `lsn` is on the disk.
    pub fn supersede(&mut self, range: Range<u64>, lsn: Lsn) {
        let mut from = range.start;
        while from < range.end {
            let len = (range.end - from).min(u64::from(u32::MAX)) as u32;
            self.insert(Piece { offset: from, len, segment: NOWHERE, segment_offset: 0, lsn, dirty: true });
            from += u64::from(len);
        }
    }

    /// The pieces that count within a range, clipped to it, in order. Those that stand nowhere are not among them.
    pub fn overlapping(&self, range: Range<u64>) -> Vec<Piece> {
        let meets = |piece: &&Piece| piece.offset < range.end && range.start < piece.end();
        let mut found: Vec<Piece> = self.recent.iter().filter(meets).map(|piece| piece.clip(&range)).collect();
        for run in self.levels.iter().flatten() {
            found.extend(run.overlapping(&range).iter().map(|piece| piece.clip(&range)));
        }
        found.sort_unstable_by_key(|piece| piece.offset);
        let mut settled = Vec::with_capacity(found.len());
        settle(&found, &mut settled);
        settled.retain(|piece| piece.segment != NOWHERE);
        settled
    }

    /// The pieces that count, as a map in order.
    pub fn into_map(mut self) -> ExtentMap {
        let mut all = core::mem::take(&mut self.recent);
        for run in self.levels.drain(..).flatten() {
            all.extend_from_slice(&run.0);
        }
        all.sort_by_key(|piece| piece.offset);
        let mut settled = Vec::with_capacity(all.len());
        settle(&all, &mut settled);
        let (mut map, mut removed, mut refused) = (ExtentMap::new(), Vec::new(), Vec::new());
        for piece in settled.into_iter().filter(|piece| piece.segment != NOWHERE) {
            map.insert(piece, &mut removed, &mut refused);
        }
        map
    }

    /// Makes a run of what was put down, and longer runs of those that have become too many.
    fn spill(&mut self) {
        self.recent.sort_unstable_by_key(|piece| piece.offset);
        let mut run = Vec::with_capacity(self.recent.len());
        settle(&self.recent, &mut run);
        self.recent.clear();
        let mut run = Run(run);
        for level in 0.. {
            if level == self.levels.len() {
                self.levels.push(Vec::with_capacity(RUNS_MAX));
            }
            self.levels[level].push(run);
            if self.levels[level].len() < RUNS_MAX {
                return;
            }
            self.spare.clear();
            for run in self.levels[level].drain(..) {
                self.spare.extend_from_slice(&run.0);
            }
            // This sort finds the runs again and merges them.
            self.spare.sort_by_key(|piece| piece.offset);
            let mut merged = Vec::with_capacity(self.spare.len());
            settle(&self.spare, &mut merged);
            run = Run(merged);
        }
    }
}

/// From pieces in the order of their offsets, which may overlap, to those that count.
fn settle(sorted: &[Piece], settled: &mut Vec<Piece>) {
    let mut at = 0;
    while at < sorted.len() {
        // As far as one reaches into the next.
        let (from, mut end) = (at, sorted[at].end());
        at += 1;
        while at < sorted.len() && sorted[at].offset < end {
            end = end.max(sorted[at].end());
            at += 1;
        }
        if at == from + 1 {
            settled.push(sorted[from]);
            continue;
        }
        let (mut map, mut removed, mut refused) = (ExtentMap::new(), Vec::new(), Vec::new());
        for piece in &sorted[from..at] {
            map.insert(*piece, &mut removed, &mut refused);
        }
        settled.extend(map.iter());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What counts of each byte: the place of it, or nowhere.
    fn bytes(pieces: impl Iterator<Item = Piece>) -> Vec<(u64, u64, u64, u64)> {
        let byte =
            |piece: Piece, at: u32| (piece.offset + u64::from(at), piece.segment.0, u64::from(piece.segment_offset + at), piece.lsn.0);
        pieces.flat_map(|piece| (0..piece.len).map(move |at| byte(piece, at))).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Against a map that each write is entered in at once, with more pieces than several runs hold.
        #[test]
        fn runs_say_what_a_map_says(
            writes in proptest::collection::vec((0..4000u64, 1..40u32, 0..12u8), 0..6000),
            looks in proptest::collection::vec((0..4000u64, 1..400u64), 1..20),
        ) {
            let (mut runs, mut map) = (Runs::new(), ExtentMap::new());
            let (mut removed, mut refused) = (Vec::new(), Vec::new());
            for (number, (offset, len, kind)) in (1u64..).zip(&writes) {
                // Writes do not arrive quite in the order of their places in history.
                let lsn = Lsn(3 + 2 * number - if *kind == 3 { 3 } else { 0 });
                let piece = Piece { offset: *offset, len: *len, segment: SegmentId(1), segment_offset: 50 * number as u32, lsn, dirty: true };
                let piece = if *kind == 0 { Piece { segment: NOWHERE, segment_offset: 0, ..piece } } else { piece };
                map.insert(piece, &mut removed, &mut refused);
                match kind {
                    0 => runs.supersede(*offset..piece.end(), lsn),
                    _ => runs.insert(piece),
                }
            }
            let counts = |piece: &Piece| piece.segment != NOWHERE;
            for (offset, len) in looks {
                let range = offset..offset + len;
                prop_assert_eq!(bytes(runs.overlapping(range.clone()).into_iter()), bytes(map.overlapping(range).filter(counts)));
            }
            prop_assert_eq!(bytes(runs.into_map().iter()), bytes(map.iter().filter(counts)));
        }
    }
}
