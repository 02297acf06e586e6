//! The regions of the SSD's log (S-06, S-09): filled from front to back, flushed and emptied as a whole.
//!
//! | state | takes bytes | is flushed | next |
//! |---|---|---|---|
//! | empty | no | no | filling, when the region before it is full |
//! | filling | yes, at its tail | no | full, when something does not fit, or nothing more would |
//! | full | no | when all its writes have arrived, the oldest filling first | empty, when its bytes are home and nobody reads them |

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::message::{FileRange, Generation};
use super::runs::Runs;
use crate::extent::{ExtentMap, Piece};
use crate::id::{Ino, Lsn, SegmentId};

/// The state of a region; see the head of this file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegionState {
    /// Nothing in it.
    Empty,
    /// It takes bytes.
    Filling,
    /// It takes no more.
    Full,
}

/// Bytes of a file on the SSD, told by pieces whose offsets have 30 bits: a region is numbered in such steps.
const STEP_BITS: u32 = 30;
/// Steps that a generation may have: regions of up to 1 TiB.
const STEPS_BITS: u32 = 10;

/// The largest region, bytes.
pub const REGION_BYTES_MAX: u64 = 1 << (STEP_BITS + STEPS_BITS);
/// The largest write that a region takes, bytes.
pub const WRITE_BYTES_MAX: u64 = 1 << STEP_BITS;

/// A part of the SSD.
#[derive(Debug)]
pub struct Region {
    base: u64,
    capacity_bytes: u64,
    state: RegionState,
    generation: Generation,
    tail: u64,
    /// Writes that have their place and have not arrived.
    pub(super) writes: u32,
    /// Reads that are under way.
    pub(super) reads: u32,
    /// The index while bytes arrive.
    arriving: BTreeMap<Ino, Runs>,
    /// The index from the beginning of the flush on.
    files: BTreeMap<Ino, ExtentMap>,
    /// While bytes arrive, those that were written over count, too.
    dirty_bytes: u64,
}

impl Region {
    /// Its state.
    pub fn state(&self) -> RegionState {
        self.state
    }

    /// The filling that it is in, or was in last.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Bytes that are not home; while it is filled, what was written over counts, too.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// The index of each file (S-10), from the beginning of the flush on.
    pub fn files(&self) -> &BTreeMap<Ino, ExtentMap> {
        &self.files
    }

    /// Where a write would begin, bytes from the region's start.
    fn place_of(&self, len: u64) -> Option<u64> {
        // A write does not cross the border of a step.
        let rest = WRITE_BYTES_MAX - self.tail % WRITE_BYTES_MAX;
        let from = if len > rest { self.tail + rest } else { self.tail };
        (from + len <= self.capacity_bytes && len <= WRITE_BYTES_MAX).then_some(from)
    }

    fn piece(&self, range: FileRange, lsn: Lsn, at: u64, dirty: bool) -> Piece {
        let within = at - self.base;
        let segment = SegmentId(self.generation.0 << STEPS_BITS | within >> STEP_BITS);
        let segment_offset = (within & (WRITE_BYTES_MAX - 1)) as u32;
        Piece { offset: range.offset, len: range.len as u32, segment, segment_offset, lsn, dirty }
    }

    /// Where a piece stands: bytes from the start of the SSD's log.
    pub fn at(&self, piece: &Piece) -> u64 {
        let step = piece.segment.0 & ((1 << STEPS_BITS) - 1);
        self.base + (step << STEP_BITS) + u64::from(piece.segment_offset)
    }

    fn insert(&mut self, range: FileRange, lsn: Lsn, at: u64) {
        debug_assert!(self.files.is_empty(), "{:?} is being flushed", self.generation);
        let piece = self.piece(range, lsn, at, true);
        self.arriving.entry(range.file).or_default().insert(piece);
        self.dirty_bytes += range.len;
    }

    /// All its bytes have arrived: from now on it is walked, marked and cut.
    pub(super) fn freeze(&mut self) {
        debug_assert!(self.state == RegionState::Full && self.writes == 0, "{:?} is not full", self.generation);
        for (file, runs) in core::mem::take(&mut self.arriving) {
            self.files.insert(file, runs.into_map());
        }
        self.dirty_bytes = self.files.values().map(ExtentMap::dirty_bytes).sum();
    }

    /// What it has of a range, in order.
    fn overlapping(&self, range: FileRange) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = self.files.get(&range.file).map_or(Vec::new(), |map| map.overlapping(range.offsets()).collect());
        if let Some(runs) = self.arriving.get(&range.file) {
            debug_assert!(pieces.is_empty(), "{:?} has two indexes", self.generation);
            pieces = runs.overlapping(range.offsets());
        }
        pieces
    }

    /// Takes out what is older than `lsn`.
    fn remove(&mut self, range: FileRange, lsn: Lsn) {
        let mut older = self.overlapping(range);
        older.retain(|piece| piece.lsn < lsn);
        if older.is_empty() {
            return;
        }
        if let Some(runs) = self.arriving.get_mut(&range.file) {
            // A change may concern all of a file, whose offsets are too many to be covered.
            let (from, to) = (older[0].offset, older.last().map_or(0, Piece::end));
            if to - from <= WRITE_BYTES_MAX {
                return runs.supersede(from..to, lsn);
            }
            return older.iter().for_each(|piece| runs.supersede(piece.offset..piece.end(), lsn));
        }
        let Some(map) = self.files.get_mut(&range.file) else { return };
        self.dirty_bytes -= map.dirty_bytes();
        let mut removed = Vec::new();
        for piece in &older {
            map.remove(piece.offset..piece.end(), &mut removed);
        }
        self.dirty_bytes += map.dirty_bytes();
    }

    /// Nothing of it counts as home.
    pub(super) fn mark_dirty(&mut self) {
        for map in self.files.values_mut() {
            let pieces: Vec<Piece> = map.iter().collect();
            *map = ExtentMap::new();
            for piece in pieces {
                map.insert(Piece { dirty: true, ..piece }, &mut Vec::new(), &mut Vec::new());
            }
        }
        self.dirty_bytes = self.files.values().map(ExtentMap::dirty_bytes).sum();
    }

    pub(super) fn mark_clean(&mut self, range: FileRange) {
        if let Some(map) = self.files.get_mut(&range.file) {
            self.dirty_bytes -= map.mark_clean(range.offsets(), Lsn(u64::MAX >> 1));
        }
    }
}

/// Where a write goes on the SSD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The filling.
    pub generation: Generation,
    /// Bytes from the start of the SSD's log.
    pub at: u64,
}

/// Why a write gets no place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoSlot {
    /// Every region is full.
    Full,
    /// It is larger than a region.
    TooLarge,
}

/// How the SSD is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Bytes of the SSD's log.
    pub ssd_bytes: u64,
    /// Parts of the same size.
    pub regions: u32,
}

/// All regions.
#[derive(Debug)]
pub struct Regions {
    layout: Layout,
    regions: Vec<Region>,
    filled: Generation,
}

impl Regions {
    /// Empty regions.
    pub fn new(layout: Layout) -> Regions {
        let Layout { ssd_bytes, regions: count } = layout;
        let capacity_bytes = (ssd_bytes / u64::from(count.max(1))).min(REGION_BYTES_MAX);
        let region = |number: u32| Region {
            base: u64::from(number) * capacity_bytes,
            capacity_bytes,
            state: RegionState::Empty,
            generation: Generation(0),
            tail: 0,
            writes: 0,
            reads: 0,
            arriving: BTreeMap::new(),
            files: BTreeMap::new(),
            dirty_bytes: 0,
        };
        Regions { layout, regions: (0..count.max(1)).map(region).collect(), filled: Generation(0) }
    }

    /// How the SSD is divided now.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Divides the SSD anew, if every region is empty.
    pub(super) fn divide(&mut self, layout: Layout) {
        if self.layout != layout && self.regions.iter().all(|region| region.state == RegionState::Empty) {
            *self = Regions { filled: self.filled, ..Regions::new(layout) };
        }
    }

    /// The regions, in the order of the SSD.
    pub fn iter(&self) -> impl Iterator<Item = &Region> {
        self.regions.iter()
    }

    /// Bytes that all of them hold.
    pub fn capacity_bytes(&self) -> u64 {
        self.regions.iter().map(|region| region.capacity_bytes).sum()
    }

    /// Bytes that writes may still be given.
    pub fn free_bytes(&self) -> u64 {
        let free = |region: &Region| match region.state {
            RegionState::Empty => region.capacity_bytes,
            RegionState::Filling => region.capacity_bytes - region.tail,
            RegionState::Full => 0,
        };
        self.regions.iter().map(free).sum()
    }

    /// Bytes that are not home.
    pub fn dirty_bytes(&self) -> u64 {
        self.regions.iter().map(|region| region.dirty_bytes).sum()
    }

    /// The newest filling.
    pub fn newest(&self) -> Generation {
        self.filled
    }

    /// Whether no region takes bytes.
    pub fn is_closed(&self) -> bool {
        self.regions.iter().all(|region| region.state == RegionState::Full)
    }

    /// The full region that was filled first.
    pub fn oldest_full(&self) -> Option<&Region> {
        self.regions.iter().filter(|region| region.state == RegionState::Full).min_by_key(|region| region.generation)
    }

    fn position(&self, generation: Generation) -> Option<usize> {
        let holds = |region: &Region| region.state != RegionState::Empty && region.generation == generation;
        self.regions.iter().position(holds)
    }

    /// The region in this filling, if it is not empty again.
    pub fn get(&self, generation: Generation) -> Option<&Region> {
        self.position(generation).map(|at| &self.regions[at])
    }

    pub(super) fn get_mut(&mut self, generation: Generation) -> Option<&mut Region> {
        self.position(generation).map(|at| &mut self.regions[at])
    }

    /// Gives a write its place at the tail of the region that is being filled. One that does not fit makes that region full and goes to
    /// an empty one.
    pub fn append(&mut self, len: u64) -> Result<Slot, NoSlot> {
        let filling = self.regions.iter().position(|region| region.state == RegionState::Filling);
        if let Some(at) = filling {
            if let Some(slot) = self.append_to(at, len) {
                return Ok(slot);
            }
            if len > self.regions[at].capacity_bytes || len > WRITE_BYTES_MAX {
                return Err(NoSlot::TooLarge);
            }
            self.regions[at].state = RegionState::Full;
        }
        let Some(at) = self.regions.iter().position(|region| region.state == RegionState::Empty) else { return Err(NoSlot::Full) };
        if len > self.regions[at].capacity_bytes || len > WRITE_BYTES_MAX {
            return Err(NoSlot::TooLarge);
        }
        self.filled.0 += 1;
        let region = &mut self.regions[at];
        debug_assert!(
            region.files.is_empty() && region.arriving.is_empty() && region.writes == 0 && region.reads == 0,
            "{region:?} is not empty"
        );
        (region.state, region.generation, region.tail) = (RegionState::Filling, self.filled, 0);
        self.append_to(at, len).ok_or(NoSlot::TooLarge)
    }

    /// Whether a write would get a place now.
    pub fn can_take(&self, len: u64) -> Result<(), NoSlot> {
        let capacity_bytes = self.regions.iter().map(|region| region.capacity_bytes).max().unwrap_or(0);
        if len > capacity_bytes.min(WRITE_BYTES_MAX) {
            return Err(NoSlot::TooLarge);
        }
        let fits = |region: &Region| match region.state {
            RegionState::Empty => true,
            RegionState::Filling => region.place_of(len).is_some(),
            RegionState::Full => false,
        };
        if self.regions.iter().any(fits) { Ok(()) } else { Err(NoSlot::Full) }
    }

    /// Numbers up to this one are not given again.
    pub(super) fn skip_generations(&mut self, upto: Generation) {
        self.filled = self.filled.max(upto);
    }

    fn append_to(&mut self, at: usize, len: u64) -> Option<Slot> {
        let region = &mut self.regions[at];
        let from = region.place_of(len)?;
        region.tail = from + len;
        region.writes += 1;
        if region.tail == region.capacity_bytes {
            // Nothing fits any more: the flush need not wait for a write that finds that out.
            region.state = RegionState::Full;
        }
        Some(Slot { generation: region.generation, at: region.base + from })
    }

    /// The region that is being filled takes no more, though it has room.
    pub fn seal(&mut self) {
        for region in self.regions.iter_mut().filter(|region| region.state == RegionState::Filling) {
            region.state = RegionState::Full;
        }
    }

    /// A write has arrived at its place, or has failed (`indexed` is false).
    pub fn on_written(&mut self, range: FileRange, lsn: Lsn, slot: Slot, indexed: bool) {
        let Some(region) = self.get_mut(slot.generation) else { return };
        region.writes -= 1;
        if indexed {
            region.insert(range, lsn, slot.at);
        }
    }

    /// Takes out what is older than a write that went to the disk.
    pub fn supersede(&mut self, range: FileRange, lsn: Lsn) {
        self.regions.iter_mut().for_each(|region| region.remove(range, lsn));
    }

    /// Whether anything of the range stands in a region.
    pub fn overlaps(&self, range: FileRange) -> bool {
        self.regions.iter().any(|region| !region.overlapping(range).is_empty())
    }

    /// Divides a range into what the regions have, newest first (S-12), and what only the disk has. Each part comes with its filling.
    pub fn look_up(&self, range: FileRange, parts: &mut Vec<(Generation, super::SsdPart)>, gaps: &mut Vec<core::ops::Range<u64>>) {
        gaps.push(range.offsets());
        let in_use = |region: &&Region| !region.files.is_empty() || !region.arriving.is_empty();
        let mut newest_first: Vec<&Region> = self.regions.iter().filter(in_use).collect();
        newest_first.sort_unstable_by_key(|region| core::cmp::Reverse(region.generation));
        for region in newest_first {
            for gap in core::mem::take(gaps) {
                let mut from = gap.start;
                for piece in region.overlapping(FileRange { file: range.file, offset: gap.start, len: gap.end - gap.start }) {
                    let part = super::SsdPart { at: region.at(&piece), len: u64::from(piece.len), offset: piece.offset };
                    parts.push((region.generation, part));
                    gaps.extend((from < piece.offset).then_some(from..piece.offset));
                    from = piece.end();
                }
                gaps.extend((from < gap.end).then_some(from..gap.end));
            }
        }
    }

    /// All of a filling is home, and noted to be: nothing of it is found any more.
    pub(super) fn forget(&mut self, generation: Generation) {
        if let Some(region) = self.get_mut(generation) {
            debug_assert!(region.dirty_bytes == 0 && region.writes == 0, "{region:?} is not home");
            region.files.clear();
        }
    }

    /// A region that is full, home and unread is empty again.
    pub fn empty(&mut self, generation: Generation) {
        let Some(region) = self.get_mut(generation) else { return };
        debug_assert!(region.dirty_bytes == 0 && region.writes == 0 && region.reads == 0, "{region:?} is in use");
        region.files.clear();
        region.state = RegionState::Empty;
    }

    /// Puts an entry back that was found after a crash. Its region is full from then on.
    pub(super) fn recover(&mut self, entry: &super::Entry) {
        let found = self.regions.iter_mut().find(|region| (region.base..region.base + region.capacity_bytes).contains(&entry.at));
        let Some(region) = found else { return };
        if region.state == RegionState::Empty || region.generation < entry.generation {
            // What is left of an older filling was overwritten: its note of being empty was durable before.
            region.arriving.clear();
            region.dirty_bytes = 0;
            (region.state, region.generation) = (RegionState::Full, entry.generation);
        }
        region.insert(entry.range, entry.lsn, entry.at);
        self.filled = self.filled.max(entry.generation);
    }
}
