//! Processes under test: found, started, watched with a deadline, and never left behind.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// Longer than anything takes on a busy machine: who waits so long waits for ever.
pub const DEADLINE: Duration = Duration::from_secs(180);

/// Whether the condition came true before the deadline.
pub fn eventually(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + deadline;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A program of this workspace: `forebay`, `slowfs`, `exercise` or `volatile-disk`, as it was built with the tests.
///
/// # Panics
/// When it has not been built.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    if name == "forebay"
        && let Some(path) = std::env::var_os("FOREBAY_BIN")
    {
        return path.into();
    }
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(Path::parent).expect("a test stands in target/PROFILE/deps");
    let path = folder.join(name);
    assert!(path.exists(), "{} is not built: cargo build --profile test -p forebay-cli -p forebay-bench -p forebay-tests", path.display());
    path
}

/// What a test needs of the machine. Says `SKIPPED` and why when something is missing.
#[must_use]
pub fn machine_has(programs: &[&str]) -> bool {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&search).chain(["/usr/sbin".into(), "/sbin".into()]).collect();
    let missing = programs.iter().find(|program| !folders.iter().any(|folder| folder.join(program).exists()));
    let why = match missing {
        Some(program) => Some(format!("{program} is not installed (scripts/setup)")),
        None => match File::options().read(true).write(true).open("/dev/fuse") {
            Ok(_) => None,
            Err(error) => Some(format!("/dev/fuse: {error} (scripts/setup)")),
        },
    };
    if let Some(why) = &why {
        // A CI machine has everything: there, to skip would be to pass without a test.
        assert!(std::env::var_os("CI").is_none(), "the machine lacks something that the tests need: {why}");
        eprintln!("SKIPPED: {why}");
    }
    why.is_none()
}

/// Where scripts/setup put numpy, Arrow, Dask and maturin; says `SKIPPED` if it could not.
#[must_use]
pub fn python_packages() -> Option<PathBuf> {
    let version = run("python3", &["-c", "import sys; print('%d.%d' % sys.version_info[:2], end='')"]);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let folder = cache.map(|cache| cache.join(format!("forebay/python-{version}-1"))).filter(|folder| folder.is_dir());
    if folder.is_none() {
        eprintln!("SKIPPED: numpy, pyarrow, dask and maturin are not there (scripts/setup)");
    }
    folder
}

/// Whether this process may do everything.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A process in a group of its own; the whole group is killed when this is dropped.
pub struct Process {
    child: Child,
    what: String,
    /// Standard output and error, each into a file.
    stdout: PathBuf,
    stderr: PathBuf,
    status: Option<ExitStatus>,
}

/// How a process ended and what it said.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// What was run.
    pub what: String,
}

impl Ended {
    /// The exit code; 128 and the signal's number, as a shell has it, for one that was killed.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Fails with everything that it said unless it ended with this code.
    ///
    /// # Panics
    /// When it ended with another code.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Ended {
        assert!(
            self.code() == code,
            "{}\nended with {} instead of {code}\n--- standard output\n{}\n--- standard error\n{}",
            self.what,
            self.code(),
            self.stdout,
            self.stderr
        );
        self
    }
}

impl Process {
    /// Starts a command; its output goes to files in `output` that begin with `name`.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(mut command: Command, output: &Path, name: &str) -> Process {
        let (stdout, stderr) = (output.join(format!("{name}.out")), output.join(format!("{name}.err")));
        let what = format!("{command:?}");
        command.stdin(Stdio::null());
        command.stdout(File::create(&stdout).expect("the sandbox takes files"));
        command.stderr(File::create(&stderr).expect("the sandbox takes files"));
        let child = command.process_group(0).spawn().unwrap_or_else(|error| panic!("{what}: {error}"));
        Process { child, what, stdout, stderr, status: None }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        read_lossy(&self.stderr)
    }

    /// Sends it, and it alone, a signal.
    ///
    /// # Panics
    /// When it does not exist.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process id is not 0");
        rustix::process::kill_process(pid, signal).unwrap_or_else(|error| panic!("{}: {signal:?}: {error}", self.what));
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("our own child can be waited for");
        }
        self.status.is_none()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it has not ended before the deadline.
    #[track_caller]
    pub fn wait(mut self, deadline: Duration) -> Ended {
        let ended = eventually(deadline, || !self.runs());
        let (stdout, stderr) = (read_lossy(&self.stdout), read_lossy(&self.stderr));
        assert!(ended, "{}\nstill runs after {deadline:?}\n--- standard output\n{stdout}\n--- standard error\n{stderr}", self.what);
        let status = self.status.expect("it has ended");
        Ended { status, stdout, stderr, what: self.what.clone() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            // Members that the process started may outlive it; none at all is no error.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Runs a command to its end and returns what it said; fails if it does not succeed.
///
/// # Panics
/// When it fails.
#[track_caller]
pub fn run<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> String {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let arguments: Vec<_> = arguments.iter().map(AsRef::as_ref).collect();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether a process of this id exists.
#[must_use]
pub fn exists(pid: u64) -> bool {
    // A zombie whose parent is gone has ended, too.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

/// The process that serves for a `forebay run` or `forebay mount`, which keeps it.
#[must_use]
pub fn server_of(keeper: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children")).unwrap_or_default();
    let serves = |pid: &u32| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).nth(1) == Some(b"--kept")
    };
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(serves)
}

/// Whether the kernel sends open requests again to who takes over a mount; says `SKIPPED` if it does not.
#[must_use]
pub fn kernel_resends() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    let resends = (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (6, 9);
    if !resends {
        eprintln!("SKIPPED: this kernel does not send requests again (Linux 6.9 does)");
    }
    resends
}

/// Kills the process that serves for `keeper` as soon as there is one. None if the keeper has ended.
///
/// # Panics
/// When nobody serves before a deadline.
#[track_caller]
pub fn kill_server(keeper: &mut Process) -> Option<u32> {
    let mut server = None;
    assert!(
        eventually(DEADLINE, || {
            server = server_of(keeper.id());
            server.is_some() || !keeper.runs()
        }),
        "nobody serves"
    );
    let server = server?;
    let pid = Pid::from_raw(server as i32)?;
    rustix::process::kill_process(pid, Signal::KILL).ok().map(|()| server)
}

fn read_lossy(path: &Path) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    match read {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => format!("({}: {error})", path.display()),
    }
}

/// Whether something is mounted at this path.
///
/// # Panics
/// When the mount table cannot be read.
#[must_use]
pub fn is_mounted(path: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mounts").expect("the mount table is readable");
    table.lines().any(|line| line.split(' ').nth(1).is_some_and(|at| Path::new(&at.replace("\\040", " ")) == path))
}

/// Takes a mount away, even a dead one. No error if there is none.
pub fn unmount(path: &Path) {
    if is_mounted(path) {
        let _ = rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH);
    }
    if is_mounted(path) {
        let _ = Command::new("fusermount3").arg("-uz").arg(path).stderr(Stdio::null()).status();
    }
}

/// Reads a file as JSON.
///
/// # Errors
/// When it is not there, or no JSON.
pub fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> io::Result<T> {
    let bytes = std::fs::read(path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    serde_json::from_slice(&bytes).map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
}
