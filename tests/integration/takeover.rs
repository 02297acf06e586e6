//! The process that serves a mount is killed, again and again, and another takes over: programs notice a pause at most, and everything is
//! home in the end.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use forebay_tests::process::{self, DEADLINE, Process, eventually, is_mounted, kernel_resends, kill_server, machine_has, program};
use forebay_tests::random::{Random, seeds};
use forebay_tests::repository;
use forebay_tests::sandbox::{AMPLE, Sandbox, Size, TIGHT};

/// Kills in one test, at most; the keeper gives up on a process that is killed more often in a minute.
const KILLS_MAX: usize = 25;

/// Whether another process than `killed` serves and answers.
fn is_taken_over(sandbox: &Sandbox, killed: u32) -> bool {
    let (server, state) = sandbox.server();
    server.is_some_and(|server| server != u64::from(killed)) && state == "running"
}

/// Kills while `goes_on`; each time only when the one before has been replaced, and after a pause that the seed says. Says how often.
fn kill_while(sandbox: &Sandbox, run: &mut Process, seed: u64, goes_on: impl Fn() -> bool) -> usize {
    let mut random = Random::new(seed);
    let mut kills = 0;
    while kills < KILLS_MAX && run.runs() && goes_on() {
        // The first soon: a fast machine is done with the script before long.
        let until = Instant::now() + Duration::from_millis(random.size(if kills == 0 { 50 } else { 400 }));
        // Not a wait for something: the moment of the kill is to be any.
        eventually(until.saturating_duration_since(Instant::now()), || !run.runs());
        if !run.runs() || !goes_on() {
            break;
        }
        let Some(killed) = kill_server(run) else { break };
        kills += 1;
        assert!(eventually(DEADLINE, || is_taken_over(sandbox, killed) || !run.runs()), "nobody took over: {}", run.stderr());
    }
    kills
}

/// Has `command`, a `forebay run`, run a script, while the process that serves is killed. The script tells by the file `begun` outside when
/// that may begin, and by `done` when it is to end. Says how often it was.
#[track_caller]
fn run_disturbed(sandbox: &Sandbox, mut command: Command, seed: u64, script: &str) -> usize {
    let outside = sandbox.outside();
    command.args(["--", "sh", "-c", script]).env("EXERCISE", program("exercise")).env("OUTSIDE", &outside);
    let mut run = Process::start(command, &outside, "run");
    let is_there = |name: &str| outside.join(name).exists();
    assert!(eventually(DEADLINE, || is_there("begun") || !run.runs()), "it does not begin");
    let kills = kill_while(sandbox, &mut run, seed, || !is_there("done"));
    let ended = run.wait(DEADLINE).expect_code(0);
    let said = if kills == 1 { "was killed once".into() } else { format!("was killed {kills} times") };
    assert!(kills == 0 || ended.stderr.contains(&said), "{kills} kills, but it says:\n{}", ended.stderr);
    kills
}

/// Runs a script in the mount, while the process that serves is killed; then compares home with what the same script makes of a plain
/// directory.
fn run_and_compare(size: Size, options: &[&str], seed: u64, script: &str) {
    let sandbox = Sandbox::new();
    let whole = format!("set -e\n: >\"$OUTSIDE/begun\"\n{script}\n: >\"$OUTSIDE/done\"\n");
    let mut command = sandbox.run_command(size);
    command.args(options);
    let kills = run_disturbed(&sandbox, command, seed, &whole);
    let expected = sandbox.run_plain(script);
    let home = sandbox.home_tree();
    forebay_tests::listing::assert_same(&expected, &home, forebay_tests::listing::Times::Set, "home against a plain directory");
    sandbox.assert_clean();
    assert!(kills > 0, "the script was too short to be disturbed");
}

/// A program that holds all that one can hold of a file system: open files, one of them without a name, a working directory, a mapping, locks,
/// a directory that it has read in part.
const HOLDER: &str = r#"
import fcntl, hashlib, mmap, os, sys, time
os.makedirs("deep/er")
os.chdir("deep/er")
log = os.open("log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
gone = os.open("gone", os.O_CREAT | os.O_RDWR, 0o600)
os.unlink("gone")
mapped = os.open("mapped", os.O_CREAT | os.O_RDWR, 0o644)
os.ftruncate(mapped, 1 << 20)
memory = mmap.mmap(mapped, 1 << 20)
locked = os.open("locked", os.O_CREAT | os.O_RDWR, 0o644)
fcntl.flock(locked, fcntl.LOCK_EX)
fcntl.lockf(mapped, fcntl.LOCK_EX, 100)
os.mkdir("many")
for i in range(3000):
    os.close(os.open(f"many/{i}", os.O_CREAT | os.O_WRONLY, 0o644))
listing = os.scandir("many")
seen = [next(listing).name for i in range(100)]
sums, kept, until = hashlib.sha256(), hashlib.sha256(), time.monotonic() + float(sys.argv[1])
step = 0
while time.monotonic() < until or step < 300:
    line = b"%d %s\n" % (step, os.urandom(20).hex().encode() if len(sys.argv) > 2 else b"x" * (step % 50))
    assert os.write(log, line) == len(line)
    sums.update(line)
    block = (b"%08d" % step) * 512
    assert os.pwrite(gone, block, (step % 64) * 4096) == 4096
    assert os.pread(gone, 4096, (step % 64) * 4096) == block
    memory[step * 13 % (1 << 20)] = step % 251
    if step % 50 == 0:
        memory.flush()
    os.mkdir("made")
    os.rename("made", f"moved-{step}")
    with open(f"moved-{step}/new", "x") as new:
        new.write(str(step))
    os.link(f"moved-{step}/new", f"link-{step}")
    os.symlink("nowhere", f"pointer-{step}")
    os.unlink(f"moved-{step}/new")
    os.rmdir(f"moved-{step}")
    assert open(f"link-{step}").read() == str(step)
    if step >= 20:
        os.unlink(f"link-{step - 20}")
        os.unlink(f"pointer-{step - 20}")
    step += 1
seen += [entry.name for entry in listing]
assert sorted(seen) == sorted(map(str, range(3000))), "a listing that was begun before went on"
assert hashlib.sha256(open("log", "rb").read()).digest() == sums.digest(), "the log is whole"
assert os.fstat(gone).st_nlink == 0
memory.flush()
other = os.open("locked", os.O_RDWR)
try:
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    raise SystemExit("the lock was lost")
except BlockingIOError:
    pass
assert os.path.samefile(".", os.path.join(os.environ["ROOT"], "deep/er"))
for i in range(3000):
    os.unlink(f"many/{i}")
os.rmdir("many")
for name in os.listdir("."):
    if name.startswith(("link-", "pointer-")):
        os.unlink(name)
os.truncate("log", 0)
with open("mapped", "r+b") as whole:
    whole.truncate(0)
"#;

#[test]
fn a_program_goes_on_with_all_that_it_holds() {
    if !machine_has(&["python3"]) || !kernel_resends() {
        return;
    }
    for seed in seeds("a_program_goes_on_with_all_that_it_holds", 3) {
        let size = if seed % 2 == 0 { AMPLE } else { TIGHT };
        let script = format!("export ROOT=\"$PWD\"; python3 - 4 <<'end'\n{HOLDER}\nend");
        run_and_compare(size, &["--write-back-delay", ["0ms", "50ms", "500ms"][seed as usize % 3]], seed, &script);
    }
}

/// Each operation is done once and gives what a plain directory gives, one after the other, in several directories at once.
#[test]
fn operations_beside_a_plain_directory() {
    if !machine_has(&[]) || !kernel_resends() {
        return;
    }
    for seed in seeds("operations_beside_a_plain_directory", 4) {
        let sandbox = Sandbox::new();
        let one = |index: u64| {
            let model = sandbox.plain().join(index.to_string());
            fs::create_dir(&model).expect("a plain directory");
            format!(
                "(mkdir {index}; cd {index}; exec \"$EXERCISE\" compare --seed {} --steps 1500 --plain {}) & pids=\"$pids $!\"\n",
                seed * 8 + index,
                model.display()
            )
        };
        let begin = (0..3).map(one).collect::<String>();
        let script = format!(
            ": >\"$OUTSIDE/begun\"\n{begin}\nfail=0; for pid in $pids; do wait $pid || fail=1; done; : >\"$OUTSIDE/done\"; exit $fail"
        );
        let size = if seed % 2 == 0 { AMPLE } else { TIGHT };
        let kills = run_disturbed(&sandbox, sandbox.run_command(size), seed, &script);
        sandbox.assert_clean();
        assert!(kills > 0, "nobody was killed");
    }
}

/// A database with three writers, of which one is killed itself: every row is there whose commit somebody was told of.
#[test]
fn sqlite_goes_on() {
    if !machine_has(&["python3"]) || !kernel_resends() {
        return;
    }
    let writers = format!("python3 {}", repository::root().join("tests/programs/sqlite_writers.py").display());
    for (seed, mode) in [(1, "wal"), (2, "delete")] {
        let sandbox = Sandbox::new();
        let script = format!(": >\"$OUTSIDE/begun\"; {writers} {mode}.db {mode} 60 \"$OUTSIDE\" || exit 9; : >\"$OUTSIDE/done\"");
        run_disturbed(&sandbox, sandbox.run_command(TIGHT), seed, &script);
        let mut check = Command::new("sh");
        check.args(["-ec", &format!("{writers} --check {mode}.db {}", sandbox.outside().display())]).current_dir(sandbox.home());
        Process::start(check, &sandbox.outside(), "check").wait(DEADLINE).expect_code(0);
        sandbox.assert_clean();
    }
}

/// The command has ended, and what it wrote is on its way home.
#[test]
fn killed_in_the_drain() {
    if !machine_has(&[]) || !kernel_resends() {
        return;
    }
    let sandbox = Sandbox::new();
    let (store, _slow) = sandbox.slow_home(&["--bandwidth", "8MiB"]);
    let script = "for i in 1 2 3 4; do head -c 8M /dev/zero | tr '\\0' \"$i\" >f$i; done; exit 7";
    let mut run = sandbox.start(AMPLE, &["--write-back", "sync"], &["sh", "-c", script]);
    let is_draining = || sandbox.status()["draining"] == true;
    for kill in 0..3 {
        assert!(eventually(DEADLINE, || is_draining() || !run.runs()) && run.runs(), "kill {kill}: no drain: {}", run.stderr());
        let killed = kill_server(&mut run).expect("somebody drains");
        assert!(eventually(DEADLINE, || is_taken_over(&sandbox, killed) || !run.runs()), "nobody took over: {}", run.stderr());
    }
    let ended = run.wait(DEADLINE).expect_code(7);
    assert!(ended.stderr.contains("was killed 3 times"), "{}", ended.stderr);
    for i in 1..=4u8 {
        let bytes = fs::read(store.join(format!("f{i}"))).expect("the file is home");
        assert!(bytes.len() == 8 << 20 && bytes.iter().all(|byte| *byte == b'0' + i), "f{i}");
    }
    sandbox.assert_clean();
}

/// The view over the backing directory itself: the process that takes over cannot see that any more.
#[test]
fn over_the_backing_directory() {
    if !machine_has(&[]) || !kernel_resends() {
        return;
    }
    let sandbox = Sandbox::new();
    fs::write(sandbox.home().join("old"), "old").expect("room at home");
    fs::write(sandbox.home().join("config.toml"), "write-back-delay = \"10ms\"\n").expect("room at home");
    let script = ": >\"$OUTSIDE/begun\"; for i in $(seq 200); do echo $i >f$i; mkdir d$i; mv f$i d$i/g; cat old >/dev/null || exit 9; done; \
        : >\"$OUTSIDE/done\"";
    let mut command = sandbox.forebay("run");
    command.arg("--over").arg("--backing").arg(sandbox.home()).arg("--buffer").arg(sandbox.buffer());
    command.arg("--memory-dir").arg(sandbox.memory()).arg("--config").arg(sandbox.home().join("config.toml"));
    command.args(["--capacity", "64MiB", "--memory", "16MiB", "--report", "report.json"]).current_dir(sandbox.home());
    let kills = run_disturbed(&sandbox, command, 3, script);
    for i in 1..=200 {
        assert_eq!(fs::read_to_string(sandbox.home().join(format!("d{i}/g"))).ok(), Some(format!("{i}\n")), "d{i}/g");
    }
    let report: serde_json::Value = process::read_json(&sandbox.home().join("report.json")).expect("a report");
    assert_eq!(report["takeovers"], kills);
    sandbox.assert_clean();
}

/// A mount that stays, with programs in it; it is unmounted in the end.
#[test]
fn a_mount_goes_on() {
    if !machine_has(&[]) || !kernel_resends() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut command = sandbox.forebay("mount");
    command.arg("--foreground").arg("--backing").arg(sandbox.home());
    sandbox.place_buffer(&mut command, AMPLE);
    let mut mount = Process::start(command, &sandbox.outside(), "mount");
    assert!(eventually(DEADLINE, || is_mounted(&sandbox.mount()) || !mount.runs()), "it does not mount");
    let mut work = Command::new("sh");
    let script = "for i in $(seq 300); do echo $i >f$i && mkdir d$i && mv f$i d$i/g && test \"$(cat d$i/g)\" = $i || exit 1; done";
    work.args(["-c", script]).current_dir(sandbox.mount());
    let mut work = Process::start(work, &sandbox.outside(), "work");
    let mut kills = 0;
    while work.runs() && kills < KILLS_MAX {
        let killed = kill_server(&mut mount).expect("the mount is kept");
        kills += 1;
        assert!(eventually(DEADLINE, || is_taken_over(&sandbox, killed)), "nobody took over: {}", mount.stderr());
    }
    work.wait(DEADLINE).expect_code(0);
    assert!(kills > 0);
    let mut umount = sandbox.forebay("umount");
    umount.arg(sandbox.mount());
    Process::start(umount, &sandbox.outside(), "umount").wait(DEADLINE).expect_code(0);
    mount.wait(DEADLINE).expect_code(0);
    for i in 1..=300 {
        assert_eq!(fs::read_to_string(sandbox.home().join(format!("d{i}/g"))).ok(), Some(format!("{i}\n")), "d{i}/g");
    }
    sandbox.assert_clean();
}

/// A process that is killed whenever it has begun to serve is given up in the end, with what it takes to go on by hand.
#[test]
fn the_keeper_gives_up() {
    if !machine_has(&[]) || !kernel_resends() {
        return;
    }
    let sandbox = Sandbox::new();
    // The kernel answers for a name that it remembers when nobody serves any more, too: the loop must end with the test.
    let script = "echo kept >file; : >\"$OUTSIDE/begun\"; while [ -e file ] && [ -e \"$OUTSIDE/begun\" ]; do sleep 0.05; done";
    let mut command = sandbox.run_command(AMPLE);
    command.args(["--", "sh", "-c", script]).env("OUTSIDE", sandbox.outside());
    let mut run = Process::start(command, &sandbox.outside(), "run");
    assert!(eventually(DEADLINE, || sandbox.outside().join("begun").exists() || !run.runs()), "it does not begin");
    let begun = Instant::now();
    while run.runs() && begun.elapsed() < DEADLINE {
        kill_server(&mut run);
    }
    let ended = run.wait(DEADLINE).expect_code(128 + 9);
    assert!(ended.stderr.contains("forebay recover"), "{}", ended.stderr);
    sandbox.recover().expect_code(0);
    assert_eq!(fs::read_to_string(sandbox.home().join("file")).ok().as_deref(), Some("kept\n"));
    sandbox.assert_clean();
}
