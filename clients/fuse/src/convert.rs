//! Between the kernel's types and the messages'.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_core::attr::{Attr, Kind, SetTime};
use forebay_core::errno::Errno;
use forebay_core::id::Ino;
use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use rustix::fs::FileType as RawType;

const SECOND_NS: i128 = 1_000_000_000;
/// What stat(2) shows as the size for efficient I/O: the page, in which the kernel caches.
const BLOCK_BYTES: u32 = 4096;

pub(crate) fn errno(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.0)
}

pub(crate) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

/// The kind that mknod(2) asks for with a mode.
pub(crate) fn kind_of_mode(mode: u32) -> Option<Kind> {
    match RawType::from_raw_mode(mode) {
        RawType::RegularFile => Some(Kind::File),
        RawType::Fifo => Some(Kind::Fifo),
        RawType::Socket => Some(Kind::Socket),
        RawType::CharacterDevice => Some(Kind::CharDevice),
        RawType::BlockDevice => Some(Kind::BlockDevice),
        // mknod(2): no type means a file.
        RawType::Unknown if mode & 0o170_000 == 0 => Some(Kind::File),
        _ => None,
    }
}

/// The 12 permission bits of a mode.
pub(crate) fn permissions(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

pub(crate) fn attributes(ino: Ino, attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(ino.0),
        size: attr.size,
        blocks: attr.blocks,
        atime: system_time(attr.atime_ns),
        mtime: system_time(attr.mtime_ns),
        ctime: system_time(attr.ctime_ns),
        crtime: UNIX_EPOCH,
        kind: file_type(attr.kind),
        perm: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

/// Tells the kernel that there is no such name, in a form that it may keep.
pub(crate) fn no_entry() -> FileAttr {
    let nothing =
        Attr { kind: Kind::File, mode: 0, nlink: 0, uid: 0, gid: 0, size: 0, blocks: 0, rdev: 0, atime_ns: 0, mtime_ns: 0, ctime_ns: 0 };
    attributes(Ino(0), &nothing)
}

fn system_time(time_ns: i64) -> SystemTime {
    let distance = Duration::from_nanos(time_ns.unsigned_abs());
    if time_ns < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

pub(crate) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::At(nanoseconds(time)),
    }
}

/// Nanoseconds since the epoch of a time that the kernel has sent.
///
/// The kernel sends a time before 1970 as negative seconds and nanoseconds after them; fuser 0.18 takes both away from the epoch. So the
/// distance's seconds count down and its nanoseconds up.
fn nanoseconds(time: SystemTime) -> i64 {
    let ns = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i128::from(after.as_secs()) * SECOND_NS + i128::from(after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            i128::from(before.subsec_nanos()) - i128::from(before.as_secs()) * SECOND_NS
        }
    };
    ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_the_epoch() {
        assert_eq!(nanoseconds(UNIX_EPOCH + Duration::new(3, 5)), 3_000_000_005);
        // 1969-12-31 23:59:58.8: the kernel sends -2 s and 800 ms, fuser makes 2.8 s before the epoch of it.
        assert_eq!(nanoseconds(UNIX_EPOCH - Duration::new(2, 800_000_000)), -1_200_000_000);
        assert_eq!(nanoseconds(UNIX_EPOCH + Duration::from_secs(1 << 40)), i64::MAX);
        for ns in [0, 1, -1, -1_200_000_000, i64::MAX, i64::MIN] {
            let time = system_time(ns);
            let back = match time.duration_since(UNIX_EPOCH) {
                Ok(after) => after.as_nanos() as i128,
                Err(before) => -(before.duration().as_nanos() as i128),
            };
            assert_eq!(back, i128::from(ns));
        }
    }

    #[test]
    fn kinds_of_modes() {
        assert_eq!(kind_of_mode(0o644), Some(Kind::File));
        assert_eq!(kind_of_mode(0o100_644), Some(Kind::File));
        assert_eq!(kind_of_mode(0o010_600), Some(Kind::Fifo));
        assert_eq!(kind_of_mode(0o140_600), Some(Kind::Socket));
        assert_eq!(kind_of_mode(0o040_755), None);
        assert_eq!(permissions(0o107_755), 0o7755);
    }
}
