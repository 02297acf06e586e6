//! Plots of numbers over numbers: curves, points with error bars, timelines.

use std::fmt::Write as _;

use super::axis::{Axis, Fitted};
use super::frame::{Area, HEIGHT, LETTER_WIDTH, Sheet, colour, dashes, sign};
use super::page::{Key, Plot, Table};
use super::text::shorten;

/// With more points than these a line has no signs on it.
const SIGNS_MAX: usize = 48;

/// Letters of what a line across says.
const MARK_LETTERS_MAX: usize = 26;

/// How a series is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// A line through the points, with signs on them if they are not many.
    Line,
    /// Signs only.
    Points,
    /// From each point level to the next, filled down to zero: what happens in intervals, which begin at the points. The last point only
    /// says where the last interval ends.
    Steps,
}

/// A point, and how far off it may be to both sides.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Point {
    /// Along.
    pub(crate) x: f64,
    /// Up.
    pub(crate) y: f64,
    /// Half the length of the error bar; none for zero.
    pub(crate) error: f64,
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    name: String,
    style: Style,
    points: Vec<Point>,
}

impl Series {
    /// From pairs of numbers; what is not finite is left out.
    pub(crate) fn new(name: impl Into<String>, style: Style, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series::with_errors(name, style, points.into_iter().map(|(x, y)| Point { x, y, error: 0.0 }))
    }

    /// From points with error bars.
    pub(crate) fn with_errors(name: impl Into<String>, style: Style, points: impl IntoIterator<Item = Point>) -> Series {
        let points = points.into_iter().filter(|point| point.x.is_finite() && point.y.is_finite()).collect();
        Series { name: name.into(), style, points }
    }
}

/// A plot of series over a common horizontal axis.
#[derive(Clone, Debug)]
pub(crate) struct Xy {
    x: Axis,
    y: Axis,
    series: Vec<Series>,
    /// Lines across: along x or y, where, and what they say.
    x_marks: Vec<(f64, String)>,
    y_marks: Vec<(f64, String)>,
    /// Shaded parts of the horizontal axis, and what they all are.
    bands: Vec<(f64, f64)>,
    bands_name: String,
}

impl Xy {
    /// An empty plot.
    pub(crate) fn new(x: Axis, y: Axis) -> Xy {
        Xy { x, y, series: Vec::new(), x_marks: Vec::new(), y_marks: Vec::new(), bands: Vec::new(), bands_name: String::new() }
    }

    /// With another series. The first ones have the colours that differ most.
    pub(crate) fn series(mut self, series: Series) -> Xy {
        self.series.push(series);
        self
    }

    /// With an upright line at `x`.
    pub(crate) fn mark_x(mut self, x: f64, text: impl Into<String>) -> Xy {
        self.x_marks.push((x, text.into()));
        self
    }

    /// With a level line at `y`.
    pub(crate) fn mark_y(mut self, y: f64, text: impl Into<String>) -> Xy {
        self.y_marks.push((y, text.into()));
        self
    }

    /// With these parts of the horizontal axis shaded.
    pub(crate) fn bands(mut self, name: impl Into<String>, bands: impl IntoIterator<Item = (f64, f64)>) -> Xy {
        self.bands_name = name.into();
        self.bands = bands.into_iter().collect();
        self
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }

    /// All places along that have points, in order.
    fn columns(&self) -> Vec<f64> {
        let mut columns: Vec<f64> = self.points().map(|point| point.x).collect();
        columns.sort_by(f64::total_cmp);
        columns.dedup();
        columns
    }

    /// What a series has at a place.
    fn shown(&self, series: &Series, x: f64) -> Option<String> {
        let point = series.points.iter().find(|point| point.x == x)?;
        let error = if point.error > 0.0 { format!(" ± {}", self.y.unit.show(point.error)) } else { String::new() };
        Some(format!("{}{error}", self.y.unit.show(point.y)))
    }

    fn draw_bands(&self, sheet: &mut Sheet, x: &Fitted, area: Area) {
        for (from, to) in &self.bands {
            if let (Some(from), Some(to)) = (x.place(*from), x.place(*to)) {
                let (from, to) = (area.x(from), area.x(to));
                let width = (to - from).max(0.5);
                sheet.draw(&format!(
                    "<rect class=\"b\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>",
                    area.top,
                    area.bottom - area.top
                ));
            }
        }
    }

    fn draw_series(&self, sheet: &mut Sheet, at: usize, (x, y): (&Fitted, &Fitted), area: Area) {
        let series = &self.series[at];
        let place = |point: &Point| Some((area.x(x.place(point.x)?), area.y(y.place(point.y)?)));
        let places: Vec<(f64, f64)> = series.points.iter().filter_map(place).collect();
        let class = colour(at);
        let base = area.y(y.base());
        match (series.style, places.last()) {
            (_, None) => return,
            (Style::Steps, Some(_)) => {
                let mut path = format!("M{:.1} {base:.1}", places[0].0);
                for two in places.windows(2) {
                    let _ = write!(path, "V{:.1}H{:.1}", two[0].1, two[1].0);
                }
                sheet.draw(&format!("<path class=\"s {class}\" d=\"{path}V{base:.1}z\"/>"));
            }
            (Style::Line, Some(_)) => {
                let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
                sheet.draw(&format!("<path class=\"l {class}\"{} d=\"M{}\"/>", dashes(at), path.join("L")));
            }
            (Style::Points, Some(_)) => {}
        }
        for point in series.points.iter().filter(|point| point.error > 0.0) {
            let ends = (x.place(point.x), y.place(point.y - point.error).or(Some(0.0)), y.place(point.y + point.error));
            if let (Some(x), Some(low), Some(high)) = ends {
                let (x, low, high) = (area.x(x), area.y(low), area.y(high));
                let path = format!("M{x:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h8M{:.1} {high:.1}h8", x - 4.0, x - 4.0);
                sheet.draw(&format!("<path class=\"e {class}\" d=\"{path}\"/>"));
            }
        }
        if series.style == Style::Points || (series.style == Style::Line && places.len() <= SIGNS_MAX) {
            places.iter().for_each(|(x, y)| sheet.draw(&sign(at, *x, *y)));
        }
    }

    fn draw_marks(&self, sheet: &mut Sheet, (x, y): (&Fitted, &Fitted), area: Area) {
        for (at, (value, text)) in self.x_marks.iter().enumerate() {
            let Some(place) = x.place(*value) else { continue };
            let (x, text) = (area.x(place), &shorten(text, MARK_LETTERS_MAX));
            sheet.line("m", [x, area.top, x, area.bottom]);
            let width = text.chars().count() as f64 * LETTER_WIDTH;
            let (anchor, x) = if x + 6.0 + width < area.right { ("start", x + 6.0) } else { ("end", x - 6.0) };
            sheet.text_above(anchor, x, area.top + 13.0 + 17.0 * at as f64, text);
        }
        for (value, text) in &self.y_marks {
            let Some(place) = y.place(*value) else { continue };
            let y = area.y(place);
            sheet.line("m", [area.left, y, area.right, y]);
            let y = if y < area.top + 16.0 { y + 15.0 } else { y - 5.0 };
            sheet.text_above("end", area.right - 3.0, y, &shorten(text, MARK_LETTERS_MAX));
        }
    }

    fn draw_tips(&self, sheet: &mut Sheet, x: &Fitted, area: Area) {
        let columns: Vec<(f64, f64)> = self.columns().into_iter().filter_map(|at| Some((at, area.x(x.place(at)?)))).collect();
        let is_steps = self.series.iter().all(|series| series.style == Style::Steps);
        let border = |place: f64, next: f64| if is_steps { next } else { f64::midpoint(place, next) };
        for (at, (value, place)) in columns.iter().enumerate().take(columns.len() - usize::from(is_steps && !columns.is_empty())) {
            let left = if at == 0 { area.left } else { border(columns[at - 1].1, *place) };
            let right = columns.get(at + 1).map_or(area.right, |next| border(*place, next.1));
            let mut lines = vec![self.x.unit.show(*value)];
            let named = self.series.iter().filter_map(|series| Some(format!("{}: {}", series.name, self.shown(series, *value)?)));
            lines.extend(named);
            sheet.tip(Area { left, right, ..area }, &lines);
        }
    }
}

impl Plot for Xy {
    fn svg(&self, title: &str) -> String {
        let ends = self.points().flat_map(|point| [point.y - point.error, point.y + point.error]);
        let has_steps = self.series.iter().any(|series| series.style == Style::Steps);
        let y = self.y.fit(ends.chain(self.y_marks.iter().map(|(y, _)| *y)).chain(has_steps.then_some(0.0)));
        let bands = self.bands.iter().flat_map(|(from, to)| [*from, *to]);
        let x = self.x.fit_tight(self.points().map(|point| point.x).chain(self.x_marks.iter().map(|(x, _)| *x)).chain(bands));
        let mut sheet = Sheet::new(HEIGHT);
        let area = sheet.value_axis(&self.y, &y, 46.0);
        self.draw_bands(&mut sheet, &x, area);
        sheet.horizontal_axis(&self.x, &x, area, false);
        (0..self.series.len()).for_each(|at| self.draw_series(&mut sheet, at, (&x, &y), area));
        self.draw_marks(&mut sheet, (&x, &y), area);
        self.draw_tips(&mut sheet, &x, area);
        sheet.finish(title)
    }

    fn keys(&self) -> Vec<Key> {
        let key = |(at, series): (usize, &Series)| {
            let line = match series.style {
                Style::Steps => format!("<rect class=\"s {}\" x=\"2\" y=\"3\" width=\"24\" height=\"10\"/>", colour(at)),
                Style::Line => format!("<path class=\"l {}\"{} d=\"M1 8H27\"/>{}", colour(at), dashes(at), sign(at, 14.0, 8.0)),
                Style::Points => sign(at, 14.0, 8.0),
            };
            Key { name: series.name.clone(), drawing: line }
        };
        let bands = (!self.bands.is_empty()).then(|| Key {
            name: self.bands_name.clone(),
            drawing: "<rect class=\"b\" x=\"2\" y=\"1\" width=\"24\" height=\"14\"/>".into(),
        });
        self.series.iter().enumerate().map(key).chain(bands).collect()
    }

    fn table(&self) -> Table {
        let head = std::iter::once(self.x.label.clone()).chain(self.series.iter().map(|series| series.name.clone()));
        let mut table = Table::new(0, head);
        for x in self.columns() {
            let cells = self.series.iter().map(|series| self.shown(series, x).unwrap_or_default());
            table.row(std::iter::once(self.x.unit.show(x)).chain(cells));
        }
        table
    }
}
