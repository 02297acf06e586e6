//! IOR (W-01): processes that write or read one file, each a segment of it, or side by side.

use forebay_trace::Op;

use super::{Program, Step, Steps};

/// Where a process goes with its requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Each process has its segment of the file, from front to back: `process * bytes / processes + request * size`.
    Contiguous,
    /// All processes go through the file together, one request beside the other: `(request * processes + process) * size`.
    Strided,
    /// Each process has its segment, in random order.
    Random,
}

/// One run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ior {
    /// Processes.
    pub processes: u64,
    /// Bytes of the file; what does not fill a round of requests is left out.
    pub bytes: u64,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// In which order.
    pub pattern: Pattern,
    /// Read or write.
    pub op: Op,
    /// Of the random order.
    pub seed: u64,
}

impl Ior {
    /// As SSDUP+ runs it: writes of 256 KiB.
    #[must_use]
    pub fn of_ssdup_plus(pattern: Pattern, processes: u64, bytes: u64, seed: u64) -> Ior {
        Ior { processes, bytes, request_bytes: 256 << 10, pattern, op: Op::Write, seed }
    }

    /// Requests of each process.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.bytes / self.processes / self.request_bytes
    }

    /// Where a process goes with its request of this number.
    #[must_use]
    pub fn offset(&self, process: u64, request: u64) -> u64 {
        let requests = self.requests();
        match self.pattern {
            Pattern::Contiguous => (process * requests + request) * self.request_bytes,
            Pattern::Strided => (request * self.processes + process) * self.request_bytes,
            Pattern::Random => (process * requests + permuted(request, requests, self.seed ^ (process << 20))) * self.request_bytes,
        }
    }
}

impl Program for Ior {
    fn name(&self) -> &str {
        "ior"
    }

    fn phases(&self) -> usize {
        1
    }

    fn tasks(&self, _: usize) -> u64 {
        self.processes
    }

    fn steps(&self, _: usize, task: u64) -> Steps {
        let this = *self;
        let step = move |request| Step { think_ns: 0, op: this.op, file: 0, offset: this.offset(task, request), size: this.request_bytes };
        Box::new((0..this.requests()).map(step))
    }

    fn path(&self, _: u64) -> String {
        "ior.out".into()
    }
}

/// The number at a place of a random order of the numbers below `count`, without a list of them: a cipher of four rounds on as many
/// bits as the numbers have, walked until it comes out below `count`.
fn permuted(at: u64, count: u64, seed: u64) -> u64 {
    let half_bits = (64 - count.saturating_sub(1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1u64 << half_bits) - 1;
    let mut at = at;
    loop {
        let (mut left, mut right) = (at >> half_bits, at & mask);
        for round in 0..4u64 {
            let mixed = crate::rng::mix(right ^ crate::rng::mix(seed ^ (round << 32)));
            (left, right) = (right, left ^ (mixed & mask));
        }
        at = left << half_bits | right;
        if at < count {
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Workers;
    use super::super::tests::sums;
    use super::*;

    #[test]
    fn a_permutation_gives_every_number_once() {
        for count in [1, 2, 3, 64, 100, 1000] {
            let mut all: Vec<u64> = (0..count).map(|at| permuted(at, count, 7)).collect();
            assert!(count < 10 || all.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count() < count as usize / 4);
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    /// W-01: each pattern covers the file once.
    #[test]
    fn patterns_cover_the_file() {
        for pattern in [Pattern::Contiguous, Pattern::Strided, Pattern::Random] {
            let ior = Ior { bytes: 64 * 256, request_bytes: 256, ..Ior::of_ssdup_plus(pattern, 8, 0, 3) };
            let mut all: Vec<u64> = (0..8).flat_map(|p| (0..ior.requests()).map(move |r| (p, r))).map(|(p, r)| ior.offset(p, r)).collect();
            all.sort_unstable();
            assert_eq!(all, (0..64).map(|block| block * 256).collect::<Vec<_>>(), "{pattern:?}");
            let found = sums(ior, Workers::new(8, 1));
            assert_eq!((found.written, found.space), (64 * 256, 64 * 256));
        }
    }

    /// S-02: 16 GiB in requests of 256 KiB.
    #[test]
    fn requests_are_as_many_as_printed() {
        assert_eq!(Ior::of_ssdup_plus(Pattern::Strided, 16, 16 << 30, 0).requests() * 16, 65_536);
    }
}
