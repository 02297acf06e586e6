//! An I/O server: a directory that stands for a large slow disk, with a small SSD in front of it.
//!
//! The machine is `forebay_core::hybrid`; this is its real host. Names are the directory's own, and every call that changes one is
//! carried out there at once. Bytes go where the machine says.
//!
//! What must hold beside what the machine says:
//!
//! - A file has one number as long as something of it is on the SSD, whatever happens to its names; recovery finds it by what it is.
//! - The directory tells the size of a file before bytes on the SSD count that lie behind its end.
//! - The last name of a file goes when nothing of it is under way; the SSD's maps are told before and after.
//! - A flush leaves a file's times and mode as they are.

mod disk;
mod driver;
mod files;
mod service;
mod start;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::errno::Errno;
use forebay_core::hybrid::{Access, Effect, FileRange, HybridConfig, Request, ServerPolicy};
use forebay_core::policy::Share;
use forebay_store::{RequestHint, SsdDir};
use parking_lot::Mutex;

use disk::Devices;
use driver::{Driver, Work};
use files::KnownFile;
pub use start::IoNodeError;

type Result<T> = std::result::Result<T, Errno>;

/// How long a stop waits for what is under way at the devices.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// What an I/O server is started with.
#[derive(Clone, Debug)]
pub struct IoNodeOptions {
    /// The home directory.
    pub home: PathBuf,
    /// The directory of the SSD: made if it does not exist, recovered if something is in it. `None`: there is no SSD, and the policy is
    /// [`ServerPolicy::None`].
    pub ssd: Option<PathBuf>,
    /// Bytes that the SSD may hold.
    pub ssd_bytes: u64,
    /// Who goes to the SSD, and when it is emptied.
    pub policy: ServerPolicy,
    /// The most that flushes bring home in a second, bytes; `None`: as much as the disk takes.
    pub flush_bytes_per_s_max: Option<u64>,
    /// The part of the disk's time that clients keep while they use it and a flush is under way; `None`: what is left.
    pub foreground_share: Option<Share>,
    /// Start although files are missing of which something is on the SSD, and give that up.
    pub discards_missing: bool,
}

/// Clients keep four fifths of the disk while a flush is under way.
const FOREGROUND_SHARE: Share = Share::new(4, 5);

impl IoNodeOptions {
    /// A server with an SSD of this size.
    pub fn new(home: PathBuf, ssd: PathBuf, ssd_bytes: u64, policy: ServerPolicy) -> IoNodeOptions {
        IoNodeOptions {
            home,
            ssd: Some(ssd),
            ssd_bytes,
            policy,
            flush_bytes_per_s_max: None,
            foreground_share: Some(FOREGROUND_SHARE),
            discards_missing: false,
        }
    }

    fn config(&self, policy: ServerPolicy) -> HybridConfig {
        let ssd_bytes = if self.ssd.is_some() { self.ssd_bytes } else { 0 };
        HybridConfig {
            flush_bytes_per_s_max: self.flush_bytes_per_s_max,
            foreground_share: self.foreground_share,
            ..policy.config(ssd_bytes)
        }
    }
}

/// What a start has found on the SSD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoNodeRecovery {
    /// Writes that are not home yet, as far as they still count.
    pub entries: u64,
    /// Files that they are of.
    pub files: u64,
    /// Bytes that a loss of power took before they were durable.
    pub lost_bytes: u64,
    /// Files that are not there any more though nothing says that they were removed; given up as the options said, or since a loss of
    /// power may have taken them before they were durable.
    pub missing_files: u64,
}

/// A running I/O server.
pub struct IoNode {
    options: IoNodeOptions,
    policy: Mutex<ServerPolicy>,
    devices: Arc<Devices>,
    driver: Driver,
    recovery: IoNodeRecovery,
    /// Its lock.
    directory: Mutex<Option<SsdDir>>,
}

impl std::fmt::Debug for IoNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IoNode").field("home", &self.options.home).finish_non_exhaustive()
    }
}

impl IoNode {
    /// Starts a server, and recovers what its SSD holds.
    ///
    /// # Errors
    /// See [`IoNodeError`]; what was on the SSD stays there then.
    pub fn start(options: IoNodeOptions) -> std::result::Result<IoNode, IoNodeError> {
        start::start(options)
    }

    /// What the start has found.
    pub fn recovery(&self) -> &IoNodeRecovery {
        &self.recovery
    }

    fn access(known: &KnownFile, offset: u64, len: u64, hint: &RequestHint) -> Access {
        let range = FileRange { file: known.id, offset, len };
        Access { range, class: hint.class, siblings: hint.siblings.clone(), place: known.place(offset) }
    }

    fn write_file(&self, known: &KnownFile, offset: u64, bytes: &[u8], hint: &RequestHint) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > i64::MAX.cast_unsigned()) {
            return Err(Errno::EFBIG);
        }
        let access = IoNode::access(known, offset, bytes.len() as u64, hint);
        self.driver.call(Request::Write(access), |work| match &work.effect {
            Effect::AppendSsd { entry, .. } => self.devices.append_ssd(known, entry, work.layout, bytes),
            Effect::WriteDisk { range, .. } => self.devices.write_disk(known, range, bytes),
            other => Err(unexpected(other)),
        })
    }

    /// Fills `buf`; zeros where the file has nothing.
    fn read_file(&self, known: &KnownFile, offset: u64, buf: &mut [u8], hint: &RequestHint) -> Result<()> {
        if buf.is_empty() {
            return Ok(());
        }
        let access = IoNode::access(known, offset, buf.len() as u64, hint);
        self.driver.call(Request::Read(access), |work| {
            let (at, len) = match &work.effect {
                Effect::ReadSsd { part, .. } => (part.offset, part.len),
                Effect::ReadDisk { range, .. } => (range.offset, range.len),
                other => return Err(unexpected(other)),
            };
            let from = (at - offset) as usize;
            let part = &mut buf[from..from + len as usize];
            match &work.effect {
                Effect::ReadSsd { part: place, .. } => self.devices.read_ssd(place, part),
                _ => self.devices.read_disk(known, at, part),
            }
        })
    }

    /// Has the bytes of a range changed at the disk by `change`, when nothing else is under way there.
    fn change_file(&self, known: &KnownFile, offset: u64, len: u64, mut change: impl FnMut() -> Result<()>) -> Result<()> {
        let range = FileRange { file: known.id, offset, len };
        self.driver.call(Request::Change(range), |work: &Work| match &work.effect {
            Effect::ChangeDisk { .. } => change(),
            other => Err(unexpected(other)),
        })
    }
}

impl Drop for IoNode {
    /// Another process must not take the SSD as long as a thread of this one is at it.
    fn drop(&mut self) {
        forebay_store::IoService::stop(self);
        if let Some(directory) = self.directory.lock().take() {
            // Its lock goes with the process.
            std::mem::forget(directory);
        }
    }
}

fn unexpected(effect: &Effect) -> Errno {
    forebay_host::log::problem(&format!("a call was asked for {effect:?}; this is a bug, please report it"));
    Errno::ENOSYS
}
