//! Which journal to believe.

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
    /// The longest valid prefix of its records; their positions are consecutive.
    pub records: Vec<(Position, Record)>,
    /// Where and why the reading stopped.
    pub end: JournalEnd,
    /// Whether the memory file in use is the one that the records speak of.
    pub memory_intact: bool,
    /// Newer journals that were passed over, newest first.
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
    /// It was being made when the process or the machine stopped, and was never current.
    Unfinished,
    /// The memory file was lost before what its snapshot speaks of was on the medium. Nothing in it was promised to be durable.
    NotDurable,
    /// Its header or its snapshot cannot be read, though it was whole once.
    Damaged {
        /// Where the valid records end, bytes.
        offset: u64,
        /// The position of the first record that is not there, if the header says where it begins.
        position: Option<Position>,
        /// Whole records behind, at least.
        records_after: u64,
    },
    /// It belongs to another buffer.
    Foreign,
}

impl fmt::Display for SkippedJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.reason {
            SkipReason::Unfinished => "is not whole",
            SkipReason::NotDurable => "was not yet durable",
            SkipReason::Damaged { .. } => "is damaged in its header or its snapshot",
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
    /// Whether the memory file that the records speak of is there.
    fn memory_is(&self, identity: &JournalIdentity, exists: bool) -> bool {
        exists && self.header.identity.memory_id == identity.memory_id
    }

    /// Whether a record behind the snapshot states that everything up to the snapshot's end, also the payload it speaks of, is durable.
    fn has_synced(&self) -> bool {
        let history = &self.frames.records[self.history_from..];
        // The record before the history is the snapshot's end.
        let snapshot_end = Position(self.header.start.0 + self.history_from as u64 - 1);
        history.iter().any(|(_, record)| matches!(record, Record::Synced { upto } if *upto >= snapshot_end))
    }

    /// Why the reading stops where it does.
    fn end(&self, memory_intact: bool, skipped: &[SkippedJournal]) -> JournalEnd {
        let (file, offset, position) = (self.file.clone(), self.frames.end, self.frames.next);
        // A newer journal that is lost is the damage to tell of, whatever this one's end looks like.
        for SkippedJournal { file, reason } in skipped {
            if let SkipReason::Damaged { offset, position: lost, records_after } = *reason {
                return JournalEnd::Damaged { file: file.clone(), offset, position: lost.unwrap_or(position), records_after };
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
    /// Reads the journals of a buffer: the newest whole one counts, unless the memory file that it speaks of is lost and nothing in it says
    /// that its snapshot is durable. `memory_exists` says that the memory file of `identity` is there with its bytes.
    ///
    /// # Errors
    /// [`JournalError::Missing`], [`JournalError::OtherVersion`], [`JournalError::NoneUsable`], [`JournalError::Io`].
    /// Damage behind a usable beginning is no error but [`OpenedJournal::end`].
    pub fn open(directory: Arc<dyn Directory>, identity: JournalIdentity, memory_exists: bool) -> Result<OpenedJournal, JournalError> {
        let all = numbers(&*directory)?;
        let mut skipped = Vec::new();
        let mut chosen: Option<Whole> = None;
        for number in all.iter().rev() {
            match read_whole(&*directory, &identity, *number)? {
                Ok(whole) => {
                    let trusted = whole.memory_is(&identity, memory_exists) || whole.header.starts_empty || whole.has_synced();
                    if let Some(newer) = chosen.replace(whole) {
                        skipped.push(SkippedJournal { file: newer.file, reason: SkipReason::NotDurable });
                    }
                    if trusted {
                        break;
                    }
                }
                Err(reason) => skipped.push(SkippedJournal { file: directory.describe(&file_name(*number)), reason }),
            }
        }
        let Some(whole) = chosen else {
            return Err(if all.is_empty() { JournalError::Missing } else { JournalError::NoneUsable(skipped) });
        };
        let memory_intact = whole.memory_is(&identity, memory_exists);
        let end = whole.end(memory_intact, &skipped);
        let Whole { header, device, frames, .. } = whole;
        let journal = Journal::at_end(directory, identity, header.number, device, frames.end, frames.next);
        Ok(OpenedJournal { journal, records: frames.records, end, memory_intact, skipped })
    }
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
    let history_from = match (snapshot_end, frames.tail) {
        _ if header.starts_empty => 0,
        (Some(at), _) => at + 1,
        // A snapshot is made durable before anything is appended: what was appended proves that it was whole once.
        (None, Tail::Frames { count, appended: true, .. }) => {
            return Ok(Err(SkipReason::Damaged { offset: frames.end, position: Some(frames.next), records_after: count }));
        }
        (None, _) => return Ok(Err(SkipReason::Unfinished)),
    };
    Ok(Ok(Whole { header, file, device, frames, history_from }))
}
