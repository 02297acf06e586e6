use std::os::unix::fs::PermissionsExt;

use forebay_core::effect::Slot;
use forebay_core::id::MemorySlot;
use forebay_core::record::Record;

use super::*;
use crate::journal::JournalEnd;

struct Places {
    _dir: tempfile::TempDir,
    buffer: PathBuf,
    memory: PathBuf,
}

fn places() -> Places {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("memory")).unwrap();
    Places { buffer: root.join("buffer"), memory: root.join("memory"), _dir: dir }
}

fn settings(places: &Places) -> BufferSettings {
    let config = NodeConfig { segment_bytes: 64 << 10, segments_max: 8, memory_segments_max: 2, ..NodeConfig::default() };
    BufferSettings { backing: "/home/of/data".into(), config, memory_dir: Some(places.memory.clone()) }
}

fn size(n: u64) -> Record {
    Record::Size { ino: forebay_core::id::Ino(5), size: n, time_ns: 1 }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_buffer_is_found_again_with_everything() {
    let places = places();
    assert!(!BufferDir::exists(&places.buffer).unwrap());
    let created = BufferDir::create(&places.buffer, &settings(&places)).unwrap();
    assert!(BufferDir::exists(&places.buffer).unwrap());
    assert_eq!(mode(&places.buffer), 0o700);
    assert_eq!(mode(&created.memory().path), 0o600);
    assert_eq!(created.memory().path.parent(), Some(&*places.memory));
    let uid = rustix::process::geteuid().as_raw();
    let name = created.memory().path.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(name.starts_with(&format!("forebay-{uid}-")) && BufferDir::owns_name(&name), "{name}");
    created.log().unwrap().write(Slot::Memory(MemorySlot(1)), 9, b"payload").unwrap();
    let mut journal = created.journal().unwrap().journal;
    journal.append(Position(1), &size(3)).unwrap();
    let superblock = created.superblock().clone();
    drop((created, journal));

    let opened = BufferDir::open(&places.buffer, None).unwrap();
    assert_eq!(*opened.superblock(), superblock);
    assert_eq!((opened.memory().found, opened.memory().fallback.clone()), (true, None));
    let journal = opened.journal().unwrap();
    assert_eq!((journal.records, journal.end, journal.memory_intact), (vec![(Position(1), size(3))], JournalEnd::Clean, true));
    let mut bytes = [0; 7];
    opened.log().unwrap().read(Slot::Memory(MemorySlot(1)), 9, &mut bytes).unwrap();
    assert_eq!(&bytes, b"payload");
}

#[test]
fn one_process_at_a_time() {
    let places = places();
    let first = BufferDir::create(&places.buffer, &settings(&places)).unwrap();
    let pid = std::process::id().to_string();
    for error in [BufferDir::open(&places.buffer, None).err(), BufferDir::create(&places.buffer, &settings(&places)).err()] {
        let error = error.unwrap();
        assert!(matches!(&error, BufferError::InUse { pid: found, .. } if *found == pid), "{error}");
        assert!(error.to_string().contains(&pid));
    }
    drop(first);
    BufferDir::open(&places.buffer, None).unwrap();
}

/// A lost memory file is made anew, and the journal knows, also after a crash before the next journal.
#[test]
fn a_lost_memory_file_is_never_taken_for_intact() {
    let places = places();
    let created = BufferDir::create(&places.buffer, &settings(&places)).unwrap();
    let lost = created.memory().path.clone();
    created.journal().unwrap().journal.append(Position(1), &size(1)).unwrap();
    drop(created);
    std::fs::remove_file(&lost).unwrap();
    for round in 0..2 {
        let opened = BufferDir::open(&places.buffer, Some(&places.memory)).unwrap();
        assert_eq!(opened.memory().found, round == 1);
        assert_ne!(opened.memory().path, lost);
        assert!(!opened.journal().unwrap().memory_intact, "round {round}");
    }
    let opened = BufferDir::open(&places.buffer, None).unwrap();
    opened.journal().unwrap().journal.rotate(Position(2), &[size(1), Record::SnapshotEnd]).unwrap();
    assert!(opened.journal().unwrap().memory_intact);
}

#[test]
fn another_boot_means_that_memory_is_lost() {
    let places = places();
    let created = BufferDir::create(&places.buffer, &settings(&places)).unwrap();
    let superblock = Superblock { boot_id: "another".to_owned(), ..created.superblock().clone() };
    superblock.write(&created.superblock_path()).unwrap();
    drop(created);
    let opened = BufferDir::open(&places.buffer, Some(&places.memory)).unwrap();
    assert!(!opened.memory().found && !opened.journal().unwrap().memory_intact);
    assert!(!superblock.memory_path.exists(), "the old file is removed");
    assert_eq!(opened.superblock().boot_id, boot_id().unwrap());
}

#[test]
fn memory_without_room_falls_back_to_the_buffer_directory() {
    let places = places();
    let settings = BufferSettings { memory_dir: Some(places.memory.join("missing")), ..settings(&places) };
    let created = BufferDir::create(&places.buffer, &settings).unwrap();
    assert_eq!(created.memory().path.parent(), Some(created.path()));
    let reason = created.memory().fallback.clone().unwrap();
    assert!(reason.contains("missing"), "{reason}");
    drop(created);
    let opened = BufferDir::open(&places.buffer, None).unwrap();
    assert!(opened.memory().found && opened.memory().fallback.is_some());
    opened.remove().unwrap();
    assert!(!places.buffer.exists());

    let mut settings = settings;
    // More than any tmpfs has, and not more than a sparse file may.
    settings.config.segment_bytes = 1 << 30;
    settings.config.memory_segments_max = 1 << 15;
    settings.memory_dir = Some("/dev/shm".into());
    let reason = size_memory_file(&places.memory.join("x"), Geometry::of(&settings.config).memory_bytes()).unwrap().unwrap();
    assert!(reason.contains("bytes free"), "{reason}");
    assert!(!places.memory.join("x").exists());
}

#[test]
fn a_buffer_that_does_not_fit_is_refused_at_once() {
    let places = places();
    let mut settings = settings(&places);
    settings.config.segment_bytes = 1 << 30;
    settings.config.segments_max = 1 << 20;
    let error = BufferDir::create(&places.buffer, &settings).err().unwrap();
    assert!(matches!(&error, BufferError::NoSpace { .. } | BufferError::Io { .. }), "{error}");
    assert!(error.to_string().contains("ssd.log"), "{error}");
    assert!(!places.buffer.exists(), "nothing is left behind");
    assert_eq!(std::fs::read_dir(&places.memory).unwrap().count(), 0);
    for (segment_bytes, memory_segments_max) in [(0, 8), (5000, 8), (4096, 0)] {
        settings.config.segment_bytes = segment_bytes;
        settings.config.memory_segments_max = memory_segments_max;
        assert!(matches!(BufferDir::create(&places.buffer, &settings).err(), Some(BufferError::Geometry { .. })));
    }
}

#[test]
fn what_a_crash_left_of_a_creation_is_made_anew() {
    let places = places();
    let created = BufferDir::create(&places.buffer, &settings(&places)).unwrap();
    std::fs::remove_file(created.superblock_path()).unwrap();
    drop(created);
    std::fs::write(places.buffer.join("superblock.new"), b"half").unwrap();
    let error = BufferDir::open(&places.buffer, None).err().unwrap();
    assert!(error.to_string().contains("not a Forebay buffer"), "{error}");
    BufferDir::create(&places.buffer, &settings(&places)).unwrap();
    assert!(matches!(BufferDir::create(&places.buffer, &settings(&places)).err(), Some(BufferError::Exists(_))));
}

#[test]
fn files_of_others_are_left_alone() {
    let places = places();
    std::fs::create_dir(&places.buffer).unwrap();
    std::fs::write(places.buffer.join("ssd.log"), b"precious").unwrap();
    for _ in 0..2 {
        let error = BufferDir::create(&places.buffer, &settings(&places)).err().unwrap();
        assert!(matches!(&error, BufferError::NotABuffer { found, .. } if found == "ssd.log"), "{error}");
    }
    assert_eq!(std::fs::read(places.buffer.join("ssd.log")).unwrap(), b"precious");

    std::fs::remove_file(places.buffer.join("ssd.log")).unwrap();
    std::fs::write(places.buffer.join("notes"), b"precious").unwrap();
    BufferDir::create(&places.buffer, &settings(&places)).unwrap().remove().unwrap();
    let names: Vec<_> = std::fs::read_dir(&places.buffer).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["notes"], "a directory that was there stays");
    for name in ["journal-1", "journal-00000000000000000", "forebay-x", "forebay-1000-backup-of-my-data", "ssd.log.gz"] {
        assert!(!BufferDir::owns_name(name), "{name}");
    }
}

#[test]
fn a_truncated_log_is_named() {
    let places = places();
    drop(BufferDir::create(&places.buffer, &settings(&places)).unwrap());
    File::options().write(true).open(places.buffer.join(SSD_LOG)).unwrap().set_len(9).unwrap();
    let error = BufferDir::open(&places.buffer, None).err().unwrap();
    assert!(matches!(error, BufferError::Truncated { found: 9, .. }), "{error}");
}

#[test]
fn remove_takes_everything_that_was_made() {
    let places = places();
    let created = BufferDir::create(&places.buffer, &settings(&places)).unwrap();
    created.remove().unwrap();
    assert!(!places.buffer.exists());
    assert_eq!(std::fs::read_dir(&places.memory).unwrap().count(), 0);
}
