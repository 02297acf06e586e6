//! Devices: bytes at offsets.

mod aligned;
pub mod emulated;
mod fault;
mod file;
mod memory;
pub mod model;
pub mod profile;

use std::io;

pub use fault::{Fault, FaultyDevice};
pub use file::FileDevice;
pub use memory::MemoryDevice;

/// The unit in which a medium is assumed to write whole or not at all, bytes.
pub const SECTOR_BYTES: usize = 512;

/// Bytes at offsets. Every transfer is whole or an error; after an error, any part of a write may stand on the device.
pub trait Device: Send + Sync {
    /// Fills `buf` with the bytes from `offset` on. Fails with `UnexpectedEof` if the device ends before.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;
    /// Writes all of `buf` at `offset`; the device grows where it must.
    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()>;
    /// Makes every write that was complete before this call durable.
    fn sync(&self) -> io::Result<()>;
    /// Bytes from the start to the end.
    fn len(&self) -> io::Result<u64>;
    /// Sets space aside for this range, so that a write there finds it; its bytes stay as they are. Devices that cannot do nothing.
    fn set_aside(&self, offset: u64, len: u64) -> io::Result<()> {
        let _ = (offset, len);
        Ok(())
    }
    /// Whether what was written is not kept in a cache that a failed sync may drop it from: then a later sync tells the truth.
    fn bypasses_cache(&self) -> bool {
        false
    }
    /// Whether the device has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// The error of a read that the device's end cut short.
pub(crate) fn short_read(offset: u64, len: usize) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("the device ends within the {len} bytes at byte {offset}"))
}
