//! A home of names and sizes, without bytes.

use std::collections::BTreeMap;

use forebay_core::attr::{Attr, Kind};
use forebay_core::effect::{HomeAttr, HomeChange};
use forebay_core::entries::Entries;
use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Name};

/// The device that it says it is on.
const DEVICE: u64 = 1;
/// The number of its root.
const ROOT: u64 = 1;

struct Object {
    kind: Kind,
    size: u64,
    names: u32,
    target: Name,
    entries: BTreeMap<Vec<u8>, u64>,
}

impl Object {
    fn new(kind: Kind, size: u64) -> Object {
        Object { kind, size, names: 1, target: Name::new(b""), entries: BTreeMap::new() }
    }
}

/// The home.
pub(super) struct Home {
    objects: BTreeMap<u64, Object>,
    next: u64,
}

type Result<T> = std::result::Result<T, Errno>;

fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let at = path.iter().rposition(|byte| *byte == b'/');
    at.map_or((&[], path), |at| (&path[..at], &path[at + 1..]))
}

impl Home {
    pub(super) fn new() -> Home {
        Home { objects: BTreeMap::from([(ROOT, Object::new(Kind::Directory, 4096))]), next: ROOT + 1 }
    }

    fn find(&self, path: &[u8]) -> Result<u64> {
        parts(path).try_fold(ROOT, |at, part| self.objects[&at].entries.get(part).copied().ok_or(Errno::ENOENT))
    }

    fn object(&mut self, path: &HomePath) -> Result<&mut Object> {
        let at = self.find(path.as_bytes())?;
        self.objects.get_mut(&at).ok_or(Errno::ENOENT)
    }

    /// Makes an object, unless one is there.
    pub(super) fn make(&mut self, path: &[u8], kind: Kind, size: u64) -> Result<()> {
        let (parent, name) = split(path);
        let parent = self.find(parent)?;
        if !self.objects[&parent].entries.contains_key(name) {
            let at = self.next;
            self.next += 1;
            self.objects.insert(at, Object::new(kind, size));
            self.enter(parent, name, at);
        }
        Ok(())
    }

    fn enter(&mut self, parent: u64, name: &[u8], at: u64) {
        let replaced = self.objects.get_mut(&parent).and_then(|parent| parent.entries.insert(name.to_vec(), at));
        replaced.into_iter().for_each(|replaced| self.lose_name(replaced));
    }

    fn lose_name(&mut self, at: u64) {
        if let Some(object) = self.objects.get_mut(&at) {
            object.names -= 1;
            if object.names == 0 {
                self.objects.remove(&at);
            }
        }
    }

    fn remove(&mut self, path: &[u8]) -> Option<u64> {
        let (parent, name) = split(path);
        let parent = self.find(parent).ok()?;
        self.objects.get_mut(&parent)?.entries.remove(name)
    }

    pub(super) fn list(&self, path: &HomePath) -> Result<Entries> {
        let directory = &self.objects[&self.find(path.as_bytes())?];
        Ok(directory.entries.iter().map(|(name, at)| (name.as_slice(), self.objects[at].kind)).collect())
    }

    pub(super) fn stat(&self, path: &HomePath) -> Result<HomeAttr> {
        let at = self.find(path.as_bytes())?;
        let Object { kind, size, names, .. } = self.objects[&at];
        let nlink = if kind == Kind::Directory { 2 } else { names };
        let mode = if kind == Kind::Directory { 0o755 } else { 0o644 };
        let blocks = size.div_ceil(512);
        let attr = Attr { kind, mode, nlink, uid: 0, gid: 0, size, blocks, rdev: 0, atime_ns: 0, mtime_ns: 0, ctime_ns: 0 };
        Ok(HomeAttr { attr, dev: DEVICE, ino: at })
    }

    pub(super) fn target(&mut self, path: &HomePath) -> Result<Name> {
        self.object(path).map(|object| object.target.clone())
    }

    /// Bytes of a range that are there.
    pub(super) fn read(&mut self, path: &HomePath, offset: u64, len: u32) -> Result<u32> {
        self.object(path).map(|object| object.size.saturating_sub(offset).min(u64::from(len)) as u32)
    }

    pub(super) fn write(&mut self, path: &HomePath, end: u64) -> Result<()> {
        self.object(path).map(|object| object.size = object.size.max(end))
    }

    /// Carries out a change. What is so already is no error: a machine may ask again.
    pub(super) fn change(&mut self, change: &HomeChange) -> Result<()> {
        match change {
            HomeChange::MakeFile { path } => {
                self.make(path.as_bytes(), Kind::File, 0)?;
                self.object(path)?.size = 0;
            }
            HomeChange::MakeDir { path } => self.make(path.as_bytes(), Kind::Directory, 4096)?,
            HomeChange::SymLink { path, target } => {
                self.make(path.as_bytes(), Kind::Symlink, target.as_bytes().len() as u64)?;
                self.object(path)?.target = target.clone();
            }
            HomeChange::MakeNode { path, kind, .. } => self.make(path.as_bytes(), *kind, 0)?,
            HomeChange::Link { from, to } => {
                let (at, (parent, name)) = (self.find(from.as_bytes())?, split(to.as_bytes()));
                let parent = self.find(parent)?;
                self.objects.get_mut(&at).ok_or(Errno::ENOENT)?.names += 1;
                self.enter(parent, name, at);
            }
            HomeChange::Unlink { path } | HomeChange::RemoveDir { path } => {
                self.remove(path.as_bytes()).into_iter().for_each(|at| self.lose_name(at));
            }
            HomeChange::Rename { from, to, .. } => {
                let (parent, name) = split(to.as_bytes());
                let parent = self.find(parent)?;
                let at = self.remove(from.as_bytes()).ok_or(Errno::ENOENT)?;
                self.enter(parent, name, at);
            }
            HomeChange::Truncate { path, size, .. } => self.object(path)?.size = *size,
            HomeChange::Punch { .. } | HomeChange::SetAttr { .. } => {}
        }
        Ok(())
    }
}
