//! The bytes of Forebay: the buffer directory with its superblock, log and journal, and the home directory.
//!
//! Nothing here decides: each method carries out one thing that the core asked for. `docs/FORMAT.md` describes what stands on the
//! medium, and why a commit is a commit.
#![forbid(unsafe_code)]

pub mod buffer_dir;
pub mod device;
pub mod directory;
pub mod home;
pub mod journal;
pub mod log;
mod random;
pub mod ssd;
pub mod superblock;
mod word;

pub use buffer_dir::{BufferDir, BufferError, BufferSettings, MemoryFile};
pub use directory::{Directory, FileDirectory};
pub use home::{FileIdentity, Home, IoService, IoStatus, PosixHome, RequestHint, WriteCount};
pub use journal::{Journal, JournalEnd, JournalError, JournalSync, OpenedJournal};
pub use log::{LogError, LogStore};
pub use ssd::{FileRecord, FoundFile, FoundSsd, SsdDir, SsdError, SsdLog};
pub use superblock::{FORMAT_VERSION, Geometry, Superblock, SuperblockError};
pub use word::Word;

use forebay_core::errno::Errno;

/// The error number of an I/O error; `EIO` for one that has none (a short transfer, say).
pub fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno)
}

/// Whether an error says that there is no space, which may pass.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    matches!(errno(error), Errno::ENOSPC | Errno::EDQUOT)
}
