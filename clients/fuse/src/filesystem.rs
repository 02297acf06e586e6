//! The kernel's requests, each carried to the server and its answer back.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use forebay_client::{Client, Transport};
use forebay_core::attr::{Attr, AttrChange, Caller};
use forebay_core::errno::Errno;
use forebay_core::id::Ino;
use forebay_core::message::RenameMode;
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, FileHandle, FileType, FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags,
    KernelConfig, LockOwner, OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr, ReplyBmap, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, Version, WriteFlags,
};
use parking_lot::Mutex;
use rustix::fs::OFlags;

use crate::convert::{attributes, errno, file_type, kind_of_mode, no_entry, permissions, set_time};

/// How long the kernel may keep names and attributes. All changes come through this kernel, so they do not age.
const TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The largest write of one request, bytes.
const WRITE_BYTES_MAX: u32 = 1 << 20;
/// Requests that the kernel may have under way without a process waiting for each (read-ahead, write-back).
const BACKGROUND_MAX: u16 = 64;
/// Directory entries asked for at a time; the kernel's buffer of a page holds about as many.
const ENTRIES_MAX: u32 = 128;
/// The oldest FUSE version (Linux 6.2) of which it is known that the kernel asks for the sync of an `O_SYNC` write.
const KERNEL_SYNCS_SINCE: Version = Version(7, 38);
/// Unit of statfs, bytes.
const STATFS_UNIT_BYTES: u64 = 4096;
/// Inode numbers are never used again, so there is one generation.
const GENERATION: Generation = Generation(0);

pub(crate) struct Filesystem<T: Transport> {
    client: Client<T>,
    kernel_write_back: bool,
    /// The longest write that the server takes.
    write_bytes_max: u32,
    /// The kernel itself asks for a sync after a write to a file that was opened with `O_SYNC` or `O_DSYNC`.
    kernel_syncs: bool,
    /// Space for the answers to reads; at most one for each thread.
    buffers: Mutex<Vec<Vec<u8>>>,
}

fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid() }
}

fn reply_entry(reply: ReplyEntry, result: Result<(Ino, Attr), Errno>) {
    match result {
        Ok((ino, attr)) => reply.entry(&TTL, &attributes(ino, &attr), GENERATION),
        Err(error) => reply.error(errno(error)),
    }
}

fn reply_attr(reply: ReplyAttr, result: Result<Attr, Errno>, ino: INodeNo) {
    match result {
        Ok(attr) => reply.attr(&TTL, &attributes(Ino(ino.0), &attr)),
        Err(error) => reply.error(errno(error)),
    }
}

fn reply_empty(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

fn has(flags: OpenFlags, flag: OFlags) -> bool {
    OFlags::from_bits_retain(flags.0 as u32).contains(flag)
}

impl<T: Transport> Filesystem<T> {
    pub(crate) fn new(client: Client<T>, kernel_write_back: bool, write_bytes_max: u32) -> Filesystem<T> {
        Filesystem { client, kernel_write_back, write_bytes_max, kernel_syncs: false, buffers: Mutex::default() }
    }

    /// Fills a directory reply from `offset` on; offsets 0 and 1 are `.` and `..`, the others the server's entries.
    fn fill_directory(&self, ino: INodeNo, handle: u64, offset: u64, reply: &mut ReplyDirectory) -> Result<(), Errno> {
        for (at, name) in [".", ".."].into_iter().enumerate().skip(usize::try_from(offset).unwrap_or(2)) {
            // The kernel takes the numbers of these two from its own tree.
            if reply.add(ino, at as u64 + 1, FileType::Directory, name) {
                return Ok(());
            }
        }
        let mut from = offset.saturating_sub(2);
        loop {
            let entries = self.client.read_dir(handle, from, ENTRIES_MAX)?;
            for entry in &entries {
                from += 1;
                if reply.add(INodeNo(entry.ino.0), from + 2, file_type(entry.kind), OsStr::from_bytes(entry.name.as_bytes())) {
                    return Ok(());
                }
            }
            if (entries.len() as u32) < ENTRIES_MAX {
                return Ok(());
            }
        }
    }
}

impl<T: Transport + 'static> fuser::Filesystem for Filesystem<T> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Each is an optimisation; a kernel without it works.
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.add_capabilities(InitFlags::FUSE_CACHE_SYMLINKS);
        // All changes come through this kernel: a new size must not make it drop the pages that it holds.
        let _ = config.add_capabilities(InitFlags::FUSE_EXPLICIT_INVAL_DATA);
        if self.kernel_write_back && config.add_capabilities(InitFlags::FUSE_WRITEBACK_CACHE).is_err() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel has no write-back cache for FUSE"));
        }
        self.kernel_syncs = config.kernel_abi() >= KERNEL_SYNCS_SINCE;
        let _ = config.set_max_write(self.write_bytes_max.min(WRITE_BYTES_MAX));
        let _ = config.set_max_background(BACKGROUND_MAX);
        if let Err(most) = config.set_max_readahead(WRITE_BYTES_MAX) {
            let _ = config.set_max_readahead(most);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.client.lookup(Ino(parent.0), name.as_bytes()) {
            Err(Errno::ENOENT) => reply.entry(&TTL, &no_entry(), GENERATION),
            result => reply_entry(reply, result),
        }
    }

    fn forget(&self, _: &Request, ino: INodeNo, nlookup: u64) {
        // There is no reply in which an error could be told, and none that could matter.
        let _ = self.client.forget(Ino(ino.0), nlookup);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply_attr(reply, self.client.get_attr(Ino(ino.0)), ino);
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
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (atime, mtime) = (atime.map(set_time), mtime.map(set_time));
        let change = AttrChange { mode: mode.map(permissions), uid, gid, size, atime, mtime };
        reply_attr(reply, self.client.set_attr(Ino(ino.0), change), ino);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.client.read_link(Ino(ino.0)) {
            Ok(target) => reply.data(target.as_bytes()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, rdev: u32, reply: ReplyEntry) {
        let Some(kind) = kind_of_mode(mode) else { return reply.error(fuser::Errno::EINVAL) };
        let made = self.client.make_node(Ino(parent.0), name.as_bytes(), kind, permissions(mode), rdev, caller(request));
        reply_entry(reply, made);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        reply_entry(reply, self.client.make_dir(Ino(parent.0), name.as_bytes(), permissions(mode), caller(request)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(reply, self.client.unlink(Ino(parent.0), name.as_bytes()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(reply, self.client.remove_dir(Ino(parent.0), name.as_bytes()));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = target.as_os_str().as_bytes();
        reply_entry(reply, self.client.sym_link(Ino(parent.0), name.as_bytes(), target, caller(request)));
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
        let mode = match flags {
            flags if flags.is_empty() => RenameMode::Replace,
            RenameFlags::RENAME_NOREPLACE => RenameMode::NoReplace,
            RenameFlags::RENAME_EXCHANGE => RenameMode::Exchange,
            _ => return reply.error(fuser::Errno::EINVAL),
        };
        let (from, to) = (Ino(parent.0), Ino(new_parent.0));
        reply_empty(reply, self.client.rename(from, name.as_bytes(), to, new_name.as_bytes(), mode));
    }

    fn link(&self, _: &Request, ino: INodeNo, new_parent: INodeNo, new_name: &OsStr, reply: ReplyEntry) {
        reply_entry(reply, self.client.link(Ino(ino.0), Ino(new_parent.0), new_name.as_bytes()));
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.client.open(Ino(ino.0)) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn create(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, flags: i32, reply: ReplyCreate) {
        let exclusive = has(OpenFlags(flags), OFlags::EXCL);
        match self.client.create(Ino(parent.0), name.as_bytes(), permissions(mode), exclusive, caller(request)) {
            Ok((ino, attr)) => {
                reply.created(&TTL, &attributes(ino, &attr), GENERATION, FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, size: u32, _: OpenFlags, _: Option<LockOwner>, reply: ReplyData) {
        let taken = self.buffers.lock().pop();
        let mut buffer = taken.unwrap_or_default();
        let result = self.client.read(Ino(ino.0), offset, size, &mut buffer);
        match result.map(|len| buffer.get(..len as usize)) {
            Ok(Some(bytes)) => reply.data(bytes),
            Ok(None) => reply.error(fuser::Errno::EIO),
            Err(error) => reply.error(errno(error)),
        }
        self.buffers.lock().push(buffer);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // Pages that the kernel has kept belong where they are, whatever the file that happens to carry them was opened for.
        let append = has(flags, OFlags::APPEND) && !write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let ino = Ino(ino.0);
        let written = self.client.write(ino, offset, data, append).and_then(|_| {
            // O_SYNC contains O_DSYNC.
            if has(flags, OFlags::DSYNC) && !self.kernel_syncs { self.client.sync(ino) } else { Ok(()) }
        });
        match written {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// A close: nothing is kept back here, so there is nothing to do. `ENOSYS` tells the kernel not to ask again; close(2) succeeds.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn release(&self, _: &Request, ino: INodeNo, _: FileHandle, _: OpenFlags, _: Option<LockOwner>, _: bool, reply: ReplyEmpty) {
        reply_empty(reply, self.client.release(Ino(ino.0)));
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(reply, self.client.sync(Ino(ino.0)));
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.client.open_dir(Ino(ino.0)) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        match self.fill_directory(ino, handle.0, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        reply_empty(reply, self.client.release_dir(handle.0));
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(reply, self.client.sync(Ino(ino.0)));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.client.stat_fs() {
            Ok(stat) => {
                let units = |bytes: u64| bytes / STATFS_UNIT_BYTES;
                let unit = STATFS_UNIT_BYTES as u32;
                let (total, free, available) = (units(stat.total_bytes), units(stat.free_bytes), units(stat.available_bytes));
                reply.statfs(total, free, available, stat.files, stat.files_free, unit, stat.name_bytes_max, unit);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    // What is not there yet. `ENOSYS` makes the kernel remember it and answer by itself: `EOPNOTSUPP` for extended attributes, fallocate
    // and copy_file_range (whose callers then copy by reading and writing), the whole file as data for SEEK_HOLE and SEEK_DATA,
    // `ENOTTY` for ioctl, always ready for poll. Locks are not asked for, so that the kernel keeps them itself, for all processes of
    // this mount. Access is checked by the kernel (`default_permissions`).

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn setxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: &[u8], _: i32, _: u32, reply: ReplyEmpty) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn listxattr(&self, _: &Request, _: INodeNo, _: u32, reply: ReplyXattr) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn removexattr(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn bmap(&self, _: &Request, _: INodeNo, _: u32, _: u64, reply: ReplyBmap) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn ioctl(&self, _: &Request, _: INodeNo, _: FileHandle, _: IoctlFlags, _: u32, _: &[u8], _: u32, reply: ReplyIoctl) {
        reply.error(fuser::Errno::ENOTTY);
    }

    fn poll(&self, _: &Request, _: INodeNo, _: FileHandle, _: PollNotifier, _: PollEvents, _: PollFlags, reply: ReplyPoll) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, _: u64, _: u64, _: i32, reply: ReplyEmpty) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, _: i64, _: i32, reply: ReplyLseek) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        reply.error(fuser::Errno::ENOSYS);
    }
}
