//! What the kernel knows from a process of before, which has died with its count of the kernel's references.
//!
//! Before it serves, the new process asks the kernel of each inode whether it still knows it. What the kernel knows then it has an unknown
//! number of references to. When it gives references back it is asked again, by a thread of its own, and what it knows no more is let go:
//! too late rather than too early. So it is for all the time that this process serves: a count of references would be wrong for an inode
//! of which some that were given before are still on their way back.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use std::{io, thread};

use forebay_core::attr::Kind;
use forebay_core::errno::Errno;
use forebay_core::id::Ino;
use parking_lot::{Condvar, Mutex};

use crate::notify;

/// How long the kernel may take to say whether it knows an inode, before it is served. It waits for one that it is just forgetting, and
/// that may wait for us.
const PATIENCE: Duration = Duration::from_millis(500);

struct Inode {
    is_file: bool,
    /// References that the server counts for the kernel; none, and the file is not open for it.
    counted: u64,
    /// References that the kernel has got from this process, ever.
    given: u64,
    /// Of these, those of which it has not been told yet.
    under_way: u64,
}

#[derive(Default)]
struct Books {
    inodes: HashMap<Ino, Inode>,
    /// The kernel may know these no more.
    doubtful: BTreeSet<Ino>,
    ended: bool,
}

/// What the server is to be given back when the kernel has let go of an inode.
pub(crate) struct LetGo {
    pub(crate) ino: Ino,
    pub(crate) count: u64,
    pub(crate) is_file: bool,
}

/// Inodes that the kernel knows from before.
pub(crate) struct Inherited {
    books: Mutex<Books>,
    /// Something became doubtful, the kernel was told of all references to an inode that were on their way, or it has ended.
    changed: Condvar,
    device: Arc<OwnedFd>,
}

impl Inherited {
    /// The kernel is about to get one more reference, until [`Inherited::told`]; if it is a file, `first` has it open at the
    /// server, and `further` is for one that is open there already. An error of `first` leaves everything as it was. None if the inode is
    /// not from before.
    pub(crate) fn add(&self, ino: Ino, first: impl FnOnce() -> Result<(), Errno>, further: impl FnOnce()) -> Option<Result<(), Errno>> {
        let mut books = self.books.lock();
        let inode = books.inodes.get_mut(&ino)?;
        // Under the lock, so that it does not overtake the closing of the reference before; see `Held::add`.
        match (inode.is_file, inode.counted) {
            (false, _) => {}
            (true, 0) => {
                if let Err(errno) = first() {
                    return Some(Err(errno));
                }
            }
            (true, _) => further(),
        }
        inode.counted += 1;
        inode.given += 1;
        inode.under_way += 1;
        Some(Ok(()))
    }

    /// The kernel has been told of a reference.
    pub(crate) fn told(&self, ino: Ino) {
        if let Some(inode) = self.books.lock().inodes.get_mut(&ino) {
            inode.under_way = inode.under_way.saturating_sub(1);
            if inode.under_way == 0 {
                self.changed.notify_all();
            }
        }
    }

    /// The kernel gives references back; how many says nothing, since nobody knows how many it had. False if the inode is not from before.
    pub(crate) fn doubt(&self, ino: Ino) -> bool {
        let mut books = self.books.lock();
        if !books.inodes.contains_key(&ino) {
            return false;
        }
        books.doubtful.insert(ino);
        self.changed.notify_all();
        true
    }

    /// No more questions.
    pub(crate) fn end(&self) {
        self.books.lock().ended = true;
        self.changed.notify_all();
    }

    /// Asks the kernel of all that is or becomes doubtful, until the end; what it knows no more is handed to `let_go`. The kernel may wait
    /// for those who serve it, so this is for a thread that does not.
    pub(crate) fn ask_until_the_end(&self, let_go: impl Fn(LetGo)) {
        while let Some((ino, given)) = self.next_doubt() {
            // Without the lock: it may have to wait.
            if notify::is_known(&self.device, ino) {
                continue;
            }
            let mut books = self.books.lock();
            let Some(inode) = books.inodes.get_mut(&ino) else { continue };
            if inode.given != given {
                // It has got another meanwhile, and will give that back.
                continue;
            }
            let count = std::mem::take(&mut inode.counted);
            if count > 0 {
                let_go(LetGo { ino, count, is_file: inode.is_file });
            }
        }
    }

    /// The next doubtful inode, of which no reference is on its way: the kernel may be about to know it again, whatever it has forgotten.
    fn next_doubt(&self) -> Option<(Ino, u64)> {
        let mut books = self.books.lock();
        loop {
            if books.ended {
                return None;
            }
            let told = books.doubtful.iter().find_map(|ino| {
                let inode = books.inodes.get(ino)?;
                (inode.under_way == 0).then_some((*ino, inode.given))
            });
            if let Some((ino, given)) = told {
                books.doubtful.remove(&ino);
                return Some((ino, given));
            }
            self.changed.wait(&mut books);
        }
    }
}

/// Finds out what the kernel knows, before it is served again.
pub struct Inheritance {
    device: Arc<OwnedFd>,
    books: Books,
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
        Ok(Inheritance { device, books: Books::default(), ask: Some(ask) })
    }

    /// Whether the kernel knows the inode. When it cannot say at once, it may know it, and will be asked again.
    pub fn is_known(&mut self, ino: Ino, kind: Kind) -> bool {
        let said = self.ask(ino);
        if said.is_none() {
            self.books.doubtful.insert(ino);
        }
        let is_known = said.unwrap_or(true);
        if is_known {
            self.books.inodes.insert(ino, Inode { is_file: kind == Kind::File, counted: 1, given: 0, under_way: 0 });
        } else {
            self.books.inodes.remove(&ino);
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
        (self.device.clone(), Inherited { books: Mutex::new(self.books), changed: Condvar::new(), device: self.device })
    }
}
