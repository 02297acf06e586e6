//! Room for names: what is as home has it is forgotten above a limit, and what is not waits for its way home.
//!
//! Inodes are looked at in turn, like the hand of a clock: one that was used since the last look gets a second chance. What only the
//! clients' references hold is asked back from them. Requests that make inodes wait while too many are not yet home and home is at work:
//! so memory is bounded by what clients hold open, never by how many files there are, and nothing fails for it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Unbounded};

use super::Node;
use crate::effect::Effect;
use crate::id::{CallId, Ino};
use crate::io_node::FileData;
use crate::message::Request;
use crate::record::Record;

/// Inodes looked at after one input: what is above the limit goes soon, and no request pays for all of it.
const LOOKS_MAX: usize = 8;

/// For each request that waits for home, the newest names that are not forgotten.
const KEPT_MAX: u64 = 8;

/// The books of what may be forgotten.
#[derive(Debug, Default)]
pub(super) struct NameRoom {
    /// The inode looked at last.
    hand: Ino,
    /// Requests that wait until more names are home, the oldest first. Each holds a thread of its client, so their number is bounded there.
    waiters: VecDeque<(CallId, Request)>,
}

impl NameRoom {
    pub fn wait(&mut self, call: CallId, request: Request) {
        self.waiters.push_back((call, request));
    }

    pub fn waiting(&self) -> usize {
        self.waiters.len()
    }
}

impl Node {
    /// Forgets some of what is as home has it, while there are too many inodes.
    pub(super) fn forget_clean(&mut self) {
        let inodes_max = self.config.inodes_max as usize;
        // A request that needs several names must find the first when it has the last.
        let is_due = self.names.inodes.len() > inodes_max || self.are_too_many_hidden();
        let parked = if is_due { self.parked.values().map(Vec::len).sum::<usize>() + self.name_room.waiting() } else { 0 };
        let kept_from = self.names.next_ino.saturating_sub(KEPT_MAX * parked as u64);
        let mut names = Vec::new();
        for _ in 0..LOOKS_MAX {
            let (crowded, too_many_hidden) = (self.names.inodes.len() > inodes_max, self.are_too_many_hidden());
            if !crowded && !too_many_hidden {
                break;
            }
            let next = self.names.inodes.range_mut((Excluded(self.name_room.hand), Unbounded)).next();
            let Some((ino, inode)) = next.map(|(ino, inode)| (*ino, inode)) else {
                self.name_room.hand = Ino(0);
                continue;
            };
            self.name_room.hand = ino;
            if core::mem::take(&mut inode.used) || (parked > 0 && inode.used_at >= kept_from) {
                continue;
            }
            if too_many_hidden && self.may_unload(ino) {
                self.names.unload_dir(ino);
            }
            if !crowded || !self.may_forget(ino) {
                continue;
            }
            let Some(inode) = self.names.inodes.get_mut(&ino) else { continue };
            // Whoever holds a file open is asked like one that only knows it: a client may hold open what it merely remembers.
            if inode.lookups == 0 && inode.opens == 0 {
                self.forget_inode(ino);
            } else if inode.lookups > 0 && inode.dir.is_none() {
                // Asked every other time, in case that it was not heard.
                inode.pruned = !inode.pruned;
                names.extend(inode.links.first().filter(|_| inode.pruned).map(|(parent, name)| (*parent, name.clone(), ino)));
            }
        }
        if !names.is_empty() {
            self.emit(Effect::PruneClients { names });
        }
    }

    /// More names are hidden than should be; those of the largest directory do not count, or it would be listed for ever.
    fn are_too_many_hidden(&self) -> bool {
        self.names.hidden_count > self.config.hidden_names_max as usize
    }

    /// A directory that hides names, and that nobody waits for.
    fn may_unload(&self, ino: Ino) -> bool {
        let dir = self.names.inodes.get(&ino).and_then(|inode| inode.dir.as_ref());
        let hides = dir.is_some_and(|dir| dir.loaded && !dir.hidden.is_empty() && dir.hidden.len() < self.names.hidden_count);
        hides && !self.is_asked_for(ino) && self.names.are_entries_at_rest(ino)
    }

    /// Nothing but references of clients keeps the inode here.
    fn may_forget(&self, ino: Ino) -> bool {
        let size = self.names.inodes.get(&ino).map_or(0, |i| i.attr.size);
        let settled = |file: &FileData| file.is_settled(size) && file.extents.dirty_bytes() == 0 && file.swapping.is_empty();
        self.io.files.get(&ino).is_none_or(|file| settled(file))
            && self.names.is_as_home_has_it(ino)
            && !self.home.is_used(ino)
            && !self.is_asked_for(ino)
            && !self.goals.inos().contains(&ino)
            && !self.idle_waiters.contains_key(&ino)
            && self.reads.values().all(|read| read.ino() != ino)
            && self.dir_handles.values().all(|(of, _)| *of != ino)
    }

    /// A request waits for something about the inode.
    fn is_asked_for(&self, ino: Ino) -> bool {
        let deferred = self.seeks_deferred.iter().any(|(_, request)| request.file() == Some(ino));
        deferred || self.parked.keys().any(|need| need.ino() == ino)
    }

    fn forget_inode(&mut self, ino: Ino) {
        self.io.remove(ino, 0..u64::MAX);
        self.io.files.remove(&ino);
        self.home.forget(ino);
        if self.names.inodes.get(&ino).is_some_and(|i| i.journaled || i.noted) {
            self.record(Record::Forgotten { ino });
        }
        self.names.forget_inode(ino, true);
        self.emit(Effect::ForgetHome { ino });
    }

    /// Names and attributes that are not home yet.
    pub(super) fn dirty_names(&self) -> usize {
        self.names.divergent.len() + self.names.attr_dirty.len()
    }

    /// So many names are not home that they go there without having rested.
    pub(super) fn are_names_crowded(&self) -> bool {
        self.name_room.waiting() > 0 || (self.is_write_back_async() && self.dirty_names() > self.config.inodes_max as usize)
    }

    /// Something that makes an inode must wait: there are too many, many of them are not home, and home is at work on that. When home has
    /// nothing to do, what is left is held by open files, and waiting would not help.
    pub(super) fn must_wait_for_names(&self) -> bool {
        let inodes_max = self.config.inodes_max as usize;
        let crowded = self.names.inodes.len() >= inodes_max && self.dirty_names() > inodes_max / 2;
        crowded && self.journal.failed.is_none() && !self.is_home_idle()
    }

    /// Lets requests go on that have waited for names to go home.
    pub(super) fn serve_name_waiters(&mut self) {
        while !self.name_room.waiters.is_empty() && !self.must_wait_for_names() {
            let Some((call, request)) = self.name_room.waiters.pop_front() else { return };
            self.call(call, request);
        }
    }
}
