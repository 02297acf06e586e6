use super::*;
use crate::device::{Fault, FaultyDevice};
use crate::directory::FaultyDirectory;
use crate::home::FileIdentity;
use crate::random::SplitMix;

const LAYOUT: Layout = Layout { ssd_bytes: 1 << 20, regions: 2 };
const INSTANCE: [u8; 16] = [7; 16];

struct Medium {
    directory: FaultyDirectory,
    data: FaultyDevice,
}

impl Medium {
    fn new() -> Medium {
        let medium = Medium { directory: FaultyDirectory::new(), data: FaultyDevice::new() };
        medium.data.write_at(0, &vec![0; LAYOUT.ssd_bytes as usize]).unwrap();
        medium.data.sync().unwrap();
        medium
    }

    fn open(&self, is_same_boot: bool) -> Result<(SsdLog, FoundSsd), SsdError> {
        let (directory, data) = (Arc::new(self.directory.clone()), Arc::new(self.data.clone()));
        open_log(INSTANCE, directory, data, is_same_boot, Path::new("ssd.log"))
    }
}

fn entry(file: u64, offset: u64, len: u64, lsn: u64, generation: u64, at: u64) -> Entry {
    Entry { range: FileRange { file: Ino(file), offset, len }, lsn: Lsn(lsn), generation: Generation(generation), at }
}

fn record(file: Ino) -> FileRecord {
    let identity = FileIdentity { dev: 1, ino: 100 + file.0, born_ns: 5 };
    FileRecord { file, identity, path: HomePath(format!("dir/{}", file.0).into_bytes().into()) }
}

/// Bytes that are the entry's own.
fn bytes(entry: &Entry) -> Vec<u8> {
    (0..entry.range.len).map(|at| (entry.lsn.0 * 31 + at) as u8).collect()
}

fn append(log: &SsdLog, entry: &Entry) -> io::Result<()> {
    log.append(entry, LAYOUT, &bytes(entry), || record(entry.range.file))
}

#[test]
fn what_was_appended_is_found_by_the_next_process_and_what_is_home_is_not() {
    let medium = Medium::new();
    let (log, found) = medium.open(true).unwrap();
    assert!(found.entries.is_empty() && found.layout.is_none());
    let entries = [entry(1, 0, 100, 1, 1, 0), entry(2, 50, 60, 2, 1, 100), entry(1, 7, 9, 3, 2, 1 << 19)];
    entries.iter().for_each(|entry| append(&log, entry).unwrap());
    let superseded = Note::Superseded { range: entries[1].range, lsn: Lsn(4) };
    log.note(&superseded).unwrap();
    log.note_removal(Ino(2), false).unwrap();
    assert!(log.knows(Ino(1)) && !log.knows(Ino(3)));

    let (log, found) = medium.open(true).unwrap();
    assert_eq!((found.entries.as_slice(), found.layout), (&entries[..], Some(LAYOUT)));
    assert_eq!(found.notes, [superseded]);
    assert_eq!(found.files[&Ino(1)].record, record(Ino(1)));
    assert_eq!((found.files[&Ino(2)].is_going, found.files[&Ino(2)].is_gone), (true, false));
    let mut buffer = vec![0; 60];
    log.read(100, &mut buffer).unwrap();
    assert_eq!(buffer, bytes(&entries[1]));
    log.note_removal(Ino(2), true).unwrap();
    log.note(&Note::Emptied(Generation(1))).unwrap();

    let (log, found) = medium.open(true).unwrap();
    assert_eq!(found.entries, [entries[2]]);
    assert!(found.files[&Ino(1)].record == record(Ino(1)) && log.knows(Ino(1)) && !log.knows(Ino(2)));
}

/// Whatever a loss of power leaves: what was synced is whole, and nothing else is taken for whole.
#[test]
fn a_loss_of_power_takes_only_what_was_not_synced() {
    for seed in 0..400 {
        let mut random = SplitMix::new(seed);
        let medium = Medium::new();
        let (mut log, _) = medium.open(true).unwrap();
        let (mut all, mut synced, mut at, mut generation) = (Vec::new(), 0, 0, 1);
        for lsn in 1..=random.below(40) + 1 {
            if random.below(6) == 0 {
                log.sync(&[Ino(1)]).unwrap();
                synced = all.len();
            }
            if random.below(15) == 0 {
                generation += 1;
            }
            let len = random.below(3000) + 1;
            let new = entry(random.below(3) + 1, random.below(100), len, lsn, generation, at);
            append(&log, &new).unwrap();
            all.push(new);
            at += len;
        }
        for round in 0..3 {
            medium.data.power_loss(seed * 10 + round);
            medium.directory.power_loss(seed * 10 + round + 5);
            let (opened, found) = medium.open(false).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            log = opened;
            for entry in &all[..synced] {
                assert!(found.entries.contains(entry), "seed {seed}: {entry:?} was synced");
                assert!(found.files.contains_key(&entry.range.file), "seed {seed}");
            }
            for entry in &found.entries {
                assert!(all.contains(entry), "seed {seed}");
                let mut buffer = vec![0; entry.range.len as usize];
                log.read(entry.at, &mut buffer).unwrap();
                assert_eq!(buffer, bytes(entry), "seed {seed}");
            }
            // The next process, with the power on, finds the same and no damage.
            let (again, found_again) = medium.open(true).unwrap_or_else(|error| panic!("seed {seed}, again: {error}"));
            assert_eq!(found_again.entries, found.entries, "seed {seed}");
            (log, all, synced) = (again, found.entries.clone(), found.entries.len());
            let empty = found.notes.iter().filter(|note| matches!(note, Note::Emptied(_))).count();
            assert_eq!(empty, found_again.notes.len(), "seed {seed}");
            log.sync(&[]).unwrap();
        }
    }
}

#[test]
fn rot_is_told_and_not_taken_for_a_loss_of_power() {
    let medium = Medium::new();
    let (log, _) = medium.open(true).unwrap();
    append(&log, &entry(1, 0, 100, 1, 1, 0)).unwrap();
    append(&log, &entry(1, 100, 100, 2, 1, 100)).unwrap();
    log.sync(&[]).unwrap();
    medium.data.rot(150, 1);
    for is_same_boot in [true, false] {
        let Err(error) = medium.open(is_same_boot) else { panic!("rot was not seen") };
        assert!(error.to_string().contains("bytes 100 to 200"), "{error}");
    }
    medium.data.rot(150, 1);
    let map = medium.directory.device(&map_name(1)).unwrap();
    // A bit of the first entry's frame: what follows it must not be lost in silence.
    map.rot(format::FRAMES_AT + 70, 4);
    let Err(error) = medium.open(true) else { panic!("rot was not seen") };
    assert!(error.to_string().contains("map-0000000000000001"), "{error}");
}

#[test]
fn a_failed_append_leaves_nothing_and_a_failed_sync_is_made_good() {
    let medium = Medium::new();
    let (log, _) = medium.open(true).unwrap();
    append(&log, &entry(1, 0, 10, 1, 1, 0)).unwrap();
    let map = medium.directory.device(&map_name(1)).unwrap();
    map.fail_at(0, Fault::Enospc);
    append(&log, &entry(1, 10, 10, 2, 1, 10)).unwrap_err();
    map.fail_at(0, Fault::Short);
    append(&log, &entry(1, 20, 10, 3, 1, 20)).unwrap_err();
    append(&log, &entry(1, 30, 10, 4, 1, 30)).unwrap();
    // The page cache forgets what it could not write: the map is written again.
    map.fail_at(0, Fault::LostSync);
    log.sync(&[]).unwrap_err();
    log.sync(&[]).unwrap();
    medium.data.power_loss(1);
    medium.directory.power_loss(1);
    let (_, found) = medium.open(false).unwrap();
    assert_eq!(found.entries.iter().map(|entry| entry.lsn.0).collect::<Vec<_>>(), [1, 4]);

    let (log, _) = medium.open(true).unwrap();
    append(&log, &entry(1, 40, 10, 5, 2, 40)).unwrap();
    medium.data.fail_at(0, Fault::LostSync);
    log.sync(&[]).unwrap_err();
    // What the log's page cache forgot cannot be told from what it has.
    log.sync(&[]).unwrap_err();
}

#[test]
fn a_directory_is_for_one_home_and_one_process() {
    let dir = tempfile::tempdir().unwrap();
    let (ssd, home) = (dir.path().join("ssd"), dir.path().join("home"));
    let mut opened = SsdDir::open(&ssd, &home, 1 << 20).unwrap();
    let (log, _) = opened.read().unwrap();
    append(&log, &entry(1, 0, 5000, 1, 1, 77)).unwrap();
    log.sync(&[]).unwrap();
    assert!(matches!(SsdDir::open(&ssd, &home, 1 << 20), Err(SsdError::Directory(BufferError::InUse { .. }))));
    drop((opened, log));
    assert!(matches!(SsdDir::open(&ssd, dir.path(), 1 << 20), Err(SsdError::OtherHome { .. })));
    // It may become larger, and keeps what is in it.
    let mut opened = SsdDir::open(&ssd, &home, 2 << 20).unwrap();
    assert_eq!(opened.read().unwrap().1.entries.len(), 1);
    assert_eq!(std::fs::metadata(ssd.join(SSD_LOG)).unwrap().len(), 2 << 20);
    drop(opened);
    std::fs::write(dir.path().join("note"), b"mine").unwrap();
    assert!(matches!(SsdDir::open(dir.path(), &home, 1 << 20), Err(SsdError::NotOurs { .. })));

    let superblock = ssd.join(SUPERBLOCK);
    let whole = std::fs::read(&superblock).unwrap();
    for at in 0..whole.len() {
        let mut torn = whole.clone();
        torn[at] ^= 0x10;
        assert!(superblock::decode(&torn, &superblock).is_err(), "byte {at}");
        assert!(superblock::decode(&whole[..at], &superblock).is_err(), "{at} bytes");
    }
}
