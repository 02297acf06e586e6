//! The FUSE mount: each request of the kernel is one message to the server. No decision is taken here.

#![forbid(unsafe_code)]

use std::io;
use std::path::{Path, PathBuf};

use forebay_client::{Client, Transport};

/// How to mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The directory to mount on.
    pub mountpoint: PathBuf,
    /// Let other users in. An ordinary user needs `user_allow_other` in /etc/fuse.conf for it.
    pub allow_other: bool,
    /// Let the kernel keep written bytes back: faster small writes, and a weaker promise (durable from fsync or close on).
    pub kernel_write_back: bool,
    /// Threads that serve the kernel; each may be blocked in a call. At least 1.
    pub threads: usize,
    /// What `mount` and `df` show as the source.
    pub source: String,
}

/// Why mounting failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The mountpoint cannot be used.
    #[error("cannot mount on {}: {source}", path.display())]
    Mountpoint {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// A mount; unmounted when dropped.
pub struct Mounted {}

impl Mounted {
    /// Unmounts; if something still uses the mount, takes the name away and lets the users finish.
    pub fn unmount(self) -> io::Result<()> {
        unimplemented!()
    }
}

/// Mounts the file system that `client` reaches.
pub fn mount<T: Transport + 'static>(_client: Client<T>, _options: MountOptions) -> Result<Mounted, MountError> {
    unimplemented!()
}

/// If a mount whose server has died stands at `path`, takes it away. Tells whether there was one.
pub fn clear_dead_mount(_path: &Path) -> io::Result<bool> {
    unimplemented!()
}
