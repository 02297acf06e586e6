//! Pages with plots: what `analyze`, `sim` and the like find out, for people to read.
//!
//! A [`Page`] is one file of HTML, with everything in it. It is filled from top to bottom: the answer, sections, facts, tables and figures. A
//! figure is a [`Plot`]: [`Xy`] for numbers over numbers (curves, timelines, points with error bars) and [`Bars`] for classes (histograms,
//! stacked counters, names). Numbers are given as they are (bytes, seconds, shares of one) with a [`Unit`], which writes them.
//!
//! ```ignore
//! let capacity = Axis::new("capacity", Unit::Bytes).scale(Scale::Log2);
//! let ratio = Axis::new("miss ratio", Unit::Share).from(0.0).to(1.0);
//! let plot = Xy::new(capacity, ratio)
//!     .series(Series::new("LRU", Style::Line, points))
//!     .series(Series::with_errors("the paper", Style::Points, theirs))
//!     .mark_x(64e6, "90 %");
//! let mut page = Page::new("Figure 5.9", "thesis, section 5.4");
//! page.verdict(Verdict::Agrees, "LRU is never worse than FIFO by more than two points");
//! page.figure("64 MiB are enough", &plot, "");
//! std::fs::write("page.html", page.finish())?;
//! ```
//!
//! All texts may be foreign (names from a trace); they are made harmless here and only here.

mod axis;
mod bars;
mod frame;
mod page;
mod save;
mod text;
mod xy;

pub(crate) use axis::{Axis, Scale};
pub(crate) use bars::{Bars, Layout};
pub(crate) use page::{Page, Plot, Table, Verdict};
pub(crate) use save::{Kind, save};
pub(crate) use text::{Unit, shorten};
pub(crate) use xy::{Point, Series, Style, Xy};

#[cfg(test)]
mod tests;
