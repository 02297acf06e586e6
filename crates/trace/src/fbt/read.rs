//! Reading a trace from front to back.

use std::io::{self, Read};

use super::block::{self, HEADER_BYTES, Header, PREAMBLE_BYTES, TRAILER_BYTES, Trailer, kind};
use super::{columns, tables};
use crate::error::Error;
use crate::format::Format;
use crate::names::Names;
use crate::record::Record;
use crate::source::{Gap, GapReason, Source, Tables};

/// How a trace ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It was closed.
    Closed,
    /// It was not: a crash, or a copy that did not finish. Everything before this byte was read.
    CutOff {
        /// The first byte that belongs to no whole block.
        at: u64,
    },
}

impl Tables {
    /// Takes a block that is not records.
    pub(super) fn take(&mut self, header: &Header, raw: &[u8], position: u64) -> Result<(), Error> {
        let understood = match header.kind {
            kind::ABOUT => tables::decode_facts(raw, header.count, &mut self.about),
            kind::NAMES => tables::decode_names(raw, header.count, &mut self.names),
            kind::GAPS => tables::decode_gaps(raw, header.count, &mut self.gaps),
            _ => Some(()),
        };
        understood.ok_or_else(|| Error::at_byte(Format::Fbt, position, "a block of names, gaps or facts cannot be understood"))
    }
}

/// The records of one block.
pub(super) fn records(header: &Header, raw: &[u8], position: u64, names: &Names, records: &mut Vec<Record>) -> Result<(), Error> {
    let problem = |problem| Error::at_byte(Format::Fbt, position, problem);
    if header.count > block::RECORDS_MAX {
        return Err(problem("a block has more records than allowed"));
    }
    let known = (names.files().len(), names.processes().len());
    columns::decode(raw, header.count, header.first_ns, known, records).map_err(problem)
}

/// Fills `buffer` as far as there is something; gives how far.
pub(crate) fn fill(input: &mut impl Read, buffer: &mut [u8]) -> Result<usize, Error> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::Read(error)),
        }
    }
    Ok(filled)
}

/// Reads a trace from anything that can be read, also a pipe. What a file that can be sought allows beside: [`super::SeekReader`].
#[derive(Debug)]
pub struct Reader<R: Read> {
    input: R,
    position: u64,
    blocks: u32,
    tables: Tables,
    records: Vec<Record>,
    next: usize,
    stored: Vec<u8>,
    raw: Vec<u8>,
    ending: Option<Ending>,
}

impl<R: Read> Reader<R> {
    /// Begins to read; what is known about the whole is there at once.
    ///
    /// # Errors
    /// If it is not a trace, or one of another version.
    pub fn new(mut input: R) -> Result<Reader<R>, Error> {
        let mut preamble = [0; PREAMBLE_BYTES];
        let filled = fill(&mut input, &mut preamble)?;
        if filled < PREAMBLE_BYTES {
            return Err(Error::at_byte(Format::Fbt, filled as u64, "the file ends within its first 16 bytes"));
        }
        block::check_preamble(&preamble)?;
        let mut reader = Reader {
            input,
            position: PREAMBLE_BYTES as u64,
            blocks: 0,
            tables: Tables::default(),
            records: Vec::new(),
            next: 0,
            stored: Vec::new(),
            raw: Vec::new(),
            ending: None,
        };
        reader.block()?;
        Ok(reader)
    }

    /// How the trace ends; none before the last record was read.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// Reads one block; sets the ending if there is none.
    fn block(&mut self) -> Result<(), Error> {
        let mut bytes = [0; HEADER_BYTES];
        let filled = fill(&mut self.input, &mut bytes)?;
        if filled == TRAILER_BYTES && Trailer::decode(bytes[..TRAILER_BYTES].try_into().expect("its length")).is_some() {
            self.ending = Some(Ending::Closed);
            return Ok(());
        }
        if filled < HEADER_BYTES {
            self.cut_off();
            return Ok(());
        }
        let header = Header::decode(&bytes).filter(|header| header.number == self.blocks);
        let Some(header) = header else {
            return self.end_or_damage(&bytes, "the header of a block");
        };
        self.stored.resize(header.stored_bytes as usize, 0);
        let filled = fill(&mut self.input, &mut self.stored)?;
        if filled < self.stored.len() {
            self.cut_off();
            return Ok(());
        }
        if !header.fits_payload(&self.stored) {
            return self.end_or_damage(&[], "the payload of a block");
        }
        let at = self.position;
        header.unpack(&self.stored, &mut self.raw).map_err(|problem| Error::at_byte(Format::Fbt, at, problem))?;
        if header.kind == kind::RECORDS {
            self.next = 0;
            records(&header, &self.raw, at, &self.tables.names, &mut self.records)?;
        } else {
            self.tables.take(&header, &self.raw, at)?;
        }
        self.blocks += 1;
        self.position += (HEADER_BYTES + self.stored.len()) as u64;
        Ok(())
    }

    fn cut_off(&mut self) {
        self.ending = Some(Ending::CutOff { at: self.position });
        let note = format!("the trace was not closed; it is whole up to byte {}", self.position);
        self.tables.gaps.push(Gap::new(GapReason::CutOff, note));
    }

    /// A block is not whole: the end, unless a whole one of a later number follows.
    fn end_or_damage(&mut self, seen: &[u8], what: &'static str) -> Result<(), Error> {
        let later = self.blocks;
        if block_follows(&mut self.input, seen, later)? {
            return Err(Error::at_byte(Format::Fbt, self.position, format!("{what} is damaged, and others follow it")));
        }
        self.cut_off();
        Ok(())
    }
}

/// Whether the header of a block with a number above `number` follows, behind the bytes `seen`. Keeps 64 KiB at most.
fn block_follows(input: &mut impl Read, seen: &[u8], number: u32) -> Result<bool, Error> {
    let mut window = seen.to_vec();
    loop {
        let kept = window.len();
        window.resize(kept + (64 << 10), 0);
        let filled = fill(input, &mut window[kept..])?;
        window.truncate(kept + filled);
        for candidate in window.windows(HEADER_BYTES).filter(|candidate| candidate.starts_with(&block::BLOCK_MAGIC)) {
            let header = Header::decode(candidate.try_into().expect("its length"));
            if header.is_some_and(|header| header.number > number) {
                return Ok(true);
            }
        }
        if filled == 0 {
            return Ok(false);
        }
        window.drain(..window.len().saturating_sub(HEADER_BYTES - 1));
    }
}

impl<R: Read> Source for Reader<R> {
    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        loop {
            if let Some(record) = self.records.get(self.next) {
                self.next += 1;
                return Ok(Some(*record));
            }
            if self.ending.is_some() {
                return Ok(None);
            }
            self.records.clear();
            self.next = 0;
            self.block()?;
        }
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }
}
