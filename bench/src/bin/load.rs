//! `load ACTION --directory DIR --processes N ...`: N processes that do the same side by side; prints the time from the moment when all
//! are let go to the moment when the last is done, and what they did, as JSON.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

use clap::{Parser, ValueEnum};
use forebay_bench::load::{Action, Amount, Work, perform, prepare};
use forebay_bench::quantity::parse_bytes;

#[derive(Parser)]
#[command(about = "Puts a load on a directory and says how long it took")]
struct Arguments {
    #[arg(value_enum)]
    action: Action,
    #[arg(long)]
    directory: PathBuf,
    #[arg(long, default_value_t = 1)]
    processes: u64,
    /// Bytes of each process's file.
    #[arg(long, value_parser = parse_bytes, default_value = "1MiB")]
    file: u64,
    /// Bytes of one call.
    #[arg(long, value_parser = parse_bytes, default_value = "64KiB")]
    block: u64,
    /// Files of each process, for actions on names.
    #[arg(long, default_value_t = 1000)]
    files: u64,
    /// Make what the action needs, and do no more.
    #[arg(long)]
    prepare: bool,
    /// One of the processes: waits for a line, acts, answers.
    #[arg(long, hide = true)]
    process: Option<u64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.process {
        Some(process) => act(&arguments, process),
        None if arguments.prepare => prepare_all(&arguments),
        None => lead(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {:?} in {}: {error}", arguments.action, arguments.directory.display());
            ExitCode::FAILURE
        }
    }
}

fn amount(arguments: &Arguments) -> Amount {
    Amount { file_bytes: arguments.file, block_bytes: arguments.block, files: arguments.files }
}

fn prepare_all(arguments: &Arguments) -> io::Result<()> {
    (0..arguments.processes).try_for_each(|process| prepare(arguments.action, amount(arguments), &arguments.directory, process))
}

fn act(arguments: &Arguments, process: u64) -> io::Result<()> {
    println!("ready");
    io::stdin().lock().read_line(&mut String::new())?;
    let work = perform(arguments.action, amount(arguments), &arguments.directory, process)?;
    println!("{}", serde_json::to_string(&work)?);
    Ok(())
}

fn start(arguments: &Arguments, program: &Path, process: u64) -> io::Result<Child> {
    let action = arguments.action.to_possible_value().expect("every action has a name");
    let mut command = Command::new(program);
    command.arg(action.get_name()).arg("--directory").arg(&arguments.directory).arg("--process").arg(process.to_string());
    for (name, value) in [("--file", arguments.file), ("--block", arguments.block), ("--files", arguments.files)] {
        command.arg(name).arg(value.to_string());
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

fn lead(arguments: &Arguments) -> io::Result<()> {
    let program = std::env::current_exe()?;
    let mut children = (0..arguments.processes).map(|process| start(arguments, &program, process)).collect::<io::Result<Vec<_>>>()?;
    let mut outputs: Vec<_> = children.iter_mut().map(|child| BufReader::new(child.stdout.take().expect("piped"))).collect();
    for output in &mut outputs {
        output.read_line(&mut String::new())?;
    }
    let begun = Instant::now();
    for child in &mut children {
        child.stdin.take().expect("piped").write_all(b"go\n")?;
    }
    let mut work = Work::default();
    for output in &mut outputs {
        let mut line = String::new();
        output.read_line(&mut line)?;
        work += serde_json::from_str(&line).map_err(|_| io::Error::other("a process failed"))?;
    }
    let ns = begun.elapsed().as_nanos() as u64;
    for mut child in children {
        child.wait()?;
    }
    println!("{}", serde_json::json!({ "ns": ns, "operations": work.operations, "bytes": work.bytes }));
    Ok(())
}
