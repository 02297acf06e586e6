//! `forebay`: a burst buffer in front of a directory. This crate is the command line: it asks, shows and reports, and decides nothing about data.

#![forbid(unsafe_code)]

mod analyze;
mod archive;
mod args;
mod bench;
mod child;
mod config;
mod console;
mod control;
mod curve;
mod debug;
mod doctor;
mod drain;
mod engine;
mod error;
mod geometry;
mod keeper;
mod last_word;
mod link;
mod metrics;
mod mount;
mod mounts;
mod over;
mod pages;
mod parquet;
mod paths;
mod places;
mod plan;
mod profile;
mod rates;
mod recover;
mod registry;
mod remote;
mod replay;
mod report;
mod reproduce;
mod run;
mod serve;
mod servers;
mod session;
mod show;
mod signals;
mod simulate;
mod size;
mod sizes;
mod stage;
mod summary;
mod trace;
mod tracefile;
mod tracing;
mod view;

use std::ffi::OsString;
use std::io::Write;

use clap::Parser;

use crate::args::{Cli, Command, SettingArgs};
use crate::config::{Layers, Settings};
use crate::console::{Console, Verbosity};
use crate::error::{Error, Exit};
use crate::link::Link;
use crate::stage::Direction;

/// The allocator of the system keeps an arena for each thread and what was freed in it; with a hundred threads and long listings that was
/// more than all that is in use. How this one is made is in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Writes to standard output; a reader that has seen enough is no error.
fn print(text: &str) -> Result<(), Error> {
    let mut output = std::io::stdout();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::io("write to standard output")(error)),
        _ => Ok(()),
    }
}

/// The settings of all layers.
fn settings(args: &SettingArgs, console: Console) -> Result<(Layers, Settings), Error> {
    let variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let layers = Layers::load(&|key| args.given(key), args.file(), &variables, &|path| std::fs::read_to_string(path))?;
    for name in &layers.unknown_variables {
        console.warn(&format!("the variable {name} is not known and has no effect; `forebay config` shows the settings"));
    }
    let settings = Settings::read(&layers)?;
    Ok((layers, settings))
}

/// The settings of a process that is kept. One that takes over has the text of the file from the one before: the file may stand in the mount,
/// which nobody serves yet.
fn kept_settings(args: &SettingArgs, link: &mut Link, console: Console) -> Result<Settings, Error> {
    let Some((resumed, _)) = &link.resumed else {
        let (layers, settings) = settings(args, console)?;
        link.config = layers.file_text;
        return Ok(settings);
    };
    link.config = resumed.config.clone();
    let variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let text = |_: &std::path::Path| resumed.config.clone().ok_or_else(|| std::io::ErrorKind::NotFound.into());
    let layers = Layers::load(&|key| args.given(key), args.file(), &variables, &text)?;
    Ok(Settings::read(&layers)?)
}

fn dispatch(cli: &Cli, arguments: &[OsString], console: Console) -> Result<u8, Error> {
    match &cli.command {
        Command::Run(args) if cli.kept => {
            let mut link = Link::open()?;
            return run::command(&kept_settings(&args.settings, &mut link, console)?, args.over, &args.command, link, console);
        }
        Command::Run(args) => {
            if args.over {
                // First of all: the kernel refuses it to a process with several threads.
                over::enter(over::Asker::RUN)?;
            }
            return keeper::keep(&args.command, args.over, arguments, console);
        }
        Command::Mount(args) if cli.kept => {
            let mut link = Link::open()?;
            mount::serve(args, &kept_settings(&args.settings, &mut link, console)?, link, console)
        }
        Command::Serve(args) => serve::command(args, console),
        Command::Recover(args) => recover::command(args, console),
        Command::Mount(args) => return mount::command(args, arguments, console),
        Command::Umount(args) => remote::umount(args, console),
        Command::Status(args) => remote::status(args, console),
        Command::Drain(args) => remote::drain(args, console),
        Command::StageIn(args) => stage::command(Direction::In, args, console),
        Command::StageOut(args) => stage::command(Direction::Out, args, console),
        Command::Where(args) => stage::where_is(args),
        Command::Config(args) => {
            let (layers, settings) = settings(&args.settings, console)?;
            show::command(&layers, &settings, args.toml)
        }
        Command::Replay(args) => replay::command(args, console),
        Command::Trace(args) => return trace::command(args, console),
        Command::Analyze(args) => analyze::command(args, console),
        Command::Bench(args) => bench::command(args),
        Command::Plan(args) => plan::command(args, console),
        Command::Sim(args) => simulate::command(args, arguments, console),
        Command::Reproduce(args) => reproduce::command(args, console),
        Command::Doctor(args) => return doctor::command(args),
        Command::Debug(args) => {
            let layers = settings(&args.settings, console);
            debug::command(args, layers, console)
        }
        Command::Man(args) => pages::man(args, console),
        Command::Completions(args) => pages::completions(args),
        Command::ProbeOver => over::enter(over::Asker::RUN),
        Command::FlushKernel { mount } => return Ok(engine::flush_kernel_from_outside(mount)),
    }?;
    Ok(0)
}

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let code = match Cli::try_parse() {
        Ok(cli) => {
            let verbosity = match (cli.quiet, cli.verbose) {
                (true, _) => Verbosity::Quiet,
                (_, true) => Verbosity::Verbose,
                _ => Verbosity::Normal,
            };
            let console = Console::new(verbosity);
            dispatch(&cli, &arguments, console).unwrap_or_else(|error| {
                if !matches!(error, Error::Told(_)) {
                    console.warn(&error.to_string());
                }
                error.code()
            })
        }
        Err(error) => {
            // Help and version go to standard output and are no error. Nothing is left to do when the output is closed.
            let _ = error.print();
            if error.use_stderr() { Exit::Usage as u8 } else { 0 }
        }
    };
    // Threads that serve or drain may still run; what they do is safe to cut off at any moment.
    std::process::exit(code.into());
}
