//! Log and journal together, as a node uses them, cut off by a power loss at any moment: what was synced is there with its bytes, and what
//! is there besides is a prefix of what was done.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::effect::{LogRange, Slot};
use forebay_core::id::{Ino, Lsn, MemorySlot, Position, SegmentId, SsdSlot};
use forebay_core::record::{DataRecord, Record};
use forebay_store::device::{FaultyDevice, MemoryDevice};
use forebay_store::directory::{Directory, FaultyDirectory};
use forebay_store::journal::JournalIdentity;
use forebay_store::{Geometry, Journal, JournalEnd, LogStore};

const GEOMETRY: Geometry = Geometry { segment_bytes: 16 << 10, ssd_slots: 6, memory_slots: 6, chunk_bytes: 4096 };
const SEEDS: u64 = 300;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn identity(boot: u8) -> JournalIdentity {
    JournalIdentity { instance: [1; 16], memory_id: [boot; 16] }
}

/// A node without names: it fills segments in turn and uses a slot again when what it held was given up and that is durable.
struct Writer {
    log: LogStore,
    ssd: FaultyDevice,
    directory: FaultyDirectory,
    journal: Journal,
    /// Every record, by its position.
    written: BTreeMap<u64, Record>,
    synced_to: u64,
    segment: SegmentId,
    slot: u32,
    used: u32,
    /// Bytes of the open segment that the SSD has not.
    unspilled_from: u32,
    /// Which segment a slot holds, and the position of the record that gave its bytes up.
    slots: BTreeMap<u32, (SegmentId, Option<Position>)>,
}

impl Writer {
    fn new() -> Writer {
        let directory = FaultyDirectory::new();
        let ssd = FaultyDevice::new();
        let memory = MemoryDevice::new(GEOMETRY.memory_bytes() as usize);
        let shared: Arc<dyn Directory> = Arc::new(directory.clone());
        let mut writer = Writer {
            log: LogStore::new(GEOMETRY, Arc::new(memory), Arc::new(ssd.clone())),
            ssd,
            journal: Journal::create(shared, identity(1), Position(1)).unwrap(),
            directory,
            written: BTreeMap::new(),
            synced_to: 0,
            segment: SegmentId(0),
            slot: 0,
            used: 0,
            unspilled_from: 0,
            slots: BTreeMap::new(),
        };
        writer.open_segment();
        writer
    }

    fn record(&mut self, record: Record) -> Position {
        let position = self.journal.next_position();
        self.journal.append(position, &record).unwrap();
        self.written.insert(position.0, record);
        position
    }

    fn open_segment(&mut self) {
        let free = (0..GEOMETRY.ssd_slots).find(|slot| match self.slots.get(slot) {
            None => true,
            Some((_, given_up)) => given_up.is_some_and(|position| position.0 <= self.synced_to),
        });
        let Some(slot) = free else {
            // Give everything up that is full, and make that durable: then there are free slots.
            self.give_up(0);
            self.sync();
            return self.open_segment();
        };
        self.segment = SegmentId(self.segment.0 + 1);
        (self.slot, self.used, self.unspilled_from) = (slot, 0, 0);
        self.slots.insert(slot, (self.segment, None));
        self.record(Record::SegmentOpened { segment: self.segment, slot: SsdSlot(slot), memory: Some(MemorySlot(slot)) });
    }

    fn write(&mut self, len: u32, fill: u8) {
        if self.used + len > GEOMETRY.segment_bytes {
            self.spill();
            self.open_segment();
        }
        let bytes = vec![fill; len as usize];
        let at = LogRange { slot: Slot::Memory(MemorySlot(self.slot)), offset: self.used, len };
        self.log.write(at.slot, at.offset, &bytes).unwrap();
        let crc = self.log.checksum(at).unwrap();
        let (segment, segment_offset) = (self.segment, self.used);
        let lsn = Lsn(self.journal.next_position().0);
        let data = DataRecord { ino: Ino(2), file_offset: 0, len, segment, segment_offset, lsn, crc, time_ns: 0 };
        self.record(Record::Data(data));
        self.used += len;
    }

    fn spill(&mut self) {
        let len = self.used - self.unspilled_from;
        self.log.spill(MemorySlot(self.slot), SsdSlot(self.slot), self.unspilled_from, len).unwrap();
        self.unspilled_from = self.used;
    }

    fn sync(&mut self) {
        self.spill();
        let upto = Position(self.journal.next_position().0 - 1);
        self.log.sync().unwrap();
        self.journal.sync().unwrap();
        self.synced_to = upto.0;
        self.record(Record::Synced { upto });
    }

    /// Gives up the bytes of a full segment, by a record that stands for any that kills them; 0 for all of them.
    fn give_up(&mut self, segment: u64) {
        let open = self.segment;
        let full = self.slots.iter().filter(|(_, (id, gone))| gone.is_none() && *id != open && (segment == 0 || id.0 == segment));
        for (slot, id) in full.map(|(slot, (id, _))| (*slot, *id)).collect::<Vec<_>>() {
            let position = self.record(Record::SegmentSpilled { segment: id });
            self.slots.insert(slot, (id, Some(position)));
        }
    }
}

/// The pieces that are needed after these records, with their places and positions.
fn live(records: &[(Position, Record)]) -> Vec<(Position, LogRange, u32)> {
    let mut slots = BTreeMap::new();
    let mut pieces: Vec<(Position, SegmentId, LogRange, u32)> = Vec::new();
    for (position, record) in records {
        match record {
            Record::SegmentOpened { segment, slot, .. } => drop(slots.insert(*segment, *slot)),
            Record::SegmentSpilled { segment } => pieces.retain(|piece| piece.1 != *segment),
            Record::Data(data) => {
                let at = LogRange { slot: Slot::Ssd(slots[&data.segment]), offset: data.segment_offset, len: data.len };
                pieces.push((*position, data.segment, at, data.crc));
            }
            _ => {}
        }
    }
    pieces.into_iter().map(|(position, _, at, crc)| (position, at, crc)).collect()
}

fn run(seed: u64) -> (bool, bool) {
    let mut random = Random(seed);
    let mut writer = Writer::new();
    let mut reused = false;
    for step in 0..random.below(120) {
        match random.below(16) {
            0 | 1 => writer.sync(),
            2 => writer.spill(),
            3 => {
                let segment = random.below(writer.segment.0) + 1;
                writer.give_up(segment);
            }
            _ => writer.write(random.below(5000) as u32 + 1, step as u8),
        }
        reused |= writer.segment.0 > u64::from(GEOMETRY.ssd_slots);
    }
    writer.directory.power_loss(seed);
    writer.ssd.power_loss(!seed);

    let shared: Arc<dyn Directory> = Arc::new(writer.directory.clone());
    let opened = Journal::open(shared, identity(2), true).unwrap();
    assert!(!matches!(opened.end, JournalEnd::Damaged { .. }), "seed {seed}: {:?}", opened.end);
    assert!(!opened.memory_intact);
    let mut records = opened.records;
    for (position, record) in &records {
        assert_eq!(writer.written.get(&position.0), Some(record), "seed {seed}");
    }
    let last = records.last().map_or(0, |(position, _)| position.0);
    assert!(last >= writer.synced_to, "seed {seed}: {last} of {} synced", writer.synced_to);

    // Recovery: history ends before the first needed piece whose bytes did not reach the SSD, and that was not synced.
    let memory = Arc::new(MemoryDevice::new(GEOMETRY.memory_bytes() as usize));
    let log = LogStore::new(GEOMETRY, memory, Arc::new(writer.ssd.clone()));
    let bad = |at: LogRange, crc: u32| log.checksum(at).map_or(true, |found| found != crc);
    let mut cut = false;
    while let Some((position, ..)) = live(&records).into_iter().find(|(_, at, crc)| bad(*at, *crc)) {
        assert!(position.0 > writer.synced_to, "seed {seed}: the bytes of {position:?} are gone, though {} was synced", writer.synced_to);
        records.retain(|(other, _)| *other < position);
        cut = true;
    }
    (reused, cut)
}

#[test]
fn what_was_synced_is_there_with_its_bytes() {
    let runs: Vec<_> = (0..SEEDS).map(run).collect();
    assert!(runs.iter().any(|(reused, _)| *reused), "some runs must use slots again");
    assert!(runs.iter().any(|(_, cut)| *cut), "some runs must lose unsynced bytes");
}
