//! Runs the simulator from the command line: one seed, told step by step, or many.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_core::node::Node;
use forebay_sim::canary::Canary;
use forebay_sim::scenario::{Mode, Scenario};
use forebay_sim::world::{Summary, World};

const USAGE: &str = "usage: forebay-sim (--seed N | --seeds A..B) [--mode NAME] [--ops N] [--threads N] [--canary NAME] [--verbose]";

#[derive(Clone, Debug)]
struct Options {
    first: u64,
    end: u64,
    mode: Option<Mode>,
    ops: Option<u64>,
    threads: u64,
    canary: Option<Canary>,
    verbose: bool,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { first: 0, end: 0, mode: None, ops: None, threads: 1, canary: None, verbose: false };
    while let Some(name) = arguments.next() {
        if name == "--verbose" {
            options.verbose = true;
            continue;
        }
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{name}: {text:?} is not a number"));
        match name.as_str() {
            "--seed" => (options.first, options.end) = (number(&value)?, number(&value)? + 1),
            "--seeds" => {
                let (first, end) = value.split_once("..").ok_or(format!("{name}: {value:?} is not a range A..B"))?;
                (options.first, options.end) = (number(first)?, number(end)?);
            }
            "--mode" => options.mode = Some(Mode::parse(&value).ok_or_else(|| unknown("mode", &value, Mode::ALL.map(Mode::name)))?),
            "--canary" => {
                let canary = Canary::ALL.into_iter().find(|canary| format!("{canary:?}") == value);
                options.canary = Some(canary.ok_or_else(|| unknown("canary", &value, Canary::ALL.map(|canary| format!("{canary:?}"))))?);
            }
            "--ops" => options.ops = Some(number(&value)?),
            "--threads" => options.threads = number(&value)?.max(1),
            _ => return Err(format!("{name} is not an option")),
        }
    }
    if options.first >= options.end { Err("no seeds were given".into()) } else { Ok(options) }
}

fn unknown<const N: usize>(what: &str, value: &str, known: [String; N]) -> String {
    format!("there is no {what} {value:?}; there are {}", known.join(", "))
}

fn run(options: &Options, seed: u64) -> Result<Summary, String> {
    let mode = options.mode.unwrap_or_else(|| Mode::of_seed(seed));
    let mut scenario = Scenario::new(mode, seed);
    if let Some(ops) = options.ops {
        scenario.workload.actions = scenario.workload.actions.min(ops);
    }
    if options.verbose {
        println!("{scenario:#?}");
    }
    let world = World::<Node>::new(scenario, options.canary, options.verbose);
    world.and_then(World::run).map_err(|violation| format!("seed={seed} mode={} {violation}", mode.name()))
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(what) => {
            eprintln!("{what}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let (next, failed) = (AtomicU64::new(options.first), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= options.end {
                        break;
                    }
                    match std::panic::catch_unwind(|| run(&options, seed)) {
                        Ok(Ok(summary)) if options.end - options.first == 1 => println!("{summary:#?}"),
                        Ok(Ok(_)) => {}
                        Ok(Err(what)) => {
                            failed.fetch_add(1, Ordering::Relaxed);
                            println!("{what}");
                        }
                        Err(_) => {
                            failed.fetch_add(1, Ordering::Relaxed);
                            println!("seed={seed} panicked");
                        }
                    }
                }
            });
        }
    });
    let (runs, failed) = (options.end - options.first, failed.into_inner());
    println!("{runs} runs, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
