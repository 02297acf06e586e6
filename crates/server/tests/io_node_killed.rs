//! The I/O server, killed in the middle of its work: every answered byte is there when it is started again.
//!
//! `FOREBAY_SEED=n` runs this seed alone.

mod play;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use forebay_core::effect::HomeChange;
use forebay_core::hybrid::ServerPolicy;
use forebay_core::id::Ino;
use forebay_server::IoNode;
use forebay_store::{Home, IoService};

use play::{Model, Rng, path, seeds, start};

/// Whoever waits for something gives up then.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a job does in the child: each thread in a directory of its own.
#[derive(Clone, Debug)]
enum Op {
    Make(&'static str),
    Write(&'static str, usize, Vec<u8>),
    Truncate(&'static str, u64),
    Unlink(&'static str),
    Rename(&'static str, &'static str),
    Sync(&'static str),
}

const CHILD_NAMES: [&str; 3] = ["a", "b", "c"];
const CHILD_ROOTS: [&str; 3] = ["t0", "t1", "t2"];

/// The operation number `n` of a thread, given what is there before it.
fn op(seed: u64, thread: u64, n: u64, names: &BTreeSet<String>) -> Op {
    let mut rng = Rng(seed ^ thread << 32 ^ n << 8);
    let [name, other] = [0, 1].map(|_| CHILD_NAMES[rng.below(3) as usize]);
    if !names.contains(name) {
        return Op::Make(name);
    }
    match rng.below(20) {
        0 => Op::Truncate(name, rng.below(300_000)),
        1 => Op::Unlink(name),
        2 if name != other => Op::Rename(name, other),
        3 => Op::Sync(name),
        _ => {
            let len = 1 + rng.below(40_000) as usize;
            Op::Write(name, rng.below(300_000) as usize, (0..len).map(|_| rng.next() as u8 | 1).collect())
        }
    }
}

impl Op {
    fn run(&self, node: &IoNode, root: &str) {
        let at = |name: &str| path(&format!("{root}/{name}"));
        match self {
            Op::Make(name) => drop(node.change(&HomeChange::MakeFile { path: at(name) }).unwrap()),
            Op::Write(name, offset, bytes) => node.write(Ino(1), &at(name), *offset as u64, bytes).unwrap(),
            Op::Truncate(name, size) => drop(node.change(&HomeChange::Truncate { ino: Ino(1), path: at(name), size: *size }).unwrap()),
            Op::Unlink(name) => drop(node.change(&HomeChange::Unlink { path: at(name) }).unwrap()),
            Op::Rename(from, to) => {
                drop(node.change(&HomeChange::Rename { from: at(from), to: at(to), again: false }).unwrap());
            }
            Op::Sync(name) => node.sync(&[(Ino(1), at(name))], &[path(root)]).unwrap(),
        }
    }

    fn apply(&self, model: &mut Model) {
        match self {
            Op::Make(name) => model.make(name),
            Op::Write(name, offset, bytes) => model.write(model.names[*name], *offset, bytes),
            Op::Truncate(name, size) => model.files.get_mut(&model.names[*name]).unwrap().resize(*size as usize, 0),
            Op::Unlink(name) => drop(model.names.remove(*name)),
            Op::Rename(from, to) => {
                let id = model.names.remove(*from).unwrap();
                model.names.insert((*to).to_owned(), id);
            }
            Op::Sync(_) => {}
        }
    }
}

fn names(model: &Model) -> BTreeSet<String> {
    model.names.keys().cloned().collect()
}

/// What is there in a directory of home, as the server shows it.
fn look(node: &IoNode, root: &str) -> Model {
    let mut model = Model::default();
    let Ok(entries) = node.list(&path(root)) else { return model };
    for entry in entries.iter() {
        let name = String::from_utf8(entry.name.to_vec()).unwrap();
        let file = path(&format!("{root}/{name}"));
        let size = node.stat(&file).unwrap().attr.size;
        let mut bytes = vec![0; size as usize];
        assert_eq!(u64::from(node.read(Ino(1), &file, 0, &mut bytes).unwrap()), size);
        model.make(&name);
        let id = model.names[&name];
        model.files.insert(id, bytes);
    }
    model
}

const CHILD: &str = "FOREBAY_IO_NODE_CHILD";

/// Not a test by itself: the process that is killed.
#[test]
fn child_that_is_killed() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let mut told = told.splitn(3, ' ');
    let (seed, policy, dir) = (told.next().unwrap(), told.next().unwrap(), told.next().unwrap());
    let (seed, policy) = (seed.parse().unwrap(), ServerPolicy::named(policy).unwrap());
    let node = start(Path::new(dir), policy);
    std::thread::scope(|scope| {
        for (thread, root) in (0..).zip(CHILD_ROOTS) {
            let node = &node;
            scope.spawn(move || {
                let mut there = names(&look(node, root));
                node.change(&HomeChange::MakeDir { path: path(root) }).unwrap();
                for n in 0.. {
                    let op = op(seed, thread, n, &there);
                    println!("\nbegin {thread} {n}");
                    op.run(node, root);
                    println!("\nend {thread} {n}");
                    match op {
                        Op::Make(name) => drop(there.insert(name.to_owned())),
                        Op::Unlink(name) => drop(there.remove(name)),
                        Op::Rename(from, to) => {
                            there.remove(from);
                            there.insert(to.to_owned());
                        }
                        _ => {}
                    }
                }
            });
        }
    });
}

/// Has a child work on `dir` and kills it after `ends` answers. Gives for each thread how many operations were begun and answered.
fn work_and_die(dir: &Path, seed: u64, policy: ServerPolicy, ends: u64) -> [(u64, u64); 3] {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child_that_is_killed", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, format!("{seed} {} {}", policy.name(), dir.display())).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let (mut counts, mut ended) = ([(0, 0); 3], 0);
    let watch = Instant::now();
    for line in out.lines() {
        let line = line.unwrap();
        let mut words = line.split(' ');
        let (what, thread, n) = (words.next(), words.next(), words.next());
        let (Some(what @ ("begin" | "end")), Some(thread), Some(n)) = (what, thread, n) else { continue };
        let (thread, n): (usize, u64) = (thread.parse().unwrap(), n.parse().unwrap());
        if what == "begin" {
            counts[thread].0 = n + 1;
        } else {
            counts[thread].1 = n + 1;
            ended += 1;
        }
        assert!(watch.elapsed() < PATIENCE, "the child does not get on");
        if ended == ends {
            child.kill().unwrap();
        }
    }
    let status = child.wait().unwrap();
    assert!(ended >= ends, "the child ended by itself: {status}");
    counts
}

/// What is there must be what was answered, and of what was under way any part.
fn check_survived(found: &Model, before: &Model, after: &Model, what: &str) {
    let (is_before, is_after) = (names(found) == names(before), names(found) == names(after));
    assert!(is_before || is_after, "{what}: {:?}, neither {:?} nor {:?}", names(found), names(before), names(after));
    for (name, id) in &found.names {
        let (wanted, id_there) = if is_before { (before, before.names[name]) } else { (after, after.names[name]) };
        let bytes = &found.files[id];
        let empty = Vec::new();
        let one = wanted.files.get(&id_there).unwrap_or(&empty);
        let two = if is_before { after.files.get(&id_there).unwrap_or(one) } else { one };
        // A write that nobody answered may have got to any of its pages.
        let sizes = one.len().min(two.len())..=one.len().max(two.len());
        assert!(sizes.contains(&bytes.len()), "{what}: {name} has {} bytes, not {sizes:?}", bytes.len());
        let at = |file: &Vec<u8>, at: usize| file.get(at).copied().unwrap_or(0);
        let wrong = (0..bytes.len()).find(|i| bytes[*i] != at(one, *i) && bytes[*i] != at(two, *i));
        assert_eq!(wrong, None, "{what}: {name} of {} bytes", bytes.len());
    }
}

#[test]
fn every_answered_byte_is_there_after_a_kill() {
    for seed in seeds(300..306) {
        println!("FOREBAY_SEED={seed}");
        let dir = tempfile::tempdir().unwrap();
        let mut rng = Rng(seed);
        let mut before = CHILD_ROOTS.map(|_| Model::default());
        for round in 0..3 {
            let (_, policy) = ServerPolicy::NAMED[rng.below(ServerPolicy::NAMED.len() as u64) as usize];
            let what = format!("FOREBAY_SEED={seed}, round {round}, {}", policy.name());
            let child_seed = seed * 10 + round;
            let counts = work_and_die(dir.path(), child_seed, policy, 20 + rng.below(200));
            let (_, policy) = ServerPolicy::NAMED[rng.below(ServerPolicy::NAMED.len() as u64) as usize];
            let node = start(dir.path(), policy);
            for (thread, root) in CHILD_ROOTS.iter().enumerate() {
                let (begun, ended) = counts[thread];
                let run = |model: &mut Model, n| {
                    let op = op(child_seed, thread as u64, n, &names(model));
                    op.apply(model);
                };
                (0..ended).for_each(|n| run(&mut before[thread], n));
                let mut after = before[thread].clone();
                (ended..begun).for_each(|n| run(&mut after, n));
                let found = look(&node, root);
                check_survived(&found, &before[thread], &after, &format!("{what}, {root}"));
                before[thread] = found;
            }
            if rng.below(2) == 0 {
                node.drain().unwrap();
                for (thread, root) in CHILD_ROOTS.iter().enumerate() {
                    for (name, id) in &before[thread].names {
                        let there = std::fs::read(dir.path().join("home").join(root).join(name)).unwrap();
                        assert!(there == before[thread].files[id], "{what}: {root}/{name} at home");
                    }
                }
            }
            node.stop();
        }
    }
}
