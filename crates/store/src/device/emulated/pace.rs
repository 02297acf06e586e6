//! When an emulated disk answers: the model, the window in front of it, and what is owed to late answers. No clock and no bytes.

use std::collections::{BTreeMap, VecDeque};

use forebay_core::policy::Operation;

use super::Answers;
use crate::device::model::{Completion, DeviceSpec, ModelDevice, ModelRequest, Scheduling};

/// See the head of this file. Its times and the caller's are on one axis; the model only ever sees times at which something happened.
#[derive(Debug)]
pub(super) struct Pace {
    model: ModelDevice,
    answers: Answers,
    window: usize,
    ids: u64,
    /// Writes that have no place in the window.
    behind: VecDeque<ModelRequest>,
    /// Requests at the model, and whether somebody waits until they are done.
    at_model: BTreeMap<u64, bool>,
    syncs: VecDeque<u64>,
    /// To be answered.
    ready: Vec<Completion>,
    /// The latest time that the model was told.
    pub(super) time_ns: u64,
    /// How late the last answer was: what follows it would have come as much earlier.
    debt_ns: u64,
    busy: Busy,
}

/// How long something was at work.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Busy {
    since_ns: Option<u64>,
    sum_ns: u64,
}

impl Busy {
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.since_ns.get_or_insert(now_ns);
    }

    pub(super) fn end(&mut self, now_ns: u64) {
        self.sum_ns += self.since_ns.take().map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
    }

    /// The sum until now.
    pub(super) fn so_far_ns(&self, now_ns: u64) -> u64 {
        self.sum_ns + self.since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns))
    }
}

impl Pace {
    pub(super) fn new(spec: &DeviceSpec, scheduling: Scheduling, answers: Answers) -> Pace {
        Pace {
            model: ModelDevice::new(spec, scheduling),
            answers,
            window: scheduling.window_requests.max(1),
            ids: 0,
            behind: VecDeque::new(),
            at_model: BTreeMap::new(),
            syncs: VecDeque::new(),
            ready: Vec::new(),
            time_ns: 0,
            debt_ns: 0,
            busy: Busy::default(),
        }
    }

    /// A request comes. Its answer is told by its number.
    pub(super) fn submit(&mut self, now_ns: u64, operation: Operation, offset: u64, len: u64) -> u64 {
        let arrival_ns = self.arrive(now_ns);
        let id = self.ids;
        let request = ModelRequest { id, operation, offset, len };
        if operation == Operation::Write && self.answers == Answers::Window {
            self.behind.push_back(request);
            self.let_in(arrival_ns);
        } else {
            self.give(arrival_ns, request, true);
        }
        id
    }

    /// A sync comes: it is answered when all that came before is done.
    pub(super) fn sync(&mut self, now_ns: u64) -> u64 {
        let arrival_ns = self.arrive(now_ns);
        self.syncs.push_back(self.ids);
        self.end_syncs(arrival_ns);
        self.ids
    }

    /// When the next answer may be due; the caller comes back then.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.ready.first().map(|done| done.time_ns).or_else(|| self.model.next_ns())
    }

    /// What is to be answered by now, with the times at which it should have been.
    pub(super) fn collect(&mut self, now_ns: u64) -> Vec<Completion> {
        while let Some(next_ns) = self.model.next_ns().filter(|next_ns| *next_ns <= now_ns) {
            while let Some(done) = self.model.pop(next_ns) {
                self.time_ns = self.time_ns.max(done.time_ns);
                self.on_done(done);
            }
        }
        std::mem::take(&mut self.ready)
    }

    /// An answer was given, late by so much.
    pub(super) fn on_answered(&mut self, late_ns: u64) {
        self.debt_ns = late_ns;
    }

    /// How long the model was at work, ns.
    pub(super) fn busy_ns(&self) -> u64 {
        self.busy.so_far_ns(self.time_ns)
    }

    fn arrive(&mut self, now_ns: u64) -> u64 {
        self.ids += 1;
        // What was late for whom is not known: the last answer stands for all.
        self.time_ns = self.time_ns.max(now_ns.saturating_sub(self.debt_ns));
        // What was done by then goes first, so that the window has the places of its time.
        let ready = self.collect(self.time_ns);
        self.ready = ready;
        self.time_ns
    }

    fn give(&mut self, time_ns: u64, request: ModelRequest, is_waited_for: bool) {
        self.busy.begin(time_ns);
        self.at_model.insert(request.id, is_waited_for);
        self.model.submit(time_ns, request);
    }

    fn on_done(&mut self, done: Completion) {
        if self.at_model.remove(&done.id) == Some(true) {
            self.ready.push(done);
        }
        self.let_in(done.time_ns);
        self.end_syncs(done.time_ns);
        if self.at_model.is_empty() {
            self.busy.end(done.time_ns);
        }
    }

    /// Writes enter the window as far as there is room, and are answered.
    fn let_in(&mut self, time_ns: u64) {
        while self.at_model.len() < self.window {
            let Some(request) = self.behind.pop_front() else { return };
            self.ready.push(Completion { time_ns, id: request.id });
            self.give(time_ns, request, false);
        }
    }

    fn end_syncs(&mut self, time_ns: u64) {
        let first = self.at_model.keys().next().copied().into_iter().chain(self.behind.front().map(|request| request.id)).min();
        while let Some(id) = self.syncs.front().copied().filter(|id| first.is_none_or(|first| first > *id)) {
            self.syncs.pop_front();
            self.ready.push(Completion { time_ns, id });
        }
    }
}
