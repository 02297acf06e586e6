//! The buffer directory: one instance's lasting state, held by one process at a time.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_core::config::NodeConfig;
use forebay_core::id::Position;
use rustix::fs::{FallocateFlags, FlockOperation, OFlags};

use crate::device::FileDevice;
use crate::directory::{Directory, FileDirectory};
use crate::journal::{Journal, JournalError, JournalIdentity, OpenedJournal};
use crate::log::LogStore;
use crate::random::{hex, random_id};
use crate::superblock::{Geometry, Superblock, SuperblockError, boot_id, sync_parent};

const SUPERBLOCK: &str = "superblock";
/// What a superblock is before it takes the place of the old one.
const SUPERBLOCK_NEW: &str = "superblock.new";
const SSD_LOG: &str = "ssd.log";
const LOCK: &str = "lock";
const MEMORY_PREFIX: &str = "forebay-";
/// Where the memory file goes if the user names no place.
const MEMORY_DIR: &str = "/dev/shm";
/// The position of a buffer's first record: 0 stands for none.
const FIRST_POSITION: Position = Position(1);
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Why a buffer directory cannot be made, opened or removed.
#[derive(Debug, thiserror::Error)]
pub enum BufferError {
    /// Another process has it.
    #[error("the buffer {} is in use by process {pid}; stop that one first, or choose another buffer directory", .path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process, as the lock file names it.
        pid: String,
    },
    /// The directory holds a file of someone else's where the buffer's own would go.
    #[error("{} holds {found:?} and is not a Forebay buffer; choose an empty or a new directory", .path.display())]
    NotABuffer {
        /// The directory.
        path: PathBuf,
        /// The name.
        found: String,
    },
    /// A buffer is there already.
    #[error("{} already holds a buffer", .0.display())]
    Exists(PathBuf),
    /// The file system has not enough room.
    #[error("{} needs {wanted} bytes and its file system has {free} free; choose a smaller capacity or another buffer directory", .path.display())]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// Bytes that it needs.
        wanted: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The configuration asks for impossible sizes.
    #[error("a buffer with segments of {segment_bytes} bytes, {ssd_slots} on the SSD and {memory_slots} in memory, cannot be: {reason}")]
    Geometry {
        /// Bytes of a segment.
        segment_bytes: u32,
        /// Segments on the SSD.
        ssd_slots: u32,
        /// Segments in memory.
        memory_slots: u32,
        /// What is wrong.
        reason: &'static str,
    },
    /// The log file is shorter than the superblock says.
    #[error("{} is truncated: it has {found} bytes of {wanted}; the buffer is damaged", .path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        found: u64,
        /// The bytes that it should have.
        wanted: u64,
    },
    /// See there.
    #[error(transparent)]
    Superblock(#[from] SuperblockError),
    /// See there.
    #[error(transparent)]
    Journal(#[from] JournalError),
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

/// What a new buffer is to be.
#[derive(Clone, Debug)]
pub struct BufferSettings {
    /// The absolute path of the home directory.
    pub backing: PathBuf,
    /// The node's configuration; the sizes follow from it.
    pub config: NodeConfig,
    /// Where the memory file goes; `/dev/shm` if `None`.
    pub memory_dir: Option<PathBuf>,
}

/// The memory file as it was found or made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryFile {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it was there with its bytes. `false` for a new one, and after a power loss or a reboot.
    pub found: bool,
    /// Why it is in the buffer directory instead of the memory directory, if it is.
    pub fallback: Option<String>,
}

/// A buffer directory, locked for this process until dropped.
pub struct BufferDir {
    path: PathBuf,
    superblock: Superblock,
    memory: MemoryFile,
    /// The lock goes with the open file.
    _lock: File,
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BufferError + use<> {
    let path = path.to_owned();
    move |source| BufferError::Io { action, path, source }
}

impl BufferDir {
    /// Whether a complete buffer is at `path`.
    ///
    /// # Errors
    /// [`BufferError::Io`] if that cannot be said.
    pub fn exists(path: &Path) -> Result<bool, BufferError> {
        let superblock = path.join(SUPERBLOCK);
        superblock.try_exists().map_err(io_error("look for", &superblock))
    }

    /// Whether a file of this name in a buffer directory is the buffer's own.
    pub fn owns_name(name: &str) -> bool {
        let is_memory = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') && rest.len() > 32;
        [SUPERBLOCK, SUPERBLOCK_NEW, SSD_LOG, LOCK].contains(&name)
            || crate::journal::is_journal_name(name)
            || name.strip_prefix(MEMORY_PREFIX).is_some_and(is_memory)
    }

    /// Makes a buffer at `path`, a directory that is missing or holds no file that [`BufferDir::owns_name`], with an empty first
    /// journal. The superblock comes last, so that what a crash leaves behind is no buffer, and is made anew the next time.
    ///
    /// # Errors
    /// Every variant of [`BufferError`] but `Truncated`.
    pub fn create(path: &Path, settings: &BufferSettings) -> Result<BufferDir, BufferError> {
        check_geometry(&Geometry::of(&settings.config))?;
        let made_directory = make_directory(path)?;
        let path = path.canonicalize().map_err(io_error("find", path))?;
        let had_lock = path.join(LOCK).exists();
        let lock = take_lock(&path)?;
        if BufferDir::exists(&path)? {
            return Err(BufferError::Exists(path));
        }
        if let Err(error) = clear_leftovers(&path, had_lock) {
            // The lock file would say that the rest is ours.
            let _ = if had_lock { Ok(()) } else { std::fs::remove_file(path.join(LOCK)) };
            return Err(error);
        }
        let made = BufferDir::fill(path.clone(), lock, settings, made_directory);
        if made.is_err() {
            // Best effort, for the space: the next creation clears what stays.
            let _ = clear_leftovers(&path, true);
            let _ = std::fs::remove_file(path.join(LOCK));
            let _ = if made_directory { std::fs::remove_dir(&path) } else { Ok(()) };
        }
        made
    }

    /// Makes the files of a new buffer in a directory that is locked.
    fn fill(path: PathBuf, lock: File, settings: &BufferSettings, made_directory: bool) -> Result<BufferDir, BufferError> {
        let geometry = Geometry::of(&settings.config);
        make_ssd_log(&path.join(SSD_LOG), geometry.ssd_bytes())?;
        let instance = random_id().map_err(io_error("name", &path))?;
        let memory_dir = settings.memory_dir.as_deref().unwrap_or(Path::new(MEMORY_DIR));
        let (memory, memory_id) = make_memory_file(memory_dir, &path, geometry.memory_bytes())?;
        let superblock = Superblock {
            instance,
            geometry,
            backing: settings.backing.clone(),
            memory_path: memory.path.clone(),
            memory_id,
            boot_id: boot_id().unwrap_or_default(),
            made_directory,
            config: settings.config.clone(),
        };
        let buffer = BufferDir { path, superblock, memory, _lock: lock };
        let made = Journal::create(buffer.directory(), buffer.identity(), FIRST_POSITION);
        let written = made.map_err(BufferError::from).and_then(|_| Ok(buffer.superblock.write(&buffer.superblock_path())?));
        if let Err(error) = written {
            // Nothing would ever find the memory file again.
            let _ = std::fs::remove_file(&buffer.memory.path);
            return Err(error);
        }
        Ok(buffer)
    }

    /// Opens the buffer at `path`. If its memory file is lost, a new one is made (in `memory_dir`, or where the old one was), which the
    /// journal then shows as not intact.
    ///
    /// # Errors
    /// Every variant of [`BufferError`] but `NotABuffer`, `Exists` and `Geometry`.
    pub fn open(path: &Path, memory_dir: Option<&Path>) -> Result<BufferDir, BufferError> {
        if !BufferDir::exists(path)? {
            return Err(SuperblockError::Missing(path.to_owned()).into());
        }
        let path = path.canonicalize().map_err(io_error("find", path))?;
        let lock = take_lock(&path)?;
        let mut superblock = Superblock::read(&path.join(SUPERBLOCK))?;
        check_geometry(&superblock.geometry)?;
        check_length(&path.join(SSD_LOG), superblock.geometry.ssd_bytes())?;
        let memory = if memory_file_is_there(&superblock) {
            let fallback =
                (superblock.memory_path.parent() == Some(&*path)).then(|| "it was put there when the buffer was made".to_owned());
            MemoryFile { path: superblock.memory_path.clone(), found: true, fallback }
        } else {
            renew_memory_file(&path, &mut superblock, memory_dir)?
        };
        Ok(BufferDir { path, superblock, memory, _lock: lock })
    }

    /// The absolute path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the buffer is.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The memory file.
    pub fn memory(&self) -> &MemoryFile {
        &self.memory
    }

    /// Opens the log: the memory file, and the SSD log file past the page cache where the file system has that.
    ///
    /// One descriptor serves reads and writes of the SSD log: bytes that also stood in the page cache could be old there.
    ///
    /// # Errors
    /// [`BufferError::Io`].
    pub fn log(&self) -> Result<LogStore, BufferError> {
        let ssd_path = self.path.join(SSD_LOG);
        let memory = FileDevice::open(&self.memory.path).map_err(io_error("open", &self.memory.path))?;
        let ssd = FileDevice::open_direct(&ssd_path).map_err(io_error("open", &ssd_path))?;
        Ok(LogStore::new(self.superblock.geometry, Arc::new(memory), Arc::new(ssd)))
    }

    /// Reads the journals.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn journal(&self) -> Result<OpenedJournal, BufferError> {
        Ok(Journal::open(self.directory(), self.identity(), self.memory.found)?)
    }

    /// Removes the buffer: the superblock first, so that what a crash leaves is no buffer. The directory itself goes too if it was made
    /// with the buffer and nothing else is in it.
    ///
    /// # Errors
    /// [`BufferError::Io`].
    pub fn remove(self) -> Result<(), BufferError> {
        let superblock = self.superblock_path();
        std::fs::remove_file(&superblock).map_err(io_error("remove", &superblock))?;
        sync_parent(&superblock).map_err(io_error("sync", &self.path))?;
        remove_if_there(&self.memory.path)?;
        clear_leftovers(&self.path, true)?;
        remove_if_there(&self.path.join(LOCK))?;
        if self.superblock.made_directory {
            match std::fs::remove_dir(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => {
                    return Err(io_error("remove", &self.path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn superblock_path(&self) -> PathBuf {
        self.path.join(SUPERBLOCK)
    }

    fn directory(&self) -> Arc<dyn Directory> {
        Arc::new(FileDirectory::new(&self.path))
    }

    fn identity(&self) -> JournalIdentity {
        JournalIdentity { instance: self.superblock.instance, memory_id: self.superblock.memory_id }
    }
}

fn check_geometry(geometry: &Geometry) -> Result<(), BufferError> {
    let Geometry { segment_bytes, ssd_slots, memory_slots, .. } = *geometry;
    let reason = if segment_bytes == 0 || !segment_bytes.is_multiple_of(4096) {
        "a segment is a multiple of 4096 bytes"
    } else if ssd_slots == 0 || memory_slots == 0 {
        "there is at least one segment in each"
    } else if geometry.ssd_bytes() > i64::MAX.cast_unsigned() {
        "it is larger than a file can be"
    } else {
        return Ok(());
    };
    Err(BufferError::Geometry { segment_bytes, ssd_slots, memory_slots, reason })
}

/// Makes the directory, private to its owner; says whether it was missing.
pub(crate) fn make_directory(path: &Path) -> Result<bool, BufferError> {
    let existed = path.try_exists().map_err(io_error("look for", path))?;
    if !existed {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io_error("create", path))?;
    }
    Ok(!existed)
}

/// Takes the lock of the directory, for as long as the file is open.
pub(crate) fn take_lock(path: &Path) -> Result<File, BufferError> {
    let lock_path = path.join(LOCK);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let mut file = options.open(&lock_path).map_err(io_error("open", &lock_path))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            // Best effort: the message names the process if the file does.
            let _ = (&file).take(32).read_to_string(&mut pid);
            let pid = Some(pid.trim()).filter(|pid| !pid.is_empty()).unwrap_or("(unknown)").to_owned();
            return Err(BufferError::InUse { path: path.to_owned(), pid });
        }
        Err(error) => return Err(io_error("lock", &lock_path)(error.into())),
    }
    let pid = format!("{}\n", std::process::id());
    file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(pid.as_bytes())).map_err(io_error("write", &lock_path))?;
    Ok(file)
}

/// Removes what an unfinished creation or removal left in the directory. Where there was no lock file before, no buffer was ever
/// made there: a file with a name of ours is someone else's then.
fn clear_leftovers(path: &Path, had_lock: bool) -> Result<(), BufferError> {
    let mut ours = Vec::new();
    for entry in std::fs::read_dir(path).map_err(io_error("list", path))? {
        let name = entry.map_err(io_error("list", path))?.file_name();
        let found = name.to_string_lossy().into_owned();
        if found == LOCK || !BufferDir::owns_name(&found) {
            continue;
        }
        if !had_lock {
            return Err(BufferError::NotABuffer { path: path.to_owned(), found });
        }
        ours.push(path.join(name));
    }
    ours.iter().try_for_each(|path| remove_if_there(path))
}

fn remove_if_there(path: &Path) -> Result<(), BufferError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", path)(error)),
        _ => Ok(()),
    }
}

fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options.open(path)
}

/// Makes the SSD log with all its room, so that a full file system shows itself now and not in the middle of a burst.
fn make_ssd_log(path: &Path, bytes: u64) -> Result<(), BufferError> {
    let file = create_private(path).map_err(io_error("create", path))?;
    file.set_len(bytes).map_err(io_error("size", path))?;
    let free = free_bytes(&file).map_err(io_error("ask for the free space of", path))?;
    if free < bytes {
        return Err(BufferError::NoSpace { path: path.to_owned(), wanted: bytes, free });
    }
    // On tmpfs the room would be taken from memory at once.
    let reserve = !is_tmpfs(&file).map_err(io_error("ask for the file system of", path))?;
    if reserve {
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS | rustix::io::Errno::INVAL) => {}
            Err(rustix::io::Errno::NOSPC) => {
                return Err(BufferError::NoSpace { path: path.to_owned(), wanted: bytes, free });
            }
            Err(error) => return Err(io_error("reserve the space of", path)(error.into())),
        }
    }
    file.sync_all().map_err(io_error("sync", path))
}

pub(crate) fn free_bytes(file: &File) -> io::Result<u64> {
    let stat = rustix::fs::fstatvfs(file)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

pub(crate) fn is_tmpfs(file: &File) -> io::Result<bool> {
    Ok(rustix::fs::fstatfs(file)?.f_type as u64 == TMPFS_MAGIC)
}

/// Makes a memory file in `memory_dir`, or in the buffer directory if that has not enough room or refuses.
fn make_memory_file(memory_dir: &Path, buffer: &Path, bytes: u64) -> Result<(MemoryFile, [u8; 16]), BufferError> {
    let id = random_id().map_err(io_error("name a memory file in", memory_dir))?;
    let uid = rustix::process::geteuid().as_raw();
    let name = format!("{MEMORY_PREFIX}{uid}-{}", hex(&id));
    // The superblock keeps the path, and the next process may have another working directory.
    let absolute = memory_dir.canonicalize();
    let reason = match absolute.and_then(|dir| Ok((size_memory_file(&dir.join(&name), bytes)?, dir))) {
        Ok((None, dir)) => return Ok((MemoryFile { path: dir.join(&name), found: false, fallback: None }, id)),
        Ok((Some(reason), _)) => reason,
        Err(error) => error.to_string(),
    };
    let fallback = Some(format!("{}: {reason}", memory_dir.display()));
    let path = buffer.join(&name);
    let file = create_private(&path).map_err(io_error("create", &path))?;
    let free = free_bytes(&file).map_err(io_error("ask for the free space of", &path))?;
    if free < bytes {
        let _ = std::fs::remove_file(&path);
        return Err(BufferError::NoSpace { path, wanted: bytes, free });
    }
    file.set_len(bytes).map_err(io_error("size", &path))?;
    Ok((MemoryFile { path, found: false, fallback }, id))
}

/// Makes the file, or says why it cannot serve there. Memory is taken as it is used: the size is a limit.
fn size_memory_file(path: &Path, bytes: u64) -> io::Result<Option<String>> {
    let file = create_private(path)?;
    let free = free_bytes(&file)?;
    if free < bytes {
        std::fs::remove_file(path)?;
        return Ok(Some(format!("it has {free} bytes free, and the memory of the buffer needs {bytes}")));
    }
    file.set_len(bytes)?;
    Ok(None)
}

/// Whether the memory file that the superblock names is there with the bytes of this boot, and ours.
fn memory_file_is_there(superblock: &Superblock) -> bool {
    let Ok(metadata) = std::fs::symlink_metadata(&superblock.memory_path) else {
        return false;
    };
    let same_boot = boot_id().unwrap_or_default() == superblock.boot_id;
    same_boot
        && metadata.is_file()
        && metadata.uid() == rustix::process::geteuid().as_raw()
        && metadata.len() == superblock.geometry.memory_bytes()
}

/// Makes a new memory file in place of a lost one. The journal goes on naming the old one until it is rotated, so that a
/// crash before that does not make the new one look like the old one.
fn renew_memory_file(path: &Path, superblock: &mut Superblock, memory_dir: Option<&Path>) -> Result<MemoryFile, BufferError> {
    let old = superblock.memory_path.clone();
    let old_dir = old.parent().filter(|dir| *dir != path).unwrap_or(Path::new(MEMORY_DIR));
    let (memory, id) = make_memory_file(memory_dir.unwrap_or(old_dir), path, superblock.geometry.memory_bytes())?;
    superblock.memory_path = memory.path.clone();
    superblock.memory_id = id;
    superblock.boot_id = boot_id().unwrap_or_default();
    superblock.write(&path.join(SUPERBLOCK))?;
    // Ours by its name, which has 128 random bits; and of no more use.
    let _ = std::fs::remove_file(&old);
    Ok(memory)
}

fn check_length(path: &Path, wanted: u64) -> Result<(), BufferError> {
    let found = std::fs::metadata(path).map_err(io_error("open", path))?.len();
    if found < wanted {
        return Err(BufferError::Truncated { path: path.to_owned(), found, wanted });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
