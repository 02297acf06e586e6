//! `forebay analyze`: what a trace does, and how large a buffer it needs.

use std::fmt::Write as _;

use forebay_core::config::ReplacementKind;
use forebay_trace::Op;
use forebay_trace::statistics::patterns::Share;
use forebay_trace::statistics::{Analysis, Options};
use serde_json::json;

use crate::args::AnalyzeArgs;
use crate::console::Console;
use crate::error::Error;
use crate::size::Bytes;
use crate::tracefile;

/// The share of the best throughput that the answer is about.
const ENOUGH: f64 = 0.9;
/// Lines of the curves: capacities from one chunk to all, each the double of the one before.
const CAPACITIES_MAX: usize = 40;

/// What a buffer of some size does, by LRU and writing back at eviction.
struct Point {
    chunks: u64,
    bytes: u64,
    written_home_bytes: Option<u64>,
    throughput_share: Option<f64>,
}

/// The share of an unlimited buffer's throughput that an LRU buffer of these capacities reaches (B-03, RMS in the total), by exact
/// distances.
fn throughput_shares(analysis: &Analysis, args: &AnalyzeArgs, capacities: &[u64]) -> Option<Vec<f64>> {
    let reuse = analysis.reuse.as_ref()?;
    let chunk = f64::from(analysis.options().chunk_bytes);
    let (home, buffer) = (args.rates.home_rate.max(1) as f64, args.rates.buffer_rate.max(1) as f64);
    let uses = reuse.reads.uses() + reuse.writes.uses();
    let first = reuse.reads.first_uses;
    let best_s = chunk * (first / home + uses / buffer);
    let missed = reuse.reads.miss_ratios(capacities);
    let written_back = reuse.written_back(capacities);
    let share = |(missed, back): (&f64, &u64)| {
        let read_again = missed * reuse.reads.uses() - first;
        let extra_s = chunk * (read_again + *back as f64) / home;
        if best_s == 0.0 { 1.0 } else { best_s / (best_s + extra_s) }
    };
    Some(missed.iter().zip(&written_back).map(share).collect())
}

fn points(analysis: &Analysis, args: &AnalyzeArgs) -> Vec<Point> {
    let all = analysis.chunks().max(1);
    let mut capacities: Vec<u64> = (0..CAPACITIES_MAX).map(|power| 1u64 << power).take_while(|chunks| *chunks < all).collect();
    capacities.push(all);
    let shares = throughput_shares(analysis, args, &capacities);
    let written = analysis.reuse.as_ref().map(|reuse| reuse.written_home(&capacities));
    let chunk_bytes = u64::from(analysis.options().chunk_bytes);
    let point = |(at, chunks): (usize, &u64)| Point {
        chunks: *chunks,
        bytes: chunks * chunk_bytes,
        written_home_bytes: written.as_ref().map(|written| written[at] * chunk_bytes),
        throughput_share: shares.as_ref().map(|shares| shares[at]),
    };
    capacities.iter().enumerate().map(point).collect()
}

/// The smallest capacity, in chunks, that reaches enough of the best throughput.
fn smallest(analysis: &Analysis, args: &AnalyzeArgs) -> Option<u64> {
    let enough = |chunks: u64| throughput_shares(analysis, args, &[chunks]).map(|shares| shares[0] >= ENOUGH);
    let (mut low, mut high) = (1, analysis.chunks().max(1));
    while low < high {
        let middle = low.midpoint(high);
        if enough(middle)? { high = middle } else { low = middle + 1 }
    }
    Some(low)
}

/// The answer in words.
fn answer(analysis: &Analysis, args: &AnalyzeArgs) -> String {
    let chunk_bytes = u64::from(analysis.options().chunk_bytes);
    let all = Bytes(analysis.chunks() * chunk_bytes);
    let rates = format!("home moves {}/s and the buffer {}/s", Bytes(args.rates.home_rate), Bytes(args.rates.buffer_rate));
    let Some(chunks) = smallest(analysis, args) else {
        return format!(
            "The trace touches about {all}, too many chunks to say exactly how large a buffer it needs; take larger chunks (--chunk)."
        );
    };
    let why = if chunks >= analysis.chunks() {
        "every smaller buffer reads again, or writes back to make room, too much of it"
    } else if chunks == 1 {
        "hardly anything is used again"
    } else {
        "what is used again is mostly used again soon enough for it, and little has to be written back to make room"
    };
    format!(
        "A buffer of {} (of {all} touched) reaches {:.0} % of the throughput of an unlimited one, if {rates} (LRU, written back at eviction): {why}.",
        Bytes(chunks * chunk_bytes),
        ENOUGH * 100.0
    )
}

fn percent(part: f64, all: f64) -> f64 {
    if all == 0.0 { 0.0 } else { 100.0 * part / all }
}

fn share_line(name: &str, share: Share, all: Share) -> String {
    let requests = percent(share.requests as f64, all.requests as f64);
    let bytes = percent(share.bytes as f64, all.bytes as f64);
    format!("  {name:<34} {requests:5.1} % of requests  {bytes:5.1} % of bytes\n")
}

fn text(analysis: &Analysis, args: &AnalyzeArgs) -> String {
    let mut text = format!("{}\n\n", answer(analysis, args));
    let span = analysis.bursts.span_ns() as f64 / 1e9;
    let parts = analysis.phases.parts();
    let parallel = parts.iter().filter(|part| part.is_parallel()).count();
    let _ = writeln!(
        text,
        "operations in {span:.3} s, {} processes, {parallel} parallel parts of {}:",
        analysis.phases.processes(),
        parts.len()
    );
    for (op, share) in Op::ALL.iter().zip(&analysis.operations).filter(|(_, share)| share.requests > 0) {
        let bytes = if op.moves_data() { format!(", {}", Bytes(share.bytes)) } else { String::new() };
        let _ = writeln!(text, "  {:<10} {}{bytes}", op.name(), share.requests);
    }
    let patterns = &analysis.patterns;
    text += "\naccess:\n";
    for (name, share) in [("sequential", patterns.sequential), ("strided", patterns.strided), ("random", patterns.random)] {
        text += &share_line(name, share, patterns.all);
    }
    text += &share_line(&format!("above a stripe unit of {}, unaligned", Bytes(args.stripe)), patterns.unaligned, patterns.all);
    text += &share_line("below 20 KiB", patterns.small, patterns.all);
    let locality = &analysis.locality;
    let _ = writeln!(text, "\nan unlimited buffer takes {:.1} % of all bytes (R_buf)", 100.0 * locality.ratio());
    if let Some(longest) = analysis.bursts.idle.first() {
        let _ = writeln!(
            text,
            "longest time without I/O: {:.3} s, after {:.3} s",
            longest.length_ns as f64 / 1e9,
            longest.from_ns as f64 / 1e9
        );
    }
    for drained in &analysis.bursts.drained {
        let _ = writeln!(
            text,
            "most dirty data at once, if home takes {}/s: {}",
            Bytes(drained.bytes_per_s as u64),
            Bytes(drained.peak_bytes as u64)
        );
    }
    if let Some(reuse) = &analysis.reuse {
        for (name, histogram) in [("reads", &reuse.reads), ("writes", &reuse.writes)] {
            if let (Some(half), Some(most)) = (histogram.quantile(0.5), histogram.quantile(0.9)) {
                let _ = writeln!(text, "reuse distance of {name}: half up to {half} chunks, nine tenths up to {most}");
            }
        }
    }
    text + "\n" + &curve_text(analysis, args)
}

fn curve_text(analysis: &Analysis, args: &AnalyzeArgs) -> String {
    let points = points(analysis, args);
    let capacities: Vec<u64> = points.iter().map(|point| point.chunks).collect();
    let curves = ReplacementKind::ALL.map(|kind| analysis.miss_ratios(kind, &capacities));
    let mut text = format!("{:>10} {:>10} {:>6} ", "buffer", "home gets", "speed");
    ReplacementKind::NAMED.iter().for_each(|(name, _)| text += &format!(" {name:>9}"));
    text += "   (misses, %)\n";
    for (at, point) in points.iter().enumerate() {
        let written = point.written_home_bytes.map_or("-".into(), |bytes| Bytes(bytes).to_string());
        let speed = point.throughput_share.map_or("-".into(), |share| format!("{:.0} %", 100.0 * share));
        text += &format!("{:>10} {written:>10} {speed:>6} ", Bytes(point.bytes).to_string());
        curves.iter().for_each(|curve| text += &format!(" {:>9.2}", 100.0 * curve[at]));
        text += "\n";
    }
    if analysis.kept_share() < 1.0 {
        text += &format!("policies other than LRU: simulated on a sample of {:.2} % of the chunks\n", 100.0 * analysis.kept_share());
    }
    text
}

fn json(analysis: &Analysis, args: &AnalyzeArgs) -> serde_json::Value {
    let points = points(analysis, args);
    let capacities: Vec<u64> = points.iter().map(|point| point.chunks).collect();
    let share = |share: Share| json!({ "requests": share.requests, "bytes": share.bytes });
    let patterns = &analysis.patterns;
    let operations: serde_json::Map<String, serde_json::Value> = Op::ALL
        .iter()
        .zip(&analysis.operations)
        .filter(|(_, found)| found.requests > 0)
        .map(|(op, found)| (op.name().to_owned(), share(*found)))
        .collect();
    let curves: serde_json::Map<String, serde_json::Value> =
        ReplacementKind::NAMED.iter().map(|(name, kind)| ((*name).to_owned(), json!(analysis.miss_ratios(*kind, &capacities)))).collect();
    let estimate = analysis.sampled.miss_ratios(&capacities);
    let histogram = |histogram: &forebay_trace::statistics::curve::Histogram| json!({ "first_uses": histogram.first_uses, "uses_from_distance": histogram.by_powers() });
    json!({
        "version": 1,
        "answer": answer(analysis, args),
        "chunk_bytes": analysis.options().chunk_bytes,
        "chunks": analysis.chunks(),
        "span_s": analysis.bursts.span_ns() as f64 / 1e9,
        "operations": operations,
        "access": {
            "all": share(patterns.all), "sequential": share(patterns.sequential), "strided": share(patterns.strided),
            "random": share(patterns.random), "unaligned": share(patterns.unaligned), "small": share(patterns.small),
            "stripe_bytes": args.stripe,
        },
        "r_buf": analysis.locality.ratio(),
        "r_buf_granule_bytes": analysis.locality.granule_bytes(),
        "bursts": {
            "interval_s": analysis.bursts.interval_ns() as f64 / 1e9,
            "read_bytes": analysis.bursts.intervals.iter().map(|interval| interval.read_bytes).collect::<Vec<_>>(),
            "written_bytes": analysis.bursts.intervals.iter().map(|interval| interval.written_bytes).collect::<Vec<_>>(),
            "idle": analysis.bursts.idle.iter().map(|idle| json!({ "from_s": idle.from_ns as f64 / 1e9, "length_s": idle.length_ns as f64 / 1e9 })).collect::<Vec<_>>(),
            "peak_dirty": analysis.bursts.drained.iter().map(|drained| json!({ "home_bytes_per_s": drained.bytes_per_s, "bytes": drained.peak_bytes })).collect::<Vec<_>>(),
        },
        "parts": analysis.phases.parts().iter().map(|part| json!({
            "from_s": part.from_ns as f64 / 1e9, "to_s": part.to_ns as f64 / 1e9, "processes_max": part.processes_max, "parallel": part.is_parallel(),
        })).collect::<Vec<_>>(),
        "reuse": analysis.reuse.as_ref().map(|reuse| json!({
            "reads": histogram(&reuse.reads), "writes": histogram(&reuse.writes), "continued": reuse.continued,
        })),
        "sampled": {
            "rate": analysis.sampled.rate(), "seed": analysis.options().seed, "lru_miss_ratios": estimate.miss_ratios, "standard_errors": estimate.standard_errors,
        },
        "capacity_bytes": points.iter().map(|point| point.bytes).collect::<Vec<_>>(),
        "written_home_bytes": points.iter().map(|point| point.written_home_bytes).collect::<Vec<_>>(),
        "throughput_shares": points.iter().map(|point| point.throughput_share).collect::<Vec<_>>(),
        "miss_ratios": curves,
        "kept_share": analysis.kept_share(),
    })
}

/// `forebay analyze`.
pub(crate) fn command(args: &AnalyzeArgs, console: Console) -> Result<(), Error> {
    let options = Options { chunk_bytes: tracefile::chunk_bytes(args.chunk)?, stripe_bytes: args.stripe, ..Options::default() };
    let mut analysis = Analysis::new(options);
    crate::trace::read_sorted(&args.trace, &args.read, console, |record| analysis.add(record))?;
    if analysis.chunks() == 0 {
        console.warn(&format!("{} has no reads or writes at known places", args.trace.display()));
    }
    if args.json {
        return crate::print(&format!("{:#}\n", json(&analysis, args)));
    }
    crate::print(&text(&analysis, args))
}
