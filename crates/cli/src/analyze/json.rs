//! An analysis for programs.

use forebay_trace::Op;
use forebay_trace::statistics::patterns::Share;
use forebay_trace::statistics::totals::Moved;
use serde_json::json;

use super::findings::Findings;

/// Files and processes that are named.
const NAMED_MAX: usize = 1000;

pub(super) fn json(findings: &Findings) -> serde_json::Value {
    let Findings { analysis, args, points, .. } = findings;
    let share = |share: Share| json!({ "requests": share.requests, "bytes": share.bytes });
    let patterns = &analysis.patterns;
    let operations: serde_json::Map<String, serde_json::Value> = Op::ALL
        .iter()
        .zip(&analysis.operations)
        .filter(|(_, found)| found.requests > 0)
        .map(|(op, found)| (op.name().to_owned(), share(*found)))
        .collect();
    let curves: serde_json::Map<String, serde_json::Value> =
        findings.curves.iter().map(|(name, curve)| ((*name).to_owned(), json!(curve))).collect();
    let estimate = analysis.sampled.miss_ratios(&findings.capacities());
    let histogram = |histogram: &forebay_trace::statistics::curve::Histogram| json!({ "first_uses": histogram.first_uses, "uses_from_distance": histogram.by_powers() });
    json!({
        "version": 1,
        "answer": findings.answer,
        "chunk_bytes": analysis.options().chunk_bytes,
        "chunks": analysis.chunks(),
        "span_s": analysis.bursts.span_ns() as f64 / 1e9,
        "operations": operations,
        "totals": totals(findings),
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

/// Files and processes with the most bytes, and sizes of requests.
fn totals(findings: &Findings) -> serde_json::Value {
    let totals = &findings.analysis.totals;
    let moved = |moved: &Moved| {
        let share = |share: Share| json!({ "requests": share.requests, "bytes": share.bytes });
        json!({ "read": share(moved.read), "written": share(moved.written) })
    };
    let (files, files_all) = totals.largest_files(NAMED_MAX);
    let (processes, processes_all) = totals.largest_processes(NAMED_MAX);
    let named = |name: String, found: &Moved| json!({ "name": name, "moved": moved(found) });
    json!({
        "all": moved(&totals.all),
        "files": files_all,
        "processes": processes_all,
        "largest_files": files.iter().map(|(file, found)| named(findings.file(*file), found)).collect::<Vec<_>>(),
        "largest_processes": processes.iter().map(|(process, found)| named(findings.process(*process), found)).collect::<Vec<_>>(),
        "sizes": totals.sizes.iter().enumerate().filter(|(_, found)| found.requests() > 0).map(|(power, found)| {
            json!({ "from_bytes": 1u64 << power, "moved": moved(found) })
        }).collect::<Vec<_>>(),
    })
}
