//! A leaf of the store: a few dozen neighbouring pieces in an array.

use alloc::vec::Vec;
use core::ops::Range;

use super::Piece;
use crate::id::{Lsn, SegmentId};

/// Pieces of a leaf. Larger leaves make the map of leaves smaller and an insert in the middle of a leaf dearer; between 62 and 254 the
/// benchmark hardly tells them apart. One change adds up to two pieces before the leaf is divided, so that a leaf takes
/// [`LEAF_PLACES`] (4 KiB) and never more.
pub(super) const LEAF_PIECES_MAX: usize = 126;
const LEAF_PLACES: usize = LEAF_PIECES_MAX + 2;

/// A piece in 32 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    offset: u64,
    segment: SegmentId,
    /// The write's place in history, and in the lowest bit whether the bytes are dirty.
    lsn_and_dirty: u64,
    segment_offset: u32,
    len: u32,
}

impl Entry {
    fn new(piece: Piece) -> Entry {
        let Piece { offset, len, segment, segment_offset, lsn, dirty } = piece;
        debug_assert!(lsn.0 >> 63 == 0, "{lsn:?} does not leave the bit that says dirty");
        Entry { offset, segment, lsn_and_dirty: lsn.0 << 1 | u64::from(dirty), segment_offset, len }
    }

    fn piece(&self) -> Piece {
        let Entry { offset, segment, segment_offset, len, .. } = *self;
        Piece { offset, len, segment, segment_offset, lsn: Lsn(self.lsn_and_dirty >> 1), dirty: self.is_dirty() }
    }

    fn is_dirty(&self) -> bool {
        self.lsn_and_dirty & 1 == 1
    }

    fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }
}

/// Neighbouring pieces, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaf {
    entries: Vec<Entry>,
    /// How many of them are dirty.
    dirty: usize,
}

/// What a change did to a leaf.
pub(super) struct Change {
    /// The first or the last piece changed, or something was put before or behind it.
    pub(super) at_start: bool,
    pub(super) at_end: bool,
    pub(super) pieces_before: usize,
    pub(super) was_dirty: bool,
    pub(super) removed: Sum,
    pub(super) added: Sum,
}

/// Bytes, and how many of them are dirty.
#[derive(Default)]
pub(super) struct Sum {
    pub(super) bytes: u64,
    pub(super) dirty_bytes: u64,
}

impl Sum {
    fn add(&mut self, piece: &Piece) {
        self.bytes += u64::from(piece.len);
        self.dirty_bytes += if piece.dirty { u64::from(piece.len) } else { 0 };
    }
}

impl Leaf {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.dirty > 0
    }

    pub(super) fn get(&self, index: usize) -> Option<Piece> {
        self.entries.get(index).map(Entry::piece)
    }

    pub(super) fn last(&self) -> Option<Piece> {
        self.entries.last().map(Entry::piece)
    }

    /// The pieces in order from the index on.
    pub(super) fn walk(&self, from: usize) -> impl Iterator<Item = Piece> + '_ {
        self.entries[from..].iter().map(Entry::piece)
    }

    /// The index of the first piece that reaches beyond `offset`.
    pub(super) fn reaching_beyond(&self, offset: u64) -> usize {
        self.entries.partition_point(|entry| entry.end() <= offset)
    }

    /// The index of the first piece that begins at `offset` or behind; none before `from` does.
    pub(super) fn beginning_at(&self, offset: u64, from: usize) -> usize {
        // A write meets few pieces: a search from the start of the range is shorter than one of the whole leaf.
        from + self.entries[from..].iter().take_while(|entry| entry.offset < offset).count()
    }

    /// The first dirty piece from the index on.
    pub(super) fn first_dirty(&self, from: usize) -> Option<Piece> {
        if self.dirty == 0 {
            return None;
        }
        self.entries[from..].iter().find(|entry| entry.is_dirty()).map(Entry::piece)
    }

    /// Puts `new` in the place of its parts of the pieces `old`, which are all those that it overlaps. Those parts go to `removed`.
    pub(super) fn replace(&mut self, old: Range<usize>, new: Piece, mut removed: impl FnMut(Piece)) -> Change {
        let range = new.range();
        let mut change = self.change(&old);
        change.added.add(&new);
        for piece in self.entries[old.clone()].iter().map(Entry::piece) {
            let part = piece.clip(&range);
            change.removed.add(&part);
            removed(part);
        }
        let touched = self.with_neighbours(&old);
        let mut run = Run::default();
        // Of what stays, the part before the range and the part behind it are all that matter: with the neighbours on both sides,
        // which may become one with the new piece.
        for piece in self.entries[touched.start..old.start.max(touched.start)].iter().map(Entry::piece) {
            run.push(piece);
        }
        if let Some(first) = self.entries[old.clone()].first().map(Entry::piece).filter(|first| first.offset < range.start) {
            run.push(first.clip(&(first.offset..range.start)));
        }
        run.push(new);
        if let Some(last) = self.entries[old.clone()].last().map(Entry::piece).filter(|last| last.end() > range.end) {
            run.push(last.clip(&(range.end..last.end())));
        }
        for piece in self.entries[old.end..touched.end].iter().map(Entry::piece) {
            run.push(piece);
        }
        self.put_run(touched, &run.entries[..run.len]);
        change
    }

    /// Passes the parts within `range` of the pieces `old`, which are all those that overlap it, through `edit`; what it returns
    /// stands there instead.
    pub(super) fn edit(&mut self, old: Range<usize>, range: &Range<u64>, edit: &mut impl FnMut(Piece) -> Option<Piece>) -> Change {
        let mut change = self.change(&old);
        let touched = self.with_neighbours(&old);
        let mut run = Vec::with_capacity(touched.len() + 2);
        for index in touched.clone() {
            let piece = self.entries[index].piece();
            if !old.contains(&index) {
                push_joined(&mut run, piece);
                continue;
            }
            if piece.offset < range.start {
                push_joined(&mut run, piece.clip(&(piece.offset..range.start)));
            }
            let part = piece.clip(range);
            change.removed.add(&part);
            if let Some(new) = edit(part) {
                debug_assert_eq!(new.range(), part.range(), "an edit moved bytes of the file");
                change.added.add(&new);
                push_joined(&mut run, new);
            }
            if piece.end() > range.end {
                push_joined(&mut run, piece.clip(&(range.end..piece.end())));
            }
        }
        self.put_run(touched, &run);
        change
    }

    /// Appends the first piece of the next leaf to the last, which it continues.
    pub(super) fn lengthen_last(&mut self, next: &Piece) {
        if let Some(last) = self.entries.last_mut() {
            last.len += next.len;
        }
    }

    pub(super) fn remove_first(&mut self) {
        self.dirty -= usize::from(self.entries.remove(0).is_dirty());
    }

    /// Leaves the first pieces and gives back the others.
    pub(super) fn split_off(&mut self, pieces: usize) -> Leaf {
        let mut entries = Vec::with_capacity(LEAF_PLACES);
        entries.extend(self.entries.drain(pieces..));
        let dirty = count_dirty(&entries);
        self.dirty -= dirty;
        Leaf { entries, dirty }
    }

    /// Appends the pieces of the leaf behind.
    pub(super) fn append(&mut self, mut behind: Leaf) {
        self.entries.append(&mut behind.entries);
        self.dirty += behind.dirty;
    }

    fn change(&self, old: &Range<usize>) -> Change {
        Change {
            at_start: old.start == 0,
            at_end: old.end == self.entries.len(),
            pieces_before: self.entries.len(),
            was_dirty: self.is_dirty(),
            removed: Sum::default(),
            added: Sum::default(),
        }
    }

    fn with_neighbours(&self, range: &Range<usize>) -> Range<usize> {
        range.start.saturating_sub(1)..self.entries.len().min(range.end + 1)
    }

    fn put_run(&mut self, old: Range<usize>, run: &[Entry]) {
        self.dirty = self.dirty + count_dirty(run) - count_dirty(&self.entries[old.clone()]);
        let common = old.len().min(run.len());
        self.entries[old.start..old.start + common].copy_from_slice(&run[..common]);
        self.entries.drain(old.start + common..old.end);
        for (index, entry) in (old.start + common..).zip(&run[common..]) {
            self.entries.insert(index, *entry);
        }
    }
}

fn count_dirty(entries: &[Entry]) -> usize {
    entries.iter().filter(|entry| entry.is_dirty()).count()
}

/// Appends a piece, as one with the last if it continues it.
fn push_joined(entries: &mut Vec<Entry>, piece: Piece) {
    match entries.last_mut() {
        Some(last) if last.piece().continues_in(&piece) => last.len += piece.len,
        _ => entries.push(Entry::new(piece)),
    }
}

/// What one new piece leaves of its surroundings: a neighbour, a part, the piece, a part, a neighbour.
#[derive(Default)]
struct Run {
    entries: [Entry; 5],
    len: usize,
}

impl Run {
    fn push(&mut self, piece: Piece) {
        match self.entries[..self.len].last_mut() {
            Some(last) if last.piece().continues_in(&piece) => last.len += piece.len,
            _ => {
                self.entries[self.len] = Entry::new(piece);
                self.len += 1;
            }
        }
    }
}
