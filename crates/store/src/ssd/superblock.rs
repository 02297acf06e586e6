//! What the directory of an SSD is, in one small file that is replaced as a whole.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::SsdError;
use super::format::SSD_FORMAT_VERSION;
use crate::superblock::{sync_parent, u32_at, write_durably};

const MAGIC: [u8; 8] = *b"FBIONODE";
/// Magic, version, body length, checksum: the same in every version.
const HEADER_BYTES: usize = 20;
const BODY_BYTES_MAX: u64 = 64 << 10;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SsdSuperblock {
    pub(super) instance: [u8; 16],
    pub(super) home: PathBuf,
    /// Bytes that the log file has at least.
    pub(super) ssd_bytes: u64,
    /// The kernel's boot id of the last opening: another one means that what was not synced may be gone.
    pub(super) boot_id: String,
}

#[derive(Serialize, Deserialize)]
struct Body {
    instance: [u8; 16],
    home: Vec<u8>,
    ssd_bytes: u64,
    boot_id: String,
}

impl SsdSuperblock {
    pub(super) fn read(path: &Path) -> Result<SsdSuperblock, SsdError> {
        let io = |source| SsdError::Io { action: "read", path: path.to_owned(), source };
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(io)?;
        file.take(HEADER_BYTES as u64 + BODY_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(io)?;
        decode(&bytes, path)
    }

    /// After a crash there is the old one or the new one.
    pub(super) fn write(&self, path: &Path) -> Result<(), SsdError> {
        let temporary = path.with_extension("new");
        write_durably(&temporary, &self.encode())
            .and_then(|()| std::fs::rename(&temporary, path))
            .and_then(|()| sync_parent(path))
            .map_err(|source| SsdError::Io { action: "write", path: path.to_owned(), source })
    }

    fn encode(&self) -> Vec<u8> {
        let body = Body {
            instance: self.instance,
            home: self.home.as_os_str().as_bytes().to_vec(),
            ssd_bytes: self.ssd_bytes,
            boot_id: self.boot_id.clone(),
        };
        // Only a type that postcard does not support could fail, and there is none in `Body`.
        let body = postcard::to_allocvec(&body).unwrap_or_default();
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&SSD_FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes), &body);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }
}

pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<SsdSuperblock, SsdError> {
    let damaged = |reason| SsdError::Damaged { path: path.to_owned(), reason };
    if bytes.is_empty() || !bytes.starts_with(&MAGIC[..bytes.len().min(MAGIC.len())]) {
        return Err(SsdError::NotOurs { path: path.to_owned() });
    }
    if bytes.len() < HEADER_BYTES || bytes.len() != HEADER_BYTES + u32_at(bytes, 12) as usize {
        return Err(damaged("its length is not what it says"));
    }
    let body = &bytes[HEADER_BYTES..];
    if crc32c::crc32c_append(crc32c::crc32c(&bytes[..16]), body) != u32_at(bytes, 16) {
        return Err(damaged("its checksum does not match"));
    }
    let found = u32_at(bytes, 8);
    if found != SSD_FORMAT_VERSION {
        return Err(SsdError::OtherVersion { path: path.to_owned(), found, wanted: SSD_FORMAT_VERSION });
    }
    let body: Body = postcard::from_bytes(body).map_err(|_| damaged("its fields cannot be read"))?;
    let home = OsString::from_vec(body.home).into();
    Ok(SsdSuperblock { instance: body.instance, home, ssd_bytes: body.ssd_bytes, boot_id: body.boot_id })
}
