//! Names on their way home: see [`crate::master::SlotAction`] for what is to be done about one.

use alloc::vec::Vec;

use super::home_settle::Applied;
use super::troubles::Subject;
use super::{Node, Pending};
use crate::attr::Kind;
use crate::effect::{Effect, HomeChange, Outcome};
use crate::errno::Errno;
use crate::id::{HomePath, Ino, Name, Position};
use crate::master::{Need, SlotAction, orphan_name};
use crate::message::DrainStep;
use crate::record::Record;

/// Names looked at in one go.
const SCAN_MAX: usize = 64;

/// The names of a change, with the occupant that each will have at home.
pub(super) type ChangedSlots = Vec<(Ino, Name, Option<Ino>)>;

/// A change of names at home. It is written down before it is begun (`HomeIntent`), and what it did is written down when it is durable
/// (`HomeEntry`): a node that recovers in between does it again before it trusts any path.
#[derive(Debug)]
pub(super) struct ChangeJob {
    ino: Ino,
    slots: ChangedSlots,
    change: HomeChange,
    /// Where the journal says that it is intended.
    intent: Position,
    /// Paths are in motion until it settles: it moves a directory, or a recovery does not know whether it happened.
    bars: bool,
    is_removal: bool,
    /// What stands at home where the change puts something else: nothing else may be under way with it either.
    displaced: Vec<Ino>,
    /// Directories whose entries change, at home.
    directories: Vec<HomePath>,
}

impl ChangeJob {
    pub(super) fn bars(&self) -> bool {
        self.bars
    }
}

impl Node {
    /// Looks through the divergent names for changes that can start.
    pub(super) fn start_changes(&mut self) {
        let urgent = self.is_home_urgent() || self.goals.hurry;
        if self.home.names_due.is_none() && self.home.scan_from.is_none() && self.is_write_back_async() {
            // A name that no look has come to is due when it has rested, which without a delay is at once.
            let newest = self.names.divergent.last_key_value().map(|(at, (_, _, since))| (*at, *since + self.config.write_back_delay_ns));
            self.home.names_due = newest.filter(|(at, due)| *at >= self.home.names_seen || *due > self.now).map(|(_, due)| due);
        }
        if self.home.names_due.is_some_and(|due| due <= self.now) || (urgent && self.home.names_due.is_some()) {
            self.home.names_due = None;
            self.home.scan_from = Some(0);
        } else if self.home.scan_from.is_none() && (!self.home.wanted_chunks.is_empty() || self.name_room.waiting() > 0) {
            // With synchronous write-back names do not become due; but a victim's bytes cannot go home before its name, and others wait for
            // room for names.
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
    pub(super) fn start_change(&mut self, parent: Ino, name: Name, action: SlotAction) -> bool {
        let ino = match &action {
            SlotAction::Settled | SlotAction::Blocked => return false,
            SlotAction::Make { ino } | SlotAction::Link { ino } | SlotAction::Remove { ino } | SlotAction::Move { ino, .. } => *ino,
        };
        if self.home.barring > 0 {
            return false;
        }
        let is_dir = self.names.inodes[&ino].dir.is_some();
        let moves = matches!(action, SlotAction::Move { .. });
        let takes_name = moves || matches!(action, SlotAction::Remove { .. });
        // A directory that moves waits for all of home to be at rest, further below.
        if takes_name && !(is_dir && moves) && !self.is_file_at_rest(ino) {
            self.home.waits_for_rest = true;
            return false;
        }
        if let SlotAction::Move { to, .. } = &action {
            // Nothing may be under way to what the rename replaces: it would reach what stands there then.
            if self.names.slot(to.0, &to.1).home.is_some_and(|replaced| !self.is_file_at_rest(replaced)) {
                self.home.waits_for_rest = true;
                return false;
            }
        }
        let parents = match &action {
            SlotAction::Move { from, to, .. } => [from.0, to.0],
            _ => [parent, parent],
        };
        if parents.into_iter().any(|dir| self.is_being_listed(dir)) {
            return false;
        }
        let removes = matches!(action, SlotAction::Remove { .. });
        if removes && self.names.inodes[&ino].has_hidden_names() && self.is_unsettled(ino) {
            // The file lives on under names that nobody has seen: its bytes go home while this one still leads to it.
            self.home.note_dirty(ino);
            return false;
        }
        let is_dir_move = moves && is_dir;
        if is_dir_move && !self.home.stuck.is_empty() {
            // What may or may not have happened is tried again under the path that it was begun with.
            return false;
        }
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
        self.ensure_journaled(ino);
        let intent = self.record(Record::HomeIntent { ino, slots: slots.clone() });
        self.home.open_intents.insert(intent, (ino, slots.clone()));
        let job = self.claim_change(ino, slots, change, intent, is_dir_move);
        self.home.intended.push(job);
        self.sync.wanted = true;
        true
    }

    /// A listing of the directory is under way or waits for its entries to be at rest.
    fn is_being_listed(&self, dir: Ino) -> bool {
        self.parked.contains_key(&Need::Dir(dir))
    }

    /// Makes a change's names and inode its own until it is settled.
    fn claim_change(&mut self, ino: Ino, slots: ChangedSlots, change: HomeChange, intent: Position, bars: bool) -> ChangeJob {
        let directories = slots.iter().filter_map(|(parent, _, _)| self.names.home_path(*parent)).collect();
        for (parent, name, _) in &slots {
            self.names.set_busy(*parent, name, true);
        }
        let displaced = slots.iter().filter_map(|(parent, name, _)| self.names.slot(*parent, name).home).filter(|old| *old != ino);
        let displaced = displaced.collect::<Vec<_>>();
        for ino in displaced.iter().chain([&ino]) {
            if let Ok(inode) = self.names.inode_mut(*ino) {
                inode.busy = true;
            }
        }
        self.home.enter(ino);
        self.home.changes_in_flight += 1;
        self.home.barring += u32::from(bars);
        let is_removal = matches!(change, HomeChange::Unlink { .. } | HomeChange::RemoveDir { .. });
        ChangeJob { ino, slots, change, intent, bars, is_removal, displaced, directories }
    }

    /// The buffer's medium takes no more syncs, or a drain has waited for them long enough.
    pub(super) fn is_log_hopeless(&self) -> bool {
        self.journal.failed.is_some() || self.sync.is_broken() || self.is_disk_given_up()
    }

    /// Carries out the changes whose intent is on the medium: home must never be ahead of what a power loss leaves of the journal.
    pub(super) fn start_intended(&mut self) {
        let durable = self.journal.durable;
        // A buffer whose medium takes no more syncs is emptied all the same; there is nothing left to wait for.
        let hopeless = self.is_log_hopeless();
        let (now, later) = core::mem::take(&mut self.home.intended).into_iter().partition(|job| hopeless || job.intent <= durable);
        self.home.intended = later;
        self.sync.wanted |= !self.home.intended.is_empty();
        let now: Vec<ChangeJob> = now;
        for job in now {
            let change = job.change.clone();
            let token = self.expect(Pending::Change(job));
            self.emit(Effect::ChangeHome { token, change });
        }
    }

    /// For recovery: changes that may or may not have happened at home. They are done again before any path there is used.
    pub(crate) fn redo_intents(&mut self, intents: Vec<(Ino, ChangedSlots)>) {
        for (ino, slots) in intents {
            let Some((parent, name, _)) = slots.first().cloned() else { continue };
            let Ok(inode) = self.names.inode(ino) else { continue };
            let action = match slots.as_slice() {
                [(from, from_name, None), (to, to_name, Some(_))] => {
                    SlotAction::Move { ino, from: (*from, from_name.clone()), to: (*to, to_name.clone()) }
                }
                [(_, _, Some(_))] if inode.home_names.is_empty() => SlotAction::Make { ino },
                [(_, _, Some(_))] => SlotAction::Link { ino },
                _ => SlotAction::Remove { ino },
            };
            let Some((change, slots)) = self.plan_change(parent, &name, &action) else { continue };
            // The position is of the old journal; the snapshot that follows writes the intent down again.
            let intent = Position(self.home.open_intents.len() as u64);
            self.home.open_intents.insert(intent, (ino, slots.clone()));
            let job = self.claim_change(ino, slots, again(change), intent, true);
            self.home.leave(ino);
            self.home.changes_in_flight -= 1;
            self.home.stuck.push(job);
        }
        self.home.barred = !self.home.stuck.is_empty();
    }

    /// Tries again what may or may not have happened.
    pub(super) fn retry_stuck(&mut self) {
        for _ in 0..self.home.stuck.len() {
            let job = self.home.stuck.remove(0);
            let subject = Subject::Name(job.slots[0].0, job.slots[0].1.clone());
            if self.rests(&subject).is_some() || self.home.changes_in_flight >= self.config.home_changes_max {
                self.home.stuck.push(job);
                continue;
            }
            self.home.enter(job.ino);
            self.home.changes_in_flight += 1;
            let change = job.change.clone();
            let token = self.expect(Pending::Change(job));
            self.emit(Effect::ChangeHome { token, change });
        }
    }

    /// Something of the file is not home yet.
    fn is_unsettled(&self, ino: Ino) -> bool {
        let size = self.names.inodes.get(&ino).map_or(0, |i| i.attr.size);
        let data = |f: &crate::io_node::FileData| {
            f.extents.dirty_bytes() > 0 || !f.holes.is_empty() || !f.is_quiet() || f.home_junk || !f.is_length_home(size)
        };
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

    fn plan_change(&self, parent: Ino, name: &Name, action: &SlotAction) -> Option<(HomeChange, ChangedSlots)> {
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
                    _ => HomeChange::Unlink { path },
                };
                (change, Vec::from([here(None)]))
            }
            SlotAction::Move { ino, from, to } => {
                let change = HomeChange::Rename {
                    from: self.names.home_child(from.0, &from.1)?,
                    to: self.names.home_child(to.0, &to.1)?,
                    again: false,
                };
                (change, Vec::from([(from.0, from.1.clone(), None), (to.0, to.1.clone(), Some(*ino))]))
            }
        })
    }

    pub(super) fn changed_directories(&self, job: &ChangeJob) -> Vec<HomePath> {
        job.directories.clone()
    }

    pub(super) fn change_done(&mut self, mut job: ChangeJob, result: Result<Outcome, Errno>) {
        self.home.leave(job.ino);
        self.home.changes_in_flight -= 1;
        let Err(errno) = result else {
            self.counters.home_names += 1;
            return self.applied(Applied::Change(job));
        };
        for (parent, name, _) in &job.slots {
            self.trouble(Subject::Name(*parent, name.clone()), DrainStep::Name, errno);
        }
        if job.bars || may_have_happened(errno) {
            // It keeps its names until it is known to have happened: another change would start from a wrong belief.
            job.change = again(job.change);
            self.home.stuck.push(job);
        } else {
            for (parent, name, _) in &job.slots {
                let ino = self.names.slot(*parent, name).home;
                self.record(Record::HomeEntry { parent: *parent, name: name.clone(), ino });
            }
            self.release_change(&job);
        }
        self.stir_home();
    }

    fn release_change(&mut self, job: &ChangeJob) {
        self.home.open_intents.remove(&job.intent);
        for (parent, name, _) in &job.slots {
            self.names.set_busy(*parent, name, false);
        }
        for ino in job.displaced.iter().chain([&job.ino]) {
            if let Ok(inode) = self.names.inode_mut(*ino) {
                inode.busy = false;
            }
            self.home.stir_named(*ino, self.now);
        }
        self.home.barring -= u32::from(job.bars);
        self.resume_home_users();
        // What lost its last name here, or has lost it at home now, could not go before.
        for ino in job.displaced.iter().chain([&job.ino]) {
            self.drop_if_unreachable(*ino);
        }
    }

    /// The change is durable at home.
    pub(super) fn change_settled(&mut self, job: ChangeJob) {
        for (parent, name, ino) in &job.slots {
            let displaced = self.names.slot(*parent, name).home.filter(|old| *old != job.ino);
            if let Some(old) = displaced.or(job.is_removal.then_some(job.ino))
                && self.names.inodes.get(&old).is_some_and(|i| i.opens > 0 && i.attr_loaded && i.attr.kind == Kind::File)
            {
                // What home has of it is known by its name's file, which is about to go.
                self.file(old);
            }
            self.names.set_home(*parent, name, *ino, self.now);
            self.record(Record::HomeEntry { parent: *parent, name: name.clone(), ino: *ino });
            self.trouble_is_over(&Subject::Name(*parent, name.clone()));
        }
        self.release_change(&job);
        if self.names.inodes.get(&job.ino).is_some_and(|i| i.attr_version != i.attr_home && i.dir.is_none()) {
            self.home.note_dirty(job.ino);
        }
    }

    /// When names wait for each other in a ring, one of their occupants steps aside under a name of ours.
    pub(super) fn break_ring(&mut self) -> bool {
        if self.home.barred {
            return false;
        }
        let Some((parent, name, ino, aside)) = self.names.ring_breaker() else { return false };
        if self.rests(&Subject::Name(parent, name.clone())).is_some() {
            return false;
        }
        let action = SlotAction::Move { ino, from: (parent, name.clone()), to: (parent, aside) };
        self.start_change(parent, name, action)
    }
}

/// A change as it is asked for when it may have happened already.
fn again(change: HomeChange) -> HomeChange {
    match change {
        HomeChange::Rename { from, to, .. } => HomeChange::Rename { from, to, again: true },
        other => other,
    }
}

/// Whether a failed change may have happened all the same: a refusal says that it did not, a broken medium or line does not say.
fn may_have_happened(errno: Errno) -> bool {
    !matches!(
        errno,
        Errno::EPERM
            | Errno::ENOENT
            | Errno::EACCES
            | Errno::EBUSY
            | Errno::EEXIST
            | Errno::EXDEV
            | Errno::ENOTDIR
            | Errno::EISDIR
            | Errno::EINVAL
            | Errno::ENOSPC
            | Errno::EROFS
            | Errno::EMLINK
            | Errno::ENAMETOOLONG
            | Errno::ENOSYS
            | Errno::ENOTEMPTY
            | Errno::ENOTSUP
            | Errno::EDQUOT
    )
}
