//! The server's end: sessions of clients that have the key, and threads that carry out what they ask.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufReader};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use thiserror::Error;

use super::handshake::{self, ClientId, Seals, Welcome};
use super::key::Key;
use super::message::{Reply, Request};
use super::stream::{Address, Patient, Stream};
use super::wire::{FrameKind, Limits, Outgoing, PAYLOAD_BYTES_MAX, Seal, WireError, read_frame, write_frame};
use super::{NetError, tcp, uds};
use crate::log;

/// How often a connection that is quiet is looked at.
const TICK: Duration = Duration::from_secs(1);
/// A client says something at least every few seconds; one that has been silent for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How long a stranger may take to show that it has the key.
const GREETING_MAX: Duration = Duration::from_secs(10);
/// How long a client may take nothing of an answer.
const WRITE_MAX: Duration = Duration::from_secs(30);
/// Requests of a session under way at a time; each may have a payload in memory.
const REQUESTS_MAX: u32 = 32;
/// Sessions at a time.
const SESSIONS_MAX: usize = 256;
/// Connections at a time that have not shown the key yet.
const STRANGERS_MAX: usize = 64;
/// How long the requests of a client's earlier session may take to end before a new one is refused. The client tries again.
const EARLIER_MAX: Duration = Duration::from_secs(8);

/// Who asks, and in whose company.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// The client.
    pub client: ClientId,
    /// Sessions of all clients now.
    pub sessions: u64,
}

/// Carries out requests, of several threads at a time.
pub trait Service: Send + Sync {
    /// The answer to a request, and the bytes that go with it.
    fn serve(&self, asker: Asker, request: Request, payload: Vec<u8>) -> (Reply, Vec<u8>);
}

/// Why a server does not listen.
#[derive(Debug, Error)]
#[error("cannot listen at {address}: {error}")]
pub struct ListenError {
    /// Where.
    pub address: Address,
    /// The reason.
    pub error: io::Error,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn open(address: &Address) -> Result<(Listener, Address), ListenError> {
        let failed = |error| ListenError { address: address.clone(), error };
        match address {
            Address::Tcp(text) => {
                let (listener, bound) = tcp::listen(text).map_err(failed)?;
                Ok((Listener::Tcp(listener), Address::Tcp(bound)))
            }
            Address::Unix(path) => Ok((Listener::Unix(uds::listen(path).map_err(failed)?), address.clone())),
        }
    }

    fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => tcp::accept(listener).map(Stream::Tcp),
            Listener::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
        }
    }
}

struct Job {
    number: u64,
    request: Request,
    payload: Vec<u8>,
}

#[derive(Default)]
struct Work {
    jobs: VecDeque<Job>,
    /// Requests that wait or are carried out.
    under_way: u32,
    workers: u32,
    idle: u32,
    ended: bool,
}

struct Session {
    client: ClientId,
    stream: Stream,
    writer: Mutex<Seal>,
    work: Mutex<Work>,
    changed: Condvar,
}

struct Hall {
    key: Key,
    service: Arc<dyn Service>,
    sessions: Mutex<HashMap<ClientId, Arc<Session>>>,
    left: Condvar,
    strangers: AtomicUsize,
    stopping: AtomicBool,
}

/// A server that listens.
pub struct Server {
    hall: Arc<Hall>,
    addresses: Vec<Address>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Server {
    /// Listens at these addresses, until [`Server::stop`].
    ///
    /// # Errors
    /// The first address at which that cannot be.
    pub fn listen(addresses: &[Address], key: Key, service: Arc<dyn Service>) -> Result<Server, ListenError> {
        let opened = addresses.iter().map(Listener::open).collect::<Result<Vec<_>, _>>()?;
        let (sessions, strangers, stopping) = (Mutex::default(), AtomicUsize::new(0), AtomicBool::new(false));
        let hall = Arc::new(Hall { key, service, sessions, left: Condvar::new(), strangers, stopping });
        let mut bound = Vec::new();
        for (listener, address) in opened {
            let for_thread = hall.clone();
            let thread = std::thread::Builder::new().name("listen".into()).spawn(move || for_thread.welcome_all(&listener));
            thread.map_err(|error| ListenError { address: address.clone(), error })?;
            bound.push(address);
        }
        Ok(Server { hall, addresses: bound })
    }

    /// Where it listens; ports that were left to the system are known here.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Sessions now.
    pub fn sessions(&self) -> usize {
        self.hall.sessions.lock().len()
    }

    /// Takes no more sessions and no more requests, and waits for those under way; false if they take longer than `within`.
    pub fn stop(&self, within: Duration) -> bool {
        self.hall.stopping.store(true, Ordering::Release);
        for address in &self.addresses {
            // Wakes the thread that waits there.
            drop(Stream::connect(address, TICK));
            if let Address::Unix(path) = address {
                let _: io::Result<()> = std::fs::remove_file::<&PathBuf>(path);
            }
        }
        let until = Instant::now() + within;
        let mut sessions = self.hall.sessions.lock();
        sessions.values().for_each(|session| session.stream.end());
        while !sessions.is_empty() {
            if self.hall.left.wait_until(&mut sessions, until).timed_out() {
                return sessions.is_empty();
            }
        }
        true
    }
}

impl Hall {
    fn welcome_all(self: Arc<Hall>, listener: &Listener) {
        loop {
            let accepted = listener.accept();
            if self.stopping.load(Ordering::Acquire) {
                return;
            }
            let stream = match accepted {
                Ok(stream) if self.strangers.load(Ordering::Acquire) < STRANGERS_MAX => stream,
                Ok(_) => continue,
                Err(_) => {
                    // Too many open files, most likely: some will be closed.
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                }
            };
            self.strangers.fetch_add(1, Ordering::AcqRel);
            let hall = self.clone();
            let spawned = std::thread::Builder::new().name("session".into()).spawn(move || {
                // Whoever comes without the key, or does not speak the protocol, has been told so if it understands it.
                let known = hall.greet(stream);
                hall.strangers.fetch_sub(1, Ordering::AcqRel);
                if let Ok((session, seal)) = known {
                    hall.attend(session, seal);
                }
            });
            if spawned.is_err() {
                self.strangers.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    fn greet(&self, stream: Stream) -> Result<(Arc<Session>, Seal), NetError> {
        stream.set_timeouts(TICK, GREETING_MAX)?;
        let (Seals { to_server, mut to_client }, client) = {
            let patient = Patient { stream: &stream, silence_max: GREETING_MAX, heard: Instant::now(), idle: |_| () };
            let mut both = super::client::Greeting(patient);
            handshake::as_server(&mut both, &self.key)?
        };
        stream.set_timeouts(TICK, WRITE_MAX)?;
        let mut sessions = self.sessions.lock();
        let until = Instant::now() + EARLIER_MAX;
        // A request of before may still be at work. It must not come to its end behind what this session asks.
        while let Some(earlier) = sessions.get(&client) {
            earlier.stream.end();
            if self.left.wait_until(&mut sessions, until).timed_out() && sessions.contains_key(&client) {
                drop(sessions);
                handshake::refuse(&mut &stream, &mut to_client, "requests of an earlier session of this client are still under way")?;
                return Err(NetError::Refused(String::new()));
            }
        }
        if sessions.len() >= SESSIONS_MAX || self.stopping.load(Ordering::Acquire) {
            drop(sessions);
            handshake::refuse(&mut &stream, &mut to_client, "the server takes no more sessions now")?;
            return Err(NetError::Refused(String::new()));
        }
        let session = Arc::new(Session { client, stream, writer: Mutex::new(to_client), work: Mutex::default(), changed: Condvar::new() });
        sessions.insert(client, session.clone());
        drop(sessions);
        Ok((session, to_server))
    }

    /// Reads what a session asks until it ends, and leaves when all of it is done.
    fn attend(self: &Arc<Hall>, session: Arc<Session>, seal: Seal) {
        let begun = handshake::welcome(&mut &session.stream, &mut session.writer.lock(), Welcome { requests_max: REQUESTS_MAX });
        if begun.is_ok() {
            // Every end of a connection is an error of reading; the client that is still there will come again.
            let error = self.read_all(&session, seal);
            if !matches!(error, WireError::Io(_)) {
                log::problem(&format!("a session was ended: {error}"));
            }
        }
        session.stream.end();
        let mut work = session.work.lock();
        work.ended = true;
        // What was not begun is asked again.
        work.under_way -= work.jobs.len() as u32;
        work.jobs.clear();
        session.changed.notify_all();
        while work.under_way > 0 {
            session.changed.wait(&mut work);
        }
        drop(work);
        self.sessions.lock().remove(&session.client);
        self.left.notify_all();
    }

    fn read_all(self: &Arc<Hall>, session: &Arc<Session>, mut seal: Seal) -> WireError {
        let patient = Patient { stream: &session.stream, silence_max: SILENCE_MAX, heard: Instant::now(), idle: |_| () };
        let mut reader = BufReader::with_capacity(16 << 10, patient);
        loop {
            let read = read_frame(&mut reader, &mut seal, Limits::SESSION);
            let done = read.and_then(|frame| match frame.kind {
                FrameKind::Request => {
                    let request = postcard::from_bytes(&frame.message).map_err(|_| WireError::Malformed("its message"))?;
                    self.take(session, Job { number: frame.request, request, payload: frame.payload })
                }
                FrameKind::Ping => Ok(session.send(FrameKind::Pong, false, 0, &[], &[])?),
                _ => Err(WireError::Malformed("its kind")),
            });
            if let Err(error) = done {
                return error;
            }
        }
    }

    /// Gives a request to a thread.
    fn take(self: &Arc<Hall>, session: &Arc<Session>, job: Job) -> Result<(), WireError> {
        let mut work = session.work.lock();
        if work.under_way >= REQUESTS_MAX {
            return Err(WireError::Malformed("one more than may be under way"));
        }
        work.under_way += 1;
        work.jobs.push_back(job);
        if work.idle as usize >= work.jobs.len() {
            drop(work);
            session.changed.notify_all();
            return Ok(());
        }
        work.workers += 1;
        let (hall, of_thread) = (self.clone(), session.clone());
        let spawned = std::thread::Builder::new().name("serve".into()).spawn(move || of_thread.work(&hall));
        if let Err(error) = spawned {
            work.workers -= 1;
            if work.workers == 0 {
                work.under_way -= work.jobs.len() as u32;
                work.jobs.clear();
                return Err(error.into());
            }
        }
        Ok(())
    }
}

/// A request that is carried out. If that panics the session must not wait for it.
struct UnderWay<'a>(&'a Session);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stream.end();
        }
        self.0.work.lock().under_way -= 1;
        self.0.changed.notify_all();
    }
}

impl Session {
    fn send(&self, kind: FrameKind, more: bool, request: u64, message: &[u8], payload: &[&[u8]]) -> io::Result<()> {
        let mut seal = self.writer.lock();
        let sent = write_frame(&mut &self.stream, &mut seal, Outgoing { kind, more, request, message, payload });
        if sent.is_err() {
            self.stream.end();
        }
        sent
    }

    /// Carries out requests until the session ends.
    fn work(&self, hall: &Hall) {
        let mut work = self.work.lock();
        loop {
            let Some(job) = work.jobs.pop_front() else {
                if work.ended {
                    work.workers -= 1;
                    return;
                }
                work.idle += 1;
                self.changed.wait(&mut work);
                work.idle -= 1;
                continue;
            };
            drop(work);
            let under_way = UnderWay(self);
            let sessions = hall.sessions.lock().len() as u64;
            let (reply, payload) = hall.service.serve(Asker { client: self.client, sessions }, job.request, job.payload);
            // It is done now, whether its answer arrives or not; and the next request may come as soon as the answer has gone.
            drop(under_way);
            self.answer(job.number, &reply, &payload);
            work = self.work.lock();
        }
    }

    fn answer(&self, number: u64, reply: &Reply, payload: &[u8]) {
        let Ok(message) = postcard::to_allocvec(reply) else {
            return self.stream.end();
        };
        let mut rest = payload;
        let sent = loop {
            let (now, later) = rest.split_at(rest.len().min(PAYLOAD_BYTES_MAX));
            let more = !later.is_empty();
            let message = if more { &[][..] } else { &message };
            let sent = self.send(FrameKind::Reply, more, number, message, &[now]);
            if sent.is_err() || !more {
                break sent;
            }
            rest = later;
        };
        if sent.is_err() {
            self.stream.end();
        }
    }
}
