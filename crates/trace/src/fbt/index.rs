//! The index at the end of a closed trace: where each block is, when, and of which files.

use super::block::{Cursor, kind, put, unzigzag, zigzag};
use crate::record::FileId;

/// Blocks with more files than this do not list them.
pub(super) const FILES_LISTED_MAX: usize = 1024;

/// One block of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexEntry {
    pub(super) kind: u8,
    /// Where it is, bytes from the begin.
    pub position: u64,
    /// Its records (or names, and so on).
    pub count: u32,
    /// The earliest start in it, nanoseconds.
    pub first_ns: u64,
    /// The latest start in it, nanoseconds.
    pub last_ns: u64,
    /// The files of its records in increasing order; none if they are too many to list, or not known.
    pub files: Option<Vec<FileId>>,
}

impl IndexEntry {
    /// Whether it holds records.
    #[must_use]
    pub fn has_records(&self) -> bool {
        self.kind == kind::RECORDS
    }
}

/// Builds the index while blocks are written; entries are kept in their encoded form, a few bytes each.
#[derive(Debug, Default)]
pub(super) struct Builder {
    bytes: Vec<u8>,
    count: u32,
    position: u64,
    first_ns: u64,
}

impl Builder {
    pub(super) fn add(&mut self, entry: &IndexEntry) {
        self.count += 1;
        self.bytes.push(entry.kind);
        put(&mut self.bytes, entry.position - self.position);
        put(&mut self.bytes, u64::from(entry.count));
        self.position = entry.position;
        if !entry.has_records() {
            return;
        }
        put(&mut self.bytes, zigzag(entry.first_ns.wrapping_sub(self.first_ns) as i64));
        put(&mut self.bytes, entry.last_ns - entry.first_ns);
        self.first_ns = entry.first_ns;
        let Some(files) = &entry.files else {
            put(&mut self.bytes, 0);
            return;
        };
        put(&mut self.bytes, files.len() as u64 + 1);
        let mut previous = 0;
        let mut numbers: Vec<u64> = files.iter().map(|file| u64::from(file.0.wrapping_add(1))).collect();
        numbers.sort_unstable();
        for number in numbers {
            put(&mut self.bytes, number - previous);
            previous = number;
        }
    }

    /// The payload, and the number of entries.
    pub(super) fn finish(&self, sorted: bool) -> (Vec<u8>, u32) {
        let mut payload = vec![u8::from(sorted)];
        put(&mut payload, u64::from(self.count));
        payload.extend_from_slice(&self.bytes);
        (payload, self.count)
    }
}

/// The entries of a payload, and whether the starts never decrease.
pub(super) fn decode(raw: &[u8]) -> Option<(Vec<IndexEntry>, bool)> {
    let mut cursor = Cursor { rest: raw };
    let sorted = cursor.byte()? == 1;
    let count = cursor.varint()?;
    let mut entries = Vec::new();
    let (mut position, mut first_ns) = (0u64, 0u64);
    for _ in 0..count {
        let kind = cursor.byte()?;
        position = position.checked_add(cursor.varint()?)?;
        let count = u32::try_from(cursor.varint()?).ok()?;
        let mut entry = IndexEntry { kind, position, count, first_ns: 0, last_ns: 0, files: None };
        if entry.has_records() {
            first_ns = first_ns.wrapping_add(unzigzag(cursor.varint()?) as u64);
            entry.first_ns = first_ns;
            entry.last_ns = first_ns.checked_add(cursor.varint()?)?;
            entry.files = files(&mut cursor)?;
        }
        entries.push(entry);
    }
    cursor.rest.is_empty().then_some((entries, sorted))
}

/// The inner option is none if the files are not listed.
#[allow(clippy::option_option)]
fn files(cursor: &mut Cursor<'_>) -> Option<Option<Vec<FileId>>> {
    let count = match cursor.varint()? {
        0 => return Some(None),
        above => above - 1,
    };
    (count <= FILES_LISTED_MAX as u64).then_some(())?;
    let mut files = Vec::new();
    let mut number = 0u64;
    for _ in 0..count {
        number = number.checked_add(cursor.varint()?)?;
        files.push(FileId(u32::try_from(number).ok()?.wrapping_sub(1)));
    }
    Some(Some(files))
}
