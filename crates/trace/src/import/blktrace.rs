//! What blktrace writes for each processor: events of 48 bytes with a payload behind, in the byte order of the machine.
//!
//! A request becomes a record when it is queued; it lasts until a completion covers it. The processor that completes a request may be another
//! one: `blkparse -d` gives all of them in one file.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Read;

use crate::error::Error;
use crate::fbt::fill;
use crate::format::Format;
use crate::names::Process;
use crate::record::{Flags, Layer, Op, Record};
use crate::source::{About, Clock, Source, Tables};
use crate::text::SECOND_NS;

const EVENT_BYTES: usize = 48;
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
const SECTOR_BYTES: u64 = 512;
/// Requests that wait for their completion; a device takes far fewer. The oldest is given without its duration when there are more.
const PENDING_MAX: usize = 1 << 16;

/// Kinds of events, in the lower half of `action`.
mod action {
    pub(super) const QUEUE: u32 = 1;
    pub(super) const COMPLETE: u32 = 8;
    /// Of notices.
    pub(super) const PROCESS: u32 = 0;
    pub(super) const TIMESTAMP: u32 = 1;
}

/// Categories of events, in the upper half of `action`.
mod category {
    pub(super) const WRITE: u32 = 1 << 1;
    pub(super) const FLUSH: u32 = 1 << 2;
    pub(super) const SYNC: u32 = 1 << 3;
    pub(super) const NOTIFY: u32 = 1 << 10;
    pub(super) const AHEAD: u32 = 1 << 11;
    pub(super) const DISCARD: u32 = 1 << 13;
}

/// Whether the begin of a file is an event.
pub(super) fn is(begin: &[u8]) -> bool {
    let Some(four) = begin.first_chunk::<4>() else { return false };
    [u32::from_le_bytes(*four), u32::from_be_bytes(*four)].iter().any(|magic| magic & 0xffff_ff00 == MAGIC)
}

#[derive(Clone, Copy, Debug)]
struct Event {
    time_ns: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
    payload_bytes: u16,
}

/// Reads it.
#[derive(Debug)]
pub struct Reader<R: Read> {
    input: R,
    position: u64,
    big_endian: Option<bool>,
    /// When the trace began, since 1970, as a notice says; times of events count from there.
    epoch_ns: u64,
    commands: HashMap<u32, String>,
    /// Requests without their completion: by device, sector and order.
    pending: BTreeMap<(u32, u64, u64), Record>,
    queued: u64,
    ready: VecDeque<Record>,
    ended: bool,
    tables: Tables,
}

impl<R: Read> Reader<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> Reader<R> {
        Reader {
            input,
            position: 0,
            big_endian: None,
            epoch_ns: 0,
            commands: HashMap::new(),
            pending: BTreeMap::new(),
            queued: 0,
            ready: VecDeque::new(),
            ended: false,
            tables: Tables::of(About::default().with("source", Format::Blktrace.name())),
        }
    }

    fn wrong(&self, problem: &'static str) -> Error {
        Error::at_byte(Format::Blktrace, self.position, problem)
    }

    /// The next event and its payload.
    fn event(&mut self) -> Result<Option<(Event, Vec<u8>)>, Error> {
        let mut bytes = [0; EVENT_BYTES];
        match fill(&mut self.input, &mut bytes)? {
            0 => return Ok(None),
            EVENT_BYTES => {}
            _ => return Err(self.wrong("the file ends within an event")),
        }
        let first = bytes[..4].try_into().expect("four bytes");
        let little = u32::from_le_bytes(first) & 0xffff_ff00 == MAGIC;
        let big = *self.big_endian.get_or_insert(!little);
        let four = |at: usize| {
            let four = bytes[at..at + 4].try_into().expect("four bytes");
            if big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
        };
        let eight = |at: usize| {
            if big { u64::from(four(at)) << 32 | u64::from(four(at + 4)) } else { u64::from(four(at + 4)) << 32 | u64::from(four(at)) }
        };
        if four(0) != MAGIC | VERSION {
            return Err(self.wrong("there is no event of version 7"));
        }
        let lengths = four(44);
        let payload_bytes = if big { lengths as u16 } else { (lengths >> 16) as u16 };
        let (time_ns, sector, bytes_moved) = (eight(8), eight(16), four(24));
        let event = Event { time_ns, sector, bytes: bytes_moved, action: four(28), pid: four(32), device: four(36), payload_bytes };
        let mut payload = vec![0; usize::from(event.payload_bytes)];
        if fill(&mut self.input, &mut payload)? < payload.len() {
            return Err(self.wrong("the file ends within the payload of an event"));
        }
        self.position += (EVENT_BYTES + payload.len()) as u64;
        Ok(Some((event, payload)))
    }

    fn notice(&mut self, event: &Event, payload: &[u8]) {
        match (event.action & 0xffff, payload) {
            (action::PROCESS, comm) => {
                let name: Vec<u8> = comm.iter().copied().take_while(|byte| *byte != 0).collect();
                self.commands.insert(event.pid, String::from_utf8_lossy(&name).into_owned());
            }
            (action::TIMESTAMP, [a, b, c, d, e, f, g, h, ..]) => {
                let word = |word: [u8; 4]| {
                    u64::from(if self.big_endian == Some(true) { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
                };
                self.epoch_ns = (word([*a, *b, *c, *d]) * SECOND_NS + word([*e, *f, *g, *h])).saturating_sub(event.time_ns);
                self.tables.about.clock = Clock::Unix;
            }
            _ => {}
        }
    }

    fn queue(&mut self, event: &Event, categories: u32) -> Result<(), Error> {
        let has = |category| categories & category != 0;
        let op = if has(category::DISCARD) {
            Op::Discard
        } else if has(category::FLUSH) && event.bytes == 0 {
            Op::Sync
        } else if has(category::WRITE) {
            Op::Write
        } else {
            Op::Read
        };
        let mut record = Record::new(op, self.epoch_ns.saturating_add(event.time_ns));
        record.layer = Layer::Block;
        record.flags = Flags::NO_RESULT;
        if has(category::SYNC) && op == Op::Write {
            record.flags |= Flags::SYNC;
        }
        if has(category::AHEAD) {
            record.flags |= Flags::READ_AHEAD;
        }
        record.offset = event.sector.saturating_mul(SECTOR_BYTES);
        (record.size, record.result) = (u64::from(event.bytes), i64::from(event.bytes));
        record.file = self.tables.names.file(format!("device-{}:{}", event.device >> 20, event.device & 0xf_ffff).as_bytes())?;
        let command = self.commands.get(&event.pid).cloned().unwrap_or_default();
        record.process = self.tables.names.process(Process { pid: u64::from(event.pid), command, ..Process::default() })?;
        self.queued += 1;
        self.pending.insert((event.device, event.sector, self.queued), record);
        if self.pending.len() > PENDING_MAX
            && let Some(oldest) = self.pending.keys().min_by_key(|key| key.2).copied()
            && let Some(record) = self.pending.remove(&oldest)
        {
            self.ready.push_back(Record { flags: record.flags | Flags::NO_DURATION, ..record });
        }
        Ok(())
    }

    /// Everything that was queued within the range of the completion is done: requests may have been merged.
    fn complete(&mut self, event: &Event) {
        let end = event.sector.saturating_add(u64::from(event.bytes).div_ceil(SECTOR_BYTES).max(1));
        let range = (event.device, event.sector, 0)..(event.device, end, 0);
        let done: Vec<(u32, u64, u64)> = self.pending.range(range).map(|(key, _)| *key).collect();
        let end_ns = self.epoch_ns.saturating_add(event.time_ns);
        for key in done {
            if let Some(record) = self.pending.remove(&key) {
                let flags = Flags(record.flags.0 & !Flags::NO_RESULT.0);
                self.ready.push_back(Record { duration_ns: end_ns.saturating_sub(record.start_ns), flags, ..record });
            }
        }
    }
}

impl<R: Read> Source for Reader<R> {
    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Ok(Some(record));
            }
            if self.ended {
                return Ok(None);
            }
            let Some((event, payload)) = self.event()? else {
                self.ended = true;
                let mut left: Vec<_> = std::mem::take(&mut self.pending).into_iter().collect();
                left.sort_by_key(|(key, _)| key.2);
                self.ready.extend(left.into_iter().map(|(_, record)| Record { flags: record.flags | Flags::NO_DURATION, ..record }));
                continue;
            };
            let categories = event.action >> 16;
            match event.action & 0xffff {
                _ if categories & category::NOTIFY != 0 => self.notice(&event, &payload),
                action::QUEUE => self.queue(&event, categories)?,
                action::COMPLETE => self.complete(&event),
                _ => {}
            }
        }
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::testing::all;
    use super::*;

    fn event(big: bool, time_ns: u64, sector: u64, bytes: u32, action: u32, pid: u32, payload: &[u8]) -> Vec<u8> {
        let four = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
        let eight = |value: u64| if big { value.to_be_bytes() } else { value.to_le_bytes() };
        let two = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
        let device = 8 << 20 | 1;
        let mut event = [four(MAGIC | VERSION), four(1)].concat();
        event.extend([eight(time_ns), eight(sector)].concat());
        event.extend([four(bytes), four(action), four(pid), four(device), four(0)].concat());
        event.extend([two(0), two(payload.len() as u16)].concat());
        event.extend_from_slice(payload);
        event
    }

    #[test]
    fn a_request_lasts_until_its_completion() {
        for big in [false, true] {
            let four = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
            let queue = |categories: u32| action::QUEUE | categories << 16;
            let bytes = [
                event(big, 5, 0, 0, action::TIMESTAMP | category::NOTIFY << 16, 0, &[four(1_600_000_000), four(5)].concat()),
                event(big, 5, 0, 0, action::PROCESS | category::NOTIFY << 16, 42, b"fio\0"),
                event(big, 10, 100, 4096, queue(category::WRITE | category::SYNC), 42, b""),
                event(big, 20, 108, 4096, queue(category::WRITE), 42, b""),
                event(big, 30, 900, 512, queue(1), 43, b""),
                event(big, 50, 100, 8192, action::COMPLETE, 0, b""),
            ]
            .concat();
            assert!(is(&bytes));
            let source = all(Reader::new(&bytes[..])).unwrap();
            let [first, second, third] = [source.records()[0], source.records()[1], source.records()[2]];
            assert_eq!((first.start_ns, first.duration_ns, first.offset), (1_600_000_000_000_000_010, 40, 51_200));
            assert!(first.flags.has(Flags::SYNC));
            assert_eq!((second.duration_ns, second.size), (30, 4096), "it was merged into the first");
            assert_eq!((third.op, third.flags.has(Flags::NO_DURATION)), (Op::Read, true));
            assert_eq!(source.tables.names.who(first.process).unwrap().command, "fio");
            assert_eq!(source.tables.names.path(first.file), b"device-8:1");
            let error = all(Reader::new(&bytes[..bytes.len() - 1])).unwrap_err();
            assert!(error.to_string().contains("byte "), "{error}");
        }
    }
}
