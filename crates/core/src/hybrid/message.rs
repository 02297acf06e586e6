//! What a hybrid I/O node is asked, told, and asks for.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::HybridConfig;
use crate::errno::Errno;
use crate::id::{CallId, Ino, Lsn, ServerId, Token};
use crate::policy::RequestClass;

/// One filling of a region. Regions are filled again and again; numbers are given once, in the order of filling.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Generation(pub u64);

/// A byte range of this server's part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileRange {
    /// The file.
    pub file: Ino,
    /// Bytes from the start of this server's part.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

impl FileRange {
    /// The offset behind the range.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// Whether both have a byte in common.
    pub fn overlaps(&self, other: &FileRange) -> bool {
        self.file == other.file && self.offset < other.end() && other.offset < self.end()
    }

    /// As a range of offsets.
    pub fn offsets(&self) -> core::ops::Range<u64> {
        self.offset..self.end()
    }
}

/// What a client asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Bytes to keep; the host holds them under the call.
    Write(Access),
    /// Bytes that are asked for.
    Read(Access),
    /// Everything that was answered before is to survive a loss of power.
    Sync,
    /// Everything that was answered before is to be home, durably.
    Drain,
    /// The host changes these bytes at the disk: a file is cut off, gets a hole, or goes. What the SSD has of them counts no more.
    Change(FileRange),
}

/// A read or a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// Which bytes; at least one.
    pub range: FileRange,
    /// What the client says of the request (I-01).
    pub class: RequestClass,
    /// The servers that hold the other parts of a fragment's request.
    pub siblings: Vec<ServerId>,
    /// Where the first byte stands on the disk, bytes.
    pub place: u64,
}

/// What happens to a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// A client asks.
    Request {
        /// Names the call until it is answered.
        call: CallId,
        /// What for.
        request: Request,
    },
    /// An effect is done, or has failed.
    Done {
        /// Which.
        token: Token,
        /// How it went.
        result: Result<(), Errno>,
    },
    /// Service times of the servers' disks, from the board (I-06).
    ServiceTimes(Vec<(ServerId, u64)>),
    /// From now on everything goes by this. The SSD is divided anew when it is empty the next time.
    Configure(Box<HybridConfig>),
}

/// A part of what a call is about, in one place of the SSD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SsdPart {
    /// Bytes from the start of the SSD's log.
    pub at: u64,
    /// Bytes.
    pub len: u64,
    /// The bytes of the file.
    pub offset: u64,
}

/// What recovery needs to know of bytes on the SSD; kept there together with them (I-11).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Which bytes of which file.
    pub range: FileRange,
    /// The write's place in history.
    pub lsn: Lsn,
    /// The filling of a region that they are part of.
    pub generation: Generation,
    /// Where they stand: bytes from the start of the SSD's log.
    pub at: u64,
}

/// What recovery needs to know beside the entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// The disk has newer bytes of this range than any entry before this place in history.
    Superseded {
        /// The range.
        range: FileRange,
        /// The place in history of the write that went to the disk.
        lsn: Lsn,
    },
    /// All entries of this filling count no more: their bytes are home.
    Emptied(Generation),
}

/// What the host must do. Each one with a token is answered by [`Input::Done`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Answer the client.
    Reply {
        /// The call.
        call: CallId,
        /// How it went.
        result: Result<(), Errno>,
    },
    /// Write a call's bytes to the SSD, and their entry so that either both are found after a crash or none.
    AppendSsd {
        /// Comes back.
        token: Token,
        /// Whose bytes.
        call: CallId,
        /// What they are and where they go.
        entry: Entry,
    },
    /// Bring parts of the SSD into a call's answer.
    ReadSsd {
        /// Comes back.
        token: Token,
        /// Whose answer.
        call: CallId,
        /// From which file, for who checks it.
        file: Ino,
        /// The part.
        part: SsdPart,
    },
    /// Write a call's bytes to the disk.
    WriteDisk {
        /// Comes back.
        token: Token,
        /// Whose bytes.
        call: CallId,
        /// Where.
        range: FileRange,
        /// The place in history of the write.
        lsn: Lsn,
    },
    /// Carry out a call's change of the disk.
    ChangeDisk {
        /// Comes back.
        token: Token,
        /// Whose change.
        call: CallId,
        /// The bytes that it concerns.
        range: FileRange,
    },
    /// Bring a range of the disk into a call's answer.
    ReadDisk {
        /// Comes back.
        token: Token,
        /// Whose answer.
        call: CallId,
        /// Which bytes.
        range: FileRange,
    },
    /// Copy parts of the SSD, which are adjacent in the file, to the disk as one range.
    Flush {
        /// Comes back.
        token: Token,
        /// The range at the disk.
        range: FileRange,
        /// Where its bytes are, in the order of the file.
        parts: Vec<SsdPart>,
    },
    /// Make everything durable that was written to the disk before.
    SyncDisk {
        /// Comes back.
        token: Token,
    },
    /// Make everything durable that was written to the SSD before.
    SyncSsd {
        /// Comes back.
        token: Token,
    },
    /// Write a note to the SSD, durably.
    Note {
        /// Comes back.
        token: Token,
        /// What.
        note: Note,
    },
}
