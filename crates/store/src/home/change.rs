//! Changes of names and attributes at home.
//!
//! Each may meet its own effect of before a crash: what is already so counts as done.

use std::os::fd::AsFd;

use forebay_core::attr::{Kind, unpack_device};
use forebay_core::effect::{HomeChange, Outcome};
use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Name};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use super::attributes::{NewAttr, kind};
use super::{PosixHome, Result, errno};

/// What a new file may do until its attributes are set: nothing, for anyone but its owner.
const NEW_FILE_MODE: Mode = Mode::from_raw_mode(0o600);
const NEW_DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o700);

impl PosixHome {
    /// Carries out one change. What [`HomeChange`] says that it gives.
    ///
    /// # Errors
    /// The file system's; `EEXIST` if another object has the name.
    pub fn change(&self, change: &HomeChange) -> Result<Outcome> {
        let done = match change {
            HomeChange::MakeFile { path } => self.make_file(path),
            HomeChange::MakeDir { path } => {
                self.make(path, Kind::Directory, |parent, name| rustix::fs::mkdirat(parent, name, NEW_DIRECTORY_MODE))
            }
            HomeChange::SymLink { path, target } => self.make_symlink(path, target),
            HomeChange::MakeNode { path, kind, rdev } => self.make_node(path, *kind, *rdev),
            HomeChange::Link { from, to } => self.link(from, to),
            HomeChange::Unlink { path } => self.remove(path, AtFlags::empty()),
            HomeChange::RemoveDir { path } => self.remove(path, AtFlags::REMOVEDIR),
            HomeChange::Rename { from, to, again } => self.rename(from, to, *again),
            HomeChange::Truncate { ino, path, size } => self.truncate(*ino, path, *size),
            HomeChange::Punch { ino, path, offset, len } => self.punch(*ino, path, *offset, *len),
            HomeChange::SetAttr { path, kind, mode, uid, gid, atime_ns, mtime_ns, xattrs } => {
                let (kind, mode, uid, gid, atime_ns, mtime_ns) = (*kind, *mode, *uid, *gid, *atime_ns, *mtime_ns);
                let new = NewAttr { kind, mode, uid, gid, atime_ns, mtime_ns, xattrs: xattrs.as_deref() };
                return self.set_attr(path, &new).map(Outcome::Blocks);
            }
        };
        done.map(|()| Outcome::Done)
    }

    /// Makes a name; one that is there with the same kind counts as made.
    fn make(
        &self,
        path: &HomePath,
        wanted: Kind,
        make: impl Fn(std::os::fd::BorrowedFd<'_>, &[u8]) -> rustix::io::Result<()>,
    ) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        match self.as_owner_of(parent.as_fd(), || make(parent.as_fd(), name)) {
            Err(Errno::EEXIST) if kind(&self.raw_stat(path)?)? == wanted => Ok(()),
            result => result,
        }
    }

    /// A file that is there is taken over, empty.
    fn make_file(&self, path: &HomePath) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let make = || rustix::fs::openat(&parent, name, flags, NEW_FILE_MODE).map(drop);
        match self.as_owner_of(parent.as_fd(), make) {
            Err(Errno::EEXIST) if kind(&self.raw_stat(path)?)? == Kind::File => {
                let file = self.open_file(path, true)?;
                rustix::fs::ftruncate(&file, 0).map_err(errno)
            }
            result => result,
        }
    }

    fn make_symlink(&self, path: &HomePath, target: &Name) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        match self.as_owner_of(parent.as_fd(), || rustix::fs::symlinkat(target.as_bytes(), &parent, name)) {
            Err(Errno::EEXIST) if self.read_link(path).is_ok_and(|there| there == *target) => Ok(()),
            result => result,
        }
    }

    fn make_node(&self, path: &HomePath, kind: Kind, rdev: u32) -> Result<()> {
        let file_type = match kind {
            Kind::Fifo => FileType::Fifo,
            Kind::Socket => FileType::Socket,
            Kind::CharDevice => FileType::CharacterDevice,
            Kind::BlockDevice => FileType::BlockDevice,
            Kind::File | Kind::Directory | Kind::Symlink => return Err(Errno::EINVAL),
        };
        let (major, minor) = unpack_device(rdev);
        let device = rustix::fs::makedev(major, minor);
        self.make(path, kind, |parent, name| rustix::fs::mknodat(parent, name, file_type, NEW_FILE_MODE, device))
    }

    fn link(&self, from: &HomePath, to: &HomePath) -> Result<()> {
        let (old_parent, old_name) = self.parent(from)?;
        let (parent, name) = self.parent(to)?;
        let link = || rustix::fs::linkat(&old_parent, old_name, &parent, name, AtFlags::empty());
        match self.as_owner_of_all(&[old_parent.as_fd(), parent.as_fd()], link) {
            Err(Errno::EEXIST) => {
                let (old, new) = (self.raw_stat(from)?, self.raw_stat(to)?);
                let same = (old.st_dev, old.st_ino) == (new.st_dev, new.st_ino);
                if same { Ok(()) } else { Err(Errno::EEXIST) }
            }
            result => result,
        }
    }

    fn remove(&self, path: &HomePath, flags: AtFlags) -> Result<()> {
        let parent = match self.parent(path) {
            Err(Errno::ENOENT) => return Ok(()),
            result => result,
        };
        let (parent, name) = parent?;
        let result = self.as_owner_of(parent.as_fd(), || rustix::fs::unlinkat(&parent, name, flags));
        self.handles.forget_path(path);
        match result {
            Err(Errno::ENOENT) => Ok(()),
            result => result,
        }
    }

    fn rename(&self, from: &HomePath, to: &HomePath, again: bool) -> Result<()> {
        let result = self.rename_now(from, to);
        self.handles.forget_path(from);
        self.handles.forget_path(to);
        match result {
            Err(Errno::ENOENT) if again && self.raw_stat(to).is_ok() => Ok(()),
            result => result,
        }
    }

    fn rename_now(&self, from: &HomePath, to: &HomePath) -> Result<()> {
        let (old_parent, old_name) = self.parent(from)?;
        let (parent, name) = self.parent(to)?;
        let rename = || rustix::fs::renameat(&old_parent, old_name, &parent, name);
        match rename() {
            Err(rustix::io::Errno::ACCESS) => {}
            result => return result.map_err(errno),
        }
        // A directory that moves to another one is changed itself, in its entry for its parent.
        let object = self.open_at_home(from, OFlags::PATH, Mode::empty())?;
        let is_directory = kind(&rustix::fs::fstat(&object).map_err(errno)?)? == Kind::Directory;
        let all = [old_parent.as_fd(), parent.as_fd(), object.as_fd()];
        self.with_rights(if is_directory { &all } else { &all[..2] }, 0o700, rename)
    }
}
