//! Traces made here: `forebay trace -- CMD` over a directory, `forebay run --trace` inside an instance. What programs do must be in them, each
//! operation once, and what programs see must be what they would see without.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_tests::listing::{self, Times};
use forebay_tests::process::{self, DEADLINE, Ended, Process, eventually, is_mounted, is_root, machine_has, program};
use forebay_tests::random::seeds;
use forebay_tests::sandbox::{AMPLE, Sandbox, TIGHT};
use rustix::process::Signal;
use serde_json::Value;

const USAGE: i32 = 64;
const UNAVAILABLE: i32 = 69;

/// `forebay trace` over home, which it does not enter, into the trace of the sandbox.
fn trace(sandbox: &Sandbox, options: &[&str]) -> Command {
    let mut command = sandbox.forebay("trace");
    command.arg("--dir").arg(sandbox.home()).args(options).current_dir(sandbox.outside());
    command.env("HOME_DIR", sandbox.home()).env("EXERCISE", program("exercise")).env("OUTSIDE", sandbox.outside());
    command
}

fn out(sandbox: &Sandbox) -> PathBuf {
    sandbox.outside().join("trace.fbt")
}

/// Traces a shell script to its end.
fn traced(sandbox: &Sandbox, script: &str) -> Ended {
    let mut command = trace(sandbox, &["-o", "trace.fbt"]);
    command.args(["--", "sh", "-ec", script]);
    Process::start(command, &sandbox.outside(), "trace").wait(DEADLINE)
}

fn tool(sandbox: &Sandbox, arguments: &[&str]) -> Ended {
    let mut command = sandbox.forebay("trace");
    command.args(arguments).current_dir(sandbox.outside());
    Process::start(command, &sandbox.outside(), "tool").wait(DEADLINE)
}

/// All records of the trace.
fn records(sandbox: &Sandbox) -> Vec<Value> {
    let told = tool(sandbox, &["cat", "--json", "trace.fbt"]).expect_code(0).stdout;
    told.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn text<'a>(record: &'a Value, field: &str) -> &'a str {
    record[field].as_str().unwrap_or_default()
}

fn has_flag(record: &Value, flag: &str) -> bool {
    record["flags"].as_array().is_some_and(|flags| flags.iter().any(|one| one == flag))
}

/// Known operations, each once; what the kernel asks by itself beside them is left out when they are compared.
const KNOWN: &str = r#"
import os, mmap, fcntl, sys
os.chdir(sys.argv[1])
os.mkdir("d", 0o750)
fd = os.open("d/f", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
os.pwrite(fd, b"x" * 10000, 0)
os.pwrite(fd, b"y", 123456)
os.pread(fd, 4096, 8192)
os.pread(fd, 100, 123450)
os.pread(fd, 100, 1 << 20)
os.fsync(fd)
os.fdatasync(fd)
os.ftruncate(fd, 50000)
os.close(fd)
fd = os.open("d/f", os.O_WRONLY | os.O_APPEND)
os.write(fd, b"end")
os.close(fd)
fcntl.lockf(os.open("d/f", os.O_RDWR), fcntl.LOCK_EX)
os.link("d/f", "d/g")
os.rename("d/g", "h")
os.symlink("h", "s")
os.readlink("s")
os.chmod("h", 0o644)
with open("h", "r+b") as f, mmap.mmap(f.fileno(), 50003) as m:
    m[40000:40003] = b"map"
    m.flush()
os.unlink("s")
os.unlink("h")
os.unlink("d/f")
os.rmdir("d")
"#;

/// What [`KNOWN`] does to files, below the directory that is traced: operation, path, second path, offset, size, result. Closes come a moment later
/// than they happen.
fn expected() -> Vec<String> {
    let lines = "mkdir /d - 0 0 0
        open /d/f - 0 0 0
        write /d/f - 0 10000 10000
        write /d/f - 123456 1 1
        read /d/f - 8192 4096 4096
        read /d/f - 123450 100 7
        read /d/f - 1048576 100 0
        sync /d/f - 0 0 0
        sync /d/f - 0 0 0
        truncate /d/f - 0 50000 0
        open /d/f - 0 0 0
        write /d/f - 50000 3 3
        open /d/f - 0 0 0
        link /d/f /d/g 0 0 0
        rename /d/g /h 0 0 0
        symlink /s - 0 0 0
        readlink /s - 0 0 0
        setattr /h - 0 0 0
        open /h - 0 0 0
        sync /h - 0 0 0
        unlink /s - 0 0 0
        unlink /h - 0 0 0
        unlink /d/f - 0 0 0
        rmdir /d - 0 0 0";
    lines.lines().map(|line| line.trim().to_owned()).collect()
}

/// The records in the form of [`expected`], without what the kernel asks of its own accord: names and attributes, and pages.
fn told(sandbox: &Sandbox, records: &[Value]) -> Vec<String> {
    let below = sandbox.home().canonicalize().expect("home is there");
    let short = |path: &str| path.strip_prefix(below.to_str().expect("UTF-8")).unwrap_or("-").to_owned();
    let asked = |record: &&Value| {
        let by_itself = ["stat", "getxattr", "other", "statfs", "readdir"].contains(&text(record, "op")) || has_flag(record, "mapped");
        !by_itself && !short(text(record, "file")).is_empty()
    };
    let line = |record: &Value| {
        let (file, other) = (short(text(record, "file")), short(text(record, "other")));
        format!("{} {file} {other} {} {} {}", text(record, "op"), record["offset"], record["size"], record["result"])
    };
    records.iter().filter(asked).map(line).collect()
}

fn check_known(sandbox: &Sandbox) {
    let records = records(sandbox);
    let (mut closes, others): (Vec<String>, Vec<String>) = told(sandbox, &records).into_iter().partition(|line| line.starts_with("close "));
    assert_eq!(others, expected());
    closes.sort();
    assert_eq!(closes, ["close /d/f - 0 0 0", "close /d/f - 0 0 0", "close /d/f - 0 0 0", "close /h - 0 0 0"]);
    // The kernel brings and takes the pages of a mapping by itself, as many as it likes.
    let mapped = |op: &str| records.iter().any(|record| text(record, "op") == op && has_flag(record, "mapped"));
    assert!(mapped("read") && mapped("write"), "{records:#?}");
    let appended: Vec<&Value> = records.iter().filter(|record| has_flag(record, "append") && text(record, "op") == "write").collect();
    assert_eq!(appended.len(), 1);
    let writers: BTreeSet<u64> =
        records.iter().filter(|record| text(record, "op") == "open").map(|record| record["pid"].as_u64().expect("a process")).collect();
    assert_eq!(writers.len(), 1, "one process has opened everything");
}

#[test]
fn a_trace_lists_what_a_program_does_and_nothing_else() {
    if !machine_has(&["python3"]) {
        return;
    }
    let sandbox = Sandbox::new();
    fs::write(sandbox.outside().join("known.py"), KNOWN).expect("room outside");
    traced(&sandbox, "python3 -I \"$OUTSIDE/known.py\" \"$HOME_DIR\"").expect_code(0);
    check_known(&sandbox);
    assert!(!is_mounted(&sandbox.home()) && fs::read_dir(sandbox.home()).expect("home is readable").count() == 0);
}

#[test]
fn an_instance_traces_what_a_program_does_and_nothing_else() {
    if !machine_has(&["python3"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (script, path) = (sandbox.outside().join("known.py"), out(&sandbox));
    fs::write(&script, KNOWN).expect("room outside");
    let (script, path, mount) = (script.display().to_string(), path.display().to_string(), sandbox.mount().display().to_string());
    let ended = sandbox.run(AMPLE, &["--trace", &path], &["python3", "-I", &script, &mount]).expect_code(0);
    assert!(ended.stderr.contains("trace.fbt: "), "{}", ended.stderr);
    check_known(&sandbox);
    sandbox.assert_clean();
    let info = tool(&sandbox, &["info", "--json", "trace.fbt"]).expect_code(0).stdout;
    assert!(info.contains("\"buffer.chunk\"") && info.contains("1MiB"), "{info}");
}

#[test]
fn every_program_shows_whatever_it_uses() {
    if !machine_has(&["tar", "dd", "python3"]) {
        return;
    }
    let sandbox = Sandbox::new();
    fs::write(sandbox.home().join("input"), vec![7; 1_000_000]).expect("a file");
    let script = r#"cd "$HOME_DIR"; cat input >copy; mkdir more; cp copy more/twin; tar cf all.tar input more; tar xf all.tar -C more
        dd if=input of=straight bs=64k oflag=direct iflag=direct status=none; cmp input straight
        cp "$EXERCISE" program; ./program --help >/dev/null
        python3 -I -c 'import mmap; f = open("copy", "rb"); print(sum(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)[:4096]))'"#;
    let ended = traced(&sandbox, script).expect_code(0);
    assert_eq!(ended.stdout, "28672\n");
    let records = records(&sandbox);
    let read_of = |file: &str, flag: Option<&str>| {
        let path = sandbox.home().canonicalize().expect("home").join(file).display().to_string();
        let reads = records.iter().filter(|record| text(record, "op") == "read" && text(record, "file") == path);
        reads.filter(|record| flag.is_none_or(|flag| has_flag(record, flag))).filter_map(|record| record["result"].as_u64()).sum::<u64>()
    };
    // cat, tar, dd and cmp, of which some may give the kernel the whole task.
    assert!(read_of("input", None) >= 3_000_000, "{}", read_of("input", None));
    assert_eq!(read_of("input", Some("direct")), 1_000_000, "past the cache");
    assert!(read_of("program", Some("mapped")) > 0, "what is executed is mapped");
    assert!(read_of("copy", Some("mapped")) > 0);
    let commands: BTreeSet<&str> = records.iter().map(|record| text(record, "command")).collect();
    for command in ["cat", "tar", "dd", "cmp", "python3", "mkdir"] {
        assert!(commands.iter().any(|one| one.starts_with(command)), "{command}: {commands:?}");
    }
}

/// Random operations in step with a plain directory: the directory behind the mount must do what it does without.
#[test]
fn passing_through_changes_nothing() {
    if !machine_has(&[]) {
        return;
    }
    for seed in seeds("passing_through_changes_nothing", 3) {
        let sandbox = Sandbox::new();
        let script = format!("cd \"$HOME_DIR\"; \"$EXERCISE\" compare --seed {seed} --steps 1500 --plain {}", sandbox.plain().display());
        traced(&sandbox, &script).expect_code(0);
        let plain = listing::list(&sandbox.plain()).expect("the plain directory is readable");
        listing::assert_same(&plain, &sandbox.home_tree(), Times::Set, "the directory behind the mount against a plain one");
    }
}

#[test]
fn the_end_of_the_command_is_handed_on() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    traced(&sandbox, "exit 7").expect_code(7);
    traced(&sandbox, "kill -KILL $$").expect_code(128 + 9);
    for (command, code) in [("no-such-program", 127), ("/etc/passwd", 126)] {
        let mut command_line = trace(&sandbox, &["-o", "trace.fbt"]);
        command_line.args(["--", command]);
        Process::start(command_line, &sandbox.outside(), "trace").wait(DEADLINE).expect_code(code);
    }
    let mut command = trace(&sandbox, &["-o", "trace.fbt"]);
    command.args(["--", "sh", "-c", "trap 'exit 9' TERM; : >\"$OUTSIDE/ready\"; while :; do sleep 0.1; done"]);
    let mut run = Process::start(command, &sandbox.outside(), "trace");
    let ready = sandbox.outside().join("ready");
    assert!(eventually(DEADLINE, || ready.exists() || !run.runs()) && ready.exists(), "{}", run.stderr());
    run.signal(Signal::TERM);
    run.wait(DEADLINE).expect_code(9);
    assert_eq!(tool(&sandbox, &["cat", "trace.fbt"]).expect_code(0).stderr, "");
    // Where it stands is traced, under a name of the command's, unless something else is said.
    let mut command = sandbox.forebay("trace");
    command.args(["--", "/bin/sh", "-c", "echo here >file"]).current_dir(sandbox.plain());
    Process::start(command, &sandbox.outside(), "trace").wait(DEADLINE).expect_code(0);
    assert!(sandbox.plain().join("sh.fbt").exists() && sandbox.plain().join("file").exists());
    let sandbox_run = sandbox.run(AMPLE, &["--trace", "x.fbt", "--kernel-cache", "write-back"], &["true"]).expect_code(USAGE);
    assert!(sandbox_run.stderr.contains("--kernel-cache"), "{}", sandbox_run.stderr);
}

/// What was done until then can be read, and says that it was cut off.
#[test]
fn a_trace_that_is_cut_off_by_a_kill_can_be_read() {
    if !machine_has(&[]) {
        return;
    }
    let script = "cd \"$PLACE\"; n=0; while :; do n=$((n+1)); echo $n >file$((n%10)) || exit 5; done";
    for over_home in [true, false] {
        let sandbox = Sandbox::new();
        let command = if over_home {
            let mut command = trace(&sandbox, &["-o", "trace.fbt"]);
            command.env("PLACE", sandbox.home()).args(["--", "sh", "-c", script]);
            command
        } else {
            let mut command = sandbox.run_command(TIGHT);
            command.arg("--trace").arg(out(&sandbox)).env("PLACE", sandbox.mount()).args(["--", "sh", "-c", script]);
            command
        };
        let mut run = Process::start(command, &sandbox.outside(), "killed");
        // It can be read while it is written.
        let written = || tool(&sandbox, &["cat", "--json", "trace.fbt"]).stdout.lines().count();
        assert!(eventually(DEADLINE, || written() > 100 || !run.runs()), "{} {}", written(), run.stderr());
        run.signal(Signal::KILL);
        run.wait(DEADLINE).expect_code(128 + 9);
        let shown = tool(&sandbox, &["cat", "--json", "trace.fbt"]).expect_code(0);
        assert!(shown.stderr.contains("cut off"), "{}", shown.stderr);
        let writes = shown.stdout.lines().filter(|line| line.contains("\"write\"")).count();
        assert!(writes > 10, "{writes}");
        if over_home {
            assert!(!is_mounted(&sandbox.home()));
        } else {
            sandbox.recover().expect_code(0);
        }
    }
}

#[test]
fn many_processes_at_a_time_are_told_apart() {
    if !machine_has(&["dd"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let script = r#"cd "$HOME_DIR"; for p in 1 2 3 4 5 6 7 8 9 10 11 12; do
        dd if=/dev/zero of=file$p bs=1000 count=200 status=none & done; wait"#;
    traced(&sandbox, script).expect_code(0);
    let records = records(&sandbox);
    let writes: Vec<&Value> = records.iter().filter(|record| text(record, "op") == "write").collect();
    assert_eq!(writes.len(), 12 * 200);
    let who: BTreeSet<(u64, &str)> =
        writes.iter().map(|record| (record["pid"].as_u64().expect("a process"), text(record, "file"))).collect();
    assert_eq!(who.len(), 12, "{who:?}");
    assert!(writes.iter().all(|record| text(record, "command") == "dd"), "{writes:?}");
    for (pid, _) in who {
        let offsets = writes.iter().filter(|record| record["pid"] == pid).filter_map(|record| record["offset"].as_u64());
        assert!(offsets.eq((0..200).map(|number| number * 1000)));
    }
}

/// Without root: in a user namespace, in which the user stays who he is.
#[test]
fn an_ordinary_user_traces_at_the_same_paths() {
    if !machine_has(&["setpriv", "chown"]) || !is_root() {
        eprintln!("SKIPPED: only root can become another user");
        return;
    }
    const USER: &str = "65534";
    let sandbox = Sandbox::new();
    fs::write(sandbox.home().join("old"), "old").expect("a file");
    process::run("chown", &["-R".as_ref(), "65534:65534".as_ref(), sandbox.folder().as_os_str()]);
    // The program itself may lie where only its owner reaches it.
    let copy = sandbox.folder().join("forebay");
    fs::copy(program("forebay"), &copy).expect("a copy of the program");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]).arg(&copy).args(["trace", "-o"]).arg(out(&sandbox));
    let script = "id -u; pwd; cat old; echo; echo new >new; stat -c '%u %g %a' new; chmod 600 new; mv new newer; mkfifo pipe; \
        cat pipe >copied & echo through >pipe; wait; touch -d '2001-02-03 04:05:06' old; test ! -w /; ls";
    command.args(["--", "sh", "-ec", script]).current_dir(sandbox.home()).env("HOME", sandbox.folder());
    let ended = Process::start(command, &sandbox.outside(), "user").wait(DEADLINE);
    if ended.code() == UNAVAILABLE {
        assert!(ended.stderr.contains("mend it with: "), "{}", ended.stderr);
        eprintln!("SKIPPED: this machine forbids user namespaces: {}", ended.stderr);
        return;
    }
    let ended = ended.expect_code(0);
    let place = sandbox.home().canonicalize().expect("home");
    assert_eq!(ended.stdout, format!("{USER}\n{}\nold\n{USER} {USER} 644\ncopied\nnewer\nold\npipe\n", place.display()));
    let tree = sandbox.home_tree();
    assert!(tree.values().all(|object| object.uid == 65534 && object.gid == 65534), "{tree:?}");
    assert_eq!(fs::read_to_string(sandbox.home().join("copied")).expect("it is there"), "through\n");
    let records = records(&sandbox);
    let newer = place.join("newer").display().to_string();
    assert!(records.iter().any(|record| text(record, "op") == "rename" && text(record, "other") == newer), "{records:?}");
    assert!(records.iter().all(|record| Path::new(text(record, "file")).starts_with(&place)), "{records:?}");
}

/// M-05: sizes are right, and nothing behind is touched.
#[test]
fn an_empty_directory_keeps_sizes_and_no_bytes() {
    if !machine_has(&["dd"]) {
        return;
    }
    let sandbox = Sandbox::new();
    fs::write(sandbox.home().join("real"), "real").expect("a file");
    let before = sandbox.home_tree();
    let script = r#"cd "$HOME_DIR"; test ! -e real; mkdir d; dd if=/dev/urandom of=d/f bs=64k count=20 status=none; stat -c %s d/f
        test "$(tr -d '\0' <d/f | wc -c)" = 0; wc -c <d/f; mv d/f g; ls; ls d; rm g; rmdir d; ls | wc -l"#;
    let mut command = trace(&sandbox, &["--empty", "-o", "trace.fbt"]);
    command.args(["--", "sh", "-ec", script]);
    let ended = Process::start(command, &sandbox.outside(), "trace").wait(DEADLINE).expect_code(0);
    assert_eq!(ended.stdout, "1310720\n1310720\nd\ng\n0\n");
    listing::assert_same(&before, &sandbox.home_tree(), Times::All, "the directory behind");
    let writes = records(&sandbox).iter().filter(|record| text(record, "op") == "write").count();
    assert_eq!(writes, 20);
}
