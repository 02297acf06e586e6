//! A file's bytes, sparse, cheap to clone: states of the model and of home share the blocks that they have in common.

use std::collections::BTreeMap;
use std::rc::Rc;

/// Bytes of a block.
pub const BLOCK_BYTES: u64 = 4096;

type Block = [u8; BLOCK_BYTES as usize];

/// Bytes from offset 0 on; what was never written is zero. A size is kept elsewhere.
#[derive(Clone, Default, Debug)]
pub struct Bytes {
    blocks: BTreeMap<u64, Rc<Block>>,
}

const ZERO: Block = [0; BLOCK_BYTES as usize];

impl Bytes {
    /// Reads `into.len()` bytes at `offset`.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        into.fill(0);
        for_blocks(offset, into.len(), |index, at, range| {
            if let Some(block) = self.blocks.get(&index) {
                let len = range.len();
                into[range].copy_from_slice(&block[at..at + len]);
            }
        });
    }

    /// `len` bytes at `offset`.
    pub fn slice(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.read(offset, &mut bytes);
        bytes
    }

    /// Writes `from` at `offset`.
    pub fn write(&mut self, offset: u64, from: &[u8]) {
        for_blocks(offset, from.len(), |index, at, range| {
            let block = Rc::make_mut(self.blocks.entry(index).or_insert_with(|| Rc::new(ZERO)));
            block[at..at + range.len()].copy_from_slice(&from[range]);
        });
    }

    /// Zeros the bytes `start..end`.
    pub fn zero(&mut self, start: u64, end: u64) {
        let mut at = start;
        while at < end {
            let (index, from) = (at / BLOCK_BYTES, (at % BLOCK_BYTES) as usize);
            let next = ((index + 1) * BLOCK_BYTES).min(end);
            if next - at == BLOCK_BYTES {
                self.blocks.remove(&index);
            } else if let Some(block) = self.blocks.get_mut(&index) {
                Rc::make_mut(block)[from..from + (next - at) as usize].fill(0);
            }
            at = next;
        }
    }

    /// The first offset in `start..end` whose byte is a zero, or is none.
    pub fn find(&self, start: u64, end: u64, zero: bool) -> Option<u64> {
        let bytes = self.slice(start, end.saturating_sub(start) as usize);
        bytes.iter().position(|byte| (*byte == 0) == zero).map(|at| start + at as u64)
    }

    /// Zeros everything from `size` on.
    pub fn truncate(&mut self, size: u64) {
        let first_whole = size.div_ceil(BLOCK_BYTES);
        self.blocks.split_off(&first_whole);
        let at = (size % BLOCK_BYTES) as usize;
        if at != 0
            && let Some(block) = self.blocks.get_mut(&(size / BLOCK_BYTES))
        {
            Rc::make_mut(block)[at..].fill(0);
        }
    }

    /// The first offset at which the two differ.
    pub fn first_difference(&self, other: &Bytes) -> Option<u64> {
        let mut indexes: Vec<u64> = self.blocks.keys().chain(other.blocks.keys()).copied().collect();
        indexes.sort_unstable();
        indexes.dedup();
        indexes.into_iter().find_map(|index| {
            let (a, b) = (self.block(index), other.block(index));
            if std::ptr::eq(a, b) {
                return None;
            }
            a.iter().zip(b).position(|(a, b)| a != b).map(|at| index * BLOCK_BYTES + at as u64)
        })
    }

    /// Ranges (start, end) that hold everything in which the two differ: from the first to the last difference in a block.
    pub fn differences(&self, other: &Bytes) -> Vec<(u64, u64)> {
        let mut indexes: Vec<u64> = self.blocks.keys().chain(other.blocks.keys()).copied().collect();
        indexes.sort_unstable();
        indexes.dedup();
        let in_block = |index: u64| {
            let (a, b) = (self.block(index), other.block(index));
            let differ = |(a, b): (&u8, &u8)| a != b;
            let first = if std::ptr::eq(a, b) { None } else { a.iter().zip(b).position(differ) }?;
            let last = a.iter().zip(b).rposition(differ)?;
            Some((index * BLOCK_BYTES + first as u64, index * BLOCK_BYTES + last as u64 + 1))
        };
        indexes.into_iter().filter_map(in_block).collect()
    }

    fn block(&self, index: u64) -> &Block {
        self.blocks.get(&index).map_or(&ZERO, |block| block)
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Bytes) -> bool {
        self.first_difference(other).is_none()
    }
}

impl Eq for Bytes {}

/// Calls `each` with the block's index, the offset in it, and the range of the buffer, for every block touched.
fn for_blocks(offset: u64, len: usize, mut each: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0usize;
    while done < len {
        let position = offset + done as u64;
        let at = (position % BLOCK_BYTES) as usize;
        let count = (len - done).min(BLOCK_BYTES as usize - at);
        each(position / BLOCK_BYTES, at, done..done + count);
        done += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn behaves_like_a_vector() {
        let mut rng = Rng::new(11);
        let (mut bytes, mut model) = (Bytes::default(), vec![0u8; 40_000]);
        for _ in 0..400 {
            let offset = rng.below(30_000);
            let len = rng.below(9_000) as usize;
            match rng.below(4) {
                3 => {
                    bytes.zero(offset, offset + len as u64);
                    model[offset as usize..offset as usize + len].fill(0);
                    let zero = rng.below(2) == 0;
                    let found = model[offset as usize..30_000].iter().position(|byte| (*byte == 0) == zero).map(|at| offset + at as u64);
                    assert_eq!(bytes.find(offset, 30_000, zero), found);
                }
                0 => {
                    let data: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
                    bytes.write(offset, &data);
                    model[offset as usize..offset as usize + len].copy_from_slice(&data);
                }
                1 => {
                    bytes.truncate(offset);
                    model[offset as usize..].fill(0);
                }
                _ => assert_eq!(bytes.slice(offset, len), model[offset as usize..offset as usize + len]),
            }
        }
    }

    #[test]
    fn a_zero_block_equals_a_hole() {
        let mut a = Bytes::default();
        a.write(5000, &[0; 100]);
        assert_eq!(a, Bytes::default());
        a.write(5050, &[1]);
        assert_eq!(a.first_difference(&Bytes::default()), Some(5050));
    }
}
