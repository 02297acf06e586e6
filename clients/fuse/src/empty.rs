//! A file system without bytes (M-05): names, sizes and attributes are kept in memory, what is written is dropped, what is read is zeros, and
//! nothing stands behind it. How fast it is, is how fast a mount can be whatever stands behind.

use std::collections::{BTreeMap, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_client::{CallPayload, Transport};
use forebay_core::attr::{Attr, AttrChange, Caller, Kind, SetTime};
use forebay_core::effect::Once;
use forebay_core::errno::Errno;
use forebay_core::id::{Ino, Name};
use forebay_core::message::{AllocateMode, DirEntry, RenameMode, Reply, Request, SeekWhence};
use parking_lot::Mutex;

/// What statfs(2) shows: any number that is large enough.
const SPACE_BYTES: u64 = 1 << 50;
const FILES_MAX: u64 = 1 << 32;

struct Node {
    attr: Attr,
    names: BTreeMap<Name, Ino>,
    target: Name,
    parent: Ino,
    /// The kernel's references and open files.
    uses: u64,
}

struct Tree {
    nodes: HashMap<Ino, Node>,
    last: Ino,
}

/// Names and sizes in memory, and no bytes.
pub struct Empty {
    tree: Mutex<Tree>,
}

impl std::fmt::Debug for Empty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Empty").finish_non_exhaustive()
    }
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

impl Default for Empty {
    fn default() -> Empty {
        let caller = Caller { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
        let mut tree = Tree { nodes: HashMap::new(), last: Ino::ROOT };
        tree.nodes.insert(Ino::ROOT, Node { uses: 1, ..Node::new(Ino::ROOT, Kind::Directory, 0o755, 0, caller) });
        Empty { tree: Mutex::new(tree) }
    }
}

impl Node {
    fn new(parent: Ino, kind: Kind, mode: u16, rdev: u32, caller: Caller) -> Node {
        let now = now_ns();
        let attr = Attr {
            kind,
            mode,
            nlink: if kind == Kind::Directory { 2 } else { 1 },
            uid: caller.uid,
            gid: caller.gid,
            size: 0,
            blocks: 0,
            rdev,
            atime_ns: now,
            mtime_ns: now,
            ctime_ns: now,
        };
        Node { attr, names: BTreeMap::new(), target: Name::new(b""), parent, uses: 0 }
    }

    fn changed(&mut self) {
        (self.attr.mtime_ns, self.attr.ctime_ns) = (now_ns(), now_ns());
    }
}

impl Tree {
    fn node(&mut self, ino: Ino) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&ino).ok_or(Errno::ESTALE)
    }

    fn directory(&mut self, ino: Ino) -> Result<&mut Node, Errno> {
        let node = self.node(ino)?;
        if node.attr.kind == Kind::Directory { Ok(node) } else { Err(Errno::ENOTDIR) }
    }

    fn child(&mut self, parent: Ino, name: &Name) -> Result<Ino, Errno> {
        self.directory(parent)?.names.get(name).copied().ok_or(Errno::ENOENT)
    }

    /// The kernel gets a reference.
    fn entry(&mut self, ino: Ino) -> Result<Reply, Errno> {
        let node = self.node(ino)?;
        node.uses += 1;
        Ok(Reply::Entry { ino, attr: node.attr })
    }

    fn make(&mut self, parent: Ino, name: &Name, node: Node) -> Result<Ino, Errno> {
        if self.child(parent, name).is_ok() {
            return Err(Errno::EEXIST);
        }
        self.last = Ino(self.last.0 + 1);
        let (ino, is_directory) = (self.last, node.attr.kind == Kind::Directory);
        let directory = self.directory(parent)?;
        directory.names.insert(name.clone(), ino);
        directory.attr.nlink += u32::from(is_directory);
        directory.changed();
        self.nodes.insert(ino, node);
        Ok(ino)
    }

    /// Uses of an inode end; without a name it goes then.
    fn end_uses(&mut self, ino: Ino, count: u64) {
        let Some(node) = self.nodes.get_mut(&ino) else { return };
        node.uses = node.uses.saturating_sub(count);
        if node.uses == 0 && node.attr.nlink == 0 {
            self.nodes.remove(&ino);
        }
    }

    /// Takes a name away.
    fn remove(&mut self, parent: Ino, name: &Name, of_directory: bool) -> Result<(), Errno> {
        let ino = self.child(parent, name)?;
        let node = self.node(ino)?;
        match (node.attr.kind == Kind::Directory, of_directory) {
            (true, false) => return Err(Errno::EISDIR),
            (false, true) => return Err(Errno::ENOTDIR),
            (true, true) if !node.names.is_empty() => return Err(Errno::ENOTEMPTY),
            _ => {}
        }
        node.attr.nlink = if of_directory { 0 } else { node.attr.nlink - 1 };
        node.attr.ctime_ns = now_ns();
        let directory = self.directory(parent)?;
        directory.names.remove(name);
        directory.attr.nlink -= u32::from(of_directory);
        directory.changed();
        self.end_uses(ino, 0);
        Ok(())
    }

    /// Puts what it is under a name, which nothing has, and counts what a directory's place means to the one above.
    fn place(&mut self, ino: Ino, parent: Ino, name: &Name) -> Result<(), Errno> {
        let node = self.node(ino)?;
        node.parent = parent;
        let is_directory = node.attr.kind == Kind::Directory;
        let directory = self.directory(parent)?;
        directory.names.insert(name.clone(), ino);
        directory.attr.nlink += u32::from(is_directory);
        directory.changed();
        Ok(())
    }

    /// The reverse of [`Tree::place`].
    fn unplace(&mut self, ino: Ino, parent: Ino, name: &Name) -> Result<(), Errno> {
        let is_directory = self.node(ino)?.attr.kind == Kind::Directory;
        let directory = self.directory(parent)?;
        directory.names.remove(name);
        directory.attr.nlink -= u32::from(is_directory);
        directory.changed();
        Ok(())
    }

    fn rename(&mut self, from: (Ino, &Name), to: (Ino, &Name), mode: RenameMode) -> Result<(), Errno> {
        let (moved, target) = (self.child(from.0, from.1)?, self.child(to.0, to.1));
        match (mode, target) {
            (RenameMode::NoReplace, Ok(_)) => return Err(Errno::EEXIST),
            (RenameMode::Exchange, Err(errno)) => return Err(errno),
            (_, Ok(target)) if target == moved => return Ok(()),
            (RenameMode::Replace, Ok(_)) => {
                let of_directory = self.node(moved)?.attr.kind == Kind::Directory;
                self.remove(to.0, to.1, of_directory)?;
            }
            _ => {}
        }
        self.unplace(moved, from.0, from.1)?;
        if let (RenameMode::Exchange, Ok(target)) = (mode, target) {
            self.unplace(target, to.0, to.1)?;
            self.place(target, from.0, from.1)?;
        }
        self.place(moved, to.0, to.1)
    }

    fn set_attr(&mut self, ino: Ino, change: &AttrChange) -> Result<Reply, Errno> {
        let now = now_ns();
        let time = |time| match time {
            SetTime::Now => now,
            SetTime::At(ns) => ns,
        };
        let attr = &mut self.node(ino)?.attr;
        if change.size.is_some() {
            attr.mtime_ns = now;
        }
        attr.size = change.size.unwrap_or(attr.size);
        attr.mode = change.mode.unwrap_or(attr.mode);
        attr.uid = change.uid.unwrap_or(attr.uid);
        attr.gid = change.gid.unwrap_or(attr.gid);
        attr.atime_ns = change.atime.map_or(attr.atime_ns, time);
        attr.mtime_ns = change.mtime.map_or(attr.mtime_ns, time);
        attr.ctime_ns = now;
        Ok(Reply::Attr { attr: *attr })
    }

    /// Entries of a directory, whose number is the handle.
    fn entries(&mut self, directory: Ino, from: u64, max: u32) -> Result<Vec<DirEntry>, Errno> {
        let names: Vec<(Name, Ino)> = self.directory(directory)?.names.iter().map(|(name, ino)| (name.clone(), *ino)).collect();
        let mut entries = Vec::with_capacity(names.len());
        for (name, ino) in names {
            entries.push(DirEntry { ino, kind: self.node(ino)?.attr.kind, name });
        }
        entries.retain(|entry| entry.cookie() > from);
        entries.sort_by_cached_key(DirEntry::cookie);
        entries.truncate(max as usize);
        Ok(entries)
    }

    fn carry_out(&mut self, request: Request, payload: CallPayload<'_>) -> Result<Reply, Errno> {
        use Request::*;
        match request {
            Lookup { parent, name } => {
                let ino = self.child(parent, &name)?;
                return self.entry(ino);
            }
            Forget { ino, count } => self.end_uses(ino, count),
            Release { ino } => self.end_uses(ino, 1),
            Open { ino } => self.node(ino)?.uses += 1,
            GetAttr { ino } => return Ok(Reply::Attr { attr: self.node(ino)?.attr }),
            SetAttr { ino, change } => return self.set_attr(ino, &change),
            Read { ino, offset, len } => {
                let CallPayload::Read(space) = payload else { return Err(Errno::EINVAL) };
                let len = self.node(ino)?.attr.size.saturating_sub(offset).min(u64::from(len)) as usize;
                if space.len() < len {
                    space.resize(len, 0);
                }
                space[..len].fill(0);
                return Ok(Reply::Read { len: len as u32 });
            }
            Write { ino, offset, len, append, .. } => {
                let node = self.node(ino)?;
                let offset = if append { node.attr.size } else { offset };
                node.attr.size = node.attr.size.max(offset.checked_add(u64::from(len)).ok_or(Errno::EFBIG)?);
                node.changed();
                return Ok(Reply::Written { offset, len, dropped_set_id: false });
            }
            Allocate { ino, offset, len, mode, .. } => {
                let node = self.node(ino)?;
                if let AllocateMode::Reserve { keep_size: false } | AllocateMode::Zero { keep_size: false } = mode {
                    node.attr.size = node.attr.size.max(offset.checked_add(len).ok_or(Errno::EFBIG)?);
                }
                node.changed();
            }
            Seek { ino, offset, whence } => {
                let size = self.node(ino)?.attr.size;
                return match whence {
                    _ if offset >= size => Err(Errno::ENXIO),
                    SeekWhence::Data => Ok(Reply::Offset { offset }),
                    SeekWhence::Hole => Ok(Reply::Offset { offset: size }),
                };
            }
            Sync { .. } | Depart | ReleaseDir { .. } => {}
            StatFs => {
                let stat = forebay_core::message::StatFs {
                    total_bytes: SPACE_BYTES,
                    free_bytes: SPACE_BYTES,
                    available_bytes: SPACE_BYTES,
                    files: FILES_MAX,
                    files_free: FILES_MAX,
                    name_bytes_max: 255,
                };
                return Ok(Reply::StatFs { stat });
            }
            OpenDir { ino } => return self.directory(ino).map(|_| Reply::DirOpened { handle: ino.0 }),
            ReadDir { handle, from, max } => return Ok(Reply::Entries { entries: self.entries(Ino(handle), from, max)? }),
            ReadDirPlus { handle, from, max } => {
                let mut entries = Vec::new();
                for entry in self.entries(Ino(handle), from, max)? {
                    let node = self.node(entry.ino)?;
                    node.uses += 1;
                    entries.push((entry, Some(node.attr)));
                }
                return Ok(Reply::EntriesPlus { entries });
            }
            other => return self.names(other),
        }
        Ok(Reply::Done)
    }

    /// Requests that change names, and those that have no answer here.
    fn names(&mut self, request: Request) -> Result<Reply, Errno> {
        use Request::*;
        match request {
            ReadLink { ino } => return Ok(Reply::Target { target: self.node(ino)?.target.clone() }),
            MakeNode { parent, name, kind, mode, rdev, caller } => {
                let ino = self.make(parent, &name, Node::new(parent, kind, mode, rdev, caller))?;
                return self.entry(ino);
            }
            MakeDir { parent, name, mode, caller } => {
                let ino = self.make(parent, &name, Node::new(parent, Kind::Directory, mode, 0, caller))?;
                return self.entry(ino);
            }
            SymLink { parent, name, target, caller } => {
                let mut node = Node { target, ..Node::new(parent, Kind::Symlink, 0o777, 0, caller) };
                node.attr.size = node.target.as_bytes().len() as u64;
                let ino = self.make(parent, &name, node)?;
                return self.entry(ino);
            }
            Create { parent, name, mode, exclusive, caller } => {
                let ino = match self.child(parent, &name) {
                    Ok(_) if exclusive => return Err(Errno::EEXIST),
                    Ok(ino) => ino,
                    Err(_) => self.make(parent, &name, Node::new(parent, Kind::File, mode, 0, caller))?,
                };
                let node = self.node(ino)?;
                node.uses += 2;
                return Ok(Reply::Created { ino, attr: node.attr });
            }
            Link { ino, parent, name } => {
                if self.child(parent, &name).is_ok() {
                    return Err(Errno::EEXIST);
                }
                self.place(ino, parent, &name)?;
                let node = self.node(ino)?;
                node.attr.nlink += 1;
                return self.entry(ino);
            }
            Unlink { parent, name } => self.remove(parent, &name, false)?,
            RemoveDir { parent, name } => self.remove(parent, &name, true)?,
            Rename { parent, name, new_parent, new_name, mode } => self.rename((parent, &name), (new_parent, &new_name), mode)?,
            GetXattr { .. } | RemoveXattr { .. } => return Err(Errno::ENODATA),
            ListXattr { .. } => return Ok(Reply::XattrNames { names: Vec::new() }),
            _ => return Err(Errno::ENOTSUP),
        }
        Ok(Reply::Done)
    }
}

impl Transport for Empty {
    fn call(&self, request: Request, payload: CallPayload<'_>) -> Reply {
        self.tree.lock().carry_out(request, payload).unwrap_or_else(|errno| Reply::Error { errno })
    }

    fn call_telling(&self, request: Request, payload: CallPayload<'_>, _: Option<Once>, _: &(dyn Fn() + std::marker::Sync)) -> Reply {
        self.call(request, payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(reply: Reply) -> (Ino, Attr) {
        let Reply::Entry { ino, attr } = reply else { panic!("{reply:?}") };
        (ino, attr)
    }

    #[test]
    fn sizes_are_kept_and_bytes_are_not() {
        let empty = Empty::default();
        let ask = |request| empty.call(request, CallPayload::None);
        let (parent, name, caller) = (Ino::ROOT, Name::new(b"f"), Caller::default());
        let made = ask(Request::Create { parent, name: name.clone(), mode: 0o644, exclusive: true, caller });
        let Reply::Created { ino, .. } = made else { panic!("{made:?}") };
        let write = Request::Write { ino, offset: 1 << 40, len: 3, append: false, drops_set_id: false };
        empty.call(write, CallPayload::Write(b"abc"));
        let append = Request::Write { ino, offset: 0, len: 2, append: true, drops_set_id: false };
        let appended = empty.call(append, CallPayload::Write(b"de"));
        assert_eq!(appended, Reply::Written { offset: (1 << 40) + 3, len: 2, dropped_set_id: false });
        let mut space = vec![7; 16];
        assert_eq!(empty.call(Request::Read { ino, offset: 1 << 40, len: 16 }, CallPayload::Read(&mut space)), Reply::Read { len: 5 });
        assert_eq!(space[..5], [0; 5]);
        assert_eq!(entry(ask(Request::Lookup { parent, name: name.clone() })).1.size, (1 << 40) + 5);
        assert_eq!(ask(Request::Unlink { parent, name: name.clone() }), Reply::Done);
        assert!(matches!(ask(Request::GetAttr { ino }), Reply::Attr { attr } if attr.nlink == 0), "it is open");
        ask(Request::Release { ino });
        ask(Request::Forget { ino, count: 2 });
        assert_eq!(ask(Request::GetAttr { ino }), Reply::Error { errno: Errno::ESTALE });
    }

    #[test]
    fn names_move_and_directories_count_what_is_in_them() {
        let empty = Empty::default();
        let ask = |request| empty.call(request, CallPayload::None);
        let caller = Caller::default();
        let directory = |parent, name: &[u8]| entry(ask(Request::MakeDir { parent, name: Name::new(name), mode: 0o755, caller })).0;
        let (a, b) = (directory(Ino::ROOT, b"a"), directory(Ino::ROOT, b"b"));
        let inner = directory(a, b"inner");
        let links = |ino| {
            let Reply::Attr { attr } = ask(Request::GetAttr { ino }) else { panic!() };
            attr.nlink
        };
        assert_eq!((links(Ino::ROOT), links(a), links(b)), (4, 3, 2));
        let rename = |parent, name: &[u8], new_parent, new_name: &[u8], mode| {
            ask(Request::Rename { parent, name: Name::new(name), new_parent, new_name: Name::new(new_name), mode })
        };
        assert_eq!(rename(a, b"inner", b, b"inner", RenameMode::Replace), Reply::Done);
        assert_eq!((links(a), links(b)), (2, 3));
        assert_eq!(rename(Ino::ROOT, b"a", Ino::ROOT, b"b", RenameMode::Replace), Reply::Error { errno: Errno::ENOTEMPTY });
        assert_eq!(rename(Ino::ROOT, b"a", b, b"inner", RenameMode::Exchange), Reply::Done);
        assert_eq!(entry(ask(Request::Lookup { parent: b, name: Name::new(b"inner") })).0, a);
        assert_eq!(entry(ask(Request::Lookup { parent: Ino::ROOT, name: Name::new(b"a") })).0, inner);
        let remove = ask(Request::RemoveDir { parent: Ino::ROOT, name: Name::new(b"b") });
        assert_eq!(remove, Reply::Error { errno: Errno::ENOTEMPTY });
        assert_eq!(ask(Request::Unlink { parent: b, name: Name::new(b"inner") }), Reply::Error { errno: Errno::EISDIR });
        let Reply::Entries { entries } = ask(Request::ReadDir { handle: 1, from: 0, max: 9 }) else { panic!() };
        assert_eq!(entries.len(), 2);
    }
}
