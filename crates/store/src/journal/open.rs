//! Which journals to believe, and what they say together.

use std::fmt;
use std::sync::Arc;

use forebay_core::id::Position;
use forebay_core::record::Record;

use super::format::{FRAMES_START, Header, HeaderError, file_name, frame_seed};
use super::reader::{FrameReader, Frames, JournalEnd, Tail};
use super::{Journal, JournalError, JournalIdentity, io_error, numbers};
use crate::device::Device;
use crate::directory::Directory;
use crate::superblock::FORMAT_VERSION;

/// A journal that was read.
pub struct OpenedJournal {
    /// The journal, ready to be appended to at [`Journal::next_position`].
    pub journal: Journal,
    /// The longest valid history. Positions rise; they jump where a snapshot was left out because the records before it are there.
    pub records: Vec<(Position, Record)>,
    /// Where and why the reading stopped.
    pub end: JournalEnd,
    /// Whether the memory file in use is the one that the records speak of.
    pub memory_intact: bool,
    /// Journals that were passed over, newest first.
    pub skipped: Vec<SkippedJournal>,
}

/// A journal that was passed over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SkippedJournal {
    /// The file.
    pub file: String,
    /// Why.
    pub reason: SkipReason,
}

/// Why a journal was passed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SkipReason {
    /// It was being made when the process or the machine stopped: it was never current. (If there is no older one, it is damaged.)
    Unfinished,
    /// Its header or its snapshot cannot be read, though it was whole once.
    Damaged {
        /// Where the valid records end, bytes.
        offset: u64,
        /// The position of the first record that is not there, if the header says where it begins.
        position: Option<Position>,
        /// Whole records behind.
        records_after: u64,
    },
    /// An older journal should lead up to its beginning, and does not.
    Unreached {
        /// The position where it begins.
        start: Position,
        /// Records in it that cannot be used.
        records: u64,
    },
    /// It belongs to another buffer.
    Foreign,
}

impl fmt::Display for SkippedJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.reason {
            SkipReason::Unfinished => "was not finished",
            SkipReason::Damaged { .. } => "is damaged in its header or its snapshot",
            SkipReason::Unreached { .. } => "cannot be used because the journal before it is damaged",
            SkipReason::Foreign => "belongs to another buffer",
        };
        write!(f, "{} {reason}", self.file)
    }
}

/// A journal that has all that it needs to be begun with.
struct Whole {
    header: Header,
    file: String,
    device: Arc<dyn Device>,
    frames: Frames,
    /// Index of the first record behind the snapshot.
    history_from: usize,
}

impl Whole {
    /// Whether a `Synced` record stands behind the snapshot: then everything that the snapshot speaks of is durable.
    fn has_synced(&self) -> bool {
        self.frames.records[self.history_from..].iter().any(|(_, record)| matches!(record, Record::Synced { .. }))
    }

    fn unreached(self) -> SkippedJournal {
        let records = self.frames.records.len() as u64;
        SkippedJournal { file: self.file, reason: SkipReason::Unreached { start: self.header.start, records } }
    }

    /// Why the reading stops behind this journal.
    fn end(&self, memory_intact: bool, skipped: &[SkippedJournal]) -> JournalEnd {
        let (file, offset, position) = (self.file.clone(), self.frames.end, self.frames.next);
        for SkippedJournal { file: lost, reason } in skipped {
            match *reason {
                SkipReason::Damaged { offset, position: lost_at, records_after } => {
                    let position = lost_at.unwrap_or(position);
                    return JournalEnd::Damaged { file: lost.clone(), offset, position, records_after };
                }
                SkipReason::Unreached { records, .. } => {
                    return JournalEnd::Damaged { file, offset, position, records_after: records };
                }
                SkipReason::Unfinished | SkipReason::Foreign => {}
            }
        }
        match self.frames.tail {
            Tail::Unwritten => JournalEnd::Clean,
            // Frames are written front to back. A process that dies leaves no gap; a machine may, in what was not synced.
            Tail::Frames { count, synced, .. } if synced || memory_intact => {
                JournalEnd::Damaged { file, offset, position, records_after: count }
            }
            Tail::Garbage | Tail::Frames { .. } => JournalEnd::Torn { file, offset, position },
        }
    }
}

impl Journal {
    /// Reads the journals of a buffer. `memory_exists` says that the memory file of `identity` is there with its bytes.
    ///
    /// # Errors
    /// [`JournalError::Missing`], [`JournalError::OtherVersion`], [`JournalError::NoneUsable`], [`JournalError::Io`].
    /// Damage behind a usable beginning is no error but [`OpenedJournal::end`].
    pub fn open(directory: Arc<dyn Directory>, identity: JournalIdentity, memory_exists: bool) -> Result<OpenedJournal, JournalError> {
        let mut chain: Vec<Whole> = Vec::new();
        let mut skipped = Vec::new();
        let all = numbers(&*directory)?;
        for number in all.iter().rev() {
            match read_whole(&*directory, &identity, *number)? {
                Ok(whole) => {
                    let trusted = memory_exists && whole.header.identity.memory_id == identity.memory_id;
                    let begin_here = trusted || whole.header.starts_empty || whole.has_synced();
                    chain.push(whole);
                    if begin_here {
                        break;
                    }
                }
                Err(reason) => skipped.push(SkippedJournal { file: directory.describe(&file_name(*number)), reason }),
            }
        }
        match chain.pop() {
            Some(oldest) => Ok(join(directory, identity, memory_exists, oldest, chain, skipped)),
            None if all.is_empty() => Err(JournalError::Missing),
            None => Err(JournalError::NoneUsable(skipped)),
        }
    }
}

/// Joins journals (`newer` has the newest first) to one history: all of the oldest, then of each newer one what follows its snapshot.
/// A newer one whose beginning the older ones do not reach cannot be joined: records between are missing.
fn join(
    directory: Arc<dyn Directory>,
    identity: JournalIdentity,
    memory_exists: bool,
    oldest: Whole,
    mut newer: Vec<Whole>,
    mut skipped: Vec<SkippedJournal>,
) -> OpenedJournal {
    let mut last = oldest;
    let mut records = std::mem::take(&mut last.frames.records);
    while let Some(mut next) = newer.pop() {
        let start = next.header.start;
        if last.frames.next < start {
            newer.push(next);
            skipped.extend(newer.drain(..).map(Whole::unreached));
            break;
        }
        // A recovery may have cut the older history short, and the snapshot stands for what was left of it.
        records.retain(|(position, _)| *position < start);
        records.extend(next.frames.records.drain(..).skip(next.history_from));
        last = next;
    }
    let memory_intact = memory_exists && last.header.identity.memory_id == identity.memory_id;
    let end = last.end(memory_intact, &skipped);
    let (number, next) = (last.header.number, last.frames.next);
    let journal = Journal::at_end(directory, identity, number, last.device, last.frames.end, next);
    OpenedJournal { journal, records, end, memory_intact, skipped }
}

/// Reads one journal: a whole one, or why it is passed over.
fn read_whole(directory: &dyn Directory, identity: &JournalIdentity, number: u64) -> Result<Result<Whole, SkipReason>, JournalError> {
    let name = file_name(number);
    let file = directory.describe(&name);
    let device = directory.open(&name).map_err(io_error(directory, "open", &name))?;
    let read_error = || io_error(directory, "read", &name);
    let len = device.len().map_err(read_error())?;
    let mut sector = vec![0; len.min(FRAMES_START) as usize];
    device.read_at(0, &mut sector).map_err(read_error())?;
    let header = match Header::decode(&sector, &identity.instance, number) {
        Ok(header) => header,
        Err(HeaderError::Unwritten) => return Ok(Err(SkipReason::Unfinished)),
        Err(HeaderError::Damaged) => {
            return Ok(Err(SkipReason::Damaged { offset: 0, position: None, records_after: 0 }));
        }
        Err(HeaderError::Foreign) => return Ok(Err(SkipReason::Foreign)),
        Err(HeaderError::OtherVersion(found)) => {
            return Err(JournalError::OtherVersion { file, found, wanted: FORMAT_VERSION });
        }
    };
    let reader = FrameReader::new(&*device, frame_seed(&identity.instance, number)).map_err(read_error())?;
    let frames = reader.read(header.start).map_err(read_error())?;
    let snapshot_end = frames.records.iter().position(|(_, record)| matches!(record, Record::SnapshotEnd));
    let history_from = match snapshot_end {
        Some(at) => at + 1,
        None if header.starts_empty => 0,
        // A snapshot is made durable before anything is appended: what was appended proves that it was whole once.
        None => {
            return Ok(Err(match frames.tail {
                Tail::Frames { count, appended: true, .. } => {
                    SkipReason::Damaged { offset: frames.end, position: Some(frames.next), records_after: count }
                }
                _ => SkipReason::Unfinished,
            }));
        }
    };
    Ok(Ok(Whole { header, file, device, frames, history_from }))
}
