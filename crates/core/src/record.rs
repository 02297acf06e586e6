//! What the journal says: every change of a node's lasting state, in order.
//!
//! Replaying the records of a journal in the order of their positions gives back the node (see `docs/FORMAT.md`).

use alloc::boxed::Box;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::attr::Attr;
use crate::id::{Ino, Lsn, MemorySlot, Name, Position, SegmentId, SsdSlot};
use crate::message::Reply;
use crate::xattr::Xattr;

/// One record.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[allow(missing_docs)] // The fields say it by their names and types.
pub enum Record {
    /// A segment begins to be filled; whatever held its slots before holds nothing that is needed.
    SegmentOpened { segment: SegmentId, slot: SsdSlot, memory: Option<MemorySlot> },
    /// The segment's bytes are all on the SSD; its memory slot is free.
    SegmentSpilled { segment: SegmentId },
    /// Bytes of a file stand in the log.
    Data(DataRecord),
    /// Of a record's bytes, those from `skip` on, `len` in number, stand in the log; the others were overwritten or cut off.
    DataPart { data: DataRecord, skip: u32, len: u32 },
    /// Bytes were moved within the log: pieces of `from` within the record now stand in `to`.
    Moved { from: SegmentId, data: DataRecord },
    /// The pieces of the range that are not newer than `lsn` are home, durable and compared.
    Flushed { ino: Ino, offset: u64, len: u64, lsn: Lsn },
    /// An inode that differs from home, or whose names do: all about it.
    Inode(Box<InodeRecord>),
    /// The file's size was set, other than by a write.
    Size { ino: Ino, size: u64, time_ns: i64 },
    /// The inode has no name and no open handle left, and nothing at home.
    InodeGone { ino: Ino },
    /// The occupant of a name as the application sees it, since `time_ns`.
    Entry { parent: Ino, name: Name, ino: Option<Ino>, time_ns: i64 },
    /// A name moved to another, replacing its occupant or, with `exchange`, changing places with it. One record, so that it is atomic.
    Rename { parent: Ino, name: Name, new_parent: Ino, new_name: Name, exchange: bool, time_ns: i64 },
    /// The occupant of a name as home has it, durably.
    HomeEntry { parent: Ino, name: Name, ino: Option<Ino> },
    /// The attributes of this version are home, durably.
    AttrHome { ino: Ino, version: u64 },
    /// Everything up to `upto` is on the medium.
    Synced { upto: Position },
    /// The records up to here are a snapshot: with them, older journals are not needed.
    SnapshotEnd,
    /// The occupants of these names at home are about to become these, in one change that is about `ino`. Until a [`Record::HomeEntry`] of
    /// each name follows, nobody knows whether it happened.
    HomeIntent { ino: Ino, slots: Vec<(Ino, Name, Option<Ino>)> },
    /// A range of a file became a hole: zeros, whatever stands at home. Its size is this now.
    Hole { ino: Ino, offset: u64, len: u64, size: u64, time_ns: i64 },
    /// A range is a hole at home, durably.
    HoleHome { ino: Ino, offset: u64, len: u64 },
    /// All extended attributes of an inode; home has others.
    Xattrs { ino: Ino, xattrs: Vec<Xattr>, time_ns: i64 },
    /// The inode is as home has it and is known no more: its names mean what home has there, and its directories are to be listed again.
    Forgotten { ino: Ino },
    /// The bytes of one write, which stand in several segments: all or none of them count.
    DataPieces { pieces: Vec<DataRecord> },
    /// An inode that is as home has it and that a client refers to: a node that takes over must know it by its number.
    Noted(Box<InodeRecord>),
    /// The last change of a request, and its answer: if it is asked again, that is the answer. In a snapshot, where the change itself is no
    /// longer told, `record` is none.
    Answered { lane: u32, request: u64, reply: Box<Reply>, record: Option<Box<Record>> },
}

/// A contiguous piece of a file in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct DataRecord {
    /// The file.
    pub ino: Ino,
    /// Bytes from the file's start.
    pub file_offset: u64,
    /// Bytes.
    pub len: u32,
    /// The segment.
    pub segment: SegmentId,
    /// Bytes from the segment's start.
    pub segment_offset: u32,
    /// The write's place in history.
    pub lsn: Lsn,
    /// CRC-32C of the bytes.
    pub crc: u32,
    /// When it was written, for the file's times: nanoseconds since the epoch.
    pub time_ns: i64,
}

/// All about an inode.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct InodeRecord {
    /// The inode.
    pub ino: Ino,
    /// Its attributes.
    pub attr: Attr,
    /// Counts changes of mode, owner and times.
    pub attr_version: u64,
    /// The version that is home, durably; the attributes are still to be set there unless it is `attr_version`.
    pub attr_home: u64,
    /// A symlink's target.
    pub target: Option<Name>,
    /// Its names at home, as (directory, name); empty if it is not at home.
    pub home_names: Vec<(Ino, Name)>,
    /// The prefix of the file whose bytes at home count.
    pub home_valid: u64,
    /// Device and inode number at home, if it had several names there: other names may lead to it that are not known.
    pub home_id: Option<(u64, u64)>,
}
