//! Mounts in front of I/O servers: files are what they would be in a plain directory, also when servers are killed, and nobody gets in
//! without the key.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use forebay_tests::listing::{self, Times, Tree};
use forebay_tests::process::{DEADLINE, Process, eventually, kernel_resends, kill_server, machine_has, program};
use forebay_tests::random::Random;
use forebay_tests::sandbox::{AMPLE, Sandbox, TIGHT};
use forebay_tests::servers::Servers;
use rustix::process::Signal;

/// The policies of two servers that a mount uses at the same time.
const POLICIES: [&str; 2] = ["ssdup+", "ibridge"];

/// A tree is packed and unpacked, renamed, cut, linked and given attributes.
const SESSION: &str = r#"
mkdir -p tree/deep/er
for i in $(seq 30); do head -c $((i * 1700)) /dev/zero | tr '\0' "x" >tree/deep/file$i; done
seq 400000 >tree/numbers
tar cf tree.tar tree
mkdir again && tar xf tree.tar -C again
cmp tree/numbers again/tree/numbers
mv again/tree/deep again/moved
rm tree/deep/file1?
ln tree/numbers twin; ln -s tree/numbers pointer
truncate -s 1000000 tree/numbers
printf 'behind a hole' | dd of=tree/sparse bs=1 seek=3000000 conv=notrunc status=none
fallocate --punch-hole --offset 40000 --length 300000 twin
chmod 640 tree/sparse; touch -d '2001-02-03 04:05:06.789' tree/sparse
mkfifo pipe
printf 'new' >draft && mv draft tree.tar
python3 -c 'import os; os.setxattr("pointer", b"user.origin", b"here")' 2>/dev/null || true
"#;

/// Policies change while files are written and read, and nobody notices.
#[test]
fn policies_change_while_a_session_runs() {
    if !machine_has(&["python3"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let servers = Servers::start(&sandbox, &["all", "ssdup"]);
    let plain = sandbox.run_plain(SESSION);
    let shown = sandbox.outside().join("changed.json");
    let script = format!(
        ": >\"$OUTSIDE\"/begun\n{SESSION}\nuntil test -e \"$OUTSIDE\"/changed || test ! -e \"$OUTSIDE\"; do :; done\nseq 90000 >late\n\"$EXERCISE\" list . \"$SHOWN\"\n"
    );
    let mut command = servers.run_command(TIGHT);
    command.args(["--write-back-delay", "0ms", "--", "sh", "-ec", &script]);
    command.env("EXERCISE", program("exercise")).env("OUTSIDE", sandbox.outside()).env("SHOWN", &shown);
    let mut run = Process::start(command, &sandbox.outside(), "run");
    assert!(eventually(DEADLINE, || sandbox.outside().join("begun").exists() || !run.runs()), "it does not begin");
    for policy in ["none", "ssdup+", "ibridge", "all", "cut-off", "ssdup"] {
        for index in 0..2 {
            servers.ask(&["policy", servers.address(index), policy]).expect_code(0);
            assert_eq!(servers.status(index)["policy"], policy);
        }
    }
    fs::write(sandbox.outside().join("changed"), "").expect("room outside");
    run.wait(DEADLINE).expect_code(0);
    let shown: Tree = forebay_tests::process::read_json(&shown).expect("the mount was listed");
    servers.ask(&["drain", servers.address(0), servers.address(1)]).expect_code(0);
    let kept = servers.tree();
    listing::assert_same(&shown, &kept, Times::All, "the servers against what the mount showed");
    let without = |tree: &Tree| listing::without(tree, &[".", "late"]);
    let mut kept = without(&kept);
    kept.remove("late");
    listing::assert_same(&without(&plain), &kept, Times::Set, "the servers against a plain directory");
    let written: u64 = (0..2).map(|index| servers.status(index)["flushed_bytes"].as_u64().unwrap_or(0)).sum();
    assert!(written > 0, "nothing went by the SSDs");
}

#[test]
fn a_session_on_two_servers() {
    if !machine_has(&["python3"]) {
        return;
    }
    for size in [AMPLE, TIGHT] {
        let sandbox = Sandbox::new();
        let servers = Servers::start(&sandbox, &POLICIES);
        servers.same_as_plain(size, SESSION, &[]);
        let parts: Vec<u64> = (0..2).map(|index| fs::metadata(servers.home(index).join("tree/numbers")).expect("a part").len()).collect();
        assert_eq!(parts.iter().sum::<u64>(), 1_000_000, "stripes lie on both servers, densely: {parts:?}");
        assert!(parts.iter().all(|part| *part > 490_000), "{parts:?}");
    }
}

#[test]
fn databases_and_fio_on_two_servers() {
    if !machine_has(&["sqlite3", "fio"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let servers = Servers::start(&sandbox, &POLICIES);
    let script = r#"
sqlite3 a.db "pragma journal_mode=wal; create table t (n integer primary key, x blob);" >/dev/null
sqlite3 a.db "with recursive c(n) as (select 1 union all select n + 1 from c where n < 3000) insert into t select n, zeroblob(n) from c;"
test "$(sqlite3 a.db 'select count(*), sum(length(x)) from t')" = "3000|4501500"
fio --name=verify --filename=fio.dat --rw=randwrite --bs=3k --size=6m --verify=crc32c --do_verify=1 --randseed=7 --ioengine=psync --output=/dev/null
"#;
    let shown = servers.run_script(TIGHT, script);
    sandbox.assert_clean();
    listing::assert_same(&shown, &servers.tree(), Times::All, "the servers against what the mount showed");
    let check = r#"test "$(sqlite3 a.db 'pragma integrity_check')" = ok"#;
    let _ = servers.run_script(AMPLE, check);
}

/// Two mounts use the same servers at the same time, each for files of its own.
#[test]
fn two_mounts_at_a_time() {
    if !machine_has(&[]) {
        return;
    }
    let (sandbox, other) = (Sandbox::new(), Sandbox::new());
    let servers = Servers::start(&sandbox, &POLICIES);
    let start = |sandbox: &Sandbox, name: &str| {
        let script = format!(
            "mkdir {name}; cd {name}; for i in 1 2 3 4 5 6; do \"$EXERCISE\" flow data$i --blocks 4 --seed $i >\"$OUTSIDE\"/crc$i; done; rm data3; mv data4 moved"
        );
        let mut command = servers.run_command_in(sandbox, TIGHT);
        command.args(["--write-back-delay", "0ms", "--", "sh", "-ec", &script]);
        command.env("EXERCISE", program("exercise")).env("OUTSIDE", sandbox.outside());
        Process::start(command, &sandbox.outside(), "run")
    };
    let runs = [start(&sandbox, "one"), start(&other, "two")];
    runs.into_iter().for_each(|run| drop(run.wait(DEADLINE).expect_code(0)));
    let kept = servers.tree();
    for (sandbox, name) in [(&sandbox, "one"), (&other, "two")] {
        for (file, crc) in [("data1", 1), ("data2", 2), ("moved", 4), ("data5", 5), ("data6", 6)] {
            let told = fs::read_to_string(sandbox.outside().join(format!("crc{crc}"))).expect("the application told its checksum");
            let found = kept[&format!("{name}/{file}")].crc.expect("a file has a checksum");
            assert_eq!(format!("{found:08x}"), told.trim(), "{name}/{file}");
        }
    }
    assert!(!kept.contains_key("one/data3") && !kept.contains_key("two/data4"));
}

/// A single server holds whole files: its home is a directory like any other, with what it held before.
#[test]
fn one_server_holds_whole_files() {
    if !machine_has(&["python3"]) {
        return;
    }
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.folder().join("home-0")).expect("a home");
    fs::write(sandbox.folder().join("home-0/old"), "old").expect("a file");
    let servers = Servers::start(&sandbox, &["none"]);
    let shown = servers.run_script(TIGHT, &format!("test \"$(cat old)\" = old\n{SESSION}"));
    let mut home = listing::list(&servers.home(0)).expect("the home is readable");
    home.remove(".forebay").expect("the home says what it is");
    listing::assert_same(&shown, &home, Times::All, "the home against what the mount showed");
}

/// Servers are killed and started again while files are written and read: nobody notices more than a pause.
#[test]
fn servers_are_killed_and_come_back() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let mut servers = Servers::start(&sandbox, &POLICIES);
    let script = r#"
: >"$OUTSIDE"/begun
round=0
while test -e "$OUTSIDE"/begun && { test ! -e "$OUTSIDE"/enough || test $round -lt 6; }; do
  round=$((round + 1))
  "$EXERCISE" flow data$round --blocks 8 --seed $round >"$OUTSIDE"/crc$round
  mkdir dir$round; cp data$round dir$round/copy; cmp data$round dir$round/copy; mv dir$round kept$round
  test $round -lt 4 || rm -r kept$((round - 3)) data$((round - 3))
done
"$EXERCISE" list . "$SHOWN"
"#;
    let shown = sandbox.outside().join("killed.json");
    let mut command = servers.run_command(TIGHT);
    command.args(["--write-back-delay", "0ms", "--", "sh", "-ec", script]);
    command.env("EXERCISE", program("exercise")).env("OUTSIDE", sandbox.outside()).env("SHOWN", &shown);
    let mut run = Process::start(command, &sandbox.outside(), "run");
    assert!(eventually(DEADLINE, || sandbox.outside().join("begun").exists() || !run.runs()), "it does not begin");
    let mut random = Random::new(77);
    for kill in 0..6usize {
        let written = |servers: &Servers| fs::read_dir(servers.home(0)).map_or(0, Iterator::count);
        let before = written(&servers);
        // Not always at the same moment: after something has come home, or a little time.
        eventually(std::time::Duration::from_millis(random.size(300)), || written(&servers) > before + 1 || !run.runs());
        let _ = servers.end(kill % 2, Signal::KILL);
        servers.restart(kill % 2);
    }
    fs::write(sandbox.outside().join("enough"), "").expect("room outside");
    let ended = run.wait(DEADLINE).expect_code(0);
    assert!(ended.stderr.contains("is there again"), "it noticed nothing: {}", ended.stderr);
    let shown = forebay_tests::process::read_json(&shown).expect("the mount was listed");
    listing::assert_same(&shown, &servers.tree(), Times::All, "the servers against what the mount showed");
}

/// A server that stays away: the drain gives up and keeps the buffer, which is brought home when the server is there again.
#[test]
fn a_server_that_stays_away() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let mut servers = Servers::start(&sandbox, &POLICIES);
    let script =
        "seq 20000 >precious; : >\"$OUTSIDE\"/written; while test -e \"$OUTSIDE\"/written && test ! -e \"$OUTSIDE\"/gone; do :; done";
    let mut command = servers.run_command(AMPLE);
    command.args(["--write-back", "sync", "--server-wait", "200ms", "--", "sh", "-ec", script]).env("OUTSIDE", sandbox.outside());
    let mut run = Process::start(command, &sandbox.outside(), "run");
    assert!(eventually(DEADLINE, || sandbox.outside().join("written").exists() || !run.runs()), "nothing is written");
    servers.end(1, Signal::TERM).expect_code(0);
    fs::write(sandbox.outside().join("gone"), "").expect("room outside");
    let ended = run.wait(DEADLINE).expect_code(74);
    assert!(ended.stderr.contains("precious") && ended.stderr.contains("forebay recover"), "{}", ended.stderr);
    servers.restart(1);
    let mut recover = sandbox.forebay("recover");
    recover.arg("--buffer").arg(sandbox.buffer()).arg("--key-file").arg(servers.key());
    Process::start(recover, &sandbox.outside(), "recover").wait(DEADLINE).expect_code(0);
    sandbox.assert_clean();
    let _ = servers.run_script(AMPLE, "test \"$(seq 20000 | cksum)\" = \"$(cksum <precious)\"");
}

/// All of Forebay on the mount's side is killed, and the buffer brought home later.
#[test]
fn the_mount_is_killed_and_recovered() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let servers = Servers::start(&sandbox, &POLICIES);
    let script = "\"$EXERCISE\" flow data --blocks 8 --seed 5 >\"$OUTSIDE\"/crc; : >\"$OUTSIDE\"/written; while test -e \"$OUTSIDE\"/written && echo more >>more; do :; done";
    let mut command = servers.run_command(TIGHT);
    command.args(["--", "sh", "-ec", script]).env("EXERCISE", program("exercise")).env("OUTSIDE", sandbox.outside());
    let mut run = Process::start(command, &sandbox.outside(), "run");
    assert!(eventually(DEADLINE, || sandbox.outside().join("written").exists() || !run.runs()), "nothing is written");
    run.signal(Signal::KILL);
    assert_eq!(run.wait(DEADLINE).code(), 128 + 9);
    let mut recover = sandbox.forebay("recover");
    recover.arg("--buffer").arg(sandbox.buffer()).env("FOREBAY_KEY_FILE", servers.key());
    Process::start(recover, &sandbox.outside(), "recover").wait(DEADLINE).expect_code(0);
    let told = fs::read_to_string(sandbox.outside().join("crc")).expect("the application told its checksum");
    let kept = servers.tree();
    assert_eq!(format!("{:08x}", kept["data"].crc.expect("a file has a checksum")), told.trim());
}

/// The process that serves the mount is killed, and another takes over in front of the same servers.
#[test]
fn another_process_takes_over_in_front_of_servers() {
    if !machine_has(&[]) || !kernel_resends() {
        return;
    }
    let sandbox = Sandbox::new();
    let servers = Servers::start(&sandbox, &POLICIES);
    let script = r#"
exec 3>held
: >"$OUTSIDE"/begun
while test -e "$OUTSIDE"/begun && test ! -e "$OUTSIDE"/killed; do echo line >&3; "$EXERCISE" flow data --blocks 2 --seed 1 >/dev/null; done
echo last >&3
seq 30000 >after
"#;
    let mut command = servers.run_command(TIGHT);
    command.args(["--write-back-delay", "0ms", "--", "sh", "-ec", script]);
    command.env("EXERCISE", program("exercise")).env("OUTSIDE", sandbox.outside());
    let mut run = Process::start(command, &sandbox.outside(), "run");
    assert!(eventually(DEADLINE, || sandbox.outside().join("begun").exists() || !run.runs()), "it does not begin");
    for _ in 0..3 {
        let killed = kill_server(&mut run).expect("somebody serves");
        let other = || {
            let (server, state) = sandbox.server();
            server.is_some_and(|server| server != u64::from(killed)) && state == "running"
        };
        assert!(eventually(DEADLINE, || other() || !run.runs()), "nobody took over");
        assert!(run.runs(), "{}", run.stderr());
    }
    fs::write(sandbox.outside().join("killed"), "").expect("room outside");
    let ended = run.wait(DEADLINE).expect_code(0);
    assert!(ended.stderr.contains("was killed 3 times"), "{}", ended.stderr);
    let _ = servers.run_script(AMPLE, "test \"$(seq 30000 | cksum)\" = \"$(cksum <after)\"; test \"$(tail -n 1 held)\" = last");
}

#[test]
fn nobody_gets_in_without_the_key() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let servers = Servers::start(&sandbox, &["none"]);
    let other = sandbox.outside().join("other-key");
    fs::write(&other, "quite another key, long enough\n").expect("room outside");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).expect("our own file");
    let attempt = |options: &[&Path], key: Option<&str>| {
        let mut command = sandbox.forebay("run");
        command.args(["--servers", servers.address(0)]);
        sandbox.place_buffer(&mut command, AMPLE);
        command.args(options).envs(key.map(|key| ("FOREBAY_KEY", key))).args(["--", "true"]);
        Process::start(command, &sandbox.outside(), "attempt").wait(DEADLINE)
    };
    let with_other = [Path::new("--key-file"), &other];
    let refused = attempt(&with_other, None).expect_code(69);
    assert!(refused.stderr.contains("another key"), "{}", refused.stderr);
    let refused = attempt(&[], None).expect_code(78);
    assert!(refused.stderr.contains("--key-file"), "{}", refused.stderr);
    fs::set_permissions(&other, fs::Permissions::from_mode(0o644)).expect("our own file");
    let refused = attempt(&with_other, None).expect_code(78);
    assert!(refused.stderr.contains("chmod 600"), "{}", refused.stderr);
    let text = fs::read_to_string(servers.key()).expect("the key");
    attempt(&[], Some(text.trim())).expect_code(0);
    sandbox.assert_clean();
}

/// Whoever talks garbage, or nothing, or a part of something, is hung up on; the others do not notice.
#[test]
fn a_peer_that_talks_garbage() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let servers = Servers::start(&sandbox, &["none"]);
    let silent = TcpStream::connect(servers.address(0)).expect("it listens");
    for seed in 0..40 {
        let mut stream = TcpStream::connect(servers.address(0)).expect("it listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
        let mut bytes = Random::bytes(seed, 10 + 37 * seed as usize);
        if seed % 2 == 0 {
            bytes[..4].copy_from_slice(b"FBNT");
        }
        if seed % 4 == 0 {
            bytes[4..8].copy_from_slice(&[1, 0, 1, 0]);
            bytes[6] = 1;
            bytes[7] = 0;
        }
        // It may have hung up already.
        let _ = stream.write_all(&bytes).and_then(|()| stream.shutdown(Shutdown::Write));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 200, "{answer:?}");
    }
    drop(silent);
    let _ = servers.run_script(AMPLE, "echo works >file");
    assert_eq!(fs::read_to_string(servers.home(0).join("file")).expect("the file is home"), "works\n");
}

#[test]
fn servers_say_how_they_fare() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let mut servers = Servers::start(&sandbox, &POLICIES);
    assert_eq!(servers.status(0)["part"], serde_json::Value::Null);
    let _ = servers.run_script(AMPLE, "seq 10000 >file");
    let status = servers.status(1);
    assert_eq!(status["part"]["index"], 1);
    assert_eq!(status["part"]["servers"], 2);
    assert_eq!(status["part"]["stripe_bytes"], 4096);
    assert_eq!(status["policy"], POLICIES[1]);
    let text = servers.ask(&["status", servers.address(0), servers.address(1)]).expect_code(0).stdout;
    assert!(text.contains("part      0 of 2, stripes of 4 KiB") && text.contains("part      1 of 2"), "{text}");
    servers.ask(&["drain", servers.address(0), servers.address(1)]).expect_code(0);
    servers.ask(&["policy", servers.address(0), "none"]).expect_code(0);
    servers.ask(&["policy", servers.address(0), "nonsense"]).expect_code(64);
    servers.ask(&["status", "127.0.0.1:1"]).expect_code(69);
    // Another order, other stripes, the same home twice: all of that would be other bytes.
    let swapped = format!("{},{}", servers.address(1), servers.address(0));
    for (list, stripe) in [(&swapped, "4KiB"), (&servers.list(), "8KiB"), (&servers.address(0).to_owned(), "4KiB")] {
        let mut command = sandbox.forebay("run");
        command.args(["--servers", list, "--stripe", stripe]).arg("--key-file").arg(servers.key());
        sandbox.place_buffer(&mut command, AMPLE);
        command.args(["--", "true"]);
        let refused = Process::start(command, &sandbox.outside(), "refused").wait(DEADLINE).expect_code(78);
        assert!(refused.stderr.contains("holds part"), "{}", refused.stderr);
    }
    let second = servers.command(1, &sandbox.outside().join("never"));
    let refused = Process::start(second, &sandbox.outside(), "second").wait(DEADLINE).expect_code(78);
    assert!(refused.stderr.contains("served by another process"), "{}", refused.stderr);
    servers.end(0, Signal::TERM).expect_code(0);
    servers.end(1, Signal::INT).expect_code(0);
}
