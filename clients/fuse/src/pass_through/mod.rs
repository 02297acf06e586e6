//! A directory as it is, seen through a mount: each request is a few system calls on the directory behind. It decides nothing and keeps no bytes,
//! so that a trace of it shows what programs do, and a measurement of it what passing through a mount costs.

mod calls;
mod nodes;

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_client::{CallPayload, Transport};
use forebay_core::attr::{Attr, AttrChange, Caller, Kind};
use forebay_core::effect::Once;
use forebay_core::errno::Errno;
use forebay_core::id::{Ino, Name};
use forebay_core::message::{DirEntry, RenameMode, Reply, Request, SeekWhence};
use forebay_core::xattr::{self, SetMode};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, SeekFrom, Stat, XattrFlags};

use self::calls::{attr_of, errno, proc_path};
use self::nodes::{Nodes, Use, open_place, stat_name};
use crate::convert::raw_type;

/// A directory being listed: its entries in the order of their cookies.
type Listing = Arc<Mutex<Vec<DirEntry>>>;

/// Serves a directory as it is.
pub struct PassThrough {
    nodes: Nodes,
    listings: Mutex<HashMap<u64, (Ino, Listing)>>,
    handles: AtomicU64,
    /// Makes files for others than itself.
    is_root: bool,
}

impl std::fmt::Debug for PassThrough {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PassThrough").finish_non_exhaustive()
    }
}

impl PassThrough {
    /// Serves `directory`, which may be hidden by a mount afterwards.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn new(directory: &Path) -> std::io::Result<PassThrough> {
        let root = rustix::fs::open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let nodes = Nodes::new(root).map_err(|errno| std::io::Error::from_raw_os_error(errno.0))?;
        let is_root = rustix::process::geteuid().is_root();
        Ok(PassThrough { nodes, listings: Mutex::default(), handles: AtomicU64::new(1), is_root })
    }

    fn carry_out(&self, request: Request, payload: CallPayload<'_>) -> Result<Reply, Errno> {
        use Request::*;
        Ok(match request {
            Lookup { parent, name } => self.lookup(parent, name.as_bytes())?,
            Forget { ino, count } => {
                self.nodes.forget(ino, count);
                Reply::Done
            }
            GetAttr { ino } => Reply::Attr { attr: self.attr(ino)? },
            SetAttr { ino, change } => self.set_attr(ino, &change)?,
            Create { parent, name, mode, exclusive, caller } => self.create(parent, name.as_bytes(), mode, exclusive, caller)?,
            Open { ino } => {
                // Who may only write cannot read: that shows when it is tried.
                self.nodes.opened(ino, Use::Read, None);
                match self.nodes.file(ino, Use::Read) {
                    Err(errno) if errno != Errno::EACCES => {
                        self.nodes.released(ino);
                        return Err(errno);
                    }
                    _ => Reply::Done,
                }
            }
            Release { ino } => {
                self.nodes.released(ino);
                Reply::Done
            }
            Read { ino, offset, len } => {
                let CallPayload::Read(space) = payload else { return Err(Errno::EINVAL) };
                let file = self.nodes.file(ino, Use::Read)?;
                let len = len as usize;
                if space.len() < len {
                    space.resize(len, 0);
                }
                Reply::Read { len: calls::read(&*file, &mut space[..len], offset)? }
            }
            Write { ino, offset, append, drops_set_id, .. } => {
                let CallPayload::Write(bytes) = payload else { return Err(Errno::EINVAL) };
                let file = self.nodes.file(ino, Use::Write)?;
                let before = if drops_set_id { Some(rustix::fs::fstat(&*file).map_err(errno)?) } else { None };
                calls::write(&*file, bytes, offset, append)?;
                let dropped_set_id = before.map_or(Ok(false), |before| calls::drop_set_id(file.as_fd(), &before))?;
                Reply::Written { offset, len: bytes.len() as u32, dropped_set_id }
            }
            Allocate { ino, offset, len, mode, drops_set_id } => {
                let file = self.nodes.file(ino, Use::Write)?;
                let before = rustix::fs::fstat(&*file).map_err(errno)?;
                rustix::fs::fallocate(&*file, calls::fallocate_flags(mode), offset, len).map_err(errno)?;
                if drops_set_id {
                    calls::drop_set_id(file.as_fd(), &before)?;
                }
                Reply::Done
            }
            Seek { ino, offset, whence } => {
                let file = self.nodes.file(ino, Use::Read)?;
                let from = match whence {
                    SeekWhence::Data => SeekFrom::Data(offset),
                    SeekWhence::Hole => SeekFrom::Hole(offset),
                };
                Reply::Offset { offset: rustix::fs::seek(&*file, from).map_err(errno)? }
            }
            Sync { ino } => self.sync(ino)?,
            StatFs => Reply::StatFs { stat: calls::stat_fs(self.nodes.place(Ino::ROOT)?.as_fd())? },
            OpenDir { .. } | ReadDir { .. } | ReadDirPlus { .. } | ReleaseDir { .. } => self.directories(request)?,
            SetXattr { .. } | GetXattr { .. } | ListXattr { .. } | RemoveXattr { .. } => self.xattrs(request)?,
            Depart => Reply::Done,
            Drain | Status | BringHome { .. } | Where { .. } => return Err(Errno::ENOTSUP),
            other => self.names(other)?,
        })
    }

    fn attr(&self, ino: Ino) -> Result<Attr, Errno> {
        attr_of(&rustix::fs::fstat(&*self.nodes.place(ino)?).map_err(errno)?)
    }

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Reply, Errno> {
        let (place, stat) = open_place(self.nodes.place(parent)?.as_fd(), name)?;
        let attr = attr_of(&stat)?;
        Ok(Reply::Entry { ino: self.nodes.remember(parent, name, place, &stat), attr })
    }

    fn set_attr(&self, ino: Ino, change: &AttrChange) -> Result<Reply, Errno> {
        let place = self.nodes.place(ino)?;
        if let Some(size) = change.size {
            let file = self.nodes.file(ino, Use::Write)?;
            let before = rustix::fs::fstat(&*file).map_err(errno)?;
            rustix::fs::ftruncate(&*file, size).map_err(errno)?;
            if change.drops_set_id {
                calls::drop_set_id(place.as_fd(), &before)?;
            }
        }
        calls::change_attributes(place.as_fd(), change)?;
        Ok(Reply::Attr { attr: self.attr(ino)? })
    }

    fn create(&self, parent: Ino, name: &[u8], mode: u16, exclusive: bool, caller: Caller) -> Result<Reply, Errno> {
        let directory = self.nodes.place(parent)?;
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        // First as a new one: only then its owner and mode are ours to say.
        let made = rustix::fs::openat(&*directory, name, flags | OFlags::EXCL, Mode::from_raw_mode(u32::from(mode)));
        let (file, is_new) = match made {
            Err(rustix::io::Errno::EXIST) if !exclusive => {
                (rustix::fs::openat(&*directory, name, flags, Mode::empty()).map_err(errno)?, false)
            }
            made => (made.map_err(errno)?, true),
        };
        let stat = rustix::fs::fstat(&file).map_err(errno)?;
        let stat = if is_new { self.as_made_by(file.as_fd(), directory.as_fd(), stat, mode, caller)? } else { stat };
        let place = rustix::fs::open(proc_path(file.as_fd()), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(errno)?;
        let ino = self.nodes.remember(parent, name, place, &stat);
        self.nodes.opened(ino, Use::Write, Some(file));
        Ok(Reply::Created { ino, attr: attr_of(&stat)? })
    }

    /// Gives what was made the owner and mode that it would have if its maker had made it; what it says of itself then.
    fn as_made_by(
        &self,
        made: std::os::fd::BorrowedFd<'_>,
        directory: std::os::fd::BorrowedFd<'_>,
        stat: Stat,
        mode: u16,
        caller: Caller,
    ) -> Result<Stat, Errno> {
        const SET_GID: u32 = 0o2000;
        let is_symlink = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        let mut changed = false;
        if self.is_root {
            let inherits_group = rustix::fs::fstat(directory).map_err(errno)?.st_mode & SET_GID != 0;
            let uid = (stat.st_uid != caller.uid).then_some(caller.uid);
            let gid = (stat.st_gid != caller.gid && !inherits_group).then_some(caller.gid);
            calls::change_attributes(made, &AttrChange { uid, gid, ..AttrChange::default() })?;
            changed = uid.is_some() || gid.is_some();
        }
        // Our own mask may have taken something that the maker's, which the kernel knows, has left; a directory inherits the set-gid bit.
        let wanted = mode | (stat.st_mode & SET_GID) as u16;
        if !is_symlink && (changed || (stat.st_mode & 0o7777) as u16 != wanted) {
            calls::change_mode(made, wanted)?;
            changed = true;
        }
        if changed { rustix::fs::fstat(made).map_err(errno) } else { Ok(stat) }
    }

    /// An entry for what was just made.
    fn entry_of_new(&self, parent: Ino, name: &[u8], mode: u16, caller: Caller) -> Result<Reply, Errno> {
        let directory = self.nodes.place(parent)?;
        let (place, stat) = open_place(directory.as_fd(), name)?;
        let stat = self.as_made_by(place.as_fd(), directory.as_fd(), stat, mode, caller)?;
        let attr = attr_of(&stat)?;
        Ok(Reply::Entry { ino: self.nodes.remember(parent, name, place, &stat), attr })
    }

    /// Requests that change names.
    fn names(&self, request: Request) -> Result<Reply, Errno> {
        use Request::*;
        match request {
            ReadLink { ino } => {
                let target = rustix::fs::readlinkat(&*self.nodes.place(ino)?, c"", Vec::new()).map_err(errno)?;
                Ok(Reply::Target { target: Name::new(target.as_bytes()) })
            }
            MakeNode { parent, name, kind, mode, rdev, caller } => {
                if matches!(kind, Kind::Directory | Kind::Symlink) {
                    return Err(Errno::EINVAL);
                }
                let directory = self.nodes.place(parent)?;
                let permissions = Mode::from_raw_mode(u32::from(mode));
                rustix::fs::mknodat(&*directory, name.as_bytes(), raw_type(kind), permissions, calls::device(rdev)).map_err(errno)?;
                self.entry_of_new(parent, name.as_bytes(), mode, caller)
            }
            MakeDir { parent, name, mode, caller } => {
                let directory = self.nodes.place(parent)?;
                rustix::fs::mkdirat(&*directory, name.as_bytes(), Mode::from_raw_mode(u32::from(mode))).map_err(errno)?;
                self.entry_of_new(parent, name.as_bytes(), mode, caller)
            }
            SymLink { parent, name, target, caller } => {
                rustix::fs::symlinkat(target.as_bytes(), &*self.nodes.place(parent)?, name.as_bytes()).map_err(errno)?;
                self.entry_of_new(parent, name.as_bytes(), 0o777, caller)
            }
            Link { ino, parent, name } => {
                let (place, directory) = (self.nodes.place(ino)?, self.nodes.place(parent)?);
                let from = proc_path(place.as_fd());
                rustix::fs::linkat(CWD, from, &*directory, name.as_bytes(), AtFlags::SYMLINK_FOLLOW).map_err(errno)?;
                self.lookup(parent, name.as_bytes())
            }
            Unlink { parent, name } => self.remove(parent, name.as_bytes(), AtFlags::empty()),
            RemoveDir { parent, name } => self.remove(parent, name.as_bytes(), AtFlags::REMOVEDIR),
            Rename { parent, name, new_parent, new_name, mode } => {
                self.rename((parent, name.as_bytes()), (new_parent, new_name.as_bytes()), mode)
            }
            _ => Err(Errno::ENOTSUP),
        }
    }

    fn remove(&self, parent: Ino, name: &[u8], flags: AtFlags) -> Result<Reply, Errno> {
        let directory = self.nodes.place(parent)?;
        if let Some(ino) = self.nodes.known(&stat_name(directory.as_fd(), name)?) {
            self.nodes.pin(ino);
        }
        rustix::fs::unlinkat(&*directory, name, flags).map_err(errno)?;
        Ok(Reply::Done)
    }

    fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), mode: RenameMode) -> Result<Reply, Errno> {
        let (old, new) = (self.nodes.place(from.0)?, self.nodes.place(to.0)?);
        let known = |directory: &OwnedFd, name| stat_name(directory.as_fd(), name).ok().and_then(|stat| self.nodes.known(&stat));
        let (moved, target) = (known(&old, from.1), known(&new, to.1));
        [moved, target].into_iter().flatten().for_each(|ino| self.nodes.pin(ino));
        let flags = match mode {
            RenameMode::Replace => RenameFlags::empty(),
            RenameMode::NoReplace => RenameFlags::NOREPLACE,
            RenameMode::Exchange => RenameFlags::EXCHANGE,
        };
        rustix::fs::renameat_with(&*old, from.1, &*new, to.1, flags).map_err(errno)?;
        if let Some(ino) = moved {
            self.nodes.moved(ino, to.0, to.1);
        }
        if let (Some(ino), RenameMode::Exchange) = (target, mode) {
            self.nodes.moved(ino, from.0, from.1);
        }
        Ok(Reply::Done)
    }

    fn sync(&self, ino: Ino) -> Result<Reply, Errno> {
        let place = self.nodes.place(ino)?;
        // One that may only be written can be synced, too.
        let open = || rustix::fs::open(proc_path(place.as_fd()), OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty());
        let file = match open() {
            Ok(file) => Arc::new(file),
            Err(_) => self.nodes.file(ino, Use::Write)?,
        };
        rustix::fs::fsync(&*file).map_err(errno)?;
        Ok(Reply::Done)
    }

    /// Requests about listings.
    fn directories(&self, request: Request) -> Result<Reply, Errno> {
        use Request::*;
        let find = |handle: u64| self.listings.lock().get(&handle).cloned().ok_or(Errno::ESTALE);
        match request {
            OpenDir { ino } => {
                let listing = Arc::new(Mutex::new(self.list(ino)?));
                let handle = self.handles.fetch_add(1, Ordering::Relaxed);
                self.listings.lock().insert(handle, (ino, listing));
                Ok(Reply::DirOpened { handle })
            }
            ReleaseDir { handle } => {
                self.listings.lock().remove(&handle);
                Ok(Reply::Done)
            }
            ReadDir { handle, from, max } => {
                let (ino, listing) = find(handle)?;
                Ok(Reply::Entries { entries: self.part(ino, &listing, from, max)? })
            }
            ReadDirPlus { handle, from, max } => {
                let (directory, listing) = find(handle)?;
                let with_attr = |entry: DirEntry| match self.lookup(directory, entry.name.as_bytes()) {
                    Ok(Reply::Entry { ino, attr }) => (DirEntry { ino, kind: attr.kind, ..entry }, Some(attr)),
                    // It is gone meanwhile: a mere name.
                    _ => (entry, None),
                };
                Ok(Reply::EntriesPlus { entries: self.part(directory, &listing, from, max)?.into_iter().map(with_attr).collect() })
            }
            _ => Err(Errno::ENOTSUP),
        }
    }

    /// What stands in a directory now.
    fn list(&self, ino: Ino) -> Result<Vec<DirEntry>, Errno> {
        let place = self.nodes.place(ino)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(proc_path(place.as_fd()), flags, Mode::empty()).map_err(errno)?;
        let mut entries = Vec::new();
        for entry in Dir::new(directory).map_err(errno)? {
            let entry = entry.map_err(errno)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let kind = Kind::of_mode(entry.file_type().as_raw_mode()).or_else(|| {
                let stat = stat_name(place.as_fd(), name).ok()?;
                Kind::of_mode(stat.st_mode)
            });
            entries.push(DirEntry { ino: Ino(entry.ino()), kind: kind.unwrap_or(Kind::File), name: Name::new(name) });
        }
        entries.sort_by_cached_key(DirEntry::cookie);
        Ok(entries)
    }

    /// Entries behind a cookie; from the beginning, the directory is looked at anew.
    fn part(&self, ino: Ino, listing: &Listing, from: u64, max: u32) -> Result<Vec<DirEntry>, Errno> {
        let mut entries = listing.lock();
        if from == 0 {
            *entries = self.list(ino)?;
        }
        let begin = entries.partition_point(|entry| entry.cookie() <= from);
        Ok(entries[begin..].iter().take(max as usize).cloned().collect())
    }

    /// Requests about extended attributes.
    fn xattrs(&self, request: Request) -> Result<Reply, Errno> {
        use Request::*;
        let (SetXattr { ino, .. } | GetXattr { ino, .. } | ListXattr { ino } | RemoveXattr { ino, .. }) = &request else {
            return Err(Errno::ENOTSUP);
        };
        // The descriptor must stay open while its name is used.
        let kept = self.nodes.place(*ino)?;
        let place = proc_path(kept.as_fd());
        match request {
            SetXattr { name, value, mode, .. } => {
                let flags = match mode {
                    SetMode::Any => XattrFlags::empty(),
                    SetMode::Create => XattrFlags::CREATE,
                    SetMode::Replace => XattrFlags::REPLACE,
                };
                rustix::fs::setxattr(&*place, name.as_bytes(), &value, flags).map_err(errno)?;
                Ok(Reply::Done)
            }
            GetXattr { name, .. } => {
                let name = name.as_bytes();
                let len = || rustix::fs::getxattr_query(&*place, name);
                Ok(Reply::Xattr { value: calls::sized(len, |value| rustix::fs::getxattr(&*place, name, value))? })
            }
            ListXattr { .. } => {
                let names = calls::sized(|| rustix::fs::listxattr_query(&*place), |names| rustix::fs::listxattr(&*place, names))?;
                // Those of others than the user are not passed on.
                let ours = names.split(|byte| *byte == 0).filter(|name| xattr::check_name(name).is_ok());
                Ok(Reply::XattrNames { names: ours.map(Name::new).collect() })
            }
            RemoveXattr { name, .. } => {
                rustix::fs::removexattr(&*place, name.as_bytes()).map_err(errno)?;
                Ok(Reply::Done)
            }
            _ => Err(Errno::ENOTSUP),
        }
    }
}

impl Transport for PassThrough {
    fn call(&self, request: Request, payload: CallPayload<'_>) -> Reply {
        self.carry_out(request, payload).unwrap_or_else(|errno| Reply::Error { errno })
    }

    fn call_telling(&self, request: Request, payload: CallPayload<'_>, _: Option<Once>, waits: &(dyn Fn() + std::marker::Sync)) -> Reply {
        // What waits for a disk, for long. The rest is about as fast as another thread would be to come.
        if matches!(request, Request::Sync { .. }) {
            waits();
        }
        self.call(request, payload)
    }
}

#[cfg(test)]
mod tests;
