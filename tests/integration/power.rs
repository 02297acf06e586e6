//! A power cut: everything that was fsynced before is there again, and what is there is a moment of the history.
//!
//! Buffer and home lie on a file system on a disk with a volatile cache ([`volatile-disk`], through a loop device). When its power is
//! cut, what was not flushed is lost in part and at random; memory is lost as a whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use forebay_tests::history::History;
use forebay_tests::operations::Mix;
use forebay_tests::process::{self, DEADLINE, Process, eventually, is_mounted, is_root, machine_has, program, run, unmount};
use forebay_tests::progress::Reached;
use forebay_tests::random::{Random, seeds};
use forebay_tests::sandbox::{Sandbox, TIGHT};
use rustix::process::Signal;

/// A file system on a disk whose power can be cut.
struct Disk {
    /// Where the volatile disk shows itself.
    device: PathBuf,
    /// Where the file system is mounted.
    mount: PathBuf,
    image: PathBuf,
    loop_device: Option<String>,
    _process: Process,
}

impl Disk {
    fn new(sandbox: &Sandbox) -> Disk {
        let folder = sandbox.folder();
        let (device, mount, image) = (folder.join("device"), folder.join("disk"), sandbox.memory().join("image"));
        fs::create_dir(&device).and_then(|()| fs::create_dir(&mount)).expect("mount points");
        let mut command = Command::new(program("volatile-disk"));
        command.arg(&device).args(["--size-mib", "192", "--image"]).arg(&image);
        let mut process = Process::start(command, &sandbox.outside(), "volatile-disk");
        let ready = eventually(Duration::from_secs(30), || is_mounted(&device) || !process.runs());
        assert!(ready && is_mounted(&device), "volatile-disk did not mount: {}", process.stderr());
        let mut disk = Disk { device, mount, image, loop_device: None, _process: process };
        let loop_device = run("losetup", &["--find".as_ref(), "--show".as_ref(), disk.device.join("disk").as_os_str()]);
        let loop_device = loop_device.trim().to_owned();
        disk.loop_device = Some(loop_device.clone());
        run("mkfs.ext4", &["-q", "-E", "nodiscard", &loop_device]);
        run("mount", &[loop_device.as_ref(), disk.mount.as_os_str()]);
        disk
    }

    /// Cuts the power, and drops the dead file system.
    fn cut(&mut self, seed: u64) {
        fs::write(self.device.join("cut"), seed.to_string()).expect("the power is cut");
    }

    /// Takes everything away but the image.
    fn remove(&mut self) {
        unmount(&self.mount);
        if let Some(device) = self.loop_device.take() {
            let _ = Command::new("losetup").args(["-d", &device]).output();
        }
        unmount(&self.device);
    }

    /// Power is back: mounts what the medium kept.
    fn mount_image(&self) {
        run("mount", &["-o".as_ref(), "loop".as_ref(), self.image.as_os_str(), self.mount.as_os_str()]);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Everything that was in memory is gone.
fn lose_memory(sandbox: &Sandbox, keep: &Path) {
    for entry in fs::read_dir(sandbox.memory()).expect("the directory of the memory file").flatten() {
        if entry.path() == keep {
            continue;
        }
        let removed = if entry.path().is_dir() { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
        removed.expect("the memory file goes");
    }
}

fn can_cut_power() -> bool {
    if !machine_has(&["losetup", "mkfs.ext4", "mount"]) {
        return false;
    }
    if !is_root() || !Path::new("/dev/loop-control").exists() {
        eprintln!("SKIPPED: a loop device takes root and /dev/loop-control");
        return false;
    }
    true
}

/// Writers on buffer and home on the disk; a power cut after about `enough` operations; recovery; comparison.
fn cut_while_writing(seed: u64, options: &[&str]) {
    let mut random = Random::new(seed);
    let sandbox = Sandbox::new();
    let mut disk = Disk::new(&sandbox);
    let (home, buffer) = (disk.mount.join("home"), disk.mount.join("buffer"));
    fs::create_dir(&home).expect("a home on the disk");
    run("sync", &[] as &[&str]);

    let mix = Mix { owners: true, syncs_percent: 12, ..Mix::default() };
    let history = History { seed: 50_000 + seed, mix };
    let progress = sandbox.outside().join("progress");
    let mut command = sandbox.forebay("run");
    command.arg("--backing").arg(&home).arg("--mount").arg(sandbox.mount()).arg("--buffer").arg(&buffer);
    command.arg("--memory-dir").arg(sandbox.memory());
    command.args(["--capacity", TIGHT.capacity, "--memory", TIGHT.memory, "--chunk", TIGHT.chunk]).args(options).arg("--");
    command.arg(program("exercise")).args(["log", "--syncs-percent", "12", "--directory", "work"]);
    command.arg("--seed").arg(history.seed.to_string()).arg("--progress").arg(&progress);
    let mut forebay = Process::start(command, &sandbox.outside(), "run");
    let enough = 20 + random.size(2000);
    let came = eventually(DEADLINE, || Reached::read(&progress).done >= enough || !forebay.runs());
    assert!(came && forebay.runs(), "the writer came only to {:?}: {}", Reached::read(&progress), forebay.stderr());
    disk.cut(seed);
    forebay.signal(Signal::KILL);
    forebay.wait(DEADLINE).expect_code(128 + 9);
    let gone = || Reached::read(&progress).ended || !process::exists(Reached::read(&progress).pid);
    assert!(eventually(DEADLINE, gone), "the writer hangs on the dead mount");
    let reached = Reached::read(&progress);
    disk.remove();
    lose_memory(&sandbox, &disk.image.clone());

    disk.mount_image();
    let mut command = sandbox.forebay("recover");
    command.arg("--buffer").arg(&buffer).arg("--backing").arg(&home);
    Process::start(command, &sandbox.outside(), "recover").wait(DEADLINE).expect_code(0);
    if reached.synced == 0 && !home.join("work").exists() {
        // Nothing was synced: even the writer's own directory may be lost.
        return;
    }
    let moment = history.moment(&home.join("work"), reached.synced, reached.begun);
    assert!(moment.is_ok(), "after {reached:?}: {}", moment.unwrap_err());
}

#[test]
fn power_is_cut_while_writing() {
    if !can_cut_power() {
        return;
    }
    for seed in seeds("power_is_cut_while_writing", 8) {
        cut_while_writing(seed, &["--write-back-delay", ["0ms", "20ms", "500ms"][seed as usize % 3]]);
    }
}

/// In the kernel's write-back mode, too, what was fsynced is safe: only the order before it is not promised there, so the writer's
/// every change is followed by a sync.
#[test]
fn a_synced_file_survives_in_the_kernels_write_back_mode() {
    if !can_cut_power() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut disk = Disk::new(&sandbox);
    let (home, buffer) = (disk.mount.join("home"), disk.mount.join("buffer"));
    fs::create_dir(&home).expect("a home on the disk");
    run("sync", &[] as &[&str]);
    let told = sandbox.outside().join("told");
    let script = format!(
        "dd if=/dev/urandom of=data bs=100k count=20 conv=fsync status=none; cksum <data >{told}.draft; mv {told}.draft {told}; exec sleep 1000",
        told = told.display()
    );
    let mut command = sandbox.forebay("run");
    command.arg("--backing").arg(&home).arg("--mount").arg(sandbox.mount()).arg("--buffer").arg(&buffer);
    command.arg("--memory-dir").arg(sandbox.memory()).args(["--capacity", "64MiB", "--memory", "16MiB"]);
    command.args(["--kernel-cache", "write-back", "--write-back", "sync", "--", "sh", "-ec", &script]);
    let mut forebay = Process::start(command, &sandbox.outside(), "run");
    assert!(eventually(DEADLINE, || told.exists() || !forebay.runs()) && told.exists(), "{}", forebay.stderr());
    disk.cut(3);
    forebay.signal(Signal::KILL);
    forebay.wait(DEADLINE).expect_code(128 + 9);
    disk.remove();
    lose_memory(&sandbox, &disk.image.clone());

    disk.mount_image();
    let mut command = sandbox.forebay("recover");
    command.arg("--buffer").arg(&buffer).arg("--backing").arg(&home);
    Process::start(command, &sandbox.outside(), "recover").wait(DEADLINE).expect_code(0);
    let sum = Command::new("sh").args(["-c", "cksum <data"]).current_dir(&home).output().expect("cksum runs");
    assert_eq!(String::from_utf8_lossy(&sum.stdout), fs::read_to_string(&told).expect("the command told its checksum"));
}

#[test]
fn soak_power_cuts() {
    if !can_cut_power() || std::env::var_os("FOREBAY_SOAK_MINUTES").is_none() {
        return;
    }
    for seed in seeds("soak_power_cuts", 0) {
        cut_while_writing(seed, &["--write-back-delay", ["0ms", "20ms", "500ms"][seed as usize % 3]]);
    }
}
