//! The simulated log: a memory file that a power loss empties, and an SSD that may keep or lose each sector that was not synced.

use std::collections::BTreeMap;

use forebay_core::effect::{LogRange, Slot};

use crate::rng::Rng;

/// The bytes of all segment slots.
#[derive(Debug)]
pub struct Log {
    segment_bytes: usize,
    sector_bytes: usize,
    memory: Vec<u8>,
    ssd: Vec<u8>,
    /// Sectors of the SSD that a power loss may turn back.
    unsynced: BTreeMap<usize, Unsynced>,
    generations: u64,
}

#[derive(Debug)]
struct Unsynced {
    /// What the medium surely holds.
    durable: Vec<u8>,
    /// Changes with every write of the sector.
    generation: u64,
    /// Whether the machine has been told that the last write is done: only then does a sync promise it.
    completed: bool,
}

/// What a sync that has begun will have made durable when it ends.
#[derive(Debug)]
pub struct LogSync(Vec<(usize, u64, Vec<u8>)>);

impl Log {
    /// A log of this many slots. New memory is not zero, so that a read of bytes never written shows.
    pub fn new(segment_bytes: u32, segments: u32, memory_segments: u32, sector_bytes: usize) -> Log {
        let segment_bytes = segment_bytes as usize;
        Log {
            segment_bytes,
            sector_bytes,
            memory: vec![0xEE; segment_bytes * memory_segments as usize],
            ssd: vec![0xDD; segment_bytes * segments as usize],
            unsynced: BTreeMap::new(),
            generations: 0,
        }
    }

    fn start(&self, at: LogRange) -> usize {
        let slot = match at.slot {
            Slot::Memory(slot) => slot.0,
            Slot::Ssd(slot) => slot.0,
        };
        slot as usize * self.segment_bytes + at.offset as usize
    }

    /// The bytes of a range.
    pub fn read(&self, at: LogRange) -> &[u8] {
        let start = self.start(at);
        let device = match at.slot {
            Slot::Memory(_) => &self.memory,
            Slot::Ssd(_) => &self.ssd,
        };
        &device[start..start + at.len as usize]
    }

    /// Writes the bytes of a range.
    pub fn write(&mut self, at: LogRange, bytes: &[u8]) {
        assert_eq!(bytes.len(), at.len as usize);
        let start = self.start(at);
        match at.slot {
            Slot::Memory(_) => self.memory[start..start + bytes.len()].copy_from_slice(bytes),
            Slot::Ssd(_) => {
                self.touch(start, bytes.len());
                self.ssd[start..start + bytes.len()].copy_from_slice(bytes);
            }
        }
    }

    fn touch(&mut self, start: usize, len: usize) {
        self.generations += 1;
        for sector in sectors(self.sector_bytes, start, len) {
            let at = sector * self.sector_bytes;
            let ssd = &self.ssd;
            let sector_bytes = self.sector_bytes;
            let unsynced = self.unsynced.entry(sector).or_insert_with(|| Unsynced {
                durable: ssd[at..at + sector_bytes].to_vec(),
                generation: 0,
                completed: false,
            });
            unsynced.generation = self.generations;
            unsynced.completed = false;
        }
    }

    /// The machine is told that a write of this range is done.
    pub fn completed(&mut self, at: LogRange) {
        if let Slot::Ssd(_) = at.slot {
            for sector in sectors(self.sector_bytes, self.start(at), at.len as usize) {
                if let Some(unsynced) = self.unsynced.get_mut(&sector) {
                    unsynced.completed = true;
                }
            }
        }
    }

    /// A sync begins: it covers what is completed now.
    pub fn begin_sync(&self) -> LogSync {
        let completed = self.unsynced.iter().filter(|(_, unsynced)| unsynced.completed);
        LogSync(
            completed
                .map(|(sector, unsynced)| {
                    let at = sector * self.sector_bytes;
                    (*sector, unsynced.generation, self.ssd[at..at + self.sector_bytes].to_vec())
                })
                .collect(),
        )
    }

    /// A sync ends.
    pub fn finish_sync(&mut self, sync: LogSync) {
        for (sector, generation, bytes) in sync.0 {
            let Some(unsynced) = self.unsynced.get_mut(&sector) else { continue };
            if unsynced.generation == generation {
                self.unsynced.remove(&sector);
            } else {
                unsynced.durable = bytes;
            }
        }
    }

    /// The power fails: memory is gone, and each unsynced sector is there or not.
    pub fn lose_power(&mut self, rng: &mut Rng) {
        self.memory.fill(0xEE);
        let kept_per_mille = *rng.pick(&[0, 200, 500, 900]);
        for (sector, unsynced) in std::mem::take(&mut self.unsynced) {
            if !rng.chance(kept_per_mille) {
                let at = sector * self.sector_bytes;
                self.ssd[at..at + self.sector_bytes].copy_from_slice(&unsynced.durable);
            }
        }
    }

    /// Turns one bit of a range around.
    pub fn flip_bit(&mut self, at: LogRange, rng: &mut Rng) {
        let byte = self.start(at) + rng.below(u64::from(at.len)) as usize;
        match at.slot {
            Slot::Memory(_) => self.memory[byte] ^= 1,
            Slot::Ssd(_) => self.ssd[byte] ^= 1,
        }
    }
}

fn sectors(sector_bytes: usize, start: usize, len: usize) -> std::ops::Range<usize> {
    start / sector_bytes..(start + len).div_ceil(sector_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::id::{MemorySlot, SsdSlot};

    fn ssd(offset: u32, len: u32) -> LogRange {
        LogRange { slot: Slot::Ssd(SsdSlot(1)), offset, len }
    }

    #[test]
    fn a_sync_covers_what_was_completed_before_it_and_nothing_else() {
        for seed in 0..50 {
            let mut log = Log::new(4096, 2, 1, 512);
            log.write(ssd(0, 1024), &[1; 1024]);
            log.completed(ssd(0, 1024));
            let sync = log.begin_sync();
            log.write(ssd(1024, 512), &[2; 512]);
            log.completed(ssd(1024, 512));
            log.finish_sync(sync);
            log.lose_power(&mut Rng::new(seed));
            assert_eq!(log.read(ssd(0, 1024)), [1; 1024], "seed {seed}");
            assert!([2, 0xDD].contains(&log.read(ssd(1024, 512))[0]));
        }
    }

    #[test]
    fn a_sector_written_again_during_a_sync_falls_back_to_what_was_synced() {
        let mut fell_back = false;
        for seed in 0..50 {
            let mut log = Log::new(4096, 2, 1, 512);
            log.write(ssd(0, 512), &[1; 512]);
            log.completed(ssd(0, 512));
            let sync = log.begin_sync();
            log.write(ssd(0, 512), &[2; 512]);
            log.finish_sync(sync);
            log.lose_power(&mut Rng::new(seed));
            let first = log.read(ssd(0, 512))[0];
            assert!(first == 1 || first == 2);
            fell_back |= first == 1;
        }
        assert!(fell_back);
    }

    #[test]
    fn memory_is_lost() {
        let mut log = Log::new(4096, 2, 1, 512);
        let at = LogRange { slot: Slot::Memory(MemorySlot(0)), offset: 5, len: 3 };
        log.write(at, &[1, 2, 3]);
        assert_eq!(log.read(at), [1, 2, 3]);
        log.lose_power(&mut Rng::new(1));
        assert_ne!(log.read(at), [1, 2, 3]);
    }
}
