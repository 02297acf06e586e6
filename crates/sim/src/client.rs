//! A simulated client: asks one thing at a time, at random, over few names and files, so that it often meets its own and others' doings.

use std::collections::{BTreeMap, VecDeque};

use forebay_core::attr::{AttrChange, Caller, Kind, SetTime};
use forebay_core::id::{Ino, Name};
use forebay_core::message::{AllocateMode, DirEntry, RenameMode, Reply, Request, SeekWhence};
use forebay_core::recovery::Held;
use forebay_core::xattr::SetMode;

use crate::rng::Rng;
use crate::scenario::{Action, Workload};

/// An inode that the client has references to.
#[derive(Clone, Debug)]
struct Known {
    kind: Kind,
    references: u64,
    opens: u64,
    /// The size when it was last heard of.
    size: u64,
    /// Where a sequential reader stands.
    read_at: u64,
}

/// What a script does next.
#[derive(Clone, Debug)]
enum Step {
    Ask(Request),
    /// Concerns the file that the script has created.
    WriteCreated {
        len: u32,
    },
    ReleaseCreated,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    rng: Rng,
    workload: Workload,
    known: BTreeMap<Ino, Known>,
    handles: BTreeMap<u64, (Ino, u64)>,
    script: VecDeque<Step>,
    created: Option<Ino>,
    owner: u32,
}

impl Client {
    /// A client that knows the root only.
    pub fn new(workload: Workload, owner: u32, rng: Rng) -> Client {
        let mut client =
            Client { rng, workload, known: BTreeMap::new(), handles: BTreeMap::new(), script: VecDeque::new(), created: None, owner };
        client.forget_all();
        client
    }

    /// The machine has died: references and open files are gone.
    pub fn forget_all(&mut self) {
        let root = Known { kind: Kind::Directory, references: 0, opens: 0, size: 0, read_at: 0 };
        self.known = BTreeMap::from([(Ino::ROOT, root)]);
        self.handles.clear();
        self.script.clear();
        self.created = None;
    }

    /// What the client holds, what it is about to give back included. Some inodes may come twice.
    pub fn all_held(&self) -> impl Iterator<Item = (Ino, Held)> + '_ {
        let going = self.script.iter().filter_map(|step| match step {
            Step::Ask(Request::Forget { ino, count }) => Some((*ino, Held { lookups: *count, opens: 0 })),
            _ => None,
        });
        let known = self.known.iter().map(|(ino, known)| (*ino, Held { lookups: known.references, opens: known.opens as u32 }));
        known.chain(going)
    }

    /// How long the client waits before it asks again, ns.
    pub fn pause_ns(&mut self) -> u64 {
        if self.rng.chance(300) { 0 } else { self.rng.below(self.workload.pause_ns_max) }
    }

    /// The next request.
    pub fn next_request(&mut self) -> Request {
        while let Some(step) = self.script.pop_front() {
            match (step, self.created) {
                (Step::Ask(request), _) => return request,
                (Step::WriteCreated { len }, Some(ino)) => {
                    return Request::Write { ino, offset: 0, len, append: false, drops_set_id: false };
                }
                (Step::ReleaseCreated, Some(ino)) if self.known.get(&ino).is_some_and(|known| known.opens > 0) => return self.release(ino),
                _ => {}
            }
        }
        loop {
            let action = Action::ALL[self.rng.weighted(&self.workload.weights)];
            if let Some(request) = self.choose(action) {
                return request;
            }
        }
    }

    /// A request that gives back one of the things that the client holds, if there is any: for the end.
    pub fn next_to_close(&mut self) -> Option<Request> {
        while let Some(step) = self.script.pop_front() {
            // What it has promised to give back it has forgotten otherwise.
            if let Step::Ask(request @ Request::Forget { .. }) = step {
                return Some(request);
            }
        }
        if let Some(handle) = self.handles.keys().next().copied() {
            self.handles.remove(&handle);
            return Some(Request::ReleaseDir { handle });
        }
        let open = self.known.iter().find(|(_, known)| known.opens > 0).map(|(ino, _)| *ino);
        if let Some(ino) = open {
            return Some(self.release(ino));
        }
        let held = self.known.iter().find(|(_, known)| known.references > 0).map(|(ino, _)| *ino)?;
        Some(self.forget(held))
    }

    /// Whether nothing is left to give back.
    pub fn holds_nothing(&self) -> bool {
        self.handles.is_empty() && self.known.values().all(|known| known.references == 0 && known.opens == 0)
    }

    fn choose(&mut self, action: Action) -> Option<Request> {
        let caller = Caller { uid: self.owner, gid: self.owner };
        Some(match action {
            Action::Lookup => Request::Lookup { parent: self.dir(), name: self.name() },
            Action::GetAttr => Request::GetAttr { ino: self.any(|_| true)? },
            Action::Create => {
                let mode = *self.rng.pick(&[0o600, 0o644, 0o666]);
                Request::Create { parent: self.dir(), name: self.name(), mode, exclusive: self.rng.chance(300), caller }
            }
            Action::Open => Request::Open { ino: self.any(|known| known.kind == Kind::File && known.opens < 3)? },
            Action::Release => {
                let ino = self.open_file()?;
                self.release(ino)
            }
            Action::Read => self.read()?,
            Action::Write => self.write(false)?,
            Action::Append => self.write(true)?,
            Action::Truncate => {
                let ino = self.any(|known| known.kind == Kind::File)?;
                let size = self.offset(ino);
                let drops_set_id = self.workload.is_complete && self.rng.chance(500);
                Request::SetAttr { ino, change: AttrChange { size: Some(size), drops_set_id, ..AttrChange::default() } }
            }
            Action::SetAttr => self.set_attr()?,
            Action::MakeDir => Request::MakeDir { parent: self.dir(), name: self.name(), mode: 0o755, caller },
            Action::RemoveDir => Request::RemoveDir { parent: self.dir(), name: self.name() },
            Action::SymLink => {
                let target = Name::new(format!("../target-{}", self.rng.below(100)).as_bytes());
                Request::SymLink { parent: self.dir(), name: self.name(), target, caller }
            }
            Action::ReadLink => Request::ReadLink { ino: self.any(|known| known.kind == Kind::Symlink)? },
            Action::Link => Request::Link { ino: self.any(|known| known.kind == Kind::File)?, parent: self.dir(), name: self.name() },
            Action::Unlink => Request::Unlink { parent: self.dir(), name: self.name() },
            Action::Rename => self.rename(),
            Action::Swap => return self.start_swap(),
            Action::Save => return self.start_save(),
            Action::List => self.list()?,
            Action::Sync => Request::Sync { ino: self.any(|_| true)? },
            Action::Drain => Request::Drain,
            Action::Forget => {
                let ino = self.any(|known| known.references > 0 && known.opens == 0)?;
                if self.lists(ino) {
                    return None;
                }
                self.forget(ino)
            }
            Action::MakeNode => {
                let kind = *self.rng.pick(&[Kind::File, Kind::Fifo, Kind::Socket]);
                Request::MakeNode { parent: self.dir(), name: self.name(), kind, mode: 0o640, rdev: 0, caller }
            }
            Action::Punch => self.allocate(&[AllocateMode::Punch])?,
            Action::Allocate => {
                let zero = |keep_size| AllocateMode::Zero { keep_size };
                let reserve = |keep_size| AllocateMode::Reserve { keep_size };
                self.allocate(&[zero(true), zero(false), reserve(true), reserve(false)])?
            }
            Action::Seek => {
                let ino = self.open_file()?;
                Request::Seek { ino, offset: self.offset(ino), whence: *self.rng.pick(&[SeekWhence::Data, SeekWhence::Hole]) }
            }
            Action::SetXattr => {
                let value = vec![b'v'; *self.rng.pick(&[0, 1, 300])];
                let mode = *self.rng.pick(&[SetMode::Any, SetMode::Any, SetMode::Create, SetMode::Replace]);
                Request::SetXattr { ino: self.any(|_| true)?, name: self.xattr(), value, mode }
            }
            Action::GetXattr if self.rng.chance(300) => Request::ListXattr { ino: self.any(|_| true)? },
            Action::GetXattr => Request::GetXattr { ino: self.any(|_| true)?, name: self.xattr() },
            Action::RemoveXattr => Request::RemoveXattr { ino: self.any(|_| true)?, name: self.xattr() },
            Action::BringHome => Request::BringHome { ino: self.any(|_| true)? },
            Action::Where => {
                let ino = self.any(|known| known.kind == Kind::File)?;
                let from = if self.rng.chance(500) { 0 } else { self.offset(ino) };
                Request::Where { ino, from, max: *self.rng.pick(&[1, 3, 1000]) }
            }
            Action::Status => {
                if self.rng.chance(500) {
                    Request::Status
                } else {
                    Request::StatFs
                }
            }
        })
    }

    fn any(&mut self, fits: impl Fn(&Known) -> bool) -> Option<Ino> {
        let fitting: Vec<Ino> = self.known.iter().filter(|(_, known)| fits(known)).map(|(ino, _)| *ino).collect();
        if fitting.is_empty() { None } else { Some(*self.rng.pick(&fitting)) }
    }

    fn dir(&mut self) -> Ino {
        self.any(|known| known.kind == Kind::Directory).expect("the root is known")
    }

    fn open_file(&mut self) -> Option<Ino> {
        self.any(|known| known.kind == Kind::File && known.opens > 0)
    }

    fn name(&mut self) -> Name {
        if self.rng.chance(5) {
            let len = *self.rng.pick(&[255, 256]);
            return Name::new(&vec![b'x'; len]);
        }
        Name::new(format!("n{}", self.rng.below(self.workload.names)).as_bytes())
    }

    fn offset(&mut self, ino: Ino) -> u64 {
        let size = self.known[&ino].size;
        let chunk = 4096;
        match self.rng.below(8) {
            0 => 0,
            1 => size,
            2 => size.saturating_sub(self.rng.below(chunk)),
            3 => size + self.rng.below(3 * chunk),
            4 | 5 => self.rng.below(self.workload.file_bytes_max / chunk + 1) * chunk,
            _ => self.rng.below(self.workload.file_bytes_max + 1),
        }
    }

    fn len(&mut self) -> u32 {
        let most = u64::from(self.workload.write_bytes_max);
        let len = match self.rng.below(6) {
            0 => 1,
            1 => 4096,
            2 => most,
            3 => self.rng.range(1, 300),
            _ => self.rng.range(1, most),
        };
        len.min(most) as u32
    }

    fn read(&mut self) -> Option<Request> {
        let ino = self.open_file()?;
        let len = if self.rng.chance(100) { self.workload.write_bytes_max * 2 } else { self.len() };
        let offset = self.offset(ino);
        let known = self.known.get_mut(&ino).expect("it is known");
        let offset = if self.workload.sequential { known.read_at } else { offset };
        known.read_at = if offset >= known.size { 0 } else { offset + u64::from(len) };
        Some(Request::Read { ino, offset, len })
    }

    fn write(&mut self, append: bool) -> Option<Request> {
        let ino = self.open_file()?;
        let len = self.len();
        let size = self.known[&ino].size;
        let offset = match self.workload.sequential {
            true if size >= self.workload.file_bytes_max => self.offset(ino) / 2,
            true => size,
            false => self.offset(ino),
        };
        Some(Request::Write { ino, offset, len, append, drops_set_id: self.workload.is_complete && self.rng.chance(500) })
    }

    fn xattr(&mut self) -> Name {
        Name::new(format!("user.{}", self.rng.below(3)).as_bytes())
    }

    fn allocate(&mut self, modes: &[AllocateMode]) -> Option<Request> {
        let ino = self.open_file()?;
        let offset = self.offset(ino);
        let len = u64::from(self.len()) * *self.rng.pick(&[1, 1, 4]);
        Some(Request::Allocate { ino, offset, len, mode: *self.rng.pick(modes), drops_set_id: self.rng.chance(500) })
    }

    fn set_attr(&mut self) -> Option<Request> {
        let ino = self.any(|_| true)?;
        let is_link = self.known[&ino].kind == Kind::Symlink;
        let time = SetTime::At(self.rng.below(2_000_000_000_000_000_000) as i64);
        let mut change = AttrChange::default();
        match self.rng.below(4) {
            0 if !is_link && self.workload.is_complete => change.mode = Some(*self.rng.pick(&[0o600, 0o4755, 0o6770, 0o2640])),
            0 if !is_link => change.mode = Some(*self.rng.pick(&[0o600, 0o640, 0o700, 0o755, 0o444])),
            1 => (change.uid, change.gid) = (Some(self.owner), Some(*self.rng.pick(&[self.owner, 100]))),
            2 => change.mtime = Some(SetTime::Now),
            _ => (change.atime, change.mtime) = (Some(time), Some(time)),
        }
        Some(Request::SetAttr { ino, change })
    }

    fn rename(&mut self) -> Request {
        let mode =
            *self.rng.pick(&[RenameMode::Replace, RenameMode::Replace, RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange]);
        Request::Rename { parent: self.dir(), name: self.name(), new_parent: self.dir(), new_name: self.name(), mode }
    }

    /// Two names change places by way of a third.
    fn start_swap(&mut self) -> Option<Request> {
        let (a_dir, b_dir) = (self.dir(), self.dir());
        let (a, b, third) = (self.name(), self.name(), Name::new(b"third"));
        let step = |parent, name: &Name, new_parent, new_name: &Name| Request::Rename {
            parent,
            name: name.clone(),
            new_parent,
            new_name: new_name.clone(),
            mode: RenameMode::Replace,
        };
        self.script.push_back(Step::Ask(step(b_dir, &b, a_dir, &a)));
        self.script.push_back(Step::Ask(step(a_dir, &third, b_dir, &b)));
        Some(step(a_dir, &a, a_dir, &third))
    }

    /// An editor's save: a new file is written and renamed over the old one.
    fn start_save(&mut self) -> Option<Request> {
        let (parent, name, new_name) = (self.dir(), Name::new(b"saved~"), self.name());
        let len = self.len();
        self.created = None;
        self.script.push_back(Step::WriteCreated { len });
        if self.rng.chance(200) {
            self.script.push_back(Step::Ask(Request::Sync { ino: Ino::ROOT }));
        }
        self.script.push_back(Step::ReleaseCreated);
        let rename = Request::Rename { parent, name: name.clone(), new_parent: parent, new_name, mode: RenameMode::Replace };
        self.script.push_back(Step::Ask(rename));
        let caller = Caller { uid: self.owner, gid: self.owner };
        Some(Request::Create { parent, name, mode: 0o644, exclusive: false, caller })
    }

    fn list(&mut self) -> Option<Request> {
        if self.handles.is_empty() || self.rng.chance(200) && self.handles.len() < 3 {
            return Some(Request::OpenDir { ino: self.dir() });
        }
        let open: Vec<u64> = self.handles.keys().copied().collect();
        let handle = *self.rng.pick(&open);
        let (_, at) = self.handles[&handle];
        if self.rng.chance(150) {
            self.handles.remove(&handle);
            return Some(Request::ReleaseDir { handle });
        }
        let from = if self.rng.chance(500) { 0 } else { at };
        Some(Request::ReadDir { handle, from, max: *self.rng.pick(&[1, 3, 1000]) })
    }

    fn release(&mut self, ino: Ino) -> Request {
        self.known.get_mut(&ino).expect("it is known").opens -= 1;
        Request::Release { ino }
    }

    fn forget(&mut self, ino: Ino) -> Request {
        let known = self.known.get_mut(&ino).expect("it is known");
        let count = known.references;
        known.references = 0;
        if ino != Ino::ROOT {
            self.known.remove(&ino);
        }
        Request::Forget { ino, count }
    }

    /// Learns from an answer.
    pub fn answered(&mut self, request: &Request, reply: &Reply) {
        match (request, reply) {
            (_, Reply::Entry { ino, attr }) => self.learn(*ino, attr.kind, attr.size, 0),
            (_, Reply::Created { ino, attr }) => {
                self.created = Some(*ino);
                self.learn(*ino, attr.kind, attr.size, 1);
            }
            (Request::Open { ino }, Reply::Done) => self.with(*ino, |known| known.opens += 1),
            (Request::Write { ino, .. }, Reply::Written { offset, len, .. }) => {
                let end = offset + u64::from(*len);
                self.with(*ino, |known| known.size = known.size.max(end));
            }
            (Request::SetAttr { ino, .. } | Request::GetAttr { ino }, Reply::Attr { attr }) => {
                self.with(*ino, |known| known.size = attr.size);
            }
            (Request::OpenDir { ino }, Reply::DirOpened { handle }) => {
                self.handles.insert(*handle, (*ino, 0));
            }
            (Request::ReadDir { handle, from, .. }, Reply::Entries { entries }) => {
                if let Some(open) = self.handles.get_mut(handle) {
                    open.1 = entries.last().map_or(*from, DirEntry::cookie);
                }
            }
            // The rest of a script makes no sense when its create has failed.
            (Request::Create { .. }, _) => self.created = None,
            _ => {}
        }
    }

    /// Whoever has a directory open has a reference to it.
    fn lists(&self, ino: Ino) -> bool {
        self.handles.values().any(|(of, _)| *of == ino)
    }

    fn with(&mut self, ino: Ino, change: impl FnOnce(&mut Known)) {
        if let Some(known) = self.known.get_mut(&ino) {
            change(known);
        }
    }

    fn learn(&mut self, ino: Ino, kind: Kind, size: u64, opens: u64) {
        let known = self.known.entry(ino).or_insert(Known { kind, references: 0, opens: 0, size, read_at: 0 });
        known.references += 1;
        known.opens += opens;
        known.size = size;
        self.shed();
    }

    /// The machine asks for its references on an inode: they are given back soon, or not.
    pub fn prune(&mut self, ino: Ino) {
        let is_idle =
            self.known.get(&ino).is_some_and(|known| known.references > 0 && known.opens == 0) && ino != Ino::ROOT && !self.lists(ino);
        if is_idle && self.script.is_empty() && self.rng.chance(700) {
            let request = self.forget(ino);
            self.script.push_back(Step::Ask(request));
        }
    }

    /// Gives a reference back when it knows too much.
    fn shed(&mut self) {
        let dirs = self.known.values().filter(|known| known.kind == Kind::Directory).count();
        let too_much = if dirs > self.workload.dirs_max {
            self.any(|known| known.kind == Kind::Directory && known.references > 0)
        } else if self.known.len() > 14 {
            self.any(|known| known.references > 0 && known.opens == 0)
        } else {
            None
        };
        if let Some(ino) = too_much.filter(|ino| *ino != Ino::ROOT && !self.lists(*ino) && self.script.is_empty()) {
            let request = self.forget(ino);
            self.script.push_back(Step::Ask(request));
        }
    }
}
