//! What failed on the way home, for those who ask.

use alloc::vec::Vec;

use super::{Subject, Trouble};
use crate::errno::Errno;
use crate::id::{HomePath, Ino, Name};
use crate::io_node::FileData;
use crate::message::{DrainFailure, DrainStep};
use crate::node::Node;

/// Failures listed by a drain.
const FAILURES_MAX: usize = 1000;

impl Node {
    pub(super) fn drain_failures(&self) -> Vec<DrainFailure> {
        let mut failures = self.troubles(FAILURES_MAX);
        // What has no name any more does not go home.
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
        if let Some(errno) = self.journal.failed {
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
    pub(in crate::node) fn troubles(&self, max: usize) -> Vec<DrainFailure> {
        self.home.troubles.iter().take(max).map(|(subject, trouble)| self.describe(subject, trouble)).collect()
    }

    pub(super) fn describe(&self, subject: &Subject, trouble: &Trouble) -> DrainFailure {
        let path = match subject {
            Subject::Name(parent, name) => self.current_child(*parent, name),
            Subject::Data(ino) | Subject::Attr(ino) => self.names.current_path(*ino),
            Subject::Sync => None,
        };
        DrainFailure { path: path.unwrap_or_default(), errno: trouble.errno, step: trouble.step }
    }
}
