//! The commands about single files and the ways to look at an instance, each on a real mount: `stage-in`, `stage-out`, `where`, `status
//! --watch`, `.forebay`, `--metrics`, `run --over`, `debug`.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use forebay_tests::process::{self, DEADLINE, Ended, Process, eventually, is_mounted, is_root, machine_has, program};
use forebay_tests::sandbox::{AMPLE, Sandbox, TIGHT};
use serde_json::Value;

const USAGE: i32 = 64;
const UNAVAILABLE: i32 = 69;
const DID_NOT_FIT: i32 = 73;
const NOT_HOME: i32 = 74;
const CONFIG: i32 = 78;

/// A mount in the background; unmounted when dropped.
struct Mounted<'a> {
    sandbox: &'a Sandbox,
}

impl<'a> Mounted<'a> {
    fn start(sandbox: &'a Sandbox, size: forebay_tests::sandbox::Size, options: &[&str]) -> Mounted<'a> {
        let mut command = sandbox.forebay("mount");
        command.arg("--backing").arg(sandbox.home());
        sandbox.place_buffer(&mut command, size);
        command.args(options);
        Process::start(command, &sandbox.outside(), "mount").wait(DEADLINE).expect_code(0);
        Mounted { sandbox }
    }

    /// A command about files of this instance.
    fn ask(&self, arguments: &[&str]) -> Ended {
        let mut command = self.sandbox.forebay(arguments[0]);
        command.arg("--buffer").arg(self.sandbox.buffer()).args(&arguments[1..]);
        Process::start(command, &self.sandbox.outside(), "ask").wait(DEADLINE)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let ended = self.ask(arguments).expect_code(0);
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {}", ended.stdout))
    }

    fn end(self) {
        let mut command = self.sandbox.forebay("umount");
        command.arg("--buffer").arg(self.sandbox.buffer());
        Process::start(command, &self.sandbox.outside(), "umount").wait(DEADLINE).expect_code(0);
        self.sandbox.assert_clean();
    }
}

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed).wrapping_add((at >> 8) as u8)).collect()
}

/// With synchronous write-back nothing goes home by itself: what stands there was asked for.
#[test]
fn what_is_staged_out_stands_at_home_and_nothing_else() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let mounted = Mounted::start(&sandbox, AMPLE, &["--write-back", "sync"]);
    let (mount, home) = (sandbox.mount(), sandbox.home());
    fs::create_dir_all(mount.join("deep/er")).expect("a directory");
    for (name, len) in [("deep/er/one", 3_000_000), ("deep/er/two.h5", 70_000), ("deep/three.h5", 10), ("other", 5000)] {
        fs::write(mount.join(name), bytes(len, 1)).expect("a file");
    }
    std::os::unix::fs::symlink("one", mount.join("deep/er/link")).expect("a symlink");

    mounted.ask(&["stage-out", "deep/er/one"]).expect_code(0);
    assert_eq!(fs::read(home.join("deep/er/one")).expect("it is home"), bytes(3_000_000, 1));
    assert!(!home.join("deep/three.h5").exists() && !home.join("other").exists() && !home.join("deep/er/two.h5").exists());
    // A pattern, and a path as it is in the mount.
    let three = mount.join("deep/three.h5");
    mounted.ask(&["stage-out", "**/two.*", three.to_str().expect("UTF-8")]).expect_code(0);
    assert_eq!(fs::read(home.join("deep/er/two.h5")).expect("it is home"), bytes(70_000, 1));
    assert_eq!(fs::read(home.join("deep/three.h5")).expect("it is home"), bytes(10, 1));
    assert!(!home.join("other").exists());
    // A list, with a directory; twice is no harm.
    let list = sandbox.outside().join("list");
    fs::write(&list, "# all of it\n\ndeep\n").expect("room outside");
    for _ in 0..2 {
        let ended = mounted.ask(&["stage-out", "--list", list.to_str().expect("UTF-8"), "--jobs", "2"]).expect_code(0);
        assert!(ended.stderr.contains("home") && ended.stderr.contains("compared"), "{}", ended.stderr);
    }
    assert_eq!(fs::read_link(home.join("deep/er/link")).expect("it is home"), Path::new("one"));
    assert!(!home.join("other").exists());
    // What a mapping has written is with the kernel until someone asks.
    mounted.end();
    assert_eq!(fs::read(home.join("other")).expect("it is home"), bytes(5000, 1));
}

#[test]
fn a_file_that_cannot_go_home_is_named() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (store, slow) = sandbox.slow_home(&[]);
    let mounted = Mounted::start(&sandbox, AMPLE, &["--write-back", "sync"]);
    fs::write(sandbox.mount().join("stuck"), bytes(10_000, 2)).expect("a file");
    slow.fail(28);
    let ended = mounted.ask(&["stage-out", "stuck", "missing"]).expect_code(NOT_HOME);
    assert!(ended.stderr.contains("stuck: could not") && ended.stderr.contains("No space left"), "{}", ended.stderr);
    assert!(ended.stderr.contains("missing"), "{}", ended.stderr);
    slow.heal();
    mounted.ask(&["stage-out", "stuck"]).expect_code(0);
    assert_eq!(fs::read(store.join("stuck")).expect("it is home"), bytes(10_000, 2));
    mounted.end();
}

#[test]
fn what_is_staged_in_is_in_the_buffer_as_far_as_it_fits() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.home().join("in")).expect("a directory");
    for number in 0..4 {
        fs::write(sandbox.home().join(format!("in/{number}")), bytes(1_000_000, number)).expect("a file");
    }
    fs::write(sandbox.home().join("large"), bytes(12_000_000, 9)).expect("a file");
    let mounted = Mounted::start(&sandbox, TIGHT, &[]);
    let places = |path: &str| mounted.json(&["where", "--json", path])[0].clone();
    let before = places("in/1");
    assert_eq!((before["buffered_bytes"].as_u64(), before["ranges"][0]["place"].as_str()), (Some(0), Some("home")), "{before}");

    mounted.ask(&["stage-in", "in"]).expect_code(0);
    for number in 0..4 {
        let now = places(&format!("in/{number}"));
        assert_eq!((now["buffered_bytes"].as_u64(), now["dirty_bytes"].as_u64()), (Some(1_000_000), Some(0)), "{now}");
    }
    // Nothing is read from home again.
    let read = |mounted: &Mounted<'_>| mounted.json(&["status", "--json"])[0]["status"]["counters"]["home_read_bytes"].as_u64();
    let read_before = read(&mounted);
    assert_eq!(fs::read(sandbox.mount().join("in/3")).expect("readable"), bytes(1_000_000, 3));
    mounted.ask(&["stage-in", "in/*"]).expect_code(0);
    assert_eq!(read(&mounted), read_before, "what is in the buffer is not read again");

    let ended = mounted.ask(&["stage-in", "large"]).expect_code(DID_NOT_FIT);
    assert!(
        ended.stderr.contains("did not fit") && ended.stderr.contains("large") && ended.stderr.contains("--capacity"),
        "{}",
        ended.stderr
    );
    assert!(places("large")["buffered_bytes"].as_u64() > Some(1_000_000), "what fits is there");
    mounted.end();
}

#[test]
fn where_covers_a_file_and_tells_dirty_from_clean() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    fs::write(sandbox.home().join("mixed"), bytes(3_000_000, 1)).expect("a file");
    let mounted = Mounted::start(&sandbox, AMPLE, &["--write-back", "sync"]);
    use std::os::unix::fs::FileExt;
    let file = fs::OpenOptions::new().write(true).open(sandbox.mount().join("mixed")).expect("it is there");
    file.write_all_at(&bytes(100_000, 2), 1_000_000).expect("written");
    file.set_len(5_000_000).expect("a hole at the end");
    drop(file);
    let view = mounted.json(&["where", "--json", "mixed"])[0].clone();
    assert_eq!((view["size"].as_u64(), view["dirty_bytes"].as_u64()), (Some(5_000_000), Some(100_000)), "{view}");
    let ranges = view["ranges"].as_array().expect("ranges");
    let mut at = 0;
    for range in ranges {
        assert_eq!(range["offset"].as_u64(), Some(at), "{view}");
        at += range["len"].as_u64().expect("a length");
    }
    assert_eq!(at, 5_000_000, "{view}");
    let dirty: Vec<&Value> = ranges.iter().filter(|range| range["dirty"] == true).collect();
    assert_eq!((dirty.len(), dirty[0]["offset"].as_u64(), dirty[0]["len"].as_u64()), (1, Some(1_000_000), Some(100_000)), "{view}");
    assert_eq!(ranges.last().expect("a last one")["place"], "zeros", "{view}");
    let text = mounted.ask(&["where", "mixed"]).expect_code(0).stdout;
    assert!(text.contains("dirty") && text.contains("at home only") && text.contains("never written"), "{text}");
    mounted.ask(&["stage-out", "mixed"]).expect_code(0);
    let view = mounted.json(&["where", "--json", "mixed"])[0].clone();
    assert_eq!(view["dirty_bytes"].as_u64(), Some(0), "{view}");
    mounted.end();
}

#[test]
fn what_cannot_be_meant_is_refused() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let mounted = Mounted::start(&sandbox, AMPLE, &[]);
    fs::create_dir(sandbox.mount().join("dir")).expect("a directory");
    for (arguments, code, part) in [
        (vec!["stage-out"], USAGE, "--list"),
        (vec!["stage-in"], USAGE, "--list"),
        (vec!["where"], USAGE, "FILE"),
        (vec!["stage-out", "/etc/passwd"], USAGE, "does not lie in"),
        (vec!["stage-out", "../escape"], USAGE, "does not lie in"),
        (vec!["stage-out", "--list", "/no/such/list"], CONFIG, "/no/such/list"),
        (vec!["stage-out", "--jobs", "0", "x"], USAGE, "--jobs"),
        (vec!["stage-out", "missing"], NOT_HOME, "missing: could not be read: there is no such file"),
        (vec!["stage-in", "nothing*"], NOT_HOME, "nothing matches"),
        (vec!["where", "missing"], UNAVAILABLE, "there is no such file"),
        (vec!["where", "dir"], UNAVAILABLE, "dir"),
        (vec!["status", "--times", "2"], USAGE, "--watch"),
        (vec!["status", "--watch=0"], USAGE, "--watch"),
    ] {
        let ended = mounted.ask(&arguments).expect_code(code);
        assert!(ended.stderr.contains(part), "{arguments:?}: {:?} lacks {part:?}", ended.stderr);
    }
    mounted.end();
    let mut command = sandbox.forebay("stage-out");
    command.args(["--buffer", "/no/such/buffer", "x"]);
    Process::start(command, &sandbox.outside(), "gone").wait(DEADLINE).expect_code(UNAVAILABLE);
}

#[test]
fn status_shows_tiers_and_rates_and_what_is_waited_for() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (store, slow) = sandbox.slow_home(&["--bandwidth", "3MiB"]);
    let mounted = Mounted::start(&sandbox, TIGHT, &[]);
    // It writes more than home takes, for as long as it is let.
    let go = sandbox.outside().join("go");
    fs::write(&go, "").expect("room outside");
    let script = "while [ -e \"$1\" ]; do head -c 1000000 /dev/zero | tr '\\0' x >>flood; done";
    let mut writer = Command::new("sh").args(["-c", script, "sh"]).arg(&go).current_dir(sandbox.mount()).spawn().expect("a writer");
    let mut seen = (false, false);
    let found = eventually(DEADLINE, || {
        let status = mounted.json(&["status", "--json"])[0]["status"].clone();
        let waits = status["waiting"].as_array().is_some_and(|all| all.iter().any(|one| one["what"] == "room in the buffer"));
        seen.0 |= waits;
        seen.1 |= status["rates"]["drain_eta_s"].as_u64() > Some(0) && status["rates"]["home_written_bytes_per_s"].as_u64() > Some(0);
        seen == (true, true)
    });
    assert!(found, "nobody waited for room, or there were no rates: {seen:?}");
    let watched = mounted.ask(&["status", "--watch=1", "--times", "2"]).expect_code(0);
    assert_eq!(watched.stdout.matches("  memory ").count(), 2, "{}", watched.stdout);
    for word in ["ssd", "not home", "now ", "/s"] {
        assert!(watched.stdout.contains(word), "{word}: {}", watched.stdout);
    }
    let lines = mounted.ask(&["status", "--json", "--watch=1", "--times", "2"]).expect_code(0).stdout;
    assert_eq!(lines.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count(), 2, "{lines}");
    fs::remove_file(&go).expect("it is there");
    assert!(writer.wait().expect("it ends").success());
    let written = fs::metadata(sandbox.mount().join("flood")).expect("it was written").len();
    mounted.end();
    drop(slow);
    assert_eq!(fs::metadata(store.join("flood")).expect("it is home").len(), written);
}

#[test]
fn the_mount_has_files_of_its_own_that_are_hidden_and_never_go_home() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let script = "echo x >file
        test \"$(ls -A)\" = file
        find . | grep forebay && exit 3
        test \"$(ls .forebay | tr '\\n' ' ')\" = 'config stats '
        cat .forebay/stats >\"$OUTSIDE/stats\"
        cat .forebay/config >\"$OUTSIDE/config\"
        dd if=.forebay/stats of=\"$OUTSIDE/parts\" bs=100 2>/dev/null
        for no in 'echo x >.forebay/stats' 'echo x >.forebay/new' 'rm .forebay/config' 'mkdir .forebay' 'rmdir .forebay' \\
            'mv file .forebay/file' 'mv .forebay other' 'ln file .forebay/link' 'chmod 777 .forebay/stats' 'touch .forebay/stats' \\
            'echo z >>.forebay/stats' 'ln -s x .forebay/s' 'mkfifo .forebay/f'; do
            if sh -c \"$no\" 2>/dev/null; then echo \"$no\" >\"$OUTSIDE/wrong\"; exit 4; fi
        done
        echo y >>file; cat .forebay/stats >\"$OUTSIDE/later\"";
    let mut run = sandbox.run_command(AMPLE);
    run.args(["--", "sh", "-ec", script]).env("OUTSIDE", sandbox.outside());
    Process::start(run, &sandbox.outside(), "run").wait(DEADLINE).expect_code(0);
    let stats: Value = process::read_json(&sandbox.outside().join("stats")).expect("JSON");
    assert_eq!(stats["status"]["counters"]["written_bytes"], 2, "{stats}");
    let later: Value = process::read_json(&sandbox.outside().join("later")).expect("JSON");
    assert_eq!(later["status"]["counters"]["written_bytes"], 4, "it is what is now: {later}");
    let parts: Value = process::read_json(&sandbox.outside().join("parts")).expect("JSON, read in parts");
    assert_eq!(parts["id"], stats["id"]);
    let config = fs::read_to_string(sandbox.outside().join("config")).expect("the settings");
    assert!(config.contains("capacity = \"1GiB\"") && config.contains("chunk = \"1MiB\""), "{config}");
    let names: Vec<_> = fs::read_dir(sandbox.home()).expect("home").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["file"], "nothing of it goes home");
    sandbox.assert_clean();
}

/// What a server answers to a request.
fn http(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the port is open");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a deadline");
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn metrics_are_served_on_a_port() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let mut run = sandbox.start(
        AMPLE,
        &["--metrics", "0"],
        &["sh", "-ec", "head -c 5000 /dev/zero >x; touch \"$FOREBAY_MOUNT/ready\"; while [ -e ready ]; do sleep 0.1; done"],
    );
    assert!(eventually(DEADLINE, || sandbox.mount().join("ready").exists() || !run.runs()), "{}", run.stderr());
    let said = run.stderr();
    let address = said.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("the address is said").to_string();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let answer = http(&address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\nforebay_written_bytes_total 5000\n") && answer.contains("# TYPE forebay_dirty_bytes gauge\n"), "{answer}");
    assert!(http(&address, "GET /else HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(http(&address, "POST /metrics HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 405 "));
    // One who connects and says nothing holds nobody up for ever.
    let silent = TcpStream::connect(&address).expect("the port is open");
    assert!(http(&address, "GET /metrics HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200 "));
    drop(silent);
    fs::remove_file(sandbox.mount().join("ready")).expect("it is there");
    run.wait(DEADLINE).expect_code(0);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port().to_string();
    let ended = sandbox.run(AMPLE, &["--metrics", &port], &["true"]).expect_code(CONFIG);
    assert!(ended.stderr.contains(&port) && ended.stderr.contains("--metrics"), "{}", ended.stderr);
    sandbox.run(AMPLE, &["--metrics", "everywhere"], &["true"]).expect_code(USAGE);
    sandbox.assert_clean();
}

/// `forebay run --over` on a sandbox.
fn over(sandbox: &Sandbox, options: &[&str]) -> Command {
    let mut command = sandbox.forebay("run");
    command.arg("--over").arg("--backing").arg(sandbox.home()).arg("--buffer").arg(sandbox.buffer());
    command.arg("--memory-dir").arg(sandbox.memory()).args(options);
    command
}

#[test]
fn over_the_backing_directory_no_path_changes_and_nobody_else_sees_it() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let home = sandbox.home();
    fs::create_dir(home.join("sub")).expect("a directory");
    fs::write(home.join("sub/old"), "old").expect("a file");
    // It stands in the backing directory, below it, or elsewhere, and goes on standing there.
    let script = "test \"$(pwd)\" = \"$STAND\"; test \"$FOREBAY_MOUNT\" = \"$HOME_DIR\"
        cat \"$HOME_DIR/sub/old\"; echo new >\"$HOME_DIR/sub/new\"; test -e \"$HOME_DIR/.forebay/stats\"
        grep -q \" $HOME_DIR fuse\" /proc/self/mounts; touch \"$OUTSIDE/ready\"; while [ -e \"$OUTSIDE/ready\" ]; do sleep 0.1; done";
    for stand in [home.clone(), home.join("sub"), sandbox.outside()] {
        let mut command = over(&sandbox, &["--write-back", "sync"]);
        command.args(["--", "sh", "-ec", script]).current_dir(&stand);
        command.env("STAND", &stand).env("HOME_DIR", &home).env("OUTSIDE", sandbox.outside());
        let mut run = Process::start(command, &sandbox.outside(), "over");
        let ready = sandbox.outside().join("ready");
        assert!(eventually(DEADLINE, || ready.exists() || !run.runs()), "{}", run.stderr());
        assert!(run.runs(), "{}", run.stderr());
        assert!(!is_mounted(&home), "the mount is the command's own");
        assert!(!home.join("sub/new").exists(), "it is in the buffer still");
        // Who stands outside reaches the instance all the same.
        let mut ask = sandbox.forebay("stage-out");
        ask.arg("--buffer").arg(sandbox.buffer()).arg(home.join("sub/new"));
        Process::start(ask, &sandbox.outside(), "ask").wait(DEADLINE).expect_code(0);
        assert_eq!(fs::read_to_string(home.join("sub/new")).expect("it is home"), "new\n");
        fs::remove_file(&ready).expect("it is there");
        let ended = run.wait(DEADLINE).expect_code(0);
        assert_eq!(ended.stdout, "old");
        fs::remove_file(home.join("sub/new")).expect("it is home");
        sandbox.assert_clean();
    }
    // A relative command is looked up where the user stands.
    let mut command = over(&sandbox, &[]);
    command.args(["--", "sh", "-c", "exit 7"]);
    Process::start(command, &sandbox.outside(), "over").wait(DEADLINE).expect_code(7);
    let mut command = over(&sandbox, &["--mount", "/tmp/elsewhere"]);
    command.args(["--", "true"]);
    let ended = Process::start(command, &sandbox.outside(), "over").wait(DEADLINE).expect_code(USAGE);
    assert!(ended.stderr.contains("--mount"), "{}", ended.stderr);
}

/// An ordinary user has it through a user namespace, and stays who he is; where that is forbidden, the message says how to allow it.
#[test]
fn over_the_backing_directory_for_an_ordinary_user() {
    if !machine_has(&["setpriv", "chown"]) || !is_root() {
        eprintln!("SKIPPED: only root can become another user");
        return;
    }
    const USER: &str = "65534";
    let sandbox = Sandbox::new();
    fs::write(sandbox.home().join("old"), "old").expect("a file");
    let whose = format!("{USER}:{USER}");
    for folder in [sandbox.folder(), sandbox.memory()] {
        assert!(Command::new("chown").args(["-R", &whose]).arg(folder).status().expect("chown").success());
    }
    // The program itself may lie where only its owner reaches it.
    let copy = sandbox.folder().join("forebay");
    fs::copy(program("forebay"), &copy).expect("a copy of the program");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]).arg(&copy).args(["run", "--over", "--backing"]).arg(sandbox.home());
    command.arg("--buffer").arg(sandbox.buffer()).arg("--memory-dir").arg(sandbox.memory());
    command.args(["--", "sh", "-ec", "id -u; stat -c '%u %g' old; cat old; echo; echo new >new; stat -c '%u %g %a' new; chmod 600 new"]);
    command.current_dir(sandbox.home()).env("HOME", sandbox.folder()).env("XDG_RUNTIME_DIR", sandbox.outside());
    let ended = Process::start(command, &sandbox.outside(), "over").wait(DEADLINE);
    if ended.code() == UNAVAILABLE {
        assert!(ended.stderr.contains("mend it with: "), "{}", ended.stderr);
        eprintln!("SKIPPED: this machine forbids user namespaces: {}", ended.stderr);
        return;
    }
    let ended = ended.expect_code(0);
    assert_eq!(ended.stdout, format!("{USER}\n{USER} {USER}\nold\n{USER} {USER} 644\n"));
    use std::os::unix::fs::MetadataExt;
    let meta = fs::metadata(sandbox.home().join("new")).expect("it is home");
    assert_eq!((meta.uid().to_string().as_str(), meta.mode() & 0o777, meta.len()), (USER, 0o600, 4));
    sandbox.assert_clean();
}

#[test]
fn a_bug_report_has_the_state_and_no_data() {
    if !machine_has(&["tar"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let mounted = Mounted::start(&sandbox, AMPLE, &["--write-back", "sync"]);
    let secret = "a-secret-that-nobody-may-read-in-a-report";
    fs::write(sandbox.mount().join("private-name"), secret.repeat(1000)).expect("a file");
    let report = sandbox.outside().join("report.tar");
    let mut command = sandbox.forebay("debug");
    command.arg("--out").arg(&report);
    Process::start(command, &sandbox.outside(), "debug").wait(DEADLINE).expect_code(0);
    let archive = String::from_utf8_lossy(&fs::read(&report).expect("the archive")).into_owned();
    assert!(!archive.contains(secret), "data of a file is in it");
    assert!(!archive.contains("private-name"), "the name of a file is in it");
    let folder = sandbox.buffer().display().to_string();
    assert!(archive.contains(&folder), "the instance is in it");
    for word in ["written_bytes", "segment_bytes", "positions ", "Data\n"] {
        assert!(archive.contains(word), "{word} is missing");
    }
    mounted.end();
}
