//! Changes of names and attributes of the simulated home.

use forebay_core::attr::Kind;
use forebay_core::effect::HomeChange;
use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Name};
use forebay_core::time::Time;

use super::names::{HomeIno, NameOp, Place};
use super::{Home, HomeInode, HomeMeta};

impl Home {
    /// Carries out a change.
    ///
    /// # Errors
    /// As the system call of its name.
    pub fn change(&mut self, change: &HomeChange, now: Time) -> Result<(), Errno> {
        match change {
            HomeChange::MakeFile { path } => {
                // One that is there already is taken over, empty.
                match self.names.resolve(path.as_bytes()) {
                    Ok(ino) if self.inodes[&ino].kind == Kind::File => {
                        self.breach(format!("{path:?} was made at home, where it was already"));
                        self.cut(ino, 0, now);
                        Ok(())
                    }
                    Ok(_) => Err(Errno::EEXIST),
                    Err(_) => self.make(path, Kind::File, 0o600, now).map(drop),
                }
            }
            HomeChange::MakeDir { path } => match self.names.resolve(path.as_bytes()) {
                Ok(ino) if self.inodes[&ino].kind == Kind::Directory => Ok(()),
                Ok(_) => Err(Errno::EEXIST),
                Err(_) => self.make(path, Kind::Directory, 0o700, now).map(drop),
            },
            HomeChange::SymLink { path, target } => self.make_sym_link(path, target, now),
            HomeChange::MakeNode { path, kind, rdev } => match self.names.resolve(path.as_bytes()) {
                Ok(ino) if self.inodes[&ino].kind == *kind => Ok(()),
                Ok(_) => Err(Errno::EEXIST),
                Err(_) => {
                    let ino = self.make(path, *kind, 0o600, now)?;
                    self.inodes.get_mut(&ino).expect("it was made").rdev = *rdev;
                    Ok(())
                }
            },
            HomeChange::Link { from, to } => self.link(from, to, now),
            HomeChange::Unlink { path } => {
                let Some((at, ino)) = self.occupant(path)? else { return Ok(()) };
                if self.inodes[&ino].kind == Kind::Directory {
                    return Err(Errno::EISDIR);
                }
                self.carry_out(NameOp::Remove { at, ino, is_dir: false }, now);
                Ok(())
            }
            HomeChange::RemoveDir { path } => {
                let Some((at, ino)) = self.occupant(path)? else { return Ok(()) };
                let entries = self.names.dirs.get(&ino).ok_or(Errno::ENOTDIR)?;
                if !entries.is_empty() {
                    return Err(Errno::ENOTEMPTY);
                }
                self.carry_out(NameOp::Remove { at, ino, is_dir: true }, now);
                Ok(())
            }
            HomeChange::Rename { from, to, again } => self.rename(from, to, *again, now),
            HomeChange::Truncate { .. } => self.truncate(change, now),
            HomeChange::Punch { .. } => self.punch(change, now),
            HomeChange::SetAttr { .. } => self.set_attr(change),
        }
    }

    /// Makes an inode of this kind, which must not be there.
    ///
    /// # Errors
    /// As mknod(2).
    pub fn make(&mut self, path: &HomePath, kind: Kind, mode: u16, now: Time) -> Result<HomeIno, Errno> {
        let at = self.names.resolve_parent(path.as_bytes())?;
        if self.names.get(&at).is_some() {
            return Err(Errno::EEXIST);
        }
        let ino = self.new_ino();
        let time_ns = now.as_nanos() as i64;
        let meta = HomeMeta { mode, uid: self.owner.0, gid: self.owner.1, atime_ns: time_ns, mtime_ns: time_ns };
        self.inodes.insert(ino, HomeInode::new(kind, meta));
        self.carry_out(NameOp::Make { at, ino, is_dir: kind == Kind::Directory }, now);
        Ok(ino)
    }

    fn make_sym_link(&mut self, path: &HomePath, target: &Name, now: Time) -> Result<(), Errno> {
        if let Ok(ino) = self.names.resolve(path.as_bytes()) {
            return if self.inodes[&ino].target.as_ref() == Some(target) { Ok(()) } else { Err(Errno::EEXIST) };
        }
        let ino = self.make(path, Kind::Symlink, 0o777, now)?;
        self.inodes.get_mut(&ino).expect("it was made").target = Some(target.clone());
        Ok(())
    }

    fn link(&mut self, from: &HomePath, to: &HomePath, now: Time) -> Result<(), Errno> {
        let ino = self.names.resolve(from.as_bytes())?;
        if self.inodes[&ino].kind == Kind::Directory {
            return Err(Errno::EPERM);
        }
        let at = self.names.resolve_parent(to.as_bytes())?;
        match self.names.get(&at) {
            Some(there) if there == ino => Ok(()),
            Some(_) => Err(Errno::EEXIST),
            None => {
                self.carry_out(NameOp::Link { at, ino }, now);
                Ok(())
            }
        }
    }

    /// What is to be removed; nothing if it is gone already, which counts as done.
    fn occupant(&mut self, path: &HomePath) -> Result<Option<(Place, HomeIno)>, Errno> {
        let at = match self.names.resolve_parent(path.as_bytes()) {
            Err(Errno::ENOENT) => None,
            result => Some(result?),
        };
        let found = at.and_then(|at| self.names.get(&at).map(|ino| (at, ino)));
        if found.is_none() {
            self.breach(format!("{path:?} was removed from home, where it was not"));
        }
        Ok(found)
    }

    fn rename(&mut self, from: &HomePath, to: &HomePath, again: bool, now: Time) -> Result<(), Errno> {
        let to_place = self.names.resolve_parent(to.as_bytes())?;
        let replaced = self.names.get(&to_place);
        let from_place = self.names.resolve_parent(from.as_bytes())?;
        let Some(ino) = self.names.get(&from_place) else {
            return if again && replaced.is_some() { Ok(()) } else { Err(Errno::ENOENT) };
        };
        if replaced == Some(ino) {
            // rename(2) between two names of one inode does nothing, and says nothing.
            self.breach(format!("home inode {ino} was renamed from {from:?} to {to:?}, which is itself"));
            return Ok(());
        }
        let is_dir = self.inodes[&ino].kind == Kind::Directory;
        if is_dir && self.names.is_below(to_place.0, ino) {
            return Err(Errno::EINVAL);
        }
        if let Some(replaced) = replaced {
            match (is_dir, self.names.dirs.get(&replaced)) {
                (true, None) => return Err(Errno::ENOTDIR),
                (false, Some(_)) => return Err(Errno::EISDIR),
                (true, Some(entries)) if !entries.is_empty() => return Err(Errno::ENOTEMPTY),
                _ => {}
            }
        }
        self.carry_out(NameOp::Rename { from: from_place, to: to_place, ino, replaced, is_dir }, now);
        Ok(())
    }

    fn set_attr(&mut self, change: &HomeChange) -> Result<(), Errno> {
        let HomeChange::SetAttr { path, kind, mode, uid, gid, atime_ns, mtime_ns, xattrs } = change else { return Err(Errno::EINVAL) };
        let ino = self.names.resolve(path.as_bytes())?;
        let inode = self.inodes.get_mut(&ino).expect("a name has an inode");
        if inode.kind != *kind {
            return Err(Errno::ESTALE);
        }
        if let Some(xattrs) = xattrs {
            inode.xattrs = xattrs.iter().map(|xattr| (xattr.name.clone(), xattr.value.clone())).collect();
        }
        let mode = if *kind == Kind::Symlink { 0o777 } else { *mode };
        inode.meta = HomeMeta { mode, uid: *uid, gid: *gid, atime_ns: *atime_ns, mtime_ns: *mtime_ns };
        Ok(())
    }

    fn carry_out(&mut self, op: NameOp, now: Time) {
        self.names.apply(&op);
        let dirs: Vec<HomeIno> = self.names.dirs.keys().copied().filter(|dir| op.is_in(*dir)).collect();
        for dir in dirs {
            self.touch_dir(dir, now);
        }
        self.undurable.push(op);
    }
}
