//! What the kernel says about mounts: `/proc/self/mountinfo`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// `major:minor`.
    pub(crate) device: String,
    pub(crate) mountpoint: PathBuf,
    /// `fuse.forebay`, say.
    pub(crate) kind: String,
}

/// The mount that is seen at `path`, if one stands exactly there.
pub(crate) fn topmost(path: &Path) -> Option<Entry> {
    let text = std::fs::read("/proc/self/mountinfo").ok()?;
    // A later line covers an earlier one.
    parse(&text).into_iter().rfind(|entry| entry.mountpoint == path)
}

fn parse(text: &[u8]) -> Vec<Entry> {
    text.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

/// `36 35 98:0 /root /mnt options [optional fields] - type source super-options`
fn parse_line(line: &[u8]) -> Option<Entry> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let separator = fields.iter().position(|field| *field == b"-")?;
    let text = |at: usize| fields.get(at).map(|field| String::from_utf8_lossy(field).into_owned());
    Some(Entry { device: text(2)?, mountpoint: OsString::from_vec(unescape(fields.get(4)?)).into(), kind: text(separator + 1)? })
}

/// Undoes the octal escapes (`\040` for a space).
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let digits = if first == b'\\' { tail.get(..3) } else { None };
        let value = digits.and_then(|digits| std::str::from_utf8(digits).ok()).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match value {
            Some(byte) => {
                out.push(byte);
                rest = &tail[3..];
            }
            None => {
                out.push(first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lines_with_and_without_optional_fields() {
        let text = b"24 1 254:1 / / rw shared:1 - ext4 /dev/vda1 rw\n\
            90 24 0:57 / /mnt/a\\040b\\134c rw,nosuid shared:2 master:1 - fuse.forebay forebay:/x rw,user_id=0\n\
            91 24 0:58 / /mnt/old rw - fuse src rw\nnonsense\n";
        let entries = parse(text);
        assert_eq!(entries.len(), 3);
        assert_eq!(entries[1], Entry { device: "0:57".into(), mountpoint: "/mnt/a b\\c".into(), kind: "fuse.forebay".into() });
        assert_eq!((entries[2].device.as_str(), entries[2].kind.as_str()), ("0:58", "fuse"));
    }

    #[test]
    fn finds_the_mount_of_proc() {
        assert_eq!(topmost(Path::new("/proc")).map(|entry| entry.kind), Some("proc".into()));
        assert_eq!(topmost(Path::new("/proc/self/no-such-directory")), None);
    }
}
