//! The benchmarks run in the tests, tiny, so that they cannot rot.

use std::process::Command;

use forebay_tests::process::{DEADLINE, Process, machine_has, program};
use forebay_tests::sandbox::Sandbox;
use serde_json::Value;

#[test]
fn the_benchmark_runs_and_fills_every_cell() {
    if !machine_has(&["bindfs", "fusermount3"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let json = sandbox.outside().join("bench.json");
    let mut command = Command::new(program("forebay-bench"));
    command.arg("--quick").arg("--json").arg(&json).arg("--directory").arg(sandbox.folder()).arg("--forebay").arg(program("forebay"));
    let ended = Process::start(command, &sandbox.outside(), "bench").wait(DEADLINE).expect_code(0);
    assert!(ended.stdout.contains("ratio"), "{}", ended.stdout);
    let result: Value = forebay_tests::process::read_json(&json).expect("the benchmark wrote JSON");
    let cases = result["cases"].as_array().expect("a list of cases");
    assert!(cases.len() >= 32, "only {} cases", cases.len());
    for case in cases {
        for system in ["bare", "bindfs", "forebay"] {
            let runs = case["systems"][system]["runs"].as_array().expect("runs");
            assert!(!runs.is_empty() && runs.iter().all(|run| run.as_f64() > Some(0.0)), "{}: {system}: {runs:?}", case["name"]);
        }
        assert!(case["ratio_to"]["bare"]["median"].as_f64() > Some(0.0), "{case:#}");
    }
    assert!(result["burst"]["systems"]["forebay"]["runs"].as_array().is_some_and(|runs| !runs.is_empty()), "{:#}", result["burst"]);
    assert_eq!(result["flows"].as_array().map(Vec::len), Some(2), "{:#}", result["flows"]);
}
