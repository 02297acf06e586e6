//! An SSD that fails, under a server that goes on.

use std::path::Path;

use forebay_core::effect::HomeChange;
use forebay_core::hybrid::Layout;
use forebay_core::id::{HomePath, Ino};
use forebay_core::policy::Target;
use forebay_store::device::{Device, Fault, FaultyDevice};
use forebay_store::directory::FaultyDirectory;
use forebay_store::ssd::open_log;
use forebay_store::{Home, IoService, PosixHome};

use super::*;

const SSD_BYTES: u64 = 1 << 20;

struct Place {
    dir: tempfile::TempDir,
    data: FaultyDevice,
    maps: FaultyDirectory,
}

impl Place {
    fn new() -> Place {
        let data = FaultyDevice::new();
        data.write_at(0, &vec![0; SSD_BYTES as usize]).unwrap();
        data.sync().unwrap();
        Place { dir: tempfile::tempdir().unwrap(), data, maps: FaultyDirectory::new() }
    }

    fn start(&self, is_same_boot: bool) -> IoNode {
        let options = IoNodeOptions::new(self.dir.path().to_owned(), "unused".into(), SSD_BYTES, ServerPolicy::All);
        let home = Arc::new(PosixHome::open(self.dir.path()).unwrap());
        let (data, maps) = (Arc::new(self.data.clone()), Arc::new(self.maps.clone()));
        let (log, found) = open_log([3; 16], maps, data, is_same_boot, Path::new("ssd.log")).unwrap();
        start::assemble(options, home, None, Some(log), found).unwrap()
    }

    fn map(&self) -> FaultyDevice {
        self.maps.device("map-0000000000000001").unwrap()
    }
}

fn path() -> HomePath {
    HomePath(b"file"[..].into())
}

fn write(node: &IoNode, offset: u64, byte: u8) {
    node.write(Ino(1), &path(), offset, &[byte; 1000]).unwrap();
}

fn read(node: &IoNode) -> Vec<u8> {
    let mut bytes = vec![9; 4000];
    let there = node.read(Ino(1), &path(), 0, &mut bytes).unwrap();
    bytes.truncate(there as usize);
    bytes
}

fn expected(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| [*byte; 1000]).collect()
}

fn to(node: &IoNode, target: Target) -> u64 {
    node.inspect_counters(target)
}

impl IoNode {
    fn inspect_counters(&self, target: Target) -> u64 {
        self.driver.inspect(|node| node.counters().to(target).requests)
    }
}

#[test]
fn what_the_ssd_refuses_goes_to_the_disk() {
    let place = Place::new();
    let node = place.start(true);
    node.change(&HomeChange::MakeFile { path: path() }).unwrap();
    write(&node, 0, 1);
    for (offset, fault) in [(1000, Fault::Eio), (2000, Fault::Short), (3000, Fault::Enospc)] {
        // The bytes first, then their entry: both may be refused.
        let device = if offset == 2000 { place.map() } else { place.data.clone() };
        device.fail_at(0, fault);
        write(&node, offset, 1 + (offset / 1000) as u8);
    }
    assert_eq!(read(&node), expected(&[1, 2, 3, 4]));
    assert_eq!(to(&node, Target::Ssd), 4, "that is where they were to go");
    assert_eq!(std::fs::read(place.dir.path().join("file")).unwrap(), expected(&[0, 2, 3, 4]), "the first one is on the SSD");
    // A newer write finds older bytes on the SSD, and the note of it is refused at first.
    node.set_policy(ServerPolicy::None).unwrap();
    place.map().fail_at(0, Fault::Enospc);
    write(&node, 500, 7);
    let mut wanted = expected(&[1, 2, 3, 4]);
    wanted[500..1500].fill(7);
    assert_eq!(read(&node), wanted);
    node.drain().unwrap();
    assert_eq!(std::fs::read(place.dir.path().join("file")).unwrap(), wanted);
    assert!(node.status().ssd_fault.is_some());
}

#[test]
fn a_loss_of_power_leaves_what_was_synced() {
    for seed in 0..40 {
        let place = Place::new();
        let node = place.start(true);
        node.change(&HomeChange::MakeFile { path: path() }).unwrap();
        write(&node, 0, 1);
        write(&node, 1000, 2);
        node.sync(&[(Ino(1), path())], &[HomePath::default()]).unwrap();
        write(&node, 1000, 3);
        node.stop();
        place.data.power_loss(seed);
        place.maps.power_loss(seed + 1);
        let node = place.start(false);
        let found = read(&node);
        assert!(found == expected(&[1, 2]) || found == expected(&[1, 3]), "seed {seed}: {:?}", [found[0], found[1000], found[1999]]);
        node.drain().unwrap();
        assert_eq!(std::fs::read(place.dir.path().join("file")).unwrap(), found, "seed {seed}");
    }
}

/// The file is shorter at home after a loss of power than what the SSD has of it.
#[test]
fn a_file_is_as_long_as_what_the_ssd_has_of_it() {
    let place = Place::new();
    let node = place.start(true);
    node.change(&HomeChange::MakeFile { path: path() }).unwrap();
    write(&node, 0, 1);
    write(&node, 1000, 2);
    node.sync(&[(Ino(1), path())], &[]).unwrap();
    node.stop();
    std::fs::File::options().write(true).open(place.dir.path().join("file")).unwrap().set_len(0).unwrap();
    let node = place.start(true);
    assert_eq!(node.stat(&path()).unwrap().attr.size, 2000);
    assert_eq!(read(&node), expected(&[1, 2]));
}

/// A file that is gone leaves nothing behind that another one could be taken for.
#[test]
fn a_removal_in_the_middle_of_a_crash_is_known() {
    let place = Place::new();
    let node = place.start(true);
    node.change(&HomeChange::MakeFile { path: path() }).unwrap();
    write(&node, 0, 1);
    let log = node.devices.ssd.as_ref().unwrap();
    let known = node.devices.files.at(&path(), |_| true).unwrap();
    // The note is there, and the process dies before it removes the name ...
    log.note_removal(known.id, false).unwrap();
    node.stop();
    let node = place.start(true);
    assert_eq!(read(&node), expected(&[1]));
    node.stop();
    // ... or right after.
    std::fs::remove_file(place.dir.path().join("file")).unwrap();
    std::fs::write(place.dir.path().join("file"), b"another").unwrap();
    let node = place.start(true);
    assert_eq!(node.recovery().missing_files, 0);
    node.drain().unwrap();
    assert_eq!(std::fs::read(place.dir.path().join("file")).unwrap(), b"another");
    assert_eq!(node.driver.inspect(|node| node.regions().layout()), Layout { ssd_bytes: SSD_BYTES, regions: 1 });
}
