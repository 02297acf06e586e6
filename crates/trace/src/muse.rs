//! The text of MUSE: `timestamp(s, 6 decimals) duration(s, 6 decimals) pid op path offset size`, op one of o, c, r, w.
//!
//! Lines that were written this way come back byte for byte. A path may hold anything: blanks, controls and, where it would be mistaken, the
//! percent sign itself are percent-encoded; an escape of another byte is no escape.

use std::io::{BufRead, Write};

use crate::error::Error;
use crate::format::Format;
use crate::names::{Names, Process};
use crate::record::{Flags, Op, Record};
use crate::source::{About, Clock, Source, Tables};
use crate::text::{Lines, fields, number, seconds};

/// Times from this on count from 1970: 2001-09-09, and no trace lasts thirty years.
const UNIX_FROM_NS: u64 = 1_000_000_000 * crate::text::SECOND_NS;

fn is_encoded(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f
}

/// The byte that `%XX` at the begin of `text` stands for, if it is one of those that are written so.
fn escape(text: &[u8]) -> Option<u8> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    };
    let [b'%', high, low, ..] = text else { return None };
    let byte = digit(*high)? * 16 + digit(*low)?;
    (is_encoded(byte) || byte == b'%').then_some(byte)
}

/// A path as it stands in a line.
#[must_use]
pub fn encode_path(path: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(path.len());
    for (place, byte) in path.iter().enumerate() {
        if is_encoded(*byte) || *byte == b'%' && escape(&path[place..]).is_some() {
            text.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            text.push(*byte);
        }
    }
    text
}

/// The path that a line means.
#[must_use]
pub fn decode_path(text: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(text.len());
    let mut place = 0;
    while place < text.len() {
        match escape(&text[place..]) {
            Some(byte) => {
                path.push(byte);
                place += 3;
            }
            None => {
                path.push(text[place]);
                place += 1;
            }
        }
    }
    path
}

fn op(letter: &[u8]) -> Option<Op> {
    match letter {
        b"o" => Some(Op::Open),
        b"c" => Some(Op::Close),
        b"r" => Some(Op::Read),
        b"w" => Some(Op::Write),
        _ => None,
    }
}

/// Reads the text.
#[derive(Debug)]
pub struct Reader<R: BufRead> {
    lines: Lines<R>,
    tables: Tables,
}

impl<R: BufRead> Reader<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> Reader<R> {
        let about = About::default().with("source", Format::Muse.name());
        Reader { lines: Lines::new(input, Format::Muse), tables: Tables::of(about) }
    }

    fn record(&mut self) -> Result<Record, Error> {
        let line = self.lines.line();
        let parts: Vec<&[u8]> = fields(line).collect();
        let [start, duration, pid, letter, path, offset, size] = parts[..] else {
            return Err(self
                .lines
                .wrong(format!("there are {} fields instead of 7: timestamp duration pid op path offset size", parts.len())));
        };
        let wrong = |what: &str, field: &[u8]| self.lines.wrong(format!("`{}` is no {what}", String::from_utf8_lossy(field)));
        let start_ns = seconds(start).ok_or_else(|| wrong("timestamp in seconds", start))?;
        let mut record = Record::new(op(letter).ok_or_else(|| wrong("operation (o, c, r, w)", letter))?, start_ns);
        record.duration_ns = seconds(duration).ok_or_else(|| wrong("duration in seconds", duration))?;
        let pid = number(pid).ok_or_else(|| wrong("process id", pid))?;
        record.offset = number(offset).ok_or_else(|| wrong("offset", offset))?;
        record.size = number(size).ok_or_else(|| wrong("size", size))?;
        record.flags = Flags::NO_RESULT;
        record.result = if record.op.moves_data() { i64::try_from(record.size).map_err(|_| wrong("size", size))? } else { 0 };
        record.file = self.tables.names.file(&decode_path(path))?;
        record.process = self.tables.names.process(Process { pid, ..Process::default() })?;
        Ok(record)
    }
}

impl<R: BufRead> Source for Reader<R> {
    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        while self.lines.advance()? {
            if fields(self.lines.line()).next().is_none() {
                continue;
            }
            let record = self.record()?;
            if record.start_ns >= UNIX_FROM_NS {
                self.tables.about.clock = Clock::Unix;
            }
            return Ok(Some(record));
        }
        Ok(None)
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }
}

/// Writes the text.
#[derive(Debug)]
pub struct Writer<W: Write> {
    output: W,
    left_out: u64,
}

impl<W: Write> Writer<W> {
    /// Writes to `output`.
    pub fn new(output: W) -> Writer<W> {
        Writer { output, left_out: 0 }
    }

    /// Writes a record, if the format can say it: open, close, read and write that did not fail, of files.
    ///
    /// # Errors
    /// If `output` refuses.
    pub fn push(&mut self, names: &Names, record: &Record) -> Result<(), Error> {
        let (letter, offset, size) = match record.op {
            Op::Open => ('o', 0, 0),
            Op::Close => ('c', 0, 0),
            Op::Read => ('r', record.offset, record.moved_bytes()),
            Op::Write => ('w', record.offset, record.moved_bytes()),
            _ => (' ', 0, 0),
        };
        let path = names.path(record.file);
        let failed = record.result < 0 && !record.flags.has(Flags::NO_RESULT);
        if letter == ' ' || failed || path.is_empty() || record.flags.has(Flags::BINNED) {
            self.left_out += 1;
            return Ok(());
        }
        let pid = names.who(record.process).map_or(0, |process| process.pid);
        let (start, duration) = (record.start_ns / 1000, record.duration_ns / 1000);
        let times = format!("{}.{:06} {}.{:06}", start / 1_000_000, start % 1_000_000, duration / 1_000_000, duration % 1_000_000);
        let mut line = format!("{times} {pid} {letter} ").into_bytes();
        line.extend_from_slice(&encode_path(path));
        line.extend_from_slice(format!(" {offset} {size}\n").as_bytes());
        self.output.write_all(&line).map_err(Error::Write)
    }

    /// Records that the format cannot say, so far.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Gives back what it wrote to.
    ///
    /// # Errors
    /// If `output` refuses.
    pub fn finish(mut self) -> Result<W, Error> {
        self.output.flush().map_err(Error::Write)?;
        Ok(self.output)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As the figure of the thesis has them (M-01).
    const EXAMPLE: &str = "1478024308.996711 0.001182 4294 o /home/user/montage/images/a.fits 0 0\n\
        1478024308.998007 0.000860 4294 r /home/user/montage/images/a.fits 0 16384\n\
        1478024308.998506 0.000102 4294 r /home/user/montage/images/a.fits 16384 12174\n";

    fn rewritten(text: &[u8]) -> Result<Vec<u8>, Error> {
        let mut reader = Reader::new(text);
        let mut writer = Writer::new(Vec::new());
        while let Some(record) = reader.next_record()? {
            writer.push(reader.names(), &record)?;
        }
        assert_eq!(writer.left_out(), 0);
        writer.finish()
    }

    #[test]
    fn the_example_comes_back_byte_for_byte() {
        assert_eq!(String::from_utf8(rewritten(EXAMPLE.as_bytes()).unwrap()).unwrap(), EXAMPLE);
        let mut reader = Reader::new(EXAMPLE.as_bytes());
        let first = reader.next_record().unwrap().unwrap();
        assert_eq!((first.start_ns, first.duration_ns, first.op), (1_478_024_308_996_711_000, 1_182_000, Op::Open));
        assert_eq!(reader.about().clock, Clock::Unix);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (line, word) in
            [("1 2 3", "3 fields"), ("x 0.1 1 r /a 0 0", "timestamp"), ("1 0.1 1 q /a 0 0", "operation"), ("1 0.1 1 r /a -1 0", "offset")]
        {
            let error = rewritten(format!("{EXAMPLE}{line}\n").as_bytes()).unwrap_err().to_string();
            assert!(error.contains("line 4") && error.contains(word), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_path_comes_back(path in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'%'), Just(b' '), Just(b'2'), Just(b'5'), Just(b'0')], 0..30)) {
            let text = encode_path(&path);
            prop_assert!(!text.iter().any(|byte| is_encoded(*byte)));
            prop_assert_eq!(decode_path(&text), path);
        }

        #[test]
        fn any_lines_come_back(
            lines in prop::collection::vec((any::<u32>(), 0..1_000_000u32, 0..99_999_999u64, any::<u32>(), 0..4usize, "[a-z%/25 ]{1,12}", any::<u32>(), any::<u32>()), 0..20)
        ) {
            let mut text = Vec::new();
            for (seconds, micros, duration, pid, op, path, offset, size) in lines {
                let letter = ["o", "c", "r", "w"][op];
                let (offset, size) = if op < 2 { (0, 0) } else { (offset, size) };
                text.extend_from_slice(format!("{seconds}.{micros:06} {}.{:06} {pid} {letter} ", duration / 1_000_000, duration % 1_000_000).as_bytes());
                text.extend_from_slice(&encode_path(path.as_bytes()));
                text.extend_from_slice(format!(" {offset} {size}\n").as_bytes());
            }
            prop_assert_eq!(rewritten(&text).unwrap(), text);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = rewritten(&text);
        }
    }
}
