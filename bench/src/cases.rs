//! What is measured: the cases, and how long each may take.

use crate::load::Action;
use crate::quantity::show_bytes;

/// One measurement.
#[derive(Clone, Debug)]
pub struct Case {
    /// What is done.
    pub action: Action,
    /// How many processes do it side by side.
    pub processes: u64,
    /// Bytes of one call.
    pub block_bytes: u64,
    /// Bytes of all processes together.
    pub total_bytes: u64,
    /// Files of all processes together.
    pub total_files: u64,
    /// The kernel's caches of bytes, names and attributes are dropped first.
    pub cold: bool,
}

impl Case {
    /// Its name in the table.
    #[must_use]
    pub fn name(&self) -> String {
        let what = match self.action {
            Action::WriteSequential => "write, sequential",
            Action::WriteRandom => "write, random",
            Action::ReadSequential => "read, sequential",
            Action::ReadRandom => "read, random",
            Action::Create => "create",
            Action::Stat => "stat",
            Action::Unlink => "unlink",
        };
        let how = if self.counts_bytes() { format!(", {}", show_bytes(self.block_bytes)) } else { String::new() };
        let processes = if self.processes == 1 { "1 process".into() } else { format!("{} processes", self.processes) };
        let cold = if self.cold && !self.counts_bytes() { ", cold" } else { "" };
        format!("{what}{cold}{how}, {processes}")
    }

    /// Whether the rate is in bytes; else it is in operations.
    #[must_use]
    pub fn counts_bytes(&self) -> bool {
        !matches!(self.action, Action::Create | Action::Stat | Action::Unlink)
    }
}

/// How much to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    /// Runs of each case on each system.
    pub runs: usize,
    /// Bytes of a case with blocks of 4 KiB, and of one with larger blocks.
    pub small_total_bytes: u64,
    /// See `small_total_bytes`.
    pub large_total_bytes: u64,
    /// Files of a case on names.
    pub files: u64,
    /// Bytes of the burst, which is the capacity of its buffer, too.
    pub burst_bytes: u64,
    /// Runs of the burst.
    pub burst_runs: usize,
    /// Capacity of the buffer through which four times as much flows.
    pub flow_capacity_bytes: u64,
}

/// The scale of `make bench`.
pub const FULL: Scale = Scale {
    runs: 5,
    small_total_bytes: 16 << 20,
    large_total_bytes: 128 << 20,
    files: 2000,
    burst_bytes: 256 << 20,
    burst_runs: 5,
    flow_capacity_bytes: 32 << 20,
};

/// The scale of the tests: every line of the benchmark runs, and no number means anything.
pub const QUICK: Scale = Scale {
    runs: 1,
    small_total_bytes: 256 << 10,
    large_total_bytes: 8 << 20,
    files: 16,
    burst_bytes: 8 << 20,
    burst_runs: 1,
    flow_capacity_bytes: 8 << 20,
};

/// All cases.
#[must_use]
pub fn cases(scale: Scale) -> Vec<Case> {
    let mut cases = Vec::new();
    for action in [Action::WriteSequential, Action::WriteRandom, Action::ReadSequential, Action::ReadRandom] {
        for block_bytes in [4 << 10, 64 << 10, 1 << 20] {
            let total_bytes = if block_bytes == 4 << 10 { scale.small_total_bytes } else { scale.large_total_bytes };
            for processes in [1, 8] {
                let cold = matches!(action, Action::ReadSequential | Action::ReadRandom);
                cases.push(Case { action, processes, block_bytes, total_bytes, total_files: 0, cold });
            }
        }
    }
    for (action, cold) in [(Action::Create, false), (Action::Stat, false), (Action::Stat, true), (Action::Unlink, false)] {
        for processes in [1, 8] {
            cases.push(Case { action, processes, block_bytes: 4096, total_bytes: 0, total_files: scale.files, cold });
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_of_each_case_has_whole_blocks_and_files() {
        for scale in [FULL, QUICK] {
            let cases = cases(scale);
            assert_eq!(cases.len(), 32);
            for case in cases {
                assert_eq!(case.total_bytes % (case.processes * case.block_bytes), 0, "{}", case.name());
                assert_eq!(case.total_files % case.processes, 0, "{}", case.name());
            }
        }
    }
}
