//! The log: payload bytes in segments, in the memory file and in the SSD log file.

mod ahead;

use std::io;
use std::sync::Arc;

use forebay_core::effect::{HomePiece, LogRange, Slot};
use forebay_core::errno::Errno;
use forebay_core::id::{MemorySlot, SsdSlot};
use parking_lot::Mutex;

use self::ahead::Ahead;
use crate::device::Device;
use crate::superblock::Geometry;

/// Spills are widened to this, so that they can go past the page cache, bytes.
const BLOCK_BYTES: u32 = 4096;
/// The largest single transfer of a copy, a spill or a checksum, bytes.
const TRANSFER_BYTES: usize = 1 << 20;
/// Locks that the SSD slots share.
const SLOT_LOCKS: usize = 64;
/// Transfer buffers that are kept for the next use.
const BUFFERS_KEPT_MAX: usize = 4;

/// Why bytes of the log could not be had or kept.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The range is not within a segment that exists: a mistake of the caller.
    #[error("{slot:?}, bytes {offset} to {end}, is outside the log")]
    OutOfBounds {
        /// The slot.
        slot: Slot,
        /// Bytes from its start.
        offset: u32,
        /// The end asked for.
        end: u64,
    },
    /// The device refused.
    #[error("cannot {action} {slot:?} of the log at byte {offset}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The slot.
        slot: Slot,
        /// Bytes from its start.
        offset: u32,
        /// Why not.
        source: io::Error,
    },
    /// The bytes are not the ones that were written.
    #[error("{slot:?} of the log, {len} bytes at byte {offset}, is damaged: the checksum does not match what was written there")]
    Damaged {
        /// The slot.
        slot: Slot,
        /// Bytes from its start.
        offset: u32,
        /// Bytes.
        len: u32,
    },
    /// A sync failed: what was not durable before it may be lost, and no later sync can say that it is not.
    #[error("the SSD log could not be synced, now or before: {0}; drain the buffer and start it again")]
    SyncFailed(io::Error),
}

impl LogError {
    /// The error number for the core.
    pub fn errno(&self) -> Errno {
        match self {
            LogError::OutOfBounds { .. } => Errno::EINVAL,
            LogError::Damaged { .. } => Errno::EIO,
            LogError::Io { source, .. } | LogError::SyncFailed(source) => crate::errno(source),
        }
    }
}

/// Segments in memory and on the SSD. All methods can be called at the same time; ranges that are written while they are read
/// give old or new bytes, which is the caller's to order.
pub struct LogStore {
    geometry: Geometry,
    memory: Arc<dyn Device>,
    ssd: Arc<dyn Device>,
    /// One lock for the writers of an SSD slot. Spills are widened to whole blocks, so two that are neighbours share a block:
    /// without the lock, the one that read the memory first could write the SSD last and undo the other.
    slots: Vec<Mutex<()>>,
    /// Whether a sync failed. Held while one runs: the kernel tells of a lost page once, and a sync that runs beside the one that
    /// is told must not succeed.
    sync_failed: Mutex<bool>,
    buffers: Mutex<Vec<Vec<u8>>>,
    ahead: Ahead,
}

impl Drop for LogStore {
    /// Who makes memory ready finds that there is none any more.
    fn drop(&mut self) {
        self.ahead.call();
    }
}

impl LogStore {
    /// A log on these devices. The memory device has `geometry.memory_bytes()`, the SSD device `geometry.ssd_bytes()`.
    pub fn new(geometry: Geometry, memory: Arc<dyn Device>, ssd: Arc<dyn Device>) -> LogStore {
        LogStore {
            geometry,
            memory,
            ssd,
            slots: (0..SLOT_LOCKS).map(|_| Mutex::new(())).collect(),
            sync_failed: Mutex::new(false),
            buffers: Mutex::new(Vec::new()),
            ahead: Ahead::default(),
        }
    }

    /// The sizes.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Writes bytes into a segment: into memory, or directly onto the SSD.
    ///
    /// # Errors
    /// [`LogError::OutOfBounds`] and [`LogError::Io`]; after the latter any part of the bytes may stand there.
    pub fn write(&self, slot: Slot, offset: u32, bytes: &[u8]) -> Result<(), LogError> {
        let (device, at) = self.place(slot, offset, bytes.len() as u64)?;
        let _lock = self.lock(slot);
        if matches!(slot, Slot::Memory(_)) {
            self.ahead.note(at + bytes.len() as u64);
        }
        device.write_at(at, bytes).map_err(io_error("write", slot, offset))
    }

    /// Says that the calling thread makes memory ready ([`LogStore::make_memory_ready`]): it is unparked when there is something to do,
    /// and when the log is gone.
    pub fn attend_to_memory(&self) {
        self.ahead.attend();
    }

    /// The end of the memory that was ever written, bytes: while it grows there is a burst.
    pub fn memory_used(&self) -> u64 {
        self.ahead.used()
    }

    /// Sets the next few MiB of memory aside, within limits, so that writes find them; false when there is nothing to do now.
    ///
    /// # Errors
    /// When there is no space: writes will meet that, too, when they come there. Nothing is lost.
    pub fn make_memory_ready(&self) -> io::Result<bool> {
        self.ahead.make_step(&*self.memory, self.geometry.memory_bytes())
    }

    /// Reads bytes of a segment.
    ///
    /// # Errors
    /// [`LogError::OutOfBounds`] and [`LogError::Io`].
    pub fn read(&self, slot: Slot, offset: u32, bytes: &mut [u8]) -> Result<(), LogError> {
        let (device, at) = self.place(slot, offset, bytes.len() as u64)?;
        device.read_at(at, bytes).map_err(io_error("read", slot, offset))
    }

    /// The CRC-32C of a range.
    ///
    /// # Errors
    /// As [`LogStore::read`].
    pub fn checksum(&self, range: LogRange) -> Result<u32, LogError> {
        self.transfer(range, |_, _| Ok(()))
    }

    /// Copies a range to another of the same length; the CRC-32C of the bytes.
    ///
    /// # Errors
    /// As [`LogStore::read`] and [`LogStore::write`]; ranges of different lengths are out of bounds.
    pub fn copy(&self, from: LogRange, to: LogRange) -> Result<u32, LogError> {
        if from.len != to.len {
            return Err(out_of_bounds(to.slot, to.offset, u64::from(from.len)));
        }
        self.place(to.slot, to.offset, u64::from(to.len))?;
        self.transfer(from, |done, bytes| self.write(to.slot, to.offset + done, bytes))
    }

    /// Appends the bytes of `piece.at` to `out`, after the whole record that they belong to was checked.
    ///
    /// # Errors
    /// [`LogError::Damaged`] if the record's checksum does not match; `out` is as before then. And as [`LogStore::read`].
    pub fn gather(&self, piece: &HomePiece, out: &mut Vec<u8>) -> Result<(), LogError> {
        let HomePiece { at, record, record_crc } = piece;
        let end = u64::from(at.offset) + u64::from(at.len);
        if at.slot != record.slot || at.offset < record.offset || end > u64::from(record.offset) + u64::from(record.len) {
            return Err(out_of_bounds(at.slot, at.offset, u64::from(at.len)));
        }
        let start = out.len();
        // Each byte is read once: what is checked is what is handed out.
        let (wanted_from, wanted_to) = (u64::from(at.offset), end);
        let crc = self.transfer(*record, |done, bytes| {
            let from = u64::from(record.offset) + u64::from(done);
            let to = from + bytes.len() as u64;
            let (cut_from, cut_to) = (wanted_from.max(from), wanted_to.min(to));
            if cut_from < cut_to {
                out.extend_from_slice(&bytes[(cut_from - from) as usize..(cut_to - from) as usize]);
            }
            Ok(())
        });
        let result = match crc {
            Ok(crc) if crc == *record_crc => return Ok(()),
            Ok(_) => LogError::Damaged { slot: record.slot, offset: record.offset, len: record.len },
            Err(error) => error,
        };
        out.truncate(start);
        Err(result)
    }

    /// Writes a part of a memory segment to the same offsets of an SSD slot, widened to whole blocks of 4096 bytes: the bytes
    /// around it are of the same segment, and right or not yet used.
    ///
    /// # Errors
    /// As [`LogStore::read`] and [`LogStore::write`].
    pub fn spill(&self, from: MemorySlot, to: SsdSlot, offset: u32, len: u32) -> Result<(), LogError> {
        let (memory, ssd) = (Slot::Memory(from), Slot::Ssd(to));
        self.place(memory, offset, u64::from(len))?;
        if len == 0 {
            return Ok(());
        }
        let start = offset - offset % BLOCK_BYTES;
        // A segment is whole blocks, so this stays within it.
        let end = (offset + len).next_multiple_of(BLOCK_BYTES);
        let (source, source_at) = self.place(memory, start, u64::from(end - start))?;
        let (target, target_at) = self.place(ssd, start, u64::from(end - start))?;
        let _lock = self.lock(ssd);
        self.with_buffer(|buffer| {
            let mut done = 0;
            while done < u64::from(end - start) {
                let part = (u64::from(end - start) - done).min(buffer.len() as u64) as usize;
                let bytes = &mut buffer[..part];
                source.read_at(source_at + done, bytes).map_err(io_error("read", memory, start + done as u32))?;
                target.write_at(target_at + done, bytes).map_err(io_error("write", ssd, start + done as u32))?;
                done += part as u64;
            }
            Ok(())
        })
    }

    /// Makes every completed write and spill to the SSD durable. Memory segments are not: they survive the process, not the machine.
    ///
    /// # Errors
    /// [`LogError::SyncFailed`], from the first failure on at every call: a kernel that failed to write bytes may have dropped them,
    /// so a later success would mean nothing. But where no cache holds them and there was no space, it may be tried again.
    pub fn sync(&self) -> Result<(), LogError> {
        let mut failed = self.sync_failed.lock();
        if *failed {
            let source = io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error());
            return Err(LogError::SyncFailed(source));
        }
        self.ssd.sync().map_err(|source| {
            *failed = !(self.ssd.bypasses_cache() && crate::is_full(&source));
            LogError::SyncFailed(source)
        })
    }

    /// The device and the byte where a range begins.
    fn place(&self, slot: Slot, offset: u32, len: u64) -> Result<(&dyn Device, u64), LogError> {
        let (device, index, slots) = match slot {
            Slot::Memory(MemorySlot(index)) => (&*self.memory, index, self.geometry.memory_slots),
            Slot::Ssd(SsdSlot(index)) => (&*self.ssd, index, self.geometry.ssd_slots),
        };
        let segment_bytes = u64::from(self.geometry.segment_bytes);
        if index >= slots || u64::from(offset) + len > segment_bytes {
            return Err(out_of_bounds(slot, offset, len));
        }
        Ok((device, u64::from(index) * segment_bytes + u64::from(offset)))
    }

    fn lock(&self, slot: Slot) -> Option<parking_lot::MutexGuard<'_, ()>> {
        match slot {
            Slot::Memory(_) => None,
            Slot::Ssd(SsdSlot(index)) => Some(self.slots[index as usize % SLOT_LOCKS].lock()),
        }
    }

    /// Reads a range piece by piece, hands each to `each` with its distance from the range's start, and gives the CRC-32C of all.
    fn transfer(&self, range: LogRange, mut each: impl FnMut(u32, &[u8]) -> Result<(), LogError>) -> Result<u32, LogError> {
        let (device, at) = self.place(range.slot, range.offset, u64::from(range.len))?;
        self.with_buffer(|buffer| {
            let mut crc = 0;
            let mut done = 0;
            while done < range.len {
                let part = (range.len - done).min(buffer.len() as u32);
                let bytes = &mut buffer[..part as usize];
                let failed = io_error("read", range.slot, range.offset + done);
                device.read_at(at + u64::from(done), bytes).map_err(failed)?;
                crc = crc32c::crc32c_append(crc, bytes);
                each(done, bytes)?;
                done += part;
            }
            Ok(crc)
        })
    }

    fn with_buffer<T>(&self, work: impl FnOnce(&mut [u8]) -> T) -> T {
        let taken = self.buffers.lock().pop();
        let mut buffer = taken.unwrap_or_else(|| vec![0; TRANSFER_BYTES]);
        let result = work(&mut buffer);
        let mut buffers = self.buffers.lock();
        if buffers.len() < BUFFERS_KEPT_MAX {
            buffers.push(buffer);
        }
        result
    }
}

fn out_of_bounds(slot: Slot, offset: u32, len: u64) -> LogError {
    LogError::OutOfBounds { slot, offset, end: u64::from(offset) + len }
}

fn io_error(action: &'static str, slot: Slot, offset: u32) -> impl FnOnce(io::Error) -> LogError {
    move |source| LogError::Io { action, slot, offset, source }
}

#[cfg(test)]
mod tests;
