//! Memory that is set aside before it is written.
//!
//! A page of the memory file that was never written must be found and accounted for by whoever writes it first: a sixth of the time
//! of a large write. So what will be written next is made ready beforehand, by a thread that has nothing else to do.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;

use crate::device::Device;

/// So much is ready beyond what was ever written, bytes: a burst that takes more gets the rest as it comes. Memory that nobody needs
/// is not taken for it.
const AHEAD_BYTES: u64 = 256 << 20;
/// What is made ready at a time, bytes.
const STEP_BYTES: u64 = 4 << 20;

/// How far the memory of a log is used, and how far it is ready.
#[derive(Default)]
pub(super) struct Ahead {
    /// The end of what was ever written, bytes.
    used: AtomicU64,
    /// The end of what is ready.
    ready: AtomicU64,
    /// Who makes it ready; called when there is something to do.
    maker: OnceLock<Thread>,
}

impl Ahead {
    /// Bytes up to `end` were written.
    pub(super) fn note(&self, end: u64) {
        // Slots are used from the first on, so this is the same in nearly all writes.
        if end > self.used.load(Ordering::Relaxed) {
            let before = self.used.fetch_max(end, Ordering::Relaxed);
            if before / STEP_BYTES < end / STEP_BYTES {
                self.call();
            }
        }
    }

    pub(super) fn call(&self) {
        if let Some(maker) = self.maker.get() {
            maker.unpark();
        }
    }

    /// This thread is the one to be called.
    pub(super) fn attend(&self) {
        // There is one; a second one would find everything done.
        let _ = self.maker.set(std::thread::current());
    }

    /// The end of what was ever written, bytes.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Makes the next step of a device of `bytes` ready; false when there is none to make now.
    pub(super) fn make_step(&self, memory: &dyn Device, bytes: u64) -> io::Result<bool> {
        let used = self.used();
        let from = self.ready.load(Ordering::Relaxed).max(used);
        let to = bytes.min(used.saturating_add(AHEAD_BYTES)).min(from.saturating_add(STEP_BYTES));
        if from >= to {
            return Ok(false);
        }
        memory.set_aside(from, to - from)?;
        self.ready.store(to, Ordering::Relaxed);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::FileDevice;

    #[test]
    fn what_comes_next_is_set_aside_and_what_is_there_stays() {
        let Ok(file) = tempfile::tempfile_in("/dev/shm") else {
            println!("skipped: there is no /dev/shm");
            return;
        };
        let bytes = AHEAD_BYTES + (3 * STEP_BYTES);
        file.set_len(bytes).unwrap();
        let taken_bytes = || rustix::fs::fstat(&file).map(|stat| stat.st_blocks as u64 * 512).unwrap();
        let memory = FileDevice::buffered(file.try_clone().unwrap());
        let ahead = Ahead::default();
        let make_all = || while ahead.make_step(&memory, bytes).unwrap() {};
        make_all();
        assert_eq!(taken_bytes(), AHEAD_BYTES);
        memory.write_at(STEP_BYTES - 1, b"here").unwrap();
        ahead.note(STEP_BYTES + 3);
        make_all();
        assert_eq!(taken_bytes(), AHEAD_BYTES + STEP_BYTES + 4096, "as much as before beyond what was written, in whole pages");
        let mut found = [0; 6];
        memory.read_at(STEP_BYTES - 2, &mut found).unwrap();
        assert_eq!(&found, b"\0here\0");
        ahead.note(bytes);
        make_all();
        assert!(taken_bytes() < bytes, "what a burst took by itself is not made ready behind it");
    }

    #[test]
    fn who_makes_it_is_called_once_for_each_step() {
        let ahead = Ahead::default();
        ahead.attend();
        ahead.note(1);
        ahead.note(STEP_BYTES + 1);
        let begun = std::time::Instant::now();
        std::thread::park_timeout(std::time::Duration::from_secs(60));
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "the call was kept until now");
    }
}
