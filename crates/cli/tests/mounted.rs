//! The commands with real mounts. Skipped, and said so, where this machine does not let this user mount.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

const DEADLINE: Duration = Duration::from_secs(60);

/// Whether `condition` comes true before the deadline.
fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + DEADLINE;
    while !condition() {
        if Instant::now() > until {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    true
}

/// Directories of a test; `home` and `outside` are there.
struct Place {
    folder: TempDir,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mount = self.path("mount");
        if is_mounted(&mount) {
            // Left by a test that failed, or by one that kills.
            let _ = Command::new("fusermount3").args(["-u", "-z"]).arg(mount).status();
        }
    }
}

fn is_mounted(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    mounts.lines().any(|line| line.split(' ').nth(4) == path.to_str())
}

impl Place {
    /// None where nothing can be mounted.
    fn new() -> Option<Place> {
        if let Err(error) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse") {
            eprintln!("skipped: /dev/fuse cannot be opened: {error}");
            return None;
        }
        let folder = tempfile::tempdir().expect("a directory for the test");
        for part in ["home", "outside", "user", "run-time"] {
            std::fs::create_dir(folder.path().join(part)).expect("a part of the place");
        }
        Some(Place { folder })
    }

    fn path(&self, part: &str) -> PathBuf {
        self.folder.path().join(part)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(arguments).current_dir(self.folder.path()).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.path("user")).env("XDG_RUNTIME_DIR", self.path("run-time")).env("OUTSIDE", self.path("outside"));
        command
    }

    /// `forebay run` with these options and a shell script, small sizes, buffer and mount in the place.
    fn run_command(&self, options: &[&str], script: &str) -> Command {
        let fixed = ["run", "--backing", "home", "--mount", "mount", "--buffer", "buffer", "--capacity", "64MiB", "--memory", "16MiB"];
        self.command(&[&fixed, options, &["--", "sh", "-c", script]].concat())
    }

    fn run(&self, options: &[&str], script: &str) -> Output {
        finish(start(self.run_command(options, script)))
    }

    fn home(&self, file: &str) -> String {
        std::fs::read_to_string(self.path("home").join(file)).unwrap_or_else(|error| format!("no {file}: {error}"))
    }

    fn outside(&self, file: &str) -> PathBuf {
        self.path("outside").join(file)
    }

    /// Those of all the user's instances that are of this test.
    fn of_this_place(&self, all: &Value) -> Vec<Value> {
        let is_own = |view: &&Value| view["backing"].as_str().is_some_and(|backing| Path::new(backing).starts_with(self.folder.path()));
        all.as_array().expect("a list").iter().filter(is_own).cloned().collect()
    }

    /// Nothing is left of an instance that has ended well.
    #[track_caller]
    fn assert_clean(&self) {
        assert!(!is_mounted(&self.path("mount")), "still mounted");
        for part in ["mount", "buffer"] {
            assert!(
                !self.path(part).exists(),
                "{part} is left: {:?}",
                std::fs::read_dir(self.path(part)).map(|entries| entries.flatten().collect::<Vec<_>>())
            );
        }
        let list = finish(start(self.command(&["status", "--json"])));
        let all: Value = serde_json::from_slice(&list.stdout).expect("JSON");
        let own = self.of_this_place(&all);
        assert!(own.is_empty(), "still on the list: {own:?}");
    }
}

fn start(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("forebay starts")
}

/// Waits for its end; one that does not end is killed, and the test fails.
#[track_caller]
fn finish(mut child: Child) -> Output {
    if !eventually(|| child.try_wait().expect("wait").is_some()) {
        child.kill().expect("kill");
        let output = child.wait_with_output().expect("wait");
        panic!("it did not end: {}", String::from_utf8_lossy(&output.stderr));
    }
    child.wait_with_output().expect("wait")
}

#[track_caller]
fn expect(output: &Output, status: i32, parts: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{message}");
    for part in parts {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("a signal is sent");
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a report")).expect("JSON")
}

#[test]
fn a_run_brings_home_what_its_command_wrote() {
    let Some(place) = Place::new() else { return };
    std::fs::write(place.path("home/old"), "before\n").expect("a file");
    let script = "cat old && echo after >> old && mkdir d && echo new > d/new && ln -s d/new link && test \"$PWD\" = \"$FOREBAY_MOUNT\"";
    let output = place.run(&["--report", "outside/report.json"], script);
    expect(&output, 0, &["application", "drain", "compared"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "before\n");
    assert_eq!((place.home("old").as_str(), place.home("d/new").as_str()), ("before\nafter\n", "new\n"));
    assert_eq!(std::fs::read_link(place.path("home/link")).expect("a symlink"), Path::new("d/new"));
    place.assert_clean();
    let report = json(&place.outside("report.json"));
    assert_eq!((report["exit_status"].as_i64(), report["command_status"].as_i64()), (Some(0), Some(0)));
    assert_eq!((report["drained"].as_bool(), report["buffer_kept"].as_bool()), (Some(true), Some(false)));
    assert_eq!(report["counters"]["written_bytes"].as_u64(), Some(10), "{report}");
    assert_eq!(report["dirty_bytes"].as_u64(), Some(0));
    assert!(report["times"]["application_ns"].as_u64() > Some(0));
}

#[test]
fn the_exit_status_is_that_of_the_command() {
    let Some(place) = Place::new() else { return };
    expect(&place.run(&["-q"], "echo x > x; exit 7"), 7, &[]);
    expect(&place.run(&["-q"], "kill -KILL $$"), 137, &[]);
    let fixed = ["run", "-q", "--backing", "home", "--mount", "mount", "--buffer", "buffer", "--"];
    let other = |command: &[&str]| finish(start(place.command(&[&fixed, command].concat())));
    expect(&other(&["no-such-command"]), 127, &["no-such-command", "not found"]);
    expect(&other(&["/etc/passwd"]), 126, &["/etc/passwd"]);
    std::fs::write(place.path("tool"), "").expect("a file");
    expect(&other(&["./tool"]), 127, &["looked up in the mount", "/tool"]);
    assert_eq!(place.home("x"), "x\n");
    place.assert_clean();
}

#[test]
fn fresh_directories_are_taken_away() {
    let Some(place) = Place::new() else { return };
    let output = finish(start(place.command(&["run", "--backing", "home", "--", "sh", "-c", "echo \"$FOREBAY_MOUNT\"; echo x > x"])));
    expect(&output, 0, &[]);
    assert_eq!(place.home("x"), "x\n");
    let mount = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    assert!(mount.starts_with(place.path("run-time")) && !mount.exists(), "{mount:?}");
    let buffers = place.path("user/.cache/forebay");
    assert!(!buffers.exists() || std::fs::read_dir(buffers).expect("a directory").next().is_none(), "a buffer is left");
}

#[test]
fn directories_that_were_there_stay() {
    let Some(place) = Place::new() else { return };
    for part in ["mount", "buffer"] {
        std::fs::create_dir(place.path(part)).expect("a directory");
    }
    expect(&place.run(&[], "echo x > x"), 0, &[]);
    for part in ["mount", "buffer"] {
        assert_eq!(std::fs::read_dir(place.path(part)).expect("it is still there").count(), 0, "{part}");
    }
}

#[test]
fn a_signal_ends_the_command_and_brings_everything_home() {
    let Some(place) = Place::new() else { return };
    for (number, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let _ = std::fs::remove_file(place.outside("started"));
        // In the background a shell ignores SIGINT; `exec` gives the signal to a process that does not.
        let child = start(place.run_command(&["-v"], "echo data > f; : > \"$OUTSIDE/started\"; exec tail -f /dev/null"));
        assert!(eventually(|| place.outside("started").exists()));
        signal(&child, number);
        expect(&finish(child), code, &["ending the command", "all as written"]);
        assert_eq!(place.home("f"), "data\n");
        place.assert_clean();
    }
}

#[test]
fn a_command_that_ignores_the_signal_is_killed() {
    let Some(place) = Place::new() else { return };
    let script = "trap '' TERM; echo data > f; : > \"$OUTSIDE/started\"; while :; do tail -f /dev/null; done";
    let child = start(place.run_command(&["--grace", "200ms"], script));
    assert!(eventually(|| place.outside("started").exists()));
    signal(&child, Signal::TERM);
    expect(&finish(child), 137, &["did not end within 0.2 s"]);
    assert_eq!(place.home("f"), "data\n");
    place.assert_clean();
}

#[test]
fn a_process_that_stays_behind_is_waited_for_and_then_left() {
    let Some(place) = Place::new() else { return };
    // It writes when the command has ended: that, too, comes home.
    let late = "(until test -e \"$OUTSIDE/ended\"; do :; done; echo late > late) > /dev/null 2>&1 & : > \"$OUTSIDE/ended\"";
    expect(&place.run(&["--busy-wait", "60s"], late), 0, &[]);
    assert_eq!(place.home("late"), "late\n");
    place.assert_clean();
    let stays = "tail -f /dev/null > /dev/null 2>&1 & echo $! > \"$OUTSIDE/pid\"";
    let output = place.run(&["--busy-wait", "100ms"], stays);
    expect(&output, 0, &["in use by", "(tail)", "detached"]);
    let pid = std::fs::read_to_string(place.outside("pid")).expect("its number").trim().parse().expect("a number");
    kill_process(Pid::from_raw(pid).expect("a process"), Signal::KILL).expect("it still runs");
    place.assert_clean();
}

/// Writes numbered files and notes outside which ones were acknowledged.
const NUMBERED: &str = "i=0; while :; do i=$((i + 1)); echo \"number $i\" > n$i || exit 9; echo $i >> \"$OUTSIDE/acknowledged\"; done";

/// Starts a run that writes, and kills Forebay in the middle. The numbers that were acknowledged.
fn kill_in_the_middle(place: &Place, options: &[&str]) -> Vec<u64> {
    let mut child = start(place.run_command(options, NUMBERED));
    let acknowledged = || -> Vec<u64> {
        let text = std::fs::read_to_string(place.outside("acknowledged")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    assert!(eventually(|| acknowledged().len() > 100 || child.try_wait().expect("wait").is_some()));
    signal(&child, Signal::KILL);
    child.wait().expect("wait");
    // The command ends at its next write, on a mount without a server; only then is the list complete.
    let pattern = place.path("mount");
    assert!(eventually(|| !someone_works_in(&pattern)), "the command goes on without its file system");
    acknowledged()
}

fn someone_works_in(directory: &Path) -> bool {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    processes.into_iter().any(|entry| std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(directory)))
}

#[test]
fn what_was_acknowledged_before_a_kill_is_recovered() {
    let Some(place) = Place::new() else { return };
    let acknowledged = kill_in_the_middle(&place, &["--write-back", "sync"]);
    assert!(acknowledged.len() > 100);
    let list = finish(start(place.command(&["status"])));
    let text = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(text.contains("left") && text.contains("forebay recover --buffer"), "{text}");
    for subcommand in ["drain", "umount"] {
        expect(&finish(start(place.command(&[subcommand, "mount"]))), 69, &["forebay recover --buffer"]);
    }
    expect(
        &finish(start(place.command(&["recover", "--buffer", "buffer"]))),
        0,
        &["dead mount", "names or attributes that are not home", "everything is home"],
    );
    for number in acknowledged {
        assert_eq!(place.home(&format!("n{number}")), format!("number {number}\n"));
    }
    place.assert_clean();
    expect(&finish(start(place.command(&["recover", "--buffer", "buffer"]))), 73, &["buffer"]);
}

#[test]
fn the_next_run_on_the_same_buffer_recovers_it() {
    let Some(place) = Place::new() else { return };
    let acknowledged = kill_in_the_middle(&place, &["--write-back", "sync"]);
    std::fs::create_dir(place.path("other")).expect("another home");
    let other = ["run", "--backing", "other", "--mount", "mount", "--buffer", "buffer", "--", "true"];
    expect(&finish(start(place.command(&other))), 73, &["belongs to", "home", "forebay recover --buffer"]);
    let output = place.run(&["--capacity", "128MiB", "--chunk", "64KiB"], "cat n1; ls | wc -l");
    expect(&output, 0, &["names or attributes that are not home"]);
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let count: usize = lines.lines().nth(1).expect("two lines").trim().parse().expect("a number");
    assert!(lines.starts_with("number 1\n") && count >= acknowledged.len(), "{lines}");
    for number in acknowledged {
        assert_eq!(place.home(&format!("n{number}")), format!("number {number}\n"));
    }
    place.assert_clean();
}

#[test]
fn a_mount_in_the_background_is_seen_drained_and_unmounted() {
    let Some(place) = Place::new() else { return };
    let fixed = ["mount", "--backing", "home", "--mount", "mount", "--buffer", "buffer", "--capacity", "64MiB", "--memory", "16MiB"];
    let ready = finish(start(place.command(&[&fixed[..], &["--write-back", "sync"]].concat())));
    expect(&ready, 0, &[]);
    std::fs::write(place.path("mount/f"), "data\n").expect("the mount takes a file");
    assert!(!place.path("home/f").exists(), "with `sync` nothing goes home by itself");

    let status = |target: &[&str]| -> Value {
        let output = finish(start(place.command(&[&["status", "--json"], target].concat())));
        expect(&output, 0, &[]);
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    for target in [&["mount"][..], &["--buffer", "buffer"], &[]] {
        let own = place.of_this_place(&status(target));
        let view = &own[0];
        assert_eq!((own.len(), view["state"].as_str(), view["role"].as_str()), (1, Some("running"), Some("mount")));
        assert_eq!(
            (view["status"]["dirty_bytes"].as_u64(), view["status"]["counters"]["written_bytes"].as_u64()),
            (Some(5), Some(5)),
            "{view}"
        );
    }
    expect(&finish(start(place.command(&[&fixed[..], &[]].concat()))), 78, &["mounted there already"]);
    let in_use = ["recover", "--buffer", "buffer"];
    expect(&finish(start(place.command(&in_use))), 73, &["in use by `forebay mount`"]);

    expect(&finish(start(place.command(&["drain", "mount"]))), 0, &["everything is home"]);
    assert_eq!(place.home("f"), "data\n");
    assert_eq!(status(&["mount"])[0]["status"]["dirty_bytes"].as_u64(), Some(0));

    std::fs::write(place.path("mount/g"), "more\n").expect("the mount still takes files");
    let open = std::fs::File::open(place.path("mount/f")).expect("it is there");
    expect(&finish(start(place.command(&["umount", "mount"]))), 69, &["in use by", "--force"]);
    drop(open);
    expect(&finish(start(place.command(&["umount", "mount"]))), 0, &["unmounted"]);
    assert_eq!(place.home("g"), "more\n");
    place.assert_clean();
}

#[test]
fn a_mount_that_cannot_be_is_told_by_its_parent() {
    let Some(place) = Place::new() else { return };
    let output = finish(start(place.command(&["mount", "--backing", "absent", "--mount", "mount"])));
    expect(&output, 78, &["absent", "does not exist"]);
}

#[test]
fn an_unmounting_from_outside_brings_everything_home() {
    let Some(place) = Place::new() else { return };
    let child = start(place.command(&[
        "mount",
        "--foreground",
        "--backing",
        "home",
        "--mount",
        "mount",
        "--buffer",
        "buffer",
        "--write-back",
        "sync",
    ]));
    assert!(eventually(|| is_mounted(&place.path("mount")) && place.path("buffer/ctl").exists()));
    std::fs::write(place.path("mount/f"), "data\n").expect("the mount takes a file");
    assert!(Command::new("fusermount3").arg("-u").arg(place.path("mount")).status().expect("fusermount3").success());
    expect(&finish(child), 0, &["unmounted from outside"]);
    assert_eq!(place.home("f"), "data\n");
    place.assert_clean();
}

#[test]
fn a_run_is_no_ones_to_unmount() {
    let Some(place) = Place::new() else { return };
    let script = "echo data > f; \"$FOREBAY\" drain && cat \"$HOME_DIR/f\"; \"$FOREBAY\" umount; test $? = 69";
    let mut command = place.run_command(&["--write-back", "sync"], script);
    command.env("FOREBAY", env!("CARGO_BIN_EXE_forebay")).env("HOME_DIR", place.path("home"));
    let output = finish(start(command));
    expect(&output, 0, &["belongs to `forebay run`"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "data\n", "a checkpoint brings it home");
    place.assert_clean();
}

#[test]
fn a_long_path_has_a_control_socket_too() {
    let Some(place) = Place::new() else { return };
    let deep = format!("{}/{}", "d".repeat(120), "e".repeat(120));
    std::fs::create_dir_all(place.path(&deep)).expect("a deep directory");
    let buffer = format!("{deep}/buffer");
    let fixed = ["run", "--backing", "home", "--mount", "mount", "--capacity", "64MiB", "--memory", "16MiB", "--buffer", &buffer];
    let mut command =
        place.command(&[&fixed[..], &["--", "sh", "-c", "echo x > x; \"$FOREBAY\" status --json \"$FOREBAY_MOUNT\""]].concat());
    command.env("FOREBAY", env!("CARGO_BIN_EXE_forebay"));
    let output = finish(start(command));
    expect(&output, 0, &[]);
    let views: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (views[0]["state"].as_str(), views[0]["status"]["counters"]["written_bytes"].as_u64()),
        (Some("running"), Some(2)),
        "{views}"
    );
}

#[test]
fn a_recorded_run_is_replayed_identically() {
    let Some(place) = Place::new() else { return };
    let script = "for i in 1 2 3 4 5; do head -c 3000000 /dev/zero | tr '\\0' $i > f$i; done; cat f* | cksum; mv f1 g; rm f2";
    let sizes = ["--capacity", "8MiB", "--memory", "2MiB", "--chunk", "64KiB", "--record", "outside/recording"];
    expect(&place.run(&sizes, script), 0, &[]);
    expect(&finish(start(place.command(&["replay", "outside/recording"]))), 0, &["all identical"]);
    let whole = std::fs::read(place.outside("recording")).expect("a recording");
    std::fs::write(place.outside("cut"), &whole[..whole.len() - 1]).expect("room");
    expect(&finish(start(place.command(&["replay", "outside/cut"]))), 0, &["cut off", "all identical"]);
}

#[test]
fn a_kept_buffer_is_empty_of_what_is_not_home() {
    let Some(place) = Place::new() else { return };
    expect(&place.run(&["--keep"], "echo data > f"), 0, &[]);
    assert_eq!(place.home("f"), "data\n");
    assert!(place.path("buffer/superblock").exists());
    expect(&finish(start(place.command(&["recover", "--buffer", "buffer"]))), 0, &["holds 0 B and"]);
    place.assert_clean();
}
