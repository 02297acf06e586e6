//! Bringing one file home on request: its bytes and attributes as they are now, and its names with the directories above them.
//!
//! The file and its names go ahead of all others, without having rested. They may wait for other names; when nothing else moves any more,
//! everything goes as in a drain. Who goes on writing does not hold the answer up: of what is changed after the request, nothing is
//! waited for.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::Node;
use super::home_settle::Look;
use super::troubles::Subject;
use crate::attr::Kind;
use crate::errno::Errno;
use crate::id::{CallId, Ino, Lsn, Name, Position};
use crate::master::Stop;
use crate::message::{DrainFailure, DrainStep, Reply};

/// Requests of this kind that are under way, at most; one more is told to try again.
const GOALS_MAX: usize = 64;

/// What must be home before a request is answered.
#[derive(Debug)]
struct Goal {
    ino: Ino,
    /// The newest write that counts.
    upto: Lsn,
    /// No byte before this is dirty by a write that counts.
    clean_to: u64,
    /// Attributes, and a file's length, count in this version; a file's only unless they are changed again.
    attr_version: u64,
    /// The journal must be on the medium up to here: a power loss must not undo at home what was brought there.
    mark: Position,
}

/// The requests under way.
#[derive(Debug, Default)]
pub(super) struct Goals {
    open: BTreeMap<CallId, Goal>,
    /// Nothing moved and a file was not home: everything goes now.
    pub hurry: bool,
}

impl Goals {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// The files, each once.
    pub(super) fn inos(&self) -> BTreeSet<Ino> {
        self.open.values().map(|goal| goal.ino).collect()
    }
}

impl Node {
    pub(super) fn start_bring_home(&mut self, call: CallId, ino: Ino) -> Result<(), Stop> {
        let inode = self.names.inode(ino)?;
        if ino != Ino::ROOT && !inode.has_name() {
            return Err(Errno::ENOENT.into());
        }
        if self.goals.len() >= GOALS_MAX {
            return Err(Errno::EAGAIN.into());
        }
        let attr_version = inode.attr_version;
        let goal = Goal { ino, upto: Lsn(self.next_lsn - 1), clean_to: 0, attr_version, mark: self.journal.last_change };
        if !self.home.is_draining() {
            // What failed before is tried anew, and given up only for what fails from now on.
            for subject in self.subjects_of(ino) {
                self.trouble_is_over(&subject);
            }
            self.look_for_space();
        }
        self.goals.open.insert(call, goal);
        self.stir_home();
        Ok(())
    }

    /// What can fail on the file's way home.
    fn subjects_of(&self, ino: Ino) -> Vec<Subject> {
        let mut subjects = Vec::from([Subject::Data(ino), Subject::Sync]);
        let mut seen = BTreeSet::from([ino]);
        let mut wanted = Vec::from([ino]);
        while let Some(ino) = wanted.pop() {
            subjects.push(Subject::Attr(ino));
            for (parent, name) in self.names.inodes.get(&ino).into_iter().flat_map(|inode| inode.links.iter().chain(&inode.home_names)) {
                subjects.push(Subject::Name(*parent, name.clone()));
                wanted.extend(seen.insert(*parent).then_some(*parent));
            }
        }
        subjects
    }

    /// The directories above it, and it itself if it is one.
    fn directories_of(&self, ino: Ino) -> BTreeSet<Ino> {
        let is_dir = self.names.inodes.get(&ino).is_some_and(|inode| inode.dir.is_some());
        let mut found: BTreeSet<Ino> = is_dir.then_some(ino).into_iter().collect();
        let mut wanted = Vec::from([ino]);
        while let Some(inode) = wanted.pop().and_then(|ino| self.names.inodes.get(&ino)) {
            wanted.extend(inode.links.iter().map(|(parent, _)| *parent).filter(|parent| found.insert(*parent)));
        }
        found
    }

    /// A directory has had its attributes set at home: until then nobody but its owner may look into it there.
    fn has_attr_home(&self, dir: Ino) -> bool {
        self.names.inodes.get(&dir).is_none_or(|inode| inode.attr_home > 0 || inode.attr_version == 0)
    }

    /// Gives directories their attributes at home: those that never had them there, and the one that is to go home. They would follow at the
    /// end of a drain, and then do so again.
    fn start_goal_directories(&mut self, ino: Ino) {
        for dir in self.directories_of(ino) {
            let Some(inode) = self.names.inodes.get(&dir) else { continue };
            let differs = inode.attr_loaded && inode.attr_version != inode.attr_home && (dir == ino || !self.has_attr_home(dir));
            let stands = dir == Ino::ROOT || (!inode.busy && !inode.home_names.is_empty());
            let setting = self.io.files.get(&dir).is_some_and(|file| file.setting_attr);
            let may_start = self.home.changes_in_flight < self.config.home_changes_max && self.rests(&Subject::Attr(dir)).is_none();
            if !differs || !stands || setting || !may_start {
                continue;
            }
            if self.is_attr_durable(dir) {
                self.start_set_attr(dir);
            } else {
                self.sync.wanted = true;
            }
        }
    }

    /// Each of its names, and of the directories above, is durable at home, and home has no other.
    fn are_names_home(&self, ino: Ino) -> bool {
        let mut seen = BTreeSet::from([ino, Ino::ROOT]);
        let mut wanted = Vec::from([ino]);
        while let Some(ino) = wanted.pop() {
            let Some(inode) = self.names.inodes.get(&ino) else { return false };
            if inode.busy || inode.links != inode.home_names {
                return false;
            }
            wanted.extend(inode.links.iter().map(|(parent, _)| *parent).filter(|parent| seen.insert(*parent)));
        }
        true
    }

    /// Starts what the names of the file, and of the directories above, ask for next.
    fn start_goal_names(&mut self, ino: Ino) {
        let mut inodes = self.directories_of(ino);
        inodes.insert(ino);
        let names = inodes.iter().filter_map(|ino| self.names.inodes.get(ino));
        let names: BTreeSet<(Ino, Name)> = names.flat_map(|inode| inode.links.iter().chain(&inode.home_names)).cloned().collect();
        for (parent, name) in names {
            if self.home.barred || self.home.changes_in_flight >= self.config.home_changes_max {
                return;
            }
            let slot = self.names.slot(parent, &name);
            if slot.current != slot.home && !slot.busy && self.rests(&Subject::Name(parent, name.clone())).is_none() {
                let action = self.names.slot_action(parent, &name);
                self.start_change(parent, name, action);
            }
        }
    }

    /// Looks at the files that are to go home, ahead of all others.
    pub(super) fn start_goals(&mut self) {
        for ino in self.goals.inos() {
            if !self.are_names_home(ino) {
                self.start_goal_names(ino);
            }
            if self.home.barred || self.look_at_file(ino) == Look::Full {
                return;
            }
            self.start_goal_directories(ino);
        }
    }

    /// Answers the requests whose files are home, are gone, or cannot be brought.
    pub(super) fn answer_goals(&mut self) {
        for call in self.goals.open.keys().copied().collect::<Vec<_>>() {
            let ino = self.goals.open[&call].ino;
            if ino != Ino::ROOT && !self.names.inodes.get(&ino).is_some_and(|inode| inode.has_name()) {
                self.goals.open.remove(&call);
                self.fail(call, Errno::ENOENT);
                continue;
            }
            let is_met = self.is_goal_met(call);
            let failed = || self.goal_failure(ino).or(self.disk_failure());
            let outcome = if is_met { Some(self.log_failure()) } else { failed().map(Some) };
            if let Some(failure) = outcome {
                self.goals.open.remove(&call);
                self.reply(call, Reply::BroughtHome { failure });
            }
        }
        self.goals.hurry &= !self.goals.is_empty();
    }

    /// Home is ahead of a journal that takes no more syncs: a power loss could undo what was brought.
    fn log_failure(&self) -> Option<DrainFailure> {
        let errno = self.journal.failed.or(self.disk_errno()).unwrap_or(Errno::EIO);
        self.is_log_hopeless().then(|| DrainFailure { path: Default::default(), errno, step: DrainStep::Sync })
    }

    /// Space on the buffer's disk has been waited for as long as a drain does.
    fn disk_failure(&self) -> Option<DrainFailure> {
        let errno = self.disk_errno().filter(|_| self.disk_tries() >= self.config.drain_tries_max)?;
        Some(DrainFailure { path: Default::default(), errno, step: DrainStep::Sync })
    }

    fn is_goal_met(&mut self, call: CallId) -> bool {
        let Some(goal) = self.goals.open.get_mut(&call) else { return false };
        let ino = goal.ino;
        if let Some(file) = self.io.files.get(&ino) {
            while let Some(piece) = file.extents.first_dirty(goal.clean_to) {
                if piece.lsn <= goal.upto {
                    return false;
                }
                goal.clean_to = piece.end();
            }
        }
        let (attr_version, mark) = (goal.attr_version, goal.mark);
        let Some(inode) = self.names.inodes.get(&ino) else { return false };
        let file = self.io.files.get(&ino);
        // A file that is changed again gets its attributes when all its bytes are home, which may be never; a directory at any time.
        let rests = inode.attr_version == attr_version;
        let has_attr = if inode.dir.is_some() { inode.attr_home >= attr_version } else { !rests || inode.attr_home == attr_version };
        let size = inode.attr.size;
        let is_long_enough = |file: &crate::io_node::FileData| {
            !file.home_known || (!file.home_junk && !file.cutting && file.holes.is_empty() && file.is_length_home(size))
        };
        let has_length = inode.attr.kind != Kind::File || file.is_none_or(|file| is_long_enough(file));
        if !has_attr || (rests && !has_length) || !self.are_names_home(ino) {
            return false;
        }
        if !self.directories_of(ino).into_iter().all(|dir| self.has_attr_home(dir)) {
            return false;
        }
        if self.journal.durable < mark && !self.is_log_hopeless() {
            self.sync.wanted = true;
            return false;
        }
        true
    }

    /// What has failed too often on the file's way home.
    fn goal_failure(&self, ino: Ino) -> Option<DrainFailure> {
        self.subjects_of(ino).iter().find_map(|subject| self.given_up(subject))
    }

    /// Nothing moves any more, and files that are to go home are not there: first everything else goes as well, since it may be in
    /// their way; if nothing moves then, they are given up.
    pub(super) fn push_or_give_up_goals(&mut self) {
        if self.goals.is_empty() {
            return;
        }
        if !core::mem::replace(&mut self.goals.hurry, true) {
            return self.stir_home();
        }
        for (call, goal) in core::mem::take(&mut self.goals.open) {
            // Something else is in the way, and has failed.
            let path = self.names.current_path(goal.ino).unwrap_or_default();
            let blocked = DrainFailure { path, errno: Errno::EBUSY, step: DrainStep::Name };
            let failure = self.troubles(1).pop().unwrap_or(blocked);
            self.reply(call, Reply::BroughtHome { failure: Some(failure) });
        }
        self.goals.hurry = false;
    }
}
