//! Miss-ratio curves of any policy by miniature simulation: the policy runs on a sample of the chunks, with a buffer that is smaller by
//! as much. Source: Waldspurger and others, USENIX ATC 2017; the sample is that of [`super::sampled`].

use forebay_core::config::ReplacementKind;
use forebay_core::policy::replacement::{self, Ranking, RankingUser};

use super::chunks::Touch;
use super::pairs::{Pairs, mix};
use super::sampled::{limit_of, rate_of};

/// The uses of the chunks of a sample, in order and in memory.
pub struct SampledUses {
    seed: u64,
    limit: u64,
    uses_max: usize,
    numbers: Pairs,
    /// The hash of each chunk.
    hashes: Vec<u64>,
    uses: Vec<u32>,
    all_uses: u64,
}

impl SampledUses {
    /// A sample of at most this many uses; as long as there are fewer it is the whole.
    #[must_use]
    pub fn new(uses_max: usize, seed: u64) -> SampledUses {
        SampledUses { seed, limit: limit_of(1.0), uses_max, numbers: Pairs::new(), hashes: Vec::new(), uses: Vec::new(), all_uses: 0 }
    }

    /// Notes a touch.
    #[inline]
    pub fn touch(&mut self, touch: &Touch) {
        if touch.is_continued {
            return;
        }
        self.all_uses += 1;
        let hash = mix(touch.file.0, touch.index, self.seed);
        if hash >= self.limit && self.limit != u64::MAX {
            return;
        }
        let (chunk, is_new) = self.numbers.number(touch.file.0, touch.index);
        if is_new {
            self.hashes.push(hash);
        }
        self.uses.push(chunk);
        if self.uses.len() > self.uses_max {
            self.halve();
        }
    }

    /// Half of the chunks leave, and what is known of them.
    fn halve(&mut self) {
        self.limit = self.limit / 2 + u64::from(self.limit == u64::MAX);
        let (hashes, limit) = (&self.hashes, self.limit);
        let renumbered = self.numbers.keep(|chunk| hashes[chunk as usize] < limit);
        self.uses.retain_mut(|chunk| match renumbered[*chunk as usize] {
            Some(number) => {
                *chunk = number;
                true
            }
            None => false,
        });
        self.hashes.retain(|hash| *hash < limit);
    }

    /// The share of chunks in the sample.
    #[must_use]
    pub fn rate(&self) -> f64 {
        rate_of(self.limit)
    }

    /// Uses that were seen, those outside of the sample among them.
    #[must_use]
    pub fn all_uses(&self) -> u64 {
        self.all_uses
    }

    /// The miss ratio of a policy with a buffer of this many chunks. Below some hundred chunks within the sample it is coarse.
    #[must_use]
    pub fn miss_ratio(&self, kind: ReplacementKind, capacity: u64) -> f64 {
        let scaled = (capacity as f64 * self.rate()).round() as u64;
        if scaled == 0 || self.all_uses == 0 {
            return f64::from(u8::from(self.all_uses > 0));
        }
        let hits = replacement::with(kind, scaled, Miniature { sample: self, capacity: scaled as usize });
        let expected = self.all_uses as f64 * self.rate();
        let correction = expected - self.uses.len() as f64;
        (1.0 - (hits as f64 + correction) / expected).clamp(0.0, 1.0)
    }
}

struct Miniature<'a> {
    sample: &'a SampledUses,
    capacity: usize,
}

impl RankingUser for Miniature<'_> {
    type Result = u64;

    fn run(self, mut ranking: impl Ranking) -> u64 {
        ranking.reserve(self.sample.numbers.len());
        let mut hits = 0;
        for &chunk in &self.sample.uses {
            if ranking.contains(chunk) {
                hits += 1;
                ranking.on_access(chunk, |_| ());
                continue;
            }
            ranking.on_miss(chunk);
            if ranking.len() >= self.capacity
                && let Some(victim) = ranking.victim(|_| true)
            {
                ranking.on_evict(victim, |_| ());
            }
            ranking.on_insert(chunk, (self.sample.hashes[chunk as usize] >> 32) as u32, |_| ());
        }
        hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::FileId;
    use crate::statistics::reuse::Reuse;

    fn sample(uses_max: usize) -> (SampledUses, Reuse) {
        let (mut sample, mut exact) = (SampledUses::new(uses_max, 3), Reuse::new());
        for n in 0..200_000u64 {
            let uniform = (mix(1, n, 8) >> 11) as f64 / (1u64 << 53) as f64;
            let touch = Touch { file: FileId(1), index: (30_000f64.powf(uniform)) as u64, bytes: 1, is_write: false, is_continued: false };
            sample.touch(&touch);
            exact.touch(&touch);
        }
        (sample, exact)
    }

    #[test]
    fn the_whole_trace_gives_the_exact_curve() {
        let (sample, exact) = sample(usize::MAX);
        for capacity in [1, 10, 500, 20_000] {
            let ratio = sample.miss_ratio(ReplacementKind::Lru, capacity);
            assert!((ratio - exact.reads.miss_ratios(&[capacity])[0]).abs() < 1e-9, "{capacity} chunks: {ratio}");
        }
    }

    #[test]
    fn a_sample_gives_nearly_the_same_for_every_policy() {
        let ((small, _), (whole, _)) = (sample(40_000), sample(usize::MAX));
        assert!(small.rate() < 0.3 && small.uses.len() <= 40_000 && small.hashes.len() == small.numbers.len() as usize);
        for (name, kind) in ReplacementKind::NAMED {
            for capacity in [2000, 8000] {
                let difference = (small.miss_ratio(kind, capacity) - whole.miss_ratio(kind, capacity)).abs();
                assert!(difference < 0.03, "{name} with {capacity} chunks: {difference}");
            }
        }
    }
}
