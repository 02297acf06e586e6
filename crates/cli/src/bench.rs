//! `forebay bench --curve DIR`: how fast a directory is by the size of a transfer, as a table for `forebay sim --rate-table`.
//! `forebay bench --profile` is in `profile.rs`.

use std::path::Path;

use serde_json::json;

use crate::args::BenchArgs;
use crate::console;
use crate::curve::{self, Speed};
use crate::error::Error;
use crate::report::{self, Axis, Kind, Page, Scale, Series, Style, Unit, Xy};

/// What it writes to files.
const KINDS: [Kind; 3] = [Kind::Page, Kind::Json, Kind::Csv];

/// Runs for each size, if few are asked for.
const RUNS_QUICK: u32 = 5;

/// `forebay bench`.
pub(crate) fn command(args: &BenchArgs) -> Result<(), Error> {
    match (&args.profile, &args.curve) {
        (Some(place), _) => crate::profile::command(args, place),
        (None, Some(directory)) => curve_of(args, directory),
        (None, None) => Err(Error::usage("give --curve or --profile")),
    }
}

fn curve_of(args: &BenchArgs, directory: &Path) -> Result<(), Error> {
    let kinds: Vec<Kind> = args.output.iter().map(|path| Kind::of(path, &KINDS)).collect::<Result<_, _>>()?;
    if !matches!(&args.level[..], "home" | "buffer") {
        return Err(Error::usage(format!("--level: \"{}\" is neither home nor buffer", args.level)));
    }
    let sizes = if args.quick { curve::few_sizes() } else { curve::published_sizes() };
    let runs = if args.quick { RUNS_QUICK.min(args.runs) } else { args.runs };
    let bar = console::steps_bar(sizes.len() as u64, "sizes");
    let measured = curve::measure(directory, &sizes, runs, || bar.inc(1));
    bar.finish_and_clear();
    let speeds = measured.map_err(Error::io(format!("measure {}", directory.display())))?;
    let csv = || format!("nodes,level,op,size,bytes_per_s\n{}", curve::table(args.nodes, &args.level, &speeds));
    for (path, kind) in args.output.iter().zip(kinds) {
        let content = match kind {
            Kind::Page => page(directory, runs, &speeds),
            Kind::Json => json(args, directory, runs, &speeds),
            _ => csv(),
        };
        report::save(path, content.as_bytes())?;
    }
    match (args.json, args.output.is_empty()) {
        (true, _) => crate::print(&json(args, directory, runs, &speeds)),
        (false, true) => crate::print(&csv()),
        (false, false) => Ok(()),
    }
}

fn json(args: &BenchArgs, directory: &Path, runs: u32, speeds: &[Speed]) -> String {
    let rate = |op: &str, speed: &Speed, bytes_per_s: f64| json!({ "nodes": args.nodes, "level": args.level, "op": op, "size": speed.size_bytes, "bytes_per_s": bytes_per_s });
    let rates =
        speeds.iter().flat_map(|speed| [rate("read", speed, speed.read_bytes_per_s), rate("write", speed, speed.write_bytes_per_s)]);
    let value = json!({ "version": 1, "directory": directory, "runs": runs, "rates": rates.collect::<Vec<_>>() });
    format!("{value:#}\n")
}

fn page(directory: &Path, runs: u32, speeds: &[Speed]) -> String {
    let about = format!("{}; the median of {runs} runs for each size", directory.display());
    let mut page = Page::new("Throughput by the size of a transfer", &about);
    let line =
        |name: &str, of: fn(&Speed) -> f64| Series::new(name, Style::Line, speeds.iter().map(|speed| (speed.size_bytes as f64, of(speed))));
    let plot = Xy::new(
        Axis::new("size of a transfer", Unit::Bytes).scale(Scale::Log2),
        Axis::new("throughput", Unit::BytesPerS).scale(Scale::Log2),
    )
    .series(line("read", |speed| speed.read_bytes_per_s))
    .series(line("write, with a sync at the end", |speed| speed.write_bytes_per_s));
    let fastest = speeds.iter().map(|speed| speed.write_bytes_per_s).fold(0.0, f64::max);
    page.figure(&format!("Writes reach {}", Unit::BytesPerS.show(fastest)), &plot, "Opening and closing are not in the time.");
    page.finish()
}
