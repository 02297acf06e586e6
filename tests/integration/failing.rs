//! Parts that fail: home and the connection to the kernel (`failing_buffer.rs` has the buffer's disk). Nothing acknowledged is lost, work goes on by itself when the
//! part is well again, and the exit status tells. `docs/SEMANTICS.md` has the outcomes; these are its tests.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use forebay_tests::process::{self, DEADLINE, Ended, eventually, is_mounted, is_root, machine_has};
use forebay_tests::sandbox::{AMPLE, Sandbox, TIGHT, holds};
use forebay_tests::staged::Staged;

const NOT_HOME: i32 = 74;
const INTERNAL: i32 = 70;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EDQUOT: i32 = 122;

/// What a run says that leaves something in its buffer.
#[track_caller]
fn assert_kept(sandbox: &Sandbox, ended: &Ended, named: &str) {
    let buffer = sandbox.buffer();
    assert!(ended.stderr.contains(named), "the message names {named}: {}", ended.stderr);
    assert!(ended.stderr.contains(&format!("forebay recover --buffer {}", buffer.display())), "and what to do: {}", ended.stderr);
    assert!(buffer.exists() && !is_mounted(&sandbox.mount()), "the buffer is kept, nothing stays mounted");
}

/// A home that takes no change at all: read-only, or over its quota, until somebody mends it.
#[test]
fn a_home_that_refuses_every_change() {
    if !machine_has(&[]) {
        return;
    }
    for errno in [EROFS, EDQUOT] {
        let sandbox = Sandbox::new();
        let (store, slow) = sandbox.slow_home(&[]);
        slow.fail_changes(errno);
        let script = "mkdir d && echo precious >d/f && sync d/f && mv d/f d/g && cat d/g";
        let ended = sandbox.run(AMPLE, &[], &["sh", "-ec", script]).expect_code(NOT_HOME);
        assert_eq!(ended.stdout, "precious\n", "the application notices nothing");
        assert_kept(&sandbox, &ended, "d: could not");
        slow.heal();
        sandbox.recover().expect_code(0);
        holds(&store.join("d/g"), "precious\n");
        sandbox.assert_clean();
    }
}

/// A home without space: writers wait when the buffer is full, `status` says so, and all goes on by itself when there is space again.
#[test]
fn a_home_that_is_full_for_a_while() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (store, slow) = sandbox.slow_home(&[]);
    slow.fail(ENOSPC);
    let script = "head -c 20000000 /dev/zero | tr '\\0' y >flood || exit 9; sync flood || exit 8; cksum <flood >\"$OUTSIDE/sum\"";
    let mut staged = Staged::start(&sandbox, TIGHT, &[], script);
    let waits = eventually(DEADLINE, || {
        let status = sandbox.status();
        status["waiting_for_room"].as_u64().unwrap_or(0) > 0 && status.to_string().contains("No space left")
    });
    assert!(waits && staged.run.runs(), "the writer waits, and `status` says for what: {}", staged.run.stderr());
    slow.heal();
    staged.end(0);
    assert_eq!(fs::metadata(store.join("flood")).expect("the file is home").len(), 20_000_000);
    let sum = Command::new("sh").arg("-c").arg(format!("cksum <{}", store.join("flood").display())).output().expect("cksum runs");
    assert_eq!(String::from_utf8_lossy(&sum.stdout), fs::read_to_string(sandbox.outside().join("sum")).expect("the sum was taken"));
    sandbox.assert_clean();
}

/// A home that answers nothing at all for a while: what fits into the buffer is written and read at once, the rest waits and goes on.
#[test]
fn a_home_that_stalls() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (store, slow) = sandbox.slow_home(&[]);
    fs::write(store.join("old"), "from home\n").expect("an old file");
    let script = "ls >/dev/null; reach listed; pass stalled
        stat -f . >/dev/null || exit 7
        echo one >one && mkdir d && echo two >d/two && sync one && cat one d/two >\"$OUTSIDE/read\" && mv one d/three || exit 9
        reach written; cat old >copied || exit 8";
    let mut staged = Staged::start(&sandbox, AMPLE, &[], script);
    staged.reached("listed");
    slow.stall();
    staged.pass("stalled");
    staged.reached("written");
    holds(&sandbox.outside().join("read"), "one\ntwo\n");
    slow.heal();
    staged.end(0);
    for (name, text) in [("d/three", "one\n"), ("d/two", "two\n"), ("copied", "from home\n")] {
        holds(&store.join(name), text);
    }
    sandbox.assert_clean();
}

/// Bytes that only home has cannot be read while it fails, and the reader is told; what is in the buffer can; later all can.
#[test]
fn reading_from_a_home_that_fails() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (store, slow) = sandbox.slow_home(&[]);
    fs::write(store.join("old"), "from home\n").expect("an old file");
    let script = "echo new >new; ls -l old >/dev/null; reach listed; pass failing
        cat old 2>\"$OUTSIDE/error\" && exit 9; cat new >/dev/null || exit 8
        reach tried; pass well; cat old || exit 7";
    let mut staged = Staged::start(&sandbox, AMPLE, &["--write-back", "sync"], script);
    staged.reached("listed");
    slow.fail_all(EIO);
    staged.pass("failing");
    staged.reached("tried");
    slow.heal();
    staged.pass("well");
    let ended = staged.end(0);
    assert_eq!(ended.stdout, "from home\n");
    let told = fs::read_to_string(sandbox.outside().join("error")).expect("cat complained");
    assert!(told.contains("Input/output error"), "{told}");
    sandbox.assert_clean();
}

/// What the buffer holds changes of is removed at home behind its back: the drain names it and says what to do, and nothing is lost.
#[test]
fn a_directory_and_a_file_that_vanish_from_home() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let home = sandbox.home();
    fs::create_dir(home.join("lost")).expect("an old directory");
    fs::write(home.join("victim"), "old").expect("an old file");
    let script = "ls lost; echo new >lost/new; echo replaced >victim; reach written; pass removed; cat lost/new victim";
    let mut staged = Staged::start(&sandbox, AMPLE, &["--write-back", "sync"], script);
    staged.reached("written");
    fs::remove_dir(home.join("lost")).expect("still empty at home");
    fs::remove_file(home.join("victim")).expect("the old file");
    staged.pass("removed");
    let ended = staged.end(NOT_HOME);
    assert_eq!(ended.stdout, "new\nreplaced\n", "the mount still has all of it");
    assert_kept(&sandbox, &ended, "lost/new: could not");
    assert!(ended.stderr.contains("victim: could not") && ended.stderr.contains("make it again there"), "{}", ended.stderr);
    fs::create_dir(home.join("lost")).expect("the remedy");
    fs::write(home.join("victim"), "").expect("the remedy");
    sandbox.recover().expect_code(0);
    holds(&home.join("lost/new"), "new\n");
    holds(&home.join("victim"), "replaced\n");
    sandbox.assert_clean();
}

/// A file that others change at home: what was written in the mount wins where it was written, the rest stays as they left it.
#[test]
fn a_file_that_others_change_at_home() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.home().join("shared");
    fs::write(&file, "old bytes").expect("an old file");
    let script = "printf NEW | dd of=shared conv=notrunc status=none; reach written; pass changed";
    let mut staged = Staged::start(&sandbox, AMPLE, &["--write-back", "sync"], script);
    staged.reached("written");
    fs::write(&file, "others bytes").expect("a change of others");
    staged.pass("changed");
    staged.end(0);
    assert!(fs::read_to_string(&file).expect("the file is home").starts_with("NEWers by"), "{:?}", fs::read_to_string(&file));
    sandbox.assert_clean();
}

/// Cuts the mount's connection to the kernel, as an administrator can.
fn abort_connection(mount: &Path) {
    let minor = rustix::fs::minor(fs::metadata(mount).expect("the mount stands").dev());
    let control = Path::new("/sys/fs/fuse/connections").join(minor.to_string()).join("abort");
    if fs::write(&control, "1").is_err() {
        // Without the control file system: forced unmounting aborts, and fails to unmount what is in use.
        let _ = rustix::mount::unmount(mount, rustix::mount::UnmountFlags::FORCE);
    }
}

#[test]
fn an_aborted_connection() {
    if !machine_has(&[]) || !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let script = "echo acknowledged >a && sync a && echo also >b || exit 9; reach written; pass aborted; echo lost >c || exit 3";
    let mut staged = Staged::start(&sandbox, AMPLE, &["--write-back", "sync"], script);
    staged.reached("written");
    abort_connection(&sandbox.mount());
    staged.pass("aborted");
    let ended = staged.end(INTERNAL);
    assert!(ended.stderr.contains("cut off"), "{}", ended.stderr);
    holds(&sandbox.home().join("a"), "acknowledged\n");
    holds(&sandbox.home().join("b"), "also\n");
    sandbox.assert_clean();
}

/// Processes that the command leaves behind are waited for; what they write meanwhile comes home.
#[test]
fn background_processes_that_end_in_time() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let script = "(trap '' HUP; pass ended; echo late >late) & echo early >early; reach ended";
    let mut staged = Staged::start(&sandbox, AMPLE, &["--busy-wait", "170s"], script);
    staged.reached("ended");
    let waits = eventually(DEADLINE, || staged.run.stderr().contains("in use by") || !staged.run.runs());
    assert!(waits && staged.run.runs(), "the run waits for the process and says so: {}", staged.run.stderr());
    staged.pass("ended");
    staged.end(0);
    holds(&sandbox.home().join("early"), "early\n");
    holds(&sandbox.home().join("late"), "late\n");
    sandbox.assert_clean();
    assert!(!process::is_mounted(&sandbox.mount()));
}
