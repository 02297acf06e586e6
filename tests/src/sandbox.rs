//! A place for one test: a home, a buffer, a mount point, a plain directory to compare with, and room outside of all of them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::listing::{self, Times, Tree};
use crate::process::{self, DEADLINE, Ended, Process, eventually, is_mounted, program, unmount};

/// Directories of a test. Everything in them goes when it is dropped, mounts first.
pub struct Sandbox {
    folder: TempDir,
    memory: TempDir,
}

/// How large a buffer is to be.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// `--capacity`.
    pub capacity: &'static str,
    /// `--memory`.
    pub memory: &'static str,
    /// `--chunk`.
    pub chunk: &'static str,
}

/// More than any test writes.
pub const AMPLE: Size = Size { capacity: "1GiB", memory: "256MiB", chunk: "1MiB" };
/// Far less than the tests write.
pub const TIGHT: Size = Size { capacity: "8MiB", memory: "2MiB", chunk: "64KiB" };

impl Default for Sandbox {
    fn default() -> Sandbox {
        Sandbox::new()
    }
}

impl Sandbox {
    /// Fresh directories on the disk that `TMPDIR` names, and one on tmpfs for the memory file.
    ///
    /// # Panics
    /// When they cannot be made.
    #[must_use]
    pub fn new() -> Sandbox {
        let folder = TempDir::with_prefix("forebay-test-").expect("a directory for the test");
        let shared = Path::new("/dev/shm");
        let memory = if shared.is_dir() { TempDir::with_prefix_in("forebay-test-", shared) } else { TempDir::new() };
        let sandbox = Sandbox { folder, memory: memory.expect("a directory for the memory file") };
        for part in ["home", "mount", "plain", "outside"] {
            fs::create_dir(sandbox.path(part)).expect("a part of the sandbox");
        }
        sandbox
    }

    fn path(&self, part: &str) -> PathBuf {
        self.folder.path().join(part)
    }

    /// The directory that holds all the others (not the memory file's).
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The backing directory.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// The mount point.
    #[must_use]
    pub fn mount(&self) -> PathBuf {
        self.path("mount")
    }

    /// The buffer directory; forebay makes it.
    #[must_use]
    pub fn buffer(&self) -> PathBuf {
        self.path("buffer")
    }

    /// A directory without Forebay, to compare with.
    #[must_use]
    pub fn plain(&self) -> PathBuf {
        self.path("plain")
    }

    /// Room outside of all these, for logs and listings.
    #[must_use]
    pub fn outside(&self) -> PathBuf {
        self.path("outside")
    }

    /// The directory of the memory file.
    #[must_use]
    pub fn memory(&self) -> &Path {
        self.memory.path()
    }

    /// `forebay` with a subcommand; no variable of the surroundings reaches it.
    #[must_use]
    pub fn forebay(&self, subcommand: &str) -> Command {
        let mut command = Command::new(program("forebay"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FOREBAY_")) {
            command.env_remove(name);
        }
        command.arg(subcommand);
        command
    }

    /// `forebay run` on this sandbox's directories, without a command yet.
    #[must_use]
    pub fn run_command(&self, size: Size) -> Command {
        let mut command = self.forebay("run");
        command.arg("--backing").arg(self.home());
        self.place_buffer(&mut command, size);
        command
    }

    /// Adds where mount, buffer and memory file lie, and the sizes.
    pub fn place_buffer(&self, command: &mut Command, size: Size) {
        command.arg("--mount").arg(self.mount()).arg("--buffer").arg(self.buffer()).arg("--memory-dir").arg(self.memory());
        command.args(["--capacity", size.capacity, "--memory", size.memory, "--chunk", size.chunk]);
    }

    /// Runs a command under `forebay run` to its end.
    pub fn run<S: AsRef<OsStr>>(&self, size: Size, options: &[&str], command: &[S]) -> Ended {
        let mut run = self.run_command(size);
        run.args(options).arg("--").args(command);
        Process::start(run, &self.outside(), "run").wait(DEADLINE)
    }

    /// Starts a command under `forebay run`.
    #[must_use]
    pub fn start<S: AsRef<OsStr>>(&self, size: Size, options: &[&str], command: &[S]) -> Process {
        let mut run = self.run_command(size);
        run.args(options).arg("--").args(command);
        Process::start(run, &self.outside(), "run")
    }

    /// Runs a shell script under `forebay run`, in the mount, and lists the mount at its end. The home must then hold what the mount
    /// showed, to the nanosecond except in the kernel's write-back mode; its listing is returned.
    ///
    /// # Panics
    /// When the run does not succeed, or home differs from what the mount showed.
    #[track_caller]
    pub fn run_and_compare(&self, size: Size, options: &[&str], script: &str) -> (Ended, Tree) {
        let shown = self.outside().join("shown.json");
        let whole = format!("set -e\n{script}\n\"$EXERCISE\" list . \"$SHOWN\"\n");
        let mut run = self.run_command(size);
        run.args(options).args(["--", "sh", "-c", &whole]);
        run.env("EXERCISE", program("exercise")).env("SHOWN", &shown).env("OUTSIDE", self.outside());
        let ended = Process::start(run, &self.outside(), "run").wait(DEADLINE).expect_code(0);
        let shown: Tree = process::read_json(&shown).expect("the mount was listed");
        let home = self.home_tree();
        // In the kernel's write-back mode the time of a change reaches Forebay apart from its bytes, perhaps before them.
        let times = if options.contains(&"--kernel-cache") { Times::Set } else { Times::All };
        listing::assert_same(&shown, &home, times, "home against what the mount showed before the drain");
        self.assert_clean();
        (ended, home)
    }

    /// Runs the same kind of script in the plain directory.
    ///
    /// # Panics
    /// When the script fails.
    #[track_caller]
    pub fn run_plain(&self, script: &str) -> Tree {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("set -e\n{script}")).current_dir(self.plain());
        shell.env("EXERCISE", program("exercise")).env("OUTSIDE", self.outside());
        Process::start(shell, &self.outside(), "plain").wait(DEADLINE).expect_code(0);
        listing::list(&self.plain()).expect("the plain directory is readable")
    }

    /// What stands at home.
    ///
    /// # Panics
    /// When it cannot be read.
    #[must_use]
    pub fn home_tree(&self) -> Tree {
        listing::list(&self.home()).expect("home is readable")
    }

    /// After a run without trouble: nothing is mounted, no buffer and no memory file is left.
    ///
    /// # Panics
    /// When something is.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(!is_mounted(&self.mount()), "still mounted");
        assert!(!self.buffer().exists() || is_empty(&self.buffer()), "the buffer is still there: {:?}", names(&self.buffer()));
        assert!(is_empty(self.memory()), "the memory file is still there: {:?}", names(self.memory()));
    }

    /// What `forebay status` says of the instance at the mount, or null as long as it says nothing.
    #[must_use]
    pub fn status(&self) -> serde_json::Value {
        self.status_at(&self.buffer())
    }

    /// The same of an instance with another buffer.
    #[must_use]
    pub fn status_at(&self, buffer: &Path) -> serde_json::Value {
        self.instance(buffer)["status"].clone()
    }

    /// The process that serves, and the state of the instance, as `forebay status` says.
    #[must_use]
    pub fn server(&self) -> (Option<u64>, String) {
        let instance = self.instance(&self.buffer());
        (instance["server_pid"].as_u64().filter(|_| instance["status"].is_object()), instance["state"].as_str().unwrap_or_default().into())
    }

    fn instance(&self, buffer: &Path) -> serde_json::Value {
        let mut status = self.forebay("status");
        status.arg("--buffer").arg(buffer).arg("--json");
        let told = Process::start(status, &self.outside(), "status").wait(DEADLINE).stdout;
        serde_json::from_str::<serde_json::Value>(&told).map_or_else(|_| serde_json::Value::Null, |all| all[0].clone())
    }

    /// Puts a slow file system in front of home, with such options of `slowfs` as `--bandwidth 20MiB --latency 1ms`; gives the directory
    /// behind it, too.
    ///
    /// # Panics
    /// When it is not mounted before a deadline.
    #[must_use]
    pub fn slow_home(&self, options: &[&str]) -> (PathBuf, SlowHome) {
        let store = self.path("store");
        fs::create_dir_all(&store).expect("a directory for the store");
        let slow = SlowHome::mount(&store, &self.home(), &self.outside(), options);
        (store, slow)
    }

    /// `forebay recover` on this sandbox's buffer, to its end.
    pub fn recover(&self) -> Ended {
        let mut command = self.forebay("recover");
        command.arg("--buffer").arg(self.buffer()).arg("--backing").arg(self.home());
        Process::start(command, &self.outside(), "recover").wait(DEADLINE)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        unmount(&self.mount());
        // A home that is itself a mount, of the slow file system.
        unmount(&self.home());
        if std::thread::panicking() && std::env::var_os("FOREBAY_KEEP").is_some() {
            self.folder.disable_cleanup(true);
            self.memory.disable_cleanup(true);
            eprintln!("kept: {} and {}", self.folder.path().display(), self.memory.path().display());
        }
    }
}

/// Asserts that a file has this text.
///
/// # Panics
/// When it has another, or none.
#[track_caller]
pub fn holds(file: &Path, text: &str) {
    assert_eq!(fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display())), text, "{}", file.display());
}

/// The same script on a plain directory and under Forebay leaves the same behind, apart from paths that hold times; gives what is at home.
///
/// # Panics
/// When it does not, or fails.
#[track_caller]
pub fn same_as_plain(size: Size, options: &[&str], script: &str, with_times: &[&str]) -> Tree {
    let sandbox = Sandbox::new();
    let plain = sandbox.run_plain(script);
    let (_, home) = sandbox.run_and_compare(size, options, script);
    let (plain, home) = (listing::without(&plain, with_times), listing::without(&home, with_times));
    listing::assert_same(&plain, &home, Times::Set, "home against a plain directory");
    home
}

fn names(directory: &Path) -> Vec<OsString> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect()
}

fn is_empty(directory: &Path) -> bool {
    names(directory).is_empty()
}

/// A slow or failing file system in front of a directory, until it is dropped.
pub struct SlowHome {
    mount: PathBuf,
    faults: PathBuf,
    _process: Process,
}

impl SlowHome {
    /// Mounts `source` again at `mount`, with such options of `slowfs` as `--bandwidth 20MiB --latency 1ms`.
    ///
    /// # Panics
    /// When it is not mounted before a deadline.
    #[must_use]
    pub fn mount(source: &Path, mount: &Path, outside: &Path, options: &[&str]) -> SlowHome {
        let faults = outside.join("faults");
        let mut command = Command::new(program("slowfs"));
        command.arg(source).arg(mount).arg("--faults").arg(&faults).args(options);
        let mut process = Process::start(command, outside, "slowfs");
        let ready = eventually(Duration::from_secs(30), || is_mounted(mount) || !process.runs());
        assert!(ready && is_mounted(mount), "slowfs did not mount: {}", process.stderr());
        SlowHome { mount: mount.to_owned(), faults, _process: process }
    }

    /// From now on, writes of data fail with this error number.
    pub fn fail(&self, errno: i32) {
        self.tell(&errno.to_string());
    }

    /// From now on, large writes of data fail with this error number.
    pub fn fail_bulk(&self, errno: i32) {
        self.tell(&format!("{errno} bulk"));
    }

    /// From now on, all that changes something fails with this error number.
    pub fn fail_changes(&self, errno: i32) {
        self.tell(&format!("{errno} changes"));
    }

    /// From now on, everything fails with this error number.
    pub fn fail_all(&self, errno: i32) {
        self.tell(&format!("{errno} all"));
    }

    /// From now on, nothing is answered.
    pub fn stall(&self) {
        self.tell("stall");
    }

    fn tell(&self, what: &str) {
        let draft = self.faults.with_extension("draft");
        fs::write(&draft, what).and_then(|()| fs::rename(&draft, &self.faults)).expect("room outside");
    }

    /// From now on, all is well again.
    ///
    /// # Panics
    /// When the file that says otherwise cannot be removed.
    pub fn heal(&self) {
        fs::remove_file(&self.faults).expect("the file of faults is there");
    }
}

impl Drop for SlowHome {
    fn drop(&mut self) {
        unmount(&self.mount);
    }
}
