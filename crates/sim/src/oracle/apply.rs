//! What a request does to a state, by POSIX, and what its answer must be.

use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_core::attr::{AttrChange, Caller, Kind, SetTime};
use forebay_core::errno::Errno;
use forebay_core::id::{Ino, Name};
use forebay_core::message::{AllocateMode, RenameMode, Request};
use forebay_core::xattr::SetMode;

use super::expected::Expected;
use super::state::{Body, FileData, Inode, ModelIno, State, TimeSpan};

/// Longest name.
const NAME_BYTES_MAX: usize = 255;

/// A request, with what the oracle must know beside it.
#[derive(Clone, Debug)]
pub struct Call {
    /// The request.
    pub request: Request,
    /// The bytes of a write.
    pub payload: Rc<Vec<u8>>,
    /// The number that an inode made by it gets.
    pub makes: ModelIno,
    /// Of a write: ranges that other writes took while it was under way. Whose bytes stay there is open: a write's place in history is
    /// fixed when it is admitted, and it is seen when it is done.
    pub beside: Vec<(u64, u64)>,
    /// When it was handled, at the earliest and at the latest: nanoseconds since the epoch.
    pub handled: (i64, i64),
}

type Outcome = Result<Expected, Errno>;

impl State {
    /// Carries out a request and says what its answer must be. A failing request changes nothing.
    pub fn apply(&mut self, call: &Call) -> Expected {
        let gone = self.is_about_what_is_gone(call);
        let expected = match self.try_apply(call) {
            // Which of two errors comes first is the kernel's business: it looks at both before it asks.
            Err(Errno::ENOENT) if call.names_too_long() => Expected::Error(&[Errno::ENOENT, Errno::ESTALE, Errno::ENAMETOOLONG]),
            outcome => outcome.unwrap_or_else(Expected::from),
        };
        if gone && call.is_about_xattrs() {
            // Home may have taken them along with the name.
            return Expected::Anything;
        }
        if gone { Expected::DoneOrGone(Box::new(expected)) } else { expected }
    }

    /// Whether the request is about an inode that has no name and is no open file, but known to someone still.
    fn is_about_what_is_gone(&self, call: &Call) -> bool {
        let (Request::GetAttr { ino }
        | Request::SetAttr { ino, .. }
        | Request::ReadLink { ino }
        | Request::OpenDir { ino }
        | Request::SetXattr { ino, .. }
        | Request::GetXattr { ino, .. }
        | Request::ListXattr { ino }
        | Request::RemoveXattr { ino, .. }
        | Request::Where { ino, .. }) = &call.request
        else {
            return false;
        };
        let counts = |inode: &Inode| inode.nlink == 0 && (inode.opens == 0 || inode.kind != Kind::File);
        self.resolve(*ino).is_ok_and(|ino| counts(self.inode(ino)))
    }

    fn try_apply(&mut self, call: &Call) -> Outcome {
        match &call.request {
            Request::Lookup { parent, name } => {
                check_name(name)?;
                let dir = self.dir(*parent)?;
                let ino = self.child(dir, name).ok_or(Errno::ENOENT)?;
                Ok(Expected::Entry(ino, self.inode(ino).clone()))
            }
            Request::GetAttr { ino } => {
                let ino = self.resolve(*ino)?;
                Ok(Expected::Attr(ino, self.inode(ino).clone()))
            }
            Request::SetAttr { ino, change } => self.apply_set_attr(call, *ino, change),
            Request::ReadLink { ino } => match &self.inode(self.resolve(*ino)?).body {
                Body::Symlink(target) => Ok(Expected::Target(target.clone())),
                _ => Err(Errno::EINVAL),
            },
            Request::MakeNode { parent, name, kind, mode, rdev, caller } => {
                let body = if *kind == Kind::File { Body::File(FileData::default()) } else { Body::Node(*rdev) };
                self.make(call, *parent, name, *kind, *mode, *caller, body)
            }
            Request::MakeDir { parent, name, mode, caller } => {
                self.make(call, *parent, name, Kind::Directory, *mode, *caller, Body::Dir(BTreeMap::new()))
            }
            Request::SymLink { parent, name, target, caller } => {
                self.make(call, *parent, name, Kind::Symlink, 0o777, *caller, Body::Symlink(target.clone()))
            }
            Request::Link { ino, parent, name } => self.apply_link(call, *ino, *parent, name),
            Request::Unlink { parent, name } => self.apply_unlink(call, *parent, name),
            Request::RemoveDir { parent, name } => self.apply_remove_dir(call, *parent, name),
            Request::Rename { parent, name, new_parent, new_name, mode } => {
                self.apply_rename(call, (*parent, name), (*new_parent, new_name), *mode)
            }
            Request::Create { parent, name, mode, exclusive, caller } => self.apply_create(call, *parent, name, *mode, *exclusive, *caller),
            Request::Open { ino } => {
                let ino = self.resolve(*ino)?;
                if self.inode(ino).nlink == 0 && self.inode(ino).opens == 0 {
                    return Err(Errno::ENOENT);
                }
                self.inode_mut(ino).opens += 1;
                Ok(Expected::Done)
            }
            Request::Release { ino } => {
                let ino = self.resolve(*ino)?;
                let inode = self.inode_mut(ino);
                inode.opens = inode.opens.saturating_sub(1);
                self.collect();
                Ok(Expected::Done)
            }
            Request::Read { ino, offset, len } => {
                let ino = self.resolve(*ino)?;
                let inode = self.inode(ino).clone();
                Ok(Expected::Read { ino, inode, offset: *offset, len: *len })
            }
            Request::Write { ino, offset, len, append, drops_set_id } => {
                let ino = self.resolve(*ino)?;
                let before = Rc::clone(self.inode(ino));
                let offset = if *append { self.file_mut(ino).size } else { *offset };
                self.file_mut(ino).write_beside(offset, &call.payload, &call.beside);
                if *len > 0 {
                    let inode = self.inode_mut(ino);
                    inode.mtime = call.time_after(&inode.mtime);
                    inode.drop_set_id(*drops_set_id);
                }
                Ok(Expected::Written { offset, len: *len, before })
            }
            Request::OpenDir { ino } => {
                let ino = self.resolve(*ino)?;
                self.inode(ino).dir().ok_or(Errno::ENOTDIR)?;
                Ok(Expected::DirOpened(ino))
            }
            Request::ReadDir { handle, from, max } => {
                let dir = self.handles.get(handle).ok_or(Errno::ESTALE)?.dir;
                Ok(Expected::Entries { handle: *handle, from: *from, max: *max, inode: self.inode(dir).clone() })
            }
            Request::ReleaseDir { handle } => {
                self.handles.remove(handle);
                self.collect();
                Ok(Expected::Done)
            }
            Request::Allocate { ino, offset, len, mode, drops_set_id } => {
                self.apply_allocate(call, *ino, *offset..offset + len, *mode, *drops_set_id)
            }
            Request::Seek { ino, offset, whence } => {
                let inode = self.inode(self.resolve(*ino)?).clone();
                Ok(Expected::Found { inode, offset: *offset, whence: *whence })
            }
            Request::SetXattr { .. } | Request::GetXattr { .. } | Request::ListXattr { .. } | Request::RemoveXattr { .. } => {
                self.apply_xattr(&call.request)
            }
            Request::Depart => {
                self.forget_process();
                Ok(Expected::Done)
            }
            // The clients do not ask it: each entry would be a reference.
            Request::ReadDirPlus { .. } => Ok(Expected::Impossible),
            Request::Forget { .. } | Request::Sync { .. } => Ok(Expected::Done),
            Request::Where { ino, from, max } => {
                let ino = self.resolve(*ino)?;
                self.inode(ino).file().ok_or(Errno::EINVAL)?;
                Ok(Expected::Where { inode: self.inode(ino).clone(), from: *from, max: *max })
            }
            // What a file that is home must look like there is checked apart.
            Request::StatFs | Request::Drain | Request::Status | Request::BringHome { .. } => Ok(Expected::Anything),
        }
    }

    fn apply_allocate(&mut self, call: &Call, ino: Ino, range: std::ops::Range<u64>, mode: AllocateMode, drops_set_id: bool) -> Outcome {
        let ino = self.resolve(ino)?;
        let data = self.file_mut(ino);
        if !matches!(mode, AllocateMode::Reserve { .. }) {
            data.zero(range.start, range.end);
        }
        if let AllocateMode::Reserve { keep_size: false } | AllocateMode::Zero { keep_size: false } = mode {
            data.grow(range.end);
        }
        let inode = self.inode_mut(ino);
        inode.mtime = call.time_after(&inode.mtime);
        inode.drop_set_id(drops_set_id);
        Ok(Expected::Done)
    }

    fn apply_xattr(&mut self, request: &Request) -> Outcome {
        let (Request::SetXattr { ino, .. } | Request::GetXattr { ino, .. } | Request::ListXattr { ino } | Request::RemoveXattr { ino, .. }) =
            request
        else {
            return Ok(Expected::Impossible);
        };
        let ino = self.resolve(*ino)?;
        let has_them = matches!(self.inode(ino).kind, Kind::File | Kind::Directory);
        match request {
            Request::GetXattr { name, .. } => {
                let value = self.inode(ino).xattrs.get(name).ok_or(Errno::ENODATA)?;
                Ok(Expected::Xattr(value.clone()))
            }
            Request::ListXattr { .. } => Ok(Expected::XattrNames(self.inode(ino).xattrs.keys().cloned().collect())),
            _ if !has_them => Err(Errno::EPERM),
            Request::SetXattr { name, value, mode, .. } => {
                match (self.inode(ino).xattrs.contains_key(name), mode) {
                    (true, SetMode::Create) => return Err(Errno::EEXIST),
                    (false, SetMode::Replace) => return Err(Errno::ENODATA),
                    _ => {}
                }
                self.inode_mut(ino).xattrs.insert(name.clone(), value.clone());
                Ok(Expected::Done)
            }
            Request::RemoveXattr { name, .. } => {
                if !self.inode(ino).xattrs.contains_key(name) {
                    return Err(Errno::ENODATA);
                }
                self.inode_mut(ino).xattrs.remove(name);
                Ok(Expected::Done)
            }
            _ => Ok(Expected::Impossible),
        }
    }

    /// A write has happened and is not answered: the time that it gave is known to lie before now, no sooner.
    pub fn extend_time(&mut self, call: &Call) {
        let Some(Ok(ino)) = call.changes_bytes_of().map(|ino| self.resolve(ino)) else { return };
        let mtime = call.time_after(&self.inode(ino).mtime);
        if mtime != self.inode(ino).mtime && mtime.0.len() <= self.inode(ino).mtime.0.len() {
            self.inode_mut(ino).mtime = mtime;
        }
    }

    fn apply_set_attr(&mut self, call: &Call, ino: Ino, change: &AttrChange) -> Outcome {
        let ino = self.resolve(ino)?;
        if let Some(size) = change.size {
            let known = self.inode(ino).file().ok_or(Errno::EINVAL)?.clone();
            // A truncate to the size that the file has may leave its time alone.
            let old = self.inode(ino).mtime.clone();
            self.file_mut(ino).truncate(size);
            self.inode_mut(ino).mtime = if known.size == size { old.or(&call.time()) } else { call.time_after(&old) };
        }
        let inode = self.inode_mut(ino);
        let owner_is_set = change.uid.is_some() || change.gid.is_some();
        inode.drop_set_id(owner_is_set || change.size.is_some() && change.drops_set_id);
        inode.mode = change.mode.unwrap_or(inode.mode);
        inode.uid = change.uid.unwrap_or(inode.uid);
        inode.gid = change.gid.unwrap_or(inode.gid);
        match change.mtime {
            Some(SetTime::Now) => inode.mtime = call.time(),
            Some(SetTime::At(time_ns)) => inode.mtime = TimeSpan::exactly(time_ns),
            None => {}
        }
        Ok(Expected::Attr(ino, self.inode(ino).clone()))
    }

    /// A place for a new name.
    fn vacant(&self, parent: Ino, name: &Name) -> Result<ModelIno, Errno> {
        check_name(name)?;
        let dir = self.dir(parent)?;
        if self.child(dir, name).is_some() { Err(Errno::EEXIST) } else { Ok(dir) }
    }

    #[allow(clippy::too_many_arguments)] // The fields of the three requests that make an inode.
    fn make(&mut self, call: &Call, parent: Ino, name: &Name, kind: Kind, mode: u16, caller: Caller, body: Body) -> Outcome {
        let dir = self.vacant(parent, name)?;
        let nlink = if kind == Kind::Directory { 2 } else { 1 };
        let (mode, gid) = match self.inode(dir) {
            // A set-gid directory gives its group to what is made in it, and directories the bit as well.
            parent if parent.mode & 0o2000 != 0 => (if kind == Kind::Directory { mode | 0o2000 } else { mode }, parent.gid),
            _ => (mode, caller.gid),
        };
        let inode = Inode { kind, mode, uid: caller.uid, gid, nlink, mtime: call.time(), opens: 0, xattrs: BTreeMap::new(), body };
        self.inodes.insert(call.makes, Rc::new(inode));
        self.set_entry(call, dir, name, Some(call.makes));
        Ok(Expected::Entry(call.makes, self.inode(call.makes).clone()))
    }

    fn apply_create(&mut self, call: &Call, parent: Ino, name: &Name, mode: u16, exclusive: bool, caller: Caller) -> Outcome {
        check_name(name)?;
        let dir = self.dir(parent)?;
        if let Some(ino) = self.child(dir, name) {
            if exclusive {
                return Err(Errno::EEXIST);
            }
            if self.inode(ino).kind == Kind::Directory {
                return Err(Errno::EISDIR);
            }
            self.inode_mut(ino).opens += 1;
            return Ok(Expected::Entry(ino, self.inode(ino).clone()));
        }
        self.make(call, parent, name, Kind::File, mode, caller, Body::File(FileData::default()))?;
        self.inode_mut(call.makes).opens = 1;
        Ok(Expected::Entry(call.makes, self.inode(call.makes).clone()))
    }

    fn apply_link(&mut self, call: &Call, ino: Ino, parent: Ino, name: &Name) -> Outcome {
        let ino = self.resolve(ino)?;
        if self.inode(ino).kind == Kind::Directory {
            return Err(Errno::EPERM);
        }
        if self.inode(ino).nlink == 0 {
            self.dir(parent)?;
            return Ok(Expected::Error(&[Errno::ENOENT, Errno::ESTALE, Errno::EEXIST, Errno::ENAMETOOLONG]));
        }
        let dir = self.vacant(parent, name)?;
        self.inode_mut(ino).nlink += 1;
        self.set_entry(call, dir, name, Some(ino));
        Ok(Expected::Entry(ino, self.inode(ino).clone()))
    }

    fn apply_unlink(&mut self, call: &Call, parent: Ino, name: &Name) -> Outcome {
        check_name(name)?;
        let dir = self.dir(parent)?;
        let ino = self.child(dir, name).ok_or(Errno::ENOENT)?;
        if self.inode(ino).kind == Kind::Directory {
            return Ok(Expected::Error(&[Errno::EISDIR, Errno::EPERM]));
        }
        self.set_entry(call, dir, name, None);
        self.drop_link(ino);
        Ok(Expected::Done)
    }

    fn apply_remove_dir(&mut self, call: &Call, parent: Ino, name: &Name) -> Outcome {
        check_name(name)?;
        let dir = self.dir(parent)?;
        let ino = self.child(dir, name).ok_or(Errno::ENOENT)?;
        let entries = self.inode(ino).dir().ok_or(Errno::ENOTDIR)?;
        if !entries.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.set_entry(call, dir, name, None);
        self.drop_link(ino);
        Ok(Expected::Done)
    }

    fn apply_rename(&mut self, call: &Call, from: (Ino, &Name), to: (Ino, &Name), mode: RenameMode) -> Outcome {
        if check_name(from.1).and(check_name(to.1)).is_err() {
            return Ok(Expected::Error(&[Errno::ENAMETOOLONG, Errno::ENOENT, Errno::ESTALE]));
        }
        let (from_dir, to_dir) = (self.dir(from.0)?, self.dir(to.0)?);
        let ino = self.child(from_dir, from.1).ok_or(Errno::ENOENT)?;
        let replaced = self.child(to_dir, to.1);
        let is_dir = self.inode(ino).kind == Kind::Directory;
        let into_itself = is_dir && self.is_below(to_dir, ino);
        // Which of two errors comes first is the kernel's business: it looks at both before it asks.
        match (mode, replaced) {
            (RenameMode::NoReplace, Some(_)) if into_itself => return Ok(Expected::Error(&[Errno::EEXIST, Errno::EINVAL])),
            (RenameMode::NoReplace, Some(_)) => return Err(Errno::EEXIST),
            (RenameMode::Exchange, None) if into_itself => return Ok(Expected::Error(&[Errno::ENOENT, Errno::EINVAL])),
            (RenameMode::Exchange, None) => return Err(Errno::ENOENT),
            (_, Some(replaced)) if replaced == ino => return Ok(Expected::Done),
            (RenameMode::Replace, Some(_)) if into_itself => {
                return Ok(Expected::Error(&[Errno::EINVAL, Errno::ENOTDIR, Errno::ENOTEMPTY]));
            }
            _ if into_itself => return Err(Errno::EINVAL),
            _ => {}
        }
        let Some(replaced) = replaced else {
            self.set_entry(call, from_dir, from.1, None);
            self.set_entry(call, to_dir, to.1, Some(ino));
            return Ok(Expected::Done);
        };
        if mode == RenameMode::Exchange {
            if self.inode(replaced).kind == Kind::Directory && self.is_below(from_dir, replaced) {
                return Err(Errno::EINVAL);
            }
            self.set_entry(call, from_dir, from.1, Some(replaced));
            self.set_entry(call, to_dir, to.1, Some(ino));
            return Ok(Expected::Done);
        }
        match (is_dir, self.inode(replaced).dir()) {
            (true, None) => return Err(Errno::ENOTDIR),
            (false, Some(entries)) if !entries.is_empty() => return Ok(Expected::Error(&[Errno::EISDIR, Errno::ENOTEMPTY])),
            (false, Some(_)) => return Err(Errno::EISDIR),
            (true, Some(entries)) if !entries.is_empty() => return Err(Errno::ENOTEMPTY),
            _ => {}
        }
        self.set_entry(call, from_dir, from.1, None);
        self.set_entry(call, to_dir, to.1, Some(ino));
        self.drop_link(replaced);
        Ok(Expected::Done)
    }

    fn set_entry(&mut self, call: &Call, dir: ModelIno, name: &Name, ino: Option<ModelIno>) {
        let entries = self.entries_mut(dir);
        match ino {
            Some(ino) => entries.insert(name.clone(), ino),
            None => entries.remove(name),
        };
        let inode = self.inode_mut(dir);
        inode.mtime = call.time_after(&inode.mtime);
    }

    fn drop_link(&mut self, ino: ModelIno) {
        let inode = self.inode_mut(ino);
        inode.nlink = if inode.kind == Kind::Directory { 0 } else { inode.nlink - 1 };
        self.collect();
    }
}

impl Call {
    fn time(&self) -> TimeSpan {
        TimeSpan(vec![self.handled])
    }

    /// The time that it gives to what had `before`. Of two changes at the same time either may set it last, whichever counts last.
    fn time_after(&self, before: &TimeSpan) -> TimeSpan {
        let concurrent = before.0.iter().any(|(_, last)| *last >= self.handled.0);
        if concurrent { before.or(&self.time()) } else { self.time() }
    }

    /// Whether it is about a name that is too long.
    fn names_too_long(&self) -> bool {
        use Request::*;
        match &self.request {
            Lookup { name, .. } | MakeNode { name, .. } | MakeDir { name, .. } | SymLink { name, .. } | Link { name, .. } => {
                check_name(name).is_err()
            }
            Unlink { name, .. } | RemoveDir { name, .. } | Create { name, .. } => check_name(name).is_err(),
            _ => false,
        }
    }

    /// Whether it can change the state, or what is open.
    pub fn changes_state(&self) -> bool {
        use Request::*;
        !matches!(
            self.request,
            Lookup { .. }
                | Forget { .. }
                | GetAttr { .. }
                | ReadLink { .. }
                | Read { .. }
                | Seek { .. }
                | GetXattr { .. }
                | ListXattr { .. }
                | Sync { .. }
                | OpenDir { .. }
                | ReadDir { .. }
                | ReleaseDir { .. }
                | StatFs
                | Drain
                | Status
                | BringHome { .. }
                | Where { .. }
        )
    }

    /// Whether the order of the two cannot matter to either.
    pub fn commutes_with(&self, other: &Call) -> bool {
        if !self.changes_state() && !other.changes_state() {
            return true;
        }
        match (self.data_ino(), other.data_ino()) {
            (Some(a), Some(b)) => a != b,
            _ => self.is_indifferent() || other.is_indifferent(),
        }
    }

    /// The file that a read reads.
    pub fn reads_file(&self) -> Option<Ino> {
        match self.request {
            Request::Read { ino, .. } | Request::Seek { ino, .. } => Some(ino),
            _ => None,
        }
    }

    /// The file from whose mode it takes something before it changes bytes.
    pub(super) fn set_id_taken_of(&self, state: &State) -> Option<ModelIno> {
        let ino = match self.request {
            Request::Write { ino, len, drops_set_id: true, .. } if len > 0 => ino,
            Request::Allocate { ino, drops_set_id: true, .. } => ino,
            Request::SetAttr { ino, change } if change.size.is_some() && change.drops_set_id => ino,
            _ => return None,
        };
        let ino = state.resolve(ino).ok()?;
        let mut inode = (**state.inode(ino)).clone();
        inode.drop_set_id(true);
        (inode.mode != state.inode(ino).mode).then_some(ino)
    }

    fn is_about_xattrs(&self) -> bool {
        use Request::*;
        matches!(self.request, SetXattr { .. } | GetXattr { .. } | ListXattr { .. } | RemoveXattr { .. })
    }

    /// The file whose bytes or size it changes.
    pub fn changes_bytes_of(&self) -> Option<Ino> {
        match self.request {
            Request::Write { ino, .. } | Request::Allocate { ino, .. } => Some(ino),
            Request::SetAttr { ino, change } if change.size.is_some() => Some(ino),
            _ => None,
        }
    }

    /// The file of a request that concerns one file's bytes and attributes only.
    fn data_ino(&self) -> Option<Ino> {
        match self.request {
            Request::Read { ino, .. } | Request::Write { ino, .. } | Request::SetAttr { ino, .. } | Request::GetAttr { ino } => Some(ino),
            Request::Allocate { ino, .. } | Request::Seek { ino, .. } => Some(ino),
            Request::SetXattr { ino, .. } | Request::GetXattr { ino, .. } => Some(ino),
            Request::ListXattr { ino } | Request::RemoveXattr { ino, .. } => Some(ino),
            Request::Where { ino, .. } => Some(ino),
            _ => None,
        }
    }

    fn is_indifferent(&self) -> bool {
        use Request::*;
        matches!(self.request, Forget { .. } | ReleaseDir { .. } | Sync { .. } | StatFs | Drain | Status | BringHome { .. })
    }
}

impl Inode {
    /// What a write by an ordinary user or a change of owner takes from a file's mode.
    pub(super) fn drop_set_id(&mut self, drops: bool) {
        if drops && self.kind != Kind::Directory {
            let group = if self.mode & 0o010 != 0 { 0o2000 } else { 0 };
            self.mode &= !(0o4000 | group);
        }
    }
}

fn check_name(name: &Name) -> Result<(), Errno> {
    if name.as_bytes().len() > NAME_BYTES_MAX { Err(Errno::ENAMETOOLONG) } else { Ok(()) }
}
