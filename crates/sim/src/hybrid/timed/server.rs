//! One I/O server: a node, its devices, and an operating system that takes writes ahead of the disk.

use std::collections::{BTreeMap, VecDeque};

use forebay_core::hybrid::{Access, Counters, Effect, FileRange, HybridNode, Input, Request, SsdPart};
use forebay_core::id::{CallId, Ino, ServerId, Token};
use forebay_core::machine::Machine;
use forebay_core::policy::Operation;
use forebay_core::time::Time;
use forebay_store::device::model::{Link, ModelDevice, ModelRequest, Scheduling};

use super::{Cluster, Part};

/// The call of the drain.
const DRAIN: CallId = CallId(u64::MAX);
/// Bytes of a note on the SSD.
const NOTE_BYTES: u64 = 4096;

/// What a request to a device is for.
#[derive(Clone, Copy, Debug)]
enum For {
    /// The machine is told.
    Token(Token),
    /// Nobody waits: the operating system has answered already.
    Nobody,
    /// One part of a flush has been read.
    FlushPart(Token),
}

struct Flush {
    range: FileRange,
    parts_left: usize,
}

pub(super) struct Server {
    node: HybridNode,
    disk: ModelDevice,
    ssd: ModelDevice,
    pub(super) link: Link,
    /// Where each file begins on the disk.
    bases: Vec<u64>,
    window: usize,
    purposes: Vec<For>,
    free: Vec<usize>,
    flushes: BTreeMap<Token, Flush>,
    /// Writes to the disk that have no place in the window.
    behind: VecDeque<(Token, FileRange)>,
    /// Requests at the disk.
    at_disk: usize,
    /// Syncs wait until the disk has nothing to do.
    syncs: Vec<Token>,
    /// Where notes go.
    note_at: u64,
    /// Answers that the world has not taken.
    pub(super) answered: Vec<u64>,
    pub(super) scheduled_ns: Option<u64>,
    pub(super) drained_ns: u64,
    now_ns: u64,
    calls: u64,
    open: BTreeMap<CallId, u64>,
}

impl Server {
    pub(super) fn new(cluster: &Cluster, bases: Vec<u64>) -> Server {
        Server {
            node: HybridNode::new(cluster.node.clone()),
            disk: ModelDevice::new(&cluster.disk, cluster.disk_scheduling),
            ssd: ModelDevice::new(&cluster.ssd, Scheduling::FIFO),
            link: Link::new(cluster.link),
            bases,
            window: cluster.disk_scheduling.window_requests.max(1),
            purposes: Vec::new(),
            free: Vec::new(),
            flushes: BTreeMap::new(),
            behind: VecDeque::new(),
            at_disk: 0,
            syncs: Vec::new(),
            note_at: cluster.node.ssd_bytes,
            answered: Vec::new(),
            scheduled_ns: None,
            drained_ns: 0,
            now_ns: 0,
            calls: 0,
            open: BTreeMap::new(),
        }
    }

    pub(super) fn counters(&self) -> &Counters {
        self.node.counters()
    }

    /// How long the disk takes, if the policy keeps that.
    pub(super) fn service_ns(&self) -> Option<u64> {
        self.node.admission().service_ns()
    }

    /// What the board says of all servers.
    pub(super) fn hear(&mut self, now_ns: u64, times: Vec<(ServerId, u64)>) {
        self.now_ns = now_ns;
        self.node.handle(Time(now_ns), Input::ServiceTimes(times));
        self.settle();
    }

    pub(super) fn is_idle(&self) -> bool {
        self.node.is_idle()
    }

    pub(super) fn request(&mut self, now_ns: u64, open: u64, part: &Part) {
        self.now_ns = now_ns;
        self.calls += 1;
        let call = CallId(self.calls);
        self.open.insert(call, open);
        let range = FileRange { file: Ino(part.file + 1), offset: part.sub.offset, len: part.sub.len };
        let place = self.place(range);
        let access = Access { range, class: part.sub.class, siblings: part.siblings.clone(), place };
        let request = match part.operation {
            Operation::Read => Request::Read(access),
            Operation::Write => Request::Write(access),
        };
        self.node.handle(Time(now_ns), Input::Request { call, request });
        self.settle();
    }

    pub(super) fn drain(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.node.handle(Time(now_ns), Input::Request { call: DRAIN, request: Request::Drain });
        self.settle();
    }

    /// When something is due.
    pub(super) fn due_ns(&self) -> Option<u64> {
        let timeout_ns = self.node.poll_timeout().map(Time::as_nanos);
        [self.disk.next_ns(), self.ssd.next_ns(), timeout_ns].into_iter().flatten().min()
    }

    /// Does what is due now.
    pub(super) fn work(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        while let Some(done) = self.disk.pop(now_ns) {
            self.at_disk -= 1;
            self.on_done(done.id as usize);
            self.let_in();
        }
        while let Some(done) = self.ssd.pop(now_ns) {
            self.on_done(done.id as usize);
        }
        if self.node.poll_timeout().is_some_and(|Time(at_ns)| at_ns <= now_ns) {
            self.node.handle_timeout(Time(now_ns));
        }
        self.settle();
    }

    fn place(&self, range: FileRange) -> u64 {
        self.bases[(range.file.0 - 1) as usize] + range.offset
    }

    fn done(&mut self, token: Token) {
        self.node.handle(Time(self.now_ns), Input::Done { token, result: Ok(()) });
    }

    fn on_done(&mut self, id: usize) {
        let purpose = self.purposes[id];
        self.free.push(id);
        match purpose {
            For::Token(token) => self.done(token),
            For::Nobody => {}
            For::FlushPart(token) => {
                let Some(flush) = self.flushes.get_mut(&token) else { return };
                flush.parts_left -= 1;
                if flush.parts_left == 0 {
                    let range = flush.range;
                    self.flushes.remove(&token);
                    self.write_behind(token, range);
                }
            }
        }
    }

    fn id(&mut self, purpose: For) -> u64 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.purposes.push(purpose);
            self.purposes.len() - 1
        });
        self.purposes[id] = purpose;
        id as u64
    }

    fn ask_disk(&mut self, purpose: For, operation: Operation, range: FileRange) {
        let (id, offset) = (self.id(purpose), self.place(range));
        self.at_disk += 1;
        self.disk.submit(self.now_ns, ModelRequest { id, operation, offset, len: range.len });
    }

    fn ask_ssd(&mut self, purpose: For, operation: Operation, offset: u64, len: u64) {
        let id = self.id(purpose);
        self.ssd.submit(self.now_ns, ModelRequest { id, operation, offset, len });
    }

    fn write_behind(&mut self, token: Token, range: FileRange) {
        self.behind.push_back((token, range));
        self.let_in();
    }

    /// Writes enter the scheduler's window as far as there is room, and are done for who asked.
    fn let_in(&mut self) {
        while self.at_disk < self.window {
            let Some((token, range)) = self.behind.pop_front() else { break };
            self.ask_disk(For::Nobody, Operation::Write, range);
            self.done(token);
        }
        if self.at_disk == 0 && self.behind.is_empty() {
            for token in std::mem::take(&mut self.syncs) {
                self.done(token);
            }
        }
    }

    /// Carries out what the machine asks for.
    fn settle(&mut self) {
        while let Some(effect) = self.node.poll_effect() {
            match effect {
                Effect::Reply { call: DRAIN, .. } => self.drained_ns = self.now_ns,
                Effect::Reply { call, .. } => self.answered.extend(self.open.remove(&call)),
                Effect::AppendSsd { token, entry, .. } => self.ask_ssd(For::Token(token), Operation::Write, entry.at, entry.range.len),
                Effect::ReadSsd { token, part: SsdPart { at, len, .. }, .. } => self.ask_ssd(For::Token(token), Operation::Read, at, len),
                Effect::WriteDisk { token, range, .. } => self.write_behind(token, range),
                Effect::ReadDisk { token, range, .. } => self.ask_disk(For::Token(token), Operation::Read, range),
                Effect::Flush { token, range, parts } => {
                    self.flushes.insert(token, Flush { range, parts_left: parts.len() });
                    for SsdPart { at, len, .. } in parts {
                        self.ask_ssd(For::FlushPart(token), Operation::Read, at, len);
                    }
                }
                Effect::SyncDisk { token } => {
                    self.syncs.push(token);
                    self.let_in();
                }
                // A change moves no bytes.
                Effect::ChangeDisk { token, .. } | Effect::SyncSsd { token } => self.done(token),
                Effect::Note { token, .. } => {
                    let at = self.note_at;
                    self.note_at += NOTE_BYTES;
                    self.ask_ssd(For::Token(token), Operation::Write, at, NOTE_BYTES);
                }
            }
        }
    }
}
