//! Files that only the mount has: `.forebay/NAME` at its root. They are looked up and read, listed only in `.forebay` itself, cannot be
//! changed by anybody, and the server behind never hears of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use forebay_client::{CallPayload, Transport};
use forebay_core::attr::{Attr, Kind};
use forebay_core::effect::Once;
use forebay_core::errno::Errno;
use forebay_core::id::{Ino, Name};
use forebay_core::message::{DirEntry, Reply, Request, SeekWhence};
use parking_lot::Mutex;

/// The directory's name.
const DIRECTORY_NAME: &[u8] = b".forebay";
/// The directory's number; the files have those behind. The server counts from below and never comes here.
const DIRECTORY: Ino = Ino(1 << 62);
/// The handle of the directory: the server counts from below.
const HANDLE: u64 = u64::MAX - 1;
/// Files, at most.
const FILES_MAX: usize = 255;
/// Numbers of one look at all files.
const NUMBERS: u64 = 256;
/// Contents that are kept for who reads them, at most; the oldest go first.
const VIEWS_MAX: usize = 256;

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
    views: Mutex<Views>,
}

/// What was seen. Each look at a name gives a file of its own, which holds what the name held at that moment and has its size: the kernel
/// opens files without asking, keeps their pages, and reads no further than their size.
#[derive(Default)]
struct Views {
    contents: BTreeMap<Ino, Vec<u8>>,
    /// Looks so far.
    looks: u64,
}

impl<T: Transport> WithVirtualFiles<T> {
    pub(crate) fn new(inner: T, mut files: Vec<VirtualFile>) -> WithVirtualFiles<T> {
        files.truncate(FILES_MAX);
        WithVirtualFiles { inner, files, views: Mutex::default() }
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
                Some(at) => Some(self.look(at)),
                None => error(Errno::ENOENT),
            },
            GetAttr { ino } if is_virtual(*ino) => Some(Reply::Attr { attr: self.attr(*ino) }),
            Open { ino } if is_virtual(*ino) => Some(Reply::Done),
            Forget { ino, .. } if is_virtual(*ino) => {
                // One reference is all that there ever is to a file.
                self.views.lock().contents.remove(ino);
                Some(Reply::Done)
            }
            Release { ino } | Sync { ino } if is_virtual(*ino) => Some(Reply::Done),
            Read { ino, offset, len } if is_virtual(*ino) => Some(self.read(*ino, *offset, *len, payload)),
            OpenDir { ino: DIRECTORY } => Some(Reply::DirOpened { handle: HANDLE }),
            ReadDir { handle: HANDLE, from, max } => Some(self.entries(*from, *max)),
            ReadDirPlus { handle: HANDLE, from, max } => Some(match self.entries(*from, *max) {
                // Mere names: each look has a number of its own.
                Reply::Entries { entries } => Reply::EntriesPlus { entries: entries.into_iter().map(|entry| (entry, None)).collect() },
                other => other,
            }),
            ReleaseDir { handle: HANDLE } => Some(Reply::Done),
            SetAttr { ino, .. } | Write { ino, .. } | Allocate { ino, .. } if is_virtual(*ino) => error(Errno::EROFS),
            SetXattr { ino, .. } | RemoveXattr { ino, .. } if is_virtual(*ino) => error(Errno::EROFS),
            GetXattr { ino, .. } if is_virtual(*ino) => error(Errno::ENODATA),
            ListXattr { ino } if is_virtual(*ino) => Some(Reply::XattrNames { names: Vec::new() }),
            ReadLink { ino } if is_virtual(*ino) => error(Errno::EINVAL),
            Seek { ino, offset, whence } if is_virtual(*ino) => Some(self.seek(*ino, *offset, *whence)),
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

    fn look(&self, at: usize) -> Reply {
        let Some(file) = self.files.get(at) else { return Reply::Error { errno: Errno::ENOENT } };
        // Not under the lock: it asks the server.
        let content = (file.content)();
        let ino = {
            let mut views = self.views.lock();
            views.looks += 1;
            let ino = Ino(DIRECTORY.0 + views.looks * NUMBERS + at as u64);
            views.contents.insert(ino, content);
            while views.contents.len() > VIEWS_MAX {
                views.contents.pop_first();
            }
            ino
        };
        Reply::Entry { ino, attr: self.attr(ino) }
    }

    /// Nobody may write.
    fn attr(&self, ino: Ino) -> Attr {
        let is_directory = ino == DIRECTORY;
        Attr {
            kind: if is_directory { Kind::Directory } else { Kind::File },
            mode: if is_directory { 0o555 } else { 0o444 },
            nlink: if is_directory { 2 } else { 1 },
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            size: self.views.lock().contents.get(&ino).map_or(0, |content| content.len() as u64),
            blocks: 0,
            rdev: 0,
            atime_ns: 0,
            mtime_ns: 0,
            ctime_ns: 0,
        }
    }

    fn read(&self, ino: Ino, offset: u64, len: u32, payload: &mut CallPayload<'_>) -> Reply {
        let CallPayload::Read(space) = payload else { return Reply::Error { errno: Errno::EINVAL } };
        let views = self.views.lock();
        let Some(content) = views.contents.get(&ino) else {
            return Reply::Error { errno: if ino == DIRECTORY { Errno::EISDIR } else { Errno::ESTALE } };
        };
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let part = &content[from..(from + len as usize).min(content.len())];
        if space.len() < part.len() {
            space.resize(part.len(), 0);
        }
        space[..part.len()].copy_from_slice(part);
        Reply::Read { len: part.len() as u32 }
    }

    /// All of it is data.
    fn seek(&self, ino: Ino, offset: u64, whence: SeekWhence) -> Reply {
        let size = self.attr(ino).size;
        match whence {
            _ if offset >= size => Reply::Error { errno: Errno::ENXIO },
            SeekWhence::Data => Reply::Offset { offset },
            SeekWhence::Hole => Reply::Offset { offset: size },
        }
    }

    fn entries(&self, from: u64, max: u32) -> Reply {
        let entry =
            |(at, file): (usize, &VirtualFile)| DirEntry { ino: number(at), kind: Kind::File, name: Name::new(file.name.as_bytes()) };
        let mut all: Vec<DirEntry> = self.files.iter().enumerate().map(entry).collect();
        all.sort_by_key(DirEntry::cookie);
        Reply::Entries { entries: all.into_iter().filter(|entry| entry.cookie() > from).take(max as usize).collect() }
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

    fn call_telling(
        &self,
        request: Request,
        mut payload: CallPayload<'_>,
        once: Option<Once>,
        waits: &(dyn Fn() + std::marker::Sync),
    ) -> Reply {
        match self.answer(&request, &mut payload) {
            Some(reply) => reply,
            None => self.inner.call_telling(request, payload, once, waits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::message::AllocateMode;
    use forebay_core::xattr::SetMode;

    /// A server that must not be asked.
    struct Nobody;

    impl Transport for Nobody {
        fn call(&self, request: Request, _: CallPayload<'_>) -> Reply {
            panic!("the server was asked for {request:?}")
        }
    }

    #[test]
    fn what_other_files_can_and_these_cannot_has_an_error_of_its_own() {
        let file = VirtualFile { name: "stats", content: Arc::new(|| b"{}".to_vec()) };
        let mount = WithVirtualFiles::new(Nobody, vec![file]);
        let ask = |request| mount.call(request, CallPayload::None);
        let Reply::Entry { ino, .. } = ask(Request::Lookup { parent: DIRECTORY, name: Name::new(b"stats") }) else { panic!("it is there") };
        let name = Name::new(b"user.a");
        for ino in [ino, DIRECTORY] {
            let set = Request::SetXattr { ino, name: name.clone(), value: vec![1], mode: SetMode::Any };
            let allocate = Request::Allocate { ino, offset: 0, len: 1, mode: AllocateMode::Punch, drops_set_id: false };
            let refusals = [
                (set, Errno::EROFS),
                (Request::RemoveXattr { ino, name: name.clone() }, Errno::EROFS),
                (Request::GetXattr { ino, name: name.clone() }, Errno::ENODATA),
                (allocate, Errno::EROFS),
                (Request::Seek { ino, offset: 2, whence: SeekWhence::Data }, Errno::ENXIO),
            ];
            for (request, errno) in refusals {
                assert_eq!(ask(request.clone()), Reply::Error { errno }, "{request:?}");
            }
            assert_eq!(ask(Request::ListXattr { ino }), Reply::XattrNames { names: vec![] });
        }
        assert_eq!(ask(Request::Seek { ino, offset: 1, whence: SeekWhence::Data }), Reply::Offset { offset: 1 });
        assert_eq!(ask(Request::Seek { ino, offset: 1, whence: SeekWhence::Hole }), Reply::Offset { offset: 2 });
    }
}
