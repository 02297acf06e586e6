//! The journal: every lasting change of a node, in order, in files that are written from front to back.

mod format;
mod open;
mod reader;

use std::io;
use std::sync::Arc;

use forebay_core::errno::Errno;
use forebay_core::id::Position;
use forebay_core::record::Record;
use parking_lot::Mutex;

pub use open::{OpenedJournal, SkipReason, SkippedJournal};
pub use reader::JournalEnd;

use crate::device::Device;
use crate::directory::Directory;
use format::{FRAMES_START, FrameEncoder, Header};

const PAGE_BYTES: u64 = 4096;
/// Space is zero-filled ahead in steps of this at least, so that an fdatasync has no file size to write, bytes.
const AHEAD_BYTES_MIN: u64 = 1 << 20;
/// And of this at most, bytes.
const AHEAD_BYTES_MAX: u64 = 4 << 20;
/// A snapshot is written in pieces of about this, bytes.
const SNAPSHOT_WRITE_BYTES: usize = 1 << 20;

/// Why the journal could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// There is no journal at all.
    #[error("the buffer has no journal; it was not made completely, or its files were removed")]
    Missing,
    /// Written by another version.
    #[error(
        "{file} has format version {found}, this program reads version {wanted}; finish the buffer with the version of forebay that made it"
    )]
    OtherVersion {
        /// The file.
        file: String,
        /// Its version.
        found: u32,
        /// The version of this program.
        wanted: u32,
    },
    /// No journal has a whole snapshot, so none can be begun with.
    #[error("no journal of the buffer can be used: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    NoneUsable(Vec<SkippedJournal>),
    /// A record does not follow the one before: a mistake of the caller.
    #[error("journal position {found} given where {expected} is next")]
    OutOfOrder {
        /// The position that the journal can take.
        expected: u64,
        /// The position given.
        found: u64,
    },
    /// A snapshot without its end mark: a mistake of the caller.
    #[error("a new journal needs a snapshot that ends with its end mark")]
    NoSnapshotEnd,
    /// A record larger than a journal may hold.
    #[error("a journal record of more than {max} bytes cannot be written")]
    TooLarge {
        /// The limit, bytes.
        max: usize,
    },
    /// The file system refused.
    #[error("cannot {action} {file}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        file: String,
        /// Why not.
        source: io::Error,
    },
    /// A sync failed, now or before: what was not durable before it may be lost, and no later sync can say that it is not.
    #[error("the journal could not be synced, now or before: {0}; drain the buffer and start it again")]
    SyncFailed(io::Error),
}

impl JournalError {
    /// The error number for the core.
    pub fn errno(&self) -> Errno {
        match self {
            JournalError::Io { source, .. } | JournalError::SyncFailed(source) => crate::errno(source),
            JournalError::OutOfOrder { .. } | JournalError::NoSnapshotEnd => Errno::EINVAL,
            JournalError::TooLarge { .. } => Errno::EFBIG,
            JournalError::Missing | JournalError::OtherVersion { .. } | JournalError::NoneUsable(_) => Errno::EIO,
        }
    }
}

/// What identifies a buffer's journals, and its memory file of now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalIdentity {
    /// The instance, from the superblock.
    pub instance: [u8; 16],
    /// The memory file in use, from the superblock. A journal whose header names another was written with a memory file that is lost.
    pub memory_id: [u8; 16],
}

/// The current journal file, to be appended to.
pub struct Journal {
    directory: Arc<dyn Directory>,
    identity: JournalIdentity,
    number: u64,
    /// The newest one that no recovery passes over, as far as is known; it and the older ones stay until [`Journal::drop_old`].
    settled: u64,
    device: Arc<dyn Device>,
    /// Where the next frame goes, bytes.
    write_at: u64,
    /// The next record's position.
    next: Position,
    /// The file is zeros from `write_at` to here, bytes.
    filled_to: u64,
    encoder: FrameEncoder,
    sync: JournalSync,
}

/// Makes the journal durable; can be used beside [`Journal::append`], and stays right over a rotation.
#[derive(Clone)]
pub struct JournalSync {
    shared: Arc<SyncShared>,
}

struct SyncShared {
    /// The journal file that is current.
    current: Mutex<Arc<dyn Device>>,
    /// How a sync of it failed. Held while one runs: the kernel tells of a lost page once, and a sync that runs beside the one that
    /// is told must not succeed.
    failed: Mutex<Option<io::Error>>,
}

impl JournalSync {
    fn new(device: Arc<dyn Device>) -> JournalSync {
        JournalSync { shared: Arc::new(SyncShared { current: Mutex::new(device), failed: Mutex::new(None) }) }
    }

    /// Makes every record durable whose `append` returned before this call.
    ///
    /// # Errors
    /// [`JournalError::SyncFailed`], from the first failure on at every call; after one for want of space until the next rotation.
    pub fn sync(&self) -> Result<(), JournalError> {
        let mut failed = self.shared.failed.lock();
        if let Some(error) = &*failed {
            return Err(JournalError::SyncFailed(same_error(error)));
        }
        // A rotation syncs the file that it leaves, so the one that is current now is enough.
        let device = self.shared.current.lock().clone();
        device.sync().map_err(|source| {
            *failed = Some(same_error(&source));
            JournalError::SyncFailed(source)
        })
    }

    /// Whether a sync of the current file has failed for want of space.
    fn is_full(&self) -> bool {
        self.shared.failed.lock().as_ref().is_some_and(crate::is_full)
    }

    /// A new file is current. It has all that a full disk has kept the old one from making durable.
    fn renew(&self, device: Arc<dyn Device>) {
        let mut failed = self.shared.failed.lock();
        *self.shared.current.lock() = device;
        if failed.as_ref().is_some_and(crate::is_full) {
            *failed = None;
        }
    }
}

fn same_error(error: &io::Error) -> io::Error {
    io::Error::from_raw_os_error(crate::errno(error).0)
}

impl Journal {
    /// Makes the first journal of a buffer, empty; its first record has position `first`.
    ///
    /// # Errors
    /// [`JournalError::Io`].
    pub fn create(directory: Arc<dyn Directory>, identity: JournalIdentity, first: Position) -> Result<Journal, JournalError> {
        let header = Header { identity, number: 0, start: first, starts_empty: true };
        let device = new_file(&*directory, &header)?;
        let mut journal = Journal::at_end(directory, identity, 0, device, FRAMES_START, first);
        journal.fill_ahead(0).map_err(journal.io("write"))?;
        journal.finish_file()?;
        Ok(journal)
    }

    fn at_end(
        directory: Arc<dyn Directory>,
        identity: JournalIdentity,
        number: u64,
        device: Arc<dyn Device>,
        write_at: u64,
        next: Position,
    ) -> Journal {
        let sync = JournalSync::new(device.clone());
        let encoder = FrameEncoder::new(&identity.instance, number);
        Journal { directory, identity, number, settled: number, device, write_at, next, filled_to: write_at, encoder, sync }
    }

    /// The position that the next record must have.
    pub fn next_position(&self) -> Position {
        self.next
    }

    /// Bytes of the current journal in use.
    pub fn used_bytes(&self) -> u64 {
        self.write_at
    }

    /// A handle that makes the journal durable.
    pub fn sync_handle(&self) -> JournalSync {
        self.sync.clone()
    }

    /// Appends a record: it survives the death of the process when this returns, a power loss when a sync that began later returns.
    /// After an error the journal is as it was, and the same position can be tried again.
    ///
    /// # Errors
    /// [`JournalError::OutOfOrder`] for a position that is not the next one, [`JournalError::TooLarge`], [`JournalError::Io`].
    pub fn append(&mut self, position: Position, record: &Record) -> Result<(), JournalError> {
        self.append_all(&[(position, record)])
    }

    /// As [`Journal::append`], several records in one write, at consecutive positions.
    ///
    /// # Errors
    /// As [`Journal::append`]; none of them counts as appended then.
    pub fn append_all(&mut self, records: &[(Position, &Record)]) -> Result<(), JournalError> {
        self.encoder.clear();
        let mut next = self.next;
        for (position, record) in records {
            if *position != next {
                return Err(JournalError::OutOfOrder { expected: next.0, found: position.0 });
            }
            self.encoder.push(*position, record)?;
            next = Position(next.0 + 1);
        }
        let len = self.encoder.bytes().len() as u64;
        self.fill_ahead(len).map_err(self.io("extend"))?;
        self.device.write_at(self.write_at, self.encoder.bytes()).map_err(self.io("append to"))?;
        self.write_at += len;
        self.next = next;
        Ok(())
    }

    /// Makes every appended record durable.
    ///
    /// # Errors
    /// As [`JournalSync::sync`].
    pub fn sync(&self) -> Result<(), JournalError> {
        self.sync.sync()
    }

    /// Begins a new journal with these records, the first at `position`, and makes it durable and current. The old one was made durable
    /// before and is kept until [`Journal::drop_old`]. After an error the old one is still current.
    ///
    /// The positions need not follow the old ones: a recovery that cut the history short goes back, and records that a full disk did not take
    /// are passed over. The snapshot has what they would have said.
    ///
    /// # Errors
    /// [`JournalError::NoSnapshotEnd`] if the last record is not `SnapshotEnd`; as [`Journal::append`] and [`JournalSync::sync`].
    pub fn rotate(&mut self, position: Position, records: &[Record]) -> Result<(), JournalError> {
        if !matches!(records.last(), Some(Record::SnapshotEnd)) {
            return Err(JournalError::NoSnapshotEnd);
        }
        // Until the new journal is known to be durable with all that it speaks of, a power loss leads back to the old one; and a sync
        // that was asked for before the rotation may be carried out after it, on the new one alone. An old one that could not be synced for
        // want of space never will be: the caller was told, and counts on nothing that no sync has covered.
        if !self.sync.is_full() {
            self.sync.sync()?;
        }
        let number = self.next_number()?;
        let header = Header { identity: self.identity, number, start: position, starts_empty: false };
        let device = new_file(&*self.directory, &header)?;
        let mut new = Journal::at_end(self.directory.clone(), self.identity, number, device, FRAMES_START, position);
        if let Err(error) = new.write_snapshot(records).and_then(|()| new.finish_file()) {
            // Best effort: an unfinished journal is passed over by recovery.
            let _ = self.directory.remove(&format::file_name(number));
            return Err(error);
        }
        self.sync.renew(new.device.clone());
        new.sync = self.sync.clone();
        new.settled = self.settled;
        *self = new;
        self.drop_between();
        Ok(())
    }

    /// Removes those between the settled one and the current one: a process that is killed goes on with the current one, and a power loss goes
    /// back to the settled one. Else a disk that lets no journal become settled would be filled by them.
    fn drop_between(&self) {
        for number in numbers(&*self.directory).unwrap_or_default() {
            if self.settled < number && number < self.number {
                // Best effort: what is left goes with the older ones.
                let _ = self.directory.remove(&format::file_name(number));
            }
        }
    }

    /// Removes every journal older than the current one.
    ///
    /// # Errors
    /// [`JournalError::Io`]; what is left is removed the next time.
    pub fn drop_old(&mut self) -> Result<(), JournalError> {
        self.settled = self.number;
        for number in numbers(&*self.directory)? {
            if number < self.number {
                let name = format::file_name(number);
                self.directory.remove(&name).map_err(io_error(&*self.directory, "remove", &name))?;
            }
        }
        Ok(())
    }

    /// A number larger than that of every journal there, also of unfinished ones.
    fn next_number(&self) -> Result<u64, JournalError> {
        Ok(numbers(&*self.directory)?.last().copied().unwrap_or(0).max(self.number) + 1)
    }

    fn write_snapshot(&mut self, records: &[Record]) -> Result<(), JournalError> {
        self.encoder.clear();
        for record in records {
            self.encoder.push(self.next, record)?;
            self.next = Position(self.next.0 + 1);
            if self.encoder.bytes().len() >= SNAPSHOT_WRITE_BYTES {
                self.write_encoded()?;
            }
        }
        self.write_encoded()?;
        self.filled_to = self.write_at;
        self.fill_ahead(0).map_err(self.io("extend"))
    }

    fn write_encoded(&mut self) -> Result<(), JournalError> {
        self.device.write_at(self.write_at, self.encoder.bytes()).map_err(self.io("write"))?;
        self.write_at += self.encoder.bytes().len() as u64;
        self.encoder.clear();
        Ok(())
    }

    /// Makes a new file and its name durable.
    fn finish_file(&self) -> Result<(), JournalError> {
        self.device.sync().map_err(self.io("sync"))?;
        self.directory.sync().map_err(self.io("sync the directory of"))
    }

    /// Fills the file with zeros so that `len` bytes and one more step can be written without extending it.
    fn fill_ahead(&mut self, len: u64) -> io::Result<()> {
        let needed = self.write_at + len;
        if needed < self.filled_to {
            return Ok(());
        }
        // A journal that has grown long will go on growing.
        let step = (needed / 4).clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX);
        let start = self.filled_to.max(self.write_at);
        let end = (needed + step).next_multiple_of(AHEAD_BYTES_MIN);
        // Page by page: what is filled in one large piece stands in the cache as one, and a file system looks through all blocks of such
        // a piece at every small append.
        let page = [0; PAGE_BYTES as usize];
        let mut at = start;
        while at < end {
            let len = (PAGE_BYTES - at % PAGE_BYTES).min(end - at);
            self.device.write_at(at, &page[..len as usize])?;
            at += len;
        }
        self.filled_to = end;
        Ok(())
    }

    fn io(&self, action: &'static str) -> impl FnOnce(io::Error) -> JournalError {
        // The name is made when it is needed: this stands in the way of every record.
        move |source| io_error(&*self.directory, action, &format::file_name(self.number))(source)
    }
}

/// Whether a file of this name is a journal.
pub(crate) fn is_journal_name(name: &str) -> bool {
    format::file_number(name).is_some()
}

/// Makes a file that holds a header and nothing else.
fn new_file(directory: &dyn Directory, header: &Header) -> Result<Arc<dyn Device>, JournalError> {
    let name = format::file_name(header.number);
    let device = directory.create(&name).map_err(io_error(directory, "create", &name))?;
    device.write_at(0, &header.encode()).map_err(io_error(directory, "write", &name))?;
    Ok(device)
}

/// The numbers of the journals in a directory, in order.
fn numbers(directory: &dyn Directory) -> Result<Vec<u64>, JournalError> {
    let names = directory.list().map_err(io_error(directory, "list the directory of", "the journals"))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| format::file_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn io_error(directory: &dyn Directory, action: &'static str, name: &str) -> impl FnOnce(io::Error) -> JournalError {
    move |source| JournalError::Io { action, file: directory.describe(name), source }
}

#[cfg(test)]
mod tests;
