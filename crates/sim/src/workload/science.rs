//! The replay of scientific programs (W-08): ALEGRA, CTH and S3D, made up by the shares that iBridge's table I prints.
//!
//! One process, a request after the other. Each request is drawn: *random* (below 20 KiB, anywhere), *unaligned* (longer than the stripe
//! and not on its borders) or *aligned* (whole stripes). The latter two go on through the file from where the last one ended, shifted off
//! the border or up to the next one. Sizes are not printed; they are drawn between one stripe and `stripes_max`, more of them for S3D,
//! whose requests take twice as long in table III.

use forebay_trace::Op;

use super::{Program, Step, Steps};
use crate::rng::Rng;

/// What a request is in the eyes of table I.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alignment {
    /// Smaller than the threshold.
    Random,
    /// Longer than a stripe, and not on its borders.
    Unaligned,
    /// Anything else.
    Aligned,
}

/// Bytes from which on a request is not random.
const RANDOM_BYTES: u64 = 20 << 10;

impl Alignment {
    /// Judges a request by stripes of so many bytes.
    #[must_use]
    pub fn of(offset: u64, size: u64, unit_bytes: u64) -> Alignment {
        if size < RANDOM_BYTES {
            Alignment::Random
        } else if size > unit_bytes && !(offset.is_multiple_of(unit_bytes) && (offset + size).is_multiple_of(unit_bytes)) {
            Alignment::Unaligned
        } else {
            Alignment::Aligned
        }
    }
}

/// One replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Science {
    /// The program.
    pub name: &'static str,
    /// Unaligned requests in a thousand.
    pub unaligned_per_mille: u64,
    /// Random requests in a thousand.
    pub random_per_mille: u64,
    /// The longest request, in stripes.
    pub stripes_max: u64,
    /// Bytes of a stripe.
    pub unit_bytes: u64,
    /// Bytes of the file; the replay moves about as many.
    pub bytes: u64,
    /// Read or write.
    pub op: Op,
    /// Of what is drawn.
    pub seed: u64,
}

impl Science {
    const fn new(name: &'static str, unaligned_per_mille: u64, random_per_mille: u64, stripes_max: u64) -> Science {
        Science { name, unaligned_per_mille, random_per_mille, stripes_max, unit_bytes: 64 << 10, bytes: 10 << 30, op: Op::Write, seed: 1 }
    }

    /// The four traces of table I.
    pub const ALL: [Science; 4] = [
        Science::new("ALEGRA-2744", 352, 73, 4),
        Science::new("ALEGRA-5832", 357, 69, 4),
        Science::new("CTH", 243, 301, 4),
        Science::new("S3D", 628, 58, 12),
    ];

    /// A request, and where the next one in order goes on.
    fn request(&self, rng: &mut Rng, at: u64) -> (u64, u64, u64) {
        let unit = self.unit_bytes;
        let drawn = rng.below(1000);
        if drawn < self.random_per_mille {
            let size = rng.range(1, RANDOM_BYTES / 1024 - 1) * 1024;
            return (rng.below(self.bytes / 1024 - size / 1024) * 1024, size, at);
        }
        let stripes = rng.range(1, self.stripes_max);
        if drawn < self.random_per_mille + self.unaligned_per_mille {
            // It begins where it must, and ends within a stripe.
            let end = (at + stripes * unit).next_multiple_of(unit) + rng.range(1, unit / 1024 - 1) * 1024;
            return (at, end - at, end);
        }
        let begin = at.next_multiple_of(unit);
        (begin, stripes * unit, begin + stripes * unit)
    }
}

impl Program for Science {
    fn name(&self) -> &str {
        self.name
    }

    fn phases(&self) -> usize {
        1
    }

    fn tasks(&self, _: usize) -> u64 {
        1
    }

    fn steps(&self, _: usize, task: u64) -> Steps {
        let this = *self;
        let mut rng = Rng::new(this.seed ^ (task << 32));
        let (mut at, last) = (0, this.bytes.saturating_sub(2 * (this.stripes_max + 2) * this.unit_bytes));
        Box::new(std::iter::from_fn(move || {
            if at >= last {
                return None;
            }
            let (offset, size, next) = this.request(&mut rng, at);
            at = next;
            Some(Step { think_ns: 0, op: this.op, file: 0, offset, size })
        }))
    }

    fn path(&self, _: u64) -> String {
        format!("{}.out", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W-08: judged as table I judges, requests have its shares.
    #[test]
    fn requests_have_the_published_shares() {
        for program in Science::ALL {
            let program = Science { bytes: 4 << 30, ..program };
            let (mut counts, mut bytes) = ([0u64; 3], 0);
            for step in program.steps(0, 0) {
                counts[Alignment::of(step.offset, step.size, program.unit_bytes) as usize] += 1;
                bytes += step.size;
                assert!(step.offset + step.size <= program.bytes);
            }
            let all: u64 = counts.iter().sum();
            let per_mille = |alignment: Alignment| counts[alignment as usize] * 1000 / all;
            for (found, wanted) in
                [(per_mille(Alignment::Random), program.random_per_mille), (per_mille(Alignment::Unaligned), program.unaligned_per_mille)]
            {
                assert!(found.abs_diff(wanted) <= 15, "{}: {found} {wanted}", program.name);
            }
            assert!(bytes.abs_diff(program.bytes) < program.bytes / 10, "{}: {bytes}", program.name);
        }
    }

    #[test]
    fn requests_are_judged_by_size_and_borders() {
        let of = |offset: u64, size: u64| Alignment::of(offset << 10, size << 10, 64 << 10);
        assert_eq!([of(64, 128), of(64, 64), of(65, 64)], [Alignment::Aligned; 3]);
        assert_eq!([of(1, 128), of(64, 65)], [Alignment::Unaligned; 2]);
        assert_eq!([of(0, 19), of(63, 2)], [Alignment::Random; 2]);
    }
}
