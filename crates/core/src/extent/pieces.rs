//! The ordered store behind [`super::ExtentMap`]: pieces in leaves of a few dozen, leaves in an ordered map.
//!
//! - The first leaf has the key 0 and stands by itself, so that a file of few pieces is one small allocation. Every other leaf has a
//!   key: none of its pieces begins before the key, and no piece of the leaves before it reaches beyond.
//! - No piece is empty, no two overlap, no two neighbours could be one ([`Piece::continues_in`]), across leaves too.
//! - Only the first leaf may be empty.
//! - `dirty_leaves` holds the keys (other than 0) of the leaves that hold a dirty piece: a flush must not walk over what is clean.

use alloc::collections::{BTreeMap, BTreeSet, btree_map};
use core::ops::Bound::{Excluded, Unbounded};
use core::ops::Range;

use super::Piece;
use super::leaf::{Change, LEAF_PIECES_MAX, Leaf};

/// The pieces of a file; see the head of this file.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces {
    first: Leaf,
    rest: BTreeMap<u64, Leaf>,
    /// The key of the last leaf: most writes of most files are behind all others.
    last_key: u64,
    dirty_leaves: BTreeSet<u64>,
    len: usize,
    bytes: u64,
    dirty_bytes: u64,
}

impl Pieces {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// The pieces in order, from the first that reaches beyond `offset`.
    pub(super) fn walk(&self, offset: u64) -> impl Iterator<Item = Piece> + '_ {
        let (key, leaf, index) = self.locate(offset);
        leaf.walk(index).chain(LeavesBehind { pieces: self, key, leaves: None }.flat_map(|leaf| leaf.walk(0)))
    }

    /// The first dirty piece that reaches beyond `offset`.
    pub(super) fn first_dirty(&self, offset: u64) -> Option<Piece> {
        if self.dirty_bytes == 0 {
            return None;
        }
        let (key, leaf, index) = self.locate(offset);
        leaf.first_dirty(index).or_else(|| {
            let next = self.dirty_leaves.range((Excluded(key), Unbounded)).next()?;
            self.rest[next].first_dirty(0)
        })
    }

    /// Puts a piece where nothing stands, as one with the neighbours that it continues.
    pub(super) fn put(&mut self, new: Piece) {
        let (key, leaf) = self.leaf_at_mut(new.offset);
        let index = leaf.reaching_beyond(new.offset);
        let change = leaf.replace(index..index, new, |_| ());
        self.account(key, change);
    }

    /// Puts a piece in the place of whatever stands there and passes the old parts to `removed`, if one leaf holds them all and none
    /// is newer. Otherwise it does nothing and returns false. Most writes are of the first kind, and this looks for their leaf once.
    pub(super) fn replace_in_leaf(&mut self, new: Piece, removed: impl FnMut(Piece)) -> bool {
        let last_key = self.last_key;
        let (key, leaf) = self.leaf_at_mut(new.offset);
        let start = leaf.reaching_beyond(new.offset);
        let end = leaf.beginning_at(new.end(), start);
        let may_reach_out = end == leaf.len() && key != last_key;
        if may_reach_out || leaf.walk(start).take(end - start).any(|old| old.lsn > new.lsn) {
            return false;
        }
        let change = leaf.replace(start..end, new, removed);
        self.account(key, change);
        true
    }

    /// Passes each part of the map within `range` through `edit`, in order: what it returns stands there instead, in the same range of
    /// the file; `None` removes the part.
    pub(super) fn edit(&mut self, mut range: Range<u64>, mut edit: impl FnMut(Piece) -> Option<Piece>) {
        while !range.is_empty() {
            range.start = self.edit_first_leaf(range.clone(), &mut edit);
        }
    }

    /// Passes each dirty part of the map within `range` through `edit`, as [`Pieces::edit`] does, and some of the clean ones.
    pub(super) fn edit_dirty(&mut self, mut range: Range<u64>, mut edit: impl FnMut(Piece) -> Option<Piece>) {
        while !range.is_empty()
            && let Some(dirty) = self.first_dirty(range.start)
        {
            range.start = range.start.max(dirty.offset);
            range.start = self.edit_first_leaf(range.clone(), &mut edit);
        }
    }

    /// Does the work of [`Pieces::edit`] in the first leaf that holds a part of the range. Returns where the range goes on.
    fn edit_first_leaf(&mut self, range: Range<u64>, edit: &mut impl FnMut(Piece) -> Option<Piece>) -> u64 {
        let (mut key, leaf, mut start) = self.locate(range.start);
        if start == leaf.len() {
            let Some((next, _)) = self.leaf_behind(key) else { return range.end };
            (key, start) = (next, 0);
        }
        let leaf = self.leaf_mut(key);
        let end = leaf.beginning_at(range.end, start);
        let Some(last) = leaf.get(end.wrapping_sub(1)).filter(|_| start < end) else { return range.end };
        let change = leaf.edit(start..end, &range, edit);
        self.account(key, change);
        last.end()
    }

    /// Brings the sums and the leaves in order after a change of one leaf.
    fn account(&mut self, key: u64, change: Change) {
        let leaf = self.leaf_mut(key);
        let pieces = leaf.len();
        let is_dirty = leaf.is_dirty();
        let Change { at_start, at_end, pieces_before, was_dirty, removed, added } = change;
        self.len = self.len + pieces - pieces_before;
        self.bytes = self.bytes + added.bytes - removed.bytes;
        self.dirty_bytes = self.dirty_bytes + added.dirty_bytes - removed.dirty_bytes;
        if is_dirty != was_dirty {
            self.note_dirty(key);
        }
        if at_end && key != self.last_key {
            self.join_behind(key);
        }
        if at_start && key != 0 {
            return self.join_before(key);
        }
        if pieces > LEAF_PIECES_MAX {
            self.split(key, at_start, at_end);
        } else if pieces < pieces_before && pieces < LEAF_PIECES_MAX / 4 {
            self.shrink(key);
        }
    }

    /// Does the work of [`Pieces::join_behind`] for the leaf before, after which this one may have another key or be gone.
    fn join_before(&mut self, key: u64) {
        let before = self.leaf_before(key).0;
        self.join_behind(before);
        let Some((key, leaf)) = self.leaf_behind(before) else { return };
        if leaf.len() > LEAF_PIECES_MAX {
            self.split(key, true, false);
        } else if leaf.len() < LEAF_PIECES_MAX / 4 {
            self.shrink(key);
        }
    }

    /// Makes the last piece of a leaf and the first of the next one piece, if they are in truth, and sees to it that the last piece
    /// does not reach beyond the key of the next leaf.
    fn join_behind(&mut self, key: u64) {
        let (Some(mut last), Some((next, behind))) = (self.leaf(key).last(), self.leaf_behind(key)) else { return };
        if let Some(first) = behind.get(0).filter(|first| last.continues_in(first)) {
            last.len += first.len;
            self.leaf_mut(key).lengthen_last(&first);
            self.leaf_mut(next).remove_first();
            self.len -= 1;
        }
        if last.end() > next {
            let leaf = self.drop_leaf(next);
            if let Some(first) = leaf.get(0) {
                self.add_leaf(first.offset, leaf);
            }
        }
    }

    /// Divides a leaf that has become too large. Where it grew at one end, as in ascending or descending writes, the rest stays full.
    fn split(&mut self, key: u64, at_start: bool, at_end: bool) {
        let left_pieces = match (at_start, at_end) {
            (false, true) => LEAF_PIECES_MAX,
            (true, false) => 1,
            _ => LEAF_PIECES_MAX / 2,
        };
        let right = self.leaf_mut(key).split_off(left_pieces);
        let right_key = right.get(0).expect("more pieces than stay").offset;
        self.note_dirty(key);
        self.add_leaf(right_key, right);
    }

    /// Drops a leaf that is empty, or puts its pieces and those of a neighbour into one, if they leave room in it.
    fn shrink(&mut self, key: u64) {
        if key != 0 && self.leaf(key).len() == 0 {
            self.drop_leaf(key);
            return;
        }
        let (left, right) = match self.leaf_behind(key) {
            Some((next, _)) => (key, next),
            None if key != 0 => (self.leaf_before(key).0, key),
            None => {
                if self.first.len() == 0 {
                    // A file that is no longer buffered should not keep the memory of when it was.
                    self.first = Leaf::default();
                }
                return;
            }
        };
        if self.leaf(left).len() + self.leaf(right).len() <= LEAF_PIECES_MAX / 2 {
            let moved = self.drop_leaf(right);
            self.leaf_mut(left).append(moved);
            self.note_dirty(left);
        }
    }

    fn add_leaf(&mut self, key: u64, leaf: Leaf) {
        self.rest.insert(key, leaf);
        self.last_key = self.last_key.max(key);
        self.note_dirty(key);
    }

    fn drop_leaf(&mut self, key: u64) -> Leaf {
        let leaf = self.rest.remove(&key).expect("a leaf other than the first");
        self.dirty_leaves.remove(&key);
        if key == self.last_key {
            self.last_key = self.rest.last_key_value().map_or(0, |(key, _)| *key);
        }
        leaf
    }

    fn note_dirty(&mut self, key: u64) {
        if key == 0 {
            return;
        }
        if self.leaf(key).is_dirty() {
            self.dirty_leaves.insert(key);
        } else {
            self.dirty_leaves.remove(&key);
        }
    }

    /// The leaf and the index in it of the first piece that reaches beyond `offset`. If the index is behind the leaf's last piece,
    /// that piece is the first of the next leaf.
    fn locate(&self, offset: u64) -> (u64, &Leaf, usize) {
        let (key, leaf) = self.leaf_at(offset);
        (key, leaf, leaf.reaching_beyond(offset))
    }

    /// The leaf that a piece that begins at `offset` belongs to.
    fn leaf_at(&self, offset: u64) -> (u64, &Leaf) {
        let at = if offset >= self.last_key { self.rest.last_key_value() } else { self.rest.range(..=offset).next_back() };
        at.map_or((0, &self.first), |(key, leaf)| (*key, leaf))
    }

    fn leaf_at_mut(&mut self, offset: u64) -> (u64, &mut Leaf) {
        let at = if offset >= self.last_key { self.rest.iter_mut().next_back() } else { self.rest.range_mut(..=offset).next_back() };
        at.map_or((0, &mut self.first), |(key, leaf)| (*key, leaf))
    }

    fn leaf(&self, key: u64) -> &Leaf {
        if key == 0 { &self.first } else { &self.rest[&key] }
    }

    fn leaf_mut(&mut self, key: u64) -> &mut Leaf {
        if key == 0 { &mut self.first } else { self.rest.get_mut(&key).expect("the key of a leaf") }
    }

    /// The leaf before one that is not the first.
    fn leaf_before(&self, key: u64) -> (u64, &Leaf) {
        self.rest.range(..key).next_back().map_or((0, &self.first), |(key, leaf)| (*key, leaf))
    }

    fn leaf_behind(&self, key: u64) -> Option<(u64, &Leaf)> {
        if key == self.last_key {
            return None;
        }
        self.rest.range((Excluded(key), Unbounded)).next().map(|(key, leaf)| (*key, leaf))
    }
}

/// The leaves behind a key; looked up only when a walk gets there, as most walks are short.
struct LeavesBehind<'a> {
    pieces: &'a Pieces,
    key: u64,
    leaves: Option<btree_map::Range<'a, u64, Leaf>>,
}

impl<'a> Iterator for LeavesBehind<'a> {
    type Item = &'a Leaf;

    fn next(&mut self) -> Option<&'a Leaf> {
        let leaves = self.leaves.get_or_insert_with(|| self.pieces.rest.range((Excluded(self.key), Unbounded)));
        leaves.next().map(|(_, leaf)| leaf)
    }
}
