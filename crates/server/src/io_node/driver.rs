//! Runs the machine of an I/O server with real threads.
//!
//! As in `forebay_host::driver`, a request is carried by the thread that makes it: it hands its input to the machine under the lock, works
//! on its own bytes without it, and hands the results in. Flushes, syncs and notes go to a few threads of their own.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay_core::errno::Errno;
use forebay_core::hybrid::{Effect, HybridNode, Input, Layout, Request};
use forebay_core::id::{CallId, Token};
use forebay_core::machine::Machine;
use forebay_core::time::Time;
use forebay_host::clock::Clock;
use forebay_host::driver::STOPPED;
use forebay_host::log;
use parking_lot::{Condvar, Mutex};

/// Threads that write home what the SSD holds.
const FLUSH_THREADS: usize = 4;
/// Threads for syncs and notes.
const SYNC_THREADS: usize = 2;

/// Something to do for a call, on the caller's thread.
pub(super) struct Work {
    pub(super) effect: Effect,
    /// How the SSD was divided when the machine asked for it.
    pub(super) layout: Layout,
}

#[derive(Default)]
struct SlotState {
    work: VecDeque<Work>,
    result: Option<Result<(), Errno>>,
}

#[derive(Default)]
struct Slot {
    state: Mutex<SlotState>,
    changed: Condvar,
}

enum Next {
    Work(Work),
    Return(Result<(), Errno>),
}

impl Slot {
    fn push(&self, work: Work) {
        self.state.lock().work.push_back(work);
        self.changed.notify_one();
    }

    fn finish(&self, result: Result<(), Errno>) {
        self.state.lock().result.get_or_insert(result);
        self.changed.notify_one();
    }

    fn next(&self) -> Next {
        let mut state = self.state.lock();
        loop {
            if let Some(work) = state.work.pop_front() {
                return Next::Work(work);
            }
            if let Some(result) = state.result {
                return Next::Return(result);
            }
            self.changed.wait(&mut state);
        }
    }
}

struct State {
    node: HybridNode,
    calls: BTreeMap<CallId, Arc<Slot>>,
    stopped: Option<Errno>,
    /// Callers that are at work on the devices.
    busy_callers: usize,
}

#[derive(Default)]
struct Queue {
    /// `None`: no more to come.
    jobs: Mutex<Option<VecDeque<Effect>>>,
    changed: Condvar,
}

impl Queue {
    fn new() -> Queue {
        Queue { jobs: Mutex::new(Some(VecDeque::new())), changed: Condvar::new() }
    }

    fn push(&self, effect: Effect) {
        if let Some(jobs) = &mut *self.jobs.lock() {
            jobs.push_back(effect);
            self.changed.notify_one();
        }
    }

    fn next(&self) -> Option<Effect> {
        let mut jobs = self.jobs.lock();
        loop {
            match &mut *jobs {
                None => return None,
                Some(waiting) => {
                    if let Some(effect) = waiting.pop_front() {
                        return Some(effect);
                    }
                }
            }
            self.changed.wait(&mut jobs);
        }
    }

    fn close(&self) {
        *self.jobs.lock() = None;
        self.changed.notify_all();
    }
}

#[derive(Default)]
struct Timer {
    at: Option<Time>,
    is_stopped: bool,
}

/// What carries out effects that belong to no call.
pub(super) trait Background: Send + Sync {
    fn carry_out(&self, effect: &Effect) -> Result<(), Errno>;
}

struct Shared {
    clock: Clock,
    state: Mutex<State>,
    background: Arc<dyn Background>,
    flushes: Queue,
    syncs: Queue,
    timer: Mutex<Timer>,
    timer_changed: Condvar,
    next_call: AtomicU64,
    threads: Mutex<usize>,
    thread_ended: Condvar,
    /// A caller has ended its work at the devices, after a stop.
    work_ended: Condvar,
}

/// Runs one machine. Stops it when dropped.
pub(super) struct Driver {
    shared: Arc<Shared>,
}

impl Driver {
    /// Starts the threads, and lets the machine do what it wants to do first.
    pub(super) fn start(node: HybridNode, background: Arc<dyn Background>) -> std::io::Result<Driver> {
        let shared = Arc::new(Shared {
            clock: Clock::start(),
            state: Mutex::new(State { node, calls: BTreeMap::new(), stopped: None, busy_callers: 0 }),
            background,
            flushes: Queue::new(),
            syncs: Queue::new(),
            timer: Mutex::default(),
            timer_changed: Condvar::new(),
            next_call: AtomicU64::new(1),
            threads: Mutex::new(0),
            thread_ended: Condvar::new(),
            work_ended: Condvar::new(),
        });
        let driver = Driver { shared };
        for i in 0..FLUSH_THREADS {
            driver.spawn(format!("forebay-flush-{i}"), |shared| shared.work(&shared.flushes))?;
        }
        for i in 0..SYNC_THREADS {
            driver.spawn(format!("forebay-sync-{i}"), |shared| shared.work(&shared.syncs))?;
        }
        driver.spawn("forebay-timer".into(), Shared::keep_time)?;
        driver.shared.step(None, |node, now| node.handle_timeout(now));
        Ok(driver)
    }

    fn spawn(&self, name: String, body: impl FnOnce(&Shared) + Send + 'static) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        *self.shared.threads.lock() += 1;
        let spawned = thread::Builder::new().name(name).spawn(move || {
            if catch_unwind(AssertUnwindSafe(|| body(&shared))).is_err() {
                log::problem("a thread of the I/O server ended by a bug; the server stops. What is on the SSD is safe: start it again.");
                shared.fail(Errno::EIO);
            }
            *shared.threads.lock() -= 1;
            shared.thread_ended.notify_all();
        });
        if spawned.is_err() {
            *self.shared.threads.lock() -= 1;
        }
        spawned.map(drop)
    }

    /// Carries out a request and waits for its end. `work` does what concerns the caller's bytes.
    pub(super) fn call(&self, request: Request, mut work: impl FnMut(&Work) -> Result<(), Errno>) -> Result<(), Errno> {
        let call = CallId(self.shared.next_call.fetch_add(1, Ordering::Relaxed));
        let slot = Arc::new(Slot::default());
        self.shared.step(Some((call, &slot)), |node, now| node.handle(now, Input::Request { call, request }));
        loop {
            match slot.next() {
                Next::Return(result) => return result,
                Next::Work(given) => {
                    self.shared.begin_work()?;
                    let result = guard(|| work(&given));
                    self.shared.end_work();
                    let Some(token) = token_of(&given.effect) else { continue };
                    self.shared.step(None, |node, now| node.handle(now, Input::Done { token, result }));
                }
            }
        }
    }

    /// Hands in what is no request.
    pub(super) fn tell(&self, input: Input) {
        self.shared.step(None, |node, now| node.handle(now, input));
    }

    /// Looks at the machine.
    pub(super) fn inspect<T>(&self, look: impl FnOnce(&HybridNode) -> T) -> T {
        look(&self.shared.state.lock().node)
    }

    /// Calls that are not answered.
    pub(super) fn open_calls(&self) -> usize {
        self.shared.state.lock().calls.len()
    }

    /// Fails every open and later call, ends the threads, and waits for work that is under way for at most `patience`, that of callers, too.
    /// Says whether all of it has ended.
    pub(super) fn stop(&self, patience: Duration) -> bool {
        self.shared.fail(STOPPED);
        let deadline = Instant::now() + patience;
        let mut state = self.shared.state.lock();
        while state.busy_callers > 0 {
            if self.shared.work_ended.wait_until(&mut state, deadline).timed_out() {
                return false;
            }
        }
        drop(state);
        let mut threads = self.shared.threads.lock();
        while *threads > 0 {
            if self.shared.thread_ended.wait_until(&mut threads, deadline).timed_out() {
                return *threads == 0;
            }
        }
        true
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The threads share what they use, so that none needs to be waited for.
        self.stop(Duration::ZERO);
    }
}

impl Shared {
    /// Hands something to the machine and carries on what it asks for. `call` is one that begins.
    fn step(&self, call: Option<(CallId, &Arc<Slot>)>, hand_in: impl FnOnce(&mut HybridNode, Time)) {
        let mut state = self.state.lock();
        if let Some(errno) = state.stopped {
            drop(state);
            if let Some((_, slot)) = call {
                slot.finish(Err(errno));
            }
            return;
        }
        if let Some((call, slot)) = call {
            state.calls.insert(call, Arc::clone(slot));
        }
        let now = self.clock.now();
        let handled = catch_unwind(AssertUnwindSafe(|| {
            hand_in(&mut state.node, now);
            let mut effects = Vec::new();
            while let Some(effect) = state.node.poll_effect() {
                effects.push(effect);
            }
            effects
        }));
        let Ok(effects) = handled else {
            log::problem(
                "the I/O server has met a bug and stops; every call fails from now on. What was answered is on the disk or the SSD: start \
                 it again, and please report the message above.",
            );
            drop(state);
            return self.fail(Errno::EIO);
        };
        let layout = state.node.regions().layout();
        for effect in effects {
            self.hand_out(&mut state, effect, layout);
        }
        if let Some(time) = state.node.poll_timeout() {
            let mut timer = self.timer.lock();
            if timer.at.is_none_or(|at| time < at) {
                timer.at = Some(time);
                self.timer_changed.notify_one();
            }
        }
    }

    /// A caller is about to work at the devices; nobody may after a stop.
    fn begin_work(&self) -> Result<(), Errno> {
        let mut state = self.state.lock();
        match state.stopped {
            Some(errno) => Err(errno),
            None => {
                state.busy_callers += 1;
                Ok(())
            }
        }
    }

    fn end_work(&self) {
        let mut state = self.state.lock();
        state.busy_callers -= 1;
        if state.stopped.is_some() {
            self.work_ended.notify_all();
        }
    }

    fn hand_out(&self, state: &mut State, effect: Effect, layout: Layout) {
        match effect {
            Effect::Reply { call, result } => {
                if let Some(slot) = state.calls.remove(&call) {
                    slot.finish(result);
                }
            }
            Effect::AppendSsd { call, .. }
            | Effect::ReadSsd { call, .. }
            | Effect::WriteDisk { call, .. }
            | Effect::ReadDisk { call, .. }
            | Effect::ChangeDisk { call, .. } => {
                if let Some(slot) = state.calls.get(&call) {
                    slot.push(Work { effect, layout });
                }
            }
            Effect::Flush { .. } => self.flushes.push(effect),
            Effect::SyncDisk { .. } | Effect::SyncSsd { .. } | Effect::Note { .. } => self.syncs.push(effect),
        }
    }

    fn fail(&self, errno: Errno) {
        let mut state = self.state.lock();
        state.stopped.get_or_insert(errno);
        for slot in std::mem::take(&mut state.calls).into_values() {
            slot.finish(Err(errno));
        }
        drop(state);
        self.flushes.close();
        self.syncs.close();
        self.timer.lock().is_stopped = true;
        self.timer_changed.notify_all();
    }

    fn work(&self, queue: &Queue) {
        while let Some(effect) = queue.next() {
            let Some(token) = token_of(&effect) else { continue };
            let result = guard(|| self.background.carry_out(&effect));
            self.step(None, |node, now| node.handle(now, Input::Done { token, result }));
        }
    }

    fn keep_time(&self) {
        let mut timer = self.timer.lock();
        while !timer.is_stopped {
            match timer.at {
                None => self.timer_changed.wait(&mut timer),
                Some(at) if self.clock.now() >= at => {
                    timer.at = None;
                    drop(timer);
                    self.step(None, |node, now| node.handle_timeout(now));
                    timer = self.timer.lock();
                }
                Some(at) => match self.clock.instant(at) {
                    Some(instant) => drop(self.timer_changed.wait_until(&mut timer, instant)),
                    None => self.timer_changed.wait(&mut timer),
                },
            }
        }
    }
}

/// A bug in carrying out an effect must cost that effect, not the caller who waits for it.
fn guard(work: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        log::problem("an input or output operation ended by a bug (see above); it counts as failed with EIO");
        Err(Errno::EIO)
    })
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
