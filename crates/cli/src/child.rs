//! The command that runs inside the mount: its start, its end, and signals on their way to it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::Sender;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::error::{Error, Exit};
use crate::signals::Event;

/// A running command.
#[derive(Debug)]
pub(crate) struct Child {
    process: std::process::Child,
    pid: Pid,
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
    /// Starts `command` in the directory `stand`, which is looked up anew: what is mounted over it now is where the command stands. Its end is
    /// told to `events`.
    pub(crate) fn start(command: &[OsString], mount: &Path, stand: &Path, events: Sender<Event>) -> Result<Child, Error> {
        let (name, arguments) =
            command.split_first().ok_or_else(|| Error::Coded { message: "no command is given".into(), exit: Exit::Usage })?;
        let own_group = !has_terminal();
        let mut builder = Command::new(name);
        builder.args(arguments).current_dir(stand).env("FOREBAY_MOUNT", mount).env("PWD", stand);
        if own_group {
            builder.process_group(0);
        }
        let process = builder.spawn().map_err(|error| refusal(name, &error))?;
        let pid = Pid::from_child(&process);
        std::thread::Builder::new()
            .name("wait".into())
            .spawn(move || {
                // Not reaped here: while its number is taken, a signal cannot hit a stranger.
                while let Err(rustix::io::Errno::INTR) =
                    rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
                {}
                // The main thread is gone only if the process is about to end.
                let _ = events.send(Event::ChildEnded);
            })
            .map_err(Error::io("start a thread"))?;
        Ok(Child { process, pid, own_group })
    }

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
        // A process that has ended meanwhile needs no signal.
        if self.own_group {
            let _ = rustix::process::kill_process_group(self.pid, signal);
            return;
        }
        for pid in descendants(self.pid) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Its status, once [`Event::ChildEnded`] has come.
    pub(crate) fn reap(mut self) -> Result<ExitStatus, Error> {
        self.process.wait().map_err(Error::io("wait for the command"))
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

/// The exit status that a shell would show for `status`.
pub(crate) fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, signal) => 128u8.saturating_add(signal.unwrap_or(127) as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    fn run(command: &[&str], act: impl FnOnce(&Child)) -> ExitStatus {
        let (sender, receiver) = channel();
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let child = Child::start(&command, Path::new("/"), Path::new("/"), sender).unwrap();
        act(&child);
        assert!(matches!(receiver.recv_timeout(Duration::from_secs(30)), Ok(Event::ChildEnded)));
        child.reap().unwrap()
    }

    #[test]
    fn the_status_is_that_of_a_shell() {
        assert_eq!(code(run(&["true"], |_| ())), 0);
        assert_eq!(code(run(&["sh", "-c", "exit 7"], |_| ())), 7);
        assert_eq!(code(run(&["sh", "-c", "kill -KILL $$"], |_| ())), 137);
        assert_eq!(code(run(&["sh", "-c", "test \"$PWD\" = / && test \"$FOREBAY_MOUNT\" = /"], |_| ())), 0);
    }

    #[test]
    fn a_signal_reaches_the_command_and_what_it_started() {
        let status = run(&["sh", "-c", "cat /dev/zero > /dev/null; true"], |child| child.forward(signal_hook::consts::SIGTERM));
        assert_eq!(code(status), 143);
        let status = run(&["sh", "-c", "trap '' TERM; while :; do sleep 1; done"], Child::kill);
        assert_eq!(code(status), 137);
    }

    #[test]
    fn a_command_that_cannot_start_is_refused_as_by_a_shell() {
        for (name, code) in [("forebay-no-such-command", 127), ("/no/such/command", 127), ("/etc/passwd", 126), ("/", 126)] {
            let (sender, _receiver) = channel();
            let error = Child::start(&[name.into()], Path::new("/"), Path::new("/"), sender).unwrap_err();
            assert_eq!(error.code(), code, "{error}");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
