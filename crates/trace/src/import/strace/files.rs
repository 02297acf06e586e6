//! Which descriptor is at which place of its file: what `read` and `write` do not say.

use std::collections::HashMap;

/// An open file: several descriptors may share it.
type Open = usize;

/// The tables of descriptors, of which threads share one.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Which table a process uses.
    table_of: HashMap<u64, usize>,
    tables: Vec<HashMap<i64, Open>>,
    /// Of each open file: the place, if it is known, and whether it is only appended to.
    open: Vec<(Option<u64>, bool)>,
}

impl Files {
    fn table(&mut self, pid: u64) -> usize {
        let next = self.tables.len();
        let number = *self.table_of.entry(pid).or_insert(next);
        if number == next {
            self.tables.push(HashMap::new());
        }
        number
    }

    pub(super) fn knows(&self, pid: u64) -> bool {
        self.table_of.contains_key(&pid)
    }

    /// A file was opened at its begin.
    pub(super) fn opened(&mut self, pid: u64, fd: i64, append: bool) {
        let table = self.table(pid);
        self.open.push((Some(0), append));
        self.tables[table].insert(fd, self.open.len() - 1);
    }

    pub(super) fn closed(&mut self, pid: u64, fd: i64) {
        let table = self.table(pid);
        self.tables[table].remove(&fd);
    }

    pub(super) fn duplicated(&mut self, pid: u64, from: i64, to: i64) {
        let table = self.table(pid);
        match self.tables[table].get(&from).copied() {
            Some(open) => self.tables[table].insert(to, open),
            None => self.tables[table].remove(&to),
        };
    }

    /// A process was made: a thread shares the descriptors, another process has a copy.
    pub(super) fn forked(&mut self, parent: u64, child: u64, shares: bool) {
        let table = self.table(parent);
        if shares {
            self.table_of.insert(child, table);
        } else {
            let copy = self.tables[table].clone();
            self.tables.push(copy);
            self.table_of.insert(child, self.tables.len() - 1);
        }
    }

    fn open_mut(&mut self, pid: u64, fd: i64) -> Option<&mut (Option<u64>, bool)> {
        let table = self.table(pid);
        let open = self.tables[table].get(&fd).copied()?;
        self.open.get_mut(open)
    }

    /// Where the next `bytes` go or come from, and that they did; the second says whether it is an append.
    pub(super) fn moved(&mut self, pid: u64, fd: i64, bytes: u64, write: bool) -> (Option<u64>, bool) {
        let Some((place, append)) = self.open_mut(pid, fd) else { return (None, false) };
        if write && *append {
            // The end of the file, wherever that is; later reads begin behind it.
            *place = None;
            return (None, true);
        }
        let before = *place;
        *place = before.and_then(|place| place.checked_add(bytes));
        (before, false)
    }

    /// The place was set.
    pub(super) fn sought(&mut self, pid: u64, fd: i64, to: u64) {
        match self.open_mut(pid, fd) {
            Some((place, _)) => *place = Some(to),
            // Opened before the trace began: from here on its place is known.
            None => {
                self.opened(pid, fd, false);
                self.sought(pid, fd, to);
            }
        }
    }
}
