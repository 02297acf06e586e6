//! From a chunk to its slot: a hash table with linear probing.
//!
//! Nobody asks for the chunks in order, and with an ordered map in this place a decision takes two to three times as long (LRU: 225 and
//! 374 ns instead of 89 and 103 ns with 10^3 and 10^5 chunks). The hash is fixed and the table is never walked: it decides nothing.

use alloc::vec;
use alloc::vec::Vec;

use crate::id::ChunkId;

const EMPTY: u64 = u64::MAX;
/// The smallest table, in places; a power of two.
const PLACES_MIN: usize = 16;

/// Slots by the hash of their chunk. The chunks themselves stand in the slots: whoever asks compares them.
pub(super) struct Table {
    /// In each place `EMPTY`, or a hash in the upper half and a slot in the lower half. The number of places is a power of two.
    /// Between the place that a hash asks for (its upper bits) and the place where it stands there is no empty one.
    places: Vec<u64>,
    len: usize,
}

/// The hash of the name of a chunk: the same everywhere and always.
pub fn hash(chunk: ChunkId) -> u32 {
    // The finalizer of SplitMix64 over both numbers: neighbouring chunks and files fall far apart.
    let mut z = chunk.ino.0.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(chunk.index);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 32) as u32
}

impl Table {
    pub(super) fn new() -> Self {
        Table { places: Vec::new(), len: 0 }
    }

    /// The slot of this hash that `is_it` says yes to.
    pub(super) fn find(&self, hash: u32, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.place_of(hash, is_it).map(|place| self.places[place] as u32)
    }

    /// Adds a slot that is not in the table.
    pub(super) fn insert(&mut self, hash: u32, slot: u32) {
        // At most three of four places are taken, or the ways get long.
        if (self.len + 1) * 4 > self.places.len() * 3 {
            self.grow();
        }
        self.put(u64::from(hash) << 32 | u64::from(slot));
        self.len += 1;
    }

    /// Takes a slot of this hash out.
    pub(super) fn remove(&mut self, hash: u32, slot: u32) {
        let Some(mut hole) = self.place_of(hash, |other| other == slot) else { return };
        self.len -= 1;
        let mut at = self.next(hole);
        // What stands behind the hole moves into it, unless it would come before the place that it asks for.
        while self.places[at] != EMPTY {
            let wanted = self.wanted((self.places[at] >> 32) as u32);
            let mask = self.places.len() - 1;
            if (at.wrapping_sub(wanted) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.places[hole] = self.places[at];
                hole = at;
            }
            at = self.next(at);
        }
        self.places[hole] = EMPTY;
    }

    fn place_of(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut at = self.wanted(hash);
        while self.places[at] != EMPTY {
            if (self.places[at] >> 32) as u32 == hash && is_it(self.places[at] as u32) {
                return Some(at);
            }
            at = self.next(at);
        }
        None
    }

    fn put(&mut self, entry: u64) {
        let mut at = self.wanted((entry >> 32) as u32);
        while self.places[at] != EMPTY {
            at = self.next(at);
        }
        self.places[at] = entry;
    }

    fn grow(&mut self) {
        let places = (self.places.len() * 2).max(PLACES_MIN);
        let old = core::mem::replace(&mut self.places, vec![EMPTY; places]);
        for entry in old.into_iter().filter(|entry| *entry != EMPTY) {
            self.put(entry);
        }
    }

    fn wanted(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.places.len() as u64) >> 32) as usize
    }

    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    /// Few different hashes, so that most slots stand away from the place that they ask for, some of them past the end.
    #[test]
    fn agrees_with_a_map_when_hashes_meet() {
        let (mut table, mut map) = (Table::new(), BTreeMap::new());
        let mut random = 1u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let slot = (random >> 33) as u32 % 200;
            let hash = (slot % 7) * 0x2000_0000 + 0x1FFF_FFFF;
            match map.remove(&slot) {
                Some(()) => table.remove(hash, slot),
                None => {
                    map.insert(slot, ());
                    table.insert(hash, slot);
                }
            }
            assert_eq!(table.len, map.len());
            for other in 0..200 {
                let hash = (other % 7) * 0x2000_0000 + 0x1FFF_FFFF;
                let found = table.find(hash, |slot| slot == other);
                assert_eq!(found, map.get(&other).map(|()| other), "slot {other} after slot {slot} changed");
            }
        }
    }

    #[test]
    fn chunks_of_many_files_spread() {
        let mut counts = [0u32; 256];
        for ino in 0..256 {
            for index in 0..64 {
                counts[(hash(ChunkId { ino: crate::id::Ino(ino), index }) >> 24) as usize] += 1;
            }
        }
        let (min, max) = (counts.iter().min(), counts.iter().max());
        assert!(min > Some(&30) && max < Some(&110), "64 are expected in each of 256 parts, not {min:?} to {max:?}");
    }
}
