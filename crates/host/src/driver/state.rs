//! What is behind the driver's lock: the machine, its journal, and the tables that give names of payloads to bytes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use forebay_core::effect::{Effect, Input, Outcome, Payload};
use forebay_core::errno::Errno;
use forebay_core::id::{CallId, Position, Token};
use forebay_core::machine::Machine;
use forebay_core::message::Reply;
use forebay_core::record::Record;
use forebay_core::time::Time;

use super::call::{CallSlot, CallWork, FetchBuffer, part, part_mut};
use super::world::{JournalIo, JournalSync};
use crate::clock::Clock;
use crate::log;
use crate::recorder::{Event, Recorder};

/// An effect for a thread of the pool, with what it needs from behind the lock.
pub(super) struct Job {
    pub(super) effect: Effect,
    pub(super) buffer: Option<FetchBuffer>,
    pub(super) sync: Option<JournalSync>,
}

/// What is to be done when the lock is free again.
#[derive(Default)]
pub(super) struct After {
    pub(super) wake: Vec<Arc<CallSlot>>,
    pub(super) jobs: Vec<Job>,
}

pub(super) struct State<M> {
    machine: M,
    journal: Box<dyn JournalIo>,
    recorder: Option<Recorder>,
    clock: Clock,
    now: Time,
    effects: VecDeque<Effect>,
    calls: HashMap<CallId, Arc<CallSlot>>,
    fetches: HashMap<u64, FetchBuffer>,
    /// When the timer thread will come by itself.
    pub(super) armed: Option<Time>,
    /// No more inputs are taken; every call gets this error.
    pub(super) stopped: Option<Errno>,
}

impl<M: Machine<Input = Input, Effect = Effect>> State<M> {
    pub(super) fn new(machine: M, now: Time, clock: Clock, journal: Box<dyn JournalIo>, recorder: Option<Recorder>) -> State<M> {
        State {
            machine,
            journal,
            recorder,
            clock,
            now,
            effects: VecDeque::new(),
            calls: HashMap::new(),
            fetches: HashMap::new(),
            armed: None,
            stopped: None,
        }
    }

    pub(super) fn open_call(&mut self, call: CallId, slot: Arc<CallSlot>) {
        self.calls.insert(call, slot);
    }

    pub(super) fn keep_fetch(&mut self, fetch: u64, buffer: FetchBuffer) {
        self.fetches.insert(fetch, buffer);
    }

    /// The time for the machine: the clock's, never going back whatever thread looks at the clock.
    fn tick(&mut self) -> Time {
        self.now = self.now.max(self.clock.now());
        self.now
    }

    /// Hands in one event and every answer that is there at once, and sorts what the machine asks for.
    pub(super) fn run(&mut self, first: Event, after: &mut After) {
        let mut answers = VecDeque::new();
        let mut event = Some(first);
        while let Some(next) = event {
            self.handle(next);
            while answers.is_empty() {
                match self.effects.pop_front() {
                    None => break,
                    Some(Effect::Journal { token, position, record }) => answers.extend(self.append(token, position, record)),
                    Some(effect) => answers.extend(self.route(effect, after)),
                }
            }
            event = answers.pop_front().map(|(token, result)| Event::Input(Input::Done { token, result }));
        }
    }

    /// Appends a record, and in the same piece those that are to be appended right behind it.
    fn append(&mut self, token: Token, position: Position, record: Record) -> Vec<(Token, Result<Outcome, Errno>)> {
        let mut tokens = vec![token];
        let mut records = vec![(position, record)];
        while let Some(Effect::Journal { .. }) = self.effects.front()
            && let Some(Effect::Journal { token, position, record }) = self.effects.pop_front()
        {
            tokens.push(token);
            records.push((position, record));
        }
        let records: Vec<(Position, &Record)> = records.iter().map(|(position, record)| (*position, record)).collect();
        let result = self.journal.append(&records);
        tokens.into_iter().map(|token| (token, result.map(|()| Outcome::Done))).collect()
    }

    fn handle(&mut self, event: Event) {
        let now = self.tick();
        if matches!(event, Event::Timeout) && self.machine.poll_timeout().is_none_or(|time| time > now) {
            return;
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.begin(now, &event);
        }
        match event {
            Event::Start => {}
            Event::Input(input) => self.machine.handle(now, input),
            Event::Timeout => self.machine.handle_timeout(now),
        }
        while let Some(effect) = self.machine.poll_effect() {
            if let Some(recorder) = &mut self.recorder {
                recorder.effect(&effect);
            }
            self.effects.push_back(effect);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.end();
        }
    }

    pub(super) fn machine(&self) -> &M {
        &self.machine
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.machine.poll_timeout()
    }

    /// Sends an effect to where it is carried out. The journal's are carried out here, in order, and their results returned.
    fn route(&mut self, effect: Effect, after: &mut After) -> Option<(Token, Result<Outcome, Errno>)> {
        match effect {
            Effect::RotateJournal { token, position, ref records } => {
                return Some((token, self.journal.rotate(position, records).map(|()| Outcome::Done)));
            }
            Effect::DropOldJournals => {
                if let Err(errno) = self.journal.drop_old() {
                    log::problem(&format!("an old journal could not be removed (errno {}); it takes space until the next start", errno.0));
                }
            }
            Effect::Reply { call, reply } => {
                if let Some(slot) = self.calls.remove(&call) {
                    slot.reply(reply);
                    after.wake.push(slot);
                }
            }
            Effect::WriteLog { token, payload: Payload::Call(call), pieces } => {
                return self.hand_to_call(call, token, CallWork::WriteLog { token, pieces }, after);
            }
            Effect::ReadLog { token, payload: Payload::Call(call), pieces } => {
                return self.hand_to_call(call, token, CallWork::ReadLog { token, pieces }, after);
            }
            Effect::WriteLog { token, payload: Payload::Fetch(fetch), .. }
            | Effect::ReadLog { token, payload: Payload::Fetch(fetch), .. } => {
                let Some(buffer) = self.fetches.get(&fetch) else { return Some((token, Err(Errno::EIO))) };
                after.jobs.push(Job { effect, buffer: Some(buffer.clone()), sync: None });
            }
            Effect::ZeroPayload { payload, ranges } => self.zero(payload, ranges, after),
            Effect::CopyPayload { from, from_offset, to, to_offset, len } => self.copy(from, from_offset, to, to_offset, len, after),
            Effect::DropFetch { fetch } => drop(self.fetches.remove(&fetch)),
            Effect::SyncLog { .. } => {
                let sync = Some(self.journal.sync());
                after.jobs.push(Job { effect, buffer: None, sync });
            }
            other => after.jobs.push(Job { effect: other, buffer: None, sync: None }),
        }
        None
    }

    /// Gives work to the thread of a call; if the call is not open, its payload is gone and the work has failed.
    fn hand_to_call(&mut self, call: CallId, token: Token, work: CallWork, after: &mut After) -> Option<(Token, Result<Outcome, Errno>)> {
        if self.push(call, work, after) { None } else { Some((token, Err(Errno::EIO))) }
    }

    fn push(&mut self, call: CallId, work: CallWork, after: &mut After) -> bool {
        let Some(slot) = self.calls.get(&call) else { return false };
        slot.push(work);
        after.wake.push(slot.clone());
        true
    }

    fn zero(&mut self, payload: Payload, ranges: Vec<(u32, u32)>, after: &mut After) {
        match payload {
            Payload::Call(call) => {
                self.push(call, CallWork::Zero { ranges }, after);
            }
            Payload::Fetch(fetch) => {
                let Some(buffer) = self.fetches.get(&fetch) else { return };
                let mut bytes = buffer.write();
                for (offset, len) in ranges {
                    match part_mut(&mut bytes, offset, len) {
                        Some(part) => part.fill(0),
                        None => log::problem(&format!("zeros asked for outside of fetch buffer {fetch}; this is a bug, please report it")),
                    }
                }
            }
        }
    }

    /// Copies between payloads. A copy into a call that cannot be carried out must not let the call succeed.
    fn copy(&mut self, from: Payload, from_offset: u32, to: Payload, to_offset: u32, len: u32, after: &mut After) {
        match (from, to) {
            (Payload::Fetch(fetch), Payload::Call(call)) => {
                let work = match self.fetches.get(&fetch) {
                    Some(from) => CallWork::CopyIn { from: from.clone(), from_offset, to_offset, len },
                    None => CallWork::Broken,
                };
                self.push(call, work, after);
            }
            (Payload::Call(call), Payload::Fetch(fetch)) => {
                let work = match self.fetches.get(&fetch) {
                    Some(to) => CallWork::CopyOut { from_offset, to: to.clone(), to_offset, len },
                    None => CallWork::Broken,
                };
                self.push(call, work, after);
            }
            (Payload::Fetch(from), Payload::Fetch(to)) => {
                let (Some(from), Some(to)) = (self.fetches.get(&from), self.fetches.get(&to)) else { return };
                let bytes = part(&from.read(), from_offset, len).map(<[u8]>::to_vec);
                match (&bytes, part_mut(&mut to.write(), to_offset, len)) {
                    (Some(bytes), Some(part)) => part.copy_from_slice(bytes),
                    _ => log::problem("a copy between fetch buffers reaches outside of them; this is a bug, please report it"),
                }
            }
            (Payload::Call(_), Payload::Call(to)) => {
                // The bytes of one call cannot be reached by the thread of another.
                self.push(to, CallWork::Broken, after);
            }
        }
    }

    /// Takes no more inputs and answers every open call with `errno`.
    pub(super) fn stop(&mut self, errno: Errno, after: &mut After) {
        self.stopped = Some(errno);
        self.effects.clear();
        for (_, slot) in self.calls.drain() {
            slot.reply(Reply::Error { errno });
            after.wake.push(slot);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.flush();
        }
    }
}

#[cfg(test)]
impl<M> State<M> {
    /// Nothing is kept for calls that have ended.
    pub(super) fn tables_are_empty(&self) -> bool {
        self.calls.is_empty() && self.fetches.is_empty() && self.effects.is_empty()
    }
}
