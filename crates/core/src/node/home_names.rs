//! Names on their way home: see [`crate::master::SlotAction`] for what is to be done about one.

use alloc::vec::Vec;

use super::home_settle::{Applied, Subject};
use super::{Node, Pending};
use crate::attr::Kind;
use crate::effect::{Effect, HomeChange, Outcome};
use crate::errno::Errno;
use crate::id::{HomePath, Ino, Name};
use crate::master::{SlotAction, orphan_name};
use crate::message::DrainStep;
use crate::record::Record;

/// Names looked at in one go.
const SCAN_MAX: usize = 64;

/// A change of names at home.
#[derive(Debug)]
pub(super) struct ChangeJob {
    ino: Ino,
    /// The names involved, with the occupant that each will have at home.
    slots: Vec<(Ino, Name, Option<Ino>)>,
    /// Paths are in motion until it settles.
    is_dir_move: bool,
    is_removal: bool,
    /// Directories whose entries change, at home.
    directories: Vec<HomePath>,
}

impl Node {
    /// Looks through the divergent names for changes that can start.
    pub(super) fn start_changes(&mut self) {
        let urgent = self.is_home_urgent();
        if self.home.names_due.is_none() && self.home.scan_from.is_none() && self.is_write_back_async() {
            // A name that no look has come to is due when it has rested, which without a delay is at once.
            let newest = self.names.divergent.last_key_value().map(|(at, (_, _, since))| (*at, *since + self.config.write_back_delay_ns));
            self.home.names_due = newest.filter(|(at, due)| *at >= self.home.names_seen || *due > self.now).map(|(_, due)| due);
        }
        if self.home.names_due.is_some_and(|due| due <= self.now) || (urgent && self.home.names_due.is_some()) {
            self.home.names_due = None;
            self.home.scan_from = Some(0);
        } else if self.home.scan_from.is_none() && !self.home.wanted_chunks.is_empty() {
            // With synchronous write-back names do not become due; but a victim's bytes cannot go home before its name.
            self.home.scan_from = Some(0);
        }
        for _ in 0..SCAN_MAX {
            let Some(from) = self.home.scan_from else { return };
            if self.home.changes_in_flight >= self.config.home_changes_max {
                return;
            }
            let Some((&at, (parent, name, since))) = self.names.divergent.range(from..).next() else {
                self.home.scan_from = None;
                return;
            };
            let due = *since + self.config.write_back_delay_ns;
            if !urgent && (!self.is_write_back_async() || due > self.now) {
                self.home.scan_from = None;
                self.home.names_due = self.is_write_back_async().then_some(due);
                return;
            }
            self.home.scan_from = Some(at + 1);
            self.home.names_seen = self.home.names_seen.max(at + 1);
            let (parent, name) = (*parent, name.clone());
            match self.rests(&Subject::Name(parent, name.clone())) {
                None => {
                    let action = self.names.slot_action(parent, &name);
                    self.start_change(parent, name, action);
                }
                Some(at) if at.0 != u64::MAX => {
                    self.home.names_due = Some(self.home.names_due.map_or(at, |due| due.min(at)));
                }
                Some(_) => {}
            }
        }
    }

    /// Starts one change; false if it must wait.
    fn start_change(&mut self, parent: Ino, name: Name, action: SlotAction) -> bool {
        let ino = match &action {
            SlotAction::Settled | SlotAction::Blocked => return false,
            SlotAction::Make { ino } | SlotAction::Link { ino } | SlotAction::Remove { ino } | SlotAction::Move { ino, .. } => *ino,
        };
        let is_dir = self.names.inodes[&ino].dir.is_some();
        let moves = matches!(action, SlotAction::Move { .. });
        let takes_name = moves || matches!(action, SlotAction::Remove { .. });
        if takes_name && !is_dir && !self.is_file_at_rest(ino) {
            return false;
        }
        if let SlotAction::Move { to, .. } = &action {
            // Nothing may be under way to what the rename replaces: it would reach what stands there then.
            if self.names.slot(to.0, &to.1).home.is_some_and(|replaced| !self.is_file_at_rest(replaced)) {
                return false;
            }
        }
        let removes = matches!(action, SlotAction::Remove { .. });
        if removes && self.names.inodes[&ino].has_hidden_names() && self.is_unsettled(ino) {
            // The file lives on under names that nobody has seen: its bytes go home while this one still leads to it.
            self.home.note_dirty(ino);
            return false;
        }
        let is_dir_move = moves && is_dir;
        if is_dir_move {
            // Every path below it changes: nothing else may use a path meanwhile.
            self.home.barred = true;
            if !self.home.is_quiet() {
                self.home.scan_from = None;
                return false;
            }
        } else if self.home.barred {
            return false;
        }
        let Some((change, slots)) = self.plan_change(parent, &name, &action) else {
            if is_dir_move {
                self.unbar();
            }
            return false;
        };
        let aside = orphan_name(ino);
        if slots.iter().any(|(parent, name, to)| *parent == Ino::ROOT && *name == aside && to.is_some()) {
            // Should we not live to see it done, the name is removed by the next recovery.
            self.ensure_journaled(ino);
            self.record(Record::HomeEntry { parent: Ino::ROOT, name: aside, ino: Some(ino) });
        }
        let directories = slots.iter().filter_map(|(parent, _, _)| self.names.home_path(*parent)).collect();
        for (parent, name, _) in &slots {
            self.names.set_busy(*parent, name, true);
        }
        if let Ok(inode) = self.names.inode_mut(ino) {
            inode.busy = true;
        }
        self.home.enter(ino);
        self.home.changes_in_flight += 1;
        let is_removal = matches!(action, SlotAction::Remove { .. });
        let token = self.expect(Pending::Change(ChangeJob { ino, slots, is_dir_move, is_removal, directories }));
        self.emit(Effect::ChangeHome { token, change });
        true
    }

    /// Something of the file is not home yet.
    fn is_unsettled(&self, ino: Ino) -> bool {
        let size = self.names.inodes.get(&ino).map_or(0, |i| i.attr.size);
        let data = |f: &crate::io_node::FileData| f.extents.dirty_bytes() > 0 || !f.is_quiet() || f.home_junk || f.home_end != size;
        self.names.attr_dirty.contains(&ino) || self.io.files.get(&ino).is_some_and(|f| f.home_known && data(f))
    }

    /// Puts a file that has no name and is still open under a name of ours at home, so that its bytes can be swapped out.
    pub(super) fn make_orphan_at_home(&mut self, ino: Ino) {
        let name = orphan_name(ino);
        let wanted = self.names.inodes.get(&ino).is_some_and(|i| i.is_orphan() && i.home_names.is_empty() && !i.busy);
        let free = !self.names.slot(Ino::ROOT, &name).busy && self.home.changes_in_flight < self.config.home_changes_max;
        if wanted && free && self.rests(&Subject::Name(Ino::ROOT, name.clone())).is_none() {
            self.start_change(Ino::ROOT, name, SlotAction::Make { ino });
        }
    }

    /// Nothing of the file is under way at home, so that its name may be taken from it.
    fn is_file_at_rest(&self, ino: Ino) -> bool {
        !self.home.is_used(ino) && self.io.files.get(&ino).is_none_or(|f| f.transfers.is_empty() && !f.cutting && !f.setting_attr)
    }

    #[allow(clippy::type_complexity)] // A change and the slots it settles; nobody else needs the pair.
    fn plan_change(&self, parent: Ino, name: &Name, action: &SlotAction) -> Option<(HomeChange, Vec<(Ino, Name, Option<Ino>)>)> {
        let path = self.names.home_child(parent, name)?;
        let here = |ino: Option<Ino>| (parent, name.clone(), ino);
        Some(match action {
            SlotAction::Settled | SlotAction::Blocked => return None,
            SlotAction::Make { ino } => {
                let inode = &self.names.inodes[ino];
                let change = match inode.attr.kind {
                    Kind::File => HomeChange::MakeFile { path },
                    Kind::Directory => HomeChange::MakeDir { path },
                    Kind::Symlink => HomeChange::SymLink { path, target: inode.target.clone()? },
                    kind => HomeChange::MakeNode { path, kind, rdev: inode.attr.rdev },
                };
                (change, Vec::from([here(Some(*ino))]))
            }
            SlotAction::Link { ino } => (HomeChange::Link { from: self.names.home_path(*ino)?, to: path }, Vec::from([here(Some(*ino))])),
            SlotAction::Remove { ino } => {
                let inode = &self.names.inodes[ino];
                let change = match inode.attr.kind {
                    Kind::Directory => HomeChange::RemoveDir { path },
                    _ => HomeChange::Unlink { path, keep: None },
                };
                (change, Vec::from([here(None)]))
            }
            SlotAction::Move { ino, from, to } => {
                let change = HomeChange::Rename {
                    from: self.names.home_child(from.0, &from.1)?,
                    to: self.names.home_child(to.0, &to.1)?,
                    again: self.home.after_recovery,
                };
                (change, Vec::from([(from.0, from.1.clone(), None), (to.0, to.1.clone(), Some(*ino))]))
            }
        })
    }

    pub(super) fn changed_directories(&self, job: &ChangeJob) -> Vec<HomePath> {
        job.directories.clone()
    }

    pub(super) fn change_done(&mut self, job: ChangeJob, result: Result<Outcome, Errno>) {
        self.home.leave(job.ino);
        self.home.changes_in_flight -= 1;
        let Err(errno) = result else {
            self.counters.home_names += 1;
            return self.applied(Applied::Change(job));
        };
        for (parent, name, _) in &job.slots {
            self.trouble(Subject::Name(*parent, name.clone()), DrainStep::Name, errno);
        }
        self.release_change(&job);
        self.stir_home();
    }

    fn release_change(&mut self, job: &ChangeJob) {
        for (parent, name, _) in &job.slots {
            self.names.set_busy(*parent, name, false);
        }
        if let Ok(inode) = self.names.inode_mut(job.ino) {
            inode.busy = false;
        }
        if job.is_dir_move {
            self.home.barred = false;
        }
        self.resume_home_users();
    }

    /// The change is durable at home.
    pub(super) fn change_settled(&mut self, job: ChangeJob) {
        let mut displaced = Vec::new();
        for (parent, name, ino) in &job.slots {
            displaced.extend(self.names.slot(*parent, name).home.filter(|old| *old != job.ino));
            if let Some(old) = displaced.last().copied().or(job.is_removal.then_some(job.ino)) {
                if self.names.inodes.get(&old).is_some_and(|i| i.opens > 0 && i.attr_loaded && i.attr.kind == Kind::File) {
                    // What home has of it is known by its name's file, which is about to go.
                    self.file(old);
                }
            }
            self.names.set_home(*parent, name, *ino, self.now);
            self.record(Record::HomeEntry { parent: *parent, name: name.clone(), ino: *ino });
            self.trouble_is_over(&Subject::Name(*parent, name.clone()));
        }
        self.release_change(&job);
        if job.is_removal || !displaced.is_empty() {
            for ino in displaced.into_iter().chain([job.ino]) {
                self.drop_if_unreachable(ino);
            }
        }
        if self.names.inodes.get(&job.ino).is_some_and(|i| i.attr_version != i.attr_home && i.dir.is_none()) {
            self.home.note_dirty(job.ino);
        }
    }

    /// When names wait for each other in a ring, one of their occupants steps aside under a name of ours.
    pub(super) fn break_ring(&mut self) -> bool {
        if self.home.barred {
            return false;
        }
        let Some((parent, name, ino)) = self.names.ring_breaker() else { return false };
        if self.rests(&Subject::Name(parent, name.clone())).is_some() {
            return false;
        }
        let aside = Name::new(alloc::format!(".forebay-moving-{}", ino.0).as_bytes());
        if self.names.slot(parent, &aside).home.is_some() || name == aside {
            return false;
        }
        let action = SlotAction::Move { ino, from: (parent, name.clone()), to: (parent, aside) };
        self.start_change(parent, name, action)
    }
}
