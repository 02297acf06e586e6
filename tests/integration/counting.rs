//! What the server counts, the simulator counts: the same run, in an instance with a small buffer and in virtual time.

use std::fs;
use std::path::Path;

use forebay_tests::process::{DEADLINE, Process, machine_has, read_json};
use forebay_tests::sandbox::{Sandbox, Size};
use serde_json::Value;

const CHUNK_BYTES: u64 = 65536;
/// Less than the programs touch.
const SMALL: Size = Size { capacity: "16MiB", memory: "2MiB", chunk: "64KiB" };
/// What both count: IS, RHS, RMS and WS in bytes, chunks swapped out and WBS in chunks, and what was fetched.
const COUNTERS: [&str; 9] =
    ["first_read_bytes", "hit_bytes", "reread_bytes", "written_bytes", "swaps", "dirty_swaps", "home_read_bytes", "reads", "writes"];

/// A run of a shell script, in the mount, with `$OUTSIDE`.
struct Run {
    sandbox: Sandbox,
    report: Value,
}

impl Run {
    fn new(sandbox: Sandbox, size: Size, options: &[&str], script: &str) -> Run {
        let outside = sandbox.outside();
        let [trace, report] = ["trace.fbt", "report.json"].map(|name| outside.join(name).display().to_string());
        let mut all = vec!["--trace", &trace, "--report", &report];
        all.extend_from_slice(options);
        let script = format!("cd '{}'; OUTSIDE='{}'; {script}", sandbox.mount().display(), outside.display());
        sandbox.run(size, &all, &["sh", "-ec", &script]).expect_code(0);
        let report = read_json(Path::new(&report)).expect("the report is JSON");
        Run { sandbox, report }
    }

    fn sim(&self, options: &[&str]) -> Value {
        let mut command = self.sandbox.forebay("sim");
        command.arg("trace.fbt").args(options).arg("--json").current_dir(self.sandbox.outside());
        let printed = Process::start(command, &self.sandbox.outside(), "sim").wait(DEADLINE).expect_code(0).stdout;
        serde_json::from_str(&printed).expect("sim --json is JSON")
    }

    fn counted(&self, name: &str) -> u64 {
        self.report["counters"][name].as_u64().expect("a counter")
    }

    /// The server's counters and those of its machine, which has run the trace again.
    fn assert_same(&self, what: &str) {
        let told = self.sim(&["--as-recorded"]);
        let counters = |of: &Value| COUNTERS.map(|name| (name, of[name].as_u64()));
        assert_eq!(counters(&told["again"]), counters(&told["recorded"]), "{what}");
        assert_eq!(counters(&told["recorded"]), counters(&self.report["counters"]), "{what}: the trace says what the report says");
        assert_eq!(told["failed"], 0, "{what}");
        assert!(self.counted("swaps") > 20 && self.counted("dirty_swaps") > 20, "{what}: the buffer is too large to show anything");
    }
}

/// Uses of whole chunks of eight files, some chunks far more often than others; half of the uses are writes.
const CHUNKS: &str = r#"
import os, random, sys
random.seed(5); chunk = 65536; all = int(sys.argv[1])
files = [os.open("f%d" % i, os.O_CREAT | os.O_RDWR) for i in range(8)]
for at in range(all):
    os.pwrite(files[at % 8], bytes([at % 251]) * chunk, at // 8 * chunk)
for step in range(700):
    if step == 350:
        for i in range(8):
            os.rename("f%d" % i, "g%d" % i)
    at = min(all - 1, int(random.paretovariate(0.5)) - 1)
    if random.random() < 0.5:
        assert os.pread(files[at % 8], chunk, at // 8 * chunk) == bytes([at % 251]) * chunk
    else:
        os.pwrite(files[at % 8], bytes([at % 251]) * chunk, at // 8 * chunk)
"#;

/// B-02, B-04 and B-06: the published model, which knows nothing of segments, of the cleaner or of the way home.
#[test]
fn the_model_counts_what_the_server_counts() {
    if !machine_has(&["python3"]) {
        return;
    }
    let ample = Size { capacity: "256MiB", ..SMALL };
    for (policy, size, chunks) in [("lru", ample, 300), ("lru", SMALL, 400), ("arc", SMALL, 300)] {
        let sandbox = Sandbox::new();
        fs::write(sandbox.outside().join("chunks.py"), CHUNKS).expect("room outside");
        let options = ["--write-back", "sync", "--replacement", policy];
        let run = Run::new(sandbox, size, &options, &format!("python3 -I \"$OUTSIDE/chunks.py\" {chunks}"));
        let told = run.sim(&["--as-recorded"]);
        let live = told["buffer_bytes"].as_u64().expect("an instance says what it holds").to_string();
        let model = run.sim(&["--capacity", &live, "--chunk", "64KiB", "--policy", policy]);
        let model = [0, 1, 2, 3, 4].map(|at| model[0]["bytes"][at].as_f64().expect("bytes") as u64 / CHUNK_BYTES);
        let [is, rhs, rms, ws] =
            ["first_read_bytes", "hit_bytes", "reread_bytes", "written_bytes"].map(|name| run.counted(name) / CHUNK_BYTES);
        // IS, RHS, RMS, WS, WBS.
        assert_eq!([is, rhs, rms, ws, run.counted("dirty_swaps")], model, "{policy}, {chunks} chunks");
        assert_eq!(model[4] > 20, size.capacity == SMALL.capacity, "{policy}: {model:?}");
        if size.capacity == SMALL.capacity {
            run.assert_same(policy);
        }
    }
}

/// Reads and writes of any size anywhere. All policies are in the simulator's own test of this.
const MIX: &str = r#"
import os, random
random.seed(9); size = 30000000
fd = os.open("data", os.O_RDWR)
for _ in range(900):
    at = int(size * random.random() ** 3); n = random.choice([100, 4096, 5000, 65536, 150000])
    if random.random() < 0.6: os.pread(fd, n, at)
    else: os.pwrite(fd, b"m" * n, at)
"#;

#[test]
fn policies_choose_in_the_server_as_in_virtual_time() {
    if !machine_has(&["python3"]) {
        return;
    }
    for policy in ["lru", "s3-fifo", "w-tinylfu"] {
        let sandbox = Sandbox::new();
        fs::write(sandbox.home().join("data"), vec![7; 30_000_000]).expect("a file");
        fs::write(sandbox.outside().join("mix.py"), MIX).expect("room outside");
        let run = Run::new(sandbox, SMALL, &["--write-back", "sync", "--replacement", policy], "python3 -I \"$OUTSIDE/mix.py\"");
        run.assert_same(policy);
    }
}

#[test]
fn streams_count_the_same() {
    if !machine_has(&["dd", "cmp"]) {
        return;
    }
    let sandbox = Sandbox::new();
    fs::write(sandbox.home().join("in"), vec![7; 9_000_000]).expect("a file");
    let script = "cat in > copy; cat in copy > all; dd if=all of=again bs=100000 status=none; cmp again all; truncate -s 7000001 all
        head -c 5000000 all >part; cat part copy in all >/dev/null";
    Run::new(sandbox, SMALL, &["--write-back", "sync"], script).assert_same("streams");
}

/// Many small files, archived, unpacked, moved, removed and read again.
#[test]
fn a_tree_counts_the_same() {
    if !machine_has(&["tar"]) {
        return;
    }
    let sandbox = Sandbox::new();
    for directory in 0..12usize {
        let place = sandbox.home().join(format!("d{directory}"));
        fs::create_dir(&place).expect("a directory");
        for file in 0..40usize {
            let bytes = (directory * 40 + file).pow(3) % 90_001;
            fs::write(place.join(format!("f{file}")), vec![directory as u8; bytes]).expect("a file");
        }
    }
    let script = "tar cf all.tar d?*; mkdir x; tar xf all.tar -C x; mv x y; cat y/*/* >sum; rm -r y/d3; mv y/d4 y/d3; cat y/d3/* d4/* >sum2
        tar cf /dev/null y";
    Run::new(sandbox, SMALL, &["--write-back", "sync"], script).assert_same("a tree");
}

#[test]
fn a_database_counts_the_same() {
    if !machine_has(&["sqlite3"]) {
        return;
    }
    let script = r#"sqlite3 db "create table t(a integer primary key, b blob)"; for i in 1 2 3 4 5 6 7; do
        sqlite3 db "insert into t(b) with recursive c(n) as (select 1 union all select n+1 from c where n<2500) select zeroblob(900) from c"
        sqlite3 db "update t set b=zeroblob(800) where a%17=$i; select count(*) from t where length(b)>850" >/dev/null; done"#;
    Run::new(Sandbox::new(), SMALL, &["--write-back", "sync"], script).assert_same("a database");
}
