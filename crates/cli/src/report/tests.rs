//! Whole pages.

use super::*;

const FOREIGN: &str = "</script><img src=x onerror='alert(1)'>\"&\u{202e}";

fn curves() -> Xy {
    let axis = Axis::new("capacity", Unit::Bytes).scale(Scale::Log2);
    let mut plot = Xy::new(axis, Axis::new("miss ratio", Unit::Share).from(0.0).to(1.0)).mark_x(3e7, FOREIGN).mark_y(0.5, "half");
    for at in 0..10u32 {
        let points = (20..31).map(|power| (2f64.powi(power), 1.0 / f64::from(power - 18 + at as i32)));
        plot = plot.series(Series::new(format!("policy {at}"), Style::Line, points));
    }
    plot
}

fn bars(layout: Layout) -> Bars {
    let names = [FOREIGN, "b", "c"].map(str::to_owned);
    Bars::new(layout, Axis::new("bytes", Unit::Bytes), "file", names).series("read", [1e6, 2e6, f64::NAN]).series_with_errors(
        "written",
        [3e6, 0.0],
        [1e5],
    )
}

fn page() -> String {
    let mut page = Page::new(FOREIGN, "all of it");
    page.answer("A buffer of 64 MiB.");
    page.facts([("bytes", "1 MiB"), (FOREIGN, "2")]);
    for (at, verdict) in [Verdict::Agrees, Verdict::Differs, Verdict::Open].into_iter().enumerate() {
        page.section(&format!("part {at}"));
        page.verdict(verdict, FOREIGN);
    }
    page.figure("curves", &curves(), FOREIGN);
    for layout in [Layout::Beside, Layout::Stacked, Layout::Level] {
        page.figure(FOREIGN, &bars(layout), "");
    }
    let time = Xy::new(Axis::new("time", Unit::Seconds), Axis::new("rate", Unit::BytesPerS))
        .series(Series::new("read", Style::Steps, (0..2000).map(|at| (f64::from(at), f64::from(at % 7)))))
        .series(Series::with_errors("paper", Style::Points, [Point { x: 3.0, y: 2.0, error: 0.5 }]))
        .bands("parallel", [(10.0, 20.0), (500.0, 900.0)]);
    page.figure("timeline", &time, "");
    let mut table = Table::new(1, ["file", "bytes"]);
    table.row([FOREIGN, "12"]);
    assert!(!table.is_empty());
    page.table(&table);
    page.note(FOREIGN);
    page.paragraph(&shorten(FOREIGN, 9));
    page.finish()
}

/// The tags of a page: their names, opening and closing. Fails on a `<` that is no tag, and on one that is not closed in order.
fn tags(html: &str) -> Vec<String> {
    const VOID: [&str; 3] = ["meta", "link", "!DOCTYPE"];
    let (mut open, mut seen): (Vec<String>, _) = (Vec::new(), Vec::new());
    for part in html.split('<').skip(1) {
        let (tag, _) = part.split_once('>').expect("every tag ends");
        let name = tag.trim_end_matches('/').split_whitespace().next().unwrap_or_default().to_owned();
        seen.push(name.clone());
        if let Some(closed) = name.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(closed), "{tag}");
        } else if !tag.ends_with('/') && !VOID.contains(&name.as_str()) {
            open.push(name);
        }
        // Quotes come in pairs: no value has ended early.
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
    }
    assert_eq!(open, [""; 0]);
    seen
}

#[test]
fn a_page_is_whole_and_foreign_names_are_text() {
    let page = page();
    let tags = tags(&page);
    for wrong in ["script", "img", "iframe", "object"] {
        assert!(!tags.iter().any(|tag| tag == wrong), "{wrong}");
    }
    assert!(page.contains("&lt;/script&gt;&lt;img src=x onerror=&#39;alert(1)&#39;&gt;&quot;&amp;\\u{202e}"));
    for outside in ["http://", "https://", "url(", "@import", "src=\"", "\u{202e}"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for number in ["NaN", "inf"] {
        assert!(!page.replace("infer", "").contains(&format!("\"{number}")), "{number}");
    }
    assert_eq!(tags.iter().filter(|tag| *tag == "figure").count(), 5);
}

#[test]
fn plots_without_data_are_plots() {
    let axis = || Axis::new("x", Unit::Bytes);
    let mut page = Page::new("empty", "");
    page.figure("no series", &Xy::new(axis(), axis()), "");
    page.figure("no points", &Xy::new(axis().scale(Scale::Log10), axis()).series(Series::new("a", Style::Steps, [])), "");
    page.figure("no place", &Xy::new(axis().scale(Scale::Log2), axis()).series(Series::new("a", Style::Line, [(0.0, 1.0)])), "");
    for layout in [Layout::Beside, Layout::Stacked, Layout::Level] {
        page.figure("no classes", &Bars::new(layout, axis(), "", []), "");
        page.figure("no values", &Bars::new(layout, axis(), "", ["a".to_owned()]).series("b", []), "");
    }
    page.figure("histogram", &Bars::histogram(axis(), "from", ["0".to_owned()]).series("b", [0.0]), "");
    let _ = tags(&page.finish());
}

/// Every colour of lines and of text is told from what is behind it, in both modes: the contrast is 3 for lines and 4.5 for text.
#[test]
fn colours_stand_out() {
    let css = include_str!("page.css");
    let colour = |mode: &str, name: &str| {
        let hex = mode.split_once(&format!("--{name}: #")).expect("a colour").1.split([';', ' ']).next().unwrap_or_default();
        let hex = if hex.len() == 3 { hex.chars().flat_map(|digit| [digit, digit]).collect() } else { hex.to_owned() };
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal")) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4)
    };
    let (light, dark) = css.split_once("@media (prefers-color-scheme: dark)").expect("two modes");
    for mode in [light, dark] {
        let card = colour(mode, "card");
        let contrast = |name: &str| {
            let other = colour(mode, name);
            (card.max(other) + 0.05) / (card.min(other) + 0.05)
        };
        for at in 0..8 {
            assert!(contrast(&format!("c{at}")) >= 3.0, "c{at}: {}", contrast(&format!("c{at}")));
        }
        for name in ["ink", "soft", "link", "yes", "no"] {
            assert!(contrast(name) >= 4.5, "{name}: {}", contrast(name));
        }
    }
}

/// With a name in the environment the page of these tests is left there, for a look.
#[test]
fn a_page_for_a_look() {
    if let Some(path) = std::env::var_os("FOREBAY_TEST_PAGE") {
        std::fs::write(path, page()).expect("the page is written");
    }
}
