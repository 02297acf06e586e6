//! An analysis as a page.

use forebay_trace::Op;
use forebay_trace::statistics::bursts::Interval;
use forebay_trace::statistics::patterns::Share;
use forebay_trace::statistics::totals::Moved;

use super::findings::{ENOUGH, Findings};
use crate::report::{Axis, Bars, Layout, Page, Scale, Series, Style, Table, Unit, Xy, shorten};

/// Names in a figure.
const NAMES_MAX: usize = 12;
/// Names in a table.
const ROWS_MAX: usize = 100;
/// Steps of the timeline.
const STEPS_MAX: usize = 260;
/// Classes of a histogram beyond which the smallest are put together.
const CLASSES_MAX: usize = 26;

fn bytes(value: u64) -> String {
    Unit::Bytes.show(value as f64)
}

fn ratio(part: f64, all: f64) -> f64 {
    if all == 0.0 { 0.0 } else { part / all }
}

fn percent(part: f64, all: f64) -> String {
    Unit::Share.show(ratio(part, all))
}

fn capacity_axis() -> Axis {
    Axis::new("capacity of the buffer", Unit::Bytes).scale(Scale::Log2)
}

fn share_axis(label: &str) -> Axis {
    Axis::new(label, Unit::Share).from(0.0).to(1.0)
}

/// The whole page.
pub(super) fn page(findings: &Findings) -> String {
    let (analysis, args) = (&findings.analysis, findings.args);
    let trace = args.trace.file_name().unwrap_or(args.trace.as_os_str()).to_string_lossy();
    let about = format!(
        "{}, in chunks of {}, home at {}, the buffer at {}",
        args.trace.display(),
        bytes(findings.chunk_bytes()),
        Unit::BytesPerS.show(args.rates.home_rate as f64),
        Unit::BytesPerS.show(args.rates.buffer_rate as f64)
    );
    let mut page = Page::new(&format!("What {trace} does, and how large a buffer it needs"), &about);
    page.answer(&findings.answer);
    let all = &analysis.totals.all;
    page.facts([
        ("read", bytes(all.read.bytes)),
        ("written", bytes(all.written.bytes)),
        ("touched", bytes(analysis.chunks() * findings.chunk_bytes())),
        ("time", Unit::Seconds.show(analysis.bursts.span_ns() as f64 / 1e9)),
        ("processes", Unit::Count.show(analysis.phases.processes() as f64)),
        ("files", Unit::Count.show(analysis.totals.largest_files(0).1 as f64)),
        ("an unlimited buffer takes (R_buf)", Unit::Share.show(analysis.locality.ratio())),
    ]);
    buffer(&mut page, findings);
    bursts(&mut page, findings);
    reuse(&mut page, findings);
    access(&mut page, findings);
    totals(&mut page, findings);
    phases(&mut page, findings);
    page.finish()
}

/// How large the buffer has to be.
fn buffer(page: &mut Page, findings: &Findings) {
    let (analysis, points) = (&findings.analysis, &findings.points);
    page.section("How large a buffer, and which policy");
    let needed = findings.smallest_chunks.map(|chunks| (chunks * findings.chunk_bytes()) as f64);
    let mark = |plot: Xy| match needed {
        Some(needed) => plot.mark_x(needed, format!("{} % from {} on", ENOUGH * 100.0, Unit::Bytes.show(needed))),
        None => plot,
    };
    if points.iter().any(|point| point.throughput_share.is_some()) {
        let shares = points.iter().filter_map(|point| Some((point.bytes as f64, point.throughput_share?)));
        let plot = Xy::new(capacity_axis(), share_axis("of an unlimited buffer's throughput"));
        let title =
            needed.map_or(String::new(), |needed| format!("{} reach {} % of the throughput", Unit::Bytes.show(needed), ENOUGH * 100.0));
        let plot = mark(plot.mark_y(ENOUGH, "").series(Series::new("LRU, written back at eviction", Style::Line, shares)));
        page.figure(&title, &plot, "By exact reuse distances, and the throughput of both levels as given above.");
    }
    let mut plot = Xy::new(capacity_axis(), share_axis("misses, of all uses"));
    for (name, curve) in &findings.curves {
        plot = plot.series(Series::new(*name, Style::Line, points.iter().map(|point| point.bytes as f64).zip(curve.iter().copied())));
    }
    let kept = analysis.kept_share();
    let note = if kept < 1.0 {
        format!("LRU by reuse distances, the others simulated on a sample of {} of the chunks.", Unit::Share.show(kept))
    } else {
        "LRU by reuse distances, the others simulated on the whole trace.".to_owned()
    };
    page.figure(&best_policy(findings), &mark(plot), &note);
    if points.iter().any(|point| point.written_home_bytes.is_some()) {
        let written = points.iter().filter_map(|point| Some((point.bytes as f64, point.written_home_bytes? as f64)));
        let plot = Xy::new(capacity_axis(), Axis::new("bytes that go home", Unit::Bytes).from(0.0));
        let plot = plot
            .series(Series::new("written home by LRU", Style::Line, written))
            .mark_y(analysis.totals.all.written.bytes as f64, "the application writes");
        page.figure(
            &written_home(findings),
            &plot,
            "With a drain at the end. A chunk counts as a whole, also where only a part of it was written.",
        );
    }
}

/// Which policy is best where the policies differ most from LRU.
fn best_policy(findings: &Findings) -> String {
    let Some((_, lru)) = findings.curves.iter().find(|(name, _)| *name == "lru") else { return "Misses by policy".into() };
    let gains = findings
        .curves
        .iter()
        .flat_map(|(name, curve)| curve.iter().zip(lru).enumerate().map(move |(at, (own, lru))| (name, at, lru - own)));
    match gains.max_by(|a, b| a.2.total_cmp(&b.2)) {
        Some((name, at, gain)) if gain > 0.02 => format!(
            "With {} {name} misses {:.1} points less than LRU: nowhere is the policy worth more",
            bytes(findings.points[at].bytes),
            gain * 100.0
        ),
        _ => "No policy is more than two points better than LRU".into(),
    }
}

fn written_home(findings: &Findings) -> String {
    let ends = (findings.points.first().and_then(|point| point.written_home_bytes), findings.points.last());
    match ends {
        (Some(small), Some(last)) => {
            format!("The smallest buffer writes {} home, the largest {}", bytes(small), bytes(last.written_home_bytes.unwrap_or_default()))
        }
        _ => "What goes home".into(),
    }
}

/// When bytes move.
fn bursts(page: &mut Page, findings: &Findings) {
    let bursts = &findings.analysis.bursts;
    page.section("When");
    let every = bursts.intervals.len().div_ceil(STEPS_MAX).max(1);
    let step_s = bursts.interval_ns() as f64 / 1e9 * every as f64;
    let rate = |part: fn(&Interval) -> u64| {
        let sums = bursts.intervals.chunks(every).map(move |intervals| intervals.iter().map(part).sum::<u64>() as f64 / step_s);
        sums.chain([0.0]).enumerate().map(move |(at, rate)| (at as f64 * step_s, rate)).collect::<Vec<_>>()
    };
    let first_ns = bursts.first_ns();
    let seconds = |ns: u64| ns.saturating_sub(first_ns) as f64 / 1e9;
    let parallel = findings.analysis.phases.parts().into_iter().filter(|part| part.is_parallel());
    let plot = Xy::new(Axis::new("time", Unit::Seconds).from(0.0), Axis::new("moved", Unit::BytesPerS).from(0.0))
        .bands("several processes", parallel.map(|part| (seconds(part.from_ns), seconds(part.to_ns))))
        .series(Series::new("read", Style::Steps, rate(|interval| interval.read_bytes)))
        .series(Series::new("written", Style::Steps, rate(|interval| interval.written_bytes)));
    page.figure(&burst_title(&bursts.intervals), &plot, &format!("In steps of {}.", Unit::Seconds.show(step_s)));
    let peaks = bursts.drained.iter().map(|drained| (drained.bytes_per_s, drained.peak_bytes));
    let home = findings.args.rates.home_rate as f64;
    if let Some(at_home) = bursts.drained.iter().find(|drained| drained.bytes_per_s == home).filter(|at_home| at_home.peak_bytes > 0.0) {
        let rate = Axis::new("what home takes", Unit::BytesPerS).scale(Scale::Log2);
        let plot = Xy::new(rate, Axis::new("most dirty data at once", Unit::Bytes).from(0.0))
            .series(Series::new("dirty", Style::Line, peaks))
            .mark_x(home, "home");
        let title = format!("{} take all bursts while home takes {}", Unit::Bytes.show(at_home.peak_bytes), Unit::BytesPerS.show(home));
        page.figure(&title, &plot, "If home takes what waits as fast as it can, from the first byte on.");
    }
    if !bursts.idle.is_empty() {
        let mut table = Table::new(0, ["without I/O for", "from"]);
        for idle in bursts.idle.iter().take(8) {
            table.row([Unit::Seconds.show(idle.length_ns as f64 / 1e9), Unit::Seconds.show(idle.from_ns as f64 / 1e9)]);
        }
        page.table(&table);
    }
}

/// In how much of the time how much of the bytes moves.
fn burst_title(intervals: &[Interval]) -> String {
    let mut sums: Vec<u64> = intervals.iter().map(|interval| interval.read_bytes + interval.written_bytes).collect();
    sums.sort_unstable_by_key(|sum| std::cmp::Reverse(*sum));
    let (all, mut seen) = (sums.iter().sum::<u64>() as f64, 0.0);
    let busiest = sums.iter().position(|sum| {
        seen += *sum as f64;
        seen >= 0.9 * all
    });
    match busiest {
        Some(at) if all > 0.0 => format!("90 % of the bytes move in {} of the time", percent((at + 1) as f64, sums.len() as f64)),
        _ => "No bytes move".into(),
    }
}

/// How soon what is used is used again.
fn reuse(page: &mut Page, findings: &Findings) {
    let Some(reuse) = &findings.analysis.reuse else {
        page.section("Used again");
        page.paragraph("There are too many different chunks for exact reuse distances; larger chunks (--chunk) give them.");
        return;
    };
    page.section("Used again");
    let (reads, writes) = (reuse.reads.by_powers(), reuse.writes.by_powers());
    let mut begins: Vec<u64> = reads.iter().chain(&writes).map(|(from, _)| *from).collect();
    begins.sort_unstable();
    begins.dedup();
    let begins = begins.split_off(begins.len().saturating_sub(CLASSES_MAX));
    let label = |from: &u64| bytes(from * findings.chunk_bytes());
    let uses = |known: &[(u64, f64)], first: f64| {
        let of = |from: &u64| known.iter().filter(|(begin, _)| begin == from).map(|(_, count)| count).sum::<f64>();
        begins.iter().map(of).chain([first]).collect::<Vec<_>>()
    };
    let classes = begins.iter().map(label).chain(["never".to_owned()]);
    let plot = Bars::histogram(Axis::new("uses", Unit::Count), "used since the last use, from … on", classes)
        .series("reads", uses(&reads, reuse.reads.first_uses))
        .series("writes", uses(&writes, reuse.writes.first_uses));
    let both = reuse.reads.plus(&reuse.writes);
    let title = match both.quantile(0.9) {
        Some(most) => format!("Nine tenths of what is used again are used again within {}", bytes((most + 1) * findings.chunk_bytes())),
        None => "Nothing is used again".into(),
    };
    let note = format!(
        "The bytes of all other chunks that were used in between; a buffer by LRU that holds them has the chunk still. {} more uses only went on in the chunk where the one before had ended.",
        Unit::Count.show(reuse.continued as f64)
    );
    page.figure(&title, &plot, &note);
    let locality = &findings.analysis.locality;
    let plot = Bars::new(Layout::Level, Axis::new("bytes", Unit::Bytes), "", ["read", "written"].map(str::to_owned))
        .series("seen before, or written", [locality.read_known_bytes as f64, locality.written_bytes as f64])
        .series("read for the first time", [(locality.read_bytes - locality.read_known_bytes) as f64, 0.0]);
    let granule = match locality.granule_bytes() {
        1 => String::new(),
        granule => format!(" Counted in units of {}, since the trace touches very many different places.", bytes(granule)),
    };
    let title = format!("An unlimited buffer takes {} of all bytes", Unit::Share.show(locality.ratio()));
    page.figure(&title, &plot, &format!("R_buf: what is written, and what is read and was read or written before.{granule}"));
}

/// Patterns and sizes.
fn access(page: &mut Page, findings: &Findings) {
    let patterns = &findings.analysis.patterns;
    page.section("How");
    let all = patterns.all;
    let shares = |share: Share| [ratio(share.requests as f64, all.requests as f64), ratio(share.bytes as f64, all.bytes as f64)];
    let classes = ["requests", "bytes"].map(str::to_owned);
    let kinds = [("sequential", patterns.sequential), ("strided", patterns.strided), ("random", patterns.random)];
    let mut plot = Bars::new(Layout::Level, share_axis("of all"), "", classes);
    for (name, share) in kinds {
        plot = plot.series(name, shares(share));
    }
    let most = kinds.iter().max_by_key(|(_, share)| share.bytes).map_or("", |(name, _)| name);
    let title = format!(
        "{} of the bytes are {most}",
        percent(kinds.iter().map(|(_, share)| share.bytes).max().unwrap_or(0) as f64, all.bytes as f64)
    );
    let [unaligned, _] = shares(patterns.unaligned);
    let [small, _] = shares(patterns.small);
    let note = format!(
        "Held against a stripe unit of {}: {} of the requests are larger and unaligned, {} are below 20 KiB.",
        bytes(findings.args.stripe),
        Unit::Share.show(unaligned),
        Unit::Share.show(small)
    );
    page.figure(&title, &plot, &note);
    let sizes: Vec<(usize, &Moved)> = findings.analysis.totals.sizes.iter().enumerate().filter(|(_, moved)| moved.requests() > 0).collect();
    let (first, last) = (sizes.first().map_or(0, |(power, _)| *power), sizes.last().map_or(0, |(power, _)| *power));
    let of = |part: fn(&Moved) -> u64| {
        (first..=last).map(move |power| findings.analysis.totals.sizes.get(power).map_or(0.0, |moved| part(moved) as f64))
    };
    let names = (first..=last).map(|power| Unit::Bytes.show(2f64.powi(power as i32)));
    let plot = Bars::new(Layout::Stacked, Axis::new("bytes", Unit::Bytes), "size of the request, from … on", names)
        .series("read", of(|moved| moved.read.bytes))
        .series("written", of(|moved| moved.written.bytes));
    let title = match sizes.iter().max_by_key(|(_, moved)| moved.bytes()) {
        Some((power, moved)) => format!(
            "{} of the bytes move in requests of {} and more, up to {}",
            percent(moved.bytes() as f64, all.bytes as f64),
            Unit::Bytes.show(2f64.powi(*power as i32)),
            Unit::Bytes.show(2f64.powi(*power as i32 + 1))
        ),
        None => "No requests".into(),
    };
    page.figure(&title, &plot, "");
}

/// A figure and a table of files or of processes.
fn moved_by(page: &mut Page, [what, several]: [&str; 2], findings: &Findings, named: &[(String, Moved)], count: usize) {
    if named.is_empty() {
        return;
    }
    let shown = &named[..named.len().min(NAMES_MAX)];
    let plot = Bars::new(Layout::Level, Axis::new("bytes", Unit::Bytes), what, shown.iter().map(|(name, _)| name.clone()))
        .series("read", shown.iter().map(|(_, moved)| moved.read.bytes as f64))
        .series("written", shown.iter().map(|(_, moved)| moved.written.bytes as f64));
    let all = findings.analysis.totals.all.bytes();
    let part: u64 = shown.iter().map(|(_, moved)| moved.bytes()).sum();
    let title = if count == 1 {
        format!("One {what} moves all bytes: {}", shorten(&named[0].0, 40))
    } else if shown.len() == count {
        format!("{count} {several} move all bytes")
    } else {
        format!("{} of {} {several} move {} of the bytes", shown.len(), Unit::Count.show(count as f64), percent(part as f64, all as f64))
    };
    page.figure(&title, &plot, "");
}

fn moved_table(what: &str, named: &[(String, Moved)]) -> Table {
    let mut table = Table::new(1, [what, "read", "written", "requests", "mean size"]);
    for (name, moved) in named {
        let mean = ratio(moved.bytes() as f64, moved.requests() as f64);
        let requests = Unit::Count.show(moved.requests() as f64);
        table.row([name.clone(), bytes(moved.read.bytes), bytes(moved.written.bytes), requests, Unit::Bytes.show(mean)]);
    }
    table
}

/// Totals by file, process and operation.
fn totals(page: &mut Page, findings: &Findings) {
    let totals = &findings.analysis.totals;
    page.section("Who and what");
    let (files, files_all) = totals.largest_files(ROWS_MAX);
    let files: Vec<(String, Moved)> = files.into_iter().map(|(file, moved)| (findings.file(file), moved)).collect();
    let (processes, processes_all) = totals.largest_processes(ROWS_MAX);
    let processes: Vec<(String, Moved)> = processes.into_iter().map(|(process, moved)| (findings.process(process), moved)).collect();
    moved_by(page, ["file", "files"], findings, &files, files_all);
    moved_by(page, ["process", "processes"], findings, &processes, processes_all);
    let mut table = Table::new(1, ["operation", "requests", "bytes"]);
    for (op, share) in Op::ALL.iter().zip(&findings.analysis.operations).filter(|(_, share)| share.requests > 0) {
        let moved = if op.moves_data() { bytes(share.bytes) } else { String::new() };
        table.row([op.name().to_owned(), Unit::Count.show(share.requests as f64), moved]);
    }
    page.table(&table);
    for (what, named, count) in [("file", &files, files_all), ("process", &processes, processes_all)] {
        page.table(&moved_table(what, named));
        if count > named.len() {
            page.note(&format!("And {} more.", Unit::Count.show((count - named.len()) as f64)));
        }
    }
}

/// Parallel and sequential parts.
fn phases(page: &mut Page, findings: &Findings) {
    let parts = findings.analysis.phases.parts();
    page.section("Phases");
    let first_ns = findings.analysis.bursts.first_ns();
    let seconds = |ns: u64| ns.saturating_sub(first_ns) as f64 / 1e9;
    let length = |parallel: bool| {
        parts.iter().filter(|part| part.is_parallel() == parallel).map(|part| (part.to_ns - part.from_ns) as f64 / 1e9).sum::<f64>()
    };
    page.paragraph(&format!(
        "{} parts; {} with several processes at work, whose order among each other is chance, {} with one.",
        Unit::Count.show(parts.len() as f64),
        Unit::Seconds.show(length(true)),
        Unit::Seconds.show(length(false))
    ));
    let mut table = Table::new(0, ["from", "to", "processes at most"]);
    for part in parts.iter().take(ROWS_MAX) {
        let (from, to) = (Unit::Seconds.show(seconds(part.from_ns)), Unit::Seconds.show(seconds(part.to_ns)));
        table.row([from, to, Unit::Count.show(f64::from(part.processes_max))]);
    }
    page.table(&table);
    if parts.len() > ROWS_MAX {
        page.note(&format!("And {} more.", parts.len() - ROWS_MAX));
    }
}
