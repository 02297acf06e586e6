//! How fast? Hybrid nodes over models of devices, with clients in a closed loop.
//!
//! A [`Cluster`] of servers, each with a node, a disk, an SSD and a link, serves [`Jobs`]: processes that send one request after the
//! other, striped over the servers. Bytes have no stamps here: right and wrong is the business of [`super::world`].
//!
//! Writes to a disk are taken by the server's operating system, which answers as soon as the request has a place in the scheduler's
//! window, and so keeps it full; reads wait for the disk, syncs for all that came before.

mod clusters;
mod jobs;
mod server;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use forebay_core::hybrid::{Counters, HybridConfig};
use forebay_core::id::{Ino, ServerId};
use forebay_core::layout::{Striped, SubRequest};
use forebay_core::policy::admission::ibridge::{EXCHANGE_NS, ServiceBoard};
use forebay_core::policy::detector::{Detector, FragmentRule, RandomStreams, StreamConfig};
use forebay_core::policy::{Arrival, Operation, Share};
use forebay_store::device::model::{DeviceSpec, LinkSpec, Scheduling};

pub use jobs::{Job, Jobs};
use server::Server;

/// What serves.
#[derive(Clone, PartialEq, Debug)]
pub struct Cluster {
    /// I/O servers.
    pub servers: u32,
    /// Bytes of a stripe.
    pub stripe_bytes: u64,
    /// The node on each of them.
    pub node: HybridConfig,
    /// Its disk.
    pub disk: DeviceSpec,
    /// The disk's queues.
    pub disk_scheduling: Scheduling,
    /// Its SSD.
    pub ssd: DeviceSpec,
    /// What comes to it.
    pub link: LinkSpec,
    /// What clients call a fragment.
    pub fragments: FragmentRule,
    /// The streams whose random share is looked at, beside what the policy does.
    pub streams: StreamConfig,
}

/// What a run took.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// For each job: when its first request was sent, when its last one was answered, and its bytes.
    pub jobs: Vec<JobTime>,
    /// When the last request of all was answered, ns.
    pub answered_ns: u64,
    /// When everything was home, ns.
    pub drained_ns: u64,
    /// Requests of clients.
    pub requests: u64,
    /// Service times that servers reported to the board (I-06).
    pub reports: u64,
    /// What the board told servers.
    pub broadcasts: u64,
    /// What each server's node counted.
    pub servers: Vec<Counters>,
    /// The random shares of the streams that arrived, server by server, in the order of their arrival.
    pub shares: Vec<Vec<Share>>,
}

/// When a job ran.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobTime {
    /// Its first request, ns.
    pub from_ns: u64,
    /// Its last answer, ns.
    pub to_ns: u64,
    /// Bytes that it moved.
    pub bytes: u64,
    /// Requests of its processes.
    pub requests: u64,
}

impl JobTime {
    /// Bytes a second.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 * 1e9 / (self.to_ns - self.from_ns).max(1) as f64
    }
}

impl Outcome {
    /// Bytes a second of all jobs together, until the last answer.
    pub fn rate(&self) -> f64 {
        self.jobs.iter().map(|job| job.bytes).sum::<u64>() as f64 * 1e9 / self.answered_ns.max(1) as f64
    }

    /// Bytes a second until everything was home.
    pub fn rate_with_drain(&self) -> f64 {
        self.jobs.iter().map(|job| job.bytes).sum::<u64>() as f64 * 1e9 / self.drained_ns.max(1) as f64
    }

    /// The mean random share of the streams that arrived; `None` if no stream was complete.
    pub fn random_share(&self) -> Option<f64> {
        let shares = || self.shares.iter().flatten().map(|share| f64::from(share.part()) / f64::from(share.whole()));
        let count = shares().count();
        (count > 0).then(|| shares().sum::<f64>() / count as f64)
    }

    /// The part of the written bytes that went to the SSD.
    pub fn ssd_share(&self) -> f64 {
        use forebay_core::policy::Target;
        let to = |target| self.servers.iter().map(|counters| counters.to(target).bytes).sum::<u64>() as f64;
        to(Target::Ssd) / (to(Target::Ssd) + to(Target::Disk)).max(1.0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// A process may send.
    Process(u32),
    /// A sub-request arrives.
    Arrival(u32, u64),
    /// Something is due on a server.
    Server(u32),
    /// Servers tell each other how long their disks take (I-06).
    Exchange,
}

/// A request of a process, until all its parts are answered.
#[derive(Clone, Copy, Debug)]
struct Open {
    process: u32,
    parts: u32,
}

/// A part of a request on its way to a server.
#[derive(Clone, Debug)]
struct Part {
    open: usize,
    operation: Operation,
    file: u64,
    sub: SubRequest,
    siblings: Vec<ServerId>,
}

struct World<'a> {
    cluster: &'a Cluster,
    layout: Striped,
    jobs: &'a mut Jobs,
    servers: Vec<Server>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    now_ns: u64,
    open: Vec<Open>,
    free: Vec<usize>,
    parts: Vec<Option<Part>>,
    free_parts: Vec<usize>,
    requests: u64,
    answered_ns: u64,
    board: ServiceBoard,
    reports: u64,
    broadcasts: u64,
    streams: Vec<RandomStreams>,
    shares: Vec<Vec<Share>>,
}

/// Runs the jobs until everything is answered, then until everything is home.
pub fn run(cluster: &Cluster, jobs: &mut Jobs) -> Outcome {
    let layout = Striped { base: ServerId(0), servers: cluster.servers, stripe_bytes: cluster.stripe_bytes };
    let bases = jobs.places(u64::from(cluster.servers), cluster.stripe_bytes);
    let servers = (0..cluster.servers).map(|_| Server::new(cluster, bases.clone())).collect();
    let (free, free_parts) = (Vec::new(), Vec::new());
    let mut world = World {
        cluster,
        layout,
        jobs,
        servers,
        events: BinaryHeap::new(),
        sequence: 0,
        now_ns: 0,
        open: Vec::new(),
        free,
        parts: Vec::new(),
        free_parts,
        requests: 0,
        answered_ns: 0,
        board: ServiceBoard::new(),
        reports: 0,
        broadcasts: 0,
        streams: vec![RandomStreams::new(cluster.streams); cluster.servers as usize],
        shares: vec![Vec::new(); cluster.servers as usize],
    };
    world.at(EXCHANGE_NS, Event::Exchange);
    for process in 0..world.jobs.processes() {
        world.at(0, Event::Process(process));
    }
    world.run();
    debug_assert!(world.servers.iter().all(Server::is_idle), "a server did not come to an end");
    let drained_ns = world.servers.iter().map(|server| server.drained_ns).max().unwrap_or(0);
    Outcome {
        jobs: world.jobs.times(),
        answered_ns: world.answered_ns,
        drained_ns,
        requests: world.requests,
        reports: world.reports,
        broadcasts: world.broadcasts,
        servers: world.servers.iter().map(|server| server.counters().clone()).collect(),
        shares: world.shares,
    }
}

impl World<'_> {
    fn at(&mut self, time_ns: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((time_ns, self.sequence, event)));
    }

    fn run(&mut self) {
        while let Some(Reverse((time_ns, _, event))) = self.events.pop() {
            debug_assert!(time_ns >= self.now_ns, "time went back");
            self.now_ns = time_ns;
            match event {
                Event::Process(process) => self.send(process),
                Event::Arrival(server, part) => {
                    if let Some(part) = self.parts[part as usize].clone() {
                        self.look_at(server, &part);
                        self.servers[server as usize].request(self.now_ns, part.open as u64, &part);
                    }
                    self.free_part(part as usize);
                    self.look_after(server);
                }
                Event::Exchange => self.exchange(),
                Event::Server(server) => {
                    if self.servers[server as usize].scheduled_ns == Some(time_ns) {
                        self.servers[server as usize].scheduled_ns = None;
                        self.servers[server as usize].work(self.now_ns);
                        self.look_after(server);
                    }
                }
            }
        }
    }

    /// What a detector would say of the traffic, whatever the policy.
    fn look_at(&mut self, server: u32, part: &Part) {
        let SubRequest { offset, len, class, .. } = part.sub;
        let file = Ino(part.file + 1);
        let arrival = Arrival { file, offset, len, operation: part.operation, class, siblings: &[], place: offset };
        self.shares[server as usize].extend(self.streams[server as usize].observe(&arrival));
    }

    /// Each server's service time goes to the board, and the board's to each server, as long as anything happens at all.
    fn exchange(&mut self) {
        for (number, server) in (0..).zip(&self.servers) {
            if let Some(service_ns) = server.service_ns() {
                self.board.on_report(ServerId(number), service_ns);
                self.reports += 1;
            }
        }
        let times = self.board.times();
        if !times.is_empty() {
            self.servers.iter_mut().for_each(|server| server.hear(self.now_ns, times.clone()));
            self.broadcasts += self.servers.len() as u64;
        }
        if !self.events.is_empty() {
            self.at(self.now_ns + EXCHANGE_NS, Event::Exchange);
        }
    }

    fn free_part(&mut self, part: usize) {
        self.parts[part] = None;
        self.free_parts.push(part);
    }

    /// Takes a server's answers and sees to it that it is called when something is due.
    fn look_after(&mut self, server: u32) {
        while let Some(open) = self.servers[server as usize].answered.pop() {
            let open = open as usize;
            self.open[open].parts -= 1;
            if self.open[open].parts == 0 {
                self.free.push(open);
                self.on_answer(self.open[open].process);
            }
        }
        let this = &mut self.servers[server as usize];
        let Some(due_ns) = this.due_ns() else { return };
        let due_ns = due_ns.max(self.now_ns);
        if this.scheduled_ns.is_none_or(|scheduled_ns| due_ns < scheduled_ns) {
            this.scheduled_ns = Some(due_ns);
            self.at(due_ns, Event::Server(server));
        }
    }

    fn on_answer(&mut self, process: u32) {
        self.answered_ns = self.now_ns;
        for (process, time_ns) in self.jobs.on_answer(process, self.now_ns) {
            self.at(time_ns, Event::Process(process));
        }
        if self.jobs.are_done() {
            self.drain();
        }
    }

    /// A process sends its next request, if it has one and may.
    fn send(&mut self, process: u32) {
        let Some(request) = self.jobs.next(process, self.now_ns) else { return };
        self.requests += 1;
        let mut subs = Vec::new();
        self.layout.split(request.offset, request.len, self.cluster.fragments, &mut subs);
        let open = self.free.pop().unwrap_or_else(|| {
            self.open.push(Open { process, parts: 0 });
            self.open.len() - 1
        });
        self.open[open] = Open { process, parts: subs.len() as u32 };
        let all: Vec<ServerId> = subs.iter().map(|sub| sub.server).collect();
        for sub in subs {
            let server = sub.server;
            let siblings = match sub.class {
                forebay_core::policy::RequestClass::Fragment => all.iter().copied().filter(|other| *other != server).collect(),
                _ => Vec::new(),
            };
            let bytes = if request.operation == Operation::Write { sub.len } else { 0 };
            let arrives_ns = self.servers[server.0 as usize].link.send(self.now_ns, bytes);
            let part = Part { open, operation: request.operation, file: request.file, sub, siblings };
            let at = self.free_parts.pop().unwrap_or_else(|| {
                self.parts.push(None);
                self.parts.len() - 1
            });
            self.parts[at] = Some(part);
            self.at(arrives_ns, Event::Arrival(server.0, at as u64));
        }
    }

    /// Brings everything home, from the last answer on.
    fn drain(&mut self) {
        for server in 0..self.servers.len() as u32 {
            self.servers[server as usize].drain(self.now_ns);
            self.look_after(server);
        }
    }
}
