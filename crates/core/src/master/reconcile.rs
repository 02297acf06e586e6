//! What to do at home about one divergent name.

use super::{Namespace, Slot, orphan_name};
use crate::id::{Ino, Name};

/// The next change at home for one name. Each involves only names and inodes that no other change in flight involves.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // The variants say it.
pub enum SlotAction {
    /// Nothing: the name is as wanted.
    Settled,
    /// Something else must happen first.
    Blocked,
    /// Make `ino` at home under this name.
    Make { ino: Ino },
    /// Give `ino`, which stands at home, this name too.
    Link { ino: Ino },
    /// Remove the occupant `ino` from this name.
    Remove { ino: Ino },
    /// Move `ino` at home from one name to another; a dead file at the target is replaced.
    Move { ino: Ino, from: (Ino, Name), to: (Ino, Name) },
}

impl Namespace {
    /// Decides about one name.
    pub(crate) fn slot_action(&self, parent: Ino, name: &Name) -> SlotAction {
        let slot = self.slot(parent, name);
        if slot.current == slot.home {
            return SlotAction::Settled;
        }
        if slot.busy || !self.is_home_dir(parent) {
            return SlotAction::Blocked;
        }
        match (slot.home, slot.current) {
            (Some(old), current) => self.vacate(parent, name, old, current),
            (None, Some(ino)) => self.occupy(parent, name, ino),
            (None, None) => SlotAction::Settled,
        }
    }

    fn is_home_dir(&self, ino: Ino) -> bool {
        ino == Ino::ROOT || self.inodes.get(&ino).is_some_and(|i| !i.busy && !i.home_names.is_empty())
    }

    fn is_free(&self, ino: Ino) -> bool {
        self.inodes.get(&ino).is_some_and(|i| !i.busy)
    }

    /// The name is occupied at home by `old`, which does not belong there.
    fn vacate(&self, parent: Ino, name: &Name, old: Ino, current: Option<Ino>) -> SlotAction {
        if !self.is_free(old) {
            return SlotAction::Blocked;
        }
        let inode = &self.inodes[&old];
        if inode.is_orphan() {
            // Who has it open goes on using it: it steps aside until the last close.
            let aside = (Ino::ROOT, orphan_name(old));
            if (parent, name) == (aside.0, &aside.1) || self.slot(aside.0, &aside.1).busy {
                return SlotAction::Blocked;
            }
            if !inode.home_names.contains(&aside) {
                return SlotAction::Move { ino: old, from: (parent, name.clone()), to: aside };
            }
            return SlotAction::Remove { ino: old };
        }
        if inode.links.is_empty() {
            // A file that comes from elsewhere at home replaces the dead one in one step.
            if let Some(ino) = current
                && let SlotAction::Move { ino, from, to } = self.occupy(parent, name, ino)
                && self.can_replace(ino, old)
            {
                return SlotAction::Move { ino, from, to };
            }
            // An entry that is being made in it at home counts as there.
            let empty = inode.dir.as_ref().is_none_or(|d| d.home_count == 0 && d.hidden.is_empty()) && self.are_entries_at_rest(old);
            return if empty { SlotAction::Remove { ino: old } } else { SlotAction::Blocked };
        }
        if inode.home_names.iter().any(|at| self.slot(at.0, &at.1).current == Some(old)) {
            return SlotAction::Remove { ino: old };
        }
        for (to_parent, to_name) in &inode.links {
            let to: Slot = self.slot(*to_parent, to_name);
            let target_free = !to.busy
                && to.home.is_none_or(|dead| self.is_free(dead) && self.inodes[&dead].links.is_empty() && self.can_replace(old, dead));
            if target_free && self.is_home_dir(*to_parent) && !self.home_is_below(*to_parent, old) {
                return SlotAction::Move { ino: old, from: (parent, name.clone()), to: (*to_parent, to_name.clone()) };
            }
        }
        // Of several names at home one is enough to hold the file until it can go where it belongs.
        if inode.home_names.len() > 1 { SlotAction::Remove { ino: old } } else { SlotAction::Blocked }
    }

    /// The name is free at home (or will be replaced), and `ino` belongs there.
    fn occupy(&self, parent: Ino, name: &Name, ino: Ino) -> SlotAction {
        if !self.is_free(ino) {
            return SlotAction::Blocked;
        }
        let inode = &self.inodes[&ino];
        if inode.home_names.is_empty() {
            return SlotAction::Make { ino };
        }
        if inode.home_names.iter().any(|at| self.slot(at.0, &at.1).current == Some(ino)) {
            return SlotAction::Link { ino };
        }
        let Some(from) = inode.home_names.iter().find(|at| !self.slot(at.0, &at.1).busy && self.is_home_dir(at.0)) else {
            return SlotAction::Blocked;
        };
        if self.home_is_below(parent, ino) {
            return SlotAction::Blocked;
        }
        SlotAction::Move { ino, from: from.clone(), to: (parent, name.clone()) }
    }

    /// rename(2) can put `ino` over `dead`: neither is a directory (one is removed first: it may still have names at home), and nobody needs
    /// the dead one, by an open handle or another name.
    fn can_replace(&self, ino: Ino, dead: Ino) -> bool {
        let dead = &self.inodes[&dead];
        self.inodes[&ino].dir.is_none() && dead.dir.is_none() && !dead.is_reachable()
    }

    /// Whether, at home, directory `ino` is `ancestor` or lies below it.
    fn home_is_below(&self, mut ino: Ino, ancestor: Ino) -> bool {
        loop {
            if ino == ancestor {
                return true;
            }
            match self.inodes.get(&ino).and_then(|i| i.home_names.first()) {
                Some((parent, _)) => ino = *parent,
                None => return false,
            }
        }
    }

    /// When nothing can move because names wait for each other in a ring: a name whose occupant can step aside, and where to. What has
    /// stepped aside already is of no more help. The occupant may be a dead directory that holds at home what belongs in its place.
    pub(crate) fn ring_breaker(&self) -> Option<(Ino, Name, Ino, Name)> {
        self.divergent.values().find_map(|(parent, name, _)| {
            let slot = self.slot(*parent, name);
            let may_move = |old: &Ino| self.is_free(*old) && (self.inodes[old].dir.is_some() || !self.inodes[old].links.is_empty());
            let old = slot.home.filter(may_move)?;
            let aside = Name::new(alloc::format!(".forebay-moving-{}", old.0).as_bytes());
            let may_step = !slot.busy && *name != aside && self.slot(*parent, &aside) == Slot::default() && self.is_home_dir(*parent);
            may_step.then(|| (*parent, name.clone(), old, aside))
        })
    }
}
