//! A home that is made of servers, against a plain directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::attr::Kind;
use forebay_core::effect::{HomeChange, Outcome};
use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Ino, Name, ServerId};
use forebay_core::message::SeekWhence;
use forebay_core::policy::RequestClass;
use forebay_core::xattr::Xattr;
use forebay_host::net::{Address, ClientId, Key, Server};
use forebay_store::{Home, IoService, IoStatus, PosixHome, RequestHint};
use parking_lot::Mutex;
use tempfile::TempDir;

use super::*;

const LONG: Duration = Duration::from_secs(60);

fn key() -> Key {
    Key::from_text(b"the key of these tests", "the test").unwrap()
}

fn path(text: &str) -> HomePath {
    HomePath(text.as_bytes().into())
}

/// Servers over directories of one folder.
struct Farm {
    folder: TempDir,
    servers: Vec<Option<Server>>,
    stripe_bytes: u64,
    /// The boot of the machine that all servers are on.
    boot: String,
}

impl Farm {
    fn new(servers: usize, stripe_bytes: u64) -> Farm {
        let folder = tempfile::tempdir().unwrap();
        let mut farm = Farm { folder, servers: (0..servers).map(|_| None).collect(), stripe_bytes, boot: "one".into() };
        (0..servers).for_each(|index| farm.start(index));
        farm
    }

    fn home(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("home-{index}"))
    }

    fn address(&self, index: usize) -> Address {
        Address::Unix(self.folder.path().join(format!("socket-{index}")))
    }

    fn start(&mut self, index: usize) {
        let home = self.home(index);
        std::fs::create_dir_all(&home).unwrap();
        self.start_with(index, Arc::new(PosixHome::open(&home).unwrap()));
    }

    fn start_with(&mut self, index: usize, service: Arc<dyn IoService>) {
        // A thread of the server before may still be on its way out, with its share of the lock.
        let until = Instant::now() + LONG;
        let part = loop {
            match PartFile::open(&self.home(index)) {
                Err(PartError::Served(_)) if Instant::now() < until => std::thread::yield_now(),
                result => break result.unwrap(),
            }
        };
        let server = Arc::new(IoServer::new(service, part).booted_as(&self.boot));
        self.servers[index] = Some(Server::listen(&[self.address(index)], key(), server).unwrap());
    }

    fn stop(&mut self, index: usize) {
        assert!(self.servers[index].take().unwrap().stop(LONG));
    }

    fn connect(&self, order: &[usize], stripe_bytes: u64) -> Result<ServersHome, ConnectError> {
        ServersHome::connect(ServersOptions {
            addresses: order.iter().map(|index| self.address(*index)).collect(),
            stripe_bytes,
            key: key(),
            client: ClientId([1; 16]),
            patience: LONG,
            connect_within: LONG,
        })
    }

    fn all(&self) -> ServersHome {
        self.connect(&(0..self.servers.len()).collect::<Vec<_>>(), self.stripe_bytes).unwrap()
    }
}

impl Drop for Farm {
    fn drop(&mut self) {
        for server in self.servers.iter().flatten() {
            server.stop(LONG);
        }
    }
}

/// Numbers that look random, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn bytes(&mut self, len: u64) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }
}

const NAMES: [&str; 5] = ["a", "b", "d/c", "d/e", "f"];
/// Largest offset of the random operations; most of a file of it is holes.
const REACH: u64 = 60_000;

/// One random operation on a home; what it gave, in words that are the same for all homes.
fn operate(home: &dyn Home, random: &mut Random) -> String {
    let (name, other) = (NAMES[random.below(5) as usize], NAMES[random.below(5) as usize]);
    // A number for each name, as the core gives it: of two names of one file, not both.
    let ino = Ino(10 + NAMES.iter().position(|known| *known == name).unwrap() as u64);
    let (what, offset) = (random.below(20), random.below(REACH));
    let most = if random.below(4) == 0 { REACH } else { 700 };
    let len = random.below(most) + 1;
    let (of, to) = (path(name), path(other));
    let done = |result: Result<Outcome, Errno>| format!("{:?}", result.map(drop));
    match what {
        0 | 1 => done(home.change(&HomeChange::MakeFile { path: of })),
        2..=6 => {
            let bytes = random.bytes(len);
            format!("{:?}", home.write(ino, &of, offset, &bytes))
        }
        7..=9 => {
            let mut buf = vec![9; len as usize];
            let result = home.read(ino, &of, offset, &mut buf);
            format!("{:?} {:08x}", result.map(drop), crc32c::crc32c(&buf))
        }
        10 => done(home.change(&HomeChange::Truncate { ino, path: of, size: offset })),
        11 => done(home.change(&HomeChange::Punch { ino, path: of, offset, len })),
        12 | 13 => {
            let mut buf = vec![0; len as usize];
            let size = home.stat(&of).map(|found| found.attr.size);
            let Ok(size) = size.and_then(|size| home.read(ino, &of, offset, &mut buf).map(|_| size)) else { return "none".into() };
            let sum = crc32c::crc32c(&buf);
            let same = home.compare(ino, &of, offset, len, sum);
            let other = home.compare(ino, &of, offset, len, sum ^ 1);
            // Where the file ends within the range, either may be said of a part that is all hole.
            if offset + len > size { format!("behind the end {other:?}") } else { format!("{same:?} {other:?}") }
        }
        14 => format!("{:?}", home.compare_zeros(ino, &of, offset, len)),
        15 => done(home.change(&HomeChange::Rename { from: of, to, again: false })),
        16 => done(home.change(&HomeChange::Unlink { path: of })),
        17 => format!("{:?}", home.stat(&of).map(|found| (found.attr.kind, found.attr.size, found.attr.mode, found.attr.nlink))),
        18 => {
            let mut names: Vec<Vec<u8>> = home.list(&path("")).unwrap().iter().map(|entry| entry.name.to_vec()).collect();
            names.sort();
            format!("{names:?}")
        }
        _ => format!("{:?}", home.sync(&[(ino, of)], &[path(""), path("d")])),
    }
}

fn against_a_directory(seed: u64, servers: usize, stripe_bytes: u64, breaks: bool) {
    let mut farm = Farm::new(servers, stripe_bytes);
    let plain = tempfile::tempdir().unwrap();
    let (striped, plain) = (farm.all(), PosixHome::open(plain.path()).unwrap());
    let (mut ours, mut theirs, mut breaking) = (Random(seed), Random(seed), Random(seed + 1));
    for home in [&striped as &dyn Home, &plain] {
        home.change(&HomeChange::MakeDir { path: path("d") }).unwrap();
    }
    for step in 0..300 {
        if breaks && breaking.below(20) == 0 {
            let index = breaking.below(servers as u64) as usize;
            farm.stop(index);
            farm.start(index);
        }
        let (found, wanted) = (operate(&striped, &mut ours), operate(&plain, &mut theirs));
        assert_eq!(found, wanted, "FOREBAY_SEED={seed}, {servers} servers, stripes of {stripe_bytes}, step {step}");
    }
}

#[test]
fn servers_are_as_a_directory_is() {
    for seed in 0..6 {
        println!("FOREBAY_SEED={seed}");
        against_a_directory(seed, 1 + seed as usize % 4, [512, 1000, 4096, 65_536][seed as usize % 4], false);
    }
}

#[test]
fn servers_that_go_and_come_back_are_as_a_directory_is() {
    for seed in 20..24 {
        println!("FOREBAY_SEED={seed}");
        against_a_directory(seed, 1 + seed as usize % 3, [1000, 4096][seed as usize % 2], true);
    }
}

/// With pages as stripes and holes that a file system keeps, data and holes are found where they are.
#[test]
fn data_and_holes_are_found() {
    let farm = Farm::new(3, 4096);
    let home = farm.all();
    let (ino, file) = (Ino(5), path("sparse"));
    home.change(&HomeChange::MakeFile { path: file.clone() }).unwrap();
    home.write(ino, &file, 40_960, &[1; 4096]).unwrap();
    home.change(&HomeChange::Truncate { ino, path: file.clone(), size: 100_000 }).unwrap();
    let seek = |offset, whence| home.seek(ino, &file, offset, whence).unwrap();
    let data = seek(0, SeekWhence::Data).unwrap();
    assert!(data <= 40_960, "{data}");
    assert!(seek(40_960, SeekWhence::Data) == Some(40_960) && seek(100_000, SeekWhence::Data).is_none());
    let hole = seek(40_960, SeekWhence::Hole).unwrap();
    assert!((45_056..=100_000).contains(&hole), "{hole}");
    assert_eq!(seek(100_000, SeekWhence::Hole), None);
    assert_eq!(home.stat(&file).unwrap().attr.size, 100_000);
    assert!(home.compare_zeros(ino, &file, 45_056, 1 << 40).unwrap() && !home.compare_zeros(ino, &file, 40_000, 1000).unwrap());
    let sizes: Vec<u64> = (0..3).map(|index| std::fs::metadata(farm.home(index).join("sparse")).unwrap().len()).collect();
    assert_eq!(sizes.iter().sum::<u64>(), 100_000, "parts are dense: {sizes:?}");
}

#[test]
fn attributes_are_set_on_all_and_read_from_all() {
    let farm = Farm::new(2, 4096);
    let home = farm.all();
    let file = path("file");
    home.change(&HomeChange::MakeFile { path: file.clone() }).unwrap();
    home.write(Ino(5), &file, 0, &[7; 3 * 4096]).unwrap();
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let xattrs = vec![Xattr { name: Name::new(b"user.origin"), value: b"here".to_vec() }];
    let has_xattrs = home.xattrs(&file).is_ok();
    let set = HomeChange::SetAttr {
        path: file.clone(),
        kind: Kind::File,
        mode: 0o640,
        uid,
        gid,
        atime_ns: 1,
        mtime_ns: 1_000_000_007,
        xattrs: has_xattrs.then(|| xattrs.clone()),
    };
    let Outcome::Blocks(blocks) = home.change(&set).unwrap() else { panic!("blocks are told") };
    let found = home.stat(&file).unwrap().attr;
    assert_eq!((found.mode, found.mtime_ns, found.size, found.blocks), (0o640, 1_000_000_007, 3 * 4096, blocks));
    if has_xattrs {
        assert_eq!(home.xattrs(&file).unwrap(), xattrs);
    }
    assert_eq!(home.change(&HomeChange::MakeFile { path: path("no/where") }), Err(Errno::ENOENT));
    let space = home.stat_fs().unwrap();
    assert!(space.total_bytes > 0 && space.name_bytes_max == 255);
}

#[test]
fn what_servers_write_down_is_not_seen() {
    let farm = Farm::new(2, 4096);
    let home = farm.all();
    assert!(home.list(&path("")).unwrap().is_empty());
    assert_eq!(home.stat(&path(".forebay")).map(drop), Err(Errno::ENOENT));
    assert_eq!(home.change(&HomeChange::Unlink { path: path(".forebay") }), Err(Errno::ENOENT));
    assert!(farm.home(0).join(".forebay").exists());
}

#[test]
fn servers_keep_their_order_and_their_stripes() {
    let farm = Farm::new(3, 4096);
    drop(farm.connect(&[0, 1], 4096).unwrap());
    let refused = |order: &[usize], stripe| farm.connect(order, stripe).map(drop).unwrap_err().to_string();
    assert!(refused(&[1, 0], 4096).contains("holds part"), "{}", refused(&[1, 0], 4096));
    assert!(refused(&[0, 1], 8192).contains("stripes of 4096 bytes"));
    assert!(refused(&[0, 1, 2], 4096).contains("part 0 of 2"));
    assert!(refused(&[0, 0], 4096).contains("same server"));
    assert!(refused(&[0], 4096).contains("part 0 of 2"));
    std::fs::write(farm.home(2).join("old"), "old").unwrap();
    assert!(refused(&[2, 1], 4096).contains("holds files already"));
    let alone = farm.connect(&[2], 4096).unwrap();
    assert_eq!(alone.stat(&path("old")).unwrap().attr.size, 3);
}

/// A machine loses its power between a change and the sync: what is gone is made again before anything counts as durable.
#[test]
fn what_a_machine_lost_is_made_again() {
    let mut farm = Farm::new(2, 4096);
    let home = farm.all();
    home.change(&HomeChange::MakeDir { path: path("d") }).unwrap();
    home.sync(&[], &[path("")]).unwrap();
    home.change(&HomeChange::MakeFile { path: path("new") }).unwrap();
    home.change(&HomeChange::Rename { from: path("d"), to: path("moved"), again: false }).unwrap();
    farm.stop(1);
    std::fs::remove_file(farm.home(1).join("new")).unwrap();
    std::fs::rename(farm.home(1).join("moved"), farm.home(1).join("d")).unwrap();
    farm.boot = "two".into();
    farm.start(1);
    home.sync(&[(Ino(5), path("new"))], &[path("")]).unwrap();
    assert!(farm.home(1).join("new").exists() && farm.home(1).join("moved").exists() && !farm.home(1).join("d").exists());
    // What is durable is not touched again.
    farm.stop(1);
    std::fs::rename(farm.home(1).join("moved"), farm.home(1).join("d")).unwrap();
    farm.boot = "three".into();
    farm.start(1);
    home.sync(&[], &[path("")]).unwrap();
    assert!(farm.home(1).join("d").exists());
}

/// Remembers what was said of each write.
struct Listening {
    home: PosixHome,
    heard: Mutex<Vec<(u64, u64, RequestHint)>>,
    times: Mutex<Vec<Vec<(ServerId, u64)>>>,
    own: u64,
}

impl Listening {
    fn over(home: &Path, own: u64) -> Arc<Listening> {
        Arc::new(Listening { home: PosixHome::open(home).unwrap(), heard: Mutex::default(), times: Mutex::default(), own })
    }
}

impl Home for Listening {
    fn describe(&self) -> String {
        self.home.describe()
    }
    fn list(&self, path: &HomePath) -> Result<forebay_core::entries::Entries, Errno> {
        self.home.list(path)
    }
    fn stat(&self, path: &HomePath) -> Result<forebay_core::effect::HomeAttr, Errno> {
        self.home.stat(path)
    }
    fn read_link(&self, path: &HomePath) -> Result<Name, Errno> {
        self.home.read_link(path)
    }
    fn stat_fs(&self) -> Result<forebay_core::message::StatFs, Errno> {
        self.home.stat_fs()
    }
    fn xattrs(&self, path: &HomePath) -> Result<Vec<Xattr>, Errno> {
        self.home.xattrs(path)
    }
    fn read(&self, ino: Ino, path: &HomePath, offset: u64, buf: &mut [u8]) -> Result<u32, Errno> {
        self.home.read(ino, path, offset, buf)
    }
    fn write(&self, ino: Ino, path: &HomePath, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.home.write(ino, path, offset, bytes)
    }
    fn compare(&self, ino: Ino, path: &HomePath, offset: u64, len: u64, crc: u32) -> Result<bool, Errno> {
        self.home.compare(ino, path, offset, len, crc)
    }
    fn compare_zeros(&self, ino: Ino, path: &HomePath, offset: u64, len: u64) -> Result<bool, Errno> {
        self.home.compare_zeros(ino, path, offset, len)
    }
    fn seek(&self, ino: Ino, path: &HomePath, offset: u64, whence: SeekWhence) -> Result<Option<u64>, Errno> {
        self.home.seek(ino, path, offset, whence)
    }
    fn sync(&self, files: &[(Ino, HomePath)], directories: &[HomePath]) -> Result<(), Errno> {
        self.home.sync(files, directories)
    }
    fn change(&self, change: &HomeChange) -> Result<Outcome, Errno> {
        self.home.change(change)
    }
    fn may_hold(&self, ino: Ino) -> bool {
        self.home.may_hold(ino)
    }
    fn forget(&self, ino: Ino) {
        self.home.forget(ino);
    }
}

impl IoService for Listening {
    fn read_hinted(&self, ino: Ino, path: &HomePath, offset: u64, buf: &mut [u8], _: &RequestHint) -> Result<u32, Errno> {
        self.home.read(ino, path, offset, buf)
    }
    fn write_hinted(&self, ino: Ino, path: &HomePath, offset: u64, bytes: &[u8], hint: &RequestHint) -> Result<(), Errno> {
        self.heard.lock().push((offset, bytes.len() as u64, hint.clone()));
        self.home.write(ino, path, offset, bytes)
    }
    fn drain(&self) -> Result<(), Errno> {
        Ok(())
    }
    fn service_ns(&self) -> Option<u64> {
        Some(self.own)
    }
    fn hear_service_times(&self, times: &[(ServerId, u64)]) {
        self.times.lock().push(times.to_vec());
    }
    fn status(&self) -> IoStatus {
        IoStatus::default()
    }
    fn set_policy(&self, _: forebay_core::hybrid::ServerPolicy) -> Result<(), Errno> {
        Ok(())
    }
    fn stop(&self) {}
}

/// A request of 65 KiB on stripes of 64 KiB leaves a fragment for the next server, which is told so, and who has the rest (I-01). Servers
/// hear of each other's disks, not of their own (I-06).
#[test]
fn servers_are_told_of_fragments_and_of_each_other() {
    let mut farm = Farm::new(3, 64 << 10);
    let services: Vec<Arc<Listening>> = (0..3).map(|index| Listening::over(&farm.home(index), 100 + index as u64)).collect();
    for (index, service) in services.iter().enumerate() {
        farm.stop(index);
        farm.start_with(index, service.clone());
    }
    let home = farm.all();
    let file = path("file");
    home.change(&HomeChange::MakeFile { path: file.clone() }).unwrap();
    home.write(Ino(5), &file, 64 << 10, &[1; 65 << 10]).unwrap();
    home.write(Ino(5), &file, 0, &[2; 1000]).unwrap();
    let heard = |index: usize| services[index].heard.lock().clone();
    let hint = |class, siblings: &[u32]| RequestHint { class, siblings: siblings.iter().map(|id| ServerId(*id)).collect() };
    assert_eq!(heard(1), [(0, 64 << 10, hint(RequestClass::Ordinary, &[]))]);
    assert_eq!(heard(2), [(0, 1 << 10, hint(RequestClass::Fragment, &[1]))]);
    assert_eq!(heard(0), [(0, 1000, hint(RequestClass::Random, &[]))]);
    let until = Instant::now() + LONG;
    while services[0].times.lock().is_empty() && Instant::now() < until {
        // Times go round as long as there are requests.
        home.read(Ino(5), &file, 0, &mut [0; 10]).unwrap();
    }
    assert_eq!(services[0].times.lock().first(), Some(&vec![(ServerId(1), 101), (ServerId(2), 102)]));
}
