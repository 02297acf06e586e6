//! The superblock: what a buffer is, in one small file that is replaced as a whole.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use forebay_core::config::NodeConfig;
use serde::{Deserialize, Serialize};

use crate::random::hex;

/// The version of everything in a buffer directory. A change of any format there, and of any record of the journal, counts it up.
pub const FORMAT_VERSION: u32 = 3;

const MAGIC: [u8; 8] = *b"FOREBAY\n";
/// Magic, version, body length, checksum.
const HEADER_BYTES: usize = 20;
/// A superblock larger than this was not written by us, bytes.
const BODY_BYTES_MAX: u32 = 64 << 10;

/// The sizes of a buffer. They do not change while it lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Geometry {
    /// Bytes of a segment; a multiple of 4096.
    pub segment_bytes: u32,
    /// Segments that the SSD log file has room for.
    pub ssd_slots: u32,
    /// Segments that the memory file has room for.
    pub memory_slots: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: u32,
}

impl Geometry {
    /// The sizes that a node's configuration asks for.
    pub fn of(config: &NodeConfig) -> Geometry {
        Geometry {
            segment_bytes: config.segment_bytes,
            ssd_slots: config.ssd_slots(),
            memory_slots: config.memory_segments_max,
            chunk_bytes: config.chunk_bytes,
        }
    }

    /// Bytes of the SSD log file.
    pub fn ssd_bytes(&self) -> u64 {
        u64::from(self.segment_bytes) * u64::from(self.ssd_slots)
    }

    /// Bytes of the memory file.
    pub fn memory_bytes(&self) -> u64 {
        u64::from(self.segment_bytes) * u64::from(self.memory_slots)
    }
}

/// What a buffer is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Names the instance, for ever.
    pub instance: [u8; 16],
    /// Sizes.
    pub geometry: Geometry,
    /// The absolute path of the home directory.
    pub backing: PathBuf,
    /// The absolute path of the memory file.
    pub memory_path: PathBuf,
    /// Names one memory file: a new one when its bytes were lost.
    pub memory_id: [u8; 16],
    /// The kernel's boot id under which the memory file was made: another one means that its bytes are gone.
    pub boot_id: String,
    /// Whether the buffer directory itself was made with the buffer, and goes with it.
    pub made_directory: bool,
    /// The node's configuration.
    pub config: NodeConfig,
}

/// The form of a superblock on the medium: paths are bytes there.
#[derive(Serialize, Deserialize)]
struct Body {
    instance: [u8; 16],
    geometry: Geometry,
    backing: Vec<u8>,
    memory_path: Vec<u8>,
    memory_id: [u8; 16],
    boot_id: String,
    made_directory: bool,
    config: NodeConfig,
}

/// Why a superblock cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SuperblockError {
    /// The file is not there.
    #[error("{} is not a Forebay buffer: it has no superblock", .0.display())]
    Missing(PathBuf),
    /// The file begins with something else.
    #[error("{} is not the superblock of a Forebay buffer; choose another buffer directory", .0.display())]
    NotABuffer(PathBuf),
    /// The file is shorter than it says.
    #[error("{} is truncated: it has {found} bytes of {wanted}; restore it from a copy, or remove the buffer if its data is not needed", .path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        found: u64,
        /// The bytes that it should have.
        wanted: u64,
    },
    /// Written by another version.
    #[error("{} has format version {found}, this program reads version {wanted}; finish the buffer with the version of forebay that made it", .path.display())]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version of this program.
        wanted: u32,
    },
    /// The checksum or the contents are wrong.
    #[error("{} is damaged: {reason}; restore it from a copy, or remove the buffer if its data is not needed", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
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

impl Superblock {
    /// The instance's name for people.
    pub fn instance_name(&self) -> String {
        hex(&self.instance)
    }

    /// Reads the superblock at `path`.
    ///
    /// # Errors
    /// Every variant of [`SuperblockError`]; never panics, whatever the file holds.
    pub fn read(path: &Path) -> Result<Superblock, SuperblockError> {
        let io = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => SuperblockError::Missing(path.parent().unwrap_or(path).to_owned()),
            _ => SuperblockError::Io { action: "read", path: path.to_owned(), source },
        };
        let mut options = OpenOptions::new();
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let file = options.read(true).custom_flags(flags.bits().cast_signed()).open(path).map_err(io)?;
        let mut bytes = Vec::new();
        file.take(HEADER_BYTES as u64 + u64::from(BODY_BYTES_MAX) + 1).read_to_end(&mut bytes).map_err(io)?;
        decode(&bytes, path)
    }

    /// Writes the superblock at `path`, replacing one that is there: after a crash there is the old one or the new one.
    ///
    /// # Errors
    /// [`SuperblockError::Io`].
    pub fn write(&self, path: &Path) -> Result<(), SuperblockError> {
        let temporary = path.with_extension("new");
        write_durably(&temporary, &encode(self))
            .and_then(|()| std::fs::rename(&temporary, path))
            .and_then(|()| sync_parent(path))
            .map_err(|source| SuperblockError::Io { action: "write", path: path.to_owned(), source })
    }
}

pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).custom_flags(flags).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes the names in the directory of `path` durable.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

fn encode(superblock: &Superblock) -> Vec<u8> {
    let body = Body {
        instance: superblock.instance,
        geometry: superblock.geometry,
        backing: superblock.backing.as_os_str().as_bytes().to_vec(),
        memory_path: superblock.memory_path.as_os_str().as_bytes().to_vec(),
        memory_id: superblock.memory_id,
        boot_id: superblock.boot_id.clone(),
        made_directory: superblock.made_directory,
        config: superblock.config.clone(),
    };
    // Only a type that postcard does not support could fail, and there is none in `Body`.
    let body = postcard::to_allocvec(&body).unwrap_or_default();
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes), &body);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

/// The little-endian number at `at`; the caller has checked the length.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

/// See [`u32_at`].
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

fn decode(bytes: &[u8], path: &Path) -> Result<Superblock, SuperblockError> {
    let path = || path.to_owned();
    let found = bytes.len() as u64;
    if bytes.is_empty() || !bytes.starts_with(&MAGIC[..bytes.len().min(MAGIC.len())]) {
        return Err(SuperblockError::NotABuffer(path()));
    }
    if bytes.len() < HEADER_BYTES {
        return Err(SuperblockError::Truncated { path: path(), found, wanted: HEADER_BYTES as u64 });
    }
    let damaged = |reason| SuperblockError::Damaged { path: path(), reason };
    let len = u32_at(bytes, 12);
    if len > BODY_BYTES_MAX {
        return Err(damaged("it claims an impossible length"));
    }
    let wanted = HEADER_BYTES as u64 + u64::from(len);
    if found < wanted {
        return Err(SuperblockError::Truncated { path: path(), found, wanted });
    }
    if found > wanted {
        return Err(damaged("bytes follow its end"));
    }
    let body = &bytes[HEADER_BYTES..];
    if crc32c::crc32c_append(crc32c::crc32c(&bytes[..16]), body) != u32_at(bytes, 16) {
        return Err(damaged("its checksum does not match"));
    }
    // The layout up to the checksum is the same in every version: a version that does not match is no rot then.
    let version = u32_at(bytes, 8);
    if version != FORMAT_VERSION {
        return Err(SuperblockError::OtherVersion { path: path(), found: version, wanted: FORMAT_VERSION });
    }
    let body: Body = postcard::from_bytes(body).map_err(|_| damaged("its fields cannot be read"))?;
    Ok(Superblock {
        instance: body.instance,
        geometry: body.geometry,
        backing: std::ffi::OsString::from_vec(body.backing).into(),
        memory_path: std::ffi::OsString::from_vec(body.memory_path).into(),
        memory_id: body.memory_id,
        boot_id: body.boot_id,
        made_directory: body.made_directory,
        config: body.config,
    })
}

/// The id of this boot of the kernel.
///
/// # Errors
/// The file system's, where `/proc` is not mounted.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests;
