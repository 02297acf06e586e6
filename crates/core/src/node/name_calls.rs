//! Requests about names and attributes.

use alloc::vec::Vec;

use super::Node;
use crate::attr::{Attr, Caller, Kind};
use crate::entries::Entries;
use crate::errno::Errno;
use crate::id::{CallId, Ino, Name};
use crate::master::{Namespace, Need, Stop, TARGET_BYTES_MAX, check_name};
use crate::message::{RenameMode, Reply, Request};
use crate::record::Record;

/// Of a directory's handle, the bits that tell it from others of the same directory.
const HANDLE_BITS: u32 = 20;

impl Node {
    pub(super) fn name_call(&mut self, call: CallId, request: &Request) -> Result<(), Stop> {
        let reply = match request {
            Request::Lookup { parent, name } => return self.lookup(call, *parent, name),
            Request::Forget { ino, count } => self.forget(*ino, *count),
            Request::Depart => self.depart(),
            Request::GetAttr { ino } => Reply::Attr { attr: self.attr_of(*ino)? },
            Request::ReadLink { ino } => self.read_link(*ino)?,
            Request::Open { ino } => self.open(*ino)?,
            Request::Release { ino } => self.release(*ino),
            Request::OpenDir { ino } => self.open_dir(*ino)?,
            Request::ReadDir { handle, from, max } => self.read_dir(*handle, *from, *max)?,
            Request::ReadDirPlus { handle, from, max } => return self.read_dir_plus(call, *handle, *from, *max),
            Request::ReleaseDir { handle } => {
                self.dir_handles.remove(handle);
                Reply::Done
            }
            _ => return self.name_change(call, request),
        };
        self.reply(call, reply);
        Ok(())
    }

    fn name_change(&mut self, call: CallId, request: &Request) -> Result<(), Stop> {
        match request {
            Request::MakeNode { parent, name, kind, mode, rdev, caller } => {
                self.make(call, *parent, name, *kind, *mode, *rdev, None, *caller).map(|_| ())
            }
            Request::MakeDir { parent, name, mode, caller } => {
                self.make(call, *parent, name, Kind::Directory, *mode, 0, None, *caller).map(|_| ())
            }
            Request::SymLink { parent, name, target, caller } => {
                if target.as_bytes().len() > TARGET_BYTES_MAX {
                    return Err(Errno::ENAMETOOLONG.into());
                }
                self.make(call, *parent, name, Kind::Symlink, 0o777, 0, Some(target), *caller).map(|_| ())
            }
            Request::Create { parent, name, mode, exclusive, caller } => self.create(call, *parent, name, *mode, *exclusive, *caller),
            Request::Link { ino, parent, name } => self.link(call, *ino, *parent, name),
            Request::Unlink { parent, name } => self.unlink(call, *parent, name),
            Request::RemoveDir { parent, name } => self.remove_dir(call, *parent, name),
            Request::Rename { parent, name, new_parent, new_name, mode } => {
                self.rename(call, (*parent, name), (*new_parent, new_name), *mode)
            }
            _ => Err(Errno::ENOSYS.into()),
        }
    }

    /// Attributes as stat(2) shows them.
    pub(super) fn attr_of(&self, ino: Ino) -> Result<Attr, Stop> {
        let inode = self.names.loaded(ino)?;
        let mut attr = inode.attr;
        if attr.kind == Kind::File {
            // What home has, and what it will get. A program may take a file without blocks for a hole.
            attr.grew_at_home(self.io.files.get(&ino).map_or(0, |file| file.extents.dirty_bytes()));
        }
        Ok(attr)
    }

    fn lookup(&mut self, call: CallId, parent: Ino, name: &Name) -> Result<(), Stop> {
        let ino = self.names.occupant(parent, name)?.ok_or(Errno::ENOENT)?;
        let attr = self.attr_of(ino)?;
        let inode = self.names.inode_mut(ino)?;
        inode.lookups += 1;
        (inode.used, inode.pruned) = (true, false);
        self.note_and_reply(ino, call, Reply::Entry { ino, attr });
        Ok(())
    }

    fn forget(&mut self, ino: Ino, count: u64) -> Reply {
        if let Ok(inode) = self.names.inode_mut(ino) {
            inode.lookups = inode.lookups.saturating_sub(count);
        }
        self.drop_if_gone(ino);
        Reply::Done
    }

    /// Who asks is nobody's proxy any more, whatever it has given back.
    fn depart(&mut self) -> Reply {
        self.dir_handles.clear();
        let referred = self.names.inodes.iter().filter(|(_, inode)| inode.lookups > 0 || inode.opens > 0);
        for ino in referred.map(|(ino, _)| *ino).collect::<Vec<_>>() {
            if let Ok(inode) = self.names.inode_mut(ino) {
                (inode.lookups, inode.opens) = (0, 0);
            }
            self.closed(ino);
        }
        Reply::Done
    }

    fn read_link(&mut self, ino: Ino) -> Result<Reply, Stop> {
        let inode = self.names.loaded(ino)?;
        if inode.attr.kind != Kind::Symlink {
            return Err(Errno::EINVAL.into());
        }
        match &inode.target {
            Some(target) => Ok(Reply::Target { target: target.clone() }),
            None => Err(Stop::Need(Need::Target(ino))),
        }
    }

    fn open(&mut self, ino: Ino) -> Result<Reply, Stop> {
        let inode = self.names.loaded(ino)?;
        if inode.attr.kind == Kind::Directory {
            return Err(Errno::EISDIR.into());
        }
        if !inode.is_reachable() {
            // The last name is gone, and its bytes with it.
            return Err(Errno::ESTALE.into());
        }
        self.names.inode_mut(ino)?.opens += 1;
        Ok(Reply::Done)
    }

    fn release(&mut self, ino: Ino) -> Reply {
        if let Ok(inode) = self.names.inode_mut(ino) {
            inode.opens = inode.opens.saturating_sub(1);
        }
        self.closed(ino);
        Reply::Done
    }

    fn closed(&mut self, ino: Ino) {
        self.drop_if_unreachable(ino);
        if self.names.inodes.get(&ino).is_some_and(|i| !i.is_reachable() && !i.home_names.is_empty()) {
            // It stood aside at home for this handle; now its name there can go.
            self.home.scan_again_from(self.names.first_divergent_at_home(ino));
        }
    }

    fn open_dir(&mut self, ino: Ino) -> Result<Reply, Stop> {
        self.names.loaded_dir(ino)?;
        // Should the process die, the handle still says which directory it is of.
        let handle = loop {
            let handle = ino.0 << HANDLE_BITS | self.next_handle & ((1 << HANDLE_BITS) - 1);
            self.next_handle += 1;
            if !self.dir_handles.contains_key(&handle) {
                break handle;
            }
        };
        self.dir_handles.insert(handle, (ino, None));
        Ok(Reply::DirOpened { handle })
    }

    fn read_dir(&mut self, handle: u64, from: u64, max: u32) -> Result<Reply, Stop> {
        let known = self.dir_handles.get(&handle);
        if from == 0 || known.is_none_or(|(_, snapshot)| snapshot.is_none()) {
            // One that is not known was given by a process that is dead: the directory is looked at anew, and gone on with.
            let ino = known.map_or(Ino(handle >> HANDLE_BITS), |(ino, _)| *ino);
            if known.is_none() {
                self.names.loaded(ino)?.dir.as_ref().ok_or(Errno::EINVAL)?;
            }
            let entries = match self.dir_entries(ino) {
                Err(Stop::Need(need)) => return Err(Stop::Need(need)),
                // A removed directory that is still open has no entries.
                entries => entries.unwrap_or_default(),
            };
            self.dir_handles.insert(handle, (ino, Some(entries)));
        }
        let entries = self.dir_handles.get(&handle).and_then(|(_, snapshot)| snapshot.as_ref());
        let entries = entries.into_iter().flat_map(|entries| entries.behind(from)).take(max as usize);
        Ok(Reply::Entries { entries: entries.map(Namespace::dir_entry).collect() })
    }

    fn read_dir_plus(&mut self, call: CallId, handle: u64, from: u64, max: u32) -> Result<(), Stop> {
        let Reply::Entries { entries } = self.read_dir(handle, from, max)? else { return Err(Errno::EINVAL.into()) };
        let (parent, _) = self.dir_handles[&handle];
        let mut with_attr = Vec::with_capacity(entries.len());
        let mut note = None;
        for entry in entries {
            // An entry of the snapshot may be gone, or another one by now.
            let is_there = self.names.slot(parent, &entry.name).current == Some(entry.ino);
            let attr = match self.attr_of(entry.ino) {
                Ok(attr) if is_there => Some(attr),
                Err(Stop::Need(need)) if is_there => {
                    self.expect_need(need);
                    None
                }
                _ => None,
            };
            if attr.is_some() {
                self.names.inode_mut(entry.ino)?.lookups += 1;
                if let Some(record) = self.note(entry.ino)
                    && let Some(before) = note.replace(record)
                {
                    self.record(before);
                }
            }
            with_attr.push((entry, attr));
        }
        let reply = Reply::EntriesPlus { entries: with_attr };
        match note {
            Some(record) => self.record_note(record, call, reply),
            None => self.reply(call, reply),
        }
        Ok(())
    }

    /// What the application sees in a directory. Names that are hidden are taken from a listing of home that was made for this.
    fn dir_entries(&self, ino: Ino) -> Result<Entries, Stop> {
        let dir = self.names.loaded_dir(ino)?;
        let listing = self.fresh_listing.as_ref().filter(|(of, _)| *of == ino).map(|(_, listing)| listing);
        if !dir.hidden.is_empty() && listing.is_none() {
            return Err(Stop::Need(Need::Dir(ino)));
        }
        let mut entries = Entries::default();
        for (name, ino) in dir.slots.iter().filter_map(|(name, slot)| Some((name, slot.current?))) {
            if let Some(inode) = self.names.inodes.get(&ino) {
                entries.push(name.as_bytes(), inode.attr.kind, Some(ino));
            }
        }
        let hidden = listing.into_iter().flat_map(Entries::iter).filter(|entry| dir.hides(entry.name));
        hidden.for_each(|entry| entries.push(entry.name, entry.kind, None));
        Ok(entries.in_order())
    }

    #[allow(clippy::too_many_arguments)] // The fields of one request, and no subset of them means anything.
    fn make(
        &mut self,
        call: CallId,
        parent: Ino,
        name: &Name,
        kind: Kind,
        mode: u16,
        rdev: u32,
        target: Option<&Name>,
        caller: Caller,
    ) -> Result<Ino, Stop> {
        let ino = self.make_inode(parent, name, kind, mode, rdev, target, caller)?;
        let attr = self.attr_of(ino)?;
        self.record_entry(parent, name, Some(ino), call, Reply::Entry { ino, attr });
        Ok(ino)
    }

    #[allow(clippy::too_many_arguments)]
    fn make_inode(
        &mut self,
        parent: Ino,
        name: &Name,
        kind: Kind,
        mode: u16,
        rdev: u32,
        target: Option<&Name>,
        caller: Caller,
    ) -> Result<Ino, Stop> {
        self.names.vacant(parent, name)?;
        let mut attr = self.names.new_attr(parent, kind, mode & 0o7777, caller, self.now)?;
        attr.rdev = rdev;
        attr.size = target.map_or(0, |t| t.as_bytes().len() as u64);
        self.ensure_journaled(parent);
        let ino = self.names.allocate_ino();
        self.names.insert_new(ino, attr, target.cloned());
        self.record_inode(ino);
        self.names.attach(parent, name, ino, self.now);
        self.names.inode_mut(ino)?.lookups += 1;
        if kind != Kind::Directory {
            self.home.note_dirty(ino);
        }
        Ok(ino)
    }

    fn create(&mut self, call: CallId, parent: Ino, name: &Name, mode: u16, exclusive: bool, caller: Caller) -> Result<(), Stop> {
        if let Some(ino) = self.names.occupant(parent, name)? {
            if exclusive {
                return Err(Errno::EEXIST.into());
            }
            let attr = self.attr_of(ino)?;
            if attr.kind == Kind::Directory {
                return Err(Errno::EISDIR.into());
            }
            let inode = self.names.inode_mut(ino)?;
            inode.lookups += 1;
            inode.opens += 1;
            self.note_and_reply(ino, call, Reply::Created { ino, attr });
            return Ok(());
        }
        let ino = self.make_inode(parent, name, Kind::File, mode, 0, None, caller)?;
        self.names.inode_mut(ino)?.opens += 1;
        let attr = self.attr_of(ino)?;
        self.record_entry(parent, name, Some(ino), call, Reply::Created { ino, attr });
        Ok(())
    }

    fn record_entry(&mut self, parent: Ino, name: &Name, ino: Option<Ino>, call: CallId, reply: Reply) {
        let time_ns = self.now.as_nanos() as i64;
        self.record_and_reply(Record::Entry { parent, name: name.clone(), ino, time_ns }, call, reply);
    }

    fn link(&mut self, call: CallId, ino: Ino, parent: Ino, name: &Name) -> Result<(), Stop> {
        let inode = self.names.loaded(ino)?;
        if inode.attr.kind == Kind::Directory {
            return Err(Errno::EPERM.into());
        }
        if !inode.has_name() {
            return Err(Errno::ENOENT.into());
        }
        self.names.vacant(parent, name)?;
        self.ensure_journaled(ino);
        self.ensure_journaled(parent);
        self.names.attach(parent, name, ino, self.now);
        self.names.inode_mut(ino)?.lookups += 1;
        let attr = self.attr_of(ino)?;
        self.record_entry(parent, name, Some(ino), call, Reply::Entry { ino, attr });
        Ok(())
    }

    fn unlink(&mut self, call: CallId, parent: Ino, name: &Name) -> Result<(), Stop> {
        let ino = self.names.occupant(parent, name)?.ok_or(Errno::ENOENT)?;
        let inode = self.names.loaded(ino)?;
        if inode.attr.kind == Kind::Directory {
            return Err(Errno::EISDIR.into());
        }
        self.take_name(call, parent, name, ino);
        Ok(())
    }

    fn remove_dir(&mut self, call: CallId, parent: Ino, name: &Name) -> Result<(), Stop> {
        let ino = self.names.occupant(parent, name)?.ok_or(Errno::ENOENT)?;
        if !self.names.loaded_dir(ino)?.is_empty() {
            return Err(Errno::ENOTEMPTY.into());
        }
        self.take_name(call, parent, name, ino);
        Ok(())
    }

    fn take_name(&mut self, call: CallId, parent: Ino, name: &Name, ino: Ino) {
        self.ensure_journaled(ino);
        self.ensure_journaled(parent);
        self.names.detach(parent, name, self.now);
        self.record_entry(parent, name, None, call, Reply::Done);
        self.drop_if_unreachable(ino);
    }

    fn rename(&mut self, call: CallId, from: (Ino, &Name), to: (Ino, &Name), mode: RenameMode) -> Result<(), Stop> {
        let moved = self.names.occupant(from.0, from.1)?.ok_or(Errno::ENOENT)?;
        check_name(to.1)?;
        let target = self.names.occupant(to.0, to.1)?;
        self.names.alive_dir(to.0)?;
        let moved_is_dir = self.names.loaded(moved)?.dir.is_some();
        if moved_is_dir && self.names.is_below(to.0, moved) {
            return Err(Errno::EINVAL.into());
        }
        if target != Some(moved) || mode == RenameMode::NoReplace {
            self.check_rename_target(from.0, moved_is_dir, target, mode)?;
        } else {
            self.reply(call, Reply::Done);
            return Ok(());
        }
        for ino in [Some(moved), target, Some(from.0), Some(to.0)].into_iter().flatten() {
            self.ensure_journaled(ino);
        }
        let exchange = mode == RenameMode::Exchange;
        self.names.rename(from, to, exchange, self.now);
        let record = Record::Rename {
            parent: from.0,
            name: from.1.clone(),
            new_parent: to.0,
            new_name: to.1.clone(),
            exchange,
            time_ns: self.now.as_nanos() as i64,
        };
        self.record_and_reply(record, call, Reply::Done);
        if let (Some(target), false) = (target, exchange) {
            self.drop_if_unreachable(target);
        }
        Ok(())
    }

    fn check_rename_target(&self, from_parent: Ino, moved_is_dir: bool, target: Option<Ino>, mode: RenameMode) -> Result<(), Stop> {
        let Some(target) = target else {
            return if mode == RenameMode::Exchange { Err(Errno::ENOENT.into()) } else { Ok(()) };
        };
        let target_is_dir = self.names.loaded(target)?.dir.is_some();
        match mode {
            RenameMode::NoReplace => Err(Errno::EEXIST.into()),
            RenameMode::Exchange if target_is_dir && self.names.is_below(from_parent, target) => Err(Errno::EINVAL.into()),
            RenameMode::Exchange => Ok(()),
            RenameMode::Replace if moved_is_dir && !target_is_dir => Err(Errno::ENOTDIR.into()),
            RenameMode::Replace if !moved_is_dir && target_is_dir => Err(Errno::EISDIR.into()),
            RenameMode::Replace if target_is_dir && !self.names.loaded_dir(target)?.is_empty() => Err(Errno::ENOTEMPTY.into()),
            RenameMode::Replace => Ok(()),
        }
    }

    /// A file without a name and an open handle: its bytes are of no use to anybody.
    pub(super) fn drop_if_unreachable(&mut self, ino: Ino) {
        // The root has no name, and is not to be dropped for it.
        if ino == Ino::ROOT || self.names.inodes.get(&ino).is_none_or(|i| i.is_reachable()) {
            return;
        }
        if self.io.files.contains_key(&ino) {
            self.io.remove(ino, 0..u64::MAX);
            self.io.change_holes(ino, |holes| *holes = Default::default());
            self.swapping_ends(ino);
            if let Some(file) = self.io.files.get_mut(&ino) {
                file.spoil_fetches(&(0..u64::MAX));
                file.epoch += 1;
                file.dirty_since = None;
            }
        }
        self.names.attr_dirty.remove(&ino);
        self.drop_if_gone(ino);
    }

    /// An inode that nothing refers to any more, here or at home, leaves the tables.
    pub(super) fn drop_if_gone(&mut self, ino: Ino) {
        let under_way = self.io.files.get(&ino).is_some_and(|f| !f.is_quiet() || !f.fetches.is_empty());
        if !self.names.is_gone(ino) || under_way || self.home.is_used(ino) {
            return;
        }
        self.io.files.remove(&ino);
        self.home.forget(ino);
        if self.names.inodes.get(&ino).is_some_and(|i| i.journaled || i.noted) {
            self.record(Record::InodeGone { ino });
        }
        self.names.remove_inode(ino);
        self.emit(crate::effect::Effect::ForgetHome { ino });
    }
}
