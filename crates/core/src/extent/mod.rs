//! The index of one file's buffered bytes: file range -> place in the log.
//!
//! Pieces never overlap. Where two writes meet, the newer [`Lsn`] wins, whatever the order of arrival, and the older piece is trimmed
//! or split (S-10). The map is ordered by file offset, so that a flush is a walk in file order (S-11). Neighbours that are one piece
//! in truth (adjacent in the file and in the log, same write, same state) are always stored as one.
//!
//! The paper keeps an AVL tree; the store behind the map keeps leaves of up to 126 pieces in an ordered map, which was measured against an ordered map
//! of single pieces with a set of the dirty ones (`cargo bench -p forebay-core`, processor time on a busy machine of two cores, medians
//! of five runs, ns an operation):
//!
//! | with 10^6 pieces         | map of pieces | leaves |
//! |--------------------------|---------------|--------|
//! | insert, ascending        | 1132          | 163    |
//! | insert, shuffled         | 2431          | 795    |
//! | overwrite a whole piece  | 4007          | 1255   |
//! | look up                  | 1122          | 929    |
//! | walk in order, a piece   | 42            | 7      |
//! | flush, a piece           | 726           | 99     |
//! | memory, bytes a piece    | 80 to 101     | 33 to 49 |
//! | memory, file of one piece, bytes | 640   | 256    |

mod leaf;
mod pieces;

use alloc::vec::Vec;
use core::ops::Range;

use pieces::Pieces;

use crate::id::{Lsn, SegmentId};

/// A part of a file in one place of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Bytes from the file's start.
    pub offset: u64,
    /// Bytes; never 0 in a map.
    pub len: u32,
    /// The segment that holds the bytes.
    pub segment: SegmentId,
    /// Bytes from the segment's start.
    pub segment_offset: u32,
    /// The write's place in history.
    pub lsn: Lsn,
    /// The bytes are not yet home.
    pub dirty: bool,
}

impl Piece {
    /// The file offset behind the piece.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }

    /// The part of the piece within `range`, which must overlap it.
    pub fn clip(&self, range: &Range<u64>) -> Piece {
        let start = self.offset.max(range.start);
        let end = self.end().min(range.end);
        debug_assert!(start < end, "no part of {self:?} lies in {range:?}");
        Piece { offset: start, len: (end - start) as u32, segment_offset: self.segment_offset + (start - self.offset) as u32, ..*self }
    }

    fn range(&self) -> Range<u64> {
        self.offset..self.end()
    }

    /// Whether `next` continues this piece in the file, in the log and in history.
    fn continues_in(&self, next: &Piece) -> bool {
        self.end() == next.offset
            && self.segment == next.segment
            && self.lsn == next.lsn
            && self.dirty == next.dirty
            && self.segment_offset.checked_add(self.len) == Some(next.segment_offset)
            && self.len.checked_add(next.len).is_some()
    }
}

/// An ordered map of the pieces of one file; see the head of this file.
#[derive(Default, Debug, Clone)]
pub struct ExtentMap {
    pieces: Pieces,
}

impl ExtentMap {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether no byte of the file is in the map.
    pub fn is_empty(&self) -> bool {
        self.pieces.len() == 0
    }

    /// Pieces in the map.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Bytes in the map. O(1).
    pub fn bytes(&self) -> u64 {
        self.pieces.bytes()
    }

    /// Bytes in the map that are not yet home. O(1).
    pub fn dirty_bytes(&self) -> u64 {
        self.pieces.dirty_bytes()
    }

    /// Inserts a piece: parts covered by pieces with a strictly newer `Lsn` are kept, everything else is replaced. Each old part
    /// that lost its place is appended to `removed`; each part of the new piece that was not taken is appended to `refused`.
    pub fn insert(&mut self, piece: Piece, removed: &mut Vec<Piece>, refused: &mut Vec<Piece>) {
        if piece.len == 0 || self.pieces.replace_in_leaf(piece, |old| removed.push(old)) {
            return;
        }
        let mut from = piece.offset;
        let refused_before = refused.len();
        refused.extend(self.overlapping(piece.range()).filter(|old| old.lsn > piece.lsn).map(|old| piece.clip(&old.range())));
        for newer in &refused[refused_before..] {
            self.replace(&piece, from..newer.offset, removed);
            from = newer.end();
        }
        self.replace(&piece, from..piece.end(), removed);
    }

    /// Inserts the piece only where nothing stands (clean bytes fetched from home must not hide a write). The parts that were
    /// inserted are appended to `inserted`.
    pub fn insert_gaps(&mut self, piece: Piece, inserted: &mut Vec<Piece>) {
        let inserted_before = inserted.len();
        inserted.extend(self.gaps(piece.range()).map(|gap| piece.clip(&gap)));
        for part in &inserted[inserted_before..] {
            self.pieces.put(*part);
        }
    }

    /// Removes everything in `range`, splitting pieces at its borders; the removed parts are appended to `removed`.
    pub fn remove(&mut self, range: Range<u64>, removed: &mut Vec<Piece>) {
        self.pieces.edit(range, |part| {
            removed.push(part);
            None
        });
    }

    /// The parts that overlap `range`, clipped to it, in file order.
    pub fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = Piece> + '_ {
        self.pieces.walk(range.start).map_while(move |piece| (piece.offset < range.end && !range.is_empty()).then(|| piece.clip(&range)))
    }

    /// All pieces in file order.
    pub fn iter(&self) -> impl Iterator<Item = Piece> + '_ {
        self.pieces.walk(0)
    }

    /// The first dirty piece that begins at `from` or reaches beyond it, clipped so that it begins at `from` or behind.
    pub fn first_dirty(&self, from: u64) -> Option<Piece> {
        self.pieces.first_dirty(from).map(|piece| piece.clip(&(from..u64::MAX)))
    }

    /// The parts of `range` where nothing stands, in file order.
    pub fn gaps(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let end = range.end;
        let mut from = range.start;
        let mut pieces = self.overlapping(range);
        core::iter::from_fn(move || {
            while from < end {
                let (gap_end, next) = pieces.next().map_or((end, end), |p| (p.offset, p.end()));
                let gap = from..gap_end;
                from = next;
                if !gap.is_empty() {
                    return Some(gap);
                }
            }
            None
        })
    }

    /// Marks clean all parts within `range` that are not newer than `upto`. Returns the bytes that were dirty before.
    pub fn mark_clean(&mut self, range: Range<u64>, upto: Lsn) -> u64 {
        let dirty_bytes_before = self.dirty_bytes();
        self.pieces.edit_dirty(range, |part| Some(Piece { dirty: part.dirty && part.lsn > upto, ..part }));
        dirty_bytes_before - self.dirty_bytes()
    }

    /// Gives a new place to the parts of `range` that still stand where a copy was made from: in segment `from`, with exactly this
    /// `lsn`, at the offset that `from_offset_of_range_start` gives them. Returns the bytes moved.
    pub fn relocate(
        &mut self,
        range: Range<u64>,
        lsn: Lsn,
        from: SegmentId,
        from_offset_of_range_start: u32,
        to: SegmentId,
        to_offset_of_range_start: u32,
    ) -> u64 {
        let mut moved = 0;
        let start = range.start;
        self.pieces.edit(range, |part| {
            let delta = part.offset - start;
            let copied_from = u64::from(from_offset_of_range_start) + delta;
            if part.lsn != lsn || part.segment != from || u64::from(part.segment_offset) != copied_from {
                return Some(part);
            }
            moved += u64::from(part.len);
            Some(Piece { segment: to, segment_offset: to_offset_of_range_start + delta as u32, ..part })
        });
        moved
    }

    /// Puts the part of `new` within `range` in the place of whatever stands there.
    fn replace(&mut self, new: &Piece, range: Range<u64>, removed: &mut Vec<Piece>) {
        if !range.is_empty() {
            self.remove(range.clone(), removed);
            self.pieces.put(new.clip(&range));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn p(offset: u64, len: u32, lsn: u64) -> Piece {
        Piece { offset, len, segment: SegmentId(1), segment_offset: 1000 * lsn as u32, lsn: Lsn(lsn), dirty: true }
    }

    fn map(pieces: &[Piece]) -> ExtentMap {
        let mut map = ExtentMap::new();
        for piece in pieces {
            map.insert(*piece, &mut vec![], &mut vec![]);
        }
        map
    }

    /// S-10, Fig. 10: whatever the order of arrival, the walk is in file order.
    #[test]
    fn walk_ascends_in_file_order() {
        let arrival = [1, 7, 8, 2, 10, 3, 4, 6, 5, 9];
        let map = map(&arrival.iter().zip(1..).map(|(n, lsn)| p(n * 10, 10, lsn)).collect::<Vec<_>>());
        assert_eq!(map.iter().map(|p| p.offset / 10).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
        assert_eq!(map.iter().nth(1).unwrap().lsn, Lsn(4), "request #2 was the fourth to arrive");
    }

    /// S-10: a later write of [4, 6) over [0, 10) is what a flush must find there.
    #[test]
    fn newer_bytes_split_older_ones() {
        let mut map = map(&[p(0, 10, 1)]);
        let (mut removed, mut refused) = (vec![], vec![]);
        map.insert(p(4, 2, 2), &mut removed, &mut refused);
        let tail = Piece { offset: 6, len: 4, segment_offset: 1006, ..p(0, 10, 1) };
        assert_eq!(map.iter().collect::<Vec<_>>(), [p(0, 4, 1), p(4, 2, 2), tail]);
        assert_eq!((removed, refused), (vec![Piece { segment_offset: 1004, ..p(4, 2, 1) }], vec![]));
        assert_eq!((map.bytes(), map.dirty_bytes()), (10, 10));
    }

    /// S-11: after [0, 10) and then [4, 6), a flush takes the dirty pieces in file order and finds the newer bytes in the middle; what
    /// is written while it runs stays dirty.
    #[test]
    fn flush_walks_dirty_pieces_in_file_order() {
        let mut map = map(&[p(20, 10, 3), p(0, 10, 1), p(4, 2, 2)]);
        let mut flushed = vec![];
        while let Some(dirty) = map.first_dirty(flushed.last().map_or(0, Piece::end)) {
            flushed.push(dirty);
        }
        assert_eq!(flushed.iter().map(|p| (p.offset, p.len, p.lsn.0)).collect::<Vec<_>>(), [(0, 4, 1), (4, 2, 2), (6, 4, 1), (20, 10, 3)]);
        map.insert(p(8, 4, 4), &mut vec![], &mut vec![]);
        assert_eq!(map.mark_clean(0..30, Lsn(3)), 18);
        assert_eq!(map.first_dirty(0), Some(p(8, 4, 4)));
        assert_eq!((map.bytes(), map.dirty_bytes()), (22, 4));
    }

    /// A copy that the cleaner made moves what still stands at its source, and not what was written since.
    #[test]
    fn relocation_moves_only_what_was_copied() {
        let mut map = map(&[p(0, 10, 1), p(4, 2, 2)]);
        assert_eq!(map.relocate(0..10, Lsn(1), SegmentId(1), 1000, SegmentId(9), 0), 8);
        let places = map.iter().map(|p| (p.offset, p.len, p.segment.0, p.segment_offset)).collect::<Vec<_>>();
        assert_eq!(places, [(0, 4, 9, 0), (4, 2, 1, 2000), (6, 4, 9, 6)]);
        assert_eq!(map.relocate(0..10, Lsn(1), SegmentId(1), 1000, SegmentId(8), 0), 0, "nothing stands there any more");
    }

    /// S-10 with the two writes arriving in the other order: history, not arrival, decides.
    #[test]
    fn older_bytes_do_not_hide_newer_ones() {
        let mut map = map(&[p(4, 2, 2)]);
        let (mut removed, mut refused) = (vec![], vec![]);
        map.insert(p(0, 10, 1), &mut removed, &mut refused);
        assert_eq!((removed, refused), (vec![], vec![Piece { segment_offset: 1004, ..p(4, 2, 1) }]));
        assert_eq!(map.iter().map(|p| (p.offset, p.lsn.0)).collect::<Vec<_>>(), [(0, 1), (4, 2), (6, 1)]);
    }
}
