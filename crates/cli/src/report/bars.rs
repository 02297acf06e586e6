//! Bars: of names or of classes of numbers, beside each other or stacked.

use super::axis::{Axis, Fitted};
use super::frame::{Area, HEIGHT, Sheet, WIDTH, colour};
use super::page::{Key, Plot, Table};
use super::text::shorten;

/// Letters of a name beside a level bar.
const NAME_LETTERS_MAX: usize = 20;
/// Of a letter of such a name, about: many are digits, which are wide.
const NAME_LETTER_WIDTH: f64 = 9.8;
/// Letters of a name below an upright one.
const CLASS_LETTERS_MAX: usize = 14;
/// The width of an upright bar, or of those beside each other.
const BAR_WIDTH_MAX: f64 = 90.0;
/// The height of a level bar with the gap below it.
const ROW_HEIGHT: f64 = 26.0;

/// Where the bars stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// Upright, those of one class beside each other. For classes in an order, with short names: a histogram, nodes, capacities.
    Beside,
    /// Upright, those of one class on each other.
    Stacked,
    /// Level, one below the other, on each other in a class: for names, which need room.
    Level,
}

/// A plot with bars.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    layout: Layout,
    axis: Axis,
    label: String,
    classes: Vec<String>,
    series: Vec<(String, Vec<f64>, Vec<f64>)>,
}

impl Bars {
    /// Bars for these classes; `label` says what the classes are.
    pub(crate) fn new(layout: Layout, axis: Axis, label: impl Into<String>, classes: impl IntoIterator<Item = String>) -> Bars {
        Bars { layout, axis, label: label.into(), classes: classes.into_iter().collect(), series: Vec::new() }
    }

    /// A histogram: bars beside each other for classes of numbers, each named by where it begins.
    pub(crate) fn histogram(axis: Axis, label: impl Into<String>, begins: impl IntoIterator<Item = String>) -> Bars {
        Bars::new(Layout::Beside, axis, label, begins)
    }

    /// With another series: one value for each class. What is not finite has no bar.
    pub(crate) fn series(self, name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Bars {
        self.series_with_errors(name, values, [])
    }

    /// With another series, and half the lengths of the error bars. Not for stacked ones.
    pub(crate) fn series_with_errors(
        mut self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = f64>,
        errors: impl IntoIterator<Item = f64>,
    ) -> Bars {
        self.series.push((name.into(), values.into_iter().collect(), errors.into_iter().collect()));
        self
    }

    fn value(&self, series: usize, class: usize) -> Option<f64> {
        self.series[series].1.get(class).copied().filter(|value| value.is_finite())
    }

    fn error(&self, series: usize, class: usize) -> f64 {
        self.series[series].2.get(class).copied().unwrap_or(0.0)
    }

    fn shown(&self, series: usize, class: usize) -> String {
        let Some(value) = self.value(series, class) else { return "–".into() };
        let error = self.error(series, class);
        let error = if error > 0.0 { format!(" ± {}", self.axis.unit.show(error)) } else { String::new() };
        format!("{}{error}", self.axis.unit.show(value))
    }

    fn fit(&self) -> Fitted {
        let classes = 0..self.classes.len();
        let ends = classes.flat_map(|class| {
            let values = (0..self.series.len()).filter_map(move |series| Some((self.value(series, class)?, self.error(series, class))));
            let is_stacked = self.layout != Layout::Beside;
            let sum = values.clone().map(|(value, _)| value).sum();
            values.flat_map(|(value, error)| [value - error, value + error]).chain(is_stacked.then_some(sum))
        });
        self.axis.fit(ends.chain([0.0]))
    }

    fn tip(&self, class: usize) -> Vec<String> {
        let named = (0..self.series.len()).map(|series| format!("{}: {}", self.series[series].0, self.shown(series, class)));
        std::iter::once(shorten(&self.classes[class], 60)).chain(named).collect()
    }

    /// The bars of a class between two places across; `along` draws from one value to another.
    fn draw_class(&self, sheet: &mut Sheet, class: usize, fitted: &Fitted, draw: &dyn Fn(&mut Sheet, usize, f64, f64)) {
        let mut sum = 0.0;
        for series in 0..self.series.len() {
            let Some(value) = self.value(series, class) else { continue };
            let from = if self.layout == Layout::Beside { 0.0 } else { sum };
            sum += value;
            let to = if self.layout == Layout::Beside { value } else { sum };
            let places = (fitted.place(from).unwrap_or(fitted.base()), fitted.place(to).unwrap_or(fitted.base()));
            draw(sheet, series, places.0, places.1);
        }
    }

    fn upright(&self, title: &str) -> String {
        let fitted = self.fit();
        let mut sheet = Sheet::new(HEIGHT);
        let area = sheet.value_axis(&self.axis, &fitted, 46.0);
        let count = self.classes.len().max(1) as f64;
        let slot = (area.right - area.left) / count;
        let width = (slot * 0.82).max(slot - 14.0).min(BAR_WIDTH_MAX);
        let beside = if self.layout == Layout::Beside { self.series.len().max(1) as f64 } else { 1.0 };
        let middles: Vec<f64> = (0..self.classes.len()).map(|class| area.left + slot * (class as f64 + 0.5)).collect();
        for (class, middle) in middles.iter().enumerate() {
            self.draw_class(&mut sheet, class, &fitted, &|sheet, series, from, to| {
                let lane = if self.layout == Layout::Beside { series as f64 } else { 0.0 };
                let (x, bar) = (middle - width / 2.0 + lane * width / beside, width / beside);
                bar_rect(sheet, series, Area { left: x, right: x + bar, top: area.y(to), bottom: area.y(from) });
                let (value, error) = (self.value(series, class).unwrap_or(0.0), self.error(series, class));
                if let (true, Some(low), Some(high)) = (error > 0.0, fitted.place(value - error), fitted.place(value + error)) {
                    let middle = x + bar / 2.0;
                    sheet.line("w", [middle, area.y(low), middle, area.y(high)]);
                }
            });
        }
        let names: Vec<String> = self.classes.iter().map(|name| shorten(name, CLASS_LETTERS_MAX)).collect();
        sheet.labels_below(area, &middles, &names);
        sheet.text("middle", f64::midpoint(area.left, area.right), area.bottom + 39.0, &self.label);
        let base = area.y(fitted.base());
        sheet.line("a", [area.left, base, area.right, base]);
        for (class, middle) in middles.iter().enumerate() {
            sheet.tip(Area { left: middle - slot / 2.0, right: middle + slot / 2.0, ..area }, &self.tip(class));
        }
        sheet.finish(title)
    }

    fn level(&self, title: &str) -> String {
        let fitted = self.fit();
        let names: Vec<String> = self.classes.iter().map(|name| shorten(name, NAME_LETTERS_MAX)).collect();
        let letters = names.iter().map(|name| name.chars().count()).max().unwrap_or(1);
        let height = ROW_HEIGHT * names.len() as f64 + 58.0;
        let mut sheet = Sheet::new(height);
        let left = letters as f64 * NAME_LETTER_WIDTH + 12.0;
        let area = Area { left, top: 8.0, right: WIDTH - 24.0, bottom: height - 48.0 };
        sheet.horizontal_axis(&self.axis, &fitted, area, true);
        let base = area.x(fitted.base());
        let row = |class: usize| area.top + ROW_HEIGHT * class as f64;
        for (class, name) in names.iter().enumerate() {
            let top = row(class) + 4.0;
            sheet.text("end", area.left - 7.0, top + 13.5, name);
            self.draw_class(&mut sheet, class, &fitted, &|sheet, series, from, to| {
                let (from, to) = (area.x(from), area.x(to));
                bar_rect(sheet, series, Area { left: from.min(to), right: from.max(to), top, bottom: top + ROW_HEIGHT - 8.0 });
            });
        }
        sheet.line("a", [base, area.top, base, area.bottom]);
        for class in 0..names.len() {
            sheet.tip(Area { left: 0.0, right: WIDTH, top: row(class), bottom: row(class) + ROW_HEIGHT }, &self.tip(class));
        }
        sheet.finish(title)
    }
}

fn bar_rect(sheet: &mut Sheet, series: usize, Area { left, top, right, bottom }: Area) {
    let (top, bottom) = (top.min(bottom), top.max(bottom));
    let (width, height) = (right - left, bottom - top);
    let class = colour(series);
    sheet.draw(&format!("<rect class=\"r {class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"));
}

impl Plot for Bars {
    fn svg(&self, title: &str) -> String {
        if self.layout == Layout::Level { self.level(title) } else { self.upright(title) }
    }

    fn keys(&self) -> Vec<Key> {
        let key = |(at, (name, ..)): (usize, &(String, Vec<f64>, Vec<f64>))| Key {
            name: name.clone(),
            drawing: format!("<rect class=\"r {}\" x=\"7\" y=\"1\" width=\"14\" height=\"14\"/>", colour(at)),
        };
        self.series.iter().enumerate().map(key).collect()
    }

    fn table(&self) -> Table {
        let mut table = Table::new(1, std::iter::once(self.label.clone()).chain(self.series.iter().map(|(name, ..)| name.clone())));
        for (class, name) in self.classes.iter().enumerate() {
            table.row(std::iter::once(name.clone()).chain((0..self.series.len()).map(|series| self.shown(series, class))));
        }
        table
    }
}
