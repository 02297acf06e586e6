//! The side of the instance.

use std::io::{self, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::files_server::Conversation;
use super::{Answer, Ask, Command, Ended, PROGRESS_EVERY, VERSION, read_line, telling, with_socket_path, write_line};
use crate::console::Progress;
use crate::engine::Engine;
use crate::mounts;
use crate::rates::{self, RateBooks};
use crate::registry::Tag;
use crate::signals::Event;
use crate::view::{FailureView, InstanceView, StatusView};

/// Connections at a time; a further one is refused.
const CONNECTIONS_MAX: usize = 16;
/// How long the one who asks may take for it.
const ASK_WITHIN: Duration = Duration::from_secs(10);

/// What the connections share.
struct Shared {
    engine: Arc<Engine>,
    tag: Tag,
    /// Wakes the main thread; nothing if the instance cannot be stopped this way.
    stop: Option<Mutex<Sender<Event>>>,
    ended: Mutex<Option<Ended>>,
    ended_now: Condvar,
    connections: AtomicUsize,
    rates: RateBooks,
}

/// Answers on the control socket until the process ends.
pub(crate) struct ControlServer {
    shared: Arc<Shared>,
}

impl ControlServer {
    /// Listens in the buffer directory of the instance that `tag` names. A request to stop is sent to `stop`, if there is one.
    pub(crate) fn start(engine: Arc<Engine>, tag: Tag, stop: Option<Sender<Event>>) -> io::Result<ControlServer> {
        let listener = listen(&tag.buffer)?;
        let shared = Arc::new(Shared {
            engine,
            tag,
            stop: stop.map(Mutex::new),
            ended: Mutex::default(),
            ended_now: Condvar::new(),
            connections: AtomicUsize::new(0),
            rates: RateBooks::default(),
        });
        watch_rates(&shared)?;
        let for_thread = shared.clone();
        std::thread::Builder::new().name("control".into()).spawn(move || accept(&listener, &for_thread))?;
        Ok(ControlServer { shared })
    }

    /// Tells those who wait for it how the instance ended, and gives them a moment to hear it.
    pub(crate) fn tell_end(&self, ended: Ended) {
        *self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
        self.shared.ended_now.notify_all();
        let until = Instant::now() + Duration::from_secs(1);
        while self.shared.connections.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Looks at the instance every now and then, as long as it is there.
fn watch_rates(shared: &Arc<Shared>) -> io::Result<()> {
    let watched = Arc::downgrade(shared);
    let watch = move || {
        while let Some(shared) = watched.upgrade() {
            shared.rates.note(&shared.engine.status());
            drop(shared);
            std::thread::sleep(rates::NOTE_EVERY);
        }
    };
    std::thread::Builder::new().name("rates".into()).spawn(watch).map(drop)
}

fn listen(buffer: &Path) -> io::Result<UnixListener> {
    with_socket_path(buffer, |path| {
        // One that a crash left; the buffer's lock says that nobody listens there.
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    })
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { continue };
        if shared.connections.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            shared.connections.fetch_sub(1, Ordering::AcqRel);
            // Whoever is refused may be gone already.
            let _ = write_line(&mut stream, &Answer::Refused { reason: "too many ask at once; try again".into() });
            continue;
        }
        let for_thread = shared.clone();
        let started = std::thread::Builder::new().name("control".into()).spawn(move || {
            // An error means that the one who asked is gone: there is nobody to tell.
            let _ = for_thread.serve(stream);
            for_thread.connections.fetch_sub(1, Ordering::AcqRel);
        });
        if started.is_err() {
            shared.connections.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Shared {
    fn serve(&self, mut stream: UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(ASK_WITHIN))?;
        stream.set_write_timeout(Some(ASK_WITHIN))?;
        let refused = |reason: String| Answer::Refused { reason };
        let for_reading = stream.try_clone()?;
        let mut lines = BufReader::new(&for_reading);
        let ask: Ask = match read_line(&mut lines) {
            Ok(Some(ask)) => ask,
            Ok(None) => return Ok(()),
            Err(error) => return write_line(&mut stream, &refused(format!("the request cannot be understood: {error}"))),
        };
        if ask.version != VERSION {
            let reason =
                format!("the instance is of version {} and does not understand this forebay; use that version", self.tag.program_version);
            return write_line(&mut stream, &refused(reason));
        }
        match ask.command {
            Command::Status => {
                let status = self.engine.status();
                let rates = self.rates.over(&status);
                let status = StatusView { rates, ..StatusView::from(&status) };
                write_line(&mut stream, &Answer::Status(Box::new(InstanceView::new(&self.tag, "running", Some(status)))))
            }
            Command::Files => Conversation::serve(&self.engine, &self.tag, stream, lines),
            Command::Drain => self.drain(&mut stream),
            Command::Stop { force } => match self.why_not_stop(force) {
                Some(reason) => write_line(&mut stream, &refused(reason)),
                None => self.follow_stop(&mut stream),
            },
        }
    }

    fn progress(&self) -> Answer {
        Answer::Progress(Progress::from(&self.engine.status()))
    }

    fn drain(&self, stream: &mut UnixStream) -> io::Result<()> {
        let failures = telling(|| self.engine.drain(self.tag.mount.as_deref()), || write_line(stream, &self.progress()))?;
        let failures = failures.iter().map(FailureView::from).collect();
        write_line(stream, &Answer::Ended(Ended { failures, message: None }))
    }

    fn why_not_stop(&self, force: bool) -> Option<String> {
        if self.stop.is_none() {
            return Some(format!(
                "it belongs to `forebay {}` (process {}), which unmounts by itself when it is done; end that with: kill {}",
                self.tag.role, self.tag.process.pid, self.tag.process.pid
            ));
        }
        let users = self
            .tag
            .mount
            .as_deref()
            .filter(|_| !force)
            .map(|mount| mounts::users(mount, mounts::Sees::Any, &[self.tag.process.pid]))
            .unwrap_or_default();
        (!users.is_empty())
            .then(|| format!("the mount is in use by {}; end them, or detach it from them with --force", mounts::describe(&users)))
    }

    fn follow_stop(&self, stream: &mut UnixStream) -> io::Result<()> {
        if let Some(stop) = &self.stop {
            // The main thread is gone only if the process is about to end.
            let _ = stop.lock().unwrap_or_else(PoisonError::into_inner).send(Event::Stop);
        }
        loop {
            let waiting = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let (waiting, _) =
                self.ended_now.wait_timeout_while(waiting, PROGRESS_EVERY, |ended| ended.is_none()).unwrap_or_else(PoisonError::into_inner);
            if let Some(ended) = waiting.clone() {
                return write_line(stream, &Answer::Ended(ended));
            }
            drop(waiting);
            write_line(stream, &self.progress())?;
        }
    }
}
