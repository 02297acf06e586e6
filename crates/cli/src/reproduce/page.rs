//! Figures as a page with plots.

use super::figure::{Axis, Outcome, Panel, Verdict};
use super::text;
use crate::report::{self, Bars, Layout, Page, Plot, Scale, Series, Style, Table, Unit, Xy};

fn plot(panel: &Panel) -> Box<dyn Plot> {
    let value = report::Axis::new(panel.y_label.as_str(), Unit::Number).from(0.0);
    if panel.stacked {
        let places = text::places(panel);
        let names = places.iter().map(|x| text::place(panel, *x));
        let empty = Bars::new(Layout::Stacked, value.to(100.0), panel.x_label.as_str(), names);
        let bars = panel
            .lines
            .iter()
            .fold(empty, |bars, line| bars.series(line.name.as_str(), places.iter().map(|x| text::value(line, *x).unwrap_or(0.0))));
        return Box::new(bars);
    }
    let along = match panel.x {
        Axis::Bytes => report::Axis::new(panel.x_label.as_str(), Unit::Bytes).scale(Scale::Log2),
        Axis::Chunks | Axis::Count => report::Axis::new(panel.x_label.as_str(), Unit::Count).scale(Scale::Log2),
        Axis::Seconds => report::Axis::new(format!("{}, s", panel.x_label), Unit::Number).from(0.0),
        Axis::Percent | Axis::Names => report::Axis::new(format!("{}, %", panel.x_label), Unit::Number).from(0.0).to(100.0),
    };
    // A logarithmic axis has no place for a distance of zero: it stands where one half would.
    let place = |x: f64| if panel.x == Axis::Chunks { x.max(0.5) } else { x };
    let lines = panel.lines.iter().map(|line| {
        let points = line.points.iter().map(|(x, y)| (place(*x), *y));
        Series::new(line.name.as_str(), Style::Line, points)
    });
    Box::new(lines.fold(Xy::new(along, value), Xy::series))
}

/// The numbers of a panel whose axis has names.
fn table(panel: &Panel) -> Table {
    let mut table = Table::new(1, std::iter::once(panel.y_label.clone()).chain(panel.ticks.clone()));
    for line in &panel.lines {
        let value = |at: usize| text::value(line, at as f64).map_or("-".into(), text::number);
        table.row(std::iter::once(line.name.clone()).chain((0..panel.ticks.len()).map(value)));
    }
    table
}

fn state(page: &mut Page, verdict: &Verdict) {
    let kind = match verdict.agrees {
        Some(true) => report::Verdict::Agrees,
        Some(false) => report::Verdict::Differs,
        None => report::Verdict::Open,
    };
    let paper = match (&verdict.place, &verdict.paper) {
        (Some(place), Some(paper)) => format!("The paper ({place}): {}. ", paper.trim_end_matches('.')),
        _ => String::new(),
    };
    let why = verdict.why_not.map_or(String::new(), |why| format!(" Why not: {why}."));
    page.verdict(kind, &format!("{paper}Ours: {}: {} ({}).{why}", verdict.what, text::ours(verdict), verdict.rule));
}

/// All figures on one page.
pub(super) fn page(outcomes: &[Outcome]) -> String {
    let title = match outcomes {
        [one] => format!("{}: {}", one.name, one.title),
        _ => "Figures of papers, made again".into(),
    };
    let mut page = Page::new(&title, concat!("forebay reproduce, version ", env!("CARGO_PKG_VERSION")));
    let (agree, compared) = text::score(outcomes);
    page.answer(&match compared {
        0 => "The papers' statements are not at hand, so only our numbers are shown.".to_owned(),
        _ => format!("{agree} of {compared} statements agree."),
    });
    for outcome in outcomes {
        page.section(&format!("{}: {}", outcome.name, outcome.title));
        outcome.statements.iter().for_each(|verdict| state(&mut page, verdict));
        for panel in &outcome.findings.panels {
            if panel.x == Axis::Names {
                page.table(&table(panel));
            } else {
                page.figure(&panel.title, plot(panel).as_ref(), "");
            }
        }
        outcome.findings.notes.iter().for_each(|note| page.note(note));
    }
    page.finish()
}
