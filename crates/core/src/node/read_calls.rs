//! Reads: what is in the log, what only home has, and zeros.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Range;

use super::data_calls::log_pieces;
use super::{Node, Pending};
use crate::effect::{Effect, LogPiece, Outcome, Payload};
use crate::errno::Errno;
use crate::extent::Piece;
use crate::id::{CallId, Ino, Lsn, SegmentId};
use crate::io_node::{Fetch, LogRecord, Space};
use crate::master::Stop;
use crate::message::{Reply, Request};

/// Fetches in flight or waiting for room, at most: each holds a buffer of the host.
const FETCHES_MAX: u32 = 16;
/// Fetched bytes on their way into the log.
#[derive(Debug)]
pub(super) struct KeepFetch {
    ino: Ino,
    fetch: u64,
    spaces: Vec<Space>,
}

/// A read under way.
#[derive(Debug)]
pub(super) struct ReadCall {
    ino: Ino,
    offset: u64,
    len: u32,
    /// Fetches that it waits for.
    waiting: u32,
    /// Ranges that were copied from fetches.
    fetched: Vec<Range<u64>>,
    /// Segments that it reads.
    pins: Vec<SegmentId>,
    failed: Option<Errno>,
}

impl ReadCall {
    /// It waits for bytes that only home has.
    pub(super) fn waits_for_home(&self) -> bool {
        self.waiting > 0
    }

    pub(super) fn ino(&self) -> Ino {
        self.ino
    }
}

impl Node {
    pub(super) fn read(&mut self, call: CallId, ino: Ino, offset: u64, len: u32, request: &Request) -> Result<(), Stop> {
        let size = self.regular_file(ino)?;
        let len = size.saturating_sub(offset).min(u64::from(len)) as u32;
        let range = offset..offset + u64::from(len);
        if len > 0 && self.waits_for_chunks(call, ino, &range, request) {
            return Ok(());
        }
        self.counters.reads += 1;
        self.counters.read_bytes += u64::from(len);
        if len == 0 {
            self.reply(call, Reply::Read { len: 0 });
            return Ok(());
        }
        self.count_hits(ino, &range);
        self.ask_for_read(ino, &range);
        self.reads.insert(call, ReadCall { ino, offset, len, waiting: 0, fetched: Vec::new(), pins: Vec::new(), failed: None });
        self.continue_read(call);
        Ok(())
    }

    fn count_hits(&mut self, ino: Ino, range: &Range<u64>) {
        let home_valid = self.file(ino).home_valid;
        let mut gaps = self.home_gaps(ino, range, home_valid);
        if self.io.swaps_at_entry {
            gaps = self.not_on_their_way(ino, gaps);
        }
        let missing: u64 = gaps.iter().map(|g| g.end - g.start).sum();
        self.counters.hit_bytes += range.end - range.start - missing;
        for gap in gaps {
            let mut at = gap.start;
            while at < gap.end {
                let chunk = self.io.chunk_of(ino, at);
                let end = self.io.chunk_range(chunk).end.min(gap.end);
                let swapped = self.io.was_swapped(chunk);
                *(if swapped { &mut self.counters.reread_bytes } else { &mut self.counters.first_read_bytes }) += end - at;
                at = end;
            }
        }
    }

    /// The parts of these that no fetch is under way for: what was asked for before counts as being there.
    fn not_on_their_way(&self, ino: Ino, gaps: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let Some(file) = self.io.files.get(&ino).filter(|file| !file.fetches.is_empty()) else { return gaps };
        let coming: Vec<Range<u64>> = file.fetches.values().filter(|f| !f.stale).flat_map(|f| f.gaps.iter().cloned()).collect();
        let mut rest = Vec::new();
        gaps.into_iter().for_each(|gap| subtract(gap, &coming, &mut rest));
        rest
    }

    /// Parts of a range that only home has.
    pub(super) fn home_gaps(&self, ino: Ino, range: &Range<u64>, home_valid: u64) -> Vec<Range<u64>> {
        let range = range.start.min(home_valid)..range.end.min(home_valid);
        match self.io.files.get(&ino) {
            Some(file) if !range.is_empty() && file.holes.is_empty() => file.extents.gaps(range).collect(),
            Some(file) if !range.is_empty() => file.extents.gaps(range).flat_map(|gap| file.holes.gaps(gap)).collect(),
            _ => Vec::new(),
        }
    }

    /// Goes on with a read: fetches what only home has, then reads the rest from the log.
    fn continue_read(&mut self, call: CallId) {
        let Some(read) = self.reads.get(&call) else { return };
        let (ino, range) = (read.ino, read.offset..read.offset + u64::from(read.len));
        if let Some(errno) = read.failed {
            self.reads.remove(&call);
            return self.fail(call, errno);
        }
        let fetched = read.fetched.clone();
        let home_valid = self.file(ino).home_valid;
        let mut missing = Vec::new();
        for gap in self.home_gaps(ino, &range, home_valid) {
            subtract(gap, &fetched, &mut missing);
        }
        if missing.is_empty() {
            return self.read_from_log(call, ino, range, &fetched);
        }
        for gap in missing {
            let mut at = gap.start;
            while at < gap.end {
                let unit = self.fetch_unit(at);
                let end = unit.end.min(gap.end);
                if !self.join_fetch(call, ino, at, end, unit, home_valid) {
                    break;
                }
                at = end;
            }
        }
        if self.reads.get(&call).is_some_and(|r| r.waiting == 0) {
            // Either everything came from fetches that are ready, or none may start now.
            if self.fetches_in_flight >= FETCHES_MAX || !self.is_path_at_rest(ino) {
                self.read_waiters.push_back(call);
            } else {
                self.continue_read(call);
            }
        }
    }

    /// The block that a miss brings: a chunk, or a segment's worth of it when that is less.
    fn fetch_unit(&self, offset: u64) -> Range<u64> {
        let unit = u64::from(self.config.chunk_bytes.min(self.config.segment_bytes));
        let start = offset / unit * unit;
        start..start + unit
    }

    /// Has a read served by a fetch that covers `at..end`, starting one if none does. False if none may start now.
    fn join_fetch(&mut self, call: CallId, ino: Ino, at: u64, end: u64, unit: Range<u64>, home_valid: u64) -> bool {
        let file = self.file(ino);
        let covers = |f: &Fetch| !f.stale && f.gaps.iter().any(|g| g.start <= at && end <= g.end);
        if let Some((&id, _)) = file.fetches.iter().find(|(_, f)| covers(f)) {
            let fetch = file.fetches.get_mut(&id);
            if fetch.is_some_and(|f| f.ready) {
                self.copy_fetched(call, ino, id);
            } else if let Some(fetch) = file.fetches.get_mut(&id) {
                fetch.waiters.push(call);
                if let Some(read) = self.reads.get_mut(&call) {
                    read.waiting += 1;
                }
            }
            return true;
        }
        if self.fetches_in_flight >= FETCHES_MAX && !self.must_keep_fetches() {
            // Bytes that wait for room in vain must not keep others from being read.
            if let Some((ino, id)) = self.keep_waiters.pop_front() {
                self.drop_fetch(ino, id);
            }
        }
        if self.fetches_in_flight >= FETCHES_MAX || !self.is_path_at_rest(ino) {
            return false;
        }
        let wanted = unit.start..unit.end.min(home_valid);
        let gaps = self.home_gaps(ino, &wanted, home_valid);
        let range = gaps.first().map_or(at, |g| g.start)..gaps.last().map_or(end, |g| g.end);
        let Some(path) = self.names.home_path(ino) else {
            // Only what home has is fetched, so it has a name there, if need be one of ours.
            if let Some(read) = self.reads.get_mut(&call) {
                read.failed = Some(Errno::EIO);
            }
            return false;
        };
        let bytes = gaps.iter().map(|gap| gap.end - gap.start).sum::<u64>() as u32;
        let read = self.reads.get(&call).map_or(at..end, |read| read.offset..read.offset + u64::from(read.len));
        let stake_bytes = self.enter_fetched(ino, at, &read, bytes);
        let id = self.next_fetch;
        self.next_fetch += 1;
        self.fetches_in_flight += 1;
        self.home.enter(ino);
        let token = self.expect(Pending::Fetch { ino, fetch: id });
        let len = (range.end - range.start) as u32;
        self.emit(Effect::ReadHome { token, fetch: id, ino, path, offset: range.start, len });
        self.file(ino).fetches.insert(id, Fetch { range, gaps, stake_bytes, stale: false, ready: false, waiters: [call].into() });
        if let Some(read) = self.reads.get_mut(&call) {
            read.waiting += 1;
        }
        true
    }

    fn copy_fetched(&mut self, call: CallId, ino: Ino, id: u64) {
        let Some(fetch) = self.io.files.get(&ino).and_then(|f| f.fetches.get(&id)) else { return };
        let Some(read) = self.reads.get_mut(&call) else { return };
        let read_end = read.offset + u64::from(read.len);
        let mut effects = Vec::new();
        for gap in &fetch.gaps {
            let (start, end) = (gap.start.max(read.offset), gap.end.min(read_end));
            if start < end {
                read.fetched.push(start..end);
                effects.push(Effect::CopyPayload {
                    from: Payload::Fetch(id),
                    from_offset: (start - fetch.range.start) as u32,
                    to: Payload::Call(call),
                    to_offset: (start - read.offset) as u32,
                    len: (end - start) as u32,
                });
            }
        }
        self.effects.extend(effects);
    }

    pub(super) fn fetch_done(&mut self, ino: Ino, id: u64, result: Result<Outcome, Errno>) {
        self.home.leave(ino);
        let Some(fetch) = self.io.files.get_mut(&ino).and_then(|f| f.fetches.get_mut(&id)) else { return };
        fetch.ready = true;
        let waiters = core::mem::take(&mut fetch.waiters);
        let bytes = fetch.range.end - fetch.range.start;
        let failed = result.err();
        if failed.is_some() {
            fetch.stale = true;
            self.counters.home_errors += 1;
        } else {
            self.counters.home_read_bytes += bytes;
        }
        for call in &waiters {
            if let Some(read) = self.reads.get_mut(call) {
                read.waiting -= 1;
                read.failed = read.failed.or(failed);
            }
        }
        // A read with two gaps in the block waits twice, and goes on once.
        let waiters = waiters.into_iter().collect::<BTreeSet<_>>();
        if failed.is_none() {
            waiters.iter().for_each(|call| self.copy_fetched(*call, ino, id));
        }
        if !self.keep_fetch(ino, id) {
            self.keep_waiters.push_back((ino, id));
        }
        for call in waiters {
            if self.reads.get(&call).is_some_and(|r| r.waiting == 0) {
                self.continue_read(call);
            }
        }
    }

    /// Puts fetched bytes into the log, so that the next read finds them. False if there is no room yet.
    pub(super) fn keep_fetch(&mut self, ino: Ino, id: u64) -> bool {
        let Some(fetch) = self.io.files.get(&ino).and_then(|f| f.fetches.get(&id)) else { return true };
        let reachable = self.names.inodes.get(&ino).is_some_and(|i| i.is_reachable());
        let len = (fetch.range.end - fetch.range.start) as u32;
        if fetch.stale || !reachable || self.disk_errno().is_some() {
            self.drop_fetch(ino, id);
            return true;
        }
        if !self.has_room(u64::from(len)) {
            return false;
        }
        let spaces = self.allocate(len);
        let pieces = log_pieces(&spaces);
        let token = self.expect(Pending::KeepFetch(KeepFetch { ino, fetch: id, spaces }));
        self.emit(Effect::WriteLog { token, payload: Payload::Fetch(id), pieces });
        true
    }

    pub(super) fn keep_fetch_done(&mut self, keep: KeepFetch, result: Result<Outcome, Errno>) {
        let KeepFetch { ino, fetch: id, spaces } = keep;
        let fetch = self.io.files.get(&ino).and_then(|f| f.fetches.get(&id)).filter(|f| !f.stale);
        let (range, gaps) = fetch.map_or((None, Vec::new()), |f| (Some(f.range.clone()), f.gaps.clone()));
        let sums = match result {
            Ok(Outcome::Checksums(sums)) if sums.len() == spaces.len() => sums,
            _ => Vec::new(),
        };
        let mut at = range.as_ref().map_or(0, |r| r.start);
        for (index, space) in spaces.into_iter().enumerate() {
            let (offset, len, file_offset) = (space.at.offset, space.at.len, at);
            at += u64::from(len);
            let good = sums.get(index).filter(|_| range.is_some());
            let record = good.map(|crc| LogRecord { offset, len, ino, file_offset, lsn: Lsn(0), crc: *crc, time_ns: 0 });
            self.io.segments.written(space, record);
            if record.is_some() {
                let piece = Piece { offset: file_offset, len, segment: space.segment, segment_offset: offset, lsn: Lsn(0), dirty: false };
                for gap in gaps.iter().filter(|g| g.start < piece.end() && piece.offset < g.end) {
                    self.io.insert_clean(ino, piece.clip(gap));
                }
            }
            self.try_leave(space.segment);
        }
        self.drop_fetch(ino, id);
    }

    /// Fetched bytes that wait for room wait until there is some, and others behind them: room does come.
    fn must_keep_fetches(&self) -> bool {
        self.io.swaps_at_entry && self.home.troubles.is_empty() && self.disk_errno().is_none()
    }

    fn drop_fetch(&mut self, ino: Ino, id: u64) {
        if let Some(fetch) = self.io.files.get_mut(&ino).and_then(|file| file.fetches.remove(&id)) {
            // What was kept counts by itself.
            self.io.fetched(self.io.chunk_of(ino, fetch.range.start), fetch.stake_bytes);
        }
        self.resume_chunk_waiters(ino);
        self.fetches_in_flight -= 1;
        self.emit(Effect::DropFetch { fetch: id });
        self.resume_reads();
    }

    /// Reads that waited for a fetch to be allowed try again.
    pub(super) fn resume_reads(&mut self) {
        for _ in 0..self.read_waiters.len() {
            if self.fetches_in_flight >= FETCHES_MAX || self.home.is_barred() {
                return;
            }
            if let Some(call) = self.read_waiters.pop_front() {
                self.continue_read(call);
            }
        }
    }

    /// The last step of a read: everything is in the log, was fetched, or is zeros.
    fn read_from_log(&mut self, call: CallId, ino: Ino, range: Range<u64>, fetched: &[Range<u64>]) {
        let mut pieces = Vec::new();
        let mut pins = Vec::new();
        let mut zeros = Vec::new();
        if let Some(file) = self.io.files.get(&ino) {
            for piece in file.extents.overlapping(range.clone()) {
                // What was fetched and kept is in the payload already.
                let known = piece.lsn.0 == 0 && fetched.iter().any(|f| f.start <= piece.offset && piece.end() <= f.end);
                if let (Some(at), false) = (self.io.segments.range(piece.segment, piece.segment_offset, piece.len), known) {
                    pieces.push(LogPiece { at, payload_offset: (piece.offset - range.start) as u32 });
                    pins.push(piece.segment);
                }
            }
            for gap in file.extents.gaps(range.clone()) {
                let mut holes = Vec::new();
                subtract(gap, fetched, &mut holes);
                zeros.extend(holes.into_iter().map(|h| ((h.start - range.start) as u32, (h.end - h.start) as u32)));
            }
        } else {
            zeros.push((0, (range.end - range.start) as u32));
        }
        if !zeros.is_empty() {
            self.emit(Effect::ZeroPayload { payload: Payload::Call(call), ranges: zeros });
        }
        if pieces.is_empty() {
            return self.finish_read(call);
        }
        for id in &pins {
            self.io.segments.pin(*id);
        }
        if let Some(read) = self.reads.get_mut(&call) {
            read.pins = pins;
        }
        let token = self.expect(Pending::ReadLog { call });
        self.emit(Effect::ReadLog { token, payload: Payload::Call(call), pieces });
    }

    pub(super) fn read_log_done(&mut self, call: CallId, result: Result<Outcome, Errno>) {
        let Some(read) = self.reads.get_mut(&call) else { return };
        for id in core::mem::take(&mut read.pins) {
            self.io.segments.unpin(id);
            self.try_leave(id);
        }
        match result {
            Ok(_) => self.finish_read(call),
            Err(errno) => {
                self.reads.remove(&call);
                self.fail(call, errno);
            }
        }
    }

    fn finish_read(&mut self, call: CallId) {
        if let Some(read) = self.reads.remove(&call) {
            self.reply(call, Reply::Read { len: read.len });
        }
    }
}

/// The parts of `range` outside of all `holes`.
fn subtract(range: Range<u64>, holes: &[Range<u64>], out: &mut Vec<Range<u64>>) {
    let mut parts = Vec::from([range]);
    for hole in holes {
        let mut rest = Vec::new();
        for part in parts {
            if hole.end <= part.start || part.end <= hole.start {
                rest.push(part);
                continue;
            }
            if part.start < hole.start {
                rest.push(part.start..hole.start);
            }
            if hole.end < part.end {
                rest.push(hole.end..part.end);
            }
        }
        parts = rest;
    }
    out.extend(parts);
}
