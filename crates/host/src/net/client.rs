//! A client's connection to one server. It comes back by itself when it breaks, and what was not answered is asked again: all requests may
//! be carried out twice, one after the other (docs/PROTOCOL.md says why never at the same time).

use std::collections::HashMap;
use std::io::BufReader;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_core::effect::HomeChange;
use parking_lot::{Condvar, Mutex};

use super::handshake::{self, ClientId, Welcome};
use super::key::Key;
use super::message::{Reply, Request};
use super::stream::{Address, Patient, Stream};
use super::wire::{FrameKind, Limits, MESSAGE_BYTES_MAX, Outgoing, Seal, WireError, read_frame, write_frame};
use super::{NetError, wire};
use crate::log;

/// How often a connection that is quiet is looked at.
const TICK: Duration = Duration::from_secs(1);
/// A server that has said nothing for so long is asked whether it is there.
const PING_AFTER: Duration = Duration::from_secs(5);
/// One that has said nothing for so long is not.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// How long a server may take for a step of the first exchange.
const GREETING_MAX: Duration = Duration::from_secs(10);
/// How long a write may find no room on the way.
const WRITE_MAX: Duration = Duration::from_secs(20);
/// Pauses between attempts to connect: they double from the first to the second.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];
/// The longest answer, of several frames: a listing of some million names.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// Requests under way at a time, whatever the server allows.
const REQUESTS_MAX: u32 = 64;

/// Whom to connect to, and as whom.
#[derive(Clone, Debug)]
pub struct Dial {
    /// The server.
    pub address: Address,
    /// The key of the instance.
    pub key: Key,
    /// Who asks.
    pub client: ClientId,
    /// How long a request waits for a server that cannot be reached, before it fails.
    pub patience: Duration,
}

/// A request and the bytes that go with it.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// What is asked.
    pub request: Request,
    /// The payload, in parts.
    pub payload: Vec<&'a [u8]>,
}

/// What a server answered.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// The answer.
    pub reply: Reply,
    /// The bytes that came with it.
    pub payload: Vec<u8>,
}

enum Slot {
    Waiting { payload: Vec<u8> },
    Answered(Box<Answer>),
    Broken,
}

/// Where one request's answer arrives.
struct Mailbox {
    slot: Mutex<Slot>,
    arrived: Condvar,
}

struct Pending {
    broken: bool,
    free: u32,
    boxes: HashMap<u64, Arc<Mailbox>>,
}

/// A connection while it lasts.
struct Link {
    stream: Stream,
    writer: Mutex<Seal>,
    pending: Mutex<Pending>,
    freed: Condvar,
}

impl Link {
    fn send(&self, seal: &mut Seal, kind: FrameKind, request: u64, message: &[u8], payload: &[&[u8]]) -> std::io::Result<()> {
        let sent = write_frame(&mut &self.stream, seal, Outgoing { kind, more: false, request, message, payload });
        if sent.is_err() {
            // The reader finds that out, and says so to all.
            self.stream.end();
        }
        sent
    }

    /// Says that the connection is broken to all who wait.
    fn fail(&self) {
        let mut pending = self.pending.lock();
        pending.broken = true;
        for (_, mailbox) in pending.boxes.drain() {
            *mailbox.slot.lock() = Slot::Broken;
            mailbox.arrived.notify_all();
        }
        drop(pending);
        self.freed.notify_all();
        self.stream.end();
    }

    fn deliver(&self, frame: wire::Frame) -> Result<(), WireError> {
        let mut pending = self.pending.lock();
        let mailbox = pending.boxes.get(&frame.request).cloned().ok_or(WireError::Malformed("its number"))?;
        let mut slot = mailbox.slot.lock();
        let Slot::Waiting { payload } = &mut *slot else { return Err(WireError::Malformed("its number")) };
        if payload.len() + frame.payload.len() > ANSWER_BYTES_MAX {
            return Err(WireError::Malformed("its length"));
        }
        if payload.is_empty() {
            *payload = frame.payload;
        } else {
            payload.extend_from_slice(&frame.payload);
        }
        if frame.more {
            return Ok(());
        }
        let reply = postcard::from_bytes(&frame.message).map_err(|_| WireError::Malformed("its message"))?;
        let payload = std::mem::take(payload);
        *slot = Slot::Answered(Box::new(Answer { reply, payload }));
        mailbox.arrived.notify_all();
        drop(slot);
        pending.boxes.remove(&frame.request);
        pending.free += 1;
        drop(pending);
        self.freed.notify_one();
        Ok(())
    }
}

/// A request on its way.
pub struct Ticket(Arc<Mailbox>);

impl Ticket {
    /// Waits for the answer; none if the connection broke before.
    fn wait(self) -> Option<Answer> {
        let mut slot = self.0.slot.lock();
        loop {
            match std::mem::replace(&mut *slot, Slot::Broken) {
                Slot::Answered(answer) => return Some(*answer),
                Slot::Broken => return None,
                waiting => *slot = waiting,
            }
            self.0.arrived.wait(&mut slot);
        }
    }
}

#[derive(Default)]
struct State {
    link: Option<Arc<Link>>,
    /// Why there is none.
    error: Option<NetError>,
    /// Exchanges that each connection has to begin with, and the answers without which it is not the one that was meant.
    opening: Vec<(Request, Reply)>,
    /// How often the server's machine was found to have been started again.
    boots: u64,
    closing: bool,
}

struct Inner {
    dial: Dial,
    state: Mutex<State>,
    changed: Condvar,
    next: AtomicU64,
}

/// A server in another process.
pub struct Remote {
    inner: Arc<Inner>,
    keeper: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("address", &self.inner.dial.address).finish_non_exhaustive()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let mut state = self.inner.state.lock();
        state.closing = true;
        if let Some(link) = &state.link {
            link.stream.end();
        }
        drop(state);
        self.inner.changed.notify_all();
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

impl Remote {
    /// Begins to connect, and goes on with it until this is dropped.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn start(dial: Dial) -> std::io::Result<Remote> {
        let inner = Arc::new(Inner { dial, state: Mutex::default(), changed: Condvar::new(), next: AtomicU64::new(1) });
        let for_thread = inner.clone();
        let keeper = std::thread::Builder::new().name("net".into()).spawn(move || for_thread.keep())?;
        Ok(Remote { inner, keeper: Some(keeper) })
    }

    /// The server's address.
    pub fn address(&self) -> &Address {
        &self.inner.dial.address
    }

    /// Waits until there is a connection.
    ///
    /// # Errors
    /// `Unreachable` when there is none `within`; sooner, if there can be none before somebody does something about it.
    pub fn connected(&self, within: Duration) -> Result<(), NetError> {
        self.inner.link(Instant::now() + within, true).map(drop)
    }

    /// From now on each connection begins with these exchanges, and only counts if they are answered so. The one there is has made them already.
    pub fn begin_with(&self, opening: Vec<(Request, Reply)>) {
        self.inner.state.lock().opening = opening;
    }

    /// How often the server's machine was started again since [`Remote::begin_with`], as far as is known. It is known before anything is
    /// asked of the machine as it is then.
    pub fn boots(&self) -> u64 {
        self.inner.state.lock().boots
    }

    /// Asks, and waits for the answer: for as long as the server is there, and as it may be away.
    ///
    /// # Errors
    /// `Unreachable` if the server was away for too long, `TooLong`.
    pub fn call(&self, mut ask: Ask<'_>) -> Result<Answer, NetError> {
        let ticket = self.send(&ask);
        self.finish(&mut ask, ticket)
    }

    /// Sends a request, if there is a connection. The answer is waited for with [`Remote::finish`], in any case.
    ///
    /// Who asks several servers asks them in one order: a request holds one of the places on its connection until it is answered.
    pub fn send(&self, ask: &Ask<'_>) -> Option<Ticket> {
        let link = self.inner.state.lock().link.clone()?;
        self.inner.send(&link, ask).ok().flatten()
    }

    /// Waits for the answer to a request, and sends it again whenever the connection has broken.
    ///
    /// # Errors
    /// As for [`Remote::call`].
    pub fn finish(&self, ask: &mut Ask<'_>, ticket: Option<Ticket>) -> Result<Answer, NetError> {
        let mut ticket = ticket;
        let mut away_since: Option<Instant> = None;
        loop {
            if let Some(ticket) = ticket.take() {
                match ticket.wait() {
                    Some(answer) => return Ok(answer),
                    None => may_have_happened(&mut ask.request),
                }
            }
            let until = *away_since.get_or_insert_with(Instant::now) + self.inner.dial.patience;
            let link = self.inner.link(until, false)?;
            ticket = self.inner.send(&link, ask)?;
            if ticket.is_none() && Instant::now() >= until {
                return Err(self.inner.unreachable(None));
            }
        }
    }
}

/// Marks a request that is asked again: what is as it asks for already counts as done.
fn may_have_happened(request: &mut Request) {
    if let Request::Change { change: HomeChange::Rename { again, .. } } = request {
        *again = true;
    }
}

impl Inner {
    fn unreachable(&self, error: Option<&NetError>) -> NetError {
        let reason = error.map_or_else(|| "nobody answers".to_owned(), ToString::to_string);
        NetError::Unreachable { address: self.dial.address.clone(), reason }
    }

    /// The connection, as soon as there is one. With `at_once`, what only somebody can mend is not waited for.
    fn link(&self, until: Instant, at_once: bool) -> Result<Arc<Link>, NetError> {
        let mut state = self.state.lock();
        loop {
            if let Some(link) = &state.link {
                return Ok(link.clone());
            }
            let hopeless = at_once && state.error.as_ref().is_some_and(|error| !error.may_pass());
            if state.closing || hopeless || self.changed.wait_until(&mut state, until).timed_out() && state.link.is_none() {
                return Err(self.unreachable(state.error.as_ref()));
            }
        }
    }

    /// Sends a request as soon as it has a place; none if the connection breaks before.
    fn send(&self, link: &Link, ask: &Ask<'_>) -> Result<Option<Ticket>, NetError> {
        let message = postcard::to_allocvec(&ask.request).map_err(|_| NetError::TooLong)?;
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(NetError::TooLong);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mailbox = Arc::new(Mailbox { slot: Mutex::new(Slot::Waiting { payload: Vec::new() }), arrived: Condvar::new() });
        let mut pending = link.pending.lock();
        while pending.free == 0 && !pending.broken {
            link.freed.wait(&mut pending);
        }
        if pending.broken {
            return Ok(None);
        }
        pending.free -= 1;
        pending.boxes.insert(number, mailbox.clone());
        drop(pending);
        // Whether it arrives or not, the reader will say.
        let _ = link.send(&mut link.writer.lock(), FrameKind::Request, number, &message, &ask.payload);
        Ok(Some(Ticket(mailbox)))
    }

    /// Connects, reads until the connection breaks, and connects again.
    fn keep(&self) {
        let mut pause = PAUSES[0];
        let (mut was_there, mut was_said) = (false, false);
        loop {
            let error = match self.open() {
                Ok((link, reading)) => {
                    if was_there {
                        log::problem(&format!("the server {} is there again", self.dial.address));
                    }
                    (pause, was_there, was_said) = (PAUSES[0], true, false);
                    let link = Arc::new(link);
                    self.publish(Some(link.clone()), None);
                    let error = read_all(&link, reading);
                    // Nobody may find it any more before those who wait are told to look for another.
                    self.publish(None, Some(error.clone()));
                    link.fail();
                    if !self.state.lock().closing {
                        log::problem(&format!("the connection to the server {} broke: {error}; connecting again", self.dial.address));
                    }
                    error
                }
                Err(error) => {
                    // Before the first connection, whoever waits for it is told.
                    if was_there && !error.may_pass() && !std::mem::replace(&mut was_said, true) {
                        log::problem(&format!("the server {} cannot be used any more: {error}", self.dial.address));
                    }
                    error
                }
            };
            let mut state = self.state.lock();
            state.error = Some(error);
            self.changed.notify_all();
            if state.closing {
                return;
            }
            let until = Instant::now() + pause;
            while !state.closing && !self.changed.wait_until(&mut state, until).timed_out() {}
            if state.closing {
                return;
            }
            drop(state);
            pause = (pause * 2).min(PAUSES[1]);
        }
    }

    fn publish(&self, link: Option<Arc<Link>>, error: Option<NetError>) {
        let mut state = self.state.lock();
        if let (Some(link), true) = (&link, state.closing) {
            link.stream.end();
        }
        (state.link, state.error) = (link, error);
        drop(state);
        self.changed.notify_all();
    }

    fn open(&self) -> Result<(Link, Seal), NetError> {
        let stream = Stream::connect(&self.dial.address, GREETING_MAX)?;
        stream.set_timeouts(TICK, WRITE_MAX)?;
        let mut opening = self.state.lock().opening.clone();
        let mut was_booted = false;
        let mut greeting = Greeting(Patient { stream: &stream, silence_max: GREETING_MAX, heard: Instant::now(), idle: |_| () });
        let (handshake::Seals { mut to_server, mut to_client }, Welcome { requests_max }) =
            handshake::as_client(&mut greeting, &self.dial.key, self.dial.client)?;
        for (request, wanted) in &mut opening {
            let message = postcard::to_allocvec(request).map_err(|_| NetError::TooLong)?;
            let frame = Outgoing { kind: FrameKind::Request, more: false, request: 0, message: &message, payload: &[] };
            write_frame(&mut &stream, &mut to_server, frame)?;
            let frame = read_frame(&mut greeting, &mut to_client, Limits::SESSION)?;
            match postcard::from_bytes::<Reply>(&frame.message) {
                Ok(reply) if reply == *wanted => {}
                Ok(Reply::Refused(why)) => return Err(NetError::Refused(why)),
                Ok(Reply::Home { id, boot }) if matches!(wanted, Reply::Home { id: wanted, .. } if *wanted == id) => {
                    (*wanted, was_booted) = (Reply::Home { id, boot }, true);
                }
                Ok(Reply::Home { .. }) => return Err(NetError::Refused("another home stands behind that server now".into())),
                other => return Err(NetError::Refused(format!("it does not begin as it did before ({other:?})"))),
            }
        }
        if was_booted {
            let mut state = self.state.lock();
            (state.opening, state.boots) = (opening, state.boots + 1);
        }
        let pending = Pending { broken: false, free: requests_max.clamp(1, REQUESTS_MAX), boxes: HashMap::new() };
        Ok((Link { stream, writer: Mutex::new(to_server), pending: Mutex::new(pending), freed: Condvar::new() }, to_client))
    }
}

/// Reads with patience, writes without.
pub(super) struct Greeting<'a, F>(pub(super) Patient<'a, F>);

impl<F: FnMut(Duration)> std::io::Read for Greeting<'_, F> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buf)
    }
}

impl<F> std::io::Write for Greeting<'_, F> {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        (&mut &*self.0.stream).write(buf)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Reads answers until the connection breaks; why.
fn read_all(link: &Link, mut seal: Seal) -> NetError {
    let idle = |silence| {
        if silence < PING_AFTER {
            return;
        }
        // Who is writing finds out by itself whether the server is there.
        if let Some(mut writer) = link.writer.try_lock() {
            let _ = link.send(&mut writer, FrameKind::Ping, 0, &[], &[]);
        }
    };
    let patient = Patient { stream: &link.stream, silence_max: SILENCE_MAX, heard: Instant::now(), idle };
    let mut reader = BufReader::with_capacity(16 << 10, patient);
    loop {
        let read = read_frame(&mut reader, &mut seal, Limits::SESSION);
        let done = read.and_then(|frame| match frame.kind {
            FrameKind::Reply => link.deliver(frame),
            FrameKind::Pong => Ok(()),
            _ => Err(WireError::Malformed("its kind")),
        });
        if let Err(error) = done {
            return error.into();
        }
    }
}
