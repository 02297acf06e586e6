//! A server of one machine: the node machine, run by the real host over a buffer directory and a home directory.

#![forbid(unsafe_code)]

mod world;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forebay_core::config::NodeConfig;
use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Ino, Position};
use forebay_core::message::{DrainFailure, DrainStep, Reply, Request, Status};
pub use forebay_host::transport::{CallPayload, Transport};


/// How long a shutdown waits for work at home that is under way.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(10);

/// What an instance is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The machine's configuration. A buffer that is recovered keeps its own sizes of chunks, segments and capacity. Owner and group
    /// are set to those of the process.
    pub node: NodeConfig,
    /// The buffer directory: made if it does not exist, recovered if it holds a buffer.
    pub buffer: PathBuf,
    /// The home directory.
    pub backing: PathBuf,
    /// Where the memory file stands; `None`: `/dev/shm`.
    pub memory_dir: Option<PathBuf>,
    /// Where to record the machine's inputs, for a replay; `None`: nowhere.
    pub record: Option<PathBuf>,
    /// Threads for work at home; at least 2. Each may hold one write at home in memory (`NodeConfig::home_write_bytes_max`).
    pub home_threads: usize,
}

/// What a recovery found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoverySummary {
    /// Journal records read.
    pub records: u64,
    /// Bytes in the buffer that are not home yet.
    pub dirty_bytes: u64,
    /// Names and attributes that are not home yet.
    pub dirty_names: u64,
    /// Where history was cut, if the newest records did not survive.
    pub cut_at: Option<Position>,
    /// Whether the memory file had survived; it does not survive a reboot.
    pub memory_intact: bool,
    /// Ranges of files whose bytes in the buffer are damaged: reading them is an error, and they will not go home.
    pub damaged: Vec<DamagedRange>,
    /// What was wrong with the journal's files, in words; empty if nothing was.
    pub journal_notes: Vec<String>,
}

/// Bytes of a file that did not survive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRange {
    /// The inode.
    pub ino: Ino,
    /// Its path below the mount; empty if it has none any more.
    pub path: HomePath,
    /// Bytes from the file's start.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// Why an instance did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The backing directory cannot be used.
    #[error("the backing directory {} cannot be used: {source}", path.display())]
    Backing {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// A running server.
#[derive(Debug)]
pub struct Instance {}

#[allow(missing_docs)]
impl Instance {
    pub fn start(_options: Options) -> Result<Arc<Instance>, StartError> {
        unimplemented!()
    }
    pub fn recovered(&self) -> Option<RecoverySummary> {
        unimplemented!()
    }
    pub fn call(&self, _request: Request, _payload: CallPayload<'_>) -> Reply {
        unimplemented!()
    }
    pub fn status(&self) -> Status {
        unimplemented!()
    }
    pub fn drain(&self) -> Vec<DrainFailure> {
        unimplemented!()
    }
    pub fn shutdown(&self) {
        unimplemented!()
    }
    pub fn remove_buffer(&self) -> io::Result<()> {
        unimplemented!()
    }
}

impl Transport for Instance {
    fn call(&self, request: Request, payload: CallPayload<'_>) -> Reply {
        Instance::call(self, request, payload)
    }
}
