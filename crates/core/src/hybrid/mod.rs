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
pub use regions::{NoSlot, Region, RegionState, Regions, Slot};
pub use runs::Runs;
pub use server_policy::ServerPolicy;

use crate::errno::Errno;
use crate::id::{CallId, Lsn, Token};
use crate::machine::Machine;
use crate::policy::Target;
use crate::policy::admission::{Admission, AdmissionConfig};
use crate::policy::flush::{FlushConfig, FlushPlan, FlushPolicy, FlushView};
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

/// What a node is told at its start.
#[derive(Clone, PartialEq, Debug)]
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
        }
    }
}

/// A write that waits for something.
#[derive(Clone, Debug)]
struct Pending {
    call: CallId,
    access: Access,
    to: Target,
}

/// A write on its way to the SSD.
#[derive(Debug)]
struct Append {
    call: CallId,
    access: Access,
    lsn: Lsn,
    slot: Slot,
}

/// A write on its way to the disk.
#[derive(Clone, Copy, Debug)]
struct DiskWrite {
    call: CallId,
    range: FileRange,
    lsn: Lsn,
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

impl HybridNode {
    /// A node with an empty SSD.
    pub fn new(config: HybridConfig) -> HybridNode {
        assert!(config.flush_depth > 0 && config.flush_bytes_max > 0, "a flush that may not write");
        HybridNode {
            admission: config.admission.build(),
            flush_policy: config.flush.build(),
            regions: Regions::new(config.ssd_bytes, config.regions),
            config,
            now: Time::default(),
            lsn: Lsn(0),
            token: Token(0),
            purposes: BTreeMap::new(),
            effects: VecDeque::new(),
            open: BTreeMap::new(),
            ssd_writes: InFlight::default(),
            disk_writes: InFlight::default(),
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
        }
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
            Purpose::Flush { range } => self.on_flushed(token, range, result),
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
