//! Miranda_IO (W-11): each process writes its own file, then reads a neighbour's, as after a checkpoint.

use forebay_trace::Op;

use super::{MB, Program, Step, Steps, sweep};

/// One run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Miranda {
    /// Processes.
    pub processes: u64,
    /// Bytes of a process's file.
    pub file_bytes: u64,
    /// How often this is done; the files are written again each time.
    pub iterations: u64,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// What is computed before each iteration, nanoseconds.
    pub think_ns: u64,
}

impl Miranda {
    /// As the thesis runs it: 4 processes a node, 111 MB each, once.
    #[must_use]
    pub fn on_nodes(nodes: u64) -> Miranda {
        Miranda { processes: 4 * nodes.max(1), file_bytes: 111 * MB, iterations: 1, request_bytes: 1 << 20, think_ns: 0 }
    }
}

impl Program for Miranda {
    fn name(&self) -> &str {
        "miranda"
    }

    /// A process begins to read when it has written: only iterations wait for each other. The neighbour is as far.
    fn phases(&self) -> usize {
        self.iterations as usize
    }

    fn tasks(&self, _: usize) -> u64 {
        self.processes
    }

    fn steps(&self, _: usize, task: u64) -> Steps {
        let think_ns = self.think_ns;
        let writes = sweep(Op::Write, task, 0, self.file_bytes, self.request_bytes, 0);
        let reads = sweep(Op::Read, (task + 1) % self.processes, 0, self.file_bytes, self.request_bytes, 0);
        Box::new(writes.chain(reads).enumerate().map(move |(at, step)| if at == 0 { Step { think_ns, ..step } } else { step }))
    }

    fn path(&self, file: u64) -> String {
        format!("miranda.{file:05}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::Workers;
    use super::super::tests::sums;
    use super::*;

    #[test]
    fn sixteen_nodes_take_7104_megabytes() {
        let found = sums(Miranda::on_nodes(16), Workers::new(16, 4));
        assert_eq!((found.space, found.written, found.read), (7104 * MB, 7104 * MB, 7104 * MB));
        assert!((found.r_buf - 1.0).abs() < 1e-12 && found.by_file.len() == 64);
    }
}
