//! Writing a trace, front to back.

use std::io::Write;

use super::block::{self, Trailer, kind};
use super::columns::Encoder;
use super::index::{Builder, FILES_LISTED_MAX, IndexEntry};
use super::tables;
use crate::error::Error;
use crate::names::Names;
use crate::record::{FileId, Record};
use crate::source::{About, Gap, Source};

/// Records of a block: enough that columns compress, little enough that a reader's memory and what a crash takes stay small.
pub const BLOCK_RECORDS: usize = 1 << 16;
/// Blocks of names are not filled beyond this, bytes.
const NAMES_BLOCK_BYTES: usize = 1 << 20;

/// What was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Records.
    pub records: u64,
    /// Of the whole file, bytes.
    pub bytes: u64,
}

/// Writes a trace. What was pushed is in the file after [`Writer::flush`] or when a block is full; [`Writer::finish`] adds the index.
#[derive(Debug)]
pub struct Writer<W: Write> {
    output: W,
    totals: Totals,
    blocks: u32,
    files_written: usize,
    processes_written: usize,
    records: Vec<Record>,
    encoder: Encoder,
    index: Builder,
    sorted: bool,
    latest_ns: u64,
    raw: Vec<u8>,
    packed: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// If `output` refuses.
    pub fn new(mut output: W, about: &About) -> Result<Writer<W>, Error> {
        output.write_all(&block::preamble()).map_err(Error::Write)?;
        let mut writer = Writer {
            output,
            totals: Totals { records: 0, bytes: block::PREAMBLE_BYTES as u64 },
            blocks: 0,
            files_written: 0,
            processes_written: 0,
            records: Vec::new(),
            encoder: Encoder::default(),
            index: Builder::default(),
            sorted: true,
            latest_ns: 0,
            raw: Vec::new(),
            packed: Vec::new(),
        };
        writer.facts(&tables::first_facts(about))?;
        Ok(writer)
    }

    /// Adds a record. `names` must be the same, or grown, each time.
    ///
    /// # Errors
    /// If a full block cannot be written.
    pub fn push(&mut self, names: &Names, record: &Record) -> Result<(), Error> {
        self.sorted &= record.start_ns >= self.latest_ns;
        self.latest_ns = self.latest_ns.max(record.start_ns);
        self.records.push(*record);
        if self.records.len() >= BLOCK_RECORDS {
            self.flush(names)?;
        }
        Ok(())
    }

    /// Writes the records so far as a block, and the names that they need.
    ///
    /// # Errors
    /// If `output` refuses.
    pub fn flush(&mut self, names: &Names) -> Result<(), Error> {
        self.names(names)?;
        if !self.records.is_empty() {
            let records = std::mem::take(&mut self.records);
            let result = self.block_of(&records);
            self.records = records;
            self.records.clear();
            result?;
        }
        self.output.flush().map_err(Error::Write)
    }

    fn block_of(&mut self, records: &[Record]) -> Result<(), Error> {
        let starts = records.iter().map(|record| record.start_ns);
        let (first_ns, last_ns) = (starts.clone().min().unwrap_or(0), starts.max().unwrap_or(0));
        let files = self.encoder.encode(records, first_ns, &mut self.raw);
        let listed: Option<Vec<FileId>> = (files.len() <= FILES_LISTED_MAX).then(|| files.collect());
        let count = records.len() as u32;
        self.totals.records += u64::from(count);
        let raw = std::mem::take(&mut self.raw);
        let entry = IndexEntry { kind: kind::RECORDS, position: self.totals.bytes, count, first_ns, last_ns, files: listed };
        let result = self.block(&raw, &entry);
        self.raw = raw;
        result
    }

    fn names(&mut self, names: &Names) -> Result<(), Error> {
        let mut raw = Vec::new();
        let mut count = 0;
        let files: Vec<&[u8]> = names.files().skip(self.files_written).collect();
        self.files_written += files.len();
        for path in files {
            tables::encode_file(path, &mut raw);
            count += 1;
            self.names_if_full(&mut raw, &mut count, NAMES_BLOCK_BYTES)?;
        }
        let processes: Vec<_> = names.processes().skip(self.processes_written).collect();
        self.processes_written += processes.len();
        for process in processes {
            tables::encode_process(process, &mut raw);
            count += 1;
            self.names_if_full(&mut raw, &mut count, NAMES_BLOCK_BYTES)?;
        }
        self.names_if_full(&mut raw, &mut count, 0)
    }

    fn names_if_full(&mut self, raw: &mut Vec<u8>, count: &mut u32, full_bytes: usize) -> Result<(), Error> {
        if *count > 0 && raw.len() >= full_bytes {
            self.plain_block(kind::NAMES, raw, *count)?;
            raw.clear();
            *count = 0;
        }
        Ok(())
    }

    /// Adds what is known to be missing. Names that it speaks of must have been used by a record before, or be in `names`.
    ///
    /// # Errors
    /// If `output` refuses.
    pub fn gap(&mut self, names: &Names, gap: &Gap) -> Result<(), Error> {
        self.flush(names)?;
        let mut raw = Vec::new();
        tables::encode_gap(gap, &mut raw);
        self.plain_block(kind::GAPS, &raw, 1)
    }

    /// Adds facts about the whole trace.
    ///
    /// # Errors
    /// If `output` refuses.
    pub fn facts(&mut self, facts: &[(String, String)]) -> Result<(), Error> {
        let mut raw = Vec::new();
        tables::encode_facts(facts, &mut raw);
        self.plain_block(kind::ABOUT, &raw, facts.len() as u32)
    }

    fn plain_block(&mut self, kind: u8, raw: &[u8], count: u32) -> Result<(), Error> {
        let entry = IndexEntry { kind, position: self.totals.bytes, count, first_ns: 0, last_ns: 0, files: None };
        self.block(raw, &entry)
    }

    fn block(&mut self, raw: &[u8], entry: &IndexEntry) -> Result<(), Error> {
        if raw.len() > block::PAYLOAD_BYTES_MAX {
            return Err(Error::Unsupported(format!("a part of {} bytes is too large for a trace", raw.len())));
        }
        block::pack(entry.kind, self.blocks, entry.count, (entry.first_ns, entry.last_ns), raw, &mut self.packed);
        self.output.write_all(&self.packed).map_err(Error::Write)?;
        self.index.add(entry);
        self.blocks += 1;
        self.totals.bytes += self.packed.len() as u64;
        Ok(())
    }

    /// Records pushed so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.totals.records + self.records.len() as u64
    }

    /// Writes what is left and the index; gives back what it was written to. A file should be synced by the caller.
    ///
    /// # Errors
    /// If `output` refuses.
    pub fn finish(mut self, names: &Names) -> Result<(W, Totals), Error> {
        self.flush(names)?;
        let (raw, _) = self.index.finish(self.sorted);
        // An index that has grown too large is left out: the trace is then read from front to back.
        if raw.len() <= block::PAYLOAD_BYTES_MAX {
            let index_position = self.totals.bytes;
            block::pack(kind::INDEX, self.blocks, self.blocks, (0, 0), &raw, &mut self.packed);
            self.output.write_all(&self.packed).map_err(Error::Write)?;
            let trailer = Trailer { index_position, records: self.totals.records, blocks: self.blocks + 1 };
            self.output.write_all(&trailer.encode()).map_err(Error::Write)?;
            self.totals.bytes += (self.packed.len() + block::TRAILER_BYTES) as u64;
        }
        self.output.flush().map_err(Error::Write)?;
        Ok((self.output, self.totals))
    }

    /// Writes all that is left of a source, with its gaps, and ends the trace.
    ///
    /// # Errors
    /// If the source cannot be read, or `output` refuses.
    pub fn write_all(mut self, source: &mut (impl Source + ?Sized)) -> Result<(W, Totals), Error> {
        let known = source.about().facts.len();
        while let Some(record) = source.next_record()? {
            self.push(source.names(), &record)?;
        }
        for gap in source.gaps() {
            self.gap(source.names(), gap)?;
        }
        let later = &source.about().facts[known.min(source.about().facts.len())..];
        if !later.is_empty() {
            self.facts(later)?;
        }
        self.finish(source.names())
    }
}
