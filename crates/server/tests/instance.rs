//! A whole server, through the client, without a mount.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use forebay_client::Client;
use forebay_core::attr::{AttrChange, Caller, Kind, SetTime};
use forebay_core::config::{NodeConfig, WriteBack};
use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Ino, Name};
use forebay_core::message::{AllocateMode, RenameMode, SeekWhence};
use forebay_core::xattr::{SetMode, Xattr};
use forebay_host::recorder::replay_node;
use forebay_server::{Instance, Options};
use forebay_store::PosixHome;

struct Place {
    _dir: tempfile::TempDir,
    backing: PathBuf,
    buffer: PathBuf,
    memory: PathBuf,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let sub = |name: &str| dir.path().join(name);
    let (backing, buffer, memory) = (sub("home"), sub("buffer"), sub("memory"));
    fs::create_dir(&backing).unwrap();
    fs::create_dir(&memory).unwrap();
    Place { backing, buffer, memory, _dir: dir }
}

/// Small enough that everything happens: 16 segments of 256 KiB, four of them in memory.
fn small() -> NodeConfig {
    NodeConfig {
        chunk_bytes: 64 << 10,
        segment_bytes: 256 << 10,
        segments_max: 16,
        memory_segments_max: 4,
        write_back_delay_ns: 20_000_000,
        home_write_bytes_max: 1 << 20,
        retry_delay_ns: 10_000_000,
        ..NodeConfig::default()
    }
}

fn options(place: &Place, node: NodeConfig) -> Options {
    Options {
        node,
        buffer: place.buffer.clone(),
        backing: place.backing.clone(),
        memory_dir: Some(place.memory.clone()),
        record: None,
        home_threads: 4,
    }
}

fn caller() -> Caller {
    Caller { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() }
}

/// Ends the test process with a message if an instance does not get on: a call that hangs cannot fail by itself.
struct Watchdog {
    _alive: Sender<()>,
}

fn watch(instance: &Arc<Instance>) -> Watchdog {
    let (alive, ended) = channel();
    let instance = instance.clone();
    thread::spawn(move || {
        if ended.recv_timeout(Duration::from_secs(120)) == Err(RecvTimeoutError::Timeout) {
            eprintln!("an instance does not get on: {:#?}", instance.status());
            std::process::exit(1);
        }
    });
    Watchdog { _alive: alive }
}

fn client(instance: &Arc<Instance>) -> Client<Arc<Instance>> {
    Client::new(instance.clone())
}

fn finish(instance: &Arc<Instance>) {
    assert_eq!(instance.drain(), []);
    let status = instance.status();
    assert_eq!((status.dirty_bytes, status.dirty_names), (0, 0), "{status:?}");
    instance.shutdown();
    instance.remove_buffer().unwrap();
}

/// Bytes that tell where they are from.
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

fn read_all(client: &Client<Arc<Instance>>, ino: Ino) -> Vec<u8> {
    let size = client.get_attr(ino).unwrap().size;
    let mut bytes = Vec::new();
    let mut buffer = Vec::new();
    while (bytes.len() as u64) < size {
        let len = client.read(ino, bytes.len() as u64, 128 << 10, &mut buffer).unwrap();
        assert!(len > 0, "a read inside of the file gave nothing");
        bytes.extend_from_slice(&buffer[..len as usize]);
    }
    bytes
}

/// Everything in a directory tree: path, mode, and bytes of files.
fn tree(dir: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let bytes = if metadata.is_dir() {
                todo.push(path.clone());
                Vec::new()
            } else if metadata.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else {
                fs::read(&path).unwrap()
            };
            found.insert(path.strip_prefix(dir).unwrap().to_string_lossy().into_owned(), (metadata.mode(), bytes));
        }
    }
    found
}

#[test]
fn names_and_bytes_come_home() {
    let place = place();
    fs::write(place.backing.join("old"), b"from before").unwrap();
    let instance = Instance::start(options(&place, small())).unwrap();
    assert_eq!(instance.recovered(), None);
    let client = client(&instance);

    let (old, attr) = client.lookup(Ino::ROOT, b"old").unwrap();
    assert_eq!((attr.kind, attr.size), (Kind::File, 11));
    assert_eq!(read_all(&client, old), b"from before");
    assert_eq!(client.lookup(Ino::ROOT, b"none").unwrap_err(), Errno::ENOENT);

    let (dir, _) = client.make_dir(Ino::ROOT, b"dir", 0o750, caller()).unwrap();
    let (file, _) = client.create(dir, b"file", 0o640, true, caller()).unwrap();
    assert_eq!(client.create(dir, b"file", 0o640, true, caller()).unwrap_err(), Errno::EEXIST);
    let bytes = pattern(1, 300_000);
    client.write(file, 0, &bytes[..200_000], false, false).unwrap();
    assert_eq!(client.write(file, 7, &bytes[200_000..], true, false).unwrap().offset, 200_000, "an append ignores the offset");
    assert_eq!(read_all(&client, file), bytes);
    client.release(file).unwrap();
    client.rename(dir, b"file", Ino::ROOT, b"renamed", RenameMode::Replace).unwrap();
    client.sym_link(dir, b"sym", b"../renamed", caller()).unwrap();
    client.link(file, dir, b"hard").unwrap();
    client.unlink(Ino::ROOT, b"old").unwrap();
    let change = AttrChange { mode: Some(0o600), mtime: Some(SetTime::At(-1_500_000_000)), ..AttrChange::default() };
    client.set_attr(file, change).unwrap();
    // Nothing new is at home before it is written back; a hole stays one.
    let (sparse, _) = client.create(Ino::ROOT, b"sparse", 0o644, true, caller()).unwrap();
    client.write(sparse, 1 << 20, b"end", false, false).unwrap();

    assert_eq!(instance.drain(), []);
    let home = tree(&place.backing);
    let names: Vec<&str> = home.keys().map(String::as_str).collect();
    assert_eq!(names, ["dir", "dir/hard", "dir/sym", "renamed", "sparse"]);
    assert!(home["renamed"].1 == bytes && home["dir/hard"].1 == bytes);
    assert_eq!(home["dir/sym"].1, b"../renamed");
    let metadata = fs::metadata(place.backing.join("renamed")).unwrap();
    assert_eq!((metadata.mode(), metadata.nlink(), metadata.mtime(), metadata.mtime_nsec()), (0o100_600, 2, -2, 500_000_000));
    assert_eq!(fs::metadata(place.backing.join("dir")).unwrap().mode(), 0o040_750);
    let metadata = fs::metadata(place.backing.join("sparse")).unwrap();
    assert_eq!(metadata.len(), (1 << 20) + 3);
    finish(&instance);
    assert!(!place.buffer.exists(), "the buffer goes with the instance");
    assert_eq!(fs::read_dir(&place.memory).unwrap().count(), 0);
}

#[test]
fn a_file_of_many_times_the_buffer_flows_through() {
    for write_back in [WriteBack::Async, WriteBack::Sync] {
        let place = place();
        let instance = Instance::start(options(&place, NodeConfig { write_back, ..small() })).unwrap();
        let _watchdog = watch(&instance);
        let client = client(&instance);
        let (file, _) = client.create(Ino::ROOT, b"big", 0o644, true, caller()).unwrap();
        let bytes = pattern(2, 10 * 16 * (256 << 10));
        for (i, part) in bytes.chunks(100_000).enumerate() {
            client.write(file, i as u64 * 100_000, part, false, false).unwrap();
        }
        assert!(read_all(&client, file) == bytes, "{write_back:?}");
        let status = instance.status();
        assert!(status.peak_bytes <= status.capacity_bytes && status.counters.swaps > 0, "{status:?}");
        assert_eq!(instance.drain(), []);
        assert!(fs::read(place.backing.join("big")).unwrap() == bytes, "{write_back:?}");
        finish(&instance);
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_stop_without_a_drain() {
    let place = place();
    // With room in memory for all of it: a writer that waits for the disk would send names home.
    let slow = NodeConfig { write_back_delay_ns: u64::MAX / 4, memory_segments_max: 8, ..small() };
    let mut bytes = pattern(3, 1_000_000);
    bytes[100_000..400_000].fill(0);
    {
        let instance = Instance::start(options(&place, slow.clone())).unwrap();
        let client = client(&instance);
        let (dir, _) = client.make_dir(Ino::ROOT, b"d", 0o755, caller()).unwrap();
        let (file, _) = client.create(dir, b"f", 0o644, true, caller()).unwrap();
        for (i, part) in bytes.chunks(65_536).enumerate() {
            client.write(file, i as u64 * 65_536, part, false, false).unwrap();
        }
        client.write(file, 200_000, &pattern(4, 150_000), false, false).unwrap();
        client.allocate(file, 100_000, 300_000, AllocateMode::Punch, false).unwrap();
        client.set_xattr(file, b"user.origin", b"here", SetMode::Create).unwrap();
        client.set_xattr(dir, b"user.gone", b"", SetMode::Any).unwrap();
        client.set_xattr(dir, b"user.run", b"17", SetMode::Any).unwrap();
        client.remove_xattr(dir, b"user.gone").unwrap();
        let again = Instance::start(options(&place, slow.clone())).unwrap_err().to_string();
        assert!(again.contains("in use by process"), "{again}");
        instance.shutdown();
        assert_eq!(client.get_attr(file).unwrap_err(), Errno(107));
        assert!(instance.remove_buffer().is_err(), "what is not home must not be removed");
    }
    assert_eq!(fs::read_dir(&place.backing).unwrap().count(), 0);

    let other = Options { backing: place.memory.clone(), ..options(&place, slow.clone()) };
    let refused = Instance::start(other).unwrap_err().to_string();
    assert!(refused.contains("holds data for the backing directory") && refused.contains("home"), "{refused}");

    // Asking for other sizes does not change those of the buffer.
    let instance = Instance::start(options(&place, NodeConfig { segments_max: 64, ..slow })).unwrap();
    let summary = instance.recovered().unwrap();
    assert!(summary.records > 16 && summary.memory_intact && summary.dirty_bytes == 700_000, "{summary:?}");
    assert_eq!((summary.cut_at, summary.journal_notes.len()), (None, 0), "{summary:?}");
    assert_eq!(instance.status().capacity_bytes, 16 * (256 << 10));
    let client = client(&instance);
    let (dir, _) = client.lookup(Ino::ROOT, b"d").unwrap();
    let (file, _) = client.lookup(dir, b"f").unwrap();
    assert!(read_all(&client, file) == bytes);
    assert_eq!(client.seek(file, 0, SeekWhence::Hole), Ok(100_000));
    assert_eq!(client.seek(file, 100_000, SeekWhence::Data), Ok(400_000));
    assert_eq!(client.get_xattr(file, b"user.origin"), Ok(b"here".to_vec()));
    assert_eq!(client.list_xattr(dir), Ok(vec![Name::new(b"user.run")]));
    assert_eq!(instance.drain(), []);
    assert!(fs::read(place.backing.join("d/f")).unwrap() == bytes);
    let home = PosixHome::open(&place.backing).unwrap();
    let at_home = |path: &str| home.xattrs(&HomePath(path.as_bytes().into())).unwrap();
    assert_eq!(at_home("d/f"), [Xattr { name: Name::new(b"user.origin"), value: b"here".to_vec() }]);
    assert_eq!(at_home("d"), [Xattr { name: Name::new(b"user.run"), value: b"17".to_vec() }]);
    assert_eq!(client.get_xattr(file, b"user.none"), Err(Errno::ENODATA));
    finish(&instance);
}

#[test]
fn a_recorded_run_replays_to_the_same_effects() {
    let place = place();
    let record = |name: &str| place.memory.parent().unwrap().join(name);
    for name in ["new.rec", "recovered.rec"] {
        let instance = Instance::start(Options { record: Some(record(name)), ..options(&place, small()) }).unwrap();
        assert_eq!(instance.recovered().is_some(), name == "recovered.rec");
        thread::scope(|scope| {
            for t in 0..3u64 {
                let client = client(&instance);
                scope.spawn(move || {
                    let name = format!("f{t}");
                    let (file, _) = client.create(Ino::ROOT, name.as_bytes(), 0o644, false, caller()).unwrap();
                    for i in 0..40u64 {
                        client.write(file, (i * 7919 * (t + 1)) % 3_000_000, &pattern(i, 50_000), false, false).unwrap();
                    }
                    read_all(&client, file);
                });
            }
        });
        if name == "recovered.rec" {
            finish(&instance);
        } else {
            instance.shutdown();
        }
        let report = replay_node(&record(name)).unwrap();
        assert_eq!((report.difference, report.cut_at), (None, None));
        assert!(report.steps > 300, "{} steps", report.steps);
    }
}

#[test]
fn two_instances_in_one_process_do_not_meet() {
    let places = [place(), place()];
    let instances: Vec<_> = places.iter().map(|place| Instance::start(options(place, small())).unwrap()).collect();
    thread::scope(|scope| {
        for (i, instance) in instances.iter().enumerate() {
            scope.spawn(move || {
                let client = client(instance);
                let (file, _) = client.create(Ino::ROOT, b"same", 0o644, true, caller()).unwrap();
                for k in 0..20u64 {
                    client.write(file, k * 100_000, &pattern(i as u64, 100_000), false, false).unwrap();
                }
            });
        }
    });
    for (i, (instance, place)) in instances.iter().zip(&places).enumerate() {
        finish(instance);
        let bytes = fs::read(place.backing.join("same")).unwrap();
        assert!(bytes.len() == 2_000_000 && bytes.chunks(100_000).all(|part| part == pattern(i as u64, 100_000)));
    }
}

#[test]
fn a_missing_home_is_named() {
    let place = place();
    let missing = place.backing.join("not/there");
    let error = Instance::start(Options { backing: missing, ..options(&place, small()) }).unwrap_err().to_string();
    assert!(error.contains("not/there"), "{error}");
    let file = place.backing.join("file");
    fs::write(&file, b"").unwrap();
    let error = Instance::start(Options { backing: file, ..options(&place, small()) }).unwrap_err().to_string();
    assert!(error.contains("file"), "{error}");
    let error = Instance::start(options(&place, NodeConfig { segments_max: 3, ..small() })).unwrap_err().to_string();
    assert!(error.contains("3 segments are too few"), "{error}");
    assert!(!place.buffer.exists(), "nothing is made for a configuration that cannot be");
}
