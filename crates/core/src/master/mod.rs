//! The namespace: what the application sees, beside what stands at home.
//!
//! Every name of a known directory is a [`Slot`] with two occupants: the *current* one, that the application sees, and the one that
//! *home* has. A name at which they differ is *divergent*; bringing names home is bringing the second to the first
//! ([`crate::node`], `home_names.rs`). State decides, not a queue of operations: a file that was made and removed again never
//! reaches home. A directory is listed from home when it is first needed and is complete from then on.

mod hidden;
mod name_set;
mod reconcile;

pub(crate) use hidden::hash;
pub use name_set::NameSet;
pub use reconcile::SlotAction;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::attr::{Attr, Caller, Kind};
use crate::errno::Errno;
use crate::id::{HomePath, Ino, Name, Position};
use crate::record::{InodeRecord, Record};
use crate::time::Time;
use crate::xattr::Xattr;

/// The longest name, bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// The longest symlink target, bytes.
pub const TARGET_BYTES_MAX: usize = 4095;
const SET_GID: u16 = 0o2000;

/// What is known of one inode.
#[derive(Debug)]
pub struct Inode {
    /// Attributes as the application sees them. Only the kind counts until `attr_loaded`.
    pub attr: Attr,
    /// False for the root until somebody asks for it.
    pub attr_loaded: bool,
    /// Counts changes of attributes.
    pub attr_version: u64,
    /// The version that stands at home.
    pub attr_home: u64,
    /// A position of the journal that is not before the newest change of attributes.
    pub attr_position: Position,
    /// Extended attributes in the order of their names, once known.
    pub xattrs: Option<Vec<Xattr>>,
    /// Home has other extended attributes.
    pub xattrs_differ: bool,
    /// A symlink's target, once known.
    pub target: Option<Name>,
    /// Names as the application sees them.
    pub links: NameSet,
    /// Names at home.
    pub home_names: NameSet,
    /// References that clients hold.
    pub lookups: u64,
    /// Open handles.
    pub opens: u32,
    /// The journal knows the inode.
    pub journaled: bool,
    /// The journal knows its number and where it stands at home, no more.
    pub noted: bool,
    /// A change of its names at home is under way.
    pub busy: bool,
    /// Its entries, for a directory.
    pub dir: Option<Box<Dir>>,
    /// Identity at home, if it has several names there.
    pub home_id: Option<(u64, u64)>,
    /// The next inode's number when it was last looked up or learned.
    pub used_at: u64,
    /// It was used since the last time that something to forget was looked for.
    pub used: bool,
    /// The clients were asked to give back their references.
    pub pruned: bool,
}

/// The entries of a directory.
#[derive(Debug, Default)]
pub struct Dir {
    /// All names of home are among the slots or hidden.
    pub loaded: bool,
    /// Hashes of names that stand at home and are not among the slots.
    pub hidden: BTreeSet<u64>,
    /// The names.
    pub slots: BTreeMap<Name, Slot>,
    /// How many slots have a current occupant.
    pub current_count: usize,
    /// How many slots have an occupant at home.
    pub home_count: usize,
}

/// The two occupants of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// What the application sees.
    pub current: Option<Ino>,
    /// What home has.
    pub home: Option<Ino>,
    /// A change of this name at home is under way.
    pub busy: bool,
}

/// What a request needs before it can be handled.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Need {
    /// The listing of a directory.
    Dir(Ino),
    /// What home has under one name of a directory.
    Entry(Ino, Name),
    /// The attributes of an inode of home.
    Attr(Ino),
    /// The target of a symlink of home.
    Target(Ino),
    /// The extended attributes of an inode of home.
    Xattrs(Ino),
}

impl Need {
    /// The inode that it is about.
    pub fn ino(&self) -> Ino {
        match self {
            Need::Dir(ino) | Need::Entry(ino, _) | Need::Attr(ino) | Need::Target(ino) | Need::Xattrs(ino) => *ino,
        }
    }
}

/// Why a request is not done: it needs something first, or it fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// To be tried again when this is there.
    Need(Need),
    /// Failed.
    Errno(Errno),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Errno(errno)
    }
}

/// All inodes and directories of an instance.
#[derive(Debug)]
pub struct Namespace {
    pub(crate) inodes: BTreeMap<Ino, Box<Inode>>,
    pub(crate) next_ino: u64,
    /// Identity at home of files with several names there, so that hard links are one inode here too.
    home_ids: BTreeMap<(u64, u64), Ino>,
    /// Names to bring home, in the order in which they came to differ.
    pub(crate) divergent: BTreeMap<u64, (Ino, Name, Time)>,
    divergent_at: BTreeMap<(Ino, Name), u64>,
    next_divergent: u64,
    /// Inodes whose attributes are to be brought home.
    pub(crate) attr_dirty: BTreeSet<Ino>,
    /// Inodes whose attributes have changed and whose `attr_position` is still to be set.
    pub(crate) attr_touched: BTreeSet<Ino>,
    /// Names that all directories hide.
    pub(crate) hidden_count: usize,
}

impl Default for Namespace {
    fn default() -> Namespace {
        Namespace::new()
    }
}

impl Namespace {
    /// A namespace of which only the root is known.
    pub fn new() -> Namespace {
        let root = Inode { links: NameSet::new(), dir: Some(Box::default()), lookups: 1, ..Inode::of_home(Kind::Directory) };
        Namespace {
            inodes: BTreeMap::from([(Ino::ROOT, Box::new(root))]),
            next_ino: Ino::ROOT.0 + 1,
            home_ids: BTreeMap::new(),
            divergent: BTreeMap::new(),
            divergent_at: BTreeMap::new(),
            next_divergent: 0,
            attr_dirty: BTreeSet::new(),
            attr_touched: BTreeSet::new(),
            hidden_count: 0,
        }
    }

    /// The inode, or `ENOENT`/`ESTALE` for one that is gone.
    pub fn inode(&self, ino: Ino) -> Result<&Inode, Errno> {
        self.inodes.get(&ino).map(Box::as_ref).ok_or(Errno::ESTALE)
    }

    pub(crate) fn inode_mut(&mut self, ino: Ino) -> Result<&mut Inode, Errno> {
        self.inodes.get_mut(&ino).map(Box::as_mut).ok_or(Errno::ESTALE)
    }

    /// A new inode number.
    pub(crate) fn allocate_ino(&mut self) -> Ino {
        let ino = Ino(self.next_ino);
        self.next_ino += 1;
        ino
    }

    /// The inode with attributes known.
    pub(crate) fn loaded(&self, ino: Ino) -> Result<&Inode, Stop> {
        let inode = self.inode(ino)?;
        if inode.attr_loaded { Ok(inode) } else { Err(Stop::Need(Need::Attr(ino))) }
    }

    /// The directory with its names known.
    pub(crate) fn loaded_dir(&self, ino: Ino) -> Result<&Dir, Stop> {
        let inode = self.loaded(ino)?;
        let dir = inode.dir.as_ref().ok_or(Errno::ENOTDIR)?;
        if dir.loaded { Ok(dir) } else { Err(Stop::Need(Need::Dir(ino))) }
    }

    /// The current occupant of a name.
    pub(crate) fn occupant(&self, parent: Ino, name: &Name) -> Result<Option<Ino>, Stop> {
        check_name(name)?;
        let dir = self.loaded_dir(parent)?;
        if dir.hides(name.as_bytes()) {
            return Err(Stop::Need(Need::Entry(parent, name.clone())));
        }
        Ok(dir.slots.get(name).and_then(|s| s.current))
    }

    /// A directory into which a new name may be put: alive, complete, `name` free.
    pub(crate) fn vacant(&self, parent: Ino, name: &Name) -> Result<(), Stop> {
        if self.occupant(parent, name)?.is_some() {
            return Err(Errno::EEXIST.into());
        }
        self.alive_dir(parent)
    }

    pub(crate) fn alive_dir(&self, ino: Ino) -> Result<(), Stop> {
        let inode = self.loaded(ino)?;
        if ino != Ino::ROOT && inode.links.is_empty() {
            return Err(Errno::ENOENT.into());
        }
        Ok(())
    }

    /// Owner, group and mode of a new object, with the set-gid rule of the parent.
    pub(crate) fn new_attr(&self, parent: Ino, kind: Kind, mode: u16, caller: Caller, now: Time) -> Result<Attr, Stop> {
        let parent = &self.loaded(parent)?.attr;
        let inherits = parent.mode & SET_GID != 0;
        let mode = if inherits && kind == Kind::Directory { mode | SET_GID } else { mode };
        let now_ns = now.as_nanos() as i64;
        Ok(Attr {
            kind,
            mode,
            nlink: 0,
            uid: caller.uid,
            gid: if inherits { parent.gid } else { caller.gid },
            size: 0,
            blocks: 0,
            rdev: 0,
            atime_ns: now_ns,
            mtime_ns: now_ns,
            ctime_ns: now_ns,
        })
    }

    /// Adds a new inode without a name.
    pub(crate) fn insert_new(&mut self, ino: Ino, attr: Attr, target: Option<Name>) {
        let dir = (attr.kind == Kind::Directory).then(|| Box::new(Dir { loaded: true, ..Dir::default() }));
        let known =
            Inode { attr, attr_loaded: true, attr_version: 1, xattrs: Some(Vec::new()), journaled: true, ..Inode::of_home(attr.kind) };
        self.inodes.insert(ino, Box::new(Inode { target, dir, ..known }));
        self.attr_changed(ino);
        self.next_ino = self.next_ino.max(ino.0 + 1);
    }

    /// Gives an inode one more name. The name must be free.
    pub(crate) fn attach(&mut self, parent: Ino, name: &Name, ino: Ino, now: Time) {
        let is_dir = self.change_links(ino, now, |inode| {
            inode.links.insert((parent, name.clone()));
            if inode.dir.is_some() { inode.attr.nlink = inode.attr.nlink.max(2) } else { inode.attr.nlink += 1 }
        });
        self.set_current(parent, name, Some(ino), now);
        self.touch_dir(parent, now, is_dir as i32);
    }

    /// Takes a name from its occupant.
    pub(crate) fn detach(&mut self, parent: Ino, name: &Name, now: Time) {
        let Some(ino) = self.slot(parent, name).current else { return };
        let is_dir = self.change_links(ino, now, |inode| {
            inode.links.remove(&(parent, name.clone()));
            if inode.dir.is_some() { inode.attr.nlink = 0 } else { inode.attr.nlink = inode.attr.nlink.saturating_sub(1) }
        });
        self.set_current(parent, name, None, now);
        self.touch_dir(parent, now, -(is_dir as i32));
    }

    fn change_links(&mut self, ino: Ino, now: Time, change: impl FnOnce(&mut Inode)) -> bool {
        let Some(inode) = self.inodes.get_mut(&ino) else { return false };
        change(inode);
        inode.attr.ctime_ns = now.as_nanos() as i64;
        inode.dir.is_some()
    }

    /// A directory's entries changed: its times, and its link count by `dirs`.
    fn touch_dir(&mut self, parent: Ino, now: Time, dirs: i32) {
        let Some(inode) = self.inodes.get_mut(&parent) else { return };
        inode.attr.mtime_ns = now.as_nanos() as i64;
        inode.attr.ctime_ns = inode.attr.mtime_ns;
        inode.attr.nlink = inode.attr.nlink.saturating_add_signed(dirs);
        inode.attr_version += 1;
        self.attr_changed(parent);
    }

    /// The inode has other attributes than home.
    pub(crate) fn attr_changed(&mut self, ino: Ino) {
        self.attr_dirty.insert(ino);
        self.attr_touched.insert(ino);
    }

    /// Moves a name, as rename(2) does after all its checks. With `exchange` both occupants change places.
    pub(crate) fn rename(&mut self, from: (Ino, &Name), to: (Ino, &Name), exchange: bool, now: Time) {
        let moved = self.slot(from.0, from.1).current;
        let replaced = self.slot(to.0, to.1).current;
        // Detaching a directory and attaching it again must not count as its death.
        let survivors = moved.into_iter().chain(replaced.filter(|_| exchange));
        let dirs = survivors.filter_map(|ino| self.inodes.get(&ino).filter(|i| i.dir.is_some()).map(|i| (ino, i.attr.nlink)));
        let dirs = dirs.collect::<Vec<_>>();
        self.detach(to.0, to.1, now);
        self.detach(from.0, from.1, now);
        if let Some(ino) = moved {
            self.attach(to.0, to.1, ino, now);
        }
        if let (Some(ino), true) = (replaced, exchange) {
            self.attach(from.0, from.1, ino, now);
        }
        for (ino, nlink) in dirs {
            if let Some(inode) = self.inodes.get_mut(&ino) {
                inode.attr.nlink = inode.attr.nlink.max(nlink);
            }
        }
    }

    /// Whether `ino` is `ancestor` or lies below it, by current names.
    pub(crate) fn is_below(&self, mut ino: Ino, ancestor: Ino) -> bool {
        loop {
            if ino == ancestor {
                return true;
            }
            match self.inodes.get(&ino).and_then(|i| i.links.first()) {
                Some((parent, _)) => ino = *parent,
                None => return false,
            }
        }
    }

    pub(crate) fn slot(&self, parent: Ino, name: &Name) -> Slot {
        let dir = self.inodes.get(&parent).and_then(|i| i.dir.as_ref());
        dir.and_then(|d| d.slots.get(name)).copied().unwrap_or_default()
    }

    fn set_current(&mut self, parent: Ino, name: &Name, ino: Option<Ino>, now: Time) {
        self.change_slot(parent, name, now, |slot| slot.current = ino);
    }

    /// Changes what home has at a name, and the inodes' own list of names.
    pub(crate) fn set_home(&mut self, parent: Ino, name: &Name, ino: Option<Ino>, now: Time) {
        let old = self.slot(parent, name).home;
        if let Some(inode) = old.and_then(|old| self.inodes.get_mut(&old)) {
            inode.home_names.remove(&(parent, name.clone()));
        }
        if let Some(inode) = ino.and_then(|ino| self.inodes.get_mut(&ino)) {
            inode.home_names.insert((parent, name.clone()));
        }
        self.change_slot(parent, name, now, |slot| slot.home = ino);
        // The change has given the directory other times at home than it has here.
        if let Some(dir) = self.inodes.get_mut(&parent).filter(|dir| dir.attr_loaded) {
            dir.attr_version += 1;
            self.attr_dirty.insert(parent);
        }
    }

    pub(crate) fn set_busy(&mut self, parent: Ino, name: &Name, busy: bool) {
        self.change_slot(parent, name, Time::default(), |slot| slot.busy = busy);
    }

    fn change_slot(&mut self, parent: Ino, name: &Name, now: Time, change: impl FnOnce(&mut Slot)) {
        let Some(dir) = self.inodes.get_mut(&parent).and_then(|i| i.dir.as_mut()) else { return };
        let before = dir.slots.get(name).copied().unwrap_or_default();
        let mut slot = before;
        change(&mut slot);
        dir.current_count = dir.current_count + slot.current.is_some() as usize - before.current.is_some() as usize;
        dir.home_count = dir.home_count + slot.home.is_some() as usize - before.home.is_some() as usize;
        if slot == Slot::default() {
            dir.slots.remove(name);
        } else {
            dir.slots.insert(name.clone(), slot);
        }
        let key = (parent, name.clone());
        match (slot.current != slot.home, self.divergent_at.get(&key).copied()) {
            (true, None) => {
                self.divergent.insert(self.next_divergent, (parent, name.clone(), now));
                self.divergent_at.insert(key, self.next_divergent);
                self.next_divergent += 1;
            }
            (false, Some(at)) => {
                self.divergent.remove(&at);
                self.divergent_at.remove(&key);
            }
            _ => {}
        }
    }

    /// The first place among the divergent names of those that the inode has at home.
    pub(crate) fn first_divergent_at_home(&self, ino: Ino) -> Option<u64> {
        let names = &self.inodes.get(&ino)?.home_names;
        names.iter().filter_map(|name| self.divergent_at.get(name).copied()).min()
    }

    /// No entry of the directory is being changed at home.
    pub(crate) fn are_entries_at_rest(&self, ino: Ino) -> bool {
        self.inodes.get(&ino).and_then(|i| i.dir.as_ref()).is_none_or(|d| d.slots.values().all(|slot| !slot.busy))
    }

    /// Takes the attributes of an inode of home.
    pub(crate) fn load_attr(&mut self, ino: Ino, attr: Attr) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.attr = attr;
            inode.attr_loaded = true;
        }
    }

    /// Where an inode stands at home, if it does.
    pub(crate) fn home_path(&self, ino: Ino) -> Option<HomePath> {
        self.path_by(ino, |inode| inode.home_names.first())
    }

    /// Where an inode stands in the mount, if it still has a name; for messages.
    pub(crate) fn current_path(&self, ino: Ino) -> Option<HomePath> {
        self.path_by(ino, |inode| inode.links.first())
    }

    fn path_by<'a>(&'a self, ino: Ino, name_of: impl Fn(&'a Inode) -> Option<&'a (Ino, Name)>) -> Option<HomePath> {
        let mut parts: Vec<&Name> = Vec::new();
        let mut at = ino;
        while at != Ino::ROOT {
            let (parent, name) = name_of(self.inodes.get(&at)?)?;
            parts.push(name);
            at = *parent;
            // A loop cannot arise from valid records; a damaged journal must not hang us.
            if parts.len() > 1 << 16 {
                return None;
            }
        }
        parts.reverse();
        Some(HomePath(parts.iter().map(|n| n.as_bytes()).collect::<Vec<_>>().join(&b'/').into()))
    }

    /// Path at home of a name in a directory that stands at home.
    pub(crate) fn home_child(&self, parent: Ino, name: &Name) -> Option<HomePath> {
        let mut path = self.home_path(parent)?.0.into_vec();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
        Some(HomePath(path.into()))
    }

    /// Everything the journal must say of an inode.
    pub(crate) fn inode_record(&self, ino: Ino, home_valid: u64) -> Option<Record> {
        let inode = self.inodes.get(&ino)?;
        Some(Record::Inode(Box::new(InodeRecord {
            ino,
            attr: inode.attr,
            attr_version: inode.attr_version,
            attr_home: inode.attr_home,
            target: inode.target.clone(),
            home_names: inode.home_names.iter().cloned().collect(),
            home_valid,
            home_id: inode.home_id,
        })))
    }

    /// What the journal must say of an inode's extended attributes, if home has others.
    pub(crate) fn xattrs_record(&self, ino: Ino) -> Option<Record> {
        let inode = self.inodes.get(&ino).filter(|inode| inode.xattrs_differ)?;
        Some(Record::Xattrs { ino, xattrs: inode.xattrs.clone()?, time_ns: inode.attr.ctime_ns })
    }

    /// Nothing refers to the inode any more, here or at home.
    pub(crate) fn is_gone(&self, ino: Ino) -> bool {
        ino != Ino::ROOT
            && self
                .inodes
                .get(&ino)
                .is_some_and(|i| i.links.is_empty() && i.home_names.is_empty() && i.opens == 0 && i.lookups == 0 && !i.busy)
    }

    pub(crate) fn remove_inode(&mut self, ino: Ino) {
        let removed = self.inodes.remove(&ino);
        self.hidden_count -= removed.as_ref().map_or(0, |inode| inode.hidden_count());
        if let Some(id) = removed.and_then(|inode| inode.home_id) {
            self.home_ids.remove(&id);
        }
        self.attr_dirty.remove(&ino);
    }

    /// For recovery: a name at home of an inode, which is its current name too unless another record says otherwise.
    pub(crate) fn adopt_home_name(&mut self, parent: Ino, name: &Name, ino: Ino) {
        let known = self.inodes.get(&parent).and_then(|i| i.dir.as_ref()).is_some_and(|d| d.slots.contains_key(name));
        self.set_home(parent, name, Some(ino), Time::default());
        if !known {
            self.set_current(parent, name, Some(ino), Time::default());
            if let Some(inode) = self.inodes.get_mut(&ino) {
                inode.links.insert((parent, name.clone()));
            }
        }
    }

    /// For recovery: inodes with no name here or at home that nobody refers to, but for those that a change at home is about.
    pub(crate) fn drop_orphans(&mut self, kept: &BTreeSet<Ino>) {
        let unused = |i: &Inode| i.links.is_empty() && i.home_names.is_empty() && i.opens == 0 && i.lookups == 0;
        let nameless = |ino: &Ino, i: &Inode| *ino != Ino::ROOT && unused(i) && !kept.contains(ino);
        let orphans = self.inodes.iter().filter(|(ino, inode)| nameless(ino, inode));
        for ino in orphans.map(|(ino, _)| *ino).collect::<Vec<_>>() {
            self.remove_inode(ino);
        }
    }

    /// For recovery: the next inode number is at least this.
    pub(crate) fn reserve_ino(&mut self, ino: Ino) {
        self.next_ino = self.next_ino.max(ino.0 + 1);
    }
}

impl Inode {
    /// An inode of which only the kind is known.
    pub(crate) fn of_home(kind: Kind) -> Inode {
        Inode {
            attr: Attr { kind, mode: 0, nlink: 1, uid: 0, gid: 0, size: 0, blocks: 0, rdev: 0, atime_ns: 0, mtime_ns: 0, ctime_ns: 0 },
            attr_loaded: false,
            attr_version: 0,
            attr_home: 0,
            attr_position: Position(0),
            xattrs: None,
            xattrs_differ: false,
            target: None,
            links: NameSet::new(),
            home_names: NameSet::new(),
            lookups: 0,
            opens: 0,
            journaled: false,
            noted: false,
            busy: false,
            dir: (kind == Kind::Directory).then(Box::default),
            home_id: None,
            used_at: 0,
            used: true,
            pruned: false,
        }
    }

    /// Names that it hides, for a directory.
    fn hidden_count(&self) -> usize {
        self.dir.as_ref().map_or(0, |dir| dir.hidden.len())
    }

    /// Home has names of it that no listing has shown yet: its other hard links.
    pub(crate) fn has_hidden_names(&self) -> bool {
        self.links.is_empty() && self.dir.is_none() && self.attr_loaded && self.attr.nlink > 0
    }

    /// It has a name, shown or not.
    pub(crate) fn has_name(&self) -> bool {
        !self.links.is_empty() || self.has_hidden_names()
    }

    /// The application can reach it, by a name or an open handle.
    pub(crate) fn is_reachable(&self) -> bool {
        self.has_name() || self.opens > 0
    }

    /// A file without a name that somebody has open.
    pub(crate) fn is_orphan(&self) -> bool {
        self.links.is_empty() && self.opens > 0 && self.attr.kind == Kind::File
    }
}

/// The name in home's root under which a file stands that has lost its last name and is still open.
pub(crate) fn orphan_name(ino: Ino) -> Name {
    Name::new(alloc::format!(".forebay-orphan-{}", ino.0).as_bytes())
}

/// Checks a name's length and form.
pub(crate) fn check_name(name: &Name) -> Result<(), Errno> {
    match name.as_bytes() {
        b"" | b"." | b".." => Err(Errno::EINVAL),
        bytes if bytes.len() > NAME_BYTES_MAX => Err(Errno::ENAMETOOLONG),
        bytes if bytes.contains(&b'/') || bytes.contains(&0) => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}
