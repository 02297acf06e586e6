//! A home that is a directory of the file system: one method for each effect of the core on home.
//!
//! Every path is taken below the home directory and no symlink in it is followed, so nothing outside can be reached, whatever
//! stands there or is put there meanwhile.

mod attributes;
mod change;
mod data;
mod handles;
mod holes;
mod identity;
mod interface;
mod resolve;
mod xattrs;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use forebay_core::attr::Kind;
use forebay_core::effect::HomeAttr;
use forebay_core::entries::Entries;
use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Ino, Name};
use forebay_core::message::StatFs;
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Dir, OFlags};

pub use data::drop_pages;
use handles::Handles;
pub use identity::{FileIdentity, OpenedFile};
pub use interface::{Home, IoService, IoStatus, RequestHint, WriteCount};

/// Open files of home that are kept for their next use.
const HANDLES_MAX: usize = 256;

type Result<T> = std::result::Result<T, Errno>;

/// The home directory. All methods can be called at the same time.
pub struct PosixHome {
    path: PathBuf,
    root: OwnedFd,
    /// Device number of the home directory itself.
    dev: u64,
    handles: Handles,
    /// Held while a directory or file has other permissions than its own for a moment, see [`attributes`].
    permissions: Mutex<()>,
}

impl PosixHome {
    /// Opens the home directory at `path`.
    ///
    /// # Errors
    /// The file system's; `ENOTDIR` if it is no directory.
    pub fn open(path: &Path) -> io::Result<PosixHome> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
        PosixHome::at(path.canonicalize()?, root.into())
    }

    /// The home directory that is open as `root` and stands at `path`, which need not lead there now: something may be mounted over it.
    ///
    /// # Errors
    /// The file system's.
    pub fn at(path: PathBuf, root: OwnedFd) -> io::Result<PosixHome> {
        let dev = rustix::fs::fstat(&root)?.st_dev;
        Ok(PosixHome { path, root, dev, handles: Handles::new(HANDLES_MAX), permissions: Mutex::new(()) })
    }

    /// The home directory itself, for [`PosixHome::at`].
    ///
    /// # Errors
    /// When there are too many open files.
    pub fn root(&self) -> io::Result<OwnedFd> {
        self.root.try_clone()
    }

    /// The absolute path of the home directory, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The entries of a directory without `.` and `..`, in no order.
    ///
    /// # Errors
    /// The file system's.
    pub fn list(&self, path: &HomePath) -> Result<Entries> {
        let fd = self.open_directory(path)?;
        let mut entries = Entries::default();
        for entry in Dir::read_from(&fd).map_err(errno)? {
            let entry = entry.map_err(errno)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match Kind::of_mode(entry.file_type().as_raw_mode()) {
                Some(kind) => kind,
                // Some file systems do not tell in the listing.
                None => match rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => attributes::kind(&stat)?,
                    Err(rustix::io::Errno::NOENT) => continue,
                    Err(error) => return Err(errno(error)),
                },
            };
            entries.push(name.to_bytes(), kind, None);
        }
        entries.shrink_to_fit();
        Ok(entries)
    }

    /// The attributes of an object, not following a symlink.
    ///
    /// # Errors
    /// The file system's.
    pub fn stat(&self, path: &HomePath) -> Result<HomeAttr> {
        attributes::home_attr(&self.raw_stat(path)?)
    }

    /// The target of a symlink.
    ///
    /// # Errors
    /// The file system's; `EINVAL` if it is no symlink.
    pub fn read_link(&self, path: &HomePath) -> Result<Name> {
        let (parent, name) = self.parent(path)?;
        let target = self.as_owner_of(parent.as_fd(), || rustix::fs::readlinkat(&parent, name, Vec::new()))?;
        Ok(Name::new(target.as_bytes()))
    }

    /// Space of the file system.
    ///
    /// # Errors
    /// The file system's.
    pub fn stat_fs(&self) -> Result<StatFs> {
        let stat = rustix::fs::fstatvfs(&self.root).map_err(errno)?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(StatFs {
            total_bytes: bytes(stat.f_blocks),
            free_bytes: bytes(stat.f_bfree),
            available_bytes: bytes(stat.f_bavail),
            files: stat.f_files,
            files_free: stat.f_ffree,
            name_bytes_max: u32::try_from(stat.f_namemax).unwrap_or(u32::MAX),
        })
    }

    /// Whether [`PosixHome::forget`] may have something to do. Never waits.
    pub fn may_hold(&self, ino: Ino) -> bool {
        self.handles.may_hold(ino)
    }

    /// The inode is dead or was renamed at home: forgets its open handle, and the one kept when it was unlinked.
    pub fn forget(&self, ino: Ino) {
        self.handles.forget(ino);
    }

    fn raw_stat(&self, path: &HomePath) -> Result<rustix::fs::Stat> {
        if path.as_bytes().is_empty() {
            return rustix::fs::fstat(&self.root).map_err(errno);
        }
        let (parent, name) = self.parent(path)?;
        self.as_owner_of(parent.as_fd(), || rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW))
    }

    fn open_directory(&self, path: &HomePath) -> Result<OwnedFd> {
        self.open_as_owner(path, OFlags::RDONLY | OFlags::DIRECTORY, 0o500)
    }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

#[cfg(test)]
mod tests;
