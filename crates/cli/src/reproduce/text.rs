//! Figures as text for a terminal, and as JSON.

use std::fmt::Write as _;

use serde_json::json;

use super::figure::{Axis, Figure, Outcome, Panel, Verdict};
use crate::size::Bytes;

/// Columns of a terminal that wrapped text may take.
const WIDTH: usize = 110;

pub(super) fn list(figures: impl Iterator<Item = &'static Figure>) -> String {
    figures.map(|figure| format!("{:<18} {}\n", figure.name, figure.title)).collect()
}

pub(super) fn list_json(figures: impl Iterator<Item = &'static Figure>) -> String {
    let all: Vec<serde_json::Value> = figures.map(|figure| json!({ "name": figure.name, "title": figure.title })).collect();
    format!("{:#}\n", json!(all))
}

pub(super) fn json(outcomes: &[Outcome]) -> String {
    format!("{:#}\n", json!({ "version": 1, "figures": outcomes }))
}

/// A number with as many decimals as it needs to be compared.
pub(super) fn number(value: f64) -> String {
    let text = if value.abs() >= 1000.0 { format!("{value:.0}") } else { format!("{value:.1}") };
    match text.strip_suffix(".0") {
        Some("-0") => "0".into(),
        Some(whole) => whole.into(),
        None => text,
    }
}

/// A place along an axis.
pub(super) fn place(panel: &Panel, x: f64) -> String {
    match panel.x {
        Axis::Bytes => Bytes(x as u64).to_string(),
        Axis::Percent => format!("{} %", number(x)),
        Axis::Chunks | Axis::Count => number(x),
        Axis::Seconds => format!("{} s", number(x)),
        Axis::Names => panel.ticks.get(x as usize).cloned().unwrap_or_default(),
    }
}

/// The places of all lines of a panel, in order.
pub(super) fn places(panel: &Panel) -> Vec<f64> {
    let mut places: Vec<f64> = panel.lines.iter().flat_map(|line| line.points.iter().map(|(x, _)| *x)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    places
}

/// The value of a line at exactly this place.
pub(super) fn value(line: &super::figure::Line, x: f64) -> Option<f64> {
    line.points.iter().find(|(at, _)| *at == x).map(|(_, y)| *y)
}

fn table(panel: &Panel) -> String {
    let places = places(panel);
    let widest = panel.lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0).max(8);
    let heads: Vec<String> = places.iter().map(|x| place(panel, *x)).collect();
    let mut text = format!("  {} ({})\n  {:<widest$}", panel.title, panel.y_label, "");
    heads.iter().for_each(|head| text += &format!(" {head:>9}"));
    text.push('\n');
    for line in &panel.lines {
        let _ = write!(text, "  {:<widest$}", line.name);
        for (x, head) in places.iter().zip(&heads) {
            let width = head.chars().count().max(9);
            let _ = write!(text, " {:>width$}", value(line, *x).map_or("-".into(), number));
        }
        text.push('\n');
    }
    text
}

fn wrapped(text: &str, indent: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && indent.len() + line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines += &format!("{indent}{line}\n");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    lines + &format!("{indent}{line}\n")
}

pub(super) fn mark(verdict: &Verdict) -> &'static str {
    match verdict.agrees {
        Some(true) => "agrees",
        Some(false) => "DIFFERS",
        None => "-",
    }
}

/// Our number with its unit.
pub(super) fn ours(verdict: &Verdict) -> String {
    match verdict.ours {
        Some(ours) => format!("{} {}", number(ours), verdict.unit).trim().to_owned(),
        None => "none".into(),
    }
}

fn statement(verdict: &Verdict) -> String {
    let mut text = String::new();
    if let (Some(paper), Some(place)) = (&verdict.paper, &verdict.place) {
        text += &wrapped(&format!("{place}: {paper}"), "  paper    ");
    }
    text += &wrapped(&format!("{}: {} ({})", verdict.what, ours(verdict), verdict.rule), "  ours     ");
    if verdict.agrees.is_some() {
        text += &format!("  {}\n", mark(verdict));
    }
    if let Some(why) = verdict.why_not {
        text += &wrapped(why, "  why not  ");
    }
    text
}

/// How many statements agree, of those that can be compared.
pub(super) fn score(outcomes: &[Outcome]) -> (usize, usize) {
    let compared: Vec<bool> = outcomes.iter().flat_map(|outcome| &outcome.statements).filter_map(|verdict| verdict.agrees).collect();
    (compared.iter().filter(|agrees| **agrees).count(), compared.len())
}

pub(super) fn show(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let _ = writeln!(text, "{}  {}  ({:.1} s)", outcome.name, outcome.title, outcome.seconds);
        outcome.findings.panels.iter().for_each(|panel| text += &table(panel));
        outcome.findings.notes.iter().for_each(|note| text += &wrapped(note, "  . "));
        for verdict in &outcome.statements {
            text.push('\n');
            text += &statement(verdict);
        }
        text.push('\n');
    }
    if outcomes.len() > 1 {
        text += &summary(outcomes);
    }
    text
}

/// All statements, a line each.
fn summary(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        for verdict in &outcome.statements {
            let paper = verdict.paper.as_deref().map_or("-".into(), |paper| begin(paper, 28));
            let _ = writeln!(text, "{:<16} {:<28} {:>10}  {:<8} {}", outcome.name, paper, ours(verdict), mark(verdict), verdict.what);
        }
    }
    let (agree, compared) = score(outcomes);
    text + &format!("{agree} of {compared} statements agree\n")
}

/// The begin of a text.
fn begin(text: &str, letters_max: usize) -> String {
    if text.chars().count() <= letters_max {
        return text.into();
    }
    text.chars().take(letters_max - 2).chain("..".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.04, -0.04, 12.0, 12.34, 1234.5].map(number), ["0", "0", "12", "12.3", "1234"]);
    }

    #[test]
    fn text_is_wrapped_at_words() {
        let text = wrapped(&"word ".repeat(40), "  ");
        assert!(text.lines().count() == 2 && text.lines().all(|line| line.len() <= WIDTH && line.starts_with("  word")), "{text}");
        assert_eq!(begin("a sentence", 5), "a s..");
    }
}
