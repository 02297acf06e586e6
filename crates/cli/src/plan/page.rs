//! A plan as a page.

use super::Plan;
use crate::report::{Axis, Bars, Layout, Page, Point, Scale, Series, Style, Unit, Xy};

/// The whole page.
pub(super) fn page(plan: &Plan, span_s: f64) -> String {
    let args = plan.args;
    let trace = args.trace.file_name().unwrap_or(args.trace.as_os_str()).to_string_lossy();
    let about = format!(
        "{}; home {}, buffer {}; {}, write-back {}, chunks of {}",
        args.trace.display(),
        plan.home,
        plan.buffer,
        args.policy,
        args.write_back,
        Unit::Bytes.show(args.chunk as f64)
    );
    let mut page = Page::new(&format!("A buffer for {trace}"), &about);
    page.answer(&plan.answer());
    page.paragraph(&plan.uncertainty());
    if let Some(price) = plan.price() {
        page.paragraph(&price);
    }
    page.facts([
        ("ask for", Unit::Bytes.show(plan.ask_bytes as f64)),
        ("of an unlimited buffer's throughput", Unit::Share.show(plan.ratio)),
        ("times as fast", Unit::Number.show(plan.speedup())),
        ("the trace takes", Unit::Seconds.show(span_s)),
        ("of it without reads and writes", Unit::Seconds.show(plan.other_s)),
    ]);
    page.section("How large");
    let curve = plan.curve();
    let points = curve.iter().map(|(capacity, ratio, off)| Point { x: *capacity as f64, y: *ratio, error: *off });
    let capacity = Axis::new("capacity of the buffer", Unit::Bytes).scale(Scale::Log2);
    let (least, most) = plan.needed();
    let plot = Xy::new(capacity, Axis::new("of an unlimited buffer's throughput", Unit::Share).from(0.0).to(1.0))
        .bands("enough, by the order of the trace", (least < most).then_some((least as f64, most as f64)))
        .series(Series::with_errors("share", Style::Line, points))
        .mark_y(args.target / 100.0, "")
        .mark_x(plan.ask_bytes as f64, format!("ask for {}", Unit::Bytes.show(plan.ask_bytes as f64)));
    let title = format!("{} are enough for {}", Unit::Bytes.show(plan.ask_bytes as f64), Unit::Share.show(args.target / 100.0));
    page.figure(&title, &plot, "The bars say how far other orders of the parallel parts are off at most.");
    let classes = ["home alone", "with the buffer"].map(str::to_owned);
    let plot = Bars::new(Layout::Level, Axis::new("time", Unit::Seconds), "", classes)
        .series("neither reads nor writes", [plan.other_s, plan.other_s])
        .series("reads and writes", [plan.direct_s, plan.buffered_s])
        .series("until everything is home", [0.0, plan.drain_s]);
    let title = format!("With it the application is {:.2} times as fast", plan.speedup());
    let note = "A model: bytes and the throughput of both levels. What passes without reads and writes is taken from the trace as it is, opening and closing of files included.";
    page.figure(&title, &plot, note);
    if let Some(money) = &plan.money {
        let classes = ["home alone", "with the buffer"].map(str::to_owned);
        let plot =
            Bars::new(Layout::Level, Axis::new("cost of a run", Unit::Number), "", classes).series("cost", [money.direct, money.buffered]);
        page.figure(
            &plan.price().unwrap_or_default(),
            &plot,
            "Price of a node for an hour, times hours, times nodes; and the space of the buffer.",
        );
    }
    page.finish()
}
