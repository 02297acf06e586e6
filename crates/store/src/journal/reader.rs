//! Reading the frames of one journal.

use std::io;

use forebay_core::id::Position;
use forebay_core::record::Record;

use super::format::{FRAME_HEADER_BYTES, FRAMES_START, RECORD_BYTES_MAX, frame_crc};
use crate::device::Device;
use crate::superblock::{u32_at, u64_at};

/// Read at a time, bytes.
const WINDOW_BYTES: usize = 1 << 20;
/// How far behind a bad frame a whole one is looked for, bytes: further than any journal is filled ahead.
const SEARCH_BYTES: u64 = 64 << 20;
/// Looked through for zeros at a time, bytes.
const ZEROS_BYTES: u64 = 4096;
/// A frame behind a bad one is taken for one if its position is at most this far ahead.
const POSITION_GAP_MAX: u64 = 1 << 32;

/// Why the reading of the journal stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JournalEnd {
    /// Behind the last record is space that was never written.
    Clean,
    /// The last records were being written when the process or the machine stopped. Nothing that was made durable is missing.
    Torn {
        /// The file.
        file: String,
        /// Where the valid records end, bytes.
        offset: u64,
        /// The position of the first record that is not there.
        position: Position,
    },
    /// A record in the middle cannot be read, and whole ones follow that prove it was there once: the medium lost something.
    Damaged {
        /// The file.
        file: String,
        /// Where the valid records end, bytes.
        offset: u64,
        /// The position of the first record that is not there.
        position: Position,
        /// Whole records found behind, at least.
        records_after: u64,
    },
}

impl std::fmt::Display for JournalEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            JournalEnd::Clean => write!(f, "the journal is whole"),
            JournalEnd::Torn { file, offset, position } => {
                write!(f, "{file} ends in an unfinished record at byte {offset} (position {}), which was not made durable", position.0)
            }
            JournalEnd::Damaged { file, offset, position, records_after } => write!(
                f,
                "{file} is damaged at byte {offset}: the record of position {} and what follows, at least {records_after} whole records, cannot be used",
                position.0
            ),
        }
    }
}

/// A moving view of a device.
struct Window<'a> {
    device: &'a dyn Device,
    len: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// The `len` bytes at `offset`, or `None` if the device ends before.
    fn get(&mut self, offset: u64, len: usize) -> io::Result<Option<&[u8]>> {
        let Some(end) = offset.checked_add(len as u64).filter(|end| *end <= self.len) else {
            return Ok(None);
        };
        if offset < self.start || end > self.start + self.bytes.len() as u64 {
            let size = (len.max(WINDOW_BYTES) as u64).min(self.len - offset) as usize;
            self.bytes.clear();
            self.bytes.resize(size, 0);
            self.start = offset;
            if let Err(error) = self.device.read_at(offset, &mut self.bytes) {
                self.bytes.clear();
                return Err(error);
            }
        }
        let from = (offset - self.start) as usize;
        Ok(Some(&self.bytes[from..from + len]))
    }
}

/// The frames of a journal.
pub(super) struct FrameReader<'a> {
    window: Window<'a>,
    seed: u32,
}

/// What was found in a journal.
pub(super) struct Frames {
    pub(super) records: Vec<(Position, Record)>,
    /// Where they end, bytes.
    pub(super) end: u64,
    pub(super) next: Position,
    pub(super) tail: Tail,
}

/// What stands behind the last valid frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tail {
    /// Zeros, or nothing.
    Unwritten,
    /// Bytes that are no frame.
    Garbage,
    /// Whole frames, further on.
    Frames {
        /// How many.
        count: u64,
        /// One of them states that the record which is missing was durable.
        synced: bool,
        /// Some of them stand behind the end of a snapshot.
        appended: bool,
    },
}

impl<'a> FrameReader<'a> {
    pub(super) fn new(device: &'a dyn Device, seed: u32) -> io::Result<FrameReader<'a>> {
        let len = device.len()?;
        Ok(FrameReader { window: Window { device, len, start: 0, bytes: Vec::new() }, seed })
    }

    /// The longest valid prefix, whose first record has position `start`.
    pub(super) fn read(mut self, start: Position) -> io::Result<Frames> {
        let mut records = Vec::new();
        let mut at = FRAMES_START;
        let mut next = start;
        while let Some((position, record, len)) = self.frame(at)? {
            if position != next {
                break;
            }
            records.push((position, record));
            at += len;
            next = Position(next.0 + 1);
        }
        let tail = self.tail(at, next)?;
        Ok(Frames { records, end: at, next, tail })
    }

    /// The frame at `at`, with its length, if there is a whole one.
    fn frame(&mut self, at: u64) -> io::Result<Option<(Position, Record, u64)>> {
        let Some(header) = self.window.get(at, FRAME_HEADER_BYTES)? else {
            return Ok(None);
        };
        let (len, crc, position) = (u32_at(header, 0), u32_at(header, 4), Position(u64_at(header, 8)));
        // A record has one byte at least: zeros are no frame, whatever their checksum.
        if len == 0 || len as usize > RECORD_BYTES_MAX {
            return Ok(None);
        }
        let seed = self.seed;
        let Some(body) = self.window.get(at + FRAME_HEADER_BYTES as u64, len as usize)? else {
            return Ok(None);
        };
        if frame_crc(seed, len, position, body) != crc {
            return Ok(None);
        }
        let record = match postcard::take_from_bytes(body) {
            Ok((record, [])) => record,
            _ => return Ok(None),
        };
        Ok(Some((position, record, FRAME_HEADER_BYTES as u64 + u64::from(len))))
    }

    /// Looks at what follows the last valid frame, which ended at `from`.
    fn tail(&mut self, from: u64, next: Position) -> io::Result<Tail> {
        let end = self.window.len.min(from.saturating_add(SEARCH_BYTES));
        let (mut count, mut synced, mut snapshot_end, mut appended) = (0, false, false, false);
        let mut all_zero = true;
        let mut at = from;
        while at < end {
            let zeros = self.zeros(at, end)?;
            if zeros == end - at {
                break;
            }
            all_zero = false;
            // A frame begins with a length that is not zero, in its first four bytes.
            at += zeros.saturating_sub(3);
            let Some(header) = self.window.get(at, FRAME_HEADER_BYTES)? else { break };
            // The position tells nearly every place that is no frame, so that few checksums are computed.
            let ahead = u64_at(header, 8).wrapping_sub(next.0);
            let frame = if (1..=POSITION_GAP_MAX).contains(&ahead) { self.frame(at)? } else { None };
            let Some((_, record, len)) = frame else {
                at += 1;
                continue;
            };
            count += 1;
            appended |= snapshot_end;
            synced |= matches!(record, Record::Synced { upto } if upto >= next);
            snapshot_end |= matches!(record, Record::SnapshotEnd);
            at += len;
        }
        Ok(match count {
            0 if all_zero => Tail::Unwritten,
            0 => Tail::Garbage,
            count => Tail::Frames { count, synced, appended },
        })
    }

    /// How many zeros stand from `at` on, at most up to `end`.
    fn zeros(&mut self, at: u64, end: u64) -> io::Result<u64> {
        let mut zeros = 0;
        while at + zeros < end {
            let len = (end - at - zeros).min(ZEROS_BYTES);
            let Some(bytes) = self.window.get(at + zeros, len as usize)? else { break };
            if let Some(first) = bytes.iter().position(|byte| *byte != 0) {
                return Ok(zeros + first as u64);
            }
            zeros += len;
        }
        Ok(zeros)
    }
}
