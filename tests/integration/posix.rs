//! A mount behaves as a plain directory does, operation by operation, and the home receives what a plain directory would hold.

use forebay_tests::listing::{self, Times};
use forebay_tests::process::{is_root, machine_has, program, run};
use forebay_tests::random::seeds;
use forebay_tests::sandbox::{AMPLE, Sandbox, Size, TIGHT};

/// Random operations in lock step on the mount and on a plain directory.
fn compare(seed: u64, steps: u64, size: Size, options: &[&str]) {
    let sandbox = Sandbox::new();
    let plain = sandbox.plain();
    let script = format!("\"$EXERCISE\" compare --seed {seed} --steps {steps} --plain {}", plain.display());
    let (_, home) = sandbox.run_and_compare(size, options, &script);
    let plain = listing::list(&plain).expect("the plain directory is readable");
    // The root itself was made with other attributes.
    let (plain, home) = (listing::without(&plain, &["."]), listing::without(&home, &["."]));
    listing::assert_same(&plain, &home, Times::Set, &format!("seed {seed}: home against the plain directory"));
}

#[test]
fn random_operations_with_ample_room() {
    if !machine_has(&[]) {
        return;
    }
    for seed in seeds("random_operations_with_ample_room", 6) {
        compare(seed, 1200, AMPLE, &[]);
    }
}

#[test]
fn random_operations_far_beyond_the_capacity() {
    if !machine_has(&[]) {
        return;
    }
    for seed in seeds("random_operations_far_beyond_the_capacity", 6) {
        compare(1000 + seed, 1200, TIGHT, &["--write-back-delay", "0ms"]);
    }
}

#[test]
fn random_operations_with_every_replacement_and_write_back() {
    if !machine_has(&[]) {
        return;
    }
    let names = ["fifo", "lru", "lfu", "lfuda", "s3-fifo", "sieve", "arc", "lirs", "w-tinylfu"];
    for seed in seeds("random_operations_with_every_replacement_and_write_back", 9) {
        let name = names[seed as usize % names.len()];
        let write_back = ["async", "sync"][seed as usize / 3 % 2];
        compare(2000 + seed, 600, TIGHT, &["--replacement", name, "--write-back", write_back]);
    }
}

#[test]
fn random_operations_with_the_kernels_write_back_cache() {
    if !machine_has(&[]) {
        return;
    }
    for seed in seeds("random_operations_with_the_kernels_write_back_cache", 3) {
        compare(3000 + seed, 800, TIGHT, &["--kernel-cache", "write-back"]);
    }
}

#[test]
fn soak_random_operations() {
    if !machine_has(&[]) || std::env::var_os("FOREBAY_SOAK_MINUTES").is_none() {
        return;
    }
    for seed in seeds("soak_random_operations", 0) {
        let size = if seed % 3 == 0 { AMPLE } else { TIGHT };
        compare(seed, 4000, size, &["--write-back-delay", ["0ms", "20ms", "500ms"][seed as usize % 3]]);
    }
}

/// One file of ten times the capacity flows through, with overwrites of what has long gone home.
#[test]
fn one_file_of_ten_times_the_capacity() {
    if !machine_has(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let script = "\"$EXERCISE\" flow large --blocks 320 --seed 5 >\"$OUTSIDE\"/crc";
    let (_, home) = sandbox.run_and_compare(TIGHT, &[], script);
    assert_eq!(home["large"].size, Some(320 * (256 << 10)), "ten times 8 MiB");
    let told = std::fs::read_to_string(sandbox.outside().join("crc")).expect("the application told its checksum");
    assert_eq!(format!("{:08x}", home["large"].crc.expect("a file has a checksum")), told.trim());
}

/// An ordinary user, without any right of root.
#[test]
fn an_ordinary_user_can_run_it() {
    if !machine_has(&["setpriv", "fusermount3"]) {
        return;
    }
    if !is_root() {
        // The other tests are that already.
        eprintln!("SKIPPED: this is an ordinary user");
        return;
    }
    let sandbox = Sandbox::new();
    let (user, group) = (65_534, 65_534);
    run("chown", &["-R".as_ref(), "65534:65534".as_ref(), sandbox.folder().as_os_str(), sandbox.memory().as_os_str()]);
    let folder = sandbox.folder();
    for place in [folder, sandbox.memory()] {
        run("chmod", &["755".as_ref(), place.as_os_str()]);
    }
    // The programs may stand where only root can read.
    let programs = sandbox.folder().join("bin");
    std::fs::create_dir(&programs).expect("a directory for programs");
    for name in ["forebay", "exercise"] {
        std::fs::copy(program(name), programs.join(name)).expect("a copy of the program");
    }
    run("chmod", &["-R".as_ref(), "755".as_ref(), programs.as_os_str()]);

    let script = format!(
        "cd {folder} && exec {programs}/forebay run --backing home --mount mount --buffer buffer --memory-dir {memory} \
         --capacity 8MiB --memory 2MiB --chunk 64KiB -- sh -ec '\
         {programs}/exercise compare --seed 77 --steps 500 --plain {folder}/plain; id -u >{folder}/outside/uid; \
         {programs}/exercise flow large --blocks 100 --seed 3 >{folder}/outside/crc; \
         {programs}/exercise list . {folder}/outside/shown.json'",
        folder = folder.display(),
        programs = programs.display(),
        memory = sandbox.memory().display(),
    );
    let identity = [format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".into()];
    // Not --no-new-privs: fusermount3 is set-uid, which is what lets an ordinary user mount.
    let mut command = std::process::Command::new("setpriv");
    command.args(identity).args(["sh", "-c", &script]).env("HOME", folder);
    forebay_tests::process::Process::start(command, folder, "user").wait(forebay_tests::process::DEADLINE).expect_code(0);

    let home = sandbox.home_tree();
    let shown = forebay_tests::process::read_json(&sandbox.outside().join("shown.json")).expect("the mount was listed");
    listing::assert_same(&shown, &home, Times::All, "home against what the mount showed to an ordinary user");
    assert_eq!(std::fs::read_to_string(sandbox.outside().join("uid")).expect("the user was told").trim(), "65534");
    assert!(home.values().all(|object| object.uid == user && object.gid == group), "everything belongs to the user");
    sandbox.assert_clean();
}
