//! What was written comes back; what was cut off comes back as far as it is whole; what is damaged is an error.

use std::io::Cursor;

use proptest::prelude::*;

use super::*;
use crate::error::Error;
use crate::names::{Names, Process};
use crate::record::{FileId, Flags, Layer, Op, ProcessId, Record};
use crate::source::{About, Clock, Gap, GapReason, Source};

fn names() -> Names {
    let mut names = Names::new();
    for number in 0..5 {
        names.file(format!("/data/{number}").as_bytes()).unwrap();
        names.process(Process { host: "n1".into(), pid: 100 + number, rank: Some(number as u32), ..Process::default() }).unwrap();
    }
    names
}

fn about() -> About {
    About { clock: Clock::Unix, facts: Vec::new() }.with("source", "test")
}

/// Any record over the names above.
fn any_record() -> impl Strategy<Value = Record> {
    let id = || prop_oneof![4 => 0..5u32, 1 => Just(u32::MAX)];
    let times = (any::<u64>(), prop_oneof![0..1000u64, any::<u64>()]);
    let what = (0..27u8, 0..5u8, 0..1u32 << 16);
    let place = (prop_oneof![0..10_000u64, any::<u64>()], prop_oneof![0..10_000u64, any::<u64>()]);
    (times, what, (id(), id(), id()), place, prop_oneof![-40..10_000i64, any::<i64>()]).prop_map(|(times, what, ids, place, result)| {
        Record {
            start_ns: times.0,
            duration_ns: times.1,
            op: Op::from_number(what.0).unwrap(),
            layer: Layer::from_number(what.1).unwrap(),
            flags: Flags(what.2),
            process: ProcessId(ids.0),
            file: FileId(ids.1),
            other: FileId(ids.2),
            offset: place.0,
            size: place.1,
            result,
        }
    })
}

/// A trace with a block for each part.
fn written(parts: &[Vec<Record>], gaps: &[Gap], close: bool) -> Vec<u8> {
    let names = names();
    let mut writer = Writer::new(Vec::new(), &about()).unwrap();
    for part in parts {
        for record in part {
            writer.push(&names, record).unwrap();
        }
        writer.flush(&names).unwrap();
    }
    for gap in gaps {
        writer.gap(&names, gap).unwrap();
    }
    if close {
        let (bytes, totals) = writer.finish(&names).unwrap();
        assert_eq!(totals.bytes, bytes.len() as u64);
        bytes
    } else {
        let mut closed = writer.finish(&names).unwrap().0;
        let at = u64::from_le_bytes(closed[closed.len() - 24..closed.len() - 16].try_into().unwrap());
        closed.truncate(at as usize);
        closed
    }
}

fn all(source: &mut impl Source) -> Result<Vec<Record>, Error> {
    let mut records = Vec::new();
    while let Some(record) = source.next_record()? {
        records.push(record);
    }
    Ok(records)
}

fn part(first: u64, count: u64) -> Vec<Record> {
    let record = |number: u64| Record {
        duration_ns: 7,
        file: FileId((number % 2) as u32),
        process: ProcessId(0),
        offset: number / 2 * 4096,
        size: 4096,
        result: 4096,
        ..Record::new(Op::Write, number * 10)
    };
    (first..first + count).map(record).collect()
}

proptest! {
    #[test]
    fn what_was_written_comes_back(parts in prop::collection::vec(prop::collection::vec(any_record(), 0..50), 0..4)) {
        let gap = Gap { count: 3, file: FileId(2), ..Gap::new(GapReason::Dropped, "the queue was full") };
        let bytes = written(&parts, std::slice::from_ref(&gap), true);
        let records: Vec<Record> = parts.concat();
        let mut reader = Reader::new(&bytes[..]).unwrap();
        prop_assert_eq!(all(&mut reader).unwrap(), records.clone());
        prop_assert_eq!(reader.ending(), Some(Ending::Closed));
        prop_assert_eq!((reader.about(), reader.gaps()), (&about(), &[gap][..]));
        let paths: Vec<&[u8]> = reader.names().files().collect();
        let expected = names();
        prop_assert_eq!(paths, expected.files().collect::<Vec<_>>());
        let mut reader = SeekReader::new(Cursor::new(&bytes)).unwrap();
        prop_assert_eq!(reader.records_total(), records.len() as u64);
        let sorted = records.is_sorted_by_key(|record| record.start_ns);
        prop_assert_eq!(reader.sorted(), Some(sorted));
        prop_assert_eq!(all(&mut reader).unwrap(), records);
    }

    #[test]
    fn a_trace_that_was_cut_off_is_read_up_to_its_last_whole_block(cut in 0..10_000usize, close: bool) {
        let parts = [part(0, 40), part(40, 3), part(43, 200)];
        let bytes = written(&parts, &[], close);
        let cut = cut % bytes.len();
        let records = parts.concat();
        let Ok(mut reader) = Reader::new(&bytes[..cut]) else {
            prop_assert!(cut < 16, "only the first bytes are needed");
            return Ok(());
        };
        let read = all(&mut reader).unwrap();
        prop_assert!([0, 40, 43, 243].contains(&read.len()), "{} records", read.len());
        prop_assert_eq!(&read[..], &records[..read.len()]);
        let Some(Ending::CutOff { at }) = reader.ending() else { panic!("it was cut off") };
        prop_assert!(at <= cut as u64);
        prop_assert_eq!(reader.gaps()[0].reason, GapReason::CutOff);
        let mut again = SeekReader::new(Cursor::new(&bytes[..cut])).unwrap();
        prop_assert_eq!(again.ending(), Ending::CutOff { at });
        prop_assert_eq!(all(&mut again).unwrap(), read);
    }

    #[test]
    fn a_changed_byte_is_never_believed(at in 0..10_000usize, change in 1..256usize) {
        let parts = [part(0, 40), part(40, 3), part(43, 200)];
        let mut bytes = written(&parts, &[], true);
        let at = at % bytes.len();
        bytes[at] ^= change as u8;
        let records = parts.concat();
        if let Ok(mut reader) = Reader::new(&bytes[..]) && let Ok(read) = all(&mut reader) {
            prop_assert_eq!(&read[..], &records[..read.len()]);
            // Only the blocks behind the last record may be missing without an error.
            prop_assert!(read.len() == records.len() || reader.ending() != Some(Ending::Closed));
        }
        if let Ok(mut reader) = SeekReader::new(Cursor::new(&bytes)) && let Ok(read) = all(&mut reader) {
            prop_assert_eq!(&read[..], &records[..read.len()]);
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), valid_start: bool) {
        let mut whole = if valid_start { written(&[], &[], false) } else { Vec::new() };
        whole.extend_from_slice(&bytes);
        if let Ok(mut reader) = Reader::new(&whole[..]) {
            let _ = all(&mut reader);
        }
    }

    #[test]
    fn any_payload_under_right_checksums_is_read_without_a_panic(
        raw in prop::collection::vec(any::<u8>(), 0..200), kind in 0..7u8, count in 0..100u32, first_ns: u64,
    ) {
        let mut bytes = written(&[part(0, 3)], &[], false);
        let number = bytes.windows(4).filter(|four| *four == block::BLOCK_MAGIC).count() as u32;
        let mut packed = Vec::new();
        block::pack(kind, number, count, (first_ns, first_ns), &raw, &mut packed);
        bytes.extend_from_slice(&packed);
        let _ = all(&mut Reader::new(&bytes[..]).unwrap());
        let trailer = block::Trailer { index_position: (bytes.len() - packed.len()) as u64, records: 3, blocks: number + 1 };
        bytes.extend_from_slice(&trailer.encode());
        if let Ok(mut reader) = SeekReader::new(Cursor::new(&bytes)) {
            let _ = all(&mut reader);
        }
    }
}

#[test]
fn a_damaged_block_in_the_middle_is_an_error_with_its_place() {
    let bytes = written(&[part(0, 40), part(40, 40), part(80, 40)], &[], true);
    let starts: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(&block::BLOCK_MAGIC)).collect();
    // About, names, records, records.
    let second = starts[3];
    for offset in [5, 60] {
        let mut damaged = bytes.clone();
        damaged[second + offset] ^= 1;
        let mut reader = Reader::new(&damaged[..]).unwrap();
        let error = all(&mut reader).unwrap_err();
        assert!(error.to_string().contains(&format!("byte {second}")), "{error}");
    }
}

#[test]
fn the_index_leads_to_the_blocks_that_are_wanted() {
    let parts: Vec<Vec<Record>> = (0..20).map(|number| part(number * 100, 100)).collect();
    let bytes = written(&parts, &[], true);
    let mut reader = SeekReader::new(Cursor::new(&bytes)).unwrap();
    let before = reader.blocks_read();
    let files = Some(vec![FileId(1)]);
    reader.select(Selection { from_ns: 5_000, until_ns: 5_500, files });
    let read = all(&mut reader).unwrap();
    assert_eq!(read.len(), 25);
    assert!(read.iter().all(|record| record.file == FileId(1) && (5_000..5_500).contains(&record.start_ns)));
    assert_eq!(reader.blocks_read() - before, 1, "one block of twenty holds them");
    reader.select(Selection { files: Some(vec![FileId(4)]), ..Selection::default() });
    let before = reader.blocks_read();
    assert_eq!((all(&mut reader).unwrap().len(), reader.blocks_read() - before), (0, 0));
}

#[test]
fn blocks_divide_by_themselves_and_sequential_writes_are_small() {
    let names = names();
    let mut writer = Writer::new(Vec::new(), &about()).unwrap();
    let count = BLOCK_RECORDS as u64 * 2 + 5;
    for record in part(0, count) {
        writer.push(&names, &record).unwrap();
    }
    assert_eq!(writer.records(), count);
    let (bytes, totals) = writer.finish(&names).unwrap();
    assert_eq!(totals.records, count);
    assert!(bytes.len() as u64 / count < 2, "{} bytes for {count} records", bytes.len());
    assert_eq!(all(&mut Reader::new(&bytes[..]).unwrap()).unwrap().len() as u64, count);
}

#[test]
fn another_version_and_another_file_are_told_apart() {
    let mut bytes = written(&[], &[], true);
    bytes[8] = 2;
    let crc = crc32c::crc32c(&bytes[..12]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    assert!(matches!(Reader::new(&bytes[..]), Err(Error::Version { .. })));
    assert!(matches!(Reader::new(&b"1478024308.996711 0.1 1 o /a 0 0"[..]), Err(Error::Malformed { .. })));
}
