//! Hundreds of seeds, in every mode. A seed that fails is run alone, told step by step, with
//! `cargo run -p forebay-sim --bin forebay-sim -- --mode MODE --seed SEED --verbose`.

use forebay_core::node::Node;
use forebay_sim::scenario::{Mode, Scenario};
use forebay_sim::world::World;

/// Runs the seeds `0..count` of a mode, or as many more as `FOREBAY_SIM_TIMES` says.
fn run(mode: Mode, count: u64) {
    let times = std::env::var("FOREBAY_SIM_TIMES").ok().and_then(|times| times.parse::<u64>().ok()).unwrap_or(1);
    let mut failures = Vec::new();
    for seed in 0..count * times {
        let world = World::<Node>::new(Scenario::new(mode, seed), None, false);
        if let Err(violation) = world.and_then(World::run) {
            failures.push(format!("seed={seed} mode={} {violation}", mode.name()));
        }
    }
    assert!(failures.is_empty(), "{} of {} seeds failed:\n{}", failures.len(), count * times, failures.join("\n"));
}

macro_rules! modes {
    ($($name:ident: $mode:ident, $count:literal;)*) => {
        $(
            #[test]
            fn $name() {
                run(Mode::$mode, $count);
            }
        )*
    };
}

modes! {
    one_client: Mixed, 600;
    several_clients: Clients, 400;
    one_file_of_several: SharedFile, 400;
    streams_beyond_the_buffer: Stream, 150;
    the_smallest_buffer: Tiny, 400;
    many_files: ManyFiles, 600;
    killed_again_and_again: Kill, 300;
    power_lost_again_and_again: Power, 250;
    a_home_that_fails: HomeFaults, 400;
    a_log_that_fails: LogFaults, 600;
    all_of_it: Storm, 250;
    holes_and_extended_attributes: Complete, 400;
    holes_and_extended_attributes_beside_all_of_it: CompleteStorm, 300;
    single_files_brought_home: Staging, 500;
    few_inodes: FewInodes, 400;
    few_records: FewRecords, 300;
    taken_over_again_and_again: Takeover, 400;
    a_disk_that_is_full_for_a_while: FullDisk, 500;
    a_disk_that_breaks: BadDisk, 300;
    a_home_that_refuses_or_stalls: HomeSpells, 300;
    a_home_that_others_change: HomeChanged, 400;
}
