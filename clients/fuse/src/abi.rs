//! The kernel's side of the protocol: numbers, and readers and writers of its structures.
//!
//! Everything is in the machine's own byte order. What the kernel sends is read with checks of every length; what does not fit is `None`.

/// The protocol's major version.
pub(crate) const MAJOR: u32 = 7;
/// The newest minor version that is understood here.
pub(crate) const MINOR: u32 = 40;
/// Bytes of the header of a request.
pub(crate) const IN_HEADER_BYTES: usize = 40;
/// Bytes of the header of an answer.
pub(crate) const OUT_HEADER_BYTES: usize = 16;
/// Bytes of `fuse_write_in`: between the header and the payload of a write.
pub(crate) const WRITE_IN_BYTES: usize = 40;
/// The smallest buffer that the kernel takes for a read of the device.
pub(crate) const READ_BUFFER_BYTES_MIN: usize = 8192;

/// `FUSE_UNIQUE_RESEND`: in the number of a request that the kernel sends again.
pub(crate) const UNIQUE_RESEND: u64 = 1 << 63;

/// `enum fuse_opcode`.
pub(crate) mod opcode {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const READLINK: u32 = 5;
    pub(crate) const SYMLINK: u32 = 6;
    pub(crate) const MKNOD: u32 = 8;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const RMDIR: u32 = 11;
    pub(crate) const RENAME: u32 = 12;
    pub(crate) const LINK: u32 = 13;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const SETXATTR: u32 = 21;
    pub(crate) const GETXATTR: u32 = 22;
    pub(crate) const LISTXATTR: u32 = 23;
    pub(crate) const REMOVEXATTR: u32 = 24;
    pub(crate) const FLUSH: u32 = 25;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const FSYNCDIR: u32 = 30;
    pub(crate) const ACCESS: u32 = 34;
    pub(crate) const CREATE: u32 = 35;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const IOCTL: u32 = 39;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
    pub(crate) const READDIRPLUS: u32 = 44;
    pub(crate) const RENAME2: u32 = 45;
    pub(crate) const LSEEK: u32 = 46;
    pub(crate) const SYNCFS: u32 = 50;
}

/// Flags of INIT: the low 32 bits travel in `flags`, the others in `flags2`.
pub(crate) mod init {
    pub(crate) const ASYNC_READ: u64 = 1;
    pub(crate) const BIG_WRITES: u64 = 1 << 5;
    pub(crate) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(crate) const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub(crate) const ASYNC_DIO: u64 = 1 << 15;
    pub(crate) const WRITEBACK_CACHE: u64 = 1 << 16;
    pub(crate) const NO_OPEN_SUPPORT: u64 = 1 << 17;
    pub(crate) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(crate) const ABORT_ERROR: u64 = 1 << 21;
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    pub(crate) const CACHE_SYMLINKS: u64 = 1 << 23;
    pub(crate) const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub(crate) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    pub(crate) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub(crate) const HAS_RESEND: u64 = 1 << 39;
}

/// `fuse_setattr_in.valid`: which fields mean something.
pub(crate) mod setattr {
    pub(crate) const MODE: u32 = 1;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    /// With a size: who sets it may not leave set-id bits.
    pub(crate) const KILL_SUIDGID: u32 = 1 << 11;
}

/// Reads go past the kernel's pages, and are not bounded by the size that it knows.
pub(crate) const OPEN_DIRECT_IO: u32 = 1 << 0;
/// `fuse_open_out.open_flags`: keep the pages that the kernel has of the file.
pub(crate) const OPEN_KEEP_CACHE: u32 = 1 << 1;
/// The same: closing need not write anything back, and so need not be told.
pub(crate) const OPEN_NO_FLUSH: u32 = 1 << 5;
/// `fuse_write_in.write_flags`: pages that the kernel has kept, written on nobody's behalf.
pub(crate) const WRITE_OF_CACHE: u32 = 1;
/// The same: who writes may not leave set-id bits.
pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;

/// `fuse_read_in.read_flags`: on behalf of a program's call, whose lock owner is told; reads for the kernel's pages have none.
pub(crate) const READ_BY_OWNER: u32 = 1 << 1;
/// `fuse_fsync_in.fsync_flags`: fdatasync(2).
pub(crate) const FSYNC_DATA_ONLY: u32 = 1;

/// Of lseek(2): the next data.
pub(crate) const SEEK_DATA: u32 = 3;
/// Of lseek(2): the next hole.
pub(crate) const SEEK_HOLE: u32 = 4;

/// Reads a structure front to back.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        Some(*first)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    /// Leaves out a field or padding.
    pub(crate) fn skip(&mut self, bytes: usize) -> Option<()> {
        self.bytes = self.bytes.get(bytes..)?;
        Some(())
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    /// Bytes up to a NUL, which is left out.
    pub(crate) fn name(&mut self) -> Option<&'a [u8]> {
        let end = self.bytes.iter().position(|byte| *byte == 0)?;
        let name = self.bytes.get(..end)?;
        self.bytes = self.bytes.get(end + 1..)?;
        Some(name)
    }
}

/// Writes structures at the end of some bytes.
pub(crate) trait Put {
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    /// Zeros up to a multiple of eight bytes.
    fn pad_to_8(&mut self);
}

impl Put for Vec<u8> {
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_ne_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_ne_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_ne_bytes());
    }

    fn pad_to_8(&mut self) {
        self.resize(self.len().next_multiple_of(8), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_never_reads_behind_the_end() {
        let mut out = Vec::new();
        out.put_u32(7);
        out.put_u64(9);
        out.extend_from_slice(b"name\0rest");
        let mut reader = Reader::new(&out);
        assert_eq!((reader.u32(), reader.u64(), reader.name()), (Some(7), Some(9), Some(&b"name"[..])));
        assert_eq!(reader.name(), None, "no NUL");
        assert_eq!((reader.u64(), reader.skip(5), reader.bytes(5)), (None, None, None));
        assert_eq!(reader.bytes(4), Some(&b"rest"[..]));
        assert_eq!(reader.u32(), None);
        out.pad_to_8();
        assert_eq!(out.len() % 8, 0);
    }
}
