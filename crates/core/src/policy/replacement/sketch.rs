//! How often chunks were used lately, about: counters that many chunks share.

use alloc::vec;
use alloc::vec::Vec;

/// Counters of each chunk: one in each of the rows. The smallest one has the fewest uses of others in it.
const ROWS: usize = 4;
/// A counter has four bits and stops here.
const COUNT_MAX: u8 = 15;
/// After this many uses for each chunk of the buffer all counters are halved, so that what was used long ago counts less.
const USES_PER_CHUNK: u64 = 10;
/// Counters in a row for each chunk of the buffer, at least.
const COUNTERS_PER_CHUNK: usize = 4;
/// Counters in the smallest and the largest row.
const COUNTERS_MIN: usize = 1024;
const COUNTERS_MAX: usize = 1 << 26;

/// Counts uses; a count is never below the truth (since the last halving, and up to fifteen), and seldom above.
pub(super) struct Sketch {
    /// Two counters in each byte; the rows one after the other.
    counters: Vec<u8>,
    /// Counters in a row, a power of two, less one.
    mask: u32,
    uses: u64,
    uses_max: u64,
}

impl Sketch {
    pub(super) fn new(capacity_chunks: usize) -> Self {
        let wanted = capacity_chunks.saturating_mul(COUNTERS_PER_CHUNK).clamp(COUNTERS_MIN, COUNTERS_MAX);
        let row = wanted.next_power_of_two();
        let uses_max = (capacity_chunks as u64).max(1).saturating_mul(USES_PER_CHUNK);
        Sketch { counters: vec![0; ROWS * row / 2], mask: (row - 1) as u32, uses: 0, uses_max }
    }

    /// Notes a use.
    pub(super) fn add(&mut self, hash: u32) {
        let count = self.count(hash);
        if count < COUNT_MAX {
            // Only the smallest counters rise: the others have uses of others in them anyway.
            for row in 0..ROWS {
                let place = self.place(hash, row);
                if self.get(place) == count {
                    self.counters[place / 2] += 1 << (place % 2 * 4);
                }
            }
        }
        self.uses += 1;
        if self.uses >= self.uses_max {
            self.uses /= 2;
            self.counters.iter_mut().for_each(|pair| *pair = (*pair >> 1) & 0x77);
        }
    }

    /// About how often it was used.
    pub(super) fn count(&self, hash: u32) -> u8 {
        (0..ROWS).map(|row| self.get(self.place(hash, row))).min().unwrap_or(0)
    }

    fn get(&self, place: usize) -> u8 {
        self.counters[place / 2] >> (place % 2 * 4) & 15
    }

    fn place(&self, hash: u32, row: usize) -> usize {
        // Odd constants without a pattern, one for each row.
        const MIX: [u32; ROWS] = [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D, 0x27D4_EB2F];
        let mixed = (hash ^ hash >> 15).wrapping_mul(MIX[row]);
        row * (self.mask as usize + 1) + ((mixed ^ mixed >> 16) & self.mask) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_never_too_small_and_seldom_too_large() {
        let mut sketch = Sketch::new(1000);
        let uses = |n: u32| n % 7 + 1;
        for n in 0..1000u32 {
            (0..uses(n)).for_each(|_| sketch.add(n.wrapping_mul(0x1234_5677)));
        }
        let over = (0..1000u32).filter(|n| {
            let count = u32::from(sketch.count(n.wrapping_mul(0x1234_5677)));
            assert!(count >= uses(*n), "{n} was used {} times, not {count}", uses(*n));
            count > uses(*n)
        });
        assert!(over.count() < 20);
    }

    #[test]
    fn counts_stop_and_are_halved() {
        let mut sketch = Sketch::new(10);
        (0..99).for_each(|_| sketch.add(5));
        assert_eq!(sketch.count(5), 15);
        sketch.add(5);
        assert_eq!(sketch.count(5), 7, "the hundredth use halves");
    }
}
