//! Everything that the node machine can ask of the world, and what the world can answer.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::attr::{Attr, Kind};
use crate::entries::Entries;
use crate::errno::Errno;
use crate::id::{CallId, HomePath, Ino, MemorySlot, Name, Position, SsdSlot, Token};
use crate::message::{Reply, Request, SeekWhence, StatFs};
use crate::record::Record;
use crate::xattr::Xattr;

/// What happens to a node.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[allow(missing_docs)] // The fields say it by their names and types.
pub enum Input {
    /// A client asks.
    Call { call: CallId, request: Request, once: Option<Once> },
    /// An effect has ended. `Err` says that it did not happen, or only in part.
    Done { token: Token, result: Result<Outcome, Errno> },
}

/// The identity of a request that must happen once, also if it is asked again because its answer was lost with the process.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Once {
    /// Requests of a lane come one after the other: a new one says that the one before has been answered.
    pub lane: u32,
    /// No two requests have the same, whatever their lanes.
    pub request: u64,
    /// It may have been asked before.
    pub again: bool,
}

/// Bytes that the host holds for the machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub enum Payload {
    /// The bytes that came with a write call, or the space for a read call's answer. Lives until the reply.
    Call(CallId),
    /// A buffer of the machine's own for bytes fetched from home; made by [`Effect::ReadHome`], lives until [`Effect::DropFetch`].
    Fetch(u64),
}

/// A segment's bytes: in memory or on the SSD.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub enum Slot {
    /// In the memory file.
    Memory(MemorySlot),
    /// In the SSD log file.
    Ssd(SsdSlot),
}

/// `len` bytes in a segment, from `offset` on.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct LogRange {
    /// Where the segment's bytes are.
    pub slot: Slot,
    /// Bytes from the segment's start.
    pub offset: u32,
    /// Bytes.
    pub len: u32,
}

/// A part of a payload and its place in the log.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct LogPiece {
    /// The place in the log.
    pub at: LogRange,
    /// Bytes from the payload's start.
    pub payload_offset: u32,
}

/// Bytes to bring home: a part `at` of the log record `record` whose checksum is known. The host checks the whole record
/// when it gathers the part, so that rot in the buffer is seen before it reaches home.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct HomePiece {
    /// The part to write.
    pub at: LogRange,
    /// The whole record that it belongs to (contains `at`).
    pub record: LogRange,
    /// CRC-32C of the whole record.
    pub record_crc: u32,
}

/// What the host must do. Each variant with a token is answered by [`Input::Done`] with the [`Outcome`] named here.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[allow(missing_docs)] // The fields say it by their names and types.
pub enum Effect {
    /// Answer the client.
    Reply { call: CallId, reply: Reply },

    /// Copy parts of a payload into the log (page cache or memory; not yet durable). `Outcome::Checksums`, one CRC-32C a piece.
    WriteLog { token: Token, payload: Payload, pieces: Vec<LogPiece> },
    /// Copy bytes of the log into a payload. `Outcome::Done`.
    ReadLog { token: Token, payload: Payload, pieces: Vec<LogPiece> },
    /// Fill parts `(offset, len)` of a payload with zeros. Not answered.
    ZeroPayload { payload: Payload, ranges: Vec<(u32, u32)> },
    /// Copy `len` bytes from one payload to another: `(from, from_offset, to, to_offset, len)`. Not answered; carried out at once.
    CopyPayload { from: Payload, from_offset: u32, to: Payload, to_offset: u32, len: u32 },
    /// Copy bytes within the log, to make room. `Outcome::Checksums` of the one piece.
    CopyLog { token: Token, from: LogRange, to: LogRange },
    /// Write a part of a memory segment to the same offsets of its SSD slot. `Outcome::Done` when the device has taken it.
    Spill { token: Token, from: MemorySlot, to: SsdSlot, offset: u32, len: u32 },
    /// Make durable: every completed `Spill` and `Journal`. `Outcome::Done`.
    SyncLog { token: Token },
    /// Append to the journal; survives the death of the process when done, a power loss after `SyncLog`. `Outcome::Done`.
    Journal { token: Token, position: Position, record: Record },
    /// Begin a new journal that starts with these records at `position` (consecutive from there). The old one is kept until
    /// [`Effect::DropOldJournals`]. `Outcome::Done`.
    RotateJournal { token: Token, position: Position, records: Vec<Record> },
    /// The newest journal is durable and whole: remove the older ones. Not answered.
    DropOldJournals,

    /// List a directory of home. `Outcome::Listing`.
    ListHome { token: Token, path: HomePath },
    /// Attributes of an object of home, not following a symlink. `Outcome::Stat`.
    StatHome { token: Token, path: HomePath },
    /// The target of a symlink of home. `Outcome::Target`.
    ReadLinkHome { token: Token, path: HomePath },
    /// The user's extended attributes of an object of home. `Outcome::Xattrs`; `ENOTSUP` where home has none.
    XattrsHome { token: Token, path: HomePath },
    /// The next data or hole of a file of home; as lseek(2), but that nothing found is no error. `Outcome::Found`.
    SeekHome { token: Token, ino: Ino, path: HomePath, offset: u64, whence: SeekWhence },
    /// Space of home. `Outcome::StatFs`.
    StatFsHome { token: Token },
    /// Read from a file of home into a new fetch buffer of `len` bytes; what lies behind the end is zeros. `Outcome::Read`.
    ReadHome { token: Token, fetch: u64, ino: Ino, path: HomePath, offset: u64, len: u32 },
    /// A fetch buffer is no longer needed. Not answered.
    DropFetch { fetch: u64 },
    /// Write adjacent pieces at `offset` of a file of home, checking each record. `Outcome::Checksums` with one CRC-32C over all the bytes.
    WriteHome { token: Token, ino: Ino, path: HomePath, offset: u64, pieces: Vec<HomePiece> },
    /// Compare `len` bytes at `offset` with a checksum, read back from home past caches where it can. `Outcome::Compared`.
    CompareHome { token: Token, ino: Ino, path: HomePath, offset: u64, len: u64, crc: u32 },
    /// Whether `len` bytes at `offset` are zeros at home; what lies behind the end is. `Outcome::Compared`.
    CompareZerosHome { token: Token, ino: Ino, path: HomePath, offset: u64, len: u64 },
    /// Make durable at home: the data of these files, and the names in these directories. `Outcome::Done`.
    SyncHome { token: Token, files: Vec<(Ino, HomePath)>, directories: Vec<HomePath> },
    /// Change names or attributes at home. `Outcome::Done`.
    ChangeHome { token: Token, change: HomeChange },
    /// The inode is dead, was renamed at home or is forgotten: forget any open handle. Not answered.
    ForgetHome { ino: Ino },
    /// Ask the clients to give back their references on these inodes, each with one of its names: (directory, name, inode). They need not.
    /// Not answered.
    PruneClients { names: Vec<(Ino, Name, Ino)> },
}

/// A change of names or attributes at home. Each may meet its own effect of before a crash; the machine knows and asks for
/// `again` then: what is already so counts as done.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[allow(missing_docs)] // The field names say it: paths below home.
pub enum HomeChange {
    /// Make a file, private to its owner until its attributes are set. An existing one is taken over and emptied (`O_TRUNC`).
    MakeFile {
        path: HomePath,
    },
    MakeDir {
        path: HomePath,
    },
    SymLink {
        path: HomePath,
        target: Name,
    },
    /// A fifo, socket or device node.
    MakeNode {
        path: HomePath,
        kind: Kind,
        rdev: u32,
    },
    Link {
        from: HomePath,
        to: HomePath,
    },
    /// Remove a name that is not a directory's.
    Unlink {
        path: HomePath,
    },
    RemoveDir {
        path: HomePath,
    },
    /// Rename, replacing what stands at `to`. With `again`, a missing `from` counts as done if `to` exists.
    Rename {
        from: HomePath,
        to: HomePath,
        again: bool,
    },
    Truncate {
        ino: Ino,
        path: HomePath,
        size: u64,
    },
    /// Make a hole of a range that may reach behind the end; the size stays. Zeros where home's file system has no holes.
    Punch {
        ino: Ino,
        path: HomePath,
        offset: u64,
        len: u64,
    },
    /// Set mode, owner and times; not following a symlink. A change of owner that is not permitted is an error only if the owner differs.
    /// With `xattrs`, the user's extended attributes become these. `Outcome::Blocks`.
    SetAttr {
        path: HomePath,
        kind: Kind,
        mode: u16,
        uid: u32,
        gid: u32,
        atime_ns: i64,
        mtime_ns: i64,
        xattrs: Option<Vec<Xattr>>,
    },
}

/// What became of an effect.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[allow(missing_docs)] // The fields say it by their names and types.
pub enum Outcome {
    /// It is done.
    Done,
    /// CRC-32C sums, in the order of the pieces.
    Checksums(Vec<u32>),
    /// Bytes that were there.
    Read { len: u32 },
    /// The entries of a directory, without `.` and `..`.
    Listing(Entries),
    /// Attributes at home.
    Stat(HomeAttr),
    /// A symlink's target.
    Target(Name),
    /// Space.
    StatFs(StatFs),
    /// Extended attributes, in the order of their names.
    Xattrs(Vec<Xattr>),
    /// Where the data or hole is.
    Found(Option<u64>),
    /// Allocated units of 512 bytes.
    Blocks(u64),
    /// Whether the bytes at home are the ones expected.
    Compared { equal: bool },
}

/// Attributes at home, with the identity that tells hard links.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct HomeAttr {
    /// The attributes.
    pub attr: Attr,
    /// Device number at home.
    pub dev: u64,
    /// Inode number at home.
    pub ino: u64,
}
