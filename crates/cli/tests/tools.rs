//! The commands that need no instance: `doctor`, `debug`, `man`, `completions`.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const USAGE: i32 = 64;
const UNAVAILABLE: i32 = 69;
const CONFIG: i32 = 78;

/// Runs `forebay` in a directory, with nothing from the surroundings.
fn forebay(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(arguments).current_dir(folder).env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin");
    command.env("HOME", folder).env("XDG_RUNTIME_DIR", folder);
    command.output().expect("forebay starts")
}

#[track_caller]
fn expect(output: &Output, status: i32) -> (String, String) {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned());
    assert_eq!(output.status.code(), Some(status), "{stdout}\n{stderr}");
    (stdout, stderr)
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a directory for the test")
}

#[test]
fn doctor_says_what_is_there_and_how_to_mend_what_is_not() {
    let folder = folder();
    let output = forebay(folder.path(), &["doctor", "--json"]);
    let checks: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks = checks.as_array().expect("a list");
    let names: Vec<&str> = checks.iter().filter_map(|check| check["name"].as_str()).collect();
    assert_eq!(
        names,
        ["/dev/fuse", "fusermount3", "takeover", "user_allow_other", "/dev/shm", "buffer disk", "private mounts", "io_uring"]
    );
    for check in checks {
        assert_eq!(check["state"] == "ok", check["mend"].is_null(), "{check}");
    }
    let missing = checks.iter().any(|check| check["state"] == "missing");
    assert_eq!(output.status.code(), Some(if missing { UNAVAILABLE } else { 0 }), "the exit status says whether a mount is possible");
    let (text, _) = expect(&forebay(folder.path(), &["doctor"]), if missing { UNAVAILABLE } else { 0 });
    assert_eq!(
        text.lines().filter(|line| line.contains("mend it with: ")).count(),
        checks.iter().filter(|check| check["state"] != "ok").count(),
        "{text}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).expect("the directory").count(), 0, "it changes nothing");
}

/// An ordinary user without the helper cannot mount; root can. The test is of both, where it runs as root.
#[test]
fn doctor_tells_a_machine_that_lacks_something() {
    let folder = folder();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", env!("CARGO_BIN_EXE_forebay"), "doctor"]);
    let output = command.env("HOME", folder.path()).output();
    let Ok(able) = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).map(|text| text.contains("fusermount3"))
    else {
        eprintln!("SKIPPED: there is no setpriv here");
        return;
    };
    if !able {
        eprintln!("SKIPPED: this user cannot become another, or another cannot reach the program");
        return;
    }
    // `setpriv` is found by the search path of this process, the helper by the one that is given.
    let setpriv = ["/usr/bin/setpriv", "/bin/setpriv"].into_iter().find(|path| Path::new(path).exists()).expect("setpriv, which just ran");
    let mut command = Command::new(setpriv);
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", env!("CARGO_BIN_EXE_forebay"), "doctor"]);
    let output = command.env("PATH", "/nonexistent").env("HOME", folder.path()).output().expect("it runs");
    let (text, _) = expect(&output, UNAVAILABLE);
    assert!(text.contains("MISSING  fusermount3: is not installed\n"), "{text}");
    assert!(text.contains(" fuse3\n"), "the command that installs it: {text}");
    assert!(text.contains("nothing can be mounted"), "{text}");
}

#[test]
fn man_writes_a_page_for_each_command() {
    let folder = folder();
    let (page, _) = expect(&forebay(folder.path(), &["man"]), 0);
    assert!(page.contains(".TH forebay 1") && page.contains("forebay\\-run(1)"), "{page}");
    expect(&forebay(folder.path(), &["man", "--out", "."]), 0);
    for name in ["forebay.1", "forebay-run.1", "forebay-status.1", "forebay-doctor.1"] {
        let page = std::fs::read_to_string(folder.path().join(name)).expect(name);
        assert!(page.contains(".SH SYNOPSIS"), "{name}: {page}");
    }
    let run = std::fs::read_to_string(folder.path().join("forebay-run.1")).expect("the page of run");
    assert!(run.contains("\\-\\-backing") && run.contains("\\-\\-write\\-back\\-delay"), "its options are in it: {run}");
    let (_, message) = expect(&forebay(folder.path(), &["man", "--out", "nowhere"]), CONFIG);
    assert!(message.contains("nowhere") && message.contains("--out"), "{message}");
}

#[test]
fn completions_are_scripts_of_the_shell() {
    let folder = folder();
    for shell in ["bash", "zsh", "fish"] {
        let (script, _) = expect(&forebay(folder.path(), &["completions", shell]), 0);
        for word in ["write-back-delay", "doctor", "recover"] {
            assert!(script.contains(word), "{shell}: {word} is missing");
        }
        for hidden in ["flush-kernel", "probe-over", "background-child"] {
            assert!(!script.contains(hidden), "{shell}: {hidden} is nothing for users");
        }
    }
    let (script, _) = expect(&forebay(folder.path(), &["completions", "bash"]), 0);
    std::fs::write(folder.path().join("script"), script).expect("room");
    let checked = Command::new("bash").args(["-n", "script"]).current_dir(folder.path()).status().expect("bash");
    assert!(checked.success(), "bash does not understand it");
    let (_, message) = expect(&forebay(folder.path(), &["completions", "tcsh"]), USAGE);
    assert!(message.contains("tcsh") && message.contains("bash"), "{message}");
}

#[test]
fn debug_writes_an_archive_that_tar_reads_and_never_over_a_file() {
    let folder = folder();
    let config = folder.path().join("config.toml");
    std::fs::write(&config, "backing = \"/data\"\nmemory = \"3MiB\"\n").expect("room");
    expect(&forebay(folder.path(), &["debug", "--config", "config.toml", "--out", "a.tar"]), 0);
    let listed = Command::new("tar").args(["-tf", "a.tar"]).current_dir(folder.path()).output().expect("tar");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for part in ["README.txt", "version.txt", "settings.txt", "doctor.json", "mounts.txt"] {
        assert!(listed.lines().any(|line| line == format!("forebay-debug/{part}")), "{part} is not in {listed}");
    }
    let settings =
        Command::new("tar").args(["-xOf", "a.tar", "forebay-debug/settings.txt"]).current_dir(folder.path()).output().expect("tar");
    let settings = String::from_utf8_lossy(&settings.stdout).into_owned();
    assert!(settings.contains("/data") && settings.contains("config.toml, line 2"), "{settings}");
    let before = std::fs::read(folder.path().join("a.tar")).expect("the archive");
    let (_, message) = expect(&forebay(folder.path(), &["debug", "--out", "a.tar"]), CONFIG);
    assert!(message.contains("a.tar") && message.contains("--out"), "{message}");
    assert_eq!(std::fs::read(folder.path().join("a.tar")).expect("the archive"), before);
    // Settings that cannot be read are what the report is about.
    std::fs::write(&config, "nonsense = 1\n").expect("room");
    expect(&forebay(folder.path(), &["debug", "--config", "config.toml", "--out", "b.tar"]), 0);
    let text = String::from_utf8_lossy(&std::fs::read(folder.path().join("b.tar")).expect("the archive")).into_owned();
    assert!(text.contains("there is no setting \"nonsense\""), "the error is in the archive");
}
