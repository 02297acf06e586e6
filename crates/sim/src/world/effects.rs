//! Effects begin and end: how long they take, and whether they fail.

use forebay_core::effect::{Effect, HomeChange, Input, LogRange, Outcome, Payload, Slot};
use forebay_core::errno::Errno;
use forebay_core::id::Token;
use forebay_core::time::Time;

use super::{Event, Failure, Result, World};
use crate::canary::Canary;
use crate::checker::Property;
use crate::checker::contract::token_of;
use crate::journal::JournalSync;
use crate::log::LogSync;
use crate::subject::Subject;

/// In how many parts an effect happens: a spill reads, then writes; a write at home happens bit by bit.
pub(super) fn parts_of(effect: &Effect) -> u32 {
    match effect {
        Effect::WriteHome { .. } => 3,
        Effect::Spill { .. } => 2,
        _ => 1,
    }
}

/// An effect that has begun.
#[derive(Debug)]
pub(super) struct InFlight {
    pub effect: Effect,
    /// How it ends, once it was carried out.
    pub result: Option<std::result::Result<Outcome, Errno>>,
    /// It will fail with this, after all, some or none of it was carried out.
    pub failure: Failure,
    /// Of a failing effect: whether it is carried out all the same.
    pub happens: bool,
    /// The bytes that a write at home has gathered.
    pub gathered: Vec<u8>,
    pub sync: Option<(LogSync, JournalSync)>,
}

impl InFlight {
    /// Whether it was carried out, or at least begun.
    pub fn is_performed(&self) -> bool {
        self.result.is_some()
    }
}

/// How long effects of a kind take, ns: at least and at most.
fn delay_of(effect: &Effect) -> (u64, u64) {
    use Effect::*;
    match effect {
        WriteLog { .. } | ReadLog { .. } | CopyLog { .. } => (500, 40_000),
        Spill { .. } => (20_000, 800_000),
        SyncLog { .. } => (100_000, 8_000_000),
        Journal { .. } => (200, 3_000),
        RotateJournal { .. } => (50_000, 3_000_000),
        SyncHome { .. } => (200_000, 60_000_000),
        _ => (50_000, 25_000_000),
    }
}

/// Whether an effect that fails has not happened: a change of names is there or it is not.
fn is_atomic(effect: &Effect) -> bool {
    let Effect::ChangeHome { change, .. } = effect else { return false };
    !matches!(change, HomeChange::Truncate { .. } | HomeChange::Punch { .. } | HomeChange::SetAttr { .. })
}

fn is_at_home(effect: &Effect) -> bool {
    use Effect::*;
    matches!(
        effect,
        ListHome { .. }
            | StatHome { .. }
            | ReadLinkHome { .. }
            | StatFsHome { .. }
            | ReadHome { .. }
            | WriteHome { .. }
            | CompareHome { .. }
            | CompareZerosHome { .. }
            | XattrsHome { .. }
            | SeekHome { .. }
            | SyncHome { .. }
            | ChangeHome { .. }
    )
}

fn only_reads_home(effect: &Effect) -> bool {
    use Effect::*;
    let is_of_bytes = matches!(effect, ReadHome { .. } | SeekHome { .. } | CompareHome { .. } | CompareZerosHome { .. });
    is_of_bytes || matches!(effect, ListHome { .. } | StatHome { .. } | ReadLinkHome { .. } | XattrsHome { .. } | StatFsHome { .. })
}

impl<M: Subject> World<M> {
    /// The machine wants something done.
    pub(super) fn begin(&mut self, mut effect: Effect) -> Result<()> {
        if let Some(canary) = self.canary {
            canary.distort(&mut effect);
        }
        self.say(|| format!("  do {effect:?}"));
        self.summary.digest.add(self.now, &effect);
        let token = token_of(&effect);
        let checked = self.contract.begin(token, &effect);
        self.require(Property::Contract, checked)?;
        let checked = self.capacity.begin(token, &effect);
        self.require(Property::Capacity, checked)?;
        match token {
            Some(token) => self.begin_answered(token, effect),
            None => self.carry_out(effect),
        }
    }

    /// Carries out an effect that is not answered.
    fn carry_out(&mut self, effect: Effect) -> Result<()> {
        match effect {
            Effect::Reply { call, reply } => return self.answer(call, reply),
            Effect::ZeroPayload { payload, ranges } => {
                for (offset, len) in ranges {
                    self.payload_mut(payload)[offset as usize..(offset + len) as usize].fill(0);
                }
            }
            Effect::CopyPayload { from, from_offset, to, to_offset, len } => {
                let bytes = self.payload_mut(from)[from_offset as usize..(from_offset + len) as usize].to_vec();
                self.payload_mut(to)[to_offset as usize..(to_offset + len) as usize].copy_from_slice(&bytes);
            }
            Effect::DropOldJournals => {
                self.disk.home_may_be_ahead &= self.disk.has_gap;
                let dropped = self.journal.drop_old();
                self.require(Property::Contract, dropped)?;
            }
            Effect::DropFetch { fetch } => {
                self.fetches.remove(&fetch);
            }
            // Files of home are not kept open here.
            Effect::ForgetHome { .. } => {}
            Effect::PruneClients { names } => {
                for (_, _, ino) in names {
                    self.clients.iter_mut().for_each(|client| client.prune(ino));
                }
            }
            other => unreachable!("{other:?} is answered"),
        }
        Ok(())
    }

    pub(super) fn payload_mut(&mut self, payload: Payload) -> &mut Vec<u8> {
        match payload {
            Payload::Call(call) => &mut self.calls.get_mut(&call).expect("the contract has been checked").bytes,
            Payload::Fetch(fetch) => self.fetches.get_mut(&fetch).expect("the contract has been checked"),
        }
    }

    fn begin_answered(&mut self, token: Token, effect: Effect) -> Result<()> {
        self.note_change_at_home(&effect);
        let failure = self.failure_of(&effect);
        if let Effect::ReadHome { fetch, len, .. } = &effect {
            self.fetches.insert(*fetch, vec![0xBB; *len as usize]);
        }
        let sync = matches!(effect, Effect::SyncLog { .. }).then(|| (self.log.begin_sync(), self.journal.begin_sync()));
        let inline = matches!(effect, Effect::Journal { .. } | Effect::RotateJournal { .. });
        let end = self.end_of(&effect);
        let happens = failure.is_none() || (!inline && !is_atomic(&effect) && self.chance.chance(500));
        let parts = parts_of(&effect);
        self.in_flight.insert(token, InFlight { effect, result: None, failure, happens, gathered: Vec::new(), sync });
        if inline {
            self.perform(token, 0)?;
        } else {
            let mut start = self.now;
            for part in 0..parts {
                start = start + self.delays.below(end.since_ns(start).max(1));
                self.schedule_at(start, Event::Perform(token, part));
            }
        }
        self.schedule_at(end, Event::Complete(token));
        Ok(())
    }

    /// When an effect ends.
    fn end_of(&mut self, effect: &Effect) -> Time {
        let (least, most) = delay_of(effect);
        let percent = if self.delays.chance(30) { 2000 } else { self.scenario.delay_percent };
        let delay_ns = (self.delays.range(least, most) * percent / 100).max(1);
        let end = self.now + delay_ns;
        match effect {
            Effect::Journal { .. } | Effect::RotateJournal { .. } => {
                self.journal_free_at = end.max(self.journal_free_at);
                self.journal_free_at
            }
            effect if is_at_home(effect) => end.max(self.weather.stalled_until),
            _ => end,
        }
    }

    /// Whether an effect is to fail.
    fn failure_of(&mut self, effect: &Effect) -> Failure {
        use Effect::*;
        let faults = &self.scenario.faults;
        if is_at_home(effect) {
            let refusing = self.weather.refusing.filter(|_| !only_reads_home(effect));
            if refusing.is_none() && (!self.weather.failing || !self.chance.chance(faults.home_error_per_mille)) {
                return None;
            }
            let errno = if let Some(errno) = refusing {
                errno
            } else if only_reads_home(effect) {
                Errno::EIO
            } else {
                *self.chance.pick(&[Errno::EIO, Errno::ENOSPC, Errno::EDQUOT])
            };
            self.liveness.home_failed(self.now, errno, only_reads_home(effect));
            self.summary.faults += 1;
            if let SyncHome { files, .. } = effect {
                self.home.fail_sync(files);
            }
            self.home.forgiving = true;
            return Some(errno);
        }
        if let Some(errno) = self.disk_failure(effect) {
            return Some(errno);
        }
        let log_error_per_mille = self.scenario.faults.log_error_per_mille;
        let is_journal = matches!(effect, Journal { .. } | RotateJournal { .. });
        let per_mille = match () {
            // Behind a record that is not there, none can be.
            () if is_journal && self.journal_is_broken => 1000,
            () if self.log_may_fail() => log_error_per_mille,
            () => 0,
        };
        if !self.chance.chance(per_mille) {
            return None;
        }
        self.journal_is_broken |= is_journal;
        self.liveness.log_failed();
        self.summary.faults += 1;
        // A log that has failed takes nothing more: a few more requests show that, and then the process is started anew.
        self.actions_left = self.actions_left.min(3);
        Some(*self.chance.pick(&[Errno::EIO, Errno::EROFS]))
    }

    /// The machine is told that an effect has ended.
    pub(super) fn complete(&mut self, token: Token) -> Result<()> {
        let Some(ended) = self.in_flight.remove(&token) else { return Ok(()) };
        if self.canary == Some(Canary::CompletionIsLost) && self.chance.chance(20) {
            return Ok(());
        }
        let mut result = match ended.failure {
            Some(errno) => {
                if is_at_home(&ended.effect) {
                    self.liveness.home_failed(self.now, errno, only_reads_home(&ended.effect));
                }
                Err(errno)
            }
            None => ended.result.expect("an effect is carried out before it ends"),
        };
        if let (Some(Canary::CompareSaysEqual | Canary::FlushIsLeftOut | Canary::PunchIsLeftOut), Ok(Outcome::Compared { equal })) =
            (self.canary, &mut result)
        {
            *equal = true;
        }
        self.disk_effect_ends(&ended.effect, ended.failure);
        self.capacity.end(token, result.is_err());
        if result.is_ok() {
            for range in written_by(&ended.effect) {
                self.log.completed(range);
            }
        } else if ended.failure.is_none() {
            self.check_refusal(&ended.effect, &result)?;
        }
        self.say(|| format!("  done {token:?} {result:?}"));
        let now = self.now;
        self.machine().handle(now, Input::Done { token, result });
        Ok(())
    }

    fn check_refusal(&mut self, effect: &Effect, result: &std::result::Result<Outcome, Errno>) -> Result<()> {
        let errno = *result.as_ref().expect_err("a refusal is an error");
        if is_at_home(effect) && !self.home.forgiving {
            return self.require(Property::Contract, self.contract.home_refused(effect, errno));
        }
        self.liveness.home_failed(self.now, errno, only_reads_home(effect));
        Ok(())
    }

    pub(super) fn check_breaches(&self) -> Result<()> {
        let first = self.home.breaches.first().filter(|_| !self.is_meddled);
        first.map_or(Ok(()), |breach| Err(self.violation(Property::Contract, breach.clone())))
    }
}

/// The places of the log that an effect writes.
fn written_by(effect: &Effect) -> Vec<LogRange> {
    match effect {
        Effect::WriteLog { pieces, .. } => pieces.iter().map(|piece| piece.at).collect(),
        Effect::CopyLog { to, .. } => vec![*to],
        Effect::Spill { to, offset, len, .. } => vec![LogRange { slot: Slot::Ssd(*to), offset: *offset, len: *len }],
        _ => Vec::new(),
    }
}
