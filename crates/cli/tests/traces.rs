//! `forebay trace`: traces of other programs in, ours shown, merged, filtered and written.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const USAGE: i32 = 64;
const DATA: i32 = 65;

const MUSE: &str = "1478024308.996711 0.001182 4294 o /home/user/images/a.fits 0 0\n\
    1478024308.998007 0.000860 4294 r /home/user/images/a.fits 0 16384\n\
    1478024308.998506 0.000102 4294 r /home/user/images/a.fits 16384 12174\n";

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { folder: tempfile::tempdir().expect("a directory for the test") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).expect("a file of the test");
    }

    fn trace(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.arg("trace").args(arguments).current_dir(self.folder.path()).env_clear().env("PATH", "/usr/bin:/bin");
        command.output().expect("forebay starts")
    }

    /// What the command says on standard output.
    #[track_caller]
    fn does(&self, arguments: &[&str]) -> String {
        let output = self.trace(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {message}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    #[track_caller]
    fn refuses(&self, arguments: &[&str], status: i32, part: &str) {
        let output = self.trace(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {message}");
        assert!(message.contains(part), "{arguments:?}: {message:?} lacks {part:?}");
    }

    #[track_caller]
    fn info(&self, trace: &str) -> Value {
        serde_json::from_str(&self.does(&["info", "--json", trace])).expect("JSON")
    }
}

#[test]
fn muse_text_comes_back_byte_for_byte() {
    let place = Place::new();
    place.write("a.muse", MUSE);
    place.does(&["import", "a.muse", "-o", "a.fbt"]);
    assert_eq!(place.does(&["convert", "--to", "muse", "-o", "-", "a.fbt"]), MUSE);
    let info = place.info("a.fbt");
    assert_eq!((&info["records"], &info["files"], &info["clock"]), (&3.into(), &1.into(), &"unix".into()));
    assert_eq!(info["facts"]["source"], "muse");
    let text = place.does(&["info", "a.fbt"]);
    assert!(text.contains("read") && text.contains("28558 B") || text.contains("27.9 KiB"), "{text}");
    let left: Vec<_> = std::fs::read_dir(place.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn lines_show_what_there_is() {
    let place = Place::new();
    place.write("a.muse", MUSE);
    let lines = place.does(&["head", "-n", "2", "a.muse"]);
    assert_eq!(lines.lines().count(), 3, "a head line and two operations: {lines}");
    assert!(lines.lines().nth(2).unwrap().ends_with("/home/user/images/a.fits"), "{lines}");
    let json = place.does(&["cat", "--json", "a.muse"]);
    let last: Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    assert_eq!((&last["op"], &last["offset"], &last["pid"]), (&"read".into(), &16384.into(), &4294.into()));
}

#[test]
fn nodes_are_merged_by_time_and_corrected_each_for_itself() {
    let place = Place::new();
    place.write("n1.muse", "1.000000 0.1 7 w /a 0 100\n3.000000 0.1 7 w /a 100 100\n");
    // Out of order, as several threads write it.
    place.write("n2.muse", "4.000000 0.1 7 w /b 0 100\n2.000000 0.1 7 r /a 0 100\n");
    place.does(&["merge", "n1.muse", "n2.muse", "-o", "all.fbt"]);
    let text = place.does(&["cat", "all.fbt"]);
    let lines: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split(' ').collect()).collect();
    let starts: Vec<&str> = lines.iter().map(|line| line[0]).collect();
    assert_eq!(starts, ["1.000000000", "2.000000000", "3.000000000", "4.000000000"]);
    let hosts: Vec<&str> = lines.iter().map(|line| line[7]).collect();
    assert_eq!(hosts, ["n1", "n2", "n1", "n2"], "equal process numbers of two nodes stay apart");
    place.does(&["merge", "n1.muse", "-o", "slow.fbt", "--overhead", "100=100B"]);
    let text = place.does(&["cat", "slow.fbt"]);
    assert!(text.lines().nth(2).unwrap().starts_with("2.000000000 "), "one of two seconds was overhead: {text}");
    place.write("unix.muse", MUSE);
    place.refuses(&["merge", "n1.muse", "unix.muse", "-o", "x.fbt"], DATA, "1970");
}

#[test]
fn a_filter_keeps_what_fits_with_and_without_an_index() {
    let place = Place::new();
    let line = |at: u32| {
        let (op, file) = if at.is_multiple_of(3) { ('r', "a.dat") } else { ('w', "b.log") };
        format!("{at}.500000 0.1 {} {op} /d/{file} {} {}\n", at % 2, at * 10, at + 1)
    };
    place.write("all.muse", (0..100).map(line).collect::<String>());
    place.does(&["import", "all.muse", "-o", "all.fbt"]);
    let count = |arguments: &[&str]| {
        let counts = ["all.fbt", "all.muse"].map(|trace| {
            place.does(&[&["filter", trace, "-o", "some.fbt"], arguments].concat());
            place.info("some.fbt")["records"].as_u64().unwrap()
        });
        assert_eq!(counts[0], counts[1], "{arguments:?}");
        counts[0]
    };
    assert_eq!(count(&["--op", "read"]), 34);
    assert_eq!(count(&["--op", "read,write"]), 100);
    assert_eq!(count(&["--file", "*.log"]), 66);
    assert_eq!(count(&["--op", "write", "--file", "/d/b*"]), 66);
    assert_eq!(count(&["--from", "10", "--until", "20.5"]), 11);
    assert_eq!(count(&["--process", "1", "--min-size", "11", "--max-size", "20"]), 5);
    assert_eq!(count(&["--failed"]), 0);
    assert_eq!(count(&["--layer", "block"]), 0);
}

#[test]
fn a_trace_that_was_cut_off_is_used_as_far_as_it_is_whole() {
    let place = Place::new();
    place.write("a.muse", MUSE);
    place.does(&["import", "a.muse", "-o", "a.fbt"]);
    let whole = std::fs::read(place.path("a.fbt")).unwrap();
    place.write("cut.fbt", &whole[..whole.len() - 50]);
    let output = place.trace(&["cat", "cut.fbt"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 4);
    assert!(String::from_utf8_lossy(&output.stderr).contains("not complete"), "{}", String::from_utf8_lossy(&output.stderr));
    place.does(&["filter", "cut.fbt", "-o", "mended.fbt"]);
    assert_eq!(place.info("mended.fbt")["gaps"].as_array().unwrap().len(), 1, "the gap is not forgotten");
    let mut damaged = whole.clone();
    damaged[100] ^= 1;
    place.write("damaged.fbt", &damaged);
    place.refuses(&["info", "damaged.fbt"], DATA, "byte 16");
}

#[test]
fn what_cannot_be_read_or_said_is_told() {
    let place = Place::new();
    place.write("letter", "Dear reader,\nthis is a letter.\n");
    place.refuses(&["info", "letter"], DATA, "no known format");
    place.refuses(&["info", "--format", "muse", "letter"], DATA, "line 1");
    place.refuses(&["info", "missing"], USAGE, "missing");
    place.refuses(&["info", "--format", "none", "letter"], USAGE, "none of fbt");
    place.refuses(&["filter", "letter", "-o", "x.fbt", "--from", "soon"], USAGE, "seconds");
    place.write("bad.muse", format!("{MUSE}1 2 3\n"));
    place.refuses(&["import", "bad.muse", "-o", "bad.fbt"], DATA, "line 4");
    assert!(!Path::new(&place.path("bad.fbt")).exists(), "half a trace is none");
    place.write("a.muse", MUSE);
    let output = place.trace(&["convert", "--to", "fio3", "-o", "-", "a.muse"]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "fio version 3 iolog\n0 /home/user/images/a.fits add\n0 /home/user/images/a.fits open\n1296 /home/user/images/a.fits read 0 16384\n\
         1795 /home/user/images/a.fits read 16384 12174\n1795 /home/user/images/a.fits close\n"
    );
}

fn has(program: &str) -> bool {
    let there = ["/usr/bin", "/bin"].iter().any(|folder| Path::new(folder).join(program).exists());
    assert!(there || std::env::var_os("CI").is_none(), "{program} is not installed (scripts/setup)");
    if !there {
        eprintln!("SKIPPED: {program} is not installed (scripts/setup)");
    }
    there
}

/// Programs under a real strace: what they did is what the trace says.
#[test]
fn a_real_strace_is_understood() {
    if !has("strace") {
        return;
    }
    let place = Place::new();
    let script = "head -c 300000 /dev/zero >data; cat data data >copy; dd if=data of=part bs=1000 skip=2 seek=3 count=4 2>/dev/null; \
        (echo one; echo two) >>list; mv list list2; rm part";
    let traced = Command::new("strace")
        .args(["-f", "-ttt", "-T", "-y", "-o", "strace.out", "sh", "-ec", script])
        .current_dir(place.folder.path())
        .output()
        .expect("strace starts");
    if !traced.status.success() && !place.path("copy").exists() {
        // Some containers forbid ptrace.
        eprintln!("SKIPPED: strace does not work here: {}", String::from_utf8_lossy(&traced.stderr));
        return;
    }
    place.does(&["import", "strace.out", "-o", "all.fbt"]);
    let sum = |file: &str, op: &str| {
        place.does(&["filter", "all.fbt", "-o", "some.fbt", "--file", file, "--op", op]);
        place.info("some.fbt")["sums"].as_array().unwrap().iter().map(|sum| sum["bytes"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((sum("data", "write"), sum("data", "read")), (300_000, 600_000 + 4_000));
    assert_eq!(sum("copy", "write"), 600_000);
    let cat = |file: &str, op: &str| {
        place.does(&["filter", "all.fbt", "-o", "some.fbt", "--file", file, "--op", op]);
        let text = place.does(&["cat", "--json", "some.fbt"]);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let offsets: Vec<u64> = cat("part", "write").iter().map(|record| record["offset"].as_u64().unwrap()).collect();
    assert_eq!(offsets, [3000, 4000, 5000, 6000], "dd has sought before");
    let appended = cat("list", "write");
    assert_eq!(appended.len(), 2);
    assert!(appended.iter().all(|record| record["flags"].as_array().unwrap().contains(&"append".into())), "{appended:?}");
    let renamed = cat("list", "rename");
    assert!(renamed[0]["other"].as_str().unwrap().ends_with("list2"), "{renamed:?}");
}

/// What is written as an iolog, a real fio replays, and its own iolog is read.
#[test]
fn a_real_fio_replays_what_is_written() {
    if !has("fio") {
        return;
    }
    let place = Place::new();
    let fio = |arguments: &[&str]| {
        let output = Command::new("fio").args(arguments).current_dir(place.folder.path()).output().expect("fio starts");
        assert!(
            output.status.success(),
            "{arguments:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let data = place.path("data");
    let data = data.to_str().expect("UTF-8");
    fio(&["--name=w", "--rw=randwrite", "--size=256k", "--bs=4k", &format!("--filename={data}"), "--write_iolog=own.log"]);
    let own = place.info("own.log");
    let writes = own["sums"].as_array().unwrap().iter().find(|sum| sum["op"] == "write").unwrap();
    assert_eq!((&writes["operations"], &writes["bytes"]), (&64.into(), &262_144.into()));
    for (version, format) in [("2", "fio2"), ("3", "fio3")] {
        let log = format!("replay{version}.log");
        place.does(&["convert", "own.log", "--to", format, "-o", &log]);
        let said = fio(&["--name=r", &format!("--read_iolog={log}"), "--replay_no_stall=1", "--output-format=json"]);
        let json: Value = serde_json::from_str(&said[said.find('{').unwrap()..]).expect("fio says JSON");
        assert_eq!(json["jobs"][0]["write"]["total_ios"], 64, "version {version}");
        assert_eq!(json["jobs"][0]["write"]["io_bytes"], 262_144, "version {version}");
    }
}
