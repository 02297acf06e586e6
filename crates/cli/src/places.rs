//! The three directories of an instance: where things end up, where they are seen, where they wait. Chosen, made, and kept apart.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use forebay_store::BufferDir;
use rustix::fs::Access;
use thiserror::Error;

use crate::config::Settings;
use crate::mounts;
use crate::registry;
use crate::servers::Servers;

/// Why a directory cannot be used.
#[derive(Debug, Error)]
pub(crate) enum PlaceError {
    #[error("the backing directory {} cannot be used: {reason}", .path.display())]
    Backing { path: PathBuf, reason: String },
    #[error("the mount point {} cannot be used: {reason}", .path.display())]
    Mount { path: PathBuf, reason: String },
    #[error("the buffer directory {} cannot be used: {reason}", .path.display())]
    Buffer { path: PathBuf, reason: String },
    #[error("{inner_role} {} is inside {outer_role} {}: neither may lie within the other; choose another place for one of them", .inner.display(), .outer.display())]
    Nested { outer_role: &'static str, outer: PathBuf, inner_role: &'static str, inner: PathBuf },
    #[error("the memory file cannot lie in {}: {reason}; name a directory that can be written with --memory-dir", .path.display())]
    Memory { path: PathBuf, reason: String },
    #[error("no local disk was found for the buffer (tried {tried}); say where it may lie with --buffer DIR")]
    NoDisk { tried: String },
    #[error("cannot write {what} to {}: {reason}; name a file in a directory that exists and can be written", .path.display())]
    Output { what: &'static str, path: PathBuf, reason: String },
}

/// A directory, and whether it was made for this instance and goes with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) made: bool,
}

impl Place {
    /// Removes the directory if it was made for the instance.
    pub(crate) fn remove_if_made(&self) -> io::Result<()> {
        if self.made { std::fs::remove_dir(&self.path) } else { Ok(()) }
    }
}

/// What a buffer directory holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Nothing, or only what an instance that never started left.
    Nothing,
    /// A buffer.
    Buffer,
}

/// Where the files of the command line's own lie in a buffer directory.
pub(crate) const OWN_FILES: [&str; 4] = ["instance.json", "instance.json.new", "ctl", "log"];

/// The backing directory, as an absolute path without symlinks.
pub(crate) fn backing(path: &Path) -> Result<PathBuf, PlaceError> {
    let refuse = |reason: String| PlaceError::Backing { path: path.into(), reason };
    let real = path.canonicalize().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => refuse("it does not exist; make it first, or name another with --backing".into()),
        _ => refuse(format!("{error}; name another with --backing")),
    })?;
    if !real.is_dir() {
        return Err(refuse("it is no directory; name a directory with --backing".into()));
    }
    rustix::fs::access(&real, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
        refuse(format!("it is not writable for this user ({}); change its mode or name another with --backing", io::Error::from(error)))
    })?;
    Ok(real)
}

/// `path` as an absolute path without symlinks, as far as it exists.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Ok(real) => Ok(real),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let absolute = std::path::absolute(path)?;
            let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else { return Err(error) };
            Ok(resolve(parent)?.join(name))
        }
        Err(error) => Err(error),
    }
}

/// Refuses two directories of which one lies within the other.
fn keep_apart(role_a: &'static str, a: &Path, role_b: &'static str, b: &Path) -> Result<(), PlaceError> {
    if a.starts_with(b) {
        return Err(PlaceError::Nested { outer_role: role_b, outer: b.into(), inner_role: role_a, inner: a.into() });
    }
    if b.starts_with(a) {
        return Err(PlaceError::Nested { outer_role: role_a, outer: a.into(), inner_role: role_b, inner: b.into() });
    }
    Ok(())
}

/// The three directories, chosen and checked, nothing made yet. `id` names fresh ones.
pub(crate) struct Choice {
    pub(crate) backing: PathBuf,
    pub(crate) mount: PathBuf,
    pub(crate) buffer: PathBuf,
    mount_given: bool,
    buffer_given: bool,
}

impl Choice {
    /// Chooses what the settings leave open, and refuses what cannot work. The backing directory must be given.
    /// With `over`, the mount point is the backing directory. Servers have a name in its place, which no path is.
    pub(crate) fn make(settings: &Settings, over: bool, backing_given: &Path, id: &str) -> Result<Choice, PlaceError> {
        let backing = if Servers::named(backing_given).is_some() { backing_given.into() } else { backing(backing_given)? };
        let mount = match &settings.mount {
            _ if over => backing.clone(),
            Some(path) => resolve_mount(path)?,
            None => fresh_mount(id, settings.allow_other)?,
        };
        let buffer = match &settings.buffer {
            Some(path) => resolve(path).map_err(|error| PlaceError::Buffer { path: path.clone(), reason: error.to_string() })?,
            None => fresh_buffer(id, &backing)?,
        };
        if !over {
            keep_apart("the mount point", &mount, "the backing directory", &backing)?;
        }
        keep_apart("the buffer directory", &buffer, "the backing directory", &backing)?;
        keep_apart("the buffer directory", &buffer, "the mount point", &mount)?;
        Ok(Choice { backing, mount, buffer, mount_given: settings.mount.is_some(), buffer_given: settings.buffer.is_some() })
    }

    /// Where the memory file may lie.
    pub(crate) fn memory_dir(&self, path: &Path) -> Result<PathBuf, PlaceError> {
        let refuse = |reason: String| PlaceError::Memory { path: path.into(), reason };
        let real = path.canonicalize().map_err(|error| refuse(error.to_string()))?;
        rustix::fs::access(&real, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| refuse(io::Error::from(error).to_string()))?;
        if !real.is_dir() {
            return Err(refuse("it is no directory".into()));
        }
        for (role, path) in [("the backing directory", &self.backing), ("the mount point", &self.mount)] {
            if real.starts_with(path) {
                let (outer, inner) = (path.clone(), real);
                return Err(PlaceError::Nested { outer_role: role, outer, inner_role: "the memory directory", inner });
            }
        }
        Ok(real)
    }

    /// Where a recording or a trace may lie: what goes to the mount would be recorded again.
    pub(crate) fn recording(&self, what: &'static str, path: &Path) -> Result<PathBuf, PlaceError> {
        let path = output(what, path)?;
        let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
        if parent.is_some_and(|parent| parent.starts_with(&self.mount) || parent.starts_with(&self.buffer)) {
            return Err(PlaceError::Output { what, path, reason: "it lies in the mount or in the buffer".into() });
        }
        Ok(path)
    }

    /// Makes the buffer directory, if it is not there.
    pub(crate) fn make_buffer(&self) -> Result<Place, PlaceError> {
        let refuse = |reason| PlaceError::Buffer { path: self.buffer.clone(), reason };
        let made = make_dir(&self.buffer, self.buffer_given, 0o700).map_err(refuse)?;
        rustix::fs::access(&self.buffer, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
            refuse(format!("it is not writable for this user ({}); name another with --buffer", io::Error::from(error)))
        })?;
        Ok(Place { path: self.buffer.clone(), made })
    }

    /// Makes the mount point, if it is not there.
    pub(crate) fn make_mount(&self) -> Result<Place, PlaceError> {
        let made =
            make_dir(&self.mount, self.mount_given, 0o755).map_err(|reason| PlaceError::Mount { path: self.mount.clone(), reason })?;
        Ok(Place { path: self.mount.clone(), made })
    }
}

/// Makes a directory; of a given one its parent must exist, so that a slip of the pen makes no tree. Says whether it was made.
fn make_dir(path: &Path, given: bool, mode: u32) -> Result<bool, String> {
    if path.is_dir() {
        return Ok(false);
    }
    if let Some(parent) = path.parent().filter(|_| !given) {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .map_err(|error| format!("cannot make {}: {error}", parent.display()))?;
    }
    match std::fs::DirBuilder::new().mode(mode).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err("it is no directory".into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err("the directory above it does not exist; make that first".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// A given mount point: absent, or an empty directory on which nothing is mounted that still lives.
fn resolve_mount(path: &Path) -> Result<PathBuf, PlaceError> {
    let refuse = |reason: String| PlaceError::Mount { path: path.into(), reason };
    if mounts::is_dead(path) {
        // What a killed server left: it cannot be canonicalized, its parent can.
        let absolute = std::path::absolute(path).map_err(|error| refuse(error.to_string()))?;
        let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else { return Ok(absolute) };
        return Ok(parent.canonicalize().map_err(|error| refuse(error.to_string()))?.join(name));
    }
    let real = resolve(path).map_err(|error| refuse(error.to_string()))?;
    if let Some(entry) = mounts::mounted_at(&real) {
        return Err(refuse(format!(
            "{} ({}) is mounted there already; unmount it, or name another directory with --mount",
            entry.source, entry.kind
        )));
    }
    match std::fs::read_dir(&real).map(Iterator::count) {
        Ok(0) => Ok(real),
        Ok(_) => Err(refuse("it is not empty, and mounting would hide what is in it; name an empty directory with --mount".into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(real),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(refuse("it is no directory".into())),
        Err(error) => Err(refuse(error.to_string())),
    }
}

/// A mount point of its own for this instance. Other users cannot pass through the private run-time directory, so with them it lies in `/tmp`.
fn fresh_mount(id: &str, allow_other: bool) -> Result<PathBuf, PlaceError> {
    if allow_other {
        return Ok(PathBuf::from(format!("/tmp/forebay-{id}")));
    }
    let folder =
        registry::directory().map_err(|error| PlaceError::Mount { path: registry::directory_name(), reason: error.to_string() })?;
    Ok(folder.join("mnt").join(id))
}

/// File systems that are no place for a buffer: in memory, or as far away as the store that the buffer stands in front of.
const NO_LOCAL_DISK: [(u32, &str); 9] = [
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    (0x6969, "NFS"),
    (0xff53_4d42, "SMB"),
    (0xfe53_4d42, "SMB"),
    (0x6573_5546, "FUSE"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
];

/// The name of the file system below `path`, if it is no local disk.
pub(crate) fn no_local_disk(path: &Path) -> Option<&'static str> {
    let existing = path.ancestors().find(|ancestor| ancestor.exists())?;
    let kind = rustix::fs::statfs(existing).ok()?.f_type as u32;
    NO_LOCAL_DISK.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name)
}

/// Where a buffer that was not given a place may lie, the best place first.
pub(crate) fn buffer_folders() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    let shared = format!("forebay-{}", rustix::process::geteuid().as_raw());
    let temporary = variable("TMPDIR").map(|path| path.join(&shared));
    let candidates = [cache.map(|path| path.join("forebay")), Some(PathBuf::from("/var/tmp").join(&shared)), temporary];
    candidates.into_iter().flatten().collect()
}

/// A buffer directory of its own for this instance: in the user's cache, which outlives a job and a reboot; where that is no local disk, in
/// `/var/tmp`, then `$TMPDIR`.
fn fresh_buffer(id: &str, backing: &Path) -> Result<PathBuf, PlaceError> {
    let candidates = buffer_folders();
    let mut tried = Vec::new();
    for folder in candidates {
        if folder.starts_with(backing) {
            tried.push(format!("{}: inside the backing directory", folder.display()));
            continue;
        }
        if let Some(name) = no_local_disk(&folder) {
            tried.push(format!("{}: {name}", folder.display()));
            continue;
        }
        match private_folder(&folder) {
            Ok(()) => {
                let folder = folder.canonicalize().unwrap_or(folder);
                return Ok(folder.join(id));
            }
            Err(reason) => tried.push(format!("{}: {reason}", folder.display())),
        }
    }
    Err(PlaceError::NoDisk { tried: tried.join("; ") })
}

/// `folder` is there and belongs to this user alone.
pub(crate) fn private_folder_exists(folder: &Path) -> bool {
    check_private(folder).is_ok()
}

/// Makes `folder`, or checks that it belongs to this user alone.
pub(crate) fn private_folder(folder: &Path) -> Result<(), String> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| error.to_string())?;
    check_private(folder)
}

fn check_private(folder: &Path) -> Result<(), String> {
    let meta = std::fs::symlink_metadata(folder).map_err(|error| error.to_string())?;
    if !meta.is_dir() {
        return Err("it is no directory".into());
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err("it belongs to another user".into());
    }
    if meta.mode() & 0o022 != 0 {
        return Err("other users may write to it".into());
    }
    rustix::fs::access(folder, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).map_err(|error| io::Error::from(error).to_string())
}

/// What the buffer directory at `path` holds; an error if that is anything but a buffer.
pub(crate) fn content(path: &Path) -> Result<Content, PlaceError> {
    let refuse = |reason: String| PlaceError::Buffer { path: path.into(), reason };
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::Nothing),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(refuse("it is no directory; name another with --buffer".into()));
        }
        Err(error) => return Err(refuse(error.to_string())),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(|error| refuse(error.to_string()))?.file_name());
    }
    if BufferDir::exists(path).map_err(|error| refuse(error.to_string()))? {
        return Ok(Content::Buffer);
    }
    // A start that was killed before the superblock was written leaves the store's files; the next start clears them.
    let known = |name: &OsString| name.to_str().is_some_and(|name| OWN_FILES.contains(&name) || BufferDir::owns_name(name));
    match names.iter().find(|name| !known(name)) {
        None => Ok(Content::Nothing),
        Some(name) => {
            Err(refuse(format!("it holds {name:?}, which is no part of a buffer; name an empty or a new directory with --buffer")))
        }
    }
}

/// Checks that `path` can be written, before hours of work depend on it.
pub(crate) fn output(what: &'static str, path: &Path) -> Result<PathBuf, PlaceError> {
    let refuse = |reason: String| PlaceError::Output { what, path: path.into(), reason };
    let absolute = std::path::absolute(path).map_err(|error| refuse(error.to_string()))?;
    if absolute.is_dir() {
        return Err(refuse("it is a directory".into()));
    }
    let parent = absolute.parent().ok_or_else(|| refuse("it has no directory".into()))?;
    rustix::fs::access(parent, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| refuse(io::Error::from(error).to_string()))?;
    Ok(absolute)
}

/// Bytes that this user may still write to the file system below `path`.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let existing = path.ancestors().find(|ancestor| ancestor.exists())?;
    let stat = rustix::fs::statvfs(existing).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}
