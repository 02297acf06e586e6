//! Small devices whose every byte has a stamp, and a host that takes its time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use forebay_core::errno::Errno;
use forebay_core::hybrid::{
    Access, Effect, Entry, FileRange, Generation, HybridConfig, HybridNode, Input, Layout, Note, Recovered, RegionState, Request, SsdPart,
};
use forebay_core::id::{CallId, Ino, Token};
use forebay_core::machine::Machine;
use forebay_core::policy::RequestClass;
use forebay_core::policy::admission::AdmissionConfig;
use forebay_core::time::Time;

use super::oracle::{Oracle, Stamp};
use super::scenario::{Canary, Scenario, config};
use crate::rng::Rng;

mod clients;
mod devices;

use clients::Call;
use devices::{Disk, Ssd};

/// More steps than any run takes; beyond, something runs in circles.
const EVENTS_MAX: u64 = 2_000_000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Client(u64),
    Step(Token),
    Timeout,
    Kill,
    PowerLoss,
    /// A flush that comes late (canary).
    Late(Token),
}

/// An effect that is being carried out.
#[derive(Debug)]
struct Work {
    effect: Effect,
    steps_done: u32,
    /// What was read on the way.
    stamps: Vec<Stamp>,
    /// Writes to the device that this was asked after.
    issued: u64,
    fails: bool,
}

/// What a run has come to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Requests that were answered.
    pub answered: u64,
    /// Crashes of both kinds.
    pub crashes: u64,
    /// Flushes of regions.
    pub flushes: u64,
    /// Writes to the disk that took older bytes on the SSD out of the index.
    pub superseding: u64,
    /// Writes that waited for others in their range, or for room.
    pub waits: u64,
}

/// The simulated host of one hybrid node.
pub struct World {
    scenario: Scenario,
    rng: Rng,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    node: HybridNode,
    /// What the node was told last.
    config: HybridConfig,
    /// By the cap on the rate of flushes, the next range may go then.
    flush_from: u64,
    disk: Disk,
    ssd: Ssd,
    works: BTreeMap<Token, Work>,
    late: BTreeMap<Token, (FileRange, Vec<Stamp>)>,
    told: BTreeSet<Token>,
    calls: BTreeMap<CallId, Call>,
    last_call: u64,
    requests_left: u64,
    stamp: Stamp,
    oracle: Oracle,
    summary: Summary,
    wake: Option<u64>,
    final_drain: Option<CallId>,
    is_over: bool,
}

impl World {
    /// A world before its first event.
    pub fn new(scenario: Scenario) -> World {
        let mut world = World {
            rng: Rng::new(scenario.seed),
            now: 1,
            events: BinaryHeap::new(),
            sequence: 0,
            node: HybridNode::new(scenario.config.clone()),
            config: scenario.config.clone(),
            flush_from: 0,
            disk: Disk::default(),
            ssd: Ssd::new(scenario.config.ssd_bytes),
            works: BTreeMap::new(),
            late: BTreeMap::new(),
            told: BTreeSet::new(),
            calls: BTreeMap::new(),
            last_call: 0,
            requests_left: scenario.requests,
            stamp: 0,
            oracle: Oracle::new(),
            summary: Summary::default(),
            wake: None,
            final_drain: None,
            is_over: false,
            scenario,
        };
        for client in 0..world.scenario.clients {
            world.after(1_000, Event::Client(client));
        }
        // About as long as the requests take.
        let length_ns = world.scenario.requests * (20_000 + world.scenario.pause_ns_max / 2) / world.scenario.clients;
        for (count, event) in [(world.scenario.kills, Event::Kill), (world.scenario.power_losses, Event::PowerLoss)] {
            (0..count).for_each(|_| world.after(length_ns, event));
        }
        world
    }

    /// Runs to the end; says what was wrong.
    pub fn run(mut self) -> Result<Summary, String> {
        let mut events = 0;
        while !self.is_over {
            let Some(Reverse((time, _, event))) = self.events.pop() else {
                return Err(format!(
                    "at {}: nothing will ever happen, and {:?} is not answered",
                    self.now,
                    self.calls.keys().collect::<Vec<_>>()
                ));
            };
            events += 1;
            if events > EVENTS_MAX {
                return Err(format!("at {}: no end after {events} events", self.now));
            }
            self.now = self.now.max(time);
            self.on_event(event).map_err(|fault| format!("at {}: {fault}", self.now))?;
        }
        self.count();
        Ok(self.summary)
    }

    fn count(&mut self) {
        let counters = self.node.counters();
        self.summary.flushes += counters.flushes;
        self.summary.superseding += counters.superseding;
        self.summary.waits += counters.waits_for_range + counters.waits_for_room;
    }

    /// An event at a random time within `ns_max`.
    fn after(&mut self, ns_max: u64, event: Event) {
        let time = self.now + 1 + self.rng.below(ns_max);
        self.at(time, event);
    }

    fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((time, self.sequence, event)));
    }

    fn on_event(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Client(client) => self.client(client),
            Event::Step(token) => self.step(token),
            Event::Timeout => {
                if self.wake.is_some_and(|wake| wake <= self.now) {
                    self.wake = None;
                    self.node.handle_timeout(Time(self.now));
                    return self.poll();
                }
                Ok(())
            }
            Event::Kill => self.crash(false),
            Event::PowerLoss => self.crash(true),
            Event::Late(token) => {
                if let Some((range, stamps)) = self.late.remove(&token) {
                    self.disk.write(range.file.0, range.offset, &stamps);
                }
                Ok(())
            }
        }
    }

    fn handle(&mut self, input: Input) -> Result<(), String> {
        self.tell(|| format!("input {input:?}"));
        self.node.handle(Time(self.now), input);
        self.poll()
    }

    /// Tells what happens, if asked to.
    fn tell(&self, what: impl Fn() -> String) {
        if self.scenario.is_verbose {
            println!("{:>12} {}", self.now, what());
        }
    }

    /// Takes up what the machine asks for.
    fn poll(&mut self) -> Result<(), String> {
        while let Some(effect) = self.node.poll_effect() {
            self.tell(|| format!("effect {effect:?}"));
            if let Effect::Reply { call, result } = effect {
                self.on_reply(call, result)?;
                continue;
            }
            let token = token_of(&effect).ok_or("an effect without a token")?;
            if !self.told.insert(token) {
                return Err(format!("{token:?} was given twice"));
            }
            let fails = self.final_drain.is_none() && self.rng.chance(self.scenario.errors_per_mille);
            let issued = match effect {
                Effect::SyncSsd { .. } => self.ssd.writes(),
                _ => self.disk.writes(),
            };
            self.check_effect(&effect)?;
            self.works.insert(token, Work { effect, steps_done: 0, stamps: Vec::new(), issued, fails });
            self.after(20_000, Event::Step(token));
        }
        if let Some(Time(wake)) = self.node.poll_timeout()
            && self.wake.is_none_or(|known| wake < known || known <= self.now)
        {
            self.wake = Some(wake);
            self.at(wake.max(self.now), Event::Timeout);
        }
        Ok(())
    }

    fn check_effect(&mut self, effect: &Effect) -> Result<(), String> {
        match effect {
            Effect::AppendSsd { entry, call, .. } => {
                self.ssd.check_append(entry)?;
                self.ssd.layout = Some(self.node.regions().layout());
                if self.calls.get(call).is_some_and(|call| call.is_for_disk) {
                    return Err(format!("{call:?} goes to the SSD, though the policy of its time puts nothing there"));
                }
                self.check_apart(entry.range, |other| matches!(other, Effect::ChangeDisk { range, .. } if range.overlaps(&entry.range)))
            }
            Effect::ChangeDisk { range, .. } => self.check_apart(*range, |other| match other {
                Effect::AppendSsd { entry, .. } => entry.range.overlaps(range),
                Effect::WriteDisk { range: other, .. } | Effect::Flush { range: other, .. } => other.overlaps(range),
                _ => false,
            }),
            Effect::Flush { range, .. } => self.check_pace(range.len),
            _ => Ok(()),
        }
    }

    /// A change of the disk and what it must not meet are never under way at the same time.
    fn check_apart(&self, range: FileRange, meets: impl Fn(&Effect) -> bool) -> Result<(), String> {
        match self.works.values().find(|work| meets(&work.effect)) {
            Some(work) => Err(format!("{:?} is under way, and something is asked for in {range:?}", work.effect)),
            None => Ok(()),
        }
    }

    /// Flushes keep to the cap on their rate, unless everything is to go home.
    fn check_pace(&mut self, bytes: u64) -> Result<(), String> {
        let Some(rate) = self.config.flush_bytes_per_s_max else { return Ok(()) };
        if self.now < self.flush_from && !self.calls.values().any(Call::is_drain) {
            return Err(format!("{bytes} bytes go home, though by the cap of {rate} bytes/s nothing may before {}", self.flush_from));
        }
        self.flush_from = self.flush_from.max(self.now) + bytes * 1_000_000_000 / rate;
        Ok(())
    }

    /// The next part of an effect happens; with the last one the machine is told.
    fn step(&mut self, token: Token) -> Result<(), String> {
        let Some(mut work) = self.works.remove(&token) else { return Ok(()) };
        let fails_now = work.fails && (work.steps_done > 0 || self.rng.chance(500));
        let is_done = fails_now || self.do_step(token, &mut work);
        if !is_done {
            self.works.insert(token, work);
            self.after(20_000, Event::Step(token));
            return Ok(());
        }
        if self.scenario.canary == Some(Canary::CompletionIsLost) && self.rng.chance(20) {
            return Ok(());
        }
        let result = if fails_now { Err(Errno::EIO) } else { Ok(()) };
        self.handle(Input::Done { token, result })
    }

    /// Does one part of an effect; returns whether it was the last.
    fn do_step(&mut self, token: Token, work: &mut Work) -> bool {
        work.steps_done += 1;
        let is_second = work.steps_done == 2;
        let canary = self.scenario.canary;
        match &work.effect {
            Effect::AppendSsd { call, entry, .. } => {
                let Some(stamp) = self.calls.get(call).map(|call| call.stamp) else { return true };
                let half = entry.range.len / 2;
                let (from, to) = if is_second { (half, entry.range.len) } else { (0, half) };
                self.ssd.write(entry.at + from, &vec![stamp; (to - from) as usize]);
                if is_second {
                    self.ssd.enter(*entry);
                }
                is_second
            }
            Effect::WriteDisk { call, range, .. } => {
                let Some(stamp) = self.calls.get(call).map(|call| call.stamp) else { return true };
                let half = range.len / 2;
                let (from, to) = if is_second { (half, range.len) } else { (0, half) };
                self.disk.write(range.file.0, range.offset + from, &vec![stamp; (to - from) as usize]);
                is_second
            }
            Effect::ChangeDisk { call, .. } => {
                let Some(Call { stamp, range, .. }) = self.calls.get(call) else { return true };
                if canary != Some(Canary::ChangeIsLeftOut) {
                    let half = range.len / 2;
                    let (from, to) = if is_second { (half, range.len) } else { (0, half) };
                    self.disk.write(range.file.0, range.offset + from, &vec![*stamp; (to - from) as usize]);
                }
                is_second
            }
            Effect::ReadSsd { call, part, .. } => {
                let at = if canary == Some(Canary::ReadIsOfWhatCameLater) { self.ssd.somewhere_else(part.at) } else { part.at };
                let stamps = self.ssd.read(at, part.len);
                self.show(*call, part.offset, part.len, &stamps, is_second);
                is_second
            }
            Effect::ReadDisk { call, range, .. } => {
                let stamps = self.disk.read(range.file.0, range.offset, range.len);
                self.show(*call, range.offset, range.len, &stamps, is_second);
                is_second
            }
            Effect::Flush { range, parts, .. } => match work.steps_done {
                1 => {
                    work.stamps = parts.iter().flat_map(|SsdPart { at, len, .. }| self.ssd.read(*at, *len)).collect();
                    false
                }
                step => {
                    let half = work.stamps.len() / 2;
                    let (from, stamps) = if step == 2 { (0, &work.stamps[..half]) } else { (half, &work.stamps[half..]) };
                    match canary {
                        Some(Canary::FlushIsLeftOut) => {}
                        Some(Canary::FlushComesLate) if step == 3 => {
                            self.late.insert(token, (*range, work.stamps.clone()));
                            self.sequence += 1;
                            self.events.push(Reverse((self.now + 40_000, self.sequence, Event::Late(token))));
                        }
                        _ => self.disk.write(range.file.0, range.offset + from as u64, stamps),
                    }
                    step == 3
                }
            },
            Effect::SyncDisk { .. } => {
                if canary != Some(Canary::SyncDiskDoesNothing) {
                    self.disk.sync(work.issued);
                }
                true
            }
            Effect::SyncSsd { .. } => {
                if canary != Some(Canary::SyncSsdDoesNothing) {
                    self.ssd.sync(work.issued);
                }
                true
            }
            Effect::Note { note, .. } => {
                let is_forgotten = match note {
                    Note::Superseded { .. } => canary == Some(Canary::SupersededIsForgotten),
                    Note::Emptied(_) => canary == Some(Canary::EmptiedIsForgotten),
                };
                if !is_forgotten {
                    self.ssd.notes.push(*note);
                }
                true
            }
            Effect::Reply { .. } => true,
        }
    }

    /// Brings the first or the second half of what was read into a call's answer.
    fn show(&mut self, call: CallId, offset: u64, len: u64, stamps: &[Stamp], second: bool) {
        let Some(call) = self.calls.get_mut(&call) else { return };
        let half = (len / 2) as usize;
        let range = if second { half..stamps.len() } else { 0..half };
        let from = (offset - call.range.offset) as usize;
        for at in range {
            call.shown[from + at] = Some(stamps[at]);
        }
    }

    /// The process dies, with the power or without. What was under way has happened, in part, or not.
    fn crash(&mut self, power: bool) -> Result<(), String> {
        if self.final_drain.is_some() {
            return Ok(());
        }
        self.tell(|| format!("crash, power: {power}"));
        self.summary.crashes += 1;
        let tokens: Vec<Token> = self.works.keys().copied().collect();
        for token in tokens {
            let Some(mut work) = self.works.remove(&token) else { continue };
            // A failing sync or note does nothing that counts.
            while !work.fails && self.rng.chance(400) && !self.do_step(token, &mut work) {}
        }
        self.late.clear();
        self.ssd.restart();
        if power {
            self.disk.power_loss(&mut self.rng);
            self.ssd.power_loss(&mut self.rng);
            self.oracle.power_loss(self.now);
        } else {
            self.oracle.crash(self.now);
        }
        self.count();
        self.works.clear();
        self.told.clear();
        self.wake = None;
        let lost = std::mem::take(&mut self.calls).len() as u64;
        self.now += 1;
        self.flush_from = 0;
        let layout = self.ssd.layout.filter(|_| self.scenario.canary != Some(Canary::LayoutIsForgotten));
        let found = Recovered { entries: self.ssd.entries(), notes: self.ssd.notes.clone(), layout };
        self.node = HybridNode::recover(self.config.clone(), found);
        self.check_recovered()?;
        // Clients ask for other things from now on.
        for _ in 0..lost {
            let client = self.rng.below(self.scenario.clients);
            self.after(1_000, Event::Client(client));
        }
        self.poll()
    }

    /// Regions that came back are full: nothing is appended behind what may have been torn.
    fn check_recovered(&self) -> Result<(), String> {
        match self.node.regions().iter().find(|region| region.state() == RegionState::Filling) {
            Some(region) => Err(format!("after a crash {:?} takes bytes", region.generation())),
            None => Ok(()),
        }
    }
}

fn token_of(effect: &Effect) -> Option<Token> {
    match effect {
        Effect::Reply { .. } => None,
        Effect::AppendSsd { token, .. }
        | Effect::ReadSsd { token, .. }
        | Effect::WriteDisk { token, .. }
        | Effect::ChangeDisk { token, .. }
        | Effect::ReadDisk { token, .. }
        | Effect::Flush { token, .. }
        | Effect::SyncDisk { token }
        | Effect::SyncSsd { token }
        | Effect::Note { token, .. } => Some(*token),
    }
}
