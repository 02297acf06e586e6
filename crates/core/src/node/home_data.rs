//! Bytes, lengths and attributes on their way home.
//!
//! A file is looked at as a whole, and its next step follows from its state: cut off what must not be there, write dirty ranges in
//! file order, give it its length, then its attributes. A range is dirty until it was written, synced and compared.

use alloc::vec::Vec;
use core::ops::Range;

use super::home_settle::{Applied, Look};
use super::troubles::Subject;
use super::{Node, Pending, errno_of};
use crate::attr::Kind;
use crate::effect::{Effect, HomeChange, HomePiece, LogRange, Outcome};
use crate::errno::Errno;
use crate::id::{ChunkId, HomePath, Ino, Lsn, SegmentId};
use crate::io_node::Transfer;
use crate::message::DrainStep;
use crate::record::Record;

/// A range on its way home.
#[derive(Debug)]
pub(super) struct TransferJob {
    pub ino: Ino,
    pub path: HomePath,
    pub range: Range<u64>,
    epoch: u64,
    /// No write admitted later can be among the bytes.
    lsn: Lsn,
    crc: u32,
    pins: Vec<SegmentId>,
    /// [`Home::failed_syncs`](super::home_settle::Home) when it began.
    failed_syncs: u64,
}

/// A change of a file's length at home.
#[derive(Debug)]
pub(super) struct CutJob {
    pub ino: Ino,
    pub path: HomePath,
    size: u64,
    epoch: u64,
}

/// A change of attributes at home.
#[derive(Debug)]
pub(super) struct AttrJob {
    pub ino: Ino,
    pub path: HomePath,
    pub is_dir: bool,
    pub is_file: bool,
    version: u64,
}

impl Node {
    /// Starts what a file's state asks for next.
    pub(super) fn look_at_file(&mut self, ino: Ino) -> Look {
        let Some(inode) = self.names.inodes.get(&ino).filter(|i| i.is_reachable() && i.dir.is_none()) else {
            return Look::Finished;
        };
        let is_file = inode.attr.kind == Kind::File;
        let size = inode.attr.size;
        if !inode.has_name() {
            return Look::Finished;
        }
        if inode.home_names.is_empty() || inode.busy {
            return Look::Nameless;
        }
        if is_file && let Some(look) = self.bring_data_home(ino, size) {
            return look;
        }
        self.bring_attr_home(ino)
    }

    /// None when the data needs nothing more.
    fn bring_data_home(&mut self, ino: Ino, size: u64) -> Option<Look> {
        if let Some(at) = self.rests(&Subject::Data(ino)) {
            return Some(Look::Later(at));
        }
        let known = self.io.files.get(&ino).is_some_and(|f| f.home_known);
        if !known {
            return None;
        }
        let file = self.file(ino);
        if file.cutting {
            return Some(Look::Stalled);
        }
        if file.home_junk {
            if !file.transfers.is_empty() {
                return Some(Look::Stalled);
            }
            let home_valid = file.home_valid;
            return Some(self.start_cut(ino, home_valid));
        }
        let gathers = !self.home.is_draining();
        if let Some(look) = self.start_transfers(ino, 0..u64::MAX, gathers).or_else(|| self.start_punches(ino)) {
            return Some(look);
        }
        let file = self.file(ino);
        if file.extents.dirty_bytes() > 0 || !file.is_quiet() {
            return Some(Look::Stalled);
        }
        if !file.is_length_home(size) {
            return Some(self.start_cut(ino, size));
        }
        file.dirty_since = None;
        None
    }

    fn bring_attr_home(&mut self, ino: Ino) -> Look {
        if let Some(at) = self.rests(&Subject::Attr(ino)) {
            return Look::Later(at);
        }
        let inode = &self.names.inodes[&ino];
        if inode.attr_version == inode.attr_home {
            let size = inode.attr.size;
            self.names.attr_dirty.remove(&ino);
            self.io.forget_if_idle(ino, size);
            return Look::Finished;
        }
        if self.io.files.get(&ino).is_some_and(|f| f.setting_attr) {
            return Look::Stalled;
        }
        if self.home.changes_in_flight >= self.config.home_changes_max {
            return Look::Full;
        }
        if !self.is_attr_durable(ino) {
            self.sync.wanted = true;
            return Look::Stalled;
        }
        self.start_set_attr(ino);
        Look::Stalled
    }

    /// Starts transfers of dirty ranges within `within`, in file order from where the last look ended. With `gathers`, a range at the file's
    /// end that is shorter than a chunk waits while others are on their way: it is likely to grow, and home is given few large writes.
    /// None when all that may be are started.
    fn start_transfers(&mut self, ino: Ino, within: Range<u64>, gathers: bool) -> Option<Look> {
        let from = self.file(ino).look_from;
        let from = if within.contains(&from) { from } else { within.start };
        let look = self.start_transfers_from(ino, from..within.end, gathers);
        if look.is_some() || from == within.start { look } else { self.start_transfers_from(ino, within.start..from, gathers) }
    }

    /// No further transfer may be started. Besides their number, their bytes are bounded: they hold on to the memory that they are read
    /// from, and a slow home must not take from writers what the SSD could give them.
    pub(super) fn are_transfers_full(&self) -> bool {
        let memory_bytes = u64::from(self.config.memory_segments_max) * u64::from(self.config.segment_bytes);
        self.home.transfers_in_flight >= self.config.home_transfers_max || self.home.transfer_bytes_in_flight >= memory_bytes / 4
    }

    fn start_transfers_from(&mut self, ino: Ino, within: Range<u64>, gathers: bool) -> Option<Look> {
        let size = self.names.inodes.get(&ino).map_or(0, |i| i.attr.size);
        let least = u64::from(self.config.chunk_bytes);
        let mut from = within.start;
        loop {
            if self.are_transfers_full() {
                return Some(Look::Full);
            }
            let range = self.next_dirty_range(ino, from, within.end)?;
            from = range.end;
            let file = self.file(ino);
            file.look_from = range.end;
            let grows = gathers && range.end == size && range.end - range.start < least && !file.transfers.is_empty();
            if !grows && !file.is_in_flight(&range) {
                self.start_transfer(ino, range);
            }
        }
    }

    /// The next run of adjacent dirty pieces, as long as one write at home may be.
    fn next_dirty_range(&self, ino: Ino, from: u64, end: u64) -> Option<Range<u64>> {
        let file = self.io.files.get(&ino)?;
        let busy = |at: u64| file.transfers.iter().find(|t| t.range.contains(&at)).map(|t| t.range.end);
        let mut from = from;
        loop {
            let first = file.extents.first_dirty(from).filter(|p| p.offset < end)?;
            if let Some(busy_to) = busy(first.offset) {
                from = busy_to;
                continue;
            }
            let limit = (first.offset + u64::from(self.config.home_write_bytes_max)).min(end);
            let next_busy = file.transfers.iter().map(|t| t.range.start).filter(|s| *s > first.offset).min();
            let limit = limit.min(next_busy.unwrap_or(u64::MAX));
            let mut run = first.offset..first.offset;
            for piece in file.extents.overlapping(first.offset..limit) {
                if piece.offset != run.end || !piece.dirty {
                    break;
                }
                run.end = piece.end().min(limit);
            }
            return Some(run);
        }
    }

    fn start_transfer(&mut self, ino: Ino, range: Range<u64>) {
        let Some(path) = self.names.home_path(ino) else { return };
        let lsn = Lsn(self.next_lsn - 1);
        let mut pieces = Vec::new();
        let mut pins = Vec::new();
        let file = &self.io.files[&ino];
        for part in file.extents.overlapping(range.clone()) {
            // A piece may span records when the cleaner put them together: one home piece for each.
            let (mut at, end) = (part.segment_offset, part.segment_offset + part.len);
            while at < end {
                let segments = &self.io.segments;
                let Some(record) = segments.record_at(part.segment, at).copied() else { return };
                let len = (record.offset + record.len).min(end) - at;
                let (Some(here), Some(whole)) =
                    (segments.range(part.segment, at, len), segments.range(part.segment, record.offset, record.len))
                else {
                    return;
                };
                pieces.push(HomePiece { at: here, record: LogRange { len: record.len, ..whole }, record_crc: record.crc });
                at += len;
            }
            pins.push(part.segment);
        }
        for id in &pins {
            self.io.segments.pin(*id);
        }
        let file = self.file(ino);
        let epoch = file.epoch;
        file.transfers.push(Transfer { range: range.clone(), epoch });
        file.home_end = file.home_end.max(range.end);
        self.home.enter(ino);
        self.home.transfers_in_flight += 1;
        self.home.transfer_bytes_in_flight += range.end - range.start;
        let offset = range.start;
        let failed_syncs = self.home.failed_syncs;
        let job = TransferJob { ino, path: path.clone(), range, epoch, lsn, crc: 0, pins, failed_syncs };
        let token = self.expect(Pending::Transfer(job));
        self.emit(Effect::WriteHome { token, ino, path, offset, pieces });
    }

    pub(super) fn transfer_done(&mut self, mut job: TransferJob, result: Result<Outcome, Errno>) {
        self.home.leave(job.ino);
        self.home.transfers_in_flight -= 1;
        self.home.transfer_bytes_in_flight -= job.range.end - job.range.start;
        for id in core::mem::take(&mut job.pins) {
            self.io.segments.unpin(id);
            self.try_leave(id);
        }
        match result {
            Ok(_) if job.failed_syncs != self.home.failed_syncs => self.transfer_failed(job, DrainStep::Sync, Errno::EIO),
            Ok(Outcome::Checksums(sums)) if sums.len() == 1 => {
                self.counters.home_writes += 1;
                self.counters.home_written_bytes += job.range.end - job.range.start;
                job.crc = sums[0];
                self.applied(Applied::Transfer(job));
            }
            other => self.transfer_failed(job, DrainStep::Write, errno_of(other)),
        }
    }

    /// The range stays dirty and is tried again later.
    pub(super) fn transfer_failed(&mut self, job: TransferJob, step: DrainStep, errno: Errno) {
        self.end_transfer(&job);
        if let Some(file) = self.io.files.get_mut(&job.ino) {
            // What it was to write may be cut out before it is tried again, and nothing would give the file its length.
            file.home_end_unsure = true;
        }
        self.trouble(Subject::Data(job.ino), step, errno);
        self.look_again(job.ino);
    }

    /// Takes the transfer from the file's books; true if nothing was cut off since it began.
    fn end_transfer(&mut self, job: &TransferJob) -> bool {
        let Some(file) = self.io.files.get_mut(&job.ino) else { return false };
        let current = file.epoch == job.epoch;
        if !current {
            file.home_junk |= job.range.end > file.home_valid;
        }
        self.end_flight(job.ino, &job.range);
        current
    }

    /// After the sync: compare what stands at home.
    pub(super) fn start_compares(&mut self) {
        while self.home.transfers_in_flight < self.config.home_transfers_max {
            let Some(job) = self.home.synced.pop_front() else { break };
            self.start_compare(job);
        }
        self.start_zero_compares();
    }

    fn start_compare(&mut self, job: TransferJob) {
        let TransferJob { ino, ref path, ref range, crc, .. } = job;
        let (path, offset, len) = (path.clone(), range.start, range.end - range.start);
        self.home.enter(ino);
        self.home.transfers_in_flight += 1;
        let token = self.expect(Pending::Compare(job));
        self.emit(Effect::CompareHome { token, ino, path, offset, len, crc });
    }

    pub(super) fn compare_done(&mut self, job: TransferJob, result: Result<Outcome, Errno>) {
        self.home.leave(job.ino);
        self.home.transfers_in_flight -= 1;
        let ino = job.ino;
        // What was cut off meanwhile cannot be compared, and need not be.
        let cut = self.io.files.get(&ino).is_none_or(|f| f.epoch != job.epoch);
        match result {
            Ok(Outcome::Compared { equal: true }) => {
                let len = job.range.end - job.range.start;
                self.counters.compared_bytes += len;
                if self.end_transfer(&job) {
                    let file = self.file(ino);
                    file.home_valid = file.home_valid.max(job.range.end);
                    let dirty_bytes_before = self.io.dirty_bytes;
                    self.io.mark_clean(ino, job.range.clone(), job.lsn);
                    self.grew_at_home(&job, dirty_bytes_before - self.io.dirty_bytes);
                    self.record(Record::Flushed { ino, offset: job.range.start, len, lsn: job.lsn });
                }
                self.trouble_is_over(&Subject::Data(ino));
                self.look_again(ino);
            }
            _ if cut => {
                self.end_transfer(&job);
                self.look_again(ino);
            }
            Ok(_) => self.transfer_failed(job, DrainStep::Compare, Errno::EIO),
            Err(errno) => self.transfer_failed(job, DrainStep::Compare, errno),
        }
        self.drop_if_unreachable(ino);
        self.stir_home();
    }

    /// A file's state changed: it is queued if there is anything left to do.
    pub(super) fn look_again(&mut self, ino: Ino) {
        let now = self.now;
        if let Some(file) = self.io.files.get_mut(&ino) {
            file.dirty_since = (file.extents.dirty_bytes() > 0).then_some(now);
        }
        if self.names.inodes.get(&ino).is_some_and(|i| i.is_reachable()) {
            self.home.note_dirty(ino);
        }
    }

    fn start_cut(&mut self, ino: Ino, size: u64) -> Look {
        if self.home.changes_in_flight >= self.config.home_changes_max {
            return Look::Full;
        }
        let durable = self.journal.durable;
        if self.file(ino).cut_position > durable && !self.is_log_hopeless() {
            // A power loss that undid the cut here must find the bytes at home.
            self.sync.wanted = true;
            return Look::Stalled;
        }
        let Some(path) = self.names.home_path(ino) else { return Look::Stalled };
        let file = self.file(ino);
        file.cutting = true;
        let epoch = file.epoch;
        self.home.enter(ino);
        self.home.changes_in_flight += 1;
        let token = self.expect(Pending::Cut(CutJob { ino, path: path.clone(), size, epoch }));
        self.emit(Effect::ChangeHome { token, change: HomeChange::Truncate { ino, path, size } });
        Look::Stalled
    }

    pub(super) fn cut_done(&mut self, job: CutJob, result: Result<Outcome, Errno>) {
        self.home.leave(job.ino);
        self.home.changes_in_flight -= 1;
        match result {
            Ok(_) => self.applied(Applied::Cut(job)),
            Err(errno) => {
                let file = self.file(job.ino);
                file.cutting = false;
                // It may have happened all the same, and then home is longer than it is known to be.
                file.home_junk |= file.home_valid < job.size;
                self.trouble(Subject::Data(job.ino), DrainStep::Write, errno);
                self.look_again(job.ino);
                self.stir_home();
            }
        }
    }

    pub(super) fn cut_settled(&mut self, job: CutJob) {
        let file = self.file(job.ino);
        file.cutting = false;
        (file.home_end, file.home_end_unsure) = (job.size, false);
        // A truncation since then may have gone below what was cut to.
        file.home_junk = file.epoch != job.epoch && file.home_valid < job.size;
        if file.epoch == job.epoch {
            // What lies between the old end and the new one is zeros at home, as it is here.
            file.home_valid = file.home_valid.max(job.size);
        }
        self.trouble_is_over(&Subject::Data(job.ino));
        self.look_again(job.ino);
        self.drop_if_unreachable(job.ino);
    }

    /// Notes up to where the journal must be on the medium before changed attributes go home.
    pub(super) fn place_attr_changes(&mut self) {
        let position = self.journal.last_change;
        for ino in core::mem::take(&mut self.names.attr_touched) {
            if let Ok(inode) = self.names.inode_mut(ino) {
                inode.attr_position = position;
            }
        }
    }

    /// No power loss can bring back older attributes than these: else home would be ahead of what comes back, and nobody would know.
    pub(super) fn is_attr_durable(&self, ino: Ino) -> bool {
        let durable = self.journal.durable;
        self.is_log_hopeless() || self.names.inodes.get(&ino).is_none_or(|inode| inode.attr_position <= durable)
    }

    pub(super) fn start_set_attr(&mut self, ino: Ino) {
        let Some(path) = self.names.home_path(ino) else { return };
        let inode = &self.names.inodes[&ino];
        let (attr, version) = (inode.attr, inode.attr_version);
        let (is_dir, is_file) = (inode.dir.is_some(), attr.kind == Kind::File);
        let xattrs = inode.xattrs.clone().filter(|_| inode.xattrs_differ);
        self.io.file_mut(ino).setting_attr = true;
        self.home.enter(ino);
        self.home.changes_in_flight += 1;
        let token = self.expect(Pending::SetAttr(AttrJob { ino, path: path.clone(), is_dir, is_file, version }));
        let change = HomeChange::SetAttr {
            path,
            kind: attr.kind,
            mode: attr.mode,
            uid: attr.uid,
            gid: attr.gid,
            atime_ns: attr.atime_ns,
            mtime_ns: attr.mtime_ns,
            xattrs,
        };
        self.emit(Effect::ChangeHome { token, change });
    }

    pub(super) fn set_attr_home_done(&mut self, job: AttrJob, result: Result<Outcome, Errno>) {
        self.home.leave(job.ino);
        self.home.changes_in_flight -= 1;
        if let (Ok(Outcome::Blocks(blocks)), Ok(inode)) = (&result, self.names.inode_mut(job.ino)) {
            inode.attr.blocks = *blocks;
        }
        match result {
            Ok(_) => self.applied(Applied::Attr(job)),
            Err(errno) => {
                self.io.file_mut(job.ino).setting_attr = false;
                self.trouble(Subject::Attr(job.ino), DrainStep::Attributes, errno);
                self.look_again(job.ino);
                self.stir_home();
            }
        }
    }

    pub(super) fn attr_settled(&mut self, job: AttrJob) {
        let AttrJob { ino, version, is_dir, .. } = job;
        self.io.file_mut(ino).setting_attr = false;
        self.trouble_is_over(&Subject::Attr(ino));
        let mut size = 0;
        if let Ok(inode) = self.names.inode_mut(ino) {
            inode.attr_home = version;
            size = inode.attr.size;
            if inode.attr_version == version {
                inode.xattrs_differ = false;
                self.names.attr_dirty.remove(&ino);
                self.record(Record::AttrHome { ino, version });
            }
        }
        if is_dir {
            self.io.files.remove(&ino);
        } else {
            self.look_again(ino);
            if self.names.inodes.get(&ino).is_some_and(|i| !i.home_names.is_empty()) {
                self.io.forget_if_idle(ino, size);
            }
        }
        self.drop_if_unreachable(ino);
    }

    /// Writes back the dirty chunks that are to be swapped out.
    pub(super) fn start_wanted_chunks(&mut self) {
        for _ in 0..self.home.wanted_chunks.len() {
            let Some(chunk) = self.home.wanted_chunks.pop_front() else { return };
            if self.home.barred || !self.write_back_chunk(chunk) {
                self.home.wanted_chunks.push_back(chunk);
            }
        }
    }

    /// False if the chunk must wait.
    fn write_back_chunk(&mut self, chunk: ChunkId) -> bool {
        let ChunkId { ino, index } = chunk;
        if self.io.files.get(&ino).is_none_or(|f| !f.swapping.contains(&index)) {
            return true;
        }
        let range = self.io.chunk_range(chunk);
        let dirty = self.io.files[&ino].extents.first_dirty(range.start).filter(|p| p.offset < range.end);
        let Some(dirty) = dirty else {
            self.swapping_done(ino, index);
            return true;
        };
        if self.io.files[&ino].is_in_flight(&(dirty.offset..dirty.end().min(range.end))) {
            // Its transfer ends the swap; a write in flight will make it look dirty again.
            return self.io.files[&ino].writes.is_empty();
        }
        let ready = self.names.inodes.get(&ino).is_some_and(|i| !i.home_names.is_empty() && !i.busy);
        if !ready {
            self.make_orphan_at_home(ino);
            return false;
        }
        let file = self.file(ino);
        if file.cutting {
            return false;
        }
        if self.rests(&Subject::Data(ino)).is_some() {
            return false;
        }
        let file = self.file(ino);
        if file.home_junk {
            if file.transfers.is_empty() {
                let size = file.home_valid;
                self.start_cut(ino, size);
            }
            return false;
        }
        // Synchronous write-back writes the victim and nothing else (B-04); in the background, a longer run costs home little more.
        let end = if self.is_write_back_async() { range.start + u64::from(self.config.home_write_bytes_max) } else { range.end };
        self.start_transfers(ino, range.start..end.max(range.end), false);
        self.io.files[&ino].transfers.iter().any(|t| t.range.start < range.end && range.start < t.range.end)
    }
}
