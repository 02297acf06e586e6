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
