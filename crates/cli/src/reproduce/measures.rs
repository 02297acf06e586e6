//! Numbers that statements are held against, from what a figure found.

use super::figure::{Findings, Line, Panel};

/// The largest change for the worse from one place to the next along any line: 0 if there is none.
pub(super) fn largest_fall(panel: &Panel) -> f64 {
    let falls = panel.lines.iter().flat_map(|line| line.points.windows(2).map(|pair| pair[0].1 - pair[1].1));
    falls.fold(0.0, f64::max)
}

/// The largest change from one line up to the next at any place: 0 if there is none.
pub(super) fn largest_rise_between_lines(panel: &Panel) -> f64 {
    let rises = panel.lines.windows(2).flat_map(|pair| {
        let next = &pair[1];
        pair[0].points.iter().filter_map(move |(x, y)| Some(next.at(*x)? - y))
    });
    rises.fold(0.0, f64::max)
}

/// The smallest value of all lines at a place.
pub(super) fn smallest_at(panel: &Panel, x: f64) -> Option<f64> {
    let values = panel.lines.iter().map(|line| line.at(x)).collect::<Option<Vec<f64>>>()?;
    values.into_iter().reduce(f64::min)
}

pub(super) fn mean(line: &Line) -> Option<f64> {
    let values: Vec<f64> = line.values().collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// By how much one line is above another where both have values.
pub(super) fn leads<'a>(panel: &'a Panel, one: &str, other: &str) -> impl Iterator<Item = f64> + 'a {
    let (one, other) = (panel.line(one), panel.line(other));
    let points = one.map_or(&[][..], |line| &line.points[..]).iter();
    points.filter_map(move |(x, y)| Some(y - other?.points.iter().find(|(at, _)| at == x)?.1))
}

/// How far, by the mean over all sizes, a policy is below the best of the four that need no future.
pub(super) fn behind_the_best(panel: &Panel, policy: &str) -> Option<f64> {
    let means: Vec<f64> = ["fifo", "lru", "lfu", "lfuda"].iter().filter_map(|name| mean(panel.line(name)?)).collect();
    let best = means.into_iter().reduce(f64::max)?;
    Some(best - mean(panel.line(policy)?)?)
}

/// In how many panels something holds.
pub(super) fn count(findings: &Findings, holds: impl Fn(&Panel) -> bool) -> f64 {
    findings.panels.iter().filter(|panel| holds(panel)).count() as f64
}

/// Half of the sum of all differences between two lines of shares: how many of the uses, in percent, one has elsewhere.
pub(super) fn elsewhere(one: &Line, other: &Line) -> f64 {
    let mut places: Vec<f64> = one.points.iter().chain(&other.points).map(|(x, _)| *x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let value = |line: &Line, x: f64| line.points.iter().find(|(at, _)| *at == x).map_or(0.0, |(_, y)| *y);
    places.into_iter().map(|x| (value(one, x) - value(other, x)).abs()).sum::<f64>() / 2.0
}

#[cfg(test)]
mod tests {
    use super::super::figure::Axis;
    use super::*;

    fn panel(lines: &[(&str, &[(f64, f64)])]) -> Panel {
        let lines = lines.iter().map(|(name, points)| Line { name: (*name).to_owned(), points: points.to_vec() }).collect();
        let (title, x_label, y_label) = (String::new(), String::new(), String::new());
        Panel { title, x: Axis::Percent, x_label, y_label, ticks: Vec::new(), stacked: false, lines }
    }

    #[test]
    fn falls_rises_and_leads() {
        let panel = panel(&[("lru", &[(1.0, 10.0), (2.0, 30.0), (3.0, 25.0)]), ("lfu", &[(1.0, 12.0), (3.0, 20.0)])]);
        assert_eq!((largest_fall(&panel), largest_rise_between_lines(&panel)), (5.0, 2.0));
        assert_eq!((smallest_at(&panel, 3.0), smallest_at(&panel, 2.0)), (Some(20.0), None));
        assert_eq!(leads(&panel, "lru", "lfu").collect::<Vec<_>>(), [-2.0, 5.0]);
        assert!((behind_the_best(&panel, "lfu").unwrap() - (65.0 / 3.0 - 16.0)).abs() < 1e-9);
    }

    #[test]
    fn what_is_elsewhere_is_counted_once() {
        let panel = panel(&[("a", &[(1.0, 60.0), (2.0, 40.0)]), ("b", &[(1.0, 60.0), (4.0, 40.0)])]);
        assert_eq!((elsewhere(&panel.lines[0], &panel.lines[1]), elsewhere(&panel.lines[0], &panel.lines[0])), (40.0, 0.0));
    }
}
