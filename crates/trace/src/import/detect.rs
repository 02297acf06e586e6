//! Which format a file has, and the reader for it.

use std::io::{BufRead, BufReader, Cursor, Read};

use super::{blktrace, darshan, fio, iosig, oracle, strace, tables};
use crate::error::Error;
use crate::format::Format;
use crate::source::Source;
use crate::text::fields;
use crate::{fbt, muse};

/// So much of a file is looked at, bytes.
const BEGIN_BYTES: usize = 64 << 10;
/// So many lines of a text are tried: headers and what strace says of itself come first.
const LINES_TRIED: usize = 8;
/// A log of Darshan is read into memory if it comes through a pipe; this is the most, bytes.
const DARSHAN_BYTES_MAX: u64 = 1 << 32;

/// A file or a pipe, from its begin.
pub type Input = Box<dyn Read + Send>;

/// Decompresses what gzip or bzip2 has compressed; anything else stays what it is.
fn decompressed(input: Input) -> Result<BufReader<Input>, Error> {
    let mut input = BufReader::with_capacity(BEGIN_BYTES, input);
    let begin = peek(&mut input)?;
    let inner: Input = match begin {
        [0x1f, 0x8b, 8, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, ..] => Box::new(bzip2::bufread::MultiBzDecoder::new(input)),
        _ => return Ok(input),
    };
    Ok(BufReader::with_capacity(BEGIN_BYTES, inner))
}

/// What stands at the begin; a pipe may give it in small pieces, of which the first must do.
fn peek<R: Read>(input: &mut BufReader<R>) -> Result<&[u8], Error> {
    loop {
        match input.fill_buf() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::Read(error)),
            Ok(_) => return Ok(input.buffer()),
        }
    }
}

/// The format of a file that begins so.
#[must_use]
pub fn detect(begin: &[u8]) -> Option<Format> {
    if begin.starts_with(b"FBTRACE\0") {
        return Some(Format::Fbt);
    }
    if begin.get(8..16).is_some_and(darshan::is_magic) {
        return Some(Format::Darshan);
    }
    if blktrace::is(begin) {
        return Some(Format::Blktrace);
    }
    if begin.starts_with(b"fio version ") {
        return Some(Format::Fio);
    }
    let text = begin.iter().take(4096).all(|byte| *byte >= b' ' || matches!(byte, b'\t' | b'\n' | b'\r'));
    if text {
        let lines = begin.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
        return lines.take(LINES_TRIED).find_map(line_format);
    }
    oracle::may_be(begin).then_some(Format::OracleGeneral)
}

/// The format that only this line can be of.
fn line_format(line: &[u8]) -> Option<Format> {
    let parts: Vec<&[u8]> = fields(line).collect();
    if let [time, _, _, b"o" | b"c" | b"r" | b"w", _, _, _] = parts[..]
        && time.contains(&b'.')
    {
        return Some(Format::Muse);
    }
    if line.starts_with(b"MPI_Rank") || iosig::is_line(line) {
        return Some(Format::Iosig);
    }
    if strace::is_line(line) {
        return Some(Format::Strace);
    }
    if tables::is_recorder_header(line) {
        return Some(Format::Recorder);
    }
    let columns: Vec<&[u8]> = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
    match columns[..] {
        [_, _, _, kind, _, _, _] if kind.eq_ignore_ascii_case(b"read") || kind.eq_ignore_ascii_case(b"write") => Some(Format::Msr),
        [_, _, _, b"r" | b"w" | b"R" | b"W", _, ..] => Some(Format::Spc),
        _ => None,
    }
}

/// A reader for a file or a pipe, also one that gzip or bzip2 has compressed. Without a format, the content says which it is.
///
/// # Errors
/// If the content is of no known format, or not of the one that is given, as far as its begin shows.
pub fn open(input: Input, format: Option<Format>) -> Result<(Format, Box<dyn Source + Send>), Error> {
    let mut input = decompressed(input)?;
    let format = match format {
        Some(format) => format,
        None => detect(peek(&mut input)?).ok_or(Error::Unrecognized)?,
    };
    let source: Box<dyn Source + Send> = match format {
        Format::Fbt => Box::new(fbt::Reader::new(input)?),
        Format::Muse => Box::new(muse::Reader::new(input)),
        Format::Darshan => {
            let mut bytes = Vec::new();
            input.take(DARSHAN_BYTES_MAX).read_to_end(&mut bytes).map_err(Error::Read)?;
            Box::new(darshan::Reader::new(Cursor::new(bytes))?)
        }
        Format::Fio => Box::new(fio::Reader::new(input)),
        Format::Iosig => Box::new(iosig::Reader::new(input)),
        Format::Strace => Box::new(strace::Reader::new(input)),
        Format::Msr => Box::new(tables::MsrReader::new(input)),
        Format::Spc => Box::new(tables::SpcReader::new(input)),
        Format::Blktrace => Box::new(blktrace::Reader::new(input)),
        Format::OracleGeneral => Box::new(oracle::Reader::new(input)),
        Format::Recorder => Box::new(tables::RecorderReader::new(input)),
    };
    Ok((format, source))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;
    use crate::source::MemorySource;

    const TEXTS: &[(Format, &str)] = &[
        (Format::Muse, "1478024308.996711 0.001182 4294 o /a 0 0\n"),
        (Format::Fio, "fio version 3 iolog\n1 /a add\n"),
        (Format::Iosig, "\nMPI_Rank   File #  x\n=====\n 0 0 0 0 1374177874.954655  MPI_OPEN\n"),
        (Format::Iosig, "some header\n---\nread 7 10 20 0.5 0.75\n"),
        (Format::Strace, "strace: Process 7 attached\n7 1700000000.000100 close(3</a>) = 0 <0.000002>\n"),
        (Format::Strace, "1700000000.000100 exit_group(0) = ?\n"),
        (Format::Msr, "128166372003061629,hm,1,Read,383496192,32768,113736\n"),
        (Format::Spc, "0,303567,3584,w,0.000000\n"),
        (Format::Recorder, ",file_id,rank,function,offset,size,start,end\n0,/a,3,read,10,20,0.5,0.75\n"),
    ];

    #[test]
    fn the_content_says_what_it_is() {
        for (format, text) in TEXTS {
            assert_eq!(detect(text.as_bytes()), Some(*format), "{text}");
            let (opened, mut source) = open(Box::new(text.as_bytes()), None).unwrap();
            assert_eq!(opened, *format);
            MemorySource::of(&mut source).unwrap_or_else(|error| panic!("{text}: {error}"));
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packed.write_all(text.as_bytes()).unwrap();
            let packed = packed.finish().unwrap();
            assert_eq!(open(Box::new(Cursor::new(packed)), None).unwrap().0, *format);
        }
        assert!(matches!(open(Box::new(&b"Dear reader,\nthis is a letter.\n"[..]), None), Err(Error::Unrecognized)));
        assert!(matches!(open(Box::new(&b""[..]), None), Err(Error::Unrecognized)));
    }

    proptest! {
        #[test]
        fn any_bytes_as_any_format_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), format in 0..Format::ALL.len()) {
            if let Ok((_, mut source)) = open(Box::new(Cursor::new(bytes)), Some(Format::ALL[format])) {
                let _ = MemorySource::of(&mut source);
            }
        }

        #[test]
        fn changed_texts_are_read_without_a_panic(
            which in 0..TEXTS.len(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), repeat in 1..4usize,
        ) {
            let (format, text) = TEXTS[which];
            let mut text = text.repeat(repeat).into_bytes();
            for (at, byte) in changes {
                let at = at.index(text.len());
                text[at] = byte;
            }
            let _ = open(Box::new(Cursor::new(text.clone())), None);
            if let Ok((_, mut source)) = open(Box::new(Cursor::new(text)), Some(format)) {
                let _ = MemorySource::of(&mut source);
            }
        }
    }
}
