//! The buffer's disk: full for a while, read-only, or dead.

use forebay_core::effect::{Effect, Slot};
use forebay_core::errno::Errno;
use forebay_core::message::{DrainStep, Reply, Request};
use forebay_core::time::Time;

use super::phases::Phase;
use super::{Event, Failure, Result, START_NS, World};
use crate::checker::{Property, drained, flush_order};
use crate::scenario::DiskFault;
use crate::subject::Subject;

/// How long the disk is full now and then, ns: after that it has space for good.
const FULL_NS_MAX: u64 = 60_000_000_000;

/// How the buffer's disk does at the moment.
#[derive(Debug, Default)]
pub(super) struct Disk {
    /// It has no space, and says so with this.
    full: Failure,
    /// It is read-only or dead.
    broken: bool,
    /// The journal lacks a record for want of space: nothing is appended until a new one was begun.
    pub has_gap: bool,
    /// The last spill failed for want of space.
    is_short: bool,
    /// The last sync failed.
    has_failed_sync: bool,
    /// It was full since the process began.
    pub was_full: bool,
    /// A drain may have brought things home that the journal on the medium does not know of.
    pub home_may_be_ahead: bool,
}

impl Disk {
    /// A new process opens the journal; it looks for space anew.
    pub fn crashed(&mut self) {
        *self = Disk { full: self.full, was_full: self.full.is_some(), ..Disk::default() };
    }

    pub fn is_full(&self) -> bool {
        self.full.is_some()
    }

    pub fn has_space(&mut self) {
        self.full = None;
    }
}

impl<M: Subject> World<M> {
    /// When the disk changes next.
    pub(super) fn plan_disk(&mut self) {
        if self.scenario.faults.disk != DiskFault::None {
            let delay_ns = self.chance.below(200_000_000) + 1;
            self.schedule(delay_ns, Event::Disk);
        }
    }

    /// The disk becomes full or has space again, or breaks.
    pub(super) fn change_disk(&mut self) {
        match self.scenario.faults.disk {
            DiskFault::None => {}
            DiskFault::Full { .. } => {
                let is_over = self.now.since_ns(Time(START_NS)) > FULL_NS_MAX;
                let was_full = self.disk.full.take().is_some();
                if is_over || !matches!(self.phase, Phase::Running | Phase::Inspecting(_)) {
                    return;
                }
                if !was_full {
                    self.fill_disk();
                }
                let length_ns = *self.chance.pick(&[1_000_000, 50_000_000, 700_000_000, 5_000_000_000]);
                self.liveness.stalled(self.now + length_ns);
                self.schedule(length_ns, Event::Disk);
            }
            DiskFault::ReadOnly | DiskFault::Dead => {
                self.disk.broken = self.phase == Phase::Running;
                self.home.forgiving |= self.disk.broken;
            }
        }
    }

    fn fill_disk(&mut self) {
        self.disk.full = Some(*self.chance.pick(&[Errno::ENOSPC, Errno::EDQUOT]));
        self.disk.was_full = true;
    }

    /// The clients are done.
    pub(super) fn disk_at_the_end(&mut self) {
        self.disk.full = None;
        if matches!(self.scenario.faults.disk, DiskFault::Full { at_the_end: true, .. }) {
            self.fill_disk();
            self.liveness.stalled(self.now + 60_000_000_000);
        }
    }

    /// Whether an effect fails because of the disk.
    pub(super) fn disk_failure(&mut self, effect: &Effect) -> Failure {
        let failure = if self.disk.broken { self.broken_disk_failure(effect) } else { self.full_disk_failure(effect) };
        self.summary.faults += u64::from(failure.is_some());
        failure
    }

    /// The disk is dead, and only there the bytes are.
    pub(super) fn is_unreadable(&self, slot: Slot) -> bool {
        self.disk.broken && self.scenario.faults.disk == DiskFault::Dead && matches!(slot, Slot::Ssd(_))
    }

    fn full_disk_failure(&mut self, effect: &Effect) -> Failure {
        let DiskFault::Full { journal, per_mille, syncs_per_mille, .. } = self.scenario.faults.disk else { return None };
        let full = self.disk.full;
        let is_of_journal = matches!(effect, Effect::Journal { .. } | Effect::RotateJournal { .. });
        if is_of_journal && !journal && !self.disk.has_gap {
            return None;
        }
        match effect {
            // Behind a record that is not there, none can be. Some space is taken ahead of need, so that not every record meets a full disk.
            Effect::Journal { .. } => {
                if full.is_some() && !self.disk.has_gap && self.chance.chance(300) {
                    self.disk.has_gap = true;
                    self.oracle.journal_halts();
                }
                self.disk.has_gap.then_some(full.unwrap_or(Errno::ENOSPC))
            }
            Effect::RotateJournal { .. } => {
                self.disk.has_gap = full.is_some();
                if self.disk.has_gap {
                    // The sync of the old one may be what failed.
                    if self.chance.chance(syncs_per_mille) {
                        self.journal.lose_syncs();
                    }
                    self.oracle.journal_halts()
                } else {
                    self.oracle.journal_goes_on()
                }
                full
            }
            Effect::Spill { .. } => {
                let failure = full.filter(|_| self.chance.chance(per_mille));
                self.disk.is_short = failure.is_some();
                failure
            }
            Effect::WriteLog { pieces, .. } => {
                let is_on_disk = pieces.iter().any(|piece| matches!(piece.at.slot, Slot::Ssd(_)));
                full.filter(|_| is_on_disk && self.chance.chance(per_mille))
            }
            Effect::CopyLog { to, .. } => full.filter(|_| matches!(to.slot, Slot::Ssd(_)) && self.chance.chance(per_mille)),
            Effect::SyncLog { .. } => full.filter(|_| self.chance.chance(syncs_per_mille)),
            _ => None,
        }
    }

    /// The machine is about to be told how an effect has ended.
    pub(super) fn disk_effect_ends(&mut self, effect: &Effect, failure: Failure) {
        if !matches!(effect, Effect::SyncLog { .. }) {
            return;
        }
        self.disk.has_failed_sync = failure.is_some();
        if failure.is_none() {
            self.disk.home_may_be_ahead &= self.disk.has_gap || self.disk.is_short || !self.journal.is_settled();
            return;
        }
        if !matches!(self.scenario.faults.disk, DiskFault::Full { .. }) {
            return;
        }
        // What the kernel could not write it may have dropped: nothing more of that file is ever known to be on the medium.
        let is_renewed = self.in_flight.values().any(|other| matches!(other.effect, Effect::RotateJournal { .. }));
        if !is_renewed {
            self.journal.lose_syncs();
            self.disk.has_gap = true;
            self.oracle.journal_halts();
        }
    }

    fn broken_disk_failure(&mut self, effect: &Effect) -> Failure {
        let is_dead = self.scenario.faults.disk == DiskFault::Dead;
        let writes = match effect {
            Effect::Journal { .. } | Effect::RotateJournal { .. } => {
                self.journal_is_broken = true;
                true
            }
            Effect::Spill { .. } | Effect::CopyLog { .. } | Effect::SyncLog { .. } => true,
            Effect::WriteLog { pieces, .. } => pieces.iter().any(|piece| matches!(piece.at.slot, Slot::Ssd(_))),
            _ => false,
        };
        let reads = match effect {
            Effect::ReadLog { pieces, .. } => pieces.iter().any(|piece| self.is_unreadable(piece.at.slot)),
            _ => false,
        };
        if !writes && !reads {
            return None;
        }
        self.liveness.log_failed();
        // A few more requests show what it is like.
        self.actions_left = self.actions_left.min(6);
        Some(if is_dead { Errno::EIO } else { Errno::EROFS })
    }

    /// While a drain is under way that may give the disk up, home may come to be ahead of what a crash leaves of the journal.
    pub(super) fn note_change_at_home(&mut self, effect: &Effect) {
        let drains = || self.calls.values().any(|call| call.request == Request::Drain);
        let is_behind = self.disk.has_gap || self.disk.is_short || self.disk.has_failed_sync;
        if matches!(effect, Effect::ChangeHome { .. }) && is_behind && drains() {
            self.disk.home_may_be_ahead = true;
        }
    }

    /// From a disk that is only read-only, what was acknowledged can be read.
    pub(super) fn check_disk_answer(&self, request: &Request, reply: &Reply) -> Result<()> {
        match (request, reply) {
            (Request::Read { .. } | Request::GetAttr { .. }, Reply::Error { errno: Errno::EROFS | Errno::EIO })
                if self.disk.broken && self.scenario.faults.disk == DiskFault::ReadOnly =>
            {
                Err(self.violation(Property::Liveness, format!("{request:?} failed with {reply:?} beside a disk that can be read")))
            }
            _ => Ok(()),
        }
    }

    /// A drain without a journal has ended. From a disk that can be read, all is home; that it is not written down is the one thing to tell.
    pub(super) fn check_home_without_journal(&self, reply: &Reply) -> Result<()> {
        let Reply::Drained { failures } = reply else { return Ok(()) };
        if self.scenario.faults.disk != DiskFault::ReadOnly {
            return Ok(());
        }
        let is_journals = |step, path: &[u8]| step == DrainStep::Sync && path.is_empty();
        if !failures.iter().all(|failure| is_journals(failure.step, failure.path.as_bytes())) || failures.is_empty() {
            return Err(self.violation(Property::Liveness, format!("the disk can be read, but a drain gave up: {failures:?}")));
        }
        self.require(Property::Drained, drained::check(&self.home))?;
        self.require(Property::FlushOrder, flush_order::check(&self.oracle, &self.home))
    }
}
