//! Open files of home, kept for their next use.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::sync::Arc;

use forebay_core::id::{HomePath, Ino};
use parking_lot::Mutex;

/// An open file of home.
pub(super) struct Handle {
    pub(super) file: File,
    pub(super) writable: bool,
}

struct Cached {
    handle: Arc<Handle>,
    /// The name by which it was opened: under another one it might be another file.
    path: HomePath,
    used: u64,
}

#[derive(Default)]
struct State {
    cached: HashMap<Ino, Cached>,
    by_use: BTreeMap<u64, Ino>,
    uses: u64,
}

impl State {
    fn drop_cached(&mut self, ino: Ino) {
        if let Some(old) = self.cached.remove(&ino) {
            self.by_use.remove(&old.used);
        }
    }

    fn touch(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }
}

/// Open files by inode, least recently used ones closed first.
pub(super) struct Handles {
    state: Mutex<State>,
    max: usize,
}

impl Handles {
    pub(super) fn new(max: usize) -> Handles {
        Handles { state: Mutex::default(), max }
    }

    /// The open file of `ino`, if it was opened under that name; `write` asks for one that can be written to.
    pub(super) fn get(&self, ino: Ino, path: &HomePath, write: bool) -> Option<Arc<Handle>> {
        let mut state = self.state.lock();
        let used = state.touch();
        let cached = state.cached.get_mut(&ino)?;
        if cached.path != *path || (write && !cached.handle.writable) {
            return None;
        }
        let handle = cached.handle.clone();
        let before = std::mem::replace(&mut cached.used, used);
        state.by_use.remove(&before);
        state.by_use.insert(used, ino);
        Some(handle)
    }

    /// Remembers an open file.
    pub(super) fn put(&self, ino: Ino, path: &HomePath, handle: &Arc<Handle>) {
        let mut state = self.state.lock();
        state.drop_cached(ino);
        while state.cached.len() >= self.max {
            let Some((_, oldest)) = state.by_use.pop_first() else { break };
            state.cached.remove(&oldest);
        }
        let used = state.touch();
        state.by_use.insert(used, ino);
        state.cached.insert(ino, Cached { handle: handle.clone(), path: path.clone(), used });
    }

    /// Whether there is something to forget. Does not wait for whoever is at it: then there may be.
    pub(super) fn may_hold(&self, ino: Ino) -> bool {
        self.state.try_lock().is_none_or(|state| state.cached.contains_key(&ino))
    }

    pub(super) fn forget(&self, ino: Ino) {
        self.state.lock().drop_cached(ino);
    }

    /// A name changed: what was opened under it, or below it, may be another file now.
    pub(super) fn forget_path(&self, path: &HomePath) {
        let mut state = self.state.lock();
        let prefix = path.as_bytes();
        let stale = state.cached.iter().filter(|(_, cached)| {
            let rest = cached.path.as_bytes().strip_prefix(prefix);
            rest.is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
        });
        for ino in stale.map(|(ino, _)| *ino).collect::<Vec<_>>() {
            state.drop_cached(ino);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> HomePath {
        HomePath(text.as_bytes().into())
    }

    fn handle(writable: bool) -> Arc<Handle> {
        Arc::new(Handle { file: File::open("/dev/null").unwrap(), writable })
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let handles = Handles::new(2);
        handles.put(Ino(2), &path("a"), &handle(true));
        handles.put(Ino(3), &path("b"), &handle(true));
        assert!(handles.get(Ino(2), &path("a"), true).is_some());
        handles.put(Ino(4), &path("c"), &handle(true));
        assert!(handles.get(Ino(3), &path("b"), false).is_none());
        assert!(handles.get(Ino(2), &path("a"), false).is_some());
        assert!(handles.get(Ino(4), &path("c"), false).is_some());
        assert_eq!(handles.state.lock().by_use.len(), 2);
    }

    #[test]
    fn another_name_or_purpose_does_not_match() {
        let handles = Handles::new(4);
        handles.put(Ino(2), &path("d/a"), &handle(false));
        assert!(handles.get(Ino(2), &path("d/b"), false).is_none());
        assert!(handles.get(Ino(2), &path("d/a"), true).is_none());
        handles.put(Ino(3), &path("da"), &handle(false));
        handles.forget_path(&path("d"));
        assert!(handles.get(Ino(2), &path("d/a"), false).is_none());
        assert!(handles.get(Ino(3), &path("da"), false).is_some());
    }

    #[test]
    fn a_forgotten_file_is_closed() {
        let handles = Handles::new(1);
        handles.put(Ino(3), &path("x"), &handle(true));
        handles.forget(Ino(3));
        assert!(handles.get(Ino(3), &path("x"), true).is_none());
    }
}
