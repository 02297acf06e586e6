//! The repository's own files, for tests of its rules.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository's root directory.
#[must_use]
pub fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the tests' package stands in the repository").to_owned()
}

/// A file of the repository as text.
///
/// # Panics
/// When it cannot be read.
#[must_use]
pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What `cargo metadata` says. It may have to fetch what other systems than this one would build with.
///
/// # Panics
/// When cargo fails.
#[must_use]
pub fn cargo_metadata(arguments: &[&str]) -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .current_dir(root())
        .args(["metadata", "--format-version", "1"])
        .args(arguments)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

/// Files below the repository's root that git knows or would take (its ignore rules hold), as paths relative to it.
///
/// # Panics
/// When git fails.
#[must_use]
pub fn files() -> Vec<String> {
    let output = Command::new("git")
        .current_dir(root())
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .output()
        .expect("git runs");
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let mut files: Vec<String> = String::from_utf8(output.stdout).expect("paths in UTF-8").lines().map(str::to_owned).collect();
    files.retain(|path| root().join(path).is_file());
    files.sort();
    files.dedup();
    files
}

/// Rust files below a directory of the repository, with their text.
#[must_use]
pub fn sources(directory: &str) -> Vec<(String, String)> {
    let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
    let files = files().into_iter().filter(|path| path.starts_with(&prefix) && path.ends_with(".rs"));
    files.map(|path| (path.clone(), read(&path))).collect()
}

/// Whether `word` stands in `line` with no letter, digit or underscore directly before or behind it.
#[must_use]
pub fn has_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_none_or(|c| !part_of_word(c));
        let behind = line[at + word.len()..].chars().next().is_none_or(|c| !part_of_word(c));
        before && (behind || !word.ends_with(part_of_word))
    })
}
