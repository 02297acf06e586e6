//! What a system call does to which file.

use super::files::Files;
use super::line::{descriptor, integer, split, string};
use crate::record::{Flags, Op};

/// A call, from its begin to its end if that was seen.
pub(super) struct Call<'a> {
    pub(super) pid: u64,
    pub(super) start_ns: u64,
    pub(super) duration_ns: Option<u64>,
    pub(super) name: &'a [u8],
    pub(super) arguments: &'a [u8],
    pub(super) result: Option<&'a [u8]>,
}

/// What it did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Done {
    pub(super) op: Op,
    pub(super) path: Option<Vec<u8>>,
    pub(super) other: Option<Vec<u8>>,
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) flags: Flags,
    /// None if its end was not seen.
    pub(super) result: Option<i64>,
}

impl Done {
    fn new(op: Op, result: Option<i64>) -> Done {
        Done { op, path: None, other: None, offset: 0, size: 0, flags: Flags::NONE, result }
    }
}

pub(super) fn makes_processes(name: &[u8]) -> bool {
    matches!(name, b"clone" | b"clone3" | b"fork" | b"vfork")
}

pub(super) fn shares_files(arguments: &[u8]) -> bool {
    contains(arguments, b"CLONE_FILES")
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

const ERRNOS: &[(&str, i64)] = &[
    ("EPERM", 1),
    ("ENOENT", 2),
    ("EINTR", 4),
    ("EIO", 5),
    ("ENXIO", 6),
    ("EBADF", 9),
    ("EAGAIN", 11),
    ("ENOMEM", 12),
    ("EACCES", 13),
    ("EFAULT", 14),
    ("EBUSY", 16),
    ("EEXIST", 17),
    ("EXDEV", 18),
    ("ENODEV", 19),
    ("ENOTDIR", 20),
    ("EISDIR", 21),
    ("EINVAL", 22),
    ("ENFILE", 23),
    ("EMFILE", 24),
    ("ENOTTY", 25),
    ("ETXTBSY", 26),
    ("EFBIG", 27),
    ("ENOSPC", 28),
    ("ESPIPE", 29),
    ("EROFS", 30),
    ("EMLINK", 31),
    ("EPIPE", 32),
    ("ERANGE", 34),
    ("EDEADLK", 35),
    ("ENAMETOOLONG", 36),
    ("ENOLCK", 37),
    ("ENOSYS", 38),
    ("ENOTEMPTY", 39),
    ("ELOOP", 40),
    ("ENODATA", 61),
    ("EOVERFLOW", 75),
    ("EOPNOTSUPP", 95),
    ("ESTALE", 116),
    ("EDQUOT", 122),
];

/// The value of `3</path>`, `0x7f...`, `-1 ENOENT (...)`; none for `?`.
fn value(result: &[u8]) -> Option<i64> {
    let first = result.split(|byte| matches!(byte, b' ' | b'<')).next()?;
    if first == b"-1" {
        let name = result.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        let known = ERRNOS.iter().find(|(errno, _)| errno.as_bytes() == name);
        // A restart (ERESTARTSYS and so on) is an interruption; an unknown name is some error.
        return Some(known.map_or(if name.starts_with(b"ERESTART") { -4 } else { -5 }, |(_, number)| -number));
    }
    integer(first)
}

/// The arguments with what they mean.
struct Arguments<'a> {
    parts: Vec<&'a [u8]>,
}

impl Arguments<'_> {
    fn part(&self, place: usize) -> &[u8] {
        self.parts.get(place).copied().unwrap_or_default()
    }

    fn size(&self, place: usize) -> u64 {
        integer(self.part(place)).and_then(|value| u64::try_from(value).ok()).unwrap_or(0)
    }

    fn fd(&self, place: usize) -> Option<(i64, Vec<u8>)> {
        descriptor(self.part(place))
    }

    /// The file of a descriptor; none for pipes, sockets and the like.
    fn file(&self, place: usize) -> Option<Vec<u8>> {
        self.fd(place).map(|(_, path)| path).filter(|path| path.starts_with(b"/"))
    }

    /// A path, below the directory of the argument before if it is relative.
    fn path_at(&self, place: usize) -> Option<Vec<u8>> {
        let path = string(self.part(place))?;
        if path.starts_with(b"/") || place == 0 {
            return Some(path);
        }
        let folder = self.fd(place - 1).map(|(_, folder)| folder).filter(|folder| !folder.is_empty());
        match folder {
            Some(folder) if path.is_empty() => Some(folder),
            Some(folder) => Some([&folder[..], if folder.ends_with(b"/") { b"" } else { b"/" }, &path].concat()),
            None => Some(path),
        }
    }

    /// Bytes of a vector of buffers.
    fn vector(&self, place: usize) -> u64 {
        let text = self.part(place);
        let word = b"iov_len=";
        let lengths = text.windows(word.len()).enumerate().filter(|(_, window)| window == word).map(|(at, _)| {
            let digits = &text[at + word.len()..];
            let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
            integer(&digits[..end]).and_then(|value| u64::try_from(value).ok()).unwrap_or(0)
        });
        lengths.fold(0, u64::saturating_add)
    }
}

/// What a call did to files: nothing if it concerns none, or is of a kind that no record tells of; two things if it copies. Keeps the books
/// of descriptors.
pub(super) fn understand(call: &Call<'_>, files: &mut Files) -> Vec<Done> {
    match call.name {
        b"copy_file_range" => copying(call, (0, 1), (2, 3), 4, files),
        b"sendfile" | b"sendfile64" => copying(call, (1, 2), (0, usize::MAX), 3, files),
        _ => single(call, files).into_iter().collect(),
    }
}

/// The kernel copies: a read of one file and a write of another, of which either may be none of ours.
fn copying(call: &Call<'_>, from: (usize, usize), to: (usize, usize), size: usize, files: &mut Files) -> Vec<Done> {
    let arguments = Arguments { parts: split(call.arguments) };
    let result = call.result.and_then(value);
    let bytes = result.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
    let mut side = |op, (fd_at, place_at): (usize, usize)| {
        let (fd, _) = arguments.fd(fd_at)?;
        // `[4096]` is a place of its own, `NULL` that of the descriptor.
        let given = arguments.part(place_at).strip_prefix(b"[").and_then(|rest| rest.split(|byte| *byte == b']').next()).and_then(integer);
        let place = match given {
            Some(place) => u64::try_from(place).ok(),
            None => files.moved(call.pid, fd, bytes, op == Op::Write).0,
        };
        let flags = if place.is_none() { Flags::NO_OFFSET } else { Flags::NONE };
        let (path, offset, size) = (Some(arguments.file(fd_at)?), place.unwrap_or(0), arguments.size(size));
        // The size is how much the call may copy, often far beyond any file; what came back is what was copied.
        Some(Done { path, offset, size: if result.is_some() { bytes } else { size }, flags, ..Done::new(op, result) })
    };
    [side(Op::Read, from), side(Op::Write, to)].into_iter().flatten().collect()
}

fn single(call: &Call<'_>, files: &mut Files) -> Option<Done> {
    let arguments = Arguments { parts: split(call.arguments) };
    let result = call.result.and_then(value);
    match call.name {
        b"open" | b"openat" | b"openat2" | b"creat" => opening(call, &arguments, result, files),
        b"read" | b"readv" | b"write" | b"writev" => moving(call, &arguments, result, files),
        b"pread64" | b"pread" | b"preadv" | b"preadv2" | b"pwrite64" | b"pwrite" | b"pwritev" | b"pwritev2" => {
            placed(call, &arguments, result)
        }
        b"close" => {
            let (fd, _) = arguments.fd(0)?;
            files.closed(call.pid, fd);
            Some(Done { path: Some(arguments.file(0)?), ..Done::new(Op::Close, result) })
        }
        b"lseek" | b"_llseek" => {
            let (fd, _) = arguments.fd(0)?;
            let to = u64::try_from(result?).ok();
            to.into_iter().for_each(|to| files.sought(call.pid, fd, to));
            Some(Done { path: Some(arguments.file(0)?), offset: to.unwrap_or(0), ..Done::new(Op::Seek, result) })
        }
        b"dup" | b"dup2" | b"dup3" | b"fcntl" | b"fcntl64" => duplicating(call, &arguments, result, files),
        name if makes_processes(name) => {
            let child = result.and_then(|child| u64::try_from(child).ok()).filter(|child| *child > 0)?;
            if !files.knows(child) {
                files.forked(call.pid, child, shares_files(call.arguments));
            }
            None
        }
        _ => other(call.name, &arguments, result),
    }
}

fn opening(call: &Call<'_>, arguments: &Arguments<'_>, result: Option<i64>, files: &mut Files) -> Option<Done> {
    let at = usize::from(call.name.starts_with(b"openat"));
    // Where the kernel says what was opened, that is the path; links are followed.
    let shown = call.result.and_then(descriptor).map(|(_, path)| path).filter(|path| path.starts_with(b"/"));
    let path = shown.or_else(|| arguments.path_at(at));
    let text = arguments.part(at + 1);
    let mut flags = match (contains(text, b"O_RDWR"), contains(text, b"O_WRONLY")) {
        (true, _) => Flags::FOR_READING | Flags::FOR_WRITING,
        (_, true) => Flags::FOR_WRITING,
        _ if call.name == b"creat" => Flags::FOR_WRITING | Flags::CREATE | Flags::TRUNCATE,
        _ => Flags::FOR_READING,
    };
    let words: [(&[u8], Flags); 5] = [
        (b"O_CREAT", Flags::CREATE),
        (b"O_TRUNC", Flags::TRUNCATE),
        (b"O_APPEND", Flags::APPEND),
        (b"O_DIRECT", Flags::DIRECT),
        (b"SYNC", Flags::SYNC),
    ];
    for (word, flag) in words {
        // O_DIRECTORY begins like O_DIRECT.
        let has = text
            .split(|byte| matches!(byte, b'|' | b'=' | b'{' | b'}'))
            .any(|part| part == word || word == b"SYNC" && part.ends_with(word));
        if has {
            flags |= flag;
        }
    }
    if let Some(fd) = result.filter(|fd| *fd >= 0) {
        files.opened(call.pid, fd, flags.has(Flags::APPEND));
    }
    let opened = result.map(|result| result.min(0));
    Some(Done { path: Some(path?), flags, ..Done::new(Op::Open, opened) })
}

fn kind(name: &[u8]) -> Op {
    if contains(name, b"write") { Op::Write } else { Op::Read }
}

/// read, write, readv, writev: at the place of the descriptor.
fn moving(call: &Call<'_>, arguments: &Arguments<'_>, result: Option<i64>, files: &mut Files) -> Option<Done> {
    let (fd, _) = arguments.fd(0)?;
    let op = kind(call.name);
    let bytes = result.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
    let (place, append) = files.moved(call.pid, fd, bytes, op == Op::Write);
    let size = if call.name.ends_with(b"v") { arguments.vector(1) } else { arguments.size(2) };
    let mut done = Done { path: Some(arguments.file(0)?), size, ..Done::new(op, result) };
    match place {
        Some(place) => done.offset = place,
        None => done.flags |= Flags::NO_OFFSET,
    }
    if append {
        done.flags |= Flags::APPEND;
    }
    Some(done)
}

/// pread and its relatives: at a place of their own.
fn placed(call: &Call<'_>, arguments: &Arguments<'_>, result: Option<i64>) -> Option<Done> {
    let vector = contains(call.name, b"v");
    let size = if vector { arguments.vector(1) } else { arguments.size(2) };
    Some(Done { path: Some(arguments.file(0)?), size, offset: arguments.size(3), ..Done::new(kind(call.name), result) })
}

fn duplicating(call: &Call<'_>, arguments: &Arguments<'_>, result: Option<i64>, files: &mut Files) -> Option<Done> {
    let (fd, _) = arguments.fd(0)?;
    let command = arguments.part(1);
    let duplicates = call.name.starts_with(b"dup") || command.starts_with(b"F_DUPFD");
    if let Some(to) = result.filter(|to| *to >= 0 && duplicates) {
        files.duplicated(call.pid, fd, to);
    }
    let locks = [&b"F_SETLK"[..], b"F_SETLKW", b"F_GETLK", b"F_OFD_SETLK", b"F_OFD_SETLKW", b"F_OFD_GETLK"].contains(&command);
    if locks { Some(Done { path: Some(arguments.file(0)?), ..Done::new(Op::Lock, result) }) } else { None }
}

/// All that needs no books: the operation, and where the file and the sizes stand among the arguments.
fn other(name: &[u8], arguments: &Arguments<'_>, result: Option<i64>) -> Option<Done> {
    let file = |op| Some(Done { path: Some(arguments.file(0)?), ..Done::new(op, result) });
    let path = |op, place| Some(Done { path: Some(arguments.path_at(place)?), ..Done::new(op, result) });
    let pair =
        |op, one, other| Some(Done { path: Some(arguments.path_at(one)?), other: arguments.path_at(other), ..Done::new(op, result) });
    match name {
        b"fsync" | b"syncfs" | b"sync_file_range" => file(Op::Sync),
        b"fdatasync" => file(Op::Sync).map(|done| Done { flags: Flags::DATA_ONLY, ..done }),
        b"ftruncate" | b"ftruncate64" => file(Op::Truncate).map(|done| Done { size: arguments.size(1), ..done }),
        b"truncate" | b"truncate64" => path(Op::Truncate, 0).map(|done| Done { size: arguments.size(1), ..done }),
        b"fallocate" => file(Op::Allocate).map(|done| Done { offset: arguments.size(2), size: arguments.size(3), ..done }),
        b"mmap" | b"mmap2" => {
            let mapped = arguments.file(4)?;
            let done = result.map(|result| result.min(0));
            Some(Done { path: Some(mapped), offset: arguments.size(5), size: arguments.size(1), ..Done::new(Op::Map, done) })
        }
        b"getdents" | b"getdents64" => file(Op::ReadDir),
        b"fstat" | b"fstat64" => file(Op::Stat),
        b"stat" | b"stat64" | b"lstat" | b"lstat64" | b"access" => path(Op::Stat, 0),
        b"newfstatat" | b"fstatat64" | b"statx" | b"faccessat" | b"faccessat2" => path(Op::Stat, 1),
        b"statfs" | b"statfs64" => path(Op::StatFs, 0),
        b"fstatfs" | b"fstatfs64" => file(Op::StatFs),
        b"fchmod" | b"fchown" => file(Op::SetAttr),
        b"chmod" | b"chown" | b"lchown" | b"utime" | b"utimes" => path(Op::SetAttr, 0),
        b"fchmodat" | b"fchmodat2" | b"fchownat" | b"utimensat" | b"futimesat" => path(Op::SetAttr, 1).or_else(|| file(Op::SetAttr)),
        b"unlink" => path(Op::Unlink, 0),
        b"unlinkat" if contains(arguments.part(2), b"AT_REMOVEDIR") => path(Op::Rmdir, 1),
        b"unlinkat" => path(Op::Unlink, 1),
        b"mkdir" => path(Op::Mkdir, 0),
        b"mkdirat" => path(Op::Mkdir, 1),
        b"rmdir" => path(Op::Rmdir, 0),
        b"rename" => pair(Op::Rename, 0, 1),
        b"renameat" | b"renameat2" => pair(Op::Rename, 1, 3),
        b"link" => pair(Op::Link, 0, 1),
        b"linkat" => pair(Op::Link, 1, 3),
        b"symlink" => path(Op::Symlink, 1),
        b"symlinkat" => path(Op::Symlink, 2),
        b"readlink" => path(Op::ReadLink, 0),
        b"readlinkat" => path(Op::ReadLink, 1),
        b"flock" => file(Op::Lock),
        b"fgetxattr" | b"flistxattr" => file(Op::GetXattr),
        b"getxattr" | b"lgetxattr" | b"listxattr" | b"llistxattr" => path(Op::GetXattr, 0),
        b"fsetxattr" | b"fremovexattr" => file(Op::SetXattr),
        b"setxattr" | b"lsetxattr" | b"removexattr" | b"lremovexattr" => path(Op::SetXattr, 0),
        _ => None,
    }
}
