//! The log's segments: which slot holds what, what is free, and when a slot may be used again.
//!
//! A segment is filled front to back and never written twice. It begins in memory and moves to its slot on the SSD when memory is
//! wanted. When nothing live is left in it, its slot is *dying* until the journal has made that true for ever: a slot that never
//! reached the SSD as soon as the records are appended, another only when they are on the medium. Otherwise a crash could bring back an
//! older history whose bytes have been overwritten.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::config::{CLEANING_SEGMENTS, NodeConfig};
use crate::effect::{LogRange, Slot};
use crate::id::{Ino, Lsn, MemorySlot, Position, SegmentId, SsdSlot};

/// Memory slots below which writers do not wait for one: the last is the one that they fill, and a large write needs the next.
const MEMORY_MIN: u32 = 2;

/// One write's bytes within a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogRecord {
    /// Bytes from the segment's start.
    pub offset: u32,
    /// Bytes.
    pub len: u32,
    /// The file.
    pub ino: Ino,
    /// Bytes from the file's start.
    pub file_offset: u64,
    /// The write's place in history; 0 for bytes fetched from home.
    pub lsn: Lsn,
    /// CRC-32C.
    pub crc: u32,
    /// When it was written.
    pub time_ns: i64,
}

/// A segment in use.
#[derive(Debug)]
pub struct Segment {
    /// Its place on the SSD.
    pub slot: SsdSlot,
    /// Its place in memory, while it has one.
    pub memory: Option<MemorySlot>,
    /// Bytes given out.
    pub filled: u32,
    /// The same, with at least [`NodeConfig::record_bytes_min`] for each record.
    pub spent: u32,
    /// What its live parts would take in another segment when that was last counted, and the live bytes then.
    pub cost_seen: Option<(u32, u32)>,
    /// Bytes that an index refers to.
    pub live_bytes: u32,
    /// Its records, by offset.
    pub records: Vec<LogRecord>,
    /// No more is given out.
    pub sealed: bool,
    /// Writes and copies into it that are not done.
    pub writes_in_flight: u32,
    /// Reads that refer to its present place.
    pub pins: u32,
    /// What stands in memory and not yet on the SSD, as a hull.
    pub unspilled: Option<(u32, u32)>,
    /// Spills in flight.
    pub spills_in_flight: u32,
    /// It is being moved to the SSD.
    pub leaving_memory: bool,
    /// Some of it stands on the SSD.
    pub on_ssd: bool,
    /// Its memory slot took no bytes: it is not used again.
    pub memory_failed: bool,
}

/// All segments of the log.
#[derive(Debug)]
pub struct Segments {
    /// Bytes of a segment.
    pub segment_bytes: u32,
    /// What a record takes of a segment at least, bytes.
    pub record_bytes_min: u32,
    /// Segments in use.
    pub live: BTreeMap<SegmentId, Segment>,
    free_slots: BTreeSet<SsdSlot>,
    free_memory: BTreeSet<MemorySlot>,
    dying: VecDeque<Dying>,
    /// Memory slots of spilled segments, until the record that says so is appended.
    leaving: Vec<(MemorySlot, Position)>,
    active: Option<SegmentId>,
    /// The segment that the cleaner fills. It is the cleaner's own: writes that filled it would take the room it is about to make.
    /// It has no memory slot: what is cleaned is cold, and goes to the SSD at once.
    cleaner_active: Option<SegmentId>,
    next_segment: u64,
    segments_max: u32,
    slots: u32,
    /// Memory slots that can be used at all.
    memory_usable: u32,
    /// Bytes that indexes refer to, in all.
    pub live_bytes: u64,
    /// The most segments that were ever in use.
    pub peak: u32,
    /// Something ended since the last [`Segments::bury`] that may have been a segment's last.
    may_be_dead: bool,
}

/// The slots of a dead segment, until what made it dead is settled.
#[derive(Clone, Copy, Debug)]
struct Dying {
    slot: SsdSlot,
    memory: Option<MemorySlot>,
    /// The newest record when it died.
    position: Position,
    /// Its bytes reached the SSD: the record must be on the medium before they are overwritten.
    needs_medium: bool,
}

/// Space in a segment, given out and to be filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// The segment.
    pub segment: SegmentId,
    /// The bytes.
    pub at: LogRange,
}

impl Segments {
    /// An empty log.
    pub fn new(config: &NodeConfig) -> Segments {
        let (slots, memory_segments_max) = (config.ssd_slots(), config.memory_segments_max);
        Segments {
            segment_bytes: config.segment_bytes,
            record_bytes_min: config.record_bytes_min(),
            live: BTreeMap::new(),
            free_slots: (0..slots).map(SsdSlot).collect(),
            free_memory: (0..memory_segments_max).map(MemorySlot).collect(),
            dying: VecDeque::new(),
            leaving: Vec::new(),
            active: None,
            cleaner_active: None,
            next_segment: 1,
            segments_max: config.segments_max,
            slots,
            memory_usable: memory_segments_max,
            live_bytes: 0,
            peak: 0,
            may_be_dead: false,
        }
    }

    /// Slots that may be used now.
    pub fn free_count(&self) -> usize {
        self.free_slots.len()
    }

    /// Memory slots that may be used now.
    pub fn free_memory_count(&self) -> usize {
        self.free_memory.len()
    }

    /// Slots that will be free when the journal has settled.
    pub fn dying_count(&self) -> usize {
        self.dying.len()
    }

    /// How much of the capacity is taken, in segments. What the cleaner has beside the capacity is not counted.
    pub fn used_count(&self) -> u32 {
        (self.slots - self.free_slots.len() as u32).min(self.segments_max)
    }

    fn left_bytes(&self, active: Option<SegmentId>) -> u64 {
        active.and_then(|id| self.live.get(&id)).map_or(0, |s| u64::from(self.segment_bytes - s.filled))
    }

    /// What the cleaner can have at once, bytes; each record counts as at least `record_bytes_min`.
    pub fn cleaner_room_bytes(&self) -> u64 {
        let active = self.cleaner_active.and_then(|id| self.live.get(&id));
        let left = active.map_or(0, |s| u64::from(self.segment_bytes - s.spent.min(self.segment_bytes)));
        left + self.free_slots.len() as u64 * u64::from(self.segment_bytes)
    }

    /// The most records that the log has, when each takes as little as it can.
    pub fn records_max(&self) -> usize {
        self.slots as usize * (self.segment_bytes / self.record_bytes_min) as usize
    }

    /// Records that are kept.
    pub fn record_count(&self) -> usize {
        self.live.values().map(|segment| segment.records.len()).sum()
    }

    /// Bytes that can be given out to writers at once; [`CLEANING_SEGMENTS`] slots stay free.
    pub fn room_bytes(&self) -> u64 {
        let memory = if self.memory_usable < MEMORY_MIN { usize::MAX } else { self.free_memory.len() };
        let openable = self.free_slots.len().saturating_sub(CLEANING_SEGMENTS as usize).min(memory);
        self.left_bytes(self.active) + (openable as u64).saturating_mul(u64::from(self.segment_bytes))
    }

    /// Gives out `len` bytes, in as many parts as there are segments touched; the ids of segments opened on the way are appended to
    /// `opened`. The caller has asked [`Segments::room_bytes`].
    pub fn allocate(&mut self, len: u32, opened: &mut Vec<SegmentId>) -> Vec<Space> {
        self.allocate_for(false, len, opened)
    }

    /// The same for the cleaner, which has asked [`Segments::cleaner_room_bytes`].
    pub fn allocate_cleaned(&mut self, len: u32, opened: &mut Vec<SegmentId>) -> Vec<Space> {
        self.allocate_for(true, len, opened)
    }

    fn allocate_for(&mut self, cleaner: bool, mut len: u32, opened: &mut Vec<SegmentId>) -> Vec<Space> {
        let mut parts = Vec::new();
        while len > 0 {
            let id = match if cleaner { self.cleaner_active } else { self.active } {
                Some(id) => id,
                None => match self.open(cleaner) {
                    Some(id) => {
                        opened.push(id);
                        id
                    }
                    None => break,
                },
            };
            let Some(segment) = self.live.get_mut(&id) else { break };
            let part = len.min(self.segment_bytes - segment.filled);
            let at = LogRange { slot: segment.place(), offset: segment.filled, len: part };
            segment.filled += part;
            segment.spent = segment.spent.saturating_add(part.max(self.record_bytes_min));
            segment.writes_in_flight += 1;
            if segment.filled == self.segment_bytes || segment.spent >= self.segment_bytes {
                segment.sealed = true;
                *(if cleaner { &mut self.cleaner_active } else { &mut self.active }) = None;
            }
            parts.push(Space { segment: id, at });
            len -= part;
        }
        debug_assert_eq!(len, 0, "the caller asked for more room than there is");
        parts
    }

    fn open(&mut self, cleaner: bool) -> Option<SegmentId> {
        if !cleaner && self.free_memory.is_empty() && self.memory_usable >= MEMORY_MIN {
            return None;
        }
        let slot = self.free_slots.pop_first()?;
        let memory = if cleaner { None } else { self.free_memory.pop_first() };
        let id = SegmentId(self.next_segment);
        self.next_segment += 1;
        self.live.insert(id, Segment::new(slot, memory));
        *(if cleaner { &mut self.cleaner_active } else { &mut self.active }) = Some(id);
        self.peak = self.peak.max(self.used_count());
        Some(id)
    }

    /// A write into a space is done; on failure the space stays unused.
    pub fn written(&mut self, space: Space, record: Option<LogRecord>) {
        let Some(segment) = self.live.get_mut(&space.segment) else { return };
        segment.writes_in_flight -= 1;
        self.may_be_dead = true;
        if let Some(record) = record {
            let at = segment.records.partition_point(|r| r.offset < record.offset);
            segment.records.insert(at, record);
            if segment.sealed && segment.writes_in_flight == 0 {
                segment.records.shrink_to_fit();
            }
            let (from, to) = (record.offset, record.offset + record.len);
            if segment.memory.is_some() {
                segment.unspilled = Some(segment.unspilled.map_or((from, to), |(f, t)| (f.min(from), t.max(to))));
            }
        }
    }

    /// The segment's memory slot took no bytes, because the memory file's file system is full: nothing more is put there. False if
    /// the segment has no memory slot, and the failure is the SSD's.
    pub fn memory_failed(&mut self, id: SegmentId) -> bool {
        let Some(segment) = self.live.get_mut(&id) else { return false };
        if segment.memory.is_none() {
            return false;
        }
        if !core::mem::replace(&mut segment.memory_failed, true) {
            self.memory_usable = self.memory_usable.saturating_sub(1);
        }
        segment.sealed = true;
        if self.active == Some(id) {
            self.active = None;
        }
        true
    }

    /// An index refers to `len` more bytes of the segment.
    pub fn add_live(&mut self, id: SegmentId, len: u32) {
        if let Some(segment) = self.live.get_mut(&id) {
            segment.live_bytes += len;
            self.live_bytes += u64::from(len);
        }
    }

    /// An index refers to `len` bytes less.
    pub fn sub_live(&mut self, id: SegmentId, len: u32) {
        if let Some(segment) = self.live.get_mut(&id) {
            debug_assert!(segment.live_bytes >= len, "{id:?} loses more than it holds");
            segment.live_bytes -= len;
            self.live_bytes -= u64::from(len);
            self.may_be_dead = true;
        }
    }

    /// Ends full segments in which nothing is live and nothing under way; `last` is the newest journal position, which says why they are dead.
    pub fn bury(&mut self, last: Position) {
        if !core::mem::take(&mut self.may_be_dead) {
            return;
        }
        let dead = self.live.iter().filter(|(_, s)| s.sealed && s.is_dead()).map(|(id, _)| *id).collect::<Vec<_>>();
        for id in dead {
            if let Some(Segment { slot, memory, on_ssd, memory_failed, .. }) = self.live.remove(&id) {
                let memory = memory.filter(|_| !memory_failed);
                self.dying.push_back(Dying { slot, memory, position: last, needs_medium: on_ssd });
            }
        }
    }

    /// Frees dead slots: those that need the journal appended up to `appended`, or on the medium up to `durable`.
    pub fn settle(&mut self, appended: Position, durable: Position) -> usize {
        let before = self.dying.len();
        let (free_slots, free_memory) = (&mut self.free_slots, &mut self.free_memory);
        self.leaving.retain(|(memory, position)| {
            let settled = *position <= appended;
            if settled {
                free_memory.insert(*memory);
            }
            !settled
        });
        self.dying.retain_mut(|dead| {
            if dead.position <= appended {
                free_memory.extend(dead.memory.take());
            }
            let settled = dead.position <= if dead.needs_medium { durable } else { appended };
            if settled {
                free_slots.insert(dead.slot);
            }
            !settled
        });
        before - self.dying.len()
    }

    /// Whether a sync of the log would free slots.
    pub fn sync_would_free(&self) -> bool {
        self.dying.iter().any(|dead| dead.needs_medium)
    }

    /// The segment to move from memory to the SSD next: the oldest that is full.
    pub fn next_to_leave_memory(&self) -> Option<SegmentId> {
        self.live.iter().find(|(_, s)| s.memory.is_some() && s.sealed && !s.leaving_memory && s.writes_in_flight == 0).map(|(id, _)| *id)
    }

    /// Segments on their way out of memory.
    pub fn leaving_count(&self) -> usize {
        self.leaving.len() + self.live.values().filter(|s| s.leaving_memory && s.memory.is_some()).count()
    }

    /// A spill of the segment has ended.
    pub fn spill_done(&mut self, id: SegmentId) {
        if let Some(segment) = self.live.get_mut(&id) {
            segment.spills_in_flight -= 1;
            self.may_be_dead = true;
        }
    }

    /// The segment has left memory, as the record at `position` says: its memory slot is free when that is appended.
    pub fn left_memory(&mut self, id: SegmentId, position: Position) {
        if let Some(segment) = self.live.get_mut(&id) {
            segment.leaving_memory = false;
            if let Some(memory) = segment.memory.take().filter(|_| !segment.memory_failed) {
                self.leaving.push((memory, position));
            }
        }
    }

    /// The full segment whose live parts take the least elsewhere, as far as was counted: the cheapest to empty.
    pub fn cheapest_to_clean(&self) -> Option<SegmentId> {
        let candidates = self.live.iter().filter(|(_, s)| s.sealed && s.writes_in_flight == 0 && s.live_bytes < self.segment_bytes);
        candidates.filter(|(_, s)| !s.is_dead()).min_by_key(|(id, s)| (s.cost_bytes(), **id)).map(|(id, _)| *id)
    }

    /// Notes what the live parts of a segment take elsewhere. True if that is more than was known.
    pub fn has_dearer_parts(&mut self, id: SegmentId, cost_bytes: u32) -> bool {
        let Some(segment) = self.live.get_mut(&id) else { return false };
        let is_dearer = cost_bytes > segment.cost_bytes();
        segment.cost_seen = Some((segment.live_bytes, cost_bytes));
        is_dearer
    }

    /// Copying what takes so much elsewhere would win next to nothing, because it is many small records.
    pub fn is_cleaning_pointless(&self, cost_bytes: u32) -> bool {
        self.record_bytes_min > 1 && cost_bytes > self.segment_bytes - self.segment_bytes / 16
    }

    /// What parts of these lengths would take in another segment.
    pub fn cost_bytes(&self, lens: impl Iterator<Item = u32>) -> u32 {
        lens.fold(0, |sum: u32, len| sum.saturating_add(len.max(self.record_bytes_min)))
    }

    /// The record that holds this byte of a segment.
    pub fn record_at(&self, id: SegmentId, offset: u32) -> Option<&LogRecord> {
        let records = &self.live.get(&id)?.records;
        let next = records.partition_point(|r| r.offset <= offset);
        records.get(next.checked_sub(1)?).filter(|r| offset < r.offset + r.len)
    }

    /// Where a part of a segment is now.
    pub fn range(&self, id: SegmentId, offset: u32, len: u32) -> Option<LogRange> {
        Some(LogRange { slot: self.live.get(&id)?.place(), offset, len })
    }

    /// A reader refers to the segment's present place, until [`Segments::unpin`].
    pub fn pin(&mut self, id: SegmentId) {
        if let Some(segment) = self.live.get_mut(&id) {
            segment.pins += 1;
        }
    }

    /// See [`Segments::pin`].
    pub fn unpin(&mut self, id: SegmentId) {
        if let Some(segment) = self.live.get_mut(&id) {
            segment.pins -= 1;
            self.may_be_dead = true;
        }
    }

    /// Bytes of segments that have a memory slot.
    pub fn memory_bytes(&self) -> u64 {
        self.live.values().filter(|s| s.memory.is_some()).count() as u64 * u64::from(self.segment_bytes)
    }

    /// For recovery: a segment as the journal says it was opened. Whatever had its slots before is gone.
    pub(crate) fn reopen(&mut self, id: SegmentId, slot: SsdSlot, memory: Option<MemorySlot>) {
        let live_bytes = &mut self.live_bytes;
        self.live.retain(|_, s| {
            let kept = s.slot != slot;
            *live_bytes -= if kept { 0 } else { u64::from(s.live_bytes) };
            kept
        });
        for segment in self.live.values_mut().filter(|s| memory.is_some() && s.memory == memory) {
            segment.memory = None;
        }
        self.next_segment = self.next_segment.max(id.0 + 1);
        self.live.insert(id, Segment { sealed: true, ..Segment::new(slot, memory) });
    }

    /// For recovery: computes what is free from what is in use. A slot that is not in use may hold what an older history needs, so
    /// all of them are dying until the recovered state, at position `last`, is on the medium.
    pub(crate) fn rebuild_free(&mut self, memory_segments_max: u32, last: Position) {
        self.live.retain(|_, s| s.live_bytes > 0);
        let used = self.live.values().map(|s| s.slot).collect::<BTreeSet<_>>();
        self.free_slots.clear();
        let unused = (0..self.slots).map(SsdSlot).filter(|s| !used.contains(s));
        self.dying = unused.map(|slot| Dying { slot, memory: None, position: last, needs_medium: true }).collect();
        let memory = self.live.values().filter_map(|s| s.memory).collect::<BTreeSet<_>>();
        self.free_memory = (0..memory_segments_max).map(MemorySlot).filter(|m| !memory.contains(m)).collect();
        self.peak = self.used_count();
    }
}

impl Segment {
    fn new(slot: SsdSlot, memory: Option<MemorySlot>) -> Segment {
        Segment {
            slot,
            memory,
            filled: 0,
            spent: 0,
            cost_seen: None,
            live_bytes: 0,
            records: Vec::new(),
            sealed: false,
            writes_in_flight: 0,
            pins: 0,
            unspilled: None,
            spills_in_flight: 0,
            leaving_memory: false,
            on_ssd: memory.is_none(),
            memory_failed: false,
        }
    }

    /// Where its bytes are now.
    pub fn place(&self) -> Slot {
        self.memory.map_or(Slot::Ssd(self.slot), Slot::Memory)
    }

    /// What its live parts take elsewhere, at least.
    fn cost_bytes(&self) -> u32 {
        self.cost_seen.filter(|(live_bytes, _)| *live_bytes == self.live_bytes).map_or(self.live_bytes, |(_, cost)| cost)
    }

    fn is_dead(&self) -> bool {
        self.live_bytes == 0 && self.writes_in_flight == 0 && self.pins == 0 && self.spills_in_flight == 0
    }
}
