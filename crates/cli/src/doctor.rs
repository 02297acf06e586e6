//! `forebay doctor`: what this machine lacks, and the command that mends it. It looks and changes nothing.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::Access;
use serde::Serialize;

use crate::args::DoctorArgs;
use crate::error::{Error, Exit};
use crate::places;
use crate::size::Bytes;

/// How a check came out.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "snake_case")]
enum State {
    /// Nothing is lacking.
    Ok,
    /// Something that only some options or faster paths need is lacking.
    Optional,
    /// Without it, nothing can be mounted or buffered.
    Missing,
}

/// A thing that was looked at.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub(crate) struct Check {
    name: &'static str,
    state: State,
    /// What was found.
    found: String,
    /// The command that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, state: State::Ok, found: found.into(), mend: None }
    }

    fn lacks(name: &'static str, state: State, found: impl Into<String>, mend: impl Into<String>) -> Check {
        Check { name, state, found: found.into(), mend: Some(mend.into()) }
    }

    fn text(&self) -> String {
        let state = match self.state {
            State::Ok => "ok",
            State::Optional => "optional",
            State::Missing => "MISSING",
        };
        let mut text = format!("{state:<9}{}: {}\n", self.name, self.found);
        if let Some(mend) = &self.mend {
            text += &format!("{:9}mend it with: {mend}\n", "");
        }
        text
    }
}

/// Less than this in `/dev/shm` leaves hardly room for a buffer's memory.
const SHARED_MEMORY_LOW_BYTES: u64 = 64 << 20;
/// Less than this on the buffer's disk is hardly a buffer.
const DISK_LOW_BYTES: u64 = 1 << 30;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Where a program is, as `PATH` has it.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let search = std::env::var_os("PATH")?;
    std::env::split_paths(&search).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The command that installs a package here.
fn install(package: &str) -> String {
    let managers = [("apt-get", "install"), ("dnf", "install"), ("zypper", "install"), ("pacman", "-S"), ("apk", "add")];
    let found = managers
        .iter()
        .find(|(manager, _)| ["/usr/bin", "/bin", "/sbin", "/usr/sbin"].iter().any(|folder| Path::new(folder).join(manager).exists()));
    let (manager, verb) = found.unwrap_or(&managers[0]);
    format!("sudo {manager} {verb} {package}")
}

fn setting(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

fn device() -> Check {
    const NAME: &str = "/dev/fuse";
    let in_container = "; in a container, start it with: --device /dev/fuse";
    match std::fs::OpenOptions::new().read(true).write(true).open(NAME) {
        Ok(_) => Check::ok(NAME, "can be opened"),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Check::lacks(NAME, State::Missing, format!("may not be opened ({error})"), format!("sudo chmod 666 /dev/fuse{in_container}"))
        }
        Err(error) => {
            Check::lacks(NAME, State::Missing, format!("cannot be opened ({error})"), format!("sudo modprobe fuse{in_container}"))
        }
    }
}

/// Whether a mount can go on when the process that serves it was killed.
fn takeover() -> Check {
    const NAME: &str = "takeover";
    if kernel_resends() {
        return Check::ok(NAME, "the kernel sends again what a killed process has not answered");
    }
    let found = "the kernel cannot send again what was not answered (Linux 6.9 can): a mount ends with the process that serves it";
    Check::lacks(NAME, State::Optional, found, "sudo apt full-upgrade")
}

/// Whether the kernel is one of those that send requests again, which Linux 6.9 was the first to do.
pub(crate) fn kernel_resends() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (6, 9)
}

fn helper() -> Check {
    const NAME: &str = "fusermount3";
    let state = if is_root() { State::Optional } else { State::Missing };
    let Some(path) = program(NAME) else {
        let found = if is_root() { "is not installed: ordinary users cannot mount (root can)" } else { "is not installed" };
        return Check::lacks(NAME, state, found, install("fuse3"));
    };
    let mode = std::fs::metadata(&path).map_or(0, |meta| meta.permissions().mode());
    if mode & 0o4000 == 0 {
        let shown = path.display();
        return Check::lacks(
            NAME,
            state,
            format!("{shown} is not set-user-id root: ordinary users cannot mount"),
            format!("sudo chown root {shown} && sudo chmod u+s {shown}"),
        );
    }
    Check::ok(NAME, path.display().to_string())
}

fn allow_other() -> Check {
    const NAME: &str = "user_allow_other";
    let allowed = |line: &str| line.trim() == NAME;
    if setting("/etc/fuse.conf").is_some_and(|text| text.lines().any(allowed)) {
        return Check::ok(NAME, "is set in /etc/fuse.conf");
    }
    let found = "is not set in /etc/fuse.conf: ordinary users cannot use --allow-other";
    Check::lacks(NAME, State::Optional, found, "echo user_allow_other | sudo tee -a /etc/fuse.conf")
}

/// Tries what `run --over` does, in a process of its own.
fn namespaces() -> Check {
    const NAME: &str = "private mounts";
    let mut probe = Command::new("/proc/self/exe");
    probe.arg("probe-over").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    match probe.output() {
        Ok(output) if output.status.success() => Check::ok(NAME, "`forebay run --over` works"),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim().trim_start_matches("forebay: ").to_string();
            let (found, mend) = said.split_once("; mend it with: ").map_or((said.as_str(), ""), |parts| parts);
            Check::lacks(NAME, State::Optional, format!("`forebay run --over` does not work: {found}"), mend)
        }
        Err(error) => Check::lacks(NAME, State::Optional, format!("could not be tried: {error}"), "forebay run --over -- true"),
    }
}

fn io_uring() -> Check {
    const NAME: &str = "io_uring";
    let disabled = setting("/proc/sys/kernel/io_uring_disabled");
    match disabled.as_deref() {
        Some("0") => Check::ok(NAME, "is allowed"),
        Some("1") if is_root() => Check::ok(NAME, "is allowed for root"),
        Some(value) => {
            let found = format!("is not allowed to this user (kernel.io_uring_disabled is {value}); nothing in this version needs it");
            Check::lacks(NAME, State::Optional, found, "sudo sysctl kernel.io_uring_disabled=0")
        }
        // Before Linux 6.6 there is no such switch.
        None => Check::ok(NAME, "is not restricted by this kernel"),
    }
}

fn shared_memory() -> Check {
    const NAME: &str = "/dev/shm";
    let otherwise = "or name another directory in memory with --memory-dir";
    let mount = format!("sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm; {otherwise}");
    if let Err(error) = rustix::fs::access(NAME, Access::WRITE_OK | Access::EXEC_OK) {
        return Check::lacks(NAME, State::Missing, format!("cannot be written ({})", std::io::Error::from(error)), mount);
    }
    let Ok(stat) = rustix::fs::statvfs(NAME) else {
        return Check::lacks(NAME, State::Missing, "cannot be looked at", mount);
    };
    let (free, total) = (stat.f_bavail.saturating_mul(stat.f_frsize), stat.f_blocks.saturating_mul(stat.f_frsize));
    let found = format!("{} of {} are free", Bytes(free), Bytes(total));
    if rustix::fs::statfs(NAME).is_ok_and(|stat| stat.f_type as u32 != 0x0102_1994) {
        return Check::lacks(NAME, State::Optional, "is no tmpfs: the buffer's memory would be on a disk", mount);
    }
    if free < SHARED_MEMORY_LOW_BYTES {
        let grow = "sudo mount -o remount,size=2G /dev/shm; in a container, start it with: --shm-size 2g";
        return Check::lacks(NAME, State::Optional, format!("{found}: little for --memory"), grow);
    }
    Check::ok(NAME, found)
}

fn disk() -> Check {
    const NAME: &str = "buffer disk";
    let larger = "forebay run --buffer DIR, with a directory on a larger local disk";
    for folder in places::buffer_folders() {
        let existing = folder.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
        if places::no_local_disk(&folder).is_some() || rustix::fs::access(existing, Access::WRITE_OK | Access::EXEC_OK).is_err() {
            continue;
        }
        let free = rustix::fs::statvfs(existing).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
        let found = format!("{} free for a buffer below {}", Bytes(free), folder.display());
        return if free < DISK_LOW_BYTES { Check::lacks(NAME, State::Optional, found, larger) } else { Check::ok(NAME, found) };
    }
    Check::lacks(NAME, State::Optional, "no local disk that can be written was found", larger)
}

/// Everything, looked at now.
pub(crate) fn checks() -> Vec<Check> {
    vec![device(), helper(), takeover(), allow_other(), shared_memory(), disk(), namespaces(), io_uring()]
}

/// `forebay doctor`: 0 if nothing is missing that a mount needs, else 69.
pub(crate) fn command(args: &DoctorArgs) -> Result<u8, Error> {
    let checks = checks();
    let missing = checks.iter().any(|check| check.state == State::Missing);
    if args.json {
        let text = serde_json::to_string_pretty(&checks).map_err(|error| Error::io("print the checks")(error.into()))?;
        crate::print(&(text + "\n"))?;
    } else {
        let mut text: String = checks.iter().map(Check::text).collect();
        text += if missing { "Something is missing without which nothing can be mounted.\n" } else { "Forebay can run here.\n" };
        crate::print(&text)?;
    }
    Ok(if missing { Exit::Unavailable as u8 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_comes_with_a_command() {
        let check = Check::lacks("x", State::Missing, "is not there", "sudo put x there");
        assert_eq!(check.text(), "MISSING  x: is not there\n         mend it with: sudo put x there\n");
        assert_eq!(Check::ok("y", "is there").text(), "ok       y: is there\n");
    }

    #[test]
    fn every_check_that_fails_here_says_how_to_mend_it() {
        for check in [device(), helper(), takeover(), allow_other(), shared_memory(), disk()] {
            assert_eq!(check.state == State::Ok, check.mend.is_none(), "{check:?}");
        }
    }
}
