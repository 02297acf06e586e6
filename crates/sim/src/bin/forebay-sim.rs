//! Runs the simulator from the command line: one seed, told step by step, or many.

use std::process::ExitCode;

use forebay_sim::canary::Canary;
use forebay_sim::runner::Plan;
use forebay_sim::scenario::Mode;

const USAGE: &str = "usage: forebay-sim (--seed N | --seeds A..B) [--mode NAME] [--ops N] [--threads N] [--canary NAME] [--verbose]";

struct Options {
    first: u64,
    end: u64,
    threads: usize,
    plan: Plan,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { first: 0, end: 0, threads: 1, plan: Plan::default() };
    while let Some(name) = arguments.next() {
        if name == "--verbose" {
            options.plan.verbose = true;
            continue;
        }
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{name}: {text:?} is not a number"));
        match name.as_str() {
            "--seed" => (options.first, options.end) = (number(&value)?, number(&value)?.saturating_add(1)),
            "--seeds" => {
                let (first, end) = value.split_once("..").ok_or(format!("{name}: {value:?} is not a range A..B"))?;
                (options.first, options.end) = (number(first)?, number(end)?);
            }
            "--mode" => options.plan.mode = Some(Mode::parse(&value).ok_or_else(|| unknown("mode", &value, &Mode::ALL.map(Mode::name)))?),
            "--canary" => {
                let names = Canary::ALL.map(|canary| format!("{canary:?}"));
                let at = names.iter().position(|known| *known == value).ok_or_else(|| unknown("canary", &value, &names))?;
                options.plan.canary = Some(Canary::ALL[at]);
            }
            "--ops" => options.plan.ops = Some(number(&value)?),
            "--threads" => options.threads = number(&value)?.max(1) as usize,
            _ => return Err(format!("{name} is not an option")),
        }
    }
    if options.first >= options.end { Err("no seeds were given".into()) } else { Ok(options) }
}

fn unknown(what: &str, value: &str, known: &[String]) -> String {
    format!("there is no {what} {value:?}; there are {}", known.join(", "))
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(what) => {
            eprintln!("{what}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let runs = options.end - options.first;
    if runs == 1
        && let Ok(summary) = options.plan.run_and_tell(options.first)
    {
        println!("{summary:#?}");
        return ExitCode::SUCCESS;
    }
    let quiet = Plan { verbose: options.plan.verbose && runs > 1, ..options.plan };
    let failures = quiet.run_all(options.first, options.end, options.threads);
    failures.iter().for_each(|what| println!("{what}"));
    println!("{runs} runs, {} failed", failures.len());
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
