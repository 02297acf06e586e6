//! How the commands `status`, `drain`, `umount`, `where`, `stage-in` and `stage-out` reach a running instance: a Unix socket in its buffer directory, which only its user can
//! enter, and lines of JSON on it: one [`Ask`], then [`Answer`]s until the last.

pub(crate) mod client;
pub(crate) mod files;
mod files_server;
pub(crate) mod server;

use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::console::Progress;
use crate::view::{FailureView, InstanceView};

/// The version of the protocol; another one is refused.
const VERSION: u32 = 1;
/// The longest line, bytes.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// How often progress is told.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Command {
    /// The state.
    Status,
    /// Bring everything home, and go on.
    Drain,
    /// Bring everything home, unmount and end; with `force` even if processes use the mount.
    Stop { force: bool },
    /// A conversation about single files follows: see [`files`].
    Files,
}

/// The only line from the one who asks.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
struct Ask {
    version: u32,
    command: Command,
}

/// A line of an answer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Of `Status`, the last line.
    Status(Box<InstanceView>),
    /// Of `Drain` and `Stop`: how far it is.
    Progress(Progress),
    /// Of `Drain` and `Stop`, the last line.
    Ended(Ended),
    /// The last line: it is not done, and why.
    Refused { reason: String },
}

/// How a drain ended.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub(crate) struct Ended {
    /// What could not be brought home; nothing if all is home and compared.
    pub(crate) failures: Vec<FailureView>,
    /// Why it ended otherwise, and what to do.
    pub(crate) message: Option<String>,
}

/// Calls `use_path` with a path to the socket of `buffer` that is short enough for a socket address.
fn with_socket_path<T>(buffer: &Path, use_path: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    use rustix::fs::{Mode, OFlags};
    let path = buffer.join("ctl");
    if path.as_os_str().len() < 108 {
        return use_path(&path);
    }
    // A socket address holds 107 bytes of path; the directory's descriptor makes any path that short.
    let folder = rustix::fs::open(buffer, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    use_path(&PathBuf::from(format!("/proc/self/fd/{}/ctl", folder.as_raw_fd())))
}

/// Writes `value` as one line.
fn write_line(stream: &mut impl io::Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Does `work` on a thread of its own and meanwhile tells how far it is. One who has asked and gone does not stop it: that error comes when
/// it is done.
fn telling<T: Send>(work: impl FnOnce() -> T + Send, mut tell: impl FnMut() -> io::Result<()>) -> io::Result<T> {
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(sender.send(work())));
        let mut told = Ok(());
        loop {
            match receiver.recv_timeout(PROGRESS_EVERY) {
                Ok(result) => return told.map(|()| result),
                Err(RecvTimeoutError::Timeout) => told = told.and_then(|()| tell()),
                // It has panicked, and this scope passes that on.
                Err(RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    })
}

/// Reads one line, `None` at the end.
fn read_line<T: for<'a> Deserialize<'a>>(stream: &mut impl io::BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    io::Read::take(stream, LINE_BYTES_MAX).read_until_newline(&mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&line)?))
}

/// `read_until` for a newline, whatever limits the reader.
trait ReadLine {
    fn read_until_newline(&mut self, line: &mut Vec<u8>) -> io::Result<usize>;
}

impl<R: io::BufRead> ReadLine for R {
    fn read_until_newline(&mut self, line: &mut Vec<u8>) -> io::Result<usize> {
        self.read_until(b'\n', line)
    }
}
