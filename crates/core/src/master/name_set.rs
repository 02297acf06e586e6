//! The names of one inode: seldom more than one, so a sorted list takes a tenth of the memory of a tree.

use alloc::vec::Vec;

use crate::id::{Ino, Name};

/// A set of names, each in a directory, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NameSet(Vec<(Ino, Name)>);

impl NameSet {
    /// An empty set.
    pub const fn new() -> NameSet {
        NameSet(Vec::new())
    }

    /// Adds a name, if it is not there.
    pub fn insert(&mut self, name: (Ino, Name)) {
        if let Err(at) = self.0.binary_search(&name) {
            self.0.reserve_exact(1);
            self.0.insert(at, name);
        }
    }

    /// Takes a name out, if it is there.
    pub fn remove(&mut self, name: &(Ino, Name)) {
        if let Ok(at) = self.0.binary_search(name) {
            self.0.remove(at);
        }
    }

    /// Whether a name is there.
    pub fn contains(&self, name: &(Ino, Name)) -> bool {
        self.0.binary_search(name).is_ok()
    }

    /// The first name.
    pub fn first(&self) -> Option<&(Ino, Name)> {
        self.0.first()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All names, in order.
    pub fn iter(&self) -> core::slice::Iter<'_, (Ino, Name)> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a NameSet {
    type Item = &'a (Ino, Name);
    type IntoIter = core::slice::Iter<'a, (Ino, Name)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
