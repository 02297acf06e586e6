//! A disk that is not there: real bytes on something faster, answered when the disk would have answered.
//!
//! [`EmulatedDisk`] runs the same model as the simulator ([`super::model`]). Each request goes to the model when it comes, its I/O is
//! done on the device below, and it is answered at the time that the model gives. These deadlines are absolute: an answer that is late
//! makes nothing else late, for the request that follows it is told to the model as if it had come as much earlier. So a sequence of
//! requests takes as long as in the simulator, however badly the threads are scheduled.
//!
//! **When an emulation is refused.** It is true only as long as the device below has time to spare. Over each five seconds that the
//! model was at work, the time is measured during which I/O was under way below; if that is more than half of the model's
//! ([`REAL_SHARE_MAX_PER_CENT`]), all requests that follow fail with [`TooSlow`]. Five seconds, so that a single stall of a busy machine,
//! which the deadlines make good, ends nothing. Who measures something shorter asks [`Emulation::is_true`] at the end.

mod clock;
mod pace;
#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeMap;
use std::io;
use std::thread::{self, Thread};

use forebay_core::policy::Operation;
use parking_lot::Mutex;
use thiserror::Error;

use super::Device;
use super::model::{DeviceSpec, Scheduling};
pub use clock::{Clock, SystemClock};
use pace::{Busy, Pace};

/// The largest part of the model's time that the I/O below may take, per cent.
pub const REAL_SHARE_MAX_PER_CENT: u64 = 50;
/// The model's time over which that is measured, ns, and the fewest requests.
const WINDOW_NS: u64 = 5_000_000_000;
const WINDOW_REQUESTS: u64 = 32;

/// When a write is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Answers {
    /// When the medium has it.
    #[default]
    Medium,
    /// When it has a place in the scheduler's window, as by an operating system that writes behind; a sync waits for the medium.
    Window,
}

/// The device below an emulated disk is too slow for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "the device below the emulated disk is too slow: it was at work for {real_ms} ms while the disk would have been for {model_ms} ms, \
     and may be for half of that; put the disk's file on a faster device, or emulate a slower disk"
)]
pub struct TooSlow {
    /// How long I/O was under way below, ms.
    pub real_ms: u64,
    /// How long the disk would have been at work, ms.
    pub model_ms: u64,
}

/// How an emulation goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Emulation {
    /// Requests that were answered, syncs among them.
    pub requests: u64,
    /// How long the disk would have been at work, ns.
    pub model_ns: u64,
    /// How long I/O was under way below, ns.
    pub real_ns: u64,
    /// By how much answers were late, ns: of all, and of the latest one.
    pub late_ns: u64,
    /// The latest of them, ns.
    pub late_ns_max: u64,
}

impl Emulation {
    /// Whether the device below had time to spare, all in all.
    pub fn is_true(&self) -> bool {
        is_true(self.real_ns, self.model_ns)
    }
}

fn is_true(real_ns: u64, model_ns: u64) -> bool {
    u128::from(real_ns) * 100 <= u128::from(model_ns) * u128::from(REAL_SHARE_MAX_PER_CENT)
}

/// See the head of this module.
pub struct EmulatedDisk<D, C = SystemClock> {
    below: D,
    clock: C,
    state: Mutex<State>,
}

struct State {
    pace: Pace,
    /// I/O under way below, and how long there was some.
    under_way: u32,
    real: Busy,
    judged: Judged,
    refused: Option<TooSlow>,
    /// Who waits for which answer.
    waiting: BTreeMap<u64, Thread>,
    /// Answers that have not been taken, with the times that the model gave them.
    answers: BTreeMap<u64, u64>,
    /// One of those who wait sleeps until the next answer is due; the others until they are woken.
    has_leader: bool,
    figures: Emulation,
}

/// What the last judgement has taken into account.
#[derive(Clone, Copy, Default)]
struct Judged {
    requests: u64,
    real_ns: u64,
    model_ns: u64,
}

impl<D: Device> EmulatedDisk<D> {
    /// A disk like `spec`, with its bytes on `below`, which should be past the page cache: what is in there is faster than it would be.
    pub fn new(below: D, spec: &DeviceSpec, scheduling: Scheduling, answers: Answers) -> EmulatedDisk<D> {
        EmulatedDisk::with_clock(below, spec, scheduling, answers, SystemClock)
    }
}

impl<D: Device, C: Clock> EmulatedDisk<D, C> {
    /// The same, going by a clock of one's own.
    pub fn with_clock(below: D, spec: &DeviceSpec, scheduling: Scheduling, answers: Answers, clock: C) -> EmulatedDisk<D, C> {
        let state = State {
            pace: Pace::new(spec, scheduling, answers),
            under_way: 0,
            real: Busy::default(),
            judged: Judged::default(),
            refused: None,
            waiting: BTreeMap::new(),
            answers: BTreeMap::new(),
            has_leader: false,
            figures: Emulation::default(),
        };
        EmulatedDisk { below, clock, state: Mutex::new(state) }
    }

    /// How it went so far.
    pub fn emulation(&self) -> Emulation {
        let now_ns = self.clock.now_ns();
        let state = self.state.lock();
        Emulation { model_ns: state.pace.busy_ns(), real_ns: state.real.so_far_ns(now_ns), ..state.figures }
    }

    /// The device that has the bytes.
    pub fn below(&self) -> &D {
        &self.below
    }

    /// Tells the model of a request, does its I/O, and waits until the model has done it.
    fn request(&self, operation: Operation, offset: u64, len: usize, work: impl FnOnce(&D) -> io::Result<()>) -> io::Result<()> {
        let now_ns = self.clock.now_ns();
        let id = self.begin(now_ns, |pace| pace.submit(now_ns, operation, offset, len as u64))?;
        let result = work(&self.below);
        self.end();
        self.wait(id);
        result
    }

    fn begin(&self, now_ns: u64, submit: impl FnOnce(&mut Pace) -> u64) -> io::Result<u64> {
        let mut state = self.state.lock();
        if let Some(too_slow) = state.refused {
            return Err(io::Error::other(too_slow));
        }
        let id = submit(&mut state.pace);
        state.under_way += 1;
        state.real.begin(now_ns);
        Ok(id)
    }

    fn end(&self) {
        let now_ns = self.clock.now_ns();
        let mut state = self.state.lock();
        state.under_way -= 1;
        if state.under_way == 0 {
            state.real.end(now_ns);
        }
        state.judge(now_ns);
    }

    fn wait(&self, id: u64) {
        let mut leads = false;
        loop {
            let now_ns = self.clock.now_ns();
            let mut state = self.state.lock();
            state.hand_out(now_ns);
            if let Some(answer_ns) = state.answers.remove(&id) {
                state.waiting.remove(&id);
                state.on_answer(now_ns.saturating_sub(answer_ns));
                state.has_leader &= !leads;
                // Who is woken may find its answer, and then does the same.
                if let Some(next) = state.waiting.values().next().filter(|_| !state.has_leader) {
                    next.unpark();
                }
                return;
            }
            state.waiting.entry(id).or_insert_with(thread::current);
            // The next answer is never due earlier than it was when it was asked for: a later request is not done before.
            let due_ns = state.pace.next_ns().filter(|_| leads || !state.has_leader);
            leads |= due_ns.is_some();
            state.has_leader |= leads;
            drop(state);
            match due_ns {
                Some(due_ns) => self.clock.sleep_until_ns(due_ns),
                None => thread::park(),
            }
        }
    }
}

impl State {
    /// Takes from the model what is due, and wakes who waits for it.
    fn hand_out(&mut self, now_ns: u64) {
        for done in self.pace.collect(now_ns) {
            self.answers.insert(done.id, done.time_ns);
            if let Some(thread) = self.waiting.get(&done.id) {
                thread.unpark();
            }
        }
    }

    fn on_answer(&mut self, late_ns: u64) {
        self.pace.on_answered(late_ns);
        self.figures.requests += 1;
        self.figures.late_ns += late_ns;
        self.figures.late_ns_max = self.figures.late_ns_max.max(late_ns);
    }

    /// Refuses to go on if the device below had too much to do; see the head of this module.
    fn judge(&mut self, now_ns: u64) {
        let now = Judged { requests: self.figures.requests, real_ns: self.real.so_far_ns(now_ns), model_ns: self.pace.busy_ns() };
        // Threads do not come in the order in which they looked at the clock.
        let real_ns = now.real_ns.saturating_sub(self.judged.real_ns);
        let model_ns = now.model_ns.saturating_sub(self.judged.model_ns);
        if now.requests - self.judged.requests < WINDOW_REQUESTS || model_ns < WINDOW_NS {
            return;
        }
        self.judged = now;
        if !is_true(real_ns, model_ns) {
            self.refused = Some(TooSlow { real_ms: real_ns / 1_000_000, model_ms: model_ns / 1_000_000 });
        }
    }
}

impl<D: Device, C: Clock> Device for EmulatedDisk<D, C> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.request(Operation::Read, offset, buf.len(), |below| below.read_at(offset, buf))
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        self.request(Operation::Write, offset, buf.len(), |below| below.write_at(offset, buf))
    }

    /// Waits for what the model has yet to do. The device below is synced in truth; the model's disk, which holds nothing back, would
    /// not have taken that time.
    fn sync(&self) -> io::Result<()> {
        let from_ns = self.clock.now_ns();
        let id = self.begin(from_ns, |pace| pace.sync(from_ns))?;
        let result = self.below.sync();
        self.end();
        self.wait(id);
        result
    }

    fn len(&self) -> io::Result<u64> {
        self.below.len()
    }

    fn bypasses_cache(&self) -> bool {
        self.below.bypasses_cache()
    }
}
