//! The regions of a log: compressed bytes, one stream behind the other as the processes wrote them.

use std::io::{BufRead, Cursor, Read};

use crate::error::Error;
use crate::format::Format;

/// How a log is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compression {
    Zlib,
    Bzip2,
    None,
}

/// Zlib streams, one behind the other.
struct ZlibStreams {
    decoder: Option<flate2::bufread::ZlibDecoder<Cursor<Vec<u8>>>>,
}

impl Read for ZlibStreams {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while let Some(decoder) = &mut self.decoder {
            match decoder.read(buffer)? {
                0 if !buffer.is_empty() => {
                    let mut rest = self.decoder.take().map(flate2::bufread::ZlibDecoder::into_inner).unwrap_or_default();
                    if !rest.fill_buf()?.is_empty() {
                        self.decoder = Some(flate2::bufread::ZlibDecoder::new(rest));
                    }
                }
                bytes => return Ok(bytes),
            }
        }
        Ok(0)
    }
}

/// A region that is being read.
pub(super) struct Region {
    input: Box<dyn Read + Send>,
    /// What it is called in errors.
    what: &'static str,
    /// Where it begins in the file.
    start: u64,
    /// How much was read of it, decompressed, bytes.
    position: u64,
    pub(super) big_endian: bool,
}

impl Region {
    pub(super) fn new(stored: Vec<u8>, compression: Compression, what: &'static str, start: u64, big_endian: bool) -> Region {
        let stored = Cursor::new(stored);
        let input: Box<dyn Read + Send> = match compression {
            Compression::Zlib if stored.get_ref().is_empty() => Box::new(stored),
            Compression::Zlib => Box::new(ZlibStreams { decoder: Some(flate2::bufread::ZlibDecoder::new(stored)) }),
            Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(stored)),
            Compression::None => Box::new(stored),
        };
        Region { input, what, start, position: 0, big_endian }
    }

    /// An error at the place that was reached.
    pub(super) fn wrong(&self, problem: &str) -> Error {
        let message = format!("{problem} ({}, {} bytes behind its begin when decompressed)", self.what, self.position);
        Error::at_byte(Format::Darshan, self.start, message)
    }

    /// Fills `buffer` as far as there is something; gives how far.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return Err(self.wrong("it cannot be decompressed: the log is damaged or cut off")),
            }
        }
        self.position += filled as u64;
        Ok(filled)
    }

    /// A part of fixed size; none at the end of the region.
    pub(super) fn part<const SIZE: usize>(&mut self) -> Result<Option<Part<SIZE>>, Error> {
        let mut bytes = [0; SIZE];
        match self.fill(&mut bytes)? {
            0 => Ok(None),
            filled if filled == SIZE => Ok(Some(Part { bytes, big_endian: self.big_endian })),
            _ => Err(self.wrong("the region ends within a record")),
        }
    }

    /// All of it, which must not be larger than `limit` bytes.
    pub(super) fn all(&mut self, limit: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let read = (&mut self.input).take(limit + 1).read_to_end(&mut bytes);
        read.map_err(|_| self.wrong("it cannot be decompressed: the log is damaged or cut off"))?;
        if bytes.len() as u64 > limit { Err(self.wrong("it is too large")) } else { Ok(bytes) }
    }
}

/// Numbers of 64 bits in either byte order.
pub(super) struct Part<const SIZE: usize> {
    pub(super) bytes: [u8; SIZE],
    big_endian: bool,
}

impl<const SIZE: usize> Part<SIZE> {
    pub(super) fn u64(&self, at: usize) -> u64 {
        u64_at(&self.bytes, at, self.big_endian)
    }

    pub(super) fn i64(&self, at: usize) -> i64 {
        self.u64(at) as i64
    }

    pub(super) fn f64(&self, at: usize) -> f64 {
        f64::from_bits(self.u64(at))
    }
}

/// The number at a place of `bytes`, which must be there.
pub(super) fn u64_at(bytes: &[u8], at: usize, big_endian: bool) -> u64 {
    let eight = bytes[at..at + 8].try_into().expect("eight bytes");
    if big_endian { u64::from_be_bytes(eight) } else { u64::from_le_bytes(eight) }
}

/// The number at a place of `bytes`, which must be there.
pub(super) fn u32_at(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let four = bytes[at..at + 4].try_into().expect("four bytes");
    if big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
}
