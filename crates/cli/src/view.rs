//! An instance's state as it is shown, printed as JSON and sent over the control socket.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use forebay_core::errno::Errno;
use forebay_core::id::HomePath;
use forebay_core::message::{Counters, DrainFailure, DrainStep, Status, WaitReason, Waiting};
use serde::{Deserialize, Serialize};

use crate::rates::RateView;
use crate::registry::{Tag, unix_ms};
use crate::size::Bytes;

/// An error number in the system's words.
fn error_text(errno: Errno) -> String {
    io::Error::from_raw_os_error(errno.0).to_string()
}

/// Why something could not be brought home.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct FailureView {
    /// Below the mount; bytes that are not UTF-8 are shown as replacement characters.
    pub(crate) path: String,
    pub(crate) step: String,
    pub(crate) error: String,
}

impl FailureView {
    /// A step at `path` that failed.
    pub(crate) fn of(path: &HomePath, step: &str, errno: Errno) -> FailureView {
        let path = Path::new(OsStr::from_bytes(path.as_bytes())).display().to_string();
        FailureView { path: if path.is_empty() { ".".into() } else { path }, step: step.into(), error: error_text(errno) }
    }
}

impl From<&DrainFailure> for FailureView {
    fn from(failure: &DrainFailure) -> FailureView {
        let step = match failure.step {
            DrainStep::Name => "make, rename or remove the name",
            DrainStep::Write => "write its bytes",
            DrainStep::Sync => "make its bytes durable",
            DrainStep::Compare => "compare its bytes",
            DrainStep::Attributes => "set mode, owner or times",
        };
        FailureView::of(&failure.path, step, failure.errno)
    }
}

impl FailureView {
    /// One line.
    pub(crate) fn line(&self) -> String {
        format!("{}: could not {}: {}{}", self.path, self.step, self.error, self.hint())
    }

    /// What to do about it, where that is not plain.
    fn hint(&self) -> &'static str {
        if self.error == error_text(Errno::ENOENT) || self.error == error_text(Errno::ENOTDIR) {
            "; something that it needs was removed from the backing directory: make it again there (an empty file or directory will do)"
        } else {
            ""
        }
    }
}

/// What an instance did and holds.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct StatusView {
    pub(crate) counters: Counters,
    pub(crate) capacity_bytes: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) used_bytes: u64,
    pub(crate) used_memory_bytes: u64,
    pub(crate) peak_bytes: u64,
    pub(crate) dirty_bytes: u64,
    pub(crate) dirty_names: u64,
    pub(crate) waiting_for_room: u32,
    pub(crate) draining: bool,
    pub(crate) troubles: Vec<FailureView>,
    pub(crate) log_failed: Option<String>,
    /// The buffer's disk is full, and changes wait for space.
    pub(crate) log_waits: Option<String>,
    /// Bytes of files in the buffer, dirty and clean, and the most that they may be.
    pub(crate) live_bytes: u64,
    pub(crate) live_bytes_max: u64,
    /// Records of the log and pieces of indexes that are remembered.
    pub(crate) log_records: u64,
    pub(crate) pieces: u64,
    /// Requests that wait.
    pub(crate) waiting: Vec<WaitView>,
    /// How fast things go; none just after the start, and at the end of a run.
    pub(crate) rates: Option<RateView>,
}

/// Requests that wait for the same thing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct WaitView {
    /// For what.
    pub(crate) what: String,
    pub(crate) requests: u32,
    /// One that they are about, below the mount.
    pub(crate) path: Option<String>,
}

impl From<&Waiting> for WaitView {
    fn from(waiting: &Waiting) -> WaitView {
        let what = match waiting.reason {
            WaitReason::Room => "room in the buffer",
            WaitReason::Space => "space on the buffer's disk",
            WaitReason::HomeNames => "names or attributes from home",
            WaitReason::HomeBytes => "bytes from home",
            WaitReason::ReadTurn => "other reads from home",
            WaitReason::OwnWrites => "writes to the same file",
            WaitReason::Medium => "the buffer's disk",
            WaitReason::Drain => "a drain",
            WaitReason::BringHome => "a file on its way home",
        };
        let path = waiting.path.as_ref().map(|path| Path::new(OsStr::from_bytes(path.as_bytes())).display().to_string());
        WaitView { what: what.into(), requests: waiting.requests, path }
    }
}

impl WaitView {
    fn line(&self) -> String {
        let example = self.path.as_ref().filter(|path| !path.is_empty()).map(|path| format!(" ({path})")).unwrap_or_default();
        format!("  waiting  {} requests for {}{example}", self.requests, self.what)
    }
}

impl From<&Status> for StatusView {
    fn from(status: &Status) -> StatusView {
        StatusView {
            counters: status.counters,
            capacity_bytes: status.capacity_bytes,
            memory_bytes: status.memory_bytes,
            used_bytes: status.used_bytes,
            used_memory_bytes: status.used_memory_bytes,
            peak_bytes: status.peak_bytes,
            dirty_bytes: status.dirty_bytes,
            dirty_names: status.dirty_names,
            waiting_for_room: status.waiting_for_room,
            draining: status.draining,
            troubles: status.troubles.iter().map(FailureView::from).collect(),
            log_failed: status.log_failed.map(error_text),
            log_waits: status.log_waits.map(error_text),
            live_bytes: status.live_bytes,
            live_bytes_max: status.live_bytes_max,
            log_records: status.log_records,
            pieces: status.pieces,
            waiting: status.waiting.iter().map(WaitView::from).collect(),
            rates: None,
        }
    }
}

/// An instance and its state.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct InstanceView {
    /// `running`, `left` (by a crash, or on purpose), or `silent` (it runs and does not answer).
    pub(crate) state: String,
    pub(crate) id: String,
    pub(crate) role: String,
    pub(crate) pid: u32,
    /// The process that serves for it, and how often it was replaced.
    pub(crate) server_pid: u32,
    pub(crate) takeovers: u32,
    pub(crate) program_version: String,
    pub(crate) backing: PathBuf,
    pub(crate) buffer: PathBuf,
    pub(crate) mount: Option<PathBuf>,
    pub(crate) started_unix_ms: u64,
    /// Only of a running one.
    pub(crate) status: Option<StatusView>,
}

impl InstanceView {
    pub(crate) fn new(tag: &Tag, state: &str, status: Option<StatusView>) -> InstanceView {
        InstanceView {
            state: state.into(),
            id: tag.id.clone(),
            role: tag.role.clone(),
            pid: tag.process.pid,
            server_pid: tag.server_pid,
            takeovers: tag.takeovers,
            program_version: tag.program_version.clone(),
            backing: tag.backing.clone(),
            buffer: tag.buffer.clone(),
            mount: tag.mount.clone(),
            started_unix_ms: tag.started_unix_ms,
            status,
        }
    }

    /// For a person, several lines.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![match &self.mount {
            Some(mount) => format!("{}  ({}, process {}, {})", mount.display(), self.role, self.pid, self.state),
            None => format!("{}  ({}, process {}, {})", self.buffer.display(), self.role, self.pid, self.state),
        }];
        lines.push(format!("  backing  {}", self.backing.display()));
        lines.push(format!("  buffer   {}", self.buffer.display()));
        if self.state == "left" {
            lines.push(format!("  its process is gone; finish with: {}", recover_command(&self.buffer)));
            return lines.join("\n") + "\n";
        }
        lines.push(format!("  running  {} s", unix_ms().saturating_sub(self.started_unix_ms) / 1000));
        match &self.status {
            None => lines.push("  it does not answer".into()),
            Some(status) => lines.extend(status.lines()),
        }
        lines.join("\n") + "\n"
    }
}

impl StatusView {
    /// When everything will be home.
    fn eta(&self) -> String {
        let left = self.rates.and_then(|rates| rates.drain_eta_s).filter(|_| self.dirty_bytes > 0);
        let draining = if self.draining { ", draining" } else { "" };
        format!("{draining}{}", left.map(|seconds| format!(", home in {seconds} s at the present rate")).unwrap_or_default())
    }

    fn lines(&self) -> Vec<String> {
        let counters = &self.counters;
        let mut lines = vec![
            format!("  memory   {} of {}", Bytes(self.used_memory_bytes), Bytes(self.memory_bytes)),
            format!(
                "  ssd      {} of {}; peak of both {}",
                Bytes(self.used_bytes.saturating_sub(self.used_memory_bytes)),
                Bytes(self.capacity_bytes),
                Bytes(self.peak_bytes)
            ),
            format!("  not home {} and {} names{}", Bytes(self.dirty_bytes), self.dirty_names, self.eta()),
            format!("  in       {} written in {} writes", Bytes(counters.written_bytes), counters.writes),
            format!(
                "  out      {} read in {} reads, {} of it from the buffer",
                Bytes(counters.read_bytes),
                counters.reads,
                Bytes(counters.hit_bytes)
            ),
            format!(
                "  home     {} written, {} read, {} compared",
                Bytes(counters.home_written_bytes),
                Bytes(counters.home_read_bytes),
                Bytes(counters.compared_bytes)
            ),
            format!("  swaps    {}, {} of them dirty", counters.swaps, counters.dirty_swaps),
        ];
        if let Some(rates) = &self.rates {
            lines.push(format!(
                "  now      in {}/s, out {}/s, to home {}/s, from home {}/s",
                Bytes(rates.written_bytes_per_s),
                Bytes(rates.read_bytes_per_s),
                Bytes(rates.home_written_bytes_per_s),
                Bytes(rates.home_read_bytes_per_s)
            ));
        }
        lines.extend(self.waiting.iter().map(WaitView::line));
        if let Some(error) = &self.log_failed {
            lines.push(format!("  the log refused a write ({error}): nothing new is taken, what is buffered can be drained"));
        }
        if let Some(error) = &self.log_waits {
            lines.push(format!("  the buffer's disk takes no more ({error}): make space there, and work goes on by itself"));
        }
        lines.extend(self.troubles.iter().map(|trouble| format!("  trouble  {}", trouble.line())));
        lines
    }
}

/// `path` as a shell takes it.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+,:@%=".contains(&byte)) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The command that finishes what is in `buffer`.
pub(crate) fn recover_command(buffer: &Path) -> String {
    format!("forebay recover --buffer {}", quoted(buffer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::errno::Errno;
    use forebay_core::id::HomePath;

    #[test]
    fn a_failure_names_path_step_and_error() {
        let failure = DrainFailure { path: HomePath(b"a/b".as_slice().into()), errno: Errno::ENOSPC, step: DrainStep::Write };
        assert_eq!(FailureView::from(&failure).line(), "a/b: could not write its bytes: No space left on device (os error 28)");
    }

    #[test]
    fn a_path_is_quoted_for_the_shell() {
        for (path, text) in [("/a/b-1.c", "/a/b-1.c"), ("/a b", "'/a b'"), ("/it's", "'/it'\\''s'"), ("", "''")] {
            assert_eq!(quoted(Path::new(path)), text);
        }
    }
}
