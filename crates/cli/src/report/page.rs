//! The page: one file of HTML with its style and its plots in it. It asks for nothing from outside, runs no script, and follows the reader's
//! choice of light or dark.

use std::fmt::Write as _;

use super::text::escape;

/// Rows of a plot's table; of more, every second, third and so on.
const PLOT_ROWS_MAX: usize = 300;

/// Nothing may be loaded and nothing may run, whatever stands in a name.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

/// What can stand in a figure.
pub(crate) trait Plot {
    /// The drawing, as an SVG element without an `id`, named `title` for who cannot see it.
    fn svg(&self, title: &str) -> String;
    /// What its colours mean.
    fn keys(&self) -> Vec<Key>;
    /// Its numbers.
    fn table(&self) -> Table;
}

/// An entry of a legend.
pub(crate) struct Key {
    /// What it is.
    pub(super) name: String,
    /// How it looks, in 28 by 16 units.
    pub(super) drawing: String,
}

/// A table: texts to the left, numbers to the right.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    texts: usize,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With this head; the first `texts` columns are texts, the others numbers.
    pub(crate) fn new<T: Into<String>>(texts: usize, head: impl IntoIterator<Item = T>) -> Table {
        Table { texts, head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Whether it has no rows.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn html(&self) -> String {
        let class = |at: usize| if at < self.texts { "" } else { " class=\"num\"" };
        let mut html = "<div class=\"wide\" tabindex=\"0\"><table><thead><tr>".to_owned();
        for (at, cell) in self.head.iter().enumerate() {
            let _ = write!(html, "<th{}>{}</th>", class(at), escape(cell));
        }
        html += "</tr></thead><tbody>";
        for row in &self.rows {
            html += "<tr>";
            for (at, cell) in row.iter().enumerate() {
                let _ = write!(html, "<td{}>{}</td>", class(at), escape(cell));
            }
            html += "</tr>\n";
        }
        html + "</tbody></table></div>\n"
    }

    fn thinned(mut self) -> (Table, usize) {
        let every = self.rows.len().div_ceil(PLOT_ROWS_MAX).max(1);
        self.rows = self.rows.into_iter().step_by(every).collect();
        (self, every)
    }
}

/// How a statement came out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It is so.
    Agrees,
    /// It is not so.
    Differs,
    /// It cannot be said here.
    Open,
}

/// A page under way.
pub(crate) struct Page {
    title: String,
    contents: Vec<String>,
    body: String,
    /// Whether a row of figures is open.
    in_figures: bool,
}

impl Page {
    /// A page with a title and a line below it: what it is about, from where, from when.
    pub(crate) fn new(title: &str, about: &str) -> Page {
        let body = format!("<h1>{}</h1>\n<p class=\"about\">{}</p>\n", escape(title), escape(about));
        Page { title: title.to_owned(), contents: Vec::new(), body, in_figures: false }
    }

    fn add(&mut self, html: &str) {
        if std::mem::take(&mut self.in_figures) {
            self.body += "</div>\n";
        }
        self.body += html;
    }

    /// The answer in words, on top.
    pub(crate) fn answer(&mut self, text: &str) {
        self.add(&format!("<p class=\"answer\">{}</p>\n", escape(text)));
    }

    /// A part of the page.
    pub(crate) fn section(&mut self, title: &str) {
        self.contents.push(title.to_owned());
        let number = self.contents.len();
        self.add(&format!("<h2 id=\"s{number}\">{}</h2>\n", escape(title)));
    }

    /// A paragraph.
    pub(crate) fn paragraph(&mut self, text: &str) {
        self.add(&format!("<p>{}</p>\n", escape(text)));
    }

    /// A small paragraph: where numbers come from, what they leave out.
    pub(crate) fn note(&mut self, text: &str) {
        self.add(&format!("<p class=\"note\">{}</p>\n", escape(text)));
    }

    /// A few numbers that matter most, each with its name.
    pub(crate) fn facts<N: AsRef<str>, V: AsRef<str>>(&mut self, facts: impl IntoIterator<Item = (N, V)>) {
        let mut html = "<dl class=\"facts\">".to_owned();
        for (name, value) in facts {
            let _ = write!(html, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name.as_ref()), escape(value.as_ref()));
        }
        self.add(&(html + "</dl>\n"));
    }

    /// A statement and whether it holds, in words and by a colour.
    pub(crate) fn verdict(&mut self, verdict: Verdict, text: &str) {
        let (class, word) = match verdict {
            Verdict::Agrees => ("yes", "✓ agrees"),
            Verdict::Differs => ("no", "✗ differs"),
            Verdict::Open => ("open", "– open"),
        };
        self.add(&format!("<p class=\"verdict {class}\"><b>{word}</b> {}</p>\n", escape(text)));
    }

    /// A table.
    pub(crate) fn table(&mut self, table: &Table) {
        let html = table.html();
        self.add(&html);
    }

    /// A plot. The title says what is to be seen in it ("LRU needs 64 MiB"), the note how to read it or nothing. Figures that follow each
    /// other stand side by side where there is room.
    pub(crate) fn figure(&mut self, title: &str, plot: &dyn Plot, note: &str) {
        if !std::mem::replace(&mut self.in_figures, true) {
            self.body += "<div class=\"figures\">\n";
        }
        let _ = write!(self.body, "<figure><figcaption>{}</figcaption>\n<p class=\"keys\">", escape(title));
        for key in plot.keys() {
            let _ = write!(
                self.body,
                "<span><svg class=\"key\" viewBox=\"0 0 28 16\" aria-hidden=\"true\">{}</svg>{}</span> ",
                key.drawing,
                escape(&key.name)
            );
        }
        let _ = write!(self.body, "</p>\n{}\n", plot.svg(title));
        if !note.is_empty() {
            let _ = writeln!(self.body, "<p class=\"note\">{}</p>", escape(note));
        }
        let (table, every) = plot.table().thinned();
        let thinned = if every > 1 { format!(" (one row in {every})") } else { String::new() };
        let _ = writeln!(self.body, "<details><summary>The numbers{thinned}</summary>{}</details></figure>", table.html());
    }

    /// The whole file.
    pub(crate) fn finish(mut self) -> String {
        self.add("");
        let mut contents = String::new();
        if self.contents.len() > 2 {
            contents += "<nav>";
            for (at, title) in self.contents.iter().enumerate() {
                let _ = write!(contents, "<a href=\"#s{}\">{}</a> ", at + 1, escape(title));
            }
            contents += "</nav>\n";
        }
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<link rel=\"icon\" href=\"data:,\">\n\
             <style>\n{}</style></head>\n<body><main>\n{contents}{}</main></body></html>\n",
            escape(&self.title),
            include_str!("page.css"),
            self.body
        )
    }
}
