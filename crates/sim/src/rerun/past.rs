//! What home had before a trace began, as far as the trace shows it: what it uses and has not made was there, as long as its reads, its
//! appends and the sizes that it asked for say.

use std::collections::BTreeMap;

use forebay_core::attr::Kind;
use forebay_trace::{Flags, Op, Record};

use super::home::Home;

const ROOT: usize = 0;

struct Object {
    /// The directory and the name in which it was at the begin; none if the trace makes it.
    born: Option<(usize, Vec<u8>)>,
    kind: Option<Kind>,
    first_size: u64,
    size: u64,
    /// Its size was set: what is read no longer says how long it was.
    is_cut: bool,
    children: BTreeMap<Vec<u8>, Option<usize>>,
}

/// What is found out record by record.
pub(super) struct Past {
    objects: Vec<Object>,
}

fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
}

impl Past {
    pub(super) fn new() -> Past {
        let mut past = Past { objects: Vec::new() };
        past.add(Some((ROOT, Vec::new())), Some(Kind::Directory));
        past
    }

    fn add(&mut self, born: Option<(usize, Vec<u8>)>, kind: Option<Kind>) -> usize {
        self.objects.push(Object { born, kind, first_size: 0, size: 0, is_cut: false, children: BTreeMap::new() });
        self.objects.len() - 1
    }

    /// What is at a path; what is used and was not made has been there.
    fn at(&mut self, path: &[u8]) -> usize {
        let mut at = ROOT;
        for part in parts(path) {
            self.objects[at].kind = Some(Kind::Directory);
            at = match self.objects[at].children.get(part) {
                Some(Some(child)) => *child,
                known => {
                    // Below a directory that was made nothing was before, and nothing where something was removed.
                    let born = (known.is_none() && self.objects[at].born.is_some()).then(|| (at, part.to_vec()));
                    let child = self.add(born, None);
                    self.objects[at].children.insert(part.to_vec(), Some(child));
                    child
                }
            };
        }
        at
    }

    fn put(&mut self, path: &[u8], child: Option<usize>) {
        let (parent, name) = path.iter().rposition(|byte| *byte == b'/').map_or((&path[..0], path), |at| (&path[..at], &path[at + 1..]));
        let parent = self.at(parent);
        self.objects[parent].kind = Some(Kind::Directory);
        self.objects[parent].children.insert(name.to_vec(), child);
    }

    fn make(&mut self, path: &[u8], kind: Kind) {
        let made = self.add(None, Some(kind));
        self.put(path, Some(made));
    }

    /// A record of a file; paths are those below home.
    pub(super) fn add_record(&mut self, record: &Record, path: &[u8], other: &[u8]) {
        if record.result < 0 || path.is_empty() && !matches!(record.op, Op::ReadDir) {
            return;
        }
        match record.op {
            Op::Open if record.flags.has(Flags::CREATE) => self.make(path, Kind::File),
            Op::Create => self.make(path, Kind::Fifo),
            Op::Mkdir => self.make(path, Kind::Directory),
            Op::Symlink => self.make(path, Kind::Symlink),
            Op::Unlink | Op::Rmdir => {
                self.at(path);
                self.put(path, None);
            }
            Op::Rename | Op::Link => {
                let moved = self.at(path);
                self.put(other, Some(moved));
                if record.op == Op::Rename {
                    self.put(path, None);
                }
            }
            _ => self.used(record, path),
        }
    }

    fn used(&mut self, record: &Record, path: &[u8]) {
        let at = self.at(path);
        let object = &mut self.objects[at];
        let end = record.offset.saturating_add(record.moved_bytes());
        let longer = |object: &mut Object, size: u64| {
            if size > object.size && !object.is_cut {
                (object.first_size, object.size) = (size, size);
            }
        };
        match record.op {
            Op::ReadDir => object.kind = Some(Kind::Directory),
            Op::ReadLink => object.kind = Some(Kind::Symlink),
            Op::Stat => longer(object, record.size),
            Op::Read => {
                object.kind = Some(Kind::File);
                longer(object, if record.moved_bytes() > 0 { end } else { 0 });
            }
            Op::Write => {
                object.kind = Some(Kind::File);
                if record.flags.has(Flags::APPEND) {
                    longer(object, record.offset);
                }
                object.size = object.size.max(end);
            }
            Op::Truncate => {
                object.kind = Some(Kind::File);
                (object.size, object.is_cut) = (record.size, true);
            }
            _ => {}
        }
    }

    /// The home of the begin.
    pub(super) fn home(&self) -> Home {
        let mut home = Home::new();
        let mut paths: Vec<Option<Vec<u8>>> = vec![Some(Vec::new())];
        for object in &self.objects[1..] {
            let path = object.born.as_ref().and_then(|(parent, name)| {
                let mut path = paths[*parent].clone()?;
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(name);
                Some(path)
            });
            if let Some(path) = &path {
                let kind = object.kind.unwrap_or(Kind::File);
                // Parents come before their children, so this finds its directory.
                let _ = home.make(path, kind, object.first_size);
            }
            paths.push(path);
        }
        home
    }
}
