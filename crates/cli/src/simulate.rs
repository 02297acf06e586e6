//! `forebay sim`: buffers of many sizes, policies and nodes on one trace.

use std::fmt::Write as _;
use std::io::IsTerminal;

use forebay_core::config::WriteBack;
use forebay_sim::buffer::{
    BufferConfig, COUNTER_NAMES, Counting, Formula, Granularity, Infeasible, Outcome, Policy, Progress, Rates, Sweep, SweepError,
    WorkloadBuilder, write_back_name,
};
use forebay_trace::FileId;
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

use crate::args::SimArgs;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::size;
use crate::tracefile;

/// The most simulations of one command.
const CONFIGS_MAX: usize = 100_000;
/// The most values of one range.
const VALUES_MAX: usize = 10_000;

/// One simulation, as it is printed.
#[derive(Serialize, Deserialize)]
struct Row {
    capacity_bytes: u64,
    policy: String,
    granularity: String,
    write_back: String,
    nodes: u32,
    /// Why there is no result.
    infeasible: Option<String>,
    /// IS, RHS, RMS, WS, WBS.
    bytes: [f64; 5],
    /// Their shares.
    shares: [f64; 5],
    miss_ratio: f64,
    background_bytes: u64,
    evicted_bytes: u64,
    dirty_left_bytes: u64,
    /// By the formulas as printed: bytes a second of an unlimited buffer and of this one, and their ratio.
    paper: [f64; 3],
    /// The same with RMS in the total.
    full: [f64; 3],
}

impl Row {
    fn new(config: &BufferConfig, chunk_bytes: u32, outcome: Result<Outcome, Infeasible>) -> Row {
        let mut row = Row {
            capacity_bytes: config.capacity_bytes,
            policy: config.policy.name().into(),
            granularity: config.granularity.name().into(),
            write_back: write_back_name(config.write_back).into(),
            nodes: config.nodes,
            infeasible: None,
            bytes: [0.0; 5],
            shares: [0.0; 5],
            miss_ratio: 0.0,
            background_bytes: 0,
            evicted_bytes: 0,
            dirty_left_bytes: 0,
            paper: [0.0; 3],
            full: [0.0; 3],
        };
        match outcome {
            Err(error) => row.infeasible = Some(error.to_string()),
            Ok(outcome) => {
                let bytes = |chunks: u64| chunks * u64::from(chunk_bytes);
                let throughput = |formula| {
                    let found = outcome.throughput(formula);
                    [found.max, found.actual, found.ratio()]
                };
                row.bytes = outcome.bytes;
                row.shares = outcome.shares();
                row.miss_ratio = outcome.counters.miss_ratio();
                row.background_bytes = bytes(outcome.counters.background_chunks);
                row.evicted_bytes = bytes(outcome.counters.evicted_chunks);
                row.dirty_left_bytes = bytes(outcome.counters.dirty_chunks_left);
                row.paper = throughput(Formula::Paper);
                row.full = throughput(Formula::Full);
            }
        }
        row
    }

    fn csv_head() -> String {
        let counters: Vec<String> = COUNTER_NAMES
            .map(|name| format!("{name}_bytes"))
            .into_iter()
            .chain(COUNTER_NAMES.map(|name| format!("{name}_share")))
            .collect();
        format!(
            "capacity_bytes,policy,granularity,write_back,nodes,{},miss_ratio,background_bytes,evicted_bytes,dirty_left_bytes,\
             paper_max_bytes_per_s,paper_actual_bytes_per_s,paper_ratio,full_max_bytes_per_s,full_actual_bytes_per_s,full_ratio,infeasible\n",
            counters.join(",")
        )
    }

    fn csv(&self) -> String {
        let mut line = format!("{},{},{},{},{}", self.capacity_bytes, self.policy, self.granularity, self.write_back, self.nodes);
        if let Some(why) = &self.infeasible {
            let _ = write!(line, "{}\"{}\"", ",".repeat(21), why.replace('"', "\"\""));
        } else {
            let mut add = |value: f64| {
                let _ = write!(line, ",{value}");
            };
            self.bytes.into_iter().chain(self.shares).chain([self.miss_ratio]).for_each(&mut add);
            [self.background_bytes, self.evicted_bytes, self.dirty_left_bytes].into_iter().for_each(|bytes| add(bytes as f64));
            self.paper.into_iter().chain(self.full).for_each(&mut add);
            line.push(',');
        }
        line + "\n"
    }
}

/// The values of a list of values and ranges: `a..b*f` multiplies, `a..b+s` adds, `a..b` doubles.
fn values(option: &str, text: &str, parse: &dyn Fn(&str) -> Result<u64, String>) -> Result<Vec<u64>, Error> {
    let mut values = Vec::new();
    for part in text.split(',').map(str::trim) {
        let wrong = |why: String| Error::usage(format!("{option}: \"{part}\": {why}"));
        let number = |text: &str| parse(text).map_err(wrong);
        let Some((from, rest)) = part.split_once("..") else {
            values.push(number(part)?);
            continue;
        };
        let (to, step, is_factor) = match (rest.split_once('*'), rest.split_once('+')) {
            (Some((to, factor)), _) => (to, factor.trim().parse().map_err(|_| wrong("the factor is no whole number".into()))?, true),
            (None, Some((to, step))) => (to, number(step)?, false),
            (None, None) => (rest, 2, true),
        };
        let (mut at, to) = (number(from)?, number(to)?);
        if at > to || step == 0 || (is_factor && (step < 2 || at == 0)) {
            return Err(wrong("the range has no end; write it as in 64MiB..8GiB*2 or 1GiB..4GiB+1GiB".into()));
        }
        while at <= to && values.len() < VALUES_MAX {
            values.push(at);
            at = if is_factor { at.saturating_mul(step) } else { at.saturating_add(step) };
        }
    }
    if values.len() >= VALUES_MAX { Err(Error::usage(format!("{option}: more than {VALUES_MAX} values"))) } else { Ok(values) }
}

/// What stands behind the names of a list.
fn named<T: Copy>(option: &str, text: &str, known: &[(&str, T)]) -> Result<Vec<T>, Error> {
    let find = |name: &str| {
        let found = known.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value);
        let names = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        found.ok_or_else(|| Error::usage(format!("{option}: \"{name}\" is none of {}", names())))
    };
    text.split(',').map(|name| find(name.trim())).collect()
}

const GRANULARITIES: [(&str, Granularity); 3] = [
    ("chunk", Granularity::Chunk),
    ("file", Granularity::File { dirty_only: false }),
    ("file-dirty", Granularity::File { dirty_only: true }),
];
const WRITE_BACKS: [(&str, WriteBack); 2] = [("sync", WriteBack::Sync), ("async", WriteBack::Async)];
const COUNTINGS: [(&str, Counting); 2] = [("chunks", Counting::Chunks), ("bytes", Counting::Bytes)];

/// The configurations that the command line asks for, the capacity changing fastest.
fn configs(args: &SimArgs, footprint_bytes: u64, chunk_bytes: u32) -> Result<Vec<BufferConfig>, Error> {
    let size = |text: &str| size::parse(text.trim()).map_err(|error| error.to_string());
    let capacities = match &args.capacity {
        Some(text) => values("--capacity", text, &size)?,
        None => (0..8)
            .rev()
            .map(|halves| (footprint_bytes >> halves).next_multiple_of(u64::from(chunk_bytes)).max(u64::from(chunk_bytes)))
            .collect(),
    };
    let number = |text: &str| match text.trim().parse::<u32>() {
        Ok(nodes) if nodes > 0 => Ok(u64::from(nodes)),
        _ => Err("no number of nodes".to_owned()),
    };
    let all_nodes = values("--nodes", &args.nodes, &number)?;
    let known = Policy::named();
    let policies =
        if args.policy == "all" { known.iter().map(|(_, policy)| *policy).collect() } else { named("--policy", &args.policy, &known)? };
    let granularities = named("--granularity", &args.granularity, &GRANULARITIES)?;
    let write_backs = named("--write-back", &args.write_back, &WRITE_BACKS)?;
    let counting = named("--count", &args.count, &COUNTINGS)?[0];
    let mut configs = Vec::new();
    for &nodes in &all_nodes {
        for &write_back in &write_backs {
            for &granularity in &granularities {
                for &policy in &policies {
                    for &capacity_bytes in &capacities {
                        configs.push(BufferConfig { capacity_bytes, policy, granularity, write_back, counting, nodes: nodes as u32 });
                    }
                    if configs.len() > CONFIGS_MAX {
                        return Err(Error::usage(format!("more than {CONFIGS_MAX} simulations; ask for fewer at a time")));
                    }
                }
            }
        }
    }
    Ok(configs)
}

fn rates(args: &SimArgs) -> Result<Rates, Error> {
    let Some(path) = &args.rate_table else {
        return Ok(Rates::constant(args.rates.home_rate.max(1) as f64, args.rates.buffer_rate.max(1) as f64));
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::Coded { message: format!("cannot read the table {}: {error}", path.display()), exit: Exit::Config })?;
    Rates::parse(&text).map_err(|error| Error::Data(format!("{}: {error}", path.display())))
}

/// `forebay sim`.
pub(crate) fn command(args: &SimArgs, console: Console) -> Result<(), Error> {
    let (chunk_bytes, rates) = (tracefile::chunk_bytes(args.chunk)?, rates(args)?);
    // Faults of the command line are told before the trace is read.
    configs(args, 1 << 30, chunk_bytes)?;
    let mut builder = WorkloadBuilder::new(chunk_bytes);
    let paths = crate::trace::read_sorted(&args.trace, &args.read, console, |record| builder.add(record))?;
    let workload = builder.finish(|FileId(file)| paths.get(file as usize).cloned().unwrap_or_else(|| "?".into()));
    if workload.references() == 0 {
        return Err(Error::Data(format!(
            "{} has no reads or writes at known places, so there is nothing to simulate",
            args.trace.display()
        )));
    }
    let configs = configs(args, workload.footprint_bytes(), chunk_bytes)?;
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(configs.len() as u64) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos} of {len} simulations, {eta} left") {
        bar.set_style(style);
    }
    let sweep = Sweep { workload: &workload, rates: &rates, configs: &configs, threads: args.threads };
    let line = |config: &BufferConfig, outcome| serde_json::to_string(&Row::new(config, chunk_bytes, outcome)).unwrap_or_default();
    let lines = sweep.run(args.results.as_deref(), line, |Progress { done, .. }| bar.set_position(done as u64));
    bar.finish_and_clear();
    let lines = lines.map_err(|error| match error {
        SweepError::OfAnother { .. } => Error::Data(error.to_string()),
        SweepError::Io { .. } => Error::Coded { message: error.to_string(), exit: Exit::Config },
    })?;
    let mut output = if args.json { "[\n".to_owned() } else { Row::csv_head() };
    for (at, line) in lines.iter().enumerate() {
        let row: Row = serde_json::from_str(line)
            .map_err(|error| Error::Data(format!("a result cannot be read again: {error}; remove the file of --results")))?;
        if args.json {
            let comma = if at + 1 < lines.len() { "," } else { "" };
            output += &format!("{}{comma}\n", serde_json::to_string(&row).unwrap_or_default());
        } else {
            output += &row.csv();
        }
    }
    crate::print(&(output + if args.json { "]\n" } else { "" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Result<Vec<u64>, String> {
        let size = |text: &str| size::parse(text.trim()).map_err(|error| error.to_string());
        values("--capacity", text, &size).map_err(|error| error.to_string())
    }

    #[test]
    fn ranges_and_lists() {
        assert_eq!(sizes("1KiB, 4KiB..32KiB*2,1..3+1").unwrap(), [1024, 4096, 8192, 16384, 32768, 1, 2, 3]);
        assert_eq!(sizes("1..5").unwrap(), [1, 2, 4]);
        for wrong in ["", "4..1", "0..8*2", "1..8*1", "1..8+0", "1..8*x", "x..8", "1..9999999999+1"] {
            assert!(sizes(wrong).unwrap_err().starts_with("--capacity"), "{wrong}");
        }
    }

    #[test]
    fn rows_have_as_many_fields_as_the_head() {
        let config = BufferConfig {
            capacity_bytes: 1,
            policy: Policy::Belady,
            granularity: Granularity::Chunk,
            write_back: WriteBack::Sync,
            counting: Counting::Chunks,
            nodes: 1,
        };
        let infeasible = Row::new(&config, 4096, Err(Infeasible::NoChunk { capacity_bytes: 1, chunk_bytes: 4096 }));
        let fields = |line: &str| line.matches(',').count();
        assert_eq!(fields(&Row { infeasible: None, ..infeasible }.csv()), fields(&Row::csv_head()));
        let infeasible = Row::new(&config, 4096, Err(Infeasible::NoChunk { capacity_bytes: 1, chunk_bytes: 4096 })).csv();
        assert!(infeasible.ends_with("take a larger one\"\n"));
        assert_eq!(fields(infeasible.split('"').next().unwrap_or_default()), fields(&Row::csv_head()));
    }
}
