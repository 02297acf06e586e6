//! Blocks of records alone, without names: what sorting puts aside for a moment.

use std::io::{Read, Write};

use super::block::{self, HEADER_BYTES, Header, kind};
use super::columns::{self, Encoder};
use super::read::fill;
use crate::error::Error;
use crate::format::Format;
use crate::record::Record;

/// Writes a block of records.
pub(crate) fn write(records: &[Record], output: &mut impl Write) -> Result<(), Error> {
    let (mut raw, mut packed) = (Vec::new(), Vec::new());
    drop(Encoder::default().encode(records, 0, &mut raw));
    block::pack(kind::RECORDS, 0, records.len() as u32, (0, 0), &raw, &mut packed);
    output.write_all(&packed).map_err(Error::Write)
}

/// Reads a block of records; none are left at the end.
pub(crate) fn read(input: &mut impl Read, records: &mut Vec<Record>) -> Result<(), Error> {
    let damaged = |problem| Error::at_byte(Format::Fbt, 0, format!("a temporary file of sorting is damaged: {problem}"));
    records.clear();
    let mut bytes = [0; HEADER_BYTES];
    if fill(input, &mut bytes)? == 0 {
        return Ok(());
    }
    let header = Header::decode(&bytes).ok_or_else(|| damaged("header"))?;
    let mut stored = vec![0; header.stored_bytes as usize];
    fill(input, &mut stored)?;
    if !header.fits_payload(&stored) {
        return Err(damaged("payload"));
    }
    let mut raw = Vec::new();
    header.unpack(&stored, &mut raw).map_err(damaged)?;
    columns::decode(&raw, header.count, 0, (usize::MAX, usize::MAX), records).map_err(damaged)
}
