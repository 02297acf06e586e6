//! The simulated home: a POSIX directory tree in memory, which knows what of it is durable and what was compared.

mod change;
mod data;
pub mod names;

use std::collections::{BTreeMap, BTreeSet};

use forebay_core::attr::{Attr, Kind};
use forebay_core::effect::HomeAttr;
use forebay_core::entries::Entries;
use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Name};
use forebay_core::time::Time;
use forebay_core::xattr::Xattr;

use crate::bytes::Bytes;
use crate::ranges::Ranges;
use crate::rng::Rng;
use names::{HomeIno, NameOp, Names, ROOT};

/// How the names begin under which files without a name wait at home while they are open.
const ORPHAN: &str = ".forebay-orphan-";
/// The device number of home.
const DEVICE: u64 = 77;

/// Mode, owner and times of an inode of home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // As in stat(2).
pub struct HomeMeta {
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub atime_ns: i64,
    pub mtime_ns: i64,
}

/// An inode of home.
#[derive(Clone, Debug)]
pub struct HomeInode {
    /// Its kind.
    pub kind: Kind,
    /// Mode, owner and times.
    pub meta: HomeMeta,
    meta_durable: HomeMeta,
    /// A file's bytes.
    pub bytes: Bytes,
    /// A file's size.
    pub size: u64,
    bytes_durable: Bytes,
    size_durable: u64,
    /// Extended attributes.
    pub xattrs: BTreeMap<Name, Vec<u8>>,
    xattrs_durable: BTreeMap<Name, Vec<u8>>,
    /// A symlink's target.
    pub target: Option<Name>,
    /// A device node's number.
    pub rdev: u32,
    /// Bytes written and not made durable since.
    pub unsynced: Ranges,
    /// Bytes whose sync failed: the kernel has dropped them and will not say so again.
    pub poisoned: Ranges,
    /// Bytes written and not found equal since.
    pub uncompared: Ranges,
}

/// The home directory.
#[derive(Debug)]
pub struct Home {
    /// All inodes that have a name, are open, or could be back after a power loss.
    pub inodes: BTreeMap<HomeIno, HomeInode>,
    /// The namespace as it is now.
    pub names: Names,
    durable: Names,
    /// Changes of the namespace that are not durable, in order.
    undurable: Vec<NameOp>,
    owner: (u32, u32),
    /// What the machine did that it should have known to be wrong or needless.
    pub breaches: Vec<String>,
    /// Whether a change may meet its own effect of before: an error or a crash has left open what happened.
    pub forgiving: bool,
    rng: Rng,
}

impl Home {
    /// An empty home directory that belongs to this owner.
    pub fn new(owner: (u32, u32), rng: Rng) -> Home {
        let meta = HomeMeta { mode: 0o755, uid: owner.0, gid: owner.1, atime_ns: 0, mtime_ns: 0 };
        let mut home = Home {
            inodes: BTreeMap::new(),
            names: Names::default(),
            durable: Names::default(),
            undurable: Vec::new(),
            owner,
            breaches: Vec::new(),
            forgiving: false,
            rng,
        };
        home.inodes.insert(ROOT, HomeInode::new(Kind::Directory, meta));
        home
    }

    /// Everything so far was there before the run: durable, and nothing to compare.
    pub fn settle(&mut self) {
        self.durable = self.names.clone();
        self.undurable.clear();
        for inode in self.inodes.values_mut() {
            inode.settle();
        }
    }

    /// The entries of a directory.
    ///
    /// # Errors
    /// As readdir(3).
    pub fn list(&self, path: &HomePath) -> Result<Entries, Errno> {
        let ino = self.names.resolve(path.as_bytes())?;
        let dir = self.names.dirs.get(&ino).ok_or(Errno::ENOTDIR)?;
        Ok(dir.iter().map(|(name, ino)| (name.as_bytes(), self.inodes[ino].kind)).collect())
    }

    /// Attributes, not following a symlink.
    ///
    /// # Errors
    /// As lstat(2).
    pub fn stat(&self, path: &HomePath) -> Result<HomeAttr, Errno> {
        let ino = self.names.resolve(path.as_bytes())?;
        Ok(HomeAttr { attr: self.attr(ino), dev: DEVICE, ino })
    }

    fn attr(&self, ino: HomeIno) -> Attr {
        let inode = &self.inodes[&ino];
        let nlink = match self.names.dirs.get(&ino) {
            Some(dir) => 2 + dir.values().filter(|child| self.inodes[child].kind == Kind::Directory).count() as u32,
            None => self.names.link_count(ino),
        };
        let size = match (&inode.target, inode.kind) {
            (Some(target), _) => target.as_bytes().len() as u64,
            (None, Kind::Directory) => 4096,
            (None, _) => inode.size,
        };
        Attr {
            kind: inode.kind,
            mode: inode.meta.mode,
            nlink,
            uid: inode.meta.uid,
            gid: inode.meta.gid,
            size,
            blocks: size.div_ceil(512),
            rdev: inode.rdev,
            atime_ns: inode.meta.atime_ns,
            mtime_ns: inode.meta.mtime_ns,
            ctime_ns: inode.meta.mtime_ns,
        }
    }

    /// The target of a symlink.
    ///
    /// # Errors
    /// As readlink(2).
    pub fn read_link(&self, path: &HomePath) -> Result<Name, Errno> {
        let ino = self.names.resolve(path.as_bytes())?;
        self.inodes[&ino].target.clone().ok_or(Errno::EINVAL)
    }

    /// Gives a file or directory an extended attribute, before the run.
    pub fn give_xattr(&mut self, path: &HomePath, name: Name, value: &[u8]) {
        let Ok(ino) = self.names.resolve(path.as_bytes()) else { return };
        let inode = self.inodes.get_mut(&ino).expect("a name has an inode");
        if matches!(inode.kind, Kind::File | Kind::Directory) {
            inode.xattrs.insert(name, value.to_vec());
        }
    }

    /// Extended attributes.
    ///
    /// # Errors
    /// As lgetxattr(2).
    pub fn xattrs(&self, path: &HomePath) -> Result<Vec<Xattr>, Errno> {
        let ino = self.names.resolve(path.as_bytes())?;
        let xattrs = self.inodes[&ino].xattrs.iter();
        Ok(xattrs.map(|(name, value)| Xattr { name: name.clone(), value: value.clone() }).collect())
    }

    /// The file of a path.
    fn file(&self, path: &HomePath) -> Result<HomeIno, Errno> {
        let found = self.names.resolve(path.as_bytes())?;
        match self.inodes[&found].kind {
            Kind::File => Ok(found),
            Kind::Directory => Err(Errno::EISDIR),
            _ => Err(Errno::ESTALE),
        }
    }

    /// Something was done that a machine which knows home would not have done.
    fn breach(&mut self, what: String) {
        if !self.forgiving {
            self.breaches.push(what);
        }
    }

    /// Forgets inodes that nothing can reach any more.
    fn collect(&mut self) {
        let mut reachable: BTreeSet<HomeIno> = [ROOT].into();
        for names in [&self.names, &self.durable] {
            reachable.extend(names.dirs.values().flat_map(|dir| dir.values().copied()));
        }
        reachable.extend(self.undurable.iter().filter_map(|op| match op {
            NameOp::Make { ino, .. } => Some(*ino),
            _ => None,
        }));
        self.inodes.retain(|ino, _| reachable.contains(ino));
    }

    fn new_ino(&mut self) -> HomeIno {
        self.collect();
        (ROOT..).find(|ino| !self.inodes.contains_key(ino)).expect("there are numbers enough")
    }

    /// What keeps the home from being drained: bytes not compared, bytes or names not durable.
    pub fn not_drained(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        self.walk(&mut |path, ino| {
            if path.starts_with(ORPHAN) {
                return;
            }
            self.inodes[&ino].not_settled(path, &mut reasons);
        });
        let of_orphan = |op: &&NameOp| op.names().iter().all(|name| name.as_bytes().starts_with(ORPHAN.as_bytes()));
        reasons.extend(self.undurable.iter().filter(|op| !of_orphan(op)).map(|op| format!("a change of names is not durable: {op:?}")));
        reasons
    }

    /// What durably stands at a path, and what of it is not durable or was not compared.
    ///
    /// # Errors
    /// Says that nothing durably stands there.
    pub fn look(&self, path: &str) -> Result<(HomeIno, Vec<String>), String> {
        let now = self.names.resolve(path.as_bytes()).map_err(|_| format!("/{path} does not stand at home"))?;
        if self.durable.resolve(path.as_bytes()) != Ok(now) {
            return Err(format!("/{path} does not stand at home durably"));
        }
        let mut open = Vec::new();
        self.inodes[&now].not_settled(path, &mut open);
        Ok((now, open))
    }

    /// Calls `each` with every path and inode below the root, and the root as the empty path.
    pub fn walk(&self, each: &mut dyn FnMut(&str, HomeIno)) {
        let mut stack = vec![(String::new(), ROOT)];
        while let Some((path, ino)) = stack.pop() {
            each(&path, ino);
            for (name, child) in self.names.dirs.get(&ino).into_iter().flatten() {
                let name = String::from_utf8_lossy(name.as_bytes());
                stack.push((if path.is_empty() { name.into() } else { format!("{path}/{name}") }, *child));
            }
        }
    }

    /// The tree in words, one line an object.
    pub fn describe(&self) -> String {
        let mut lines = Vec::new();
        self.walk(&mut |path, ino| {
            let inode = &self.inodes[&ino];
            let meta = inode.meta;
            lines.push(format!(
                "/{path} #{ino} {:?} {:o} {}:{} size {} mtime {}",
                inode.kind, meta.mode, meta.uid, meta.gid, inode.size, meta.mtime_ns
            ));
        });
        lines.sort();
        lines.join("\n")
    }

    /// The machine has forgotten what it wrote last: home may hold bytes that nobody will ever compare.
    pub fn forget_comparisons(&mut self) {
        for inode in self.inodes.values_mut() {
            inode.uncompared = Ranges::default();
        }
    }

    /// The machine in front of home is away for long: what it wrote and did not sync, home has written back by itself.
    pub fn write_back_by_itself(&mut self) {
        self.inodes.values_mut().for_each(HomeInode::settle);
    }

    /// The power of home's machine fails: what was not durable may be lost, each part for itself.
    pub fn lose_power(&mut self) {
        let mut rng = self.rng.fork();
        let kept_per_mille = *rng.pick(&[0, 300, 800, 1000]);
        let ops = std::mem::take(&mut self.undurable);
        for op in names::survivors(ops, || rng.chance(kept_per_mille)) {
            self.durable.apply(&op);
        }
        self.names = self.durable.clone();
        for inode in self.inodes.values_mut() {
            inode.lose_power(&mut rng);
        }
        self.collect();
    }

    /// Marks what a change touches: the times of its directories.
    fn touch_dir(&mut self, dir: HomeIno, now: Time) {
        if let Some(inode) = self.inodes.get_mut(&dir) {
            inode.meta.mtime_ns = now.as_nanos() as i64;
        }
    }
}

impl HomeInode {
    /// Says what of it was not compared or is not durable.
    fn not_settled(&self, path: &str, reasons: &mut Vec<String>) {
        if !self.uncompared.is_empty() {
            reasons.push(format!("{path}: bytes {:?} were not compared since they were written", self.uncompared));
        }
        if !self.unsynced.is_empty() || !self.poisoned.is_empty() {
            reasons.push(format!("{path}: bytes {:?} {:?} were not made durable", self.unsynced, self.poisoned));
        }
        if self.size != self.size_durable && self.kind == Kind::File {
            reasons.push(format!("{path}: the size {} is not durable ({})", self.size, self.size_durable));
        }
        if self.xattrs != self.xattrs_durable {
            reasons.push(format!("{path}: the extended attributes are not durable"));
        }
        if self.meta != self.meta_durable {
            reasons.push(format!("{path}: the attributes {:?} are not durable ({:?})", self.meta, self.meta_durable));
        }
    }

    fn new(kind: Kind, meta: HomeMeta) -> HomeInode {
        HomeInode {
            kind,
            meta,
            meta_durable: meta,
            bytes: Bytes::default(),
            size: 0,
            bytes_durable: Bytes::default(),
            size_durable: 0,
            xattrs: BTreeMap::new(),
            xattrs_durable: BTreeMap::new(),
            target: None,
            rdev: 0,
            unsynced: Ranges::default(),
            poisoned: Ranges::default(),
            uncompared: Ranges::default(),
        }
    }

    fn settle(&mut self) {
        self.bytes_durable = self.bytes.clone();
        self.size_durable = self.size;
        self.meta_durable = self.meta;
        self.xattrs_durable = self.xattrs.clone();
        self.unsynced = Ranges::default();
        self.poisoned = Ranges::default();
        self.uncompared = Ranges::default();
    }

    fn lose_power(&mut self, rng: &mut Rng) {
        let size = if rng.chance(500) { self.size } else { self.size_durable };
        let mut bytes = self.bytes_durable.clone();
        for (start, end) in self.unsynced.iter() {
            let mut at = start;
            while at < end {
                let next = (at / 4096 + 1) * 4096;
                if rng.chance(500) {
                    bytes.write(at, &self.bytes.slice(at, (next.min(end) - at) as usize));
                }
                at = next;
            }
        }
        bytes.truncate(size.min(self.size.max(self.size_durable)));
        let meta = if rng.chance(500) { self.meta } else { self.meta_durable };
        if self.xattrs != self.xattrs_durable && rng.chance(500) {
            self.xattrs = self.xattrs_durable.clone();
        }
        (self.bytes, self.size, self.meta) = (bytes, size, meta);
        self.settle();
    }
}

#[cfg(test)]
mod tests;
