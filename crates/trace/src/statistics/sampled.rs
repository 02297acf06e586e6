//! Reuse distances from a sample of the chunks, for traces of any length: all uses of a chunk are in the sample or none.
//!
//! A chunk is in it if a hash of its name, with a seed, is below a limit. A distance within the sample stands for one as much larger as
//! the sample is smaller. When the sample grows beyond its bound, the limit is halved and half of the chunks leave. Source: SHARDS
//! (Waldspurger and others, FAST 2015), with its correction: the uses that the sample has too few or too many, for it happened to
//! miss or catch some chunk that is used very often, are counted as uses at no distance.
//!
//! How wrong it is, is measured: eight parts of the sample, by other bits of the hash, each give a curve of their own.

use super::chunks::Touch;
use super::distance::Distances;
use super::pairs::{Pairs, mix};

/// Parts of the sample that are also counted by themselves.
const PARTS: usize = 8;

/// What the sampling is told.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampling {
    /// The share of chunks to begin with, above 0 and up to 1.
    pub rate: f64,
    /// The most chunks in the sample.
    pub chunks_max: u32,
    /// The same seed gives the same sample.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling { rate: 0.1, chunks_max: 1 << 16, seed: 1 }
    }
}

/// The hash below which chunks are in a sample of this rate; the largest number for all.
pub(crate) fn limit_of(rate: f64) -> u64 {
    // A product of 2^64 or more becomes the largest number.
    (rate * 18_446_744_073_709_551_616.0) as u64
}

pub(crate) fn rate_of(limit: u64) -> f64 {
    if limit == u64::MAX { 1.0 } else { limit as f64 / 18_446_744_073_709_551_616.0 }
}

/// A curve with its error.
#[derive(Clone, PartialEq, Debug)]
pub struct Estimate {
    /// Estimated miss ratios, one for each capacity that was asked for.
    pub miss_ratios: Vec<f64>,
    /// The standard error of each.
    pub standard_errors: Vec<f64>,
}

impl Estimate {
    /// The largest standard error.
    #[must_use]
    pub fn standard_error_max(&self) -> f64 {
        self.standard_errors.iter().copied().fold(0.0, f64::max)
    }
}

/// Counts by distance within the sample, for each rate that it had.
struct Part {
    distances: Distances,
    epochs: Vec<Vec<u32>>,
    first_uses: Vec<u32>,
}

impl Part {
    fn new() -> Part {
        Part { distances: Distances::new(), epochs: vec![Vec::new()], first_uses: vec![0] }
    }

    fn reference(&mut self, chunk: u32, is_counted: bool) {
        let distance = self.distances.reference(chunk);
        let epoch = self.epochs.len() - 1;
        match distance {
            _ if !is_counted => {}
            None => self.first_uses[epoch] += 1,
            Some(distance) => {
                let counts = &mut self.epochs[epoch];
                if distance as usize >= counts.len() {
                    counts.resize((distance as usize + 1).next_power_of_two(), 0);
                }
                counts[distance as usize] += 1;
            }
        }
    }

    /// The miss ratio at a capacity, where the sample of each epoch had `rates`, and `uses` were seen in all.
    fn miss_ratio(&self, capacity: u64, rates: &[f64], uses: f64) -> f64 {
        let (mut known, mut hits) = (0.0, 0.0);
        for ((counts, first), rate) in self.epochs.iter().zip(&self.first_uses).zip(rates) {
            known += f64::from(*first) / rate;
            for (distance, count) in counts.iter().enumerate() {
                let weight = f64::from(*count) / rate;
                known += weight;
                if (distance as f64 / rate) < capacity as f64 {
                    hits += weight;
                }
            }
        }
        let correction = if capacity == 0 { 0.0 } else { uses - known };
        if uses == 0.0 { 0.0 } else { (1.0 - (hits + correction) / uses).clamp(0.0, 1.0) }
    }
}

/// Estimated reuse distances.
pub struct SampledReuse {
    sampling: Sampling,
    limit: u64,
    /// The rates that there were, the present one last.
    rates: Vec<f64>,
    numbers: Pairs,
    /// The hash of each chunk that is or was in the sample.
    hashes: Vec<u64>,
    present: u32,
    whole: Part,
    parts: Vec<Part>,
    uses: u64,
}

impl SampledReuse {
    /// Nothing was used yet.
    #[must_use]
    pub fn new(sampling: Sampling) -> SampledReuse {
        let limit = limit_of(sampling.rate);
        SampledReuse {
            sampling,
            limit,
            rates: vec![rate_of(limit)],
            numbers: Pairs::new(),
            hashes: Vec::new(),
            present: 0,
            whole: Part::new(),
            parts: (0..PARTS).map(|_| Part::new()).collect(),
            uses: 0,
        }
    }

    /// Notes a touch.
    #[inline]
    pub fn touch(&mut self, touch: &Touch) {
        self.uses += u64::from(!touch.is_continued);
        let hash = mix(touch.file.0, touch.index, self.sampling.seed);
        if hash < self.limit || self.limit == u64::MAX {
            self.sample(touch, hash);
        }
    }

    fn sample(&mut self, touch: &Touch, hash: u64) {
        let (chunk, is_new) = self.numbers.number(touch.file.0, touch.index);
        if is_new {
            self.hashes.push(hash);
            self.present += 1;
        }
        self.whole.reference(chunk, !touch.is_continued);
        self.parts[hash as usize % PARTS].reference(chunk, !touch.is_continued);
        if self.present > self.sampling.chunks_max {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let old = if self.limit == u64::MAX { None } else { Some(self.limit) };
        self.limit = self.limit / 2 + u64::from(old.is_none());
        for (chunk, hash) in self.hashes.iter().enumerate() {
            if *hash >= self.limit && old.is_none_or(|old| *hash < old) {
                self.whole.distances.remove(chunk as u32);
                self.parts[*hash as usize % PARTS].distances.remove(chunk as u32);
                self.present -= 1;
            }
        }
        self.rates.push(rate_of(self.limit));
        for part in std::iter::once(&mut self.whole).chain(&mut self.parts) {
            part.epochs.push(Vec::new());
            part.first_uses.push(0);
        }
    }

    /// Uses that were seen, those outside of the sample among them.
    #[must_use]
    pub fn uses(&self) -> u64 {
        self.uses
    }

    /// The share of chunks that is in the sample now.
    #[must_use]
    pub fn rate(&self) -> f64 {
        rate_of(self.limit)
    }

    /// About how many chunks were used.
    #[must_use]
    pub fn chunks(&self) -> f64 {
        f64::from(self.present) / self.rate()
    }

    /// Chunks in the sample.
    #[must_use]
    pub fn sampled_chunks(&self) -> u32 {
        self.present
    }

    /// The miss ratios of LRU with these capacities, in chunks.
    #[must_use]
    pub fn miss_ratios(&self, capacities: &[u64]) -> Estimate {
        let part_rates: Vec<f64> = self.rates.iter().map(|rate| rate / PARTS as f64).collect();
        let uses = self.uses as f64;
        let mut estimate = Estimate { miss_ratios: Vec::new(), standard_errors: Vec::new() };
        for capacity in capacities {
            estimate.miss_ratios.push(self.whole.miss_ratio(*capacity, &self.rates, uses));
            let parts: Vec<f64> = self.parts.iter().map(|part| part.miss_ratio(*capacity, &part_rates, uses)).collect();
            let mean = parts.iter().sum::<f64>() / PARTS as f64;
            let squares = parts.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>();
            estimate.standard_errors.push((squares / ((PARTS - 1) * PARTS) as f64).sqrt());
        }
        estimate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::FileId;
    use crate::statistics::reuse::Reuse;

    /// Uses of 20,000 chunks, the small numbers much more often.
    fn touches(count: u64) -> impl Iterator<Item = Touch> {
        (0..count).map(|n| {
            let uniform = (mix(1, n, 5) >> 11) as f64 / (1u64 << 53) as f64;
            Touch { file: FileId(1), index: (20_000f64.powf(uniform)) as u64, bytes: 4096, is_write: false, is_continued: false }
        })
    }

    fn largest_difference(sampling: Sampling, capacities: &[u64]) -> (f64, Estimate, SampledReuse) {
        let (mut exact, mut sampled) = (Reuse::new(), SampledReuse::new(sampling));
        for touch in touches(300_000) {
            exact.touch(&touch);
            sampled.touch(&touch);
        }
        let truth = exact.reads.miss_ratios(capacities);
        let estimate = sampled.miss_ratios(capacities);
        let differences = truth.iter().zip(&estimate.miss_ratios).map(|(a, b)| (a - b).abs());
        (differences.fold(0.0, f64::max), estimate, sampled)
    }

    #[test]
    fn a_sample_of_all_is_exact() {
        let sampling = Sampling { rate: 1.0, chunks_max: u32::MAX, seed: 9 };
        let (difference, _, sampled) = largest_difference(sampling, &[0, 1, 10, 100, 1000, 5000, 50_000]);
        assert!(difference < 1e-9, "{difference}");
        assert_eq!((sampled.rate(), sampled.uses()), (1.0, 300_000));
    }

    /// The estimate is near the truth, and says itself how near: for every one of these seeds.
    #[test]
    fn a_sample_is_near_and_knows_how_near() {
        let capacities: Vec<u64> = (1..40).map(|n| n * 500).collect();
        for seed in 0..6 {
            let (difference, estimate, _) = largest_difference(Sampling { rate: 0.1, chunks_max: 1 << 20, seed }, &capacities);
            assert!(difference < 0.02, "seed {seed}: {difference}");
            assert!(
                difference < 5.0 * estimate.standard_error_max().max(0.001),
                "seed {seed}: {difference}, stated {}",
                estimate.standard_error_max()
            );
        }
    }

    #[test]
    fn a_sample_keeps_its_bound() {
        let sampling = Sampling { rate: 1.0, chunks_max: 2000, seed: 4 };
        let (difference, _, sampled) = largest_difference(sampling, &[500, 1000, 4000, 16_000]);
        assert!(sampled.sampled_chunks() <= 2000 && sampled.rate() < 0.2, "{} chunks at {}", sampled.sampled_chunks(), sampled.rate());
        assert!(difference < 0.03, "{difference}");
        assert!((sampled.chunks() - 19_000.0).abs() < 2500.0, "{}", sampled.chunks());
    }
}
