//! What all plots share: the sheet, the grid with its ticks, the boxes that show the numbers under the pointer.

use std::fmt::Write as _;

use super::axis::{Axis, Fitted};
use super::text::escape;

/// The width of a plot in its own units. A page shows it about as wide in pixels, a phone at seven tenths.
pub(super) const WIDTH: f64 = 520.0;
/// The height of a plot whose height does not depend on its data.
pub(super) const HEIGHT: f64 = 300.0;
/// Of a letter, about, where letters are largest: on a phone.
pub(super) const LETTER_WIDTH: f64 = 9.0;
const LINE_HEIGHT: f64 = 17.0;
/// Lines of a box at most.
const TIP_LINES_MAX: usize = 13;
/// Colours that the style sheet has; beyond them lines are dashed, and colours begin again.
const COLOURS: usize = 8;

/// The class of the n-th series.
pub(super) fn colour(series: usize) -> String {
    format!("c{}", series % COLOURS)
}

/// The dashes of the n-th series.
pub(super) fn dashes(series: usize) -> &'static str {
    ["", " stroke-dasharray=\"7 4\"", " stroke-dasharray=\"2 3\""][series / COLOURS % 3]
}

/// The sign of the n-th series at a place: shapes differ where colours may not be told apart.
pub(super) fn sign(series: usize, x: f64, y: f64) -> String {
    let class = colour(series);
    match series % 5 {
        0 => format!("<circle class=\"f {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.6\"/>"),
        1 => format!("<rect class=\"f {class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"6.6\" height=\"6.6\"/>", x - 3.3, y - 3.3),
        2 => format!("<path class=\"f {class}\" d=\"M{x:.1} {:.1}l4.4 7.6h-8.8z\"/>", y - 4.6),
        3 => format!("<path class=\"f {class}\" d=\"M{x:.1} {:.1}l4.6 4.6l-4.6 4.6l-4.6-4.6z\"/>", y - 4.6),
        _ => format!("<path class=\"f {class}\" d=\"M{x:.1} {:.1}l4.4-7.6h-8.8z\"/>", y + 4.6),
    }
}

/// The rectangle of a plot in which its data is.
#[derive(Clone, Copy)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Area {
    pub(super) fn x(&self, place: f64) -> f64 {
        self.left + (self.right - self.left) * place
    }

    pub(super) fn y(&self, place: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * place
    }
}

/// A plot under way.
pub(super) struct Sheet {
    height: f64,
    marks: String,
    tips: String,
}

impl Sheet {
    pub(super) fn new(height: f64) -> Sheet {
        Sheet { height, marks: String::new(), tips: String::new() }
    }

    /// Adds to what is drawn.
    pub(super) fn draw(&mut self, element: &str) {
        self.marks.push_str(element);
    }

    pub(super) fn line(&mut self, class: &str, [x1, y1, x2, y2]: [f64; 4]) {
        let _ = write!(self.marks, "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
    }

    /// `anchor` is start, middle or end.
    pub(super) fn text(&mut self, anchor: &str, x: f64, y: f64, text: &str) {
        let _ = write!(self.marks, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", escape(text));
    }

    /// The same, readable on what is drawn already.
    pub(super) fn text_above(&mut self, anchor: &str, x: f64, y: f64, text: &str) {
        let _ = write!(self.marks, "<text class=\"k\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", escape(text));
    }

    /// A vertical axis with values: the grid, its numbers and, above, what they are. Gives the area beside it.
    pub(super) fn value_axis(&mut self, axis: &Axis, fitted: &Fitted, bottom_room: f64) -> Area {
        let labels: Vec<String> = fitted.ticks.iter().map(|tick| axis.unit.show(*tick)).collect();
        let letters = labels.iter().map(|label| label.chars().count()).max().unwrap_or(1);
        let area = Area {
            left: letters as f64 * LETTER_WIDTH + 12.0,
            top: if axis.label.is_empty() { 12.0 } else { 32.0 },
            right: WIDTH - 26.0,
            bottom: self.height - bottom_room,
        };
        for (tick, label) in fitted.ticks.iter().zip(&labels) {
            let y = area.y(fitted.place(*tick).unwrap_or(0.0));
            self.line("g", [area.left, y, area.right, y]);
            self.text("end", area.left - 7.0, y + 4.5, label);
        }
        if !axis.label.is_empty() {
            self.text("start", 2.0, 14.0, &axis.label);
        }
        area
    }

    /// A horizontal axis with values below the area.
    pub(super) fn horizontal_axis(&mut self, axis: &Axis, fitted: &Fitted, area: Area, has_grid: bool) {
        let labels: Vec<String> = fitted.ticks.iter().map(|tick| axis.unit.show(*tick)).collect();
        let places: Vec<f64> = fitted.ticks.iter().map(|tick| area.x(fitted.place(*tick).unwrap_or(0.0))).collect();
        for x in &places {
            if has_grid {
                self.line("g", [*x, area.top, *x, area.bottom]);
            } else {
                self.line("a", [*x, area.bottom, *x, area.bottom + 4.0]);
            }
        }
        self.labels_below(area, &places, &labels);
        self.text("middle", f64::midpoint(area.left, area.right), area.bottom + 39.0, &axis.label);
        if !has_grid {
            self.line("a", [area.left, area.bottom, area.right, area.bottom]);
        }
    }

    /// Labels below the area at these places: every one, or every second, third and so on, so that they stand apart.
    pub(super) fn labels_below(&mut self, area: Area, places: &[f64], labels: &[String]) {
        let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
        let needed = longest as f64 * LETTER_WIDTH + 8.0;
        let apart = places.windows(2).map(|two| (two[1] - two[0]).abs()).fold(f64::INFINITY, f64::min);
        let every = if apart > 0.0 { (needed / apart).ceil().max(1.0) as usize } else { 1 };
        for (x, label) in places.iter().zip(labels).step_by(every) {
            let half = label.chars().count() as f64 * LETTER_WIDTH / 2.0;
            self.text("middle", x.clamp(half + 1.0, (WIDTH - half - 1.0).max(half + 1.0)), area.bottom + 19.0, label);
        }
    }

    /// A box with these lines that shows while the pointer is in the part of the area between two places from left to right, or at a
    /// finger's touch. It needs no script.
    pub(super) fn tip(&mut self, hit: Area, lines: &[String]) {
        let shown = &lines[..lines.len().min(TIP_LINES_MAX)];
        let letters = shown.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        let width = (letters as f64 * LETTER_WIDTH + 16.0).min(WIDTH - 4.0);
        let height = shown.len() as f64 * LINE_HEIGHT + 9.0;
        let middle = f64::midpoint(hit.left, hit.right);
        let x = if middle + 12.0 + width < WIDTH { middle + 12.0 } else { (middle - 12.0 - width).max(2.0) };
        let y = hit.top.min(self.height - height - 2.0).max(2.0);
        let _ = write!(
            self.tips,
            "<g class=\"h\"><rect class=\"n\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/><g class=\"t\">\
             <rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"5\"/><text>",
            hit.left,
            hit.top,
            (hit.right - hit.left).max(1.0),
            (hit.bottom - hit.top).max(1.0),
        );
        for (at, line) in shown.iter().enumerate() {
            let y = y + LINE_HEIGHT * (at + 1) as f64;
            let _ = write!(self.tips, "<tspan x=\"{:.1}\" y=\"{y:.1}\">{}</tspan>", x + 8.0, escape(line));
        }
        self.tips += "</text></g></g>";
    }

    /// The plot; `title` is read out to who cannot see it.
    pub(super) fn finish(self, title: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">{}{}</svg>",
            self.height,
            escape(title),
            self.marks,
            self.tips
        )
    }
}
