//! POV-Ray (W-15): images rendered from thousands of small files of source, each read again and again within its own job and by no other.
//!
//! The thesis prints sums, and finds that with its nodes at work most uses again are about 100 KB apart: so a job uses little more than a
//! chunk or two at a time. Here each has one source of 4.7 KB on average.

use forebay_trace::Op;

use super::{MB, Program, Steps, sweep};
use crate::rng::{Rng, mix};

/// One run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Povray {
    /// Images, one job each.
    pub images: u64,
    /// Bytes of all sources together.
    pub input_bytes: u64,
    /// Bytes of all images together.
    pub output_bytes: u64,
    /// Bytes that are read and written in all.
    pub total_bytes: u64,
    /// Source files of a job.
    pub files_per_image: u64,
    /// What is computed before each request, nanoseconds.
    pub think_ns: u64,
    /// Which passes over a file follow which.
    pub seed: u64,
}

impl Default for Povray {
    /// Sums as in the thesis's Table 5.2: 14 MB of input, 25 MB touched, 760 MB in all.
    fn default() -> Povray {
        Povray {
            images: 3000,
            input_bytes: 14 * MB,
            output_bytes: 11 * MB,
            total_bytes: 760 * MB,
            files_per_image: 1,
            think_ns: 200_000,
            seed: 1,
        }
    }
}

/// Bytes of a request: what the C library asks for.
const REQUEST_BYTES: u64 = 4096;
/// Of ten passes over a source file, those that go on in the same file; the others take any file of the job.
const STAYS_PER_MILLE: u64 = 700;

impl Povray {
    /// The bytes of a source file: sizes differ, from half to one and a half of the mean.
    fn source_bytes(&self, file: u64) -> u64 {
        let mean = self.input_bytes / (self.images * self.files_per_image);
        mean / 2 + mix(self.seed ^ file.wrapping_mul(0x9E37_79B9_7F4A_7C15)) % (mean + 1)
    }

    /// Reads of a job.
    fn read_bytes(&self) -> u64 {
        (self.total_bytes - self.output_bytes) / self.images
    }
}

impl Program for Povray {
    fn name(&self) -> &str {
        "povray"
    }

    fn phases(&self) -> usize {
        1
    }

    fn tasks(&self, _: usize) -> u64 {
        self.images
    }

    /// Passes over files of the job until it has read its share, each file at least once; then the image.
    fn steps(&self, _: usize, task: u64) -> Steps {
        let this = *self;
        let mut rng = Rng::new(this.seed.wrapping_mul(0x1_0000_0001) ^ task);
        let (mut passes, mut read, mut current) = (Vec::new(), 0, 0);
        while read < this.read_bytes() {
            if (passes.len() as u64) < this.files_per_image {
                current = passes.len() as u64;
            } else if !rng.chance(STAYS_PER_MILLE) {
                current = rng.below(this.files_per_image);
            }
            let file = task * this.files_per_image + current;
            let bytes = this.source_bytes(file).min(this.read_bytes() - read).max(1);
            read += bytes;
            passes.push((file, bytes));
        }
        let reads = passes.into_iter().flat_map(move |(file, bytes)| sweep(Op::Read, file, 0, bytes, REQUEST_BYTES, this.think_ns));
        let image = this.images * this.files_per_image + task;
        let output = sweep(Op::Write, image, 0, this.output_bytes / this.images, REQUEST_BYTES, this.think_ns);
        Box::new(reads.chain(output))
    }

    fn path(&self, file: u64) -> String {
        let sources = self.images * self.files_per_image;
        if file < sources {
            format!("scene{:04}/part{}.inc", file / self.files_per_image, file % self.files_per_image)
        } else {
            format!("image{:04}.png", file - sources)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_trace::statistics::chunks::{Continuation, Touches};
    use forebay_trace::statistics::reuse::Reuse;

    use super::super::Workers;
    use super::super::tests::{Sums, records, sums};
    use super::*;
    use crate::buffer::{BufferConfig, Counting, Formula, Granularity, Policy, Rates, WorkloadBuilder, simulate};
    use forebay_core::config::{ReplacementKind, WriteBack};

    #[test]
    fn sums_are_as_large_as_printed() {
        let found = sums(Povray::default(), Workers::new(4, 12));
        for (bytes, printed) in [(found.read + found.written, 760.0), (found.space, 25.0)] {
            let ours = Sums::megabytes(bytes);
            assert!((ours / printed - 1.0).abs() < 0.03, "{ours:.1} MB where {printed} are printed");
        }
    }

    /// The median reuse distance is below 100 KB of chunks, and a buffer of a few hundred KB is nearly enough.
    #[test]
    fn sources_are_used_again_soon() {
        let (records, _) = records(Arc::new(Povray::default()), Workers::new(1, 4));
        let (mut reuse, mut touches, mut builder) =
            (Reuse::new(), Touches::new(4096, Continuation::PerProcess), WorkloadBuilder::new(4096));
        for record in &records {
            touches.of(record, |touch| reuse.touch(&touch));
            builder.add(record);
        }
        let median = reuse.reads.quantile(0.5).unwrap();
        assert!(median * 4096 < 100_000, "a median of {median} chunks");
        let workload = builder.finish(Vec::new());
        let ratio = |capacity_bytes| {
            let (policy, granularity) = (Policy::Online(ReplacementKind::Lru), Granularity::Chunk);
            let (write_back, counting) = (WriteBack::Async, Counting::Bytes);
            let config = BufferConfig { capacity_bytes, policy, granularity, write_back, counting, nodes: 1 };
            simulate(&workload, &config, &Rates::constant(5e8, 2e9)).unwrap().throughput(Formula::Full).ratio()
        };
        assert!(ratio(400 << 10) > 0.95, "{}", ratio(400 << 10));
        assert!(ratio(8 << 10) < 0.8, "{}", ratio(8 << 10));
    }
}
