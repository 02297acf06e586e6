//! Where inodes are: the kernel speaks of them by number, a trace by path.

use std::collections::HashMap;

use forebay_trace::{FileId, Names};

/// The number of the root.
const ROOT: u64 = 1;
/// Directories above a file, at most: deeper ones do not exist.
const DEPTH_MAX: usize = 1 << 14;

struct Node {
    parent: u64,
    name: Box<[u8]>,
    /// References that the kernel has.
    references: u64,
    /// Its number in the trace, and the time at which it had that path.
    file: Option<(FileId, u64)>,
}

/// The names of the inodes that the kernel knows.
pub(super) struct Paths {
    root: Vec<u8>,
    nodes: HashMap<u64, Node>,
    children: HashMap<u64, HashMap<Box<[u8]>, u64>>,
    /// Counts renames of directories: what is below of them has other paths then.
    moves: u64,
}

impl Paths {
    /// With this path for the root.
    pub(super) fn new(root: &[u8]) -> Paths {
        let root = root.strip_suffix(b"/").unwrap_or(root).to_vec();
        Paths { root, nodes: HashMap::new(), children: HashMap::new(), moves: 0 }
    }

    /// The kernel got one more reference to an inode, by this name.
    pub(super) fn entry(&mut self, parent: u64, name: &[u8], ino: u64) {
        match self.nodes.get_mut(&ino) {
            Some(node) if node.parent == parent && &*node.name == name => node.references += 1,
            Some(_) => {
                self.leave(ino);
                if let Some(node) = self.nodes.get_mut(&ino) {
                    // Another of its names; or it was moved behind our back.
                    (node.parent, node.name, node.file) = (parent, name.into(), None);
                    node.references += 1;
                }
            }
            None => {
                self.nodes.insert(ino, Node { parent, name: name.into(), references: 1, file: None });
            }
        }
        self.children.entry(parent).or_default().insert(name.into(), ino);
    }

    /// The inode's name leads to it no more.
    fn leave(&mut self, ino: u64) {
        let Some(node) = self.nodes.get(&ino) else { return };
        let Some(siblings) = self.children.get_mut(&node.parent) else { return };
        if siblings.get(&node.name) == Some(&ino) {
            siblings.remove(&node.name);
            if siblings.is_empty() {
                self.children.remove(&node.parent);
            }
        }
    }

    /// The kernel gave references back.
    pub(super) fn forget(&mut self, ino: u64, count: u64) {
        let Some(node) = self.nodes.get_mut(&ino) else { return };
        node.references = node.references.saturating_sub(count);
        if node.references == 0 {
            self.leave(ino);
            self.nodes.remove(&ino);
        }
    }

    /// A name was removed. Who has the file open goes on to use it by the number that it has.
    pub(super) fn removed(&mut self, names: &mut Names, parent: u64, name: &[u8]) {
        if let Some(ino) = self.child(parent, name) {
            self.file(names, ino);
            self.leave(ino);
        }
    }

    /// A name was changed, or exchanged with another.
    pub(super) fn renamed(&mut self, names: &mut Names, from: (u64, &[u8]), to: (u64, &[u8]), exchanged: bool) {
        let (moved, other) = (self.child(from.0, from.1), self.child(to.0, to.1));
        if moved.is_some() && moved == other {
            // Two names of one file: nothing happens.
            return;
        }
        if !exchanged {
            self.removed(names, to.0, to.1);
        }
        for (ino, _) in [(moved, to), (other.filter(|_| exchanged), from)] {
            ino.into_iter().for_each(|ino| self.leave(ino));
        }
        for (ino, (parent, name)) in [(moved, to), (other.filter(|_| exchanged), from)] {
            let Some(ino) = ino else { continue };
            if self.children.contains_key(&ino) {
                self.moves += 1;
            }
            if let Some(node) = self.nodes.get_mut(&ino) {
                (node.parent, node.name, node.file) = (parent, name.into(), None);
                self.children.entry(parent).or_default().insert(name.into(), ino);
            }
        }
    }

    fn child(&self, parent: u64, name: &[u8]) -> Option<u64> {
        self.children.get(&parent)?.get(name).copied()
    }

    /// The path of an inode.
    fn path(&self, ino: u64) -> Option<Vec<u8>> {
        let mut parts = Vec::new();
        let mut at = ino;
        while at != ROOT {
            let node = self.nodes.get(&at)?;
            parts.push(&*node.name);
            at = node.parent;
            if parts.len() > DEPTH_MAX {
                return None;
            }
        }
        let mut path = self.root.clone();
        for part in parts.into_iter().rev() {
            path.push(b'/');
            path.extend_from_slice(part);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Some(path)
    }

    /// The number in the trace of an inode.
    pub(super) fn file(&mut self, names: &mut Names, ino: u64) -> FileId {
        let known = self.nodes.get(&ino).and_then(|node| node.file);
        if let Some((file, moves)) = known
            && moves == self.moves
        {
            return file;
        }
        let known = known.map_or(FileId::NONE, |(file, _)| file);
        let file = self.path(ino).and_then(|path| names.file(&path).ok()).unwrap_or(known);
        if let Some(node) = self.nodes.get_mut(&ino)
            && file != FileId::NONE
        {
            node.file = Some((file, self.moves));
        }
        file
    }

    /// The number in the trace of a name in a directory, whether it is there or not.
    pub(super) fn file_of_name(&mut self, names: &mut Names, parent: u64, name: &[u8]) -> FileId {
        if let Some(ino) = self.child(parent, name) {
            return self.file(names, ino);
        }
        let Some(mut path) = self.path(parent) else { return FileId::NONE };
        if path != b"/" {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        names.file(&path).unwrap_or(FileId::NONE)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.nodes.len() + self.children.len()
    }
}
