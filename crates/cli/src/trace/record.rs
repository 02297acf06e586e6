//! `forebay trace -- CMD`: a command in a directory that is seen through a mount, and all that it does there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use forebay_client::Client;
use forebay_fuse::{Empty, MountError, MountOptions, Mounted, PassThrough};
use rustix::process::{Resource, Rlimit};

use super::args::RecordArgs;
use crate::child::{Child, Target};
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::link::CommandState;
use crate::signals::{Event, Events};
use crate::tracing::Tracing;
use crate::{engine, mounts, over, places};

/// For how long the kernel keeps names and attributes: others may change the directory behind the mount.
const NAMES_VALID: Duration = Duration::from_secs(1);
/// Threads that serve: calls on the directory behind may wait for its disk, each on its thread.
const THREADS: usize = 16;
/// The longest read or write of one request; the kernel divides longer ones.
const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// How long processes that the command has left behind may take to end.
const LEFT_BEHIND: Duration = Duration::from_secs(10);

/// What is to be done, with absolute paths.
struct Plan {
    directory: PathBuf,
    /// Where the command stands.
    stand: PathBuf,
    /// None if nothing is to be written down.
    out: Option<PathBuf>,
}

fn plan(args: &RecordArgs) -> Result<Plan, Error> {
    let name = args.command.first().ok_or_else(|| Error::usage("no command is given: forebay trace [--dir DIR] [-o FILE.fbt] -- CMD"))?;
    let stand = std::env::current_dir().map_err(Error::io("find the working directory"))?;
    let given = args.dir.clone().unwrap_or_else(|| stand.clone());
    let wrong = |reason: String| {
        let message = format!("{} cannot be traced: {reason}; name a directory with --dir", given.display());
        Error::Coded { message, exit: Exit::Config }
    };
    let directory = given.canonicalize().map_err(|error| wrong(error.to_string()))?;
    if !directory.is_dir() {
        return Err(wrong("it is no directory".into()));
    }
    let default = || {
        let mut file = Path::new(name).file_name().unwrap_or(name).to_owned();
        file.push(".fbt");
        PathBuf::from(file)
    };
    let out = match args.no_record {
        true => None,
        false => Some(places::output("the trace", &args.out.clone().unwrap_or_else(default))?),
    };
    Ok(Plan { directory, stand, out })
}

fn mount(args: &RecordArgs, plan: &Plan, tracing: Option<&Tracing>) -> Result<Mounted, Error> {
    let options = MountOptions {
        mountpoint: plan.directory.clone(),
        // Nobody but the command and what it starts can see it: other users may be among these.
        allow_other: true,
        kernel_write_back: false,
        write_bytes_max: TRANSFER_BYTES_MAX,
        threads: THREADS,
        source: "forebay-trace".into(),
        virtual_files: Vec::new(),
        sees_all: true,
        names_valid: NAMES_VALID,
        recorder: tracing.map(Tracing::recorder),
    };
    let failed = |error: MountError| Error::Unavailable(error.to_string());
    if args.empty {
        return forebay_fuse::mount(Client::new(Empty::default()), options).map_err(failed);
    }
    let behind = PassThrough::new(&plan.directory).map_err(Error::io(format!("open {}", plan.directory.display())))?;
    forebay_fuse::mount(Client::new(behind), options).map_err(failed)
}

/// Starts the command; what becomes of it comes as events. On a thread of its own, which may do no more than the user.
fn start(command: &[OsString], stand: &Path, events: Sender<Event>) -> Result<(), Error> {
    let (command, stand) = (command.to_vec(), stand.to_owned());
    let run = move || {
        over::keep_capabilities();
        let state = match Child::start(&command, None, &stand) {
            Err(error) => CommandState::Refused { code: error.code(), message: error.to_string() },
            Ok(child) => {
                let _ = events.send(Event::Command(CommandState::Running(child.target)));
                CommandState::Ended { code: child.wait(), took_ns: 0 }
            }
        };
        // The main thread is gone only if the process is about to end.
        let _ = events.send(Event::Command(state));
    };
    std::thread::Builder::new().name("command".into()).spawn(run).map(drop).map_err(Error::io("start a thread"))
}

/// This process holds a descriptor for what the kernel knows, as far as it may. The command keeps its own limit.
fn allow_descriptors() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    // What is refused is done without.
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Waits for the end of the command, and hands signals on to it.
fn wait(events: &Receiver<Event>) -> Result<u8, Error> {
    let mut target: Option<Target> = None;
    let mut early = Vec::new();
    let mut signals = 0;
    loop {
        match events.recv().map_err(|_| Error::io("hear of the command")(std::io::ErrorKind::BrokenPipe.into()))? {
            Event::Command(CommandState::Running(running)) => {
                target = Some(running);
                early.drain(..).for_each(|signal| running.forward(signal));
                allow_descriptors();
            }
            Event::Command(CommandState::Ended { code, .. }) => return Ok(code),
            Event::Command(CommandState::Refused { code, message }) => return Err(Error::Refused { code, message }),
            Event::Signal(signal) => {
                signals += 1;
                match target {
                    // Who asks a third time is heard.
                    Some(target) if signals > 2 => target.kill(),
                    Some(target) => target.forward(signal),
                    None => early.push(signal),
                }
            }
            Event::Command(_) | Event::Drained(_) | Event::Stop => {}
        }
    }
}

/// Waits for processes that the command has left behind in the mount; has them at least store what they have mapped.
fn wait_for_others(directory: &Path, events: &Receiver<Event>, console: Console) {
    let until = Instant::now() + LEFT_BEHIND;
    let mut told = false;
    loop {
        let users = mounts::users(directory, mounts::Sees::Our, &[]);
        let left = until.saturating_duration_since(Instant::now());
        if users.is_empty() {
            // The kernel brings what was mapped when it unmounts.
            return;
        }
        if left.is_zero() {
            let _ = engine::flush_kernel(directory);
            return;
        }
        if !told {
            console.warn(&format!("{} is in use by {}; waiting up to {} s", directory.display(), mounts::describe(&users), left.as_secs()));
            told = true;
        }
        match events.recv_timeout(left.min(Duration::from_millis(50))) {
            Ok(Event::Signal(_)) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Makes a trace; gives the exit status of the command.
pub(super) fn command(args: &RecordArgs, console: Console) -> Result<u8, Error> {
    let plan = plan(args)?;
    // The kernel refuses it to a process with several threads.
    over::enter(over::Asker::TRACE)?;
    let events = Events::take_signals()?;
    let tracing = match &plan.out {
        Some(out) => Some(Tracing::start(out.clone(), &plan.directory, &args.command, &[])?),
        None => None,
    };
    let mounted = mount(args, &plan, tracing.as_ref())?;
    console.detail(&format!("mounted over {}", mounted.mountpoint().display()));
    start(&args.command, &plan.stand, events.sender.clone())?;
    let status = wait(&events.receiver);
    wait_for_others(&plan.directory, &events.receiver, console);
    tracing.iter().for_each(Tracing::settle);
    let unmounted = mounted.unmount().map_err(Error::io(format!("unmount {}", plan.directory.display())));
    let traced = tracing.map_or(Ok(()), |tracing| tracing.finish(None, console));
    let code = status?;
    if code == 0 {
        unmounted?;
        traced?;
    } else if let Err(error) = unmounted.and(traced) {
        console.warn(&error.to_string());
    }
    Ok(code)
}
