//! A buffer's disk that is full, fails or turns read-only. `docs/SEMANTICS.md` has the outcomes; these are its tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_tests::process::{DEADLINE, Process, eventually, is_root, machine_has, run, unmount};
use forebay_tests::sandbox::{Sandbox, SlowHome};
use forebay_tests::staged::Staged;

const NOT_HOME: i32 = 74;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EDQUOT: i32 = 122;

/// Many small changes, and more bytes than the buffer holds.
const WRITER: &str =
    "i=0; while [ $i -lt 2000 ]; do echo line $i >>lines || exit 9; echo $i >file-$((i % 50)) || exit 9; i=$((i + 1)); done
    head -c 12000000 /dev/zero | tr '\\0' y >flood || exit 8; sync flood || exit 7";

/// A sandbox whose buffer is on a disk that can fail.
struct BadDisk {
    sandbox: Sandbox,
    disk: SlowHome,
    buffer: PathBuf,
}

impl BadDisk {
    fn new() -> BadDisk {
        let sandbox = Sandbox::new();
        let (disk, mounted) = (sandbox.folder().join("disk"), sandbox.folder().join("disk-mount"));
        fs::create_dir(&disk).and_then(|()| fs::create_dir(&mounted)).expect("directories for the disk");
        let slow = SlowHome::mount(&disk, &mounted, &sandbox.outside(), &[]);
        BadDisk { sandbox, disk: slow, buffer: mounted.join("buffer") }
    }

    fn start(&self, script: &str) -> Staged {
        start(&self.sandbox, &self.buffer, script)
    }

    fn recover(&self) {
        let mut recover = self.sandbox.forebay("recover");
        recover.arg("--buffer").arg(&self.buffer).arg("--backing").arg(self.sandbox.home());
        Process::start(recover, &self.sandbox.outside(), "recover").wait(DEADLINE).expect_code(0);
        assert!(!self.buffer.join("superblock").exists(), "the buffer is gone");
    }
}

fn start(sandbox: &Sandbox, buffer: &Path, script: &str) -> Staged {
    let mut command = sandbox.forebay("run");
    command.arg("--backing").arg(sandbox.home()).arg("--mount").arg(sandbox.mount()).arg("--buffer").arg(buffer);
    command.arg("--memory-dir").arg(sandbox.memory()).args(["--capacity", "8MiB", "--memory", "2MiB", "--chunk", "64KiB"]);
    Staged::of(sandbox, command, script)
}

#[track_caller]
fn holds(file: &Path, text: &str) {
    assert_eq!(fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display())), text, "{}", file.display());
}

/// What `WRITER` leaves.
#[track_caller]
fn holds_all(home: &Path) {
    let lines: String = (0..2000).map(|line| format!("line {line}\n")).collect();
    holds(&home.join("lines"), &lines);
    for file in 0..50 {
        holds(&home.join(format!("file-{file}")), &format!("{}\n", 1950 + file));
    }
    let flood = fs::read(home.join("flood")).expect("the flood is home");
    assert!(flood.len() == 12_000_000 && flood.iter().all(|byte| *byte == b'y'));
}

/// A request waits for the buffer's disk, and `status` says so.
#[track_caller]
fn assert_waits(sandbox: &Sandbox, staged: &mut Staged, message: &str) {
    let waits = eventually(DEADLINE, || {
        let status = sandbox.status();
        let waits = status["waiting"].as_array().is_some_and(|all| !all.is_empty());
        waits && status["log_waits"].as_str().is_some_and(|text| text.contains(message)) || !staged.run.runs()
    });
    assert!(waits && staged.run.runs(), "the writer waits, and `status` says for what: {}\n{}", staged.run.stderr(), sandbox.status());
}

/// Nothing more is taken, reads go on, all that was acknowledged goes home, and the exit status tells. A recovery on a disk that is well again
/// ends it.
#[test]
fn a_disk_that_fails_or_turns_read_only() {
    if !machine_has(&[]) {
        return;
    }
    for (errno, message) in [(EIO, "Input/output error"), (EROFS, "Read-only file system")] {
        let bad = BadDisk::new();
        let home = bad.sandbox.home();
        let script = "echo first >a && sync a && echo second >>a || exit 9; reach written; pass failing
            echo third 2>\"$OUTSIDE/error\" >b && exit 8; cat a";
        let mut staged = bad.start(script);
        staged.reached("written");
        bad.disk.fail_changes(errno);
        staged.pass("failing");
        let ended = staged.end(NOT_HOME);
        assert_eq!(ended.stdout, "first\nsecond\n", "what was acknowledged can still be read");
        assert!(ended.stderr.contains("the buffer refused a write") && ended.stderr.contains(message), "{}", ended.stderr);
        holds(&home.join("a"), "first\nsecond\n");
        bad.disk.heal();
        bad.recover();
        holds(&home.join("a"), "first\nsecond\n");
    }
}

/// A disk without space: who changes something waits, `status` says for what, what is there can be read, and all goes on by itself when
/// there is space again.
#[test]
fn a_disk_that_is_full_for_a_while() {
    if !machine_has(&[]) {
        return;
    }
    for (errno, message) in [(ENOSPC, "No space left"), (EDQUOT, "quota exceeded")] {
        let bad = BadDisk::new();
        let script = format!("echo early >early; reach written; pass full; {WRITER}");
        let mut staged = bad.start(&script);
        staged.reached("written");
        bad.disk.fail_changes(errno);
        staged.pass("full");
        assert_waits(&bad.sandbox, &mut staged, message);
        let early = run("cat", &[bad.sandbox.mount().join("early")]);
        assert_eq!(early, "early\n", "reads go on");
        bad.disk.heal();
        staged.end(0);
        holds_all(&bad.sandbox.home());
        assert!(!bad.buffer.join("superblock").exists(), "the buffer is gone");
    }
}

/// A disk that stays full until the end: the drain has an end, brings everything home, and keeps the buffer, which could not note that.
#[test]
fn a_disk_that_is_full_at_the_end() {
    if !machine_has(&[]) {
        return;
    }
    let bad = BadDisk::new();
    let home = bad.sandbox.home();
    let mut staged = bad.start("mkdir d; echo one >d/a; echo two >b; mv b c; reach written; pass full");
    staged.reached("written");
    bad.disk.fail_changes(ENOSPC);
    staged.pass("full");
    let ended = staged.end(NOT_HOME);
    assert!(ended.stderr.contains("No space left") && ended.stderr.contains("forebay recover"), "{}", ended.stderr);
    for _ in 0..2 {
        holds(&home.join("d/a"), "one\n");
        holds(&home.join("c"), "two\n");
        assert!(!home.join("b").exists());
        if bad.buffer.join("superblock").exists() {
            bad.disk.heal();
            bad.recover();
        }
    }
}

/// A real file system, filled by a stranger while a program writes, and freed again.
#[test]
fn a_disk_that_others_fill_and_free() {
    if !machine_has(&["mount", "umount"]) || !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = sandbox.folder().join("disk");
    fs::create_dir(&disk).expect("a directory for the disk");
    let target = disk.display().to_string();
    if !Command::new("mount").args(["-t", "tmpfs", "-o", "size=24m", "none", &target]).status().is_ok_and(|status| status.success()) {
        eprintln!("this machine mounts no tmpfs: not tested");
        return;
    }
    let _mounted = Unmounted(disk.clone());
    let buffer = disk.join("buffer");
    let mut staged = start(&sandbox, &buffer, &format!("echo early >early; reach written; pass full; {WRITER}"));
    staged.reached("written");
    let filler = disk.join("filler");
    // It ends with ENOSPC, as it shall.
    let _ = Command::new("dd").args(["if=/dev/zero", "bs=4096", "status=none"]).arg(format!("of={}", filler.display())).status();
    staged.pass("full");
    assert_waits(&sandbox, &mut staged, "No space left");
    fs::remove_file(&filler).expect("the filler");
    staged.end(0);
    holds_all(&sandbox.home());
    assert!(!buffer.join("superblock").exists(), "the buffer is gone");
}

/// A mount that goes with the test.
struct Unmounted(PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}
