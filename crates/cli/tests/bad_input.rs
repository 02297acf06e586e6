//! What is wrong is refused before anything is mounted: with a message that names it, and with the right exit status.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const USAGE: i32 = 64;
const DATA: i32 = 65;
const UNAVAILABLE: i32 = 69;
const BUFFER: i32 = 73;
const CONFIG: i32 = 78;

/// Directories of a test: `home` is there, everything else is up to it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().expect("a directory for the test");
        std::fs::create_dir(folder.path().join("home")).expect("a home");
        Place { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs `forebay` in the directory of the test, with nothing from the surroundings but these variables.
    fn forebay(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(arguments).current_dir(self.path()).env_clear().env("PATH", "/usr/bin:/bin");
        command.env("HOME", self.path()).env("XDG_RUNTIME_DIR", self.path()).envs(variables.iter().copied());
        command.output().expect("forebay starts")
    }

    /// Expects a refusal, with everything in `parts` in the message.
    #[track_caller]
    fn refuses(&self, arguments: &[&str], status: i32, parts: &[&str]) {
        self.refuses_with(arguments, &[], status, parts);
    }

    #[track_caller]
    fn refuses_with(&self, arguments: &[&str], variables: &[(&str, &str)], status: i32, parts: &[&str]) {
        let output = self.forebay(arguments, variables);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {message}");
        for part in parts {
            assert!(message.contains(part), "{arguments:?}: {message:?} lacks {part:?}");
        }
        assert!(!self.path().join("ran").exists(), "the command was run");
    }

    /// Expects `forebay run` with these options to be refused.
    #[track_caller]
    fn run_refuses(&self, options: &[&str], status: i32, parts: &[&str]) {
        let arguments: Vec<&str> = ["run"].iter().chain(options).chain(&["--", "touch", "ran"]).copied().collect();
        self.refuses(&arguments, status, parts);
        assert!(std::fs::read_dir(self.path().join("home")).map_or(true, |mut entries| entries.next().is_none()), "home was touched");
    }
}

#[test]
fn a_command_line_that_makes_no_sense() {
    let place = Place::new();
    place.refuses(&[], USAGE, &["Usage"]);
    place.refuses(&["rnu"], USAGE, &["rnu"]);
    place.refuses(&["run", "--backing", "home"], USAGE, &["CMD"]);
    place.run_refuses(&["--no-such-option"], USAGE, &["--no-such-option"]);
    place.run_refuses(&[], USAGE, &["--backing", "FOREBAY_BACKING"]);
    place.refuses(&["mount", "--backing", "home"], USAGE, &["--mount"]);
    place.refuses(&["recover"], USAGE, &["--buffer"]);
    place.refuses(&["drain"], USAGE, &["MOUNT", "--buffer"]);
    place.refuses(&["status", "/mnt", "--buffer", "b"], USAGE, &["--buffer"]);
    place.refuses(&["-q", "-v", "status"], USAGE, &["--quiet", "--verbose"]);
}

#[test]
fn help_and_version_are_no_errors() {
    let place = Place::new();
    for arguments in [&["--help"][..], &["run", "--help"], &["--version"]] {
        let output = place.forebay(arguments, &[]);
        assert_eq!(output.status.code(), Some(0));
        assert!(!output.stdout.is_empty() && output.stderr.is_empty());
    }
}

#[test]
fn sizes_that_make_no_buffer() {
    let place = Place::new();
    let run = |options: &[&str], status, parts: &[&str]| place.run_refuses(&[&["--backing", "home"], options].concat(), status, parts);
    run(&["--capacity", "12Q"], USAGE, &["--capacity", "12Q", "unit"]);
    run(&["--capacity", "-1"], USAGE, &["--capacity"]);
    run(&["--capacity", ""], USAGE, &["--capacity", "empty"]);
    run(&["--capacity", "0"], CONFIG, &["capacity of 0 B", "--capacity 2MiB"]);
    run(&["--capacity", "1MiB"], CONFIG, &["capacity of 1 MiB", "--capacity 2MiB"]);
    run(&["--capacity", "99999999999T"], USAGE, &["--capacity", "16 EiB"]);
    run(&["--capacity", "8000P"], CONFIG, &["7.81 EiB", "free", "--buffer"]);
    run(&["--memory", "0"], CONFIG, &["memory of 0 B", "--memory 512KiB"]);
    run(&["--memory", "1.5Gi"], USAGE, &["--memory", "1.5Gi"]);
    run(&["--chunk", "3MiB"], CONFIG, &["3145728", "--chunk 2MiB or 4MiB"]);
    run(&["--chunk", "0"], CONFIG, &["chunk", "4 KiB"]);
    run(&["--chunk", "1k"], CONFIG, &["chunk", "4 KiB"]);
    run(&["--chunk", "1MiB", "--capacity", "4MiB"], CONFIG, &["chunk of 1 MiB", "capacity of 4 MiB"]);
    run(&["--replacement", "mru"], USAGE, &["--replacement", "mru", "s3-fifo"]);
    run(&["--write-back", "later"], USAGE, &["--write-back", "async", "sync"]);
    run(&["--kernel-cache", "none"], USAGE, &["--kernel-cache", "write-through"]);
    run(&["--home-threads", "many"], USAGE, &["--home-threads", "256"]);
}

#[test]
fn directories_that_cannot_be_used() {
    let place = Place::new();
    std::fs::write(place.path().join("file"), "x").expect("a file");
    std::fs::create_dir_all(place.path().join("full/sub")).expect("a directory");
    std::fs::create_dir(place.path().join("empty")).expect("a directory");
    place.run_refuses(&["--backing", "absent"], CONFIG, &["backing", "absent", "does not exist"]);
    place.run_refuses(&["--backing", "file"], CONFIG, &["backing", "file", "no directory"]);
    place.run_refuses(&["--backing", "home", "--mount", "home"], CONFIG, &["mount point", "backing"]);
    place.run_refuses(&["--backing", "home", "--mount", "home/sub"], CONFIG, &["mount point", "inside the backing directory"]);
    place.run_refuses(&["--backing", "full/sub", "--mount", "full"], CONFIG, &["full", "not empty"]);
    place.run_refuses(&["--backing", "home", "--mount", "file"], CONFIG, &["mount point", "file", "no directory"]);
    place.run_refuses(&["--backing", "home", "--mount", "/proc"], CONFIG, &["/proc", "mounted there already"]);
    place.run_refuses(
        &["--backing", "home", "--mount", "absent/deep", "--buffer", "b"],
        CONFIG,
        &["absent/deep", "above it does not exist"],
    );
    assert!(!place.path().join("b").exists(), "a buffer was left behind");
    place.run_refuses(&["--backing", "home", "--buffer", "home/b"], CONFIG, &["buffer directory", "inside the backing directory"]);
    place.run_refuses(&["--backing", "home", "--buffer", "."], CONFIG, &["inside the buffer directory"]);
    place.run_refuses(&["--backing", "home", "--mount", "m", "--buffer", "m/b"], CONFIG, &["inside the mount point"]);
    place.run_refuses(&["--backing", "home", "--buffer", "full"], CONFIG, &["full", "\"sub\"", "no part of a buffer"]);
    place.run_refuses(&["--backing", "home", "--buffer", "file"], CONFIG, &["buffer", "file", "no directory"]);
    place.run_refuses(&["--backing", "home", "--buffer", "absent/deep"], CONFIG, &["absent/deep", "above it does not exist"]);
    place.run_refuses(&["--backing", "home", "--report", "absent/r.json"], CONFIG, &["report", "absent/r.json"]);
    place.run_refuses(&["--backing", "home", "--report", "full"], CONFIG, &["report", "is a directory"]);
    place.run_refuses(&["--backing", "home", "--record", "absent/r"], CONFIG, &["recording", "absent/r"]);
    place.run_refuses(&["--backing", "home", "--mount", "empty", "--record", "empty/r"], CONFIG, &["recording", "in the mount"]);
    place.run_refuses(&["--backing", "home", "--memory-dir", "absent"], CONFIG, &["absent", "--memory-dir"]);
    place.run_refuses(&["--backing", "home", "--memory-dir", "home"], CONFIG, &["memory directory", "inside the backing directory"]);
}

#[test]
fn a_path_that_is_no_text() {
    let place = Place::new();
    let odd = std::ffi::OsStr::from_bytes(b"no\xfftext");
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    let output =
        command.arg("run").arg("--backing").arg(odd).args(["--", "true"]).current_dir(place.path()).output().expect("forebay starts");
    assert_eq!(output.status.code(), Some(CONFIG), "{output:?}");
}

#[test]
fn a_file_or_a_variable_that_is_wrong() {
    let place = Place::new();
    let write = |text: &str| std::fs::write(place.path().join("c.toml"), text).expect("a configuration file");
    write("capacity = \"1GiB\"\ncapactiy = \"2GiB\"\n");
    place.refuses(&["config", "--config", "c.toml"], CONFIG, &["c.toml, line 2", "capactiy", "capacity"]);
    write("capacity = \"1GiB\n");
    place.refuses(&["config", "--config", "c.toml"], CONFIG, &["c.toml", "line 1"]);
    write("# sizes\nchunk = \"1X\"\n");
    place.refuses(&["config", "--config", "c.toml"], CONFIG, &["c.toml, line 2", "1X"]);
    place.refuses_with(&["config"], &[("FOREBAY_CONFIG", "c.toml")], CONFIG, &["c.toml, line 2", "1X"]);
    place.refuses(&["config", "--config", "absent.toml"], CONFIG, &["absent.toml", "--config"]);
    place.refuses_with(&["config"], &[("FOREBAY_CHUNK", "1X")], CONFIG, &["FOREBAY_CHUNK", "1X"]);
    place.refuses(&["config", "--chunk", "1X"], USAGE, &["--chunk", "1X"]);
}

#[test]
fn the_configuration_says_where_each_value_comes_from() {
    let place = Place::new();
    std::fs::write(place.path().join("c.toml"), "replacement = \"sieve\"\nchunk = \"64KiB\"\n").expect("a configuration file");
    let variables = [("FOREBAY_CHUNK", "128KiB"), ("FOREBAY_CHUNKS", "1")];
    let output = place.forebay(&["config", "--config", "c.toml", "--capacity", "1G"], &variables);
    let text = String::from_utf8(output.stdout).expect("text");
    let line = |name: &str| text.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap_or_default().to_string();
    assert!(line("capacity").contains("1GiB") && line("capacity").ends_with("--capacity"), "{text}");
    assert!(line("chunk").contains("128KiB") && line("chunk").ends_with("FOREBAY_CHUNK"), "{text}");
    assert!(line("replacement").contains("sieve") && line("replacement").ends_with("c.toml, line 1"), "{text}");
    assert!(line("write-back").contains("async") && line("write-back").ends_with("default"), "{text}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("FOREBAY_CHUNKS"), "an unknown variable is named");
    let toml = place.forebay(&["config", "--config", "c.toml", "--toml"], &variables).stdout;
    std::fs::write(place.path().join("again.toml"), toml).expect("a configuration file");
    let again = place.forebay(&["config", "--config", "again.toml"], &[]);
    let again = String::from_utf8(again.stdout).expect("text");
    assert!(again.lines().any(|line| line.starts_with("chunk") && line.contains("128KiB") && line.contains("again.toml")), "{again}");
}

#[test]
fn a_buffer_that_is_none() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("empty")).expect("a directory");
    place.refuses(&["recover", "--buffer", "absent"], BUFFER, &["absent"]);
    place.refuses(&["recover", "--buffer", "empty"], BUFFER, &["empty", "no buffer"]);
    std::fs::write(place.path().join("home/file"), "x").expect("a file");
    place.refuses(&["recover", "--buffer", "home"], BUFFER, &["home", "no buffer"]);
    std::fs::remove_file(place.path().join("home/file")).expect("the file is there");
    let damaged = place.path().join("damaged");
    std::fs::create_dir(&damaged).expect("a directory");
    for content in [&b"garbage that is no superblock at all"[..], b"", b"FOREBAY\n", b"FOREBAY\n\xff\xff\xff\xff\0\0\0\0\0\0\0\0"] {
        std::fs::write(damaged.join("superblock"), content).expect("a superblock");
        place.refuses(&["recover", "--buffer", "damaged"], DATA, &["damaged/superblock"]);
        place.run_refuses(&["--backing", "home", "--buffer", "damaged"], DATA, &["damaged/superblock"]);
    }
}

#[test]
fn an_instance_that_is_not_there() {
    let place = Place::new();
    for subcommand in ["status", "drain", "umount"] {
        place.refuses(&[subcommand, "home"], UNAVAILABLE, &["home", "no instance"]);
        place.refuses(&[subcommand, "--buffer", "home"], UNAVAILABLE, &["home", "no instance"]);
        place.refuses(&[subcommand, "--buffer", "absent"], UNAVAILABLE, &["absent", "no instance"]);
    }
    // The list is the user's: others of this user may run meanwhile.
    let output = place.forebay(&["status", "--json"], &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.starts_with('[') && !text.contains(&place.path().display().to_string()), "{text}");
}

#[test]
fn a_recording_that_is_none() {
    let place = Place::new();
    std::fs::write(place.path().join("text"), "hello").expect("a file");
    place.refuses(&["replay", "absent"], DATA, &["absent"]);
    place.refuses(&["replay", "text"], DATA, &["text", "not a recording"]);
}
