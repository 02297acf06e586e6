//! The Himeno benchmark with checkpoints (W-14): computes, and every so many iterations writes all it has.

use forebay_trace::Op;

use super::{MB, Program, Step, Steps, sweep};

/// One run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Himeno {
    /// Nodes, one writer each.
    pub nodes: u64,
    /// Checkpoints: each is a file of its own.
    pub checkpoints: u64,
    /// Bytes of a checkpoint of a node.
    pub checkpoint_bytes: u64,
    /// What is computed before each, nanoseconds.
    pub think_ns: u64,
    /// Bytes of a request.
    pub request_bytes: u64,
}

impl Himeno {
    /// As the thesis runs it: 100 iterations, every tenth followed by a checkpoint, 4 s between two, 1.3 GB a node in all.
    #[must_use]
    pub fn on_nodes(nodes: u64) -> Himeno {
        let think_ns = 4_000_000_000;
        Himeno { nodes: nodes.max(1), checkpoints: 10, checkpoint_bytes: 130 * MB, think_ns, request_bytes: 1 << 20 }
    }
}

impl Program for Himeno {
    fn name(&self) -> &str {
        "himeno"
    }

    fn phases(&self) -> usize {
        self.checkpoints as usize
    }

    fn tasks(&self, _: usize) -> u64 {
        self.nodes
    }

    fn steps(&self, phase: usize, task: u64) -> Steps {
        let think_ns = self.think_ns;
        let steps = sweep(Op::Write, phase as u64 * self.nodes + task, 0, self.checkpoint_bytes, self.request_bytes, 0);
        Box::new(steps.enumerate().map(move |(at, step)| if at == 0 { Step { think_ns, ..step } } else { step }))
    }

    fn path(&self, file: u64) -> String {
        format!("himeno.{:03}.{:05}", file / self.nodes, file % self.nodes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::Workers;
    use super::super::tests::{records, sums};
    use super::*;

    /// Ten checkpoints of 0.13 GB a node, each 4 s and a checkpoint's time after the one before.
    #[test]
    fn an_interval_is_its_computing_and_its_checkpoint() {
        let found = sums(Himeno::on_nodes(3), Workers::new(3, 1));
        assert_eq!((found.written, found.read, found.by_file.len()), (3 * 1300 * MB, 0, 30));
        let (records, _) = records(Arc::new(Himeno::on_nodes(1)), Workers::new(1, 1));
        let begins: Vec<u64> = records.iter().filter(|record| record.offset == 0).map(|record| record.start_ns).collect();
        let checkpoint_ns: u64 = records[..records.len() / 10].iter().map(|record| record.duration_ns).sum();
        assert!(begins.windows(2).all(|pair| pair[1] - pair[0] == 4_000_000_000 + checkpoint_ns), "{begins:?}");
    }
}
