//! System calls on what a descriptor stands for.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use forebay_core::attr::{Attr, AttrChange, Kind, SetTime, pack_device, unpack_device, without_set_id};
use forebay_core::errno::Errno;
use forebay_core::message::{AllocateMode, StatFs};
use rustix::fs::{AtFlags, CWD, FallocateFlags, Gid, Mode, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};

const SECOND_NS: i64 = 1_000_000_000;
const MODE_BITS: u32 = 0o7777;

pub(super) fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

/// The name under which the kernel has a descriptor: for calls that do not take those that open nothing.
pub(super) fn proc_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

pub(super) fn attr_of(stat: &Stat) -> Result<Attr, Errno> {
    let ns = |seconds: i64, nanoseconds: i64| seconds.saturating_mul(SECOND_NS).saturating_add(nanoseconds);
    Ok(Attr {
        kind: Kind::of_mode(stat.st_mode).ok_or(Errno::ENOTSUP)?,
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
    })
}

/// A device number as mknod(2) takes it.
pub(super) fn device(packed: u32) -> u64 {
    let (major, minor) = unpack_device(packed);
    rustix::fs::makedev(major, minor)
}

pub(super) fn change_mode(place: BorrowedFd<'_>, mode: u16) -> Result<(), Errno> {
    rustix::fs::chmodat(CWD, proc_path(place), Mode::from_raw_mode(u32::from(mode)), AtFlags::empty()).map_err(errno)
}

/// Owner, mode and times of a change; the size is another's task.
pub(super) fn change_attributes(place: BorrowedFd<'_>, change: &AttrChange) -> Result<(), Errno> {
    if change.uid.is_some() || change.gid.is_some() {
        let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
        rustix::fs::chownat(place, c"", uid, gid, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW).map_err(errno)?;
    }
    if let Some(mode) = change.mode {
        change_mode(place, mode)?;
    }
    if change.atime.is_none() && change.mtime.is_none() {
        return Ok(());
    }
    let time = |time: Option<SetTime>| match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(SetTime::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(SetTime::At(ns)) => Timespec { tv_sec: ns.div_euclid(SECOND_NS), tv_nsec: ns.rem_euclid(SECOND_NS) },
    };
    let times = Timestamps { last_access: time(change.atime), last_modification: time(change.mtime) };
    match rustix::fs::utimensat(place, c"", &times, AtFlags::EMPTY_PATH) {
        // Kernels before 5.8 do not take a descriptor there.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {
            rustix::fs::utimensat(CWD, proc_path(place), &times, AtFlags::empty()).map_err(errno)
        }
        result => result.map_err(errno),
    }
}

/// Takes the set-id bits that a change by an ordinary user takes; whether there were any. The kernel does it only where we are not root.
pub(super) fn drop_set_id(place: BorrowedFd<'_>, before: &Stat) -> Result<bool, Errno> {
    let mode = (before.st_mode & MODE_BITS) as u16;
    let left = without_set_id(mode);
    if left == mode {
        return Ok(false);
    }
    change_mode(place, left).map(|()| true)
}

pub(super) fn fallocate_flags(mode: AllocateMode) -> FallocateFlags {
    let keep = |keep_size| if keep_size { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
    match mode {
        AllocateMode::Reserve { keep_size } => keep(keep_size),
        AllocateMode::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        AllocateMode::Zero { keep_size } => FallocateFlags::ZERO_RANGE | keep(keep_size),
    }
}

/// Reads until there is nothing more; how many bytes.
pub(super) fn read(file: impl AsFd, space: &mut [u8], offset: u64) -> Result<u32, Errno> {
    let mut done = 0;
    while done < space.len() {
        match rustix::io::pread(file.as_fd(), &mut space[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(len) => done += len,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) if done > 0 => break,
            Err(error) => return Err(errno(error)),
        }
    }
    Ok(done as u32)
}

/// Writes all of it.
pub(super) fn write(file: impl AsFd, bytes: &[u8], offset: u64, append: bool) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &bytes[done..];
        let written = if append {
            let parts = [std::io::IoSlice::new(rest)];
            rustix::io::pwritev2(file.as_fd(), &parts, offset, rustix::io::ReadWriteFlags::APPEND)
        } else {
            rustix::io::pwrite(file.as_fd(), rest, offset + done as u64)
        };
        match written {
            Ok(0) => return Err(Errno::EIO),
            Ok(len) => done += len,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(errno(error)),
        }
    }
    Ok(())
}

pub(super) fn stat_fs(place: BorrowedFd<'_>) -> Result<StatFs, Errno> {
    let stat = rustix::fs::fstatvfs(place).map_err(errno)?;
    Ok(StatFs {
        total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
        free_bytes: stat.f_bfree.saturating_mul(stat.f_frsize),
        available_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        files: stat.f_files,
        files_free: stat.f_ffree,
        name_bytes_max: u32::try_from(stat.f_namemax).unwrap_or(255),
    })
}

/// What a call gives that fills a buffer as long as it says.
pub(super) fn sized(
    len: impl Fn() -> rustix::io::Result<usize>,
    call: impl Fn(&mut [u8]) -> rustix::io::Result<usize>,
) -> Result<Vec<u8>, Errno> {
    loop {
        let mut value = vec![0; len().map_err(errno)?];
        if value.is_empty() {
            return Ok(value);
        }
        match call(&mut value) {
            Ok(len) => {
                value.truncate(len);
                return Ok(value);
            }
            // It grew meanwhile.
            Err(rustix::io::Errno::RANGE) => {}
            Err(error) => return Err(errno(error)),
        }
    }
}
