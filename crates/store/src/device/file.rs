//! A device that is a file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use parking_lot::RwLock;
use rustix::fs::{FallocateFlags, OFlags};

use super::aligned::{ALIGN_BYTES, BufferPool};
use super::{Device, short_read};

/// The largest single transfer past the page cache, bytes.
const DIRECT_TRANSFER_BYTES: usize = 1 << 20;
/// Bounce buffers that are kept for the next use.
const BUFFERS_KEPT_MAX: usize = 4;

/// A file, accessed by pread and pwrite; past the page cache (O_DIRECT) where asked for and possible.
pub struct FileDevice {
    file: File,
    direct: Option<Direct>,
}

struct Direct {
    pool: BufferPool,
    /// Held for writing by a write that begins or ends within a block: it reads the block first, and no other write may come between.
    blocks: RwLock<()>,
}

impl FileDevice {
    /// A device of an open file, through the page cache.
    pub fn buffered(file: File) -> FileDevice {
        FileDevice { file, direct: None }
    }

    /// Opens an existing file, through the page cache, not following a symlink.
    pub fn open(path: &Path) -> io::Result<FileDevice> {
        Ok(FileDevice::buffered(open_options(OFlags::empty()).open(path)?))
    }

    /// Opens an existing file with O_DIRECT; through the page cache where the file system does not have that.
    pub fn open_direct(path: &Path) -> io::Result<FileDevice> {
        FileDevice::direct_or_not(|flags| open_options(flags).open(path))
    }

    /// The same for a file or a block device that is only read.
    pub fn open_direct_to_read(path: &Path) -> io::Result<FileDevice> {
        FileDevice::direct_or_not(|flags| open_options(flags).write(false).open(path))
    }

    fn direct_or_not(open: impl Fn(OFlags) -> io::Result<File>) -> io::Result<FileDevice> {
        match open(OFlags::DIRECT).and_then(FileDevice::try_direct) {
            Ok(device) => Ok(device),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
                Ok(FileDevice::buffered(open(OFlags::empty())?))
            }
            Err(error) => Err(error),
        }
    }

    fn try_direct(file: File) -> io::Result<FileDevice> {
        let pool = BufferPool::new(DIRECT_TRANSFER_BYTES, BUFFERS_KEPT_MAX);
        // Some file systems take the flag at open and refuse the transfer.
        pool.with(|buffer| read_some(&file, 0, &mut buffer[..ALIGN_BYTES]))?;
        Ok(FileDevice { file, direct: Some(Direct { pool, blocks: RwLock::new(()) }) })
    }

    /// Whether transfers go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }
}

fn open_options(extra: OFlags) -> OpenOptions {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | extra;
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(flags.bits().cast_signed());
    options
}

/// Reads until `buf` is full or the file ends; says how much.
fn read_some(file: &File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        // A direct transfer may only go on at a block's start: what stopped within a block is the file's end.
        if buf.len().is_multiple_of(ALIGN_BYTES) && !done.is_multiple_of(ALIGN_BYTES) {
            break;
        }
    }
    Ok(done)
}

fn round_down(offset: u64) -> u64 {
    offset - offset % ALIGN_BYTES as u64
}

impl Direct {
    fn read(&self, file: &File, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let start = round_down(at);
            let skip = (at - start) as usize;
            let part = (buf.len() - done).min(self.pool.buffer_bytes() - skip);
            let span = (skip + part).next_multiple_of(ALIGN_BYTES);
            self.pool.with(|bounce| {
                if read_some(file, start, &mut bounce[..span])? < skip + part {
                    return Err(short_read(at, part));
                }
                buf[done..done + part].copy_from_slice(&bounce[skip..skip + part]);
                Ok(())
            })?;
            done += part;
        }
        Ok(())
    }

    fn write(&self, file: &File, offset: u64, buf: &[u8]) -> io::Result<()> {
        let aligned = offset.is_multiple_of(ALIGN_BYTES as u64) && buf.len().is_multiple_of(ALIGN_BYTES);
        let _shared = aligned.then(|| self.blocks.read());
        let _alone = (!aligned).then(|| self.blocks.write());
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let start = round_down(at);
            let skip = (at - start) as usize;
            let part = (buf.len() - done).min(self.pool.buffer_bytes() - skip);
            let span = (skip + part).next_multiple_of(ALIGN_BYTES);
            self.pool.with(|bounce| {
                let bounce = &mut bounce[..span];
                if skip > 0 {
                    fill_block(file, start, &mut bounce[..ALIGN_BYTES])?;
                }
                if !(skip + part).is_multiple_of(ALIGN_BYTES) {
                    let last = span - ALIGN_BYTES;
                    fill_block(file, start + last as u64, &mut bounce[last..])?;
                }
                bounce[skip..skip + part].copy_from_slice(&buf[done..done + part]);
                file.write_all_at(bounce, start)
            })?;
            done += part;
        }
        Ok(())
    }
}

/// The block as it stands, with zeros behind the end of the file.
fn fill_block(file: &File, offset: u64, block: &mut [u8]) -> io::Result<()> {
    let there = read_some(file, offset, block)?;
    block[there..].fill(0);
    Ok(())
}

impl Device for FileDevice {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match &self.direct {
            Some(direct) => direct.read(&self.file, offset, buf),
            None => self.file.read_exact_at(buf, offset),
        }
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        match &self.direct {
            Some(direct) => direct.write(&self.file, offset, buf),
            None => self.file.write_all_at(buf, offset),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_aside(&self, offset: u64, len: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, offset, len)?)
    }

    fn bypasses_cache(&self) -> bool {
        self.is_direct()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix;

    /// Random reads and writes give the same as a plain vector, with and without O_DIRECT.
    #[test]
    fn agrees_with_a_vector() {
        let dir = tempfile::tempdir().unwrap();
        let size = 3 * DIRECT_TRANSFER_BYTES;
        for direct in [false, true] {
            let path = dir.path().join(format!("device-{direct}"));
            File::create(&path).unwrap().set_len(size as u64).unwrap();
            let device = if direct { FileDevice::open_direct(&path).unwrap() } else { FileDevice::open(&path).unwrap() };
            let mut model = vec![0_u8; size];
            let seed = 7;
            let mut random = SplitMix::new(seed);
            for step in 0..200 {
                let offset = random.below(size as u64) as usize;
                let longest = [16, 5000, size as u64][random.below(3) as usize];
                let len = (random.below(longest) as usize).min(size - offset);
                if random.below(2) == 0 {
                    let bytes = vec![step as u8; len];
                    device.write_at(offset as u64, &bytes).unwrap();
                    model[offset..offset + len].copy_from_slice(&bytes);
                } else {
                    let mut bytes = vec![0; len];
                    device.read_at(offset as u64, &mut bytes).unwrap();
                    assert!(bytes == model[offset..offset + len], "seed {seed}, step {step}, direct {direct}");
                }
            }
            device.sync().unwrap();
            assert_eq!(device.len().unwrap(), size as u64);
            assert!(device.read_at(size as u64 - 3, &mut [0; 8]).is_err());
        }
    }

    #[test]
    fn neighbours_in_one_block_do_not_overwrite_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device");
        File::create(&path).unwrap().set_len(8192).unwrap();
        let device = FileDevice::open_direct(&path).unwrap();
        std::thread::scope(|scope| {
            for part in 0..8_usize {
                let device = &device;
                scope.spawn(move || {
                    for _ in 0..20 {
                        device.write_at(part as u64 * 100, &[part as u8 + 1; 100]).unwrap();
                    }
                });
            }
        });
        let mut bytes = [0; 800];
        device.read_at(0, &mut bytes).unwrap();
        for (n, byte) in bytes.iter().enumerate() {
            assert_eq!(usize::from(*byte), n / 100 + 1);
        }
    }
}
