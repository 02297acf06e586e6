//! Files that only the mount has: `.forebay/NAME` at its root. They are looked up and read, listed only in `.forebay` itself, cannot be
//! changed by anybody, and the server behind never hears of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use forebay_client::{CallPayload, Transport};
use forebay_core::attr::{Attr, Kind};
use forebay_core::errno::Errno;
use forebay_core::id::{Ino, Name};
use forebay_core::message::{DirEntry, Reply, Request};
use parking_lot::Mutex;

/// The directory's name.
const DIRECTORY_NAME: &[u8] = b".forebay";
/// The directory's number; the files have those behind. The server counts from below.
const DIRECTORY: Ino = Ino(u64::MAX - 256);
/// The handle of the directory: the server counts from below.
const HANDLE: u64 = u64::MAX - 1;
/// Files, at most.
const FILES_MAX: usize = 255;

/// Whether the inode is the directory or one of the files: nothing of them may be kept by the kernel.
pub(crate) fn is_virtual(ino: Ino) -> bool {
    ino >= DIRECTORY
}

/// A file that only the mount has.
#[derive(Clone)]
pub struct VirtualFile {
    /// Its name.
    pub name: &'static str,
    /// Gives what it holds at the moment.
    pub content: Arc<dyn Fn() -> Vec<u8> + Send + Sync>,
}

impl fmt::Debug for VirtualFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualFile").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The way to the server, with the files in front of it.
pub(crate) struct WithVirtualFiles<T> {
    inner: T,
    files: Vec<VirtualFile>,
    /// What was read last of each from its beginning: who goes on reading gets the rest of that.
    contents: Mutex<BTreeMap<Ino, Vec<u8>>>,
}

impl<T: Transport> WithVirtualFiles<T> {
    pub(crate) fn new(inner: T, mut files: Vec<VirtualFile>) -> WithVirtualFiles<T> {
        files.truncate(FILES_MAX);
        WithVirtualFiles { inner, files, contents: Mutex::default() }
    }

    /// The answer to a request that is about one of the files; none if it is the server's.
    fn answer(&self, request: &Request, payload: &mut CallPayload<'_>) -> Option<Reply> {
        use Request::*;
        if self.files.is_empty() {
            return None;
        }
        let is_directory = |parent: &Ino, name: &Name| *parent == Ino::ROOT && name.as_bytes() == DIRECTORY_NAME;
        let error = |errno| Some(Reply::Error { errno });
        match request {
            Lookup { parent, name } if is_directory(parent, name) => Some(Reply::Entry { ino: DIRECTORY, attr: self.attr(DIRECTORY) }),
            Lookup { parent: DIRECTORY, name } => match self.files.iter().position(|file| file.name.as_bytes() == name.as_bytes()) {
                Some(at) => Some(Reply::Entry { ino: number(at), attr: self.attr(number(at)) }),
                None => error(Errno::ENOENT),
            },
            GetAttr { ino } if is_virtual(*ino) => Some(Reply::Attr { attr: self.attr(*ino) }),
            Open { ino } if is_virtual(*ino) => Some(Reply::Done),
            Forget { ino, .. } | Release { ino } | Sync { ino } if is_virtual(*ino) => Some(Reply::Done),
            Read { ino, offset, len } if is_virtual(*ino) => Some(self.read(*ino, *offset, *len, payload)),
            OpenDir { ino: DIRECTORY } => Some(Reply::DirOpened { handle: HANDLE }),
            ReadDir { handle: HANDLE, from, max } => Some(self.entries(*from, *max)),
            ReleaseDir { handle: HANDLE } => Some(Reply::Done),
            SetAttr { ino, .. } | Write { ino, .. } | ReadLink { ino } if is_virtual(*ino) => error(Errno::EROFS),
            Create { parent, name, .. } | MakeNode { parent, name, .. } | MakeDir { parent, name, .. } | SymLink { parent, name, .. }
                if is_directory(parent, name) =>
            {
                error(Errno::EEXIST)
            }
            Link { parent, name, .. } if is_directory(parent, name) => error(Errno::EEXIST),
            Create { parent, .. } | MakeNode { parent, .. } | MakeDir { parent, .. } | SymLink { parent, .. } if is_virtual(*parent) => {
                error(Errno::EROFS)
            }
            Link { ino, parent, .. } if is_virtual(*ino) || is_virtual(*parent) => error(Errno::EROFS),
            Unlink { parent, name } | RemoveDir { parent, name } if is_virtual(*parent) || is_directory(parent, name) => {
                error(Errno::EROFS)
            }
            Rename { parent, name, new_parent, new_name, .. }
                if [parent, new_parent].into_iter().any(|parent| is_virtual(*parent))
                    || is_directory(parent, name)
                    || is_directory(new_parent, new_name) =>
            {
                error(Errno::EROFS)
            }
            _ => None,
        }
    }

    /// Nobody may write; the length is not known before it is read, as in `/proc`.
    fn attr(&self, ino: Ino) -> Attr {
        let is_directory = ino == DIRECTORY;
        Attr {
            kind: if is_directory { Kind::Directory } else { Kind::File },
            mode: if is_directory { 0o555 } else { 0o444 },
            nlink: if is_directory { 2 } else { 1 },
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            size: 0,
            blocks: 0,
            rdev: 0,
            atime_ns: 0,
            mtime_ns: 0,
            ctime_ns: 0,
        }
    }

    fn read(&self, ino: Ino, offset: u64, len: u32, payload: &mut CallPayload<'_>) -> Reply {
        let (Some(file), CallPayload::Read(space)) = (self.files.get((ino.0 - DIRECTORY.0).wrapping_sub(1) as usize), payload) else {
            return Reply::Error { errno: Errno::EISDIR };
        };
        // Not under the lock: it asks the server.
        let fresh = (offset == 0).then(|| (file.content)());
        let mut contents = self.contents.lock();
        let content = match fresh {
            Some(fresh) => contents.entry(ino).insert_entry(fresh).into_mut(),
            None => contents.entry(ino).or_default(),
        };
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let part = &content[from..(from + len as usize).min(content.len())];
        if space.len() < part.len() {
            space.resize(part.len(), 0);
        }
        space[..part.len()].copy_from_slice(part);
        Reply::Read { len: part.len() as u32 }
    }

    fn entries(&self, from: u64, max: u32) -> Reply {
        let entry =
            |(at, file): (usize, &VirtualFile)| DirEntry { ino: number(at), kind: Kind::File, name: Name::new(file.name.as_bytes()) };
        let all = self.files.iter().enumerate().map(entry);
        Reply::Entries { entries: all.skip(usize::try_from(from).unwrap_or(usize::MAX)).take(max as usize).collect() }
    }
}

/// The number of a file.
fn number(at: usize) -> Ino {
    Ino(DIRECTORY.0 + 1 + at as u64)
}

impl<T: Transport> Transport for WithVirtualFiles<T> {
    fn call(&self, request: Request, mut payload: CallPayload<'_>) -> Reply {
        match self.answer(&request, &mut payload) {
            Some(reply) => reply,
            None => self.inner.call(request, payload),
        }
    }

    fn call_telling(&self, request: Request, mut payload: CallPayload<'_>, waits: &(dyn Fn() + std::marker::Sync)) -> Reply {
        match self.answer(&request, &mut payload) {
            Some(reply) => reply,
            None => self.inner.call_telling(request, payload, waits),
        }
    }
}
