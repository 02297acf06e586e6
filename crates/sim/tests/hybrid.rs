//! Seeds of the hybrid node in every mode, and bugs made on purpose that must be found.
//!
//! `FOREBAY_SEED=n` runs this seed alone and tells each step.

use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay_sim::hybrid::scenario::{Canary, Mode, Scenario};
use forebay_sim::hybrid::world::{Summary, World};

fn run_seed(mode: Mode, seed: u64, canary: Option<Canary>) -> Result<Summary, String> {
    let is_verbose = std::env::var("FOREBAY_SEED").is_ok();
    let scenario = Scenario { canary, is_verbose, ..Scenario::new(mode, seed) };
    let ran = catch_unwind(AssertUnwindSafe(|| World::new(scenario).run()));
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(text.unwrap_or_else(|| "it panicked".to_owned()))
    })
}

fn run(mode: Mode, count: u64) -> Summary {
    let only = std::env::var("FOREBAY_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let times = std::env::var("FOREBAY_SIM_TIMES").ok().and_then(|times| times.parse::<u64>().ok()).unwrap_or(1);
    let seeds = only.map_or(0..count * times, |seed| seed..seed + 1);
    let (mut sum, mut failures) = (Summary::default(), Vec::new());
    for seed in seeds.clone() {
        match run_seed(mode, seed, None) {
            Ok(summary) => {
                sum.answered += summary.answered;
                sum.crashes += summary.crashes;
                sum.flushes += summary.flushes;
                sum.superseding += summary.superseding;
                sum.waits += summary.waits;
            }
            Err(fault) => failures.push(format!("FOREBAY_SEED={seed} {mode:?}: {fault}")),
        }
    }
    assert!(failures.is_empty(), "{} of {seeds:?} failed:\n{}", failures.len(), failures[..failures.len().min(20)].join("\n"));
    println!("{mode:?}: {sum:?}");
    sum
}

#[test]
fn nothing_goes_wrong() {
    let sum = run(Mode::Mixed, 600);
    if std::env::var("FOREBAY_SEED").is_err() {
        assert!(sum.flushes > 1000 && sum.superseding > 100 && sum.waits > 1000, "the seeds do not reach what they are for: {sum:?}");
    }
}

#[test]
fn devices_fail() {
    run(Mode::Errors, 600);
}

#[test]
fn the_process_is_killed() {
    run(Mode::Kill, 600);
}

#[test]
fn the_power_fails() {
    run(Mode::Power, 600);
}

#[test]
fn all_of_it_goes_wrong() {
    run(Mode::Storm, 600);
}

#[test]
fn same_seed_same_run() {
    for seed in 0..20 {
        let of = || format!("{:?}", run_seed(Mode::Storm, seed, None));
        assert_eq!(of(), of(), "seed {seed}");
    }
}

/// Else the checkers check nothing.
#[test]
fn every_bug_made_on_purpose_is_found() {
    for (canary, mode) in Canary::ALL {
        let found = (0..200).find_map(|seed| run_seed(mode, seed, Some(canary)).err().map(|fault| (seed, fault)));
        let (seed, fault) = found.unwrap_or_else(|| panic!("{canary:?} was not found in 200 seeds of {mode:?}"));
        println!("{canary:?}: seed {seed}: {fault}");
    }
}
