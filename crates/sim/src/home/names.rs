//! The namespace of the simulated home, and the order in which a power loss may lose changes of it.

use std::collections::{BTreeMap, BTreeSet};

use forebay_core::errno::Errno;
use forebay_core::id::Name;

/// An inode of home. Numbers of dead inodes are used again, as real file systems do.
pub type HomeIno = u64;

/// The root directory.
pub const ROOT: HomeIno = 1;

/// A name in a directory.
pub type Place = (HomeIno, Name);

/// Every directory with its entries.
#[derive(Clone, Debug)]
pub struct Names {
    /// Entries of each directory.
    pub dirs: BTreeMap<HomeIno, BTreeMap<Name, HomeIno>>,
}

/// A change of the namespace that was carried out.
#[derive(Clone, Debug)]
pub enum NameOp {
    /// A new inode under a new name.
    Make {
        /// Its name.
        at: Place,
        /// The inode.
        ino: HomeIno,
        /// Whether it is a directory.
        is_dir: bool,
    },
    /// One more name for an inode.
    Link {
        /// The new name.
        at: Place,
        /// The inode.
        ino: HomeIno,
    },
    /// A name is gone.
    Remove {
        /// The name.
        at: Place,
        /// Its occupant.
        ino: HomeIno,
        /// Whether that was a directory.
        is_dir: bool,
    },
    /// An inode moved.
    Rename {
        /// From here.
        from: Place,
        /// To there.
        to: Place,
        /// The inode.
        ino: HomeIno,
        /// What it replaced.
        replaced: Option<HomeIno>,
        /// Whether it is a directory.
        is_dir: bool,
    },
}

impl NameOp {
    fn places(&self) -> Vec<&Place> {
        match self {
            NameOp::Make { at, .. } | NameOp::Link { at, .. } | NameOp::Remove { at, .. } => vec![at],
            NameOp::Rename { from, to, .. } => vec![from, to],
        }
    }

    /// The names that it concerns.
    pub fn names(&self) -> Vec<&Name> {
        self.places().into_iter().map(|place| &place.1).collect()
    }

    fn inos(&self) -> BTreeSet<HomeIno> {
        match self {
            NameOp::Make { ino, .. } | NameOp::Link { ino, .. } | NameOp::Remove { ino, .. } => [*ino].into(),
            NameOp::Rename { ino, replaced, .. } => replaced.iter().copied().chain([*ino]).collect(),
        }
    }

    fn moves_dir(&self) -> bool {
        matches!(self, NameOp::Rename { is_dir: true, .. })
    }

    /// Whether the change concerns this directory's entries.
    pub fn is_in(&self, dir: HomeIno) -> bool {
        self.places().iter().any(|place| place.0 == dir)
    }

    /// Whether the later change cannot be there without the earlier one.
    fn depends_on(&self, earlier: &NameOp) -> bool {
        let share_place = self.places().iter().any(|place| earlier.places().contains(place));
        let (inos, earlier_inos) = (self.inos(), earlier.inos());
        let share_ino = !inos.is_disjoint(&earlier_inos);
        // A directory must be there before its entries, and its entries be gone before it is.
        let parent = self.places().iter().any(|place| earlier_inos.contains(&place.0));
        let child = earlier.places().iter().any(|place| inos.contains(&place.0));
        share_place || share_ino || parent || child || (self.moves_dir() && earlier.moves_dir())
    }
}

impl Default for Names {
    fn default() -> Self {
        Names { dirs: BTreeMap::from([(ROOT, BTreeMap::new())]) }
    }
}

impl Names {
    /// The inode at a path.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`.
    pub fn resolve(&self, path: &[u8]) -> Result<HomeIno, Errno> {
        let mut ino = ROOT;
        for name in path.split(|b| *b == b'/').filter(|name| !name.is_empty()) {
            let dir = self.dirs.get(&ino).ok_or(Errno::ENOTDIR)?;
            ino = *dir.get(&Name::new(name)).ok_or(Errno::ENOENT)?;
        }
        Ok(ino)
    }

    /// The directory and the last name of a path.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`; `EINVAL` for the root.
    pub fn resolve_parent(&self, path: &[u8]) -> Result<Place, Errno> {
        let (parent, name) = match path.iter().rposition(|b| *b == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&path[..0], path),
        };
        if name.is_empty() {
            return Err(Errno::EINVAL);
        }
        let dir = self.resolve(parent)?;
        if self.dirs.contains_key(&dir) { Ok((dir, Name::new(name))) } else { Err(Errno::ENOTDIR) }
    }

    /// The occupant of a place.
    pub fn get(&self, place: &Place) -> Option<HomeIno> {
        self.dirs.get(&place.0)?.get(&place.1).copied()
    }

    /// How many names an inode has.
    pub fn link_count(&self, ino: HomeIno) -> u32 {
        self.dirs.values().flat_map(|dir| dir.values()).filter(|occupant| **occupant == ino).count() as u32
    }

    /// Whether directory `dir` is `ancestor` or lies below it.
    pub fn is_below(&self, mut dir: HomeIno, ancestor: HomeIno) -> bool {
        loop {
            if dir == ancestor {
                return true;
            }
            let parent = self.dirs.iter().find(|(_, entries)| entries.values().any(|ino| *ino == dir));
            match parent {
                Some((parent, _)) => dir = *parent,
                None => return false,
            }
        }
    }

    /// Carries out a change.
    ///
    /// # Panics
    /// When its parent directory is not there: the changes that it depends on must be carried out first.
    pub fn apply(&mut self, op: &NameOp) {
        match op {
            NameOp::Make { at, ino, is_dir } => {
                self.dir_mut(at).insert(at.1.clone(), *ino);
                if *is_dir {
                    self.dirs.insert(*ino, BTreeMap::new());
                }
            }
            NameOp::Link { at, ino } => {
                self.dir_mut(at).insert(at.1.clone(), *ino);
            }
            NameOp::Remove { at, ino, is_dir } => {
                self.dir_mut(at).remove(&at.1);
                if *is_dir {
                    self.dirs.remove(ino);
                }
            }
            NameOp::Rename { from, to, ino, replaced, .. } => {
                self.dir_mut(from).remove(&from.1);
                if let Some(replaced) = replaced {
                    self.dirs.remove(replaced);
                }
                self.dir_mut(to).insert(to.1.clone(), *ino);
            }
        }
    }

    fn dir_mut(&mut self, place: &Place) -> &mut BTreeMap<Name, HomeIno> {
        self.dirs.get_mut(&place.0).expect("a change is carried out after those that it depends on")
    }
}

/// Takes out of `ops` those that `wanted` names and all that they depend on, in order.
pub fn take_with_dependencies(ops: &mut Vec<NameOp>, wanted: impl Fn(&NameOp) -> bool) -> Vec<NameOp> {
    let mut taken = vec![false; ops.len()];
    for at in (0..ops.len()).rev() {
        taken[at] |= wanted(&ops[at]);
        if taken[at] {
            for earlier in 0..at {
                taken[earlier] |= ops[at].depends_on(&ops[earlier]);
            }
        }
    }
    let mut taken_ops = Vec::new();
    let mut index = 0;
    ops.retain(|op| {
        index += 1;
        if taken[index - 1] {
            taken_ops.push(op.clone());
        }
        !taken[index - 1]
    });
    taken_ops
}

/// Of changes that are not durable, those that survive: each only with all that it depends on.
pub fn survivors(ops: Vec<NameOp>, mut keep: impl FnMut() -> bool) -> Vec<NameOp> {
    let (mut kept, mut lost): (Vec<NameOp>, Vec<NameOp>) = (Vec::new(), Vec::new());
    for op in ops {
        if keep() && !lost.iter().any(|earlier| op.depends_on(earlier)) {
            kept.push(op);
        } else {
            lost.push(op);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(dir: HomeIno, name: &str) -> Place {
        (dir, Name::new(name.as_bytes()))
    }

    fn make(dir: HomeIno, name: &str, ino: HomeIno, is_dir: bool) -> NameOp {
        NameOp::Make { at: place(dir, name), ino, is_dir }
    }

    #[test]
    fn paths_lead_to_inodes() {
        let mut names = Names::default();
        names.apply(&make(ROOT, "d", 2, true));
        names.apply(&make(2, "f", 3, false));
        assert_eq!(names.resolve(b"d/f"), Ok(3));
        assert_eq!(names.resolve(b""), Ok(ROOT));
        assert_eq!(names.resolve(b"d/g"), Err(Errno::ENOENT));
        assert_eq!(names.resolve(b"d/f/g"), Err(Errno::ENOTDIR));
        assert_eq!(names.resolve_parent(b"d/new"), Ok(place(2, "new")));
        assert!(names.is_below(2, ROOT) && !names.is_below(ROOT, 2));
    }

    #[test]
    fn a_synced_directory_brings_what_it_depends_on() {
        let mut ops = vec![make(ROOT, "d", 2, true), make(ROOT, "other", 3, false), make(2, "f", 4, false)];
        let taken = take_with_dependencies(&mut ops, |op| op.is_in(2));
        assert_eq!(taken.len(), 2);
        assert_eq!(ops.len(), 1);
    }

    #[test]
    fn a_lost_change_takes_its_followers_with_it() {
        let ops = vec![make(ROOT, "d", 2, true), make(2, "f", 4, false), make(ROOT, "g", 5, false)];
        let mut answers = [false, true, true].into_iter();
        let kept = survivors(ops, || answers.next().unwrap());
        assert_eq!(kept.len(), 1);
        assert!(kept[0].is_in(ROOT));
    }
}
