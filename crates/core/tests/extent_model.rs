//! `ExtentMap` against a model that keeps every byte by itself.

use std::ops::Range;

use forebay_core::extent::{ExtentMap, Piece};
use forebay_core::id::{Lsn, SegmentId};
use proptest::prelude::*;

/// A file so small that writes often meet.
const SMALL: Size = Size { file_bytes: 96, write_bytes_max: 48 };
/// A file with room for so many pieces that the map holds them in many leaves.
const LARGE: Size = Size { file_bytes: 4096, write_bytes_max: 16 };

#[derive(Clone, Copy)]
struct Size {
    file_bytes: u64,
    write_bytes_max: u64,
}

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

struct Model {
    bytes: Vec<Option<Byte>>,
}

impl Model {
    fn new(size: Size) -> Self {
        Model { bytes: vec![None; size.file_bytes as usize] }
    }

    fn within(&mut self, range: Range<u64>) -> impl Iterator<Item = &mut Option<Byte>> {
        self.bytes[range.start as usize..range.end as usize].iter_mut()
    }

    fn present(&self, range: Range<u64>) -> Vec<Byte> {
        self.bytes[range.start as usize..range.end as usize].iter().flatten().copied().collect()
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

/// Names the first byte that differs: a whole file is too long to read.
fn assert_same(found: &[Byte], expected: &[Byte], what: &str) {
    let first = found.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(found.len().min(expected.len()));
    let (wrong, right) = (found.get(first), expected.get(first));
    assert_eq!(wrong, right, "{what}: byte {first} of {} found, {} expected", found.len(), expected.len());
}

#[derive(Clone, Debug)]
enum Op {
    Insert(Piece),
    InsertGaps(Piece),
    Remove(Range<u64>),
    MarkClean(Range<u64>, Lsn),
    Relocate { range: Range<u64>, lsn: Lsn, from: (SegmentId, u32), to: (SegmentId, u32) },
}

fn range(Size { file_bytes, .. }: Size, bytes_max: u64) -> impl Strategy<Value = Range<u64>> {
    (0..file_bytes, 0..=bytes_max).prop_map(move |(start, len)| start..(start + len).min(file_bytes))
}

/// A range to read, remove or mark: mostly as short as a write, sometimes up to the whole file.
fn any_range(size: Size) -> impl Strategy<Value = Range<u64>> {
    prop_oneof![4 => range(size, size.write_bytes_max), 1 => range(size, size.file_bytes)]
}

fn lsn() -> impl Strategy<Value = Lsn> {
    prop_oneof![Just(1), 1..12u64].prop_map(Lsn)
}

fn place(offset: u64) -> impl Strategy<Value = (SegmentId, u32)> {
    (1..4u64, prop_oneof![Just(0), 0..3u32]).prop_map(move |(segment, step)| (SegmentId(segment), offset as u32 + step * PLACE_STEP))
}

fn piece(size: Size) -> impl Strategy<Value = Piece> {
    (range(size, size.write_bytes_max), lsn(), any::<bool>()).prop_flat_map(|(range, lsn, dirty)| {
        let (offset, len) = (range.start, (range.end - range.start) as u32);
        place(offset).prop_map(move |(segment, segment_offset)| Piece { offset, len, segment, segment_offset, lsn, dirty })
    })
}

fn op(size: Size) -> impl Strategy<Value = Op> {
    let relocate = (any_range(size), lsn()).prop_flat_map(|(range, lsn)| {
        (place(range.start), place(range.start)).prop_map(move |(from, to)| Op::Relocate { range: range.clone(), lsn, from, to })
    });
    prop_oneof![
        6 => piece(size).prop_map(Op::Insert),
        2 => piece(size).prop_map(Op::InsertGaps),
        1 => any_range(size).prop_map(Op::Remove),
        3 => (any_range(size), lsn()).prop_map(|(range, upto)| Op::MarkClean(range, upto)),
        3 => relocate,
    ]
}

fn apply(op: &Op, map: &mut ExtentMap, model: &mut Model) {
    let (mut first, mut second) = (vec![], vec![]);
    match op {
        Op::Insert(piece) => {
            map.insert(*piece, &mut first, &mut second);
            let (removed, refused) = model.insert(piece);
            assert_same(&all_bytes(&first), &removed, "removed");
            assert_same(&all_bytes(&second), &refused, "refused");
        }
        Op::InsertGaps(piece) => {
            map.insert_gaps(*piece, &mut first);
            assert_same(&all_bytes(&first), &model.insert_gaps(piece), "inserted");
        }
        Op::Remove(range) => {
            map.remove(range.clone(), &mut first);
            let removed: Vec<Byte> = model.within(range.clone()).filter_map(Option::take).collect();
            assert_same(&all_bytes(&first), &removed, "removed");
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
    assert_same(&unsorted, &model.present(0..model.bytes.len() as u64), "the walk");
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
    assert_same(&overlapping.iter().flat_map(bytes_of).collect::<Vec<_>>(), &present, "overlapping");
    assert!(overlapping.iter().all(|p| p.len > 0));

    let gaps: Vec<Range<u64>> = map.gaps(range.clone()).collect();
    assert!(gaps.windows(2).all(|pair| pair[0].end < pair[1].start), "gaps {gaps:?} are not apart and in order");
    assert!(gaps.iter().all(|gap| !gap.is_empty()));
    let absent: Vec<u64> = range.clone().filter(|o| model.bytes[*o as usize].is_none()).collect();
    assert_eq!(gaps.into_iter().flatten().collect::<Vec<_>>(), absent, "gaps in {range:?}");

    let first_dirty = map.first_dirty(range.start);
    let expected = model.present(range.start..model.bytes.len() as u64).into_iter().find(|b| b.dirty);
    assert_eq!(first_dirty.and_then(|p| bytes_of(&p).next()), expected, "first dirty from {}", range.start);
    if let Some(piece) = first_dirty {
        assert_same(&bytes_of(&piece).collect::<Vec<_>>(), &model.present(piece.offset..piece.end()), "first dirty");
        let whole = map.iter().find(|p| p.end() > piece.offset).expect("a piece of the map");
        assert_eq!(whole.end(), piece.end(), "first_dirty gives a piece to its end");
    }
}

fn agree(size: Size, first: &[Piece], ops: &[(Op, Range<u64>)]) {
    let (mut map, mut model) = (ExtentMap::new(), Model::new(size));
    for piece in first {
        apply(&Op::Insert(*piece), &mut map, &mut model);
    }
    for (op, range) in ops {
        apply(op, &mut map, &mut model);
        check_whole(&map, &model);
        check_range(&map, &model, range.clone());
    }
}

/// What keeps the neighbours of [`filling`] apart.
#[derive(Clone, Copy, Debug)]
enum Apart {
    /// Their places: nothing makes one piece of them.
    Places,
    /// Every other one is clean: marking the others makes them one piece.
    Dirt,
    /// Every other one is in another segment: moving it makes them one piece.
    Segments,
}

/// Writes of a few bytes each, in one direction or the other, that fill a file.
fn filling(size: Size) -> impl Strategy<Value = Vec<Piece>> {
    let apart = prop_oneof![Just(Apart::Places), Just(Apart::Dirt), Just(Apart::Segments)];
    (1..8u32, any::<bool>(), any::<bool>(), apart).prop_map(move |(len, ascending, dirty, apart)| {
        let write = |i: u64| {
            let (offset, other) = (i * u64::from(len), i % 2 == 1);
            let piece = Piece { offset, len, segment: SegmentId(1), segment_offset: offset as u32, lsn: Lsn(1), dirty };
            match apart {
                Apart::Places => Piece { segment_offset: 0, ..piece },
                Apart::Dirt => Piece { dirty: other, ..piece },
                Apart::Segments => Piece { segment: SegmentId(1 + u64::from(other)), ..piece },
            }
        };
        let count = size.file_bytes / u64::from(len);
        if ascending { (0..count).map(write).collect() } else { (0..count).rev().map(write).collect() }
    })
}

proptest! {
    #[test]
    fn agrees_with_the_model(ops in prop::collection::vec((op(SMALL), any_range(SMALL)), 1..120)) {
        agree(SMALL, &[], &ops);
    }

    /// Whatever the order in which writes arrive, the bytes are those of the newest write (contract 7).
    #[test]
    fn order_of_arrival_does_not_matter(order in arrivals()) {
        let mut sorted = order.clone();
        sorted.sort_by_key(|write| write.lsn);
        let [arrived, in_order] = [order, sorted].map(|writes| {
            let mut map = ExtentMap::new();
            for write in writes {
                map.insert(write, &mut vec![], &mut vec![]);
            }
            map.iter().collect::<Vec<_>>()
        });
        prop_assert_eq!(arrived, in_order);
    }
}

proptest! {
    // A large file takes long to compare; PROPTEST_CASES asks for more here too.
    #![proptest_config(ProptestConfig::with_cases((ProptestConfig::default().cases / 16).max(1)))]

    #[test]
    fn agrees_with_the_model_when_large(
        first in filling(LARGE),
        ops in prop::collection::vec((op(LARGE), any_range(LARGE)), 1..400),
    ) {
        agree(LARGE, &first, &ops);
    }
}

fn arrivals() -> impl Strategy<Value = Vec<Piece>> {
    let ranges = prop::collection::vec(range(SMALL, SMALL.write_bytes_max), 1..40);
    let write = |(range, lsn): (Range<u64>, u64)| Piece {
        offset: range.start,
        len: (range.end - range.start) as u32,
        segment: SegmentId(lsn),
        segment_offset: 0,
        lsn: Lsn(lsn),
        dirty: true,
    };
    ranges.prop_map(move |ranges| ranges.into_iter().zip(1..).map(write).collect::<Vec<_>>()).prop_shuffle()
}
