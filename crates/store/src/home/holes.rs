//! Holes in files of home.

use forebay_core::id::{HomePath, Ino};
use forebay_core::message::SeekWhence;
use rustix::fs::{FallocateFlags, SeekFrom};

use super::data::read_some;
use super::{PosixHome, Result, errno};

/// Written or looked at at a time, bytes.
const STEP_BYTES: usize = 1 << 20;

impl PosixHome {
    /// The next data or hole at `offset` or behind it. Where the file system cannot tell, all of a file is data.
    ///
    /// # Errors
    /// The file system's.
    pub fn seek(&self, ino: Ino, path: &HomePath, offset: u64, whence: SeekWhence) -> Result<Option<u64>> {
        // A handle of its own: the position of the shared one is nobody's to move. It is not used, and still.
        let file =
            self.open_file(path, false).or_else(|_| self.handle(ino, path, false)?.file.try_clone().map_err(|e| crate::errno(&e)))?;
        let from = match whence {
            SeekWhence::Data => SeekFrom::Data(offset),
            SeekWhence::Hole => SeekFrom::Hole(offset),
        };
        match rustix::fs::seek(&file, from) {
            Ok(there) => Ok(Some(there)),
            Err(rustix::io::Errno::NXIO) => Ok(None),
            Err(rustix::io::Errno::INVAL) => Ok((whence == SeekWhence::Data).then_some(offset)),
            Err(error) => Err(errno(error)),
        }
    }

    /// Whether a range holds nothing but zeros, up to the file's end. The file was synced.
    ///
    /// # Errors
    /// The file system's.
    pub fn compare_zeros(&self, ino: Ino, path: &HomePath, offset: u64, len: u64) -> Result<bool> {
        let end = offset.saturating_add(len);
        let handle = self.handle(ino, path, false)?;
        let mut at = offset;
        let mut buffer = Vec::new();
        while at < end {
            // Holes are passed over: they may be of any size.
            at = match self.seek(ino, path, at, SeekWhence::Data)? {
                Some(data) if data < end => data,
                _ => return Ok(true),
            };
            let part = usize::try_from(end - at).unwrap_or(STEP_BYTES).min(STEP_BYTES);
            super::data::drop_pages(&handle.file, at, part as u64);
            buffer.resize(part, 0);
            let there = read_some(&handle.file, at, &mut buffer)?;
            if buffer[..there].iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            if there < part {
                return Ok(true);
            }
            at += part as u64;
        }
        Ok(true)
    }

    /// Makes a hole of a range, the size stays; zeros, where the file system knows no holes.
    pub(super) fn punch(&self, ino: Ino, path: &HomePath, offset: u64, len: u64) -> Result<()> {
        let handle = self.handle(ino, path, true)?;
        let size = rustix::fs::fstat(&handle.file).map_err(errno)?.st_size.cast_unsigned();
        let end = offset.saturating_add(len).min(size);
        if offset >= end {
            return Ok(());
        }
        match rustix::fs::fallocate(&handle.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, end - offset) {
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS | rustix::io::Errno::INVAL) => {}
            result => return result.map_err(errno),
        }
        let zeros = vec![0; STEP_BYTES];
        let mut at = offset;
        while at < end {
            let part = usize::try_from(end - at).unwrap_or(STEP_BYTES).min(STEP_BYTES);
            std::os::unix::fs::FileExt::write_all_at(&handle.file, &zeros[..part], at).map_err(|error| crate::errno(&error))?;
            at += part as u64;
        }
        Ok(())
    }
}
