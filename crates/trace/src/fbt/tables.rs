//! The payloads other than records: about, names, gaps.

use super::block::{Cursor, put, put_bytes};
use crate::names::{Names, Process};
use crate::record::{FileId, ProcessId};
use crate::source::{About, Clock, Gap, GapReason};

/// The columns, in words, for who finds a file and no program.
const COLUMNS: &str = "records are stored by columns of varints: 1 files of the block (count, zigzag deltas of number + 1), 2 op, 3 layer, 4 flags, 5 start ns \
(zigzag delta), 6 duration ns, 7 process + 1, 8 place in column 1, 9 offset (zigzag delta from the end of the file's previous record), 10 size, \
11 result (zigzag; of reads and writes minus size), 12 second file + 1";

pub(super) fn encode_facts(facts: &[(String, String)], output: &mut Vec<u8>) {
    for (name, value) in facts {
        put_bytes(output, name.as_bytes());
        put_bytes(output, value.as_bytes());
    }
}

/// The facts of the first block.
pub(super) fn first_facts(about: &About) -> Vec<(String, String)> {
    let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut facts = vec![fact("clock", about.clock.name()), fact("columns", COLUMNS)];
    facts.extend(about.facts.iter().cloned());
    facts
}

/// Adds the facts of a block; whether it can be understood.
pub(super) fn decode_facts(raw: &[u8], count: u32, about: &mut About) -> Option<()> {
    let mut cursor = Cursor { rest: raw };
    for _ in 0..count {
        let (name, value) = (cursor.text()?, cursor.text()?);
        match (name, value) {
            ("clock", "unix") => about.clock = Clock::Unix,
            ("clock", "relative") => about.clock = Clock::Relative,
            ("columns", _) => {}
            _ => about.facts.push((name.to_owned(), value.to_owned())),
        }
    }
    cursor.rest.is_empty().then_some(())
}

const FILE: u8 = 1;
const PROCESS: u8 = 2;

pub(super) fn encode_file(path: &[u8], output: &mut Vec<u8>) {
    output.push(FILE);
    put_bytes(output, path);
}

pub(super) fn encode_process(process: &Process, output: &mut Vec<u8>) {
    output.push(PROCESS);
    put_bytes(output, process.host.as_bytes());
    put(output, process.pid);
    put(output, process.thread);
    put(output, process.rank.map_or(0, |rank| u64::from(rank) + 1));
    put_bytes(output, process.command.as_bytes());
}

/// Adds the names of a block. A name that was there before would shift all numbers, so it is refused.
pub(super) fn decode_names(raw: &[u8], count: u32, names: &mut Names) -> Option<()> {
    let mut cursor = Cursor { rest: raw };
    for _ in 0..count {
        match cursor.byte()? {
            FILE => {
                let number = names.files().len();
                (names.file(cursor.bytes()?).ok()?.0 as usize == number).then_some(())?;
            }
            PROCESS => {
                let host = cursor.text()?.to_owned();
                let (pid, thread) = (cursor.varint()?, cursor.varint()?);
                let rank = match cursor.varint()? {
                    0 => None,
                    above => Some(u32::try_from(above - 1).ok()?),
                };
                let process = Process { host, pid, thread, rank, command: cursor.text()?.to_owned() };
                let number = names.processes().len();
                (names.process(process).ok()?.0 as usize == number).then_some(())?;
            }
            _ => return None,
        }
    }
    cursor.rest.is_empty().then_some(())
}

pub(super) fn encode_gap(gap: &Gap, output: &mut Vec<u8>) {
    output.push(gap.reason as u8);
    put(output, gap.count);
    put(output, u64::from(gap.process.0.wrapping_add(1)));
    put(output, u64::from(gap.file.0.wrapping_add(1)));
    put(output, gap.first_ns);
    put(output, gap.last_ns);
    put_bytes(output, gap.note.as_bytes());
}

pub(super) fn decode_gaps(raw: &[u8], count: u32, gaps: &mut Vec<Gap>) -> Option<()> {
    let mut cursor = Cursor { rest: raw };
    for _ in 0..count {
        gaps.push(Gap {
            reason: GapReason::from_number(cursor.byte()?)?,
            count: cursor.varint()?,
            process: ProcessId(u32::try_from(cursor.varint()?).ok()?.wrapping_sub(1)),
            file: FileId(u32::try_from(cursor.varint()?).ok()?.wrapping_sub(1)),
            first_ns: cursor.varint()?,
            last_ns: cursor.varint()?,
            note: cursor.text()?.to_owned(),
        });
    }
    cursor.rest.is_empty().then_some(())
}
