//! The path of a write.

use super::*;
use crate::policy::admission::{AdmissionView, Reason};
use crate::policy::{Arrival, Operation};

/// A write as the policy sees it.
pub(super) fn arrival(access: &Access, operation: Operation) -> Arrival<'_> {
    let Access { range, class, siblings, place } = access;
    Arrival { file: range.file, offset: range.offset, len: range.len, operation, class: *class, siblings, place: *place }
}

impl HybridNode {
    pub(super) fn write(&mut self, call: CallId, access: Access) {
        let view = AdmissionView {
            buffer_is_flushing: self.regions.is_closed(),
            flush_is_due: self.regions.oldest_full().is_some(),
            disk_is_full: self.disk_requests > 0,
            free_bytes: self.regions.free_bytes(),
            capacity_bytes: self.regions.capacity_bytes(),
        };
        let mut verdict = self.admission.admit(&view, &arrival(&access, Operation::Write));
        if verdict.target == Target::Ssd && self.must_bypass(access.range.len) {
            (verdict.target, verdict.reason) = (Target::Disk, Reason::NoRoom);
        }
        if verdict.target == Target::Disk {
            self.admission.on_disk(&arrival(&access, Operation::Write));
        }
        self.counters.write(access.class, verdict, access.range.len);
        let goal = if verdict.target == Target::Ssd { Goal::Ssd } else { Goal::Disk };
        self.begin_in_turn(Pending { call, access, goal });
    }

    pub(super) fn change(&mut self, call: CallId, range: FileRange) {
        self.counters.changes += 1;
        let access = Access { range, class: RequestClass::Ordinary, siblings: Vec::new(), place: 0 };
        self.begin_in_turn(Pending { call, access, goal: Goal::Change });
    }

    fn begin_in_turn(&mut self, pending: Pending) {
        if self.must_wait_for_range(&pending, self.blocked.len()) {
            self.counters.waits_for_range += 1;
            self.blocked.push_back(pending);
        } else {
            self.begin(pending);
        }
    }

    /// Whether a write that is meant for the SSD goes to the disk, since there is no room and it is not to wait for any. This may make a
    /// region full.
    fn must_bypass(&mut self, len: u64) -> bool {
        match self.regions.can_take(len) {
            Ok(()) => false,
            Err(NoSlot::TooLarge) => true,
            Err(NoSlot::Full) if self.config.when_full == WhenFull::Disk => {
                // What does not fit ends the filling, also where it does not wait (P-07).
                self.regions.seal();
                true
            }
            Err(NoSlot::Full) => false,
        }
    }

    /// Whether something is under way in the range of a write that it must not meet, or one of the first `before` blocked writes is.
    fn must_wait_for_range(&self, pending: &Pending, before: usize) -> bool {
        let range = pending.access.range;
        if self.blocked.iter().take(before).any(|other| other.access.range.overlaps(&range)) {
            return true;
        }
        // What a change leaves of a file is not told by places in history: its size, say.
        if self.changes.overlaps(range) {
            return true;
        }
        // Two writes on the SSD are told apart by their places in history. So is one from a flush of older bytes, and from a write to
        // the disk that has its place already: that one takes out only what is older.
        pending.goal != Goal::Ssd && (self.ssd_writes.overlaps(range) || self.disk_writes.overlaps(range) || self.flushes.overlaps(range))
    }

    fn begin(&mut self, pending: Pending) {
        match pending.goal {
            Goal::Disk => self.begin_on_disk(pending.call, pending.access.range, false),
            Goal::Change => self.begin_on_disk(pending.call, pending.access.range, true),
            // The SSD has been divided into smaller parts meanwhile.
            Goal::Ssd if self.regions.can_take(pending.access.range.len) == Err(NoSlot::TooLarge) => {
                self.blocked.push_back(Pending { goal: Goal::Disk, ..pending });
                self.retry_blocked();
            }
            Goal::Ssd if self.roomless.is_empty() => {
                if let Err(pending) = self.begin_on_ssd(pending) {
                    self.wait_for_room(pending);
                }
            }
            Goal::Ssd => self.wait_for_room(pending),
        }
    }

    fn wait_for_room(&mut self, pending: Pending) {
        self.counters.waits_for_room += 1;
        self.roomless.push_back(pending);
    }

    fn begin_on_ssd(&mut self, pending: Pending) -> Result<(), Pending> {
        let range = pending.access.range;
        let Ok(slot) = self.regions.append(range.len) else { return Err(pending) };
        self.lsn.0 += 1;
        let (Pending { call, access, .. }, lsn) = (pending, self.lsn);
        let entry = Entry { range, lsn, generation: slot.generation, at: slot.at };
        let purpose = Purpose::Append(Box::new(Append { call, access, lsn, slot }));
        let token = self.emit(purpose, |token| Effect::AppendSsd { token, call, entry });
        self.ssd_writes.insert(token, range);
        Ok(())
    }

    fn begin_on_disk(&mut self, call: CallId, range: FileRange, is_change: bool) {
        self.lsn.0 += 1;
        let lsn = self.lsn;
        let purpose = Purpose::WriteDisk(DiskWrite { call, range, lsn, is_change });
        let effect = |token| match is_change {
            true => Effect::ChangeDisk { token, call, range },
            false => Effect::WriteDisk { token, call, range, lsn },
        };
        let token = self.emit(purpose, effect);
        self.under_way(is_change).insert(token, range);
        self.disk_begins();
    }

    /// What is under way at the disk: writes, or changes.
    fn under_way(&mut self, is_change: bool) -> &mut InFlight {
        if is_change { &mut self.changes } else { &mut self.disk_writes }
    }

    pub(super) fn on_appended(&mut self, token: Token, append: Append, result: Result<(), Errno>) {
        let Append { call, access, lsn, slot } = append;
        self.ssd_writes.remove(token, access.range);
        self.regions.on_written(access.range, lsn, slot, result.is_ok());
        match result {
            Ok(()) => self.reply(call, Ok(())),
            // The SSD is an extra: what it refuses goes to the disk, in its turn.
            Err(_) => self.blocked.push_back(Pending { call, access, goal: Goal::Disk }),
        }
        self.retry_blocked();
    }

    pub(super) fn on_disk_written(&mut self, token: Token, write: DiskWrite, result: Result<(), Errno>) {
        self.disk_ends();
        // A change moves no bytes, and may be about a range without an end.
        if !write.is_change {
            self.admission.on_disk_done(&self.disk_view(), write.range.len);
        }
        if result.is_err() || !self.regions.overlaps(write.range) {
            return self.disk_write_ends(token, write, result);
        }
        self.counters.superseding += 1;
        self.pass_on(token, write, Purpose::SyncSuperseded(write), |token| Effect::SyncDisk { token });
    }

    pub(super) fn on_superseded_synced(&mut self, token: Token, write: DiskWrite, result: Result<(), Errno>) {
        if result.is_err() {
            return self.disk_write_ends(token, write, result);
        }
        let note = Note::Superseded { range: write.range, lsn: write.lsn };
        self.pass_on(token, write, Purpose::NoteSuperseded(write), |token| Effect::Note { token, note });
    }

    pub(super) fn on_superseded_noted(&mut self, token: Token, write: DiskWrite, result: Result<(), Errno>) {
        if result.is_err() {
            // The note may stand there or not, and the disk has the new bytes: nothing else than trying again tells the same story after
            // a crash as before.
            self.renotes.push_back((self.now + self.config.retry_ns, token, write));
            return;
        }
        self.regions.supersede(write.range, write.lsn);
        self.disk_write_ends(token, write, Ok(()));
    }

    /// Tries the notes again whose time has come.
    pub(super) fn retry_notes(&mut self) {
        while let Some((_, token, write)) = self.renotes.front().copied().filter(|(at, ..)| *at <= self.now) {
            self.renotes.pop_front();
            let note = Note::Superseded { range: write.range, lsn: write.lsn };
            self.pass_on(token, write, Purpose::NoteSuperseded(write), |token| Effect::Note { token, note });
        }
    }

    /// A write to the disk goes on to its next effect and keeps its range.
    fn pass_on(&mut self, token: Token, write: DiskWrite, purpose: Purpose, effect: impl FnOnce(Token) -> Effect) {
        self.under_way(write.is_change).remove(token, write.range);
        let token = self.emit(purpose, effect);
        self.under_way(write.is_change).insert(token, write.range);
    }

    fn disk_write_ends(&mut self, token: Token, write: DiskWrite, result: Result<(), Errno>) {
        self.under_way(write.is_change).remove(token, write.range);
        self.reply(write.call, result);
        self.retry_blocked();
        if write.is_change {
            self.retry_roomless();
        }
    }

    /// Begins the blocked writes that need wait no longer.
    pub(super) fn retry_blocked(&mut self) {
        let mut at = 0;
        while at < self.blocked.len() {
            if self.must_wait_for_range(&self.blocked[at], at) {
                at += 1;
            } else if let Some(pending) = self.blocked.remove(at) {
                self.begin(pending);
            }
        }
    }

    /// Begins the writes that there is room for now.
    pub(super) fn retry_roomless(&mut self) {
        while let Some(pending) = self.roomless.pop_front() {
            if self.changes.overlaps(pending.access.range) {
                self.roomless.push_front(pending);
                return;
            }
            if self.regions.can_take(pending.access.range.len) == Err(NoSlot::TooLarge) {
                self.begin(pending);
            } else if let Err(pending) = self.begin_on_ssd(pending) {
                self.roomless.push_front(pending);
                return;
            }
        }
    }
}
