//! Names of things. Each is a newtype, so that an offset is never taken for an inode.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
        pub struct $name(pub $inner);
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

id!(
    /// An inode of the instance. Given once, never used again within an instance.
    Ino(u64)
);
id!(
    /// Log sequence number: the place of a write in history, given at admission (DESIGN, contract 7).
    Lsn(u64)
);
id!(
    /// The place of a record in the journal. Positions are consecutive; the journal is carried out in their order.
    Position(u64)
);
id!(
    /// One filling of a segment slot. Slots are used again, segment ids are not.
    SegmentId(u64)
);
id!(
    /// A segment's place in the SSD log file: bytes `slot * segment_bytes ..`.
    SsdSlot(u32)
);
id!(
    /// A segment's place in the memory file: bytes `slot * segment_bytes ..`.
    MemorySlot(u32)
);
id!(
    /// Names an effect in flight; its result comes back under the same token, once.
    Token(u64)
);
id!(
    /// An I/O server of an instance, from 0.
    ServerId(u32)
);
id!(
    /// Names a client's request until it is replied to. The client chooses it, unique among its open calls.
    CallId(u64)
);

impl Ino {
    /// The root directory of the mount.
    pub const ROOT: Ino = Ino(1);
}

/// The unit of buffering: the bytes `index * chunk_bytes .. (index + 1) * chunk_bytes` of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub struct ChunkId {
    /// The file.
    pub ino: Ino,
    /// Which chunk of the file, from 0.
    pub index: u64,
}

/// A name in a directory, or a symlink's target: bytes, as POSIX has it, without a slash (a target may have slashes). Copies share their bytes:
/// a name stands in several tables at a time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name(pub Arc<[u8]>);

impl Name {
    /// A name of these bytes.
    pub fn new(bytes: &[u8]) -> Name {
        Name(bytes.into())
    }
    /// The bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl core::borrow::Borrow<[u8]> for Name {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", alloc::string::String::from_utf8_lossy(&self.0))
    }
}

/// A path below the home directory, without a leading slash; empty for the home directory itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
pub struct HomePath(pub Box<[u8]>);

impl HomePath {
    /// The bytes of the path, relative to the home directory.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for HomePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", alloc::string::String::from_utf8_lossy(&self.0))
    }
}
