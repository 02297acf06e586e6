//! One state that the file system may be in, by POSIX and by what was acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use forebay_core::attr::Kind;
use forebay_core::errno::Errno;
use forebay_core::id::{Ino, Name};

use crate::bytes::Bytes;

/// An inode of the model: the number of the call that made it, so that states reached in different orders are the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ModelIno(pub u64);

impl ModelIno {
    /// The root directory.
    pub const ROOT: ModelIno = ModelIno(0);
}

/// A time that is known to lie in one of some intervals (first, last), nanoseconds since the epoch. Seeing it makes it one number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimeSpan(pub Vec<(i64, i64)>);

impl TimeSpan {
    /// Exactly this.
    pub fn exactly(time_ns: i64) -> TimeSpan {
        TimeSpan(vec![(time_ns, time_ns)])
    }

    /// Whether it can be this.
    pub fn contains(&self, time_ns: i64) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&time_ns))
    }

    /// Either this or the other.
    pub fn or(&self, other: &TimeSpan) -> TimeSpan {
        let mut all: Vec<(i64, i64)> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_unstable();
        let mut spans: Vec<(i64, i64)> = Vec::new();
        for (first, last) in all {
            match spans.last_mut() {
                Some(before) if first <= before.1 => before.1 = before.1.max(last),
                _ => spans.push((first, last)),
            }
        }
        TimeSpan(spans)
    }
}

/// A file's bytes. A write that was cut off by a crash leaves some of it open: each of its bytes is the new or an old one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileData {
    /// The bytes.
    pub bytes: Bytes,
    /// The least size that the file may have.
    pub size: u64,
    /// The largest size that the file may have.
    pub size_max: u64,
    /// What may stand there instead of what is in `bytes`.
    pub others: Others,
}

/// Runs of bytes (offset, bytes) that may stand in a file, each byte for itself; ordered, so that equal ones look equal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Others(BTreeSet<(u64, Rc<Vec<u8>>)>);

impl Others {
    fn push(&mut self, offset: u64, bytes: &[u8]) {
        self.0.insert((offset, Rc::new(bytes.to_vec())));
    }

    /// Takes `start..end` out.
    fn remove(&mut self, start: u64, end: u64) {
        let hit = |(offset, bytes): &(u64, Rc<Vec<u8>>)| *offset < end && start < offset + bytes.len() as u64;
        if !self.0.iter().any(hit) {
            return;
        }
        for (offset, bytes) in std::mem::take(&mut self.0) {
            if !hit(&(offset, Rc::clone(&bytes))) {
                self.0.insert((offset, bytes));
                continue;
            }
            let last = offset + bytes.len() as u64;
            if offset < start {
                self.push(offset, &bytes[..(start - offset) as usize]);
            }
            if end < last {
                self.push(end, &bytes[(end - offset) as usize..]);
            }
        }
    }

    /// Whether a byte may stand at an offset.
    pub fn contains(&self, at: u64, byte: u8) -> bool {
        self.0.iter().any(|(offset, bytes)| at >= *offset && bytes.get((at - offset) as usize) == Some(&byte))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What an inode is, beside its attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// A file.
    File(FileData),
    /// A directory.
    Dir(BTreeMap<Name, ModelIno>),
    /// A symlink.
    Symlink(Name),
    /// A fifo, socket or device node.
    Node(u32),
}

/// An inode.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // As in stat(2).
pub struct Inode {
    pub kind: Kind,
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    pub mtime: TimeSpan,
    /// Open handles.
    pub opens: u32,
    pub xattrs: BTreeMap<Name, Vec<u8>>,
    pub body: Body,
}

impl Inode {
    /// Whether the two differ in their time at most.
    fn is_like(&self, other: &Inode) -> bool {
        self.has_same_attributes(other) && self.body == other.body
    }

    fn has_same_attributes(&self, other: &Inode) -> bool {
        let plain = |inode: &Inode| (inode.kind, inode.mode, inode.uid, inode.gid, inode.nlink, inode.opens);
        plain(self) == plain(other) && self.xattrs == other.xattrs
    }

    /// Lets every byte of a file, and its size, be one of both.
    pub(super) fn merge_bytes(&mut self, other: &Inode) {
        if let (Body::File(ours), Some(theirs)) = (&mut self.body, other.file()) {
            ours.merge(theirs);
        }
    }

    /// A file's data.
    pub fn file(&self) -> Option<&FileData> {
        match &self.body {
            Body::File(data) => Some(data),
            _ => None,
        }
    }

    /// A directory's entries.
    pub fn dir(&self) -> Option<&BTreeMap<Name, ModelIno>> {
        match &self.body {
            Body::Dir(entries) => Some(entries),
            _ => None,
        }
    }
}

/// An open directory: entries of its last snapshot that were not given out yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirHandle {
    /// The directory.
    pub dir: ModelIno,
    /// Entries of the snapshot not given out yet.
    pub left: BTreeMap<Name, ModelIno>,
    /// The snapshot was lost: the next look goes on with what is there then.
    pub lost: bool,
}

/// One state that the file system may be in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// All inodes with a name, an open handle or a reference.
    pub inodes: BTreeMap<ModelIno, Rc<Inode>>,
    /// What the machine calls them.
    pub inos: BTreeMap<Ino, ModelIno>,
    /// Open directories.
    pub handles: BTreeMap<u64, DirHandle>,
}

impl State {
    /// An empty root.
    pub fn new(mode: u16, owner: (u32, u32)) -> State {
        let root = Inode {
            kind: Kind::Directory,
            mode,
            uid: owner.0,
            gid: owner.1,
            nlink: 2,
            mtime: TimeSpan::exactly(0),
            opens: 0,
            xattrs: BTreeMap::new(),
            body: Body::Dir(BTreeMap::new()),
        };
        State {
            inodes: BTreeMap::from([(ModelIno::ROOT, Rc::new(root))]),
            inos: BTreeMap::from([(Ino::ROOT, ModelIno::ROOT)]),
            handles: BTreeMap::new(),
        }
    }

    /// What the machine's number means here.
    ///
    /// # Errors
    /// `ESTALE`: it is not known in this state.
    pub fn resolve(&self, ino: Ino) -> Result<ModelIno, Errno> {
        self.inos.get(&ino).copied().ok_or(Errno::ESTALE)
    }

    /// An inode.
    pub fn inode(&self, ino: ModelIno) -> &Rc<Inode> {
        &self.inodes[&ino]
    }

    /// An inode, to change it.
    pub fn inode_mut(&mut self, ino: ModelIno) -> &mut Inode {
        Rc::make_mut(self.inodes.get_mut(&ino).expect("an inode that is named is there"))
    }

    /// A directory's entries, to change them.
    pub fn entries_mut(&mut self, dir: ModelIno) -> &mut BTreeMap<Name, ModelIno> {
        match &mut self.inode_mut(dir).body {
            Body::Dir(entries) => entries,
            other => panic!("{dir:?} is not a directory: {other:?}"),
        }
    }

    /// A file's data, to change it.
    pub fn file_mut(&mut self, ino: ModelIno) -> &mut FileData {
        match &mut self.inode_mut(ino).body {
            Body::File(data) => data,
            other => panic!("{ino:?} is not a file: {other:?}"),
        }
    }

    /// A live directory.
    ///
    /// # Errors
    /// `ENOTDIR`, `ENOENT` if it was removed, `ESTALE`.
    pub fn dir(&self, ino: Ino) -> Result<ModelIno, Errno> {
        let dir = self.resolve(ino)?;
        let inode = self.inode(dir);
        match inode.dir() {
            None => Err(Errno::ENOTDIR),
            Some(_) if inode.nlink == 0 => Err(Errno::ENOENT),
            Some(_) => Ok(dir),
        }
    }

    /// The occupant of a name.
    pub fn child(&self, dir: ModelIno, name: &Name) -> Option<ModelIno> {
        self.inode(dir).dir()?.get(name).copied()
    }

    /// Whether directory `dir` is `ancestor` or lies below it.
    pub fn is_below(&self, dir: ModelIno, ancestor: ModelIno) -> bool {
        if dir == ancestor {
            return true;
        }
        let children = self.inode(ancestor).dir().into_iter().flat_map(|entries| entries.values());
        children.filter(|child| self.inode(**child).kind == Kind::Directory).any(|child| self.is_below(dir, *child))
    }

    /// The machine calls an inode by this number from now on.
    ///
    /// # Errors
    /// Says what the number or the inode is bound to already.
    pub fn bind(&mut self, ino: Ino, model: ModelIno) -> Result<(), String> {
        match self.inos.get(&ino) {
            Some(bound) if *bound == model => return Ok(()),
            Some(bound) => return Err(format!("{ino:?} is {bound:?}, not {model:?}")),
            None => {}
        }
        if let Some((bound, _)) = self.inos.iter().find(|(_, other)| **other == model) {
            return Err(format!("{model:?} is {bound:?} already, not {ino:?}"));
        }
        self.inos.insert(ino, model);
        Ok(())
    }

    /// The machine's number is free again: no one has a reference.
    pub fn unbind(&mut self, ino: Ino) {
        if ino != Ino::ROOT {
            self.inos.remove(&ino);
            self.collect();
        }
    }

    /// Forgets inodes that have no name, no open handle and no reference.
    pub fn collect(&mut self) {
        let listed = self.handles.values().map(|handle| handle.dir);
        let bound: BTreeSet<ModelIno> = self.inos.values().copied().chain(listed).collect();
        self.inodes.retain(|ino, inode| inode.nlink > 0 || inode.opens > 0 || bound.contains(ino));
    }

    /// The process has died, or its clients have gone: open handles, references and numbers are gone.
    pub fn forget_process(&mut self) {
        self.inos = BTreeMap::from([(Ino::ROOT, ModelIno::ROOT)]);
        self.handles.clear();
        let open: Vec<ModelIno> = self.inodes.iter().filter(|(_, inode)| inode.opens > 0).map(|(ino, _)| *ino).collect();
        for ino in open {
            self.inode_mut(ino).opens = 0;
        }
        self.collect();
    }

    /// Calls `each` with every path and inode, the root as the empty path.
    pub fn walk(&self, each: &mut dyn FnMut(&str, ModelIno)) {
        let mut stack = vec![(String::new(), ModelIno::ROOT)];
        while let Some((path, ino)) = stack.pop() {
            each(&path, ino);
            for (name, child) in self.inode(ino).dir().into_iter().flatten() {
                let name = String::from_utf8_lossy(name.as_bytes());
                stack.push((if path.is_empty() { name.into() } else { format!("{path}/{name}") }, *child));
            }
        }
    }

    /// The tree in words, one line an object.
    pub fn describe(&self) -> String {
        let mut lines = Vec::new();
        self.walk(&mut |path, ino| {
            let inode = self.inode(ino);
            let size = inode.file().map_or(String::new(), |data| {
                if data.size == data.size_max { format!(" size {}", data.size) } else { format!(" size {}..={}", data.size, data.size_max) }
            });
            lines.push(format!(
                "/{path} #{} {:?} {:o} {}:{}{size} mtime {:?}",
                ino.0, inode.kind, inode.mode, inode.uid, inode.gid, inode.mtime.0
            ));
        });
        lines.sort();
        lines.join("\n")
    }
}

/// Whether two shared inodes differ in their time at most.
pub(super) fn are_alike(a: &Rc<Inode>, b: &Rc<Inode>) -> bool {
    Rc::ptr_eq(a, b) || a.is_like(b)
}

/// Whether two shared inodes differ in their time and in their bytes at most.
pub(super) fn have_same_shape(a: &Rc<Inode>, b: &Rc<Inode>) -> bool {
    match (a.file(), b.file()) {
        _ if Rc::ptr_eq(a, b) => true,
        (Some(ours), Some(theirs)) => (ours.size, ours.size_max) == (theirs.size, theirs.size_max) && a.has_same_attributes(b),
        _ => a.is_like(b),
    }
}

/// Makes the time of an inode that is alike one of both.
pub(super) fn merge_times(into: &mut Rc<Inode>, other: &Rc<Inode>) {
    if !Rc::ptr_eq(into, other) && into.mtime != other.mtime {
        let mtime = into.mtime.or(&other.mtime);
        Rc::make_mut(into).mtime = mtime;
    }
}

impl State {
    /// Whether the two differ in times at most.
    pub(super) fn is_like(&self, other: &State) -> bool {
        self.inodes.len() == other.inodes.len()
            && self.inos == other.inos
            && self.handles == other.handles
            && self.inodes.iter().zip(&other.inodes).all(|((a_ino, a), (b_ino, b))| a_ino == b_ino && are_alike(a, b))
    }

    /// Whether the two differ in times and in files' bytes at most.
    pub(super) fn has_same_shape(&self, other: &State) -> bool {
        self.inodes.len() == other.inodes.len()
            && self.inos == other.inos
            && self.handles == other.handles
            && self.inodes.iter().zip(&other.inodes).all(|((a_ino, a), (b_ino, b))| a_ino == b_ino && have_same_shape(a, b))
    }

    /// Lets every time, size and byte be one of both.
    pub(super) fn merge_bytes(&mut self, other: &State) {
        self.merge_times(other);
        for (into, other) in self.inodes.values_mut().zip(other.inodes.values()) {
            if !Rc::ptr_eq(into, other) {
                Rc::make_mut(into).merge_bytes(other);
            }
        }
    }

    /// Lets every time be one of both.
    pub(super) fn merge_times(&mut self, other: &State) {
        for (into, other) in self.inodes.values_mut().zip(other.inodes.values()) {
            merge_times(into, other);
        }
    }
}

impl FileData {
    /// Data of this size that is known.
    pub fn of(bytes: Bytes, size: u64) -> FileData {
        FileData { bytes, size, size_max: size, others: Others::default() }
    }

    /// A write that happened in whole.
    pub fn write(&mut self, offset: u64, payload: &[u8]) {
        let end = offset + payload.len() as u64;
        self.others.remove(offset, end);
        self.bytes.write(offset, payload);
        self.size = self.size.max(end);
        self.size_max = self.size_max.max(end);
    }

    /// A range became a hole.
    pub fn zero(&mut self, start: u64, end: u64) {
        self.others.remove(start, end);
        self.bytes.zero(start, end.min(self.size_max));
    }

    /// The file is at least this long.
    pub fn grow(&mut self, size: u64) {
        self.size = self.size.max(size);
        self.size_max = self.size_max.max(size);
    }

    /// A write that happened in whole, while other writes took these ranges.
    pub fn write_beside(&mut self, offset: u64, payload: &[u8], beside: &[(u64, u64)]) {
        let end = offset + payload.len() as u64;
        let shared = beside.iter().map(|(from, to)| ((*from).max(offset), (*to).min(end))).filter(|(from, to)| from < to);
        let theirs: Vec<(u64, Vec<u8>)> = shared.map(|(from, to)| (from, self.bytes.slice(from, (to - from) as usize))).collect();
        self.write(offset, payload);
        for (from, bytes) in theirs {
            self.others.push(from, &bytes);
        }
    }

    /// A write that an append has gone behind, and of which nobody knows whether its bytes came: they may be as they were before.
    pub fn may_lack(&mut self, offset: u64, len: usize, before: &FileData) {
        self.others.push(offset, &before.bytes.slice(offset, len));
        self.others.0.extend(before.others.0.iter().cloned());
    }

    /// A write of which nobody knows how much of it happened.
    pub fn write_perhaps(&mut self, offset: u64, payload: &[u8]) {
        let end = offset + payload.len() as u64;
        self.others.push(offset, &self.bytes.slice(offset, payload.len()));
        self.bytes.write(offset, payload);
        self.size_max = self.size_max.max(end);
    }

    /// Lets every byte, and the size, be one of both.
    fn merge(&mut self, other: &FileData) {
        self.others.0.extend(other.others.0.iter().cloned());
        for (start, end) in self.bytes.differences(&other.bytes) {
            self.others.push(start, &other.bytes.slice(start, (end - start) as usize));
        }
        (self.size, self.size_max) = (self.size.min(other.size), self.size_max.max(other.size_max));
    }

    /// The size is set.
    pub fn truncate(&mut self, size: u64) {
        self.bytes.truncate(size);
        self.others.remove(size, u64::MAX);
        (self.size, self.size_max) = (size, size);
    }

    /// The size was seen.
    pub fn settle_size(&mut self, size: u64) {
        if self.size != self.size_max {
            self.truncate(size);
        }
    }

    /// Nothing was seen behind this.
    pub fn ends_by(&mut self, size: u64) {
        if size < self.size_max {
            self.bytes.truncate(size);
            self.others.remove(size, u64::MAX);
            self.size_max = size;
        }
    }

    /// Whether every byte is known.
    pub fn is_settled(&self) -> bool {
        self.others.is_empty()
    }

    /// Bytes were seen.
    pub fn settle_bytes(&mut self, offset: u64, seen: &[u8]) {
        let end = offset + seen.len() as u64;
        if !self.others.is_empty() {
            self.bytes.write(offset, seen);
            self.others.remove(offset, end);
        }
    }

    /// The first of these bytes that the file cannot have at `offset`.
    pub fn first_wrong(&self, offset: u64, seen: &[u8]) -> Option<u64> {
        let expected = self.bytes.slice(offset, seen.len());
        if expected == seen {
            return None;
        }
        (offset..).zip(expected.iter().zip(seen)).find_map(|(at, (expected, seen))| {
            let possible = expected == seen || self.others.contains(at, *seen);
            (!possible).then_some(at)
        })
    }
}
