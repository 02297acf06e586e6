//! The threads that read the kernel's requests and answer them.
//!
//! Very few threads (`readers`) read and serve small requests: to wake one more costs more than to serve such a request, and the kernel
//! wakes one of those that sleep at the device for every request that comes. A thread that takes a large request, which is long to copy,
//! sees to it that others are there meanwhile, `steady` in all at most; it stays there afterwards for as long as large ones come. A thread that
//! comes to wait in a call, for room or for home, steps out first and another one
//! takes its place: so requests that need not wait never do, however many others do. Two limits bound this: threads in all, and large
//! buffers. The kernel wants room for the longest request in every read, so each thread that reads holds a large buffer; one that waits
//! gives it back, unless the bytes of its own request stand in it.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use forebay_client::{CallPayload, Client, Transport};
use forebay_core::effect::Once;
use forebay_core::errno::Errno;
use forebay_core::id::Ino;
use forebay_core::message::{Reply, Request};
use forebay_host::log;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::io::Errno as OsErrno;

use crate::SessionEnd;
use crate::abi::UNIQUE_RESEND;
use crate::answer::{self, Answer};
use crate::buffers::Buffers;
use crate::filesystem::{Exchange, Outcome};
use crate::held::{Giving, Held};
use crate::inherited::{Inherited, LetGo};
use crate::negotiate::Agreed;
use crate::notify::Notifier;
use crate::operation::{self, Operation};
use crate::recording::{Recorder, Seen};
use crate::watch::Watch;

/// Threads in all, those that wait included.
const THREADS_MAX: usize = 256;
/// Threads beyond those that are wanted that stay at work when what they waited for has come, so that short waits do not cost a change of
/// threads each.
const THREADS_SPARE: usize = 2;
/// After so many small requests one after the other, a thread that is one too many goes to rest.
const SMALL_RUN: u32 = 32;
/// Threads at rest that are kept.
const REST_MAX: usize = 16;
/// A request, or the answer to a read, of at most so many bytes has a small buffer of its own.
const SMALL_BYTES: usize = 16 << 10;
/// Stack of a thread, bytes.
const STACK_BYTES: usize = 1 << 20;

/// What the threads share.
pub(crate) struct Session<T: Transport> {
    device: Arc<OwnedFd>,
    transport: T,
    agreed: Agreed,
    held: Held,
    wanted: Wanted,
    buffers: Buffers,
    crew: Mutex<Crew>,
    /// Someone at rest is wanted, or all are to end.
    called: Condvar,
    watch: Watch,
    recorder: Option<Arc<Recorder>>,
    end: Arc<SessionEnd>,
}

/// How many threads there are to be.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    /// At the device, or at a small request.
    readers: usize,
    /// At work in all, those at large requests included, while nobody waits.
    steady: usize,
}

#[derive(Default)]
struct Crew {
    /// Threads in all.
    all: usize,
    /// Of these, threads that read or serve and do not wait in a call; those that were called and are on their way included.
    at_work: usize,
    /// Of these, threads that serve a large request.
    at_large: usize,
    /// Threads that rest until they are called.
    at_rest: usize,
    /// Of these, those that were called.
    called: usize,
    ended: bool,
    /// Lanes that no thread has.
    lanes_free: Vec<u32>,
    /// Lanes in all.
    lanes: u32,
}

impl Crew {
    /// Whether there are too few threads at work.
    fn is_short(&self, wanted: Wanted) -> bool {
        self.at_work - self.at_large < wanted.readers && self.at_work < wanted.steady
    }

    /// Whether there are more of them than wanted, and than so many more.
    fn exceeds(&self, wanted: Wanted, spare: usize) -> bool {
        self.at_work - self.at_large > wanted.readers + spare
    }
}

/// How a thread's part in one request goes on.
enum Step {
    Next,
    /// The mount is gone.
    End,
}

/// The way to the server of one request: tells the session when it comes to wait.
struct Watched<'a, T: Transport> {
    session: &'a Arc<Session<T>>,
    turn: &'a Turn,
    /// The number of the kernel's request.
    unique: u64,
}

/// What a thread may give away while its request waits.
#[derive(Default)]
struct Turn(Mutex<TurnState>);

#[derive(Default)]
struct TurnState {
    /// What tells the requests of this thread, which come one after the other, from those of others.
    lane: u32,
    /// It serves a large request.
    is_large: bool,
    /// It waits or has waited, and is not counted as working.
    stepped_out: bool,
    /// Small requests since the last large one.
    small_run: u32,
    /// The large buffer, if this request does not need it.
    spare: Option<Vec<u8>>,
}

impl<T: Transport + 'static> Transport for Watched<'_, T> {
    fn call(&self, request: Request, payload: CallPayload<'_>) -> Reply {
        let lane = self.turn.0.lock().lane;
        let once = Once { lane, request: self.unique & !UNIQUE_RESEND, again: self.unique & UNIQUE_RESEND != 0 };
        self.session.transport.call_telling(request, payload, Some(once), &|| self.session.step_out(self.turn))
    }
}

/// What the threads have beside the way to the server.
pub(crate) struct Terms {
    pub(crate) agreed: Agreed,
    pub(crate) held: Held,
    pub(crate) steady: usize,
    pub(crate) recorder: Option<Arc<Recorder>>,
    pub(crate) end: Arc<SessionEnd>,
}

/// Starts the threads.
pub(crate) fn start<T: Transport + 'static>(device: Arc<OwnedFd>, transport: T, terms: Terms) -> std::io::Result<Arc<OwnedFd>> {
    let Terms { agreed, held, steady, recorder, end } = terms;
    let session = Arc::new(Session {
        device: device.clone(),
        transport,
        agreed,
        held,
        wanted: wanted(steady),
        buffers: Buffers::new(agreed.request_bytes_max()),
        crew: Mutex::default(),
        called: Condvar::new(),
        watch: Watch::default(),
        recorder,
        end,
    });
    // One for this function, so that the session does not end before it has begun.
    session.crew.lock().all = 1;
    for _ in 0..session.wanted.readers {
        let mut crew = session.crew.lock();
        crew.all += 1;
        crew.at_work += 1;
        drop(crew);
        session.hire().map_err(|error| session.given_up(error))?;
    }
    if session.held.inherited().is_some() {
        let asker = session.clone();
        let spawned = thread::Builder::new().name("forebay-asks".into()).stack_size(STACK_BYTES).spawn(move || asker.ask_of_inherited());
        spawned.map_err(|error| session.given_up(error))?;
    }
    session.lose();
    Ok(device)
}

/// Half of the processors read; the other half is for those who ask.
fn wanted(steady: usize) -> Wanted {
    let steady = steady.clamp(1, THREADS_MAX);
    let processors = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Wanted { readers: (processors / 2).clamp(1, steady), steady }
}

/// Counts a thread out when it ends, in whatever way.
struct Employed<T: Transport + 'static>(Arc<Session<T>>);

impl<T: Transport> Drop for Employed<T> {
    fn drop(&mut self) {
        self.0.lose();
    }
}

impl<T: Transport + 'static> Session<T> {
    /// It cannot begin.
    fn given_up(&self, error: std::io::Error) -> std::io::Error {
        self.finish();
        self.lose();
        error
    }

    /// What a thread of its own does: lets go of what the kernel has from before and knows no more.
    fn ask_of_inherited(&self) {
        self.held.inherited().into_iter().for_each(|inherited| {
            inherited.ask_until_the_end(|LetGo { ino, count, is_file }| {
                if is_file {
                    self.transport.call(Request::Release { ino }, CallPayload::None);
                }
                self.transport.call(Request::Forget { ino, count }, CallPayload::None);
            });
        });
    }

    /// Starts one thread, which the caller has counted already.
    fn hire(self: &Arc<Self>) -> std::io::Result<()> {
        let employed = Employed(self.clone());
        let spawned = thread::Builder::new().name("forebay-fuse".into()).stack_size(STACK_BYTES).spawn(move || employed.0.work());
        // A thread that was not made is counted out all the same: its share is dropped with its body.
        spawned.map(drop)
    }

    fn work(self: &Arc<Self>) {
        let mut answer = Answer::default();
        let mut small = Vec::new();
        let mut data = Vec::new();
        let turn = Turn::default();
        let lane = self.take_lane();
        turn.0.lock().lane = lane;
        while let Some(large) = self.take_large(&turn) {
            match self.take_turn(large, &mut small, &mut data, &mut answer, &turn) {
                Step::Next if self.step_in(&turn) => {}
                _ => break,
            }
        }
        if let Some(buffer) = turn.0.lock().spare.take() {
            self.buffers.give(buffer);
        }
        self.crew.lock().lanes_free.push(lane);
    }

    fn take_lane(&self) -> u32 {
        let mut crew = self.crew.lock();
        crew.lanes_free.pop().unwrap_or_else(|| {
            crew.lanes += 1;
            crew.lanes - 1
        })
    }

    fn take_large(&self, turn: &Turn) -> Option<Vec<u8>> {
        let kept = turn.0.lock().spare.take();
        kept.or_else(|| self.buffers.take())
    }

    /// Reads one request and answers it.
    fn take_turn(self: &Arc<Self>, mut large: Vec<u8>, small: &mut Vec<u8>, data: &mut Vec<u8>, answer: &mut Answer, turn: &Turn) -> Step {
        self.watch.look_out(&self.device);
        let len = match rustix::io::read(&*self.device, &mut large[..]) {
            Ok(len) => len,
            Err(error) => {
                self.buffers.give(large);
                return match error {
                    // Interrupted, or the request was taken back meanwhile.
                    OsErrno::INTR | OsErrno::AGAIN | OsErrno::NOENT => Step::Next,
                    error => self.ended_by(error),
                };
            }
        };
        let bytes = large.get(..len).unwrap_or_default();
        let Some(header) = operation::header(bytes) else {
            log::problem(&format!("a request of the kernel of {len} bytes cannot be read; it is left out"));
            self.buffers.give(large);
            return Step::Next;
        };
        let Some(operation) = operation::parse(&header, bytes) else {
            log::problem(&format!("a request of the kernel (number {}, {len} bytes) cannot be read; it gets EIO", header.opcode));
            let _ = answer::send_error(&self.device, header.unique, Errno::EIO);
            self.buffers.give(large);
            return Step::Next;
        };
        match operation {
            Operation::Destroy => {
                // The last request: the kernel waits for the answer when it unmounts. What follows is ENODEV.
                let _ = answer.send_empty(&self.device, header.unique);
                turn.0.lock().spare = Some(large);
            }
            // The answer takes the place of the request, of which nothing is needed any more.
            Operation::Read { offset, len, for_pages, flags } if len as usize > SMALL_BYTES => {
                self.begin_large(turn);
                self.serve(&header, Operation::Read { offset, len, for_pages, flags }, &mut large, answer, turn);
                self.keep(large, turn);
            }
            operation if len > SMALL_BYTES => {
                self.begin_large(turn);
                self.serve(&header, operation, data, answer, turn);
                self.keep(large, turn);
            }
            _ => {
                let mut state = turn.0.lock();
                state.small_run = state.small_run.saturating_add(1);
                drop(state);
                small.clear();
                small.extend_from_slice(bytes);
                self.keep(large, turn);
                // As before: these are the same bytes.
                if let Some(operation) = operation::parse(&header, small) {
                    self.serve(&header, operation, data, answer, turn);
                }
            }
        }
        Step::Next
    }

    /// A buffer that was in use is free again.
    fn keep(&self, large: Vec<u8>, turn: &Turn) {
        turn.0.lock().spare = Some(large);
    }

    fn serve(self: &Arc<Self>, header: &operation::Header, operation: Operation<'_>, data: &mut Vec<u8>, answer: &mut Answer, turn: &Turn) {
        let client = Client::new(Watched { session: self, turn, unique: header.unique });
        let out = answer.begin();
        // Until the answer has been sent.
        let giving = Giving::of(&self.held);
        let held = self.agreed.opens_unasked.then_some(&giving);
        let mut exchange = Exchange { client, agreed: &self.agreed, held, header, out, data, mode_is_stale: false };
        let recorded = self.recorder.as_ref().map(|recorder| (recorder, operation.clone(), Instant::now()));
        let outcome = catch_unwind(AssertUnwindSafe(|| exchange.serve(operation))).unwrap_or_else(|_| {
            log::problem(&format!("request {} of the kernel met a bug; it gets EIO, please report the message above", header.opcode));
            Err(Errno::EIO)
        });
        if exchange.mode_is_stale {
            // Before whoever has written goes on: else a program could be run with the set-id bits that it has just lost.
            Notifier { device: Arc::downgrade(&self.device) }.forget_inode(Ino(header.node), false);
        }
        if let Some((recorder, operation, begun)) = recorded {
            recorder.seen(Seen { header, operation, begun, outcome, body: answer.body(), direct_io: self.agreed.direct_io });
        }
        let sent = match outcome {
            Ok(Outcome::Silence) => return,
            Ok(Outcome::Body) => answer.send(&self.device, header.unique),
            Ok(Outcome::Data(len)) => match data.get(..len as usize) {
                Some(bytes) => answer.send_data(&self.device, header.unique, bytes),
                None => answer::send_error(&self.device, header.unique, Errno::EIO),
            },
            Err(errno) => answer::send_error(&self.device, header.unique, errno),
        };
        match sent {
            // Nobody waits for the answer any more: the process was killed, or the mount is gone.
            Ok(()) | Err(OsErrno::NOENT | OsErrno::NODEV | OsErrno::CONNABORTED) => {}
            Err(error) => {
                log::problem(&format!("the kernel did not take the answer to a request (number {}): {error}", header.opcode));
                let _ = answer::send_error(&self.device, header.unique, Errno::EIO);
            }
        }
    }

    fn ended_by(&self, error: OsErrno) -> Step {
        // Unmounted, or aborted.
        if !matches!(error, OsErrno::NODEV | OsErrno::CONNABORTED) {
            log::problem(&format!("the FUSE session ended with an error: {error}"));
        }
        self.finish();
        Step::End
    }

    fn finish(&self) {
        self.crew.lock().ended = true;
        self.called.notify_all();
        self.held.inherited().into_iter().for_each(Inherited::end);
        self.buffers.close();
    }

    /// This thread takes a large request: others are to be there for what comes meanwhile.
    fn begin_large(self: &Arc<Self>, turn: &Turn) {
        let mut state = turn.0.lock();
        state.is_large = true;
        state.small_run = 0;
        drop(state);
        let mut crew = self.crew.lock();
        crew.at_large += 1;
        self.call_if_short(crew);
    }

    /// This thread comes to wait: gives its buffer back and sees to it that enough others work.
    fn step_out(self: &Arc<Self>, turn: &Turn) {
        let was_large;
        {
            let mut state = turn.0.lock();
            if let Some(buffer) = state.spare.take() {
                self.buffers.give(buffer);
            }
            if std::mem::replace(&mut state.stepped_out, true) {
                return;
            }
            was_large = std::mem::take(&mut state.is_large);
        }
        let mut crew = self.crew.lock();
        crew.at_work -= 1;
        crew.at_large -= usize::from(was_large);
        self.call_if_short(crew);
    }

    /// Puts one more thread to work if there are too few.
    fn call_if_short(self: &Arc<Self>, mut crew: MutexGuard<'_, Crew>) {
        if crew.ended || !crew.is_short(self.wanted) {
            return;
        }
        if crew.at_rest > crew.called {
            crew.called += 1;
            crew.at_work += 1;
            drop(crew);
            self.called.notify_one();
        } else if crew.all < THREADS_MAX {
            crew.all += 1;
            crew.at_work += 1;
            drop(crew);
            if let Err(error) = self.hire() {
                log::problem(&format!("no more threads can be made to serve the mount: {error}; it may answer late"));
                self.crew.lock().at_work -= 1;
            }
        }
    }

    /// The request is answered: back to work, or to rest if there are enough others. False when all is over.
    fn step_in(&self, turn: &Turn) -> bool {
        let mut state = turn.0.lock();
        let stepped_out = std::mem::take(&mut state.stepped_out);
        let was_large = std::mem::take(&mut state.is_large);
        let may_go = state.small_run >= SMALL_RUN;
        drop(state);
        if !stepped_out && !was_large && !may_go {
            return true;
        }
        let mut crew = self.crew.lock();
        crew.at_large -= usize::from(was_large);
        if stepped_out {
            crew.at_work += 1;
        }
        // Whoever has waited goes only if there are several too many.
        let spare = if may_go && !stepped_out { 0 } else { THREADS_SPARE };
        if was_large || !crew.exceeds(self.wanted, spare) {
            turn.0.lock().small_run = 0;
            return !crew.ended;
        }
        crew.at_work -= 1;
        if let Some(buffer) = turn.0.lock().spare.take() {
            self.buffers.give(buffer);
        }
        if crew.at_rest >= REST_MAX {
            return false;
        }
        crew.at_rest += 1;
        while crew.called == 0 && !crew.ended {
            self.called.wait(&mut crew);
        }
        crew.at_rest -= 1;
        crew.called = crew.called.saturating_sub(1);
        turn.0.lock().small_run = 0;
        !crew.ended
    }
}

impl<T: Transport> Session<T> {
    /// A thread is there no more; the last one ends the session.
    fn lose(&self) {
        let mut crew = self.crew.lock();
        crew.all -= 1;
        if crew.all == 0 {
            self.end.set();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_are_kept_beside_large_requests_and_no_more_than_the_steady_work() {
        let wanted = Wanted { readers: 1, steady: 3 };
        let mut crew = Crew { at_work: 1, ..Crew::default() };
        assert!(!crew.is_short(wanted), "one reads");
        for large in 1..=2 {
            crew.at_large = large;
            assert!(crew.is_short(wanted), "all are at large requests");
            crew.at_work += 1;
            assert!(!crew.is_short(wanted), "one more was called");
        }
        crew.at_large = 3;
        assert!(!crew.is_short(wanted), "there are enough at work");
        assert!(!crew.exceeds(wanted, 0));
        crew.at_large = 0;
        assert!(crew.exceeds(wanted, 0) && crew.exceeds(wanted, 1) && !crew.exceeds(wanted, 2));
        crew.at_work = 0;
        assert!(crew.is_short(wanted), "all wait");
    }

    #[test]
    fn at_least_one_reads_and_at_most_all() {
        for steady in [0, 1, 4, 1000] {
            let wanted = wanted(steady);
            assert!((1..=wanted.steady).contains(&wanted.readers) && wanted.steady <= THREADS_MAX);
        }
    }
}
