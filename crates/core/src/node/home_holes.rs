//! Holes on their way home. A hole is one until home was told, made it durable, and was looked at: until then the index says that home's
//! bytes do not count there.

use core::ops::Range;

use super::home_data::TransferJob;
use super::home_settle::{Applied, Look};
use super::troubles::Subject;
use super::{Node, Pending};
use crate::effect::{Effect, HomeChange, Outcome};
use crate::errno::Errno;
use crate::id::{HomePath, Ino};
use crate::io_node::Transfer;
use crate::message::DrainStep;
use crate::record::Record;

/// A hole on its way home.
#[derive(Debug)]
pub(super) struct PunchJob {
    pub ino: Ino,
    pub path: HomePath,
    range: Range<u64>,
    epoch: u64,
    /// [`Home::failed_syncs`](super::home_settle::Home) when it began.
    failed_syncs: u64,
}

impl Node {
    /// Tells home of a file's holes. None when all that may be are on their way.
    pub(super) fn start_punches(&mut self, ino: Ino) -> Option<Look> {
        let file = self.file(ino);
        if file.holes.is_empty() {
            return None;
        }
        // What lies behind the end of home's file is no concern of home.
        let end = file.home_end.max(file.home_valid);
        self.io.change_holes(ino, |holes| holes.remove(end..u64::MAX));
        let file = self.file(ino);
        let wanted = file.holes.iter().find(|hole| !file.is_in_flight(hole))?;
        if self.home.changes_in_flight >= self.config.home_changes_max {
            return Some(Look::Full);
        }
        let durable = self.journal.durable;
        if self.file(ino).cut_position > durable && !self.is_log_hopeless() {
            // A power loss that undid the hole here must find the bytes at home.
            self.sync.wanted = true;
            return Some(Look::Stalled);
        }
        let path = self.names.home_path(ino)?;
        let file = self.file(ino);
        let epoch = file.epoch;
        file.transfers.push(Transfer { range: wanted.clone(), epoch });
        self.home.enter(ino);
        self.home.changes_in_flight += 1;
        let (offset, len) = (wanted.start, wanted.end - wanted.start);
        let job = PunchJob { ino, path: path.clone(), range: wanted, epoch, failed_syncs: self.home.failed_syncs };
        let token = self.expect(Pending::Punch(job));
        self.emit(Effect::ChangeHome { token, change: HomeChange::Punch { ino, path, offset, len } });
        self.start_punches(ino)
    }

    pub(super) fn punch_done(&mut self, job: PunchJob, result: Result<Outcome, Errno>) {
        self.home.leave(job.ino);
        self.home.changes_in_flight -= 1;
        let result = if job.failed_syncs == self.home.failed_syncs { result.map(drop) } else { Err(Errno::EIO) };
        match result {
            Ok(()) => self.applied(Applied::Punch(job)),
            Err(errno) => {
                self.punch_failed(job, DrainStep::Write, errno);
                self.stir_home();
            }
        }
    }

    /// The hole stays one here, and home is told again later.
    pub(super) fn punch_failed(&mut self, job: PunchJob, step: DrainStep, errno: Errno) {
        self.end_flight(job.ino, &job.range);
        self.trouble(Subject::Data(job.ino), step, errno);
        self.look_again(job.ino);
        self.drop_if_unreachable(job.ino);
    }

    /// After the sync: look whether home has zeros there.
    pub(super) fn start_zero_compares(&mut self) {
        while self.home.transfers_in_flight < self.config.home_transfers_max {
            let Some(job) = self.home.punched.pop_front() else { return };
            let PunchJob { ino, ref path, ref range, .. } = job;
            let (path, offset, len) = (path.clone(), range.start, range.end - range.start);
            self.home.enter(ino);
            self.home.transfers_in_flight += 1;
            let token = self.expect(Pending::CompareZeros(job));
            self.emit(Effect::CompareZerosHome { token, ino, path, offset, len });
        }
    }

    pub(super) fn compare_zeros_done(&mut self, job: PunchJob, result: Result<Outcome, Errno>) {
        let ino = job.ino;
        self.home.leave(ino);
        self.home.transfers_in_flight -= 1;
        match result {
            Ok(Outcome::Compared { equal: true }) => {
                self.end_flight(ino, &job.range);
                // A truncation since then has taken what was behind it, and a file that grew again may have other holes there.
                if self.io.files.get(&ino).is_some_and(|file| file.epoch == job.epoch) {
                    self.io.change_holes(ino, |holes| holes.remove(job.range.clone()));
                    self.record(Record::HoleHome { ino, offset: job.range.start, len: job.range.end - job.range.start });
                }
                self.trouble_is_over(&Subject::Data(ino));
                self.look_again(ino);
            }
            Ok(_) => self.punch_failed(job, DrainStep::Compare, Errno::EIO),
            Err(errno) => self.punch_failed(job, DrainStep::Compare, errno),
        }
        self.drop_if_unreachable(ino);
        self.stir_home();
    }

    /// Takes a range from what is on its way home.
    pub(super) fn end_flight(&mut self, ino: Ino, range: &Range<u64>) {
        let Some(file) = self.io.files.get_mut(&ino) else { return };
        if let Some(at) = file.transfers.iter().position(|t| t.range == *range) {
            file.transfers.swap_remove(at);
        }
        let (first, last) = (self.io.chunk_of(ino, range.start).index, self.io.chunk_of(ino, range.end - 1).index);
        let swapping = self.io.files.get(&ino).map(|file| file.swapping.range(first..=last).copied().collect());
        let swapping: alloc::vec::Vec<u64> = swapping.unwrap_or_default();
        swapping.into_iter().for_each(|index| self.swapping_done(ino, index));
    }

    /// A transfer's bytes are home and compared: what they add to what the file takes up there.
    pub(super) fn grew_at_home(&mut self, job: &TransferJob, clean_bytes: u64) {
        if let Some(inode) = self.names.inodes.get_mut(&job.ino) {
            inode.attr.grew_at_home(clean_bytes);
        }
    }
}
