//! Reading parts of a trace by its index: only the blocks that can hold what is asked for.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use super::block::{self, HEADER_BYTES, Header, PREAMBLE_BYTES, TRAILER_BYTES, Trailer, kind};
use super::index::{self, IndexEntry};
use super::read::{self, Ending, fill};
use crate::error::Error;
use crate::format::Format;
use crate::record::{FileId, Record};
use crate::source::{Gap, GapReason, Source, Tables};

/// Which records are wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// Not those that begin earlier, nanoseconds.
    pub from_ns: u64,
    /// Not those that begin at this time or later, nanoseconds.
    pub until_ns: u64,
    /// Only those of these files; none: of all.
    pub files: Option<Vec<FileId>>,
}

impl Default for Selection {
    fn default() -> Selection {
        Selection { from_ns: 0, until_ns: u64::MAX, files: None }
    }
}

impl Selection {
    /// Whether a record is wanted.
    #[must_use]
    pub fn wants(&self, record: &Record) -> bool {
        (self.from_ns..self.until_ns).contains(&record.start_ns) && self.files.as_ref().is_none_or(|files| files.contains(&record.file))
    }

    fn may_be_in(&self, entry: &IndexEntry) -> bool {
        let in_time = entry.first_ns < self.until_ns && entry.last_ns >= self.from_ns;
        let of_file = match (&self.files, &entry.files) {
            (Some(wanted), Some(there)) => wanted.iter().any(|file| there.contains(file)),
            _ => true,
        };
        entry.has_records() && in_time && of_file
    }
}

/// A trace in a file that can be sought. Without an index (it was not closed) one is made by a walk over the headers.
#[derive(Debug)]
pub struct SeekReader<R: Read + Seek> {
    input: R,
    tables: Tables,
    entries: Vec<IndexEntry>,
    ending: Ending,
    sorted: Option<bool>,
    selection: Selection,
    next_entry: usize,
    records: Vec<Record>,
    next: usize,
    stored: Vec<u8>,
    raw: Vec<u8>,
    blocks_read: u64,
}

impl SeekReader<File> {
    /// The same of a file, if that is a trace of ours; none if it cannot be sought, or has, or is said to have, another format.
    ///
    /// # Errors
    /// As for [`SeekReader::new`].
    pub fn of_file(mut file: File, format: Option<Format>) -> Result<Option<SeekReader<File>>, Error> {
        let mut begin = [0; block::MAGIC.len()];
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        let is_ours = format.is_none_or(|format| format == Format::Fbt) && is_file;
        if !is_ours || file.read_exact(&mut begin).is_err() || begin != block::MAGIC {
            return Ok(None);
        }
        SeekReader::new(file).map(Some)
    }
}

impl<R: Read + Seek> SeekReader<R> {
    /// Reads the index and all names.
    ///
    /// # Errors
    /// If it is not a trace, of another version, or damaged.
    pub fn new(mut input: R) -> Result<SeekReader<R>, Error> {
        let mut preamble = [0; PREAMBLE_BYTES];
        input.seek(SeekFrom::Start(0)).map_err(Error::Read)?;
        let filled = fill(&mut input, &mut preamble)?;
        if filled < PREAMBLE_BYTES {
            return Err(Error::at_byte(Format::Fbt, filled as u64, "the file ends within its first 16 bytes"));
        }
        block::check_preamble(&preamble)?;
        let mut reader = SeekReader {
            input,
            tables: Tables::default(),
            entries: Vec::new(),
            ending: Ending::Closed,
            sorted: None,
            selection: Selection::default(),
            next_entry: 0,
            records: Vec::new(),
            next: 0,
            stored: Vec::new(),
            raw: Vec::new(),
            blocks_read: 0,
        };
        match reader.index()? {
            Some((entries, sorted)) => (reader.entries, reader.sorted) = (entries, Some(sorted)),
            None => reader.walk()?,
        }
        let tables: Vec<u64> = reader.entries.iter().filter(|entry| !entry.has_records()).map(|entry| entry.position).collect();
        for position in tables {
            let header = reader.load(position)?.ok_or_else(|| damaged(position))?;
            reader.tables.take(&header, &reader.raw, position)?;
        }
        if let Ending::CutOff { at } = reader.ending {
            reader.tables.gaps.push(Gap::new(GapReason::CutOff, format!("the trace was not closed; it is whole up to byte {at}")));
        }
        Ok(reader)
    }

    /// Only these records from now on, from the begin.
    pub fn select(&mut self, selection: Selection) {
        self.selection = selection;
        self.next_entry = 0;
        self.next = 0;
        self.records.clear();
    }

    /// The blocks of the trace.
    #[must_use]
    pub fn entries(&self) -> &[IndexEntry] {
        &self.entries
    }

    /// All records of the trace, whatever is selected.
    #[must_use]
    pub fn records_total(&self) -> u64 {
        self.entries.iter().filter(|entry| entry.has_records()).map(|entry| u64::from(entry.count)).sum()
    }

    /// How the trace ends.
    #[must_use]
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// Whether the starts never decrease, if an index says so.
    #[must_use]
    pub fn sorted(&self) -> Option<bool> {
        self.sorted
    }

    /// Blocks that were read and unpacked so far.
    #[must_use]
    pub fn blocks_read(&self) -> u64 {
        self.blocks_read
    }

    /// The index, if there is a whole one.
    fn index(&mut self) -> Result<Option<(Vec<IndexEntry>, bool)>, Error> {
        let length = self.input.seek(SeekFrom::End(0)).map_err(Error::Read)?;
        let Some(at) = length.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
        self.input.seek(SeekFrom::Start(at)).map_err(Error::Read)?;
        let mut bytes = [0; TRAILER_BYTES];
        fill(&mut self.input, &mut bytes)?;
        let Some(trailer) = Trailer::decode(&bytes) else { return Ok(None) };
        let Some(header) = self.load(trailer.index_position)? else { return Ok(None) };
        if header.kind != kind::INDEX {
            return Ok(None);
        }
        let Some((entries, sorted)) = index::decode(&self.raw) else { return Ok(None) };
        let records: u64 = entries.iter().filter(|entry| entry.has_records()).map(|entry| u64::from(entry.count)).sum();
        let whole = entries.len() as u64 + 1 == u64::from(trailer.blocks) && records == trailer.records;
        Ok(whole.then_some((entries, sorted)))
    }

    /// Loads a block into `raw`; none if there is no whole one.
    fn load(&mut self, position: u64) -> Result<Option<Header>, Error> {
        self.input.seek(SeekFrom::Start(position)).map_err(Error::Read)?;
        let mut bytes = [0; HEADER_BYTES];
        if fill(&mut self.input, &mut bytes)? < HEADER_BYTES {
            return Ok(None);
        }
        let Some(header) = Header::decode(&bytes) else { return Ok(None) };
        self.stored.resize(header.stored_bytes as usize, 0);
        if fill(&mut self.input, &mut self.stored)? < self.stored.len() || !header.fits_payload(&self.stored) {
            return Ok(None);
        }
        self.blocks_read += 1;
        header.unpack(&self.stored, &mut self.raw).map_err(|problem| Error::at_byte(Format::Fbt, position, problem))?;
        Ok(Some(header))
    }

    /// Makes the index of a trace that was not closed.
    fn walk(&mut self) -> Result<(), Error> {
        let mut position = PREAMBLE_BYTES as u64;
        loop {
            // The payload is read too: a whole block is one whose payload is right.
            let header = self.load(position)?.filter(|header| header.number as usize == self.entries.len());
            let Some(header) = header else { break };
            if header.kind == kind::INDEX {
                break;
            }
            let files = None;
            let Header { kind, count, first_ns, last_ns, .. } = header;
            self.entries.push(IndexEntry { kind, position, count, first_ns, last_ns, files });
            position += HEADER_BYTES as u64 + u64::from(header.stored_bytes);
        }
        // Whether this is the end or damage is for a reader from the front to say; it looks at everything behind.
        self.input.seek(SeekFrom::Start(0)).map_err(Error::Read)?;
        let mut whole = read::Reader::new(std::io::BufReader::new(&mut self.input))?;
        while whole.next_record()?.is_some() {}
        self.ending = whole.ending().unwrap_or(Ending::CutOff { at: position });
        Ok(())
    }
}

fn damaged(position: u64) -> Error {
    Error::at_byte(Format::Fbt, position, "a block is damaged")
}

impl<R: Read + Seek> Source for SeekReader<R> {
    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        loop {
            while let Some(record) = self.records.get(self.next) {
                self.next += 1;
                if self.selection.wants(record) {
                    return Ok(Some(*record));
                }
            }
            self.records.clear();
            self.next = 0;
            let Some(entry) = self.entries.get(self.next_entry) else { return Ok(None) };
            self.next_entry += 1;
            if self.selection.may_be_in(entry) {
                let position = entry.position;
                let header = self.load(position)?.filter(|header| header.kind == kind::RECORDS).ok_or_else(|| damaged(position))?;
                read::records(&header, &self.raw, position, &self.tables.names, &mut self.records)?;
            }
        }
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }
}
