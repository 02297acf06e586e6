//! The one place where the command line touches the server and the mount.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use forebay_client::Client;
use forebay_core::attr::Kind;
use forebay_core::config::NodeConfig;
use forebay_core::effect::Once;
use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Ino};
use forebay_core::message::{DrainFailure, DrainStep, Reply, Request, Status};
use forebay_core::recovery::Held;
use forebay_fuse::{Agreed, Inheritance, MountOptions, Mounted, VALID_FOR_EVER, VirtualFile};
use forebay_server::{CallPayload, Instance, Options, RecoverySummary, StartError, Takeover, Transport};
use forebay_store::{BufferError, Home, Superblock, SuperblockError};
use parking_lot::{Mutex, RwLock};

use crate::config::Settings;
use crate::error::{Error, Exit};

/// The way of the mount's requests to the instance, which can be closed for good.
///
/// A process may keep a file open beyond the unmounting. Once the last drain begins, nothing may be acknowledged any more: it would be lost
/// with the buffer.
#[derive(Clone)]
pub(crate) struct Gate {
    instance: Arc<Instance>,
    closed: Arc<RwLock<bool>>,
}

impl Transport for Gate {
    fn call(&self, request: Request, payload: CallPayload<'_>) -> Reply {
        let closed = self.closed.read();
        if *closed { Reply::Error { errno: Errno::EIO } } else { self.instance.call(request, payload) }
    }

    fn call_telling(&self, request: Request, payload: CallPayload<'_>, once: Option<Once>, waits: &(dyn Fn() + Sync)) -> Reply {
        let closed = self.closed.read();
        if *closed { Reply::Error { errno: Errno::EIO } } else { self.instance.call_telling(request, payload, once, waits) }
    }
}

/// Asks a running instance, as the mount does.
pub(crate) type FileClient = Client<Gate>;

/// A running instance, mounted or not.
pub(crate) struct Engine {
    gate: Gate,
    mounted: Mutex<Option<Mounted>>,
    /// The mount's connection to the kernel was aborted by somebody: what the kernel still held is lost.
    was_cut_off: AtomicBool,
}

/// What the buffer at `path` says of itself, whatever is running.
pub(crate) fn read_superblock(buffer: &Path) -> Result<Superblock, Error> {
    Superblock::read(&buffer.join("superblock")).map_err(|error| match error {
        SuperblockError::Missing(_) => {
            Error::Buffer { buffer: buffer.into(), reason: "it holds no buffer; name the directory that a run has kept".into() }
        }
        SuperblockError::Io { .. } => Error::Buffer { buffer: buffer.into(), reason: error.to_string() },
        _ => Error::Damaged { buffer: buffer.into(), reason: error.to_string() },
    })
}

/// What an instance needs to start.
#[derive(Clone)]
pub(crate) struct Plan<'a> {
    pub(crate) node: NodeConfig,
    pub(crate) backing: &'a Path,
    pub(crate) buffer: &'a Path,
    pub(crate) memory_dir: Option<&'a Path>,
    pub(crate) record: Option<&'a Path>,
    pub(crate) home_threads: usize,
    /// Home, if it is no directory.
    pub(crate) home: Option<Arc<dyn Home>>,
    /// The buffer was left by an instance whose keeper is dead: the process that served it cannot last.
    pub(crate) was_left: bool,
}

impl Plan<'_> {
    fn options(&self) -> Options {
        Options {
            node: self.node.clone(),
            buffer: self.buffer.into(),
            backing: self.backing.into(),
            memory_dir: self.memory_dir.map(Path::to_path_buf),
            record: self.record.map(Path::to_path_buf),
            home_threads: self.home_threads,
        }
    }

    /// After a start that failed: waits a little if the buffer is only still held by a process that was killed and is on its way out.
    fn wait_or_fail(&self, error: &StartError, until: Instant) -> Result<(), Error> {
        if self.was_left && matches!(error, StartError::Buffer(BufferError::InUse { .. })) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
            return Ok(());
        }
        Err(Error::Coded { exit: exit_of(error), message: error.to_string() })
    }
}

/// What a process that is killed leaves to the one that takes over.
#[derive(Debug)]
pub(crate) struct Legacy {
    /// The connection to the kernel.
    pub(crate) device: OwnedFd,
    /// What was agreed on it.
    pub(crate) agreed: Agreed,
    /// The backing directory, if home is one.
    pub(crate) home: Option<OwnedFd>,
}

/// How long a process that was killed may take to let go of the buffer.
const LOCK_WITHIN: Duration = Duration::from_secs(60);

/// Whose fault it is that an instance did not start.
fn exit_of(error: &StartError) -> Exit {
    match error {
        StartError::Backing { .. } | StartError::Config(_) => Exit::Config,
        StartError::Damaged { .. } | StartError::DamagedJournal { .. } | StartError::Recovery { .. } => Exit::Data,
        StartError::Buffer(BufferError::Superblock(SuperblockError::Io { .. } | SuperblockError::Missing(_))) => Exit::Buffer,
        StartError::Buffer(BufferError::Superblock(_) | BufferError::Journal(_) | BufferError::Truncated { .. }) => Exit::Data,
        StartError::Buffer(_) | StartError::OtherBacking { .. } => Exit::Buffer,
        _ => Exit::Internal,
    }
}

impl Engine {
    /// Starts an instance, which recovers what its buffer holds.
    pub(crate) fn start(plan: &Plan<'_>) -> Result<Engine, Error> {
        let until = Instant::now() + LOCK_WITHIN;
        loop {
            let started = match &plan.home {
                Some(home) => Instance::start_over(plan.options(), home.clone()),
                None => Instance::start(plan.options()),
            };
            match started {
                Ok(instance) => return Ok(Engine::of(instance)),
                Err(error) => plan.wait_or_fail(&error, until)?,
            }
        }
    }

    /// Starts an instance in the place of one that was killed, and serves its mount over the connection that it has left. Waits for the end
    /// of the process that was killed.
    pub(crate) fn take_over(plan: &Plan<'_>, legacy: &Legacy) -> Result<(Engine, Inheritance), Error> {
        let failed = |what: &str| Error::io(format!("take over the mount: {what}"));
        let until = Instant::now() + LOCK_WITHIN;
        loop {
            let device = legacy.device.try_clone().map_err(failed("the connection"))?;
            let mut inheritance = Inheritance::new(device).map_err(failed("a thread"))?;
            let mut held = |ino: Ino, kind: Kind| {
                let is_known = inheritance.is_known(ino, kind);
                Held { lookups: is_known.into(), opens: u32::from(is_known && kind == Kind::File) }
            };
            let taken = match (&plan.home, &legacy.home) {
                (Some(home), _) => Instance::take_over_in_front(plan.options(), home.clone(), &mut held),
                (None, Some(home)) => {
                    let home = home.try_clone().map_err(failed("the backing directory"))?;
                    Instance::take_over(plan.options(), Takeover { home, held: &mut held })
                }
                (None, None) => return Err(failed("the backing directory")(std::io::ErrorKind::NotFound.into())),
            };
            match taken {
                Ok(instance) => return Ok((Engine::of(instance), inheritance)),
                Err(error) => plan.wait_or_fail(&error, until)?,
            }
        }
    }

    fn of(instance: Arc<Instance>) -> Engine {
        Engine { gate: Gate { instance, closed: Arc::default() }, mounted: Mutex::default(), was_cut_off: AtomicBool::new(false) }
    }

    /// What a process needs to take over from this one; nothing if the kernel could not go on with it.
    pub(crate) fn legacy(&self) -> Option<Legacy> {
        let (device, agreed) = self.mounted.lock().as_ref()?.connection()?;
        let home = match self.gate.instance.home().root() {
            Ok(root) => Some(root),
            Err(Errno::ENOTSUP) => None,
            Err(_) => return None,
        };
        (agreed.resends && agreed.opens_unasked).then_some(Legacy { device, agreed, home })
    }

    /// What the start found in the buffer.
    pub(crate) fn recovered(&self) -> Option<RecoverySummary> {
        self.gate.instance.recovered()
    }

    /// Mounts the instance; see [`Engine::mount_options`].
    pub(crate) fn mount(&self, options: MountOptions) -> Result<(), Error> {
        let mounted =
            forebay_fuse::mount(Client::new(self.gate.clone()), options).map_err(|error| Error::Unavailable(error.to_string()))?;
        self.mounted_as(mounted)
    }

    /// Serves the mount that another process has left.
    pub(crate) fn mount_again(
        &self,
        (inheritance, agreed): (Inheritance, Agreed),
        point: &Path,
        settings: &Settings,
        virtual_files: Vec<VirtualFile>,
    ) -> Result<(), Error> {
        let options = self.mount_options(point, false, settings, virtual_files);
        let mounted = forebay_fuse::take_over(Client::new(self.gate.clone()), inheritance, agreed, options);
        self.mounted_as(mounted.map_err(|error| Error::Unavailable(error.to_string()))?)
    }

    /// How settings ask for it to be mounted.
    pub(crate) fn mount_options(
        &self,
        point: &Path,
        allow_other: bool,
        settings: &Settings,
        virtual_files: Vec<VirtualFile>,
    ) -> MountOptions {
        MountOptions {
            mountpoint: point.into(),
            allow_other,
            kernel_write_back: settings.kernel_write_back,
            write_bytes_max: self.gate.instance.write_bytes_max(),
            threads: settings.mount_threads,
            source: "forebay".into(),
            virtual_files,
            sees_all: false,
            names_valid: VALID_FOR_EVER,
            recorder: None,
        }
    }

    fn mounted_as(&self, mounted: Mounted) -> Result<(), Error> {
        let pruner = forebay_fuse::Pruner::start(mounted.notifier()).map_err(|error| Error::Unavailable(error.to_string()))?;
        self.gate.instance.prune_with(Box::new(move |names| pruner.prune(names)));
        *self.mounted.lock() = Some(mounted);
        Ok(())
    }

    /// One more way to ask it.
    pub(crate) fn client(&self) -> FileClient {
        Client::new(self.gate.clone())
    }

    /// Its state.
    pub(crate) fn status(&self) -> Status {
        self.gate.instance.status()
    }

    /// Brings home what was written before the call, what the kernel still holds of it included.
    pub(crate) fn drain(&self, mount: Option<&Path>) -> Vec<DrainFailure> {
        let flushed = mount.map_or(Ok(()), flush_kernel);
        let mut failures = self.gate.instance.drain();
        match flushed {
            Ok(()) => {}
            Err(DrainFailure { errno: Errno::ENOTCONN | Errno::ECONNABORTED, .. }) => self.was_cut_off.store(true, Ordering::Release),
            Err(failure) => failures.push(failure),
        }
        failures
    }

    /// Whether somebody aborted the mount's connection to the kernel.
    pub(crate) fn was_cut_off(&self) -> bool {
        self.was_cut_off.load(Ordering::Acquire)
    }

    /// Unmounts. If requests under way hold that up for longer than `within`, the end of the process will do it.
    pub(crate) fn unmount(&self, within: Duration) -> std::io::Result<()> {
        let Some(mounted) = self.mounted.lock().take() else { return Ok(()) };
        let (sender, receiver) = channel();
        std::thread::Builder::new().name("unmount".into()).spawn(move || drop(sender.send(mounted.unmount())))?;
        receiver.recv_timeout(within).unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
    }

    /// Refuses every request of the mount from now on, and lets go of what it had open. False if one is still under way after `within`.
    pub(crate) fn close_gate(&self, within: Duration) -> bool {
        let Some(mut closed) = self.gate.closed.try_write_for(within) else { return false };
        *closed = true;
        drop(closed);
        self.gate.instance.depart();
        true
    }

    /// Makes the buffer itself durable, so that what is kept outlives the machine.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        match self.gate.instance.call(Request::Sync { ino: Ino::ROOT }, CallPayload::None) {
            Reply::Error { errno } => Err(errno),
            _ => Ok(()),
        }
    }

    /// Home and the buffer's number, for the last word of a buffer.
    pub(crate) fn prepare_word(&self) -> Option<(Arc<dyn Home>, [u8; 16])> {
        Some((self.gate.instance.home(), self.gate.instance.buffer_number()?))
    }

    /// Ends the instance; the buffer stays.
    pub(crate) fn shutdown(&self) {
        self.gate.instance.shutdown();
    }

    /// Removes the buffer's files, after a shutdown.
    pub(crate) fn remove_buffer(&self) -> std::io::Result<()> {
        self.gate.instance.remove_buffer()
    }
}

/// Has the kernel hand over the pages that processes have written through a mapping, or in the write-back mode.
///
/// Another process asks for it. A thread of this one would wait for itself: if this process were killed meanwhile, that thread could not
/// end before its request was answered, the kernel would not give the request up before this process had ended, and both would last for ever.
pub(crate) fn flush_kernel(mount: &Path) -> Result<(), DrainFailure> {
    let failure = |errno| DrainFailure { path: HomePath::default(), errno, step: DrainStep::Write };
    if crate::mounts::mounted_at(mount).is_none() {
        // Unmounted from outside: the kernel flushed it then, and what is here now is another file system.
        return Ok(());
    }
    let mut helper = Command::new("/proc/self/exe");
    helper.arg("flush-kernel").arg(mount).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // In a group of its own it does not get the signals of the terminal, which are for this process to act on.
    let status = helper.process_group(0).status().map_err(|error| failure(Errno(error.raw_os_error().unwrap_or(Errno::EIO.0))))?;
    match status.code() {
        Some(0) => Ok(()),
        code => Err(failure(code.map_or(Errno::EIO, Errno))),
    }
}

/// What [`flush_kernel`] has the other process do; gives an error number as the exit status.
pub(crate) fn flush_kernel_from_outside(mount: &Path) -> u8 {
    let done = std::fs::File::open(mount).and_then(|root| Ok(rustix::fs::syncfs(root)?));
    done.map_or_else(|error| error.raw_os_error().and_then(|errno| u8::try_from(errno).ok()).unwrap_or(Errno::EIO.0 as u8), |()| 0)
}

/// Takes away a mount whose server has died; says whether there was one.
pub(crate) fn clear_dead_mount(point: &Path) -> std::io::Result<bool> {
    forebay_fuse::clear_dead_mount(point)
}
