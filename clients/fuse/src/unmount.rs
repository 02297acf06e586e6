//! Taking mounts away.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount as unmount_call};

use crate::device::HELPER;
use crate::mountinfo;

/// Dead mounts that may stand one on the other at a directory.
const STACKED_MAX: usize = 16;

/// Unmounts what stands at `path`; `EBUSY` if it is in use.
pub(crate) fn unmount(path: &Path) -> io::Result<()> {
    match unmount_call(path, UnmountFlags::empty()) {
        Err(Errno::PERM) => run_helper(path, &["-u"]),
        result => Ok(result?),
    }
}

/// Takes the name away from what is mounted at `path`, in use or not.
pub(crate) fn detach(path: &Path) -> io::Result<()> {
    match unmount_call(path, UnmountFlags::DETACH) {
        Err(Errno::PERM) => run_helper(path, &["-u", "-z"]),
        result => Ok(result?),
    }
}

fn run_helper(path: &Path, arguments: &[&str]) -> io::Result<()> {
    let output =
        Command::new(HELPER).args(arguments).arg("--").arg(path).stdin(Stdio::null()).output().map_err(|error| {
            io::Error::new(error.kind(), format!("{HELPER}, which unmounts for ordinary users, cannot be run: {error}"))
        })?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_string();
    if message.contains("busy") { Err(Errno::BUSY.into()) } else { Err(io::Error::other(message)) }
}

/// Whether `path` is a FUSE mount whose server has died. Asks past the kernel's memory, which outlives the server.
pub fn is_dead_mount(path: &Path) -> bool {
    matches!(look(path), Err(Errno::NOTCONN | Errno::CONNABORTED))
}

/// Whether a directory or another object stands at `path`, as the server says now.
pub(crate) fn look(path: &Path) -> rustix::io::Result<FileType> {
    match statx(CWD, path, AtFlags::STATX_FORCE_SYNC, StatxFlags::TYPE) {
        Ok(found) => Ok(FileType::from_raw_mode(found.stx_mode.into())),
        // Sandboxes may not know statx.
        Err(Errno::NOSYS | Errno::PERM) => Ok(FileType::from_raw_mode(rustix::fs::stat(path)?.st_mode)),
        Err(errno) => Err(errno),
    }
}

/// If a Forebay mount whose server has died stands at `path`, takes it away. Tells whether there was one.
///
/// # Errors
/// A dead mount that is not Forebay's is left alone; and what the kernel says if it cannot be taken away.
pub fn clear_dead_mount(path: &Path) -> io::Result<bool> {
    for cleared in 0..STACKED_MAX {
        if !is_dead_mount(path) {
            return Ok(cleared > 0);
        }
        let absolute = absolute(path)?;
        if let Some(entry) = mountinfo::topmost(&absolute).filter(|entry| entry.kind != "fuse.forebay") {
            let text = format!("{} is a mount of type {} whose server has died; it is not Forebay's", path.display(), entry.kind);
            return Err(io::Error::other(text));
        }
        detach(&absolute)?;
    }
    Err(io::Error::other(format!("{} is still a dead mount after {STACKED_MAX} were taken away", path.display())))
}

/// The absolute path of a directory that cannot itself be looked at.
fn absolute(path: &Path) -> io::Result<PathBuf> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            Ok(parent.canonicalize()?.join(name))
        }
        _ => std::path::absolute(path),
    }
}
