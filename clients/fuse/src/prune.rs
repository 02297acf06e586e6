//! Asks the kernel to give back references, so that the server may forget what nobody uses.

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::{io, thread};

use forebay_core::id::{Ino, Name};

use crate::notify::Notifier;

/// Names as the server gives them: directory, name, inode.
type Names = Vec<(Ino, Name, Ino)>;

/// Lists of names that wait; what comes when so many do is not asked for, and the server will ask again.
const LISTS_MAX: usize = 64;

/// Hands names to a thread that has the kernel drop them. The kernel waits for requests that change their directories, so no thread that
/// serves it or that works for the server may do this.
#[derive(Debug)]
pub struct Pruner {
    lists: SyncSender<Names>,
}

impl Pruner {
    /// Starts the thread. It ends with this value.
    ///
    /// # Errors
    /// When no thread can be made.
    pub fn start(notifier: Notifier) -> io::Result<Pruner> {
        let (lists, waiting) = sync_channel::<Names>(LISTS_MAX);
        thread::Builder::new().name("forebay-prune".into()).spawn(move || {
            for (directory, name, _) in waiting.into_iter().flatten() {
                notifier.forget_name(directory, name.as_bytes());
            }
        })?;
        Ok(Pruner { lists })
    }

    /// Has the kernel drop these names, if it does not use them. Does not wait.
    pub fn prune(&self, names: Names) {
        match self.lists.try_send(names) {
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}
