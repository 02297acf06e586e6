//! A trace run again: what programs asked of an instance is asked of the same machine, in virtual time, with a home that has sizes and no bytes.
//!
//! So it counts what the instance counted. Where chunks are swapped out as they enter ([`WriteBack::Sync`](forebay_core::config::WriteBack)) no
//! time is among the reasons of anything, and the counts are the same; otherwise they are as close as the times are. With [`Costs`] it also says
//! how long the programs would have taken with another buffer or another home.

mod home;
mod past;
mod programs;

use std::collections::{BTreeMap, HashMap, VecDeque};

use forebay_core::attr::{AttrChange, Caller, Kind};
use forebay_core::config::NodeConfig;
use forebay_core::effect::{Effect, Input, Outcome};
use forebay_core::errno::Errno;
use forebay_core::id::{CallId, Ino, Name, Token};
use forebay_core::machine::Machine;
use forebay_core::message::{Counters, RenameMode, Reply, Request, StatFs};
use forebay_core::node::{ConfigError, Node};
use forebay_core::time::Time;
use forebay_trace::{FileId, Flags, Op, ProcessId, Record};
use thiserror::Error;

use crate::buffer::{Level, Rates};
use crate::rng::Rng;
use home::Home;
use past::Past;
use programs::Programs;

/// Events between two answers, at most: more are a machine that turns in circles.
const EVENTS_MAX: u64 = 10_000_000;

/// How long things take.
#[derive(Clone, Debug)]
pub enum Costs {
    /// No time at all: each request is made when the trace says, and answered at once.
    Nothing,
    /// The same, but each effect takes a time from this seed: no count may depend on that where chunks are swapped out as they enter.
    Chance(u64),
    /// The programs do what they do between two requests as long as they did, and wait for each answer as long as it takes.
    Rates {
        /// Throughput of the buffer and of home, by the size of a transfer. Home does one after the other.
        rates: Rates,
        /// What each change or question of names takes at home, ns.
        home_latency_ns: u64,
    },
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Rerun {
    /// What the machine counted.
    pub counters: Counters,
    /// Bytes of files that the buffer may hold.
    pub live_bytes_max: u64,
    /// From the first request to the last answer, in virtual time.
    pub passed_ns: u64,
    /// The same in the trace.
    pub recorded_ns: u64,
    /// Requests that were made.
    pub requests: u64,
    /// Operations of the trace that failed here and had not failed there.
    pub failed: u64,
}

/// Why a trace could not be run again.
#[derive(Debug, Error)]
pub enum RerunError {
    /// The configuration is none.
    #[error("the configuration cannot be used: {0}")]
    Config(#[from] ConfigError),
    /// A request is never answered: the machine has a fault, or what it waits for is not simulated.
    #[error("request {0} of the trace is never answered")]
    Stuck(u64),
}

/// Runs the records of a trace again, which are in the order of their starts. `path_of` gives the path of a file below home, without a slash at
/// its begin; none for what is not there.
///
/// # Errors
/// If the configuration cannot be used, or the machine does not come to an end.
pub fn rerun<'a>(
    records: &[Record],
    path_of: impl Fn(FileId) -> Option<&'a [u8]>,
    config: NodeConfig,
    costs: Costs,
) -> Result<Rerun, RerunError> {
    let mut past = Past::new();
    for record in records {
        if let Some(path) = path_of(record.file) {
            past.add_record(record, path, path_of(record.other).unwrap_or_default());
        }
    }
    let first_ns = records.first().map_or(0, |record| record.start_ns);
    let last_ns = records.iter().map(Record::end_ns).max().unwrap_or(first_ns);
    let seed = if let Costs::Chance(seed) = costs { seed } else { 0 };
    let node = Node::new(config, Time(first_ns))?;
    let mut world = World {
        node,
        home: past.home(),
        costs,
        now: Time(first_ns),
        sequence: 0,
        queue: BTreeMap::new(),
        home_free: Time(first_ns),
        journal_free: Time(first_ns),
        chance: Rng::new(seed),
        next_call: 1,
        replies: HashMap::new(),
        asked: VecDeque::new(),
        inos: HashMap::from([(Vec::new(), Ino::ROOT)]),
        opens: HashMap::new(),
        result: Rerun {
            counters: Counters::default(),
            live_bytes_max: 0,
            passed_ns: 0,
            recorded_ns: last_ns - first_ns,
            requests: 0,
            failed: 0,
        },
    };
    let answered = match world.costs {
        Costs::Nothing | Costs::Chance(_) => world.as_recorded(records, &path_of),
        Costs::Rates { .. } => world.in_a_loop(records, &path_of),
    }?;
    world.result.passed_ns = answered.since_ns(Time(first_ns));
    let status = world.node.status();
    (world.result.counters, world.result.live_bytes_max) = (status.counters, status.live_bytes_max);
    Ok(world.result)
}

/// The machine, what it asks, and who asks it.
struct World {
    node: Node,
    home: Home,
    costs: Costs,
    now: Time,
    sequence: u64,
    queue: BTreeMap<(Time, u64), (Token, Result<Outcome, Errno>)>,
    /// When home is done with what it was given.
    home_free: Time,
    /// When the journal is: its records are appended in order.
    journal_free: Time,
    chance: Rng,
    next_call: u64,
    replies: HashMap<CallId, Reply>,
    /// Calls that were answered, in the order of that.
    asked: VecDeque<CallId>,
    inos: HashMap<Vec<u8>, Ino>,
    opens: HashMap<(ProcessId, FileId), Vec<Ino>>,
    result: Rerun,
}

impl World {
    /// Each request when the trace says so.
    fn as_recorded<'a>(&mut self, records: &[Record], path_of: &impl Fn(FileId) -> Option<&'a [u8]>) -> Result<Time, RerunError> {
        for (at, record) in records.iter().enumerate() {
            self.until(Time(record.start_ns));
            let Some(request) = self.request_of(record, path_of) else { continue };
            let call = self.ask(request);
            let Some(reply) = self.wait_for(call) else { return Err(RerunError::Stuck(at as u64)) };
            self.answered(record, &reply);
        }
        Ok(self.now)
    }

    /// Each request when what its program waited for is done, and as much later as in the trace.
    fn in_a_loop<'a>(&mut self, records: &[Record], path_of: &impl Fn(FileId) -> Option<&'a [u8]>) -> Result<Time, RerunError> {
        let mut programs = Programs::new(records);
        let mut open: HashMap<CallId, usize> = HashMap::new();
        let mut last = self.now;
        loop {
            let due = programs.next_due();
            let event = self.next_event();
            match (due, event) {
                (Some((at_ns, record)), event) if event.is_none_or(|event| event.0 >= at_ns) => {
                    self.now = self.now.max(Time(at_ns));
                    programs.begin(record);
                    match self.request_of(&records[record], path_of) {
                        Some(request) => {
                            let call = self.ask(request);
                            open.insert(call, record);
                        }
                        None => programs.end(record, self.now.0),
                    }
                }
                (_, Some(_)) => self.step(),
                (None, None) if open.is_empty() => return Ok(last),
                _ => return Err(RerunError::Stuck(open.values().min().copied().unwrap_or_default() as u64)),
            }
            while let Some(call) = self.asked.pop_front() {
                let (Some(record), Some(reply)) = (open.remove(&call), self.replies.remove(&call)) else { continue };
                self.answered(&records[record], &reply);
                last = self.now;
                programs.end(record, self.now.0);
            }
        }
    }

    /// What happens until then.
    fn until(&mut self, time: Time) {
        while self.next_event().is_some_and(|at| at <= time) {
            self.step();
        }
        self.now = self.now.max(time);
    }

    /// When something happens next: an effect ends, or the machine wakes up.
    fn next_event(&self) -> Option<Time> {
        let done = self.queue.first_key_value().map(|((at, _), _)| *at);
        [done, self.node.poll_timeout()].into_iter().flatten().min().map(|at| at.max(self.now))
    }

    fn step(&mut self) {
        let wakes = self.node.poll_timeout();
        match self.queue.first_key_value() {
            Some(((at, _), _)) if wakes.is_none_or(|wakes| *at <= wakes.max(self.now)) => {
                let Some(((at, _), (token, result))) = self.queue.pop_first() else { return };
                self.now = self.now.max(at);
                self.node.handle(self.now, Input::Done { token, result });
            }
            _ => {
                self.now = self.now.max(wakes.unwrap_or_default());
                self.node.handle_timeout(self.now);
            }
        }
        self.take_effects();
    }

    fn ask(&mut self, request: Request) -> CallId {
        let call = CallId(self.next_call);
        self.next_call += 1;
        self.result.requests += 1;
        self.node.handle(self.now, Input::Call { call, request, once: None });
        self.take_effects();
        call
    }

    fn wait_for(&mut self, call: CallId) -> Option<Reply> {
        for _ in 0..EVENTS_MAX {
            if let Some(reply) = self.replies.remove(&call) {
                self.asked.retain(|asked| *asked != call);
                return Some(reply);
            }
            self.next_event()?;
            self.step();
        }
        None
    }

    fn take_effects(&mut self) {
        while let Some(effect) = self.node.poll_effect() {
            let (cost_ns, at_home) = self.cost_ns(&effect);
            let in_order = matches!(effect, Effect::Journal { .. } | Effect::RotateJournal { .. });
            let Some((token, result)) = self.carry_out(effect) else { continue };
            let begin = if at_home { self.home_free.max(self.now) } else { self.now };
            let mut end = begin + cost_ns;
            if in_order {
                end = end.max(self.journal_free);
                self.journal_free = end;
            }
            if at_home && matches!(self.costs, Costs::Rates { .. }) {
                self.home_free = end;
            }
            self.sequence += 1;
            self.queue.insert((end, self.sequence), (token, result));
        }
    }

    /// How long an effect takes, and whether home does it.
    fn cost_ns(&mut self, effect: &Effect) -> (u64, bool) {
        let (rates, home_latency_ns) = match &self.costs {
            Costs::Nothing => return (0, false),
            Costs::Chance(_) => return (*self.chance.pick(&[0, 1_000, 1_000_000]) * self.chance.range(0, 50), false),
            Costs::Rates { rates, home_latency_ns } => (rates, home_latency_ns),
        };
        let ns = |level: Level, bytes: u64| if bytes == 0 { 0 } else { (bytes as f64 / rates.of(1, level, bytes) * 1e9) as u64 };
        match effect {
            Effect::WriteLog { pieces, .. } => (ns(Level::BufferWrite, pieces.iter().map(|piece| u64::from(piece.at.len)).sum()), false),
            Effect::ReadLog { pieces, .. } => (ns(Level::BufferRead, pieces.iter().map(|piece| u64::from(piece.at.len)).sum()), false),
            Effect::CopyLog { from, .. } => (ns(Level::BufferWrite, u64::from(from.len)), false),
            Effect::Spill { len, .. } => (ns(Level::BufferWrite, u64::from(*len)), false),
            Effect::ReadHome { len, .. } => (home_latency_ns + ns(Level::HomeRead, u64::from(*len)), true),
            Effect::CompareHome { len, .. } => (home_latency_ns + ns(Level::HomeRead, *len), true),
            Effect::WriteHome { pieces, .. } => {
                (home_latency_ns + ns(Level::HomeWrite, pieces.iter().map(|piece| u64::from(piece.at.len)).sum()), true)
            }
            Effect::ListHome { .. } | Effect::StatHome { .. } | Effect::ReadLinkHome { .. } | Effect::XattrsHome { .. } => {
                (*home_latency_ns, false)
            }
            Effect::ChangeHome { .. } | Effect::SyncHome { .. } | Effect::SeekHome { .. } | Effect::StatFsHome { .. } => {
                (*home_latency_ns, false)
            }
            _ => (0, false),
        }
    }

    /// What comes of an effect; none if it is not answered.
    fn carry_out(&mut self, effect: Effect) -> Option<(Token, Result<Outcome, Errno>)> {
        let home = &mut self.home;
        Some(match effect {
            Effect::Reply { call, reply } => {
                self.replies.insert(call, reply);
                self.asked.push_back(call);
                return None;
            }
            Effect::WriteLog { token, pieces, .. } => (token, Ok(Outcome::Checksums(vec![0; pieces.len()]))),
            Effect::CopyLog { token, .. } => (token, Ok(Outcome::Checksums(vec![0]))),
            Effect::ReadLog { token, .. }
            | Effect::Spill { token, .. }
            | Effect::SyncLog { token }
            | Effect::Journal { token, .. }
            | Effect::RotateJournal { token, .. }
            | Effect::SyncHome { token, .. } => (token, Ok(Outcome::Done)),
            Effect::ListHome { token, path } => (token, home.list(&path).map(Outcome::Listing)),
            Effect::StatHome { token, path } => (token, home.stat(&path).map(Outcome::Stat)),
            Effect::ReadLinkHome { token, path } => (token, home.target(&path).map(Outcome::Target)),
            Effect::XattrsHome { token, .. } => (token, Ok(Outcome::Xattrs(Vec::new()))),
            Effect::SeekHome { token, offset, .. } => (token, Ok(Outcome::Found(Some(offset)))),
            Effect::StatFsHome { token } => (token, Ok(Outcome::StatFs(StatFs::default()))),
            Effect::ReadHome { token, path, offset, len, .. } => (token, home.read(&path, offset, len).map(|len| Outcome::Read { len })),
            Effect::WriteHome { token, path, offset, pieces, .. } => {
                let bytes: u64 = pieces.iter().map(|piece| u64::from(piece.at.len)).sum();
                (token, home.write(&path, offset + bytes).map(|()| Outcome::Checksums(vec![0])))
            }
            Effect::CompareHome { token, .. } | Effect::CompareZerosHome { token, .. } => (token, Ok(Outcome::Compared { equal: true })),
            Effect::ChangeHome { token, change } => (token, home.change(&change).map(|()| Outcome::Done)),
            Effect::ZeroPayload { .. }
            | Effect::CopyPayload { .. }
            | Effect::DropOldJournals
            | Effect::DropFetch { .. }
            | Effect::ForgetHome { .. }
            | Effect::PruneClients { .. } => return None,
        })
    }

    /// The request that a record is of, if it is one about bytes or names that succeeded.
    fn request_of<'a>(&mut self, record: &Record, path_of: &impl Fn(FileId) -> Option<&'a [u8]>) -> Option<Request> {
        if record.result < 0 {
            return None;
        }
        let path = path_of(record.file)?;
        let caller = Caller { uid: 0, gid: 0 };
        let (offset, len) = (record.offset, u32::try_from(record.size).unwrap_or(u32::MAX));
        match record.op {
            Op::Read => self.ino_of(record, path).map(|ino| Request::Read { ino, offset, len }),
            Op::Write => self.ino_of(record, path).map(|ino| Request::Write { ino, offset, len, append: false, drops_set_id: false }),
            Op::Sync => self.ino_of(record, path).map(|ino| Request::Sync { ino }),
            Op::Truncate => {
                let change = AttrChange { size: Some(record.size), ..AttrChange::default() };
                self.ino_of(record, path).map(|ino| Request::SetAttr { ino, change })
            }
            Op::Open if record.flags.has(Flags::CREATE) => {
                let (parent, name) = self.parent_of(path)?;
                Some(Request::Create { parent, name, mode: 0o644, exclusive: false, caller })
            }
            Op::Open => {
                let ino = self.find(path)?;
                self.opened(record, ino);
                Some(Request::Open { ino })
            }
            Op::Close => {
                let opens = self.opens.get_mut(&(record.process, record.file))?;
                opens.pop().map(|ino| Request::Release { ino })
            }
            Op::Mkdir => self.parent_of(path).map(|(parent, name)| Request::MakeDir { parent, name, mode: 0o755, caller }),
            Op::Create => {
                let (parent, name) = self.parent_of(path)?;
                Some(Request::MakeNode { parent, name, kind: Kind::Fifo, mode: 0o644, rdev: 0, caller })
            }
            Op::Symlink => {
                let (parent, name) = self.parent_of(path)?;
                Some(Request::SymLink { parent, name, target: Name::new(b"."), caller })
            }
            Op::Unlink => self.parent_of(path).map(|(parent, name)| Request::Unlink { parent, name }),
            Op::Rmdir => self.parent_of(path).map(|(parent, name)| Request::RemoveDir { parent, name }),
            Op::Rename => {
                let (parent, name) = self.parent_of(path)?;
                let (new_parent, new_name) = self.parent_of(path_of(record.other)?)?;
                self.renamed(path, path_of(record.other)?);
                Some(Request::Rename { parent, name, new_parent, new_name, mode: RenameMode::Replace })
            }
            Op::Link => {
                let ino = self.find(path)?;
                self.parent_of(path_of(record.other)?).map(|(parent, name)| Request::Link { ino, parent, name })
            }
            _ => None,
        }
        .inspect(|_| {
            if matches!(record.op, Op::Unlink | Op::Rmdir) {
                self.inos.remove(path);
            }
        })
    }

    fn renamed(&mut self, from: &[u8], to: &[u8]) {
        let below = [from, b"/"].concat();
        let moved: Vec<Vec<u8>> = self.inos.keys().filter(|path| *path == from || path.starts_with(&below)).cloned().collect();
        self.inos.remove(to);
        for path in moved {
            if let Some(ino) = self.inos.remove(&path) {
                self.inos.insert([to, &path[from.len()..]].concat(), ino);
            }
        }
    }

    /// What a request has come to; what it has opened is kept in mind.
    fn answered(&mut self, record: &Record, reply: &Reply) {
        match (record.op, reply) {
            (Op::Open, Reply::Error { errno }) => {
                self.opens.get_mut(&(record.process, record.file)).and_then(Vec::pop);
                // Directories are opened otherwise, and have no bytes.
                self.result.failed += u64::from(*errno != Errno::EISDIR);
            }
            (_, Reply::Error { .. }) => self.result.failed += 1,
            (Op::Open, Reply::Created { ino, .. }) => self.opened(record, *ino),
            _ => {}
        }
    }

    fn opened(&mut self, record: &Record, ino: Ino) {
        self.opens.entry((record.process, record.file)).or_default().push(ino);
    }

    /// The inode that a file of the trace is; one that has lost its name is whatever its process has open.
    fn ino_of(&mut self, record: &Record, path: &[u8]) -> Option<Ino> {
        self.find(path).or_else(|| self.opens.get(&(record.process, record.file))?.last().copied())
    }

    fn parent_of(&mut self, path: &[u8]) -> Option<(Ino, Name)> {
        let at = path.iter().rposition(|byte| *byte == b'/');
        let (parent, name) = at.map_or((&path[..0], path), |at| (&path[..at], &path[at + 1..]));
        Some((self.find(parent)?, Name::new(name)))
    }

    /// The inode at a path, which the machine is asked for where it is not known.
    fn find(&mut self, path: &[u8]) -> Option<Ino> {
        if let Some(ino) = self.inos.get(path) {
            return Some(*ino);
        }
        let (parent, name) = self.parent_of(path)?;
        let call = self.ask(Request::Lookup { parent, name });
        match self.wait_for(call)? {
            Reply::Entry { ino, .. } => {
                self.inos.insert(path.to_vec(), ino);
                Some(ino)
            }
            _ => None,
        }
    }
}
