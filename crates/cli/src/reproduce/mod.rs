//! `forebay reproduce`: figures and tables of papers, made again, with what the paper says beside what came out.
//!
//! A [`figure::Figure`] is a row of a table: how it is made, and the paper's statements with a rule for each that can fail. `thesis.rs` has
//! the rows of one paper; another paper is another file like it.

mod args;
mod claims;
mod figure;
mod hybrid;
mod ibridge;
mod ibridge_studies;
mod lab;
mod measures;
mod page;
mod recording;
mod scenes;
mod sky;
mod ssdup;
mod ssdup_studies;
mod studies;
mod tables;
mod text;
mod thesis;

pub(crate) use args::ReproduceArgs;

use claims::Claims;
use figure::{Figure, Outcome};
use lab::Lab;

use crate::console::Console;
use crate::error::Error;

/// All figures, in the order in which they are listed.
fn figures() -> impl Iterator<Item = &'static Figure> {
    thesis::FIGURES.iter().chain(ssdup::FIGURES).chain(ibridge::FIGURES)
}

/// The figures that a name means: one, all from one to another, or all of a paper.
fn named(name: &str) -> Result<Vec<&'static Figure>, Error> {
    let unknown = |name: &str| Error::usage(format!("there is no figure \"{name}\"; `forebay reproduce --list` names them all"));
    let place = |name: &str| figures().position(|figure| figure.name == name).ok_or_else(|| unknown(name));
    if let Some((from, to)) = name.split_once("..") {
        let paper = from.split('.').next().unwrap_or_default();
        let first = place(from)?;
        let last = place(to).or_else(|_| place(&format!("{paper}.{to}")))?;
        return if first <= last { Ok(figures().take(last + 1).skip(first).collect()) } else { Err(unknown(name)) };
    }
    let found: Vec<&Figure> = figures().filter(|figure| figure.name == name || figure.name.split('.').next() == Some(name)).collect();
    if found.is_empty() { Err(unknown(name)) } else { Ok(found) }
}

/// What is asked for, each once and in the order of the list.
fn wanted(args: &ReproduceArgs) -> Result<Vec<&'static Figure>, Error> {
    if args.all {
        return Ok(figures().collect());
    }
    let mut names = std::collections::BTreeSet::new();
    for name in &args.names {
        names.extend(named(name)?.iter().map(|figure| figure.name));
    }
    Ok(figures().filter(|figure| names.contains(figure.name)).collect())
}

/// `forebay reproduce`.
pub(crate) fn command(args: &ReproduceArgs, console: Console) -> Result<(), Error> {
    if args.list {
        return crate::print(&if args.json { text::list_json(figures()) } else { text::list(figures()) });
    }
    let figures = wanted(args)?;
    let claims = Claims::find(args.claims.as_deref())?;
    if claims.is_none() {
        console.say("there is no file of the papers' statements (--claims), so only our numbers are shown");
    }
    let lab = Lab::new(args, console)?;
    let mut outcomes: Vec<Outcome> = Vec::new();
    for figure in figures {
        console.detail(&format!("{}: {}", figure.name, figure.title));
        outcomes.push(figure.outcome(&lab, claims.as_ref())?);
    }
    if let Some(path) = &args.out {
        let page = page::page(&outcomes);
        std::fs::write(path, page).map_err(Error::io(format!("write {}", path.display())))?;
        console.say(&format!("wrote {}", path.display()));
    }
    if args.json {
        return crate::print(&text::json(&outcomes));
    }
    crate::print(&text::show(&outcomes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(name: &str) -> Vec<&'static str> {
        named(name).unwrap().iter().map(|figure| figure.name).collect()
    }

    #[test]
    fn names_ranges_and_papers() {
        assert_eq!(names("thesis.5.8"), ["thesis.5.8"]);
        assert_eq!(names("thesis.5.8..5.10"), ["thesis.5.8", "thesis.5.9", "thesis.5.10"]);
        assert_eq!(names("thesis.5.13..thesis.5.14").len(), 2);
        assert_eq!(names("thesis").len(), thesis::FIGURES.len());
        for wrong in ["thesis.5.99", "5.8", "thesis.5.9..5.8", "thesis.5.8.."] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_name_is_there_once() {
        let mut all: Vec<&str> = figures().map(|figure| figure.name).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    /// Where the statements lie beside the repository, every one that a figure names is among them.
    #[test]
    fn statements_exist() {
        let Some(claims) = Claims::find(None).unwrap() else { return };
        for check in figures().flat_map(|figure| figure.checks) {
            assert!(claims.get(check.claim).is_some(), "{}", check.claim);
        }
    }
}
