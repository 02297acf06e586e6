//! Between the kernel's numbers and the messages' types.

use forebay_core::attr::{Attr, AttrChange, Kind, SetTime};
use forebay_core::message::{AllocateMode, SeekWhence};
use forebay_core::xattr::SetMode;
use rustix::fs::{FallocateFlags, FileType as RawType, XattrFlags};

use crate::abi::{self, setattr};
use crate::operation::SetAttr;

const SECOND_NS: i64 = 1_000_000_000;

pub(crate) fn raw_type(kind: Kind) -> RawType {
    match kind {
        Kind::File => RawType::RegularFile,
        Kind::Directory => RawType::Directory,
        Kind::Symlink => RawType::Symlink,
        Kind::Fifo => RawType::Fifo,
        Kind::Socket => RawType::Socket,
        Kind::CharDevice => RawType::CharacterDevice,
        Kind::BlockDevice => RawType::BlockDevice,
    }
}

/// The type of a directory's entry, as readdir(3) gives it: `DT_REG` and so on.
pub(crate) fn entry_type(kind: Kind) -> u32 {
    raw_type(kind).as_raw_mode() >> 12
}

/// The mode with its type.
pub(crate) fn mode(attr: &Attr) -> u32 {
    raw_type(attr.kind).as_raw_mode() | u32::from(attr.mode)
}

/// The kind that mknod(2) asks for with a mode.
pub(crate) fn kind_of_mode(mode: u32) -> Option<Kind> {
    match Kind::of_mode(mode) {
        Some(Kind::Directory | Kind::Symlink) => None,
        // mknod(2): no type means a file.
        None if mode & 0o170_000 == 0 => Some(Kind::File),
        kind => kind,
    }
}

/// The 12 permission bits of a mode.
pub(crate) fn permissions(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

/// Seconds since the epoch, and nanoseconds after them.
pub(crate) fn seconds(time_ns: i64) -> (i64, u32) {
    (time_ns.div_euclid(SECOND_NS), time_ns.rem_euclid(SECOND_NS) as u32)
}

/// Nanoseconds since the epoch of a time that the kernel has sent: seconds, which may be negative, and nanoseconds after them.
fn nanoseconds((seconds, nanoseconds): (u64, u32)) -> i64 {
    let ns = i128::from(seconds as i64) * i128::from(SECOND_NS) + i128::from(nanoseconds);
    ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// What a SETATTR changes.
pub(crate) fn attr_change(set: &SetAttr) -> AttrChange {
    let has = |flag: u32| set.valid & flag != 0;
    let time = |is_set: u32, is_now: u32, time| match (has(is_set), has(is_now)) {
        (_, true) => Some(SetTime::Now),
        (true, false) => Some(SetTime::At(nanoseconds(time))),
        (false, false) => None,
    };
    AttrChange {
        mode: has(setattr::MODE).then(|| permissions(set.mode)),
        uid: has(setattr::UID).then_some(set.uid),
        gid: has(setattr::GID).then_some(set.gid),
        size: has(setattr::SIZE).then_some(set.size),
        atime: time(setattr::ATIME, setattr::ATIME_NOW, set.atime),
        mtime: time(setattr::MTIME, setattr::MTIME_NOW, set.mtime),
        drops_set_id: has(setattr::KILL_SUIDGID),
    }
}

/// What fallocate(2) asks for; none for what there is not.
pub(crate) fn allocate_mode(mode: u32) -> Option<AllocateMode> {
    let flags = FallocateFlags::from_bits_retain(mode);
    let keep_size = flags.contains(FallocateFlags::KEEP_SIZE);
    match flags - FallocateFlags::KEEP_SIZE {
        rest if rest.is_empty() => Some(AllocateMode::Reserve { keep_size }),
        FallocateFlags::PUNCH_HOLE if keep_size => Some(AllocateMode::Punch),
        FallocateFlags::ZERO_RANGE => Some(AllocateMode::Zero { keep_size }),
        _ => None,
    }
}

/// What lseek(2) looks for; the kernel answers all else itself.
pub(crate) fn seek_whence(whence: u32) -> Option<SeekWhence> {
    match whence {
        abi::SEEK_DATA => Some(SeekWhence::Data),
        abi::SEEK_HOLE => Some(SeekWhence::Hole),
        _ => None,
    }
}

/// How setxattr(2) sets.
pub(crate) fn xattr_mode(flags: u32) -> Option<SetMode> {
    match XattrFlags::from_bits_retain(flags) {
        flags if flags.is_empty() => Some(SetMode::Any),
        XattrFlags::CREATE => Some(SetMode::Create),
        XattrFlags::REPLACE => Some(SetMode::Replace),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_the_epoch() {
        assert_eq!(nanoseconds((3, 5)), 3_000_000_005);
        // 1969-12-31 23:59:58.8
        assert_eq!(nanoseconds((-2i64 as u64, 800_000_000)), -1_200_000_000);
        assert_eq!(nanoseconds((1 << 40, 0)), i64::MAX);
        for ns in [0, 1, -1, -1_200_000_000, i64::MAX, i64::MIN] {
            let (seconds, after) = seconds(ns);
            assert_eq!(nanoseconds((seconds as u64, after)), ns);
        }
    }

    #[test]
    fn only_what_is_valid_is_changed() {
        let set = SetAttr {
            valid: setattr::UID | setattr::MTIME | setattr::MTIME_NOW | setattr::ATIME,
            atime: (1, 2),
            uid: 7,
            ..SetAttr::default()
        };
        let expected =
            AttrChange { uid: Some(7), atime: Some(SetTime::At(1_000_000_002)), mtime: Some(SetTime::Now), ..AttrChange::default() };
        assert_eq!(attr_change(&set), expected);
        assert_eq!(attr_change(&SetAttr { mode: 0o777, ..SetAttr::default() }), AttrChange::default());
    }

    #[test]
    fn modes_of_fallocate_setxattr_and_lseek() {
        let keep = FallocateFlags::KEEP_SIZE;
        let mode = |flags: FallocateFlags| allocate_mode(flags.bits());
        assert_eq!(mode(FallocateFlags::empty()), Some(AllocateMode::Reserve { keep_size: false }));
        assert_eq!(mode(keep), Some(AllocateMode::Reserve { keep_size: true }));
        assert_eq!(mode(FallocateFlags::PUNCH_HOLE | keep), Some(AllocateMode::Punch));
        assert_eq!(mode(FallocateFlags::PUNCH_HOLE), None);
        assert_eq!(mode(FallocateFlags::ZERO_RANGE), Some(AllocateMode::Zero { keep_size: false }));
        assert_eq!(mode(FallocateFlags::COLLAPSE_RANGE), None);
        assert_eq!(mode(FallocateFlags::ZERO_RANGE | FallocateFlags::PUNCH_HOLE | keep), None);
        assert_eq!(allocate_mode(u32::MAX), None);
        assert_eq!([0, 1, 2, 3].map(xattr_mode), [Some(SetMode::Any), Some(SetMode::Create), Some(SetMode::Replace), None]);
        assert_eq!([2, 3, 4].map(seek_whence), [None, Some(SeekWhence::Data), Some(SeekWhence::Hole)]);
    }

    #[test]
    fn kinds_of_modes() {
        assert_eq!(kind_of_mode(0o644), Some(Kind::File));
        assert_eq!(kind_of_mode(0o100_644), Some(Kind::File));
        assert_eq!(kind_of_mode(0o010_600), Some(Kind::Fifo));
        assert_eq!(kind_of_mode(0o140_600), Some(Kind::Socket));
        assert_eq!(kind_of_mode(0o040_755), None);
        assert_eq!(permissions(0o107_755), 0o7755);
        assert_eq!((entry_type(Kind::File), entry_type(Kind::Directory), entry_type(Kind::Symlink)), (8, 4, 10));
    }
}
