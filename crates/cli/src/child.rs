//! The command that runs inside the mount: its start, its end, and signals on their way to it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Exit};

/// A running command. Its number stays taken until this is dropped and this process has ended, so that no signal can hit a stranger.
#[derive(Debug)]
pub(crate) struct Child {
    _process: std::process::Child,
    pub(crate) target: Target,
}

/// What signals for the command are sent to.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct Target {
    pid: i32,
    /// The command leads a process group of its own.
    own_group: bool,
}

/// There is a terminal that controls this process.
///
/// With one, the command must stay in our process group: the terminal lets only the group in the foreground read and write, and Ctrl-C, Ctrl-Z
/// and `fg` reach that group as a whole. Without one (a batch job, a service), a group of its own lets a signal reach all of the command.
fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

/// Why a command could not be started, as a shell would put it.
fn refusal(name: &OsString, error: &io::Error) -> Error {
    let shown = Path::new(name).display();
    let relative = Path::new(name).components().count() > 1 && Path::new(name).is_relative();
    let (exit, mut message) = match error.kind() {
        io::ErrorKind::NotFound => (Exit::NotFound, format!("{shown}: command not found")),
        _ => (Exit::NotExecutable, format!("{shown}: cannot be executed: {error}")),
    };
    if relative && exit == Exit::NotFound && Path::new(name).exists() {
        let here = std::path::absolute(name).unwrap_or_default();
        message += &format!("; a relative path is looked up in the mount, not here: write {}", here.display());
    }
    Error::Coded { message, exit }
}

impl Child {
    /// Starts `command` in the directory `stand`, which is looked up anew: what is mounted over it now is where the command stands. It is told
    /// where an instance is mounted.
    pub(crate) fn start(command: &[OsString], mount: Option<&Path>, stand: &Path) -> Result<Child, Error> {
        let (name, arguments) = command.split_first().ok_or_else(|| Error::usage("no command is given"))?;
        let own_group = !has_terminal();
        let mut builder = Command::new(name);
        builder.args(arguments).current_dir(stand).env("PWD", stand);
        builder.envs(mount.map(|mount| ("FOREBAY_MOUNT", mount)));
        if own_group {
            builder.process_group(0);
        }
        let process = builder.spawn().map_err(|error| refusal(name, &error))?;
        let target = Target { pid: Pid::from_child(&process).as_raw_nonzero().get(), own_group };
        Ok(Child { _process: process, target })
    }

    /// Waits for its end; gives the status as a shell would show it.
    pub(crate) fn wait(&self) -> u8 {
        let Some(pid) = Pid::from_raw(self.target.pid) else { return Exit::Internal as u8 };
        loop {
            // Not reaped: while its number is taken, a signal cannot hit a stranger.
            match rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(Some(status)) => {
                    let signal = status.terminating_signal().map(|signal| 128u8.saturating_add(signal as u8));
                    return status.exit_status().map(|code| code as u8).or(signal).unwrap_or(Exit::Internal as u8);
                }
                Ok(None) | Err(_) => return Exit::Internal as u8,
            }
        }
    }
}

impl Target {
    /// Hands on a signal that asks to end.
    pub(crate) fn forward(&self, signal: i32) {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT};
        // Ctrl-C and Ctrl-\ at the terminal have reached the whole group already; twice means "abort" to many programs.
        if !self.own_group && (signal == SIGINT || signal == SIGQUIT) {
            return;
        }
        self.send(match signal {
            SIGHUP => Signal::HUP,
            SIGINT => Signal::INT,
            SIGQUIT => Signal::QUIT,
            _ => Signal::TERM,
        });
        // A stopped process sees no signal but this.
        self.send(Signal::CONT);
    }

    /// Ends it, whatever it does.
    pub(crate) fn kill(&self) {
        self.send(Signal::KILL);
    }

    fn send(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        // A process that has ended meanwhile needs no signal.
        if self.own_group {
            let _ = rustix::process::kill_process_group(pid, signal);
            return;
        }
        for pid in descendants(pid) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

/// `root` and all processes that come from it, parents first.
fn descendants(root: Pid) -> Vec<Pid> {
    let mut parents: Vec<(i32, i32)> = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(1)?.parse().ok());
        parents.extend(parent.map(|parent: i32| (pid, parent)));
    }
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at].as_raw_nonzero().get();
        found.extend(parents.iter().filter(|(_, p)| *p == parent).filter_map(|(pid, _)| Pid::from_raw(*pid)));
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &[&str], act: impl FnOnce(&Target)) -> u8 {
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let child = Child::start(&command, Some(Path::new("/")), Path::new("/")).unwrap();
        act(&child.target);
        child.wait()
    }

    #[test]
    fn the_status_is_that_of_a_shell() {
        assert_eq!(run(&["true"], |_| ()), 0);
        assert_eq!(run(&["sh", "-c", "exit 7"], |_| ()), 7);
        assert_eq!(run(&["sh", "-c", "kill -KILL $$"], |_| ()), 137);
        assert_eq!(run(&["sh", "-c", "test \"$PWD\" = / && test \"$FOREBAY_MOUNT\" = /"], |_| ()), 0);
    }

    #[test]
    fn a_signal_reaches_the_command_and_what_it_started() {
        let status = run(&["sh", "-c", "cat /dev/zero > /dev/null; true"], |child| child.forward(signal_hook::consts::SIGTERM));
        assert_eq!(status, 143);
        let status = run(&["sh", "-c", "trap '' TERM; while :; do sleep 1; done"], Target::kill);
        assert_eq!(status, 137);
    }

    #[test]
    fn a_command_that_cannot_start_is_refused_as_by_a_shell() {
        for (name, code) in [("forebay-no-such-command", 127), ("/no/such/command", 127), ("/etc/passwd", 126), ("/", 126)] {
            let error = Child::start(&[name.into()], None, Path::new("/")).unwrap_err();
            assert_eq!(error.code(), code, "{error}");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
