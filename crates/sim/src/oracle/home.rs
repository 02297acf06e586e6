//! Home against the oracle: what must stand there after a drain.

use std::collections::BTreeMap;

use forebay_core::attr::Kind;
use forebay_core::id::{Ino, Name};

use super::Oracle;
use super::state::{Body, Inode, ModelIno, State};
use crate::home::names::{HomeIno, ROOT};
use crate::home::{Home, HomeInode};

impl Oracle {
    /// Whether home holds what one of the possible worlds holds: names, kinds, bytes, sizes, modes, owners, times, targets, hard links.
    ///
    /// # Errors
    /// Says what differs.
    pub fn check_home(&self, home: &Home) -> Result<(), String> {
        let mut reason = "no world is possible".to_owned();
        for world in &self.worlds {
            match world.state.check_home(home) {
                Ok(()) => return Ok(()),
                Err(what) => reason = what,
            }
        }
        Err(reason)
    }
}

impl Oracle {
    /// Whether one inode stands at home as in one of the possible worlds, durable and compared, under all its names and no other. Of a
    /// directory, names, mode and owner count. One that is gone must be gone.
    ///
    /// # Errors
    /// Says what differs.
    pub fn check_brought_home(&self, ino: Ino, home: &Home) -> Result<(), String> {
        let mut reason = "no world is possible".to_owned();
        for world in &self.worlds {
            match world.state.check_one(ino, home) {
                Ok(()) => return Ok(()),
                Err(what) => reason = what,
            }
        }
        Err(reason)
    }

    /// Whether an inode has no name in one of the possible worlds.
    pub fn may_be_gone(&self, ino: Ino) -> bool {
        self.worlds.iter().any(|world| world.state.resolve(ino).map_or(true, |model| world.state.inode(model).nlink == 0))
    }
}

impl State {
    fn check_one(&self, ino: Ino, home: &Home) -> Result<(), String> {
        let model = self.resolve(ino).map_err(|_| "it is not known".to_owned())?;
        let inode = self.inode(model);
        let mut names = 0;
        let mut stack = vec![(String::new(), ModelIno::ROOT)];
        while let Some((path, at)) = stack.pop() {
            for (name, child) in self.inode(at).dir().into_iter().flatten() {
                let name = String::from_utf8_lossy(name.as_bytes());
                stack.push((if path.is_empty() { name.into() } else { format!("{path}/{name}") }, *child));
            }
            if at != model || at == ModelIno::ROOT {
                continue;
            }
            names += 1;
            let (there, open) = home.look(&path)?;
            let meta = &home.inodes[&there].meta;
            if inode.dir().is_some() && (meta.mode, meta.uid, meta.gid) != (inode.mode, inode.uid, inode.gid) {
                return Err(format!(
                    "/{path} at home: its attributes are {meta:?}, expected were mode {:o}, {}:{}",
                    inode.mode, inode.uid, inode.gid
                ));
            }
            if inode.dir().is_none() {
                check_inode(inode, &home.inodes[&there]).map_err(|what| format!("/{path} at home: {what}"))?;
                if home.names.link_count(there) != inode.nlink || !open.is_empty() {
                    return Err(format!("/{path} at home has {} names, and {open:?}", home.names.link_count(there)));
                }
            }
        }
        if names == 0 && model != ModelIno::ROOT { Err(format!("{ino:?} has no name")) } else { Ok(()) }
    }

    fn check_home(&self, home: &Home) -> Result<(), String> {
        let mut links: BTreeMap<ModelIno, HomeIno> = BTreeMap::new();
        let mut stack = vec![(String::new(), ModelIno::ROOT, ROOT)];
        while let Some((path, model, at_home)) = stack.pop() {
            if *links.entry(model).or_insert(at_home) != at_home {
                return Err(format!("/{path} is not the same file at home as its other names are"));
            }
            let (inode, there) = (self.inode(model), &home.inodes[&at_home]);
            check_inode(inode, there).map_err(|what| format!("/{path} at home: {what}"))?;
            let Some(entries) = inode.dir() else {
                if home.names.link_count(at_home) != inode.nlink {
                    return Err(format!("/{path} has {} names at home, expected were {}", home.names.link_count(at_home), inode.nlink));
                }
                continue;
            };
            // Files that are open without a name may stand aside in the root until their last close, and only they.
            let aside = |name: &Name| at_home == ROOT && name.as_bytes().starts_with(b".forebay-orphan-");
            let all_there = &home.names.dirs[&at_home];
            let entries_there: BTreeMap<_, _> = all_there.iter().filter(|(name, _)| !aside(name)).collect();
            let nameless = self.inodes.values().filter(|inode| inode.nlink == 0 && inode.opens > 0).count();
            if !entries.keys().eq(entries_there.keys().copied()) || all_there.len() - entries_there.len() > nameless {
                return Err(format!("/{path} holds {:?} at home, expected was {:?}", all_there.keys(), entries.keys()));
            }
            for ((name, child), child_there) in entries.iter().zip(entries_there.values().copied()) {
                stack.push((format!("{path}/{}", String::from_utf8_lossy(name.as_bytes())), *child, *child_there));
            }
        }
        Ok(())
    }
}

fn check_inode(inode: &Inode, there: &HomeInode) -> Result<(), String> {
    let expected = (inode.kind, inode.uid, inode.gid);
    if expected != (there.kind, there.meta.uid, there.meta.gid) {
        return Err(format!("it is {:?}, expected was {expected:?}", (there.kind, there.meta.uid, there.meta.gid)));
    }
    if inode.kind != Kind::Symlink && inode.mode != there.meta.mode {
        return Err(format!("its mode is {:o}, expected was {:o}", there.meta.mode, inode.mode));
    }
    if !inode.mtime.contains(there.meta.mtime_ns) {
        return Err(format!("its mtime is {}, expected was one of {:?}", there.meta.mtime_ns, inode.mtime.0));
    }
    if inode.xattrs != there.xattrs {
        return Err(format!("its extended attributes are {:?}, expected were {:?}", there.xattrs, inode.xattrs));
    }
    match &inode.body {
        Body::File(data) => {
            if !(data.size..=data.size_max).contains(&there.size) {
                return Err(format!("its size is {}, expected was {}", there.size, data.size));
            }
            let bytes = there.bytes.slice(0, there.size as usize);
            match data.first_wrong(0, &bytes) {
                Some(at) => Err(format!(
                    "byte {at} of {} is {:02x?}, expected was {:02x?}",
                    there.size,
                    there.bytes.slice(at, 8),
                    data.bytes.slice(at, 8)
                )),
                None => Ok(()),
            }
        }
        Body::Symlink(target) if there.target.as_ref() != Some(target) => {
            Err(format!("its target is {:?}, expected was {target:?}", there.target))
        }
        Body::Node(rdev) if there.rdev != *rdev => Err(format!("its device number is {}, expected was {rdev}", there.rdev)),
        _ => Ok(()),
    }
}

/// The state that the application finds at home at the start.
pub fn state_of(home: &Home) -> State {
    let mut inodes: BTreeMap<ModelIno, std::rc::Rc<Inode>> = BTreeMap::new();
    let model = |ino: HomeIno| if ino == ROOT { ModelIno::ROOT } else { ModelIno((1 << 40) + ino) };
    for (ino, there) in &home.inodes {
        let body = match there.kind {
            Kind::File => Body::File(super::state::FileData::of(there.bytes.clone(), there.size)),
            Kind::Directory => Body::Dir(home.names.dirs[ino].iter().map(|(name, child)| (name.clone(), model(*child))).collect()),
            Kind::Symlink => Body::Symlink(there.target.clone().expect("a symlink has a target")),
            _ => Body::Node(there.rdev),
        };
        let nlink = if there.kind == Kind::Directory { 2 } else { home.names.link_count(*ino) };
        inodes.insert(
            model(*ino),
            std::rc::Rc::new(Inode {
                kind: there.kind,
                mode: there.meta.mode,
                uid: there.meta.uid,
                gid: there.meta.gid,
                nlink,
                mtime: super::state::TimeSpan::exactly(there.meta.mtime_ns),
                opens: 0,
                xattrs: there.xattrs.clone(),
                body,
            }),
        );
    }
    let mut state = State::new(0o755, (0, 0));
    state.inodes = inodes;
    state
}
