//! What the machine asks of the devices: the directory that stands for the disk, and the SSD.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_core::errno::Errno;
use forebay_core::hybrid::{Effect, Entry, FileRange, Layout, SsdPart};
use forebay_core::id::{HomePath, Ino};
use forebay_host::log;
use forebay_store::{PosixHome, SsdLog, errno};
use parking_lot::Mutex;
use rustix::fs::{Timespec, Timestamps};

use super::driver::Background;
use super::files::{Files, KnownFile};

type Result<T> = std::result::Result<T, Errno>;

/// Files that wait for a sync; beyond, one is synced at once for each that comes.
const UNSYNCED_FILES_MAX: usize = 256;
/// After so many bytes of flushes the disk is waited for, so that the machine sees what they cost, bytes.
const FLUSHED_UNSYNCED_BYTES_MAX: u64 = 8 << 20;
/// Buffers of flushes that are kept for the next one.
const BUFFERS_KEPT_MAX: usize = 4;
const SET_ID_BITS: u32 = 0o6000;

/// The devices of an I/O server.
pub(super) struct Devices {
    pub(super) home: Arc<PosixHome>,
    pub(super) files: Files,
    pub(super) ssd: Option<SsdLog>,
    /// Files with bytes that may not be on the medium, kept open: who opens one again may miss that a write of before has failed.
    unsynced: Mutex<BTreeMap<Ino, Arc<File>>>,
    /// Files with bytes on the SSD whose names may not be durable.
    unnamed: Mutex<BTreeSet<Ino>>,
    flushed_unsynced_bytes: AtomicU64,
    buffers: Mutex<Vec<Vec<u8>>>,
    /// What the SSD last refused.
    pub(super) ssd_fault: Mutex<Option<String>>,
}

impl Devices {
    pub(super) fn new(home: Arc<PosixHome>, files: Files, ssd: Option<SsdLog>) -> Devices {
        Devices {
            home,
            files,
            ssd,
            unsynced: Mutex::default(),
            unnamed: Mutex::default(),
            flushed_unsynced_bytes: AtomicU64::new(0),
            buffers: Mutex::default(),
            ssd_fault: Mutex::new(None),
        }
    }

    /// Whether the SSD may have something of the file.
    pub(super) fn is_on_ssd(&self, file: Ino) -> bool {
        self.ssd.as_ref().is_some_and(|ssd| ssd.knows(file))
    }

    fn ssd(&self) -> Result<&SsdLog> {
        self.ssd.as_ref().ok_or(Errno::ENXIO)
    }

    /// Says what the SSD refused, unless it refused the same the last time.
    fn on_ssd<T>(&self, result: io::Result<T>) -> Result<T> {
        let mut fault = self.ssd_fault.lock();
        match result {
            Ok(done) => Ok(done),
            Err(error) => {
                let text = error.to_string();
                if fault.as_ref() != Some(&text) {
                    log::problem(&format!("the SSD of the I/O server refuses: {text}; its requests go to the disk meanwhile"));
                }
                *fault = Some(text);
                Err(errno(&error))
            }
        }
    }

    pub(super) fn append_ssd(&self, known: &KnownFile, entry: &Entry, layout: Layout, bytes: &[u8]) -> Result<()> {
        let file = self.files.open(known)?;
        // Home tells the size of the file: it has it before the bytes count.
        known.extend(&file, entry.range.end())?;
        let mut is_new = false;
        let record = || {
            is_new = true;
            known.record()
        };
        self.on_ssd(self.ssd()?.append(entry, layout, bytes, record))?;
        if is_new {
            self.unnamed.lock().insert(known.id);
        }
        Ok(())
    }

    pub(super) fn read_ssd(&self, part: &SsdPart, buf: &mut [u8]) -> Result<()> {
        self.on_ssd(self.ssd()?.read(part.at, buf))
    }

    pub(super) fn write_disk(&self, known: &KnownFile, range: &FileRange, bytes: &[u8]) -> Result<()> {
        let file = self.files.open(known)?;
        let result = file.write_all_at(bytes, range.offset).map_err(|error| errno(&error));
        self.is_unsynced(known.id, &file)?;
        result
    }

    /// Reads from the disk; zeros behind the end of the file.
    pub(super) fn read_disk(&self, known: &KnownFile, offset: u64, buf: &mut [u8]) -> Result<()> {
        let file = self.files.open(known)?;
        let mut done = 0;
        while done < buf.len() {
            match file.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(errno(&error)),
            }
        }
        buf[done..].fill(0);
        Ok(())
    }

    /// A file has bytes that a sync must wait for.
    pub(super) fn is_unsynced(&self, id: Ino, file: &Arc<File>) -> Result<()> {
        let oldest = {
            let mut unsynced = self.unsynced.lock();
            unsynced.insert(id, Arc::clone(file));
            if unsynced.len() > UNSYNCED_FILES_MAX { unsynced.pop_first() } else { None }
        };
        match oldest {
            Some((_, file)) => file.sync_data().map_err(|error| errno(&error)),
            None => Ok(()),
        }
    }

    fn flush(&self, range: &FileRange, parts: &[SsdPart]) -> Result<()> {
        let Some(known) = self.files.get(range.file).filter(|known| !known.is_gone()) else {
            // A file without a name has no bytes.
            return Ok(());
        };
        let mut buffer = self.buffers.lock().pop().unwrap_or_default();
        let result = self.flush_by(&known, range, parts, &mut buffer);
        let mut buffers = self.buffers.lock();
        if buffers.len() < BUFFERS_KEPT_MAX {
            buffers.push(buffer);
        }
        match result {
            Err(Errno::ESTALE) if known.is_gone() => Ok(()),
            Err(error) => {
                log::problem(&format!(
                    "{:?}, bytes {} to {}, cannot be brought from the SSD to the disk: {error:?}; it is tried again",
                    known.path(),
                    range.offset,
                    range.end()
                ));
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    fn flush_by(&self, known: &KnownFile, range: &FileRange, parts: &[SsdPart], buffer: &mut Vec<u8>) -> Result<()> {
        let bytes = usize::try_from(range.len).map_err(|_| Errno::EINVAL)?;
        buffer.resize(bytes, 0);
        for part in parts {
            let from = (part.offset - range.offset) as usize;
            self.read_ssd(part, &mut buffer[from..from + part.len as usize])?;
        }
        let file = self.files.open(known)?;
        let written = {
            let _attributes = known.attributes.lock();
            keeping_attributes(&file, || file.write_all_at(&buffer[..bytes], range.offset)).map_err(|error| errno(&error))
        };
        self.is_unsynced(known.id, &file)?;
        written?;
        let unsynced = self.flushed_unsynced_bytes.fetch_add(range.len, Ordering::Relaxed) + range.len;
        if unsynced >= FLUSHED_UNSYNCED_BYTES_MAX {
            self.flushed_unsynced_bytes.store(0, Ordering::Relaxed);
            // The file stays among those that wait for a sync: an error that is told here is told again to nobody else.
            file.sync_data().map_err(|error| errno(&error))?;
        }
        Ok(())
    }

    fn sync_disk(&self) -> Result<()> {
        let files = std::mem::take(&mut *self.unsynced.lock());
        let mut result = Ok(());
        for (id, file) in files {
            if let Err(error) = file.sync_data() {
                // What is lost is told to whoever asked; the next sync speaks of what came later.
                let path = self.files.get(id).map(|known| known.path()).unwrap_or_default();
                log::problem(&format!("{path:?} cannot be synced: {error}"));
                result = Err(errno(&error));
            }
        }
        result
    }

    fn sync_ssd(&self) -> Result<()> {
        let Some(ssd) = &self.ssd else { return Ok(()) };
        let unnamed = std::mem::take(&mut *self.unnamed.lock());
        let named = self.make_names_durable(&unnamed).and_then(|named| self.on_ssd(ssd.sync(&named)));
        if named.is_err() {
            self.unnamed.lock().extend(unnamed);
        }
        named
    }

    /// What stands on the SSD is of no use if a loss of power takes the file that it is of.
    fn make_names_durable(&self, files: &BTreeSet<Ino>) -> Result<Vec<Ino>> {
        let known: Vec<Arc<KnownFile>> = files.iter().filter_map(|id| self.files.get(*id)).filter(|file| !file.is_gone()).collect();
        let mut directories = BTreeSet::new();
        for known in &known {
            match self.files.open(known) {
                Ok(file) => file.sync_data().map_err(|error| errno(&error))?,
                Err(Errno::ESTALE) if known.is_gone() => continue,
                Err(error) => return Err(error),
            }
            directories.insert(parent(&known.path()));
        }
        for directory in directories {
            match self.home.sync(&[], std::slice::from_ref(&directory)) {
                // The file has moved meanwhile, and is looked at the next time.
                Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                result => result?,
            }
        }
        Ok(known.iter().map(|file| file.id).collect())
    }
}

impl Background for Devices {
    fn carry_out(&self, effect: &Effect) -> Result<()> {
        match effect {
            Effect::Flush { range, parts, .. } => self.flush(range, parts),
            Effect::SyncDisk { .. } => self.sync_disk(),
            Effect::SyncSsd { .. } => self.sync_ssd(),
            Effect::Note { note, .. } => self.on_ssd(self.ssd()?.note(note)),
            other => {
                log::problem(&format!("an effect that needs its caller came without one: {other:?}; this is a bug, please report it"));
                Err(Errno::ENOSYS)
            }
        }
    }
}

fn parent(path: &HomePath) -> HomePath {
    let slash = path.as_bytes().iter().rposition(|byte| *byte == b'/');
    HomePath(path.as_bytes()[..slash.unwrap_or(0)].into())
}

/// A flush brings what a client has written before: it leaves the file's times, and the set-id bits that a write takes away.
fn keeping_attributes(file: &File, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let before = file.metadata()?;
    write()?;
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times =
        Timestamps { last_access: time(before.atime(), before.atime_nsec()), last_modification: time(before.mtime(), before.mtime_nsec()) };
    rustix::fs::futimens(file, &times)?;
    if before.mode() & SET_ID_BITS != 0 && file.metadata()?.mode() != before.mode() {
        file.set_permissions(std::fs::Permissions::from_mode(before.mode() & 0o7777))?;
    }
    Ok(())
}
