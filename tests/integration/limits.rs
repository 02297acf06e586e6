//! Limits that hold whatever happens: the memory of the process, and that waiting writers keep nobody else waiting.

use std::fs;
use std::path::Path;

use forebay_tests::process::{DEADLINE, Process, eventually, machine_has};
use forebay_tests::sandbox::{Sandbox, Size};

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

/// Starts a script under `forebay run`; it makes the file `ready` outside when the load is there, and then waits for `go`.
fn start(sandbox: &Sandbox, options: &[&str], script: &str) -> Process {
    let waits = "ready() { : >\"$OUTSIDE/ready\"; until [ -e \"$OUTSIDE/go\" ]; do sleep 0.05; done; }";
    let mut command = sandbox.run_command(SIZE);
    command.args(options).args(["--", "sh", "-ec", &format!("{waits}\n{script}")]).env("OUTSIDE", sandbox.outside());
    Process::start(command, &sandbox.outside(), "run")
}

#[track_caller]
fn wait_for(run: &mut Process, file: &Path) {
    assert!(eventually(DEADLINE, || file.exists() || !run.runs()) && file.exists(), "{} did not come: {}", file.display(), run.stderr());
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
    let script = r#"
mkdir d; : >d/seen; ls -l d >/dev/null
: >"$OUTSIDE/begun"; until [ -e "$OUTSIDE/stopped" ]; do sleep 0.05; done
for i in $(seq 1 64); do { head -c 4194304 /dev/zero | tr '\0' "$(printf "\\$(printf %o $((33 + i)))")" | dd of=f$i bs=1M iflag=fullblock status=none; } & done
ready
wait
for i in $(seq 1 64); do test "$(stat -c %s f$i)" = 4194304; done
"#;
    let mut run = start(&sandbox, &[], script);
    wait_for(&mut run, &sandbox.outside().join("begun"));
    slow.stall();
    fs::write(sandbox.outside().join("stopped"), "").expect("room outside");
    wait_for(&mut run, &sandbox.outside().join("ready"));
    let at = sandbox.mount().display().to_string();
    let waiting = || {
        let mut status = sandbox.forebay("status");
        status.args([&at, "--json"]);
        let status = Process::start(status, &sandbox.outside(), "status").wait(DEADLINE);
        let json: serde_json::Value = serde_json::from_str(&status.stdout).unwrap_or_default();
        json.as_array().and_then(|all| all.first()).unwrap_or(&json)["status"]["waiting_for_room"].as_u64().unwrap_or(0)
    };
    assert!(eventually(DEADLINE, || waiting() >= 20 || !run.runs()) && run.runs(), "writers wait for room: {}", run.stderr());
    // Another process looks around, makes and removes, while they wait.
    let mut other = std::process::Command::new("sh");
    other.args(["-ec", "ls -l d >/dev/null; stat d/seen >/dev/null; mkdir e; mv e d/e; rmdir d/e; : >d/new; rm d/new"]);
    other.current_dir(sandbox.mount());
    Process::start(other, &sandbox.outside(), "other").wait(DEADLINE).expect_code(0);
    assert_within_memory(&run);
    slow.heal();
    fs::write(sandbox.outside().join("go"), "").expect("room outside");
    assert!(eventually(DEADLINE, || !is_writing(&store)), "all files came home");
    assert_eq!(last_peak_within(&mut run), Ok(()));
    run.wait(DEADLINE).expect_code(0);
    for i in 1..=64u8 {
        let bytes = fs::read(store.join(format!("f{i}"))).expect("the file is home");
        assert!(bytes.len() == 4 << 20 && bytes.iter().all(|byte| *byte == 33 + i), "f{i}");
    }
    sandbox.assert_clean();
}

fn is_writing(store: &Path) -> bool {
    (1..=64).any(|i| fs::metadata(store.join(format!("f{i}"))).map_or(0, |file| file.len()) != 4 << 20)
}

/// The memory of a process that may have ended meanwhile.
fn last_peak_within(run: &mut Process) -> Result<(), u64> {
    let peak = peak_bytes(run.id());
    if peak <= MEMORY_BYTES + BESIDE_BYTES { Ok(()) } else { Err(peak) }
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
open(os.environ["OUTSIDE"] + "/ready", "w")
os.system("until [ -e $OUTSIDE/go ]; do sleep 0.05; done")
'
"#;
    let mut run = start(&sandbox, &[], &format!("ulimit -n 4096 2>/dev/null || ulimit -n 1200; {script}"));
    wait_for(&mut run, &sandbox.outside().join("ready"));
    assert_within_memory(&run);
    fs::write(sandbox.outside().join("go"), "").expect("room outside");
    run.wait(DEADLINE).expect_code(0);
    let home = sandbox.home_tree();
    assert_eq!(home.values().filter(|object| object.size == Some(72_000)).count(), 900);
    sandbox.assert_clean();
}
