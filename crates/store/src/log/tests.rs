use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::*;
use crate::device::{Fault, FaultyDevice, MemoryDevice};
use crate::random::SplitMix;

const SEGMENT: u32 = 8192;
const GEOMETRY: Geometry = Geometry { segment_bytes: SEGMENT, ssd_slots: 4, memory_slots: 2, chunk_bytes: 4096 };

fn memory(slot: u32) -> Slot {
    Slot::Memory(MemorySlot(slot))
}

fn ssd(slot: u32) -> Slot {
    Slot::Ssd(SsdSlot(slot))
}

fn range(slot: Slot, offset: u32, len: u32) -> LogRange {
    LogRange { slot, offset, len }
}

fn log() -> (LogStore, Arc<MemoryDevice>) {
    let ssd = Arc::new(MemoryDevice::new(GEOMETRY.ssd_bytes() as usize));
    let memory = Arc::new(MemoryDevice::new(GEOMETRY.memory_bytes() as usize));
    (LogStore::new(GEOMETRY, memory, ssd.clone()), ssd)
}

fn read(log: &LogStore, slot: Slot, offset: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    log.read(slot, offset, &mut bytes).unwrap();
    bytes
}

#[test]
fn slots_do_not_touch_each_other() {
    let (log, _) = log();
    let slots = [memory(0), memory(1), ssd(0), ssd(1), ssd(2), ssd(3)];
    for (n, slot) in slots.into_iter().enumerate() {
        log.write(slot, 0, &[n as u8 + 1; SEGMENT as usize]).unwrap();
    }
    for (n, slot) in slots.into_iter().enumerate() {
        assert!(read(&log, slot, 0, SEGMENT as usize).iter().all(|byte| usize::from(*byte) == n + 1));
    }
}

#[test]
fn nothing_goes_beyond_a_segment_or_the_log() {
    let (log, _) = log();
    for (slot, offset, len) in [(memory(2), 0, 1), (ssd(4), 0, 1), (ssd(0), SEGMENT, 1), (ssd(0), SEGMENT - 4, 5), (memory(0), u32::MAX, 9)]
    {
        assert!(matches!(log.write(slot, offset, &vec![0; len]), Err(LogError::OutOfBounds { .. })));
        assert!(matches!(log.read(slot, offset, &mut vec![0; len]), Err(LogError::OutOfBounds { .. })));
        assert_eq!(log.checksum(range(slot, offset, len as u32)).unwrap_err().errno(), Errno::EINVAL);
    }
    assert!(log.spill(MemorySlot(0), SsdSlot(4), 0, 1).is_err());
    assert!(log.spill(MemorySlot(2), SsdSlot(0), 0, 1).is_err());
    assert!(log.spill(MemorySlot(0), SsdSlot(0), 1, SEGMENT).is_err());
    assert!(log.copy(range(memory(0), 0, 5), range(ssd(0), 0, 6)).is_err());
}

#[test]
fn a_spill_is_widened_within_the_segment_and_brings_the_bytes() {
    let (log, device) = log();
    log.write(memory(1), 0, &[7; SEGMENT as usize]).unwrap();
    log.write(memory(1), 5000, b"payload").unwrap();
    log.spill(MemorySlot(1), SsdSlot(2), 5000, 7).unwrap();
    assert_eq!(read(&log, ssd(2), 5000, 7), b"payload");
    device.with_bytes(|bytes| {
        let segment = SEGMENT as usize;
        assert!(bytes[..2 * segment + 4096].iter().all(|byte| *byte == 0));
        assert_eq!(bytes[2 * segment + 4096], 7);
        assert!(bytes[3 * segment..].iter().all(|byte| *byte == 0));
    });
    log.spill(MemorySlot(1), SsdSlot(2), 0, 0).unwrap();
    assert_eq!(read(&log, ssd(2), 0, 1), [0]);
    log.spill(MemorySlot(1), SsdSlot(2), 0, SEGMENT).unwrap();
    assert_eq!(read(&log, ssd(2), 0, SEGMENT as usize), read(&log, memory(1), 0, SEGMENT as usize));
}

/// A device whose first write waits for someone else to be done, as long as that can be expected to happen.
struct Late {
    device: MemoryDevice,
    begun: AtomicBool,
    other_done: AtomicBool,
}

impl Device for Late {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.device.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        if !self.begun.swap(true, Ordering::SeqCst) {
            let deadline = Instant::now() + Duration::from_millis(200);
            while !self.other_done.load(Ordering::SeqCst) && Instant::now() < deadline {
                std::thread::yield_now();
            }
        }
        self.device.write_at(offset, buf)
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        self.device.len()
    }
}

/// A spill that has read its block and is late to write it does not undo the neighbour that came between.
#[test]
fn spills_of_neighbours_do_not_undo_each_other() {
    let device = MemoryDevice::new(GEOMETRY.ssd_bytes() as usize);
    let late = Arc::new(Late { device, begun: AtomicBool::new(false), other_done: AtomicBool::new(false) });
    let memory_device = Arc::new(MemoryDevice::new(GEOMETRY.memory_bytes() as usize));
    let log = LogStore::new(GEOMETRY, memory_device, late.clone());
    log.write(memory(0), 0, b"first").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| log.spill(MemorySlot(0), SsdSlot(1), 0, 5).unwrap());
        while !late.begun.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        log.write(memory(0), 5, b" second").unwrap();
        log.spill(MemorySlot(0), SsdSlot(1), 5, 7).unwrap();
        late.other_done.store(true, Ordering::SeqCst);
    });
    assert_eq!(read(&log, ssd(1), 0, 12), b"first second");
}

#[test]
fn copies_and_checksums_agree() {
    let (log, _) = log();
    let bytes: Vec<u8> = (0..6000).map(|n| (n % 251) as u8).collect();
    log.write(memory(0), 100, &bytes).unwrap();
    let crc = crc32c::crc32c(&bytes);
    assert_eq!(log.checksum(range(memory(0), 100, 6000)).unwrap(), crc);
    assert_eq!(log.copy(range(memory(0), 100, 6000), range(ssd(3), 7, 6000)).unwrap(), crc);
    assert_eq!(log.copy(range(ssd(3), 7, 6000), range(ssd(0), 0, 6000)).unwrap(), crc);
    assert_eq!(read(&log, ssd(0), 0, 6000), bytes);
    assert_eq!(log.checksum(range(ssd(0), 0, 0)).unwrap(), 0);
}

#[test]
fn gathering_checks_the_whole_record() {
    let (log, device) = log();
    let bytes: Vec<u8> = (0..5000).map(|n| (n % 253) as u8).collect();
    log.write(ssd(1), 40, &bytes).unwrap();
    let record = range(ssd(1), 40, 5000);
    let piece = HomePiece { at: range(ssd(1), 1040, 300), record, record_crc: crc32c::crc32c(&bytes) };
    let mut out = b"before".to_vec();
    log.gather(&piece, &mut out).unwrap();
    assert_eq!(out, [b"before", &bytes[1000..1300]].concat());

    // Rot outside the wanted part is seen too, and nothing is handed out.
    device.with_bytes(|bytes| bytes[SEGMENT as usize + 40 + 4999] ^= 1);
    let error = log.gather(&piece, &mut out).unwrap_err();
    assert!(matches!(error, LogError::Damaged { offset: 40, len: 5000, .. }), "{error}");
    assert_eq!((error.errno(), out.len()), (Errno::EIO, 306));
    let outside = HomePiece { at: range(ssd(1), 39, 2), ..piece };
    assert!(matches!(log.gather(&outside, &mut out), Err(LogError::OutOfBounds { .. })));
}

#[test]
fn errors_of_the_device_come_through() {
    let device = FaultyDevice::new();
    let memory_device = Arc::new(MemoryDevice::new(GEOMETRY.memory_bytes() as usize));
    let log = LogStore::new(GEOMETRY, memory_device, Arc::new(device.clone()));
    device.fail_at(0, Fault::Enospc);
    assert_eq!(log.write(ssd(0), 0, b"x").unwrap_err().errno(), Errno::ENOSPC);
    device.fail_at(0, Fault::Eio);
    assert_eq!(log.spill(MemorySlot(0), SsdSlot(0), 0, 1).unwrap_err().errno(), Errno::EIO);
    log.sync().unwrap();
    device.fail_at(0, Fault::LostSync);
    assert_eq!(log.sync().unwrap_err().errno(), Errno::EIO);
    assert!(log.sync().is_err(), "what was lost does not come back");
}

/// Rot in a segment: the checksum of the record tells, for every bit.
#[test]
fn rot_in_a_segment_is_seen() {
    let (log, device) = log();
    for seed in 0..200 {
        let mut random = SplitMix::new(seed);
        let len = random.below(4000) as usize + 1;
        let bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        log.write(ssd(1), 0, &bytes).unwrap();
        let record = range(ssd(1), 0, len as u32);
        let piece = HomePiece { at: record, record, record_crc: crc32c::crc32c(&bytes) };
        log.gather(&piece, &mut Vec::new()).unwrap();
        let at = random.below(len as u64) as usize;
        device.with_bytes(|bytes| bytes[SEGMENT as usize + at] ^= 1 << random.below(8));
        assert!(matches!(log.gather(&piece, &mut Vec::new()), Err(LogError::Damaged { .. })), "seed {seed}");
    }
}
