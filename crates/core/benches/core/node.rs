//! The whole machine of a node: what it costs to take a write, and to take it and bring it home, when the world answers at once.

use std::collections::VecDeque;

use forebay_core::attr::{Attr, Caller, Kind};
use forebay_core::config::{NodeConfig, WriteBack};
use forebay_core::effect::{Effect, HomeAttr, Input, Outcome};
use forebay_core::id::{CallId, Ino, Name, Token};
use forebay_core::machine::Machine;
use forebay_core::message::{Reply, Request, StatFs};
use forebay_core::node::Node;
use forebay_core::time::Time;

use crate::harness::{Bench, Random, Run, timed};

const WRITE_BYTES: u32 = 4096;
/// A write comes every so many nanoseconds of the machine's time.
const WRITE_INTERVAL_NS: u64 = 10_000;

/// All that home has at first.
const HOME_DIRECTORY: Attr = Attr {
    kind: Kind::Directory,
    mode: 0o755,
    nlink: 2,
    uid: 0,
    gid: 0,
    size: 4096,
    blocks: 8,
    rdev: 0,
    atime_ns: 0,
    mtime_ns: 0,
    ctime_ns: 0,
};

/// A node and a world that does at once what it is asked to, and holds no bytes.
struct World {
    node: Node,
    now: Time,
    inputs: VecDeque<Input>,
    replies: VecDeque<Reply>,
    next_call: u64,
}

impl World {
    fn new(config: NodeConfig) -> World {
        let now = Time(1 << 60);
        let node = Node::new(config, now).expect("a configuration that can be used");
        World { node, now, inputs: VecDeque::new(), replies: VecDeque::new(), next_call: 1 }
    }

    /// Hands in a request and carries out what follows from it.
    fn call(&mut self, request: Request) {
        let call = CallId(self.next_call);
        self.next_call += 1;
        self.inputs.push_back(Input::Call { call, request, once: None });
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(input) = self.inputs.pop_front() {
            self.node.handle(self.now, input);
            self.take_effects();
        }
    }

    fn take_effects(&mut self) {
        while let Some(effect) = self.node.poll_effect() {
            match effect {
                Effect::Reply { reply, .. } => self.replies.push_back(reply),
                other => self.inputs.extend(answer(other)),
            }
        }
    }

    fn pass_time(&mut self, ns: u64) {
        self.now = self.now + ns;
        if self.node.poll_timeout().is_some_and(|due| due <= self.now) {
            self.node.handle_timeout(self.now);
            self.take_effects();
            self.settle();
        }
    }

    fn create(&mut self, name: &str) -> Ino {
        let name = Name::new(name.as_bytes());
        self.call(Request::Create { parent: Ino::ROOT, name, mode: 0o644, exclusive: true, caller: Caller::default() });
        match self.replies.pop_back() {
            Some(Reply::Created { ino, .. }) => ino,
            other => panic!("create was answered with {other:?}"),
        }
    }

    /// Writes blocks of a file, and counts the answers.
    fn write(&mut self, ino: Ino, blocks: impl Iterator<Item = u64>) -> u64 {
        let mut written = 0;
        for block in blocks {
            self.pass_time(WRITE_INTERVAL_NS);
            self.call(Request::Write { ino, offset: block * u64::from(WRITE_BYTES), len: WRITE_BYTES, append: false, drops_set_id: false });
            for reply in self.replies.drain(..) {
                assert!(matches!(reply, Reply::Written { len: WRITE_BYTES, .. }), "a write was answered with {reply:?}");
                written += 1;
            }
        }
        written
    }
}

/// The input that answers an effect, when everything works.
fn answer(effect: Effect) -> Option<Input> {
    let done = |token: Token, outcome: Outcome| Some(Input::Done { token, result: Ok(outcome) });
    match effect {
        Effect::WriteLog { token, pieces, .. } => done(token, Outcome::Checksums(vec![0; pieces.len()])),
        Effect::CopyLog { token, .. } | Effect::WriteHome { token, .. } => done(token, Outcome::Checksums(vec![0])),
        Effect::ReadLog { token, .. }
        | Effect::Spill { token, .. }
        | Effect::SyncLog { token }
        | Effect::Journal { token, .. }
        | Effect::RotateJournal { token, .. }
        | Effect::SyncHome { token, .. }
        | Effect::ChangeHome { token, .. } => done(token, Outcome::Done),
        Effect::ListHome { token, .. } => done(token, Outcome::Listing(Default::default())),
        Effect::StatFsHome { token } => done(token, Outcome::StatFs(StatFs::default())),
        Effect::ReadHome { token, len, .. } => done(token, Outcome::Read { len }),
        Effect::CompareHome { token, .. } | Effect::CompareZerosHome { token, .. } => done(token, Outcome::Compared { equal: true }),
        Effect::XattrsHome { token, .. } => done(token, Outcome::Xattrs(Vec::new())),
        Effect::SeekHome { token, .. } => done(token, Outcome::Found(None)),
        Effect::StatHome { token, .. } => done(token, Outcome::Stat(HomeAttr { attr: HOME_DIRECTORY, dev: 1, ino: 1 })),
        Effect::ReadLinkHome { .. } => panic!("home has no symlink: {effect:?}"),
        Effect::Reply { .. }
        | Effect::ZeroPayload { .. }
        | Effect::CopyPayload { .. }
        | Effect::DropOldJournals
        | Effect::DropFetch { .. }
        | Effect::ForgetHome { .. }
        | Effect::PruneClients { .. } => None,
    }
}

/// A buffer that holds everything: the path of a write alone, from the call to the reply.
fn take(writes: u64, order: &[u64]) -> Run {
    let segments = 16 + (writes * u64::from(WRITE_BYTES) / (4 << 20)) as u32 * 3 / 2;
    let mut world = World::new(NodeConfig {
        segments_max: segments,
        memory_segments_max: segments,
        write_back: WriteBack::Sync,
        ..NodeConfig::default()
    });
    let ino = world.create("file");
    let mut written = 0;
    let run = timed(writes, || written = world.write(ino, order.iter().copied()));
    assert_eq!((written, world.node.status().dirty_bytes), (writes, writes * u64::from(WRITE_BYTES)));
    run
}

/// A small buffer in front of a home as fast as the writer: a write's whole life, to its comparison at home and its swapping out.
fn take_and_bring_home(writes: u64, order: &[u64]) -> Run {
    let mut world =
        World::new(NodeConfig { segments_max: 64, memory_segments_max: 16, write_back_delay_ns: 20_000_000, ..NodeConfig::default() });
    let ino = world.create("file");
    let mut written = 0;
    let run = timed(writes, || {
        written = world.write(ino, order.iter().copied());
        world.call(Request::Drain);
        for _ in 0..1_000_000 {
            if !world.replies.is_empty() {
                break;
            }
            world.pass_time(WRITE_INTERVAL_NS);
        }
    });
    let drained = world.replies.iter().any(|reply| matches!(reply, Reply::Drained { failures } if failures.is_empty()));
    written += world.replies.iter().filter(|reply| matches!(reply, Reply::Written { .. })).count() as u64;
    assert!(drained && written == writes, "{written} of {writes} writes answered, then {:?}", world.replies);
    run
}

pub fn run(bench: &mut Bench) {
    let sizes: &[u64] = if bench.options.test { &[1_000] } else { &[2_000, 20_000] };
    for &writes in sizes {
        let ascending: Vec<u64> = (0..writes).collect();
        let shuffled = Random(6).permutation(writes);
        for (name, order) in [("ascending", ascending), ("shuffled", shuffled)] {
            bench.nanoseconds(&format!("node takes a write, {name}"), writes, || take(writes, &order));
            bench.nanoseconds(&format!("node brings a write home, {name}"), writes, || take_and_bring_home(writes, &order));
        }
    }
}
