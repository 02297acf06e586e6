//! Limits that hold whatever happens: the memory of the process, and that waiting writers keep nobody else waiting.

use std::fs;
use std::path::Path;

use forebay_tests::process::{DEADLINE, Process, eventually, machine_has};
use forebay_tests::sandbox::{Sandbox, Size};
use forebay_tests::staged::Staged;

/// `--memory` of these runs.
const MEMORY_BYTES: u64 = 16 << 20;
/// What the process may need beside it.
const BESIDE_BYTES: u64 = 64 << 20;
const SIZE: Size = Size { capacity: "64MiB", memory: "16MiB", chunk: "64KiB" };

/// The most memory that a process ever had, bytes.
fn peak_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
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
