//! `forebay run`: a command inside a buffered view of a directory.

use std::ffi::OsString;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use crate::child::Target;
use crate::config::Settings;
use crate::console::Console;
use crate::drain::End;
use crate::error::{Error, Exit};
use crate::link::{CommandState, Link, ToKeeper};
use crate::places;
use crate::session::{Closed, Opening, Session};
use crate::signals::{self, Event, Events};
use crate::summary::{Outcome, Report, Times, ns};

/// How the command ended.
struct Ran {
    /// Its status; an error if it could not be started.
    status: Result<u8, Error>,
    took: Duration,
}

/// One run, as far as it has come.
struct Run<'a> {
    settings: &'a Settings,
    command: &'a [OsString],
    console: Console,
    events: Events,
    /// Signals that asked to end, so far.
    signals_seen: u32,
    begun: Instant,
    /// How far the command had come when this process was started.
    state: CommandState,
    takeovers: u32,
    /// A signal that the command has yet to be told.
    early: Option<i32>,
}

/// `forebay run`: the exit status of the command, or an error with a status of its own.
pub(crate) fn command(settings: &Settings, over: bool, command: &[OsString], mut link: Link, console: Console) -> Result<u8, Error> {
    if over && settings.mount.is_some() {
        let message = "--over mounts over the backing directory, but a place to mount is set; leave one of the two out".into();
        return Err(Error::Coded { message, exit: Exit::Usage });
    }
    refuse_hidden_writes(settings)?;
    let stand = if over { Some(std::env::current_dir().map_err(Error::io("find the working directory"))?) } else { None };
    let report_path = match &settings.report {
        // It was checked; now it may lie in the mount, which nobody serves yet.
        Some(path) if link.resumed.is_some() => Some(std::path::absolute(path).map_err(Error::io("find the working directory"))?),
        Some(path) => Some(places::output("the report", path)?),
        None => None,
    };
    let events = Events::from_keeper(&link)?;
    let resumed = link.resumed.take();
    let mut run = Run {
        settings,
        command,
        console,
        events,
        signals_seen: 0,
        begun: Instant::now(),
        state: CommandState::Unasked,
        takeovers: 0,
        early: None,
    };
    let opening =
        Opening { settings, role: "run", over, stoppable: false, in_background: false, console, command, events: &run.events, link: &link };
    let session = match resumed {
        Some((resumed, legacy)) => {
            let session = Session::resume(&opening, &resumed, legacy)?;
            let before = Duration::from_nanos(resumed.since_ns);
            (run.state, run.signals_seen, run.takeovers) = (resumed.command, resumed.signals, resumed.takeovers);
            // The process that was killed may have handed it on, or not.
            run.early = resumed.signal;
            run.begun = run.begun.checked_sub(before).unwrap_or(run.begun);
            session
        }
        None => Session::open(&opening)?,
    };
    console.detail(&format!("mounted at {}", session.mount_point().display()));
    let ran = run.child(&link, session.mount_point(), stand.as_deref());
    let (end, drain_time) = run.bring_home(&session)?;
    let tag = session.tag.clone();
    let closed = session.close(end, settings.keep, &link);
    let (report, result) = run.report(ran, drain_time, closed, &tag);
    if report.command_status.is_some() {
        console.say_plain(&report.text());
    }
    match report_path.map(|path| write_report(&report, &path)) {
        // A worse end is not hidden by a report that could not be written.
        Some(Err(error)) if matches!(result, Ok(0)) => Err(error),
        Some(Err(error)) => {
            console.warn(&error.to_string());
            result
        }
        _ => result,
    }
}

/// A trace is to hold what programs write, not what the kernel makes of it later.
pub(crate) fn refuse_hidden_writes(settings: &Settings) -> Result<(), Error> {
    if settings.trace.is_some() && settings.kernel_write_back {
        let message = "a trace needs to see every write, which --kernel-cache write-back holds back; leave one of the two out";
        return Err(Error::Coded { message: message.into(), exit: Exit::Usage });
    }
    Ok(())
}

fn write_report(report: &Report, path: &Path) -> Result<(), Error> {
    let mut text = serde_json::to_vec_pretty(report).map_err(|error| Error::io("write the report")(error.into()))?;
    text.push(b'\n');
    std::fs::write(path, text).map_err(Error::io(format!("write the report {}", path.display())))
}

impl Run<'_> {
    /// Has the command run until it has ended, by itself or by a signal that asked to end.
    fn child(&mut self, link: &Link, mount: &Path, stand: Option<&Path>) -> Ran {
        if self.state == CommandState::Unasked {
            link.tell(&ToKeeper::Start { mount: mount.into(), stand: stand.unwrap_or(mount).into() });
        }
        let grace = Duration::from_nanos(self.settings.grace_ns);
        let mut kill_at = (self.signals_seen > 0).then(|| Instant::now() + grace);
        loop {
            let target = match &self.state {
                CommandState::Ended { code, took_ns } => return Ran { status: Ok(*code), took: Duration::from_nanos(*took_ns) },
                CommandState::Refused { code, message } => {
                    let status = Err(Error::Refused { code: *code, message: message.clone() });
                    return Ran { status, took: Duration::ZERO };
                }
                CommandState::Running(target) => Some(*target),
                CommandState::Unasked | CommandState::Starting => None,
            };
            if let Some(target) = target {
                self.early.take().into_iter().for_each(|signal| target.forward(signal));
            }
            let event = match kill_at {
                Some(at) => self.events.receiver.recv_timeout(at.saturating_duration_since(Instant::now())),
                None => self.events.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(Event::Command(state)) => self.state = state,
                Err(RecvTimeoutError::Disconnected) => {
                    return Ran {
                        status: Err(Error::io("hear of the command")(std::io::ErrorKind::BrokenPipe.into())),
                        took: Duration::ZERO,
                    };
                }
                Ok(Event::Signal(signal)) => {
                    self.signals_seen += 1;
                    if kill_at.is_none() {
                        self.console.warn(&format!("{}: ending the command, then bringing home what it wrote", signals::name(signal)));
                        self.early = Some(signal);
                        kill_at = Some(Instant::now() + grace);
                    } else {
                        target.as_ref().map(Target::kill);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.console.warn(&format!("the command did not end within {} s of the signal; killing it", grace.as_secs_f64()));
                    target.as_ref().map(Target::kill);
                    // Again, in case it has started more processes meanwhile.
                    kill_at = Some(Instant::now() + grace.max(Duration::from_secs(1)));
                }
                Ok(Event::Drained(_) | Event::Stop) => {}
            }
        }
    }

    /// Drains; then waits for processes that stayed behind in the mount, and drains what they wrote.
    fn bring_home(&mut self, session: &Session) -> Result<(End, Duration), Error> {
        let (end, first) = session.drain(&self.events, self.console, &mut self.signals_seen)?;
        if end != End::Clean {
            return Ok((end, first));
        }
        let wait = Duration::from_nanos(self.settings.busy_wait_ns);
        if !session.wait_until_free(wait, &self.events, self.console, &mut self.signals_seen) {
            return Ok((end, first));
        }
        let (end, second) = session.drain(&self.events, self.console, &mut self.signals_seen)?;
        Ok((end, first + second))
    }

    fn report(&self, ran: Ran, drain_time: Duration, closed: Closed, tag: &crate::registry::Tag) -> (Report, Result<u8, Error>) {
        let command_status = ran.status.as_ref().ok().copied();
        let drained = closed.end == End::Clean;
        let result = match (closed.result, ran.status) {
            (Ok(()), status) => status,
            (Err(error), Ok(_)) => Err(error),
            (Err(error), Err(start)) => {
                self.console.warn(&start.to_string());
                Err(error)
            }
        };
        let outcome = Outcome {
            command: self.command.iter().map(|part| part.to_string_lossy().into_owned()).collect(),
            exit_status: result.as_ref().map_or_else(Error::code, |status| *status),
            command_status,
            drained,
            buffer_kept: self.settings.keep || !drained,
            message: result.as_ref().err().map(ToString::to_string),
            failures: if let End::Failed(failures) = closed.end { failures } else { Vec::new() },
            takeovers: self.takeovers,
            times: Times { application_ns: ns(ran.took), drain_ns: ns(drain_time), total_ns: ns(self.begun.elapsed()) },
        };
        (Report::new(outcome, &closed.status, tag, self.settings), result)
    }
}
