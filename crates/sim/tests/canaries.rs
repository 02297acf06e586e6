//! Bugs made on purpose must be found, and as what they are: else the checkers check nothing.

use forebay_sim::canary::Canary;
use forebay_sim::runner::Plan;
use forebay_sim::scenario::Mode;

/// Seeds within which a bug must be found.
const SEEDS_MAX: u64 = 60;

fn mode_for(canary: Canary) -> Mode {
    match canary {
        Canary::JournalLosesItsEnd => Mode::Kill,
        Canary::AskedTwice => Mode::Takeover,
        Canary::SyncLogDoesNothing => Mode::Power,
        Canary::OldFlushComesLate => Mode::Tiny,
        Canary::PunchIsLeftOut | Canary::XattrsAreLeftOut => Mode::Complete,
        _ => Mode::Mixed,
    }
}

#[test]
fn every_canary_is_found_as_what_it_is() {
    for canary in Canary::ALL {
        let plan = Plan { mode: Some(mode_for(canary)), canary: Some(canary), ..Plan::default() };
        let found = (0..SEEDS_MAX).find_map(|seed| plan.run(seed).err().map(|violation| (seed, violation)));
        let (seed, violation) = found.unwrap_or_else(|| panic!("{canary:?} was not found in {SEEDS_MAX} seeds"));
        assert!(canary.breaks().contains(&violation.property), "{canary:?} was found as something else: seed={seed} {violation}");
        println!("{canary:?}: seed {seed}, {:?}", violation.property);
    }
}
