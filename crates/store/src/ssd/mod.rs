//! The directory of an I/O server's SSD: the log, its maps, and what they are, held by one process at a time.
//!
//! docs/FORMAT.md, section 7, describes what stands there.

mod format;
mod log;
mod superblock;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use forebay_core::hybrid::{Entry, FileRange, Generation, Layout, Note};
use forebay_core::id::{HomePath, Ino, Lsn};
use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, OFlags};

pub use format::SSD_FORMAT_VERSION;
pub use log::{FileRecord, SsdLog};

use crate::buffer_dir::{BufferError, free_bytes, is_tmpfs, make_directory, take_lock};
use crate::device::{Device, FileDevice};
use crate::directory::{Directory, FileDirectory};
use crate::random::random_id;
use crate::superblock::boot_id;
use format::Record;
use log::{Map, Maps, is_map_name, map_name};
use superblock::SsdSuperblock;

const SUPERBLOCK: &str = "superblock";
const SUPERBLOCK_NEW: &str = "superblock.new";
const LOCK: &str = "lock";
const SSD_LOG: &str = "ssd.log";

/// Why the directory of an SSD cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SsdError {
    /// The directory holds something else.
    #[error("{} is not of Forebay's I/O server; choose an empty or a new directory for the SSD", .path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// It belongs to another home.
    #[error("the SSD directory {} holds bytes for {}, not for {}; give each home an SSD directory of its own", .path.display(), .found.display(), .wanted.display())]
    OtherHome {
        /// The directory.
        path: PathBuf,
        /// Its home.
        found: PathBuf,
        /// The home that it was to be used for.
        wanted: PathBuf,
    },
    /// Written by another version.
    #[error("{} has format version {found}, this program reads version {wanted}; drain the server with the version of forebay that made it", .path.display())]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version of this program.
        wanted: u32,
    },
    /// The checksum or the contents are wrong.
    #[error("{} is damaged: {reason}; restore it from a copy, or remove the SSD directory if what was written last is not needed", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
    /// Bytes that were durable are not what they were.
    #[error("the SSD has lost bytes that it had kept, of {what}; restore {} from a copy, or remove the SSD directory if what was written last is not needed", .path.display())]
    LostBytes {
        /// The log file.
        path: PathBuf,
        /// Files and ranges.
        what: String,
    },
    /// The lock, or the room.
    #[error(transparent)]
    Directory(#[from] BufferError),
    /// The file system refused.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// A file of which bytes stand in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundFile {
    /// What is known of it.
    pub record: FileRecord,
    /// One of its names was durable at home.
    pub is_named: bool,
    /// Its last name was to be removed.
    pub is_going: bool,
    /// It was removed.
    pub is_gone: bool,
}

/// What stands on an SSD.
#[derive(Clone, Debug, Default)]
pub struct FoundSsd {
    /// Every entry whose bytes are whole.
    pub entries: Vec<Entry>,
    /// Notes of newer bytes on the disk.
    pub notes: Vec<Note>,
    /// How the SSD was divided when the entries were made.
    pub layout: Option<Layout>,
    /// The files that the entries are of.
    pub files: BTreeMap<Ino, FoundFile>,
    /// Whether the machine has been up all the time: nothing that was written is lost then.
    pub is_same_boot: bool,
    /// Bytes of entries that a loss of power took before they were durable.
    pub lost_bytes: u64,
}

/// The directory of an SSD, locked for this process until dropped.
pub struct SsdDir {
    path: PathBuf,
    superblock: SsdSuperblock,
    is_same_boot: bool,
    /// The lock goes with the open file.
    _lock: File,
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SsdError + use<> {
    let path = path.to_owned();
    move |source| SsdError::Io { action, path, source }
}

impl SsdDir {
    /// Opens the directory at `path` for the home that stands at `home`, or makes it, and sees to it that the log has room for `ssd_bytes`.
    ///
    /// # Errors
    /// Every variant of [`SsdError`]; nothing that was there is changed then.
    pub fn open(path: &Path, home: &Path, ssd_bytes: u64) -> Result<SsdDir, SsdError> {
        make_directory(path)?;
        let path = path.canonicalize().map_err(io_error("find", path))?;
        let place = path.join(SUPERBLOCK);
        let is_there = place.try_exists().map_err(io_error("look for", &place))?;
        if !is_there {
            check_empty(&path)?;
        }
        let lock = take_lock(&path)?;
        let boot_id = boot_id().unwrap_or_default();
        let mut superblock = if is_there {
            SsdSuperblock::read(&place)?
        } else {
            let instance = random_id().map_err(io_error("name", &path))?;
            SsdSuperblock { instance, home: home.to_owned(), ssd_bytes: 0, boot_id: boot_id.clone() }
        };
        if superblock.home != home {
            return Err(SsdError::OtherHome { path, found: superblock.home, wanted: home.to_owned() });
        }
        let is_same_boot = superblock.boot_id == boot_id && !boot_id.is_empty();
        make_room(&path.join(SSD_LOG), ssd_bytes)?;
        let ssd_bytes = ssd_bytes.max(superblock.ssd_bytes);
        if !is_there || superblock.ssd_bytes != ssd_bytes {
            superblock.ssd_bytes = ssd_bytes;
            superblock.write(&place)?;
        }
        Ok(SsdDir { path, superblock, is_same_boot, _lock: lock })
    }

    /// Reads the maps and checks the bytes of each entry. What a loss of power took is left out.
    ///
    /// # Errors
    /// [`SsdError::Damaged`] and [`SsdError::LostBytes`] if something is lost that no loss of power explains; [`SsdError::Io`].
    pub fn read(&mut self) -> Result<(SsdLog, FoundSsd), SsdError> {
        let place = self.path.join(SSD_LOG);
        let data = Arc::new(FileDevice::open_direct(&place).map_err(io_error("open", &place))?);
        let directory = Arc::new(FileDirectory::new(&self.path));
        let read = open_log(self.superblock.instance, directory, data, self.is_same_boot, &place)?;
        // From now on it is this boot that counts: everything that was found is durable.
        let boot_id = boot_id().unwrap_or_default();
        if self.superblock.boot_id != boot_id {
            self.superblock.boot_id = boot_id;
            self.superblock.write(&self.path.join(SUPERBLOCK))?;
        }
        Ok(read)
    }
}

/// A new directory must be empty, but for what an unfinished creation has left.
fn check_empty(path: &Path) -> Result<(), SsdError> {
    for entry in std::fs::read_dir(path).map_err(io_error("list", path))? {
        let entry = entry.map_err(io_error("list", path))?;
        if ![LOCK, SSD_LOG, SUPERBLOCK_NEW].iter().any(|ours| entry.file_name() == *ours) {
            return Err(SsdError::NotOurs { path: entry.path() });
        }
    }
    Ok(())
}

/// Makes the log file, or makes it larger.
fn make_room(path: &Path, bytes: u64) -> Result<(), SsdError> {
    let mut options = File::options();
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path);
    let file = file.map_err(io_error("open", path))?;
    let there = file.metadata().map_err(io_error("ask for the size of", path))?.len();
    if there >= bytes {
        return Ok(());
    }
    let free = free_bytes(&file).map_err(io_error("ask for the free space of", path))?;
    let no_space = || BufferError::NoSpace { path: path.to_owned(), wanted: bytes - there, free };
    if free < bytes - there {
        return Err(no_space().into());
    }
    // On tmpfs the room would be taken from memory at once.
    if !is_tmpfs(&file).map_err(io_error("ask for the file system of", path))? {
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), there, bytes - there) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS | rustix::io::Errno::INVAL) => {}
            Err(rustix::io::Errno::NOSPC) => return Err(no_space().into()),
            Err(error) => return Err(io_error("reserve the space of", path)(error.into())),
        }
    }
    file.set_len(bytes).and_then(|()| file.sync_all()).map_err(io_error("size", path))
}

/// Opens a log and its maps on devices of any kind, as [`SsdDir::read`] does on files. `path` names the log in messages.
///
/// # Errors
/// As [`SsdDir::read`].
pub fn open_log(
    instance: [u8; 16],
    directory: Arc<dyn Directory>,
    data: Arc<dyn Device>,
    is_same_boot: bool,
    path: &Path,
) -> Result<(SsdLog, FoundSsd), SsdError> {
    let mut found = FoundSsd { is_same_boot, ..FoundSsd::default() };
    let mut maps = BTreeMap::new();
    let mut lost = Vec::new();
    for name in directory.list().map_err(io_error("list the directory of", path))?.iter().filter(|name| is_map_name(name)) {
        let described = PathBuf::from(directory.describe(name));
        let device = directory.open(name).map_err(io_error("open", &described))?;
        let read = format::read(&device).map_err(io_error("read", &described))?;
        let Some(map) = read.filter(|map| map.header.instance == instance && map_name(map.header.generation) == *name) else {
            if is_same_boot && device.len().map_err(io_error("read", &described))? > 0 {
                return Err(SsdError::Damaged { path: described, reason: "its header is not whole, or is another's" });
            }
            directory.remove(name).map_err(io_error("remove", &described))?;
            continue;
        };
        if is_same_boot && map.goes_on_at.is_some() {
            return Err(SsdError::Damaged { path: described, reason: "whole records follow one that is not" });
        }
        clear_rest(&device, map.tail).map_err(io_error("write", &described))?;
        found.layout = Some(map.header.layout);
        let taken = take_map(&map, &data, &mut found, &mut lost).map_err(io_error("read", path))?;
        let mut opened = Map { device, header: map.header, tail: map.tail, synced: map.tail, files: taken.files, in_doubt: false };
        if !taken.lost.is_empty() {
            // The next opening, without a loss of power before, must not take it for damage.
            let written = opened.append(&[Record::Lost { places: taken.lost }]).and_then(|()| opened.sync());
            written.map_err(io_error("write", &described))?;
        }
        if taken.entries == 0 {
            found.notes.push(Note::Emptied(Generation(map.header.generation)));
        }
        maps.insert(map.header.generation, opened);
    }
    if !lost.is_empty() {
        return Err(SsdError::LostBytes { path: path.to_owned(), what: lost.join(", ") });
    }
    directory.sync().map_err(io_error("sync the directory of", path))?;
    let maps = Mutex::new(Maps { maps, is_directory_dirty: false });
    Ok((SsdLog { instance, directory, data, maps, is_data_lost: AtomicBool::new(false) }, found))
}

/// Frames behind the tail that a crash has cut off must not come back when others have filled the gap.
fn clear_rest(device: &Arc<dyn Device>, tail: u64) -> io::Result<()> {
    let rest = device.len()?.saturating_sub(tail);
    device.write_at(tail, &vec![0; usize::try_from(rest).unwrap_or(0)])?;
    device.sync()
}

/// What was in a map.
struct Taken {
    files: BTreeSet<Ino>,
    entries: u64,
    /// Where entries stand whose bytes are newly lost.
    lost: Vec<u64>,
}

/// Takes up what a map says. `lost` is told of bytes that no loss of power explains.
fn take_map(map: &format::Found, data: &Arc<dyn Device>, found: &mut FoundSsd, lost: &mut Vec<String>) -> io::Result<Taken> {
    let mut taken = Taken { files: BTreeSet::new(), entries: 0, lost: Vec::new() };
    let known_lost = |record: &Record| if let Record::Lost { places } = record { places.clone() } else { Vec::new() };
    let known_lost: BTreeSet<u64> = map.records.iter().flat_map(|(_, record)| known_lost(record)).collect();
    let synced = map.records.iter().filter_map(|(_, record)| if let Record::Synced { upto } = record { Some(*upto) } else { None });
    let synced = synced.max().unwrap_or(0);
    let generation = Generation(map.header.generation);
    for (place, record) in &map.records {
        match record {
            Record::File { file, identity, path } => {
                let record = FileRecord { file: Ino(*file), identity: *identity, path: HomePath(path.as_slice().into()) };
                taken.files.insert(Ino(*file));
                let new = FoundFile { record: record.clone(), is_named: false, is_going: false, is_gone: false };
                // A later map has a later name of it.
                found.files.entry(Ino(*file)).or_insert(new).record = record;
            }
            Record::Entry { .. } if known_lost.contains(place) => {}
            Record::Entry { file, offset, len, lsn, at, crc } => {
                let range = FileRange { file: Ino(*file), offset: *offset, len: *len };
                if checksum(data, *at, *len)? == Some(*crc) {
                    taken.entries += 1;
                    found.entries.push(Entry { range, lsn: Lsn(*lsn), generation, at: *at });
                } else if found.is_same_boot || *place < synced {
                    let path = found.files.get(&range.file).map_or_else(String::new, |file| format!("{:?} ", file.record.path));
                    lost.push(format!("{path}bytes {offset} to {}", range.end()));
                } else {
                    found.lost_bytes += len;
                    taken.lost.push(*place);
                }
            }
            Record::Superseded { file, offset, len, lsn } => {
                let range = FileRange { file: Ino(*file), offset: *offset, len: *len };
                found.notes.push(Note::Superseded { range, lsn: Lsn(*lsn) });
            }
            Record::Going { file } => with(found, *file, |file| file.is_going = true),
            Record::Gone { file } => with(found, *file, |file| file.is_gone = true),
            Record::Named { file } => with(found, *file, |file| file.is_named = true),
            Record::Synced { .. } | Record::Lost { .. } => {}
        }
    }
    Ok(taken)
}

fn with(found: &mut FoundSsd, file: u64, change: impl FnOnce(&mut FoundFile)) {
    if let Some(file) = found.files.get_mut(&Ino(file)) {
        change(file);
    }
}

/// The CRC-32C of bytes of the log; `None` if the log ends before.
fn checksum(data: &Arc<dyn Device>, at: u64, len: u64) -> io::Result<Option<u32>> {
    const STEP_BYTES: u64 = 1 << 20;
    if at.checked_add(len).is_none_or(|end| data.len().is_ok_and(|bytes| bytes < end)) {
        return Ok(None);
    }
    let mut buffer = vec![0; len.min(STEP_BYTES) as usize];
    let (mut sum, mut done) = (0, 0);
    while done < len {
        let part = (len - done).min(STEP_BYTES) as usize;
        data.read_at(at + done, &mut buffer[..part])?;
        sum = crc32c::crc32c_append(sum, &buffer[..part]);
        done += part as u64;
    }
    Ok(Some(sum))
}
