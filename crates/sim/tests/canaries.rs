//! Bugs put in on purpose: a checker that does not find them would not find others.

use forebay_core::node::Node;
use forebay_sim::canary::Canary;
use forebay_sim::scenario::{Mode, Scenario};
use forebay_sim::world::World;

/// Seeds of each mode in which a bug must show itself at least once.
const SEEDS: u64 = 40;

#[test]
fn every_canary_is_caught() {
    for canary in Canary::ALL {
        let caught = (0..SEEDS).flat_map(|seed| Mode::ALL.map(|mode| (mode, seed))).find_map(|(mode, seed)| {
            let scenario = Scenario::new(mode, seed);
            // The same scenario without the bug is clean: it is the bug that was found.
            let with = World::<Node>::new(scenario.clone(), Some(canary), false).and_then(World::run);
            let violation = with.err()?;
            World::<Node>::new(scenario, None, false).and_then(World::run).ok()?;
            Some(format!("seed={seed} mode={} {violation}", mode.name()))
        });
        let caught = caught.unwrap_or_else(|| panic!("{canary:?} was not found in {SEEDS} seeds of every mode"));
        println!("{canary:?}: {caught}");
    }
}
