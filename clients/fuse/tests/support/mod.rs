//! A server that keeps everything in memory and remembers what it was asked.

#![allow(dead_code)] // Each test file uses its part.

use std::collections::{BTreeMap, HashMap};
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

use forebay_client::{CallPayload, Client, Transport};
use forebay_core::attr::{Attr, Caller, Kind, SetTime, without_set_id};
use forebay_core::errno::Errno;
use forebay_core::id::{Ino, Name};
use forebay_core::message::{DirEntry, RenameMode, Reply, Request, SeekWhence, StatFs};
use forebay_core::xattr::{self, Xattr};
use forebay_fuse::{MountOptions, Mounted};
use parking_lot::Mutex;

#[derive(Clone)]
struct Node {
    attr: Attr,
    data: Vec<u8>,
    entries: BTreeMap<Name, Ino>,
    target: Name,
    xattrs: Vec<Xattr>,
}

#[derive(Default)]
struct State {
    nodes: HashMap<Ino, Node>,
    next: u64,
    snapshots: HashMap<u64, Vec<DirEntry>>,
    requests: Vec<Request>,
    references: HashMap<Ino, i64>,
}

/// See the module.
#[derive(Default)]
pub struct MemoryServer(Mutex<State>);

const NOW_NS: i64 = 1_700_000_000_000_000_000;

impl State {
    fn make(&mut self, kind: Kind, mode: u16, caller: Caller) -> Ino {
        self.next += 1;
        let ino = Ino(self.next);
        let attr = Attr {
            kind,
            mode,
            nlink: 1,
            uid: caller.uid,
            gid: caller.gid,
            size: 0,
            blocks: 0,
            rdev: 0,
            atime_ns: NOW_NS,
            mtime_ns: NOW_NS,
            ctime_ns: NOW_NS,
        };
        self.nodes.insert(ino, Node { attr, data: Vec::new(), entries: BTreeMap::new(), target: Name::new(b""), xattrs: Vec::new() });
        ino
    }

    fn node(&mut self, ino: Ino) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&ino).ok_or(Errno::ESTALE)
    }

    fn find(&mut self, parent: Ino, name: &Name) -> Result<Ino, Errno> {
        self.node(parent)?.entries.get(name).copied().ok_or(Errno::ENOENT)
    }

    fn add(&mut self, parent: Ino, name: &Name, kind: Kind, mode: u16, caller: Caller) -> Result<(Ino, Attr), Errno> {
        if self.find(parent, name).is_ok() {
            return Err(Errno::EEXIST);
        }
        let ino = self.make(kind, mode, caller);
        self.node(parent)?.entries.insert(name.clone(), ino);
        self.entry(ino)
    }

    fn entry(&mut self, ino: Ino) -> Result<(Ino, Attr), Errno> {
        *self.references.entry(ino).or_default() += 1;
        Ok((ino, self.node(ino)?.attr))
    }

    fn answer(&mut self, request: Request, payload: CallPayload<'_>) -> Result<Reply, Errno> {
        let to_entry = |(ino, attr)| Reply::Entry { ino, attr };
        Ok(match request {
            Request::Lookup { parent, name } => {
                let ino = self.find(parent, &name)?;
                to_entry(self.entry(ino)?)
            }
            Request::Forget { ino, count } => {
                *self.references.entry(ino).or_default() -= count as i64;
                Reply::Done
            }
            Request::GetAttr { ino } => Reply::Attr { attr: self.node(ino)?.attr },
            Request::SetAttr { ino, change } => {
                let node = self.node(ino)?;
                let time = |time| if let SetTime::At(ns) = time { ns } else { NOW_NS };
                let attr = &mut node.attr;
                attr.mode = change.mode.unwrap_or(attr.mode);
                attr.uid = change.uid.unwrap_or(attr.uid);
                attr.gid = change.gid.unwrap_or(attr.gid);
                attr.atime_ns = change.atime.map_or(attr.atime_ns, time);
                attr.mtime_ns = change.mtime.map_or(attr.mtime_ns, time);
                if let Some(size) = change.size {
                    attr.size = size;
                    node.data.resize(size as usize, 0);
                }
                Reply::Attr { attr: node.attr }
            }
            Request::ReadLink { ino } => Reply::Target { target: self.node(ino)?.target.clone() },
            Request::MakeNode { parent, name, kind, mode, rdev, caller } => {
                let (ino, _) = self.add(parent, &name, kind, mode, caller)?;
                self.node(ino)?.attr.rdev = rdev;
                Reply::Entry { ino, attr: self.node(ino)?.attr }
            }
            Request::MakeDir { parent, name, mode, caller } => to_entry(self.add(parent, &name, Kind::Directory, mode, caller)?),
            Request::SymLink { parent, name, target, caller } => {
                let (ino, _) = self.add(parent, &name, Kind::Symlink, 0o777, caller)?;
                let node = self.node(ino)?;
                node.attr.size = target.as_bytes().len() as u64;
                node.target = target;
                Reply::Entry { ino, attr: self.node(ino)?.attr }
            }
            Request::Link { ino, parent, name } => {
                if self.find(parent, &name).is_ok() {
                    return Err(Errno::EEXIST);
                }
                self.node(ino)?.attr.nlink += 1;
                self.node(parent)?.entries.insert(name, ino);
                to_entry(self.entry(ino)?)
            }
            Request::Unlink { parent, name } | Request::RemoveDir { parent, name } => {
                let ino = self.find(parent, &name)?;
                if !self.node(ino)?.entries.is_empty() {
                    return Err(Errno::ENOTEMPTY);
                }
                self.node(ino)?.attr.nlink -= 1;
                self.node(parent)?.entries.remove(&name);
                Reply::Done
            }
            Request::Rename { parent, name, new_parent, new_name, mode } => {
                let ino = self.find(parent, &name)?;
                let there = self.find(new_parent, &new_name).ok();
                if mode == RenameMode::NoReplace && there.is_some() {
                    return Err(Errno::EEXIST);
                }
                self.node(parent)?.entries.remove(&name);
                if let (RenameMode::Exchange, Some(there)) = (mode, there) {
                    self.node(parent)?.entries.insert(name, there);
                }
                self.node(new_parent)?.entries.insert(new_name, ino);
                Reply::Done
            }
            Request::Create { parent, name, mode, exclusive, caller } => {
                let there = self.find(parent, &name).ok().filter(|_| !exclusive);
                let (ino, attr) = match there {
                    Some(ino) => self.entry(ino)?,
                    None => self.add(parent, &name, Kind::File, mode, caller)?,
                };
                Reply::Created { ino, attr }
            }
            Request::Read { ino, offset, len } => {
                let data = &self.node(ino)?.data;
                let start = (offset as usize).min(data.len());
                let end = (start + len as usize).min(data.len());
                if let CallPayload::Read(buffer) = payload {
                    buffer.resize(buffer.len().max(len as usize), 0);
                    buffer[..end - start].copy_from_slice(&data[start..end]);
                }
                Reply::Read { len: (end - start) as u32 }
            }
            Request::Allocate { ino, offset, len, .. } => {
                let node = self.node(ino)?;
                node.data.resize(node.data.len().max((offset + len) as usize), 0);
                node.attr.size = node.data.len() as u64;
                Reply::Done
            }
            Request::Seek { ino, offset, whence } => match self.node(ino)?.attr.size {
                size if offset >= size => return Err(Errno::ENXIO),
                _ if whence == SeekWhence::Data => Reply::Offset { offset },
                size => Reply::Offset { offset: size },
            },
            Request::SetXattr { ino, name, value, mode } => {
                xattr::set(&mut self.node(ino)?.xattrs, &name, &value, mode)?;
                Reply::Done
            }
            Request::GetXattr { ino, name } => Reply::Xattr { value: xattr::get(&self.node(ino)?.xattrs, &name)?.to_vec() },
            Request::ListXattr { ino } => {
                Reply::XattrNames { names: self.node(ino)?.xattrs.iter().map(|xattr| xattr.name.clone()).collect() }
            }
            Request::RemoveXattr { ino, name } => {
                xattr::remove(&mut self.node(ino)?.xattrs, &name)?;
                Reply::Done
            }
            Request::ReadDirPlus { handle, from, max } => {
                let snapshot = self.snapshots.get(&handle).ok_or(Errno::ESTALE)?.clone();
                let entries = behind(snapshot, from).take(max as usize).map(|entry| {
                    let attr = self.entry(entry.ino).ok().map(|(_, attr)| attr);
                    (entry, attr)
                });
                Reply::EntriesPlus { entries: entries.collect() }
            }
            Request::Write { ino, offset, len, append, drops_set_id } => {
                let node = self.node(ino)?;
                let mode = if drops_set_id { without_set_id(node.attr.mode) } else { node.attr.mode };
                let dropped_set_id = std::mem::replace(&mut node.attr.mode, mode) != mode;
                let at = if append { node.data.len() } else { offset as usize };
                node.data.resize(node.data.len().max(at + len as usize), 0);
                if let CallPayload::Write(bytes) = payload {
                    node.data[at..at + bytes.len()].copy_from_slice(bytes);
                }
                node.attr.size = node.data.len() as u64;
                Reply::Written { offset: at as u64, len, dropped_set_id }
            }
            Request::OpenDir { ino } => {
                self.next += 1;
                let entries = self.node(ino)?.entries.clone();
                let kind_of = |ino: Ino| self.nodes.get(&ino).map_or(Kind::File, |node| node.attr.kind);
                let snapshot = entries.into_iter().map(|(name, ino)| DirEntry { ino, kind: kind_of(ino), name }).collect();
                self.snapshots.insert(self.next, snapshot);
                Reply::DirOpened { handle: self.next }
            }
            Request::ReadDir { handle, from, max } => {
                let snapshot = self.snapshots.get(&handle).ok_or(Errno::ESTALE)?.clone();
                Reply::Entries { entries: behind(snapshot, from).take(max as usize).collect() }
            }
            Request::ReleaseDir { handle } => {
                self.snapshots.remove(&handle);
                Reply::Done
            }
            Request::StatFs => {
                Reply::StatFs { stat: StatFs { total_bytes: 1 << 30, free_bytes: 1 << 29, name_bytes_max: 255, ..StatFs::default() } }
            }
            Request::Open { .. } | Request::Release { .. } | Request::Sync { .. } => Reply::Done,
            Request::Depart | Request::Drain | Request::Status | Request::BringHome { .. } | Request::Where { .. } => {
                return Err(Errno::ENOSYS);
            }
        })
    }
}

impl MemoryServer {
    /// An empty file system whose root belongs to this process.
    pub fn new() -> Arc<MemoryServer> {
        let server = Arc::new(MemoryServer::default());
        let caller = Caller { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() };
        assert_eq!(server.0.lock().make(Kind::Directory, 0o755, caller), Ino::ROOT);
        server
    }

    /// What was asked since the last time.
    pub fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.0.lock().requests)
    }

    /// References that the kernel holds on inodes.
    pub fn references(&self) -> i64 {
        self.0.lock().references.values().sum()
    }
}

impl Transport for MemoryServer {
    fn call(&self, request: Request, payload: CallPayload<'_>) -> Reply {
        let mut state = self.0.lock();
        state.requests.push(request.clone());
        state.answer(request, payload).unwrap_or_else(|errno| Reply::Error { errno })
    }
}

/// Whether this machine lets us mount; says on standard error if it does not.
pub fn can_mount() -> bool {
    match OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        Ok(_) => true,
        Err(error) => {
            eprintln!("SKIPPED: /dev/fuse cannot be opened: {error}");
            false
        }
    }
}

/// Options for a mount at `path`.
pub fn options(path: &Path) -> MountOptions {
    MountOptions {
        mountpoint: path.into(),
        allow_other: false,
        kernel_write_back: false,
        write_bytes_max: 1 << 20,
        threads: 4,
        source: "forebay:/a, b".into(),
        virtual_files: Vec::new(),
        sees_all: false,
        names_valid: forebay_fuse::VALID_FOR_EVER,
        recorder: None,
    }
}

/// Mounts a server of this kind.
pub fn mount(server: &Arc<MemoryServer>, options: MountOptions) -> Mounted {
    forebay_fuse::mount(Client::new(server.clone()), options).unwrap()
}

/// Entries in the order of their cookies, from behind one on.
fn behind(mut entries: Vec<DirEntry>, from: u64) -> impl Iterator<Item = DirEntry> {
    entries.sort_by_key(DirEntry::cookie);
    entries.into_iter().filter(move |entry| entry.cookie() > from)
}
