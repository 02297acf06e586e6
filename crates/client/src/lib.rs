//! The client's side: one typed method for each request, over any [`Transport`].
//!
//! There is no decision in here. A reply of the wrong kind is a bug of the server; it becomes `EIO` and a message.

#![forbid(unsafe_code)]

use forebay_core::attr::{Attr, AttrChange, Caller, Kind};
use forebay_core::errno::Errno;
use forebay_core::id::{Ino, Name};
use forebay_core::message::{AllocateMode, DirEntry, DrainFailure, PlacedRange, RenameMode, Reply, Request, SeekWhence, StatFs, Status};
use forebay_core::xattr::{self, SetMode};
use forebay_host::log;
pub use forebay_host::transport::{CallPayload, Transport};

/// Asks a server over a transport.
#[derive(Clone, Debug)]
pub struct Client<T: Transport> {
    transport: T,
}

/// What a write has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Where the bytes stand.
    pub offset: u64,
    /// The file has lost set-id bits: its mode is another one.
    pub dropped_set_id: bool,
}

/// Where a file is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Whereabouts {
    /// Ranges without a gap.
    pub ranges: Vec<PlacedRange>,
    /// The file's size, bytes.
    pub size: u64,
    /// Of these, bytes in the buffer.
    pub buffered_bytes: u64,
    /// Of these, bytes that are not yet home.
    pub dirty_bytes: u64,
}

/// Takes the fields of the expected reply; any other reply is an error.
macro_rules! expect {
    ($what:literal, $reply:expr, $pattern:pat => $value:expr) => {
        match $reply {
            $pattern => Ok($value),
            Reply::Error { errno } => Err(errno),
            other => Err(unexpected($what, &other)),
        }
    };
}

fn unexpected(what: &str, reply: &Reply) -> Errno {
    log::problem(&format!("a {what} request was answered with {reply:?}; the caller gets EIO. This is a bug, please report it."));
    Errno::EIO
}

impl<T: Transport> Client<T> {
    /// A client that asks over `transport`.
    pub fn new(transport: T) -> Client<T> {
        Client { transport }
    }

    /// The transport.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// The transport alone.
    pub fn into_transport(self) -> T {
        self.transport
    }

    fn ask(&self, request: Request) -> Reply {
        self.transport.call(request, CallPayload::None)
    }

    /// The entry `name` of `parent`, counting one reference, until [`Client::forget`]. `ENOENT` if there is none.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Result<(Ino, Attr), Errno> {
        expect!("lookup", self.ask(Request::Lookup { parent, name: Name::new(name) }), Reply::Entry { ino, attr } => (ino, attr))
    }

    /// Gives back `count` references.
    pub fn forget(&self, ino: Ino, count: u64) -> Result<(), Errno> {
        expect!("forget", self.ask(Request::Forget { ino, count }), Reply::Done => ())
    }

    /// Attributes.
    pub fn get_attr(&self, ino: Ino) -> Result<Attr, Errno> {
        expect!("getattr", self.ask(Request::GetAttr { ino }), Reply::Attr { attr } => attr)
    }

    /// Changes attributes; gives the new ones.
    pub fn set_attr(&self, ino: Ino, change: AttrChange) -> Result<Attr, Errno> {
        expect!("setattr", self.ask(Request::SetAttr { ino, change }), Reply::Attr { attr } => attr)
    }

    /// A symlink's target.
    pub fn read_link(&self, ino: Ino) -> Result<Name, Errno> {
        expect!("readlink", self.ask(Request::ReadLink { ino }), Reply::Target { target } => target)
    }

    /// Makes a file, fifo, socket or device node without opening it, counting one reference. `mode`: 12 permission bits.
    pub fn make_node(&self, parent: Ino, name: &[u8], kind: Kind, mode: u16, rdev: u32, caller: Caller) -> Result<(Ino, Attr), Errno> {
        let request = Request::MakeNode { parent, name: Name::new(name), kind, mode, rdev, caller };
        expect!("mknod", self.ask(request), Reply::Entry { ino, attr } => (ino, attr))
    }

    /// Makes a directory, counting one reference. `mode`: 12 permission bits.
    pub fn make_dir(&self, parent: Ino, name: &[u8], mode: u16, caller: Caller) -> Result<(Ino, Attr), Errno> {
        let request = Request::MakeDir { parent, name: Name::new(name), mode, caller };
        expect!("mkdir", self.ask(request), Reply::Entry { ino, attr } => (ino, attr))
    }

    /// Makes a symlink, counting one reference.
    pub fn sym_link(&self, parent: Ino, name: &[u8], target: &[u8], caller: Caller) -> Result<(Ino, Attr), Errno> {
        let request = Request::SymLink { parent, name: Name::new(name), target: Name::new(target), caller };
        expect!("symlink", self.ask(request), Reply::Entry { ino, attr } => (ino, attr))
    }

    /// Gives `ino` one more name, counting one reference.
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<(Ino, Attr), Errno> {
        let request = Request::Link { ino, parent, name: Name::new(name) };
        expect!("link", self.ask(request), Reply::Entry { ino, attr } => (ino, attr))
    }

    /// Removes a name that is not a directory's.
    pub fn unlink(&self, parent: Ino, name: &[u8]) -> Result<(), Errno> {
        expect!("unlink", self.ask(Request::Unlink { parent, name: Name::new(name) }), Reply::Done => ())
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, parent: Ino, name: &[u8]) -> Result<(), Errno> {
        expect!("rmdir", self.ask(Request::RemoveDir { parent, name: Name::new(name) }), Reply::Done => ())
    }

    /// Renames.
    pub fn rename(&self, parent: Ino, name: &[u8], new_parent: Ino, new_name: &[u8], mode: RenameMode) -> Result<(), Errno> {
        let request = Request::Rename { parent, name: Name::new(name), new_parent, new_name: Name::new(new_name), mode };
        expect!("rename", self.ask(request), Reply::Done => ())
    }

    /// Makes and opens a file, counting one reference and one open. `mode`: 12 permission bits. With `exclusive` it must not exist.
    pub fn create(&self, parent: Ino, name: &[u8], mode: u16, exclusive: bool, caller: Caller) -> Result<(Ino, Attr), Errno> {
        let request = Request::Create { parent, name: Name::new(name), mode, exclusive, caller };
        expect!("create", self.ask(request), Reply::Created { ino, attr } => (ino, attr))
    }

    /// Opens a file, counting one open, until [`Client::release`].
    pub fn open(&self, ino: Ino) -> Result<(), Errno> {
        expect!("open", self.ask(Request::Open { ino }), Reply::Done => ())
    }

    /// Closes what [`Client::open`] or [`Client::create`] opened.
    pub fn release(&self, ino: Ino) -> Result<(), Errno> {
        expect!("release", self.ask(Request::Release { ino }), Reply::Done => ())
    }

    /// Reads up to `len` bytes at `offset`; gives how many stand at the start of `buffer`, fewer only at the file's end. `buffer`
    /// grows to `len` and is never shortened; what stands behind the answer has no meaning.
    pub fn read(&self, ino: Ino, offset: u64, len: u32, buffer: &mut Vec<u8>) -> Result<u32, Errno> {
        let reply = self.transport.call(Request::Read { ino, offset, len }, CallPayload::Read(buffer));
        expect!("read", reply, Reply::Read { len } => len)
    }

    /// Writes at `offset`, or at the file's end with `append`. Never writes less
    /// than all of `bytes`. With `drops_set_id` the writer may not leave set-id bits on the file. `EFBIG` or `EINVAL` for more bytes than one request may have (`u32::MAX`).
    pub fn write(&self, ino: Ino, offset: u64, bytes: &[u8], append: bool, drops_set_id: bool) -> Result<Written, Errno> {
        let len = u32::try_from(bytes.len()).map_err(|_| Errno::EINVAL)?;
        let reply = self.transport.call(Request::Write { ino, offset, len, append, drops_set_id }, CallPayload::Write(bytes));
        match reply {
            Reply::Written { offset, len: written, dropped_set_id } if written == len => Ok(Written { offset, dropped_set_id }),
            Reply::Error { errno } => Err(errno),
            other => Err(unexpected("write", &other)),
        }
    }

    /// Gives a range space, or takes its bytes.
    pub fn allocate(&self, ino: Ino, offset: u64, len: u64, mode: AllocateMode, drops_set_id: bool) -> Result<(), Errno> {
        expect!("fallocate", self.ask(Request::Allocate { ino, offset, len, mode, drops_set_id }), Reply::Done => ())
    }

    /// The next data or hole from `offset` on; `ENXIO` if there is none.
    pub fn seek(&self, ino: Ino, offset: u64, whence: SeekWhence) -> Result<u64, Errno> {
        expect!("lseek", self.ask(Request::Seek { ino, offset, whence }), Reply::Offset { offset } => offset)
    }

    /// Sets an extended attribute of the user's; `ENOTSUP` for others.
    pub fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: SetMode) -> Result<(), Errno> {
        xattr::check_name(name)?;
        let request = Request::SetXattr { ino, name: Name::new(name), value: value.to_vec(), mode };
        expect!("setxattr", self.ask(request), Reply::Done => ())
    }

    /// An extended attribute; `ENODATA` if it is not there.
    pub fn get_xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, Errno> {
        xattr::check_name(name)?;
        expect!("getxattr", self.ask(Request::GetXattr { ino, name: Name::new(name) }), Reply::Xattr { value } => value)
    }

    /// The names of all extended attributes.
    pub fn list_xattr(&self, ino: Ino) -> Result<Vec<Name>, Errno> {
        expect!("listxattr", self.ask(Request::ListXattr { ino }), Reply::XattrNames { names } => names)
    }

    /// Removes an extended attribute.
    pub fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<(), Errno> {
        xattr::check_name(name)?;
        expect!("removexattr", self.ask(Request::RemoveXattr { ino, name: Name::new(name) }), Reply::Done => ())
    }

    /// Returns when everything acknowledged so far is on the medium.
    pub fn sync(&self, ino: Ino) -> Result<(), Errno> {
        expect!("sync", self.ask(Request::Sync { ino }), Reply::Done => ())
    }

    /// Opens a directory for reading; gives the handle for [`Client::read_dir`] and [`Client::release_dir`].
    pub fn open_dir(&self, ino: Ino) -> Result<u64, Errno> {
        expect!("opendir", self.ask(Request::OpenDir { ino }), Reply::DirOpened { handle } => handle)
    }

    /// At most `max` entries whose cookie is greater than `from`; fewer than `max` means the end. `from` 0 takes a new look at the directory.
    pub fn read_dir(&self, handle: u64, from: u64, max: u32) -> Result<Vec<DirEntry>, Errno> {
        expect!("readdir", self.ask(Request::ReadDir { handle, from, max }), Reply::Entries { entries } => entries)
    }

    /// As [`Client::read_dir`], with the attributes of each entry where they are known; each of these counts one reference.
    pub fn read_dir_plus(&self, handle: u64, from: u64, max: u32) -> Result<Vec<(DirEntry, Option<Attr>)>, Errno> {
        expect!("readdirplus", self.ask(Request::ReadDirPlus { handle, from, max }), Reply::EntriesPlus { entries } => entries)
    }

    /// Closes a directory.
    pub fn release_dir(&self, handle: u64) -> Result<(), Errno> {
        expect!("releasedir", self.ask(Request::ReleaseDir { handle }), Reply::Done => ())
    }

    /// Space of the file system.
    pub fn stat_fs(&self) -> Result<StatFs, Errno> {
        expect!("statfs", self.ask(Request::StatFs), Reply::StatFs { stat } => stat)
    }

    /// Brings everything home and compares it there; gives what could not be brought.
    pub fn drain(&self) -> Result<Vec<DrainFailure>, Errno> {
        expect!("drain", self.ask(Request::Drain), Reply::Drained { failures } => failures)
    }

    /// Brings one inode home as it is now and compares it there; gives why that failed, if it did. `ENOENT` if it has no name.
    pub fn bring_home(&self, ino: Ino) -> Result<Option<DrainFailure>, Errno> {
        expect!("bring home", self.ask(Request::BringHome { ino }), Reply::BroughtHome { failure } => failure)
    }

    /// Where the bytes of a file are from `from` on, in at most `max` ranges; beside them its size, and how many of its bytes are in the
    /// buffer and how many of these are not yet home.
    pub fn where_is(&self, ino: Ino, from: u64, max: u32) -> Result<Whereabouts, Errno> {
        expect!("where", self.ask(Request::Where { ino, from, max }), Reply::Where { ranges, size, buffered_bytes, dirty_bytes } =>
            Whereabouts { ranges, size, buffered_bytes, dirty_bytes })
    }

    /// The instance's state.
    pub fn status(&self) -> Result<Status, Errno> {
        expect!("status", self.ask(Request::Status), Reply::Status { status } => *status)
    }
}
