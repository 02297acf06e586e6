//! Databases, which ask more of a file system than most: locks between processes, shared mappings, fsync in the right order, and all of it
//! right again after a crash.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use forebay_tests::process::{DEADLINE, Process, eventually, is_root, machine_has};
use forebay_tests::repository;
use forebay_tests::sandbox::{AMPLE, Sandbox, TIGHT};
use rustix::process::Signal;

const SQLITE_MODES: [&str; 4] = ["wal", "delete", "truncate", "persist"];

fn sqlite_writers() -> String {
    format!("python3 {}", repository::root().join("tests/programs/sqlite_writers.py").display())
}

/// Three processes write at once, one of them is killed and goes on.
#[test]
fn sqlite_with_concurrent_writers() {
    if !machine_has(&["python3"]) {
        return;
    }
    for (size, modes) in [(AMPLE, &SQLITE_MODES[..]), (TIGHT, &SQLITE_MODES[..2])] {
        let sandbox = Sandbox::new();
        let script = modes.iter().map(|mode| format!("{} {mode}.db {mode} 40 \"$OUTSIDE\"", sqlite_writers())).collect::<Vec<_>>();
        sandbox.run_and_compare(size, &[], &script.join("\n"));
        for mode in modes {
            check(&sandbox, mode);
        }
    }
}

/// The database at home, without Forebay.
#[track_caller]
fn check(sandbox: &Sandbox, mode: &str) {
    let mut check = Command::new("sh");
    check.args(["-ec", &format!("{} --check {mode}.db {}", sqlite_writers(), sandbox.outside().display())]).current_dir(sandbox.home());
    Process::start(check, &sandbox.outside(), "check").wait(DEADLINE).expect_code(0);
}

/// Forebay is killed while they write: after the recovery every row is there whose commit somebody was told of.
#[test]
fn sqlite_when_forebay_is_killed() {
    if !machine_has(&["python3"]) {
        return;
    }
    for mode in ["wal", "delete"] {
        let sandbox = Sandbox::new();
        let script = format!("{} {mode}.db {mode} 100000 \"$OUTSIDE\" 2>/dev/null", sqlite_writers());
        let mut command = sandbox.run_command(TIGHT);
        command.args(["--", "sh", "-c", &script]).env("OUTSIDE", sandbox.outside());
        let mut run = Process::start(command, &sandbox.outside(), "run");
        let told = sandbox.outside().join(format!("told-{mode}.db-2"));
        let rows = || std::fs::read_to_string(&told).map_or(0, |text| text.lines().count());
        assert!(eventually(DEADLINE, || rows() >= 25 || !run.runs()) && rows() >= 25, "the writers did not come far: {}", run.stderr());
        run.signal(Signal::KILL);
        assert_eq!(run.wait(DEADLINE).code(), 128 + 9);
        sandbox.recover().expect_code(0);
        check(&sandbox, mode);
        sandbox.assert_clean();
    }
}

/// Where Debian puts PostgreSQL's server programs.
fn postgres_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    versions.filter_map(|version| Some(version.ok()?.path().join("bin"))).filter(|path| path.join("initdb").exists()).max()
}

/// A cluster is made, filled and worked on by four clients; its checksums at home are right. It refuses to run as root, so the test does
/// not run without root.
#[test]
fn postgresql_makes_a_cluster_and_runs_pgbench() {
    if !machine_has(&["setpriv"]) || !is_root() {
        return;
    }
    let Some(programs) = postgres_programs() else {
        assert!(std::env::var_os("CI").is_none(), "PostgreSQL is not installed (scripts/setup)");
        eprintln!("SKIPPED: PostgreSQL is not installed (scripts/setup)");
        return;
    };
    for size in [AMPLE, TIGHT] {
        let sandbox = Sandbox::new();
        for (folder, mode) in [(sandbox.folder().to_owned(), 0o755), (sandbox.outside(), 0o777)] {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).expect("our own directory");
        }
        let script = format!(
            r#"as() {{ setpriv --reuid postgres --regid postgres --clear-groups env LC_ALL=C PATH="{programs}:$PATH" HOME=/ "$@"; }}
mkdir data; chown postgres:postgres data; chmod 700 data; cd data
server="-c listen_addresses= -k $OUTSIDE -c shared_buffers=16MB -c max_connections=20"
say() {{ "$@" >"$OUTSIDE"/said 2>&1 || {{ cat "$OUTSIDE"/said "$OUTSIDE"/server >&2; exit 1; }}; }}
say as initdb -D db -A trust --data-checksums
say as pg_ctl -D db -o "$server" -l "$OUTSIDE"/server -t 120 -w start
cluster=$PWD/db
trap 'as pg_ctl -D "$cluster" -m immediate stop >/dev/null 2>&1 || true' EXIT
say as pgbench -h "$OUTSIDE" -q -i -s 1 postgres
say as pgbench -h "$OUTSIDE" -c 4 -j 2 -t 40 postgres
say as psql -h "$OUTSIDE" -v ON_ERROR_STOP=1 -c 'vacuum full' -c 'checkpoint' -c 'reindex database postgres' postgres
test "$(as psql -h "$OUTSIDE" -Atc 'select count(*) = 160 and sum(delta) = (select sum(abalance) from pgbench_accounts) from pgbench_history' postgres)" = t
say as pg_ctl -D db -m fast -t 120 -w stop
cd .."#,
            programs = programs.display()
        );
        sandbox.run_and_compare(size, &["--allow-other"], &script);
        let cluster = sandbox.home().join("data/db");
        let mut check = Command::new("setpriv");
        check.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]).arg(programs.join("pg_checksums"));
        check.arg("--check").arg("-D").arg(&cluster).current_dir("/");
        Process::start(check, &sandbox.outside(), "checksums").wait(DEADLINE).expect_code(0);
    }
}
