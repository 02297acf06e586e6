//! `forebay mount`: an instance that stays until it is unmounted.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use crate::args::MountArgs;
use crate::config::{SettingError, Settings};
use crate::console::Console;
use crate::drain::End;
use crate::error::Error;
use crate::keeper;
use crate::link::Link;
use crate::mounts;
use crate::session::{Opening, Session};
use crate::signals::{self, Event, Events};

/// The line that tells the parent that the mount is there.
const READY: &str = "ready";
/// How often the kernel is asked whether the mount is still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// `forebay mount`; `arguments` are those of this process, for the one that serves in the background.
pub(crate) fn command(args: &MountArgs, arguments: &[OsString], console: Console) -> Result<u8, Error> {
    if !args.foreground && !args.background_child {
        return start_child(args, arguments, console).map(|()| 0);
    }
    if args.background_child {
        rustix::process::setsid().map_err(|error| Error::io("leave the session of the terminal")(error.into()))?;
    }
    keeper::keep(&[], false, arguments, console)
}

/// What the process does that `forebay mount` keeps.
pub(crate) fn serve(args: &MountArgs, settings: &Settings, mut link: Link, console: Console) -> Result<(), Error> {
    if settings.mount.is_none() {
        return Err(SettingError::NoMount.into());
    }
    crate::run::refuse_hidden_writes(settings)?;
    let events = Events::from_keeper(&link)?;
    let resumed = link.resumed.take();
    let opening = Opening {
        settings,
        role: "mount",
        over: false,
        stoppable: true,
        in_background: args.background_child,
        console,
        command: &[],
        events: &events,
        link: &link,
    };
    if let Some((resumed, legacy)) = resumed {
        let session = Session::resume(&opening, &resumed, legacy)?;
        std::env::set_current_dir("/").map_err(Error::io("leave the working directory"))?;
        if resumed.signals > 0 {
            // The process that was killed may have begun to end, or not.
            let _ = events.sender.send(Event::Signal(signal_hook::consts::SIGTERM));
        }
        return stay(session, settings, &events, &link, console);
    }
    let session = Session::open(&opening)?;
    if args.background_child {
        tell_parent(&session.tag.buffer)?;
    } else {
        console.say(&format!(
            "{} is mounted at {}; end with Ctrl-C or `forebay umount`",
            session.tag.backing.display(),
            session.mount_point().display()
        ));
    }
    stay(session, settings, &events, &link, console)
}

/// Starts this program again, to serve in the background, and waits until it is ready or has failed.
fn start_child(args: &MountArgs, arguments: &[OsString], console: Console) -> Result<(), Error> {
    // The process that serves leaves the working directory, and one that takes over must find the file again.
    let config = args.settings.file().and_then(|path| std::path::absolute(path).ok());
    let config = config.map(|path| [OsString::from("--config"), path.into()]).into_iter().flatten();
    let program = std::env::current_exe().map_err(Error::io("find this program"))?;
    let mut child = Command::new(program)
        .args(arguments)
        .arg("--background-child")
        .args(config)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(Error::io("start the process that serves the mount"))?;
    let mut answer = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut answer).map_err(Error::io("hear from the process that serves the mount"))?;
    }
    if answer.trim_end() == READY {
        console.detail(&format!("process {} serves the mount", child.id()));
        return Ok(());
    }
    // It has told the user why on our standard error, which it shares.
    let status = child.wait().map_err(Error::io("wait for the process that serves the mount"))?;
    match status.code() {
        Some(code) if code != 0 => Err(Error::Told(code as u8)),
        _ => Err(Error::io("mount")(std::io::Error::other(format!(
            "the process that serves the mount ended (signal {:?})",
            status.signal()
        )))),
    }
}

/// Tells the parent that the mount is there, and leaves the terminal alone from now on: what is said goes to a file in the buffer.
fn tell_parent(buffer: &Path) -> Result<(), Error> {
    let mut output = std::io::stdout();
    writeln!(output, "{READY}").and_then(|()| output.flush()).map_err(Error::io("tell the parent process that the mount is there"))?;
    keeper::go_to_background(buffer)
}

/// Serves until a signal, `forebay umount` or an unmounting from outside.
fn stay(session: Session, settings: &Settings, events: &Events, link: &Link, console: Console) -> Result<(), Error> {
    let mut signals_seen = 0;
    let wait_for_users = loop {
        match events.receiver.recv_timeout(LOOK_EVERY) {
            Ok(Event::Signal(signal)) => {
                signals_seen += 1;
                console.warn(&format!("{}: bringing everything home, then unmounting", signals::name(signal)));
                break true;
            }
            Ok(Event::Stop) => break false,
            Ok(Event::Command(_) | Event::Drained(_)) => {}
            Err(RecvTimeoutError::Disconnected) => break false,
            Err(RecvTimeoutError::Timeout) => {
                if mounts::mounted_at(session.mount_point()).is_none() {
                    console.warn(&format!("{} was unmounted from outside; bringing everything home", session.mount_point().display()));
                    break false;
                }
            }
        }
    };
    let (mut end, _) = session.drain(events, console, &mut signals_seen)?;
    if end == End::Clean && wait_for_users {
        session.wait_until_free(Duration::from_nanos(settings.busy_wait_ns), events, console, &mut signals_seen);
        (end, _) = session.drain(events, console, &mut signals_seen)?;
    }
    session.close(end, settings.keep, link).result
}
