//! `forebay sim --as-recorded`: the trace of an instance, run again by the machine of the server.

use std::fmt::Write as _;

use forebay_core::config::NodeConfig;
use forebay_core::message::Counters;
use forebay_sim::rerun::{Costs, Rerun, rerun};
use forebay_trace::About;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::args::SimArgs;
use crate::console::Console;
use crate::error::Error;

/// What is printed as JSON.
#[derive(Serialize)]
struct Told {
    /// What the model takes for the capacity: the most that bytes of files may take up.
    buffer_bytes: u64,
    recorded: Option<Counters>,
    again: Counters,
    requests: u64,
    failed: u64,
}

/// A fact that is JSON.
fn fact<T: DeserializeOwned>(about: &About, name: &str) -> Option<T> {
    serde_json::from_str(about.fact(name)?).ok()
}

/// `forebay sim TRACE --as-recorded`.
pub(super) fn command(args: &SimArgs, console: Console) -> Result<(), Error> {
    let trace = args.trace.as_ref().ok_or_else(|| Error::usage("which trace? name it on the command line"))?;
    let (records, names, about) = crate::trace::read_whole(trace, &args.read, console)?;
    let no_instance = || Error::Data(format!("{} is not the trace of an instance: make one by `forebay run --trace`", trace.display()));
    let config: NodeConfig = fact(&about, "buffer.node").ok_or_else(no_instance)?;
    let root = about.fact("origin").unwrap_or_default().trim_end_matches('/').as_bytes();
    let path_of = |file| {
        let below = names.path(file).strip_prefix(root)?;
        if below.is_empty() { Some(below) } else { below.strip_prefix(b"/") }
    };
    let again = rerun(&records, path_of, config, Costs::Nothing).map_err(|error| Error::Data(format!("{}: {error}", trace.display())))?;
    let recorded: Option<Counters> = fact(&about, "buffer.counters");
    let Rerun { counters, live_bytes_max, requests, failed, .. } = again;
    if failed > 0 {
        console.warn(&format!(
            "{failed} operations failed that had not failed when they were recorded: the trace does not show all that home had"
        ));
    }
    if args.json {
        let told = Told { buffer_bytes: live_bytes_max, recorded, again: counters, requests, failed };
        return crate::print(&format!("{}\n", serde_json::to_string_pretty(&told).unwrap_or_default()));
    }
    crate::print(&table(recorded.as_ref(), &counters))
}

/// What both counted, line by line.
fn table(recorded: Option<&Counters>, again: &Counters) -> String {
    type Get = fn(&Counters) -> u64;
    let lines: [(&str, Get); 9] = [
        ("bytes read for the first time (IS)", |c| c.first_read_bytes),
        ("bytes read that were there (RHS)", |c| c.hit_bytes),
        ("bytes read that were swapped out (RMS)", |c| c.reread_bytes),
        ("bytes written (WS)", |c| c.written_bytes),
        ("chunks swapped out", |c| c.swaps),
        ("of these, written back first (WBS)", |c| c.dirty_swaps),
        ("bytes read from home", |c| c.home_read_bytes),
        ("reads", |c| c.reads),
        ("writes", |c| c.writes),
    ];
    let mut out = format!("{:<40} {:>16} {:>16}\n", "", "the server", "run again");
    for (name, get) in lines {
        let there = recorded.map_or("-".to_owned(), |counters| get(counters).to_string());
        let _ = writeln!(out, "{name:<40} {there:>16} {:>16}", get(again));
    }
    out
}
