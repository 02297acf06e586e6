//! From the paths that a user writes to paths below a mount: absolute ones in the mount or in the backing directory, relative ones from where
//! the user stands; patterns with `*`, `?`, `[...]` and `**`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use forebay_core::attr::Kind;

use crate::control::client::Files;
use crate::control::files::{FileAction, FileAnswer};
use crate::error::Error;
use crate::registry::Tag;

/// Paths that a pattern may stand for.
const MATCHES_MAX: usize = 1_000_000;

/// A path below a mount, bytes as they are; empty is the mount itself.
pub(crate) type Below = Vec<u8>;

/// `path` without `.` and `..`; none if it leads above its beginning.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir if !plain.pop() => return None,
            _ => {}
        }
    }
    Some(plain)
}

/// `path` below the mount of `tag`, for a user who stands in `here`.
pub(crate) fn below(tag: &Tag, path: &Path, here: &Path) -> Result<Below, Error> {
    let tops = [tag.mount.as_deref(), Some(tag.backing.as_path())];
    let strip = |path: &Path| tops.iter().flatten().find_map(|top| path.strip_prefix(top).ok().map(Path::to_path_buf));
    let found = if path.is_absolute() {
        // A way through symlinks leads there too.
        let real = || path.parent().and_then(|parent| Some(parent.canonicalize().ok()?.join(path.file_name()?)));
        strip(path).or_else(|| strip(&real()?))
    } else {
        // One who stands elsewhere means the mount.
        Some(strip(here).unwrap_or_default().join(path))
    };
    let plain = found.as_deref().and_then(plain);
    let mount = tag.mount.as_deref().unwrap_or(&tag.backing).display();
    let plain =
        plain.ok_or_else(|| Error::usage(format!("{} does not lie in {mount}, nor in {}", path.display(), tag.backing.display())))?;
    Ok(plain.as_os_str().as_bytes().to_vec())
}

/// Whether a path has signs of a pattern.
pub(crate) fn is_pattern(path: &[u8]) -> bool {
    path.iter().any(|byte| b"*?[".contains(byte))
}

/// Whether `name` is one that `pattern` stands for. A name that begins with a dot is, only if the pattern begins with one.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && pattern.first() != Some(&b'.') {
        return false;
    }
    // Where the last `*` was, and how much of the name it stands for: at most that one is ever tried again.
    let (mut at, mut of, mut star) = (0, 0, None);
    while of < name.len() {
        match one(&pattern[at..], name[of]) {
            _ if pattern.get(at) == Some(&b'*') => {
                star = Some((at + 1, of));
                at += 1;
            }
            Some(len) => (at, of) = (at + len, of + 1),
            None => match star {
                Some((after, taken)) => {
                    star = Some((after, taken + 1));
                    (at, of) = (after, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// How long the beginning of a pattern is that stands for one byte, if it stands for this one.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern.first()? {
        b'?' => Some(1),
        b'[' => {
            let inverted = matches!(pattern.get(1), Some(b'!' | b'^'));
            let from = 1 + usize::from(inverted);
            // A bracket that comes first is one of the bytes.
            let Some(len) = pattern.get(from + 1..).and_then(|rest| rest.iter().position(|byte| *byte == b']')) else {
                return (byte == b'[').then_some(1);
            };
            let set = &pattern[from..from + 1 + len];
            let mut at = 0;
            let mut found = false;
            while at < set.len() {
                let is_range = set.get(at + 1) == Some(&b'-') && at + 2 < set.len();
                let last = if is_range { set[at + 2] } else { set[at] };
                found |= (set[at]..=last).contains(&byte);
                at += if is_range { 3 } else { 1 };
            }
            (found != inverted).then_some(from + len + 2)
        }
        first => (*first == byte).then_some(1),
    }
}

/// An entry of a directory.
type Entry = (Vec<u8>, Kind);

/// The entries of a directory below the mount, in order; nothing if it is none.
pub(crate) fn entries(files: &mut Files, path: &[u8]) -> Result<Vec<Entry>, Error> {
    let mut found = Vec::new();
    let listed = files.ask(path, FileAction::List, |answer| {
        if let FileAnswer::Entry { name, kind } = answer {
            found.push((name, kind));
        }
    })?;
    if listed.is_err() {
        // Gone meanwhile, or no directory.
        return Ok(Vec::new());
    }
    found.sort();
    Ok(found)
}

/// `name` in the directory `path`.
pub(crate) fn join(path: &[u8], name: &[u8]) -> Below {
    let mut joined = path.to_vec();
    if !joined.is_empty() {
        joined.push(b'/');
    }
    joined.extend_from_slice(name);
    joined
}

/// The paths that a pattern stands for, in order.
pub(crate) fn expand(files: &mut Files, pattern: &[u8]) -> Result<Vec<Below>, Error> {
    let parts: Vec<&[u8]> = pattern.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    let mut found: Vec<(Below, Kind)> = vec![(Vec::new(), Kind::Directory)];
    for part in parts {
        let mut next = Vec::new();
        for (path, kind) in found {
            if kind != Kind::Directory {
                continue;
            }
            if part == b"**" {
                descend(files, path, &mut next)?;
            } else if is_pattern(part) {
                let listed = entries(files, &path)?.into_iter().filter(|(name, _)| matches(part, name));
                next.extend(listed.map(|(name, kind)| (join(&path, &name), kind)));
            } else {
                let path = join(&path, part);
                if let Ok(measure) = files.ask(&path, FileAction::Measure, |_| ())? {
                    next.push((path, measure.kind));
                }
            }
            if next.len() > MATCHES_MAX {
                let shown = String::from_utf8_lossy(pattern).into_owned();
                return Err(Error::usage(format!("{shown} stands for more than {MATCHES_MAX} paths; name their directory instead")));
            }
        }
        next.sort();
        next.dedup();
        found = next;
    }
    Ok(found.into_iter().map(|(path, _)| path).collect())
}

/// `path` and all directories below it; with `**` hidden ones stay out.
fn descend(files: &mut Files, path: Below, found: &mut Vec<(Below, Kind)>) -> Result<(), Error> {
    let mut stack = vec![path];
    while let Some(path) = stack.pop() {
        let below = entries(files, &path)?;
        stack.extend(below.iter().filter(|(name, kind)| *kind == Kind::Directory && name[0] != b'.').map(|(name, _)| join(&path, name)));
        found.push((path, Kind::Directory));
        if found.len() > MATCHES_MAX {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_what_a_shell_takes_them_for() {
        let yes = [
            ("*", "abc"),
            ("a*c", "abbc"),
            ("a*b*c", "axxbxxc"),
            ("?.h5", "a.h5"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[]]", "]"),
            ("a[", "a["),
            (".*", ".a"),
            ("*", ""),
        ];
        for (pattern, name) in yes {
            assert!(matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        let no = [("*", ".a"), ("a*c", "ab"), ("?", ""), ("?", "ab"), ("[a-c]x", "dx"), ("[!a-c]x", "ax"), ("abc", "ab"), ("ab", "abc")];
        for (pattern, name) in no {
            assert!(!matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        assert!(!matches("a*".repeat(40).as_bytes(), "b".repeat(10_000).as_bytes()));
    }

    #[test]
    fn a_path_leads_nowhere_above_its_beginning() {
        assert_eq!(plain(Path::new("a/./b/../c")), Some("a/c".into()));
        assert_eq!(plain(Path::new("a/../..")), None);
        assert_eq!(plain(Path::new(".")), Some("".into()));
    }
}
