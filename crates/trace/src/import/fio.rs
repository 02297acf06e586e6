//! fio's iologs, versions 2 and 3, in and out: what is written here, fio replays with `--read_iolog`.
//!
//! Times of version 3 are microseconds from the begin of the run. Version 2 has none but for `wait`, which is microseconds from the previous one.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};

use super::text::{Parser, Problem, State, TextReader, no};
use crate::error::Error;
use crate::format::Format;
use crate::names::Names;
use crate::record::{FileId, Flags, Op, Record};
use crate::text::{fields, number};

/// fio leaves out shorter waits, microseconds.
const WAIT_US_MIN: u64 = 100;

/// Understands both versions.
#[derive(Debug, Default)]
pub struct Fio {
    version: u8,
    now_us: u64,
}

/// Reads an iolog.
pub type Reader<R> = TextReader<R, Fio>;

impl<R: BufRead> Reader<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> Reader<R> {
        TextReader::with(input, Fio::default())
    }
}

fn op(action: &[u8]) -> Option<(Op, Flags)> {
    Some(match action {
        b"open" => (Op::Open, Flags::NONE),
        b"close" => (Op::Close, Flags::NONE),
        b"read" => (Op::Read, Flags::NONE),
        b"write" => (Op::Write, Flags::NONE),
        b"sync" => (Op::Sync, Flags::NONE),
        b"datasync" => (Op::Sync, Flags::DATA_ONLY),
        b"trim" => (Op::Discard, Flags::NONE),
        b"unlink" => (Op::Unlink, Flags::NONE),
        _ => return None,
    })
}

impl Parser for Fio {
    const FORMAT: Format = Format::Fio;

    fn line(&mut self, line: &[u8], state: &mut State) -> Result<(), Problem> {
        if self.version == 0 {
            self.version = match line.trim_ascii() {
                b"fio version 2 iolog" => 2,
                b"fio version 3 iolog" => 3,
                other => return Err(no("first line of an iolog of version 2 or 3", other)),
            };
            return Ok(());
        }
        let mut parts = fields(line).peekable();
        if parts.peek().is_none() {
            return Ok(());
        }
        if self.version == 3 {
            let time = parts.next().unwrap_or_default();
            self.now_us = number(time).ok_or_else(|| no("time in microseconds", time))?;
        }
        let (Some(path), Some(action)) = (parts.next(), parts.next()) else {
            return Err("the line has no file and action".into());
        };
        let mut value = |what| match parts.next() {
            None => Ok(None),
            Some(field) => number(field).map(Some).ok_or_else(|| no(what, field)),
        };
        let (offset, size) = (value("offset")?, value("length")?);
        match action {
            b"wait" if self.version == 2 => {
                self.now_us = self.now_us.saturating_add(offset.ok_or("a wait has no time")?);
                return Ok(());
            }
            b"add" => return Ok(()),
            _ => {}
        }
        let (op, flags) = op(action).ok_or_else(|| no("action of an iolog", action))?;
        if op.moves_data() && (offset.is_none() || size.is_none()) {
            return Err("a read or write has no offset and length".into());
        }
        let mut record = Record::new(op, self.now_us.checked_mul(1000).ok_or("the time is too large")?);
        record.flags = flags | Flags::NO_DURATION | Flags::NO_RESULT;
        (record.offset, record.size) = (offset.unwrap_or(0), size.unwrap_or(0));
        record.result = if op.moves_data() { i64::try_from(record.size).map_err(|_| "the length is too large")? } else { 0 };
        record.file = state.tables.names.file(path)?;
        state.ready.push_back(record);
        Ok(())
    }
}

/// Writes an iolog. fio wants each file added and opened before it is used, and closed: what the trace leaves out is added.
#[derive(Debug)]
pub struct Writer<W: Write> {
    output: W,
    version: u8,
    /// Of each file that was added: how often it is open.
    open: BTreeMap<FileId, (Vec<u8>, u32)>,
    start_ns: Option<u64>,
    now_us: u64,
    waited_us: u64,
    left_out: u64,
}

impl<W: Write> Writer<W> {
    /// Writes version 2 or 3 to `output`.
    ///
    /// # Errors
    /// If `output` refuses, or there is no such version.
    pub fn new(mut output: W, version: u8) -> Result<Writer<W>, Error> {
        if !matches!(version, 2 | 3) {
            return Err(Error::Unsupported(format!("fio has no iolog of version {version} that could be written")));
        }
        writeln!(output, "fio version {version} iolog").map_err(Error::Write)?;
        Ok(Writer { output, version, open: BTreeMap::new(), start_ns: None, now_us: 0, waited_us: 0, left_out: 0 })
    }

    fn put(&mut self, path: &[u8], rest: &str) -> Result<(), Error> {
        let mut line = if self.version == 3 { format!("{} ", self.now_us).into_bytes() } else { Vec::new() };
        line.extend_from_slice(path);
        line.extend_from_slice(format!(" {rest}\n").as_bytes());
        self.output.write_all(&line).map_err(Error::Write)
    }

    /// Adds and opens a file if that was not done.
    fn ready(&mut self, file: FileId, path: &[u8]) -> Result<(), Error> {
        if !self.open.contains_key(&file) {
            self.put(path, "add")?;
            self.open.insert(file, (path.to_vec(), 0));
        }
        Ok(())
    }

    fn opened(&mut self, file: FileId, path: &[u8]) -> Result<(), Error> {
        self.ready(file, path)?;
        if self.open.get(&file).is_some_and(|(_, count)| *count == 0) {
            self.put(path, "open")?;
            self.count(file, 1);
        }
        Ok(())
    }

    fn count(&mut self, file: FileId, count: u32) {
        if let Some((_, old)) = self.open.get_mut(&file) {
            *old = count;
        }
    }

    /// Writes a record, if an iolog can say it. Records must come by time.
    ///
    /// # Errors
    /// If `output` refuses.
    pub fn push(&mut self, names: &Names, record: &Record) -> Result<(), Error> {
        let path = names.path(record.file);
        let failed = record.result < 0 && !record.flags.has(Flags::NO_RESULT);
        // fio takes a path up to the next blank.
        let sayable = !path.is_empty() && path.iter().all(|byte| *byte > b' ') && path.len() < 4096;
        let wanted = matches!(record.op, Op::Open | Op::Create | Op::Close | Op::Read | Op::Write | Op::Sync | Op::Discard);
        let empty = matches!(record.op, Op::Read | Op::Write) && record.moved_bytes() == 0;
        if !sayable || failed || !wanted || empty || record.flags.has(Flags::BINNED) {
            self.left_out += 1;
            return Ok(());
        }
        let start_ns = *self.start_ns.get_or_insert(record.start_ns);
        self.now_us = self.now_us.max(record.start_ns.saturating_sub(start_ns) / 1000);
        let (file, open) = (record.file, self.open.get(&record.file).map_or(0, |(_, count)| *count));
        match record.op {
            Op::Open | Op::Create => {
                self.opened(file, path)?;
                self.count(file, open + 1);
                return Ok(());
            }
            Op::Close => {
                if open == 1 {
                    self.put(path, "close")?;
                }
                self.count(file, open.saturating_sub(1));
                return Ok(());
            }
            _ => self.opened(file, path)?,
        }
        if self.version == 2 && self.now_us - self.waited_us >= WAIT_US_MIN {
            self.put(path, &format!("wait {} 0", self.now_us - self.waited_us))?;
            self.waited_us = self.now_us;
        }
        let action = match record.op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Discard => "trim",
            _ if record.flags.has(Flags::DATA_ONLY) => "datasync",
            _ => "sync",
        };
        let size = if record.op.moves_data() { record.moved_bytes() } else { record.size };
        self.put(path, &format!("{action} {} {size}", record.offset))
    }

    /// Records that an iolog cannot say, so far.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Closes the files and gives back what it wrote to.
    ///
    /// # Errors
    /// If `output` refuses.
    pub fn finish(mut self) -> Result<W, Error> {
        for (path, count) in std::mem::take(&mut self.open).into_values() {
            if count > 0 {
                self.put(&path, "close")?;
            }
        }
        self.output.flush().map_err(Error::Write)?;
        Ok(self.output)
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::testing::all;
    use super::*;
    use crate::source::{MemorySource, Source};

    /// As fio 3.33 writes it.
    const THREE: &str = "fio version 3 iolog\n22 /tmp/dat add\n147 /tmp/dat open\n153 /tmp/dat read 0 4096\n3990 /tmp/dat write 28672 4096\n\
        4006 /tmp/dat sync 0 0\n7943 /tmp/dat close\n";
    const TWO: &str = "fio version 2 iolog\n/tmp/a add\n/tmp/a open\n/tmp/a wait 250 0\n/tmp/a write 0 512\n/tmp/a wait 1000 0\n/tmp/a datasync 0 0\n/tmp/a close\n";

    fn written(source: &MemorySource, version: u8) -> String {
        let mut writer = Writer::new(Vec::new(), version).unwrap();
        source.records().iter().for_each(|record| writer.push(&source.tables.names, record).unwrap());
        String::from_utf8(writer.finish().unwrap()).unwrap()
    }

    #[test]
    fn both_versions_are_read() {
        let source = all(Reader::new(THREE.as_bytes())).unwrap();
        let times: Vec<u64> = source.records().iter().map(|record| record.start_ns).collect();
        assert_eq!(times, [147_000, 153_000, 3_990_000, 4_006_000, 7_943_000]);
        let write = source.records()[2];
        assert_eq!((write.op, write.offset, write.size, source.tables.names.path(write.file)), (Op::Write, 28672, 4096, &b"/tmp/dat"[..]));
        let source = all(Reader::new(TWO.as_bytes())).unwrap();
        let times: Vec<(Op, u64)> = source.records().iter().map(|record| (record.op, record.start_ns)).collect();
        assert_eq!(times, [(Op::Open, 0), (Op::Write, 250_000), (Op::Sync, 1_250_000), (Op::Close, 1_250_000)]);
    }

    #[test]
    fn what_was_written_is_read_as_the_same() {
        for (text, version) in [(THREE, 3), (TWO, 2), (THREE, 2), (TWO, 3)] {
            let source = all(Reader::new(text.as_bytes())).unwrap();
            let again = all(Reader::new(written(&source, version).as_bytes())).unwrap();
            let first = source.records()[0].start_ns;
            for (one, other) in source.records().iter().zip(again.records()) {
                assert_eq!((one.op, one.offset, one.size), (other.op, other.offset, other.size));
                // Version 2 has no waits below 100 us, and none before an open or close.
                let late_ns = (one.start_ns - first).abs_diff(other.start_ns);
                let bound_ns = if version == 3 { 0 } else { WAIT_US_MIN * 1000 };
                assert!(late_ns <= bound_ns || version == 2 && !one.op.moves_data(), "{text} {version}: {late_ns}");
            }
            assert_eq!(source.records().len(), again.records().len());
        }
    }

    #[test]
    fn files_are_added_opened_and_closed_where_the_trace_does_not() {
        let mut names = Names::new();
        let (file, blank) = (names.file(b"/x").unwrap(), names.file(b"/a b").unwrap());
        let write = Record { file, size: 9, result: 9, ..Record::new(Op::Write, 1000) };
        let records = [write, Record { file: blank, ..write }, Record { op: Op::Stat, ..write }, Record { result: -5, ..write }];
        let source = MemorySource::new(names, crate::About::default(), records);
        let mut writer = Writer::new(Vec::new(), 3).unwrap();
        records.iter().for_each(|record| writer.push(source.names(), record).unwrap());
        assert_eq!(writer.left_out(), 3);
        let text = String::from_utf8(writer.finish().unwrap()).unwrap();
        assert_eq!(text, "fio version 3 iolog\n0 /x add\n0 /x open\n0 /x write 0 9\n0 /x close\n");
        assert!(Writer::new(Vec::new(), 1).is_err());
    }

    #[test]
    fn a_wrong_line_is_named() {
        for line in ["/tmp/a", "/tmp/a jump 0 0", "/tmp/a read 0", "/tmp/a read x 0", "/tmp/a wait"] {
            let error = all(Reader::new(format!("fio version 2 iolog\n{line}\n").as_bytes())).unwrap_err().to_string();
            assert!(error.contains("line 2"), "{error}");
        }
        assert!(all(Reader::new(&b"fio version 1 iolog\n"[..])).is_err());
    }
}
