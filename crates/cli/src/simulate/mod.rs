//! `forebay sim`: buffers of many sizes, policies and nodes on one trace.

mod lists;
mod page;
mod plan_file;
mod rerun;
mod row;

use std::ffi::OsString;

use forebay_sim::buffer::{BufferConfig, Progress, RateError, Rates, Sweep, SweepError, Workload, WorkloadBuilder};

use crate::args::SimArgs;
use crate::console::{self, Console};
use crate::error::{Error, Exit};
use crate::parquet;
use crate::report::{self, Kind, Unit};
use crate::tracefile;

use row::Row;

/// What it writes to files.
const KINDS: [Kind; 4] = [Kind::Page, Kind::Json, Kind::Csv, Kind::Parquet];

fn rates(args: &SimArgs) -> Result<Rates, Error> {
    if args.rate_table.is_empty() {
        return Ok(Rates::constant(args.rates.home_rate.max(1) as f64, args.rates.buffer_rate.max(1) as f64));
    }
    let mut table = String::new();
    for path in &args.rate_table {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::Coded { message: format!("cannot read the table {}: {error}", path.display()), exit: Exit::Config })?;
        let lines = if text.trim_start().starts_with('{') { rate_lines(&text) } else { Ok(text) };
        let lines = lines.map_err(|problem| Error::Data(format!("{}: {problem}", path.display())))?;
        // Each by itself first, so that a fault is told of the file that has it; whether a level is missing is seen in the end.
        if let Err(error @ RateError::Line { .. }) = Rates::parse(&lines) {
            return Err(Error::Data(format!("{}: {error}", path.display())));
        }
        table += lines.trim_start_matches("nodes,level,op,size,bytes_per_s\n");
        table.push('\n');
    }
    Rates::parse(&table).map_err(|error| Error::Data(error.to_string()))
}

/// The lines of a table that is JSON.
fn rate_lines(text: &str) -> Result<String, String> {
    #[derive(serde::Deserialize)]
    struct Rate {
        nodes: u32,
        level: String,
        op: String,
        size: u64,
        bytes_per_s: f64,
    }
    #[derive(serde::Deserialize)]
    struct Table {
        rates: Vec<Rate>,
    }
    let table: Table = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let line = |rate: &Rate| format!("{},{},{},{},{}\n", rate.nodes, rate.level, rate.op, rate.size, rate.bytes_per_s);
    Ok(table.rates.iter().map(line).collect())
}

/// `forebay sim`; with a plan, as the plan says.
pub(crate) fn command(args: &SimArgs, command_line: &[OsString], console: Console) -> Result<(), Error> {
    if args.as_recorded {
        return rerun::command(args, console);
    }
    match &args.plan {
        Some(path) => run(&plan_file::args(path, command_line)?, console),
        None => run(args, console),
    }
}

fn run(args: &SimArgs, console: Console) -> Result<(), Error> {
    let kinds: Vec<Kind> = args.output.iter().map(|path| Kind::of(path, &KINDS)).collect::<Result<_, _>>()?;
    let Some(trace) = args.trace.as_ref().or(args.trace_of_plan.as_ref()) else {
        return Err(Error::usage("which trace? name it, on the command line or as `trace` in the plan"));
    };
    let (chunk_bytes, rates) = (tracefile::chunk_bytes(args.chunk)?, rates(args)?);
    // Faults of the command line are told before the trace is read.
    lists::configs(args, 1 << 30, chunk_bytes)?;
    let mut builder = WorkloadBuilder::new(chunk_bytes);
    let paths = crate::trace::read_sorted(trace, &args.read, console, |record| builder.add(record))?;
    let workload = builder.finish(paths);
    if workload.references() == 0 {
        let trace = trace.display();
        return Err(Error::Data(format!("{trace} has no reads or writes at known places, so there is nothing to simulate")));
    }
    let rows = simulate(args, &workload, &rates)?;
    for (path, kind) in args.output.iter().zip(kinds) {
        let content = match kind {
            Kind::Page => page::page(&rows, &about(args, trace, &workload)).into_bytes(),
            Kind::Json => json(&rows).into_bytes(),
            Kind::Csv => csv(&rows).into_bytes(),
            Kind::Parquet => parquet::file(&row::columns(&rows)),
        };
        report::save(path, &content)?;
    }
    match (args.json, args.output.is_empty()) {
        (true, _) => crate::print(&json(&rows)),
        (false, true) => crate::print(&csv(&rows)),
        (false, false) => Ok(()),
    }
}

fn simulate(args: &SimArgs, workload: &Workload, rates: &Rates) -> Result<Vec<Row>, Error> {
    let chunk_bytes = workload.chunk_bytes();
    let configs = lists::configs(args, workload.footprint_bytes(), chunk_bytes)?;
    let bar = console::steps_bar(configs.len() as u64, "simulations");
    let sweep = Sweep { workload, rates, configs: &configs, threads: args.threads };
    let line = |config: &BufferConfig, outcome| serde_json::to_string(&Row::new(config, chunk_bytes, outcome)).unwrap_or_default();
    let lines = sweep.run(args.results.as_deref(), line, |Progress { done, .. }| bar.set_position(done as u64));
    bar.finish_and_clear();
    let lines = lines.map_err(|error| match error {
        SweepError::OfAnother { .. } => Error::Data(error.to_string()),
        SweepError::Io { .. } => Error::Coded { message: error.to_string(), exit: Exit::Config },
    })?;
    let row = |line: &String| {
        serde_json::from_str(line)
            .map_err(|error| Error::Data(format!("a result cannot be read again: {error}; remove the file of --results")))
    };
    lines.iter().map(row).collect()
}

fn about(args: &SimArgs, trace: &std::path::Path, workload: &Workload) -> page::About {
    let tables: Vec<String> = args.rate_table.iter().map(|table| table.display().to_string()).collect();
    let throughput = if tables.is_empty() {
        format!(
            "home at {}, the buffer at {} on each node",
            Unit::BytesPerS.show(args.rates.home_rate as f64),
            Unit::BytesPerS.show(args.rates.buffer_rate as f64)
        )
    } else {
        format!("throughput from {}", tables.join(", "))
    };
    let model = format!(
        "{}: {} touched in {} uses, in chunks of {}; {throughput}; counted in {}",
        trace.display(),
        Unit::Bytes.show(workload.footprint_bytes() as f64),
        Unit::Count.show(workload.references() as f64),
        Unit::Bytes.show(f64::from(workload.chunk_bytes())),
        args.count
    );
    page::About { trace: trace.file_name().unwrap_or(trace.as_os_str()).to_string_lossy().into_owned(), model }
}

fn csv(rows: &[Row]) -> String {
    std::iter::once(Row::csv_head()).chain(rows.iter().map(Row::csv)).collect()
}

fn json(rows: &[Row]) -> String {
    let lines: Vec<String> = rows.iter().map(|row| serde_json::to_string(row).unwrap_or_default()).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}
