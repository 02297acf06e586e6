//! The machine of one server: the namespace, the I/O node, the journal that makes both last, and the way home.
//!
//! A request that needs something first (a listing, an attribute, room) is parked and handled again when that is there; handlers
//! change nothing before all their needs are met. After every input the machine *pumps*: it looks, in a fixed order, for everything
//! that can now go on. What must always hold:
//! - a change is acknowledged when its journal record, and all before it, are appended;
//! - bytes are dirty until they were written home, made durable there and compared;
//! - an inode or a name has at most one change under way at home, until that change is durable there.

mod bring_home;
mod data_calls;
mod disk;
mod entry;
mod home_data;
mod home_holes;
mod home_names;
mod home_settle;
mod journal;
mod kinds;
mod name_calls;
mod name_room;
mod once;
mod range_calls;
mod read_calls;
mod room;
mod snapshot;
mod stat_fs;
mod troubles;
mod waiting;
mod where_is;
mod xattr_calls;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::config::{NodeConfig, WriteBack};
use crate::effect::{Effect, Input, Outcome};
use crate::entries::Entries;
use crate::errno::Errno;
use crate::id::{CallId, Ino, Name, Position, Token};
use crate::io_node::IoNode;
use crate::machine::Machine;
use crate::master::{Namespace, Need, Stop};
use crate::message::{Counters, Reply, Request, Status};
use crate::time::Time;

use bring_home::Goals;
use home_names::ChangedSlots;
use home_settle::Home;
use journal::JournalBooks;
use kinds::{changes_state, makes_inode};
use name_room::NameRoom;
pub(crate) use once::OnceBooks;
use read_calls::ReadCall;
use room::SyncBooks;
use stat_fs::SpaceBooks;

/// Questions to home at a time beside which none is asked ahead of need.
const EXPECTED_MAX: usize = 256;

/// Why a configuration cannot be used.
#[derive(thiserror::Error, Clone, PartialEq, Eq, Debug)]
pub enum ConfigError {
    /// `chunk_bytes` is not a power of two of at least 4096.
    #[error("the chunk size of {0} bytes is not a power of two of at least 4096")]
    Chunk(u32),
    /// `segment_bytes` is not a positive multiple of 4096.
    #[error("the segment size of {0} bytes is not a positive multiple of 4096")]
    Segment(u32),
    /// Too few segments.
    #[error("{segments} segments are too few, of which {memory} in memory: at least 8 are needed, and from 2 to all of them in memory")]
    Segments {
        /// `segments_max`
        segments: u32,
        /// `memory_segments_max`
        memory: u32,
    },
    /// A limit is zero.
    #[error("the limit {0} must not be 0")]
    Zero(&'static str),
}

impl NodeConfig {
    /// Checks that a node can work with it.
    ///
    /// # Errors
    /// Says which value cannot be used.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !self.chunk_bytes.is_power_of_two() || self.chunk_bytes < 4096 {
            return Err(ConfigError::Chunk(self.chunk_bytes));
        }
        if self.segment_bytes == 0 || !self.segment_bytes.is_multiple_of(4096) {
            return Err(ConfigError::Segment(self.segment_bytes));
        }
        if self.segments_max < 8 || self.memory_segments_max < 2 || self.memory_segments_max > self.segments_max {
            return Err(ConfigError::Segments { segments: self.segments_max, memory: self.memory_segments_max });
        }
        let limits = [
            ("home_write_bytes_max", self.home_write_bytes_max),
            ("home_transfers_max", self.home_transfers_max),
            ("home_changes_max", self.home_changes_max),
            ("drain_tries_max", self.drain_tries_max),
            ("inodes_max", self.inodes_max),
            ("records_max", self.records_max),
            ("hidden_names_max", self.hidden_names_max),
        ];
        limits.iter().find(|(_, v)| *v == 0).map_or(Ok(()), |(name, _)| Err(ConfigError::Zero(name)))
    }
}

/// What is to be done when an effect has ended.
#[derive(Debug)]
enum Pending {
    Journal { position: Position, reply: Option<(CallId, Reply)>, is_note: bool },
    Rotate { last: Position },
    WriteCall(data_calls::WriteCall),
    ReadLog { call: CallId },
    Fetch { ino: Ino, fetch: u64 },
    KeepFetch(read_calls::KeepFetch),
    Spill { segment: crate::id::SegmentId, hull: (u32, u32), sync: bool },
    SyncLog { upto: Position },
    Copy(room::CopyJob),
    List { ino: Ino },
    Entry { ino: Ino, name: Name },
    Stat { ino: Ino },
    Target { ino: Ino },
    Xattrs { ino: Ino },
    StatFs,
    Seek(range_calls::SeekCall),
    Punch(home_holes::PunchJob),
    CompareZeros(home_holes::PunchJob),
    Transfer(home_data::TransferJob),
    Compare(home_data::TransferJob),
    Cut(home_data::CutJob),
    SetAttr(home_data::AttrJob),
    Change(home_names::ChangeJob),
    SyncHome(Vec<home_settle::Applied>),
}

/// An open directory, with its entries as they were when it was last listed from the beginning.
type DirHandle = (Ino, Option<Entries>);

/// The machine of one server.
pub struct Node {
    config: NodeConfig,
    now: Time,
    pub(crate) names: Namespace,
    pub(crate) io: IoNode,
    journal: JournalBooks,
    sync: SyncBooks,
    home: Home,
    goals: Goals,
    space: SpaceBooks,
    effects: VecDeque<Effect>,
    pending: BTreeMap<Token, Pending>,
    next_token: u64,
    next_lsn: u64,
    next_fetch: u64,
    next_handle: u64,
    /// Requests that wait for something of home.
    parked: BTreeMap<Need, Vec<(CallId, Request)>>,
    /// Requests that wait for the writes in flight of a file.
    idle_waiters: BTreeMap<Ino, Vec<(CallId, Request)>>,
    /// Requests that wait for chunks of a file to be in or out.
    chunk_waiters: BTreeMap<Ino, Vec<(CallId, Request)>>,
    /// Writes that wait for room, in order.
    room_waiters: VecDeque<(CallId, Request)>,
    /// Reads that wait for a fetch to end, because too many are under way.
    read_waiters: VecDeque<CallId>,
    /// Requests to be handled again.
    ready: VecDeque<(CallId, Request)>,
    reads: BTreeMap<CallId, ReadCall>,
    /// Fetched bytes that wait for room to be kept.
    keep_waiters: VecDeque<(Ino, u64)>,
    fetches_in_flight: u32,
    /// Requests that ask home for something and wait for its paths to come to rest.
    seeks_deferred: Vec<(CallId, Request)>,
    /// Whether home has extended attributes, once it was asked.
    home_xattrs: Option<bool>,
    dir_handles: BTreeMap<u64, DirHandle>,
    /// The listing of home that has just come, for the requests that have waited for it.
    fresh_listing: Option<(Ino, Entries)>,
    name_room: NameRoom,
    pub(crate) once: OnceBooks,
    counters: Counters,
}

impl Node {
    /// A node with an empty buffer.
    ///
    /// # Errors
    /// When the configuration cannot be used.
    pub fn new(config: NodeConfig, now: Time) -> Result<Node, ConfigError> {
        config.check()?;
        Ok(Node {
            now,
            names: Namespace::new(),
            io: IoNode::new(&config),
            journal: JournalBooks::default(),
            sync: SyncBooks::default(),
            home: Home::default(),
            goals: Goals::default(),
            space: SpaceBooks::default(),
            effects: VecDeque::new(),
            pending: BTreeMap::new(),
            next_token: 1,
            next_lsn: 1,
            next_fetch: 1,
            next_handle: 1,
            parked: BTreeMap::new(),
            idle_waiters: BTreeMap::new(),
            chunk_waiters: BTreeMap::new(),
            room_waiters: VecDeque::new(),
            read_waiters: VecDeque::new(),
            ready: VecDeque::new(),
            reads: BTreeMap::new(),
            keep_waiters: VecDeque::new(),
            fetches_in_flight: 0,
            seeks_deferred: Vec::new(),
            home_xattrs: None,
            dir_handles: BTreeMap::new(),
            fresh_listing: None,
            name_room: NameRoom::default(),
            once: OnceBooks::default(),
            counters: Counters::default(),
            config,
        })
    }

    /// What the node was told.
    pub fn config(&self) -> &NodeConfig {
        &self.config
    }

    /// For recovery: writes admitted from now on are newer than `max`.
    pub(crate) fn set_next_lsn(&mut self, max: crate::id::Lsn) {
        self.next_lsn = self.next_lsn.max(max.0 + 1);
    }

    /// For recovery: the journal ended at `last`; a new one begins, and what is dirty goes home.
    pub(crate) fn begin_after_recovery(&mut self, last: Position, intents: Vec<(Ino, ChangedSlots)>, now: Time) {
        self.journal.last = last;
        self.journal.appended = last;
        // Clients may still have handles of before.
        self.next_handle = now.as_nanos();
        self.io.segments.rebuild_free(self.config.memory_segments_max, last);
        self.io.count_again();
        self.redo_intents(intents);
        let files = self.io.files.keys().chain(&self.names.attr_dirty).copied().collect::<Vec<_>>();
        for ino in files {
            if self.names.inode(ino).is_ok_and(|i| i.dir.is_none()) {
                self.io.files.get_mut(&ino).into_iter().for_each(|f| f.dirty_since = Some(now));
                self.home.note_dirty(ino);
            }
        }
        // Their records may not be on the medium yet.
        self.names.attr_touched = self.names.attr_dirty.clone();
        self.stir_home();
        self.rotate();
    }

    /// The state of the node, for people.
    pub fn status(&self) -> Status {
        let segments = &self.io.segments;
        let segment_bytes = u64::from(self.config.segment_bytes);
        Status {
            counters: self.counters,
            capacity_bytes: u64::from(self.config.segments_max) * segment_bytes,
            memory_bytes: u64::from(self.config.memory_segments_max) * segment_bytes,
            used_bytes: u64::from(segments.used_count()) * segment_bytes,
            used_memory_bytes: segments.memory_bytes(),
            peak_bytes: u64::from(segments.peak) * segment_bytes,
            dirty_bytes: self.io.dirty_bytes,
            dirty_names: self.dirty_names() as u64,
            waiting_for_room: (self.room_waiters.len() + self.name_room.waiting()) as u32,
            draining: self.home.is_draining(),
            troubles: self.troubles(16),
            log_failed: self.journal.failed,
            log_waits: self.disk_errno(),
            live_bytes: segments.live_bytes,
            live_bytes_max: self.io.live_bytes_max,
            log_records: segments.record_count() as u64,
            pieces: self.io.pieces as u64,
            waiting: self.waiting(),
        }
    }

    fn emit(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// A token for an effect, with what is to be done when it has ended.
    fn expect(&mut self, pending: Pending) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        self.pending.insert(token, pending);
        token
    }

    fn reply(&mut self, call: CallId, reply: Reply) {
        self.end_once(call);
        self.emit(Effect::Reply { call, reply });
    }

    fn fail(&mut self, call: CallId, errno: Errno) {
        self.reply(call, Reply::Error { errno });
    }

    fn call(&mut self, call: CallId, request: Request) {
        match self.try_call(call, &request) {
            Ok(()) => {}
            Err(Stop::Errno(errno)) => self.fail(call, errno),
            Err(Stop::Need(need)) => self.park(need, call, request),
        }
    }

    fn try_call(&mut self, call: CallId, request: &Request) -> Result<(), Stop> {
        if let (Some(errno), true) = (self.journal.failed, changes_state(request)) {
            return Err(errno.into());
        }
        // Who wants to sync waits for the medium anyway.
        if changes_state(request) && !matches!(request, Request::Sync { .. }) && self.waits_for_space(call, request) {
            return Ok(());
        }
        if makes_inode(request) && self.must_wait_for_names() {
            self.name_room.wait(call, request.clone());
            return Ok(());
        }
        match request {
            Request::Read { ino, offset, len } => self.read(call, *ino, *offset, *len, request),
            Request::Write { .. } => self.write(call, request),
            Request::Sync { ino } => self.sync_call(call, *ino),
            Request::SetAttr { ino, change } => self.set_attr(call, *ino, *change, request),
            Request::Allocate { .. } => self.allocate_range(call, request),
            Request::Seek { ino, offset, whence } => self.seek(call, *ino, *offset, *whence, request),
            Request::SetXattr { .. } | Request::GetXattr { .. } | Request::ListXattr { .. } | Request::RemoveXattr { .. } => {
                self.xattr_call(call, request)
            }
            Request::Drain => self.start_drain(call),
            Request::BringHome { ino } => self.start_bring_home(call, *ino),
            Request::Where { ino, from, max } => {
                let reply = self.where_is(*ino, *from, *max)?;
                self.reply(call, reply);
                Ok(())
            }
            Request::Status => {
                let status = alloc::boxed::Box::new(self.status());
                self.reply(call, Reply::Status { status });
                Ok(())
            }
            Request::StatFs => {
                self.stat_fs(call);
                Ok(())
            }
            _ => self.name_call(call, request),
        }
    }

    /// Puts a request aside until what it needs is there, and asks for that.
    fn park(&mut self, need: Need, call: CallId, request: Request) {
        let asked = self.parked.contains_key(&need);
        self.parked.entry(need.clone()).or_default().push((call, request));
        if !asked && !self.ask(&need) {
            self.unpark(&need, Err(Errno::ESTALE));
        }
    }

    /// Asks home for something that will be needed soon, unless much is asked already.
    fn expect_need(&mut self, need: Need) {
        if self.parked.len() < EXPECTED_MAX && !self.parked.contains_key(&need) {
            self.parked.entry(need.clone()).or_default();
            if !self.ask(&need) {
                self.parked.remove(&need);
            }
        }
    }

    /// A path has come to rest: what waited for that goes on.
    fn resume_home_users(&mut self) {
        for need in core::mem::take(&mut self.home.asks_deferred) {
            if !self.ask(&need) {
                self.unpark(&need, Err(Errno::ESTALE));
            }
        }
        self.ready.extend(core::mem::take(&mut self.seeks_deferred));
        self.resume_reads();
    }

    /// Asks home for something. Waits while the path is in motion.
    fn ask(&mut self, need: &Need) -> bool {
        let ino = need.ino();
        // A listing beside a change of the directory would be of before it, and be taken for one of after.
        let entries_move = matches!(need, Need::Dir(_)) && !self.names.are_entries_at_rest(ino);
        if entries_move || !self.is_path_at_rest(ino) {
            self.home.asks_deferred.push(need.clone());
            return true;
        }
        let path = match need {
            Need::Entry(_, name) => self.names.home_child(ino, name),
            _ => self.names.home_path(ino),
        };
        let Some(path) = path else { return false };
        self.home.enter(ino);
        let effect = match need {
            Need::Dir(_) => Effect::ListHome { token: self.expect(Pending::List { ino }), path },
            Need::Entry(_, name) => Effect::StatHome { token: self.expect(Pending::Entry { ino, name: name.clone() }), path },
            Need::Attr(_) => Effect::StatHome { token: self.expect(Pending::Stat { ino }), path },
            Need::Target(_) => Effect::ReadLinkHome { token: self.expect(Pending::Target { ino }), path },
            Need::Xattrs(_) => Effect::XattrsHome { token: self.expect(Pending::Xattrs { ino }), path },
        };
        self.emit(effect);
        true
    }

    fn unpark(&mut self, need: &Need, result: Result<(), Errno>) {
        for (call, request) in self.parked.remove(need).into_iter().flatten() {
            match result {
                Ok(()) => self.ready.push_back((call, request)),
                Err(errno) => self.fail(call, errno),
            }
        }
    }

    fn done(&mut self, token: Token, result: Result<Outcome, Errno>) {
        let Some(pending) = self.pending.remove(&token) else {
            debug_assert!(false, "{token:?} was answered twice or never given");
            return;
        };
        match pending {
            Pending::Journal { position, reply, is_note } => self.journal_done(position, reply, is_note, result),
            Pending::Rotate { last } => self.rotate_done(last, result),
            Pending::WriteCall(write) => self.write_done(write, result),
            Pending::ReadLog { call } => self.read_log_done(call, result),
            Pending::Fetch { ino, fetch } => self.fetch_done(ino, fetch, result),
            Pending::KeepFetch(keep) => self.keep_fetch_done(keep, result),
            Pending::Spill { segment, hull, sync } => self.spill_done(segment, hull, sync, result),
            Pending::SyncLog { upto } => self.sync_log_done(upto, result),
            Pending::Copy(job) => self.copy_done(job, result),
            Pending::List { ino } => self.list_done(ino, result),
            Pending::Entry { ino, name } => self.entry_done(ino, name, result),
            Pending::Stat { ino } => self.stat_done(ino, result),
            Pending::Target { ino } => self.target_done(ino, result),
            Pending::Xattrs { ino } => self.xattrs_done(ino, result),
            Pending::StatFs => self.stat_fs_done(result),
            Pending::Seek(seek) => self.seek_done(seek, result),
            Pending::Punch(job) => self.punch_done(job, result),
            Pending::CompareZeros(job) => self.compare_zeros_done(job, result),
            Pending::Transfer(job) => self.transfer_done(job, result),
            Pending::Compare(job) => self.compare_done(job, result),
            Pending::Cut(job) => self.cut_done(job, result),
            Pending::SetAttr(job) => self.set_attr_home_done(job, result),
            Pending::Change(job) => self.change_done(job, result),
            Pending::SyncHome(applied) => self.sync_home_done(applied, result),
        }
    }

    fn list_done(&mut self, ino: Ino, result: Result<Outcome, Errno>) {
        self.home.leave(ino);
        let outcome = match result {
            Ok(Outcome::Listing(listing)) => {
                self.names.load_dir(ino, &listing);
                self.fresh_listing = Some((ino, listing));
                Ok(())
            }
            other => Err(errno_of(other)),
        };
        self.unpark(&Need::Dir(ino), outcome);
        // Changes of its names have waited for the listing.
        self.stir_home();
    }

    fn entry_done(&mut self, ino: Ino, name: Name, result: Result<Outcome, Errno>) {
        self.home.leave(ino);
        let outcome = match result {
            Ok(Outcome::Stat(home)) => {
                self.names.load_entry(ino, &name, home.attr, (home.dev, home.ino));
                Ok(())
            }
            Err(Errno::ENOENT) => {
                self.names.unhide(ino, &name);
                Ok(())
            }
            other => Err(errno_of(other)),
        };
        self.unpark(&Need::Entry(ino, name), outcome);
    }

    fn stat_done(&mut self, ino: Ino, result: Result<Outcome, Errno>) {
        self.home.leave(ino);
        let outcome = match result {
            Ok(Outcome::Stat(home)) => {
                self.names.load_attr(ino, home.attr);
                Ok(())
            }
            other => Err(errno_of(other)),
        };
        self.unpark(&Need::Attr(ino), outcome);
    }

    fn target_done(&mut self, ino: Ino, result: Result<Outcome, Errno>) {
        self.home.leave(ino);
        let outcome = match result {
            Ok(Outcome::Target(target)) => {
                if let Ok(inode) = self.names.inode_mut(ino) {
                    inode.target = Some(target);
                }
                Ok(())
            }
            other => Err(errno_of(other)),
        };
        self.unpark(&Need::Target(ino), outcome);
    }

    /// Looks for everything that can now go on, until nothing more can.
    fn pump(&mut self) {
        loop {
            while let Some((call, request)) = self.ready.pop_front() {
                self.call(call, request);
            }
            self.fresh_listing = None;
            self.answer_stat_fs_if_due();
            self.make_room();
            self.bring_home();
            self.forget_clean();
            self.rotate_if_due();
            // The way home may have found that it waits for the journal.
            self.start_sync();
            self.serve_name_waiters();
            if self.ready.is_empty() {
                break;
            }
        }
    }

    fn is_write_back_async(&self) -> bool {
        self.config.write_back == WriteBack::Async
    }
}

impl Machine for Node {
    type Input = Input;
    type Effect = Effect;

    fn handle(&mut self, now: Time, input: Input) {
        self.now = self.now.max(now);
        match input {
            Input::Call { call, request, once } => {
                if !once.is_some_and(|once| self.begin_once(call, &request, once)) {
                    self.call(call, request);
                }
            }
            Input::Done { token, result } => self.done(token, result),
        }
        self.pump();
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.pump();
    }

    fn poll_timeout(&self) -> Option<Time> {
        [self.next_home_time(), self.next_disk_time(), self.space.due_at()].into_iter().flatten().min()
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }
}

/// The error of a failed effect; an outcome of the wrong kind is a host's mistake and counts as an I/O error.
fn errno_of(result: Result<Outcome, Errno>) -> Errno {
    result.err().unwrap_or(Errno::EIO)
}
