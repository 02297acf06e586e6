//! Reads everything back, through the same requests that an application uses.

use std::collections::BTreeMap;

use forebay_core::attr::Kind;
use forebay_core::id::Ino;
use forebay_core::message::{Reply, Request};

/// Walks the tree and reads every byte; the oracle judges the answers.
#[derive(Debug)]
pub struct Inspector {
    /// What is to be asked, the next one last.
    stack: Vec<Request>,
    dirs: BTreeMap<u64, Ino>,
    read_bytes: u32,
    is_complete: bool,
}

impl Inspector {
    /// An inspector that is about to begin; it reads `read_bytes` at a time, and extended attributes if `is_complete` says so.
    pub fn new(read_bytes: u32, is_complete: bool) -> Inspector {
        let stack = vec![Request::OpenDir { ino: Ino::ROOT }, Request::GetAttr { ino: Ino::ROOT }];
        Inspector { stack, dirs: BTreeMap::new(), read_bytes, is_complete }
    }

    /// The next request; none when everything was read.
    pub fn next_request(&mut self) -> Option<Request> {
        self.stack.pop()
    }

    /// Learns from an answer. A request that failed for an allowed reason is asked again.
    pub fn answered(&mut self, request: &Request, reply: &Reply) {
        match (request, reply) {
            (request, Reply::Error { .. }) => self.stack.push(request.clone()),
            (Request::OpenDir { ino }, Reply::DirOpened { handle }) => {
                self.dirs.insert(*handle, *ino);
                self.stack.push(Request::ReleaseDir { handle: *handle });
                self.stack.push(Request::ReadDir { handle: *handle, from: 0, max: u32::MAX });
            }
            (Request::ReadDir { handle, .. }, Reply::Entries { entries }) => {
                let parent = self.dirs[handle];
                self.stack.extend(entries.iter().rev().map(|entry| Request::Lookup { parent, name: entry.name.clone() }));
            }
            (_, Reply::Entry { ino, attr }) => {
                self.stack.push(Request::Forget { ino: *ino, count: 1 });
                match attr.kind {
                    Kind::Directory => {
                        self.stack.push(Request::OpenDir { ino: *ino });
                        self.list_xattrs(*ino);
                    }
                    Kind::Symlink => self.stack.push(Request::ReadLink { ino: *ino }),
                    Kind::File => self.read_all(*ino, attr.size),
                    _ => {}
                }
            }
            (Request::ListXattr { ino }, Reply::XattrNames { names }) => {
                self.stack.extend(names.iter().map(|name| Request::GetXattr { ino: *ino, name: name.clone() }));
            }
            _ => {}
        }
    }

    fn list_xattrs(&mut self, ino: Ino) {
        if self.is_complete {
            self.stack.push(Request::ListXattr { ino });
        }
    }

    fn read_all(&mut self, ino: Ino, size: u64) {
        self.stack.push(Request::Release { ino });
        let step = u64::from(self.read_bytes);
        // One read begins at or behind the end.
        let reads = (0..=size / step).rev().map(|index| Request::Read { ino, offset: index * step, len: self.read_bytes });
        self.stack.extend(reads);
        self.stack.push(Request::Open { ino });
        self.list_xattrs(ino);
    }
}
