//! `forebay-bench`: sequential and random reads and writes, names, and a burst against a slow home; Forebay beside the bare directory and
//! beside pass-through mounts, turn by turn in one run, so that the ratios mean something on a machine that others use, too.

mod report;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Parser;
use forebay_bench::cases::{self, Case, Scale, cases};
use forebay_bench::load::{Action, Work};
use forebay_bench::systems::{self, Bare, Forebay, ForebayOptions, PASS_THROUGHS, PassThrough, SlowHome, SlowKind, System};
use report::{BurstResult, CaseResult, FlowResult, Report};
use serde::Deserialize;

/// The slow home: slower than any disk, faster than patience.
const SLOW: SlowKind = SlowKind { bytes_per_s: 50 << 20, latency: Duration::from_millis(2), is_duplex: false };

#[derive(Parser)]
#[command(about = "Measures Forebay beside a bare directory and pass-through mounts")]
struct Arguments {
    /// Where to work: on the disk whose speed is of interest.
    #[arg(long, default_value = "bench/out")]
    directory: PathBuf,
    /// Write the results there as JSON, too.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Tiny sizes and one run: shows that the benchmark works, and nothing else.
    #[arg(long)]
    quick: bool,
    /// Only cases whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Leave the burst out.
    #[arg(long)]
    no_burst: bool,
    /// Run the benchmark of the core alone, too (`cargo bench -p forebay-core --bench core -- --full`).
    #[arg(long)]
    core: bool,
    /// The program to measure; the default stands beside this one.
    #[arg(long)]
    forebay: Option<PathBuf>,
}

fn main() -> ExitCode {
    match measure(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("forebay-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A program that was built with this one.
fn beside(name: &str) -> io::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    if path.exists() { Ok(path) } else { Err(io::Error::other(format!("{} is not built", path.display()))) }
}

fn measure(arguments: &Arguments) -> io::Result<()> {
    let scale = if arguments.quick { cases::QUICK } else { cases::FULL };
    let program = arguments.forebay.clone().map_or_else(|| beside("forebay"), Ok)?;
    fs::create_dir_all(&arguments.directory)?;
    let folder = fs::canonicalize(&arguments.directory)?.join(format!("work-{}", std::process::id()));
    fs::create_dir(&folder)?;
    let result = measure_in(&folder, arguments, scale, &program);
    // Mounts are gone by now; if one is not, its files must stay.
    if let Err(error) = fs::remove_dir_all(&folder) {
        eprintln!("forebay-bench: {}: {error}", folder.display());
    }
    let mut report = result?;
    if arguments.core {
        eprintln!("forebay-bench: the core alone");
        report.core =
            Some(systems::run(Command::new("cargo").args(["bench", "--quiet", "-p", "forebay-core", "--bench", "core", "--", "--full"]))?);
    }
    print!("{}", report.text());
    if let Some(path) = &arguments.json {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, serde_json::to_vec_pretty(&report)?)?;
    }
    Ok(())
}

fn measure_in(folder: &Path, arguments: &Arguments, scale: Scale, program: &Path) -> io::Result<Report> {
    let mut report = Report::new(folder, arguments.quick);
    let wanted = |case: &Case| arguments.only.as_ref().is_none_or(|part| case.name().contains(part.as_str()));
    let cases: Vec<Case> = cases(scale).into_iter().filter(wanted).collect();
    if !cases.is_empty() {
        report.cases = measure_cases(folder, &cases, scale, program, &mut report.caches_dropped)?;
    }
    if !arguments.no_burst {
        report.burst = Some(measure_burst(folder, scale, program)?);
        for is_duplex in [false, true] {
            report.flows.push(measure_flow(folder, scale, program, &SlowKind { is_duplex, ..SLOW })?);
        }
    }
    Ok(report)
}

/// What `load` prints.
#[derive(Deserialize)]
struct Measured {
    ns: u64,
    #[serde(flatten)]
    work: Work,
}

fn load(case: &Case, directory: &Path) -> io::Result<Command> {
    let action = clap::ValueEnum::to_possible_value(&case.action).expect("every action has a name");
    let mut command = Command::new(beside("load")?);
    command.arg(action.get_name()).arg("--directory").arg(directory).arg("--processes").arg(case.processes.to_string());
    command.arg("--file").arg((case.total_bytes / case.processes).to_string());
    command.arg("--block").arg(case.block_bytes.to_string());
    command.arg("--files").arg((case.total_files / case.processes).to_string());
    Ok(command)
}

/// The rate of one run: MiB per second, or operations per second.
fn rate(case: &Case, directory: &Path) -> io::Result<f64> {
    let printed = systems::run(&mut load(case, directory)?)?;
    let measured: Measured = serde_json::from_str(&printed)?;
    let seconds = measured.ns as f64 / 1e9;
    Ok(if case.counts_bytes() {
        measured.work.bytes as f64 / f64::from(1 << 20) / seconds
    } else {
        measured.work.operations as f64 / seconds
    })
}

fn measure_cases(
    folder: &Path,
    cases: &[Case],
    scale: Scale,
    program: &Path,
    caches_dropped: &mut Option<bool>,
) -> io::Result<Vec<CaseResult>> {
    let home = folder.join("forebay-home");
    fs::create_dir(&home)?;
    let room = scale.large_total_bytes * 4;
    let options = ForebayOptions { program: program.into(), capacity_bytes: room, memory_bytes: room / 2, more: Vec::new() };
    let mut bare = Bare::new(folder)?;
    let mut pass_throughs = Vec::new();
    for (name, options) in PASS_THROUGHS {
        pass_throughs.extend(PassThrough::new(folder, name, options)?);
    }
    let mut forebay = Forebay::new(folder, &home, "forebay", options)?;
    let mut systems: Vec<&mut dyn System> = vec![&mut bare];
    systems.extend(pass_throughs.iter_mut().map(|system| system as &mut dyn System));
    systems.push(&mut forebay);
    let mut results = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        eprintln!("forebay-bench: {}/{} {}", number + 1, cases.len(), case.name());
        let mut runs: Vec<_> = systems.iter().map(|system| (system.name(), Vec::new())).collect();
        for run in 0..scale.runs {
            for (system, (_, runs)) in systems.iter_mut().zip(&mut runs) {
                let directory = system.directory().join(format!("case-{number}-{run}"));
                fs::create_dir(&directory)?;
                systems::run(load(case, &directory)?.arg("--prepare"))?;
                system.rest()?;
                if case.cold {
                    *caches_dropped = Some(systems::drop_caches() && caches_dropped.unwrap_or(true));
                }
                runs.push(rate(case, &directory)?);
                system.rest()?;
                fs::remove_dir_all(&directory)?;
                system.rest()?;
            }
        }
        results.push(CaseResult::new(case, runs));
    }
    Ok(results)
}

/// One burst of the buffer's size: straight to the slow home, to the bare disk, and to Forebay in front of the slow home.
fn measure_burst(folder: &Path, scale: Scale, program: &Path) -> io::Result<BurstResult> {
    let case = large_write(scale.burst_bytes);
    let slow = SlowHome::new(folder, &beside("slowfs")?, &SLOW)?;
    let bare = folder.join("burst-bare");
    fs::create_dir(&bare)?;
    let options = ForebayOptions {
        program: program.into(),
        capacity_bytes: scale.burst_bytes,
        memory_bytes: scale.burst_bytes / 4,
        more: Vec::new(),
    };
    let forebay = Forebay::new(folder, slow.directory(), "burst", options)?;
    let mut runs: [Vec<f64>; 3] = Default::default();
    let mut drain_seconds = Vec::new();
    for run in 0..scale.burst_runs {
        eprintln!("forebay-bench: burst {}/{}", run + 1, scale.burst_runs);
        for (place, runs) in [bare.as_path(), slow.directory(), forebay.directory()].into_iter().zip(&mut runs) {
            let directory = place.join(format!("burst-{run}-{}", runs.len()));
            fs::create_dir(&directory)?;
            runs.push(rate(&case, &directory)?);
            if place == forebay.directory() {
                drain_seconds.push(forebay.drain()?.as_secs_f64());
            }
            fs::remove_dir_all(&directory)?;
            forebay.drain()?;
            rustix::fs::sync();
        }
    }
    drop(forebay);
    Ok(BurstResult::new(scale.burst_bytes, &SLOW, runs, drain_seconds))
}

/// One process writes one file in large blocks.
fn large_write(total_bytes: u64) -> Case {
    Case { action: Action::WriteSequential, processes: 1, block_bytes: 1 << 20, total_bytes, total_files: 0, cold: false }
}

/// Four times as much as the buffer holds: straight to the slow home, and through Forebay.
fn measure_flow(folder: &Path, scale: Scale, program: &Path, kind: &SlowKind) -> io::Result<FlowResult> {
    let capacity_bytes = scale.flow_capacity_bytes;
    let case = large_write(capacity_bytes * 4);
    let slow = SlowHome::new(folder, &beside("slowfs")?, kind)?;
    let options = ForebayOptions { program: program.into(), capacity_bytes, memory_bytes: capacity_bytes / 4, more: Vec::new() };
    let forebay = Forebay::new(folder, slow.directory(), "flow", options)?;
    let mut runs: [Vec<f64>; 2] = Default::default();
    for run in 0..scale.burst_runs {
        eprintln!("forebay-bench: four times the capacity {}/{}", run + 1, scale.burst_runs);
        for (place, runs) in [slow.directory(), forebay.directory()].into_iter().zip(&mut runs) {
            let directory = place.join(format!("flow-{run}-{}", runs.len()));
            fs::create_dir(&directory)?;
            runs.push(rate(&case, &directory)?);
            forebay.drain()?;
            fs::remove_dir_all(&directory)?;
            forebay.drain()?;
        }
    }
    drop(forebay);
    Ok(FlowResult::new(capacity_bytes, case.total_bytes, kind, runs))
}
