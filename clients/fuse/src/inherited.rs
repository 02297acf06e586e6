//! What the kernel knows from a process of before, which has died with its count of the kernel's references.
//!
//! Before it serves, the new process asks the kernel of each inode whether it still knows it. What the kernel knows then it has an unknown
//! number of references to. When it gives references back it is asked again, and what it knows no more is let go: too late rather than too
//! early.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use std::{io, thread};

use forebay_core::attr::Kind;
use forebay_core::id::Ino;
use parking_lot::{Condvar, Mutex};

use crate::notify;

/// How long the kernel may take to say whether it knows an inode. It waits for one that it is just forgetting, and that may wait for us.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Default)]
struct Inode {
    is_file: bool,
    /// References that the kernel has got from this process.
    given: u64,
    /// Of these, those of which it has not been told yet.
    under_way: u64,
}

/// What becomes of references that the kernel gives back.
pub(crate) enum GivenBack {
    /// They are not from before.
    NotInherited,
    /// The kernel may have more.
    StillHeld,
    /// The server is to be given back all.
    All { count: u64, is_file: bool },
}

/// Inodes that the kernel knows from before.
pub(crate) struct Inherited {
    inodes: Mutex<HashMap<Ino, Inode>>,
    /// The kernel was told of all references to an inode that were on their way.
    told: Condvar,
    device: Arc<OwnedFd>,
}

impl Inherited {
    /// The kernel is about to get one more reference, until [`Inherited::told`]. False if the inode is not from before.
    pub(crate) fn add(&self, ino: Ino) -> bool {
        let mut inodes = self.inodes.lock();
        let Some(inode) = inodes.get_mut(&ino) else { return false };
        inode.given += 1;
        inode.under_way += 1;
        true
    }

    /// The kernel has been told of a reference.
    pub(crate) fn told(&self, ino: Ino) {
        if let Some(inode) = self.inodes.lock().get_mut(&ino) {
            inode.under_way = inode.under_way.saturating_sub(1);
            if inode.under_way == 0 {
                self.told.notify_all();
            }
        }
    }

    /// The kernel gives references back; how many says nothing, since nobody knows how many it had.
    pub(crate) fn give_back(&self, ino: Ino) -> GivenBack {
        let mut inodes = self.inodes.lock();
        // The kernel may have got a reference and given it back before the thread that gave it could say so; it may also be about to know
        // the inode again, whatever it has forgotten.
        self.told.wait_while_for(&mut inodes, |inodes| inodes.get(&ino).is_some_and(|inode| inode.under_way > 0), PATIENCE);
        let given = match inodes.get(&ino) {
            None => return GivenBack::NotInherited,
            Some(inode) if inode.under_way > 0 => return GivenBack::StillHeld,
            Some(inode) => inode.given,
        };
        drop(inodes);
        // Without the lock: it may have to wait.
        if notify::is_known(&self.device, ino) {
            return GivenBack::StillHeld;
        }
        let mut inodes = self.inodes.lock();
        match inodes.get(&ino) {
            None => GivenBack::NotInherited,
            Some(inode) if inode.given != given => GivenBack::StillHeld,
            Some(inode) => {
                let (count, is_file) = (inode.given + 1, inode.is_file);
                inodes.remove(&ino);
                GivenBack::All { count, is_file }
            }
        }
    }
}

/// Finds out what the kernel knows, before it is served again.
pub struct Inheritance {
    device: Arc<OwnedFd>,
    inodes: HashMap<Ino, Inode>,
    ask: Option<Sender<(Ino, Sender<bool>)>>,
}

impl Inheritance {
    /// Of the connection that a process has left.
    ///
    /// # Errors
    /// When no thread can be made.
    pub fn new(device: OwnedFd) -> io::Result<Inheritance> {
        let device = Arc::new(device);
        let (ask, asked) = channel::<(Ino, Sender<bool>)>();
        let for_thread = device.clone();
        thread::Builder::new().name("forebay-known".into()).spawn(move || {
            for (ino, answer) in asked {
                // Nobody hears it who has lost patience.
                let _ = answer.send(notify::is_known(&for_thread, ino));
            }
        })?;
        Ok(Inheritance { device, inodes: HashMap::new(), ask: Some(ask) })
    }

    /// Whether the kernel knows the inode. When it cannot say, it does.
    pub fn is_known(&mut self, ino: Ino, kind: Kind) -> bool {
        let is_known = self.ask(ino).unwrap_or(true);
        if is_known {
            self.inodes.insert(ino, Inode { is_file: kind == Kind::File, ..Inode::default() });
        } else {
            self.inodes.remove(&ino);
        }
        is_known
    }

    fn ask(&mut self, ino: Ino) -> Option<bool> {
        let (answer, answered) = channel();
        self.ask.as_ref()?.send((ino, answer)).ok()?;
        let said = answered.recv_timeout(PATIENCE).ok();
        if said.is_none() {
            self.ask = None;
        }
        said
    }

    pub(crate) fn into_parts(self) -> (Arc<OwnedFd>, Inherited) {
        (self.device.clone(), Inherited { inodes: Mutex::new(self.inodes), told: Condvar::new(), device: self.device })
    }
}
