//! The studies that figures are made of: how a buffer's size, nodes, granularity and policy, and a trace's order, change what comes out.

use std::rc::Rc;

use forebay_sim::buffer::{COUNTER_NAMES, Granularity, Policy};
use forebay_trace::statistics::curve::Histogram;

use super::figure::{Axis, Findings, Line, Panel};
use super::lab::{App, Lab, NODES, POLICIES, Run, Traced};
use crate::error::Error;
use crate::size::Bytes;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Nodes of the studies that the thesis shows for one number of them.
const MOST_NODES: u32 = 32;
/// Whole files go home, as the thesis has it.
const BY_FILES: Granularity = Granularity::File { dirty_only: false };
const LRU: Policy = POLICIES[1].1;

/// Sizes of the buffer for an application: as the thesis names them where they mean something by themselves, else shares of what the trace
/// touches.
#[derive(Clone, Copy)]
enum Capacities {
    Bytes(&'static [u64]),
    Percent(&'static [f64]),
}

fn capacities(app: App) -> Capacities {
    match app {
        App::SimilarPages => Capacities::Bytes(&[4 * MIB, 8 * MIB, 16 * MIB, 24 * MIB, 32 * MIB, 48 * MIB, 64 * MIB]),
        App::Povray => Capacities::Bytes(&[25 * KIB, 50 * KIB, 100_000, 200 * KIB, 400 * KIB, 800 * KIB, 2 * MIB, 8 * MIB, 26 * MIB]),
        // 4 and 6 GB of 7.5 are what it names for Montage.
        App::Montage | App::Btio | App::Miranda => Capacities::Percent(&[10.0, 20.0, 30.0, 40.0, 53.3, 66.7, 80.0, 90.0, 100.0]),
    }
}

/// The sizes for a trace: the place along the axis, and bytes.
fn places(app: App, traced: &Traced) -> Vec<(f64, u64)> {
    let footprint = traced.workload.footprint_bytes();
    let chunk = u64::from(traced.workload.chunk_bytes());
    match capacities(app) {
        Capacities::Bytes(sizes) => sizes.iter().map(|size| (*size as f64, (*size).max(chunk))).collect(),
        Capacities::Percent(shares) => {
            let bytes = |share: f64| ((footprint as f64 * share / 100.0) as u64).next_multiple_of(chunk).min(footprint);
            shares.iter().map(|share| (*share, bytes(*share))).collect()
        }
    }
}

fn axis(app: App) -> (Axis, String) {
    match capacities(app) {
        Capacities::Bytes(_) => (Axis::Bytes, "buffer".into()),
        Capacities::Percent(_) => (Axis::Percent, "buffer, share of what is touched".into()),
    }
}

fn panel(app: App, title: String, y_label: &str, lines: Vec<Line>) -> Panel {
    let (x, x_label) = axis(app);
    Panel { title, x, x_label, y_label: y_label.into(), ticks: Vec::new(), stacked: false, lines }
}

/// The share of the best throughput for all sizes of the buffer.
fn curve(lab: &Lab<'_>, app: App, traced: &Traced, name: &str, policy: Policy, granularity: Granularity, nodes: u32) -> Line {
    let point = |(place, bytes)| lab.percent(traced, bytes, policy, granularity, nodes).map(|percent| (place, percent));
    Line { name: name.into(), points: places(app, traced).into_iter().filter_map(point).collect() }
}

const RATIO: &str = "throughput, share of an unlimited buffer's, %";

/// Sizes of the buffer and numbers of nodes, LRU (figures 5.8 to 5.12).
pub(super) fn nodes(lab: &Lab<'_>, app: App) -> Result<Findings, Error> {
    let mut lines = Vec::new();
    for nodes in NODES {
        let traced = lab.traced(app, Run::Fast(nodes))?;
        let name = if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") };
        lines.push(curve(lab, app, &traced, &name, LRU, Granularity::Chunk, nodes));
    }
    let traced = lab.traced(app, Run::Fast(MOST_NODES))?;
    let panels = vec![panel(app, app.name().into(), RATIO, lines), counters(lab, app, &traced)];
    Ok(Findings { panels, notes: vec![lab.note(app)?, touched(app, &traced), lab.assumptions()] })
}

/// The five counters' shares, as the thesis stacks them.
fn counters(lab: &Lab<'_>, app: App, traced: &Traced) -> Panel {
    let shares = |bytes| lab.simulate(traced, bytes, LRU, Granularity::Chunk, MOST_NODES).map(|outcome| outcome.shares()).ok();
    let found: Vec<(f64, [f64; 5])> = places(app, traced).into_iter().filter_map(|(x, bytes)| Some((x, shares(bytes)?))).collect();
    let line =
        |at: usize| Line { name: COUNTER_NAMES[at].into(), points: found.iter().map(|(x, shares)| (*x, 100.0 * shares[at])).collect() };
    let title = format!("{}: counters on {MOST_NODES} nodes", app.name());
    Panel { stacked: true, ..panel(app, title, "share of all counters, %", (0..COUNTER_NAMES.len()).map(line).collect()) }
}

fn touched(app: App, traced: &Traced) -> String {
    let workload = &traced.workload;
    format!("{}: {} touched, in chunks of {}", app.name(), Bytes(workload.footprint_bytes()), Bytes(u64::from(workload.chunk_bytes())))
}

/// Swapping by chunks and by files (figure 5.13).
pub(super) fn granularity(lab: &Lab<'_>) -> Result<Findings, Error> {
    let mut findings = Findings::default();
    for app in App::ALL {
        let traced = lab.traced(app, Run::Fast(MOST_NODES))?;
        let line = |name, granularity| curve(lab, app, &traced, name, LRU, granularity, MOST_NODES);
        let lines = vec![line("by chunks", Granularity::Chunk), line("by files", BY_FILES)];
        findings.panels.push(panel(app, app.name().into(), RATIO, lines));
        findings.notes.push(lab.note(app)?);
    }
    findings.notes.push(lab.assumptions());
    Ok(findings)
}

/// Policies (figure 5.14).
pub(super) fn policies(lab: &Lab<'_>) -> Result<Findings, Error> {
    let mut findings = Findings::default();
    for app in App::ALL {
        let traced = lab.traced(app, Run::Fast(MOST_NODES))?;
        let line = |(name, policy)| curve(lab, app, &traced, name, policy, Granularity::Chunk, MOST_NODES);
        findings.panels.push(panel(app, app.name().into(), RATIO, POLICIES.into_iter().map(line).collect()));
        findings.notes.push(lab.note(app)?);
    }
    findings.notes.push("the fifth policy of the thesis is not named there; ours is Belady's, which knows the future: none has more hits, but it does not ask what \
         must be written back".into());
    findings.notes.push(lab.assumptions());
    Ok(findings)
}

/// The two traces of an application, from running directly and through a buffer.
fn two_runs(lab: &Lab<'_>, app: App) -> Result<[(&'static str, Rc<Traced>); 2], Error> {
    Ok([("direct", lab.traced(app, Run::Direct)?), ("through a buffer", lab.traced(app, Run::Buffered)?)])
}

const TWO_RUNS: &str = "both traces: the same tasks on 16 nodes over Ethernet, once directly on NFS and once through an LRU buffer of the size in \
    the thesis's table 5.4; what is in the buffer does not wait for NFS, and in both runs chance makes an operation up to twice as long";

/// What is simulated from the trace of a direct run, and of one through a buffer (figures 5.24 to 5.28).
pub(super) fn two_traces(lab: &Lab<'_>, app: App) -> Result<Findings, Error> {
    let runs = two_runs(lab, app)?;
    let nodes = 16;
    let mut lines: Vec<Line> = runs.iter().map(|(name, traced)| curve(lab, app, traced, name, LRU, Granularity::Chunk, nodes)).collect();
    let both = lines[0].points.iter().zip(&lines[1].points);
    let points = both.map(|((x, direct), (_, buffered))| (*x, (direct - buffered).abs())).collect();
    lines.push(Line { name: "difference".into(), points });
    let panels = vec![panel(app, app.name().into(), RATIO, lines)];
    Ok(Findings { panels, notes: vec![lab.note(app)?, TWO_RUNS.into(), lab.assumptions()] })
}

/// Uses again in ranges of distance, percent of all of them.
fn shares(histogram: &Histogram) -> Vec<(f64, f64)> {
    let ranges = histogram.by_powers();
    let all: f64 = ranges.iter().map(|(_, uses)| uses).sum();
    ranges.into_iter().map(|(from, uses)| (from as f64, 100.0 * uses / all.max(1.0))).collect()
}

/// Reuse distances of both traces (figures 5.30 to 5.34).
pub(super) fn distances(lab: &Lab<'_>, app: App) -> Result<Findings, Error> {
    let mut lines = Vec::new();
    let mut near = Vec::new();
    for (name, traced) in two_runs(lab, app)? {
        let reuse = &traced.reuse;
        for (kind, histogram) in [("reads", &reuse.reads), ("writes", &reuse.writes)] {
            lines.push(Line { name: format!("{kind}, {name}"), points: shares(histogram) });
        }
        let all = reuse.reads.plus(&reuse.writes);
        let chunks = f64::from(reuse.chunks());
        let within = |share: f64| {
            let uses: f64 = all.counts.iter().take((chunks * share) as usize).sum();
            100.0 * uses / all.counts.iter().sum::<f64>().max(1.0)
        };
        let points = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0].map(|percent| (percent, within(percent / 100.0))).into();
        near.push(Line { name: name.into(), points });
    }
    let title = format!("{}: distances", app.name());
    let distances = Panel {
        title,
        x: Axis::Chunks,
        x_label: "distance, chunks".into(),
        y_label: "share of uses again, %".into(),
        ticks: Vec::new(),
        stacked: false,
        lines,
    };
    let title = format!("{}: uses again within a distance", app.name());
    let within = Panel {
        title,
        x: Axis::Percent,
        x_label: "distance, share of all chunks".into(),
        y_label: "share of uses again, %".into(),
        ticks: Vec::new(),
        stacked: false,
        lines: near,
    };
    Ok(Findings { panels: vec![distances, within], notes: vec![lab.note(app)?, TWO_RUNS.into()] })
}
