//! `ExtentMap` against a model that keeps every byte by itself.

use std::ops::Range;

use forebay_core::extent::{ExtentMap, Piece};
use forebay_core::id::{Lsn, SegmentId};
use proptest::prelude::*;

/// Bytes of the file under test.
const FILE_BYTES: u64 = 96;
/// A write's place in its segment: its file offset plus a multiple of this, so that neighbours often continue each other.
const PLACE_STEP: u32 = 1000;

/// One byte of the file and where it stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Byte {
    offset: u64,
    segment: SegmentId,
    segment_offset: u32,
    lsn: Lsn,
    dirty: bool,
}

fn bytes_of(piece: &Piece) -> impl Iterator<Item = Byte> {
    let Piece { offset, len, segment, segment_offset, lsn, dirty } = *piece;
    (0..len).map(move |i| Byte { offset: offset + u64::from(i), segment, segment_offset: segment_offset + i, lsn, dirty })
}

fn all_bytes<'a>(pieces: impl IntoIterator<Item = &'a Piece>) -> Vec<Byte> {
    let mut bytes: Vec<Byte> = pieces.into_iter().flat_map(bytes_of).collect();
    bytes.sort();
    bytes
}

#[derive(Default)]
struct Model {
    bytes: Vec<Option<Byte>>,
}

impl Model {
    fn new() -> Self {
        Model { bytes: vec![None; FILE_BYTES as usize] }
    }

    fn within(&mut self, range: Range<u64>) -> impl Iterator<Item = &mut Option<Byte>> {
        let end = range.end.min(FILE_BYTES) as usize;
        self.bytes[(range.start as usize).min(end)..end].iter_mut()
    }

    fn present(&self, range: Range<u64>) -> Vec<Byte> {
        self.bytes.iter().flatten().filter(|b| range.contains(&b.offset)).copied().collect()
    }

    /// Returns the bytes removed and the bytes refused.
    fn insert(&mut self, piece: &Piece) -> (Vec<Byte>, Vec<Byte>) {
        let (mut removed, mut refused) = (vec![], vec![]);
        for new in bytes_of(piece) {
            match &mut self.bytes[new.offset as usize] {
                Some(old) if old.lsn > new.lsn => refused.push(new),
                place => removed.extend(place.replace(new)),
            }
        }
        (removed, refused)
    }

    fn insert_gaps(&mut self, piece: &Piece) -> Vec<Byte> {
        let gaps: Vec<Byte> = bytes_of(piece).filter(|b| self.bytes[b.offset as usize].is_none()).collect();
        for byte in &gaps {
            self.bytes[byte.offset as usize] = Some(*byte);
        }
        gaps
    }

    fn mark_clean(&mut self, range: Range<u64>, upto: Lsn) -> u64 {
        let mut made_clean = 0;
        for byte in self.within(range).flatten().filter(|b| b.dirty && b.lsn <= upto) {
            byte.dirty = false;
            made_clean += 1;
        }
        made_clean
    }

    fn relocate(&mut self, range: Range<u64>, lsn: Lsn, from: (SegmentId, u32), to: (SegmentId, u32)) -> u64 {
        let start = range.start;
        let mut moved = 0;
        for byte in self.within(range).flatten() {
            let delta = (byte.offset - start) as u32;
            if (byte.lsn, byte.segment, byte.segment_offset) == (lsn, from.0, from.1 + delta) {
                (byte.segment, byte.segment_offset) = (to.0, to.1 + delta);
                moved += 1;
            }
        }
        moved
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(Piece),
    InsertGaps(Piece),
    Remove(Range<u64>),
    MarkClean(Range<u64>, Lsn),
    Relocate { range: Range<u64>, lsn: Lsn, from: (SegmentId, u32), to: (SegmentId, u32) },
}

fn range() -> impl Strategy<Value = Range<u64>> {
    (0..FILE_BYTES, 0..=FILE_BYTES / 2).prop_map(|(start, len)| start..(start + len).min(FILE_BYTES))
}

fn lsn() -> impl Strategy<Value = Lsn> {
    (1..12u64).prop_map(Lsn)
}

fn place(offset: u64) -> impl Strategy<Value = (SegmentId, u32)> {
    (1..4u64, 0..3u32).prop_map(move |(segment, step)| (SegmentId(segment), offset as u32 + step * PLACE_STEP))
}

fn piece() -> impl Strategy<Value = Piece> {
    (range(), lsn(), any::<bool>()).prop_flat_map(|(range, lsn, dirty)| {
        let (offset, len) = (range.start, (range.end - range.start) as u32);
        place(offset).prop_map(move |(segment, segment_offset)| Piece { offset, len, segment, segment_offset, lsn, dirty })
    })
}

fn op() -> impl Strategy<Value = Op> {
    let relocate = (range(), lsn()).prop_flat_map(|(range, lsn)| {
        (place(range.start), place(range.start)).prop_map(move |(from, to)| Op::Relocate { range: range.clone(), lsn, from, to })
    });
    prop_oneof![
        6 => piece().prop_map(Op::Insert),
        2 => piece().prop_map(Op::InsertGaps),
        1 => range().prop_map(Op::Remove),
        3 => (range(), lsn()).prop_map(|(range, upto)| Op::MarkClean(range, upto)),
        3 => relocate,
    ]
}

fn apply(op: &Op, map: &mut ExtentMap, model: &mut Model) {
    let (mut first, mut second) = (vec![], vec![]);
    match op {
        Op::Insert(piece) => {
            map.insert(*piece, &mut first, &mut second);
            assert_eq!((all_bytes(&first), all_bytes(&second)), model.insert(piece), "(removed, refused)");
        }
        Op::InsertGaps(piece) => {
            map.insert_gaps(*piece, &mut first);
            assert_eq!(all_bytes(&first), model.insert_gaps(piece), "inserted");
        }
        Op::Remove(range) => {
            map.remove(range.clone(), &mut first);
            let removed: Vec<Byte> = model.within(range.clone()).filter_map(Option::take).collect();
            assert_eq!(all_bytes(&first), removed, "removed");
        }
        Op::MarkClean(range, upto) => {
            assert_eq!(map.mark_clean(range.clone(), *upto), model.mark_clean(range.clone(), *upto));
        }
        Op::Relocate { range, lsn, from, to } => {
            let moved = map.relocate(range.clone(), *lsn, from.0, from.1, to.0, to.1);
            assert_eq!(moved, model.relocate(range.clone(), *lsn, *from, *to));
        }
    }
    assert!(first.iter().chain(&second).all(|p| p.len > 0), "an empty part in {first:?} or {second:?}");
}

/// The whole map is what the model is, in order, and no two neighbours could be one piece.
fn check_whole(map: &ExtentMap, model: &Model) {
    let pieces: Vec<Piece> = map.iter().collect();
    let unsorted: Vec<Byte> = pieces.iter().flat_map(bytes_of).collect();
    assert_eq!(unsorted, model.present(0..FILE_BYTES));
    for pair in pieces.windows(2) {
        let adjacent = pair[0].end() == pair[1].offset
            && pair[0].segment_offset + pair[0].len == pair[1].segment_offset
            && (pair[0].segment, pair[0].lsn, pair[0].dirty) == (pair[1].segment, pair[1].lsn, pair[1].dirty);
        assert!(!adjacent, "{pair:?} should be one piece");
    }
    assert_eq!(map.len(), pieces.len());
    assert_eq!(map.is_empty(), pieces.is_empty());
    assert_eq!(map.bytes(), unsorted.len() as u64);
    assert_eq!(map.dirty_bytes(), unsorted.iter().filter(|b| b.dirty).count() as u64);
}

/// Each question about a range is answered as the model answers it.
fn check_range(map: &ExtentMap, model: &Model, range: Range<u64>) {
    let present = model.present(range.clone());
    let overlapping: Vec<Piece> = map.overlapping(range.clone()).collect();
    assert_eq!(overlapping.iter().flat_map(bytes_of).collect::<Vec<_>>(), present, "overlapping {range:?}");
    assert!(overlapping.iter().all(|p| p.len > 0));

    let gaps: Vec<Range<u64>> = map.gaps(range.clone()).collect();
    assert!(gaps.windows(2).all(|pair| pair[0].end < pair[1].start), "gaps {gaps:?} are not apart and in order");
    assert!(gaps.iter().all(|gap| !gap.is_empty()));
    let absent: Vec<u64> = range.clone().filter(|o| model.bytes[*o as usize].is_none()).collect();
    assert_eq!(gaps.into_iter().flatten().collect::<Vec<_>>(), absent, "gaps in {range:?}");

    let first_dirty = map.first_dirty(range.start);
    let expected = model.present(range.start..FILE_BYTES).into_iter().find(|b| b.dirty);
    assert_eq!(first_dirty.and_then(|p| bytes_of(&p).next()), expected, "first dirty from {}", range.start);
    if let Some(piece) = first_dirty {
        assert_eq!(bytes_of(&piece).collect::<Vec<_>>(), model.present(piece.offset..piece.end()));
        let whole = map.iter().find(|p| p.end() > piece.offset).expect("a piece of the map");
        assert_eq!(whole.end(), piece.end(), "first_dirty gives a piece to its end");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn agrees_with_the_model(ops in prop::collection::vec((op(), range()), 1..120)) {
        let (mut map, mut model) = (ExtentMap::new(), Model::new());
        for (op, range) in &ops {
            apply(op, &mut map, &mut model);
            check_whole(&map, &model);
            check_range(&map, &model, range.clone());
        }
    }

    /// Whatever the order in which writes arrive, the bytes are those of the newest write (contract 7).
    #[test]
    fn order_of_arrival_does_not_matter(ranges in prop::collection::vec(range(), 1..40), seed in any::<u64>()) {
        let writes: Vec<Piece> = ranges.iter().zip(1u64..).map(|(range, lsn)| Piece {
            offset: range.start,
            len: (range.end - range.start) as u32,
            segment: SegmentId(lsn),
            segment_offset: 0,
            lsn: Lsn(lsn),
            dirty: true,
        }).collect();
        let mut shuffled = writes.clone();
        shuffled.sort_by_key(|p| p.lsn.0.wrapping_add(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31).wrapping_mul(seed | 1));
        let [in_order, out_of_order] = [writes, shuffled].map(|writes| {
            let mut map = ExtentMap::new();
            for write in writes {
                map.insert(write, &mut vec![], &mut vec![]);
            }
            map.iter().collect::<Vec<_>>()
        });
        prop_assert_eq!(in_order, out_of_order);
    }
}
