//! Attributes of objects of home, and their owner's rights.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use forebay_core::attr::{Attr, Kind, pack_device};
use forebay_core::effect::HomeAttr;
use forebay_core::errno::Errno;
use forebay_core::id::HomePath;
use forebay_core::xattr::Xattr;
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid};

use super::{PosixHome, Result, errno};

const SECOND_NS: i64 = 1_000_000_000;
/// Permission bits with set-uid, set-gid and sticky.
const MODE_BITS: u32 = 0o7777;
const SET_ID_BITS: u32 = 0o6000;

/// What a setattr makes of an object.
pub(super) struct NewAttr<'a> {
    pub(super) kind: Kind,
    pub(super) mode: u16,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) atime_ns: i64,
    pub(super) mtime_ns: i64,
    pub(super) xattrs: Option<&'a [Xattr]>,
}

pub(super) fn kind(stat: &Stat) -> Result<Kind> {
    Kind::of_mode(stat.st_mode).ok_or(Errno::ENOTSUP)
}

pub(super) fn home_attr(stat: &Stat) -> Result<HomeAttr> {
    let ns = |seconds: i64, nanoseconds: i64| seconds.saturating_mul(SECOND_NS).saturating_add(nanoseconds);
    let attr = Attr {
        kind: kind(stat)?,
        mode: (stat.st_mode & MODE_BITS) as u16,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: stat.st_size.cast_unsigned(),
        blocks: stat.st_blocks.cast_unsigned(),
        rdev: pack_device(rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)),
        atime_ns: ns(stat.st_atime, stat.st_atime_nsec as i64),
        mtime_ns: ns(stat.st_mtime, stat.st_mtime_nsec as i64),
        ctime_ns: ns(stat.st_ctime, stat.st_ctime_nsec as i64),
    };
    Ok(HomeAttr { attr, dev: stat.st_dev, ino: stat.st_ino })
}

fn timespec(ns: i64) -> Timespec {
    Timespec { tv_sec: ns.div_euclid(SECOND_NS), tv_nsec: ns.rem_euclid(SECOND_NS) }
}

/// The name under which the kernel has an open descriptor: the one way to change the mode of what an O_PATH descriptor stands for.
pub(super) fn proc_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Changes the mode of what `fd`, which may be an O_PATH descriptor but no symlink's, stands for.
fn change_mode(fd: BorrowedFd<'_>, mode: u32) -> rustix::io::Result<()> {
    rustix::fs::chmodat(CWD, proc_path(fd), Mode::from_raw_mode(mode), AtFlags::empty())
}

impl PosixHome {
    /// Sets owner, mode and times, in this order: a change of owner clears the set-uid bits, and both change the times.
    pub(super) fn set_attr(&self, path: &HomePath, new: &NewAttr<'_>) -> Result<u64> {
        let fd = self.open_at_home(path, OFlags::PATH, Mode::empty())?;
        if let Some(xattrs) = new.xattrs {
            self.set_xattrs(fd.as_fd(), xattrs)?;
        }
        // Else a mode that is widened for a moment would be taken for the real one, or put back over the new one.
        let _alone = self.permissions.lock();
        let stat = rustix::fs::fstat(&fd).map_err(errno)?;
        let kind = kind(&stat)?;
        if kind != new.kind {
            // Someone else put another object there: its attributes are not ours to set.
            return Err(Errno::ESTALE);
        }
        let owner_differs = (stat.st_uid, stat.st_gid) != (new.uid, new.gid);
        if owner_differs {
            let uid = (stat.st_uid != new.uid).then(|| Uid::from_raw(new.uid));
            let gid = (stat.st_gid != new.gid).then(|| Gid::from_raw(new.gid));
            rustix::fs::chownat(&fd, c"", uid, gid, AtFlags::EMPTY_PATH).map_err(errno)?;
        }
        let mode = u32::from(new.mode) & MODE_BITS;
        let set_id_cleared = owner_differs && mode & SET_ID_BITS != 0;
        if kind != Kind::Symlink && (stat.st_mode & MODE_BITS != mode || set_id_cleared) {
            change_mode(fd.as_fd(), mode).map_err(errno)?;
        }
        let times = Timestamps { last_access: timespec(new.atime_ns), last_modification: timespec(new.mtime_ns) };
        match rustix::fs::utimensat(&fd, c"", &times, AtFlags::EMPTY_PATH) {
            // Kernels before 5.8 do not take a descriptor there.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {
                rustix::fs::utimensat(CWD, proc_path(fd.as_fd()), &times, AtFlags::empty())
            }
            result => result,
        }
        .map_err(errno)?;
        Ok(stat.st_blocks.cast_unsigned())
    }

    /// Carries out `work` in a directory. Where that is refused and the directory is ours, its mode is widened for a moment: an
    /// application may take a right from a directory that it has filled, before its contents are home.
    pub(super) fn as_owner_of<T>(&self, directory: BorrowedFd<'_>, work: impl FnMut() -> rustix::io::Result<T>) -> Result<T> {
        self.as_owner_of_all(&[directory], work)
    }

    /// As [`PosixHome::as_owner_of`], where any of several may be what refuses.
    pub(super) fn as_owner_of_all<T>(&self, directories: &[BorrowedFd<'_>], mut work: impl FnMut() -> rustix::io::Result<T>) -> Result<T> {
        match work() {
            Err(rustix::io::Errno::ACCESS) => {}
            result => return result.map_err(errno),
        }
        self.with_rights(directories, 0o700, work)
    }

    /// Carries out `work` while each of these objects that is ours has also the rights `extra`.
    ///
    /// One caller at a time: a second one would take the widened mode for the real one, and leave it.
    pub(super) fn with_rights<T>(
        &self,
        objects: &[BorrowedFd<'_>],
        extra: u32,
        mut work: impl FnMut() -> rustix::io::Result<T>,
    ) -> Result<T> {
        let _alone = self.permissions.lock();
        let mut widened = Vec::new();
        let mut result = Ok(());
        for object in objects {
            let stat = match rustix::fs::fstat(object) {
                Ok(stat) => stat,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let mode = stat.st_mode & MODE_BITS;
            if stat.st_uid == rustix::process::geteuid().as_raw() && mode & extra != extra {
                result = change_mode(*object, mode | extra);
                if result.is_err() {
                    break;
                }
                widened.push((*object, mode));
            }
        }
        let result = result.and_then(|()| work());
        let mut restored = Ok(());
        for (object, mode) in widened.into_iter().rev() {
            restored = restored.and(change_mode(object, mode));
        }
        let value = result.map_err(errno)?;
        restored.map_err(errno)?;
        Ok(value)
    }
}
