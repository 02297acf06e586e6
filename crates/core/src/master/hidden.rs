//! Names that stand at home and of which nothing is kept here but a hash.
//!
//! A directory of a million entries must not take memory for a million inodes. What nobody uses and home has just so is forgotten, but for
//! eight bytes that say that there is such a name: so a name that was never there is told without asking home, and one that
//! was forgotten comes back by one look at it. Two names with the same hash in one directory would be taken for each other
//! until home is asked; with 64 bits and a million names that is not going to happen.

use alloc::boxed::Box;

use super::{Dir, Inode, Namespace, Slot};
use crate::attr::{Attr, Kind};
use crate::entries::{Entries, EntryRef};
use crate::id::{Ino, Name};
use crate::message::DirEntry;
use crate::time::Time;

/// FNV-1a, with a last mix so that similar names differ in all bits.
pub(crate) fn hash(name: &[u8]) -> u64 {
    let mut value = name.iter().fold(0xcbf2_9ce4_8422_2325, |value: u64, byte| (value ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    value = (value ^ (value >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    value ^ (value >> 29)
}

impl Dir {
    /// Home has a name of which nothing else is known.
    pub(crate) fn hides(&self, name: &[u8]) -> bool {
        !self.hidden.is_empty() && !self.slots.contains_key(name) && self.hidden.contains(&hash(name))
    }

    /// The application sees no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.current_count == 0 && self.hidden.is_empty()
    }
}

impl Namespace {
    /// Takes the listing of a directory of home: names that are not known yet are as home has them.
    pub(crate) fn load_dir(&mut self, ino: Ino, listing: &Entries) {
        if let Some(dir) = self.inodes.get_mut(&ino).and_then(|i| i.dir.as_mut()) {
            self.hidden_count -= dir.hidden.len();
            dir.hidden = listing.iter().filter(|entry| !dir.slots.contains_key(entry.name)).map(|entry| hash(entry.name)).collect();
            self.hidden_count += dir.hidden.len();
            dir.loaded = true;
            if let Some(inode) = self.inodes.get_mut(&ino) {
                (inode.used, inode.used_at) = (true, self.next_ino);
            }
        }
    }

    /// Forgets which names a directory hides: it is listed again when somebody asks.
    pub(crate) fn unload_dir(&mut self, ino: Ino) {
        if let Some(dir) = self.inodes.get_mut(&ino).and_then(|i| i.dir.as_mut()) {
            self.hidden_count -= dir.hidden.len();
            dir.hidden.clear();
            dir.loaded = false;
        }
    }

    /// The entry of a listing, as clients see it. The number of one that nobody has looked at stands for no inode: those are given when
    /// somebody does.
    pub(crate) fn dir_entry(entry: EntryRef<'_>) -> DirEntry {
        let ino = entry.ino.unwrap_or_else(|| Ino((hash(entry.name) >> 2) | 1 << 62));
        DirEntry { ino, kind: entry.kind, name: Name::new(entry.name) }
    }

    /// A name turned out not to be at home, after all.
    pub(crate) fn unhide(&mut self, parent: Ino, name: &Name) {
        if let Some(dir) = self.inodes.get_mut(&parent).and_then(|i| i.dir.as_mut())
            && !dir.slots.contains_key(name)
        {
            self.hidden_count -= usize::from(dir.hidden.remove(&hash(name.as_bytes())));
        }
    }

    /// Takes the attributes of a name of home. A hard link of an inode that is known already becomes that inode.
    pub(crate) fn load_entry(&mut self, parent: Ino, name: &Name, attr: Attr, home_id: (u64, u64)) {
        if !self.inodes.get(&parent).and_then(|i| i.dir.as_ref()).is_some_and(|dir| dir.hides(name.as_bytes())) {
            return;
        }
        self.unhide(parent, name);
        let shared = attr.nlink > 1 && attr.kind != Kind::Directory;
        let known = self.home_ids.get(&home_id).copied().filter(|known| {
            // The number of one that is dead may have been given to another.
            let same = |inode: &Inode| inode.attr.kind == attr.kind && (inode.has_name() || !inode.home_names.is_empty());
            shared && self.inodes.get(known).is_some_and(|inode| same(inode))
        });
        let ino = known.unwrap_or_else(|| {
            let ino = self.allocate_ino();
            let home_id = shared.then_some(home_id);
            self.inodes.insert(ino, Box::new(Inode { attr, attr_loaded: true, home_id, ..Inode::of_home(attr.kind) }));
            self.home_ids.extend(home_id.map(|id| (id, ino)));
            ino
        });
        let used_at = self.next_ino;
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.links.insert((parent, name.clone()));
            inode.home_names.insert((parent, name.clone()));
            (inode.used, inode.used_at) = (true, used_at);
        }
        self.change_slot(parent, name, Time::default(), |slot| *slot = Slot { current: Some(ino), home: Some(ino), busy: false });
    }

    /// For recovery: an inode that is as home has it. Where another stands under one of its names, it has not that name.
    pub(crate) fn adopt_clean(&mut self, ino: Ino, inode: Inode, names: &[(Ino, Name)]) {
        self.reserve_ino(ino);
        self.inodes.insert(ino, Box::new(inode));
        for (parent, name) in names {
            if !self.inodes.contains_key(parent) || self.slot(*parent, name) != Slot::default() {
                continue;
            }
            self.change_slot(*parent, name, Time::default(), |slot| *slot = Slot { current: Some(ino), home: Some(ino), busy: false });
            if let Some(inode) = self.inodes.get_mut(&ino) {
                inode.links.insert((*parent, name.clone()));
                inode.home_names.insert((*parent, name.clone()));
            }
        }
    }

    /// For recovery: what tells that another name at home leads to this inode.
    pub(crate) fn set_home_id(&mut self, ino: Ino, home_id: Option<(u64, u64)>) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.home_id = home_id;
            self.home_ids.extend(home_id.map(|id| (id, ino)));
        }
    }

    /// Home has all of the inode just as it is here, and nothing is under way with it: it can be learned again.
    pub(crate) fn is_as_home_has_it(&self, ino: Ino) -> bool {
        let Some(inode) = self.inodes.get(&ino).filter(|_| ino != Ino::ROOT) else { return false };
        let settled = |(parent, name): &(Ino, Name)| self.slot(*parent, name) == Slot { current: Some(ino), home: Some(ino), busy: false };
        !inode.busy
            && inode.attr_loaded
            && !self.attr_dirty.contains(&ino)
            && !inode.links.is_empty()
            && inode.links == inode.home_names
            && inode.links.iter().all(settled)
            && inode.dir.as_ref().is_none_or(|dir| dir.slots.is_empty())
            // Of a file with several names each would have to be looked at before one of them could be taken from it.
            && (inode.dir.is_some() || inode.attr.nlink == 1)
    }

    /// Forgets an inode that is as home has it. With `known`, its names are still known to be there; else their directories are to be
    /// listed again.
    pub(crate) fn forget_inode(&mut self, ino: Ino, known: bool) {
        let Some(inode) = self.inodes.remove(&ino) else { return };
        self.hidden_count -= inode.hidden_count();
        for (parent, name) in inode.links.iter().chain(&inode.home_names) {
            self.change_slot(*parent, name, Time::default(), |slot| *slot = Slot::default());
            if let Some(dir) = self.inodes.get_mut(parent).and_then(|i| i.dir.as_mut()) {
                dir.loaded &= known;
                if known {
                    self.hidden_count += usize::from(dir.hidden.insert(hash(name.as_bytes())));
                }
            }
        }
        if let Some(id) = inode.home_id {
            self.home_ids.remove(&id);
        }
        self.attr_dirty.remove(&ino);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_have_different_hashes() {
        let names = (0..100_000).map(|i| hash(alloc::format!("f{i}").as_bytes()));
        assert_eq!(names.collect::<alloc::collections::BTreeSet<_>>().len(), 100_000);
    }
}
