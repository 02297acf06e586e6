//! What an inode is: its kind and attributes.

use serde::{Deserialize, Serialize};

/// The kind of an inode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
#[allow(missing_docs)] // The names are POSIX's.
pub enum Kind {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
}

impl Kind {
    /// What the type bits of a mode say, as stat(2) gives them; none if there is no such type.
    pub fn of_mode(mode: u32) -> Option<Kind> {
        Some(match mode & 0o170_000 {
            0o100_000 => Kind::File,
            0o040_000 => Kind::Directory,
            0o120_000 => Kind::Symlink,
            0o010_000 => Kind::Fifo,
            0o140_000 => Kind::Socket,
            0o020_000 => Kind::CharDevice,
            0o060_000 => Kind::BlockDevice,
            _ => return None,
        })
    }
}

/// A device number in 32 bits, as FUSE has it: 12 bits of major number, 20 of minor.
pub fn pack_device(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// Major and minor number; see [`pack_device`].
pub fn unpack_device(packed: u32) -> (u32, u32) {
    ((packed >> 8) & 0xfff, (packed & 0xff) | ((packed >> 12) & 0xf_ff00))
}

/// Attributes of an inode, as stat(2) gives them.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Attr {
    /// The kind.
    pub kind: Kind,
    /// Permission bits with set-uid, set-gid and sticky: 12 bits, no file type.
    pub mode: u16,
    /// Number of names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Allocated units of 512 bytes.
    pub blocks: u64,
    /// Device number, for device nodes.
    pub rdev: u32,
    /// Last access, nanoseconds since the epoch (may be negative).
    pub atime_ns: i64,
    /// Last change of the data, nanoseconds since the epoch.
    pub mtime_ns: i64,
    /// Last change of data or attributes, nanoseconds since the epoch.
    pub ctime_ns: i64,
}

impl Attr {
    /// The most that a file of this size takes up, in units of 512 bytes.
    pub(crate) fn blocks_max(&self) -> u64 {
        self.size.div_ceil(4096) * 8
    }

    /// Bytes went home that were not there before, or in the place of others: an estimate until home is asked.
    pub(crate) fn grew_at_home(&mut self, bytes: u64) {
        let most = self.blocks_max().max(self.blocks);
        self.blocks = (self.blocks + bytes.div_ceil(512)).min(most);
    }
}

/// What a setattr changes; `None` leaves a value as it is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct AttrChange {
    /// New permission bits (12 bits).
    pub mode: Option<u16>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New size in bytes.
    pub size: Option<u64>,
    /// New access time.
    pub atime: Option<SetTime>,
    /// New modification time.
    pub mtime: Option<SetTime>,
    /// With a new size: whoever sets it may not leave set-id bits on the file.
    pub drops_set_id: bool,
}

/// A mode without what a write by an ordinary user, or a change of owner, takes from a file: the set-uid bit, and the set-gid bit where it
/// is one (without the group's right to execute it once meant mandatory locks, and stays).
pub fn without_set_id(mode: u16) -> u16 {
    let executes_as_group = mode & 0o2010 == 0o2010;
    mode & !0o4000 & if executes_as_group { !0o2000 } else { !0 }
}

/// A time to set: a given one, or the machine's now.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum SetTime {
    /// The time at which the request is handled.
    Now,
    /// Nanoseconds since the epoch.
    At(i64),
}

/// Who asks: decides the owner of new files.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct Caller {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_modes() {
        assert_eq!([0o100_644, 0o041_777, 0o120_777].map(Kind::of_mode), [Kind::File, Kind::Directory, Kind::Symlink].map(Some));
        assert_eq!([0o010_600, 0o140_600].map(Kind::of_mode), [Kind::Fifo, Kind::Socket].map(Some));
        assert_eq!([0o020_600, 0o060_600].map(Kind::of_mode), [Kind::CharDevice, Kind::BlockDevice].map(Some));
        assert_eq!([0o644, 0o170_644].map(Kind::of_mode), [None, None]);
    }

    #[test]
    fn device_numbers_lead_back() {
        for (major, minor) in [(0, 0), (1, 3), (8, 255), (259, 256), (0xfff, 0xf_ffff)] {
            assert_eq!(unpack_device(pack_device(major, minor)), (major, minor));
        }
        assert_eq!(pack_device(8, 0x101), 0x0010_0801, "as the kernel has it");
    }
}
