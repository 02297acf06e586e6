//! The text of IOSIG: `rank file position bytes time operation`, and the newer `operation file position bytes start end`.

use std::io::BufRead;

use super::text::{Parser, Problem, State, TextReader, no};
use crate::format::Format;
use crate::names::Process;
use crate::record::{Flags, Layer, Op, Record};
use crate::source::Clock;
use crate::text::{SECOND_NS, fields, number, seconds};

/// A header has this many lines at most, blank ones not counted.
const HEADER_LINES_MAX: u32 = 2;
/// Times from this on count from 1970.
const UNIX_FROM_NS: u64 = 1_000_000_000 * SECOND_NS;

/// Understands both forms.
#[derive(Debug, Default)]
pub struct Iosig {
    header_lines: u32,
    begun: bool,
}

/// Reads IOSIG text.
pub type Reader<R> = TextReader<R, Iosig>;

impl<R: BufRead> Reader<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> Reader<R> {
        TextReader::with(input, Iosig::default())
    }
}

/// What a name such as `MPI_WRITEAT` or `write_all` means.
fn op(name: &[u8]) -> Option<(Op, Layer, Flags)> {
    let name = name.to_ascii_uppercase();
    let has = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
    let layer = if name.starts_with(b"MPI") { Layer::MpiIo } else { Layer::File };
    let collective = if has(b"ALL") { Flags::COLLECTIVE } else { Flags::NONE };
    let words: [(&[u8], Op); 7] = [
        (b"OPEN", Op::Open),
        (b"CLOSE", Op::Close),
        (b"READ", Op::Read),
        (b"WRITE", Op::Write),
        (b"SEEK", Op::Seek),
        (b"SYNC", Op::Sync),
        (b"SIZE", Op::Truncate),
    ];
    if !name.iter().any(u8::is_ascii_alphabetic) {
        return None;
    }
    words.into_iter().find(|(word, _)| has(word)).map(|(_, op)| (op, layer, collective))
}

/// The fields of a line: rank, file, position, size, start, end, operation.
struct Parts<'a> {
    rank: Option<&'a [u8]>,
    rest: [&'a [u8]; 4],
    end: Option<&'a [u8]>,
    op: (Op, Layer, Flags),
}

fn parts(line: &[u8]) -> Option<Parts<'_>> {
    let [one, two, three, four, five, six] = fields(line).collect::<Vec<_>>()[..] else { return None };
    match (op(one), op(six)) {
        (None, Some(op)) => Some(Parts { rank: Some(one), rest: [two, three, four, five], end: None, op }),
        (Some(op), None) => Some(Parts { rank: None, rest: [two, three, four, five], end: Some(six), op }),
        _ => None,
    }
}

/// Whether a line can be IOSIG's: an operation and five numbers.
pub(super) fn is_line(line: &[u8]) -> bool {
    parts(line).is_some_and(|Parts { rest: [_, position, size, start], .. }| {
        number(position).is_some() && number(size).is_some() && start.contains(&b'.') && seconds(start).is_some()
    })
}

impl Parser for Iosig {
    const FORMAT: Format = Format::Iosig;

    fn line(&mut self, line: &[u8], state: &mut State) -> Result<(), Problem> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let Some(Parts { rank, rest: [file, position, size, start], end, op: (op, layer, flags) }) = parts(line) else {
            self.header_lines += 1;
            if self.begun || self.header_lines > HEADER_LINES_MAX {
                return Err(no("line of 6 fields with an operation at one end", line));
            }
            return Ok(());
        };
        self.begun = true;
        let mut record = Record::new(op, seconds(start).ok_or_else(|| no("time in seconds", start))?);
        let value = |what, field| number(field).ok_or_else(|| no(what, field));
        (record.offset, record.size) = (value("file position", position)?, value("number of bytes", size)?);
        (record.layer, record.flags) = (layer, flags | Flags::NO_RESULT);
        match end {
            Some(end) => record.duration_ns = seconds(end).ok_or_else(|| no("time in seconds", end))?.saturating_sub(record.start_ns),
            None => record.flags |= Flags::NO_DURATION,
        }
        record.result = if op.moves_data() { i64::try_from(record.size).map_err(|_| no("number of bytes", size))? } else { 0 };
        let path = [&b"iosig-file-"[..], file].concat();
        record.file = state.tables.names.file(&path)?;
        if let Some(rank) = rank {
            let rank = value("rank", rank)?.try_into().map_err(|_| no("rank", rank))?;
            record.process = state.tables.names.process(Process { rank: Some(rank), ..Process::default() })?;
        }
        if record.start_ns >= UNIX_FROM_NS {
            state.tables.about.clock = Clock::Unix;
        }
        state.ready.push_back(record);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::testing::all;
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let old = "\nMPI_Rank   File #     File Pos \t # of Bytes \t Time(s)     I/O Op\n======== \n     0      0   0   0 1374177874.954655  MPI_OPEN\n\
            \x20    3     16          4096          8192 1374177874.955677  MPI_WRITEAT\n";
        let source = all(Reader::new(old.as_bytes())).unwrap();
        let write = source.records()[1];
        assert_eq!((write.op, write.layer, write.offset, write.size), (Op::Write, Layer::MpiIo, 4096, 8192));
        assert_eq!((write.start_ns, source.tables.names.path(write.file)), (1_374_177_874_955_677_000, &b"iosig-file-16"[..]));
        assert_eq!(source.tables.names.who(write.process).unwrap().rank, Some(3));
        assert_eq!(source.tables.about.clock, Clock::Unix);
        let new = "operation file position size start end\n----\nREAD_ALL 7 10 20 0.5 0.75\nclose 7 0 0 1 1\n";
        let source = all(Reader::new(new.as_bytes())).unwrap();
        let read = source.records()[0];
        assert_eq!((read.op, read.duration_ns, read.flags), (Op::Read, 250_000_000, Flags::COLLECTIVE | Flags::NO_RESULT));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let error = all(Reader::new(&b"0 0 0 0 1.5 MPI_OPEN\n0 0 x 0 1.5 MPI_READ\n"[..])).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("file position"), "{error}");
        assert!(all(Reader::new(&b"a\nb\nc\n"[..])).is_err());
    }
}
