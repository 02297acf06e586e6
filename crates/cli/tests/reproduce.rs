//! `forebay reproduce` and `forebay trace generate`.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Statements as a paper might make them: two that hold and one that does not.
const CLAIMS: &str = r#"
[[claim]]
id = "thesis.fig520.A"
where = "Fig. 5.20"
unit = "distinct accesses"
value = 3
[[claim]]
id = "thesis.fig520.B"
where = "Fig. 5.20"
unit = "distinct accesses"
value = 17
[[claim]]
id = "thesis.fig59.32mb"
where = "Fig. 5.9"
unit = "%"
value = 90
"#;

fn forebay(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(arguments).current_dir(folder).env_clear().env("PATH", "/usr/bin:/bin");
    command.output().expect("forebay starts")
}

#[track_caller]
fn does(folder: &Path, arguments: &[&str]) -> String {
    let output = forebay(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[track_caller]
fn refuses(folder: &Path, arguments: &[&str], part: &str) {
    let output = forebay(folder, arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{arguments:?}: {message}");
    assert!(message.contains(part), "{message:?} lacks {part:?}");
}

fn place() -> TempDir {
    tempfile::tempdir().expect("a directory for the test")
}

#[test]
fn every_figure_is_listed() {
    let place = place();
    let list = does(place.path(), &["reproduce", "--list"]);
    for name in ["thesis.table2.1", "thesis.table5.2", "thesis.5.8", "thesis.5.14", "thesis.5.24", "thesis.5.34"] {
        assert!(list.lines().any(|line| line.split_whitespace().next() == Some(name)), "{name} is not in\n{list}");
    }
    let listed: Value = serde_json::from_str(&does(place.path(), &["reproduce", "--list", "--json"])).expect("JSON");
    assert_eq!(listed.as_array().expect("a list").len(), list.lines().count());
    refuses(place.path(), &["reproduce", "thesis.9.9"], "--list");
    refuses(place.path(), &["reproduce"], "NAME");
}

/// A figure whole: its table, the paper's statement beside our number, agreement or not, as text, as JSON and as a page.
#[test]
fn a_figure_is_held_against_its_paper() {
    let place = place();
    std::fs::write(place.path().join("claims.toml"), CLAIMS).expect("a file of the test");
    let arguments = ["reproduce", "thesis.5.9", "thesis.5.20", "--claims", "claims.toml", "-o", "page.html"];
    let text = does(place.path(), &arguments);
    for part in ["thesis.5.9", "32 nodes", "Fig. 5.9: 90 %", "DIFFERS", "why not", "2 of 3 statements agree"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let page = std::fs::read_to_string(place.path().join("page.html")).expect("a page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg") && page.contains("2 of 3 statements agree"));

    let json: Value = serde_json::from_str(&does(place.path(), &[&arguments[..5], &["--json"]].concat())).expect("JSON");
    let (pages, example) = (&json["figures"][0], &json["figures"][1]);
    let verdicts = |figure: &Value| {
        let statements = figure["statements"].as_array().expect("statements").clone();
        statements.iter().map(|statement| statement["agrees"].as_bool()).collect::<Vec<_>>()
    };
    assert_eq!((verdicts(example), verdicts(pages)), (vec![Some(true), Some(false), None, None], vec![Some(true), None, None]));
    assert_eq!(pages["panels"][0]["lines"].as_array().expect("lines").len(), 6, "1 to 32 nodes");
    let whole = pages["panels"][0]["lines"][5]["points"].as_array().and_then(|points| points.last()).expect("points");
    assert_eq!(whole[1].as_f64(), Some(100.0), "a buffer for everything loses nothing");
}

#[test]
fn without_statements_only_our_numbers_are_shown() {
    let place = place();
    let output = forebay(place.path(), &["reproduce", "thesis.5.20", "thesis.5.29"]);
    let (text, message) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && message.contains("only our numbers"), "{message}");
    assert!(text.contains("distance of A: 3") && !text.contains("DIFFERS") && text.contains("0 of 0 statements"), "{text}");
}

/// The same seed gives the same bytes, and what is in the trace is what the application moves.
#[test]
fn traces_are_made_up() {
    let place = place();
    let generate = |application: &str, out: &str, more: &[&str]| {
        does(place.path(), &[&["-q", "trace", "generate", application, "-o", out][..], more].concat());
        std::fs::read(place.path().join(out)).expect("a trace")
    };
    let small = ["--divide", "20", "--nodes", "2"];
    for application in ["btio-full", "miranda", "montage", "supernovae", "himeno", "povray", "similar-pages", "similar-pages-all-pairs"] {
        let (one, again) = (generate(application, "one.fbt", &small), generate(application, "again.fbt", &small));
        assert!(one == again && one.len() > 500, "{application}: {} bytes", one.len());
    }
    generate("btio", "btio.fbt", &["--class", "a", "--divide", "40", "--nodes", "4"]);
    let info: Value = serde_json::from_str(&does(place.path(), &["trace", "info", "--json", "btio.fbt"])).expect("JSON");
    let text = info.to_string();
    assert!(text.contains(&(64u64.pow(3) * 40).to_string()), "one dump is written and read: {text}");
    refuses(place.path(), &["trace", "generate", "btio", "-o", "x.fbt", "--nodes", "5"], "square");
}
