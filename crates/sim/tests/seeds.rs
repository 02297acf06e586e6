//! Hundreds of runs of the node in its simulated world. A failure names its seed, and how to run it alone.

use forebay_sim::runner::{Plan, threads};
use forebay_sim::scenario::Mode;

/// Runs of every mode.
const SEEDS_OF_A_MODE: u64 = 60;

#[test]
fn every_promise_is_kept_with_every_seed() {
    let seeds = SEEDS_OF_A_MODE * Mode::ALL.len() as u64;
    let failures = Plan::default().run_all(0, seeds, threads());
    assert!(failures.is_empty(), "{} of {seeds} runs failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn the_same_seed_gives_the_same_effects() {
    for (seed, mode) in (1000..).zip(Mode::ALL) {
        let plan = Plan { mode: Some(mode), ..Plan::default() };
        let (first, second) = (plan.run_and_tell(seed), plan.run_and_tell(seed));
        assert_eq!(first, second, "seed={seed} mode={}", mode.name());
        assert!(first.is_ok_and(|summary| summary.digest.effects() > 20), "seed={seed} mode={} did next to nothing", mode.name());
    }
}

#[test]
fn different_seeds_give_different_effects() {
    let plan = Plan { mode: Some(Mode::Mixed), ..Plan::default() };
    let digest = |seed| plan.run(seed).map(|summary| summary.digest);
    assert_ne!(digest(1), digest(2));
}

/// What a mode is for must happen in it, or its runs prove nothing.
#[test]
fn modes_do_what_they_are_for() {
    let sums = |mode| {
        let plan = Plan { mode: Some(mode), ..Plan::default() };
        let runs: Vec<_> = (2000..2020).filter_map(|seed| plan.run(seed).ok()).collect();
        let sum = |count: fn(&forebay_sim::world::Summary) -> u64| runs.iter().map(count).sum::<u64>();
        (sum(|run| run.crashes), sum(|run| run.faults), sum(|run| run.drains))
    };
    let (crashes, _, drains) = sums(Mode::Kill);
    assert!(crashes > 40 && drains >= 20, "{crashes} crashes, {drains} drains");
    assert!(sums(Mode::Power).0 > 40);
    assert!(sums(Mode::HomeFaults).1 > 100);
    assert!(sums(Mode::LogFaults).1 > 10);
}
