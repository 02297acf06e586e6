//! mpi-io-test (W-05) and ior-mpi-io (W-06): requests of one size over one file, whose size need not fit the stripes.

use forebay_trace::Op;

use super::{Program, Step, Steps};

/// One run of either.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MpiIoTest {
    /// Processes.
    pub processes: u64,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// What all offsets are shifted by, bytes.
    pub shift_bytes: u64,
    /// Bytes in all; what does not fill a round of requests is left out.
    pub bytes: u64,
    /// Whether each process walks through a chunk of its own (ior-mpi-io) or all go through the file side by side (mpi-io-test).
    pub has_chunks: bool,
    /// Read or write.
    pub op: Op,
}

impl MpiIoTest {
    /// mpi-io-test as iBridge runs it: 10 GB.
    #[must_use]
    pub fn of_ibridge(processes: u64, request_bytes: u64, shift_bytes: u64, op: Op) -> MpiIoTest {
        MpiIoTest { processes, request_bytes, shift_bytes, bytes: 10 << 30, has_chunks: false, op }
    }

    /// ior-mpi-io as iBridge runs it: 10 GB in 64 chunks.
    #[must_use]
    pub fn in_chunks(request_bytes: u64, op: Op) -> MpiIoTest {
        MpiIoTest { processes: 64, request_bytes, shift_bytes: 0, bytes: 10 << 30, has_chunks: true, op }
    }

    /// Requests of each process.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.bytes / self.processes / self.request_bytes
    }

    /// Where a process goes with a request.
    #[must_use]
    pub fn offset(&self, process: u64, request: u64) -> u64 {
        let at = match self.has_chunks {
            true => process * (self.bytes / self.processes) + request * self.request_bytes,
            false => (request * self.processes + process) * self.request_bytes,
        };
        at + self.shift_bytes
    }
}

impl Program for MpiIoTest {
    fn name(&self) -> &str {
        if self.has_chunks { "ior-mpi-io" } else { "mpi-io-test" }
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
        format!("{}.out", self.name())
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::id::ServerId;
    use forebay_core::layout::Striped;
    use forebay_core::policy::RequestClass;
    use forebay_core::policy::detector::FragmentRule;

    use super::*;

    const KIB: u64 = 1 << 10;

    #[test]
    fn offsets_are_those_of_the_patterns() {
        let side_by_side = MpiIoTest::of_ibridge(16, 65 * KIB, 10 * KIB, Op::Read);
        assert_eq!(side_by_side.offset(3, 2), (2 * 16 + 3) * 65 * KIB + 10 * KIB);
        let chunks = MpiIoTest::in_chunks(65 * KIB, Op::Write);
        assert_eq!((chunks.offset(1, 0), chunks.offset(1, 1)), (160 << 20, (160 << 20) + 65 * KIB));
        assert_eq!(chunks.requests(), (160 << 20) / (65 * KIB));
    }

    /// I-01, W-05: the bytes in fragments, over whole runs of each size.
    #[test]
    fn fragments_have_the_published_shares() {
        let layout = Striped { base: ServerId(0), servers: 8, stripe_bytes: 64 * KIB };
        let share = |request_kib: u64, shift_kib: u64| {
            let program = MpiIoTest {
                bytes: 64 * 64 * request_kib * KIB,
                ..MpiIoTest::of_ibridge(64, request_kib * KIB, shift_kib * KIB, Op::Write)
            };
            let (mut subs, mut bytes) = (Vec::new(), 0);
            for step in (0..64).flat_map(|task| program.steps(0, task)) {
                layout.split(step.offset, step.size, FragmentRule::default(), &mut subs);
                bytes += step.size;
            }
            let fragments: u64 = subs.iter().filter(|sub| sub.class == RequestClass::Fragment).map(|sub| sub.len).sum();
            fragments * 10_000 / bytes
        };
        assert_eq!([33, 65, 129].map(|kib| share(kib, 0)), [1988, 1009, 508]);
        assert_eq!([0, 1, 10].map(|shift| share(64, shift)), [0, 156, 1562]);
    }
}
