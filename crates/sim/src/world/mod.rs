//! The world: virtual time, one node, its host, and clients that ask.

mod crash;
mod disk;
mod effects;
mod perform;
mod phases;

use std::collections::{BTreeMap, VecDeque};

use forebay_core::effect::{Effect, Input, Once};
use forebay_core::errno::Errno;
use forebay_core::id::{CallId, Token};
use forebay_core::message::{Reply, Request};
use forebay_core::time::Time;

use crate::canary::Canary;
use crate::checker::capacity::Capacity;
use crate::checker::contract::Contract;
use crate::checker::determinism::Digest;
use crate::checker::liveness::Liveness;
use crate::checker::{Property, Violation, drained, flush_order, reads};
use crate::client::Client;
use crate::home::Home;
use crate::journal::Journal;
use crate::log::Log;
use crate::oracle::{Oracle, payload_of};
use crate::rng::Rng;
use crate::scenario::Scenario;
use crate::stamp::{Stamp, Stamps};
use crate::subject::Subject;
use disk::Disk;
use effects::InFlight;
use perform::LateWrite;
use phases::Phase;

/// When runs begin, nanoseconds since the epoch.
const START_NS: u64 = 1_700_000_000_000_000_000;
/// Events of a run, at most: more are a machine that turns in circles.
const EVENTS_MAX: u64 = 3_000_000;

/// Something that will happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// A client asks its next request.
    Ask(usize),
    /// A part of an effect is carried out.
    Perform(Token, u32),
    /// The machine is told that an effect has ended.
    Complete(Token),
    /// The machine wanted to be woken.
    Wake,
    /// Home begins or ceases to fail.
    Weather,
    /// The buffer's disk becomes full, or has space again, or breaks.
    Disk,
    /// A canary writes old bytes at home.
    LateWrite,
}

/// Bytes beside a call.
#[derive(Debug)]
struct OpenCall {
    client: usize,
    request: Request,
    since: Time,
    bytes: Vec<u8>,
    /// Whether nothing else that changes the state was under way or asked for since.
    undisturbed: bool,
    /// It was asked again of a process that has taken over.
    again: bool,
}

/// What a run came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// A digest of all effects.
    pub digest: Digest,
    /// Requests answered.
    pub answered: u64,
    /// Crashes survived.
    pub crashes: u64,
    /// Drains checked against the oracle.
    pub drains: u64,
    /// Virtual time that passed, ns.
    pub passed_ns: u64,
    /// Effects that failed or lied on purpose.
    pub faults: u64,
}

/// How home does at the moment.
#[derive(Clone, Copy, Debug, Default)]
struct Weather {
    failing: bool,
    /// Every change is refused with this.
    refusing: Failure,
    stalled_until: Time,
}

/// A node of type `M` in its simulated world.
pub struct World<M> {
    scenario: Scenario,
    machine: Option<M>,
    now: Time,
    sequence: u64,
    queue: BTreeMap<(Time, u64), Event>,
    wake_at: Option<Time>,
    in_flight: BTreeMap<Token, InFlight>,
    /// The journal is one file: its appends end in order.
    journal_free_at: Time,
    calls: BTreeMap<CallId, OpenCall>,
    fetches: BTreeMap<u64, Vec<u8>>,
    log: Log,
    journal: Journal,
    journal_is_broken: bool,
    disk: Disk,
    home: Home,
    weather: Weather,
    /// Somebody has changed something at home: what can be read is no more than plausible, and what a drain leaves is not known.
    is_meddled: bool,
    clients: Vec<Client>,
    phase: Phase,
    actions_left: u64,
    crashes_left: u64,
    steps: u64,
    crash_at: Option<u64>,
    last_crash_is_over: bool,
    /// Writes at home that a canary will do again.
    late_writes: VecDeque<LateWrite>,
    next_call: u64,
    next_stamp: u64,
    stamps: Stamps,
    oracle: Oracle,
    capacity: Capacity,
    contract: Contract,
    liveness: Liveness,
    /// The promise that a wrong answer breaks.
    judged_by: Property,
    delays: Rng,
    chance: Rng,
    canary: Option<Canary>,
    summary: Summary,
    events: u64,
    verbose: bool,
}

type Result<T> = std::result::Result<T, Violation>;

impl<M: Subject> World<M> {
    /// A world that has not begun.
    ///
    /// # Errors
    /// When the node does not take its configuration.
    pub fn new(scenario: Scenario, canary: Option<Canary>, verbose: bool) -> Result<World<M>> {
        let mut rng = Rng::new(scenario.seed);
        let now = Time(START_NS);
        let config = &scenario.config;
        let mut home = Home::new((config.uid, config.gid), rng.fork());
        let mut stamps = Stamps::default();
        phases::furnish(&mut home, &scenario.workload, &mut rng.fork(), &mut stamps);
        let state = crate::oracle::home::state_of(&home);
        let clients = (0..scenario.workload.clients).map(|_| Client::new(scenario.workload.clone(), config.uid, rng.fork())).collect();
        let mut world = World {
            machine: None,
            now,
            sequence: 0,
            queue: BTreeMap::new(),
            wake_at: None,
            in_flight: BTreeMap::new(),
            journal_free_at: now,
            calls: BTreeMap::new(),
            fetches: BTreeMap::new(),
            log: Log::new(config.segment_bytes, config.ssd_slots(), config.memory_segments_max, scenario.sector_bytes),
            journal: Journal::default(),
            journal_is_broken: false,
            disk: Disk::default(),
            home,
            weather: Weather::default(),
            is_meddled: false,
            clients,
            phase: Phase::Running,
            actions_left: scenario.workload.actions,
            crashes_left: scenario.faults.crashes,
            steps: 0,
            crash_at: None,
            last_crash_is_over: false,
            late_writes: VecDeque::new(),
            next_call: 1,
            next_stamp: 1,
            stamps,
            oracle: Oracle::new(state, scenario.faults.power_loss_per_mille > 0),
            capacity: Capacity::new(config.clone()),
            contract: Contract::default(),
            liveness: Liveness::default(),
            judged_by: Property::Reads,
            delays: rng.fork(),
            chance: rng.fork(),
            canary,
            summary: Summary { digest: Digest::default(), answered: 0, crashes: 0, drains: 0, passed_ns: 0, faults: 0 },
            events: 0,
            verbose,
            scenario,
        };
        world.machine = Some(M::start(world.scenario.config.clone(), now).map_err(|what| world.violation(Property::Contract, what))?);
        world.plan_crash();
        Ok(world)
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// The first promise that was broken.
    pub fn run(mut self) -> Result<Summary> {
        self.begin_running();
        if self.scenario.faults.any_at_home() {
            self.schedule(1_000_000, Event::Weather);
        }
        self.plan_disk();
        self.pump()?;
        while self.phase != Phase::Over {
            let Some(((time, _), event)) = self.queue.pop_first() else {
                return self.nothing_more_happens();
            };
            self.events += 1;
            self.steps += 1;
            self.now = self.now.max(time);
            if self.events > EVENTS_MAX {
                return Err(self.violation(
                    Property::Liveness,
                    format!("the machine turns in circles: {EVENTS_MAX} events passed in {:?}", self.phase),
                ));
            }
            if self.events.is_multiple_of(64)
                && let Some(what) = self.liveness.overdue(self.now)
            {
                return Err(self.violation(Property::Liveness, what));
            }
            if self.events.is_multiple_of(64) && self.is_meddled && self.liveness.waits_for_long(self.now) {
                self.check_visible_wait()?;
                break;
            }
            if self.is_time_to_crash() {
                // Clients do not die with the process.
                self.schedule(0, event);
                self.crash(None)?;
            } else {
                self.happen(event)?;
            }
        }
        self.summary.passed_ns = self.now.since_ns(Time(START_NS));
        Ok(self.summary)
    }

    /// What has lost its place at home fills the buffer, and who writes waits until somebody mends home: that must be seen.
    fn check_visible_wait(&mut self) -> Result<()> {
        let status = self.machine().status();
        if status.waiting.is_empty() || status.troubles.is_empty() {
            return Err(self.violation(Property::Liveness, format!("a request waits for ever, and nobody can see for what: {status:?}")));
        }
        Ok(())
    }

    /// Requests are open, and nothing is left that could answer them.
    fn nothing_more_happens(&mut self) -> Result<Summary> {
        let what = self.liveness.deadlock().unwrap_or_else(|| format!("nothing more will happen in {:?}", self.phase));
        let status = self.machine().status();
        Err(self.violation(Property::Liveness, format!("{what}; {status:?}")))
    }

    fn happen(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Ask(client) => self.ask_next(client)?,
            Event::Perform(token, part) => self.perform(token, part)?,
            Event::Complete(token) => self.complete(token)?,
            Event::Wake => {
                self.wake_at = None;
                let now = self.now;
                self.machine().handle_timeout(now);
            }
            Event::Weather => self.change_weather(),
            Event::Disk => self.change_disk(),
            Event::LateWrite => self.write_late(),
        }
        // A host takes what waits before it looks for effects; several inputs may come in one batch.
        let next_is_near = self.queue.first_key_value().is_some_and(|((time, _), _)| time.since_ns(self.now) < 5_000);
        if next_is_near && self.chance.chance(200) { Ok(()) } else { self.pump() }
    }

    fn machine(&mut self) -> &mut M {
        self.machine.as_mut().expect("a machine runs between crashes")
    }

    fn violation(&self, property: Property, what: String) -> Violation {
        Violation { property, what, at: Time(self.now.as_nanos() - START_NS) }
    }

    /// A violation of this property, if a check failed.
    fn require(&self, property: Property, checked: std::result::Result<(), String>) -> Result<()> {
        checked.map_err(|what| self.violation(property, what))
    }

    fn say(&self, what: impl FnOnce() -> String) {
        if self.verbose {
            println!("{:>14} {}", self.now.as_nanos() - START_NS, what());
        }
    }

    fn schedule(&mut self, delay_ns: u64, event: Event) {
        self.schedule_at(self.now + delay_ns, event);
    }

    fn schedule_at(&mut self, time: Time, event: Event) {
        self.sequence += 1;
        self.queue.insert((time, self.sequence), event);
    }

    /// Carries out what the machine wants done.
    fn pump(&mut self) -> Result<()> {
        while let Some(effect) = self.machine().poll_effect() {
            self.steps += 1;
            if self.is_time_to_crash() {
                return self.crash(Some(effect));
            }
            self.begin(effect)?;
            if self.phase == Phase::Over {
                return Ok(());
            }
        }
        self.plan_wake();
        Ok(())
    }

    fn plan_wake(&mut self) {
        let Some(wanted) = self.machine().poll_timeout() else { return };
        self.say(|| {
            format!(
                "  wants to be woken at {}, planned is {:?}",
                wanted.as_nanos() as i64 - START_NS as i64,
                self.wake_at.map(|at| at.as_nanos() - START_NS)
            )
        });
        // A real timer is never early, and seldom exact.
        let wanted = wanted.max(self.now + 1);
        if self.wake_at.is_none_or(|planned| wanted < planned) {
            self.wake_at = Some(wanted);
            let late_ns = self.delays.below(10_000);
            self.schedule_at(wanted + late_ns, Event::Wake);
        }
    }

    /// A client's request reaches the machine.
    fn ask(&mut self, client: usize, request: Request) {
        let call = CallId(self.next_call);
        self.next_call += 1;
        let (mut bytes, mut payload) = (Vec::new(), std::rc::Rc::default());
        match &request {
            Request::Write { ino, offset, len, .. } => {
                let stamp = Stamp(self.next_stamp);
                self.next_stamp += 1;
                self.stamps.record(stamp, *ino, *offset, u64::from(*len));
                payload = payload_of(stamp, *len);
                bytes = payload.to_vec();
            }
            Request::Read { len, .. } => bytes = vec![0xAA; *len as usize],
            _ => {}
        }
        self.say(|| format!("ask {call:?} {request:?}"));
        let undisturbed = !self.oracle.is_changing();
        self.oracle.ask(self.now, call, request.clone(), payload);
        if self.oracle.is_changing() {
            self.calls.values_mut().for_each(|call| call.undisturbed = false);
        }
        self.contract.asked(call);
        self.liveness.asked(self.now, call, &request);
        self.calls.insert(call, OpenCall { client, request: request.clone(), since: self.now, bytes, undisturbed, again: false });
        let now = self.now;
        let once = Some(self.once_of(client, call, false));
        self.machine().handle(now, Input::Call { call, request, once });
    }

    /// Each client is a lane.
    pub(super) fn once_of(&self, client: usize, call: CallId, again: bool) -> Once {
        Once { lane: client as u32, request: call.0, again: again && self.canary != Some(Canary::AskedTwice) }
    }

    /// The machine answers a client.
    fn answer(&mut self, call: CallId, reply: Reply) -> Result<()> {
        let open = self.calls.remove(&call).expect("the contract has been checked");
        self.liveness.answered(call);
        self.summary.answered += 1;
        self.say(|| format!("answer {call:?} {} ({} possible states)", brief(&reply), self.oracle.world_count()));
        self.check_disk_answer(&open.request, &reply)?;
        if self.is_meddled {
            self.oracle.forget(call);
            return self.answered(open.client, &open.request, &reply);
        }
        match &reply {
            // What it made was removed by another client, before anybody was told of it. No kernel does that: it holds the directory.
            Reply::Error { errno: Errno::ESTALE } if open.again => self.oracle.failed(self.now, call, true),
            Reply::Error { errno } if self.liveness.may_fail(open.since, *errno) => {
                let perhaps = self.liveness.log_has_failed();
                self.oracle.failed(self.now, call, perhaps);
            }
            _ => {
                let judged = self.oracle.answer(self.now, call, &reply, &open.bytes);
                judged.map_err(|contradiction| {
                    let what = reads::explain(&contradiction, &self.stamps);
                    self.violation(self.judged_by, format!("{call:?} {what}; answer: {}", brief(&reply)))
                })?;
            }
        }
        match &reply {
            Reply::Drained { failures } if failures.is_empty() => self.check_drained(&open)?,
            Reply::Drained { .. } | Reply::BroughtHome { .. } if self.disk.was_full => {}
            Reply::Drained { failures } if !self.liveness.home_failed_since(Time(0)) && !self.liveness.log_has_failed() => {
                return Err(self.violation(Property::Liveness, format!("nothing has failed, but a drain gave up: {failures:?}")));
            }
            Reply::BroughtHome { failure: None } => self.check_brought(&open)?,
            Reply::BroughtHome { failure } if !self.liveness.home_failed_since(Time(0)) && !self.liveness.log_has_failed() => {
                return Err(self.violation(Property::Liveness, format!("nothing has failed, but a file was given up: {failure:?}")));
            }
            Reply::Error { errno } if !self.liveness.may_fail(open.since, *errno) => self.check_not_brought(&open)?,
            Reply::Status { status } => self.require(Property::Capacity, self.capacity.check_status(status))?,
            _ => {}
        }
        self.answered(open.client, &open.request, &reply)
    }

    /// A file was brought home.
    fn check_brought(&mut self, open: &OpenCall) -> Result<()> {
        match open.request {
            Request::BringHome { ino } if open.undisturbed => {
                let judged = self.oracle.check_brought_home(ino, &self.home);
                self.require(
                    Property::Drained,
                    judged.map_err(|what| format!("{ino:?} was brought home: {what}\n{}", self.home.describe())),
                )
            }
            _ => Ok(()),
        }
    }

    /// A request failed. To bring something home fails only for what has no name.
    fn check_not_brought(&self, open: &OpenCall) -> Result<()> {
        match open.request {
            Request::BringHome { ino } if open.undisturbed && !self.oracle.may_be_gone(ino) => {
                Err(self.violation(Property::Liveness, format!("{ino:?} has a name, but was refused to be brought home")))
            }
            _ => Ok(()),
        }
    }

    fn check_drained(&mut self, drain: &OpenCall) -> Result<()> {
        if !drain.undisturbed {
            return Ok(());
        }
        self.summary.drains += 1;
        self.require(Property::Drained, drained::check(&self.home))?;
        self.require(Property::FlushOrder, flush_order::check(&self.oracle, &self.home))
    }
}

/// An answer without its long parts.
fn brief(reply: &Reply) -> String {
    match reply {
        Reply::Entries { entries } => format!("Entries {:?}", entries.iter().map(|entry| (&entry.name, entry.ino)).collect::<Vec<_>>()),
        Reply::Status { .. } => "Status".into(),
        other => format!("{other:?}"),
    }
}

/// The error that an effect ends with, if it fails.
type Failure = Option<Errno>;

/// The effect that was not begun when the machine died.
type Unbegun = Option<Effect>;
