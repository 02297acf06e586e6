//! What an instance writes down about itself: in its buffer, for whoever recovers it, and in a directory of its user, for whoever looks for it.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_core::config::NodeConfig;
use serde::{Deserialize, Serialize};

use crate::places;

/// The version of [`Tag`] that this program writes and reads.
const TAG_VERSION: u32 = 2;

/// A process, told apart from a later one of the same number.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct ProcessId {
    pub(crate) pid: u32,
    /// Clock ticks between boot and its start.
    start_ticks: u64,
    /// The boot that its ticks count from.
    boot: String,
}

impl ProcessId {
    /// This process.
    pub(crate) fn own() -> io::Result<ProcessId> {
        ProcessId::of(std::process::id())
    }

    /// A process that runs.
    pub(crate) fn of(pid: u32) -> io::Result<ProcessId> {
        let start_ticks = start_ticks(pid).ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat cannot be read")))?;
        Ok(ProcessId { pid, start_ticks, boot: boot() })
    }

    /// It still runs.
    pub(crate) fn is_alive(&self) -> bool {
        boot() == self.boot && start_ticks(self.pid) == Some(self.start_ticks)
    }
}

fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_string()
}

/// Field 22 of `/proc/PID/stat`; `None` if there is no such process, or only what is left of it.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the command, in brackets, may hold anything, brackets and blanks too.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// What an instance says about itself.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct Tag {
    pub(crate) version: u32,
    pub(crate) program_version: String,
    pub(crate) id: String,
    pub(crate) process: ProcessId,
    /// The process that serves for it, and may be replaced.
    pub(crate) server_pid: u32,
    /// How often it was replaced.
    pub(crate) takeovers: u32,
    /// `run`, `mount` or `recover`.
    pub(crate) role: String,
    pub(crate) backing: PathBuf,
    pub(crate) buffer: PathBuf,
    pub(crate) buffer_made: bool,
    /// None while it recovers.
    pub(crate) mount: Option<PathBuf>,
    pub(crate) mount_made: bool,
    pub(crate) memory_dir: Option<PathBuf>,
    pub(crate) started_unix_ms: u64,
    pub(crate) node: NodeConfig,
}

/// Milliseconds since the Unix epoch.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// A name for an instance that no other of this machine has.
pub(crate) fn fresh_id() -> String {
    format!("{}-{}", unix_ms(), std::process::id())
}

impl Tag {
    /// The version that goes into a new tag.
    pub(crate) const VERSION: u32 = TAG_VERSION;

    fn path_in(buffer: &Path) -> PathBuf {
        buffer.join("instance.json")
    }

    /// Reads the tag in `buffer`: `None` if there is none, or none that this version understands.
    pub(crate) fn read(buffer: &Path) -> Option<Tag> {
        read_tag(&Tag::path_in(buffer))
    }

    /// Writes the tag into the buffer, durably: after a power loss it says where things belong.
    pub(crate) fn write(&self) -> io::Result<()> {
        write_json(&Tag::path_in(&self.buffer), self)?;
        std::fs::File::open(&self.buffer)?.sync_all()
    }

    /// Removes what the command line put into a buffer directory.
    pub(crate) fn remove_own_files(buffer: &Path) {
        for name in places::OWN_FILES {
            // A file that is not there needs no removal; one that cannot be removed keeps the directory, which the caller reports.
            let _ = std::fs::remove_file(buffer.join(name));
        }
    }

    /// Enters the tag into the user's list; the entry goes with [`Entry::remove`].
    pub(crate) fn register(&self) -> io::Result<Entry> {
        let path = directory()?.join(format!("{}.json", self.id));
        write_json(&path, self)?;
        Ok(Entry { path })
    }
}

fn read_tag(path: &Path) -> Option<Tag> {
    let tag: Tag = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    (tag.version == TAG_VERSION).then_some(tag)
}

/// Writes `value` to `path` so that a reader sees the old file or the new one.
fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let new = path.with_extension("json.new");
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    serde_json::to_writer_pretty(&mut file, value)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(new, path)
}

/// An entry in the user's list.
#[derive(Debug)]
pub(crate) struct Entry {
    path: PathBuf,
}

impl Entry {
    /// Takes the instance off the list.
    pub(crate) fn remove(self) {
        let _ = std::fs::remove_file(self.path);
    }
}

/// Where the list of this user's instances is, without making it.
pub(crate) fn directory_name() -> PathBuf {
    let run_time = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute() && path.is_dir());
    run_time.map_or_else(fallback_directory, |path| path.join("forebay"))
}

fn fallback_directory() -> PathBuf {
    PathBuf::from(format!("/tmp/forebay-{}", rustix::process::geteuid().as_raw()))
}

/// Where the list of this user's instances is; made if need be, and nobody else's.
pub(crate) fn directory() -> io::Result<PathBuf> {
    let path = directory_name();
    places::private_folder(&path).map_err(|reason| io::Error::other(format!("{}: {reason}; move it away", path.display())))?;
    path.canonicalize()
}

/// What became of an instance on the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Running,
    /// Its process is gone and its buffer is there.
    Left,
}

/// This user's instances. Entries whose process and buffer are both gone are forgotten.
pub(crate) fn list() -> Vec<(Tag, State)> {
    let mut found: Vec<(Tag, State)> = Vec::new();
    let mut folders = vec![directory_name()];
    // A login with a run-time directory and a job without one must find each other's instances.
    if !folders.contains(&fallback_directory()) {
        folders.push(fallback_directory());
    }
    for path in folders.iter().filter(|folder| places::private_folder_exists(folder)).flat_map(std::fs::read_dir).flatten().flatten() {
        let path = path.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let Some(tag) = read_tag(&path) else { continue };
        if tag.process.is_alive() {
            found.push((tag, State::Running));
        } else if tag.buffer.join("superblock").exists() {
            found.push((tag, State::Left));
        } else {
            let _ = std::fs::remove_file(path);
        }
    }
    found.sort_by(|(a, _), (b, _)| (a.started_unix_ms, &a.id).cmp(&(b.started_unix_ms, &b.id)));
    // Recovery enters the same buffer again: what counts is who has it now.
    let mut latest: Vec<(Tag, State)> = Vec::new();
    for (tag, state) in found {
        latest.retain(|(earlier, earlier_state)| earlier.buffer != tag.buffer || *earlier_state == State::Running);
        latest.push((tag, state));
    }
    latest
}

/// Takes every entry of `buffer` off the list.
pub(crate) fn forget_buffer(buffer: &Path) {
    for folder in [directory_name(), fallback_directory()] {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if read_tag(&path).is_some_and(|tag| tag.buffer == buffer && !tag.process.is_alive()) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_a_later_one_of_its_number() {
        let own = ProcessId::own().unwrap();
        assert!(own.is_alive());
        assert!(!ProcessId { start_ticks: own.start_ticks + 1, ..own.clone() }.is_alive());
        assert!(!ProcessId { boot: "another".into(), ..own.clone() }.is_alive());
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let other = ProcessId { pid: child.id(), start_ticks: start_ticks(child.id()).unwrap(), boot: boot() };
        assert!(other.is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!other.is_alive());
    }

    #[test]
    fn a_tag_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let tag = Tag {
            version: TAG_VERSION,
            program_version: "0.1.0".into(),
            id: "x".into(),
            process: ProcessId::own().unwrap(),
            server_pid: 1,
            takeovers: 0,
            role: "run".into(),
            backing: "/slow".into(),
            buffer: dir.path().into(),
            buffer_made: true,
            mount: Some("/mnt".into()),
            mount_made: false,
            memory_dir: None,
            started_unix_ms: 5,
            node: NodeConfig::default(),
        };
        tag.write().unwrap();
        assert_eq!(Tag::read(dir.path()), Some(tag.clone()));
        Tag { version: 99, ..tag }.write().unwrap();
        assert_eq!(Tag::read(dir.path()), None);
        Tag::remove_own_files(dir.path());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
