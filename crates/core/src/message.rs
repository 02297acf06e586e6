//! What a client asks of a server and what a server answers: one enum per direction.
//!
//! Payload bytes are not in a message: they travel beside it ([`crate::effect::Payload::Call`]). Within one process a message is a
//! function call; a socket carries the same enums.

use alloc::boxed::Box;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::attr::{Attr, AttrChange, Caller, Kind};
use crate::errno::Errno;
use crate::id::{HomePath, Ino, Name};
use crate::xattr::SetMode;

/// What a client asks.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[allow(missing_docs)] // The fields say it by their names and types.
pub enum Request {
    /// The entry `name` of directory `parent`. Counts one reference on the inode, until [`Request::Forget`]. Answer: `Entry`.
    Lookup { parent: Ino, name: Name },
    /// Gives back `count` references. Answer: `Done`.
    Forget { ino: Ino, count: u64 },
    /// All clients have gone: what they referred to, had open or were listing they do not use any more. Answer: `Done`.
    Depart,
    /// Answer: `Attr`.
    GetAttr { ino: Ino },
    /// Answer: `Attr`.
    SetAttr { ino: Ino, change: AttrChange },
    /// Answer: `Target`.
    ReadLink { ino: Ino },
    /// Makes a file, fifo, socket or device node without opening it. Counts one reference. Answer: `Entry`.
    MakeNode { parent: Ino, name: Name, kind: Kind, mode: u16, rdev: u32, caller: Caller },
    /// Makes a directory. Counts one reference. Answer: `Entry`.
    MakeDir { parent: Ino, name: Name, mode: u16, caller: Caller },
    /// Makes a symlink. Counts one reference. Answer: `Entry`.
    SymLink { parent: Ino, name: Name, target: Name, caller: Caller },
    /// Gives the inode one more name. Counts one reference. Answer: `Entry`.
    Link { ino: Ino, parent: Ino, name: Name },
    /// Removes a name that is not a directory's. Answer: `Done`.
    Unlink { parent: Ino, name: Name },
    /// Removes an empty directory. Answer: `Done`.
    RemoveDir { parent: Ino, name: Name },
    /// Renames, with the rule of rename(2) and the flags of renameat2(2). Answer: `Done`.
    Rename { parent: Ino, name: Name, new_parent: Ino, new_name: Name, mode: RenameMode },
    /// Makes and opens a file; with `exclusive` it must not exist. Counts one reference and one open. Answer: `Created`.
    Create { parent: Ino, name: Name, mode: u16, exclusive: bool, caller: Caller },
    /// Opens a file. Counts one open, until [`Request::Release`]. Answer: `Done`.
    Open { ino: Ino },
    /// Closes what [`Request::Open`] or [`Request::Create`] opened. Answer: `Done`.
    Release { ino: Ino },
    /// Reads into the call's payload. Answer: `Read`.
    Read { ino: Ino, offset: u64, len: u32 },
    /// Writes the call's payload, `len` bytes, at `offset`, or at the end with `append`. With `drops_set_id` the writer may not leave set-id
    /// bits on the file. Answer: `Written`.
    Write { ino: Ino, offset: u64, len: u32, append: bool, drops_set_id: bool },
    /// Gives a range space, or takes its bytes; as fallocate(2). Answer: `Done`.
    Allocate { ino: Ino, offset: u64, len: u64, mode: AllocateMode, drops_set_id: bool },
    /// The next data or hole from `offset` on; as lseek(2). Answer: `Offset`, or `ENXIO`.
    Seek { ino: Ino, offset: u64, whence: SeekWhence },
    /// Sets an extended attribute. Answer: `Done`.
    SetXattr { ino: Ino, name: Name, value: Vec<u8>, mode: SetMode },
    /// Answer: `Xattr`.
    GetXattr { ino: Ino, name: Name },
    /// Answer: `XattrNames`.
    ListXattr { ino: Ino },
    /// Answer: `Done`.
    RemoveXattr { ino: Ino, name: Name },
    /// Everything acknowledged so far is on the medium when the answer comes. Answer: `Done`.
    Sync { ino: Ino },
    /// Takes a snapshot of a directory's entries for [`Request::ReadDir`]. Answer: `DirOpened`.
    OpenDir { ino: Ino },
    /// Entries of the snapshot whose cookie is greater than `from`, at most `max`; `from` 0 renews the snapshot. Answer: `Entries`.
    ReadDir { handle: u64, from: u64, max: u32 },
    /// As `ReadDir`, with the attributes of each entry where they are known; each of these counts one reference. Answer: `EntriesPlus`.
    ReadDirPlus { handle: u64, from: u64, max: u32 },
    /// Drops the snapshot. Answer: `Done`.
    ReleaseDir { handle: u64 },
    /// Answer: `StatFs`.
    StatFs,
    /// Brings everything home, compares it there, then answers. Answer: `Drained`.
    Drain,
    /// Answer: `Status`.
    Status,
    /// Brings one inode home as it is now, its names and the directories above with it, and compares it there. Answer: `BroughtHome`.
    BringHome { ino: Ino },
    /// Where the bytes of a file are from `from` on, in at most `max` ranges. Answer: `Where`.
    Where { ino: Ino, from: u64, max: u32 },
}

impl Request {
    /// The file whose bytes it is about, if it is about one's.
    pub fn file(&self) -> Option<Ino> {
        match self {
            Request::Read { ino, .. } | Request::Write { ino, .. } | Request::SetAttr { ino, .. } | Request::Seek { ino, .. } => Some(*ino),
            _ => None,
        }
    }
}

/// How a rename treats an existing target, as the flags of renameat2(2).
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum RenameMode {
    /// Replaces it.
    Replace,
    /// Fails with `EEXIST`.
    NoReplace,
    /// Exchanges the two.
    Exchange,
}

/// What fallocate(2) does to a range.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum AllocateMode {
    /// Writing there will not want for space; a file that ends before the range's end grows to it, unless its size is kept.
    Reserve {
        /// The size stays.
        keep_size: bool,
    },
    /// The range becomes a hole; the size stays.
    Punch,
    /// The range becomes zeros; a file that ends before its end grows to it, unless its size is kept.
    Zero {
        /// The size stays.
        keep_size: bool,
    },
}

/// What lseek(2) looks for.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum SeekWhence {
    /// The next byte that is not in a hole.
    Data,
    /// The next byte that is in a hole; a file ends with one.
    Hole,
}

/// What a server answers.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[allow(missing_docs)] // The fields say it by their names and types.
pub enum Reply {
    /// Done; nothing to tell.
    Done,
    /// An inode and its attributes.
    Entry { ino: Ino, attr: Attr },
    /// A new open file.
    Created { ino: Ino, attr: Attr },
    /// Attributes.
    Attr { attr: Attr },
    /// A symlink's target.
    Target { target: Name },
    /// `len` bytes stand in the call's payload.
    Read { len: u32 },
    /// `len` bytes were taken at `offset`; the file's size is now at least `offset + len`. With `dropped_set_id` the file's mode has changed.
    Written { offset: u64, len: u32, dropped_set_id: bool },
    /// Where the data or hole is.
    Offset { offset: u64 },
    /// An extended attribute.
    Xattr { value: Vec<u8> },
    /// The names of all extended attributes.
    XattrNames { names: Vec<Name> },
    /// A directory snapshot.
    DirOpened { handle: u64 },
    /// Entries in the order of their cookies; fewer than asked for means the end.
    Entries { entries: Vec<DirEntry> },
    /// Entries with their attributes where they are known; fewer than asked for means the end.
    EntriesPlus { entries: Vec<(DirEntry, Option<Attr>)> },
    /// Space.
    StatFs { stat: StatFs },
    /// The drain ended; everything is home and compared if `failures` is empty.
    Drained { failures: Vec<DrainFailure> },
    /// The instance's state.
    Status { status: Box<Status> },
    /// The request failed.
    Error { errno: Errno },
    /// The inode is home and compared as it was when that was asked for, unless there is a failure.
    BroughtHome { failure: Option<DrainFailure> },
    /// Ranges without a gap from where it was asked for; they end before `size` if there were more than may be in an answer. The sums are of
    /// the whole file.
    Where { ranges: Vec<PlacedRange>, size: u64, buffered_bytes: u64, dirty_bytes: u64 },
}

/// A range of a file whose bytes are in one kind of place.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct PlacedRange {
    /// Bytes from the file's start.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Where they are read from.
    pub place: Place,
    /// They are not yet home. What is in the buffer and not dirty is at home as well.
    pub dirty: bool,
}

/// Where bytes are read from.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum Place {
    /// The buffer's memory.
    Memory,
    /// The buffer's log on the SSD.
    Ssd,
    /// Home alone.
    Home,
    /// Nowhere: zeros that were never written.
    Nowhere,
}

/// One entry of a directory.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct DirEntry {
    /// The inode.
    pub ino: Ino,
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: Name,
}

impl DirEntry {
    /// Its place among the entries of its directory: at least 16, at most `i64::MAX`. It depends on nothing but the name, so that a listing can
    /// be gone on with when the snapshot that it began with is lost.
    pub fn cookie(&self) -> u64 {
        crate::entries::EntryRef { name: self.name.as_bytes(), kind: self.kind, ino: None }.cookie()
    }
}

/// Space of the file system, in bytes and inodes.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct StatFs {
    /// Bytes in all.
    pub total_bytes: u64,
    /// Free bytes.
    pub free_bytes: u64,
    /// Free bytes for ordinary users.
    pub available_bytes: u64,
    /// Inodes in all.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
    /// Longest name.
    pub name_bytes_max: u32,
}

/// Why one file or directory could not be brought home.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct DrainFailure {
    /// Its path below the mount.
    pub path: HomePath,
    /// The last error.
    pub errno: Errno,
    /// What failed.
    pub step: DrainStep,
}

/// A step of bringing something home.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
pub enum DrainStep {
    /// Making, renaming or removing a name.
    Name,
    /// Writing bytes.
    Write,
    /// Making them durable.
    Sync,
    /// Comparing them.
    Compare,
    /// Setting mode, owner or times.
    Attributes,
}

/// What an instance did and holds. All sums since its start.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct Counters {
    /// Write requests.
    pub writes: u64,
    /// Bytes written by the application.
    pub written_bytes: u64,
    /// Read requests.
    pub reads: u64,
    /// Bytes read by the application.
    pub read_bytes: u64,
    /// Of these, bytes that stood in the buffer.
    pub hit_bytes: u64,
    /// Of these, bytes never in the buffer before (B-02: IS).
    pub first_read_bytes: u64,
    /// Of these, bytes that had been in the buffer and were swapped out (B-02: RMS).
    pub reread_bytes: u64,
    /// Chunks swapped out to make room.
    pub swaps: u64,
    /// Of these, chunks that had to be written back first (B-02: WBS).
    pub dirty_swaps: u64,
    /// Bytes read from home.
    pub home_read_bytes: u64,
    /// Bytes written home.
    pub home_written_bytes: u64,
    /// Write calls at home.
    pub home_writes: u64,
    /// Bytes compared at home.
    pub compared_bytes: u64,
    /// Names made, changed or removed at home.
    pub home_names: u64,
    /// Bytes moved inside the log to make room.
    pub cleaned_bytes: u64,
    /// Bytes written from memory to the SSD.
    pub spilled_bytes: u64,
    /// Syncs of the log.
    pub log_syncs: u64,
    /// Errors that home gave.
    pub home_errors: u64,
}

/// The state of an instance.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct Status {
    /// Sums since the start.
    pub counters: Counters,
    /// Bytes that the buffer may hold.
    pub capacity_bytes: u64,
    /// Bytes that memory may hold.
    pub memory_bytes: u64,
    /// Bytes in use in the buffer: segments that are not free.
    pub used_bytes: u64,
    /// Of these, bytes in memory.
    pub used_memory_bytes: u64,
    /// The most that `used_bytes` ever was.
    pub peak_bytes: u64,
    /// Bytes not yet home.
    pub dirty_bytes: u64,
    /// Names and attributes not yet home.
    pub dirty_names: u64,
    /// Requests that wait for room.
    pub waiting_for_room: u32,
    /// A drain is under way.
    pub draining: bool,
    /// Home errors being retried, newest state of each path (at most 16 are listed).
    pub troubles: Vec<DrainFailure>,
    /// The log refused a write: no new changes are taken, what is buffered can still be drained.
    pub log_failed: Option<Errno>,
    /// The buffer's disk is full: changes wait until there is space.
    pub log_waits: Option<Errno>,
    /// Bytes of files in the buffer, dirty and clean.
    pub live_bytes: u64,
    /// The most that they may be.
    pub live_bytes_max: u64,
    /// Records of the log that are kept.
    pub log_records: u64,
    /// Pieces of all files' indexes.
    pub pieces: u64,
    /// Requests that wait, by what they wait for.
    pub waiting: Vec<Waiting>,
}

/// Requests that wait for the same thing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Waiting {
    /// For what.
    pub reason: WaitReason,
    /// How many.
    pub requests: u32,
    /// The path of one that they are about, below the mount.
    pub path: Option<HomePath>,
}

/// What a request waits for.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum WaitReason {
    /// Room in the buffer, which is full.
    Room,
    /// Space on the buffer's disk, which is full.
    Space,
    /// Home's answer about a name, a directory or attributes.
    HomeNames,
    /// Bytes that only home has.
    HomeBytes,
    /// The end of other reads from home.
    ReadTurn,
    /// Writes to the same file, which come first.
    OwnWrites,
    /// The buffer's medium, as `fsync` does.
    Medium,
    /// The end of a drain.
    Drain,
    /// One file's way home.
    BringHome,
}
