//! Runs scenarios: one, or many on all processors.

use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay_core::node::Node;

use crate::canary::Canary;
use crate::checker::Violation;
use crate::parallel;
use crate::scenario::{Mode, Scenario};
use crate::world::{Summary, World};

/// How to run a seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// The family; none leaves it to the seed.
    pub mode: Option<Mode>,
    /// At most so many actions of clients: to make a failing run shorter.
    pub ops: Option<u64>,
    /// A bug made on purpose.
    pub canary: Option<Canary>,
    /// Tells every step on the standard output.
    pub verbose: bool,
}

impl Plan {
    /// The scenario of a seed.
    pub fn scenario(&self, seed: u64) -> Scenario {
        let mut scenario = Scenario::new(self.mode_of(seed), seed);
        if let Some(ops) = self.ops {
            scenario.workload.actions = scenario.workload.actions.min(ops);
        }
        scenario
    }

    fn mode_of(&self, seed: u64) -> Mode {
        self.mode.unwrap_or_else(|| Mode::of_seed(seed))
    }

    /// Runs a seed.
    ///
    /// # Errors
    /// The first promise that was broken.
    pub fn run(&self, seed: u64) -> Result<Summary, Violation> {
        let scenario = self.scenario(seed);
        if self.verbose {
            println!("{scenario:#?}");
        }
        World::<Node>::new(scenario, self.canary, self.verbose)?.run()
    }

    /// Runs a seed; a failure comes with all that is needed to see it again. A panic is a failure.
    ///
    /// # Errors
    /// What failed, and how to run it alone.
    pub fn run_and_tell(&self, seed: u64) -> Result<Summary, String> {
        let what = match catch_unwind(AssertUnwindSafe(|| self.run(seed))) {
            Ok(Ok(summary)) => return Ok(summary),
            Ok(Err(violation)) => violation.to_string(),
            Err(_) => "the machine or the simulator panicked".into(),
        };
        let mode = self.mode_of(seed).name();
        let again = format!("cargo run -p forebay-sim --bin forebay-sim -- --seed {seed} --mode {mode} --verbose");
        Err(format!("seed={seed} mode={mode} {what}\n    again: {again}"))
    }

    /// Runs the seeds `first..end` on this many threads. Gives the failures, by seed.
    pub fn run_all(&self, first: u64, end: u64, threads: usize) -> Vec<String> {
        let seeds = usize::try_from(end.saturating_sub(first)).unwrap_or(usize::MAX);
        parallel::map(threads, seeds, |at| self.run_and_tell(first + at as u64).err()).into_iter().flatten().collect()
    }
}
