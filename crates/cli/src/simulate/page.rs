//! Simulations as a page.

use forebay_sim::buffer::{COUNTER_NAMES, Policy};

use super::row::Row;
use crate::report::{Axis, Bars, Layout, Page, Scale, Series, Style, Table, Unit, Xy};

/// The share of the best throughput that the answer is about.
const ENOUGH: f64 = 0.9;
/// Figures of a kind.
const FIGURES_MAX: usize = 24;
/// Rows of the table.
const ROWS_MAX: usize = 2000;

/// What the five counters are.
const COUNTERS: [&str; 5] = ["IS: read first", "RHS: read, in the buffer", "RMS: read again from home", "WS: written", "WBS: written back"];

/// What a page is about.
pub(super) struct About {
    pub(super) trace: String,
    /// Chunks and throughput, in words.
    pub(super) model: String,
}

/// Simulations that differ in one thing only are in one figure.
fn distinct<T: PartialEq>(rows: &[Row], of: impl Fn(&Row) -> T) -> Vec<T> {
    let mut found = Vec::new();
    for row in rows {
        let value = of(row);
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

fn nodes_name(nodes: u32) -> String {
    if nodes == 1 { "1 node".into() } else { format!("{nodes} nodes") }
}

/// The whole page.
pub(super) fn page(rows: &[Row], about: &About) -> String {
    let mut page = Page::new(&format!("Buffers for {}", about.trace), &about.model);
    page.answer(&answer(rows));
    let feasible: Vec<&Row> = rows.iter().filter(|row| row.infeasible.is_none()).collect();
    let infeasible = rows.len() - feasible.len();
    page.facts([("simulations", Unit::Count.show(rows.len() as f64)), ("of them impossible", Unit::Count.show(infeasible as f64))]);
    let capacities = distinct(rows, |row| row.capacity_bytes);
    let node_counts = distinct(rows, |row| row.nodes);
    if capacities.len() > 1 {
        over_capacity(&mut page, rows);
    }
    if node_counts.len() > 1 {
        over_nodes(&mut page, rows);
    }
    stacked(&mut page, rows);
    table(&mut page, rows);
    page.finish()
}

/// The smallest buffer that is enough, or the best there is.
fn answer(rows: &[Row]) -> String {
    // What needs the future is a bound, and no advice.
    let feasible = || rows.iter().filter(|row| row.infeasible.is_none() && row.policy != Policy::Belady.name());
    let how = |row: &Row| {
        format!(
            "{} with {}, swapping by {}, write-back {}, on {}",
            Unit::Bytes.show(row.capacity_bytes as f64),
            row.policy,
            row.granularity,
            row.write_back,
            nodes_name(row.nodes)
        )
    };
    let enough = feasible().filter(|row| row.full[2] >= ENOUGH).min_by(|a, b| {
        let key = |row: &Row| (row.capacity_bytes, row.nodes);
        key(a).cmp(&key(b)).then(b.full[2].total_cmp(&a.full[2]))
    });
    let reaches = |row: &Row| {
        format!(
            "{} of an unlimited buffer's throughput ({} by the formulas as printed, without what is read again)",
            Unit::Share.show(row.full[2]),
            Unit::Share.show(row.paper[2])
        )
    };
    match (enough, feasible().max_by(|a, b| a.full[2].total_cmp(&b.full[2]))) {
        (Some(row), _) => {
            format!("The smallest of these buffers that reaches {} % is {}: it reaches {}.", ENOUGH * 100.0, how(row), reaches(row))
        }
        (None, Some(row)) => {
            format!("None of these buffers reaches {} %. The best is {}: it reaches {}.", ENOUGH * 100.0, how(row), reaches(row))
        }
        (None, None) => "None of these buffers can run the trace: files do not fit into them, or not even a chunk does (or only Belady's policy was asked for, which needs the future).".into(),
    }
}

/// Rows that share granularity, way of writing back and something else, and what they share.
fn groups<K: PartialEq>(rows: &[Row], of: impl Fn(&Row) -> K) -> Vec<(K, Vec<&Row>)> {
    let mut groups: Vec<(K, Vec<&Row>)> = Vec::new();
    for row in rows.iter().filter(|row| row.infeasible.is_none()) {
        let key = of(row);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    groups
}

fn cut<T>(page: &mut Page, mut groups: Vec<T>) -> Vec<T> {
    if groups.len() > FIGURES_MAX {
        page.note(&format!("The first {FIGURES_MAX} of {} figures; the table below has everything.", groups.len()));
        groups.truncate(FIGURES_MAX);
    }
    groups
}

fn ratio_axis() -> Axis {
    Axis::new("of an unlimited buffer's throughput", Unit::Share).from(0.0).to(1.0)
}

fn over_capacity(page: &mut Page, rows: &[Row]) {
    page.section("Throughput by capacity");
    let groups = groups(rows, |row| (row.granularity.clone(), row.write_back.clone(), row.nodes));
    let capacity = || Axis::new("capacity of the buffer", Unit::Bytes).scale(Scale::Log2);
    for ((granularity, write_back, nodes), group) in cut(page, groups) {
        let mut plot = Xy::new(capacity(), ratio_axis()).mark_y(ENOUGH, "");
        let mut misses = Xy::new(capacity(), Axis::new("misses, of all uses", Unit::Share).from(0.0).to(1.0));
        for policy in distinct(rows, |row| row.policy.clone()) {
            let of = |value: fn(&Row) -> f64| {
                group.iter().filter(|row| row.policy == policy).map(|row| (row.capacity_bytes as f64, value(row))).collect::<Vec<_>>()
            };
            plot = plot.series(Series::new(&policy, Style::Line, of(|row| row.full[2])));
            misses = misses.series(Series::new(&policy, Style::Line, of(|row| row.miss_ratio)));
        }
        let setting = format!("by {granularity}, {write_back}, {}", nodes_name(nodes));
        let online = || group.iter().filter(|row| row.policy != Policy::Belady.name());
        let smallest = online().filter(|row| row.full[2] >= ENOUGH).min_by_key(|row| row.capacity_bytes);
        let title = match smallest {
            Some(row) => {
                format!("{} with {} reach {} % ({setting})", Unit::Bytes.show(row.capacity_bytes as f64), row.policy, ENOUGH * 100.0)
            }
            None => format!("No buffer reaches {} % ({setting})", ENOUGH * 100.0),
        };
        page.figure(&title, &plot, "What is read again from home is part of the total; the table has both readings.");
        let fewest = online().min_by(|a, b| a.capacity_bytes.cmp(&b.capacity_bytes).then(a.miss_ratio.total_cmp(&b.miss_ratio)));
        let fewest = fewest.map_or(String::new(), |row| {
            format!(
                "With {} {} misses least: {} ",
                Unit::Bytes.show(row.capacity_bytes as f64),
                row.policy,
                Unit::Share.show(row.miss_ratio)
            )
        });
        page.figure(&format!("{fewest}({setting})"), &misses, "");
    }
}

fn over_nodes(page: &mut Page, rows: &[Row]) {
    page.section("Throughput by nodes");
    let groups = groups(rows, |row| (row.granularity.clone(), row.write_back.clone(), row.capacity_bytes));
    for ((granularity, write_back, capacity), group) in cut(page, groups) {
        let mut plot = Xy::new(Axis::new("nodes", Unit::Count).scale(Scale::Log2), ratio_axis());
        for policy in distinct(rows, |row| row.policy.clone()) {
            let points = group.iter().filter(|row| row.policy == policy).map(|row| (f64::from(row.nodes), row.full[2]));
            plot = plot.series(Series::new(&policy, Style::Line, points));
        }
        let title = format!("{} (by {granularity}, {write_back})", Unit::Bytes.show(capacity as f64));
        page.figure(&title, &plot, "");
    }
}

/// The stacked counters of the thesis: what of all that moves is what.
fn stacked(page: &mut Page, rows: &[Row]) {
    page.section("What moves");
    page.paragraph(
        "Shares of the five counters. What the application asks for is IS, RHS and WS; RMS and WBS are what a buffer that is too small adds.",
    );
    let capacities = distinct(rows, |row| row.capacity_bytes);
    let by_capacity = capacities.len() > 1 || distinct(rows, |row| row.nodes).len() == 1;
    let key = |row: &Row| {
        let other = if by_capacity { nodes_name(row.nodes) } else { Unit::Bytes.show(row.capacity_bytes as f64) };
        (row.policy.clone(), row.granularity.clone(), row.write_back.clone(), other)
    };
    for ((policy, granularity, write_back, other), group) in cut(page, groups(rows, key)) {
        let name = |row: &&Row| if by_capacity { Unit::Bytes.show(row.capacity_bytes as f64) } else { row.nodes.to_string() };
        let label = if by_capacity { "capacity of the buffer" } else { "nodes" };
        let mut plot = Bars::new(Layout::Stacked, Axis::new("of all bytes", Unit::Share).from(0.0).to(1.0), label, group.iter().map(name));
        for (at, counter) in COUNTERS.iter().enumerate() {
            plot = plot.series(*counter, group.iter().map(|row| row.shares[at]));
        }
        let added = |row: &Row| row.shares[2] + row.shares[4];
        let most = group.iter().map(|row| added(row)).fold(0.0, f64::max);
        let title = format!("{policy}: swapping is at most {} of it (by {granularity}, {write_back}, {other})", Unit::Share.show(most));
        page.figure(&title, &plot, "");
    }
}

fn table(page: &mut Page, rows: &[Row]) {
    page.section("All of it");
    let head = ["policy", "by", "write-back", "capacity", "nodes", "as printed", "with RMS", "throughput", "misses"];
    let mut table = Table::new(3, head.into_iter().map(str::to_owned).chain(COUNTER_NAMES.map(str::to_owned)));
    for row in rows.iter().take(ROWS_MAX) {
        let setting = [row.policy.clone(), row.granularity.clone(), row.write_back.clone()];
        let place = [Unit::Bytes.show(row.capacity_bytes as f64), row.nodes.to_string()];
        let found = match row.infeasible {
            Some(_) => vec!["impossible".to_owned()],
            None => [
                Unit::Share.show(row.paper[2]),
                Unit::Share.show(row.full[2]),
                Unit::BytesPerS.show(row.full[1]),
                Unit::Share.show(row.miss_ratio),
            ]
            .into_iter()
            .chain(row.bytes.map(|bytes| Unit::Bytes.show(bytes)))
            .collect(),
        };
        table.row(setting.into_iter().chain(place).chain(found));
    }
    page.table(&table);
    if let Some(why) = rows.iter().find_map(|row| row.infeasible.as_deref()) {
        page.note(&format!("Impossible, for example: {why}."));
    }
    if rows.len() > ROWS_MAX {
        page.note(&format!("And {} more; write them with -o results.csv.", rows.len() - ROWS_MAX));
    }
}
