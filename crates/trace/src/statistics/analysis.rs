//! Everything that one pass over a trace finds out, together.

use forebay_core::config::ReplacementKind;

use super::bursts::Bursts;
use super::chunks::{Continuation, Touches};
use super::locality::Locality;
use super::miniature::SampledUses;
use super::patterns::{Patterns, Share};
use super::phases::Phases;
use super::reuse::Reuse;
use super::sampled::{SampledReuse, Sampling};
use super::totals::Totals;
use crate::record::{Op, Record};

/// What an analysis is told.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Bytes of a chunk, a power of two.
    pub chunk_bytes: u32,
    /// Bytes of a stripe unit.
    pub stripe_bytes: u64,
    /// Rates of home to drain at, bytes a second.
    pub drain_rates: Vec<f64>,
    /// Whose accesses go on where another ended (B-17).
    pub continuation: Continuation,
    /// Chunks whose reuse distances are exact; of a trace with more, only a sample is looked at.
    pub exact_chunks_max: u32,
    /// Uses that are kept for the curves of policies other than LRU; of more, a sample.
    pub kept_uses_max: usize,
    /// The sample's seed.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            chunk_bytes: 1 << 20,
            stripe_bytes: 64 << 10,
            drain_rates: [64u32, 256, 1024, 4096].map(|mib| f64::from(mib) * f64::from(1 << 20)).to_vec(),
            continuation: Continuation::PerProcess,
            exact_chunks_max: 1 << 23,
            kept_uses_max: 1 << 21,
            seed: 1,
        }
    }
}

/// An analysis under way, and its result when all records were added.
pub struct Analysis {
    options: Options,
    touches: Touches,
    /// Records of each kind, by the number of the operation.
    pub operations: Vec<Share>,
    /// Bytes by file, process and size.
    pub totals: Totals,
    /// Sequential, strided and random access.
    pub patterns: Patterns,
    /// The timeline.
    pub bursts: Bursts,
    /// R_buf.
    pub locality: Locality,
    /// Parallel parts.
    pub phases: Phases,
    /// Exact reuse distances; none if there were too many chunks.
    pub reuse: Option<Reuse>,
    /// Sampled ones.
    pub sampled: SampledReuse,
    uses: SampledUses,
}

impl Analysis {
    /// Nothing was seen yet.
    #[must_use]
    pub fn new(options: Options) -> Analysis {
        Analysis {
            touches: Touches::new(options.chunk_bytes, options.continuation),
            operations: vec![Share::default(); Op::ALL.len()],
            totals: Totals::default(),
            patterns: Patterns::new(options.stripe_bytes),
            bursts: Bursts::new(&options.drain_rates),
            locality: Locality::default(),
            phases: Phases::default(),
            reuse: Some(Reuse::new()),
            sampled: SampledReuse::new(Sampling { seed: options.seed, ..Sampling::default() }),
            uses: SampledUses::new(options.kept_uses_max, options.seed),
            options,
        }
    }

    /// Notes a record.
    pub fn add(&mut self, record: &Record) {
        let share = &mut self.operations[record.op as usize];
        share.requests += 1;
        share.bytes += record.moved_bytes();
        self.totals.add(record);
        self.patterns.add(record);
        self.bursts.add(record);
        self.locality.add(record);
        self.phases.add(record);
        let (reuse, sampled, uses) = (&mut self.reuse, &mut self.sampled, &mut self.uses);
        self.touches.of(record, |touch| {
            if let Some(reuse) = reuse {
                reuse.touch(&touch);
            }
            sampled.touch(&touch);
            uses.touch(&touch);
        });
        if self.reuse.as_ref().is_some_and(|reuse| reuse.chunks() > self.options.exact_chunks_max) {
            self.reuse = None;
        }
    }

    /// What it was told.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Different chunks, about so many if they were too many to count.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        self.reuse.as_ref().map_or(self.sampled.chunks() as u64, |reuse| u64::from(reuse.chunks()))
    }

    /// The miss ratios of a policy, reads and writes together, with these capacities in chunks: exact for LRU unless there were too many
    /// chunks; for others as [`SampledUses::miss_ratio`] has it, which is exact while [`Analysis::kept_share`] is 1.
    #[must_use]
    pub fn miss_ratios(&self, kind: ReplacementKind, capacities: &[u64]) -> Vec<f64> {
        match (&self.reuse, kind) {
            (Some(reuse), ReplacementKind::Lru) => reuse.reads.plus(&reuse.writes).miss_ratios(capacities),
            (None, ReplacementKind::Lru) => self.sampled.miss_ratios(capacities).miss_ratios,
            _ => capacities.iter().map(|capacity| self.uses.miss_ratio(kind, *capacity)).collect(),
        }
    }

    /// The share of chunks that the curves of policies other than LRU rest on.
    #[must_use]
    pub fn kept_share(&self) -> f64 {
        self.uses.rate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::FileId;

    /// A loop over 8 chunks, five times: LRU needs all of them, LIRS gains from each.
    #[test]
    fn one_pass_finds_everything() {
        let mut analysis = Analysis::new(Options { chunk_bytes: 4096, ..Options::default() });
        for n in 0..40u64 {
            let offset = n % 8 * 4096;
            analysis.add(&Record { file: FileId(0), offset, size: 4096, result: 4096, ..Record::new(Op::Read, n * 1000) });
        }
        assert_eq!((analysis.chunks(), analysis.operations[Op::Read as usize].requests, analysis.kept_share()), (8, 40, 1.0));
        assert_eq!(analysis.miss_ratios(ReplacementKind::Lru, &[7, 8]), [1.0, 0.2]);
        assert!(analysis.miss_ratios(ReplacementKind::Lirs, &[7])[0] < 0.5);
        assert_eq!(analysis.locality.ratio(), 0.8);
        assert_eq!(analysis.patterns.random.requests, 4, "each return to the start");
    }
}
