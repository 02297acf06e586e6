//! What the kernel asks: a request's bytes made into a value.

use crate::abi::{self, IN_HEADER_BYTES, Reader, opcode};

/// What each request begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// Bytes of the request, this header included.
    pub(crate) len: u32,
    pub(crate) opcode: u32,
    /// Names the request in its answer.
    pub(crate) unique: u64,
    /// The inode that it is about.
    pub(crate) node: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The thread that asks; 0 if nobody does but the kernel itself.
    pub(crate) thread: u32,
}

/// `fuse_setattr_in`, the fields that are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SetAttr {
    pub(crate) valid: u32,
    pub(crate) size: u64,
    /// Seconds (as `i64`) and nanoseconds after them.
    pub(crate) atime: (u64, u32),
    pub(crate) mtime: (u64, u32),
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// A request without its header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Operation<'a> {
    Init {
        major: u32,
        minor: u32,
        max_readahead: u32,
        flags: u64,
    },
    Destroy,
    Lookup {
        name: &'a [u8],
    },
    Forget {
        count: u64,
    },
    BatchForget {
        items: Forgets<'a>,
    },
    GetAttr,
    SetAttr(SetAttr),
    ReadLink,
    SymLink {
        name: &'a [u8],
        target: &'a [u8],
    },
    MakeNode {
        name: &'a [u8],
        mode: u32,
        rdev: u32,
    },
    MakeDir {
        name: &'a [u8],
        mode: u32,
    },
    Unlink {
        name: &'a [u8],
    },
    RemoveDir {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        new_parent: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    Link {
        node: u64,
        new_name: &'a [u8],
    },
    Open {
        flags: u32,
    },
    Create {
        name: &'a [u8],
        mode: u32,
        flags: u32,
    },
    Read {
        offset: u64,
        len: u32,
        /// For the kernel's pages, not straight into a program's memory.
        for_pages: bool,
        /// Those of the open file.
        flags: u32,
    },
    Write {
        offset: u64,
        write_flags: u32,
        flags: u32,
        data: &'a [u8],
    },
    Release {
        handle: u64,
    },
    Sync {
        data_only: bool,
    },
    StatFs,
    SetXattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
    },
    GetXattr {
        name: &'a [u8],
        size: u32,
    },
    ListXattr {
        size: u32,
    },
    RemoveXattr {
        name: &'a [u8],
    },
    Flush,
    OpenDir,
    ReadDir {
        handle: u64,
        offset: u64,
        len: u32,
        plus: bool,
    },
    ReleaseDir {
        handle: u64,
    },
    /// `access`(2), where the kernel does not check by itself.
    Access {
        mask: u32,
    },
    Ioctl,
    Fallocate {
        offset: u64,
        len: u64,
        mode: u32,
    },
    Seek {
        offset: u64,
        whence: u32,
    },
    /// Another one, which is not served.
    Other,
}

/// The pairs of a BATCH_FORGET.
#[derive(Clone, Copy)]
pub(crate) struct Forgets<'a> {
    left: u32,
    reader: Reader<'a>,
}

impl PartialEq for Forgets<'_> {
    fn eq(&self, other: &Self) -> bool {
        Iterator::eq(*self, *other)
    }
}

impl Eq for Forgets<'_> {}

impl std::fmt::Debug for Forgets<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

impl Iterator for Forgets<'_> {
    /// Inode and count.
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        self.left = self.left.checked_sub(1)?;
        Some((self.reader.u64()?, self.reader.u64()?))
    }
}

/// The header of a request, if the bytes are long enough for one and for what it says of their number.
pub(crate) fn header(bytes: &[u8]) -> Option<Header> {
    let mut reader = Reader::new(bytes);
    let (len, opcode, unique, node) = (reader.u32()?, reader.u32()?, reader.u64()?, reader.u64()?);
    let (uid, gid, thread, _extensions) = (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
    let fits = len as usize == bytes.len();
    fits.then_some(Header { len, opcode, unique, node, uid, gid, thread })
}

/// The operation of a request with this header; `None` if its body is too short.
pub(crate) fn parse<'a>(header: &Header, bytes: &'a [u8]) -> Option<Operation<'a>> {
    let mut body = Reader::new(bytes.get(IN_HEADER_BYTES..)?);
    let body = &mut body;
    Some(match header.opcode {
        opcode::LOOKUP => Operation::Lookup { name: body.name()? },
        opcode::FORGET => Operation::Forget { count: body.u64()? },
        opcode::BATCH_FORGET => {
            let left = body.u32()?;
            body.skip(4)?;
            Operation::BatchForget { items: Forgets { left, reader: *body } }
        }
        opcode::GETATTR => Operation::GetAttr,
        opcode::SETATTR => Operation::SetAttr(set_attr(body)?),
        opcode::READLINK => Operation::ReadLink,
        opcode::STATFS => Operation::StatFs,
        opcode::FLUSH => Operation::Flush,
        opcode::FSYNC | opcode::FSYNCDIR => {
            // The file handle.
            body.skip(8)?;
            Operation::Sync { data_only: body.u32()? & abi::FSYNC_DATA_ONLY != 0 }
        }
        opcode::SYNCFS => Operation::Sync { data_only: false },
        opcode::OPEN => Operation::Open { flags: body.u32()? },
        opcode::RELEASE => Operation::Release { handle: body.u64()? },
        opcode::OPENDIR => Operation::OpenDir,
        opcode::RELEASEDIR => Operation::ReleaseDir { handle: body.u64()? },
        opcode::ACCESS => Operation::Access { mask: body.u32()? },
        opcode::IOCTL => Operation::Ioctl,
        opcode::DESTROY => Operation::Destroy,
        opcode::INIT => {
            let (major, minor, max_readahead, low) = (body.u32()?, body.u32()?, body.u32()?, body.u32()?);
            let extended = u64::from(low) & abi::init::INIT_EXT != 0;
            let high = if extended { body.u32()? } else { 0 };
            Operation::Init { major, minor, max_readahead, flags: u64::from(low) | u64::from(high) << 32 }
        }
        opcode::READ..=opcode::WRITE | opcode::READDIR | opcode::READDIRPLUS | opcode::FALLOCATE | opcode::LSEEK => {
            return data(header.opcode, body);
        }
        opcode::SETXATTR..=opcode::REMOVEXATTR => return xattr(header.opcode, body),
        _ => return names(header.opcode, body),
    })
}

fn set_attr(body: &mut Reader<'_>) -> Option<SetAttr> {
    let valid = body.u32()?;
    // Padding and the file handle.
    body.skip(4 + 8)?;
    let size = body.u64()?;
    // The lock's owner.
    body.skip(8)?;
    let (atime, mtime, _ctime) = (body.u64()?, body.u64()?, body.u64()?);
    let (atime_ns, mtime_ns, _ctime_ns) = (body.u32()?, body.u32()?, body.u32()?);
    let (mode, _, uid, gid) = (body.u32()?, body.u32()?, body.u32()?, body.u32()?);
    Some(SetAttr { valid, size, atime: (atime, atime_ns), mtime: (mtime, mtime_ns), mode, uid, gid })
}

/// Requests that change names.
fn names<'a>(opcode: u32, body: &mut Reader<'a>) -> Option<Operation<'a>> {
    Some(match opcode {
        opcode::SYMLINK => Operation::SymLink { name: body.name()?, target: body.name()? },
        opcode::MKNOD => {
            let (mode, rdev) = (body.u32()?, body.u32()?);
            // The umask, which the kernel has applied, and padding.
            body.skip(8)?;
            Operation::MakeNode { name: body.name()?, mode, rdev }
        }
        opcode::MKDIR => {
            let mode = body.u32()?;
            body.skip(4)?;
            Operation::MakeDir { name: body.name()?, mode }
        }
        opcode::UNLINK => Operation::Unlink { name: body.name()? },
        opcode::RMDIR => Operation::RemoveDir { name: body.name()? },
        opcode::RENAME => {
            let new_parent = body.u64()?;
            Operation::Rename { name: body.name()?, new_parent, new_name: body.name()?, flags: 0 }
        }
        opcode::RENAME2 => {
            let (new_parent, flags) = (body.u64()?, body.u32()?);
            body.skip(4)?;
            Operation::Rename { name: body.name()?, new_parent, new_name: body.name()?, flags }
        }
        opcode::LINK => Operation::Link { node: body.u64()?, new_name: body.name()? },
        opcode::CREATE => {
            let (flags, mode) = (body.u32()?, body.u32()?);
            body.skip(8)?;
            Operation::Create { name: body.name()?, mode, flags }
        }
        _ => Operation::Other,
    })
}

/// Requests about a part of a file or directory.
fn data<'a>(opcode: u32, body: &mut Reader<'a>) -> Option<Operation<'a>> {
    let (handle, offset) = (body.u64()?, body.u64()?);
    if opcode == opcode::FALLOCATE {
        return Some(Operation::Fallocate { offset, len: body.u64()?, mode: body.u32()? });
    }
    let len = body.u32()?;
    Some(match opcode {
        opcode::LSEEK => Operation::Seek { offset, whence: len },
        opcode::READ => {
            let read_flags = body.u32()?;
            // The lock's owner.
            body.skip(8)?;
            Operation::Read { offset, len, for_pages: read_flags & abi::READ_BY_OWNER == 0, flags: body.u32()? }
        }
        opcode::WRITE => {
            let write_flags = body.u32()?;
            // The lock's owner.
            body.skip(8)?;
            let flags = body.u32()?;
            body.skip(4)?;
            Operation::Write { offset, write_flags, flags, data: body.bytes(len as usize)? }
        }
        _ => Operation::ReadDir { handle, offset, len, plus: opcode == opcode::READDIRPLUS },
    })
}

fn xattr<'a>(opcode: u32, body: &mut Reader<'a>) -> Option<Operation<'a>> {
    if opcode == opcode::REMOVEXATTR {
        return Some(Operation::RemoveXattr { name: body.name()? });
    }
    // Of a value: its own length when it is set, the room for it when it is asked for.
    let (size, flags) = (body.u32()?, body.u32()?);
    Some(match opcode {
        opcode::SETXATTR => Operation::SetXattr { name: body.name()?, value: body.bytes(size as usize)?, flags },
        opcode::GETXATTR => Operation::GetXattr { name: body.name()?, size },
        opcode::LISTXATTR => Operation::ListXattr { size },
        _ => Operation::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Put;

    fn request(opcode: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.put_u32((IN_HEADER_BYTES + body.len()) as u32);
        bytes.put_u32(opcode);
        bytes.put_u64(77);
        bytes.put_u64(5);
        for value in [1000, 100, 4242, 0] {
            bytes.put_u32(value);
        }
        bytes.extend_from_slice(body);
        bytes
    }

    /// A body of these fields and names.
    fn body(numbers: &[u32], names: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        numbers.iter().for_each(|number| bytes.put_u32(*number));
        for name in names {
            bytes.extend_from_slice(name);
            bytes.push(0);
        }
        bytes
    }

    #[track_caller]
    fn assert_parses(opcode: u32, body: &[u8], expected: &Operation<'_>) {
        let bytes = request(opcode, body);
        let head = header(&bytes).unwrap();
        assert_eq!((head.unique, head.node, head.uid, head.gid, head.thread), (77, 5, 1000, 100, 4242));
        assert_eq!(parse(&head, &bytes).as_ref(), Some(expected));
    }

    #[test]
    fn requests_become_operations() {
        assert_parses(opcode::LOOKUP, b"a\0", &Operation::Lookup { name: b"a" });
        let rename = Operation::Rename { name: b"a", new_parent: 9, new_name: b"b", flags: 2 };
        assert_parses(opcode::RENAME2, &body(&[9, 0, 2, 0], &[b"a", b"b"]), &rename);
        let create = Operation::Create { name: b"f", mode: 0o644, flags: 0x41 };
        assert_parses(opcode::CREATE, &body(&[0x41, 0o644, 0, 0], &[b"f"]), &create);
        let mut write = body(&[1, 0, 8192, 0, 3, 1, 0, 0, 0x401, 0], &[]);
        write.extend_from_slice(b"xyz");
        assert_parses(opcode::WRITE, &write, &Operation::Write { offset: 8192, write_flags: 1, flags: 0x401, data: b"xyz" });
        let read = Operation::Read { offset: 4096, len: 7, for_pages: false, flags: 0x4000 };
        assert_parses(opcode::READ, &body(&[1, 0, 4096, 0, 7, 2, 0, 0, 0x4000, 0], &[]), &read);
        assert_parses(opcode::OPEN, &body(&[0x8001, 0], &[]), &Operation::Open { flags: 0x8001 });
        assert_parses(opcode::RELEASE, &body(&[9, 0, 0, 0, 0, 0], &[]), &Operation::Release { handle: 9 });
        assert_parses(opcode::FSYNC, &body(&[9, 0, 1, 0], &[]), &Operation::Sync { data_only: true });
        assert_parses(opcode::SYNCFS, &body(&[0, 0], &[]), &Operation::Sync { data_only: false });
        let read = Operation::ReadDir { handle: 1, offset: 3, len: 4096, plus: true };
        assert_parses(opcode::READDIRPLUS, &body(&[1, 0, 3, 0, 4096, 0, 0, 0, 0, 0], &[]), &read);
        let set = Operation::SetXattr { name: b"user.x", value: b"va\0", flags: 1 };
        assert_parses(opcode::SETXATTR, &[body(&[3, 1], &[b"user.x"]), b"va\0".to_vec()].concat(), &set);
        assert_parses(40, &[], &Operation::Other);
        let bytes = request(opcode::BATCH_FORGET, &body(&[2, 0, 5, 0, 1, 0, 6, 0, 3, 0], &[]));
        let Some(Operation::BatchForget { items }) = parse(&header(&bytes).unwrap(), &bytes) else { panic!("not a BATCH_FORGET") };
        assert_eq!(items.collect::<Vec<_>>(), [(5, 1), (6, 3)]);
    }

    #[test]
    fn requests_that_are_too_short_are_refused() {
        for opcode in 0..64 {
            for len in 0..96 {
                let bytes = request(opcode, &vec![0xff; len]);
                let _ = parse(&header(&bytes).unwrap(), &bytes);
                assert_eq!(header(&bytes[..bytes.len() - 1]), None);
            }
        }
        let bytes = request(opcode::WRITE, &body(&[1, 0, 0, 0, u32::MAX, 0, 0, 0, 0, 0], &[b"too little"]));
        assert_eq!(parse(&header(&bytes).unwrap(), &bytes), None);
        let bytes = request(opcode::LOOKUP, b"no end");
        assert_eq!(parse(&header(&bytes).unwrap(), &bytes), None);
    }
}
