//! The frame of a block: header, checksums, compression. And the numbers within.

use std::io::{Read, Write};

use crate::error::Error;
use crate::format::Format;

pub(super) const MAGIC: [u8; 8] = *b"FBTRACE\0";
pub(super) const VERSION: u32 = 1;
/// Bytes before the first block.
pub(super) const PREAMBLE_BYTES: usize = 16;
pub(super) const BLOCK_MAGIC: [u8; 4] = *b"FBTB";
pub(super) const HEADER_BYTES: usize = 48;
const HEADER_SUMMED_BYTES: usize = 44;
/// The largest payload, stored or raw, bytes.
pub(super) const PAYLOAD_BYTES_MAX: usize = 1 << 26;
pub(super) const RECORDS_MAX: u32 = 1 << 20;
const TRAILER_MAGIC: [u8; 8] = *b"FBTEND\0\0";
pub(super) const TRAILER_BYTES: usize = 32;

pub(super) mod kind {
    pub(crate) const ABOUT: u8 = 1;
    pub(crate) const NAMES: u8 = 2;
    pub(crate) const RECORDS: u8 = 3;
    pub(crate) const GAPS: u8 = 4;
    pub(crate) const INDEX: u8 = 5;
}

const CODEC_STORED: u8 = 0;
const CODEC_DEFLATE: u8 = 1;

/// What stands in front of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) kind: u8,
    codec: u8,
    pub(super) stored_bytes: u32,
    raw_bytes: u32,
    pub(super) count: u32,
    payload_crc: u32,
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    pub(super) number: u32,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The first bytes of a file.
pub(super) fn preamble() -> [u8; PREAMBLE_BYTES] {
    let mut bytes = [0; PREAMBLE_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..12]);
    bytes[12..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Whether these are the first bytes of a file of this version.
pub(super) fn check_preamble(bytes: &[u8; PREAMBLE_BYTES]) -> Result<(), Error> {
    if bytes[..8] != MAGIC {
        return Err(Error::at_byte(Format::Fbt, 0, "a trace begins with FBTRACE"));
    }
    if crc32c::crc32c(&bytes[..12]) != u32_at(bytes, 12) {
        return Err(Error::at_byte(Format::Fbt, 12, "the checksum of the first bytes differs"));
    }
    match u32_at(bytes, 8) {
        VERSION => Ok(()),
        version => Err(Error::Version { format: Format::Fbt, version: version.to_string(), readable: "version 1" }),
    }
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&BLOCK_MAGIC);
        bytes[4] = self.kind;
        bytes[5] = self.codec;
        bytes[8..12].copy_from_slice(&self.stored_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.raw_bytes.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.count.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first_ns.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.last_ns.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.number.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..HEADER_SUMMED_BYTES]);
        bytes[44..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header that these bytes are, if their checksum is right and their lengths are allowed.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        if bytes[..4] != BLOCK_MAGIC || crc32c::crc32c(&bytes[..HEADER_SUMMED_BYTES]) != u32_at(bytes, HEADER_SUMMED_BYTES) {
            return None;
        }
        let header = Header {
            kind: bytes[4],
            codec: bytes[5],
            stored_bytes: u32_at(bytes, 8),
            raw_bytes: u32_at(bytes, 12),
            count: u32_at(bytes, 16),
            payload_crc: u32_at(bytes, 20),
            first_ns: u64_at(bytes, 24),
            last_ns: u64_at(bytes, 32),
            number: u32_at(bytes, 40),
        };
        let fits = header.stored_bytes as usize <= PAYLOAD_BYTES_MAX && header.raw_bytes as usize <= PAYLOAD_BYTES_MAX;
        (fits && header.codec <= CODEC_DEFLATE).then_some(header)
    }

    /// Whether these are the stored bytes of the payload.
    pub(super) fn fits_payload(&self, stored: &[u8]) -> bool {
        stored.len() == self.stored_bytes as usize && crc32c::crc32c(stored) == self.payload_crc
    }

    /// The payload, decoded into `raw`.
    pub(super) fn unpack(&self, stored: &[u8], raw: &mut Vec<u8>) -> Result<(), &'static str> {
        raw.clear();
        if self.codec == CODEC_STORED {
            raw.extend_from_slice(stored);
        } else {
            let limit = u64::from(self.raw_bytes) + 1;
            let read = flate2::read::DeflateDecoder::new(stored).take(limit).read_to_end(raw);
            read.map_err(|_| "the payload cannot be decompressed")?;
        }
        if raw.len() == self.raw_bytes as usize { Ok(()) } else { Err("the payload has another length than its header says") }
    }
}

/// A block of one kind with this payload, compressed if that makes it smaller.
pub(super) fn pack(kind: u8, number: u32, count: u32, times_ns: (u64, u64), raw: &[u8], output: &mut Vec<u8>) {
    debug_assert!(raw.len() <= PAYLOAD_BYTES_MAX, "a block is limited by who fills it");
    output.clear();
    output.resize(HEADER_BYTES, 0);
    let mut encoder = flate2::write::DeflateEncoder::new(std::mem::take(output), flate2::Compression::fast());
    // Writing into memory does not fail; if it ever did, the payload would be stored as it is.
    let packed = encoder.write_all(raw).is_ok();
    *output = encoder.finish().unwrap_or_default();
    let mut codec = CODEC_DEFLATE;
    if !packed || output.len() >= HEADER_BYTES + raw.len() {
        codec = CODEC_STORED;
        output.clear();
        output.resize(HEADER_BYTES, 0);
        output.extend_from_slice(raw);
    }
    let stored = &output[HEADER_BYTES..];
    let header = Header {
        kind,
        codec,
        stored_bytes: stored.len() as u32,
        raw_bytes: raw.len() as u32,
        count,
        payload_crc: crc32c::crc32c(stored),
        first_ns: times_ns.0,
        last_ns: times_ns.1,
        number,
    };
    output[..HEADER_BYTES].copy_from_slice(&header.encode());
}

/// What stands at the end of a trace that was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Trailer {
    pub(super) index_position: u64,
    pub(super) records: u64,
    pub(super) blocks: u32,
}

impl Trailer {
    pub(super) fn encode(&self) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..8].copy_from_slice(&TRAILER_MAGIC);
        bytes[8..16].copy_from_slice(&self.index_position.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.records.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.blocks.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; TRAILER_BYTES]) -> Option<Trailer> {
        let right = bytes[..8] == TRAILER_MAGIC && crc32c::crc32c(&bytes[..28]) == u32_at(bytes, 28);
        right.then(|| Trailer { index_position: u64_at(bytes, 8), records: u64_at(bytes, 16), blocks: u32_at(bytes, 24) })
    }
}

/// Appends a varint.
#[inline]
pub(super) fn put(output: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        output.push(value as u8 | 0x80);
        value >>= 7;
    }
    output.push(value as u8);
}

/// Appends a length and bytes.
pub(super) fn put_bytes(output: &mut Vec<u8>, bytes: &[u8]) {
    put(output, bytes.len() as u64);
    output.extend_from_slice(bytes);
}

#[inline]
pub(super) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline]
pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads numbers from the front of a payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for (place, byte) in self.rest.iter().enumerate().take(10) {
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit only.
            if place == 9 && bits > 1 {
                return None;
            }
            value |= bits << (7 * place);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[place + 1..];
                return Some(value);
            }
        }
        None
    }

    pub(super) fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let length = usize::try_from(length).ok()?;
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.varint()?;
        self.take(length)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            let mut cursor = Cursor { rest: &bytes };
            assert_eq!((cursor.varint(), cursor.rest.len()), (Some(value), 0));
            assert_eq!(zigzag(unzigzag(value)), value);
        }
        assert_eq!(Cursor { rest: &[0x80; 12] }.varint(), None);
        assert_eq!(Cursor { rest: &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2] }.varint(), None);
        assert_eq!(Cursor { rest: &[5, 1] }.bytes(), None);
    }
}
