//! Runs one machine with real threads.
//!
//! A request is carried by the thread that makes it: it hands its input to the machine under the driver's lock, does the work on
//! its own payload without the lock, and hands the results in again, until the reply is there. Nothing else is on the way of a write into
//! the buffer. What is slow (home, spills, syncs) goes to a pool of threads; one more thread brings the machine its timeouts.
//!
//! Under the lock nothing is waited for but the journal, whose order is the order of history.

mod call;
mod pool;
mod state;
#[cfg(test)]
mod tests;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use forebay_core::effect::{Effect, Input, Once, Outcome, Payload};
use forebay_core::errno::Errno;
use forebay_core::id::{CallId, Token};
use forebay_core::machine::Machine;
use forebay_core::message::{Reply, Request};
use forebay_core::time::Time;
use parking_lot::{Condvar, Mutex, RwLock};

use self::call::{CallSlot, CallWork, FetchBuffer, Next, part, part_mut};
use self::pool::{Lane, Queues, Source};
use self::state::{After, Job, State};
pub use self::world::{JournalIo, JournalSync, World};
use crate::clock::Clock;
use crate::log;
use crate::recorder::{Event, Recorder};
use crate::transport::CallPayload;

/// The error of a call to a driver that was stopped: `ENOTCONN`.
pub const STOPPED: Errno = Errno(107);

/// How many threads a driver has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// For work at home; at least 2. A quarter of them, at least one, is kept for what a caller waits for.
    pub home: usize,
    /// For spills, syncs and fetched bytes; at least 1.
    pub log: usize,
}

impl Default for Threads {
    fn default() -> Threads {
        Threads { home: 8, log: 2 }
    }
}

/// A machine with everything that it needs to run.
pub struct Setup<M> {
    /// The machine.
    pub machine: M,
    /// The time that the machine was made with.
    pub now: Time,
    /// The clock that showed `now`.
    pub clock: Clock,
    /// Its journal.
    pub journal: Box<dyn JournalIo>,
    /// Its log and home.
    pub world: Arc<dyn World>,
    /// Where to record its inputs.
    pub recorder: Option<Recorder>,
    /// Its threads.
    pub threads: Threads,
}

/// Runs one machine. Stops it when dropped.
pub struct Driver<M: Machine<Input = Input, Effect = Effect> + Send + 'static> {
    shared: Arc<Shared<M>>,
    /// Dropping it ends the threads of the pool.
    stop: Mutex<Option<Sender<()>>>,
}

struct Shared<M> {
    clock: Clock,
    state: Mutex<State<M>>,
    world: Arc<dyn World>,
    queues: Queues,
    next_call: AtomicU64,
    timer: Mutex<TimerState>,
    timer_changed: Condvar,
    threads: Mutex<usize>,
    thread_ended: Condvar,
}

#[derive(Default)]
struct TimerState {
    at: Option<Time>,
    stop: bool,
}

impl<M: Machine<Input = Input, Effect = Effect> + Send + 'static> Driver<M> {
    /// Starts the threads and lets the machine do what it wants to do first. An error if a thread cannot be made.
    pub fn start(setup: Setup<M>) -> std::io::Result<Driver<M>> {
        let Setup { machine, now, clock, journal, world, recorder, threads } = setup;
        let (stop, stopped) = bounded(0);
        let shared = Arc::new(Shared {
            clock,
            state: Mutex::new(State::new(machine, now, clock, journal, recorder)),
            world,
            queues: Queues::new(),
            next_call: AtomicU64::new(1),
            timer: Mutex::new(TimerState::default()),
            timer_changed: Condvar::new(),
            threads: Mutex::new(0),
            thread_ended: Condvar::new(),
        });
        let driver = Driver { shared, stop: Mutex::new(Some(stop)) };
        driver.spawn_threads(threads, &stopped)?;
        driver.shared.step_and_send(Event::Start);
        Ok(driver)
    }

    fn spawn_threads(&self, threads: Threads, stopped: &Receiver<()>) -> std::io::Result<()> {
        let home = threads.home.max(2);
        let foreground_only = (home / 4).max(1);
        for i in 0..home {
            let lanes: &[Lane] = if i < foreground_only { &[Lane::Foreground] } else { &[Lane::Foreground, Lane::Background] };
            self.spawn_worker(format!("forebay-home-{i}"), lanes, stopped)?;
        }
        for i in 0..threads.log.max(1) {
            self.spawn_worker(format!("forebay-log-{i}"), &[Lane::Log], stopped)?;
        }
        self.spawn("forebay-timer".into(), Shared::keep_time)
    }

    fn spawn_worker(&self, name: String, lanes: &[Lane], stopped: &Receiver<()>) -> std::io::Result<()> {
        let source = self.shared.queues.source(lanes, stopped.clone());
        self.spawn(name, move |shared| shared.work(&source))
    }

    fn spawn(&self, name: String, body: impl FnOnce(&Shared<M>) + Send + 'static) -> std::io::Result<()> {
        let shared = self.shared.clone();
        *self.shared.threads.lock() += 1;
        let spawned = thread::Builder::new().name(name).spawn(move || {
            if catch_unwind(AssertUnwindSafe(|| body(&shared))).is_err() {
                log::problem(
                    "a thread of the server ended by a bug; the server stops. What is in the buffer is safe: run `forebay recover`.",
                );
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

    /// Carries out a request on the caller's thread and waits for the reply. `EINVAL` if the payload is not of the request's kind
    /// and length; [`STOPPED`] when the driver was stopped.
    pub fn call(&self, request: Request, payload: CallPayload<'_>) -> Reply {
        self.shared.call(request, payload, None, &|| {})
    }

    /// As [`Driver::call`], and calls `waits` once before it begins to wait for other threads, if it has to. With `once` a change that has been
    /// made and was not answered is not made again.
    pub fn call_telling(&self, request: Request, payload: CallPayload<'_>, once: Option<Once>, waits: &(dyn Fn() + Sync)) -> Reply {
        self.shared.call(request, payload, once, waits)
    }

    /// Looks at the machine, also after a stop.
    pub fn inspect<T>(&self, look: impl FnOnce(&M) -> T) -> T {
        look(self.shared.state.lock().machine())
    }

    /// Ends the threads and fails every open and later call with [`STOPPED`]. Waits for work in progress for at most `patience`;
    /// tells whether all of it has ended (a home that does not answer can keep a thread for ever).
    pub fn stop(&self, patience: Duration) -> bool {
        self.shared.fail(STOPPED);
        drop(self.stop.lock().take());
        let deadline = Instant::now() + patience;
        let mut threads = self.shared.threads.lock();
        while *threads > 0 {
            if self.shared.thread_ended.wait_until(&mut threads, deadline).timed_out() {
                return *threads == 0;
            }
        }
        true
    }
}

impl<M: Machine<Input = Input, Effect = Effect> + Send + 'static> Drop for Driver<M> {
    fn drop(&mut self) {
        // The threads share what they use, so that none needs to be waited for.
        self.stop(Duration::ZERO);
    }
}

impl<M: Machine<Input = Input, Effect = Effect>> Shared<M> {
    fn call(&self, request: Request, mut payload: CallPayload<'_>, once: Option<Once>, waits: &(dyn Fn() + Sync)) -> Reply {
        match (&request, &mut payload) {
            (Request::Read { len, .. }, CallPayload::Read(buffer)) if buffer.len() < *len as usize => buffer.resize(*len as usize, 0),
            (Request::Read { .. }, CallPayload::Read(_)) => {}
            (Request::Write { len, .. }, CallPayload::Write(bytes)) if bytes.len() == *len as usize => {}
            (Request::Read { .. } | Request::Write { .. }, _) => return Reply::Error { errno: Errno::EINVAL },
            _ => {}
        }
        let call = CallId(self.next_call.fetch_add(1, Ordering::Relaxed));
        let slot = Arc::new(CallSlot::default());
        self.send(self.step(Event::Input(Input::Call { call, request, once }), |state| state.open_call(call, slot.clone())));
        let mut broken = false;
        let mut told = false;
        let mut tell = || {
            if !std::mem::replace(&mut told, true) {
                waits();
            }
        };
        loop {
            let work = match slot.next(&mut tell) {
                Next::Work(work) => work,
                Next::Return(reply) if broken => {
                    log::problem(&format!("bytes for a reply could not be brought together; the caller gets EIO instead of {reply:?}"));
                    return Reply::Error { errno: Errno::EIO };
                }
                Next::Return(reply) => return reply,
            };
            let (token, result) = match work {
                CallWork::WriteLog { token, pieces } => {
                    let result = self.guard(|| match &payload {
                        CallPayload::Write(bytes) => self.world.write_log(bytes, &pieces),
                        CallPayload::Read(bytes) => self.world.write_log(bytes, &pieces),
                        CallPayload::None => Err(Errno::EIO),
                    });
                    (token, result.map(Outcome::Checksums))
                }
                CallWork::ReadLog { token, pieces } => {
                    let result = self.guard(|| match &mut payload {
                        CallPayload::Read(bytes) => self.world.read_log(bytes, &pieces),
                        _ => Err(Errno::EIO),
                    });
                    (token, result.map(|()| Outcome::Done))
                }
                other => {
                    broken |= copy_payload(&mut payload, other).is_none();
                    continue;
                }
            };
            self.step_and_send(Event::Input(Input::Done { token, result }));
        }
    }

    fn step_and_send(&self, event: Event) {
        let jobs = self.step(event, |_| {});
        self.send(jobs);
    }

    fn send(&self, jobs: Vec<Job>) {
        for job in jobs {
            // Waking a thread costs more than the question.
            if let Effect::ForgetHome { ino } = job.effect
                && !self.world.may_hold_home(ino)
            {
                continue;
            }
            self.queues.send(job);
        }
    }

    /// Hands an event to the machine; `before` is done under the same lock. Gives the jobs that the machine asks for.
    fn step(&self, event: Event, before: impl FnOnce(&mut State<M>)) -> Vec<Job> {
        let mut after = After::default();
        {
            let mut state = self.state.lock();
            before(&mut state);
            if let Some(errno) = state.stopped {
                state.stop(errno, &mut after);
            } else if catch_unwind(AssertUnwindSafe(|| state.run(event, &mut after))).is_err() {
                log::problem(
                    "the server has met a bug and stops; every call fails from now on. What was acknowledged is in the buffer: \
                     run `forebay recover`, and please report the message above.",
                );
                after.jobs.clear();
                state.stop(Errno::EIO, &mut after);
            } else if let Some(time) = state.poll_timeout()
                && state.armed.is_none_or(|armed| time < armed)
            {
                state.armed = Some(time);
                self.timer.lock().at = Some(time);
                self.timer_changed.notify_one();
            }
        }
        for slot in after.wake {
            slot.wake();
        }
        after.jobs
    }

    fn fail(&self, errno: Errno) {
        let mut after = After::default();
        self.state.lock().stop(errno, &mut after);
        for slot in after.wake {
            slot.wake();
        }
        self.timer.lock().stop = true;
        self.timer_changed.notify_one();
    }

    /// A bug in carrying out an effect must cost that effect, not the caller who waits for it.
    fn guard<T>(&self, work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            log::problem("an input or output operation ended by a bug (see above); it counts as failed with EIO");
            Err(Errno::EIO)
        })
    }

    /// The body of the pool's threads.
    fn work(&self, source: &Source) {
        while let Some(job) = source.next() {
            let mut own = vec![job];
            while let Some(job) = own.pop() {
                if self.state.lock().stopped.is_some() {
                    return;
                }
                let jobs = self.carry_out(job);
                for job in jobs {
                    // What was fetched is warm in this core's cache, and the reader waits: no hop to another thread.
                    if job.buffer.is_some() { own.push(job) } else { self.queues.send(job) }
                }
            }
        }
    }

    fn carry_out(&self, job: Job) -> Vec<Job> {
        let Job { effect, buffer, sync } = job;
        let mut fetched: Option<(u64, FetchBuffer)> = None;
        let (token, result): (Token, Result<Outcome, Errno>) = match effect {
            Effect::WriteLog { token, payload: Payload::Fetch(_), pieces } => {
                let result = self.guard(|| self.world.write_log(&buffer.ok_or(Errno::EIO)?.read(), &pieces));
                (token, result.map(Outcome::Checksums))
            }
            Effect::ReadLog { token, payload: Payload::Fetch(_), pieces } => {
                let result = self.guard(|| self.world.read_log(&mut buffer.ok_or(Errno::EIO)?.write(), &pieces));
                (token, result.map(|()| Outcome::Done))
            }
            Effect::CopyLog { token, from, to } => {
                (token, self.guard(|| self.world.copy_log(from, to)).map(|crc| Outcome::Checksums(vec![crc])))
            }
            Effect::Spill { token, from, to, offset, len } => {
                (token, self.guard(|| self.world.spill(from, to, offset, len)).map(|()| Outcome::Done))
            }
            Effect::SyncLog { token } => {
                // Data first: a journal must not be durable before the bytes that it speaks of.
                let result = self.guard(|| self.world.sync_log().and_then(|()| sync.map_or(Ok(()), |sync| sync())));
                (token, result.map(|()| Outcome::Done))
            }
            Effect::ReadHome { token, fetch, ino, ref path, offset, len } => {
                let mut bytes = vec![0; len as usize];
                let result = self.guard(|| self.world.read_home(ino, path, offset, &mut bytes));
                if result.is_ok() {
                    fetched = Some((fetch, Arc::new(RwLock::new(bytes))));
                }
                (token, result.map(|len| Outcome::Read { len }))
            }
            Effect::ForgetHome { ino } => {
                let _ = self.guard(|| {
                    self.world.forget_home(ino);
                    Ok(())
                });
                return Vec::new();
            }
            Effect::PruneClients { names } => {
                let _ = self.guard(|| {
                    self.world.prune_clients(names);
                    Ok(())
                });
                return Vec::new();
            }
            ref other => match token_of(other) {
                Some(token) => (token, self.guard(|| self.world.home(other))),
                None => return Vec::new(),
            },
        };
        self.step(Event::Input(Input::Done { token, result }), |state| {
            if let Some((fetch, buffer)) = fetched {
                state.keep_fetch(fetch, buffer);
            }
        })
    }

    /// The body of the timer's thread.
    fn keep_time(&self) {
        let mut timer = self.timer.lock();
        while !timer.stop {
            match timer.at {
                None => self.timer_changed.wait(&mut timer),
                Some(time) if self.clock.now() < time => match self.clock.instant(time) {
                    Some(instant) => {
                        self.timer_changed.wait_until(&mut timer, instant);
                    }
                    None => self.timer_changed.wait(&mut timer),
                },
                Some(_) => {
                    timer.at = None;
                    parking_lot::MutexGuard::unlocked(&mut timer, || {
                        let jobs = self.step(Event::Timeout, |state| state.armed = None);
                        self.send(jobs);
                    });
                }
            }
        }
    }
}

/// Carries out work between payloads; `None` if it cannot be.
fn copy_payload(payload: &mut CallPayload<'_>, work: CallWork) -> Option<()> {
    match (work, payload) {
        (CallWork::Zero { ranges }, CallPayload::Read(bytes)) => {
            for (offset, len) in ranges {
                part_mut(bytes, offset, len)?.fill(0);
            }
        }
        (CallWork::CopyIn { from, from_offset, to_offset, len }, CallPayload::Read(bytes)) => {
            part_mut(bytes, to_offset, len)?.copy_from_slice(part(&from.read(), from_offset, len)?);
        }
        (CallWork::CopyOut { from_offset, to, to_offset, len }, CallPayload::Write(bytes)) => {
            part_mut(&mut to.write(), to_offset, len)?.copy_from_slice(part(bytes, from_offset, len)?);
        }
        _ => return None,
    }
    Some(())
}

/// The token of an effect on home that is answered.
fn token_of(effect: &Effect) -> Option<Token> {
    match effect {
        Effect::ListHome { token, .. }
        | Effect::StatHome { token, .. }
        | Effect::ReadLinkHome { token, .. }
        | Effect::StatFsHome { token }
        | Effect::XattrsHome { token, .. }
        | Effect::SeekHome { token, .. }
        | Effect::CompareZerosHome { token, .. }
        | Effect::WriteHome { token, .. }
        | Effect::CompareHome { token, .. }
        | Effect::SyncHome { token, .. }
        | Effect::ChangeHome { token, .. } => Some(*token),
        _ => None,
    }
}
