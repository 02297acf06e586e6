//! A server of one machine: the node machine, run by the real host over a buffer directory and a home directory.

#![forbid(unsafe_code)]

mod ahead;
mod io_node;
pub mod servers;
mod start;
mod world;

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forebay_core::config::NodeConfig;
use forebay_core::effect::Once;
use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Position};
use forebay_core::message::{DrainFailure, DrainStep, Reply, Request, Status};
use forebay_core::node::Node;
use forebay_core::recovery::HeldBy;
use forebay_host::driver::Driver;
pub use forebay_host::transport::{CallPayload, Transport};
use forebay_store::Home;

pub use crate::io_node::{IoNode, IoNodeError, IoNodeOptions, IoNodeRecovery};
use crate::start::Backing;
pub use crate::start::StartError;
pub use crate::world::Pruner;
use crate::world::StoreWorld;

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

/// What is left of an instance that was killed, beside its buffer.
pub struct Takeover<'a> {
    /// The home directory: another may stand at its path.
    pub home: OwnedFd,
    /// Says what clients hold.
    pub held: &'a mut HeldBy<'a>,
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
    /// What was wrong with the journal's files, in words; empty if nothing was.
    pub journal_notes: Vec<String>,
}

/// A running server.
pub struct Instance {
    driver: Driver<Node>,
    world: Arc<StoreWorld>,
    recovered: Option<RecoverySummary>,
    /// Set when no thread can touch the buffer any more.
    ended: AtomicBool,
}

impl Drop for Instance {
    /// Gives the buffer free at once: a thread that has ended may still be on its way out, with a share of the world in its hands.
    fn drop(&mut self) {
        if self.ended.load(Ordering::Acquire) {
            drop(self.world.buffer.lock().take());
        }
    }
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instance").field("home", &self.world.home.describe()).finish_non_exhaustive()
    }
}

impl Instance {
    /// Starts an instance: recovers the buffer that stands at `options.buffer`, or makes a new one there.
    ///
    /// # Errors
    /// See [`StartError`]; each names the file or directory and says what to do. Nothing that was in the buffer is touched then.
    pub fn start(options: Options) -> Result<Arc<Instance>, StartError> {
        start::start(&options, Backing::directory(&options, None)?).map(Arc::new)
    }

    /// As [`Instance::start`], in front of a home of any kind. `options.backing` is the absolute path that names it in the buffer: the same
    /// whenever it is the same home.
    ///
    /// # Errors
    /// As for [`Instance::start`].
    pub fn start_over(options: Options, home: Arc<dyn Home>) -> Result<Arc<Instance>, StartError> {
        start::start(&options, Backing::other(&options, home, None)).map(Arc::new)
    }

    /// As [`Instance::take_over`], in front of a home of any kind.
    ///
    /// # Errors
    /// As for [`Instance::take_over`].
    pub fn take_over_in_front<'a>(options: Options, home: Arc<dyn Home>, held: &'a mut HeldBy<'a>) -> Result<Arc<Instance>, StartError> {
        start::start(&options, Backing::other(&options, home, Some(held))).map(Arc::new)
    }

    /// Starts an instance in the place of one that was killed, whose clients go on.
    ///
    /// # Errors
    /// As for [`Instance::start`]; the buffer is in use until all of the other process is gone.
    pub fn take_over(options: Options, takeover: Takeover<'_>) -> Result<Arc<Instance>, StartError> {
        start::start(&options, Backing::directory(&options, Some(takeover))?).map(Arc::new)
    }

    /// The home directory, for [`Takeover`].
    ///
    /// # Errors
    /// When there are too many open files, and when home is no directory.
    pub fn home_root(&self) -> io::Result<OwnedFd> {
        self.world.home.root().map_err(|errno| io::Error::from_raw_os_error(errno.0))
    }

    /// Its home.
    pub fn home(&self) -> Arc<dyn Home> {
        self.world.home.clone()
    }

    /// What the recovery found; `None` if the buffer is new.
    pub fn recovered(&self) -> Option<RecoverySummary> {
        self.recovered.clone()
    }

    /// Carries out a request on this thread and waits for the answer. After a shutdown: `ENOTCONN`.
    pub fn call(&self, request: Request, payload: CallPayload<'_>) -> Reply {
        self.driver.call(request, payload)
    }

    /// The state now; after a shutdown, the last one.
    pub fn status(&self) -> Status {
        self.driver.inspect(Node::status)
    }

    /// From now on clients are asked by this to give back references, when there are too many inodes.
    pub fn prune_with(&self, pruner: Pruner) {
        *self.world.pruner.lock() = Some(pruner);
    }

    /// The longest write that is taken in one call, bytes: a longer one gets `EINVAL`.
    pub fn write_bytes_max(&self) -> u32 {
        self.driver.inspect(|node| node.config().segment_bytes)
    }

    /// Brings everything home and compares it there; gives what could not be brought. A shutdown ends it with a failure.
    pub fn drain(&self) -> Vec<DrainFailure> {
        let failed = |errno| vec![DrainFailure { path: HomePath::default(), errno, step: DrainStep::Write }];
        match self.call(Request::Drain, CallPayload::None) {
            Reply::Drained { failures } => failures,
            Reply::Error { errno } => failed(errno),
            other => {
                forebay_host::log::problem(&format!("a drain was answered with {other:?}; this is a bug, please report it"));
                failed(Errno::EIO)
            }
        }
    }

    /// All clients have gone: what they still had open or referred to is let go.
    pub fn depart(&self) {
        self.call(Request::Depart, CallPayload::None);
    }

    /// Stops the threads; open and later calls fail. What is in the buffer stays there. Waits some seconds for work at home that is
    /// under way; a home that does not answer cannot hold it up longer.
    pub fn shutdown(&self) {
        if self.driver.stop(SHUTDOWN_PATIENCE) {
            self.ended.store(true, Ordering::Release);
        } else {
            let home = self.world.home.describe();
            forebay_host::log::problem(&format!("{home} does not answer; the buffer is kept, and is locked until this process ends"));
        }
    }

    /// The number that names the buffer for ever; none after it was removed.
    pub fn buffer_number(&self) -> Option<[u8; 16]> {
        self.world.buffer.lock().as_ref().map(|buffer| buffer.superblock().instance)
    }

    /// Removes the buffer, after a shutdown.
    ///
    /// # Errors
    /// `EBUSY` if the instance still runs; `ENOTEMPTY` if something in the buffer is not home yet; what the file system says.
    pub fn remove_buffer(&self) -> io::Result<()> {
        if !self.ended.load(Ordering::Acquire) {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the buffer is still in use by this process"));
        }
        let Status { dirty_bytes, dirty_names, .. } = self.status();
        if dirty_bytes > 0 || dirty_names > 0 {
            let text = format!("the buffer holds {dirty_bytes} bytes and {dirty_names} names that are not home yet");
            return Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, text));
        }
        match self.world.buffer.lock().take() {
            Some(buffer) => buffer.remove().map_err(io::Error::other),
            None => Ok(()),
        }
    }
}

impl Transport for Instance {
    fn call(&self, request: Request, payload: CallPayload<'_>) -> Reply {
        Instance::call(self, request, payload)
    }

    fn call_telling(&self, request: Request, payload: CallPayload<'_>, once: Option<Once>, waits: &(dyn Fn() + Sync)) -> Reply {
        self.driver.call_telling(request, payload, once, waits)
    }
}
