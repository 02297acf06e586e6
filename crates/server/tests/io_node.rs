//! The I/O server, over real directories: against a model, with several clients, two in one process.
//!
//! A random test prints its seed; `FOREBAY_SEED=n` runs this one alone.

mod play;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_core::attr::Kind;
use forebay_core::effect::HomeChange;
use forebay_core::errno::Errno;
use forebay_core::hybrid::ServerPolicy;
use forebay_core::id::{HomePath, Ino, ServerId};
use forebay_core::message::SeekWhence;
use forebay_core::policy::{RequestClass, Target};
use forebay_server::{IoNode, IoNodeOptions};
use forebay_store::{Home, IoService, RequestHint};

use play::{Model, NAMES, Rng, options, path, seeds, start};

/// A request of the kind that iBridge asks about.
fn hint(rng: &mut Rng) -> RequestHint {
    let class = RequestClass::ALL[rng.below(3) as usize];
    let siblings = if class == RequestClass::Fragment { vec![ServerId(1), ServerId(2)] } else { Vec::new() };
    RequestHint { class, siblings }
}

struct Play {
    node: Arc<IoNode>,
    /// The directory below home that it plays in.
    root: &'static str,
    model: Model,
    rng: Rng,
    what: String,
    changes_policy: bool,
}

impl Play {
    fn path(&self, name: &str) -> HomePath {
        path(&format!("{}/{name}", self.root))
    }

    fn directory(&self) -> PathBuf {
        Path::new(&self.node.describe()).join(self.root)
    }

    fn step(&mut self) {
        let Some((name, id)) = self.model.any(&mut self.rng) else {
            self.node.change(&HomeChange::MakeFile { path: self.path("a") }).unwrap();
            return self.model.make("a");
        };
        let (file, directory) = (self.path(&name), self.directory());
        let directories = [self.path("d"), path(self.root)];
        let Play { node, model, rng, what, .. } = self;
        let size = model.files[&id].len() as u64;
        match rng.below(100) {
            0..45 => {
                let len = [512, 4096, 10_000, 65_536][rng.below(4) as usize].min(1 + rng.below(70_000));
                let offset = if rng.below(2) == 0 { rng.below(8) * 65_536 } else { rng.below(400_000) };
                let bytes: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
                let hint = hint(rng);
                node.write_hinted(Ino(id), &file, offset, &bytes, &hint).unwrap();
                model.write(id, offset as usize, &bytes);
            }
            45..65 => {
                let (offset, mut buffer) = (rng.below(size + 10), vec![7; rng.below(50_000) as usize]);
                let there = node.read_hinted(Ino(id), &file, offset, &mut buffer, &hint(rng)).unwrap() as usize;
                let rest = &model.files[&id][offset.min(size) as usize..];
                assert_eq!(there, rest.len().min(buffer.len()), "{what}");
                assert!(buffer[..there] == rest[..there], "{what}: {name} at {offset}");
            }
            65..70 => {
                let to = rng.below(500_000);
                node.change(&HomeChange::Truncate { ino: Ino(id), path: file, size: to }).unwrap();
                model.files.get_mut(&id).unwrap().resize(to as usize, 0);
            }
            70..74 => {
                let (offset, len) = (rng.below(size + 10), 1 + rng.below(100_000));
                node.change(&HomeChange::Punch { ino: Ino(id), path: file, offset, len }).unwrap();
                let bytes = model.files.get_mut(&id).unwrap();
                let end = (offset + len).min(size) as usize;
                bytes[offset.min(size) as usize..end].fill(0);
            }
            74..78 => self.check_queries(&name, id),
            78..82 => node.sync(&[(Ino(id), file)], &directories).unwrap(),
            82..84 => {
                node.drain().unwrap();
                model.check_home(&directory, what);
            }
            84..86 if self.changes_policy => {
                let (_, policy) = ServerPolicy::NAMED[rng.below(ServerPolicy::NAMED.len() as u64) as usize];
                node.set_policy(policy).unwrap();
            }
            _ => self.change_names(&name, id),
        }
    }

    fn change_names(&mut self, name: &str, id: u64) {
        let other = NAMES[self.rng.below(6) as usize];
        let (from, to) = (self.path(name), self.path(other));
        let (d, e) = (self.path("d"), self.path("e"));
        let below = name.strip_prefix("d/").map(|below| self.path(&format!("e/{below}")));
        let Play { node, model, rng, what, .. } = self;
        match rng.below(5) {
            0 => {
                node.change(&HomeChange::MakeFile { path: to }).unwrap();
                model.make(other);
            }
            1 => {
                node.change(&HomeChange::Unlink { path: from }).unwrap();
                model.names.remove(name);
            }
            2 => {
                let done = node.change(&HomeChange::Link { from, to });
                match model.names.get(other) {
                    Some(there) if *there != id => assert_eq!(done, Err(Errno::EEXIST), "{what}"),
                    _ => drop(model.names.insert(other.to_owned(), id)),
                }
            }
            3 => {
                node.change(&HomeChange::Rename { from, to, again: false }).unwrap();
                // Two names of one file: rename(2) does nothing.
                if model.names.get(other) != Some(&id) {
                    model.names.remove(name);
                    model.names.insert(other.to_owned(), id);
                }
            }
            _ => {
                // The directory goes to and fro, and all that is in it has another name meanwhile.
                node.change(&HomeChange::Rename { from: d.clone(), to: e.clone(), again: false }).unwrap();
                if let Some(below) = below {
                    node.write(Ino(id), &below, 5, b"elsewhere").unwrap();
                    model.write(id, 5, b"elsewhere");
                }
                node.change(&HomeChange::Rename { from: e, to: d, again: false }).unwrap();
            }
        }
    }

    /// Where data and holes are, and what a comparison says.
    fn check_queries(&mut self, name: &str, id: u64) {
        let file = self.path(name);
        let Play { node, model, rng, what, .. } = self;
        let bytes = &model.files[&id];
        let offset = rng.below(bytes.len() as u64 + 5);
        let data = node.seek(Ino(id), &file, offset, SeekWhence::Data).unwrap();
        let skipped = data.unwrap_or(bytes.len() as u64).max(offset).min(bytes.len() as u64) as usize;
        let from = (offset as usize).min(bytes.len());
        assert!(bytes[from..skipped.max(from)].iter().all(|byte| *byte == 0), "{what}: a hole that is none in {name} at {offset}");
        if let Some(hole) = node.seek(Ino(id), &file, offset, SeekWhence::Hole).unwrap() {
            let end = (hole + 1).min(bytes.len() as u64) as usize;
            assert!(bytes[(hole as usize).min(end)..end].iter().all(|byte| *byte == 0), "{what}: {name} has no hole at {hole}");
        }
        let end = from + (bytes.len() - from).min(60_000);
        node.sync(&[(Ino(id), file.clone())], &[]).unwrap();
        let crc = crc32c::crc32c(&bytes[from..end]);
        let len = (end - from) as u64;
        assert!(node.compare(Ino(id), &file, from as u64, len, crc).unwrap(), "{what}: {name}");
        assert!(!node.compare(Ino(id), &file, from as u64, len + 1_000_000, crc).unwrap(), "{what}: {name} is shorter");
        let zeros = bytes[from..end].iter().all(|byte| *byte == 0);
        assert_eq!(node.compare_zeros(Ino(id), &file, from as u64, len).unwrap(), zeros, "{what}: {name}");
    }
}

fn make_directories(node: &IoNode, root: &str) {
    for name in [root.to_owned(), format!("{root}/d")] {
        node.change(&HomeChange::MakeDir { path: path(&name) }).unwrap();
    }
}

fn writes_to(node: &IoNode, target: Target) -> u64 {
    node.status().writes.iter().filter(|count| count.target == target).map(|count| count.requests).sum()
}

fn play(seed: u64, policy: ServerPolicy, changes_policy: bool) {
    let dir = tempfile::tempdir().unwrap();
    let what = format!("FOREBAY_SEED={seed} {}", policy.name());
    let node = Arc::new(start(dir.path(), policy));
    make_directories(&node, "p");
    let mut play = Play { node, root: "p", model: Model::default(), rng: Rng(seed), what, changes_policy };
    let mut to_ssd = 0;
    for step in 0..400 {
        play.step();
        if step % 100 == 99 {
            // Stopped and started again, perhaps under another policy.
            to_ssd += writes_to(&play.node, Target::Ssd);
            play.node.stop();
            assert_eq!(play.node.stat(&path("p/d")).map(|attr| attr.attr.kind), Ok(Kind::Directory));
            assert!(play.node.drain().is_err(), "{}: it is stopped", play.what);
            let policy =
                if changes_policy { ServerPolicy::NAMED[play.rng.below(ServerPolicy::NAMED.len() as u64) as usize].1 } else { policy };
            play.node = Arc::new(start(dir.path(), policy));
        }
    }
    finish(&play);
    match policy {
        ServerPolicy::None if !changes_policy => assert_eq!(to_ssd, 0, "{}", play.what),
        ServerPolicy::All => assert!(to_ssd > 0, "{}", play.what),
        _ => {}
    }
}

fn finish(play: &Play) {
    let Play { node, model, what, root, .. } = play;
    model.names.keys().for_each(|name| model.check_file(node, root, name, what));
    node.drain().unwrap();
    model.check_home(&play.directory(), what);
}

#[test]
fn every_policy_gives_what_a_plain_directory_would() {
    for seed in seeds(0..3) {
        for (_, policy) in ServerPolicy::NAMED {
            println!("FOREBAY_SEED={seed} {}", policy.name());
            play(seed, policy, false);
        }
    }
}

#[test]
fn policies_change_while_requests_are_under_way() {
    for seed in seeds(100..106) {
        println!("FOREBAY_SEED={seed}");
        play(seed, ServerPolicy::All, true);
    }
}

/// Several clients at a time, each in a directory of its own, while a fifth renames a directory above nothing of theirs, drains and changes policies.
#[test]
fn clients_do_not_disturb_each_other() {
    for seed in seeds(200..203) {
        println!("FOREBAY_SEED={seed}");
        let dir = tempfile::tempdir().unwrap();
        let node = Arc::new(start(dir.path(), ServerPolicy::SsdupPlus));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let players: Vec<_> = ["p", "q", "r", "s"]
                .into_iter()
                .zip(1..)
                .map(|(root, number)| {
                    let node = Arc::clone(&node);
                    scope.spawn(move || {
                        make_directories(&node, root);
                        let what = format!("FOREBAY_SEED={seed} {root}");
                        let rng = Rng(seed * 100 + number);
                        let mut play = Play { node, root, model: Model::default(), rng, what, changes_policy: true };
                        (0..150).for_each(|_| play.step());
                        finish(&play);
                    })
                })
                .collect();
            let meddler = scope.spawn(|| {
                node.change(&HomeChange::MakeDir { path: path("x") }).unwrap();
                while !is_over.load(Ordering::SeqCst) {
                    for (from, to) in [("x", "y"), ("y", "x")] {
                        node.change(&HomeChange::Rename { from: path(from), to: path(to), again: false }).unwrap();
                    }
                    node.hear_service_times(&[(ServerId(1), 1_000_000)]);
                    node.drain().unwrap();
                }
            });
            let results: Vec<_> = players.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            is_over.store(true, Ordering::SeqCst);
            meddler.join().unwrap();
            results.into_iter().for_each(|result| result.unwrap());
        });
        node.drain().unwrap();
        assert_eq!(node.status().dirty_bytes, 0);
    }
}

/// A server that is stopped under its clients leaves the SSD to the next one when nobody is at it any more.
#[test]
fn a_stop_waits_for_who_is_at_the_devices() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..10u64 {
        let node = start(dir.path(), if round % 2 == 0 { ServerPolicy::All } else { ServerPolicy::SsdupPlus });
        let answered: Vec<(HomePath, u64)> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4u8)
                .map(|writer| {
                    let node = &node;
                    scope.spawn(move || {
                        let file = path(&format!("{round}-{writer}"));
                        let made = node.change(&HomeChange::MakeFile { path: file.clone() });
                        let write = |n: u64| node.write(Ino(1), &file, n * 5000, &[writer + 1; 5000]);
                        let count = if made.is_ok() { (0..).take_while(|n| write(*n).is_ok()).count() } else { 0 };
                        (file, count as u64)
                    })
                })
                .collect();
            while node.status().writes.iter().map(|count| count.requests).sum::<u64>() < 50 {
                std::thread::yield_now();
            }
            node.stop();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let node = start(dir.path(), ServerPolicy::None);
        for (writer, (file, count)) in (1u8..).zip(answered) {
            let mut bytes = vec![0; (count * 5000) as usize];
            if count > 0 {
                node.read(Ino(1), &file, 0, &mut bytes).unwrap();
            }
            assert!(bytes.iter().all(|byte| *byte == writer), "round {round}: {file:?}");
        }
        node.stop();
    }
}

#[test]
fn two_servers_fit_into_one_process_and_one_ssd_is_for_one() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let nodes = [start(one.path(), ServerPolicy::All), start(two.path(), ServerPolicy::None)];
    for (node, text) in nodes.iter().zip(["first", "second"]) {
        node.change(&HomeChange::MakeFile { path: path("f") }).unwrap();
        node.write(Ino(1), &path("f"), 3, text.as_bytes()).unwrap();
        assert_eq!(node.stat(&path("f")).unwrap().attr.size, 3 + text.len() as u64);
    }
    assert_eq!(nodes.each_ref().map(|node| writes_to(node, Target::Ssd)), [1, 0]);
    let error = IoNode::start(options(one.path(), ServerPolicy::All)).unwrap_err().to_string();
    assert!(error.contains("in use by process"), "{error}");
    let other = IoNodeOptions { ssd: Some(two.path().join("ssd")), ..options(one.path(), ServerPolicy::All) };
    let error = IoNode::start(other).unwrap_err().to_string();
    assert!(error.contains("in use") || error.contains("of its own"), "{error}");
    nodes.iter().for_each(|node| node.drain().unwrap());
    assert_eq!(std::fs::read(one.path().join("home/f")).unwrap(), b"\0\0\0first");
    assert_eq!(std::fs::read(two.path().join("home/f")).unwrap(), b"\0\0\0second");
}

/// The times and the mode that a client has set stay, whenever its bytes come to the disk.
#[test]
fn a_flush_leaves_times_and_mode_alone() {
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path(), ServerPolicy::All);
    let file = path("program");
    node.change(&HomeChange::MakeFile { path: file.clone() }).unwrap();
    node.write(Ino(1), &file, 0, &[7; 10_000]).unwrap();
    let attr = node.stat(&file).unwrap().attr;
    let set = HomeChange::SetAttr {
        path: file.clone(),
        kind: Kind::File,
        mode: 0o4755,
        uid: attr.uid,
        gid: attr.gid,
        atime_ns: 1_000_000_001,
        mtime_ns: 2_000_000_002,
        xattrs: None,
    };
    node.change(&set).unwrap();
    node.drain().unwrap();
    let attr = node.stat(&file).unwrap().attr;
    assert_eq!((attr.mode, attr.atime_ns, attr.mtime_ns), (0o4755, 1_000_000_001, 2_000_000_002));
    assert_eq!(std::fs::read(dir.path().join("home/program")).unwrap(), [7; 10_000]);
}

/// Bytes on the SSD of a file that is not there are not given up in silence.
#[test]
fn a_file_that_is_missing_is_asked_about() {
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path(), ServerPolicy::All);
    for name in ["kept", "lost"] {
        node.change(&HomeChange::MakeFile { path: path(name) }).unwrap();
        node.write(Ino(1), &path(name), 0, name.as_bytes()).unwrap();
    }
    node.stop();
    let home = dir.path().join("home");
    std::fs::rename(home.join("kept"), home.join("moved")).unwrap();
    std::fs::rename(home.join("lost"), dir.path().join("outside")).unwrap();
    let error = IoNode::start(options(dir.path(), ServerPolicy::All)).unwrap_err().to_string();
    assert!(error.contains("1 files") && error.contains("lost"), "{error}");
    let node = IoNode::start(IoNodeOptions { discards_missing: true, ..options(dir.path(), ServerPolicy::All) }).unwrap();
    assert_eq!((node.recovery().files, node.recovery().missing_files), (1, 1));
    node.drain().unwrap();
    assert_eq!(std::fs::read(home.join("moved")).unwrap(), b"kept");
    assert_eq!(std::fs::read(dir.path().join("outside")).unwrap(), [0; 4], "as long as it was, and without the bytes");
}
