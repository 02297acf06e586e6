//! Writes, truncations and attributes.

use alloc::vec::Vec;
use core::ops::Range;

use super::disk::is_full;
use super::{Node, Pending, errno_of};
use crate::attr::{AttrChange, Kind, SetTime, without_set_id};
use crate::effect::{Effect, LogPiece, Outcome, Payload};
use crate::errno::Errno;
use crate::extent::Piece;
use crate::id::{CallId, Ino, Lsn};
use crate::io_node::{FileData, LogRecord, Space, Stake};
use crate::master::Stop;
use crate::message::{Reply, Request};
use crate::record::{DataRecord, Record};

/// The largest offset of a byte, as Linux has it.
pub(super) const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// A write whose bytes are on their way into the log.
#[derive(Debug)]
pub(super) struct WriteCall {
    call: CallId,
    ino: Ino,
    offset: u64,
    len: u32,
    lsn: Lsn,
    spaces: Vec<Space>,
    /// What it will add to chunks.
    stakes: Vec<Stake>,
    drops_set_id: bool,
}

impl Node {
    /// The books of a file, with what home has of it filled in when it is first touched.
    pub(super) fn file(&mut self, ino: Ino) -> &mut FileData {
        let file = self.io.files.entry(ino).or_default();
        if !file.home_known {
            let inode = self.names.inodes.get(&ino);
            let at_home = inode.filter(|i| !i.home_names.is_empty()).map_or(0, |i| i.attr.size);
            (file.home_known, file.home_valid, file.home_end) = (true, at_home, at_home);
        }
        file
    }

    /// The bytes of home that count for a file.
    pub(super) fn home_valid_of(&self, ino: Ino) -> u64 {
        match self.io.files.get(&ino).filter(|f| f.home_known) {
            Some(file) => file.home_valid,
            None => self.names.inodes.get(&ino).filter(|i| !i.home_names.is_empty()).map_or(0, |i| i.attr.size),
        }
    }

    pub(super) fn regular_file(&self, ino: Ino) -> Result<u64, Stop> {
        let inode = self.names.loaded(ino)?;
        match inode.attr.kind {
            Kind::File => Ok(inode.attr.size),
            Kind::Directory => Err(Errno::EISDIR.into()),
            _ => Err(Errno::EINVAL.into()),
        }
    }

    pub(super) fn write(&mut self, call: CallId, request: &Request) -> Result<(), Stop> {
        let Request::Write { ino, offset, len, append, drops_set_id } = *request else { return Err(Errno::EINVAL.into()) };
        let size = self.regular_file(ino)?;
        if len > self.config.segment_bytes {
            return Err(Errno::EINVAL.into());
        }
        let file = self.file(ino);
        let end_in_flight = file.writes.iter().map(|w| w.end).max().unwrap_or(0);
        let offset = if append { size.max(end_in_flight) } else { offset };
        let Some(end) = offset.checked_add(u64::from(len)).filter(|end| *end <= FILE_BYTES_MAX) else {
            return Err(Errno::EFBIG.into());
        };
        if len == 0 {
            self.reply(call, Reply::Written { offset, len, dropped_set_id: false });
            return Ok(());
        }
        if self.waits_for_chunks(call, ino, &(offset..end), request) {
            return Ok(());
        }
        if !self.has_room(u64::from(len)) {
            self.room_waiters.push_back((call, request.clone()));
            return Ok(());
        }
        self.ensure_journaled(ino);
        let stakes = self.enter_written(ino, &(offset..end));
        let lsn = Lsn(self.next_lsn);
        self.next_lsn += 1;
        let spaces = self.allocate(len);
        self.file(ino).writes.push(offset..end);
        let pieces = log_pieces(&spaces);
        let token = self.expect(Pending::WriteCall(WriteCall { call, ino, offset, len, lsn, spaces, stakes, drops_set_id }));
        self.emit(Effect::WriteLog { token, payload: Payload::Call(call), pieces });
        Ok(())
    }

    pub(super) fn write_done(&mut self, write: WriteCall, result: Result<Outcome, Errno>) {
        let WriteCall { call, ino, offset, len, lsn, spaces, stakes, drops_set_id } = write;
        let end = offset + u64::from(len);
        if let Some(file) = self.io.files.get_mut(&ino)
            && let Some(at) = file.writes.iter().position(|w| *w == (offset..end))
        {
            file.writes.swap_remove(at);
        }
        let sums = match result {
            Ok(Outcome::Checksums(sums)) if sums.len() == spaces.len() => sums,
            other => {
                let again = spaces.iter().fold(false, |again, space| self.io.segments.memory_failed(space.segment) | again);
                for space in spaces {
                    self.io.segments.written(space, None);
                    self.try_leave(space.segment);
                }
                stakes.into_iter().for_each(|stake| self.io.write_ended(stake));
                self.file_writes_changed(ino);
                let errno = errno_of(other);
                let same = Request::Write { ino, offset, len, append: false, drops_set_id };
                if again {
                    // Memory is short: the write goes elsewhere, at the same offset, and the application does not hear of it.
                    return self.ready.push_back((call, same));
                }
                if is_full(errno) {
                    return self.put_off_write(call, same, errno);
                }
                return self.fail(call, errno);
            }
        };
        if self.sync.writes_again_at.is_some() {
            self.disk_takes();
        }
        let time_ns = self.now.as_nanos() as i64;
        let reachable = self.names.inodes.get(&ino).is_some_and(|i| i.is_reachable());
        let dropped_set_id = drops_set_id && self.drop_set_id(ino);
        let mut at = offset;
        let mut pieces = Vec::with_capacity(spaces.len());
        let mut left = Vec::with_capacity(spaces.len());
        for (space, crc) in spaces.into_iter().zip(sums) {
            let (offset, len, file_offset) = (space.at.offset, space.at.len, at);
            at += u64::from(len);
            self.io.segments.written(space, Some(LogRecord { offset, len, ino, file_offset, lsn, crc, time_ns }));
            if reachable {
                let piece = Piece { offset: file_offset, len, segment: space.segment, segment_offset: offset, lsn, dirty: true };
                self.io.insert_dirty(ino, piece);
            }
            pieces.push(DataRecord { ino, file_offset, len, segment: space.segment, segment_offset: offset, lsn, crc, time_ns });
            left.push(space.segment);
        }
        stakes.into_iter().for_each(|stake| self.io.write_ended(stake));
        // One record: a write that is asked again must find all of itself or nothing.
        let record = if let [data] = pieces[..] { Record::Data(data) } else { Record::DataPieces { pieces } };
        self.record_and_reply(record, call, Reply::Written { offset: write.offset, len: write.len, dropped_set_id });
        left.into_iter().for_each(|segment| self.try_leave(segment));
        self.counters.writes += 1;
        self.counters.written_bytes += u64::from(write.len);
        self.wrote(ino, write.offset..end, reachable);
    }

    /// Takes a file's set-id bits; false if it has none.
    pub(super) fn drop_set_id(&mut self, ino: Ino) -> bool {
        let Some(inode) = self.names.inodes.get_mut(&ino) else { return false };
        let mode = without_set_id(inode.attr.mode);
        let has_changed = core::mem::replace(&mut inode.attr.mode, mode) != mode;
        if has_changed {
            inode.attr_version += 1;
            self.names.attr_changed(ino);
            self.record_inode(ino);
        }
        has_changed
    }

    /// A file's bytes and times changed by a write.
    fn wrote(&mut self, ino: Ino, range: Range<u64>, reachable: bool) {
        let now = self.now;
        if reachable {
            let file = self.file(ino);
            file.spoil_fetches(&range);
            file.dirty_since.get_or_insert(now);
            if let Some(inode) = self.names.inodes.get_mut(&ino) {
                inode.attr.size = inode.attr.size.max(range.end);
            }
            self.touch_file(ino);
            self.home.note_dirty(ino);
        }
        self.file_writes_changed(ino);
    }

    /// A file's data changed: its times.
    pub(super) fn touch_file(&mut self, ino: Ino) {
        let now_ns = self.now.as_nanos() as i64;
        if let Some(inode) = self.names.inodes.get_mut(&ino) {
            inode.attr.mtime_ns = now_ns;
            inode.attr.ctime_ns = now_ns;
            inode.attr_version += 1;
            self.names.attr_changed(ino);
        }
    }

    /// A write in flight ended: what waited for the last of them may go on.
    fn file_writes_changed(&mut self, ino: Ino) {
        if self.io.files.get(&ino).is_none_or(|f| f.writes.is_empty()) {
            self.ready.extend(self.idle_waiters.remove(&ino).into_iter().flatten());
            self.drop_if_unreachable(ino);
        }
    }

    pub(super) fn set_attr(&mut self, call: CallId, ino: Ino, change: AttrChange, request: &Request) -> Result<(), Stop> {
        let inode = self.names.loaded(ino)?;
        if let Some(size) = change.size {
            let old = self.regular_file(ino)?;
            if size > FILE_BYTES_MAX {
                return Err(Errno::EFBIG.into());
            }
            if self.io.files.get(&ino).is_some_and(|f| !f.writes.is_empty()) {
                self.idle_waiters.entry(ino).or_default().push((call, request.clone()));
                return Ok(());
            }
            if size < old && self.waits_for_chunks(call, ino, &(size..old), request) {
                return Ok(());
            }
            self.ensure_journaled(ino);
            if change.drops_set_id {
                // Ahead of the change: no crash may leave changed bytes under the old mode.
                self.drop_set_id(ino);
            }
            self.set_size(ino, old, size);
            let position = self.record(Record::Size { ino, size, time_ns: self.now.as_nanos() as i64 });
            self.file(ino).cut_position = position;
        } else if !inode.journaled {
            self.ensure_journaled(ino);
        }
        let now_ns = self.now.as_nanos() as i64;
        let time = |set: SetTime| if let SetTime::At(ns) = set { ns } else { now_ns };
        let inode = self.names.inode_mut(ino)?;
        let attr = &mut inode.attr;
        if (change.uid.is_some() || change.gid.is_some()) && attr.kind != Kind::Directory {
            attr.mode = without_set_id(attr.mode);
        }
        attr.mode = change.mode.unwrap_or(attr.mode) & 0o7777;
        attr.uid = change.uid.unwrap_or(attr.uid);
        attr.gid = change.gid.unwrap_or(attr.gid);
        attr.atime_ns = change.atime.map_or(attr.atime_ns, time);
        attr.mtime_ns = change.mtime.map_or(attr.mtime_ns, time);
        attr.ctime_ns = now_ns;
        inode.attr_version += 1;
        self.names.attr_changed(ino);
        if self.names.inode(ino)?.dir.is_none() {
            self.home.note_dirty(ino);
        }
        let attr = self.attr_of(ino)?;
        let home_valid = self.home_valid_of(ino);
        if let Some(record) = self.names.inode_record(ino, home_valid) {
            self.record_and_reply(record, call, Reply::Attr { attr });
        }
        Ok(())
    }

    /// Sets a file's size; what is cut off is gone for good, here and at home.
    pub(crate) fn set_size(&mut self, ino: Ino, old: u64, size: u64) {
        if size < old {
            self.io.remove(ino, size..u64::MAX);
            let transfers_end = self.file(ino).transfers.iter().map(|t| t.range.end).max().unwrap_or(0);
            let file = self.file(ino);
            file.spoil_fetches(&(size..u64::MAX));
            file.epoch += 1;
            file.home_valid = file.home_valid.min(size);
            file.home_junk |= file.home_end.max(transfers_end) > size;
            self.io.change_holes(ino, |holes| holes.remove(size..u64::MAX));
        }
        let now = self.now;
        let file = self.file(ino);
        if file.home_junk || !file.is_length_home(size) {
            file.dirty_since.get_or_insert(now);
            self.home.note_dirty(ino);
        }
        if let Some(inode) = self.names.inodes.get_mut(&ino) {
            inode.attr.size = size;
            if size < old {
                inode.attr.blocks = inode.attr.blocks.min(inode.attr.blocks_max());
            }
        }
        self.touch_file(ino);
    }
}

/// The parts of a payload for the spaces it goes to.
pub(super) fn log_pieces(spaces: &[Space]) -> Vec<LogPiece> {
    let mut payload_offset = 0;
    let mut pieces = Vec::with_capacity(spaces.len());
    for space in spaces {
        pieces.push(LogPiece { at: space.at, payload_offset });
        payload_offset += space.at.len;
    }
    pieces
}
