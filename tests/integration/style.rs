//! The rules of the repository that a machine can check (CONTRIBUTING.md says why they are there).

use std::path::Path;

use forebay_tests::{licence, repository};

const FILE_LINES_MAX: usize = 600;

/// This file names what it looks for.
const SELF: &str = "tests/integration/style.rs";

fn toml(path: &str) -> toml::Table {
    toml::from_str(&repository::read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn assert_none(found: &[String]) {
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Lines of all Rust sources that `wrong` objects to, as `path:line: text`.
fn lines_where(wrong: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in repository::sources("").into_iter().filter(|(path, _)| path != SELF) {
        let lines = text.lines().enumerate().filter(|(_, line)| wrong(line));
        found.extend(lines.map(|(number, line)| format!("{path}:{}: {}", number + 1, line.trim())));
    }
    found
}

#[test]
fn there_is_something_to_check() {
    let files = repository::files();
    for file in ["Makefile", "Cargo.toml", "crates/core/src/lib.rs", SELF] {
        assert!(files.iter().any(|path| path == file), "{file} is not among the repository's files");
    }
}

#[test]
fn a_long_file_says_why_it_is_long() {
    let sources = repository::sources("").into_iter();
    let long = sources.filter(|(_, text)| text.lines().count() > FILE_LINES_MAX && !text.lines().take(40).any(says_why_it_is_long));
    let found: Vec<String> = long
        .map(|(path, text)| format!("{path}: {} lines; divide it, or begin it with a comment `// Long because ...`", text.lines().count()))
        .collect();
    assert_none(&found);
}

fn says_why_it_is_long(line: &str) -> bool {
    line.starts_with("// Long because ") || line.starts_with("//! Long because ")
}

#[test]
fn nothing_is_left_for_later() {
    let marks = ["TODO", "FIXME", "XXX", "todo!", "unimplemented!", "dbg!"];
    assert_none(&lines_where(|line| marks.iter().any(|mark| repository::has_word(line, mark))));
}

#[test]
fn there_is_no_unsafe_code() {
    let manifest = toml("Cargo.toml");
    assert_eq!(manifest["workspace"]["lints"]["rust"]["unsafe_code"].as_str(), Some("deny"));
    // With a hyphen it is a word of something else: what a page's security policy allows.
    let code = |line: &str| line.split("//").next().unwrap_or_default().replace("unsafe_code", "").replace("unsafe-", "");
    assert_none(&lines_where(|line| repository::has_word(&code(line), "unsafe") || line.contains("allow(unsafe_code")));
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let manifests = repository::files().into_iter().filter(|path| path.ends_with("/Cargo.toml"));
    let careless = manifests.filter(|path| {
        let manifest = toml(path);
        let lints = manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool);
        lints != Some(true)
    });
    let found: Vec<String> = careless.map(|path| format!("{path}: `[lints] workspace = true` is missing")).collect();
    assert_none(&found);
}

#[test]
fn no_test_sleeps_for_a_fixed_time() {
    let mut found = Vec::new();
    for (path, text) in repository::sources("") {
        let of_tests = path.contains("/tests/") || path.contains("integration/") || path.ends_with("tests.rs");
        if !of_tests || path == SELF {
            continue;
        }
        let sleeping = text.lines().enumerate().filter(|(_, line)| repository::has_word(line, "sleep("));
        found.extend(sleeping.map(|(number, _)| format!("{path}:{}: wait for a condition with a deadline instead", number + 1)));
    }
    assert_none(&found);
}

/// Targets of Markdown links `[text](target)` in a text, without those in code.
fn link_targets(text: &str) -> Vec<String> {
    let mut targets = Vec::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        if in_block {
            continue;
        }
        let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
        for part in plain.split("](").skip(1) {
            targets.extend(part.split(')').next().map(str::to_owned));
        }
    }
    targets
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn links_within_the_documentation_lead_somewhere() {
    let mut found = Vec::new();
    for path in repository::files().into_iter().filter(|path| path.ends_with(".md")) {
        let text = repository::read(&path);
        let folder = Path::new(&path).parent().unwrap_or(Path::new(""));
        for target in link_targets(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, fragment) = target.split_once('#').unwrap_or((&target, ""));
            let linked = if file.is_empty() { Path::new(&path).to_owned() } else { folder.join(file) };
            if !repository::root().join(&linked).exists() {
                found.push(format!("{path}: ({target}): there is no {}", linked.display()));
            } else if !fragment.is_empty() && linked.extension().is_some_and(|extension| extension == "md") {
                let other = repository::read(linked.to_str().expect("a path in UTF-8"));
                if !other.lines().any(|line| line.starts_with('#') && anchor(line) == fragment) {
                    found.push(format!("{path}: ({target}): no heading gives that anchor"));
                }
            }
        }
    }
    assert_none(&found);
}

#[test]
fn links_and_anchors_are_read_as_a_reader_would() {
    assert_eq!(link_targets("a [b](c.md#d) `[x](y)` [e](f)\n```\n[g](h)\n```\n"), ["c.md#d", "f"]);
    assert_eq!(anchor("## The log, and why: a commit"), "the-log-and-why-a-commit");
    assert!(repository::has_word("let x = std::fs", "std::") && !repository::has_word("mystd::x", "std::"));
}

#[test]
fn dependencies_come_from_the_registry_under_licences_that_fit() {
    let metadata = repository::cargo_metadata(&["--locked"]);
    let packages = metadata["packages"].as_array().expect("cargo metadata lists packages");
    assert!(packages.len() > 20, "cargo metadata lists only {} packages", packages.len());
    let mut found = Vec::new();
    for package in packages.iter().filter(|package| !package["source"].is_null()) {
        let name = format!("{} {}", package["name"].as_str().unwrap_or_default(), package["version"].as_str().unwrap_or_default());
        if package["source"].as_str() != Some("registry+https://github.com/rust-lang/crates.io-index") {
            found.push(format!("{name}: comes from {}", package["source"]));
        }
        let expression = package["license"].as_str().unwrap_or_default();
        if !licence::fits(expression) {
            found.push(format!("{name}: its licence `{expression}` is not among those that fit Apache-2.0"));
        }
    }
    assert_none(&found);
}

#[test]
fn our_own_licence_is_there() {
    assert!(repository::read("LICENSE").contains("Apache License"));
    let manifest = toml("Cargo.toml");
    assert_eq!(manifest["workspace"]["package"]["license"].as_str(), Some("Apache-2.0"));
}
