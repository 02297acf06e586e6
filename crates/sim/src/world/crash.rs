//! Crashes: the process is killed or the power fails, and the node comes back from what is left.

use std::collections::BTreeMap;

use forebay_core::attr::Kind;
use forebay_core::effect::{Effect, Input, LogRange};
use forebay_core::id::Ino;
use forebay_core::message::Request;
use forebay_core::recovery::{Held, HeldBy, PieceCheck};

use super::effects::{InFlight, parts_of};
use super::phases::Phase;
use super::{Event, Result, Unbegun, World};
use crate::canary::Canary;
use crate::checker::{acknowledged, synced};
use crate::inspector::Inspector;
use crate::subject::Subject;

impl<M: Subject> World<M> {
    /// Chooses when the next crash comes.
    pub(super) fn plan_crash(&mut self) {
        let steps_max = self.scenario.faults.crash_steps_max;
        self.crash_at = (self.crashes_left > 0).then(|| self.steps + 1 + self.chance.below(steps_max));
    }

    /// Not when the journal has failed: home may be ahead of it then.
    pub(super) fn is_time_to_crash(&self) -> bool {
        // While everything is read back, nobody counts what is held.
        let is_looking = self.scenario.faults.takeover && matches!(self.phase, Phase::Inspecting(_) | Phase::LastLook(_));
        let may_crash = !is_looking && !self.journal_is_broken && !self.disk.home_may_be_ahead;
        may_crash && self.crash_at.is_some_and(|at| self.steps >= at)
    }

    /// The planned crash; `unbegun` is the effect that the host was about to begin.
    pub(super) fn crash(&mut self, unbegun: Unbegun) -> Result<()> {
        self.crashes_left = self.crashes_left.saturating_sub(1);
        if self.scenario.faults.takeover {
            return self.take_over(unbegun);
        }
        let power = self.chance.chance(self.scenario.faults.power_loss_per_mille);
        self.crash_now(power, unbegun)
    }

    /// A crash, now.
    pub(super) fn crash_now(&mut self, power: bool, unbegun: Unbegun) -> Result<()> {
        self.say(|| format!("=== {} in {:?}", if power { "the power fails" } else { "the process is killed" }, self.phase));
        self.summary.crashes += 1;
        self.end_in_flight(unbegun);
        self.machine = None;
        self.queue.clear();
        self.wake_at = None;
        self.calls.clear();
        self.fetches.clear();
        self.clients.iter_mut().for_each(|client| client.forget_all());
        self.capacity.crashed();
        self.contract.crashed();
        self.liveness.crashed(self.now);
        self.home.forgiving = true;
        if self.canary == Some(Canary::JournalLosesItsEnd) {
            self.journal.lose_end(3);
        }
        if power {
            let mut rng = self.chance.fork();
            self.log.lose_power(&mut rng);
            self.journal.lose_power(&mut rng);
            self.home.forget_comparisons();
            if self.scenario.home_is_elsewhere {
                // Nobody who comes back knows of bytes that went home behind the last sync, and nobody could sync them.
                self.home.write_back_by_itself();
            } else {
                self.home.lose_power();
            }
            self.judged_by = synced::after_power_loss(&mut self.oracle, self.now);
        } else {
            self.judged_by = acknowledged::after_kill(&mut self.oracle, self.now);
        }
        let after_ns = self.delays.range(1_000_000, 10_000_000_000);
        self.now = self.now + after_ns;
        self.journal_free_at = self.now;
        self.journal_is_broken = false;
        self.disk.crashed();
        self.recover()
    }

    /// The process is killed, and another takes over while the clients wait: they keep what they hold, and ask again what was not answered.
    fn take_over(&mut self, unbegun: Unbegun) -> Result<()> {
        self.say(|| format!("=== the process is killed in {:?}, another takes over", self.phase));
        self.summary.crashes += 1;
        self.end_in_flight(unbegun);
        self.machine = None;
        self.queue.retain(|_, event| matches!(event, Event::Ask(_) | Event::Weather));
        self.wake_at = None;
        self.fetches.clear();
        self.capacity.crashed();
        self.contract.crashed();
        self.home.forgiving = true;
        self.oracle.taken_over();
        let pause_ns = self.delays.range(1_000, 100_000_000);
        self.now = self.now + pause_ns;
        self.liveness.taken_over(self.now);
        self.journal_free_at = self.now;
        self.start_from_journal(true)?;
        self.plan_crash();
        let chance = &mut self.chance;
        let mut again: Vec<_> =
            self.calls.iter().map(|(call, open)| (chance.next_u64(), *call, open.client, open.request.clone())).collect();
        again.sort_by_key(|(place, ..)| *place);
        for (_, call, client, request) in again {
            let open = self.calls.get_mut(&call).expect("it is open");
            open.again = true;
            if matches!(request, Request::Read { .. }) {
                open.bytes.fill(0xAA);
            }
            self.contract.asked(call);
            let once = Some(self.once_of(client, call, true));
            let now = self.now;
            self.machine().handle(now, Input::Call { call, request, once });
        }
        self.pump()
    }

    /// What clients hold, with what they are about to give back: they will ask that again.
    fn held(&self) -> impl FnMut(Ino, Kind) -> Held + use<M> {
        let mut all: BTreeMap<Ino, Held> = BTreeMap::new();
        for client in &self.clients {
            for (ino, held) in client.all_held() {
                let sum = all.entry(ino).or_default();
                sum.lookups += held.lookups;
                sum.opens += held.opens;
            }
        }
        for open in self.calls.values() {
            match open.request {
                Request::Forget { ino, count } => all.entry(ino).or_default().lookups += count,
                Request::Release { ino } => all.entry(ino).or_default().opens += 1,
                _ => {}
            }
        }
        move |ino, _| all.get(&ino).copied().unwrap_or_default()
    }

    fn start_from_journal(&mut self, takes_over: bool) -> Result<()> {
        let opened = self.journal.open();
        let log = &self.log;
        let mut held = self.held();
        let held: Option<&mut HeldBy<'_>> = if takes_over { Some(&mut held) } else { None };
        let mut check = |piece: &PieceCheck| crc32c::crc32c(log.read(piece.at)) == piece.crc;
        let recovered = M::recover(self.scenario.config.clone(), opened.records, opened.memory_intact, self.now, &mut check, held);
        let (machine, cut_at) =
            recovered.map_err(|what| self.violation(self.judged_by, format!("the buffer could not be recovered: {what}")))?;
        self.say(|| {
            format!(
                "=== recovered, memory intact: {}, cut at {cut_at:?}, {} possible states",
                opened.memory_intact,
                self.oracle.world_count()
            )
        });
        self.machine = Some(machine);
        Ok(())
    }

    fn recover(&mut self) -> Result<()> {
        self.start_from_journal(false)?;
        self.phase = Phase::Inspecting(Inspector::new(2 * self.scenario.config.chunk_bytes, self.scenario.workload.is_complete));
        self.schedule(1_000, Event::Ask(0));
        if self.scenario.faults.any_at_home() {
            self.schedule(1_000_000, Event::Weather);
        }
        self.plan_disk();
        self.plan_crash();
        self.pump()
    }

    /// What was under way happens, or does not, or in part.
    fn end_in_flight(&mut self, unbegun: Unbegun) {
        for (token, in_flight) in std::mem::take(&mut self.in_flight) {
            // A journal takes a record when it is asked to, or not at all.
            let is_refused = matches!(in_flight.effect, Effect::Journal { .. } | Effect::RotateJournal { .. });
            if in_flight.is_performed() || is_refused || !self.chance.chance(500) {
                continue;
            }
            if matches!(in_flight.effect, Effect::WriteLog { .. }) && self.chance.chance(500) {
                self.tear(&in_flight);
                continue;
            }
            let parts_max = u64::from(parts_of(&in_flight.effect));
            self.in_flight.insert(token, InFlight { failure: None, ..in_flight });
            for part in 0..self.chance.range(1, parts_max) as u32 {
                let _ = self.perform(token, part);
            }
            self.in_flight.clear();
        }
        match unbegun {
            Some(Effect::Journal { position, record, .. }) if !self.disk.has_gap && self.chance.chance(500) => {
                let _ = self.journal.append(position, record);
            }
            Some(Effect::RotateJournal { position, records, .. }) if self.chance.chance(800) => {
                let _ = self.journal.rotate(position, records);
                let mut rng = self.chance.fork();
                self.journal.tear_newest(&mut rng);
            }
            _ => {}
        }
    }

    /// A write into the log that was cut off.
    fn tear(&mut self, in_flight: &InFlight) {
        let Effect::WriteLog { payload, pieces, .. } = &in_flight.effect else { return };
        for piece in pieces {
            let len = self.chance.below(u64::from(piece.at.len) + 1) as u32;
            let start = piece.payload_offset as usize;
            let bytes = self.payload_mut(*payload)[start..start + len as usize].to_vec();
            if len > 0 {
                self.log.write(LogRange { len, ..piece.at }, &bytes);
            }
        }
    }
}
