//! Which file is it? For whoever must find a file again under other names, and after a crash.

use std::fs::File;
use std::os::fd::AsFd;

use forebay_core::attr::Kind;
use forebay_core::errno::Errno;
use forebay_core::id::HomePath;
use rustix::fs::{AtFlags, StatxFlags};
use serde::{Deserialize, Serialize};

use super::{PosixHome, Result, errno};

/// What tells a regular file of home from every other, whatever its names are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub struct FileIdentity {
    /// Device number.
    pub dev: u64,
    /// Inode number. File systems give it again when a file is gone.
    pub ino: u64,
    /// When it was made, ns; 0 where the file system does not tell.
    pub born_ns: u64,
}

/// A file of home, open.
#[derive(Debug)]
pub struct OpenedFile {
    /// The file, for reading and writing.
    pub file: File,
    /// Which one it is.
    pub identity: FileIdentity,
    /// Its bytes.
    pub size: u64,
}

impl PosixHome {
    /// Opens a regular file for reading and writing.
    ///
    /// # Errors
    /// The file system's; `ESTALE` if it is no regular file.
    pub fn open_identified(&self, path: &HomePath) -> Result<OpenedFile> {
        let file = self.open_file(path, true)?;
        let (identity, size, _) = identify(&file)?;
        Ok(OpenedFile { file, identity, size })
    }

    /// Which regular file has a name, and how many names it has; `None` if another kind of object has it, or none.
    ///
    /// # Errors
    /// The file system's.
    pub fn identity(&self, path: &HomePath) -> Result<Option<(FileIdentity, u32)>> {
        if path.as_bytes().is_empty() {
            return Ok(None);
        }
        let fd = match self.open_at_home(path, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()) {
            Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(None),
            fd => fd?,
        };
        let stat = rustix::fs::fstat(&fd).map_err(errno)?;
        if Kind::of_mode(stat.st_mode) != Some(Kind::File) {
            return Ok(None);
        }
        let (identity, _, nlink) = identify(&fd)?;
        Ok(Some((identity, nlink)))
    }

    /// Looks at every name of home: `visit` is told of each regular file.
    ///
    /// # Errors
    /// The first one of the file system: then something was not looked at.
    pub fn walk_files(&self, visit: &mut dyn FnMut(&HomePath, FileIdentity)) -> Result<()> {
        let mut directories = vec![HomePath::default()];
        while let Some(directory) = directories.pop() {
            for entry in self.list(&directory)?.iter() {
                let mut path = directory.as_bytes().to_vec();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(entry.name);
                let path = HomePath(path.into());
                match entry.kind {
                    Kind::Directory => directories.push(path),
                    Kind::File => {
                        if let Some((identity, _)) = self.identity(&path)? {
                            visit(&path, identity);
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

fn identify(fd: impl AsFd) -> Result<(FileIdentity, u64, u32)> {
    let stat = rustix::fs::fstat(&fd).map_err(errno)?;
    let born_ns = match rustix::fs::statx(&fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME) {
        Ok(statx) if statx.stx_mask & StatxFlags::BTIME.bits() != 0 => {
            (statx.stx_btime.tv_sec.cast_unsigned()).wrapping_mul(1_000_000_000).wrapping_add(u64::from(statx.stx_btime.tv_nsec))
        }
        _ => 0,
    };
    let identity = FileIdentity { dev: stat.st_dev, ino: stat.st_ino, born_ns };
    Ok((identity, stat.st_size.cast_unsigned(), u32::try_from(stat.st_nlink).unwrap_or(u32::MAX)))
}
