//! Reuse distances of a trace, of reads and of writes, and what must go home of what was written.

use super::chunks::{ChunkNumbers, Touch};
use super::curve::Histogram;
use super::distance::Distances;

/// A note on a chunk that is clean; else it is one more than the largest distance since it was written last.
const CLEAN: u32 = 0;

/// Exact histograms, by one pass over the touches of a trace. Memory: some 40 bytes a chunk.
pub struct Reuse {
    numbers: ChunkNumbers,
    distances: Distances,
    /// Uses by reading. The distance counts the chunks used since the last use, of whatever kind.
    pub reads: Histogram,
    /// Uses by writing.
    pub writes: Histogram,
    /// Of each version of a chunk that was written again: the largest distance while it was the newest.
    pub overwritten: Histogram,
    /// Chunks that were written.
    pub written_chunks: u64,
    /// Touches that only went on where the one before ended.
    pub continued: u64,
}

impl Reuse {
    /// Nothing was used yet.
    #[must_use]
    pub fn new() -> Reuse {
        Reuse {
            numbers: ChunkNumbers::new(),
            distances: Distances::new(),
            reads: Histogram::default(),
            writes: Histogram::default(),
            overwritten: Histogram::default(),
            written_chunks: 0,
            continued: 0,
        }
    }

    /// Notes a touch.
    pub fn touch(&mut self, touch: &Touch) {
        let chunk = self.numbers.number(touch.file, touch.index);
        let distance = self.distances.reference(chunk);
        if touch.is_continued {
            self.continued += 1;
        } else {
            let histogram = if touch.is_write { &mut self.writes } else { &mut self.reads };
            histogram.add(distance.map(u64::from), 1.0);
        }
        self.note_dirty(chunk, distance, touch.is_write);
    }

    fn note_dirty(&mut self, chunk: u32, distance: Option<u32>, is_write: bool) {
        let note = self.distances.note(chunk);
        if *note == CLEAN {
            if is_write {
                self.written_chunks += 1;
                *note = 1;
            }
            return;
        }
        let farthest = (*note - 1).max(distance.unwrap_or(0));
        *note = if is_write { 1 } else { farthest + 1 };
        if is_write {
            self.overwritten.add(Some(u64::from(farthest)), 1.0);
        }
    }

    /// Chunks that were used.
    #[must_use]
    pub fn chunks(&self) -> u32 {
        self.numbers.count()
    }

    /// Chunks that an LRU buffer of each of these capacities writes home to make room (B-04): every version that was swapped out, before
    /// it was overwritten or at last. What stays dirty in the buffer is not among them.
    #[must_use]
    pub fn written_back(&self, capacities: &[u64]) -> Vec<u64> {
        let mut versions = self.overwritten.clone();
        let chunks = u64::from(self.distances.chunks());
        for (used_before, (_, note)) in self.distances.oldest_first().enumerate().filter(|(_, (_, note))| *note != CLEAN) {
            let used_since = chunks - 1 - used_before as u64;
            versions.add(Some(used_since.max(u64::from(note - 1))), 1.0);
        }
        let all = versions.uses();
        versions.miss_ratios(capacities).iter().map(|missed| (missed * all).round() as u64).collect()
    }

    /// Chunks that go home from an LRU buffer of each of these capacities, with writing back at eviction and a drain at the end: each
    /// written chunk's last version, and every version that was swapped out before it was overwritten.
    #[must_use]
    pub fn written_home(&self, capacities: &[u64]) -> Vec<u64> {
        let versions = self.overwritten.uses();
        let kept = self.overwritten.miss_ratios(capacities);
        kept.iter().map(|missed| self.written_chunks + (missed * versions).round() as u64).collect()
    }
}

impl Default for Reuse {
    fn default() -> Self {
        Reuse::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::FileId;

    fn reuse(uses: &str) -> Reuse {
        let mut reuse = Reuse::new();
        for pair in uses.split_whitespace() {
            let (op, chunk) = pair.split_at(1);
            let index = u64::from(chunk.as_bytes()[0]);
            reuse.touch(&Touch { file: FileId(0), index, bytes: 1, is_write: op == "w", is_continued: op == "+" });
        }
        reuse
    }

    #[test]
    fn reads_and_writes_have_histograms_of_their_own() {
        let reuse = reuse("rA wB rA wB +B rB");
        assert_eq!((reuse.reads.first_uses, &reuse.reads.counts[..]), (1.0, &[1.0, 1.0][..]));
        assert_eq!((reuse.writes.first_uses, &reuse.writes.counts[..]), (1.0, &[0.0, 1.0][..]));
        assert_eq!((reuse.chunks(), reuse.continued), (2, 1));
    }

    /// With one chunk of room, A is swapped out for each read of B, dirty once; with two it never is.
    #[test]
    fn what_is_overwritten_in_the_buffer_does_not_go_home() {
        let reuse = reuse("wA rB rA rB wA wA rB rB");
        assert_eq!(reuse.written_home(&[1, 2, 3]), [2, 1, 1]);
    }
}
