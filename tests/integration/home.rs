//! What stands in the backing directory already is there from the start, and what becomes of it is right at home after the drain; and a
//! home that fails loses nothing.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use forebay_tests::listing::{self, Times};
use forebay_tests::process::{self, DEADLINE, Process, eventually, machine_has};
use forebay_tests::random::Random;
use forebay_tests::sandbox::{AMPLE, Sandbox, Size, TIGHT};

/// Files, directories, links and odd names, with times of long ago.
fn furnish(root: &Path) {
    let write = |path: &str, seed: u64, len: usize| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a path below the root")).expect("a directory");
        fs::write(&path, Random::bytes(seed, len)).expect("a file");
        let file = fs::File::options().write(true).open(&path).expect("a file");
        file.set_modified(UNIX_EPOCH + Duration::new(1_000_000_000 + seed, 123_456_789)).expect("a time");
    };
    write("small", 1, 100);
    write("large", 2, 20 << 20);
    write("old/data", 3, 300_000);
    write("old/deep/er/data", 4, 70_000);
    write("to-delete", 5, 5000);
    write("to-rename", 6, 3 << 20);
    write("to-append", 7, 1_000_003);
    write("to-replace", 8, 9000);
    write("to-truncate", 9, 2 << 20);
    write("untouched", 10, 4 << 20);
    write("empty", 11, 0);
    write("name with spaces and \u{fc}ml\u{e4}uts", 12, 10);
    fs::hard_link(root.join("small"), root.join("old/small-too")).expect("a hard link");
    symlink("old/data", root.join("link")).expect("a symlink");
    symlink("nowhere", root.join("dangling")).expect("a symlink");
    fs::set_permissions(root.join("untouched"), fs::Permissions::from_mode(0o440)).expect("a mode");
}

/// A session of a person with a directory of old results.
const SESSION: &str = r#"
cat large | cksum >read-through
cat "name with spaces and ümläuts" old/small-too >joined
printf 'in the middle' | dd of=large bs=1 seek=7000000 conv=notrunc status=none
printf 'across a chunk' | dd of=large bs=1 seek=1048570 conv=notrunc status=none
dd if=large bs=64k skip=100 count=10 status=none | cksum >read-back
rm to-delete
mv to-rename old/renamed
mv old moved
printf 'appended' >>to-append
printf 'through the link' | dd of=moved/small-too bs=1 seek=10 conv=notrunc status=none
printf 'all new' >new && mv new to-replace
truncate -s 1000 to-truncate
truncate -s 3000000 to-truncate
ln untouched moved/untouched-too
ln -s large link-to-large
chmod 600 moved/data
touch -d '2003-04-05 06:07:08.9' moved/deep
mkdir -p new/dir && printf x >new/dir/x
rmdir new/dir 2>"$OUTSIDE"/refused && exit 1
rm -r moved/deep/er
mkfifo pipe
: >>empty
"#;

fn session(size: Size, options: &[&str]) {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    furnish(&sandbox.plain());
    furnish(&sandbox.home());
    let plain = sandbox.run_plain(SESSION);
    let (_, home) = sandbox.run_and_compare(size, options, SESSION);
    listing::assert_same(&plain, &home, Times::Set, "home against a plain directory");
}

#[test]
fn a_session_on_old_results_with_ample_room() {
    session(AMPLE, &[]);
}

#[test]
fn a_session_on_old_results_beyond_the_capacity() {
    session(TIGHT, &[]);
}

#[test]
fn a_session_on_old_results_with_synchronous_write_back() {
    session(TIGHT, &["--write-back", "sync"]);
}

#[test]
fn what_is_only_read_stays_as_it_was() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    furnish(&sandbox.home());
    let before = sandbox.home_tree();
    let read_all = "find . -type f -exec cat {} + | cksum >\"$OUTSIDE\"/sum && find . -ls >\"$OUTSIDE\"/found";
    let (_, home) = sandbox.run_and_compare(TIGHT, &[], read_all);
    listing::assert_same(&before, &home, Times::All, "home after reading");
}

/// New files appear at home only when they are written back; with synchronous write-back and room enough, that is at the drain.
#[test]
fn a_new_file_is_not_at_home_before_it_is_written_back() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let script = format!("printf x >new; test -e new; if test -e {}/new; then exit 9; fi", sandbox.home().display());
    let (_, home) = sandbox.run_and_compare(AMPLE, &["--write-back", "sync"], &script);
    assert_eq!(home["new"].size, Some(1));
}

/// A home that answers every write with an error, for a while: the application does not notice, and nothing is missing in the end.
#[test]
fn a_home_that_fails_for_a_while() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (store, slow) = sandbox.slow_home(&[]);
    slow.fail(5);
    let script = "\"$EXERCISE\" flow data --blocks 16 --seed 9 >\"$OUTSIDE\"/crc; : >\"$OUTSIDE\"/written";
    let mut command = sandbox.run_command(AMPLE);
    command.args(["--write-back-delay", "0ms", "--", "sh", "-ec", script]);
    command.env("EXERCISE", process::program("exercise")).env("OUTSIDE", sandbox.outside());
    let mut run = Process::start(command, &sandbox.outside(), "run");
    let written = sandbox.outside().join("written");
    assert!(
        eventually(DEADLINE, || written.exists() || !run.runs()) && written.exists(),
        "the application did not come to its end: {}",
        run.stderr()
    );
    slow.heal();
    run.wait(DEADLINE).expect_code(0);
    let told = fs::read_to_string(sandbox.outside().join("crc")).expect("the application told its checksum");
    let stored = listing::list(&store).expect("the store is readable");
    assert_eq!(format!("{:08x}", stored["data"].crc.expect("a file has a checksum")), told.trim());
    sandbox.assert_clean();
}

/// A home that stays broken: the run says so with a status of its own, names the file, keeps the buffer; a later `recover` brings it home.
#[test]
fn a_home_that_stays_broken() {
    if !machine_has(&[]) {
        return;
    }
    for errno in [5, 28] {
        let sandbox = Sandbox::new();
        let (store, slow) = sandbox.slow_home(&[]);
        slow.fail(errno);
        let ended = sandbox.run(AMPLE, &[], &["sh", "-c", "printf 'precious bytes' >result.dat"]);
        assert_ne!(ended.code(), 0, "a run that could not drain must not look like a success: {}", ended.stderr);
        assert!(ended.stderr.contains("result.dat"), "the message names the file: {}", ended.stderr);
        let buffer = sandbox.buffer();
        assert!(ended.stderr.contains(buffer.to_str().expect("a path in UTF-8")), "and the buffer: {}", ended.stderr);
        assert!(buffer.exists(), "the buffer is kept");
        assert!(!process::is_mounted(&sandbox.mount()), "nothing stays mounted");
        let stored = fs::read(store.join("result.dat")).unwrap_or_default();
        assert_ne!(stored, b"precious bytes", "the store took nothing");

        slow.heal();
        sandbox.recover().expect_code(0);
        assert_eq!(fs::read(store.join("result.dat")).expect("the file is home"), b"precious bytes");
        sandbox.assert_clean();
    }
}
