//! The hybrid I/O node: one server's large slow disk, with a small SSD in front of it.
//!
//! [`HybridNode`] decides for each request where it goes (an [`Admission`] policy), when the SSD is emptied (a [`FlushPolicy`]), and in
//! which order all of it happens. It looks at this server alone: no server tells another where its requests go (S-01).
//!
//! What must hold:
//!
//! - A write takes its place in history, its LSN, when it gets its place on a device. Of what stands on the SSD, the newest counts.
//! - A write to the disk waits for everything under way in its range: writes to the SSD, flushes, other writes to the disk. When it has
//!   arrived, it takes out of the index what is older; and if anything was, the disk is synced and a note of it is written before the
//!   client is answered. Otherwise an old flush, or an entry that a crash brings back, would hide it.
//! - A flush waits for writes to the disk in its range, and for who waits there already.
//! - A region is emptied when all of it is home, the disk is synced, the note of it is durable, and no read is under way in it. Only then
//!   are its bytes overwritten.
//! - A change of the disk (a file is cut off, or goes) is as a write to it, and writes to the SSD in its range wait for it, too: they come
//!   after it.
//! - What waits, waits in the order of arrival: writes for their range, writes for room.

mod counters;
mod flush;
mod in_flight;
mod message;
mod reads;
mod recover;
mod regions;
mod runs;
mod server_policy;
mod writes;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

pub use counters::{Count, Counters, FlushReport};
pub use message::{Access, Effect, Entry, FileRange, Generation, Input, Note, Request, SsdPart};
pub use recover::Recovered;
pub use regions::{Layout, NoSlot, Region, RegionState, Regions, Slot};
pub use runs::Runs;
pub use server_policy::ServerPolicy;

use crate::errno::Errno;
use crate::id::{CallId, Lsn, Token};
use crate::machine::Machine;
use crate::policy::admission::{Admission, AdmissionConfig, DiskView};
use crate::policy::flush::{FlushConfig, FlushPlan, FlushPolicy, FlushView};
use crate::policy::{RequestClass, Share, Target};
use crate::time::Time;
use in_flight::InFlight;

/// What becomes of a write for the SSD when every region is full (S-07).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenFull {
    /// It waits until a region is empty.
    #[default]
    Wait,
    /// It goes to the disk.
    Disk,
}

/// What a node is told at its start, and later by [`Input::Configure`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HybridConfig {
    /// Who goes to the SSD.
    pub admission: AdmissionConfig,
    /// When the SSD is emptied.
    pub flush: FlushConfig,
    /// Bytes of the SSD's log.
    pub ssd_bytes: u64,
    /// Parts that it is filled in: 2 for SSDUP (S-06), 1 for the plain burst buffer (P-07).
    pub regions: u32,
    /// What becomes of writes when all of them are full.
    pub when_full: WhenFull,
    /// The longest range that a flush writes at a time, bytes. Adjacent pieces are written as one.
    pub flush_bytes_max: u64,
    /// Ranges that a flush has under way at a time; at least 1.
    pub flush_depth: u32,
    /// How long after an error of a device a flush is tried again, ns.
    pub retry_ns: u64,
    /// The most that flushes bring home in a second, bytes; `None`: as much as the disk takes. A drain does not keep to it.
    pub flush_bytes_per_s_max: Option<u64>,
    /// The part of the disk's time that clients keep while they use it and a flush is under way; `None`: what is left. Neither a drain
    /// nor a flush that writers wait for keeps to it.
    pub foreground_share: Option<Share>,
}

impl HybridConfig {
    /// SSDUP+ with an SSD of this size.
    pub fn ssdup_plus(ssd_bytes: u64) -> HybridConfig {
        let admission = AdmissionConfig::SsdupPlus(Default::default(), Default::default());
        let flush = FlushConfig::TrafficAware { idle_ns: crate::policy::flush::IDLE_NS };
        HybridConfig { admission, flush, regions: 2, ..HybridConfig::none(ssd_bytes) }
    }

    /// SSDUP with an SSD of this size.
    pub fn ssdup(ssd_bytes: u64) -> HybridConfig {
        let admission = AdmissionConfig::Ssdup(Default::default(), Default::default());
        HybridConfig { admission, regions: 2, ..HybridConfig::none(ssd_bytes) }
    }

    /// Our own policy with an SSD of this size.
    pub fn forebay(ssd_bytes: u64) -> HybridConfig {
        let admission = AdmissionConfig::Forebay(Default::default());
        HybridConfig { admission, flush: FlushConfig::SpareTime, regions: 4, ..HybridConfig::none(ssd_bytes) }
    }

    /// The plain burst buffer (P-07).
    pub fn all(ssd_bytes: u64) -> HybridConfig {
        HybridConfig { admission: AdmissionConfig::All(Default::default()), when_full: WhenFull::Disk, ..HybridConfig::none(ssd_bytes) }
    }

    /// No buffer at all (P-08).
    pub fn none(ssd_bytes: u64) -> HybridConfig {
        HybridConfig {
            admission: AdmissionConfig::None,
            flush: FlushConfig::Immediate,
            ssd_bytes,
            regions: 1,
            when_full: WhenFull::Wait,
            flush_bytes_max: 4 << 20,
            flush_depth: 8,
            retry_ns: 100_000_000,
            flush_bytes_per_s_max: None,
            foreground_share: None,
        }
    }
}

/// What becomes of a write or change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Goal {
    Ssd,
    Disk,
    Change,
}

/// A write or change that waits for something.
#[derive(Clone, Debug)]
struct Pending {
    call: CallId,
    access: Access,
    goal: Goal,
}

/// A write on its way to the SSD.
#[derive(Debug)]
struct Append {
    call: CallId,
    access: Access,
    lsn: Lsn,
    slot: Slot,
}

/// A write on its way to the disk, or a change of it.
#[derive(Clone, Copy, Debug)]
struct DiskWrite {
    call: CallId,
    range: FileRange,
    lsn: Lsn,
    is_change: bool,
}

/// What an effect is for.
#[derive(Debug)]
enum Purpose {
    Append(Box<Append>),
    WriteDisk(DiskWrite),
    /// The disk is synced so that a note may say that it has newer bytes.
    SyncSuperseded(DiskWrite),
    NoteSuperseded(DiskWrite),
    Read {
        call: CallId,
        generation: Option<Generation>,
    },
    Flush {
        range: FileRange,
        /// Pieces that it brings home.
        writes: u32,
    },
    SyncFlushed,
    NoteEmptied,
    Sync {
        call: CallId,
    },
}

/// What is left of a call before its answer.
#[derive(Debug)]
struct Open {
    effects: u32,
    result: Result<(), Errno>,
}

/// The machine of one I/O server; see the head of this module.
pub struct HybridNode {
    config: HybridConfig,
    admission: Box<dyn Admission>,
    flush_policy: Box<dyn FlushPolicy>,
    regions: Regions,
    now: Time,
    lsn: Lsn,
    token: Token,
    purposes: BTreeMap<Token, Purpose>,
    effects: VecDeque<Effect>,
    /// Calls whose answer needs several effects.
    open: BTreeMap<CallId, Open>,
    ssd_writes: InFlight,
    disk_writes: InFlight,
    /// Changes of the disk. They are apart since their ranges may be whole files.
    changes: InFlight,
    flushes: InFlight,
    /// Writes whose range is busy, in the order of arrival.
    blocked: VecDeque<Pending>,
    /// Writes that wait for room on the SSD, in the order of arrival.
    roomless: VecDeque<Pending>,
    /// Notes that failed, and when they are tried again.
    renotes: VecDeque<(Time, Token, DiskWrite)>,
    /// Drains, and the newest filling that each of them waits for.
    drains: VecDeque<(CallId, Generation)>,
    flush: flush::State,
    disk_requests: u64,
    disk_used: Option<Time>,
    client_active: Option<Time>,
    client_requests: u64,
    counters: Counters,
}

fn assert_can_flush(config: &HybridConfig) {
    assert!(config.flush_depth > 0 && config.flush_bytes_max > 0, "a flush that may not write");
}

impl HybridNode {
    /// A node with an empty SSD.
    pub fn new(config: HybridConfig) -> HybridNode {
        assert_can_flush(&config);
        HybridNode {
            admission: config.admission.build(),
            flush_policy: config.flush.build(),
            regions: Regions::new(Layout { ssd_bytes: config.ssd_bytes, regions: config.regions }),
            config,
            now: Time::default(),
            lsn: Lsn(0),
            token: Token(0),
            purposes: BTreeMap::new(),
            effects: VecDeque::new(),
            open: BTreeMap::new(),
            ssd_writes: InFlight::default(),
            disk_writes: InFlight::default(),
            changes: InFlight::default(),
            flushes: InFlight::default(),
            blocked: VecDeque::new(),
            roomless: VecDeque::new(),
            renotes: VecDeque::new(),
            drains: VecDeque::new(),
            flush: flush::State::default(),
            disk_requests: 0,
            disk_used: None,
            client_active: None,
            client_requests: 0,
            counters: Counters::default(),
        }
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The regions of the SSD.
    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// The admission policy.
    pub fn admission(&self) -> &dyn Admission {
        &*self.admission
    }

    /// Whether nothing is under way and nothing waits.
    pub fn is_idle(&self) -> bool {
        self.purposes.is_empty() && self.client_requests == 0 && self.effects.is_empty()
    }

    fn emit(&mut self, purpose: Purpose, effect: impl FnOnce(Token) -> Effect) -> Token {
        self.token.0 += 1;
        let token = self.token;
        self.purposes.insert(token, purpose);
        self.effects.push_back(effect(token));
        token
    }

    fn reply(&mut self, call: CallId, result: Result<(), Errno>) {
        self.client_requests -= 1;
        self.client_active = Some(self.now);
        self.effects.push_back(Effect::Reply { call, result });
    }

    fn on_request(&mut self, call: CallId, request: Request) {
        self.client_requests += 1;
        self.client_active = Some(self.now);
        match request {
            Request::Write(access) => self.write(call, access),
            Request::Read(access) => self.read(call, access),
            Request::Sync => self.sync(call),
            Request::Drain => self.drain(call),
            Request::Change(range) => self.change(call, range),
        }
    }

    /// Everything goes by other policies from now on. What is on the SSD is flushed as the new one sees fit.
    fn configure(&mut self, config: HybridConfig) {
        assert_can_flush(&config);
        self.admission = config.admission.build();
        self.flush_policy = config.flush.build();
        self.config = config;
        // A policy that puts nothing on the SSD would never make a region full.
        self.regions.seal();
        self.divide_anew();
    }

    /// Divides the SSD as the configuration has it, if nothing is on it.
    fn divide_anew(&mut self) {
        self.regions.divide(Layout { ssd_bytes: self.config.ssd_bytes, regions: self.config.regions });
    }

    /// Both devices are synced; only what was answered before need be covered, so nothing has to be waited for.
    fn sync(&mut self, call: CallId) {
        self.open.insert(call, Open { effects: 2, result: Ok(()) });
        self.emit(Purpose::Sync { call }, |token| Effect::SyncDisk { token });
        self.emit(Purpose::Sync { call }, |token| Effect::SyncSsd { token });
    }

    fn on_done(&mut self, token: Token, result: Result<(), Errno>) {
        let Some(purpose) = self.purposes.remove(&token) else {
            debug_assert!(false, "{token:?} is done a second time");
            return;
        };
        match purpose {
            Purpose::Append(append) => self.on_appended(token, *append, result),
            Purpose::WriteDisk(write) => self.on_disk_written(token, write, result),
            Purpose::SyncSuperseded(write) => self.on_superseded_synced(token, write, result),
            Purpose::NoteSuperseded(write) => self.on_superseded_noted(token, write, result),
            Purpose::Read { call, generation } => self.on_read(call, generation, result),
            Purpose::Flush { range, writes } => self.on_flushed(token, range, writes, result),
            Purpose::SyncFlushed => self.on_flush_synced(result),
            Purpose::NoteEmptied => self.on_emptied_noted(result),
            Purpose::Sync { call } => self.finish_part(call, result),
        }
    }

    /// One of a call's effects is done; the last one brings the answer, with the first error if there was any.
    fn finish_part(&mut self, call: CallId, result: Result<(), Errno>) {
        let Some(open) = self.open.get_mut(&call) else { return };
        open.effects -= 1;
        open.result = open.result.and(result);
        if open.effects == 0 {
            let result = open.result;
            self.open.remove(&call);
            self.reply(call, result);
        }
    }

    /// What admission policies are told of the disk.
    fn disk_view(&self) -> DiskView {
        let is_flushing = self.regions.oldest_full().is_some() || !self.flushes.is_empty();
        DiskView { now: self.now, is_full: self.disk_requests > 0, is_flushing }
    }

    fn disk_begins(&mut self) {
        self.disk_requests += 1;
        self.disk_used = Some(self.now);
    }

    fn disk_ends(&mut self) {
        self.disk_requests -= 1;
        self.disk_used = Some(self.now);
    }
}

impl Machine for HybridNode {
    type Input = Input;
    type Effect = Effect;

    fn handle(&mut self, now: Time, input: Input) {
        self.now = self.now.max(now);
        match input {
            Input::Request { call, request } => self.on_request(call, request),
            Input::Done { token, result } => self.on_done(token, result),
            Input::ServiceTimes(times) => self.admission.on_service_times(&times),
            Input::Configure(config) => self.configure(*config),
        }
        self.pump_flush();
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.retry_notes();
        self.pump_flush();
    }

    fn poll_timeout(&self) -> Option<Time> {
        let note = self.renotes.front().map(|(at, ..)| *at);
        [self.flush.wake, note].into_iter().flatten().min()
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }
}
