//! Exact reuse distances (B-16): how many different other chunks were used since a chunk was used last.
//!
//! Each chunk stands at the time of its last use; the distance is the number of chunks that stand later. Times are bits, set where a
//! chunk stands; a tree of sums (Fenwick's) over blocks of them counts the bits up to a time. When all times are used up, the chunks move
//! together and time begins again behind them, so that the tree stays as large as there are chunks, not as there are uses.

/// Times of a block, and words of its bits.
const BLOCK: u32 = 256;
const WORDS: usize = (BLOCK / 64) as usize;
/// The fewest times between two moves.
const TIMES_MIN: u32 = 1 << 14;
const NEVER: u32 = u32::MAX;

/// Gives the reuse distance of each use, in O(log chunks).
pub struct Distances {
    /// When each chunk was used last, and the caller's note on it.
    last: Vec<(u32, u32)>,
    /// Which chunk was used at a time.
    chunk_at: Vec<u32>,
    /// Bit `t`: a chunk was used last at time `t`.
    bits: Vec<u64>,
    /// Sums of bits over blocks, from 1 on; without the open block.
    tree: Vec<u32>,
    /// Bits in the block in which the present time is.
    open: u32,
    now: u32,
    /// Chunks that were used.
    chunks: u32,
}

impl Distances {
    /// Nothing was used yet.
    #[must_use]
    pub fn new() -> Distances {
        let mut new = Distances { last: Vec::new(), chunk_at: Vec::new(), bits: Vec::new(), tree: Vec::new(), open: 0, now: 0, chunks: 0 };
        new.resize(TIMES_MIN);
        new
    }

    /// Notes the use of a chunk; the number of different others since its last use, if there was one.
    pub fn reference(&mut self, chunk: u32) -> Option<u32> {
        if self.now as usize == self.chunk_at.len() {
            self.move_together();
        }
        if chunk as usize >= self.last.len() {
            self.last.resize((chunk as usize + 1).next_power_of_two().max(1024), (NEVER, 0));
        }
        let now = self.now;
        let last = std::mem::replace(&mut self.last[chunk as usize].0, now);
        let distance = if last == NEVER {
            self.chunks += 1;
            None
        } else {
            let distance = self.chunks - self.used_until(last);
            self.bits[last as usize / 64] &= !(1 << (last % 64));
            if last / BLOCK == now / BLOCK {
                self.open -= 1;
            } else {
                self.subtract(last / BLOCK);
            }
            Some(distance)
        };
        self.chunk_at[now as usize] = chunk;
        self.bits[now as usize / 64] |= 1 << (now % 64);
        self.open += 1;
        self.now += 1;
        if self.now.is_multiple_of(BLOCK) {
            self.close(now / BLOCK);
        }
        distance
    }

    /// The caller's note on a chunk that was used, 0 at first: it stands where the use has just been noted.
    pub fn note(&mut self, chunk: u32) -> &mut u32 {
        &mut self.last[chunk as usize].1
    }

    /// Forgets a chunk as if it had never been used.
    pub fn remove(&mut self, chunk: u32) {
        let Some(last) = self.last.get_mut(chunk as usize) else { return };
        let last = std::mem::replace(&mut last.0, NEVER);
        if last == NEVER {
            return;
        }
        self.chunks -= 1;
        self.bits[last as usize / 64] &= !(1 << (last % 64));
        if last / BLOCK == self.now / BLOCK {
            self.open -= 1;
        } else {
            self.subtract(last / BLOCK);
        }
    }

    /// The chunks that were used and their notes, the one that has not been used for the longest time first.
    pub fn oldest_first(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let used = (0..self.now as usize).filter(|time| self.bits[time / 64] >> (time % 64) & 1 == 1);
        used.map(|time| (self.chunk_at[time], self.last[self.chunk_at[time] as usize].1))
    }

    /// How many different chunks were used.
    #[must_use]
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Chunks that were used last at `time` or before.
    fn used_until(&self, time: u32) -> u32 {
        let block = (time / BLOCK) as usize;
        let (word, bit) = (time as usize / 64, time % 64);
        let mut sum = (self.bits[word] << (63 - bit)).count_ones();
        sum += self.bits[block * WORDS..word].iter().map(|word| word.count_ones()).sum::<u32>();
        let mut at = block;
        while at > 0 {
            sum += self.tree[at];
            at &= at - 1;
        }
        sum
    }

    fn subtract(&mut self, block: u32) {
        let mut at = block as usize + 1;
        while at < self.tree.len() {
            self.tree[at] -= 1;
            at += at & at.wrapping_neg();
        }
    }

    /// Enters the open block into the tree.
    fn close(&mut self, block: u32) {
        let mut at = block as usize + 1;
        let bits = std::mem::take(&mut self.open);
        while at < self.tree.len() {
            self.tree[at] += bits;
            at += at & at.wrapping_neg();
        }
    }

    /// Gives the chunks the first times, in their order, and room for as many uses as there are chunks at least.
    fn move_together(&mut self) {
        let mut time = 0;
        for old in 0..self.chunk_at.len() {
            if self.bits[old / 64] >> (old % 64) & 1 == 1 {
                let chunk = self.chunk_at[old];
                self.chunk_at[time as usize] = chunk;
                self.last[chunk as usize].0 = time;
                time += 1;
            }
        }
        debug_assert_eq!(time, self.chunks);
        self.resize((time * 2).next_multiple_of(BLOCK).max(TIMES_MIN));
    }

    /// Room for this many times, of which the first `chunks` are used.
    fn resize(&mut self, times: u32) {
        self.chunk_at.resize(times as usize, 0);
        self.bits.clear();
        self.bits.resize(times as usize / 64, 0);
        for time in 0..self.chunks {
            self.bits[time as usize / 64] |= 1 << (time % 64);
        }
        self.tree.clear();
        self.tree.resize((times / BLOCK) as usize + 1, 0);
        self.now = self.chunks;
        for block in 0..self.now / BLOCK {
            self.open = BLOCK;
            self.close(block);
        }
        self.open = self.now % BLOCK;
    }
}

impl Default for Distances {
    fn default() -> Self {
        Distances::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::pairs::mix;

    /// B-16 [THESIS-2]: in A B C D C B A, C has distance 1, B 2 and A 3.
    #[test]
    fn the_example_of_the_thesis() {
        let mut distances = Distances::new();
        let found: Vec<Option<u32>> = "ABCDCBA".bytes().map(|letter| distances.reference(u32::from(letter))).collect();
        assert_eq!(found, [None, None, None, None, Some(1), Some(2), Some(3)]);
    }

    /// Against a list with the last used at the front, long enough for several moves.
    #[test]
    fn agrees_with_a_list() {
        for (seed, chunks, uses) in [(1, 5, 40_000), (2, 300, 60_000), (3, 20_000, 70_000)] {
            let mut distances = Distances::new();
            let mut list: Vec<u32> = Vec::new();
            for n in 0..uses {
                let random = mix(0, n, seed);
                let chunk = ((random % chunks).min((random >> 32) % chunks)) as u32;
                if random >> 40 & 1023 == 0 {
                    distances.remove(chunk);
                    list.retain(|c| *c != chunk);
                    continue;
                }
                let expected = list.iter().rev().position(|c| *c == chunk);
                if let Some(at) = expected {
                    list.remove(list.len() - 1 - at);
                }
                list.push(chunk);
                assert_eq!(distances.reference(chunk), expected.map(|at| at as u32), "use {n} with seed {seed}");
            }
            assert_eq!(distances.chunks() as usize, list.len());
        }
    }
}
