//! Room in the log: memory is emptied to the SSD, chunks are swapped out, sparse segments are cleaned, and syncs make it all last.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::disk::is_full;
use super::{Node, Pending, errno_of};
use crate::effect::{Effect, Outcome};
use crate::errno::Errno;
use crate::extent::Piece;
use crate::id::{CallId, ChunkId, Ino, Position, SegmentId};
use crate::io_node::{LogRecord, Space, free_slots_low};
use crate::master::Stop;
use crate::message::Reply;
use crate::record::{DataRecord, Record};
use crate::time::Time;

/// Segments on their way from memory to the SSD at a time.
const SPILLS_MAX: usize = 4;
/// Copies of the cleaner in flight at a time.
const COPIES_MAX: usize = 16;
/// Chunks that are written back to be swapped out, at a time.
const SWAPPING_MAX: usize = 32;

/// Syncs of the log.
#[derive(Debug, Default)]
pub(super) struct SyncBooks {
    /// The position that the running sync covers.
    running: Option<Position>,
    /// Its spills that are not done.
    spills: u32,
    /// One of them failed.
    failed: Option<Errno>,
    /// One of them found the disk full: the sync begins anew when a spill may be tried again.
    put_off: bool,
    /// The disk was found full, and has not taken all since then.
    pub short: Option<Errno>,
    /// Syncs put off since one succeeded.
    pub short_tries: u32,
    /// The disk had no space for a write: the next one waits until then.
    pub writes_again_at: Option<Time>,
    /// The journal was halted beside the running sync, which proves nothing then: it may come behind the next journal, and say nothing of this.
    pub is_void: bool,
    /// Segments that it spills when the spill in flight of each is done: two at a time could end in either order.
    behind: BTreeSet<SegmentId>,
    /// It waits for spills that others began, or for the journal.
    waits_for_spills: bool,
    /// The last sync failed.
    broken: bool,
    /// Another is wanted.
    pub wanted: bool,
    /// Clients that wait, with the position that must be on the medium.
    waiters: Vec<(Position, CallId)>,
    copies_in_flight: usize,
    pub swapping: usize,
    /// Chunks on their way out whose transfer has ended.
    pub landed: Vec<ChunkId>,
    /// A spill failed: the next one waits until then.
    pub spill_again_at: Option<Time>,
}

impl SyncBooks {
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Clients that wait for the medium.
    pub fn waiter_count(&self) -> usize {
        self.waiters.len()
    }

    /// The last sync failed: the buffer's medium does not keep what it is given.
    pub fn is_broken(&self) -> bool {
        self.broken
    }
}

/// What came of the look for something to clean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cleaning {
    /// Nothing is to be done, or something is under way.
    Waits,
    /// Segments are full of small records: copying them elsewhere would win nothing.
    Pointless,
}

/// A copy within the log.
#[derive(Debug)]
pub(super) struct CopyJob {
    from: SegmentId,
    record: LogRecord,
    /// The part of the record that is moved.
    part: Piece,
    to: Space,
}

impl Node {
    /// Whether `len` bytes can be given out to a client now.
    pub(super) fn has_room(&self, len: u64) -> bool {
        self.room_waiters.is_empty() && self.io.segments.room_bytes() >= len && !self.is_journal_halted()
    }

    /// A punch makes a hole, and two pieces of one: no record of the log bounds their number.
    pub(super) fn has_room_for_holes(&self) -> bool {
        self.io.pieces + self.io.holes < 2 * self.io.segments.records_max()
    }

    /// Gives out space; see [`Node::has_room`].
    pub(super) fn allocate(&mut self, len: u32) -> Vec<Space> {
        let mut opened = Vec::new();
        let spaces = self.io.segments.allocate(len, &mut opened);
        self.record_opened(opened);
        spaces
    }

    fn record_opened(&mut self, opened: Vec<SegmentId>) {
        for id in opened {
            let segment = &self.io.segments.live[&id];
            let (slot, memory) = (segment.slot, segment.memory);
            self.record(Record::SegmentOpened { segment: id, slot, memory });
        }
    }

    pub(super) fn make_room(&mut self) {
        self.settle_leaving();
        self.settle_segments();
        self.sync_may_go_on();
        self.serve_room_waiters();
        self.leave_memory();
        self.swap_chunks();
        while self.clean_segments() == Cleaning::Pointless && self.swap_chunk() {
            self.settle_segments();
        }
        let short = self.io.segments.free_count() < free_slots_low(&self.config);
        if short && self.io.segments.sync_would_free() {
            self.sync.wanted = true;
        }
        self.start_sync();
    }

    fn serve_room_waiters(&mut self) {
        if let Some(errno) = self.journal.failed {
            for (call, _) in core::mem::take(&mut self.room_waiters) {
                self.fail(call, errno);
            }
        }
        while let Some((_, request)) = self.room_waiters.front() {
            if self.sync.writes_again_at.is_some_and(|at| self.now < at) {
                return;
            }
            let has_room = match request {
                crate::message::Request::Write { len, .. } => self.io.segments.room_bytes() >= u64::from(*len),
                _ => self.has_room_for_holes(),
            };
            if !has_room {
                return;
            }
            let Some((call, request)) = self.room_waiters.pop_front() else { return };
            // Handled past the queue: it is the oldest, and the rest must not overtake it.
            let rest = core::mem::take(&mut self.room_waiters);
            self.call(call, request);
            self.room_waiters.extend(rest);
        }
        while let Some((ino, fetch)) = self.keep_waiters.pop_front() {
            if !self.keep_fetch(ino, fetch) {
                self.keep_waiters.push_front((ino, fetch));
                return;
            }
        }
    }

    /// Moves full segments from memory to the SSD while memory is short.
    fn leave_memory(&mut self) {
        if self.sync.spill_again_at.is_some_and(|at| self.now < at) {
            return;
        }
        self.sync.spill_again_at = None;
        let spare = (self.config.memory_segments_max as usize / 4).clamp(1, 16);
        let wanted = spare.min(self.io.segments.free_count().max(1));
        while self.io.segments.free_memory_count() < wanted
            && self.io.segments.free_memory_count() + self.io.segments.leaving_count() < wanted
            && self.io.segments.leaving_count() < SPILLS_MAX
        {
            let Some(id) = self.io.segments.next_to_leave_memory() else { return };
            if let Some(segment) = self.io.segments.live.get_mut(&id) {
                segment.leaving_memory = true;
            }
            if !self.spill(id, false) {
                self.try_leave(id);
            }
        }
    }

    /// Spills what of a segment stands only in memory. False if there is nothing.
    fn spill(&mut self, id: SegmentId, sync: bool) -> bool {
        let Some(segment) = self.io.segments.live.get_mut(&id).filter(|s| s.spills_in_flight == 0) else { return false };
        let (Some(memory), Some((from, to))) = (segment.memory, segment.unspilled.take()) else { return false };
        segment.on_ssd = true;
        segment.spills_in_flight += 1;
        let slot = segment.slot;
        let token = self.expect(Pending::Spill { segment: id, hull: (from, to), sync });
        self.emit(Effect::Spill { token, from: memory, to: slot, offset: from, len: to - from });
        true
    }

    pub(super) fn spill_done(&mut self, id: SegmentId, hull: (u32, u32), sync: bool, result: Result<Outcome, Errno>) {
        self.io.segments.spill_done(id);
        match result {
            Ok(_) => {
                self.counters.spilled_bytes += u64::from(hull.1 - hull.0);
                self.disk_takes();
            }
            Err(errno) => {
                if let Some(segment) = self.io.segments.live.get_mut(&id) {
                    segment.unspilled = Some(segment.unspilled.map_or(hull, |(f, t)| (f.min(hull.0), t.max(hull.1))));
                    segment.leaving_memory = false;
                }
                self.sync.spill_again_at = Some(self.now + self.config.retry_delay_ns);
                if is_full(errno) {
                    self.sync.short = Some(errno);
                    self.sync.put_off |= sync;
                    self.let_go_of_fetches();
                } else if sync {
                    self.sync.failed = Some(errno);
                }
            }
        }
        self.sync.spills -= sync as u32;
        if self.sync.behind.remove(&id) && self.sync.failed.is_none() && !self.sync.put_off {
            self.sync.spills += self.spill(id, true) as u32;
        }
        if sync {
            self.sync_if_spilled();
        }
        self.try_leave(id);
    }

    /// Frees a segment's memory slot when its bytes are on the SSD and nobody reads them in memory.
    pub(super) fn try_leave(&mut self, id: SegmentId) {
        let Some(segment) = self.io.segments.live.get(&id) else { return };
        let quiet = segment.pins == 0 && segment.spills_in_flight == 0 && segment.writes_in_flight == 0;
        if segment.leaving_memory && quiet {
            if segment.unspilled.is_some() {
                self.spill(id, false);
                return;
            }
            let position = self.record(Record::SegmentSpilled { segment: id });
            self.io.segments.left_memory(id, position);
        }
    }

    /// Swaps chunks out until what is live fits with some slack.
    fn swap_chunks(&mut self) {
        let waiting = !self.room_waiters.is_empty() || !self.keep_waiters.is_empty();
        let short = self.io.segments.free_count() < free_slots_low(&self.config);
        if !waiting && !short {
            return;
        }
        let is_full = |node: &Node| {
            if node.io.swaps_at_entry {
                return node.must_swap_more();
            }
            node.io.live_cost_bytes() > node.io.live_bytes_max || !node.has_room_for_holes()
        };
        while is_full(self) && self.swap_chunk() {}
        self.settle_segments();
    }

    /// Swaps one chunk out, or begins to; false if there is none, or enough are on their way home.
    fn swap_chunk(&mut self) -> bool {
        if self.io.swaps_at_entry {
            return self.swap_choice(|_| false);
        }
        match self.io.victim() {
            Some((chunk, false)) => {
                self.io.swap_out(chunk);
                self.counters.swaps += 1;
                true
            }
            Some((chunk, true)) if self.sync.swapping < SWAPPING_MAX => {
                self.sync.swapping += 1;
                self.io.file_mut(chunk.ino).swapping.insert(chunk.index);
                self.counters.dirty_swaps += 1;
                self.home.want_chunk(chunk);
                true
            }
            _ => false,
        }
    }

    /// Ends segments that are empty and frees the slots that nothing can bring back.
    fn settle_segments(&mut self) {
        self.io.segments.bury(self.journal.last_change);
        self.io.segments.settle(self.journal.appended, self.journal.durable);
    }

    /// A chunk that was written back to be swapped out is clean, or its write-back failed, or it is gone.
    pub(super) fn swapping_done(&mut self, ino: Ino, index: u64) {
        if self.io.swaps_at_entry {
            return self.sync.landed.push(ChunkId { ino, index });
        }
        if self.io.files.get_mut(&ino).is_some_and(|f| f.swapping.remove(&index)) {
            self.sync.swapping -= 1;
        }
    }

    /// All of a file's chunks stop being swapped out.
    pub(super) fn swapping_ends(&mut self, ino: Ino) {
        if let Some(file) = self.io.files.get_mut(&ino) {
            self.sync.swapping -= core::mem::take(&mut file.swapping).len();
        }
        self.resume_chunk_waiters(ino);
    }

    /// Empties the sparsest segments by copying what is live in them.
    fn clean_segments(&mut self) -> Cleaning {
        if self.sync.spill_again_at.is_some_and(|at| self.now < at) || self.is_journal_halted() {
            return Cleaning::Waits;
        }
        let short = |node: &Node| node.io.segments.free_count() + node.io.segments.dying_count() < free_slots_low(&node.config);
        let may_clean = |node: &Node| node.io.live_cost_bytes() <= node.entry_cost_bytes_max();
        while short(self) && self.sync.copies_in_flight == 0 && may_clean(self) {
            let Some(id) = self.io.segments.cheapest_to_clean() else { return Cleaning::Waits };
            let parts = self.live_parts(id);
            let cost_bytes = self.io.segments.cost_bytes(parts.iter().map(|(_, part)| part.len));
            if self.io.segments.has_dearer_parts(id, cost_bytes) {
                // Another may be cheaper, now that this one's cost is known.
                continue;
            }
            // A part at a border becomes two records.
            let borders_bytes = 2 * u64::from(self.io.segments.record_bytes_min);
            if self.io.segments.is_cleaning_pointless(cost_bytes) {
                return Cleaning::Pointless;
            }
            if parts.is_empty() || self.io.segments.cleaner_room_bytes() < u64::from(cost_bytes) + borders_bytes {
                return Cleaning::Waits;
            }
            for (record, part) in parts.into_iter().take(COPIES_MAX) {
                self.copy(id, record, part);
            }
        }
        Cleaning::Waits
    }

    /// The parts of a segment's records that an index still refers to.
    fn live_parts(&self, id: SegmentId) -> Vec<(LogRecord, Piece)> {
        let Some(segment) = self.io.segments.live.get(&id) else { return Vec::new() };
        let mut parts = Vec::new();
        for record in &segment.records {
            let Some(file) = self.io.files.get(&record.ino) else { continue };
            let range = record.file_offset..record.file_offset + u64::from(record.len);
            let here = |p: &Piece| p.segment == id && (record.offset..record.offset + record.len).contains(&p.segment_offset);
            parts.extend(file.extents.overlapping(range).filter(here).map(|p| (*record, p)));
        }
        parts
    }

    fn copy(&mut self, from: SegmentId, record: LogRecord, part: Piece) {
        let Some(source) = self.io.segments.range(from, part.segment_offset, part.len) else { return };
        let mut source = source;
        let mut opened = Vec::new();
        let spaces = self.io.segments.allocate_cleaned(part.len, &mut opened);
        self.record_opened(opened);
        for space in spaces {
            let piece = Piece {
                offset: part.offset + u64::from(source.offset - part.segment_offset),
                len: space.at.len,
                segment_offset: source.offset,
                ..part
            };
            let from_range = crate::effect::LogRange { len: space.at.len, ..source };
            source.offset += space.at.len;
            self.io.segments.pin(from);
            self.sync.copies_in_flight += 1;
            let token = self.expect(Pending::Copy(CopyJob { from, record, part: piece, to: space }));
            self.emit(Effect::CopyLog { token, from: from_range, to: space.at });
        }
    }

    pub(super) fn copy_done(&mut self, job: CopyJob, result: Result<Outcome, Errno>) {
        let CopyJob { from, record, part, to } = job;
        self.sync.copies_in_flight -= 1;
        self.io.segments.unpin(from);
        let crc = match &result {
            Ok(Outcome::Checksums(sums)) if sums.len() == 1 => Some(sums[0]),
            _ => None,
        };
        let whole = part.len == record.len;
        // A whole record carries its checksum along: rot on the way must not be sealed with a fresh one.
        let intact = crc.is_some_and(|crc| !whole || record.lsn.0 == 0 || crc == record.crc);
        let Some(crc) = crc.filter(|_| intact) else {
            if result.is_err() {
                self.sync.spill_again_at = Some(self.now + self.config.retry_delay_ns);
            }
            self.io.segments.written(to, None);
            self.try_leave(from);
            return;
        };
        let copied = LogRecord { offset: to.at.offset, len: part.len, file_offset: part.offset, crc, ..record };
        self.io.segments.written(to, Some(copied));
        let range = part.offset..part.end();
        let moved = self.io.relocate(record.ino, range, part.lsn, (from, part.segment_offset), (to.segment, to.at.offset));
        self.counters.cleaned_bytes += moved;
        self.io.segments.add_live(to.segment, moved as u32);
        self.io.segments.sub_live(from, moved as u32);
        if moved > 0 && record.lsn.0 != 0 {
            let data = DataRecord {
                ino: record.ino,
                file_offset: part.offset,
                len: part.len,
                segment: to.segment,
                segment_offset: to.at.offset,
                lsn: part.lsn,
                crc,
                time_ns: record.time_ns,
            };
            self.record(Record::Moved { from, data });
        }
        self.try_leave(from);
        self.try_leave(to.segment);
    }

    /// The client wants all that was acknowledged on the medium.
    pub(super) fn sync_call(&mut self, call: CallId, ino: Ino) -> Result<(), Stop> {
        self.names.inode(ino)?;
        let position = self.journal.last_change;
        if position <= self.journal.durable {
            self.reply(call, Reply::Done);
        } else {
            self.sync.waiters.push((position, call));
            self.sync.wanted = true;
        }
        Ok(())
    }

    pub(super) fn start_sync(&mut self) {
        if !self.sync.wanted || self.sync.running.is_some() {
            return;
        }
        if let Some(errno) = self.journal.failed {
            self.sync.wanted = false;
            return self.sync_ends(Err(errno));
        }
        let rests = self.sync.short.is_some() && self.sync.spill_again_at.is_some_and(|at| self.now < at);
        if rests || self.journal.halt.is_some() {
            return;
        }
        self.sync.wanted = false;
        self.sync.running = Some(self.journal.last);
        (self.sync.failed, self.sync.put_off, self.sync.is_void) = (None, false, false);
        // When everything is home, no payload has to last, only the records that say so.
        let is_needed = self.io.dirty_bytes > 0;
        let unspilled = self.io.segments.live.iter().filter(|(_, s)| (is_needed && s.unspilled.is_some()) || s.spills_in_flight > 0);
        let ids = unspilled.map(|(id, s)| (*id, s.spills_in_flight > 0)).collect::<Vec<_>>();
        self.sync.behind.clear();
        for (id, is_spilling) in ids {
            if is_spilling {
                self.sync.behind.insert(id);
            } else {
                self.sync.spills += self.spill(id, true) as u32;
            }
        }
        self.counters.log_syncs += 1;
        self.sync_if_spilled();
    }

    fn sync_if_spilled(&mut self) {
        let Some(upto) = self.sync.running.filter(|_| self.sync.spills == 0) else { return };
        if self.sync.failed.is_none() && (self.sync.put_off || self.journal.halt.is_some()) {
            return self.put_off_sync();
        }
        // Spills that room-making began before this sync, and the records themselves, belong to it as well.
        let others = self.io.segments.live.values().any(|s| s.spills_in_flight > 0);
        // What a journal that has failed lacks will never come.
        if let Some(errno) = self.sync.failed.or(self.journal.failed) {
            self.sync_ends(Err(errno));
        } else if others || self.journal.appended < upto {
            self.sync.waits_for_spills = true;
        } else {
            self.sync.waits_for_spills = false;
            let token = self.expect(Pending::SyncLog { upto });
            self.emit(Effect::SyncLog { token });
        }
    }

    /// The disk is full: the sync begins anew when it may have space, and who waits for it goes on waiting.
    fn put_off_sync(&mut self) {
        self.sync.running = None;
        self.sync.waits_for_spills = false;
        self.sync.wanted = true;
        if core::mem::take(&mut self.sync.put_off) {
            self.sync.short_tries = self.sync.short_tries.saturating_add(1);
        }
        // A drain may have waited for this often enough.
        self.stir_home();
    }

    pub(super) fn sync_log_done(&mut self, upto: Position, result: Result<Outcome, Errno>) {
        match result {
            Ok(_) if self.sync.is_void => self.put_off_sync(),
            Ok(_) => {
                (self.sync.short, self.sync.short_tries) = (None, 0);
                self.made_durable(upto);
                self.sync_ends(Ok(()));
            }
            // What it should have made durable may never be, and a later sync would not tell: a new journal has to say it all again.
            Err(errno) if is_full(errno) && self.journal.failed.is_none() => {
                self.halt(errno);
                (self.sync.short, self.sync.put_off) = (Some(errno), true);
                self.sync.spill_again_at = Some(self.now + self.config.retry_delay_ns);
                self.put_off_sync();
            }
            other => self.sync_ends(Err(errno_of(other))),
        }
    }

    fn sync_ends(&mut self, result: Result<(), Errno>) {
        self.sync.running = None;
        self.sync.broken = result.is_err();
        let durable = self.journal.durable;
        let waiters = core::mem::take(&mut self.sync.waiters);
        for (position, call) in waiters {
            match result {
                Ok(()) if position <= durable => self.reply(call, Reply::Done),
                Ok(()) => self.sync.waiters.push((position, call)),
                Err(errno) => self.fail(call, errno),
            }
        }
        self.sync.wanted |= !self.sync.waiters.is_empty();
        // A cut at home may have waited for this.
        self.home.stir_files(self.now);
    }

    /// The journal was appended to or a spill ended: a sync may have waited for it.
    pub(super) fn sync_may_go_on(&mut self) {
        if self.sync.waits_for_spills {
            self.sync_if_spilled();
        }
    }
}
