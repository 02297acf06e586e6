//! Bytes of files of home.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Ino};
use rustix::fs::{Advice, FileType, OFlags};

use super::handles::Handle;
use super::{PosixHome, Result, errno};

/// Compared at a time, bytes.
const COMPARE_BYTES: usize = 256 << 10;
/// With more objects than this, one sync of the whole file system is cheaper than one each.
const SINGLE_SYNCS_MAX: usize = 64;
const PAGE_BYTES: u64 = 4096;

impl PosixHome {
    /// Reads from a file into `buf`; what lies behind the end of the file becomes zeros. The bytes that were there.
    ///
    /// # Errors
    /// The file system's.
    pub fn read(&self, ino: Ino, path: &HomePath, offset: u64, buf: &mut [u8]) -> Result<u32> {
        let handle = self.handle(ino, path, false)?;
        let there = read_some(&handle.file, offset, buf)?;
        buf[there..].fill(0);
        u32::try_from(there).map_err(|_| Errno::EINVAL)
    }

    /// Writes bytes into a file.
    ///
    /// # Errors
    /// The file system's; any part of the bytes may be there then.
    pub fn write(&self, ino: Ino, path: &HomePath, offset: u64, bytes: &[u8]) -> Result<()> {
        let handle = self.handle(ino, path, true)?;
        handle.file.write_all_at(bytes, offset).map_err(|error| crate::errno(&error))
    }

    /// Whether `len` bytes at `offset` have this CRC-32C. The file was synced; its pages are dropped first, so that the medium is asked and
    /// not the cache, where the file system lets that be.
    ///
    /// # Errors
    /// The file system's.
    pub fn compare(&self, ino: Ino, path: &HomePath, offset: u64, len: u64, crc: u32) -> Result<bool> {
        let handle = self.handle(ino, path, false)?;
        drop_pages(&handle.file, offset, len);
        let mut buffer = vec![0; COMPARE_BYTES.min(usize::try_from(len).unwrap_or(COMPARE_BYTES))];
        let mut sum = 0;
        let mut done = 0;
        while done < len {
            let part = buffer.len().min(usize::try_from(len - done).unwrap_or(usize::MAX));
            let there = read_some(&handle.file, offset + done, &mut buffer[..part])?;
            if there < part {
                return Ok(false);
            }
            sum = crc32c::crc32c_append(sum, &buffer[..part]);
            done += part as u64;
        }
        Ok(sum == crc)
    }

    /// Makes durable: the data of these files, and the names in these directories.
    ///
    /// # Errors
    /// The file system's; all that could be synced was.
    pub fn sync(&self, files: &[(Ino, HomePath)], directories: &[HomePath]) -> Result<()> {
        let mut whole_file_system = files.len() + directories.len() > SINGLE_SYNCS_MAX;
        let mut result = Ok(());
        if whole_file_system {
            match rustix::fs::syncfs(&self.root) {
                Err(rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP) => whole_file_system = false,
                done => result = done.map_err(errno),
            }
        }
        for (ino, path) in files {
            let done = self.handle(*ino, path, false).and_then(|handle| self.sync_one(&handle.file, whole_file_system));
            result = result.and(done);
        }
        for path in directories.iter().collect::<BTreeSet<_>>() {
            let done = self.sync_directory(path, whole_file_system);
            result = result.and(done);
        }
        result
    }

    /// Makes everything durable, on the file system of the home directory itself.
    pub(super) fn sync_all(&self) -> Result<()> {
        rustix::fs::syncfs(&self.root).map_err(errno)
    }

    fn sync_directory(&self, path: &HomePath, covered: bool) -> Result<()> {
        let fd = self.open_directory(path)?;
        self.sync_one(&File::from(fd), covered)
    }

    /// Syncs one object, unless a sync of home's file system has covered it: home may hold mount points of others.
    fn sync_one(&self, file: &File, covered: bool) -> Result<()> {
        if covered && rustix::fs::fstat(file).map_err(errno)?.st_dev == self.dev {
            return Ok(());
        }
        rustix::fs::fsync(file).map_err(errno)
    }

    /// Sets the length of a file.
    pub(super) fn truncate(&self, ino: Ino, path: &HomePath, size: u64) -> Result<()> {
        let handle = self.handle(ino, path, true)?;
        rustix::fs::ftruncate(&handle.file, size).map_err(errno)
    }

    /// The open file of an inode.
    pub(super) fn handle(&self, ino: Ino, path: &HomePath, write: bool) -> Result<Arc<Handle>> {
        if let Some(handle) = self.handles.get(ino, path, write) {
            return Ok(handle);
        }
        let handle = Arc::new(Handle { file: self.open_file(path, write)?, writable: write });
        self.handles.put(ino, path, &handle);
        Ok(handle)
    }

    /// Opens a file for reading, and for writing if `write` says so; also where the file's own mode forbids that to its owner.
    pub(super) fn open_file(&self, path: &HomePath, write: bool) -> Result<File> {
        let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
        // Without O_NONBLOCK, a fifo that stands there by mistake would hold the thread.
        let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = self.open_as_owner(path, flags, if write { 0o600 } else { 0o400 })?;
        if !is_file(&fd)? {
            return Err(Errno::ESTALE);
        }
        Ok(File::from(fd))
    }
}

fn is_file(fd: impl AsFd) -> Result<bool> {
    let stat = rustix::fs::fstat(fd).map_err(errno)?;
    Ok(FileType::from_raw_mode(stat.st_mode).is_file())
}

/// Reads until `buf` is full or the file ends; says how much.
pub(super) fn read_some(file: &File, offset: u64, buf: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(crate::errno(&error)),
        }
    }
    Ok(done)
}

/// Drops the pages of a range from the cache. The kernel drops whole pages only, so the range is widened to them.
pub fn drop_pages(file: &File, offset: u64, len: u64) {
    let start = offset - offset % PAGE_BYTES;
    let end = (offset + len).next_multiple_of(PAGE_BYTES);
    // Only advice: where it is not taken, the comparison reads the cache.
    let _ = rustix::fs::fadvise(file, start, NonZeroU64::new(end - start), Advice::DontNeed);
}
