//! Chunks that are swapped out when others enter (B-04, B-06): the policy's choice goes, dirty or not, one after the other, with the request
//! that needs the room.
//!
//! Who goes must not depend on how long anything takes. So a chunk enters with the request that asks for it, not when its bytes are there, and
//! one that goes is gone from that moment on: until it is home, whoever asks for it waits and then finds it gone. If home does not take it, it
//! stays.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Range;

use super::Node;
use super::troubles::Subject;
use crate::id::{CallId, ChunkId, Ino};
use crate::io_node::Stake;
use crate::message::Request;

impl Node {
    fn chunks_of(&self, ino: Ino, range: &Range<u64>) -> Range<u64> {
        let last = range.end.max(range.start + 1) - 1;
        self.io.chunk_of(ino, range.start).index..self.io.chunk_of(ino, last).index + 1
    }

    /// Makes a request wait for chunks that are on their way out, and a write or a cut for what is on its way in; false if there are none.
    pub(super) fn waits_for_chunks(&mut self, call: CallId, ino: Ino, range: &Range<u64>, request: &Request) -> bool {
        if !self.io.swaps_at_entry {
            return false;
        }
        let Some(file) = self.io.files.get(&ino) else { return false };
        let indexes = self.chunks_of(ino, range);
        let whole = self.io.chunk_range(ChunkId { ino, index: indexes.start }).start
            ..self.io.chunk_range(ChunkId { ino, index: indexes.end - 1 }).end;
        // What home has yet to answer is spoiled by the write; what is there already is to be kept before.
        let is_kept =
            |fetch: &crate::io_node::Fetch| fetch.ready && !fetch.stale && fetch.range.start < whole.end && whole.start < fetch.range.end;
        let comes_in = !matches!(request, Request::Read { .. }) && file.fetches.values().any(is_kept);
        let goes_out = file.swapping.range(indexes).next().is_some();
        if comes_in || goes_out {
            self.chunk_waiters.entry(ino).or_default().push((call, request.clone()));
        }
        comes_in || goes_out
    }

    /// A chunk of the file has come in or gone out: who waited for that tries again.
    pub(super) fn resume_chunk_waiters(&mut self, ino: Ino) {
        self.ready.extend(self.chunk_waiters.remove(&ino).into_iter().flatten());
    }

    /// The chunks of a write enter.
    pub(super) fn enter_written(&mut self, ino: Ino, range: &Range<u64>) -> Vec<Stake> {
        if !self.io.swaps_at_entry {
            return Vec::new();
        }
        let indexes = self.chunks_of(ino, range);
        let mut stakes = Vec::with_capacity((indexes.end - indexes.start) as usize);
        for index in indexes.clone() {
            let chunk = ChunkId { ino, index };
            let whole = self.io.chunk_range(chunk);
            self.io.ask_for(chunk);
            let bytes = self.io.new_bytes(ino, &(range.start.max(whole.start)..range.end.min(whole.end)));
            self.make_way(ino, &indexes, u64::from(bytes));
            stakes.push(self.io.write_begins(chunk, bytes));
        }
        stakes
    }

    /// A read asks for its chunks.
    pub(super) fn ask_for_read(&mut self, ino: Ino, range: &Range<u64>) {
        if !self.io.swaps_at_entry {
            return self.io.touch(ino, range);
        }
        for index in self.chunks_of(ino, range) {
            self.io.ask_for(ChunkId { ino, index });
        }
    }

    /// A chunk enters, or more of it, for a read of `range`: so many bytes are about to be fetched. Gives what of them counts.
    pub(super) fn enter_fetched(&mut self, ino: Ino, at: u64, range: &Range<u64>, bytes: u32) -> u32 {
        if !self.io.swaps_at_entry {
            return 0;
        }
        let indexes = self.chunks_of(ino, range);
        self.make_way(ino, &indexes, u64::from(bytes));
        self.io.fetch_begins(self.io.chunk_of(ino, at), bytes);
        bytes
    }

    /// Swaps out until so many bytes more may be held; nothing of what the request itself is about.
    fn make_way(&mut self, ino: Ino, indexes: &Range<u64>, bytes: u64) {
        while bytes > 0
            && self.io.held_bytes + bytes > self.io.live_bytes_max
            && self.swap_choice(|chunk| chunk.ino == ino && indexes.contains(&chunk.index))
        {}
    }

    /// Swaps the policy's choice out, but for what must stay. False if there is none.
    pub(super) fn swap_choice(&mut self, must_stay: impl Fn(ChunkId) -> bool) -> bool {
        let stuck = self.stuck_files();
        let has_name = |ino: &Ino| self.names.inodes.get(ino).is_some_and(|i| !i.home_names.is_empty());
        let is_stuck =
            |ino: &Ino| stuck.as_ref().is_some_and(|stuck| stuck.files.contains(ino) || stuck.all || (stuck.names && !has_name(ino)));
        let choice = self.io.choice(|chunk, is_dirty| !(must_stay(chunk) || is_dirty && is_stuck(&chunk.ino)));
        let Some((chunk, is_dirty)) = choice else { return false };
        let range = self.io.chunk_range(chunk);
        self.io.file_mut(chunk.ino).give_up_fetches(&range);
        self.counters.swaps += 1;
        if is_dirty {
            self.counters.dirty_swaps += 1;
            self.io.begin_to_leave(chunk);
            self.sync.swapping += 1;
            self.home.want_chunk(chunk);
        } else {
            self.io.swap_out(chunk);
        }
        true
    }

    /// Whether chunks must go that no request has made go: records of small writes fill the log before their bytes do, or holes are too many. The
    /// log's slack has room for some, so that this is not where the policy's chunks go as a rule.
    pub(super) fn must_swap_more(&self) -> bool {
        let kept_cost_bytes = self.io.live_cost_bytes().saturating_sub(self.io.leaving_bytes);
        self.io.held_bytes > self.io.live_bytes_max || kept_cost_bytes > self.entry_cost_bytes_max() || !self.has_room_for_holes()
    }

    /// What live bytes may cost with their records.
    pub(super) fn entry_cost_bytes_max(&self) -> u64 {
        self.io.live_bytes_max + if self.io.swaps_at_entry { self.io.live_bytes_max / 10 } else { 0 }
    }

    /// What home has just refused, until it is asked again; none if all is well.
    fn stuck_files(&self) -> Option<Stuck> {
        if self.home.troubles.is_empty() {
            return None;
        }
        let mut stuck = Stuck { files: BTreeSet::new(), names: false, all: false };
        for subject in self.home.troubles.keys().filter(|subject| self.rests(subject).is_some()) {
            match subject {
                Subject::Data(ino) => {
                    stuck.files.insert(*ino);
                }
                Subject::Name(..) => stuck.names = true,
                Subject::Sync => stuck.all = true,
                Subject::Attr(_) => {}
            }
        }
        Some(stuck)
    }

    /// Chunks on their way out whose transfer has ended are gone, or go on, or stay.
    pub(super) fn settle_leaving(&mut self) {
        for chunk in core::mem::take(&mut self.sync.landed) {
            let is_leaving = self.io.files.get(&chunk.ino).is_some_and(|file| file.swapping.contains(&chunk.index));
            if !is_leaving {
                continue;
            }
            let range = self.io.chunk_range(chunk);
            let moves = self.io.files[&chunk.ino].transfers.iter().any(|t| t.range.start < range.end && range.start < t.range.end);
            if !self.io.is_dirty(chunk) && !moves {
                self.io.remove(chunk.ino, range);
                self.left(chunk);
            } else if !moves {
                self.home.want_chunk(chunk);
            }
        }
        if !self.home.troubles.is_empty() && self.sync.swapping > 0 {
            self.keep_stuck();
        }
    }

    /// What home does not take stays, and is read and written as if it had never been chosen.
    fn keep_stuck(&mut self) {
        let Some(stuck) = self.stuck_files() else { return };
        let mut staying = Vec::new();
        for chunk in &self.home.wanted_chunks {
            let has_name = self.names.inodes.get(&chunk.ino).is_some_and(|i| !i.home_names.is_empty());
            if stuck.all || stuck.files.contains(&chunk.ino) || (stuck.names && !has_name) {
                staying.push(*chunk);
            }
        }
        for chunk in staying {
            if self.io.files.get(&chunk.ino).is_some_and(|file| file.swapping.contains(&chunk.index)) {
                self.io.stay(chunk);
                self.left(chunk);
            }
        }
        let files = &self.io.files;
        self.home.wanted_chunks.retain(|chunk| files.get(&chunk.ino).is_some_and(|file| file.swapping.contains(&chunk.index)));
    }

    fn left(&mut self, chunk: ChunkId) {
        if self.io.files.get_mut(&chunk.ino).is_some_and(|file| file.swapping.remove(&chunk.index)) {
            self.sync.swapping -= 1;
        }
        self.resume_chunk_waiters(chunk.ino);
        self.drop_if_unreachable(chunk.ino);
    }
}

/// What home does not take.
struct Stuck {
    /// Bytes of these files.
    files: BTreeSet<Ino>,
    /// New names.
    names: bool,
    /// Anything.
    all: bool,
}
