//! The systems under load, each a directory: the bare one, pass-through mounts over one, Forebay in front of one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a mount may take to come or to go.
const MOUNT_DEADLINE: Duration = Duration::from_secs(60);

/// A directory under load, and what has to be done around each measurement.
pub trait System {
    /// Its name in the table and in the JSON.
    fn name(&self) -> &'static str;
    /// Where the load works.
    fn directory(&self) -> &Path;
    /// Brings the system to rest, so that what it still had to do does not disturb the next measurement.
    ///
    /// # Errors
    /// When it cannot come to rest.
    fn rest(&mut self) -> io::Result<()>;
}

fn failed(what: &str, detail: &[u8]) -> io::Error {
    io::Error::other(format!("{what}: {}", String::from_utf8_lossy(detail).trim()))
}

/// Runs a command to its end.
///
/// # Errors
/// With what it said on standard error, unless it succeeds.
pub fn run(command: &mut Command) -> io::Result<String> {
    let what = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output().map_err(|error| failed(&what, error.to_string().as_bytes()))?;
    if output.status.success() { Ok(String::from_utf8_lossy(&output.stdout).into_owned()) } else { Err(failed(&what, &output.stderr)) }
}

/// Whether something is mounted at this path.
#[must_use]
pub fn is_mounted(path: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    table.lines().any(|line| line.split(' ').nth(1).is_some_and(|at| Path::new(&at.replace("\\040", " ")) == path))
}

fn wait_until(what: &str, condition: impl Fn() -> bool) -> io::Result<()> {
    let end = Instant::now() + MOUNT_DEADLINE;
    while !condition() {
        if Instant::now() > end {
            return Err(failed(what, b"not in time"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn unmount(path: &Path) {
    if is_mounted(path) && run(Command::new("fusermount3").arg("-u").arg(path)).is_err() {
        let _ = run(Command::new("fusermount3").arg("-uz").arg(path));
    }
}

/// Writes everything dirty to the disk and, as root, drops the kernel's caches. Whether they were dropped.
#[must_use]
pub fn drop_caches() -> bool {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

/// A directory as it is.
pub struct Bare {
    directory: PathBuf,
}

impl Bare {
    /// A new directory in `folder`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(folder: &Path) -> io::Result<Bare> {
        let directory = folder.join("bare");
        fs::create_dir(&directory)?;
        Ok(Bare { directory })
    }
}

impl System for Bare {
    fn name(&self) -> &'static str {
        "bare"
    }
    fn directory(&self) -> &Path {
        &self.directory
    }
    fn rest(&mut self) -> io::Result<()> {
        rustix::fs::sync();
        Ok(())
    }
}

/// The pass-through file systems that are measured where they are installed, with the options that they need beside a source and a mount.
/// The kernel keeps what it has read of each, as it does of Forebay.
pub const PASS_THROUGHS: [(&str, &[&str]); 2] =
    [("bindfs", &["--multithreaded", "--no-allow-other"]), ("mergerfs", &["-o", "cache.files=auto-full,async_read=true"])];

/// A directory seen through another FUSE mount: what passing through costs.
pub struct PassThrough {
    name: &'static str,
    mount: PathBuf,
}

impl PassThrough {
    /// Mounts a new directory in `folder`; none if the program is not installed.
    ///
    /// # Errors
    /// When the program cannot be run.
    pub fn new(folder: &Path, name: &'static str, options: &[&str]) -> io::Result<Option<PassThrough>> {
        if run(Command::new(name).arg("--version")).is_err() {
            eprintln!("forebay-bench: {name} is not installed and not measured");
            return Ok(None);
        }
        let (source, mount) = (folder.join(format!("{name}-source")), folder.join(format!("{name}-mount")));
        fs::create_dir(&source)?;
        fs::create_dir(&mount)?;
        // They go on in the background and keep what they inherit: pipes would never end.
        let status = Command::new(name).args(options).arg(&source).arg(&mount).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
        if !status.success() {
            return Err(failed(name, status.to_string().as_bytes()));
        }
        wait_until(name, || is_mounted(&mount))?;
        Ok(Some(PassThrough { name, mount }))
    }
}

impl System for PassThrough {
    fn name(&self) -> &'static str {
        self.name
    }
    fn directory(&self) -> &Path {
        &self.mount
    }
    fn rest(&mut self) -> io::Result<()> {
        rustix::fs::sync();
        Ok(())
    }
}

impl Drop for PassThrough {
    fn drop(&mut self) {
        unmount(&self.mount);
    }
}

/// How Forebay is started.
#[derive(Clone, Debug)]
pub struct ForebayOptions {
    /// The program.
    pub program: PathBuf,
    /// Bytes of the buffer.
    pub capacity_bytes: u64,
    /// Of these, bytes that may be in memory.
    pub memory_bytes: u64,
    /// More options.
    pub more: Vec<String>,
}

/// Forebay in front of a directory.
pub struct Forebay {
    options: ForebayOptions,
    mount: PathBuf,
    buffer: PathBuf,
    name: &'static str,
}

impl Forebay {
    /// Mounts `home` through Forebay, with its buffer in `folder`.
    ///
    /// # Errors
    /// With what Forebay says when it cannot mount.
    pub fn new(folder: &Path, home: &Path, name: &'static str, options: ForebayOptions) -> io::Result<Forebay> {
        let (mount, buffer) = (folder.join(format!("{name}-mount")), folder.join(format!("{name}-buffer")));
        fs::create_dir_all(&mount)?;
        let mut command = Command::new(&options.program);
        command.arg("mount").arg("--backing").arg(home).arg("--mount").arg(&mount).arg("--buffer").arg(&buffer);
        command.arg("--capacity").arg(options.capacity_bytes.to_string()).arg("--memory").arg(options.memory_bytes.to_string());
        command.args(&options.more);
        // The instance keeps what it inherits: pipes would never end.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let status = command.status()?;
        if !status.success() {
            return Err(failed(&format!("{command:?}"), status.to_string().as_bytes()));
        }
        wait_until("forebay mount", || is_mounted(&mount))?;
        Ok(Forebay { options, mount, buffer, name })
    }

    /// Brings everything home, and says how long that took.
    ///
    /// # Errors
    /// With what Forebay says.
    pub fn drain(&self) -> io::Result<Duration> {
        let begun = Instant::now();
        run(Command::new(&self.options.program).arg("drain").arg(&self.mount))?;
        Ok(begun.elapsed())
    }
}

impl System for Forebay {
    fn name(&self) -> &'static str {
        self.name
    }
    fn directory(&self) -> &Path {
        &self.mount
    }
    fn rest(&mut self) -> io::Result<()> {
        self.drain()?;
        rustix::fs::sync();
        Ok(())
    }
}

impl Drop for Forebay {
    fn drop(&mut self) {
        if let Err(error) = run(Command::new(&self.options.program).arg("umount").arg(&self.mount)) {
            eprintln!("forebay-bench: {error}; the buffer is {}", self.buffer.display());
            unmount(&self.mount);
        }
    }
}

/// What makes a slow home slow.
#[derive(Clone, Copy, Debug)]
pub struct SlowKind {
    /// Bytes per second.
    pub bytes_per_s: u64,
    /// Added to each call.
    pub latency: Duration,
    /// Reads and writes have so many bytes each; else they share them.
    pub is_duplex: bool,
}

/// The slow home that the benchmark brings: a directory behind capped bandwidth and latency.
pub struct SlowHome {
    mount: PathBuf,
    process: Child,
}

impl SlowHome {
    /// Mounts a new directory in `folder`; `program` is `slowfs`.
    ///
    /// # Errors
    /// When it cannot be mounted.
    pub fn new(folder: &Path, program: &Path, kind: &SlowKind) -> io::Result<SlowHome> {
        let (source, mount) = (folder.join("slow-source"), folder.join("slow-home"));
        fs::create_dir_all(&source)?;
        fs::create_dir_all(&mount)?;
        let mut command = Command::new(program);
        command.arg(&source).arg(&mount).arg("--bandwidth").arg(kind.bytes_per_s.to_string());
        command.arg("--latency").arg(format!("{}us", kind.latency.as_micros()));
        if kind.is_duplex {
            command.arg("--duplex");
        }
        let process = command.stdin(Stdio::null()).spawn()?;
        let home = SlowHome { mount, process };
        wait_until("slowfs", || is_mounted(&home.mount))?;
        Ok(home)
    }

    /// Where it is mounted.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.mount
    }
}

impl Drop for SlowHome {
    fn drop(&mut self) {
        unmount(&self.mount);
        if is_mounted(&self.mount) {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}
