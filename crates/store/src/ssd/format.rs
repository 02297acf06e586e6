//! The maps beside an SSD's log: what stands where. docs/FORMAT.md, section 7.

use std::sync::Arc;

use forebay_core::hybrid::Layout;
use serde::{Deserialize, Serialize};

use crate::device::{Device, SECTOR_BYTES};
use crate::home::FileIdentity;
use crate::superblock::{u32_at, u64_at};

/// The version of everything in the directory of an SSD. A change of any format there counts it up.
pub const SSD_FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"FBSSDMAP";
/// Where the first frame stands: behind a sector of header.
pub(super) const FRAMES_AT: u64 = SECTOR_BYTES as u64;
/// Length, checksum, place.
const FRAME_HEADER_BYTES: usize = 16;
/// No record is longer: a path has 65535 bytes at most, bytes.
const RECORD_BYTES_MAX: u32 = 128 << 10;
/// Read at a time, bytes.
const READ_BYTES: usize = 1 << 20;

/// What a map says. The order of the variants is part of the format.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) enum Record {
    /// A file, under the number that entries have for it. The path is one of its names of then.
    File { file: u64, identity: FileIdentity, path: Vec<u8> },
    /// Bytes of a file stand in the log at `at`, with this CRC-32C.
    Entry { file: u64, offset: u64, len: u64, lsn: u64, at: u64, crc: u32 },
    /// The disk has newer bytes of this range than any entry before this place in history.
    Superseded { file: u64, offset: u64, len: u64, lsn: u64 },
    /// The last name of the file is about to be removed.
    Going { file: u64 },
    /// The file is gone.
    Gone { file: u64 },
    /// A name of the file is durable at home.
    Named { file: u64 },
    /// The bytes of every entry before this place in the map are durable.
    Synced { upto: u64 },
    /// The bytes of the entries at these places were lost before they were durable.
    Lost { places: Vec<u64> },
}

/// Which map of which SSD, and how the SSD was divided when it was begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) instance: [u8; 16],
    pub(super) generation: u64,
    pub(super) layout: Layout,
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SECTOR_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&SSD_FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.layout.regions.to_le_bytes());
        bytes.extend_from_slice(&self.instance);
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&self.layout.ssd_bytes.to_le_bytes());
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.resize(SECTOR_BYTES, 0);
        bytes
    }

    /// The header of a map, if it is whole.
    pub(super) fn decode(bytes: &[u8]) -> Option<Header> {
        const CRC_AT: usize = 48;
        if bytes.len() < CRC_AT + 4 || !bytes.starts_with(&MAGIC) || crc32c::crc32c(&bytes[..CRC_AT]) != u32_at(bytes, CRC_AT) {
            return None;
        }
        let mut instance = [0; 16];
        instance.copy_from_slice(&bytes[16..32]);
        let layout = Layout { ssd_bytes: u64_at(bytes, 40), regions: u32_at(bytes, 12) };
        (u32_at(bytes, 8) == SSD_FORMAT_VERSION).then_some(Header { instance, generation: u64_at(bytes, 32), layout })
    }

    /// The checksum of a record: a frame of another map, or at another place, is never valid here.
    fn crc(&self, place: u64, body: &[u8]) -> u32 {
        let mut sum = crc32c::crc32c(&self.instance);
        sum = crc32c::crc32c_append(sum, &self.generation.to_le_bytes());
        sum = crc32c::crc32c_append(sum, &(body.len() as u32).to_le_bytes());
        sum = crc32c::crc32c_append(sum, &place.to_le_bytes());
        crc32c::crc32c_append(sum, body)
    }

    /// Appends the frame of a record that will stand at `place`.
    pub(super) fn frame(&self, place: u64, record: &Record, out: &mut Vec<u8>) {
        // Only a type that postcard does not support could fail, and there is none in `Record`.
        let body = postcard::to_allocvec(record).unwrap_or_default();
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.crc(place, &body).to_le_bytes());
        out.extend_from_slice(&place.to_le_bytes());
        out.extend_from_slice(&body);
    }

    /// The record of the frame at the start of `bytes`, which stands at `place`, and the frame's length.
    fn unframe(&self, place: u64, bytes: &[u8]) -> Option<(Record, usize)> {
        if bytes.len() < FRAME_HEADER_BYTES {
            return None;
        }
        let len = u32_at(bytes, 0);
        let end = FRAME_HEADER_BYTES + len as usize;
        if len == 0 || len > RECORD_BYTES_MAX || bytes.len() < end || u64_at(bytes, 8) != place {
            return None;
        }
        let body = &bytes[FRAME_HEADER_BYTES..end];
        if self.crc(place, body) != u32_at(bytes, 4) {
            return None;
        }
        let (record, rest) = postcard::take_from_bytes(body).ok()?;
        rest.is_empty().then_some((record, end))
    }
}

/// A map as it was found.
pub(super) struct Found {
    pub(super) header: Header,
    /// The records of the longest prefix of whole frames, and where each stands.
    pub(super) records: Vec<(u64, Record)>,
    /// Where the prefix ends.
    pub(super) tail: u64,
    /// A whole frame stands behind that: something before it is damaged, or a loss of power took it.
    pub(super) goes_on_at: Option<u64>,
}

/// Reads a map; `None` if its header is not whole: then nothing was ever answered on the strength of it.
pub(super) fn read(device: &Arc<dyn Device>) -> std::io::Result<Option<Found>> {
    let len = device.len()?;
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| std::io::Error::from(std::io::ErrorKind::FileTooLarge))?];
    let mut done = 0;
    while done < bytes.len() {
        let part = (bytes.len() - done).min(READ_BYTES);
        device.read_at(done as u64, &mut bytes[done..done + part])?;
        done += part;
    }
    let Some(header) = Header::decode(&bytes) else { return Ok(None) };
    let mut found = Found { header, records: Vec::new(), tail: FRAMES_AT, goes_on_at: None };
    let mut at = FRAMES_AT as usize;
    while let Some((record, frame_bytes)) = bytes.get(at..).and_then(|rest| header.unframe(at as u64, rest)) {
        found.records.push((at as u64, record));
        at += frame_bytes;
    }
    found.tail = at as u64;
    // A frame says where it stands: nothing else can be taken for one.
    found.goes_on_at = (at + 1..bytes.len()).find(|at| header.unframe(*at as u64, &bytes[*at..]).is_some()).map(|at| at as u64);
    Ok(Some(found))
}
