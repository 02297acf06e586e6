//! The keeper: a small process that outlives the one which serves a mount.
//!
//! It is what the user has started. It runs this program again to serve, holds the connection to the kernel beside it, runs the command,
//! and hands on signals. When the process that serves is killed, the kernel's requests wait, since the connection is still open; the keeper
//! starts another process, which takes the connection over, recovers the buffer and goes on. It never touches the mount itself: what it
//! would wait for, it could not bring back.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child as Process, Command, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use forebay_fuse::Agreed;

use crate::child::Child;
use crate::console::Console;
use crate::error::Error;
use crate::link::{CommandState, Resumed, Socket, ToKeeper, ToServer};
use crate::signals;
use crate::view::recover_command;

/// Processes that may be killed within [`LIMIT_OVER`]; one more is a fault that comes back.
const TAKEOVERS_MAX: usize = 60;
/// Processes in a row that may be killed before they serve.
const UNSERVED_MAX: u32 = 5;
const LIMIT_OVER: Duration = Duration::from_secs(60);

/// What the keeper waits for.
enum News {
    Signal(i32),
    /// From the process of this number, counted from the first.
    Said(u32, ToKeeper, Vec<OwnedFd>),
    ServerEnded(u32, io::Result<ExitStatus>),
    Command(CommandState),
}

/// What the process that serves has left here.
struct Left {
    buffer: PathBuf,
    agreed: Agreed,
    config: Option<String>,
    device: OwnedFd,
    /// None if home is no directory.
    home: Option<OwnedFd>,
}

struct Keeper<'a> {
    arguments: &'a [OsString],
    command: &'a [OsString],
    /// It has a mount namespace of its own.
    over: bool,
    console: Console,
    news: Sender<News>,
    begun: Instant,
    socket: Option<Socket>,
    left: Option<Left>,
    /// Where the buffer is, once something is served.
    buffer: Option<PathBuf>,
    /// Processes in a row that were killed before they served.
    unserved: u32,
    /// Everything is home.
    is_over: bool,
    state: CommandState,
    servers: u32,
    signals: u32,
    signal: Option<i32>,
    killed_at: VecDeque<Instant>,
}

/// Serves in another process, for which `arguments` are those of this one, and goes on with a new one when it is killed. `command` is what
/// the process that serves may ask to be run. Gives the exit status.
pub(crate) fn keep(command: &[OsString], over: bool, arguments: &[OsString], console: Console) -> Result<u8, Error> {
    let (news, receiver) = channel();
    let of_signals = news.clone();
    signals::take(move |signal| of_signals.send(News::Signal(signal)).is_ok())?;
    let mut keeper = Keeper {
        arguments,
        command,
        over,
        console,
        news,
        begun: Instant::now(),
        socket: None,
        left: None,
        buffer: None,
        unserved: 0,
        is_over: false,
        state: CommandState::Unasked,
        servers: 0,
        signals: 0,
        signal: None,
        killed_at: VecDeque::new(),
    };
    keeper.start_server()?;
    keeper.run(&receiver)
}

impl Keeper<'_> {
    fn run(&mut self, news: &Receiver<News>) -> Result<u8, Error> {
        loop {
            match news.recv().map_err(|_| Error::io("keep the instance")(io::ErrorKind::BrokenPipe.into()))? {
                News::Signal(signal) => {
                    self.signals += 1;
                    self.signal = Some(signal);
                    self.tell(&ToServer::Signal(signal));
                }
                News::Said(number, said, descriptors) if number == self.servers => self.heard(said, descriptors)?,
                News::Said(..) => {}
                News::Command(state) => {
                    self.state = state;
                    self.tell(&ToServer::Command(self.state.clone()));
                }
                News::ServerEnded(number, status) if number == self.servers => {
                    if let Some(code) = self.server_ended(status)? {
                        return Ok(code);
                    }
                }
                News::ServerEnded(..) => {}
            }
        }
    }

    fn tell(&self, message: &ToServer) {
        // Whoever takes over is told all of it at the beginning.
        if let Some(socket) = &self.socket {
            let _ = socket.send(message, &[]);
        }
    }

    fn heard(&mut self, said: ToKeeper, descriptors: Vec<OwnedFd>) -> Result<(), Error> {
        match said {
            ToKeeper::Serves { buffer, agreed, config, in_background } => {
                self.unserved = 0;
                if in_background && self.buffer.is_none() {
                    go_to_background(&buffer)?;
                }
                self.buffer = Some(buffer.clone());
                let mut descriptors = descriptors.into_iter();
                if let (Some(agreed), Some(device), home) = (agreed, descriptors.next(), descriptors.next()) {
                    self.left = Some(Left { buffer, agreed, config, device, home });
                }
            }
            ToKeeper::Start { mount, stand } if self.state == CommandState::Unasked => {
                self.state = CommandState::Starting;
                self.start_command(mount, stand)?;
            }
            ToKeeper::Start { .. } => {}
            ToKeeper::Ends => self.is_over = true,
        }
        Ok(())
    }

    /// On a thread of its own: the command is looked up in the mount, and the keeper must not wait for that.
    fn start_command(&self, mount: PathBuf, stand: PathBuf) -> Result<(), Error> {
        let (news, command, over) = (self.news.clone(), self.command.to_vec(), self.over);
        let run = move || {
            if over {
                crate::over::keep_capabilities();
            }
            let started = Instant::now();
            let state = match Child::start(&command, Some(&mount), &stand) {
                Err(error) => CommandState::Refused { code: error.code(), message: error.to_string() },
                Ok(child) => {
                    let _ = news.send(News::Command(CommandState::Running(child.target)));
                    let code = child.wait();
                    CommandState::Ended { code, took_ns: crate::summary::ns(started.elapsed()) }
                }
            };
            // The main thread is gone only if the process is about to end.
            let _ = news.send(News::Command(state));
        };
        std::thread::Builder::new().name("command".into()).spawn(run).map(drop).map_err(Error::io("start a thread"))
    }

    fn start_server(&mut self) -> Result<(), Error> {
        let failed = || Error::io("start the process that serves");
        let (ours, theirs) = Socket::pair().map_err(failed())?;
        let mut server = Command::new("/proc/self/exe");
        server.arg0("forebay").arg("--kept").args(self.arguments).stdin(theirs);
        let process = server.spawn().map_err(failed())?;
        drop(server);
        self.servers += 1;
        self.unserved += 1;
        let resumed = self.left.as_ref().map(|left| Resumed {
            buffer: left.buffer.clone(),
            agreed: left.agreed,
            config: left.config.clone(),
            command: self.state.clone(),
            takeovers: self.servers - 1,
            signals: self.signals,
            signal: self.signal,
            since_ns: crate::summary::ns(self.begun.elapsed()),
        });
        let descriptors = self.left.as_ref().map_or(Vec::new(), |left| std::iter::once(&left.device).chain(&left.home).collect());
        let begin = ToServer::Begin { keeper: std::process::id(), resumed };
        // One that is dead already will be reported so.
        let _ = ours.send(&begin, &descriptors);
        self.watch(process, ours.clone()).map_err(failed())?;
        self.socket = Some(ours);
        Ok(())
    }

    fn watch(&self, mut process: Process, socket: Socket) -> io::Result<()> {
        let (number, news, of_end) = (self.servers, self.news.clone(), self.news.clone());
        let listen = std::thread::Builder::new().name("listen".into()).spawn(move || {
            while let Ok(Some((said, descriptors))) = socket.receive() {
                if news.send(News::Said(number, said, descriptors)).is_err() {
                    return;
                }
            }
        })?;
        let wait = move || {
            let status = process.wait();
            // Everything that it has said comes first.
            let _ = listen.join();
            let _ = of_end.send(News::ServerEnded(number, status));
        };
        std::thread::Builder::new().name("wait".into()).spawn(wait).map(drop)
    }

    /// The process that serves has ended: the exit status, or none if another serves now.
    fn server_ended(&mut self, status: io::Result<ExitStatus>) -> Result<Option<u8>, Error> {
        let status = status.map_err(Error::io("wait for the process that serves"))?;
        let Some(signal) = status.signal() else {
            return Ok(Some(status.code().map_or(crate::error::Exit::Internal as u8, |code| code as u8)));
        };
        let name = signals::name(signal);
        let now = Instant::now();
        self.killed_at.retain(|at| now.duration_since(*at) < LIMIT_OVER);
        self.killed_at.push_back(now);
        let may_go_on = self.unserved <= UNSERVED_MAX && !self.is_over && self.killed_at.len() <= TAKEOVERS_MAX;
        let Some(left) = self.left.as_ref().filter(|_| may_go_on) else {
            self.console.warn(&self.lost(&name));
            return Ok(Some(128u8.saturating_add(signal as u8)));
        };
        self.console
            .detail(&format!("the process that served was killed ({name}); another takes over the buffer {}", left.buffer.display()));
        self.start_server()?;
        Ok(None)
    }

    fn lost(&self, signal: &str) -> String {
        match &self.buffer {
            Some(_) if self.is_over => format!("the process that served was killed ({signal}) when everything was home"),
            Some(buffer) => {
                let next = recover_command(buffer);
                format!("the process that served was killed ({signal}) and cannot be replaced; bring home what it has left:\n  {next}")
            }
            None => format!("the process that served was killed ({signal})"),
        }
    }
}

/// Leaves the terminal alone, and the file system that this was started in: what is said goes to a file in the buffer.
pub(crate) fn go_to_background(buffer: &Path) -> Result<(), Error> {
    let log = std::fs::OpenOptions::new().append(true).create(true).open(buffer.join("log"));
    let log = log.map_err(Error::io("open the log file in the buffer"))?;
    let to_log = |error: rustix::io::Errno| Error::io("turn messages to the log file")(error.into());
    rustix::stdio::dup2_stdout(&log).map_err(to_log)?;
    rustix::stdio::dup2_stderr(&log).map_err(to_log)?;
    std::env::set_current_dir("/").map_err(Error::io("leave the working directory"))
}
