//! What the kernel holds: each file that it knows stays open at the server until it is forgotten.
//!
//! The kernel knows best who has a file open, and needs not tell: a file that is open it does not forget. So opening and closing cost no
//! requests at all, and a file that was removed stays whole for those who have it open, because the server has it open for the kernel.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use forebay_core::errno::Errno;
use forebay_core::id::Ino;
use parking_lot::Mutex;

use crate::inherited::Inherited;

/// Counts the references that the kernel has to files.
#[derive(Default)]
pub(crate) struct Held {
    files: Mutex<HashMap<Ino, u64>>,
    inherited: Option<Inherited>,
}

impl Held {
    /// With what the kernel has from a process of before.
    pub(crate) fn inheriting(inherited: Inherited) -> Held {
        Held { files: Mutex::default(), inherited: Some(inherited) }
    }

    /// What the kernel has from a process of before.
    pub(crate) fn inherited(&self) -> Option<&Inherited> {
        self.inherited.as_ref()
    }

    /// The kernel gets one more reference; the first one needs `open`. An error of `open` leaves everything as it was.
    pub(crate) fn add(&self, ino: Ino, open: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
        // Under the lock, so that it does not overtake the closing of the reference before. The server has it in memory and answers at
        // once.
        match self.files.lock().entry(ino) {
            Entry::Occupied(mut held) => *held.get_mut() += 1,
            Entry::Vacant(unheld) => {
                open()?;
                unheld.insert(1);
            }
        }
        Ok(())
    }

    /// The kernel gives references back; with the last one, if it is a file, it is to be closed.
    pub(crate) fn give_back(&self, ino: Ino, count: u64, close: impl FnOnce()) {
        let mut files = self.files.lock();
        let Some(held) = files.get_mut(&ino) else { return };
        *held = held.saturating_sub(count);
        if *held == 0 {
            files.remove(&ino);
            close();
            // Space that a crowd of names has taken once.
            if files.capacity() > 4 * files.len() + (1 << 16) {
                files.shrink_to_fit();
            }
        }
    }
}

/// What one request gives the kernel.
pub(crate) struct Giving<'a> {
    pub(crate) held: &'a Held,
    /// References on inodes that the kernel has from before.
    again: RefCell<Vec<Ino>>,
}

impl Giving<'_> {
    pub(crate) fn of(held: &Held) -> Giving<'_> {
        Giving { held, again: RefCell::default() }
    }

    /// What the kernel has from a process of before.
    pub(crate) fn inherited(&self) -> Option<&Inherited> {
        self.held.inherited()
    }

    /// The kernel gets one more reference to a file that the server is to have open for it: `open` is called if that is not so yet,
    /// `is_open` if it is. An error of `open` leaves everything as it was.
    pub(crate) fn add(&self, ino: Ino, is_file: bool, open: impl Fn() -> Result<(), Errno>, is_open: impl FnOnce()) -> Result<(), Errno> {
        match self.inherited().and_then(|inherited| inherited.add(ino, &open, is_open)) {
            Some(Ok(())) => {
                self.again.borrow_mut().push(ino);
                Ok(())
            }
            Some(Err(errno)) => Err(errno),
            None if is_file => self.held.add(ino, open),
            None => Ok(()),
        }
    }
}

impl Drop for Giving<'_> {
    /// The request is answered.
    fn drop(&mut self) {
        for ino in self.again.take() {
            self.held.inherited.iter().for_each(|inherited| inherited.told(ino));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_opens_and_the_last_closes() {
        let held = Held::default();
        let ino = Ino(7);
        let not_again = || -> Result<(), Errno> { panic!("it is open") };
        assert_eq!(held.add(ino, || Err(Errno::ESTALE)), Err(Errno::ESTALE));
        assert_eq!(held.add(ino, || Ok(())), Ok(()));
        assert_eq!(held.add(ino, not_again), Ok(()));
        held.give_back(ino, 1, || panic!("one reference is left"));
        held.give_back(Ino(8), 1, || panic!("it was never open"));
        let mut closed = false;
        held.give_back(ino, 1, || closed = true);
        assert!(closed);
        assert_eq!(held.add(ino, || Ok(())), Ok(()), "and it may come again");
    }
}
