//! The FUSE mount: each request of the kernel is one message to the server. No decision is taken here.
//!
//! [`mount()`] works for root, who calls mount(2), and for ordinary users, for whom the setuid helper `fusermount3` does it.

#![forbid(unsafe_code)]

mod abi;
mod answer;
mod buffers;
mod convert;
mod device;
mod empty;
mod filesystem;
mod held;
mod inherited;
mod listing;
mod mountinfo;
mod negotiate;
mod notify;
mod operation;
mod pass_through;
mod prune;
mod recording;
mod session;
mod unmount;
mod virtual_files;
mod watch;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use forebay_client::{Client, Transport};
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

pub use crate::empty::Empty;
use crate::held::Held;
pub use crate::inherited::Inheritance;
pub use crate::negotiate::Agreed;
use crate::negotiate::Wishes;
pub use crate::notify::Notifier;
pub use crate::pass_through::PassThrough;
pub use crate::prune::Pruner;
pub use crate::recording::{Recorded, Recorder};
use crate::session::Terms;
pub use crate::unmount::{clear_dead_mount, is_dead_mount};
pub use crate::virtual_files::VirtualFile;
use crate::virtual_files::WithVirtualFiles;

/// How long [`Mounted::unmount`] waits for the requests that are being served.
const UNMOUNT_PATIENCE: Duration = Duration::from_secs(2);
/// The same, when processes still use the mount: they may be about to end.
const DETACH_PATIENCE: Duration = Duration::from_millis(300);

/// How to mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The directory to mount on.
    pub mountpoint: PathBuf,
    /// Let other users in. An ordinary user needs `user_allow_other` in /etc/fuse.conf for it.
    pub allow_other: bool,
    /// Let the kernel keep written bytes back: faster small writes, and a weaker promise (kept from fsync or close on).
    pub kernel_write_back: bool,
    /// The longest write that the server takes in one call, bytes; the kernel divides longer ones.
    pub write_bytes_max: u32,
    /// Threads that serve the kernel. More are added, up to a limit, while some of these wait for room or for home. At least 1.
    pub threads: usize,
    /// What `mount` and `df` show as the source.
    pub source: String,
    /// Files that only the mount has, in the directory `.forebay` of its root.
    pub virtual_files: Vec<VirtualFile>,
    /// Each open, close, read and write of a program becomes a request: nothing is answered by the kernel. A mount of this kind cannot be
    /// taken over.
    pub sees_all: bool,
    /// For how long the kernel may keep names and attributes that it was told, whole seconds.
    pub names_valid: Duration,
    /// Writes down what is done in the mount.
    pub recorder: Option<Arc<Recorder>>,
}

/// For how long the kernel may keep names and attributes where all changes come through it, so that they do not age.
pub const VALID_FOR_EVER: Duration = Duration::from_secs(24 * 60 * 60);

/// Why mounting failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The mountpoint cannot be looked at.
    #[error("cannot mount on {}: {source}; give a directory that exists and is yours", path.display())]
    Mountpoint {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The mountpoint is a file or something else.
    #[error("cannot mount on {}: it is not a directory", path.display())]
    NotADirectory {
        /// What was given.
        path: PathBuf,
    },
    /// The mountpoint holds a mount whose server has died.
    #[error("cannot mount on {path}: a mount whose server has died stands there; take it away with `fusermount3 -u -z {path}`", path = path.display())]
    DeadMount {
        /// The directory.
        path: PathBuf,
    },
    /// There is no FUSE device.
    #[error(
        "there is no /dev/fuse on this machine: load the kernel module with `sudo modprobe fuse` (for a container: start it with `--device /dev/fuse`)"
    )]
    NoDevice,
    /// The FUSE device may not be opened.
    #[error(
        "/dev/fuse may not be opened ({source}): allow it with `sudo chmod 666 /dev/fuse` (for a container: start it with `--device /dev/fuse`)"
    )]
    DeviceDenied {
        /// The reason.
        source: io::Error,
    },
    /// The setuid helper is not installed.
    #[error(
        "fusermount3 is not installed, and only root can mount without it: install it with `sudo apt install fuse3` (or your system's package fuse3)"
    )]
    NoHelper,
    /// `allow_other` is not allowed to users.
    #[error("allow_other is not allowed to ordinary users here: add the line `user_allow_other` to /etc/fuse.conf, or mount without it")]
    AllowOtherDenied,
    /// The kernel or the helper refused.
    #[error("cannot mount on {}: {reason}", path.display())]
    Refused {
        /// The directory.
        path: PathBuf,
        /// What the kernel or the helper said.
        reason: String,
    },
}

/// A mount; unmounted when dropped.
#[derive(Debug)]
pub struct Mounted {
    /// Absolute, without symlinks.
    mountpoint: PathBuf,
    /// The device number of the mount, so that another one on the same directory is left alone.
    device: Option<String>,
    session: Arc<SessionEnd>,
    connection: Weak<OwnedFd>,
    agreed: Option<Agreed>,
    /// It was unmounted, or that was tried; the end of this value need not try again.
    left: bool,
}

/// Whether the last thread of a session has ended.
#[derive(Debug, Default)]
pub(crate) struct SessionEnd {
    ended: Mutex<bool>,
    changed: Condvar,
}

impl SessionEnd {
    pub(crate) fn set(&self) {
        *self.ended.lock() = true;
        self.changed.notify_all();
    }

    fn wait(&self, patience: Duration) -> bool {
        let mut ended = self.ended.lock();
        self.changed.wait_while_for(&mut ended, |ended| !*ended, patience);
        *ended
    }
}

/// Mounts the file system that `client` reaches.
///
/// # Errors
/// See [`MountError`]; each says what to do.
pub fn mount<T: Transport + 'static>(client: Client<T>, options: MountOptions) -> Result<Mounted, MountError> {
    let mountpoint = check_mountpoint(&options.mountpoint)?;
    let refused = |error: io::Error| MountError::Refused { path: mountpoint.clone(), reason: error.to_string() };
    let device = device::open_mounted(&mountpoint, &options)?;
    let number = mountinfo::topmost(&mountpoint).map(|entry| entry.device);
    // Made now, so that what fails from here on unmounts.
    let mut mounted = Mounted {
        mountpoint: mountpoint.clone(),
        device: number,
        session: Arc::default(),
        connection: Weak::new(),
        agreed: None,
        left: false,
    };
    let wishes = Wishes {
        kernel_write_back: options.kernel_write_back,
        write_bytes_max: options.write_bytes_max,
        sees_all: options.sees_all,
        names_valid_s: options.names_valid.as_secs(),
    };
    let (end, recorder) = (mounted.session.clone(), options.recorder);
    let transport = WithVirtualFiles::new(client.into_transport(), options.virtual_files);
    let started = negotiate::handshake(&device, &wishes)
        .and_then(|agreed| {
            mounted.agreed = Some(agreed);
            let terms = Terms { agreed, held: Held::default(), steady: options.threads, recorder, end };
            session::start(Arc::new(device), transport, terms)
        })
        .map_err(|error| {
            mounted.session.set();
            let _ = unmount::detach(&mountpoint);
            refused(error)
        })?;
    mounted.connection = Arc::downgrade(&started);
    Ok(mounted)
}

/// Goes on with a mount of which another process has died: serves what `client` reaches over the connection that it has left, and has the
/// kernel send again what was not answered. `inheritance` says what the kernel knows.
///
/// # Errors
/// When no threads can be made.
pub fn take_over<T: Transport + 'static>(
    client: Client<T>,
    inheritance: Inheritance,
    agreed: Agreed,
    options: MountOptions,
) -> io::Result<Mounted> {
    let mountpoint = options.mountpoint;
    let mut mounted = Mounted {
        device: mountinfo::topmost(&mountpoint).filter(|entry| entry.kind == "fuse.forebay").map(|entry| entry.device),
        mountpoint,
        session: Arc::default(),
        connection: Weak::new(),
        agreed: Some(agreed),
        left: false,
    };
    let (device, inherited) = inheritance.into_parts();
    // Before anybody reads: what is read is under way, and would be sent again too. Without a mount there is nothing to send.
    let _ = answer::notify(&device, notify::RESEND, &[]);
    let transport = WithVirtualFiles::new(client.into_transport(), options.virtual_files);
    let (held, end) = (Held::inheriting(inherited), mounted.session.clone());
    let terms = Terms { agreed, held, steady: options.threads, recorder: options.recorder, end };
    let started = session::start(device, transport, terms)?;
    mounted.connection = Arc::downgrade(&started);
    Ok(mounted)
}

/// The absolute path of a directory that can be mounted on.
fn check_mountpoint(path: &Path) -> Result<PathBuf, MountError> {
    match unmount::look(path) {
        Err(Errno::NOTCONN | Errno::CONNABORTED) => return Err(MountError::DeadMount { path: path.into() }),
        Err(errno) => return Err(MountError::Mountpoint { path: path.into(), source: errno.into() }),
        Ok(kind) if !kind.is_dir() => return Err(MountError::NotADirectory { path: path.into() }),
        Ok(_) => {}
    }
    path.canonicalize().map_err(|source| MountError::Mountpoint { path: path.into(), source })
}

impl Mounted {
    /// The directory: absolute, without symlinks.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// Waits until the mount has ended, by whomever, for at most `patience`; tells whether it has.
    pub fn wait_ended(&self, patience: Duration) -> bool {
        self.session.wait(patience)
    }

    /// The connection to the kernel and what was agreed on it, for [`take_over`]; none if the mount has ended.
    pub fn connection(&self) -> Option<(OwnedFd, Agreed)> {
        let device = self.connection.upgrade()?.try_clone().ok()?;
        Some((device, self.agreed?))
    }

    /// Tells the kernel what it must not keep.
    pub fn notifier(&self) -> Notifier {
        Notifier { device: self.connection.clone() }
    }

    /// Unmounts. If processes still use the mount, takes the directory's name away from it and lets them finish; says so on
    /// standard error.
    ///
    /// # Errors
    /// The kernel's, if the mount stands and cannot be taken away.
    pub fn unmount(mut self) -> io::Result<()> {
        self.left = true;
        self.end()
    }

    fn end(&self) -> io::Result<()> {
        let is_ours = mountinfo::topmost(&self.mountpoint).map(|entry| entry.device) == self.device;
        if *self.session.ended.lock() {
            // Whoever aborts the connection leaves a dead mount behind.
            return if is_ours && self.device.is_some() { unmount::detach(&self.mountpoint) } else { Ok(()) };
        }
        if !is_ours {
            // Taken away by someone else: what stands here now is not ours.
            self.session.wait(UNMOUNT_PATIENCE);
            return Ok(());
        }
        match unmount::unmount(&self.mountpoint) {
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                unmount::detach(&self.mountpoint)?;
                if !self.session.wait(DETACH_PATIENCE) {
                    let path = self.mountpoint.display();
                    forebay_host::log::problem(&format!("{path} is unmounted, but processes still use files or directories in it"));
                }
                Ok(())
            }
            Ok(()) => {
                self.session.wait(UNMOUNT_PATIENCE);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        if let Err(error) = self.end() {
            forebay_host::log::problem(&format!("cannot unmount {}: {error}", self.mountpoint.display()));
        }
    }
}
