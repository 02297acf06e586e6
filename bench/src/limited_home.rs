//! A pass-through file system whose bandwidth and latency are capped.
//!
//! Every inode that the kernel knows is held by an `O_PATH` descriptor, so names may change under it and an inode number is not
//! given away while the kernel remembers it. Data is never cached (`FOPEN_DIRECT_IO`): each byte passes the token bucket.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use rustix::fs::{self as sys, AtFlags, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid};

/// What slows the home down, and what makes it fail.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Bytes per second, reads and writes together; `None` is without limit.
    pub bandwidth_bytes_per_s: Option<u64>,
    /// Reads and writes have the bandwidth each.
    pub is_duplex: bool,
    /// Time added to every operation.
    pub latency: Duration,
    /// While this file exists, operations fail, or wait, as it says: an error number, with which writes of data fail; the number and
    /// `changes`, with which all that changes something fails; the number and `all`; the number and `bulk`, with which large writes fail; or
    /// `stall`, and everything waits.
    pub faults: Option<PathBuf>,
}

/// The file system.
pub struct LimitedHome {
    nodes: Mutex<Nodes>,
    files: Mutex<HashMap<u64, Arc<File>>>,
    listings: Mutex<HashMap<u64, Arc<Vec<Entry>>>>,
    next_handle: AtomicU64,
    limits: Limits,
    /// When the bytes admitted so far will have passed, and, of a duplex home, those that were read.
    passed_at: Mutex<Instant>,
    read_at: Mutex<Instant>,
}

/// What an operation does, from the harmless to what needs room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum What {
    Look,
    Change,
    Data,
    Bulk,
}

/// What goes wrong at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    /// Everything waits.
    Stall,
    /// What does so much or more fails.
    Error {
        errno: i32,
        from: What,
    },
}

impl Fault {
    fn parse(text: &str) -> Fault {
        let (number, scope) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if number == "stall" {
            return Fault::Stall;
        }
        let from = match scope {
            "all" => What::Look,
            "changes" => What::Change,
            "bulk" => What::Bulk,
            _ => What::Data,
        };
        Fault::Error { errno: number.parse().unwrap_or(5), from }
    }
}

/// Writes of this many bytes are large ones.
const BULK_BYTES: usize = 32 << 10;
/// How often a stalled operation looks whether it may go on.
const STALL_POLL: Duration = Duration::from_millis(5);

/// Of a directory: number, kind and name.
type Entry = (u64, FileType, Vec<u8>);

struct Nodes {
    root: u64,
    known: HashMap<u64, Node>,
}

struct Node {
    fd: Arc<OwnedFd>,
    lookups: u64,
}

/// Nothing is remembered by the kernel: what another way into the source changed shows at once.
const TTL: Duration = Duration::ZERO;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl LimitedHome {
    /// Opens the directory to show.
    ///
    /// # Errors
    /// The system's error when it cannot be opened.
    pub fn open(source: &Path, limits: Limits) -> io::Result<LimitedHome> {
        let fd = sys::open(source, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let root = sys::fstat(&fd)?.st_ino;
        let known = HashMap::from([(root, Node { fd: Arc::new(fd), lookups: 1 })]);
        // Modes arrive with the caller's mask applied already.
        rustix::process::umask(Mode::empty());
        Ok(LimitedHome {
            nodes: Mutex::new(Nodes { root, known }),
            files: Mutex::default(),
            listings: Mutex::default(),
            next_handle: AtomicU64::new(1),
            limits,
            passed_at: Mutex::new(Instant::now()),
            read_at: Mutex::new(Instant::now()),
        })
    }

    fn delay(&self, bytes: usize) {
        if !self.limits.latency.is_zero() {
            std::thread::sleep(self.limits.latency);
        }
        self.pass(bytes, &self.passed_at);
    }

    /// Waits until so many bytes have passed.
    fn pass(&self, bytes: usize, passed_at: &Mutex<Instant>) {
        let mut wait = Duration::ZERO;
        if let Some(rate) = self.limits.bandwidth_bytes_per_s.filter(|_| bytes > 0) {
            let cost = Duration::from_nanos((bytes as u128 * 1_000_000_000 / u128::from(rate.max(1))) as u64);
            let now = Instant::now();
            let mut passed_at = lock(passed_at);
            *passed_at = (*passed_at).max(now) + cost;
            wait += *passed_at - now;
        }
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
    }

    /// What the file of faults says now.
    fn fault(&self) -> Fault {
        let text = self.limits.faults.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
        text.map_or(Fault::None, |text| Fault::parse(&text))
    }

    /// Lets an operation in: late, or not at all.
    fn admit(&self, what: What, bytes: usize) -> Result<(), Errno> {
        self.delay(bytes);
        loop {
            match self.fault() {
                Fault::Stall => std::thread::sleep(STALL_POLL),
                Fault::Error { errno, from } if what >= from => return Err(Errno::from_i32(errno)),
                Fault::Error { .. } | Fault::None => return Ok(()),
            }
        }
    }

    fn fd(&self, ino: INodeNo) -> Result<Arc<OwnedFd>, Errno> {
        let nodes = lock(&self.nodes);
        let key = if ino == INodeNo::ROOT { nodes.root } else { u64::from(ino) };
        nodes.known.get(&key).map(|node| node.fd.clone()).ok_or(Errno::ESTALE)
    }

    fn attr(&self, stat: &Stat) -> FileAttr {
        let root = lock(&self.nodes).root;
        let ino = if stat.st_ino == root { INodeNo::ROOT } else { INodeNo(stat.st_ino) };
        FileAttr {
            ino,
            size: stat.st_size as u64,
            blocks: stat.st_blocks as u64,
            atime: system_time(stat.st_atime, stat.st_atime_nsec),
            mtime: system_time(stat.st_mtime, stat.st_mtime_nsec),
            ctime: system_time(stat.st_ctime, stat.st_ctime_nsec),
            crtime: UNIX_EPOCH,
            kind: file_type(sys::FileType::from_raw_mode(stat.st_mode)),
            perm: (stat.st_mode & 0o7777) as u16,
            nlink: stat.st_nlink as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
            rdev: stat.st_rdev as u32,
            blksize: 4096,
            flags: 0,
        }
    }

    fn remember(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let parent = self.fd(parent)?;
        let fd = sys::openat(&*parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).map_err(errno)?;
        let stat = sys::fstat(&fd).map_err(errno)?;
        let mut nodes = lock(&self.nodes);
        nodes.known.entry(stat.st_ino).or_insert_with(|| Node { fd: Arc::new(fd), lookups: 0 }).lookups += 1;
        drop(nodes);
        Ok(self.attr(&stat))
    }

    /// Gives a new object to the caller: it was made with this process's own identity.
    fn adopt(&self, request: &Request, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let directory = self.fd(parent)?;
        if rustix::process::geteuid().is_root() && request.uid() != 0 {
            let (uid, gid) = (Uid::from_raw(request.uid()), Gid::from_raw(request.gid()));
            sys::chownat(&*directory, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW).map_err(errno)?;
        }
        self.remember(parent, name)
    }

    fn keep_open(&self, file: File) -> FileHandle {
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        lock(&self.files).insert(handle, Arc::new(file));
        FileHandle(handle)
    }

    fn file(&self, handle: FileHandle) -> Result<Arc<File>, Errno> {
        lock(&self.files).get(&u64::from(handle)).cloned().ok_or(Errno::EBADF)
    }

    fn change(&self, ino: INodeNo, change: &Change) -> Result<FileAttr, Errno> {
        let fd = self.fd(ino)?;
        let path = proc_path(&fd);
        if let Some(mode) = change.mode {
            sys::chmod(&path, Mode::from_raw_mode(mode & 0o7777)).map_err(errno)?;
        }
        if change.uid.is_some() || change.gid.is_some() {
            let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
            sys::chownat(&*fd, "", uid, gid, AtFlags::EMPTY_PATH).map_err(errno)?;
        }
        if let Some(size) = change.size {
            match change.handle {
                Some(handle) => self.file(handle)?.set_len(size)?,
                None => OpenOptions::new().write(true).open(&path)?.set_len(size)?,
            }
        }
        if change.atime.is_some() || change.mtime.is_some() {
            let times = Timestamps { last_access: timespec(change.atime), last_modification: timespec(change.mtime) };
            sys::utimensat(sys::CWD, &path, &times, AtFlags::empty()).map_err(errno)?;
        }
        Ok(self.attr(&sys::fstat(&fd).map_err(errno)?))
    }

    fn list(&self, ino: INodeNo) -> Result<Vec<Entry>, Errno> {
        let fd = self.fd(ino)?;
        let directory = sys::openat(&*fd, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(errno)?;
        let entries = sys::Dir::read_from(&directory).map_err(errno)?;
        entries
            .map(|entry| {
                let entry = entry.map_err(errno)?;
                Ok((entry.ino(), file_type(entry.file_type()), entry.file_name().to_bytes().to_vec()))
            })
            .collect()
    }
}

struct Change {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    atime: Option<TimeOrNow>,
    mtime: Option<TimeOrNow>,
    handle: Option<FileHandle>,
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

fn proc_path(fd: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()))
}

fn system_time(seconds: i64, nanoseconds: impl TryInto<u32>) -> SystemTime {
    let nanoseconds = Duration::from_nanos(u64::from(nanoseconds.try_into().unwrap_or(0)));
    match u64::try_from(seconds) {
        Ok(seconds) => UNIX_EPOCH + Duration::from_secs(seconds) + nanoseconds,
        Err(_) => UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()) + nanoseconds,
    }
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: sys::UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: sys::UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Timespec { tv_sec: since.as_secs() as i64, tv_nsec: since.subsec_nanos().into() },
            Err(before) => {
                let before = before.duration();
                let borrow = i64::from(before.subsec_nanos() > 0);
                let tv_nsec = (1_000_000_000 - i64::from(before.subsec_nanos())) % 1_000_000_000;
                Timespec { tv_sec: -(before.as_secs() as i64) - borrow, tv_nsec }
            }
        },
    }
}

fn file_type(kind: sys::FileType) -> FileType {
    match kind {
        sys::FileType::Directory => FileType::Directory,
        sys::FileType::Symlink => FileType::Symlink,
        sys::FileType::Fifo => FileType::NamedPipe,
        sys::FileType::Socket => FileType::Socket,
        sys::FileType::CharacterDevice => FileType::CharDevice,
        sys::FileType::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

/// Answers with the value, or with the error.
macro_rules! answer {
    ($reply:expr, $result:expr, |$reply_name:ident, $value:pat_param| $ok:expr) => {
        match $result {
            Ok($value) => {
                let $reply_name = $reply;
                $ok
            }
            Err(error) => $reply.error(Errno::from(error)),
        }
    };
}

impl Filesystem for LimitedHome {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let admitted = self.admit(What::Look, 0);
        answer!(reply, admitted.and_then(|()| self.remember(parent, name)), |reply, attr| reply.entry(&TTL, &attr, Generation(0)));
    }

    fn forget(&self, _: &Request, ino: INodeNo, count: u64) {
        let mut nodes = lock(&self.nodes);
        let key = u64::from(ino);
        if let Some(node) = nodes.known.get_mut(&key) {
            node.lookups = node.lookups.saturating_sub(count);
            if node.lookups == 0 {
                nodes.known.remove(&key);
            }
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let admitted = self.admit(What::Look, 0);
        let attr = admitted.and_then(|()| self.fd(ino)).and_then(|fd| sys::fstat(&fd).map_err(errno)).map(|stat| self.attr(&stat));
        answer!(reply, attr, |reply, attr| reply.attr(&TTL, &attr));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let admitted = self.admit(What::Change, 0);
        let change = Change { mode, uid, gid, size, atime, mtime, handle };
        answer!(reply, admitted.and_then(|()| self.change(ino, &change)), |reply, attr| reply.attr(&TTL, &attr));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let admitted = self.admit(What::Look, 0);
        let target = admitted.and_then(|()| self.fd(ino)).and_then(|fd| sys::readlinkat(&*fd, "", Vec::new()).map_err(errno));
        answer!(reply, target, |reply, target| reply.data(target.as_bytes()));
    }

    fn mknod(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, rdev: u32, reply: ReplyEntry) {
        let admitted = self.admit(What::Change, 0);
        let made = admitted.and_then(|()| self.fd(parent)).and_then(|directory| {
            let kind = sys::FileType::from_raw_mode(mode);
            sys::mknodat(&*directory, name, kind, Mode::from_raw_mode(mode & 0o7777), rdev.into()).map_err(errno)?;
            self.adopt(request, parent, name)
        });
        answer!(reply, made, |reply, attr| reply.entry(&TTL, &attr, Generation(0)));
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        let admitted = self.admit(What::Change, 0);
        let made = admitted.and_then(|()| self.fd(parent)).and_then(|directory| {
            sys::mkdirat(&*directory, name, Mode::from_raw_mode(mode & 0o7777)).map_err(errno)?;
            self.adopt(request, parent, name)
        });
        answer!(reply, made, |reply, attr| reply.entry(&TTL, &attr, Generation(0)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let admitted = self.admit(What::Change, 0);
        let done = admitted.and_then(|()| self.fd(parent)).and_then(|fd| sys::unlinkat(&*fd, name, AtFlags::empty()).map_err(errno));
        answer!(reply, done, |reply, ()| reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let admitted = self.admit(What::Change, 0);
        let done = admitted.and_then(|()| self.fd(parent)).and_then(|fd| sys::unlinkat(&*fd, name, AtFlags::REMOVEDIR).map_err(errno));
        answer!(reply, done, |reply, ()| reply.ok());
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let admitted = self.admit(What::Change, 0);
        let made = admitted.and_then(|()| self.fd(parent)).and_then(|directory| {
            sys::symlinkat(target, &*directory, name).map_err(errno)?;
            self.adopt(request, parent, name)
        });
        answer!(reply, made, |reply, attr| reply.entry(&TTL, &attr, Generation(0)));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let admitted = self.admit(What::Change, 0);
        let flags = sys::RenameFlags::from_bits_retain(flags.bits());
        let done = admitted.and_then(|()| self.fd(parent)).and_then(|from| {
            let to = self.fd(new_parent)?;
            sys::renameat_with(&*from, name, &*to, new_name, flags).map_err(errno)
        });
        answer!(reply, done, |reply, ()| reply.ok());
    }

    fn link(&self, _: &Request, ino: INodeNo, new_parent: INodeNo, new_name: &OsStr, reply: ReplyEntry) {
        let admitted = self.admit(What::Change, 0);
        let made = admitted.and_then(|()| self.fd(ino)).and_then(|fd| {
            let directory = self.fd(new_parent)?;
            sys::linkat(sys::CWD, proc_path(&fd), &*directory, new_name, AtFlags::SYMLINK_FOLLOW).map_err(errno)?;
            self.remember(new_parent, new_name)
        });
        answer!(reply, made, |reply, attr| reply.entry(&TTL, &attr, Generation(0)));
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let admitted = self.admit(What::Look, 0);
        // O_DIRECT and O_APPEND are the kernel's to see to: it aligns nothing for us, and sends offsets.
        let keep = OFlags::from_bits_retain(flags.0 as u32) & (OFlags::RWMODE | OFlags::TRUNC | OFlags::SYNC | OFlags::DSYNC);
        let opened = admitted
            .and_then(|()| self.fd(ino))
            .and_then(|fd| sys::open(proc_path(&fd), keep | OFlags::CLOEXEC, Mode::empty()).map_err(errno));
        answer!(reply, opened, |reply, fd| reply.opened(self.keep_open(fd.into()), FopenFlags::FOPEN_DIRECT_IO));
    }

    fn create(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, flags: i32, reply: ReplyCreate) {
        let admitted = self.admit(What::Change, 0);
        let created = admitted.and_then(|()| self.fd(parent)).and_then(|directory| {
            let exclusive = OFlags::from_bits_retain(flags as u32) & (OFlags::EXCL | OFlags::TRUNC);
            let how = exclusive | OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let fd = sys::openat(&*directory, name, how, Mode::from_raw_mode(mode & 0o7777)).map_err(errno)?;
            Ok((self.adopt(request, parent, name)?, self.keep_open(fd.into())))
        });
        answer!(reply, created, |reply, (attr, handle)| reply.created(&TTL, &attr, Generation(0), handle, FopenFlags::FOPEN_DIRECT_IO));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self.admit(What::Look, 0).and_then(|()| self.file(handle)).and_then(|file| {
            let mut bytes = vec![0; size as usize];
            let mut filled = 0;
            while filled < bytes.len() {
                match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
                    0 => break,
                    count => filled += count,
                }
            }
            bytes.truncate(filled);
            Ok(bytes)
        });
        self.pass(read.as_ref().map_or(0, Vec::len), if self.limits.is_duplex { &self.read_at } else { &self.passed_at });
        answer!(reply, read, |reply, bytes| reply.data(&bytes));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let what = if data.len() >= BULK_BYTES { What::Bulk } else { What::Data };
        let written = self.admit(what, data.len()).and_then(|()| self.file(handle)).and_then(|file| Ok(file.write_all_at(data, offset)?));
        answer!(reply, written, |reply, ()| reply.written(data.len() as u32));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, _: Option<LockOwner>, _: bool, reply: ReplyEmpty) {
        lock(&self.files).remove(&u64::from(handle));
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, datasync: bool, reply: ReplyEmpty) {
        let admitted = self.admit(What::Change, 0);
        let synced = |file: Arc<File>| if datasync { file.sync_data() } else { file.sync_all() };
        let done = admitted.and_then(|()| self.file(handle)).and_then(|file| synced(file).map_err(Errno::from));
        answer!(reply, done, |reply, ()| reply.ok());
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let admitted = self.admit(What::Change, 0);
        let done = admitted.and_then(|()| self.fd(ino)).and_then(|fd| {
            let directory = sys::openat(&*fd, ".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).map_err(errno)?;
            sys::fsync(directory).map_err(errno)
        });
        answer!(reply, done, |reply, ()| reply.ok());
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let admitted = self.admit(What::Look, 0);
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        let listing = admitted.and_then(|()| self.list(ino)).map(|entries| lock(&self.listings).insert(handle, Arc::new(entries)));
        answer!(reply, listing, |reply, _| reply.opened(FileHandle(handle), FopenFlags::empty()));
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let Some(entries) = lock(&self.listings).get(&u64::from(handle)).cloned() else {
            return reply.error(Errno::EBADF);
        };
        for (index, (ino, kind, name)) in entries.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*ino), index as u64 + 1, *kind, OsStr::from_bytes(name)) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        lock(&self.listings).remove(&u64::from(handle));
        reply.ok();
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let admitted = self.admit(What::Look, 0);
        let stat = admitted.and_then(|()| self.fd(ino)).and_then(|fd| sys::fstatvfs(&fd).map_err(errno));
        answer!(reply, stat, |reply, s| reply.statfs(
            s.f_blocks,
            s.f_bfree,
            s.f_bavail,
            s.f_files,
            s.f_ffree,
            s.f_bsize as u32,
            s.f_namemax as u32,
            s.f_frsize as u32
        ));
    }
}
