//! Requests about ranges of a file: giving and taking space, and looking for data and holes.

use core::ops::Range;

use super::data_calls::FILE_BYTES_MAX;
use super::{Node, Pending};
use crate::effect::{Effect, Outcome};
use crate::errno::Errno;
use crate::id::{CallId, Ino};
use crate::master::Stop;
use crate::message::{AllocateMode, Reply, Request, SeekWhence};
use crate::record::Record;

/// A search that has come to what only home knows.
#[derive(Debug)]
pub(super) struct SeekCall {
    call: CallId,
    ino: Ino,
    whence: SeekWhence,
    /// Where home was asked to begin.
    at: u64,
    /// Up to where its answer counts: behind that, home did not have what is there.
    end: u64,
}

/// What a part of a file is, as far as the buffer knows.
enum Part {
    /// Bytes that home does not have.
    Data,
    /// Zeros that nobody has written.
    Hole,
    /// As home has it.
    AtHome,
}

impl Node {
    pub(super) fn allocate_range(&mut self, call: CallId, request: &Request) -> Result<(), Stop> {
        let Request::Allocate { ino, offset, len, mode, drops_set_id } = *request else { return Err(Errno::EINVAL.into()) };
        let size = self.regular_file(ino)?;
        if len == 0 {
            return Err(Errno::EINVAL.into());
        }
        let Some(end) = offset.checked_add(len).filter(|end| *end <= FILE_BYTES_MAX) else { return Err(Errno::EFBIG.into()) };
        if self.io.files.get(&ino).is_some_and(|f| !f.writes.is_empty()) {
            self.idle_waiters.entry(ino).or_default().push((call, request.clone()));
            return Ok(());
        }
        let punches = !matches!(mode, AllocateMode::Reserve { .. });
        if punches && !(self.room_waiters.is_empty() && self.has_room_for_holes()) {
            self.room_waiters.push_back((call, request.clone()));
            return Ok(());
        }
        self.ensure_journaled(ino);
        let keeps_size = match mode {
            AllocateMode::Punch => true,
            AllocateMode::Reserve { keep_size } | AllocateMode::Zero { keep_size } => keep_size,
        };
        let new_size = if keeps_size { size } else { size.max(end) };
        let time_ns = self.now.as_nanos() as i64;
        if drops_set_id {
            // Ahead of the change: no crash may leave changed bytes under the old mode.
            self.drop_set_id(ino);
        }
        if punches {
            self.punch(ino, offset..end.min(size).max(offset));
            // One record: what it says happens as a whole or not at all.
            let position = self.record(Record::Hole { ino, offset, len, size: new_size, time_ns });
            self.file(ino).cut_position = position;
        } else if new_size != size {
            self.record(Record::Size { ino, size: new_size, time_ns });
        }
        if new_size != size {
            self.set_size(ino, size, new_size);
        }
        self.touch_file(ino);
        self.home.note_dirty(ino);
        let home_valid = self.home_valid_of(ino);
        if let Some(record) = self.names.inode_record(ino, home_valid) {
            self.record_and_reply(record, call, Reply::Done);
        }
        Ok(())
    }

    /// Makes a hole of a range that lies within the file. Nothing may be on its way into the log: it would come after, and is of before.
    fn punch(&mut self, ino: Ino, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let now = self.now;
        self.io.remove(ino, range.clone());
        let file = self.file(ino);
        file.spoil_fetches(&range);
        // Behind that, home has nothing. Before it home may have bytes that do not count yet, of a transfer that is under way or has failed.
        let at_home = file.home_end.max(file.home_valid);
        file.dirty_since.get_or_insert(now);
        let hole = range.start..range.end.min(at_home).max(range.start);
        let new = self.io.change_holes(ino, |holes| holes.insert(hole)).unwrap_or(0);
        if let Some(inode) = self.names.inodes.get_mut(&ino) {
            inode.attr.blocks = inode.attr.blocks.saturating_sub(new / 512);
        }
    }

    pub(super) fn seek(&mut self, call: CallId, ino: Ino, offset: u64, whence: SeekWhence, request: &Request) -> Result<(), Stop> {
        let size = self.regular_file(ino)?;
        if offset >= size {
            return Err(Errno::ENXIO.into());
        }
        if !self.is_path_at_rest(ino) {
            self.seeks_deferred.push((call, request.clone()));
            return Ok(());
        }
        self.seek_from(SeekCall { call, ino, whence, at: offset, end: offset }, None);
        Ok(())
    }

    /// Goes on from where home was asked. `found` is what it has said: the next data or hole there.
    fn seek_from(&mut self, seek: SeekCall, found: Option<Option<u64>>) {
        let SeekCall { call, ino, whence, mut at, end: asked_end } = seek;
        let mut found = found;
        let size = self.names.inodes.get(&ino).map_or(0, |i| i.attr.size);
        while at < size {
            let (part, end) = self.part_at(ino, at, size);
            let (is_found, answer) = match (part, whence, found.take()) {
                (Part::Data, SeekWhence::Data, _) | (Part::Hole, SeekWhence::Hole, _) => (true, at),
                (Part::AtHome, _, Some(there)) => match there.filter(|there| *there < end.min(asked_end)) {
                    Some(there) => (true, there),
                    None => {
                        at = end.min(asked_end);
                        continue;
                    }
                },
                (Part::AtHome, _, None) => {
                    if !self.ask_seek(SeekCall { call, ino, whence, at, end }) {
                        self.fail(call, Errno::EIO);
                    }
                    return;
                }
                _ => (false, end),
            };
            if is_found {
                return self.reply(call, Reply::Offset { offset: answer.max(at) });
            }
            at = end;
        }
        match whence {
            SeekWhence::Data => self.fail(call, Errno::ENXIO),
            SeekWhence::Hole => self.reply(call, Reply::Offset { offset: size }),
        }
    }

    fn ask_seek(&mut self, seek: SeekCall) -> bool {
        let SeekCall { call, ino, whence, at, .. } = seek;
        if !self.is_path_at_rest(ino) {
            self.seeks_deferred.push((call, Request::Seek { ino, offset: at, whence }));
            return true;
        }
        let Some(path) = self.names.home_path(ino) else { return false };
        self.home.enter(ino);
        let token = self.expect(Pending::Seek(seek));
        self.emit(Effect::SeekHome { token, ino, path, offset: at, whence });
        true
    }

    pub(super) fn seek_done(&mut self, seek: SeekCall, result: Result<Outcome, Errno>) {
        self.home.leave(seek.ino);
        match result {
            Ok(Outcome::Found(found)) => self.seek_from(seek, Some(found)),
            other => self.fail(seek.call, super::errno_of(other)),
        }
    }

    /// What stands at an offset within the file, and where that ends. What is clean stands at home in the same way.
    fn part_at(&mut self, ino: Ino, at: u64, size: u64) -> (Part, u64) {
        let file = self.file(ino);
        let home_end = file.home_valid.min(size);
        let dirty = file.extents.first_dirty(at).filter(|piece| piece.offset < size);
        if let Some(piece) = dirty.filter(|piece| piece.offset <= at) {
            return (Part::Data, piece.end().min(size));
        }
        let dirty_at = dirty.map_or(size, |piece| piece.offset);
        if at >= home_end {
            return (Part::Hole, dirty_at);
        }
        if let Some(hole) = file.holes.around(at) {
            return (Part::Hole, hole.end.min(dirty_at));
        }
        let hole_at = file.holes.from(at).next().map_or(size, |hole| hole.start);
        (Part::AtHome, dirty_at.min(hole_at).min(home_end))
    }
}
