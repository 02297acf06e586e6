//! Runs of hybrid I/O nodes over models of devices, for figures of SSDUP+ and iBridge.

use forebay_sim::hybrid::timed::{Cluster, Job, Jobs, Outcome, run};
use forebay_sim::parallel;

use super::figure::{Axis, Line, Panel};

/// Megabytes as the papers count rates.
pub(super) const MB: f64 = 1e6;
pub(super) const KIB: u64 = 1 << 10;
pub(super) const GIB: u64 = 1 << 30;

/// Servers, and what is asked of them.
pub(super) struct Case {
    pub(super) cluster: Cluster,
    pub(super) jobs: Vec<Job>,
}

/// Runs every case, on all cores.
pub(super) fn run_all(cases: &[Case], seed: u64) -> Vec<Outcome> {
    parallel::map(0, cases.len(), |at| run(&cases[at].cluster, &mut Jobs::new(cases[at].jobs.clone(), seed)))
}

/// Runs a case for each pair of a name and a place; a line for each name.
pub(super) fn lines<'a>(
    names: &[&'a str],
    places: &[f64],
    seed: u64,
    case: impl Fn(&str, f64) -> Case,
    value: impl Fn(&Outcome) -> f64,
) -> (Vec<Line>, Vec<(&'a str, f64, Outcome)>) {
    let pairs: Vec<(&str, f64)> = names.iter().flat_map(|name| places.iter().map(move |place| (*name, *place))).collect();
    let cases: Vec<Case> = pairs.iter().map(|(name, place)| case(name, *place)).collect();
    let outcomes = run_all(&cases, seed);
    let found: Vec<(&str, f64, Outcome)> = pairs.into_iter().zip(outcomes).map(|((name, place), outcome)| (name, place, outcome)).collect();
    (lines_of(names, &found, value), found)
}

/// A line for each name, of some value of what came out.
pub(super) fn lines_of(names: &[&str], found: &[(&str, f64, Outcome)], value: impl Fn(&Outcome) -> f64) -> Vec<Line> {
    let points = |name: &str| found.iter().filter(|(of, ..)| *of == name).map(|(_, place, outcome)| (*place, value(outcome))).collect();
    names.iter().map(|name| Line { name: (*name).into(), points: points(name) }).collect()
}

/// Megabytes a second until the last answer.
pub(super) fn rate(outcome: &Outcome) -> f64 {
    outcome.rate() / MB
}

/// Percent of the written bytes that went to SSDs.
pub(super) fn ssd_share(outcome: &Outcome) -> f64 {
    100.0 * outcome.ssd_share()
}

pub(super) fn panel(title: &str, x: Axis, x_label: &str, y_label: &str, lines: Vec<Line>) -> Panel {
    let ticks = Vec::new();
    Panel { title: title.into(), x, x_label: x_label.into(), y_label: y_label.into(), ticks, stacked: false, lines }
}

/// A table with names along the top and a line for each row.
pub(super) fn table(title: &str, y_label: &str, ticks: &[&str], rows: Vec<(String, Vec<f64>)>) -> Panel {
    let points = |values: Vec<f64>| values.into_iter().enumerate().map(|(at, value)| (at as f64, value)).collect();
    let lines = rows.into_iter().map(|(name, values)| Line { name, points: points(values) }).collect();
    let ticks = ticks.iter().map(|tick| (*tick).to_owned()).collect();
    Panel { ticks, ..panel(title, Axis::Names, "", y_label, lines) }
}
