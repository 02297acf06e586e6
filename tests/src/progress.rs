//! How far an application has come, told through a file outside the mount, so that it outlives the mount and the application.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The writing end, held by the application.
pub struct Progress(File);

/// What stands in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reached {
    /// Operations begun.
    pub begun: u64,
    /// Operations that have come back.
    pub done: u64,
    /// Operations up to and with the last sync that came back without an error.
    pub synced: u64,
    /// The application's process id.
    pub pid: u64,
    /// Whether it has come to its end.
    pub ended: bool,
}

impl Progress {
    /// A new file, or an old one emptied.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: &Path) -> io::Result<Progress> {
        let progress = Progress(OpenOptions::new().write(true).create(true).truncate(true).open(path)?);
        progress.0.set_len(40)?;
        progress.put(3, std::process::id().into())?;
        Ok(progress)
    }

    fn put(&self, field: u64, value: u64) -> io::Result<()> {
        self.0.write_all_at(&value.to_le_bytes(), field * 8)
    }

    /// An operation begins: `count` with it.
    ///
    /// # Errors
    /// The system's.
    pub fn begin(&self, count: u64) -> io::Result<()> {
        self.put(0, count)
    }

    /// An operation came back: `count` with it.
    ///
    /// # Errors
    /// The system's.
    pub fn done(&self, count: u64) -> io::Result<()> {
        self.put(1, count)
    }

    /// A sync came back without an error: `count` operations with it.
    ///
    /// # Errors
    /// The system's.
    pub fn synced(&self, count: u64) -> io::Result<()> {
        self.put(2, count)
    }

    /// The application has come to its end.
    ///
    /// # Errors
    /// The system's.
    pub fn end(&self) -> io::Result<()> {
        self.put(4, 1)
    }
}

impl Reached {
    /// Reads what an application has told; nothing if it has not begun.
    #[must_use]
    pub fn read(path: &Path) -> Reached {
        let Ok(bytes) = std::fs::read(path) else { return Reached::default() };
        let field = |index: usize| bytes.get(index * 8..index * 8 + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().expect("8 bytes")));
        Reached { begun: field(0), done: field(1), synced: field(2), pid: field(3), ended: field(4) != 0 }
    }
}
