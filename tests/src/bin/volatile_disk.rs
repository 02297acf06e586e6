//! `volatile-disk MOUNT --size 192MiB --image FILE`: a disk with a volatile cache, whose power can be cut.
//!
//! The mount holds two files. `disk` is the disk: a loop device makes a block device of it. What was written and not yet flushed stands
//! in the cache. Writing a number to `cut` cuts the power: everything that was flushed is on the medium, and of the rest each sector is
//! there or not as a generator with that seed says. The medium is written to the image file, and the disk answers nothing but EIO.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;
use forebay_tests::random::Random;
use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

const SECTOR_BYTES: usize = 512;
const TTL: Duration = Duration::from_secs(1);
const DISK: INodeNo = INodeNo(2);
const CUT: INodeNo = INodeNo(3);

#[derive(Parser)]
#[command(about = "A disk with a volatile cache, whose power can be cut")]
struct Arguments {
    mount: PathBuf,
    /// MiB of the disk.
    #[arg(long)]
    size_mib: usize,
    /// Where the medium goes when the power is cut.
    #[arg(long)]
    image: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let bytes = arguments.size_mib << 20;
    let cells = Cells { cached: vec![0; bytes], medium: vec![0; bytes], pending: Vec::new(), is_cut: false };
    let disk = VolatileDisk { cells: Mutex::new(cells), bytes: bytes as u64, image: arguments.image };
    let mut config = Config::default();
    config.n_threads = Some(4);
    match fuser::mount(disk, &arguments.mount, &config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("volatile-disk: {}: {error}", arguments.mount.display());
            ExitCode::FAILURE
        }
    }
}

struct VolatileDisk {
    cells: Mutex<Cells>,
    bytes: u64,
    image: PathBuf,
}

struct Cells {
    /// What a read gives.
    cached: Vec<u8>,
    /// What a power cut leaves for certain.
    medium: Vec<u8>,
    /// Writes since the last flush, in order.
    pending: Vec<(usize, Vec<u8>)>,
    is_cut: bool,
}

impl Cells {
    fn write(&mut self, offset: usize, data: &[u8]) -> Result<(), Errno> {
        if self.is_cut {
            return Err(Errno::EIO);
        }
        self.cached.get_mut(offset..offset + data.len()).ok_or(Errno::ENOSPC)?.copy_from_slice(data);
        self.pending.push((offset, data.to_vec()));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Errno> {
        if self.is_cut {
            return Err(Errno::EIO);
        }
        for (offset, data) in self.pending.drain(..) {
            self.medium[offset..offset + data.len()].copy_from_slice(&data);
        }
        Ok(())
    }

    /// The cache loses its power. A sector that was written twice may keep the first of both, but never an older one over a newer.
    fn cut(&mut self, seed: u64) {
        self.is_cut = true;
        let mut random = Random::new(seed);
        let kept_of_8 = random.below(9);
        let whole_writes = random.below(2) == 0;
        for (offset, data) in self.pending.drain(..) {
            let keep_write = random.below(8) < kept_of_8;
            for (index, sector) in data.chunks(SECTOR_BYTES).enumerate() {
                if if whole_writes { keep_write } else { random.below(8) < kept_of_8 } {
                    let at = offset + index * SECTOR_BYTES;
                    self.medium[at..at + sector.len()].copy_from_slice(sector);
                }
            }
        }
    }

    /// Writes the medium to a file; what was never written stays a hole.
    fn save(&self, path: &Path) -> io::Result<()> {
        const PIECE_BYTES: usize = 1 << 16;
        let file = File::create(path)?;
        file.set_len(self.medium.len() as u64)?;
        for (index, piece) in self.medium.chunks(PIECE_BYTES).enumerate() {
            if piece.iter().any(|byte| *byte != 0) {
                file.write_all_at(piece, (index * PIECE_BYTES) as u64)?;
            }
        }
        Ok(())
    }
}

impl VolatileDisk {
    fn cells(&self) -> MutexGuard<'_, Cells> {
        self.cells.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn attr(&self, ino: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match ino {
            INodeNo::ROOT => (FileType::Directory, 0o700, 0),
            DISK => (FileType::RegularFile, 0o600, self.bytes),
            CUT => (FileType::RegularFile, 0o600, 0),
            _ => return None,
        };
        let time = UNIX_EPOCH;
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let (nlink, rdev, blksize, flags) = (1, 0, 4096, 0);
        let blocks = size / SECTOR_BYTES as u64;
        Some(FileAttr {
            ino,
            size,
            blocks,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink,
            uid,
            gid,
            rdev,
            blksize,
            flags,
        })
    }

    fn take(&self, ino: INodeNo, offset: u64, data: &[u8]) -> Result<(), Errno> {
        if ino == DISK {
            return self.cells().write(offset as usize, data);
        }
        let seed = std::str::from_utf8(data).ok().and_then(|text| text.trim().parse().ok()).ok_or(Errno::EINVAL)?;
        let mut cells = self.cells();
        if cells.is_cut {
            return Err(Errno::EIO);
        }
        cells.cut(seed);
        Ok(cells.save(&self.image)?)
    }
}

impl Filesystem for VolatileDisk {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let ino = match (parent, name.to_str()) {
            (INodeNo::ROOT, Some("disk")) => DISK,
            (INodeNo::ROOT, Some("cut")) => CUT,
            _ => return reply.error(Errno::ENOENT),
        };
        match self.attr(ino) {
            Some(attr) => reply.entry(&TTL, &attr, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attr(ino) {
            Some(attr) => reply.attr(&TTL, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // A shell empties `cut` before it writes to it.
        match self.attr(ino) {
            Some(attr) if ino == CUT => reply.attr(&TTL, &attr),
            _ => reply.error(Errno::EPERM),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, size: u32, _: OpenFlags, _: Option<LockOwner>, reply: ReplyData) {
        let cells = self.cells();
        if ino != DISK || cells.is_cut {
            return reply.error(Errno::EIO);
        }
        let from = (offset as usize).min(cells.cached.len());
        let to = (from + size as usize).min(cells.cached.len());
        reply.data(&cells.cached[from..to]);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.take(ino, offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.cells().flush() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // A close is no flush of the cache.
        reply.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_keeps_what_was_flushed_and_any_part_of_the_rest() {
        let mut outcomes = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut cells = Cells { cached: vec![0; 4096], medium: vec![0; 4096], pending: Vec::new(), is_cut: false };
            cells.write(0, &[1; 1024]).unwrap();
            cells.flush().unwrap();
            cells.write(0, &[2; 512]).unwrap();
            cells.write(1024, &[3; 1024]).unwrap();
            cells.cut(seed);
            assert!(cells.write(0, &[9; 512]).is_err() && cells.flush().is_err());
            assert!(cells.medium[512..1024].iter().all(|byte| *byte == 1), "flushed bytes are lost");
            outcomes.insert((cells.medium[0], cells.medium[1024], cells.medium[1536]));
        }
        assert_eq!(outcomes.len(), 8, "each unflushed sector is there or not: {outcomes:?}");
    }
}
