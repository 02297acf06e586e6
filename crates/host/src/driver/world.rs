//! What the driver needs done outside: the journal, the log and home.

use forebay_core::effect::{Effect, LogPiece, LogRange, Outcome};
use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Ino, MemorySlot, Name, Position, SsdSlot};
use forebay_core::record::Record;

/// Makes durable what the journal held when this was made. Called without any lock.
pub type JournalSync = Box<dyn FnOnce() -> Result<(), Errno> + Send>;

/// The journal of a machine. Used by one thread at a time, in the order of the effects.
pub trait JournalIo: Send {
    /// Appends, at consecutive positions; the records survive the death of the process when this returns. After an error none of them
    /// counts as appended.
    fn append(&mut self, records: &[(Position, &Record)]) -> Result<(), Errno>;
    /// Begins a new journal with these records at consecutive positions from `position` on, and keeps the old one.
    fn rotate(&mut self, position: Position, records: &[Record]) -> Result<(), Errno>;
    /// Removes all journals but the newest.
    fn drop_old(&mut self) -> Result<(), Errno>;
    /// The way to make the journal durable later, from another thread.
    fn sync(&self) -> JournalSync;
}

/// The log and home. Every method is called without any lock, from several threads at a time.
pub trait World: Send + Sync {
    /// Copies parts of `payload` into the log; one CRC-32C a piece.
    fn write_log(&self, payload: &[u8], pieces: &[LogPiece]) -> Result<Vec<u32>, Errno>;
    /// Copies bytes of the log into `payload`.
    fn read_log(&self, payload: &mut [u8], pieces: &[LogPiece]) -> Result<(), Errno>;
    /// Copies bytes within the log; the CRC-32C of what was copied.
    fn copy_log(&self, from: LogRange, to: LogRange) -> Result<u32, Errno>;
    /// Writes a part of a memory segment to the same offsets of its SSD slot.
    fn spill(&self, from: MemorySlot, to: SsdSlot, offset: u32, len: u32) -> Result<(), Errno>;
    /// Makes every completed spill durable.
    fn sync_log(&self) -> Result<(), Errno>;
    /// Reads from a file of home; how many bytes were there. The rest of `buffer` is left as it is.
    fn read_home(&self, ino: Ino, path: &HomePath, offset: u64, buffer: &mut [u8]) -> Result<u32, Errno>;
    /// Any other answered effect on home.
    fn home(&self, effect: &Effect) -> Result<Outcome, Errno>;
    /// Whether `Effect::ForgetHome` may have something to do; most inodes that die were never at home. Never waits.
    fn may_hold_home(&self, ino: Ino) -> bool {
        let _ = ino;
        true
    }
    /// `Effect::ForgetHome`.
    fn forget_home(&self, ino: Ino);
    /// `Effect::PruneClients`; must not wait for any request.
    fn prune_clients(&self, names: Vec<(Ino, Name, Ino)>);
}
