//! `forebay analyze` and `forebay sim` on a trace that is made here.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use forebay_trace::{About, Names, Op, Process, Record, fbt};

const CHUNK: u64 = 4096;

/// Two processes, two files: a loop over 40 chunks, three times, half of it written.
fn make_trace(folder: &Path) -> PathBuf {
    let path = folder.join("loop.fbt");
    let mut names = Names::new();
    let files = [names.file(b"/a").unwrap(), names.file(b"/b").unwrap()];
    let processes = [1, 2].map(|pid| names.process(Process { pid, ..Process::default() }).unwrap());
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = fbt::Writer::new(file, &About::default()).unwrap();
    for n in 0..120u64 {
        let op = if n % 2 == 0 { Op::Write } else { Op::Read };
        let which = (n % 40 / 20) as usize;
        let (offset, size) = (n % 20 * CHUNK, CHUNK);
        let record = Record {
            duration_ns: 1000,
            file: files[which],
            process: processes[which],
            offset,
            size,
            result: size as i64,
            ..Record::new(op, n * 1_000_000)
        };
        writer.push(&names, &record).unwrap();
    }
    writer.finish(&names).unwrap();
    path
}

fn forebay(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).args(args).output().expect("forebay runs")
}

fn text_of(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

#[test]
fn analyze_says_what_the_trace_does() {
    let folder = tempfile::tempdir().unwrap();
    let trace = make_trace(folder.path());
    let trace = trace.to_str().unwrap();
    let text = text_of(&forebay(&["analyze", trace, "--chunk", "4KiB"]));
    for part in ["A buffer of", "reaches 90 %", "2 processes", "sequential", "R_buf", "w-tinylfu"] {
        assert!(text.contains(part), "\"{part}\" is not in:\n{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&text_of(&forebay(&["analyze", trace, "--chunk", "4KiB", "--json"]))).unwrap();
    assert_eq!((json["chunks"].as_u64(), json["operations"]["write"]["requests"].as_u64()), (Some(40), Some(60)));
    let misses =
        |policy: &str| json["miss_ratios"][policy].as_array().unwrap().iter().map(|miss| miss.as_f64().unwrap()).collect::<Vec<_>>();
    // The last capacity is all 40 chunks; the one before is 32, where LRU has no hit in a loop over 40 and LIRS has.
    let lru = misses("lru");
    assert_eq!(lru[lru.len() - 2..], [1.0, 40.0 / 120.0]);
    assert!(misses("lirs")[lru.len() - 2] < 0.8);
    assert_eq!(json["throughput_shares"].as_array().unwrap().last().unwrap().as_f64(), Some(1.0));
}

#[test]
fn sim_sweeps_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let trace = make_trace(folder.path());
    let trace = trace.to_str().unwrap();
    let results = folder.path().join("results");
    let wide = [
        "--chunk",
        "4KiB",
        "--capacity",
        "16KiB..256KiB*2",
        "--policy",
        "all",
        "--granularity",
        "chunk,file",
        "--write-back",
        "sync,async",
        "--nodes",
        "1..4",
    ];
    let with = |more: &[&str]| text_of(&forebay(&[&["sim", trace], &wide[..], more].concat()));
    let csv = with(&[]);
    assert_eq!(csv.lines().count(), 1 + 5 * 10 * 2 * 2 * 3);
    assert!(
        csv.lines().any(|line| line.ends_with("take a larger one\"") && line.starts_with("16384,lru,file,sync,1,")),
        "a file does not fit into 16 KiB"
    );
    let narrow = ["sim", trace, "--chunk", "4KiB", "--capacity", "64KiB", "--policy", "all", "--results", results.to_str().unwrap()];
    text_of(&forebay(&narrow));
    assert_eq!(with(&["--results", results.to_str().unwrap(), "--threads", "1"]), csv);
    let json: serde_json::Value = serde_json::from_str(&with(&["--json"])).unwrap();
    let best = |row: &&serde_json::Value| row["capacity_bytes"] == 262_144 && row["granularity"] == "chunk";
    for row in json.as_array().unwrap().iter().filter(best) {
        assert_eq!((row["paper"][2].as_f64(), row["full"][2].as_f64()), (Some(1.0), Some(1.0)), "all fits: {row}");
    }
}

#[test]
fn faults_are_told_before_anything_is_done() {
    for (args, code, part) in [
        (&["sim", "/none.fbt", "--policy", "mru"][..], 64, "mru"),
        (&["sim", "/none.fbt", "--capacity", "8..4"], 64, "no end"),
        (&["sim", "/none.fbt", "--chunk", "3000"], 64, "power of two"),
        (&["sim", "/none.fbt"], 64, "/none.fbt"),
        (&["analyze", env!("CARGO_BIN_EXE_forebay")], 65, "forebay"),
    ] {
        let output = forebay(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.contains(part)), (Some(code), true), "{args:?}: {said}");
    }
}
