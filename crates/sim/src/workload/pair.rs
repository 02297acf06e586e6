//! Two programs at once, and the pair of them that iBridge runs (W-09): one that leaves fragments, one whose requests are all small.

use forebay_trace::Op;

use super::{Btio, Class, MpiIoTest, Program, Step, Steps};

/// Two programs of one phase or more; the phases of both begin together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair<A, B> {
    /// The first one; its files have even numbers.
    pub first: A,
    /// The second one; its files have odd numbers.
    pub second: B,
}

/// mpi-io-test with 64 processes and writes of 65 KiB, 10 GiB, beside BTIO of class C with 64 processes.
#[must_use]
pub fn heterogeneous_pair() -> Pair<MpiIoTest, Btio> {
    Pair { first: MpiIoTest::of_ibridge(64, 65 << 10, 0, Op::Write), second: Btio::simple(Class::C, 64) }
}

impl<A: Program, B: Program> Pair<A, B> {
    fn first_tasks(&self, phase: usize) -> u64 {
        if phase < self.first.phases() { self.first.tasks(phase) } else { 0 }
    }
}

impl<A: Program, B: Program> Program for Pair<A, B> {
    fn name(&self) -> &str {
        "pair"
    }

    fn phases(&self) -> usize {
        self.first.phases().max(self.second.phases())
    }

    fn tasks(&self, phase: usize) -> u64 {
        self.first_tasks(phase) + if phase < self.second.phases() { self.second.tasks(phase) } else { 0 }
    }

    fn steps(&self, phase: usize, task: u64) -> Steps {
        let first_tasks = self.first_tasks(phase);
        let (steps, odd) =
            if task < first_tasks { (self.first.steps(phase, task), 0) } else { (self.second.steps(phase, task - first_tasks), 1) };
        Box::new(steps.map(move |step| Step { file: 2 * step.file + odd, ..step }))
    }

    fn path(&self, file: u64) -> String {
        if file.is_multiple_of(2) { self.first.path(file / 2) } else { self.second.path(file / 2) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Workers;
    use super::super::tests::sums;
    use super::*;

    /// W-09: both write what each alone would, each to its own file.
    #[test]
    fn both_do_what_each_alone_would() {
        let pair = heterogeneous_pair();
        let small =
            Pair { first: MpiIoTest { bytes: 64 * 65 * 1024 * 3, ..pair.first }, second: Btio { cells: 16, dumps: 2, ..pair.second } };
        let found = sums(small, Workers::new(128, 1));
        assert_eq!(found.by_file["mpi-io-test.out"], 64 * 65 * 1024 * 3);
        assert_eq!(found.written - found.by_file["mpi-io-test.out"], 2 * small.second.dump_bytes());
        assert_eq!(found.read, 2 * small.second.dump_bytes());
        assert!((10 << 30) - pair.first.requests() * 64 * 65 * 1024 < 64 * 65 * 1024, "all but a part of a round");
        assert_eq!(pair.second.dump_bytes() * pair.second.dumps, 6_802_444_800);
    }
}
