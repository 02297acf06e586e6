//! A buffer's disk that is full, fails or turns read-only. `docs/SEMANTICS.md` has the outcomes; these are its tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_tests::process::{
    DEADLINE, Ended, Process, eventually, is_root, kernel_resends, kill_server, machine_has, run, server_of, unmount,
};
use forebay_tests::sandbox::{Sandbox, SlowHome, holds};
use forebay_tests::staged::Staged;

const INTERNAL: i32 = 70;
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
        start(&self.sandbox, &self.buffer, &[], script)
    }

    fn is_let_go(&self, ended: &Ended, changed: &[(&str, &str)]) {
        is_let_go(&self.sandbox, &self.buffer, ended, changed);
    }
}

/// Everything is home, and the run has said so. What is changed there from now on no recovery of the buffer undoes, whatever the buffer says:
/// it goes.
#[track_caller]
fn is_let_go(sandbox: &Sandbox, buffer: &Path, ended: &Ended, changed: &[(&str, &str)]) {
    assert!(ended.stderr.contains("everything is home") && ended.stderr.contains("Remove "), "{}", ended.stderr);
    for (name, text) in changed {
        fs::write(sandbox.home().join(name), text).expect("home takes it");
    }
    let mut recover = sandbox.forebay("recover");
    recover.arg("--buffer").arg(buffer);
    Process::start(recover, &sandbox.outside(), "recover").wait(DEADLINE).expect_code(0);
    assert!(!buffer.join("superblock").exists(), "the buffer is gone");
    for (name, text) in changed {
        holds(&sandbox.home().join(name), text);
    }
    assert_nothing_of_ours(&sandbox.home());
}

#[track_caller]
fn assert_nothing_of_ours(home: &Path) {
    let left = fs::read_dir(home).expect("home").filter_map(Result::ok).map(|entry| entry.file_name());
    assert!(!left.into_iter().any(|name| name.to_string_lossy().starts_with(".forebay")), "nothing of Forebay stays at home");
}

fn start(sandbox: &Sandbox, buffer: &Path, options: &[&str], script: &str) -> Staged {
    let mut command = sandbox.forebay("run");
    command.arg("--backing").arg(sandbox.home()).arg("--mount").arg(sandbox.mount()).arg("--buffer").arg(buffer);
    command.arg("--memory-dir").arg(sandbox.memory()).args(["--capacity", "8MiB", "--memory", "2MiB", "--chunk", "64KiB"]).args(options);
    Staged::of(sandbox, command, script)
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
fn assert_waits((sandbox, buffer): (&Sandbox, &Path), staged: &mut Staged, message: &str) {
    let waits = eventually(DEADLINE, || {
        let status = sandbox.status_at(buffer);
        let waits = status["waiting"].as_array().is_some_and(|all| !all.is_empty());
        waits && status["log_waits"].as_str().is_some_and(|text| text.contains(message)) || !staged.run.runs()
    });
    assert!(
        waits && staged.run.runs(),
        "the writer waits, and `status` says for what: {}\n{}",
        staged.run.stderr(),
        sandbox.status_at(buffer)
    );
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
        let ended = staged.end(INTERNAL);
        assert_eq!(ended.stdout, "first\nsecond\n", "what was acknowledged can still be read");
        let told = fs::read_to_string(bad.sandbox.outside().join("error")).expect("the shell complained");
        assert!(told.contains(message) && ended.stderr.contains(message), "{told}\n{}", ended.stderr);
        holds(&home.join("a"), "first\nsecond\n");
        bad.disk.heal();
        bad.is_let_go(&ended, &[("a", "newer than what the buffer knows\n")]);
    }
}

/// Something cannot go home, and then the buffer's disk takes no more records: what is home may be newer than the records know, so a recovery is
/// refused until somebody says that it may undo that, and then brings home what was acknowledged before the disk failed.
#[test]
fn a_disk_that_fails_while_something_is_not_home() {
    if !machine_has(&[]) {
        return;
    }
    let bad = BadDisk::new();
    let home = bad.sandbox.home();
    fs::write(home.join("victim"), "old").expect("an old file");
    let script = "echo one >a && sync a && echo replaced >victim && sync victim || exit 9; reach written; pass failing
        echo two 2>/dev/null >b && exit 8; cat victim a";
    let mut staged = start(&bad.sandbox, &bad.buffer, &["--write-back", "sync"], script);
    staged.reached("written");
    fs::remove_file(home.join("victim")).expect("the old file");
    bad.disk.fail_changes(EIO);
    staged.pass("failing");
    let ended = staged.end(NOT_HOME);
    assert_eq!(ended.stdout, "replaced\none\n");
    assert!(ended.stderr.contains("could be undone") && ended.stderr.contains("--force"), "{}", ended.stderr);
    bad.disk.heal();
    fs::write(home.join("victim"), "").expect("the remedy");
    let recover = |options: &[&str]| {
        let mut command = bad.sandbox.forebay("recover");
        command.arg("--buffer").arg(&bad.buffer).args(options);
        Process::start(command, &bad.sandbox.outside(), "recover").wait(DEADLINE)
    };
    let refused = recover(&[]).expect_code(NOT_HOME);
    assert!(refused.stderr.contains("could undo changes there") && refused.stderr.contains("--force"), "{}", refused.stderr);
    holds(&home.join("victim"), "");
    recover(&["--force"]).expect_code(0);
    holds(&home.join("victim"), "replaced\n");
    holds(&home.join("a"), "one\n");
    assert!(!bad.buffer.join("superblock").exists(), "the buffer is gone");
    assert_nothing_of_ours(&home);
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
        assert_waits((&bad.sandbox, &bad.buffer), &mut staged, message);
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
    let ended = staged.end(INTERNAL);
    assert!(ended.stderr.contains("No space left"), "{}", ended.stderr);
    holds(&home.join("d/a"), "one\n");
    holds(&home.join("c"), "two\n");
    assert!(!home.join("b").exists());
    bad.disk.heal();
    bad.is_let_go(&ended, &[("b", "another\n"), ("c", "newer\n")]);
}

/// A disk that has no space for bytes, though its journal has: who writes waits, and the drain has an end all the same.
#[test]
fn a_disk_whose_log_finds_no_space() {
    if !machine_has(&[]) {
        return;
    }
    for heals in [true, false] {
        let bad = BadDisk::new();
        let size = if heals { 12_000_000 } else { 1_000_000 };
        let script = format!("echo one >a; reach written; pass full; head -c {size} /dev/zero | tr '\\0' y >flood || exit 8; mv a b");
        let mut staged = bad.start(&script);
        staged.reached("written");
        bad.disk.fail_bulk(ENOSPC);
        staged.pass("full");
        if heals {
            assert_waits((&bad.sandbox, &bad.buffer), &mut staged, "No space left");
            bad.disk.heal();
        }
        staged.end(0);
        holds(&bad.sandbox.home().join("b"), "one\n");
        let flood = fs::read(bad.sandbox.home().join("flood")).expect("the flood is home");
        assert!(flood.len() == size && flood.iter().all(|byte| *byte == b'y'));
        assert!(!bad.buffer.join("superblock").exists(), "the buffer is gone");
    }
}

/// A real file system, filled by a stranger while a program writes, and freed again.
#[test]
fn a_disk_that_others_fill_and_free() {
    if !machine_has(&["mount", "umount"]) || !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let Some((_mounted, buffer)) = small_disk(&sandbox) else { return };
    let mut staged = start(&sandbox, &buffer, &[], &format!("echo early >early; reach written; pass full; {WRITER}"));
    staged.reached("written");
    let filler = fill(&buffer);
    staged.pass("full");
    assert_waits((&sandbox, &buffer), &mut staged, "No space left");
    fs::remove_file(&filler).expect("the filler");
    staged.end(0);
    holds_all(&sandbox.home());
    assert!(!buffer.join("superblock").exists(), "the buffer is gone");
}

/// The process that serves is killed while its disk is full and a program waits for it: another takes over all the same, the program waits
/// on, and goes on when there is space again.
#[test]
fn a_takeover_on_a_full_disk() {
    if !machine_has(&["mount", "umount"]) || !is_root() || !kernel_resends() {
        return;
    }
    let sandbox = Sandbox::new();
    let Some((_mounted, buffer)) = small_disk(&sandbox) else { return };
    let mut staged = start(&sandbox, &buffer, &[], &format!("echo early >early; reach written; pass full; {WRITER}"));
    staged.reached("written");
    let filler = fill(&buffer);
    staged.pass("full");
    assert_waits((&sandbox, &buffer), &mut staged, "No space left");
    for _ in 0..2 {
        let killed = kill_server(&mut staged.run).expect("the run has not ended");
        let taken_over = eventually(DEADLINE, || {
            let serves = server_of(staged.run.id()).is_some_and(|server| server != killed);
            serves && sandbox.status_at(&buffer).is_object() || !staged.run.runs()
        });
        assert!(taken_over && staged.run.runs(), "nobody took over: {}", staged.run.stderr());
        assert_waits((&sandbox, &buffer), &mut staged, "No space left");
    }
    fs::remove_file(&filler).expect("the filler");
    staged.end(0);
    holds_all(&sandbox.home());
    assert_eq!(fs::read(sandbox.home().join("early")).expect("it is home"), b"early\n");
    assert!(!buffer.join("superblock").exists(), "the buffer is gone");
}

/// A small file system of its own for a buffer; none where this machine mounts none.
fn small_disk(sandbox: &Sandbox) -> Option<(Unmounted, PathBuf)> {
    let disk = sandbox.folder().join("disk");
    fs::create_dir(&disk).expect("a directory for the disk");
    let target = disk.display().to_string();
    if !Command::new("mount").args(["-t", "tmpfs", "-o", "size=24m", "none", &target]).status().is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: this machine mounts no tmpfs");
        return None;
    }
    let buffer = disk.join("buffer");
    Some((Unmounted(disk), buffer))
}

/// Takes all the space beside a buffer; gives the file that has it.
fn fill(buffer: &Path) -> PathBuf {
    let filler = buffer.with_file_name("filler");
    // It ends with ENOSPC, as it shall.
    let _ = Command::new("dd").args(["if=/dev/zero", "bs=4096", "status=none"]).arg(format!("of={}", filler.display())).status();
    filler
}

/// A real file system that finds itself damaged and turns read-only under the buffer, as ext4 does by default on most systems.
#[test]
fn a_file_system_that_turns_read_only() {
    if !machine_has(&["mkfs.ext4", "e2fsck", "mount", "losetup"]) || !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let (image, disk) = (sandbox.folder().join("image"), sandbox.folder().join("disk"));
    fs::create_dir(&disk).expect("a directory for the disk");
    fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("room for an image");
    run("mkfs.ext4", &[Path::new("-q"), Path::new("-F"), &image]);
    let mount = || {
        let options = ["-t", "ext4", "-o", "loop,errors=remount-ro"];
        Command::new("mount").args(options).args([&image, &disk]).status().is_ok_and(|status| status.success())
    };
    if !mount() {
        eprintln!("this machine mounts no images: not tested");
        return;
    }
    let _mounted = Unmounted(disk.clone());
    let device = run("losetup", &["-n", "-O", "NAME", "-j", &image.display().to_string()]);
    let trigger = Path::new("/sys/fs/ext4").join(device.trim().trim_start_matches("/dev/")).join("trigger_fs_error");
    if !trigger.exists() {
        eprintln!("this kernel has no {}: not tested", trigger.display());
        return;
    }
    let buffer = disk.join("buffer");
    let script = "echo first >a && sync a && echo second >>a && mkdir d && echo third >d/b || exit 9; reach written; pass failing
        i=0; while echo $i >more-$i; do i=$((i + 1)); echo $i >\"$OUTSIDE/count\"; done 2>\"$OUTSIDE/error\"; cat a";
    let mut staged = start(&sandbox, &buffer, &[], script);
    staged.reached("written");
    fs::write(&trigger, "1").expect("the kernel takes it");
    staged.pass("failing");
    let ended = staged.end(INTERNAL);
    assert_eq!(ended.stdout, "first\nsecond\n", "what was acknowledged can still be read");
    let told = fs::read_to_string(sandbox.outside().join("error")).expect("the shell complained");
    assert!(told.contains("Read-only file system"), "{told}");
    // Until the journal comes to what was not yet part of its file, it may go on.
    let count = fs::read_to_string(sandbox.outside().join("count")).map_or(0, |count| count.trim().parse().expect("a number"));
    holds(&sandbox.home().join("a"), "first\nsecond\n");
    holds(&sandbox.home().join("d/b"), "third\n");
    for file in 0..count {
        holds(&sandbox.home().join(format!("more-{file}")), &format!("{file}\n"));
    }
    // As an administrator does. What the file system had only in its cache is gone; a recovery of that would take home back.
    unmount(&disk);
    assert!(Command::new("e2fsck").args(["-fy"]).arg(&image).output().is_ok_and(|ended| ended.status.code() < Some(4)) && mount());
    is_let_go(&sandbox, &buffer, &ended, &[("d/b", "newer\n")]);
}

/// A mount that goes with the test.
struct Unmounted(PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}
