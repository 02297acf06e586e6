//! The commands, each on a real mount: exit statuses, signals, reports, instances in the background, recorded runs.

use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;

use forebay_tests::listing::{self, Times};
use forebay_tests::process::{self, DEADLINE, Ended, Process, eventually, is_mounted, machine_has, program};
use forebay_tests::sandbox::{AMPLE, Sandbox, TIGHT};
use rustix::process::Signal;
use serde_json::Value;

const DRAIN_STOPPED: i32 = 75;
const DAMAGED: i32 = 65;

fn sh(script: &str) -> [&str; 3] {
    ["sh", "-ec", script]
}

#[test]
fn the_exit_status_is_the_commands_own() {
    if !machine_has(&[]) {
        return;
    }
    for code in [0, 1, 7, 255] {
        let sandbox = Sandbox::new();
        sandbox.run(AMPLE, &[], &sh(&format!("printf x >done; exit {code}"))).expect_code(code);
        assert!(sandbox.home().join("done").exists(), "what a failing command wrote is brought home, too");
        sandbox.assert_clean();
    }
    let sandbox = Sandbox::new();
    sandbox.run(AMPLE, &[], &sh("kill -KILL $$")).expect_code(128 + 9);
    sandbox.run(AMPLE, &[], &["no-such-program"]).expect_code(127);
    sandbox.assert_clean();
}

#[test]
fn the_command_is_told_where_it_is() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let script = "pwd >place; printf '%s\n' \"$FOREBAY_MOUNT\" >>place; cat \"$FOREBAY_MOUNT\"/place >/dev/null; cat >input";
    sandbox.run(AMPLE, &[], &sh(script)).expect_code(0);
    let mount = sandbox.mount().display().to_string();
    let told = fs::read_to_string(sandbox.home().join("place")).expect("the file is home");
    assert_eq!(told, format!("{mount}\n{mount}\n"));
}

#[test]
fn the_summary_and_the_report_say_what_happened() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let report = sandbox.outside().join("report.json");
    let script = "head -c 3000000 /dev/urandom >data; cat data data >/dev/null; exit 3";
    let ended = sandbox.run(AMPLE, &["--report", report.to_str().expect("UTF-8")], &sh(script)).expect_code(3);
    for word in ["application", "drain", "buffer", "peak"] {
        assert!(ended.stderr.contains(word), "the summary lacks {word:?}: {}", ended.stderr);
    }
    assert_eq!(ended.stdout, "", "standard output belongs to the command");
    let report: Value = process::read_json(&report).expect("the report is JSON");
    assert_eq!(report["exit_status"], 3);
    assert_eq!(report["drained"], true);
    assert_eq!(report["counters"]["written_bytes"], 3_000_000);
    // Rewritten bytes may go home twice, but none may be missing, and each was compared.
    assert!(report["counters"]["home_written_bytes"].as_u64() >= Some(3_000_000), "{report:#}");
    assert!(report["counters"]["compared_bytes"].as_u64() >= Some(3_000_000), "{report:#}");
    assert!(report["peak_bytes"].as_u64() <= report["capacity_bytes"].as_u64(), "{report:#}");
    assert!(report["times"]["application_ns"].as_u64() > Some(0), "{report:#}");
}

/// The buffer holds no more than its capacity, and memory no more than its part, whatever the data.
#[test]
fn the_capacity_and_the_memory_are_kept() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let report = sandbox.outside().join("report.json");
    let script = "head -c 60000000 /dev/zero | tr '\\0' x >data";
    let run = sandbox.start(TIGHT, &["--report", report.to_str().expect("UTF-8")], &sh(script));
    let mut run = run;
    let (mut memory_peak, mut disk_peak) = (0, 0);
    let bytes = |folder: &std::path::Path| {
        let output = Command::new("du").args(["-s", "--block-size=1"]).arg(folder).output().map(|output| output.stdout);
        String::from_utf8(output.unwrap_or_default()).ok().and_then(|text| text.split('\t').next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    eventually(DEADLINE, || {
        memory_peak = memory_peak.max(bytes(sandbox.memory()));
        disk_peak = disk_peak.max(bytes(&sandbox.buffer()));
        !run.runs()
    });
    run.wait(DEADLINE).expect_code(0);
    let report: Value = process::read_json(&report).expect("the report is JSON");
    assert!(report["peak_bytes"].as_u64() <= Some(8 << 20), "{report:#}");
    assert!(memory_peak > 0 && memory_peak <= (2 << 20) + (64 << 10), "the memory file took {memory_peak} bytes");
    // The log's segments, and a journal that is small beside them.
    assert!(disk_peak <= (8 << 20) + (8 << 20), "the buffer directory took {disk_peak} bytes");
}

#[test]
fn an_interrupt_ends_the_command_and_then_drains() {
    if !machine_has(&[]) {
        return;
    }
    for signal in [Signal::INT, Signal::TERM] {
        let sandbox = Sandbox::new();
        let ready = sandbox.outside().join("ready");
        let script = format!("printf 'half a result' >result; : >{}; while :; do sleep 0.1; done", ready.display());
        let mut run = sandbox.start(AMPLE, &["--write-back", "sync"], &sh(&script));
        assert!(eventually(DEADLINE, || ready.exists() || !run.runs()) && ready.exists(), "{}", run.stderr());
        run.signal(signal);
        run.wait(DEADLINE).expect_code(128 + signal.as_raw());
        assert_eq!(fs::read(sandbox.home().join("result")).expect("the file is home"), b"half a result");
        sandbox.assert_clean();
    }
}

#[test]
fn a_second_interrupt_stops_the_drain_and_keeps_the_buffer() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (store, slow) = sandbox.slow_home(&["--bandwidth", "1MiB"]);
    let ready = sandbox.outside().join("ready");
    let script = format!("head -c 20000000 /dev/urandom >data; cksum <data >{}; exec sleep 1000", ready.display());
    let mut run = sandbox.start(AMPLE, &["--write-back", "sync"], &sh(&script));
    let told = || fs::read_to_string(&ready).is_ok_and(|text| text.ends_with('\n'));
    assert!(eventually(DEADLINE, || told() || !run.runs()) && told(), "{}", run.stderr());
    run.signal(Signal::INT);
    // The drain has begun when something of it shows at home.
    assert!(eventually(DEADLINE, || store.join("data").exists() || !run.runs()), "the drain did not begin: {}", run.stderr());
    run.signal(Signal::INT);
    let ended = run.wait(DEADLINE).expect_code(DRAIN_STOPPED);
    assert!(ended.stderr.contains("recover"), "the message says what to do next: {}", ended.stderr);
    assert!(sandbox.buffer().exists() && !is_mounted(&sandbox.mount()));

    drop(slow);
    fs::rename(&store, sandbox.folder().join("elsewhere")).expect("the store moves");
    let mut command = sandbox.forebay("recover");
    command.arg("--buffer").arg(sandbox.buffer()).arg("--backing").arg(sandbox.folder().join("elsewhere"));
    Process::start(command, &sandbox.outside(), "recover").wait(DEADLINE).expect_code(0);
    let sum = Command::new("sh").args(["-c", "cksum <data"]).current_dir(sandbox.folder().join("elsewhere")).output();
    let told = fs::read(&ready).expect("the command told its checksum");
    assert_eq!(String::from_utf8_lossy(&sum.expect("cksum runs").stdout), String::from_utf8_lossy(&told));
}

fn forebay(sandbox: &Sandbox, subcommand: &str, arguments: &[&str]) -> Ended {
    let mut command = sandbox.forebay(subcommand);
    command.args(arguments);
    Process::start(command, &sandbox.outside(), subcommand).wait(DEADLINE)
}

#[test]
fn an_instance_in_the_background_is_mounted_watched_drained_and_unmounted() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    fs::write(sandbox.home().join("old"), b"was here").expect("an old file");
    let mut command = sandbox.forebay("mount");
    command.arg("--backing").arg(sandbox.home()).args(["--write-back", "sync"]);
    sandbox.place_buffer(&mut command, AMPLE);
    Process::start(command, &sandbox.outside(), "mount").wait(DEADLINE).expect_code(0);
    let mount = sandbox.mount();
    let at = mount.to_str().expect("UTF-8");
    assert!(is_mounted(&mount));
    assert_eq!(fs::read(mount.join("old")).expect("the old file shows"), b"was here");
    fs::write(mount.join("new"), vec![7; 100_000]).expect("a new file");

    let status = forebay(&sandbox, "status", &[at, "--json"]).expect_code(0);
    let status: Value = serde_json::from_str(&status.stdout).expect("status --json is JSON");
    let instance = status.as_array().map_or(&status, |instances| &instances[0]);
    assert_eq!(instance["mount"].as_str(), Some(at), "{status:#}");
    assert_eq!(instance["status"]["dirty_bytes"], 100_000, "{status:#}");
    assert!(forebay(&sandbox, "status", &[at]).expect_code(0).stdout.contains(at));

    assert!(!sandbox.home().join("new").exists());
    forebay(&sandbox, "drain", &[at]).expect_code(0);
    assert_eq!(fs::read(sandbox.home().join("new")).expect("drained"), vec![7; 100_000]);
    assert!(is_mounted(&mount), "the instance goes on");
    fs::write(mount.join("later"), b"later").expect("another file");
    let shown = listing::list(&mount).expect("the mount is readable");
    forebay(&sandbox, "umount", &[at]).expect_code(0);
    listing::assert_same(&shown, &sandbox.home_tree(), Times::All, "home after umount");
    sandbox.assert_clean();
}

#[test]
fn a_buffer_is_kept_when_asked_for() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.run(AMPLE, &["--keep"], &sh("printf x >one")).expect_code(0);
    assert!(sandbox.buffer().join("superblock").exists());
    sandbox.run(AMPLE, &["--keep"], &sh("cat one; printf y >two")).expect_code(0);
    sandbox.run(AMPLE, &[], &sh("cat one two")).expect_code(0);
    assert_eq!(fs::read(sandbox.home().join("two")).expect("the file is home"), b"y");
    sandbox.assert_clean();
}

#[test]
fn two_instances_do_not_share_a_buffer_or_a_home_place() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (ready, go) = (sandbox.outside().join("ready"), sandbox.outside().join("go"));
    let script = format!(": >{}; until test -e {}; do sleep 0.05; done; printf x >first", ready.display(), go.display());
    let mut first = sandbox.start(AMPLE, &[], &sh(&script));
    assert!(eventually(DEADLINE, || ready.exists() || !first.runs()) && ready.exists(), "{}", first.stderr());
    let other = sandbox.folder().join("other-mount");
    fs::create_dir(&other).expect("a second mount point");
    let mut second = sandbox.forebay("run");
    second.arg("--backing").arg(sandbox.home()).arg("--buffer").arg(sandbox.buffer()).arg("--mount").arg(&other);
    second.args(["--", "true"]);
    let refused = Process::start(second, &sandbox.outside(), "second").wait(DEADLINE);
    assert_ne!(refused.code(), 0, "two processes on one buffer would destroy it");
    assert!(refused.stderr.contains(sandbox.buffer().to_str().expect("UTF-8")), "{}", refused.stderr);
    fs::write(&go, b"").expect("room outside");
    first.wait(DEADLINE).expect_code(0);
    assert_eq!(fs::read(sandbox.home().join("first")).expect("the first run was not disturbed"), b"x");
}

/// A kept buffer whose superblock, or whose journal, was damaged is named and not guessed at.
#[test]
fn a_damaged_buffer_is_refused_and_named() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (store, slow) = sandbox.slow_home(&[]);
    slow.fail(5);
    let failed = sandbox.run(AMPLE, &[], &sh("printf 'precious bytes' >result.dat"));
    assert_ne!(failed.code(), 0);
    slow.heal();
    let superblock = sandbox.buffer().join("superblock");
    let whole = fs::read(&superblock).expect("the kept buffer has a superblock");
    let file = fs::File::options().write(true).open(&superblock).expect("the superblock opens");
    let inverted: Vec<u8> = whole.iter().map(|byte| !byte).collect();
    file.write_all_at(&inverted, 0).expect("damage");
    let refused = sandbox.recover().expect_code(DAMAGED);
    assert!(refused.stderr.contains(sandbox.buffer().to_str().expect("UTF-8")), "{}", refused.stderr);
    assert!(sandbox.buffer().exists(), "a damaged buffer is not thrown away");
    file.write_all_at(&whole, 0).expect("repair");
    sandbox.recover().expect_code(0);
    assert_eq!(fs::read(store.join("result.dat")).expect("the file is home"), b"precious bytes");
}

/// A recorded real run, replayed through the core, gives the same effects; an altered recording does not pass in silence.
#[test]
fn a_recorded_run_replays() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let record = sandbox.outside().join("run.record");
    let at = record.to_str().expect("UTF-8");
    let script = format!(
        "{0} log --seed 11 --steps 400 --directory work --progress {1}/progress && {0} flow large --blocks 60 --seed 2",
        program("exercise").display(),
        sandbox.outside().display()
    );
    sandbox.run(TIGHT, &["--record", at], &sh(&script)).expect_code(0);
    forebay(&sandbox, "replay", &[at]).expect_code(0);

    let mut bytes = fs::read(&record).expect("the recording is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(&record, &bytes).expect("an altered recording");
    // A killed process leaves a recording cut off in the middle of an event: what stands before is replayed, and it is said so.
    let noticed = forebay(&sandbox, "replay", &[at]);
    assert!(noticed.code() != 0 || noticed.stderr.contains("cut off"), "an altered recording must be noticed: {}", noticed.stderr);
}
