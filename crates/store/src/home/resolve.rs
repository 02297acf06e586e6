//! From a path below home to an open descriptor.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use forebay_core::errno::Errno;
use forebay_core::id::HomePath;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};

use super::{PosixHome, Result, errno};

/// A path longer than this goes component by component: the kernel takes 4095 bytes at a time.
const WHOLE_PATH_BYTES_MAX: usize = 4000;
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// The directory that a path's last component is in.
pub(super) enum Parent<'a> {
    Root(BorrowedFd<'a>),
    Below(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Parent::Root(fd) => *fd,
            Parent::Below(fd) => fd.as_fd(),
        }
    }
}

/// The path before the last slash, and the name behind it.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&[], path),
    }
}

/// A component that stands for itself. Paths come from the core, which builds them of names: anything else is a mistake that must
/// not reach the file system.
fn check_component(name: &[u8]) -> Result<()> {
    let odd = name.is_empty() || name == b"." || name == b".." || name.contains(&0);
    if odd { Err(Errno::EINVAL) } else { Ok(()) }
}

impl PosixHome {
    /// The directory of a path's last component, and that component. `EBUSY` for the home directory itself, as for a mount point.
    pub(super) fn parent<'a>(&'a self, path: &'a HomePath) -> Result<(Parent<'a>, &'a [u8])> {
        let (directory, name) = split(path.as_bytes());
        if path.as_bytes().is_empty() {
            return Err(Errno::EBUSY);
        }
        check_component(name)?;
        if directory.is_empty() && name.len() == path.as_bytes().len() {
            return Ok((Parent::Root(self.root.as_fd()), name));
        }
        Ok((Parent::Below(self.open_path(directory, DIRECTORY, Mode::empty())?), name))
    }

    /// Opens an object of home, following no symlink, not even a last one.
    pub(super) fn open_at_home(&self, path: &HomePath, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        if path.as_bytes().is_empty() {
            let flags = flags | OFlags::CLOEXEC;
            return rustix::fs::openat(&self.root, c".", flags, mode).map_err(errno);
        }
        self.open_path(path.as_bytes(), flags, mode)
    }

    /// Opens an object of home; one whose mode forbids that to its owner gets the rights `needed` for a moment.
    pub(super) fn open_as_owner(&self, path: &HomePath, flags: OFlags, needed: u32) -> Result<OwnedFd> {
        match self.open_at_home(path, flags, Mode::empty()) {
            Err(Errno::EACCES) if !path.as_bytes().is_empty() => {}
            result => return result,
        }
        let object = self.open_at_home(path, OFlags::PATH, Mode::empty())?;
        if is_symlink(&object) {
            // Where nothing is opened there is nothing to widen; and a symlink has no mode.
            return Err(Errno::EACCES);
        }
        let (parent, name) = self.parent(path)?;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let all = [parent.as_fd(), object.as_fd()];
        self.with_rights(&all, needed | 0o100, || rustix::fs::openat(&parent, name, flags, Mode::empty()))
    }

    fn open_path(&self, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        path.split(|byte| *byte == b'/').try_for_each(check_component)?;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if path.len() <= WHOLE_PATH_BYTES_MAX {
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            match rustix::fs::openat2(&self.root, path, flags, mode, resolve) {
                Ok(fd) => return Ok(fd),
                // An old kernel or a sandbox may not have the call; a directory that its owner may not search shows as EACCES.
                Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM | rustix::io::Errno::ACCESS) => {}
                Err(rustix::io::Errno::AGAIN) => {}
                Err(error) => return Err(errno(error)),
            }
        }
        self.open_by_component(path, flags, mode)
    }

    /// Walks down one component at a time. A symlink on the way is refused, by `O_NOFOLLOW` together with `O_DIRECTORY`.
    fn open_by_component(&self, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let (directory, name) = split(path);
        let mut parent = Parent::Root(self.root.as_fd());
        if !directory.is_empty() {
            let step = DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            for component in directory.split(|byte| *byte == b'/') {
                let next = self.open_in(&parent, component, step, Mode::empty())?;
                parent = Parent::Below(next);
            }
        }
        self.open_in(&parent, name, flags, mode)
    }

    /// Opens one name in a directory, which is made searchable for a moment where only its mode forbids that to its owner.
    fn open_in(&self, parent: &Parent<'_>, name: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        self.as_owner_of(parent.as_fd(), || match rustix::fs::openat(parent, name, flags, mode) {
            // With O_DIRECTORY, a symlink that is not followed shows as ENOTDIR, else as ELOOP: one word for the same thing.
            Err(rustix::io::Errno::NOTDIR) if name_is_symlink(parent, name) => Err(rustix::io::Errno::LOOP),
            result => result,
        })
    }
}

fn name_is_symlink(parent: &Parent<'_>, name: &[u8]) -> bool {
    let stat = rustix::fs::statat(parent, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink())
}

fn is_symlink(object: &OwnedFd) -> bool {
    rustix::fs::fstat(object).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink())
}
