//! An open call: the thread that made it does the work on its payload, since only that thread may touch the bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_core::effect::LogPiece;
use forebay_core::id::Token;
use forebay_core::message::Reply;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

/// Bytes fetched from home. Shared, because a call may still copy from them when the machine has dropped them already.
pub(super) type FetchBuffer = Arc<RwLock<Vec<u8>>>;

/// Work for the thread of a call.
pub(super) enum CallWork {
    WriteLog {
        token: Token,
        pieces: Vec<LogPiece>,
    },
    ReadLog {
        token: Token,
        pieces: Vec<LogPiece>,
    },
    Zero {
        ranges: Vec<(u32, u32)>,
    },
    CopyIn {
        from: FetchBuffer,
        from_offset: u32,
        to_offset: u32,
        len: u32,
    },
    CopyOut {
        from_offset: u32,
        to: FetchBuffer,
        to_offset: u32,
        len: u32,
    },
    /// The answer to this call cannot be right any more.
    Broken,
}

/// What a call's thread is to do next.
pub(super) enum Next {
    Work(CallWork),
    Return(Reply),
}

/// The mailbox of a call. The work is done in the order in which it came, the reply last.
#[derive(Default)]
pub(super) struct CallSlot {
    mail: Mutex<Mail>,
    ready: Condvar,
}

#[derive(Default)]
struct Mail {
    work: VecDeque<CallWork>,
    reply: Option<Reply>,
}

impl CallSlot {
    /// Adds work; the caller wakes the thread later, when it holds no lock.
    pub(super) fn push(&self, work: CallWork) {
        self.mail.lock().work.push_back(work);
    }

    /// Sets the reply; wakes as [`CallSlot::push`].
    pub(super) fn reply(&self, reply: Reply) {
        self.mail.lock().reply = Some(reply);
    }

    pub(super) fn wake(&self) {
        self.ready.notify_one();
    }

    /// What to do next, waiting for it; calls `waits` before.
    pub(super) fn next(&self, waits: &mut dyn FnMut()) -> Next {
        let mut mail = self.mail.lock();
        if let Some(next) = mail.take() {
            return next;
        }
        // Without the lock: it may take its time, and others need it to give what is waited for.
        MutexGuard::unlocked(&mut mail, waits);
        loop {
            match mail.take() {
                Some(next) => return next,
                None => self.ready.wait(&mut mail),
            }
        }
    }
}

impl Mail {
    fn take(&mut self) -> Option<Next> {
        let work = self.work.pop_front().map(Next::Work);
        work.or_else(|| self.reply.take().map(Next::Return))
    }
}

/// The part `offset .. offset + len` of some bytes, if they have it.
pub(super) fn part(bytes: &[u8], offset: u32, len: u32) -> Option<&[u8]> {
    bytes.get(offset as usize..(offset as usize).checked_add(len as usize)?)
}

/// See [`part`].
pub(super) fn part_mut(bytes: &mut [u8], offset: u32, len: u32) -> Option<&mut [u8]> {
    bytes.get_mut(offset as usize..(offset as usize).checked_add(len as usize)?)
}
