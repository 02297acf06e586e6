//! The arrows between crates point one way, and the core needs no operating system (DESIGN, section 2).

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use forebay_tests::repository;

/// From each crate, the crates that it may use. `*` is any.
const ALLOWED: &[(&str, &[&str])] = &[
    ("forebay-core", &[]),
    ("forebay-store", &["forebay-core"]),
    ("forebay-host", &["forebay-core"]),
    ("forebay-server", &["forebay-host", "forebay-store", "forebay-core"]),
    ("forebay-client", &["forebay-host", "forebay-core"]),
    ("forebay-fuse", &["forebay-client", "forebay-host", "forebay-trace", "forebay-core"]),
    ("forebay-python", &["forebay-sim", "forebay-trace", "forebay-core"]),
    ("forebay-sim", &["forebay-core", "forebay-store", "forebay-trace"]),
    ("forebay-trace", &["forebay-core"]),
    ("forebay-cli", &["*"]),
    ("forebay-tests", &["*"]),
    ("forebay-bench", &["*"]),
];

/// What a crate's own tests may use beside: a real server behind the mount, a typed client in front of the server.
const ALLOWED_IN_TESTS: &[(&str, &[&str])] = &[("forebay-fuse", &["forebay-server"]), ("forebay-server", &["forebay-client"])];

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Everything wrong with these arrows, in words.
fn faults(arrows: &Arrows) -> Vec<String> {
    let mut faults = Vec::new();
    for (from, targets) in arrows {
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| name == from) else {
            faults.push(format!("{from}: a new crate; say in tests/integration/arrows.rs and in ARCHITECTURE.md what it may use"));
            continue;
        };
        for to in targets {
            if !allowed.contains(&"*") && !allowed.contains(&to.as_str()) {
                faults.push(format!("{from} -> {to}: this arrow is not allowed (DESIGN, section 2)"));
            }
        }
    }
    faults
}

/// The arrows between crates of the workspace, for builds and build scripts, and those for tests that are not excused.
fn workspace_arrows() -> Arrows {
    let metadata = repository::cargo_metadata(&["--no-deps"]);
    let packages = metadata["packages"].as_array().expect("cargo metadata lists packages");
    let names: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let targets = |package: &serde_json::Value| {
        let dependencies = package["dependencies"].as_array().expect("a package lists dependencies");
        let excused = ALLOWED_IN_TESTS.iter().find(|(from, _)| package["name"] == *from).map_or(&[][..], |(_, to)| to);
        let checked = dependencies.iter().filter(|d| d["kind"] != "dev" || !excused.iter().any(|to| d["name"] == *to));
        checked.filter_map(|d| d["name"].as_str()).filter(|name| names.contains(name)).map(str::to_owned).collect()
    };
    packages.iter().map(|package| (package["name"].as_str().expect("a package has a name").to_owned(), targets(package))).collect()
}

#[test]
fn crates_use_only_what_the_design_lets_them_use() {
    let arrows = workspace_arrows();
    assert!(arrows.contains_key("forebay-core"), "cargo metadata did not show the workspace: {arrows:?}");
    let faults = faults(&arrows);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_forbidden_arrow_and_an_unknown_crate_are_seen() {
    let arrow = |from: &str, to: &str| BTreeMap::from([(from.to_owned(), BTreeSet::from([to.to_owned()]))]);
    assert_eq!(faults(&arrow("forebay-core", "forebay-host")).len(), 1);
    assert_eq!(faults(&arrow("forebay-client", "forebay-server")).len(), 1);
    assert_eq!(faults(&arrow("forebay-sim", "forebay-host")).len(), 1);
    assert_eq!(faults(&arrow("forebay-novelty", "forebay-core")).len(), 1);
    assert!(faults(&arrow("forebay-fuse", "forebay-client")).is_empty());
}

/// A target without an operating system has no std to link: what builds for it needs none.
const BARE_TARGET: &str = "x86_64-unknown-none";

fn bare_target_is_installed() -> bool {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().expect("rustc runs");
    let sysroot = String::from_utf8(sysroot.stdout).expect("a path in UTF-8");
    std::path::Path::new(sysroot.trim()).join("lib/rustlib").join(BARE_TARGET).is_dir()
}

#[test]
fn the_core_builds_without_an_operating_system() {
    let library = repository::read("crates/core/src/lib.rs");
    assert!(library.lines().any(|line| line.trim() == "#![no_std]"), "crates/core/src/lib.rs does not say #![no_std]");
    if !bare_target_is_installed() {
        eprintln!("SKIPPED in part: {BARE_TARGET} is not installed (rustup target add {BARE_TARGET})");
        return;
    }
    let output = Command::new(env!("CARGO"))
        .current_dir(repository::root())
        .args(["check", "--quiet", "--offline", "-p", "forebay-core", "--target", BARE_TARGET])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "crates/core needs an operating system:\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Words that would let the core do something itself: reach the world, or decide by a float.
const FORBIDDEN_IN_CORE: &[&str] = &["std::", "extern crate std", "f32", "f64", "static mut", "println!"];

#[test]
fn the_core_neither_reaches_the_world_nor_decides_by_a_float() {
    let mut found = Vec::new();
    for (path, text) in repository::sources("crates/core/src") {
        // Unit tests stand at the end of a file and may use what they like.
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        if path.ends_with("tests.rs") {
            continue;
        }
        for (number, line) in code.lines().enumerate() {
            let line = line.split("//").next().unwrap_or_default();
            let words: Vec<&str> = FORBIDDEN_IN_CORE.iter().copied().filter(|word| repository::has_word(line, word)).collect();
            if !words.is_empty() {
                found.push(format!("{path}:{}: {}", number + 1, words.join(", ")));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
