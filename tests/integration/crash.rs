//! `kill -9` at any moment: every acknowledged change is at home after the recovery.
//!
//! Writers note each operation, outside the mount, when it begins and when it came back. After the crash and the recovery, home must
//! look as a plain directory did at a moment no earlier than the last operation that came back.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use forebay_tests::history::{History, Writer};
use forebay_tests::operations::Mix;
use forebay_tests::process::{self, DEADLINE, Process, eventually, is_mounted, is_root, machine_has, program};
use forebay_tests::progress::Reached;
use forebay_tests::random::{Random, seeds};
use forebay_tests::sandbox::{AMPLE, Sandbox, Size, TIGHT};
use rustix::process::Signal;

fn writers(sandbox: &Sandbox, seed: u64, count: u64) -> Vec<Writer> {
    let mix = Mix { owners: is_root(), ..Mix::default() };
    let writer = |index: u64| Writer {
        history: History { seed: seed * 16 + index, mix },
        directory: format!("writer-{index}"),
        progress: sandbox.outside().join(format!("progress-{index}")),
    };
    (0..count).map(writer).collect()
}

/// A script that runs the writers side by side, each for so many steps, or until the mount dies.
fn script(writers: &[Writer], steps: Option<u64>) -> String {
    let exercise = program("exercise");
    let steps = steps.map_or(String::new(), |steps| format!("--steps {steps}"));
    let one = |writer: &Writer| {
        format!(
            "{} log --seed {} {steps} --directory {} --progress {} &\n",
            exercise.display(),
            writer.history.seed,
            writer.directory,
            writer.progress.display()
        )
    };
    writers.iter().map(one).collect::<String>() + "wait\n"
}

fn done(writers: &[Writer]) -> u64 {
    writers.iter().map(|writer| Reached::read(&writer.progress).done).sum()
}

/// Kills `forebay` alone, then waits until the writers, which are orphans now, have noticed. False if it had ended by itself just before.
fn kill(run: Process, writers: &[Writer]) -> bool {
    run.signal(Signal::KILL);
    let ended = run.wait(DEADLINE);
    let was_killed = ended.code() == 128 + 9;
    if !was_killed {
        ended.expect_code(0);
    }
    let gone = |writer: &Writer| {
        let reached = Reached::read(&writer.progress);
        reached.pid == 0 || reached.ended || !process::exists(reached.pid)
    };
    assert!(eventually(DEADLINE, || writers.iter().all(gone)), "a writer hangs on the dead mount");
    was_killed
}

fn check(home: &Path, writers: &[Writer]) {
    for writer in writers {
        let reached = Reached::read(&writer.progress);
        if reached.begun == 0 {
            continue;
        }
        let moment = writer.history.moment(&home.join(&writer.directory), reached.done, reached.begun);
        assert!(moment.is_ok(), "{}: {}", writer.directory, moment.unwrap_err());
    }
}

fn recover_and_check(sandbox: &Sandbox, writers: &[Writer]) {
    if !sandbox.buffer().join("superblock").exists() {
        // Killed before the buffer was whole: nothing can have been mounted, let alone acknowledged.
        assert_eq!(done(writers), 0, "acknowledged without a buffer");
        return;
    }
    sandbox.recover().expect_code(0);
    check(&sandbox.home(), writers);
    sandbox.assert_clean();
}

/// One crash after about so many operations.
fn crash_while_writing(seed: u64, size: Size, options: &[&str]) -> (Sandbox, Vec<Writer>) {
    let mut random = Random::new(seed);
    let sandbox = Sandbox::new();
    let writers = writers(&sandbox, seed, 1 + seed % 3);
    let run = sandbox.start(size, options, &["sh", "-c", &script(&writers, None)]);
    // Crashes soon after the start as likely as late ones.
    let enough = random.size(3000);
    assert!(eventually(DEADLINE, || done(&writers) >= enough), "the writers came only to {}: {}", done(&writers), run.stderr());
    assert!(kill(run, &writers), "writers without an end have ended");
    (sandbox, writers)
}

#[test]
fn killed_while_writing() {
    if !machine_has(&[]) {
        return;
    }
    for seed in seeds("killed_while_writing", 12) {
        let options = ["--write-back-delay", ["0ms", "10ms", "500ms"][seed as usize % 3]];
        let (sandbox, writers) = crash_while_writing(seed, if seed % 4 == 0 { AMPLE } else { TIGHT }, &options);
        recover_and_check(&sandbox, &writers);
    }
}

/// The next `run` on the same buffer does by itself what `recover` does.
#[test]
fn the_next_run_recovers_by_itself() {
    if !machine_has(&[]) {
        return;
    }
    for seed in seeds("the_next_run_recovers_by_itself", 3) {
        let (sandbox, writers) = crash_while_writing(100 + seed, TIGHT, &[]);
        let more = format!("printf more >{}-more", writers[0].directory);
        sandbox.run(TIGHT, &[], &["sh", "-ec", &more]).expect_code(0);
        check(&sandbox.home(), &writers);
        let added = sandbox.home().join(format!("{}-more", writers[0].directory));
        assert_eq!(std::fs::read(added).expect("the second run wrote it"), b"more");
        sandbox.assert_clean();
    }
}

/// Files of home that are overwritten, renamed and removed by the writers must not come to harm either.
#[test]
fn killed_again_and_again_on_one_home() {
    if !machine_has(&[]) {
        return;
    }
    for seed in seeds("killed_again_and_again_on_one_home", 2) {
        let sandbox = Sandbox::new();
        let mut random = Random::new(seed);
        let mut all = Vec::new();
        for round in 0..4 {
            let mut writers = writers(&sandbox, 1000 + seed * 8 + round, 2);
            for writer in &mut writers {
                writer.directory = format!("round-{round}-{}", writer.directory);
                writer.progress.set_extension(format!("{round}"));
            }
            let run = sandbox.start(TIGHT, &["--write-back-delay", "0ms"], &["sh", "-c", &script(&writers, None)]);
            let enough = random.below(800);
            assert!(eventually(DEADLINE, || done(&writers) >= enough), "round {round}: {}", run.stderr());
            assert!(kill(run, &writers), "writers without an end have ended");
            all.extend(writers);
        }
        recover_and_check(&sandbox, &all);
    }
}

#[test]
fn killed_during_the_drain_and_during_the_recovery() {
    if !machine_has(&[]) {
        return;
    }
    let mut cut_off = 0;
    for seed in seeds("killed_during_the_drain_and_during_the_recovery", 4) {
        let mut random = Random::new(seed);
        let sandbox = Sandbox::new();
        let (store, slow) = sandbox.slow_home(&["--bandwidth", "30MiB", "--latency", "3ms"]);
        let writers = writers(&sandbox, 300 + seed, 2);
        let run = sandbox.start(AMPLE, &["--write-back", "sync"], &["sh", "-c", &script(&writers, Some(600))]);
        let ended = || writers.iter().all(|writer| Reached::read(&writer.progress).ended);
        assert!(eventually(DEADLINE, ended), "the writers did not come to their end: {}", run.stderr());
        wait_for_objects(&store, random.below(16));
        if !kill(run, &writers) {
            check(&store, &writers);
            continue;
        }
        cut_off += 1;

        let mut command = sandbox.forebay("recover");
        command.arg("--buffer").arg(sandbox.buffer()).arg("--backing").arg(sandbox.home());
        let mut recovery = Process::start(command, &sandbox.outside(), "recover-1");
        let pause = Duration::from_millis(random.below(400));
        // A moment in time, not a state: any is right.
        eventually(pause, || !recovery.runs());
        if recovery.runs() {
            recovery.signal(Signal::KILL);
        }
        drop(recovery);
        if sandbox.buffer().exists() {
            sandbox.recover().expect_code(0);
        }
        drop(slow);
        check(&store, &writers);
    }
    assert!(cut_off > 0 || std::env::var_os("FOREBAY_SEED").is_some(), "every drain was over too soon to be cut off");
}

/// Waits until so many objects stand in a tree, or a while.
fn wait_for_objects(tree: &Path, count: u64) {
    let objects = || Command::new("find").arg(tree).output().map_or(0, |output| output.stdout.iter().filter(|b| **b == b'\n').count());
    eventually(Duration::from_secs(5), || objects() as u64 > count);
}

/// The dead mount of a killed run is in nobody's way.
#[test]
fn recovery_clears_the_dead_mount() {
    if !machine_has(&[]) {
        return;
    }
    let (sandbox, writers) = crash_while_writing(7, TIGHT, &[]);
    assert!(is_mounted(&sandbox.mount()), "a killed process leaves its mount");
    recover_and_check(&sandbox, &writers);
    assert!(!is_mounted(&sandbox.mount()));
}

#[test]
fn soak_kills() {
    if !machine_has(&[]) || std::env::var_os("FOREBAY_SOAK_MINUTES").is_none() {
        return;
    }
    for seed in seeds("soak_kills", 0) {
        let options = ["--write-back-delay", ["0ms", "10ms", "500ms"][seed as usize % 3]];
        let (sandbox, writers) = crash_while_writing(seed, if seed % 4 == 0 { AMPLE } else { TIGHT }, &options);
        recover_and_check(&sandbox, &writers);
    }
}
