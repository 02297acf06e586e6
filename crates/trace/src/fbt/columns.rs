//! Records as columns: like values stand together, as small differences, so that they compress.

use std::collections::HashMap;

use super::block::{Cursor, put, unzigzag, zigzag};
use crate::record::{FileId, Flags, Layer, Op, ProcessId, Record};

mod column {
    pub(super) const FILES: u64 = 1;
    pub(super) const OP: u64 = 2;
    pub(super) const LAYER: u64 = 3;
    pub(super) const FLAGS: u64 = 4;
    pub(super) const START: u64 = 5;
    pub(super) const DURATION: u64 = 6;
    pub(super) const PROCESS: u64 = 7;
    pub(super) const FILE: u64 = 8;
    pub(super) const OFFSET: u64 = 9;
    pub(super) const SIZE: u64 = 10;
    pub(super) const RESULT: u64 = 11;
    pub(super) const OTHER: u64 = 12;
    pub(super) const LAST: u64 = OTHER;
}

const COLUMNS: usize = column::LAST as usize + 1;

/// A number of a name, plus one; 0 for none.
fn above(id: u32) -> u64 {
    u64::from(id.wrapping_add(1))
}

/// Turns a block of records into columns; keeps its buffers from block to block.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    columns: [Vec<u8>; COLUMNS],
    local: HashMap<FileId, usize>,
    /// Of each file of the block: its number, and the end of its last record.
    files: Vec<(FileId, u64)>,
}

impl Encoder {
    /// The payload of a block of these records into `output`; gives the files that it speaks of, in the order of their appearance.
    pub(super) fn encode(&mut self, records: &[Record], first_ns: u64, output: &mut Vec<u8>) -> impl ExactSizeIterator<Item = FileId> {
        self.columns.iter_mut().for_each(Vec::clear);
        self.local.clear();
        self.files.clear();
        let mut previous_ns = first_ns;
        let mut nonzero = [false; COLUMNS];
        for record in records {
            let files = &mut self.files;
            let local = *self.local.entry(record.file).or_insert_with(|| {
                files.push((record.file, 0));
                files.len() - 1
            });
            let expected = std::mem::replace(&mut self.files[local].1, record.offset.wrapping_add(record.size));
            let due = if record.op.moves_data() { record.size as i64 } else { 0 };
            let values = [
                (column::OP, u64::from(record.op as u8)),
                (column::LAYER, u64::from(record.layer as u8)),
                (column::FLAGS, u64::from(record.flags.0)),
                (column::START, zigzag(record.start_ns.wrapping_sub(previous_ns) as i64)),
                (column::DURATION, record.duration_ns),
                (column::PROCESS, above(record.process.0)),
                (column::FILE, local as u64),
                (column::OFFSET, zigzag(record.offset.wrapping_sub(expected) as i64)),
                (column::SIZE, record.size),
                (column::RESULT, zigzag(record.result.wrapping_sub(due))),
                (column::OTHER, above(record.other.0)),
            ];
            for (identity, value) in values {
                put(&mut self.columns[identity as usize], value);
                nonzero[identity as usize] |= value != 0;
            }
            previous_ns = record.start_ns;
        }
        let dictionary = &mut self.columns[column::FILES as usize];
        put(dictionary, self.files.len() as u64);
        let mut previous = 0;
        for (file, _) in &self.files {
            put(dictionary, zigzag((above(file.0) as i64).wrapping_sub(previous)));
            previous = above(file.0) as i64;
        }
        nonzero[column::FILES as usize] = true;
        let kept: Vec<usize> = (0..COLUMNS).filter(|identity| nonzero[*identity]).collect();
        output.clear();
        put(output, kept.len() as u64);
        for identity in &kept {
            put(output, *identity as u64);
            put(output, self.columns[*identity].len() as u64);
        }
        for identity in &kept {
            output.extend_from_slice(&self.columns[*identity]);
        }
        self.files.iter().map(|(file, _)| *file)
    }
}

/// The columns of a payload, each one a cursor; those that are left out are empty.
struct Split<'a> {
    columns: [Option<Cursor<'a>>; COLUMNS],
}

impl<'a> Split<'a> {
    fn of(raw: &'a [u8]) -> Option<Split<'a>> {
        let mut cursor = Cursor { rest: raw };
        let count = cursor.varint()?;
        let mut lengths = Vec::new();
        for _ in 0..count {
            lengths.push((cursor.varint()?, cursor.varint()?));
        }
        let mut columns = [None; COLUMNS];
        for (identity, length) in lengths {
            let bytes = cursor.take(length)?;
            if let Some(place) = columns.get_mut(usize::try_from(identity).ok()?) {
                place.is_none().then_some(())?;
                *place = Some(Cursor { rest: bytes });
            }
        }
        cursor.rest.is_empty().then_some(Split { columns })
    }

    /// The next value of a column.
    #[inline]
    fn next(&mut self, identity: u64) -> Option<u64> {
        self.columns[identity as usize].as_mut().map_or(Some(0), Cursor::varint)
    }

    fn files(&mut self) -> Option<Vec<(FileId, u64)>> {
        let count = self.next(column::FILES)?;
        let mut files = Vec::new();
        let mut previous = 0i64;
        for _ in 0..count {
            previous = previous.wrapping_add(unzigzag(self.next(column::FILES)?));
            files.push((FileId(u32::try_from(previous).ok()?.wrapping_sub(1)), 0));
        }
        Some(files)
    }

    fn all_used(&self) -> bool {
        self.columns.iter().flatten().all(|column| column.rest.is_empty())
    }
}

/// Why a block of records cannot be understood.
const PROBLEM: &str = "the columns of a block of records do not fit together";

/// The records of a payload into `records`, in their order.
/// `known`: so many files and processes have names.
pub(super) fn decode(raw: &[u8], count: u32, first_ns: u64, known: (usize, usize), records: &mut Vec<Record>) -> Result<(), &'static str> {
    records.clear();
    let mut split = Split::of(raw).ok_or(PROBLEM)?;
    let mut files = split.files().ok_or(PROBLEM)?;
    let mut start_ns = first_ns;
    for _ in 0..count {
        let record = one(&mut split, &mut files, start_ns).ok_or(PROBLEM)?;
        start_ns = record.start_ns;
        let named = |file: FileId| file == FileId::NONE || (file.0 as usize) < known.0;
        if !named(record.file) || !named(record.other) {
            return Err("a record speaks of a file without a name");
        }
        if record.process != ProcessId::NONE && record.process.0 as usize >= known.1 {
            return Err("a record speaks of a process without a name");
        }
        records.push(record);
    }
    if split.all_used() { Ok(()) } else { Err(PROBLEM) }
}

#[inline]
fn one(split: &mut Split<'_>, files: &mut [(FileId, u64)], previous_ns: u64) -> Option<Record> {
    let op = Op::from_number(u8::try_from(split.next(column::OP)?).ok()?)?;
    let layer = Layer::from_number(u8::try_from(split.next(column::LAYER)?).ok()?)?;
    let flags = Flags(u32::try_from(split.next(column::FLAGS)?).ok()?);
    let start_ns = previous_ns.wrapping_add(unzigzag(split.next(column::START)?) as u64);
    let duration_ns = split.next(column::DURATION)?;
    let process = ProcessId(u32::try_from(split.next(column::PROCESS)?).ok()?.wrapping_sub(1));
    let (file, end) = files.get_mut(usize::try_from(split.next(column::FILE)?).ok()?)?;
    let offset = end.wrapping_add(unzigzag(split.next(column::OFFSET)?) as u64);
    let size = split.next(column::SIZE)?;
    *end = offset.wrapping_add(size);
    let due = if op.moves_data() { size as i64 } else { 0 };
    let result = unzigzag(split.next(column::RESULT)?).wrapping_add(due);
    let other = FileId(u32::try_from(split.next(column::OTHER)?).ok()?.wrapping_sub(1));
    Some(Record { start_ns, duration_ns, op, layer, flags, process, file: *file, other, offset, size, result })
}
