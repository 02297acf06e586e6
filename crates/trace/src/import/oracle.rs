//! libCacheSim's oracleGeneral: records of 24 bytes, little-endian: seconds u32, object u64, size u32, next access i64.

use std::io::Read;

use crate::error::Error;
use crate::fbt::fill;
use crate::format::Format;
use crate::record::{Flags, Layer, Op, Record};
use crate::source::{About, Source, Tables};
use crate::text::SECOND_NS;

const RECORD_BYTES: usize = 24;
/// No trace has as many requests.
const NEXT_MAX: i64 = 1 << 40;

/// Reads it. Each request is a read of a whole object; an object is a file.
#[derive(Debug)]
pub struct Reader<R: Read> {
    input: R,
    position: u64,
    tables: Tables,
}

impl<R: Read> Reader<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> Reader<R> {
        Reader { input, position: 0, tables: Tables::of(About::default().with("source", Format::OracleGeneral.name())) }
    }
}

fn parts(bytes: &[u8; RECORD_BYTES]) -> (u32, u64, u32, i64) {
    let four = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let eight = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    (four(0), eight(4), four(12), eight(16) as i64)
}

/// Whether the begin of a file can be this: times that do not go back, objects with a size, and next accesses that lie ahead.
pub(super) fn may_be(begin: &[u8]) -> bool {
    let mut last_s = 0;
    let mut records = begin.chunks_exact(RECORD_BYTES).enumerate().peekable();
    let some = records.peek().is_some();
    some && records.take(1000).all(|(number, bytes)| {
        let (time_s, _, size, next) = parts(bytes.try_into().expect("its length"));
        let ordered = time_s >= last_s;
        last_s = time_s;
        ordered && size > 0 && (next == -1 || (number as i64 + 1..NEXT_MAX).contains(&next))
    })
}

impl<R: Read> Source for Reader<R> {
    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        let mut bytes = [0; RECORD_BYTES];
        match fill(&mut self.input, &mut bytes)? {
            0 => return Ok(None),
            RECORD_BYTES => {}
            _ => return Err(Error::at_byte(Format::OracleGeneral, self.position, "the file ends within a record of 24 bytes")),
        }
        let (time_s, object, size, next) = parts(&bytes);
        if next < -1 {
            return Err(Error::at_byte(Format::OracleGeneral, self.position + 16, "the number of the next access is negative"));
        }
        self.position += RECORD_BYTES as u64;
        let file = self.tables.names.file(format!("object-{object}").as_bytes())?;
        let flags = Flags::NO_DURATION | Flags::NO_RESULT;
        let mut record = Record { file, flags, layer: Layer::Block, ..Record::new(Op::Read, u64::from(time_s) * SECOND_NS) };
        (record.size, record.result) = (u64::from(size), i64::from(size));
        Ok(Some(record))
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::testing::all;
    use super::*;

    fn bytes(records: &[(u32, u64, u32, i64)]) -> Vec<u8> {
        let one = |(time, object, size, next): &(u32, u64, u32, i64)| {
            [&time.to_le_bytes()[..], &object.to_le_bytes(), &size.to_le_bytes(), &next.to_le_bytes()].concat()
        };
        records.iter().flat_map(one).collect()
    }

    #[test]
    fn requests_are_reads_of_objects() {
        let mut bytes = bytes(&[(0, 7, 512, 2), (0, 1 << 60, 4096, -1), (3, 7, 512, -1)]);
        assert!(may_be(&bytes) && !may_be(b"some other text that is long enough") && !may_be(b""));
        let source = all(Reader::new(&bytes[..])).unwrap();
        let last = source.records()[2];
        assert_eq!((last.start_ns, last.size, source.tables.names.path(last.file)), (3 * SECOND_NS, 512, &b"object-7"[..]));
        bytes.pop();
        assert!(all(Reader::new(&bytes[..])).unwrap_err().to_string().contains("byte 48"));
    }
}
