//! Failures on the way home: what is tried again and when, what a drain gives up, and what is said of it.

use alloc::vec::Vec;

use super::Node;
use crate::errno::Errno;
use crate::id::{HomePath, Ino, Name};
use crate::io_node::FileData;
use crate::message::{DrainFailure, DrainStep};
use crate::time::Time;

/// A failed piece of work is tried again after this many times the retry delay, at most.
const BACKOFF_MAX: u64 = 25;
/// Failures listed by a drain.
const FAILURES_MAX: usize = 1000;

/// What a failure is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Subject {
    Name(Ino, Name),
    Data(Ino),
    Attr(Ino),
    Sync,
}

/// A failure that is tried again.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub errno: Errno,
    pub step: DrainStep,
    pub tries: u32,
    pub again_at: Time,
}

impl Node {
    /// Whether the subject rests after a failure; in a drain a subject that failed too often is given up.
    pub(super) fn rests(&self, subject: &Subject) -> Option<Time> {
        let trouble = self.home.troubles.get(subject)?;
        if self.home.is_draining() && trouble.tries >= self.config.drain_tries_max {
            return Some(Time(u64::MAX));
        }
        (trouble.again_at > self.now).then_some(trouble.again_at)
    }

    /// The failure of what was tried as often as a drain tries it.
    pub(super) fn given_up(&self, subject: &Subject) -> Option<DrainFailure> {
        let trouble = self.home.troubles.get(subject).filter(|trouble| trouble.tries >= self.config.drain_tries_max)?;
        Some(self.describe(subject, trouble))
    }

    pub(super) fn trouble(&mut self, subject: Subject, step: DrainStep, errno: Errno) {
        self.counters.home_errors += 1;
        let entry = self.home.troubles.entry(subject).or_insert(Trouble { errno, step, tries: 0, again_at: self.now });
        entry.tries = entry.tries.saturating_add(1);
        (entry.errno, entry.step) = (errno, step);
        entry.again_at = self.now + self.config.retry_delay_ns * u64::from(entry.tries).min(BACKOFF_MAX);
    }

    pub(super) fn trouble_is_over(&mut self, subject: &Subject) {
        self.home.troubles.remove(subject);
    }

    /// What is gone, or is as wanted by now, is in no trouble any more.
    pub(super) fn forget_idle_troubles(&mut self) {
        let mut troubles = core::mem::take(&mut self.home.troubles);
        troubles.retain(|subject, _| match subject {
            Subject::Name(parent, name) => {
                let slot = self.names.slot(*parent, name);
                slot.current != slot.home || slot.busy
            }
            // Room may depend on what is open without a name: that is tried again as well.
            Subject::Data(ino) | Subject::Attr(ino) => self.names.inodes.get(ino).is_some_and(|i| i.is_orphan()) || self.goes_home(subject),
            Subject::Sync => true,
        });
        self.home.troubles = troubles;
    }

    /// What has no name any more does not go home.
    fn goes_home(&self, subject: &Subject) -> bool {
        let (Subject::Data(ino) | Subject::Attr(ino)) = subject else { return true };
        *ino == Ino::ROOT || self.names.inodes.get(ino).is_some_and(|i| i.has_name())
    }

    pub(super) fn drain_failures(&self) -> Vec<DrainFailure> {
        let troubles = self.home.troubles.iter().filter(|(subject, _)| self.goes_home(subject));
        let mut failures: Vec<DrainFailure> =
            troubles.take(FAILURES_MAX).map(|(subject, trouble)| self.describe(subject, trouble)).collect();
        let has_name = |ino: &Ino| self.names.inodes.get(ino).is_some_and(|i| i.has_name());
        let is_left = |f: &FileData| f.extents.dirty_bytes() > 0 || !f.holes.is_empty();
        let mut left = self.io.files.iter().filter(|(ino, f)| is_left(f) && has_name(ino));
        let file = left.next().map(|(ino, _)| *ino);
        // A file that is open without a name waits at home for its last close.
        let orphan = |ino: Ino| self.names.inodes.get(&ino).is_some_and(|i| i.is_orphan());
        let mut names = self.names.divergent.values().filter(|(parent, name, _)| !self.names.slot(*parent, name).home.is_some_and(orphan));
        let name = names.next();
        if failures.is_empty() && (file.is_some() || name.is_some()) {
            // Nothing failed and yet something is left: that must not pass for success.
            let name = name.and_then(|(parent, name, _)| self.current_child(*parent, name));
            let file = file.and_then(|ino| self.names.current_path(ino));
            failures.push(DrainFailure { path: name.or(file).unwrap_or_default(), errno: Errno::EBUSY, step: DrainStep::Name });
        }
        let is_left_behind = self.journal.durable < self.journal.last_change;
        if let Some(errno) = self.journal.failed.or(self.disk_errno().filter(|_| is_left_behind)) {
            failures.push(DrainFailure { path: HomePath::default(), errno, step: DrainStep::Sync });
        }
        failures
    }

    fn current_child(&self, parent: Ino, name: &Name) -> Option<HomePath> {
        let mut path = self.names.current_path(parent)?.0.into_vec();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
        Some(HomePath(path.into()))
    }

    /// The failures that are being retried or given up.
    pub(super) fn troubles(&self, max: usize) -> Vec<DrainFailure> {
        self.home.troubles.iter().take(max).map(|(subject, trouble)| self.describe(subject, trouble)).collect()
    }

    fn describe(&self, subject: &Subject, trouble: &Trouble) -> DrainFailure {
        let path = match subject {
            Subject::Name(parent, name) => self.current_child(*parent, name),
            Subject::Data(ino) | Subject::Attr(ino) => self.names.current_path(*ino),
            Subject::Sync => None,
        };
        DrainFailure { path: path.unwrap_or_default(), errno: trouble.errno, step: trouble.step }
    }
}
