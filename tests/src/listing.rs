//! What a directory tree holds, so that two can be compared: on a mount, at home, and on a plain directory.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// One object of a tree.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Object {
    /// `file`, `directory`, `symlink`, `fifo`, `socket` or `device`.
    pub kind: String,
    /// Permission bits, 12 of them.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes of a file, or of a symlink's target.
    pub size: Option<u64>,
    /// CRC-32C of a file's bytes.
    pub crc: Option<u32>,
    /// A symlink's target.
    pub target: Option<String>,
    /// The first name, in order, of the same file.
    pub same_as: Option<String>,
    /// The user's extended attributes; none, too, where the file system has none.
    pub xattrs: BTreeMap<String, Vec<u8>>,
    /// Last change of the data, nanoseconds since the epoch.
    pub mtime_ns: i128,
}

/// A tree: its objects by their path from the root; the root itself is `.`.
pub type Tree = BTreeMap<String, Object>;

/// Times before this were set by a program, later ones by the clock (nanoseconds since the epoch).
pub const CLOCK_TIMES_FROM_NS: i128 = 1_200_000_000_000_000_000;

/// Which times count in a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Times {
    /// Every one, to the nanosecond: both trees are of one run.
    All,
    /// Those that a program set; of the others only that they are the clock's: the trees are of different runs.
    Set,
    /// None.
    None,
}

/// Lists a tree.
///
/// # Errors
/// The first error of reading it, with the path.
pub fn list(root: &Path) -> io::Result<Tree> {
    let mut tree = Tree::new();
    let mut first_names = BTreeMap::new();
    let mut waiting = vec![String::from(".")];
    while let Some(path) = waiting.pop() {
        let at = root.join(&path);
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", at.display()));
        let object = describe(&at).map_err(named)?;
        if object.kind == "directory" {
            for entry in fs::read_dir(&at).map_err(named)? {
                let name = entry.map_err(named)?.file_name().to_string_lossy().into_owned();
                waiting.push(if path == "." { name } else { format!("{path}/{name}") });
            }
        }
        tree.insert(path, object);
    }
    for (path, object) in &mut tree {
        let metadata = root.join(path).symlink_metadata()?;
        if object.kind != "directory" && metadata.nlink() > 1 {
            let first = first_names.entry((metadata.dev(), metadata.ino())).or_insert_with(|| path.clone());
            object.same_as = Some(first.clone());
        }
    }
    Ok(tree)
}

fn describe(path: &Path) -> io::Result<Object> {
    let metadata = path.symlink_metadata()?;
    let kind = metadata.file_type();
    let (kind, content) = match () {
        () if kind.is_file() => ("file", Some(checksum(path)?)),
        () if kind.is_dir() => ("directory", None),
        () if kind.is_symlink() => ("symlink", None),
        () if kind.is_fifo() => ("fifo", None),
        () if kind.is_socket() => ("socket", None),
        () => ("device", None),
    };
    if let Some((_, bytes)) = content
        && bytes != metadata.len()
    {
        return Err(io::Error::other(format!("stat gives {} bytes, reading gives {bytes}", metadata.len())));
    }
    let target = if kind == "symlink" { Some(fs::read_link(path)?.to_string_lossy().into_owned()) } else { None };
    Ok(Object {
        kind: kind.into(),
        mode: metadata.mode() & 0o7777,
        uid: metadata.uid(),
        gid: metadata.gid(),
        size: (kind == "file" || kind == "symlink").then_some(metadata.len()),
        crc: content.map(|(crc, _)| crc),
        target,
        same_as: None,
        xattrs: if metadata.is_symlink() { BTreeMap::new() } else { xattrs(path)? },
        mtime_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
    })
}

fn xattrs(path: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut names = vec![0; 1 << 16];
    let len = match rustix::fs::listxattr(path, &mut names) {
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        result => result?,
    };
    let own = names[..len].split(|byte| *byte == 0).map(String::from_utf8_lossy).filter(|name| name.starts_with("user."));
    own.map(|name| {
        let mut value = vec![0; 1 << 16];
        let len = rustix::fs::getxattr(path, &*name, &mut value)?;
        value.truncate(len);
        Ok((name.into_owned(), value))
    })
    .collect()
}

/// CRC-32C and number of a file's bytes.
fn checksum(path: &Path) -> io::Result<(u32, u64)> {
    let mut file = fs::File::open(path)?;
    let mut buffer = vec![0; 1 << 18];
    let (mut crc, mut bytes) = (0, 0);
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok((crc, bytes));
        }
        crc = crc32c::crc32c_append(crc, &buffer[..count]);
        bytes += count as u64;
    }
}

/// Where two trees differ, a line each; none if they are equal.
#[must_use]
pub fn differences(expected: &Tree, found: &Tree, times: Times) -> Vec<String> {
    let mut differences = Vec::new();
    for (path, object) in expected {
        match found.get(path) {
            None => differences.push(format!("{path}: missing ({})", object.kind)),
            Some(other) => {
                let (mut object, mut other) = (object.clone(), other.clone());
                mask(&mut object, times);
                mask(&mut other, times);
                if object != other {
                    differences.push(format!("{path}: expected {object:?}\n{path}:    found {other:?}"));
                }
            }
        }
    }
    let surplus = found.iter().filter(|(path, _)| !expected.contains_key(*path));
    differences.extend(surplus.map(|(path, object)| format!("{path}: not expected ({})", object.kind)));
    differences
}

fn mask(object: &mut Object, times: Times) {
    if times == Times::None || (times == Times::Set && object.mtime_ns >= CLOCK_TIMES_FROM_NS) {
        object.mtime_ns = -1;
    }
}

/// Fails with every difference if two trees differ.
///
/// # Panics
/// When they differ.
pub fn assert_same(expected: &Tree, found: &Tree, times: Times, what: &str) {
    let differences = differences(expected, found, times);
    let shown = differences.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{what}: {} differences\n{shown}", differences.len());
}

/// A tree of which some paths do not count, such as logs with times in them.
#[must_use]
pub fn without(tree: &Tree, beginnings: &[&str]) -> Tree {
    let counts = |path: &str| !beginnings.iter().any(|beginning| path.starts_with(beginning));
    tree.iter().filter(|(path, _)| counts(path)).map(|(path, object)| (path.clone(), object.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_each_kind_of_difference() {
        let directory = tempfile::tempdir().unwrap();
        let (a, b) = (directory.path().join("a"), directory.path().join("b"));
        for root in [&a, &b] {
            fs::create_dir_all(root.join("d")).unwrap();
            fs::write(root.join("d/file"), b"bytes").unwrap();
            fs::hard_link(root.join("d/file"), root.join("link")).unwrap();
            std::os::unix::fs::symlink("d/file", root.join("symlink")).unwrap();
        }
        let first = list(&a).unwrap();
        assert_eq!(first.len(), 5);
        assert_eq!(first["link"].same_as.as_deref(), Some("d/file"));
        assert_same(&first, &list(&b).unwrap(), Times::Set, "equal trees");

        let set = |path: &str, seconds| {
            let file = fs::OpenOptions::new().write(true).open(b.join(path)).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
        };
        set("d/file", 5);
        assert_eq!(differences(&first, &list(&b).unwrap(), Times::Set).len(), 2, "both names show the time");
        assert_same(&first, &list(&b).unwrap(), Times::None, "no times");

        fs::write(b.join("d/file"), b"bytez").unwrap();
        assert_eq!(differences(&first, &list(&b).unwrap(), Times::None).len(), 2);
        fs::remove_file(b.join("link")).unwrap();
        fs::write(b.join("more"), b"").unwrap();
        let found = differences(&first, &list(&b).unwrap(), Times::None);
        assert!(found.iter().any(|line| line == "link: missing (file)"), "{found:?}");
        assert!(found.iter().any(|line| line == "more: not expected (file)"), "{found:?}");
    }
}
