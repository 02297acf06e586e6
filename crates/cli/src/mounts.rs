//! What the kernel says of mounts, and who uses one.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MountEntry {
    pub(crate) point: PathBuf,
    pub(crate) kind: String,
    pub(crate) source: String,
}

/// Undoes `\040` and its like.
fn unescape(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let octal = bytes.get(at + 1..at + 4).filter(|digits| bytes[at] == b'\\' && digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        match octal {
            Some(digits) => {
                out.push(digits.iter().fold(0u8, |value, digit| value.wrapping_mul(8) | (digit - b'0')));
                at += 4;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}

fn parse(mountinfo: &str) -> Vec<MountEntry> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let point = unescape(left.split(' ').nth(4)?);
            let mut right = right.split(' ');
            let kind = right.next()?.to_string();
            let source = String::from_utf8_lossy(&unescape(right.next()?)).into_owned();
            Some(MountEntry { point: OsString::from_vec(point).into(), kind, source })
        })
        .collect()
}

/// What is mounted at `point`, topmost first come last; `None` if nothing is, or if the kernel does not say.
pub(crate) fn mounted_at(point: &Path) -> Option<MountEntry> {
    let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    parse(&mountinfo).into_iter().rev().find(|entry| entry.point == point)
}

/// The server of the FUSE mount at `path` is gone: every access is answered with `ENOTCONN`.
pub(crate) fn is_dead(path: &Path) -> bool {
    // Not stat(2), which the kernel may answer from what it remembers of the root.
    matches!(rustix::fs::statfs(path), Err(Errno::NOTCONN | Errno::CONNABORTED))
}

/// A process that uses something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct User {
    pub(crate) pid: u32,
    pub(crate) name: String,
}

/// Whose paths are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sees {
    /// Those of every process.
    Any,
    /// Those of processes that see the mounts that this one sees.
    Our,
}

/// Processes, other than this one and those in `but`, that have a working directory, a root or an open file below `mount`.
///
/// Only links are read, nothing below the mount is touched: a server that no longer answers cannot block this. Processes of other users stay
/// unseen without privilege.
pub(crate) fn users(mount: &Path, sees: Sees, but: &[u32]) -> Vec<User> {
    let own = std::process::id();
    let namespace = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    // A path of another mount namespace may read the same and lead elsewhere.
    let here = namespace(own).filter(|_| sees == Sees::Our);
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut users: Vec<User> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != own && !but.contains(pid) && (here.is_none() || namespace(*pid) == here) && uses(*pid, mount))
        .map(|pid| User { pid, name: command_name(pid) })
        .collect();
    users.sort_by_key(|user| user.pid);
    users
}

fn uses(pid: u32, mount: &Path) -> bool {
    let below = |link: PathBuf| std::fs::read_link(link).is_ok_and(|target| target.starts_with(mount));
    let proc = PathBuf::from(format!("/proc/{pid}"));
    if below(proc.join("cwd")) || below(proc.join("root")) || below(proc.join("exe")) {
        return true;
    }
    let open = std::fs::read_dir(proc.join("fd"));
    if open.is_ok_and(|fds| fds.flatten().any(|fd| below(fd.path()))) {
        return true;
    }
    let maps = std::fs::read(proc.join("maps")).unwrap_or_default();
    let mut needle = mount.as_os_str().as_bytes().to_vec();
    needle.push(b'/');
    maps.split(|byte| *byte == b'\n')
        .any(|line| line.iter().position(|byte| *byte == b'/').is_some_and(|slash| line[slash..].starts_with(&needle)))
}

fn command_name(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).map_or_else(|_| "?".into(), |name| name.trim_end().to_string())
}

/// `users` in one line, at most five of them by name.
pub(crate) fn describe(users: &[User]) -> String {
    let mut text = users.iter().take(5).map(|user| format!("{} ({})", user.pid, user.name)).collect::<Vec<_>>().join(", ");
    if users.len() > 5 {
        text += &format!(" and {} more", users.len() - 5);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_mountinfo() {
        let text = "36 35 98:0 /mnt1 /mnt/a\\040b\\134c rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue\n\
            40 35 0:50 / /run/x rw,nosuid - fuse.forebay forebay rw,user_id=0\ngarbage\n";
        let entries = parse(text);
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].point, Path::new("/mnt/a b\\c"));
        assert_eq!((entries[1].kind.as_str(), entries[1].source.as_str()), ("fuse.forebay", "forebay"));
    }

    #[test]
    fn finds_a_mount_that_is_always_there() {
        assert_eq!(mounted_at(Path::new("/proc")).map(|entry| entry.kind), Some("proc".into()));
        assert_eq!(mounted_at(Path::new("/proc/self")), None);
    }

    #[test]
    fn finds_who_works_in_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        assert_eq!(users(&path, Sees::Any, &[]), []);
        let mut child = std::process::Command::new("cat").current_dir(&path).stdin(std::process::Stdio::piped()).spawn().unwrap();
        let found = users(&path, Sees::Our, &[]);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pid, child.id());
        assert!(describe(&found).starts_with(&child.id().to_string()));
    }
}
