//! `forebay analyze`: what a trace does, and how large a buffer it needs.

mod findings;
mod json;
mod page;
mod text;

use forebay_trace::statistics::{Analysis, Options};

use crate::args::AnalyzeArgs;
use crate::console::Console;
use crate::error::Error;
use crate::report;
use crate::tracefile;

use findings::Findings;

/// What home may take, as parts and multiples of what it is said to take: for the curve of dirty data.
const DRAIN_FACTORS: [f64; 7] = [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0];

/// `forebay analyze`.
pub(crate) fn command(args: &AnalyzeArgs, console: Console) -> Result<(), Error> {
    let kinds: Vec<report::Kind> = args.output.iter().map(|path| report::Kind::of(path, &KINDS)).collect::<Result<_, _>>()?;
    let home = args.rates.home_rate.max(1) as f64;
    let options = Options {
        chunk_bytes: tracefile::chunk_bytes(args.chunk)?,
        stripe_bytes: args.stripe,
        drain_rates: DRAIN_FACTORS.map(|factor| factor * home).to_vec(),
        ..Options::default()
    };
    let mut analysis = Analysis::new(options);
    let names = crate::trace::read_named(&args.trace, &args.read, console, |record| analysis.add(record))?;
    if analysis.chunks() == 0 {
        console.warn(&format!("{} has no reads or writes at known places", args.trace.display()));
    }
    let findings = Findings::new(analysis, names, args);
    let json = || format!("{:#}\n", json::json(&findings));
    for (path, kind) in args.output.iter().zip(kinds) {
        let content = if kind == report::Kind::Page { page::page(&findings) } else { json() };
        report::save(path, content.as_bytes())?;
    }
    crate::print(&if args.json { json() } else { text::text(&findings) })
}

/// What it writes to files.
const KINDS: [report::Kind; 2] = [report::Kind::Page, report::Kind::Json];
