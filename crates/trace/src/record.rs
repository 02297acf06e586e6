//! One operation on a file, as a trace tells of it.

use std::fmt;

/// A file of a trace: its place in [`Names`](crate::Names).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub u32);

impl FileId {
    /// No file, or one that the trace does not name.
    pub const NONE: FileId = FileId(u32::MAX);
}

/// A process of a trace: its place in [`Names`](crate::Names).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProcessId(pub u32);

impl ProcessId {
    /// The trace does not say which process it was.
    pub const NONE: ProcessId = ProcessId(u32::MAX);
}

macro_rules! named_numbers {
    ($(#[$outer:meta])* $type:ident { $($(#[$inner:meta])* $variant:ident = $number:literal $name:literal,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum $type { $($(#[$inner])* $variant = $number,)* }

        impl $type {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [$type] = &[$($type::$variant,)*];

            /// The one with this number of docs/FORMAT-TRACE.md.
            #[must_use]
            pub fn from_number(number: u8) -> Option<$type> {
                match number {
                    $($number => Some($type::$variant),)*
                    _ => None,
                }
            }

            /// Its name, as the command line has it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)*
                }
            }

            /// The one with this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<$type> {
                $type::ALL.iter().copied().find(|one| one.name() == name)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(self.name())
            }
        }
    };
}

named_numbers! {
    /// What was done.
    Op {
        /// A file was opened.
        Open = 0 "open",
        /// It was closed.
        Close = 1 "close",
        /// Bytes were read.
        Read = 2 "read",
        /// Bytes were written.
        Write = 3 "write",
        /// fsync, fdatasync, msync: bytes were asked to be made durable.
        Sync = 4 "sync",
        /// The size was set; it stands in `size`.
        Truncate = 5 "truncate",
        /// Space was reserved, zeroed or given back.
        Allocate = 6 "allocate",
        /// Attributes or the presence of a name were asked for.
        Stat = 7 "stat",
        /// Attributes other than the size were set.
        SetAttr = 8 "setattr",
        /// A file was made; a successful open that made one is an open with [`Flags::CREATE`].
        Create = 9 "create",
        /// A name of a file was removed.
        Unlink = 10 "unlink",
        /// A directory was made.
        Mkdir = 11 "mkdir",
        /// A directory was removed.
        Rmdir = 12 "rmdir",
        /// `file` became `other`.
        Rename = 13 "rename",
        /// `other` became one more name of `file`.
        Link = 14 "link",
        /// A symbolic link was made.
        Symlink = 15 "symlink",
        /// A symbolic link was read.
        ReadLink = 16 "readlink",
        /// A directory was listed, or a part of it.
        ReadDir = 17 "readdir",
        /// The place of the next read or write was set, to `offset`.
        Seek = 18 "seek",
        /// A range was mapped into memory.
        Map = 19 "map",
        /// Extended attributes were read or listed.
        GetXattr = 20 "getxattr",
        /// Extended attributes were set or removed.
        SetXattr = 21 "setxattr",
        /// A lock was taken, given back or asked for.
        Lock = 22 "lock",
        /// A close of one of several descriptors; the file may stay open.
        Flush = 23 "flush",
        /// The file system was asked about itself.
        StatFs = 24 "statfs",
        /// A block device was told that a range is no longer needed.
        Discard = 25 "discard",
        /// Something else.
        Other = 26 "other",
    }
}

impl Op {
    /// Whether `offset` and `size` speak of bytes that moved.
    #[must_use]
    pub fn moves_data(self) -> bool {
        matches!(self, Op::Read | Op::Write)
    }
}

named_numbers! {
    /// Where the operation was seen. The same bytes may be told of by several layers: MPI-IO above and POSIX below.
    Layer {
        /// Calls on files: POSIX, or FUSE.
        File = 0 "file",
        /// Standard I/O with its own buffer.
        Stdio = 1 "stdio",
        /// MPI-IO.
        MpiIo = 2 "mpi-io",
        /// A library above: HDF5, PnetCDF.
        Library = 3 "library",
        /// Requests at a block device.
        Block = 4 "block",
    }
}

/// What else is known of a record: bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u32);

impl Flags {
    /// Nothing special.
    pub const NONE: Flags = Flags(0);
    /// A sum over the interval of the record, not one operation: its offset means nothing (Darshan's heatmaps).
    pub const BINNED: Flags = Flags(1);
    /// The offset is not known.
    pub const NO_OFFSET: Flags = Flags(1 << 1);
    /// The duration is not known.
    pub const NO_DURATION: Flags = Flags(1 << 2);
    /// The result is not known.
    pub const NO_RESULT: Flags = Flags(1 << 3);
    /// At the end of the file, wherever that was.
    pub const APPEND: Flags = Flags(1 << 4);
    /// Past the kernel's cache (`O_DIRECT`).
    pub const DIRECT: Flags = Flags(1 << 5);
    /// Durable before it returned (`O_SYNC`, `O_DSYNC`).
    pub const SYNC: Flags = Flags(1 << 6);
    /// Of an open: the file was made, or would have been.
    pub const CREATE: Flags = Flags(1 << 7);
    /// Of an open: the file was emptied.
    pub const TRUNCATE: Flags = Flags(1 << 8);
    /// Of an open: for reading. Together with [`Flags::FOR_WRITING`]: for both.
    pub const FOR_READING: Flags = Flags(1 << 9);
    /// Of an open: for writing.
    pub const FOR_WRITING: Flags = Flags(1 << 10);
    /// Through a mapping, by the kernel's writer or reader.
    pub const MAPPED: Flags = Flags(1 << 11);
    /// The operation was cut off: its end was not seen.
    pub const UNFINISHED: Flags = Flags(1 << 12);
    /// A collective operation of several processes.
    pub const COLLECTIVE: Flags = Flags(1 << 13);
    /// Of a sync: only the bytes, not the times (`fdatasync`).
    pub const DATA_ONLY: Flags = Flags(1 << 14);
    /// Of a read: asked for by the kernel ahead of the program.
    pub const READ_AHEAD: Flags = Flags(1 << 15);

    /// The names of the bits, lowest first.
    pub const NAMES: &'static [&'static str] = &[
        "binned",
        "no-offset",
        "no-duration",
        "no-result",
        "append",
        "direct",
        "sync",
        "create",
        "truncate",
        "for-reading",
        "for-writing",
        "mapped",
        "unfinished",
        "collective",
        "data-only",
        "read-ahead",
    ];

    /// Whether all bits of `other` are set.
    #[must_use]
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Flags) {
        self.0 |= other.0;
    }
}

impl fmt::Display for Flags {
    /// The names with commas between them; `-` for none.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Flags::NAMES.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1).map(|(_, name)| *name);
        let names: Vec<&str> = known.collect();
        formatter.pad(&if names.is_empty() { "-".to_owned() } else { names.join(",") })
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

/// One operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When it began: since 1970 or since the begin of the trace ([`Clock`](crate::Clock)), nanoseconds.
    pub start_ns: u64,
    /// How long it took, nanoseconds.
    pub duration_ns: u64,
    /// What was done.
    pub op: Op,
    /// Where it was seen.
    pub layer: Layer,
    /// What else is known.
    pub flags: Flags,
    /// Who did it.
    pub process: ProcessId,
    /// To which file.
    pub file: FileId,
    /// The second file of a rename or link.
    pub other: FileId,
    /// Where in the file, bytes.
    pub offset: u64,
    /// How much was asked for, bytes.
    pub size: u64,
    /// What came back: bytes moved, or another number that is not negative, or a negative errno.
    pub result: i64,
}

impl Record {
    /// A record of `op` at `start_ns` with nothing else known: sizes 0, success.
    #[must_use]
    pub fn new(op: Op, start_ns: u64) -> Record {
        Record {
            start_ns,
            duration_ns: 0,
            op,
            layer: Layer::File,
            flags: Flags::NONE,
            process: ProcessId::NONE,
            file: FileId::NONE,
            other: FileId::NONE,
            offset: 0,
            size: 0,
            result: 0,
        }
    }

    /// When it ended, nanoseconds.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }

    /// Bytes that moved: of reads and writes, what came back, or what was asked for if that is not known. 0 for a failure and all others.
    #[must_use]
    pub fn moved_bytes(&self) -> u64 {
        match self.op {
            Op::Read | Op::Write if self.flags.has(Flags::NO_RESULT) => self.size,
            Op::Read | Op::Write => u64::try_from(self.result).unwrap_or(0),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back() {
        for op in Op::ALL {
            assert_eq!((Op::from_number(*op as u8), Op::from_name(op.name())), (Some(*op), Some(*op)));
        }
        for layer in Layer::ALL {
            assert_eq!((Layer::from_number(*layer as u8), Layer::from_name(layer.name())), (Some(*layer), Some(*layer)));
        }
        assert_eq!(Op::from_number(200), None);
    }

    #[test]
    fn flags_have_names() {
        assert_eq!(Flags::NONE.to_string(), "-");
        assert_eq!((Flags::READ_AHEAD | Flags::BINNED).to_string(), "binned,read-ahead");
        assert!((Flags::SYNC | Flags::DIRECT).has(Flags::DIRECT) && !Flags::SYNC.has(Flags::DIRECT));
    }

    #[test]
    fn what_moved_is_what_came_back() {
        let read = |result, flags| Record { size: 100, result, flags, ..Record::new(Op::Read, 0) }.moved_bytes();
        assert_eq!((read(60, Flags::NONE), read(-5, Flags::NONE), read(0, Flags::NO_RESULT)), (60, 0, 100));
        assert_eq!(Record { size: 7, result: 7, ..Record::new(Op::Truncate, 0) }.moved_bytes(), 0);
    }
}
