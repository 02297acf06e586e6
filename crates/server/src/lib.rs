//! A server of one machine.

#![forbid(unsafe_code)]

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_core::config::NodeConfig;
use forebay_core::id::Position;
use forebay_core::message::{DrainFailure, Reply, Request, Status};
pub use forebay_host::transport::{CallPayload, Transport};

/// What an instance is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The machine's configuration. A buffer that is recovered keeps its own geometry (chunk, segment and capacity sizes).
    pub node: NodeConfig,
    /// The buffer directory: made if it does not exist, recovered if it holds a buffer.
    pub buffer: PathBuf,
    /// The home directory.
    pub backing: PathBuf,
    /// Where the memory file stands; `None`: `/dev/shm`.
    pub memory_dir: Option<PathBuf>,
    /// Where to record the machine's inputs, for a replay.
    pub record: Option<PathBuf>,
    /// Threads for work at home; at least 2.
    pub home_threads: usize,
}

/// What a recovery found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoverySummary {
    /// Journal records read.
    pub records: u64,
    /// Bytes in the buffer that are not home yet.
    pub dirty_bytes: u64,
    /// Names and attributes that are not home yet.
    pub dirty_names: u64,
    /// Where history was cut, if the newest records did not survive.
    pub cut_at: Option<Position>,
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
pub struct Instance {}

impl Instance {
    /// Starts an instance.
    pub fn start(_options: Options) -> Result<Arc<Instance>, StartError> {
        unimplemented!()
    }
    /// What the recovery found; `None` if the buffer is new.
    pub fn recovered(&self) -> Option<RecoverySummary> {
        unimplemented!()
    }
    /// Carries out a request.
    pub fn call(&self, _request: Request, _payload: CallPayload<'_>) -> Reply {
        unimplemented!()
    }
    /// The state.
    pub fn status(&self) -> Status {
        unimplemented!()
    }
    /// Brings everything home and compares it there; gives what could not be brought.
    pub fn drain(&self) -> Vec<DrainFailure> {
        unimplemented!()
    }
    /// Stops the threads. Calls fail from now on. What is in the buffer stays there.
    pub fn shutdown(&self) {
        unimplemented!()
    }
    /// Removes the buffer directory; after a shutdown and a clean drain only.
    pub fn remove_buffer(&self) -> io::Result<()> {
        unimplemented!()
    }
}

impl Transport for Instance {
    fn call(&self, request: Request, payload: CallPayload<'_>) -> Reply {
        Instance::call(self, request, payload)
    }
}
