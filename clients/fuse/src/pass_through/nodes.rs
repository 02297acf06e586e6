//! What the kernel knows of the directory behind: inodes, each with a descriptor by which it is reached whatever becomes of its name.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use forebay_core::errno::Errno;
use forebay_core::id::{Ino, Name};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags, Stat};

use super::calls::errno;

/// Numbers of what has none of its own: what stands on another file system than the root.
const FOREIGN: u64 = 1 << 61;
/// Descriptors that are kept if nobody says how many there may be.
const KEPT_MIN: usize = 256;
const KEPT_MAX: usize = 1 << 16;

/// Device and inode number: what tells one file from another.
type Key = (u64, u64);

fn key(stat: &Stat) -> Key {
    (stat.st_dev, stat.st_ino)
}

/// Open files of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    Read,
    Write,
}

#[derive(Default)]
struct Node {
    key: Key,
    parent: u64,
    name: Option<Name>,
    /// Stands for the inode and opens nothing. None if it was let go of: then it is found again by its name.
    place: Option<Arc<OwnedFd>>,
    /// Its name is gone, or was about to be: it cannot be found again.
    pinned: bool,
    references: u64,
    opens: u32,
    reading: Option<Arc<OwnedFd>>,
    writing: Option<Arc<OwnedFd>>,
}

#[derive(Default)]
struct Table {
    nodes: HashMap<u64, Node>,
    numbers: HashMap<Key, u64>,
    /// Inodes with a descriptor that may be let go of, oldest first.
    kept: VecDeque<u64>,
    foreign: u64,
}

pub(super) struct Nodes {
    table: Mutex<Table>,
    root_device: u64,
    kept_max: usize,
}

impl Nodes {
    /// With this root.
    pub(super) fn new(root: OwnedFd) -> Result<Nodes, Errno> {
        let stat = rustix::fs::fstat(&root).map_err(errno)?;
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        let kept_max = usize::try_from(limit / 2).unwrap_or(KEPT_MAX).clamp(KEPT_MIN, KEPT_MAX);
        let node = Node { key: key(&stat), place: Some(Arc::new(root)), pinned: true, references: 1, ..Node::default() };
        let mut table = Table::default();
        table.numbers.insert(node.key, Ino::ROOT.0);
        table.nodes.insert(Ino::ROOT.0, node);
        Ok(Nodes { table: Mutex::new(table), root_device: stat.st_dev, kept_max })
    }

    /// A descriptor that stands for the inode.
    pub(super) fn place(&self, ino: Ino) -> Result<Arc<OwnedFd>, Errno> {
        let (parent, name, key) = {
            let table = self.table.lock();
            let node = table.nodes.get(&ino.0).ok_or(Errno::ESTALE)?;
            match (&node.place, &node.name) {
                (Some(place), _) => return Ok(place.clone()),
                (None, Some(name)) => (Ino(node.parent), name.clone(), node.key),
                (None, None) => return Err(Errno::ESTALE),
            }
        };
        let parent = self.place(parent)?;
        let (place, stat) = open_place(parent.as_fd(), name.as_bytes())?;
        if self::key(&stat) != key {
            return Err(Errno::ESTALE);
        }
        let place = Arc::new(place);
        let mut table = self.table.lock();
        if let Some(node) = table.nodes.get_mut(&ino.0) {
            node.place = Some(place.clone());
            table.kept.push_back(ino.0);
        }
        let _let_go = table.let_go(self.kept_max);
        Ok(place)
    }

    /// The kernel gets a reference to what this descriptor stands for.
    pub(super) fn remember(&self, parent: Ino, name: &[u8], place: OwnedFd, stat: &Stat) -> Ino {
        let key = key(stat);
        let mut table = self.table.lock();
        let number = match table.numbers.get(&key) {
            Some(number) => *number,
            None => {
                // Its own number, so that programs see the same one as without us.
                let own = (stat.st_dev == self.root_device && stat.st_ino > Ino::ROOT.0 && stat.st_ino < FOREIGN).then_some(stat.st_ino);
                let number = own.unwrap_or(FOREIGN + table.foreign);
                table.foreign += u64::from(own.is_none());
                table.numbers.insert(key, number);
                number
            }
        };
        let mut is_new = false;
        match table.nodes.entry(number) {
            Entry::Occupied(node) => node.into_mut().references += 1,
            Entry::Vacant(vacant) => {
                let name = Some(Name::new(name));
                vacant.insert(Node { key, parent: parent.0, name, place: Some(Arc::new(place)), references: 1, ..Node::default() });
                is_new = true;
            }
        }
        if is_new {
            table.kept.push_back(number);
        }
        let _let_go = table.let_go(self.kept_max);
        Ino(number)
    }

    /// The kernel gives references back.
    pub(super) fn forget(&self, ino: Ino, count: u64) {
        let mut table = self.table.lock();
        let Some(node) = table.nodes.get_mut(&ino.0) else { return };
        node.references = node.references.saturating_sub(count);
        if node.references == 0 && ino != Ino::ROOT {
            let gone = table.nodes.remove(&ino.0);
            if let Some(node) = &gone {
                table.numbers.remove(&node.key);
            }
            drop(table);
            // Its descriptors are closed without the lock.
            drop(gone);
        }
    }

    /// The inode that this is, if the kernel knows it.
    pub(super) fn known(&self, stat: &Stat) -> Option<Ino> {
        self.table.lock().numbers.get(&key(stat)).map(|number| Ino(*number))
    }

    /// A name of the inode is about to go.
    pub(super) fn pin(&self, ino: Ino) {
        if self.place(ino).is_ok()
            && let Some(node) = self.table.lock().nodes.get_mut(&ino.0)
        {
            node.pinned = true;
        }
    }

    /// The inode has another name now.
    pub(super) fn moved(&self, ino: Ino, parent: Ino, name: &[u8]) {
        if let Some(node) = self.table.lock().nodes.get_mut(&ino.0) {
            (node.parent, node.name) = (parent.0, Some(Name::new(name)));
        }
    }

    /// The file is opened once more; `file` is open already.
    pub(super) fn opened(&self, ino: Ino, how: Use, file: Option<OwnedFd>) {
        if let Some(node) = self.table.lock().nodes.get_mut(&ino.0) {
            node.opens += 1;
            let slot = node.slot(how);
            *slot = slot.take().or(file.map(Arc::new));
        }
    }

    /// The file is closed once more.
    pub(super) fn released(&self, ino: Ino) {
        let mut table = self.table.lock();
        let Some(node) = table.nodes.get_mut(&ino.0) else { return };
        node.opens = node.opens.saturating_sub(1);
        if node.opens == 0 {
            let closed = (node.reading.take(), node.writing.take());
            drop(table);
            drop(closed);
        }
    }

    /// The file, open for that; kept until it is closed if the kernel has it open.
    pub(super) fn file(&self, ino: Ino, how: Use) -> Result<Arc<OwnedFd>, Errno> {
        if let Some(node) = self.table.lock().nodes.get_mut(&ino.0)
            && let Some(file) = node.slot(how)
        {
            return Ok(file.clone());
        }
        let place = self.place(ino)?;
        let access = if how == Use::Read { OFlags::RDONLY } else { OFlags::WRONLY };
        let flags = access | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let file = Arc::new(rustix::fs::open(super::calls::proc_path(place.as_fd()), flags, Mode::empty()).map_err(errno)?);
        let mut table = self.table.lock();
        if let Some(node) = table.nodes.get_mut(&ino.0).filter(|node| node.opens > 0) {
            return Ok(node.slot(how).get_or_insert(file).clone());
        }
        Ok(file)
    }

    #[cfg(test)]
    pub(super) fn set_kept_max(&mut self, kept_max: usize) {
        self.kept_max = kept_max;
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let table = self.table.lock();
        (table.nodes.len(), table.nodes.values().filter(|node| node.place.is_some()).count())
    }
}

impl Node {
    fn slot(&mut self, how: Use) -> &mut Option<Arc<OwnedFd>> {
        match how {
            Use::Read => &mut self.reading,
            Use::Write => &mut self.writing,
        }
    }
}

impl Table {
    /// Lets go of the oldest descriptors above a number; they are closed when what this gives is dropped.
    fn let_go(&mut self, kept_max: usize) -> Vec<Arc<OwnedFd>> {
        let mut gone = Vec::new();
        while self.kept.len() > kept_max {
            let Some(number) = self.kept.pop_front() else { break };
            // One without a name keeps its descriptor; it counts no more.
            if let Some(node) = self.nodes.get_mut(&number).filter(|node| !node.pinned) {
                gone.extend(node.place.take());
            }
        }
        gone
    }
}

/// A descriptor that stands for a name, and what it says of itself.
pub(super) fn open_place(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(OwnedFd, Stat), Errno> {
    let place = rustix::fs::openat(parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).map_err(errno)?;
    let stat = rustix::fs::fstat(&place).map_err(errno)?;
    Ok((place, stat))
}

/// What a name in a directory is.
pub(super) fn stat_name(parent: BorrowedFd<'_>, name: &[u8]) -> Result<Stat, Errno> {
    rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(errno)
}
