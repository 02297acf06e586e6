//! Unmodified applications, with more room than they need and with far less: what they leave at home is what they leave in a plain
//! directory.

use std::path::PathBuf;

use forebay_tests::listing::{self, Times, Tree};
use forebay_tests::process::{machine_has, run};
use forebay_tests::repository;
use forebay_tests::sandbox::{AMPLE, Sandbox, Size, TIGHT, same_as_plain};

fn animation(frames: u32, width: u32, height: u32) -> String {
    let rules = repository::root().join("tests/animation/Makefile");
    let scene = "/usr/share/povray-3.7/scenes/animations/camera2/camera2.pov";
    format!("make -s -j4 -f {} SCENE={scene} FRAMES={frames} WIDTH={width} HEIGHT={height}", rules.display())
}

/// Three frames of 800 KB each would fill the tight buffer's memory; all of them are more than its capacity.
#[test]
fn an_animation_rendered_by_make() {
    if !machine_has(&["povray", "make"]) {
        return;
    }
    for size in [AMPLE, TIGHT] {
        let home = same_as_plain(size, &[], &animation(12, 560, 480), &["logs/"]);
        let frames = home.keys().filter(|path| path.ends_with(".bmp")).count();
        assert_eq!(frames, 12, "{:?}", home.keys());
        let bytes: u64 = home.values().filter(|object| object.kind == "file").filter_map(|object| object.size).sum();
        assert!(bytes > 8 << 20, "{bytes} bytes would fit into the tight buffer");
    }
}

#[test]
fn an_animation_in_front_of_a_slow_home() {
    if !machine_has(&["povray", "make"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let script = animation(6, 320, 240);
    let plain = sandbox.run_plain(&script);
    let (store, slow) = sandbox.slow_home(&["--bandwidth", "10MiB", "--latency", "3ms"]);
    let (_, home) = sandbox.run_and_compare(TIGHT, &[], &script);
    drop(slow);
    let logs = &["logs/"];
    listing::assert_same(&listing::without(&plain, logs), &listing::without(&home, logs), Times::Set, "a slow home");
    let stored = listing::list(&store).expect("the store is readable");
    listing::assert_same(&home, &stored, Times::All, "the store behind the slow home");
}

/// Compiles the program once into a directory of its own.
fn mpi_program(folder: &std::path::Path) -> PathBuf {
    let (source, program) = (repository::root().join("tests/mpi/shared_file.c"), folder.join("shared_file"));
    run("mpicc", &["-O1".as_ref(), "-Wall".as_ref(), "-o".as_ref(), program.as_os_str(), source.as_os_str()]);
    program
}

#[test]
fn mpi_ranks_share_one_file() {
    if !machine_has(&["mpicc", "mpiexec"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory for the program");
    let program = mpi_program(folder.path());
    // 4 ranks x 24 blocks x 128 KiB = 12 MiB in each of four files, and one whose blocks end on no page's edge.
    let launch = |how: &str, bytes: u32| format!("mpiexec -n 4 {} {how}-{bytes} {how} 24 {bytes}", program.display());
    let script = ["segmented", "strided", "collective", "view"].map(|how| launch(how, 131_072)).join("\n");
    let script = format!("{script}\n{}\n{}", launch("strided", 4_099), launch("view", 4_099));
    for size in [AMPLE, TIGHT] {
        let home = same_as_plain(size, &[], &script, &[]);
        assert_eq!(home["strided-131072"].size, Some(4 * 24 * 131_072));
        assert_eq!(home["strided-131072"].crc, home["view-131072"].crc, "two ways to write the same");
    }
}

/// fio's jobs: name, then options. Each checks every block that it has written.
const FIO_JOBS: &[(&str, &str)] = &[
    ("sequential", "--ioengine=psync --rw=write --bs=64k"),
    ("sequential-fsync", "--ioengine=psync --rw=write --bs=64k --fsync=16"),
    ("random", "--ioengine=psync --rw=randwrite --bs=4k"),
    ("random-fsync", "--ioengine=psync --rw=randwrite --bs=4k --fdatasync=64"),
    ("odd", "--ioengine=psync --rw=randwrite --bs=3k-70k --bs_unaligned=1"),
    ("direct-sequential", "--ioengine=psync --direct=1 --rw=write --bs=1m"),
    ("direct-random", "--ioengine=psync --direct=1 --rw=randwrite --bs=4k --fsync=128"),
    ("mapped-sequential", "--ioengine=mmap --rw=write --bs=16k"),
    ("mapped-random", "--ioengine=mmap --rw=randwrite --bs=4k --fsync=128"),
    ("mixed", "--ioengine=psync --rw=randrw --bs=8k --overwrite=1"),
];

const FIO_COMMON: &str =
    "--size=6m --randrepeat=1 --verify=crc32c --verify_fatal=1 --verify_state_save=0 --output-format=terse --fallocate=none --thread";

fn fio(jobs: &[(&str, &str)], more: &str) -> String {
    let one = |(name, options): &(&str, &str)| {
        format!(
            "fio {FIO_COMMON} {more} --name={name} --filename={name} {options} >\"$OUTSIDE\"/fio-{name} || {{ cat \"$OUTSIDE\"/fio-{name}; exit 1; }}"
        )
    };
    jobs.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn fio_verifies(size: Size, options: &[&str]) {
    if !machine_has(&["fio"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let plain = sandbox.run_plain(&fio(FIO_JOBS, ""));
    let (_, home) = sandbox.run_and_compare(size, options, &fio(FIO_JOBS, ""));
    // fio writes the time into its blocks: the bytes differ from run to run, the names, sizes and modes do not.
    let mask = |mut tree: Tree| {
        tree.values_mut().for_each(|object| object.crc = None);
        tree
    };
    listing::assert_same(&mask(plain), &mask(home), Times::Set, "names and sizes");
    // The same checks once more, of the files at home, without Forebay. fio cannot repeat the one whose blocks have random sizes.
    let again_jobs: Vec<_> = FIO_JOBS.iter().filter(|(name, _)| *name != "odd").copied().collect();
    let mut again = std::process::Command::new("sh");
    again.args(["-ec", &fio(&again_jobs, "--verify_only=1")]).current_dir(sandbox.home()).env("OUTSIDE", sandbox.outside());
    let again = forebay_tests::process::Process::start(again, &sandbox.outside(), "again");
    again.wait(forebay_tests::process::DEADLINE).expect_code(0);
}

#[test]
fn fio_verifies_with_ample_room() {
    fio_verifies(AMPLE, &[]);
}

#[test]
fn fio_verifies_far_beyond_the_capacity() {
    fio_verifies(TIGHT, &["--write-back-delay", "0ms"]);
}

#[test]
fn fio_verifies_with_the_kernels_write_back_cache() {
    fio_verifies(TIGHT, &["--kernel-cache", "write-back"]);
}

/// Two files of eight jobs at once: fio's threads and the write-back meet in the same chunks.
#[test]
fn fio_verifies_with_many_jobs_at_once() {
    if !machine_has(&["fio"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let script = format!(
        "fio {FIO_COMMON} --name=many --numjobs=8 --ioengine=psync --rw=randwrite --bs=4k-64k --size=4m --group_reporting >\"$OUTSIDE\"/fio"
    );
    let (_, home) = sandbox.run_and_compare(TIGHT, &[], &script);
    assert_eq!(home.values().filter(|object| object.size == Some(4 << 20)).count(), 8);
}
