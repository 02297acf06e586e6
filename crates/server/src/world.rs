//! The store as the driver wants it: the log, the journal and home of one instance.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_core::effect::{Effect, HomePiece, LogPiece, LogRange, Outcome, Slot};
use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Ino, MemorySlot, Name, Position, SsdSlot};
use forebay_core::record::Record;
use forebay_host::driver::{JournalIo, JournalSync, World};
use forebay_host::log;
use forebay_store::{BufferDir, Home, Journal, JournalError, LogError, LogStore};
use parking_lot::Mutex;

/// Buffers for writes at home that are kept for the next use.
const BUFFERS_KEPT_MAX: usize = 4;
/// Bytes that are brought together for one write at home; a single record may be longer.
const WRITE_BYTES: usize = 512 << 10;
/// What statfs(2) calls tmpfs.
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

/// The log and home of an instance.
///
/// It also holds the buffer directory's lock: a thread that is stuck at home after the instance was stopped must keep others
/// from taking the buffer.
pub(crate) struct StoreWorld {
    pub(crate) log: LogStore,
    pub(crate) home: Arc<dyn Home>,
    pub(crate) buffer: Mutex<Option<BufferDir>>,
    write_buffers: Mutex<Vec<Vec<u8>>>,
    /// The log's disk refused something last, and that was said: it is tried again and again.
    disk_failed: AtomicBool,
    /// Asks the clients for references; none while there is no client that can be asked.
    pub(crate) pruner: Mutex<Option<Pruner>>,
}

/// Asks clients to give back their references on inodes: (directory, name, inode). Must not wait for any request.
pub type Pruner = Box<dyn Fn(Vec<(Ino, Name, Ino)>) + Send>;

fn log_failed(error: LogError) -> Errno {
    log::problem(&error.to_string());
    error.errno()
}

/// The part of a payload that a piece names; a piece outside of it would be a bug of the core.
fn part(payload: &[u8], piece: &LogPiece) -> Result<std::ops::Range<usize>, Errno> {
    let start = piece.payload_offset as usize;
    let range = start..start.checked_add(piece.at.len as usize).ok_or(Errno::EIO)?;
    if payload.get(range.clone()).is_some() { Ok(range) } else { Err(Errno::EIO) }
}

impl StoreWorld {
    pub(crate) fn new(log: LogStore, home: Arc<dyn Home>, buffer: BufferDir) -> StoreWorld {
        StoreWorld {
            log,
            home,
            buffer: Mutex::new(Some(buffer)),
            write_buffers: Mutex::default(),
            disk_failed: AtomicBool::new(false),
            pruner: Mutex::default(),
        }
    }

    /// Whether the memory file is in memory, and not on some disk, by the user's wish or for want of room.
    pub(crate) fn memory_is_memory(&self) -> bool {
        let kind = self.buffer.lock().as_ref().and_then(|buffer| rustix::fs::statfs(&buffer.memory().path).ok());
        kind.is_some_and(|kind| kind.f_type == TMPFS)
    }

    /// Says what the log's disk refused, unless it refused the last time as well.
    fn say_once<T>(&self, result: Result<T, LogError>) -> Result<T, Errno> {
        let was_said = self.disk_failed.swap(result.is_err(), Ordering::Relaxed);
        result.map_err(|error| if was_said { error.errno() } else { log_failed(error) })
    }

    /// Whether the bytes at `at` have this checksum; bytes that cannot be read have none.
    pub(crate) fn check(&self, at: LogRange, crc: u32) -> bool {
        match self.log.checksum(at) {
            Ok(found) => found == crc,
            Err(error) => {
                log::problem(&error.to_string());
                false
            }
        }
    }

    fn write_home(&self, ino: Ino, path: &HomePath, offset: u64, pieces: &[HomePiece]) -> Result<u32, Errno> {
        let taken = self.write_buffers.lock().pop();
        let mut bytes = taken.unwrap_or_default();
        bytes.clear();
        let result = self.write_steps(ino, path, offset, pieces, &mut bytes);
        let mut kept = self.write_buffers.lock();
        if kept.len() < BUFFERS_KEPT_MAX && bytes.capacity() <= 2 * WRITE_BYTES {
            kept.push(bytes);
        }
        result
    }

    /// Brings the pieces together, checking each record once, and writes them in steps. Gives the checksum of all.
    fn write_steps(&self, ino: Ino, path: &HomePath, offset: u64, pieces: &[HomePiece], bytes: &mut Vec<u8>) -> Result<u32, Errno> {
        let mut checked: HashSet<(Slot, u32)> = HashSet::new();
        let (mut sum, mut offset) = (0, offset);
        for piece in pieces {
            let start = bytes.len();
            if start > 0 && start + piece.at.len as usize > WRITE_BYTES {
                self.home.write(ino, path, offset, bytes)?;
                sum = crc32c::crc32c_append(sum, bytes);
                offset += start as u64;
                bytes.clear();
            }
            let start = bytes.len();
            let result = if checked.insert((piece.record.slot, piece.record.offset)) {
                self.log.gather(piece, bytes)
            } else {
                // A large record of which many small parts go home would otherwise be read whole for each of them.
                bytes.resize(start + piece.at.len as usize, 0);
                self.log.read(piece.at.slot, piece.at.offset, &mut bytes[start..])
            };
            result.map_err(|error| {
                let from = offset + start as u64;
                log::problem(&format!(
                    "{path:?}, bytes {from} to {}, cannot be written home: {error}. The rest of the file is not affected.",
                    from + u64::from(piece.at.len)
                ));
                error.errno()
            })?;
        }
        self.home.write(ino, path, offset, bytes)?;
        Ok(crc32c::crc32c_append(sum, bytes))
    }
}

impl World for StoreWorld {
    fn write_log(&self, payload: &[u8], pieces: &[LogPiece]) -> Result<Vec<u32>, Errno> {
        pieces
            .iter()
            .map(|piece| {
                let bytes = &payload[part(payload, piece)?];
                let written = self.log.write(piece.at.slot, piece.at.offset, bytes);
                match piece.at.slot {
                    Slot::Memory(_) => written.map_err(log_failed)?,
                    Slot::Ssd(_) => self.say_once(written)?,
                }
                Ok(crc32c::crc32c(bytes))
            })
            .collect()
    }

    fn read_log(&self, payload: &mut [u8], pieces: &[LogPiece]) -> Result<(), Errno> {
        pieces.iter().try_for_each(|piece| {
            let range = part(payload, piece)?;
            self.log.read(piece.at.slot, piece.at.offset, &mut payload[range]).map_err(log_failed)
        })
    }

    fn copy_log(&self, from: LogRange, to: LogRange) -> Result<u32, Errno> {
        self.say_once(self.log.copy(from, to))
    }

    fn spill(&self, from: MemorySlot, to: SsdSlot, offset: u32, len: u32) -> Result<(), Errno> {
        self.say_once(self.log.spill(from, to, offset, len))
    }

    fn sync_log(&self) -> Result<(), Errno> {
        self.say_once(self.log.sync())
    }

    fn read_home(&self, ino: Ino, path: &HomePath, offset: u64, buffer: &mut [u8]) -> Result<u32, Errno> {
        self.home.read(ino, path, offset, buffer)
    }

    fn home(&self, effect: &Effect) -> Result<Outcome, Errno> {
        match effect {
            Effect::ListHome { path, .. } => self.home.list(path).map(Outcome::Listing),
            Effect::StatHome { path, .. } => self.home.stat(path).map(Outcome::Stat),
            Effect::ReadLinkHome { path, .. } => self.home.read_link(path).map(Outcome::Target),
            Effect::StatFsHome { .. } => self.home.stat_fs().map(Outcome::StatFs),
            Effect::WriteHome { ino, path, offset, pieces, .. } => {
                self.write_home(*ino, path, *offset, pieces).map(|crc| Outcome::Checksums(vec![crc]))
            }
            Effect::CompareHome { ino, path, offset, len, crc, .. } => {
                self.home.compare(*ino, path, *offset, *len, *crc).map(|equal| Outcome::Compared { equal })
            }
            Effect::SyncHome { files, directories, .. } => self.home.sync(files, directories).map(|()| Outcome::Done),
            Effect::ChangeHome { change, .. } => self.home.change(change),
            Effect::XattrsHome { path, .. } => self.home.xattrs(path).map(Outcome::Xattrs),
            Effect::SeekHome { ino, path, offset, whence, .. } => self.home.seek(*ino, path, *offset, *whence).map(Outcome::Found),
            Effect::CompareZerosHome { ino, path, offset, len, .. } => {
                self.home.compare_zeros(*ino, path, *offset, *len).map(|equal| Outcome::Compared { equal })
            }
            other => {
                log::problem(&format!("an effect that is none on home came to home: {other:?}; this is a bug, please report it"));
                Err(Errno::ENOSYS)
            }
        }
    }

    fn may_hold_home(&self, ino: Ino) -> bool {
        self.home.may_hold(ino)
    }

    fn forget_home(&self, ino: Ino) {
        self.home.forget(ino);
    }

    fn prune_clients(&self, names: Vec<(Ino, Name, Ino)>) {
        if let Some(pruner) = &*self.pruner.lock() {
            pruner(names);
        }
    }
}

/// The journal of an instance.
pub(crate) struct StoreJournal {
    journal: Journal,
    /// Whether the last sync failed, which was said then.
    sync_failed: Arc<AtomicBool>,
    /// The first error, after which nothing more is appended: the record that it concerns is missing, and none may follow it in this journal.
    failed: Option<Errno>,
    /// What was last said of it: a disk that is full is tried again and again.
    said: Option<String>,
}

impl StoreJournal {
    pub(crate) fn new(journal: Journal) -> StoreJournal {
        StoreJournal { journal, sync_failed: Arc::default(), failed: None, said: None }
    }

    /// Notes a failure, and says it once.
    fn failed(&mut self, error: &JournalError) -> Errno {
        let text = error.to_string();
        if self.failed.is_none() && self.said.as_ref() != Some(&text) {
            log::problem(&text);
        }
        self.said = Some(text);
        *self.failed.insert(error.errno())
    }
}

fn journal_failed(error: JournalError) -> Errno {
    log::problem(&error.to_string());
    error.errno()
}

impl JournalIo for StoreJournal {
    fn append(&mut self, records: &[(Position, &Record)]) -> Result<(), Errno> {
        if let Some(errno) = self.failed {
            return Err(errno);
        }
        self.journal.append_all(records).map_err(|error| self.failed(&error))
    }

    fn rotate(&mut self, position: Position, records: &[Record]) -> Result<(), Errno> {
        self.journal.rotate(position, records).map_err(|error| self.failed(&error))?;
        if self.failed.take().is_some() {
            self.said = None;
            log::problem("the buffer's disk takes records again");
        }
        Ok(())
    }

    fn drop_old(&mut self) -> Result<(), Errno> {
        self.journal.drop_old().map_err(journal_failed)
    }

    fn sync(&self) -> JournalSync {
        let (sync, has_failed) = (self.journal.sync_handle(), Arc::clone(&self.sync_failed));
        Box::new(move || {
            let result = sync.sync();
            let was_said = has_failed.swap(result.is_err(), Ordering::Relaxed);
            result.map_err(|error| if was_said { error.errno() } else { journal_failed(error) })
        })
    }
}
