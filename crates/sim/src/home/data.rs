//! Bytes of the simulated home.

use forebay_core::effect::HomeChange;
use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Ino};
use forebay_core::message::SeekWhence;
use forebay_core::time::Time;

use super::names::{HomeIno, take_with_dependencies};
use super::{Home, HomeInode};
use forebay_core::attr::Kind;

impl Home {
    /// Reads up to `len` bytes; what lies behind the end is zeros. Gives the bytes and how many of them the file has.
    ///
    /// # Errors
    /// As open(2).
    pub fn read(&mut self, path: &HomePath, offset: u64, len: u32) -> Result<(Vec<u8>, u32), Errno> {
        let file = self.file(path)?;
        let inode = &self.inodes[&file];
        let there = inode.size.saturating_sub(offset).min(u64::from(len)) as u32;
        let mut bytes = inode.bytes.slice(offset, len as usize);
        bytes[there as usize..].fill(0);
        Ok((bytes, there))
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// As open(2).
    pub fn write(&mut self, path: &HomePath, offset: u64, bytes: &[u8], now: Time) -> Result<(), Errno> {
        let file = self.file(path)?;
        let inode = self.inodes.get_mut(&file).expect("an open file is there");
        let end = offset + bytes.len() as u64;
        inode.bytes.write(offset, bytes);
        inode.size = inode.size.max(end);
        inode.meta.mtime_ns = now.as_nanos() as i64;
        inode.unsynced.insert(offset, end);
        inode.uncompared.insert(offset, end);
        inode.poisoned.remove(offset, end);
        Ok(())
    }

    /// Whether the bytes have this checksum. Says so to the books only if they have.
    ///
    /// # Errors
    /// As open(2).
    pub fn compare(&mut self, path: &HomePath, offset: u64, len: u64, crc: u32) -> Result<bool, Errno> {
        let file = self.file(path)?;
        let inode = self.inodes.get_mut(&file).expect("an open file is there");
        let end = offset + len;
        if end > inode.size {
            return Ok(false);
        }
        let equal = crc32c::crc32c(&inode.bytes.slice(offset, len as usize)) == crc;
        if equal {
            inode.uncompared.remove(offset, end);
        }
        Ok(equal)
    }

    /// Whether a range holds zeros. Says so to the books only if it does.
    ///
    /// # Errors
    /// As open(2).
    pub fn compare_zeros(&mut self, path: &HomePath, offset: u64, len: u64) -> Result<bool, Errno> {
        let file = self.file(path)?;
        let inode = self.inodes.get_mut(&file).expect("an open file is there");
        let end = (offset + len).min(inode.size);
        let equal = inode.bytes.find(offset, end, false).is_none();
        if equal {
            inode.uncompared.remove(offset, end);
        }
        Ok(equal)
    }

    /// The next data or hole.
    ///
    /// # Errors
    /// As open(2).
    pub fn seek(&mut self, path: &HomePath, offset: u64, whence: SeekWhence) -> Result<Option<u64>, Errno> {
        let file = self.file(path)?;
        let inode = &self.inodes[&file];
        if offset >= inode.size {
            return Ok(None);
        }
        let found = inode.bytes.find(offset, inode.size, whence == SeekWhence::Hole);
        Ok(if whence == SeekWhence::Hole { Some(found.unwrap_or(inode.size)) } else { found })
    }

    /// Turns one bit of a file's range around behind the machine's back.
    pub fn flip_bit(&mut self, path: &HomePath, offset: u64, len: u64) {
        let at = offset + self.rng.below(len);
        if let Ok(file) = self.file(path) {
            let inode = self.inodes.get_mut(&file).expect("an open file is there");
            let byte = inode.bytes.slice(at, 1)[0] ^ 4;
            inode.bytes.write(at, &[byte]);
        }
    }

    /// Writes bytes within a file, if it is there, behind the machine's back.
    pub fn write_unnoticed(&mut self, path: &HomePath, offset: u64, bytes: &[u8]) {
        if let Ok(file) = self.file(path) {
            let inode = self.inodes.get_mut(&file).expect("an open file is there");
            let len = inode.size.saturating_sub(offset).min(bytes.len() as u64) as usize;
            inode.bytes.write(offset, &bytes[..len]);
        }
    }

    /// Makes the data of files and the names in directories durable.
    ///
    /// # Errors
    /// As open(2) and fsync(2).
    pub fn sync(&mut self, files: &[(Ino, HomePath)], directories: &[HomePath]) -> Result<(), Errno> {
        let mut result = Ok(());
        for (_, path) in files {
            match self.file(path) {
                Ok(file) => self.inodes.get_mut(&file).expect("an open file is there").sync(),
                Err(errno) => result = Err(errno),
            }
        }
        for path in directories {
            let dir = self.names.resolve(path.as_bytes())?;
            let entries: Vec<_> = self.names.dirs.get(&dir).ok_or(Errno::ENOTDIR)?.values().copied().collect();
            for op in take_with_dependencies(&mut self.undurable, |op| op.is_in(dir)) {
                self.durable.apply(&op);
            }
            let inode = self.inodes.get_mut(&dir).expect("a directory is there");
            (inode.meta_durable, inode.xattrs_durable) = (inode.meta, inode.xattrs.clone());
            // What cannot be opened for a sync of its own lasts with its directory.
            for entry in entries {
                let inode = self.inodes.get_mut(&entry).expect("an entry is there");
                if !matches!(inode.kind, Kind::File | Kind::Directory) {
                    (inode.meta_durable, inode.xattrs_durable) = (inode.meta, inode.xattrs.clone());
                }
            }
        }
        result
    }

    /// A sync fails: of these files, what was not durable will never be, unless it is written again.
    pub fn fail_sync(&mut self, files: &[(Ino, HomePath)]) {
        for (_, path) in files {
            if let Ok(file) = self.file(path) {
                let inode = self.inodes.get_mut(&file).expect("an open file is there");
                for (start, end) in std::mem::take(&mut inode.unsynced).iter() {
                    inode.poisoned.insert(start, end);
                }
            }
        }
    }

    pub(super) fn truncate(&mut self, change: &HomeChange, now: Time) -> Result<(), Errno> {
        let HomeChange::Truncate { path, size, .. } = change else { return Err(Errno::EINVAL) };
        let file = self.file(path)?;
        self.cut(file, *size, now);
        Ok(())
    }

    pub(super) fn punch(&mut self, change: &HomeChange, now: Time) -> Result<(), Errno> {
        let HomeChange::Punch { path, offset, len, .. } = change else { return Err(Errno::EINVAL) };
        let file = self.file(path)?;
        let inode = self.inodes.get_mut(&file).expect("an open file is there");
        let end = (offset + len).min(inode.size);
        inode.bytes.zero(*offset, end);
        inode.meta.mtime_ns = now.as_nanos() as i64;
        inode.unsynced.insert(*offset, end);
        inode.uncompared.insert(*offset, end);
        inode.poisoned.remove(*offset, end);
        Ok(())
    }

    pub(super) fn cut(&mut self, file: HomeIno, size: u64, now: Time) {
        let inode = self.inodes.get_mut(&file).expect("a file is there");
        inode.bytes.truncate(size);
        inode.size = size;
        inode.meta.mtime_ns = now.as_nanos() as i64;
        for ranges in [&mut inode.unsynced, &mut inode.poisoned, &mut inode.uncompared] {
            ranges.remove(size, u64::MAX);
        }
    }
}

impl HomeInode {
    fn sync(&mut self) {
        let mut bytes = self.bytes.clone();
        // What a failed sync has dropped stays as the medium has it.
        for (start, end) in self.poisoned.iter() {
            bytes.write(start, &self.bytes_durable.slice(start, (end - start) as usize));
        }
        self.bytes_durable = bytes;
        self.size_durable = self.size;
        (self.meta_durable, self.xattrs_durable) = (self.meta, self.xattrs.clone());
        self.unsynced = Default::default();
    }
}
