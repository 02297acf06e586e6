//! The bytes of a journal: header and frames. `docs/FORMAT.md` has the tables.

use forebay_core::id::Position;
use forebay_core::record::Record;

use super::{JournalError, JournalIdentity};
use crate::device::SECTOR_BYTES;
use crate::superblock::{FORMAT_VERSION, u32_at, u64_at};

const MAGIC: [u8; 8] = *b"FBJOURNL";
const NAME_PREFIX: &str = "journal-";
const STARTS_EMPTY: u32 = 1;
/// Bytes of the header that its checksum covers.
const HEADER_SUMMED_BYTES: usize = 64;
const HEADER_BYTES: usize = HEADER_SUMMED_BYTES + 4;

/// The first frame comes after the header's sector.
pub(super) const FRAMES_START: u64 = SECTOR_BYTES as u64;
/// Length, checksum, position.
pub(super) const FRAME_HEADER_BYTES: usize = 16;
/// The largest record, encoded, bytes: an inode with many thousand names fits.
pub(super) const RECORD_BYTES_MAX: usize = 16 << 20;

/// The name of the journal file with this number.
pub(super) fn file_name(number: u64) -> String {
    format!("{NAME_PREFIX}{number:016x}")
}

/// The number of a journal file's name.
pub(super) fn file_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(NAME_PREFIX)?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (file_name(number) == name).then_some(number)
}

/// The header of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) identity: JournalIdentity,
    pub(super) number: u64,
    /// The position of the first record.
    pub(super) start: Position,
    /// It is a buffer's first journal and needs no snapshot.
    pub(super) starts_empty: bool,
}

/// Why a header cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HeaderError {
    /// All zeros or too short: the file was being made.
    Unwritten,
    /// Another version's.
    OtherVersion(u32),
    /// Neither.
    Damaged,
    /// A whole header, but of another buffer or another journal.
    Foreign,
}

impl Header {
    /// One sector, which is written whole or not.
    pub(super) fn encode(&self) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0; SECTOR_BYTES];
        let flags = if self.starts_empty { STARTS_EMPTY } else { 0 };
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&flags.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.identity.instance);
        bytes[32..40].copy_from_slice(&self.number.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.start.0.to_le_bytes());
        bytes[48..64].copy_from_slice(&self.identity.memory_id);
        let crc = crc32c::crc32c(&bytes[..HEADER_SUMMED_BYTES]);
        bytes[HEADER_SUMMED_BYTES..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the header of the journal `number` of the buffer `instance`.
    pub(super) fn decode(bytes: &[u8], instance: &[u8; 16], number: u64) -> Result<Header, HeaderError> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Err(HeaderError::Unwritten);
        }
        if bytes.len() < HEADER_BYTES || !bytes.starts_with(&MAGIC) {
            return Err(HeaderError::Damaged);
        }
        // The layout up to the checksum is the same in every version: a version that does not match is no rot then.
        if crc32c::crc32c(&bytes[..HEADER_SUMMED_BYTES]) != u32_at(bytes, HEADER_SUMMED_BYTES) {
            return Err(HeaderError::Damaged);
        }
        let version = u32_at(bytes, 8);
        if version != FORMAT_VERSION {
            return Err(HeaderError::OtherVersion(version));
        }
        let mut identity = JournalIdentity { instance: [0; 16], memory_id: [0; 16] };
        identity.instance.copy_from_slice(&bytes[16..32]);
        identity.memory_id.copy_from_slice(&bytes[48..64]);
        let header = Header {
            identity,
            number: u64_at(bytes, 32),
            start: Position(u64_at(bytes, 40)),
            starts_empty: u32_at(bytes, 12) & STARTS_EMPTY != 0,
        };
        if header.identity.instance != *instance || header.number != number {
            return Err(HeaderError::Foreign);
        }
        Ok(header)
    }
}

/// Where the checksums of a journal's frames start from: a frame of another journal does not match, wherever it turns up.
pub(super) fn frame_seed(instance: &[u8; 16], number: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(instance), &number.to_le_bytes())
}

/// The checksum of a frame: over its length, its position and its record.
pub(super) fn frame_crc(seed: u32, len: u32, position: Position, record: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(seed, &len.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &position.0.to_le_bytes());
    crc32c::crc32c_append(crc, record)
}

/// Makes frames in a buffer that is used again.
pub(super) struct FrameEncoder {
    seed: u32,
    buffer: Vec<u8>,
    used: usize,
}

impl FrameEncoder {
    pub(super) fn new(instance: &[u8; 16], number: u64) -> FrameEncoder {
        FrameEncoder { seed: frame_seed(instance, number), buffer: vec![0; 4096], used: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.used = 0;
    }

    /// The frames since the last `clear`.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.used]
    }

    /// Adds one frame.
    pub(super) fn push(&mut self, position: Position, record: &Record) -> Result<(), JournalError> {
        let body = self.used + FRAME_HEADER_BYTES;
        let len = loop {
            let room = self.buffer.get_mut(body..).unwrap_or_default();
            let room_bytes = room.len();
            // The one way in which a record can fail to be encoded is a buffer that is too small.
            if let Ok(encoded) = postcard::to_slice(record, room) {
                break encoded.len();
            }
            if room_bytes > RECORD_BYTES_MAX {
                return Err(JournalError::TooLarge { max: RECORD_BYTES_MAX });
            }
            self.buffer.resize(self.buffer.len() * 2, 0);
        };
        if len > RECORD_BYTES_MAX {
            return Err(JournalError::TooLarge { max: RECORD_BYTES_MAX });
        }
        let crc = frame_crc(self.seed, len as u32, position, &self.buffer[body..body + len]);
        let header = &mut self.buffer[self.used..body];
        header[0..4].copy_from_slice(&(len as u32).to_le_bytes());
        header[4..8].copy_from_slice(&crc.to_le_bytes());
        header[8..16].copy_from_slice(&position.0.to_le_bytes());
        self.used = body + len;
        Ok(())
    }
}
