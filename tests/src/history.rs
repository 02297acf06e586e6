//! Whether what survived a crash is a moment of the history that the application went through.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::listing::{self, Times, Tree};
use crate::operations::{Executor, Mix, Operation, Operations};

/// A history: the operations of a seed.
#[derive(Clone, Copy, Debug)]
pub struct History {
    /// The seed.
    pub seed: u64,
    /// What they were drawn from.
    pub mix: Mix,
}

/// A write that may have happened in part.
struct Torn {
    /// The file's number in the replay.
    ino: u64,
    before: Vec<u8>,
    after: Vec<u8>,
}

impl History {
    /// The number of operations after which the plain directory looked as `found` does, between `low` (these have to be there)
    /// and `high` (more were not begun). The write that comes next may be there in part.
    ///
    /// # Errors
    /// What is missing or too much, against the nearest moment.
    ///
    /// # Panics
    /// When the replay itself cannot be carried out.
    pub fn moment(&self, found: &Path, low: u64, high: u64) -> Result<u64, String> {
        let folder = tempfile::tempdir().expect("a directory for the replay");
        let root = folder.path().join("replay");
        fs::create_dir(&root).expect("a directory for the replay");
        let mut executor = Executor::new(&root);
        let mut operations = Operations::new(self.seed, self.mix);
        for operation in operations.by_ref().take(low as usize) {
            let _ = executor.run(&operation);
        }
        let found_tree = listing::list(found).map_err(|error| format!("what survived cannot be read: {error}"))?;
        let mut nearest: Option<(u64, Vec<String>)> = None;
        for moment in low..=high {
            let replayed = listing::list(&root).expect("the replay is readable");
            let differences = listing::differences(&replayed, &found_tree, Times::Set);
            if differences.is_empty() {
                return Ok(moment);
            }
            if nearest.as_ref().is_none_or(|(_, least)| differences.len() < least.len()) {
                nearest = Some((moment, differences));
            }
            if moment == high {
                break;
            }
            let operation = operations.next().expect("operations have no end");
            let torn = run_and_note(&mut executor, &operation).expect("the replay goes on");
            if torn.is_some_and(|torn| torn.explains(&root, found, &found_tree)) {
                return Ok(moment);
            }
        }
        let (moment, differences) = nearest.expect("at least one moment was looked at");
        let shown = differences.iter().take(8).cloned().collect::<Vec<_>>().join("\n");
        Err(format!("seed {}: no moment between {low} and {high} looked like this; nearest {moment}:\n{shown}", self.seed))
    }
}

/// Runs the next operation of the replay; for a write, notes the file before and after.
fn run_and_note(executor: &mut Executor, operation: &Operation) -> io::Result<Option<Torn>> {
    let target = executor.target(operation).filter(|_| operation.writes());
    let before = target.as_deref().and_then(|path| fs::read(path).ok());
    let seen = executor.run(operation);
    let (Some(path), Some(before), Ok(_)) = (target, before, seen) else { return Ok(None) };
    let (after, ino) = (fs::read(&path)?, path.metadata()?.ino());
    Ok(Some(Torn { ino, before, after }))
}

impl Torn {
    /// Whether what was found is the replay, but for this write having happened in part.
    fn explains(&self, root: &Path, found: &Path, found_tree: &Tree) -> bool {
        let replayed = listing::list(root).expect("the replay is readable");
        let is_target =
            |path: &str| root.join(path).symlink_metadata().is_ok_and(|metadata| metadata.is_file() && metadata.ino() == self.ino);
        let targets: BTreeSet<String> = replayed.keys().filter(|path| is_target(path)).cloned().collect();
        let others = |tree: &Tree| tree.iter().filter(|(path, _)| !targets.contains(*path)).map(|(p, o)| (p.clone(), o.clone())).collect();
        let (expected, rest): (Tree, Tree) = (others(&replayed), others(found_tree));
        if targets.is_empty() || !listing::differences(&expected, &rest, Times::Set).is_empty() {
            return false;
        }
        targets.iter().all(|path| {
            let same_kind = found_tree.get(path).is_some_and(|object| object.kind == "file" && object.mode == replayed[path].mode);
            same_kind && fs::read(found.join(path)).is_ok_and(|bytes| self.is_between(&bytes))
        })
    }

    /// Whether each byte is that of before or that of after, and the size lies between.
    fn is_between(&self, bytes: &[u8]) -> bool {
        let (least, most) = (self.before.len().min(self.after.len()), self.before.len().max(self.after.len()));
        let at = |content: &[u8], index: usize| content.get(index).copied().unwrap_or(0);
        (least..=most).contains(&bytes.len())
            && bytes.iter().enumerate().all(|(index, byte)| *byte == at(&self.before, index) || *byte == at(&self.after, index))
    }
}

/// Where a writer of a crash test works, and where it tells how far it has come.
#[derive(Clone, Debug)]
pub struct Writer {
    /// Its history.
    pub history: History,
    /// Its directory, relative to mount and home.
    pub directory: String,
    /// Its file of progress.
    pub progress: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state_after(history: History, count: usize, root: &Path) {
        let mut executor = Executor::new(root);
        for operation in Operations::new(history.seed, history.mix).take(count) {
            let _ = executor.run(&operation);
        }
    }

    #[test]
    fn finds_the_moment_and_sees_what_is_missing() {
        let history = History { seed: 3, mix: Mix::default() };
        let state = tempfile::tempdir().unwrap();
        let root = state.path().join("state");
        fs::create_dir(&root).unwrap();
        state_after(history, 300, &root);
        let moment = history.moment(&root, 280, 320).unwrap();
        assert!((280..=300).contains(&moment), "{moment}");
        assert!(history.moment(&root, 0, 300).unwrap() > 200, "earlier moments looked otherwise");

        let file = listing::list(&root).unwrap().iter().find(|(_, o)| o.kind == "file" && o.size > Some(10)).unwrap().0.clone();
        let mut bytes = fs::read(root.join(&file)).unwrap();
        bytes[5] ^= 1;
        fs::write(root.join(&file), &bytes).unwrap();
        let error = history.moment(&root, 280, 320).unwrap_err();
        assert!(error.contains(&file), "{error}");
    }

    #[test]
    fn takes_a_write_in_part_but_no_other_bytes() {
        let torn = Torn { ino: 0, before: vec![1, 1, 1, 1], after: vec![1, 2, 2, 1, 2, 2] };
        for good in [&[1, 1, 1, 1][..], &[1, 2, 1, 1], &[1, 2, 2, 1, 2, 2], &[1, 1, 1, 1, 0, 2], &[1, 2, 2, 1, 2]] {
            assert!(torn.is_between(good), "{good:?}");
        }
        for bad in [&[1, 1, 1][..], &[1, 3, 1, 1], &[1, 2, 2, 1, 2, 2, 2], &[2, 1, 1, 1]] {
            assert!(!torn.is_between(bad), "{bad:?}");
        }
    }
}
