//! Studies of traces: what `analyze`, `sim` and `plan` write, and that their pages can be read in a real browser.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_tests::process::{DEADLINE, Ended, Process, machine_has, program, python_packages};
use serde_json::Value;
use tempfile::TempDir;

const USAGE: i32 = 64;
const CONFIG: i32 = 78;
/// The browser of these tests.
const BROWSER: &str = "chromium-headless-shell";
/// A name that is code if it is not made harmless, and longer than any room for it.
const FOREIGN: &str = "/scratch/<script>document.title='broken'</script><img%20src=x%20onerror=\"document.title='broken'\">/a-name-that-has-no-room-anywhere-on-a-phone-nor-in-a-figure.dat";

/// A folder with a trace: four processes write a checkpoint each, again and again, read parts of it, and one reads all of them at last.
struct Study {
    folder: TempDir,
}

impl Study {
    fn new() -> Study {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let mut text = String::new();
        let mut now_us = 0u64;
        let mut add = |process: u64, op: char, path: &str, offset: u64, size: u64, gap_us: u64| {
            now_us += gap_us;
            let _ = writeln!(text, "{}.{:06} 0.000200 {process} {op} {path} {offset} {size}", now_us / 1_000_000, now_us % 1_000_000);
        };
        for round in 0..6 {
            for block in 0..64 {
                for process in 1..5u64 {
                    let path = if process == 1 { FOREIGN.to_owned() } else { format!("/scratch/checkpoint.{process}") };
                    add(process, 'w', &path, block * 65_536, 65_536, 300);
                    if block % 4 == 3 {
                        add(process, 'r', &path, (block - 3) * 65_536, 4096, 300);
                    }
                }
            }
            add(1, 'r', "/scratch/input", round * 1_000_000, 700_000, 900_000);
        }
        for process in 2..5 {
            for block in 0..64 {
                add(9, 'r', &format!("/scratch/checkpoint.{process}"), block * 65_536, 65_536, 300);
            }
        }
        fs::write(folder.path().join("job.muse"), text).expect("the folder takes files");
        Study { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Runs `forebay` in the folder.
    fn forebay(&self, arguments: &[&str]) -> Ended {
        let mut command = Command::new(program("forebay"));
        command.args(arguments).current_dir(self.folder.path());
        Process::start(command, self.folder.path(), "forebay").wait(DEADLINE)
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn an_analysis_is_the_same_in_every_form() {
    let study = Study::new();
    let arguments = ["analyze", "job.muse", "--chunk", "64KiB", "-o", "a.html", "-o", "a.json"];
    let text = study.forebay(&arguments).expect_code(0).stdout;
    let found = json(&study.text("a.json"));
    assert_eq!(found, json(&study.forebay(&[&arguments[..], &["--json"]].concat()).expect_code(0).stdout));
    let answer = found["answer"].as_str().expect("an answer");
    assert!(text.starts_with(answer), "{text}");
    assert!(answer.starts_with("A buffer of "), "{answer}");
    assert_eq!(found["totals"]["all"]["written"]["bytes"], 6 * 4 * 64 * 65_536);
    assert_eq!(found["totals"]["files"], 5);
    assert_eq!(found["totals"]["processes"], 5);
    let sizes = found["totals"]["sizes"].as_array().expect("sizes");
    assert_eq!(sizes.iter().map(|size| size["from_bytes"].as_u64()).collect::<Vec<_>>(), [Some(4096), Some(65_536), Some(524_288)]);
    let page = study.text("a.html");
    assert!(page.contains(answer) && page.contains("checkpoint.2"), "{}", &page[..page.len().min(4000)]);
    assert!(!page.contains("<script") && !page.contains("<img"), "a name of the trace is code in the page");
    assert!(!study.path("a.html.new").exists());
    // A name that does not say what to write is told before anything is read.
    study.forebay(&["analyze", "no-such-trace", "-o", "a.txt"]).expect_code(USAGE);
}

#[test]
fn simulations_are_the_same_in_every_form() {
    let study = Study::new();
    let sweep =
        ["sim", "job.muse", "--chunk", "64KiB", "--capacity", "1MiB..32MiB*2", "--policy", "lru,arc", "--granularity", "chunk,file"];
    let csv = study.forebay(&sweep).expect_code(0).stdout;
    let said =
        study.forebay(&[&sweep[..], &["-o", "s.csv", "-o", "s.json", "-o", "s.html", "-o", "s.parquet", "--results", "part"]].concat());
    assert_eq!(said.expect_code(0).stdout, "", "what goes to files does not go to standard output");
    assert_eq!(study.text("s.csv"), csv);
    let rows = json(&study.text("s.json"));
    assert_eq!(rows.as_array().map(Vec::len), Some(6 * 2 * 2));
    assert!(study.text("s.html").contains("WBS: written back"));
    // A plan is the same study, and what stands on the command line goes before it.
    let plan = "trace = \"job.muse\"\nchunk = \"64KiB\"\ncapacity = [\"1MiB..32MiB*2\"]\npolicy = [\"lru\", \"arc\"]\ngranularity = \"chunk,file\"\noutput = [\"p.csv\"]\nresults = \"part\"\n";
    fs::write(study.path("plan.toml"), plan).expect("the folder takes files");
    study.forebay(&["sim", "--plan", "plan.toml"]).expect_code(0);
    assert_eq!(study.text("p.csv"), csv);
    study.forebay(&["--quiet", "sim", "--plan", "plan.toml", "--policy", "arc", "--results", "other"]).expect_code(0);
    let expected: String = csv.lines().filter(|line| !line.contains(",lru,")).map(|line| format!("{line}\n")).collect();
    assert_eq!(study.text("p.csv"), expected);
    fs::write(study.path("plan.toml"), "capasity = 1\n").expect("the folder takes files");
    let refused = study.forebay(&["sim", "--plan", "plan.toml"]).expect_code(CONFIG);
    assert!(refused.stderr.contains("capasity"), "{}", refused.stderr);
    columns_are_those_of_the_csv(&study);
}

/// Arrow's own reader finds in Parquet files what a CSV says: arguments are the folder of packages, the CSV, and the files.
const COLUMNS: &str = "
import csv, sys
sys.path.insert(0, sys.argv[1])
import pyarrow.parquet
table = [row for path in sys.argv[3:] for row in pyarrow.parquet.read_table(path).to_pylist()]
rows = list(csv.DictReader(open(sys.argv[2])))
assert len(table) == len(rows) > 0, (len(table), len(rows))
for found, said in zip(table, rows):
    assert list(found) == list(said)
    for name, value in found.items():
        same = said[name] == '' if value is None else said[name] == value if isinstance(value, str) else float(said[name]) == value
        assert same, (name, value, said[name])
";

fn columns_are_those_of_the_csv(study: &Study) {
    let Some(packages) = python_packages() else { return };
    let mut command = Command::new("python3");
    command.args(["-c", COLUMNS]).arg(packages).args([study.path("s.csv"), study.path("s.parquet")]);
    Process::start(command, study.folder.path(), "pyarrow").wait(DEADLINE).expect_code(0);
}

/// A trace as a table says what it says as JSON.
#[test]
fn a_trace_is_a_table() {
    const SCRIPT: &str = "
import json, sys
sys.path.insert(0, sys.argv[1])
import pyarrow.parquet
table = pyarrow.parquet.read_table('job.parquet').to_pylist()
lines = [json.loads(line) for line in open('job.json')]
assert len(table) == len(lines) > 40000, (len(table), len(lines))
for row, line in zip(table, lines):
    for name in ['start_ns', 'duration_ns', 'op', 'layer', 'offset', 'size', 'pid', 'rank']:
        assert row[name] == line[name], (name, row, line)
    assert row['path'] == line['file'], (row, line)
assert any('<script>' in row['path'] for row in table)
";
    let Some(packages) = python_packages() else { return };
    let study = Study::new();
    // More than one group of rows.
    let text = study.text("job.muse");
    fs::write(study.path("job.muse"), text.repeat(20)).expect("the folder takes files");
    for (to, out) in [("parquet", "job.parquet"), ("json", "job.json")] {
        study.forebay(&["trace", "convert", "job.muse", "--to", to, "-o", out]).expect_code(0);
    }
    let mut command = Command::new("python3");
    command.args(["-c", SCRIPT]).arg(packages).current_dir(study.folder.path());
    Process::start(command, study.folder.path(), "pyarrow").wait(DEADLINE).expect_code(0);
}

#[test]
fn a_plan_says_how_much_to_ask_for() {
    let study = Study::new();
    let arguments = ["plan", "job.muse", "--chunk", "64KiB", "--home", "100MB", "--buffer", "2GB", "--json"];
    let money = ["--price", "3.5", "--compute-nodes", "4", "--buffer-nodes", "1", "-o", "plan.html"];
    let said = study.forebay(&[&arguments[..], &money].concat()).expect_code(0).stdout;
    let plan = json(&said);
    assert_eq!(said, study.forebay(&[&arguments[..], &money].concat()).expect_code(0).stdout, "the same seed, the same plan");
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value} in {plan:#}"));
    assert!(number(&plan["needed_bytes"]["most"]) <= number(&plan["ask_bytes"]), "{plan:#}");
    assert!(number(&plan["ask_bytes"]) <= number(&plan["footprint_bytes"]), "{plan:#}");
    assert!(number(&plan["throughput_share"]) >= 0.9, "{plan:#}");
    assert_eq!(plan["orders"], 8);
    let seconds = &plan["seconds"];
    assert!(number(&seconds["buffered"]) < number(&seconds["direct"]), "{plan:#}");
    // 6 x 64 MiB written, 6 x 4 x 16 x 4 KiB, 6 x 700,000 and 3 x 4 MiB read, at 100 MB a second.
    let moved = 6.0 * 4.0 * 64.0 * 65_536.0 + 6.0 * 4.0 * 16.0 * 4096.0 + 6.0 * 700_000.0 + 3.0 * 64.0 * 65_536.0;
    assert!((number(&seconds["direct"]) - moved / 100e6).abs() < 1e-6, "{plan:#}");
    let hours = (number(&seconds["other"]) + number(&seconds["buffered"])) / 3600.0;
    assert!((number(&plan["cost"]["buffered"]) - 3.5 * hours * 5.0).abs() < 1e-6, "{plan:#}");
    assert!(study.text("plan.html").contains("Ask for "), "{}", study.text("plan.html"));
    let text = study.forebay(&arguments[..arguments.len() - 1]).expect_code(0).stdout;
    assert!(text.starts_with("Ask for ") && !text.contains("costs"), "{text}");
    study.forebay(&["plan", "job.muse", "--home", "fast"]).expect_code(USAGE);
    study.forebay(&["plan", "job.muse", "--policy", "belady"]).expect_code(USAGE);
}

#[test]
fn what_is_measured_is_what_is_simulated_with() {
    let study = Study::new();
    for (level, file) in [("home", "home.csv"), ("buffer", "buffer.json")] {
        study.forebay(&["bench", "--curve", ".", "--quick", "--runs", "1", "--level", level, "-o", file]).expect_code(0);
    }
    assert_eq!(study.text("home.csv").lines().count(), 1 + 2 * 6);
    let sweep = ["sim", "job.muse", "--chunk", "64KiB", "--capacity", "1MiB", "--rate-table"];
    study.forebay(&[&sweep[..], &["home.csv,buffer.json"]].concat()).expect_code(0);
    let missing = study.forebay(&[&sweep[..], &["home.csv"]].concat());
    assert!(missing.stderr.contains("no line for buffer"), "{}", missing.stderr);
    let plan = study.forebay(&["plan", "job.muse", "--chunk", "64KiB", "--home", ".", "--buffer", "2GB", "--variations", "1", "--json"]);
    assert!(json(&plan.expect_code(0).stdout)["home"].as_str().is_some_and(|home| home.contains("measured")));
    let left: Vec<_> =
        fs::read_dir(study.folder.path()).expect("the folder can be read").flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".forebay")), "{left:?}");
}

/// An SSD, since a disk would take half a minute; what the numbers are is for the tests of the store, which have a clock of their own.
#[test]
fn a_profile_is_a_preset() {
    let study = Study::new();
    let profile = ["bench", "--profile", ".", "--quick", "--size", "128MiB"];
    study.forebay(&[&profile[..], &["--disk", "s3520-240g", "-o", "first.toml"]].concat()).expect_code(0);
    let second = study.forebay(&[&profile[..], &["--disk", "first.toml"]].concat()).expect_code(0).stdout;
    for text in [study.text("first.toml"), second] {
        let preset: toml::Table = text.parse().unwrap_or_else(|error| panic!("{error}: {text}"));
        assert!(preset.contains_key("ssd") || preset.contains_key("disk"), "{text}");
    }
    let real = study.forebay(&profile).expect_code(0).stdout;
    assert!(real.parse::<toml::Table>().is_ok_and(|preset| preset.len() == 1), "{real}");
    let unknown = study.forebay(&[&profile[..], &["--disk", "floppy"]].concat()).expect_code(USAGE);
    assert!(unknown.stderr.contains("floppy") && unknown.stderr.contains("savvio-300g"), "{}", unknown.stderr);
    study.forebay(&["bench", "--profile", "job.muse"]).expect_code(USAGE);
    study.forebay(&["bench", "--profile", ".", "--size", "1MiB"]).expect_code(USAGE);
    study.forebay(&["bench", "--profile", ".", "-o", "disk.csv"]).expect_code(USAGE);
}

/// Looks at the page as a reader would and writes what is wrong into the document: what is wider than the screen, and texts of a plot that
/// lie on each other or outside of it.
const LOOK: &str = "<script>
const wrong = [];
if (document.documentElement.scrollWidth > window.innerWidth) wrong.push('wider than the screen: ' + document.documentElement.scrollWidth);
if (document.title === 'broken') wrong.push('a name was run');
const figures = document.querySelectorAll('figure > svg');
for (const svg of figures) {
  const texts = [...svg.querySelectorAll('text')].filter(text => !text.closest('.t') && text.textContent.trim());
  const card = svg.parentElement.getBoundingClientRect();
  const boxes = texts.map(text => [text.textContent, text.getBoundingClientRect(), text.classList.contains('k')]);
  boxes.forEach(([name, box, above], at) => {
    if (box.left < card.left - 1 || box.right > card.right + 1) wrong.push('outside: ' + name);
    for (const [other, second, second_above] of boxes.slice(at + 1)) {
      const across = Math.min(box.right, second.right) - Math.max(box.left, second.left);
      const down = Math.min(box.bottom, second.bottom) - Math.max(box.top, second.top);
      if (across > 1.5 && down > 4 && !above && !second_above) wrong.push('on each other: ' + name + ' | ' + other);
    }
  });
  if (svg.getBoundingClientRect().width < 200) wrong.push('a plot without room');
}
const paper = getComputedStyle(document.body).backgroundColor;
document.body.innerHTML = '<pre id=look></pre>';
document.getElementById('look').textContent = JSON.stringify({ wrong, figures: figures.length, paper });
</script></body>";

/// What the browser says of a page.
fn look(study: &Study, page: &str, options: &[&str]) -> Value {
    let html = study.text(page);
    // A copy that may run what looks at it; the page itself allows no script.
    let (policy, copy) = ("http-equiv=\"Content-Security-Policy\"", study.path("copy.html"));
    assert!(html.contains(policy));
    fs::write(&copy, html.replace(policy, "name=\"no-policy\"").replace("</body>", LOOK)).expect("the folder takes files");
    let said = browse(study, &copy, &[&["--dump-dom"], options].concat()).stdout;
    let found =
        said.split_once("<pre id=\"look\">").and_then(|(_, rest)| rest.split_once("</pre>")).map(|(found, _)| found.replace("&amp;", "&"));
    json(&found.unwrap_or_else(|| panic!("{said}")))
}

fn browse(study: &Study, page: &Path, options: &[&str]) -> Ended {
    let mut command = Command::new(BROWSER);
    command.args(["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]).args(options);
    command.arg(format!("--user-data-dir={}", study.path("browser").display())).arg(format!("file://{}", page.display()));
    Process::start(command, study.folder.path(), "browser").wait(DEADLINE).expect_code(0)
}

#[test]
fn pages_are_readable_in_a_browser() {
    if !machine_has(&[BROWSER]) {
        return;
    }
    let study = Study::new();
    study.forebay(&["analyze", "job.muse", "--chunk", "64KiB", "-o", "analyze.html"]).expect_code(0);
    let sweep =
        ["sim", "job.muse", "--chunk", "64KiB", "--capacity", "1MiB..32MiB*2", "--policy", "all", "--nodes", "1..4", "-o", "sim.html"];
    study.forebay(&sweep).expect_code(0);
    study.forebay(&["plan", "job.muse", "--chunk", "64KiB", "--home", "100MB", "--price", "1", "-o", "plan.html"]).expect_code(0);
    let (desk, phone, dark) = ("--window-size=1280,900", "--window-size=390,844", "--blink-settings=preferredColorScheme=0");
    for (page, figures) in [("analyze.html", 8), ("sim.html", 10), ("plan.html", 3)] {
        for (options, paper) in [(&[desk][..], "rgb(255, 255, 255)"), (&[phone], "rgb(255, 255, 255)"), (&[desk, dark], "rgb(20, 23, 26)")]
        {
            let seen = look(&study, page, options);
            assert_eq!(seen["wrong"], serde_json::json!([]), "{page} {options:?}");
            assert!(seen["figures"].as_u64() >= Some(figures), "{page} {options:?}: {seen}");
            assert_eq!(seen["paper"], paper, "{page} {options:?}");
        }
        let picture = study.path("picture.png");
        browse(&study, &study.path(page), &[phone, &format!("--screenshot={}", picture.display())]);
        assert!(fs::metadata(&picture).is_ok_and(|picture| picture.len() > 20_000), "{page} is an empty picture");
    }
}
