//! A device in memory.

use std::io;

use parking_lot::RwLock;

use super::{Device, short_read};

/// Bytes in memory, for tests and simulations. Durable as long as the process lives.
#[derive(Default)]
pub struct MemoryDevice {
    bytes: RwLock<Vec<u8>>,
}

impl MemoryDevice {
    /// A device of `len` zero bytes.
    pub fn new(len: usize) -> MemoryDevice {
        MemoryDevice { bytes: RwLock::new(vec![0; len]) }
    }

    /// Changes the bytes from outside, as rot would.
    pub fn with_bytes<T>(&self, work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        work(&mut self.bytes.write())
    }
}

impl Device for MemoryDevice {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes.read();
        let start = usize::try_from(offset).map_err(|_| short_read(offset, buf.len()))?;
        let part = start.checked_add(buf.len()).and_then(|end| bytes.get(start..end));
        buf.copy_from_slice(part.ok_or_else(|| short_read(offset, buf.len()))?);
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        let mut bytes = self.bytes.write();
        write_growing(&mut bytes, offset, buf);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.read().len() as u64)
    }
}

/// Writes into a vector that grows, with zeros in a gap.
pub(super) fn write_growing(bytes: &mut Vec<u8>, offset: u64, buf: &[u8]) {
    let start = offset as usize;
    let end = start + buf.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[start..end].copy_from_slice(buf);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_with_zeros_and_ends() {
        let device = MemoryDevice::new(4);
        device.write_at(8, b"abc").unwrap();
        assert_eq!(device.len().unwrap(), 11);
        let mut buf = [9; 5];
        device.read_at(5, &mut buf).unwrap();
        assert_eq!(&buf, b"\0\0\0ab");
        assert_eq!(device.read_at(9, &mut buf).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(device.read_at(u64::MAX, &mut buf).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
