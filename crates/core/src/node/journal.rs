//! The journal: positions, acknowledgements, and the beginning of a new one.

use alloc::vec::Vec;

use super::disk::{Halt, is_full};
use super::{Node, Pending, errno_of};
use crate::effect::{Effect, Outcome};
use crate::errno::Errno;
use crate::id::{CallId, Ino, Position};
use crate::message::Reply;
use crate::record::Record;

/// Where the journal is.
#[derive(Debug, Default)]
pub(super) struct JournalBooks {
    /// The newest position given.
    pub last: Position,
    /// The newest position of a record that says more than that a sync was done.
    pub last_change: Position,
    /// Everything up to here is appended.
    pub appended: Position,
    /// Everything up to here is on the medium.
    pub durable: Position,
    /// Records since the last snapshot.
    records: u64,
    /// Records that the last snapshot had.
    snapshot_records: u64,
    /// A new journal is being begun.
    pub rotating: bool,
    /// The last record of the newest snapshot, until the older journals are removed.
    snapshot_end: Option<Position>,
    /// The record that says that the snapshot is on the medium, until it is there itself.
    mark: Option<Position>,
    /// An append failed: nothing more can be promised.
    pub failed: Option<Errno>,
    /// The disk is full: records wait until a new journal can be begun.
    pub halt: Option<Halt>,
}

impl Node {
    /// Appends a record.
    pub(super) fn record(&mut self, record: Record) -> Position {
        self.record_with(record, None, false)
    }

    /// Appends a record; when it is appended, so are all before it, and the client is answered.
    pub(super) fn record_and_reply(&mut self, record: Record, call: CallId, reply: Reply) {
        let record = self.answered_by(record, call, &reply);
        self.record_with(record, Some((call, reply)), false);
    }

    /// The same for a record that says nothing new of the files: should it fail, the client is answered all the same.
    pub(super) fn record_note(&mut self, record: Record, call: CallId, reply: Reply) {
        self.record_with(record, Some((call, reply)), true);
    }

    fn record_with(&mut self, record: Record, reply: Option<(CallId, Reply)>, is_note: bool) -> Position {
        let position = self.next_position(1);
        if !matches!(record, Record::Synced { .. } | Record::Noted(_)) {
            self.journal.last_change = position;
        }
        if self.is_journal_halted() {
            self.hold(position, reply);
            return position;
        }
        let token = self.expect(Pending::Journal { position, reply, is_note });
        self.emit(Effect::Journal { token, position, record });
        position
    }

    fn next_position(&mut self, records: u64) -> Position {
        let first = Position(self.journal.last.0 + 1);
        self.journal.last.0 += records;
        self.journal.records += records;
        first
    }

    pub(super) fn journal_done(
        &mut self,
        position: Position,
        reply: Option<(CallId, Reply)>,
        is_note: bool,
        result: Result<Outcome, Errno>,
    ) {
        match result {
            Ok(Outcome::Done) if self.journal.failed.is_none() => {
                self.journal.appended = self.journal.appended.max(position);
                if let Some((call, reply)) = reply {
                    self.reply(call, reply);
                }
            }
            Err(errno) if self.journal.failed.is_none() && is_full(errno) => {
                self.halt(errno);
                self.hold(position, reply);
            }
            other => {
                let errno = self.journal.failed.unwrap_or(errno_of(other));
                self.journal_fails(errno);
                match reply {
                    Some((call, reply)) if is_note => self.reply(call, reply),
                    Some((call, _)) => self.fail(call, errno),
                    None => {}
                }
            }
        }
    }

    /// Journals what an inode and the directories above it are, before the first record that names it.
    pub(super) fn ensure_journaled(&mut self, ino: Ino) {
        let mut chain = Vec::new();
        let mut wanted = Vec::from([ino]);
        while let Some(ino) = wanted.pop() {
            if let Some(inode) = self.names.inodes.get_mut(&ino)
                && !core::mem::replace(&mut inode.journaled, true)
            {
                chain.push(ino);
                wanted.extend(inode.home_names.iter().map(|(parent, _)| *parent));
            }
        }
        for ino in chain.into_iter().rev() {
            self.record_inode(ino);
        }
    }

    /// Journals all about an inode.
    pub(super) fn record_inode(&mut self, ino: Ino) {
        let home_valid = self.home_valid_of(ino);
        if let Some(record) = self.names.inode_record(ino, home_valid) {
            self.record(record);
        }
    }

    /// Begins a new journal with a snapshot when the present one has grown long.
    pub(super) fn rotate_if_due(&mut self) {
        if self.journal.halt.is_some() {
            return self.rotate_if_space_is_due();
        }
        let due = self.journal.records > self.config.journal_records_max + 2 * self.journal.snapshot_records;
        if due
            && !self.journal.rotating
            && self.journal.snapshot_end.is_none()
            && self.journal.mark.is_none()
            && self.journal.failed.is_none()
        {
            self.rotate();
        }
    }

    /// Begins a new journal. The older ones stay until the state that the snapshot describes is on the medium.
    pub(crate) fn rotate(&mut self) {
        let mut records = self.snapshot();
        records.push(Record::SnapshotEnd);
        self.journal.rotating = true;
        self.journal.records = 0;
        self.journal.snapshot_records = records.len() as u64;
        let position = self.next_position(records.len() as u64);
        self.journal.records = 0;
        let last = self.journal.last;
        self.journal.last_change = last;
        let token = self.expect(Pending::Rotate { last });
        self.emit(Effect::RotateJournal { token, position, records });
    }

    pub(super) fn rotate_done(&mut self, last: Position, result: Result<Outcome, Errno>) {
        self.journal.rotating = false;
        match result {
            Ok(Outcome::Done) if self.journal.failed.is_none() => {
                self.journal.appended = self.journal.appended.max(last);
                self.journal.snapshot_end = Some(last);
                self.journal.mark = None;
                self.sync.wanted = true;
                self.journal_goes_on(last);
            }
            Err(errno) if self.journal.failed.is_none() && is_full(errno) => {
                self.halt(errno);
                self.hold(last, None);
                self.put_off_rotation();
            }
            other => self.journal_fails(errno_of(other)),
        }
    }

    /// A sync has brought everything up to `upto` to the medium. While a new journal is young this alone promises nothing: a
    /// recovery trusts it only when it finds the mark that its snapshot is whole on the medium, so the mark must be there too.
    pub(super) fn made_durable(&mut self, upto: Position) {
        if let Some(end) = self.journal.snapshot_end.filter(|end| *end <= upto) {
            debug_assert!(self.journal.mark.is_none() && end <= self.journal.last);
            self.journal.snapshot_end = None;
            self.journal.mark = Some(self.record(Record::Synced { upto }));
            self.sync.wanted = true;
            return;
        }
        match self.journal.mark {
            Some(mark) if mark > upto => return,
            Some(_) => {
                self.journal.mark = None;
                self.emit(Effect::DropOldJournals);
            }
            None => {}
        }
        if upto > self.journal.durable {
            self.journal.durable = upto;
            self.record(Record::Synced { upto });
        }
    }
}
