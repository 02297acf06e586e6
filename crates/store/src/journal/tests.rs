use std::collections::BTreeMap;

use forebay_core::id::{Ino, Lsn, Name, SegmentId};
use forebay_core::message::Reply;
use forebay_core::record::DataRecord;

use super::format::FRAME_HEADER_BYTES;
use super::*;
use crate::FORMAT_VERSION;
use crate::device::{Fault, FaultyDevice, MemoryDevice, SECTOR_BYTES};
use crate::directory::{FaultyDirectory, FileDirectory};
use crate::random::SplitMix;

const IDENTITY: JournalIdentity = JournalIdentity { instance: [1; 16], memory_id: [2; 16] };
const OTHER_MEMORY: JournalIdentity = JournalIdentity { instance: [1; 16], memory_id: [3; 16] };
const FIRST: &str = "journal-0000000000000000";
const SECOND: &str = "journal-0000000000000001";

fn size(n: u64) -> Record {
    Record::Size { ino: Ino(7), size: n, time_ns: 0 }
}

/// A record of about `len` bytes.
fn long(n: u64, len: usize) -> Record {
    Record::Entry { parent: Ino(n), name: Name::new(&vec![n as u8; len]), ino: None, time_ns: 0 }
}

fn shared(directory: &FaultyDirectory) -> Arc<dyn Directory> {
    Arc::new(directory.clone())
}

fn create(directory: &FaultyDirectory) -> Journal {
    Journal::create(shared(directory), IDENTITY, Position(1)).unwrap()
}

fn open(directory: &FaultyDirectory) -> OpenedJournal {
    Journal::open(shared(directory), IDENTITY, true).unwrap()
}

fn open_after_power_loss(directory: &FaultyDirectory) -> OpenedJournal {
    Journal::open(shared(directory), OTHER_MEMORY, true).unwrap()
}

fn append(journal: &mut Journal, record: &Record) -> Position {
    let position = journal.next_position();
    journal.append(position, record).unwrap();
    position
}

fn rotate(journal: &mut Journal, records: &[Record]) -> Position {
    let position = journal.next_position();
    journal.rotate(position, records).unwrap();
    position
}

fn numbered(first: u64, records: &[Record]) -> Vec<(Position, Record)> {
    (first..).map(Position).zip(records.iter().cloned()).collect()
}

#[test]
fn what_was_appended_is_read_back_from_files() {
    let dir = tempfile::tempdir().unwrap();
    let directory: Arc<dyn Directory> = Arc::new(FileDirectory::new(dir.path()));
    let mut journal = Journal::create(directory.clone(), IDENTITY, Position(1)).unwrap();
    let records: Vec<Record> = (0..3000).map(|n| long(n, (n % 1500) as usize + 1)).collect();
    for record in &records {
        append(&mut journal, record);
    }
    journal.sync().unwrap();
    assert!(std::fs::metadata(dir.path().join(FIRST)).unwrap().len() > journal.used_bytes(), "space is filled ahead");
    let opened = Journal::open(directory, IDENTITY, true).unwrap();
    assert_eq!(opened.records, numbered(1, &records));
    assert_eq!((opened.end, opened.memory_intact), (JournalEnd::Clean, true));
    assert_eq!(opened.journal.next_position(), Position(3001));
}

#[test]
fn an_opened_journal_goes_on() {
    let directory = FaultyDirectory::new();
    append(&mut create(&directory), &size(1));
    append(&mut open(&directory).journal, &size(2));
    assert_eq!(open(&directory).records, numbered(1, &[size(1), size(2)]));
}

#[test]
fn positions_are_consecutive_and_snapshots_end() {
    let directory = FaultyDirectory::new();
    let mut journal = create(&directory);
    assert!(matches!(journal.append(Position(2), &size(0)), Err(JournalError::OutOfOrder { expected: 1, found: 2 })));
    append(&mut journal, &size(0));
    assert!(matches!(journal.append(Position(1), &size(0)), Err(JournalError::OutOfOrder { .. })));
    assert!(matches!(journal.rotate(Position(2), &[size(0)]), Err(JournalError::NoSnapshotEnd)));
    let name = Record::Entry { parent: Ino(1), name: Name::new(&vec![0; format::RECORD_BYTES_MAX]), ino: None, time_ns: 0 };
    assert!(matches!(journal.append(Position(2), &name), Err(JournalError::TooLarge { .. })));
    assert_eq!(open(&directory).records, numbered(1, &[size(0)]));
}

#[test]
fn a_new_journal_passes_over_what_a_full_disk_did_not_take() {
    let directory = FaultyDirectory::new();
    let mut journal = create(&directory);
    append(&mut journal, &size(1));
    journal.rotate(Position(7), &[size(2), Record::SnapshotEnd]).unwrap();
    assert_eq!(append(&mut journal, &size(3)), Position(9));
    assert_eq!(open(&directory).records, numbered(7, &[size(2), Record::SnapshotEnd, size(3)]));
}

#[test]
fn a_rotated_journal_takes_over_and_the_old_one_goes() {
    let directory = FaultyDirectory::new();
    let mut journal = create(&directory);
    let sync = journal.sync_handle();
    append(&mut journal, &size(1));
    // Larger than one write of a snapshot.
    let mut snapshot: Vec<Record> = (0..40).map(|n| long(n, 60_000)).collect();
    snapshot.push(Record::SnapshotEnd);
    assert_eq!(rotate(&mut journal, &snapshot), Position(2));
    assert_eq!(directory.device(FIRST).unwrap().unsynced_sectors(), 0, "a power loss may lead back to the old one");
    assert_eq!(directory.device(SECOND).unwrap().unsynced_sectors(), 0);
    append(&mut journal, &size(2));
    sync.sync().unwrap();
    assert_eq!(directory.device(SECOND).unwrap().unsynced_sectors(), 0, "the handle follows the rotation");
    assert_eq!(directory.list().unwrap(), [FIRST, SECOND]);
    journal.drop_old().unwrap();
    assert_eq!(directory.list().unwrap(), [SECOND]);
    snapshot.push(size(2));
    assert_eq!(open(&directory).records, numbered(2, &snapshot));
}

#[test]
fn a_failed_rotation_changes_nothing() {
    let directory = FaultyDirectory::new();
    let mut journal = create(&directory);
    append(&mut journal, &size(1));
    directory.fail_next_create(Fault::Enospc);
    let error = journal.rotate(Position(2), &[Record::SnapshotEnd]).unwrap_err();
    assert_eq!(error.errno().0, 28);
    append(&mut journal, &size(2));
    rotate(&mut journal, &[Record::SnapshotEnd]);
    assert_eq!(open(&directory).records, numbered(3, &[Record::SnapshotEnd]));
}

#[test]
fn an_unfinished_journal_is_passed_over() {
    let directory = FaultyDirectory::new();
    let mut journal = create(&directory);
    append(&mut journal, &size(1));
    let header = Header { identity: IDENTITY, number: 1, start: Position(2), starts_empty: false };
    let device = new_file(&directory, &header).unwrap();
    let mut encoder = FrameEncoder::new(&IDENTITY.instance, 1);
    encoder.push(Position(2), &size(2)).unwrap();
    device.write_at(FRAMES_START, encoder.bytes()).unwrap();
    directory.create("journal-0000000000000002").unwrap();
    let mut opened = open(&directory);
    assert_eq!(opened.records, numbered(1, &[size(1)]));
    assert_eq!(opened.end, JournalEnd::Clean);
    let reasons: Vec<_> = opened.skipped.iter().map(|skipped| skipped.reason).collect();
    assert_eq!(reasons, [SkipReason::Unfinished, SkipReason::Unfinished]);
    rotate(&mut opened.journal, &[Record::SnapshotEnd]);
    opened.journal.drop_old().unwrap();
    assert_eq!(directory.list().unwrap(), ["journal-0000000000000003"]);
}

/// The rotation rule: without the memory that its snapshot speaks of, a new journal counts only once it says that it is durable.
#[test]
fn a_new_journal_counts_when_memory_is_intact_or_its_snapshot_is_durable() {
    let directory = FaultyDirectory::new();
    let mut journal = create(&directory);
    append(&mut journal, &size(1));
    rotate(&mut journal, &[size(2), Record::SnapshotEnd]);
    append(&mut journal, &size(3));
    // A sync that began before the rotation says nothing of the snapshot.
    append(&mut journal, &Record::Synced { upto: Position(2) });
    journal.sync().unwrap();

    let intact = open(&directory);
    assert_eq!((intact.records.len(), intact.memory_intact), (4, true));
    let lost = open_after_power_loss(&directory);
    assert_eq!((lost.records, lost.memory_intact), (numbered(1, &[size(1)]), false));
    assert_eq!(lost.skipped[0].reason, SkipReason::NotDurable);
    let no_memory = Journal::open(shared(&directory), IDENTITY, false).unwrap();
    assert_eq!((no_memory.records.len(), no_memory.memory_intact), (1, false));

    append(&mut journal, &Record::Synced { upto: Position(3) });
    let lost = open_after_power_loss(&directory);
    assert_eq!((lost.records.len(), lost.memory_intact, lost.skipped.len()), (5, false, 0));
}

#[test]
fn a_recovery_that_cut_history_rotates_from_the_cut() {
    let directory = FaultyDirectory::new();
    let mut journal = create(&directory);
    for n in 1..=5 {
        append(&mut journal, &size(n));
    }
    let mut opened = open_after_power_loss(&directory);
    opened.journal.rotate(Position(4), &[size(9), Record::SnapshotEnd]).unwrap();
    append(&mut opened.journal, &size(10));
    let opened = Journal::open(shared(&directory), OTHER_MEMORY, true).unwrap();
    assert_eq!(opened.records, numbered(4, &[size(9), Record::SnapshotEnd, size(10)]));
    assert!(opened.memory_intact, "it was begun with the new memory file");
}

#[test]
fn a_torn_tail_is_told_from_damage() {
    let directory = FaultyDirectory::new();
    let mut journal = create(&directory);
    let starts: Vec<u64> = (1..=6)
        .map(|n| {
            let start = journal.used_bytes();
            append(&mut journal, &size(n));
            start
        })
        .collect();
    append(&mut journal, &Record::Synced { upto: Position(6) });
    let device = directory.device(FIRST).unwrap();

    // The last record is cut.
    device.rot(journal.used_bytes() - 1, 0x55);
    let opened = open(&directory);
    assert_eq!(opened.records.len(), 6);
    assert!(matches!(&opened.end, JournalEnd::Torn { position: Position(7), .. }), "{:?}", opened.end);
    device.rot(journal.used_bytes() - 1, 0x55);

    // A record in the middle, with a later statement that it was durable: damage, whatever became of memory.
    device.rot(starts[3] + 18, 1);
    for opened in [open(&directory), open_after_power_loss(&directory)] {
        assert_eq!(opened.records.len(), 3);
        let JournalEnd::Damaged { file, offset, position, records_after } = &opened.end else {
            panic!("{:?}", opened.end);
        };
        assert_eq!((*offset, *position, *records_after), (starts[3], Position(4), 3));
        let text = opened.end.to_string();
        assert!(text.contains(file.as_str()) && text.contains(&offset.to_string()), "{text}");
    }

    // The same gap without such a statement: a machine that lost power may leave it, a process that died may not.
    device.rot(journal.used_bytes() - 1, 0x55);
    assert!(matches!(open(&directory).end, JournalEnd::Damaged { .. }));
    assert!(matches!(open_after_power_loss(&directory).end, JournalEnd::Torn { .. }));
}

#[test]
fn damage_of_a_current_snapshot_is_no_clean_return_to_the_old_journal() {
    let directory = FaultyDirectory::new();
    let mut journal = create(&directory);
    append(&mut journal, &size(1));
    rotate(&mut journal, &[size(2), size(3), Record::SnapshotEnd]);
    append(&mut journal, &size(4));
    directory.device(SECOND).unwrap().rot(FRAMES_START + 18, 4);
    let opened = open(&directory);
    assert_eq!(opened.records, numbered(1, &[size(1)]));
    assert!(matches!(&opened.end, JournalEnd::Damaged { file, position: Position(2), .. } if file.contains(SECOND)), "{:?}", opened.end);

    journal.drop_old().unwrap();
    let error = Journal::open(shared(&directory), IDENTITY, true).err().unwrap();
    assert!(error.to_string().contains(SECOND), "{error}");
    directory.remove(SECOND).unwrap();
    assert!(matches!(Journal::open(shared(&directory), IDENTITY, true).err(), Some(JournalError::Missing)));
}

#[test]
fn a_journal_of_another_version_or_buffer_is_refused() {
    let directory = FaultyDirectory::new();
    create(&directory);
    let device = directory.device(FIRST).unwrap();
    let mut sector = [0; SECTOR_BYTES];
    device.read_at(0, &mut sector).unwrap();
    let mut other = sector;
    other[8..12].copy_from_slice(&99_u32.to_le_bytes());
    let crc = crc32c::crc32c(&other[..64]);
    other[64..68].copy_from_slice(&crc.to_le_bytes());
    device.write_at(0, &other).unwrap();
    let error = Journal::open(shared(&directory), IDENTITY, true).err().unwrap();
    let text = error.to_string();
    assert!(text.contains("version 99") && text.contains(&format!("version {FORMAT_VERSION}")), "{text}");

    device.write_at(0, &sector).unwrap();
    let stranger = JournalIdentity { instance: [9; 16], ..IDENTITY };
    let Err(JournalError::NoneUsable(skipped)) = Journal::open(shared(&directory), stranger, true) else {
        panic!("a journal of another buffer was read");
    };
    assert_eq!(skipped[0].reason, SkipReason::Foreign);
}

#[test]
fn after_a_failed_sync_no_sync_succeeds() {
    let directory = FaultyDirectory::new();
    let mut journal = create(&directory);
    append(&mut journal, &size(1));
    directory.device(FIRST).unwrap().fail_at(0, Fault::LostSync);
    assert_eq!(journal.sync().unwrap_err().errno().0, 5);
    assert!(journal.sync_handle().sync().is_err());
    assert!(journal.rotate(Position(2), &[Record::SnapshotEnd]).is_err(), "a rotation would pass over what was lost");
    append(&mut journal, &size(2));
    assert_eq!(open(&directory).records.len(), 2);
}

/// What the disk had no space for may be lost, and no later sync of the file would tell. A new journal says all of it again.
#[test]
fn after_a_sync_without_space_only_a_new_journal_can_be_synced() {
    let directory = FaultyDirectory::new();
    let mut journal = create(&directory);
    append(&mut journal, &size(1));
    journal.sync().unwrap();
    append(&mut journal, &size(2));
    directory.device(FIRST).unwrap().fail_at(0, Fault::Enospc);
    for _ in 0..2 {
        assert_eq!(journal.sync().unwrap_err().errno().0, 28);
    }
    let again = [size(1), size(2), Record::SnapshotEnd];
    for number in 1..4 {
        rotate(&mut journal, &again);
        append(&mut journal, &size(3));
        // As long as none is settled, the first one stays for a power loss, and those between do not pile up.
        assert_eq!(directory.list().unwrap(), [FIRST.to_owned(), format!("journal-{number:016x}")]);
        assert_eq!(open_after_power_loss(&directory).records, numbered(1, &[size(1), size(2)]));
        directory.device(&format!("journal-{number:016x}")).unwrap().fail_at(0, Fault::Enospc);
        assert_eq!(journal.sync().unwrap_err().errno().0, 28);
    }
    rotate(&mut journal, &again);
    journal.sync().unwrap();
    assert_eq!(open(&directory).records.len(), 3);
    journal.drop_old().unwrap();
    assert_eq!(directory.list().unwrap(), ["journal-0000000000000004"]);
}

#[test]
fn a_failed_append_can_be_tried_again() {
    let directory = FaultyDirectory::new();
    let mut journal = create(&directory);
    let device = directory.device(FIRST).unwrap();
    for (n, fault) in [Fault::Enospc, Fault::Short, Fault::Eio].into_iter().enumerate() {
        device.fail_at(0, fault);
        let position = journal.next_position();
        assert!(journal.append(position, &long(n as u64, 900)).is_err());
        journal.append(position, &size(n as u64)).unwrap();
    }
    assert_eq!(open(&directory).records, numbered(1, &[size(0), size(1), size(2)]));
}

/// The space ahead is there before the records are: a sync after an append has no file size to write.
#[test]
fn the_file_grows_in_steps() {
    let directory = FaultyDirectory::new();
    let mut journal = create(&directory);
    let device = directory.device(FIRST).unwrap();
    let mut sizes = BTreeMap::new();
    for n in 0..6000 {
        append(&mut journal, &long(n, 1000));
        let len = device.len().unwrap();
        assert!(len >= journal.used_bytes());
        *sizes.entry(len).or_insert(0) += 1;
    }
    assert!(sizes.len() <= 7, "{sizes:?}");
}

/// One run of appends, syncs and rotations, cut off by a power loss.
fn power_loss_run(seed: u64) {
    let mut random = SplitMix::new(seed);
    let directory = FaultyDirectory::new();
    let mut journal = create(&directory);
    // What each position holds, over all journals.
    let mut written = BTreeMap::new();
    let mut synced_to = 0;
    // The end of the newest snapshot, and the position of the record that says it is durable, until that is.
    let (mut snapshot_end, mut mark) = (None, None);
    let mut next = 1;
    for step in 0..random.below(300) {
        let mut log = |journal: &mut Journal, record: Record| {
            let position = append(journal, &record);
            written.insert(position.0, record);
            next = position.0 + 1;
            position
        };
        match random.below(20) {
            0 if snapshot_end.is_none() && mark.is_none() => {
                let first = journal.next_position();
                let mut records: Vec<Record> = (0..random.below(30)).map(|n| long(n, 40)).collect();
                records.push(Record::SnapshotEnd);
                rotate(&mut journal, &records);
                written.extend((first.0..).zip(records));
                snapshot_end = Some(Position(journal.next_position().0 - 1));
            }
            1..4 => {
                let upto = Position(journal.next_position().0 - 1);
                journal.sync().unwrap();
                // What a node does: the promise stands only when the mark of a new journal is durable too.
                match (snapshot_end.take(), mark.take()) {
                    (Some(_), _) => mark = Some(log(&mut journal, Record::Synced { upto })),
                    (None, Some(_)) => {
                        journal.drop_old().unwrap();
                        synced_to = upto.0;
                    }
                    (None, None) => synced_to = upto.0,
                }
            }
            _ => {
                let len = random.below(700) as usize + 1;
                log(&mut journal, long(step, len));
            }
        }
    }
    directory.power_loss(seed);
    let opened = open_after_power_loss(&directory);
    assert!(!matches!(opened.end, JournalEnd::Damaged { .. }), "seed {seed}: {:?}", opened.end);
    for (position, record) in &opened.records {
        assert_eq!(written.get(&position.0), Some(record), "seed {seed}: {position:?}");
    }
    let consecutive = opened.records.windows(2).all(|pair| pair[1].0.0 == pair[0].0.0 + 1);
    assert!(consecutive, "seed {seed}");
    let last = opened.records.last().map_or(0, |(position, _)| position.0);
    assert!(last >= synced_to, "seed {seed}: read up to {last}, but {synced_to} was synced");
    assert_eq!(opened.journal.next_position().0, last.max(opened.journal.next_position().0 - 1) + 1, "seed {seed}");
}

#[test]
fn what_was_synced_survives_a_power_loss() {
    for seed in 0..300 {
        power_loss_run(seed);
    }
}

/// Rot anywhere in a journal: never a panic, and what is read is a prefix of what was written.
#[test]
fn rot_gives_a_prefix_or_a_clear_error() {
    let directory = FaultyDirectory::new();
    let mut journal = create(&directory);
    let data = DataRecord {
        ino: Ino(5),
        file_offset: 1 << 40,
        len: 70_000,
        segment: SegmentId(3),
        segment_offset: 12,
        lsn: Lsn(9),
        crc: 0xdead_beef,
        time_ns: -5,
    };
    let mut records = Vec::new();
    for n in 0..60 {
        records.extend([Record::Data(data), long(n, 50), Record::Synced { upto: Position(n) }]);
    }
    for record in &records {
        append(&mut journal, record);
    }
    let written = numbered(1, &records);
    let whole = directory.device(FIRST).unwrap();
    let mut bytes = vec![0; whole.len().unwrap() as usize];
    whole.read_at(0, &mut bytes).unwrap();
    for seed in 0..300 {
        let mut random = SplitMix::new(seed);
        let mut rotten = bytes.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(journal.used_bytes()) as usize;
            rotten[at] ^= 1 << random.below(8);
        }
        if random.below(4) == 0 {
            rotten.truncate(random.below(journal.used_bytes()) as usize);
        }
        let copy = FaultyDirectory::new();
        copy.create(FIRST).unwrap().write_at(0, &rotten).unwrap();
        match Journal::open(shared(&copy), IDENTITY, true) {
            Ok(opened) => {
                assert!(opened.records.len() <= written.len() && opened.records == written[..opened.records.len()], "seed {seed}");
                let shorter = opened.records.len() < written.len();
                assert!(!shorter || opened.end != JournalEnd::Clean || rotten.len() < bytes.len(), "seed {seed}");
            }
            Err(JournalError::NoneUsable(skipped)) => assert_eq!(skipped.len(), 1, "seed {seed}"),
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
}

#[test]
fn a_length_that_cannot_be_is_not_believed() {
    let device = MemoryDevice::new(0);
    let seed = format::frame_seed(&IDENTITY.instance, 0);
    for len in [0, 1, 17, format::RECORD_BYTES_MAX as u32, format::RECORD_BYTES_MAX as u32 + 1, u32::MAX] {
        let mut frame = vec![0; 64];
        frame[0..4].copy_from_slice(&len.to_le_bytes());
        frame[8..16].copy_from_slice(&1_u64.to_le_bytes());
        device.write_at(FRAMES_START, &frame).unwrap();
        let frames = reader::FrameReader::new(&device, seed).unwrap().read(Position(1)).unwrap();
        assert_eq!(frames.records, [], "length {len}");
    }
    let unsynced = FaultyDevice::new();
    let frames = reader::FrameReader::new(&unsynced, seed).unwrap().read(Position(1)).unwrap();
    assert_eq!(frames.tail, reader::Tail::Unwritten);
}

/// docs/FORMAT.md has these bytes. Whoever changes them counts `FORMAT_VERSION` up and changes the page.
#[test]
fn the_bytes_are_those_of_the_format() {
    let mut encoder = FrameEncoder::new(&IDENTITY.instance, 7);
    encoder.push(Position(0x0102), &Record::Size { ino: Ino(300), size: 5, time_ns: -3 }).unwrap();
    let frame = encoder.bytes();
    let record = [7, 0xac, 0x02, 5, 5];
    assert_eq!(frame[0..4], [5, 0, 0, 0]);
    assert_eq!(frame[8..16], [2, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(frame[16..], record);
    let summed = [&[1; 16][..], &7_u64.to_le_bytes(), &frame[0..4], &frame[8..]].concat();
    assert_eq!(frame[4..8], crc32c::crc32c(&summed).to_le_bytes());

    let header = Header { identity: IDENTITY, number: 7, start: Position(9), starts_empty: true }.encode();
    let expected = [b"FBJOURNL", &[3, 0, 0, 0, 1, 0, 0, 0][..], &[1; 16], &7_u64.to_le_bytes(), &9_u64.to_le_bytes(), &[2; 16]].concat();
    assert_eq!(header[..64], expected);
    assert_eq!(header[64..68], crc32c::crc32c(&expected).to_le_bytes());

    let (ino, segment, position) = (Ino(1), SegmentId(1), Position(1));
    let name = Name::new(b"n");
    let entry = Record::Entry { parent: ino, name: name.clone(), ino: None, time_ns: 0 };
    let indexed = [
        (1, Record::SegmentSpilled { segment }),
        (5, Record::Flushed { ino, offset: 0, len: 0, lsn: Lsn(0) }),
        (7, size(0)),
        (8, Record::InodeGone { ino }),
        (9, entry),
        (11, Record::HomeEntry { parent: ino, name, ino: None }),
        (12, Record::AttrHome { ino, version: 0 }),
        (13, Record::Synced { upto: position }),
        (14, Record::SnapshotEnd),
        (16, Record::Hole { ino, offset: 0, len: 0, size: 0, time_ns: 0 }),
        (17, Record::HoleHome { ino, offset: 0, len: 0 }),
        (18, Record::Xattrs { ino, xattrs: Vec::new(), time_ns: 0 }),
        (19, Record::Forgotten { ino }),
        (20, Record::DataPieces { pieces: Vec::new() }),
        (22, Record::Answered { lane: 0, request: 0, reply: Box::new(Reply::Done), record: None }),
    ];
    for (index, record) in indexed {
        encoder.clear();
        encoder.push(position, &record).unwrap();
        assert_eq!(encoder.bytes()[FRAME_HEADER_BYTES], index, "{record:?}");
    }
}
