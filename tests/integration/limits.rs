//! Limits that hold whatever happens: the memory of the process, and that waiting writers keep nobody else waiting.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use forebay_tests::process::{DEADLINE, Process, eventually, machine_has, server_of, unmount};
use forebay_tests::random::seeds;
use forebay_tests::sandbox::{Sandbox, Size};
use forebay_tests::staged::Staged;
use rustix::process::Signal;

/// `--memory` of these runs.
const MEMORY_BYTES: u64 = 16 << 20;
/// What the process may need beside it.
const BESIDE_BYTES: u64 = 64 << 20;
const SIZE: Size = Size { capacity: "64MiB", memory: "16MiB", chunk: "64KiB" };

/// The most memory that the process which serves ever had, bytes.
fn peak_bytes(keeper: u32) -> u64 {
    status_bytes(keeper, "VmHWM:")
}

/// A line of the status of the process that serves, bytes.
fn status_bytes(keeper: u32, name: &str) -> u64 {
    let pid = server_of(keeper).unwrap_or(keeper);
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[track_caller]
fn assert_within_memory(run: &Process) {
    let peak = peak_bytes(run.id());
    assert!(peak > 0, "the process tells its memory");
    assert!(peak <= MEMORY_BYTES + BESIDE_BYTES, "{} KiB were resident", peak >> 10);
}

/// Sixty-four writers in front of a home that has stopped: they fill the buffer and wait; others are served; memory stays within its bound;
/// and all goes on when home does.
#[test]
fn sixty_four_writers_and_a_home_that_has_stopped() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (store, slow) = sandbox.slow_home(&[]);
    let script = r#"set -e
mkdir d; : >d/seen; ls -l d >/dev/null
reach begun; pass stopped
for i in $(seq 1 64); do { head -c 4194304 /dev/zero | tr '\0' "$(printf "\\$(printf %o $((33 + i)))")" | dd of=f$i bs=1M iflag=fullblock status=none; } & done
reach ready; pass go
wait
for i in $(seq 1 64); do test "$(stat -c %s f$i)" = 4194304; done
"#;
    let mut staged = Staged::start(&sandbox, SIZE, &[], script);
    staged.reached("begun");
    slow.stall();
    staged.pass("stopped");
    staged.reached("ready");
    let waiting = || sandbox.status()["waiting_for_room"].as_u64().unwrap_or(0);
    assert!(
        eventually(DEADLINE, || waiting() >= 20 || !staged.run.runs()) && staged.run.runs(),
        "writers wait for room: {}",
        staged.run.stderr()
    );
    // Another process looks around, makes and removes, while they wait.
    let mut other = std::process::Command::new("sh");
    other.args(["-ec", "ls -l d >/dev/null; stat d/seen >/dev/null; mkdir e; mv e d/e; rmdir d/e; : >d/new; rm d/new"]);
    other.current_dir(sandbox.mount());
    Process::start(other, &sandbox.outside(), "other").wait(DEADLINE).expect_code(0);
    assert_within_memory(&staged.run);
    slow.heal();
    staged.pass("go");
    assert!(eventually(DEADLINE, || !is_writing(&store)), "all files came home");
    // The process may have ended meanwhile; then it says nothing any more.
    assert!(peak_bytes(staged.run.id()) <= MEMORY_BYTES + BESIDE_BYTES, "{} KiB were resident", peak_bytes(staged.run.id()) >> 10);
    staged.end(0);
    for i in 1..=64u8 {
        let bytes = fs::read(store.join(format!("f{i}"))).expect("the file is home");
        assert!(bytes.len() == 4 << 20 && bytes.iter().all(|byte| *byte == 33 + i), "f{i}");
    }
    sandbox.assert_clean();
}

fn is_writing(store: &Path) -> bool {
    (1..=64).any(|i| fs::metadata(store.join(format!("f{i}"))).map_or(0, |file| file.len()) != 4 << 20)
}

/// A thousand files open at once, each written to in turns, some without a name.
#[test]
fn a_thousand_open_files() {
    if !machine_has(&["python3"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let script = r#"
python3 -c '
import os
COUNT = 1000
files = [os.open(f"f{i}", os.O_RDWR | os.O_CREAT, 0o644) for i in range(COUNT)]
for i in range(0, COUNT, 10):
    os.unlink(f"f{i}")
for turn in range(8):
    for i, file in enumerate(files):
        os.pwrite(file, bytes([i % 251]) * 9000, turn * 9000)
for i, file in enumerate(files):
    assert os.pread(file, 80000, 0) == bytes([i % 251]) * 72000, i
open(os.environ["OUTSIDE"] + "/reached-ready", "w")
os.system("until [ -e $OUTSIDE/pass-go ]; do sleep 0.05; done")
'
"#;
    let mut staged = Staged::start(&sandbox, SIZE, &[], &format!("set -e; ulimit -n 4096 2>/dev/null || ulimit -n 1200; {script}"));
    staged.reached("ready");
    assert_within_memory(&staged.run);
    staged.pass("go");
    staged.end(0);
    let home = sandbox.home_tree();
    assert_eq!(home.values().filter(|object| object.size == Some(72_000)).count(), 900);
    sandbox.assert_clean();
}

/// A file written a hundred bytes at a time, of which nothing goes home by itself: what is remembered of each write would be more than the
/// bytes. Writers wait instead.
#[test]
fn writes_of_a_hundred_bytes() {
    if !machine_has(&["python3"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let size = Size { capacity: "1GiB", ..SIZE };
    let script = r#"
python3 -c '
import os
file = os.open("small", os.O_WRONLY | os.O_CREAT, 0o644)
for i in range(150_000):
    os.write(file, bytes([i % 251]) * 100)
'
reach ready; pass go
"#;
    let mut staged = Staged::start(&sandbox, size, &["--write-back", "sync"], &format!("set -e; {script}"));
    staged.reached("ready");
    assert_within_memory(&staged.run);
    let status = sandbox.status();
    let records = status["log_records"].as_u64().unwrap_or(0);
    assert!((1_000..=80_000).contains(&records), "{records} records are kept: {status}");
    staged.pass("go");
    staged.end(0);
    let home = fs::read(sandbox.home().join("small")).expect("the file is home");
    assert!(home.len() == 15_000_000 && home.chunks(100).enumerate().all(|(at, part)| part[0] == (at % 251) as u8));
    sandbox.assert_clean();
}

/// What all writers of the soak do, until they are told to stop: files that grow, small ones that come and go, appends, reads of what was
/// written, listings.
const MIXED_LOAD: &str = r#"
import os, random, sys, threading
STOP = os.environ["OUTSIDE"] + "/pass-stop"
def work(number):
    chance = random.Random(number * 1000 + int(sys.argv[1]))
    os.makedirs(f"w{number}", exist_ok=True)
    made = 0
    while not os.path.exists(STOP):
        turn = chance.randrange(6)
        if turn == 0:
            with open(f"w{number}/large", "wb") as file:
                for _ in range(chance.randrange(8)):
                    file.write(bytes([number]) * (1 << 20))
        elif turn == 1:
            for _ in range(100):
                made += 1
                with open(f"w{number}/s{made}", "wb") as file:
                    file.write(b"small")
        elif turn == 2:
            for name in [n for n in os.listdir(f"w{number}") if n[0] == "s"][:80]:
                os.unlink(f"w{number}/{name}")
        elif turn == 3:
            with open(f"w{number}/appended", "ab", buffering=0) as file:
                for _ in range(200):
                    file.write(bytes([number]) * 100)
        elif turn == 4 and os.path.exists(f"w{number}/large"):
            with open(f"w{number}/large", "rb") as file:
                assert all(part == bytes([number]) * len(part) for part in iter(lambda: file.read(1 << 18), b""))
        else:
            with os.scandir(f"w{number}") as entries:
                sum(entry.stat().st_size for entry in entries)
    open(os.environ["OUTSIDE"] + f"/stopped-{number}", "w")
threads = [threading.Thread(target=work, args=(number,)) for number in range(64)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
ended = [n for n in range(64) if not os.path.exists(os.environ["OUTSIDE"] + f"/stopped-{n}")]
sys.exit(f"writers have failed: {ended}" if ended else 0)
"#;

/// Minutes of a mixed load, in rounds: home stalls and comes back, every third round the process is killed and what it had is recovered.
/// The process and the memory file together stay within `--memory` and 64 MiB all the time.
#[test]
fn soak_memory() {
    if !machine_has(&["python3"]) || std::env::var_os("FOREBAY_SOAK_MINUTES").is_none() {
        return;
    }
    for seed in seeds("soak_memory", 0) {
        let most = soak_round(seed);
        eprintln!("soak_memory: at most {} KiB, process and memory file together", most >> 10);
    }
}

/// Watches a run for so long; gives the most that it took.
fn watch(run: &Process, memory_dir: &Path, time: Duration) -> u64 {
    let mut most = 0;
    eventually(time, || {
        let files = fs::read_dir(memory_dir).into_iter().flatten().flatten().filter_map(|entry| entry.metadata().ok());
        let memory_file = files.map(|file| 512 * file.blocks()).sum::<u64>();
        let resident = status_bytes(run.id(), "VmRSS:");
        let limit = MEMORY_BYTES + BESIDE_BYTES;
        assert!(
            resident + memory_file <= limit,
            "{} KiB were resident, {} KiB of them of files, beside a memory file of {} KiB",
            resident >> 10,
            status_bytes(run.id(), "RssFile:") >> 10,
            memory_file >> 10
        );
        most = most.max(resident + memory_file);
        false
    });
    most
}

fn soak_round(seed: u64) -> u64 {
    let sandbox = Sandbox::new();
    let (_, slow) = sandbox.slow_home(&["--latency", "200us"]);
    let load = sandbox.outside().join("load.py");
    fs::write(&load, MIXED_LOAD).expect("room outside");
    let mode = ["write-through", "write-back"][seed as usize % 2];
    let mut staged = Staged::start(&sandbox, SIZE, &["--kernel-cache", mode], &format!("exec python3 {} {seed}", load.display()));
    assert!(eventually(DEADLINE, || sandbox.mount().join("w63").exists()), "the load has begun: {}", staged.run.stderr());
    let mut most = watch(&staged.run, sandbox.memory(), Duration::from_secs(15));
    slow.stall();
    most = most.max(watch(&staged.run, sandbox.memory(), Duration::from_secs(15)));
    slow.heal();
    most = most.max(watch(&staged.run, sandbox.memory(), Duration::from_secs(15)));
    assert!(staged.run.runs(), "the load went on: {}", staged.run.stderr());
    if seed.is_multiple_of(3) {
        staged.run.signal(Signal::KILL);
        drop(staged);
        unmount(&sandbox.mount());
        sandbox.recover().expect_code(0);
    } else {
        staged.pass("stop");
        // The drain of sixty-four writers' files through a slow home takes its time.
        staged.run.wait(4 * DEADLINE).expect_code(0);
    }
    sandbox.assert_clean();
    most
}
