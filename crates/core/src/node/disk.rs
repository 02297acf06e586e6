//! A buffer's disk that is full: space is waited for, and nothing that was acknowledged is lost meanwhile.
//!
//! What the disk takes no record of has happened in the node all the same. So records are not kept to be appended later: from time to time a
//! new journal is tried, whose snapshot says all of it. Until one can be begun, whoever changes something waits, and reads and the way home go on.

use alloc::vec::Vec;

use super::Node;
use crate::errno::Errno;
use crate::id::{CallId, Position};
use crate::message::{Reply, Request};
use crate::time::Time;

/// A new journal is tried again after this many times the retry delay, at most.
const BACKOFF_MAX: u64 = 5;

/// The journal takes no records for want of space.
#[derive(Debug)]
pub(super) struct Halt {
    errno: Errno,
    /// New journals that could not be begun.
    tries: u32,
    again_at: Time,
    /// The newest position whose record is in no journal.
    unwritten: Position,
    /// Answers to be given when the records up to their positions are in a journal.
    held: Vec<(Position, CallId, Reply)>,
    /// Requests that would change something.
    waiters: Vec<(CallId, Request)>,
}

/// Whether an error of the buffer's disk may pass by itself, when somebody makes space.
pub(super) fn is_full(errno: Errno) -> bool {
    matches!(errno, Errno::ENOSPC | Errno::EDQUOT)
}

impl Node {
    /// Records are in no journal until a new one is begun. What comes after one that is under way is appended behind it.
    pub(super) fn is_journal_halted(&self) -> bool {
        self.journal.halt.is_some() && !self.journal.rotating && self.journal.failed.is_none()
    }

    /// Why the buffer's disk is being waited for.
    pub(super) fn disk_errno(&self) -> Option<Errno> {
        self.journal.halt.as_ref().map(|halt| halt.errno).or(self.sync.short)
    }

    /// A drain has waited for space often enough: what can go home goes, whether or not the buffer can note it.
    pub(super) fn is_disk_given_up(&self) -> bool {
        self.home.is_draining() && self.disk_tries() >= self.config.drain_tries_max
    }

    /// How often space was looked for in vain.
    pub(super) fn disk_tries(&self) -> u32 {
        self.journal.halt.as_ref().map_or(0, |halt| halt.tries).max(self.sync.short_tries)
    }

    /// Requests that wait for space on the disk.
    pub(super) fn disk_waiter_count(&self) -> usize {
        self.journal.halt.as_ref().map_or(0, |halt| halt.held.len() + halt.waiters.len())
    }

    /// The disk has refused a record for want of space.
    pub(super) fn halt(&mut self, errno: Errno) {
        let again_at = self.now + self.config.retry_delay_ns;
        let new = || Halt { errno, tries: 0, again_at, unwritten: Position(0), held: Vec::new(), waiters: Vec::new() };
        self.journal.halt.get_or_insert_with(new).errno = errno;
        self.sync.is_void = true;
        self.let_go_of_fetches();
    }

    /// The disk has taken something: unless a sync was put off, which alone shows that it takes all, it is well again.
    pub(super) fn disk_takes(&mut self) {
        self.sync.writes_again_at = None;
        if self.sync.short_tries == 0 {
            self.sync.short = None;
        }
    }

    /// The disk had no space for a client's bytes: they wait ahead of all other writes, for the place in the file that they were given.
    pub(super) fn put_off_write(&mut self, call: CallId, request: Request, errno: Errno) {
        self.sync.short = Some(errno);
        self.sync.writes_again_at = Some(self.now + self.config.retry_delay_ns);
        self.room_waiters.push_front((call, request));
        self.let_go_of_fetches();
    }

    /// Fetched bytes that wait to be kept would keep others from being read: they are not kept while the disk is full.
    pub(super) fn let_go_of_fetches(&mut self) {
        for (ino, fetch) in core::mem::take(&mut self.keep_waiters) {
            self.keep_fetch(ino, fetch);
        }
    }

    /// A record is in no journal; its answer is held back until one has what it says.
    pub(super) fn hold(&mut self, position: Position, reply: Option<(CallId, Reply)>) {
        if let Some(halt) = &mut self.journal.halt {
            halt.unwritten = halt.unwritten.max(position);
            halt.held.extend(reply.map(|(call, reply)| (position, call, reply)));
        }
    }

    /// Makes a request that would change something wait for space; false if there is no need.
    pub(super) fn waits_for_space(&mut self, call: CallId, request: &Request) -> bool {
        let halt = self.journal.halt.as_mut();
        halt.map(|halt| halt.waiters.push((call, request.clone()))).is_some()
    }

    pub(super) fn rotate_if_space_is_due(&mut self) {
        let due = self.journal.halt.as_ref().is_some_and(|halt| halt.again_at <= self.now);
        if due && !self.journal.rotating && self.journal.failed.is_none() {
            self.rotate();
        }
    }

    /// A new journal could not be begun either.
    pub(super) fn put_off_rotation(&mut self) {
        let delay_ns = self.config.retry_delay_ns;
        if let Some(halt) = &mut self.journal.halt {
            halt.tries = halt.tries.saturating_add(1);
            halt.again_at = self.now + delay_ns * u64::from(halt.tries).min(BACKOFF_MAX);
        }
        // A drain may have waited for this often enough.
        self.stir_home();
    }

    /// A new journal has all that was recorded up to `last`.
    pub(super) fn journal_goes_on(&mut self, last: Position) {
        match self.journal.halt.take() {
            Some(halt) if halt.unwritten <= last => {
                for (_, call, reply) in halt.held {
                    self.reply(call, reply);
                }
                self.ready.extend(halt.waiters);
                self.stir_home();
            }
            halt => self.journal.halt = halt.map(|halt| Halt { again_at: self.now, ..halt }),
        }
    }

    /// The journal takes no more records, whatever happens.
    pub(super) fn journal_fails(&mut self, errno: Errno) {
        self.journal.failed = Some(errno);
        if let Some(Halt { held, waiters, .. }) = self.journal.halt.take() {
            for call in held.into_iter().map(|(_, call, _)| call).chain(waiters.into_iter().map(|(call, _)| call)) {
                self.fail(call, errno);
            }
        }
    }

    /// Looks for space anew: somebody who asks for things to be brought home may have made some.
    pub(super) fn look_for_space(&mut self) {
        if let Some(halt) = &mut self.journal.halt {
            (halt.tries, halt.again_at) = (0, self.now);
        }
        (self.sync.short_tries, self.sync.spill_again_at, self.sync.writes_again_at) = (0, None, None);
    }

    /// When the node wants to be woken to look for space.
    pub(super) fn next_disk_time(&self) -> Option<Time> {
        let halt = self.journal.halt.as_ref().filter(|_| !self.journal.rotating && self.journal.failed.is_none());
        let writes = self.sync.writes_again_at.filter(|_| !self.room_waiters.is_empty());
        [halt.map(|halt| halt.again_at), self.sync.spill_again_at, writes].into_iter().flatten().min()
    }
}
