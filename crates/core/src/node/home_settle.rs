//! The way home: what may start, what was done and is not yet durable, what failed, and when a drain is over.
//!
//! Work at home goes through three stages. *Started*: an effect is in flight. *Applied*: home has it, perhaps only in a cache. *Settled*: a
//! sync made it durable (and bytes were compared): only then does the journal say so and the buffer let go. A crash before that
//! repeats the work; since everything that was applied and not settled concerns different names and inodes, each repetition
//! meets at most its own effect.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::home_data::{AttrJob, CutJob, TransferJob};
use super::home_holes::PunchJob;
use super::home_names::{ChangeJob, ChangedSlots};
use super::troubles::{Subject, Trouble};
use super::{Node, Pending};
use crate::effect::{Effect, Outcome};
use crate::errno::Errno;
use crate::id::{CallId, ChunkId, HomePath, Ino, Position};
use crate::master::{Need, Stop};
use crate::message::{DrainStep, Reply};
use crate::time::Time;

/// Applied pieces of work after which a sync is due even while more is in flight.
const APPLIED_MAX: usize = 256;
/// Applied bytes after which a sync is due even while more is in flight.
const APPLIED_BYTES_MAX: u64 = 64 << 20;
/// Or this part of what the buffer holds, if that is less.
const APPLIED_PARTS: u64 = 8;

/// What home has and a sync must make durable.
#[derive(Debug)]
pub(super) enum Applied {
    Transfer(TransferJob),
    Cut(CutJob),
    Punch(PunchJob),
    Attr(AttrJob),
    Change(ChangeJob),
}

/// The books of the way home.
#[derive(Debug, Default)]
pub(super) struct Home {
    /// Effects in flight that use a path of the inode.
    users: BTreeMap<Ino, u32>,
    /// All of these.
    in_flight: u32,
    /// A directory is being renamed at home, or waits for quiet to be.
    pub barred: bool,
    /// Questions put off meanwhile.
    pub asks_deferred: Vec<Need>,
    pub transfers_in_flight: u32,
    /// Bytes on their way home.
    pub transfer_bytes_in_flight: u64,
    pub changes_in_flight: u32,
    /// Transfers that were synced and are to be compared.
    pub synced: VecDeque<TransferJob>,
    /// Holes that were synced and are to be looked at.
    pub punched: VecDeque<PunchJob>,
    applied: Vec<Applied>,
    applied_bytes: u64,
    syncing: bool,
    /// Syncs that failed. One may have lost all bytes that home had taken and that no sync had covered: those that came in meanwhile, too,
    /// and a later sync would not tell.
    pub failed_syncs: u64,
    /// Files to look at, by the time when.
    queue: BTreeSet<(Time, Ino)>,
    queued: BTreeMap<Ino, Time>,
    /// Files that wait for something else to settle.
    stalled: BTreeSet<Ino>,
    /// Files that wait for a name at home, or for the end of a change of their names there: nothing else that settles is of use to them.
    nameless: BTreeSet<Ino>,
    /// Files newly dirty, not yet in the queue.
    noted: BTreeSet<Ino>,
    /// Dirty chunks that are to be swapped out.
    pub wanted_chunks: VecDeque<ChunkId>,
    /// Where the look through the divergent names goes on; none when there is no reason to look.
    pub scan_from: Option<u64>,
    /// A change of names waits until nothing is under way with its inode.
    pub waits_for_rest: bool,
    /// When the next name will have rested.
    pub names_due: Option<Time>,
    /// Divergent names below this number were looked at.
    pub names_seen: u64,
    /// Changes of names that wait for their intent to be on the medium.
    pub intended: Vec<ChangeJob>,
    /// Changes of names that failed or were interrupted and may have happened.
    pub stuck: Vec<ChangeJob>,
    /// What the journal says is intended and not settled.
    pub open_intents: BTreeMap<Position, (Ino, ChangedSlots)>,
    /// Changes that bar all others, until they are settled.
    pub barring: u32,
    drains: Vec<CallId>,
    pub troubles: BTreeMap<Subject, Trouble>,
}

impl Home {
    /// An effect that uses the inode's path begins.
    pub fn enter(&mut self, ino: Ino) {
        *self.users.entry(ino).or_insert(0) += 1;
        self.in_flight += 1;
    }

    /// It has ended.
    pub fn leave(&mut self, ino: Ino) {
        self.in_flight -= 1;
        if let Some(count) = self.users.get_mut(&ino) {
            *count -= 1;
            if *count == 0 {
                self.users.remove(&ino);
                if core::mem::take(&mut self.waits_for_rest) {
                    self.scan_from = Some(0);
                }
            }
        }
    }

    pub fn is_used(&self, ino: Ino) -> bool {
        self.users.contains_key(&ino)
    }

    /// Nothing new may start: paths are, or will be, in motion.
    pub fn is_barred(&self) -> bool {
        self.barred
    }

    pub fn is_draining(&self) -> bool {
        !self.drains.is_empty()
    }

    /// Clients that wait for the end of the drain.
    pub fn drain_count(&self) -> usize {
        self.drains.len()
    }

    /// Paths are in motion, or something waits for quiet to move them; not so when all that could move them has failed and rests.
    fn is_moving(&self) -> bool {
        let resting = self.stuck.iter().filter(|job| job.bars()).count();
        self.barred && (self.barring == 0 || self.barring as usize != resting)
    }

    /// Nothing is in flight or waits for a sync.
    pub fn is_quiet(&self) -> bool {
        self.in_flight == 0 && self.applied.is_empty() && !self.syncing && self.nothing_to_compare()
    }

    fn nothing_to_compare(&self) -> bool {
        self.synced.is_empty() && self.punched.is_empty()
    }

    fn only_waits_for_sync(&self) -> bool {
        self.in_flight == 0 && !self.syncing && self.nothing_to_compare() && !self.applied.is_empty()
    }

    /// A file has something to bring home.
    pub fn note_dirty(&mut self, ino: Ino) {
        if !self.queued.contains_key(&ino) {
            self.noted.insert(ino);
        }
    }

    pub fn want_chunk(&mut self, chunk: ChunkId) {
        self.wanted_chunks.push_back(chunk);
    }

    /// The inode is gone.
    pub fn forget(&mut self, ino: Ino) {
        self.unqueue(ino);
        self.stalled.remove(&ino);
        self.nameless.remove(&ino);
        self.noted.remove(&ino);
        self.troubles.remove(&Subject::Data(ino));
        self.troubles.remove(&Subject::Attr(ino));
    }

    fn enqueue(&mut self, ino: Ino, at: Time) {
        self.unqueue(ino);
        self.queue.insert((at, ino));
        self.queued.insert(ino, at);
    }

    fn unqueue(&mut self, ino: Ino) {
        if let Some(at) = self.queued.remove(&ino) {
            self.queue.remove(&(at, ino));
        }
    }

    /// Something settled: whoever waited for it is looked at again.
    fn stir(&mut self, now: Time) {
        self.stir_files(now);
        self.scan_from = Some(0);
    }

    /// A divergent name may have become free to go home: the look through them goes back to it, if it is beyond.
    pub fn scan_again_from(&mut self, at: Option<u64>) {
        self.scan_from = match (at, self.scan_from) {
            (Some(at), Some(from)) => Some(from.min(at)),
            (at, from) => from.or(at),
        };
    }

    /// A change of the inode's names at home has ended.
    pub fn stir_named(&mut self, ino: Ino, now: Time) {
        if self.nameless.remove(&ino) {
            self.enqueue(ino, now);
        }
    }

    /// Files that wait are looked at again.
    pub fn stir_files(&mut self, now: Time) {
        for ino in core::mem::take(&mut self.stalled) {
            self.enqueue(ino, now);
        }
    }
}

/// What came of looking at a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    /// All its work is started or done.
    Finished,
    /// It waits for something else to settle.
    Stalled,
    /// It waits for a change of its names at home.
    Nameless,
    /// The limit of transfers is reached.
    Full,
    /// It failed and rests until then.
    Later(Time),
}

impl Node {
    pub(super) fn bring_home(&mut self) {
        self.place_attr_changes();
        self.queue_noted();
        // What a directory's rename waited for has ended: it goes first, if it is still wanted.
        let was_barred = self.home.barred && self.home.barring == 0 && self.home.is_quiet();
        if was_barred {
            self.home.barred = false;
            self.home.scan_from = Some(0);
        }
        self.start_changes();
        self.start_intended();
        self.retry_stuck();
        if was_barred && !self.home.barred {
            self.resume_home_users();
        }
        self.start_compares();
        self.start_wanted_chunks();
        self.start_goals();
        self.start_files();
        self.start_dir_attrs();
        self.sync_home_if_due();
        self.answer_goals();
        self.break_ring_or_finish_drain();
    }

    /// Work goes home without having rested: a drain wants it, or room is short.
    pub(super) fn is_home_urgent(&self) -> bool {
        let crowded = self.is_write_back_async() && self.io.dirty_bytes > self.io.live_bytes_max / 2;
        self.home.is_draining()
            || crowded
            || self.are_names_crowded()
            || !self.home.wanted_chunks.is_empty()
            || !self.room_waiters.is_empty()
    }

    fn queue_noted(&mut self) {
        let rest = self.config.write_back_delay_ns;
        for ino in core::mem::take(&mut self.home.noted) {
            self.home.enqueue(ino, self.now + rest);
        }
    }

    /// Nothing is under way, due, or to be tried again.
    pub(super) fn is_home_idle(&self) -> bool {
        let home = &self.home;
        let nothing_due = home.queue.is_empty() && home.noted.is_empty() && home.scan_from.is_none() && home.names_due.is_none();
        let nothing_waits = home.intended.is_empty() && home.stuck.is_empty();
        let nothing_rests = home.troubles.values().all(|trouble| trouble.again_at <= self.now);
        home.is_quiet() && nothing_due && nothing_waits && nothing_rests && !self.sync.is_running() && !self.sync.wanted
    }

    /// Looks at the files that are due, in the order in which they became so.
    fn start_files(&mut self) {
        let hurries = self.home.is_draining()
            || self.goals.hurry
            || self.name_room.waiting() > 0
            || (self.is_write_back_async() && self.is_home_urgent());
        let may_rest = !hurries;
        if may_rest && !self.is_write_back_async() {
            return;
        }
        let mut later = Vec::new();
        while let Some((at, ino)) = self.home.queue.first().copied() {
            if self.home.barred || (may_rest && at > self.now) {
                break;
            }
            match self.look_at_file(ino) {
                Look::Full => break,
                Look::Finished => {
                    self.home.unqueue(ino);
                    self.home.stalled.remove(&ino);
                }
                Look::Stalled => {
                    self.home.unqueue(ino);
                    self.home.stalled.insert(ino);
                }
                Look::Nameless => {
                    self.home.unqueue(ino);
                    self.home.nameless.insert(ino);
                }
                Look::Later(at) => {
                    self.home.unqueue(ino);
                    later.push((ino, at));
                }
            }
        }
        for (ino, at) in later {
            if at.0 != u64::MAX {
                self.home.enqueue(ino, at);
            } else {
                self.home.stalled.insert(ino);
            }
        }
    }

    /// Directories get their attributes when nothing in them changes any more: at the end of a drain, or when names wait for room, the
    /// deepest first.
    fn start_dir_attrs(&mut self) {
        let wanted = self.home.is_draining() || self.name_room.waiting() > 0;
        let idle = wanted && self.home.is_quiet() && self.home.queue.is_empty() && self.home.scan_from.is_none();
        if !idle || self.home.barred {
            return;
        }
        let mut deepest = 0;
        let mut chosen = Vec::new();
        for ino in self.names.attr_dirty.iter().copied() {
            let subject = Subject::Attr(ino);
            let is_dir = self.names.inodes.get(&ino).is_some_and(|i| i.dir.is_some() && i.attr_loaded);
            let Some(path) = self.names.home_path(ino).filter(|_| is_dir && self.rests(&subject).is_none()) else { continue };
            if !self.is_attr_durable(ino) {
                self.sync.wanted = true;
                return;
            }
            let depth = if ino == Ino::ROOT { 0 } else { 1 + path.as_bytes().iter().filter(|b| **b == b'/').count() };
            if depth > deepest {
                chosen.clear();
                deepest = depth;
            }
            if depth == deepest && chosen.len() < self.config.home_changes_max as usize {
                chosen.push(ino);
            }
        }
        for ino in chosen {
            self.start_set_attr(ino);
        }
    }

    pub(super) fn applied(&mut self, applied: Applied) {
        if let Applied::Transfer(job) = &applied {
            self.home.applied_bytes += job.range.end - job.range.start;
        }
        self.home.applied.push(applied);
    }

    fn sync_home_if_due(&mut self) {
        let home = &self.home;
        let busy = home.transfers_in_flight + home.changes_in_flight > 0;
        // A part of the buffer at a time: while that is compared, writers fill the next.
        let bytes_max = APPLIED_BYTES_MAX.min(self.io.live_bytes_max / APPLIED_PARTS);
        let enough = home.applied.len() >= APPLIED_MAX || home.applied_bytes >= bytes_max;
        if home.syncing || home.applied.is_empty() || (busy && !enough) || self.rests(&Subject::Sync).is_some() {
            return;
        }
        let applied = core::mem::take(&mut self.home.applied);
        self.home.applied_bytes = 0;
        self.home.syncing = true;
        let mut files = BTreeMap::new();
        let mut directories = BTreeSet::new();
        for item in &applied {
            match item {
                Applied::Transfer(TransferJob { ino, path, .. })
                | Applied::Cut(CutJob { ino, path, .. })
                | Applied::Punch(PunchJob { ino, path, .. }) => {
                    files.insert(*ino, path.clone());
                }
                Applied::Attr(job) if job.is_dir => {
                    directories.insert(job.path.clone());
                }
                Applied::Attr(job) if job.is_file => {
                    files.insert(job.ino, job.path.clone());
                }
                // What cannot be opened for a sync of its own is made durable with its directory.
                Applied::Attr(job) => {
                    let path = job.path.as_bytes();
                    let parent = &path[..path.iter().rposition(|b| *b == b'/').unwrap_or(0)];
                    directories.insert(HomePath(parent.into()));
                }
                Applied::Change(job) => directories.extend(self.changed_directories(job)),
            }
        }
        let token = self.expect(Pending::SyncHome(applied));
        self.emit(Effect::SyncHome { token, files: files.into_iter().collect(), directories: directories.into_iter().collect() });
    }

    pub(super) fn sync_home_done(&mut self, applied: Vec<Applied>, result: Result<Outcome, Errno>) {
        self.home.syncing = false;
        if let Err(errno) = result {
            self.trouble(Subject::Sync, DrainStep::Sync, errno);
            self.home.failed_syncs += 1;
            self.home.applied_bytes = 0;
            let meanwhile = core::mem::take(&mut self.home.applied);
            for item in applied.into_iter().chain(meanwhile) {
                match item {
                    // What is lost at home is written again.
                    Applied::Transfer(job) => self.transfer_failed(job, DrainStep::Sync, errno),
                    Applied::Punch(job) => self.punch_failed(job, DrainStep::Sync, errno),
                    other => self.home.applied.push(other),
                }
            }
            self.home.stir(self.now);
            return;
        }
        self.trouble_is_over(&Subject::Sync);
        for item in applied {
            match item {
                Applied::Transfer(job) => self.home.synced.push_back(job),
                Applied::Cut(job) => self.cut_settled(job),
                Applied::Punch(job) => self.home.punched.push_back(job),
                Applied::Attr(job) => self.attr_settled(job),
                Applied::Change(job) => self.change_settled(job),
            }
        }
        self.home.stir(self.now);
    }

    /// Something settled outside of a sync.
    pub(super) fn stir_home(&mut self) {
        self.home.stir(self.now);
    }

    /// Ends the time in which nothing may start.
    pub(super) fn unbar(&mut self) {
        self.home.barred = false;
        self.resume_home_users();
    }

    /// Whether the inode's path may be used at home: neither it nor any directory is on the move.
    pub(super) fn is_path_at_rest(&self, ino: Ino) -> bool {
        !self.home.barred && self.names.inodes.get(&ino).is_none_or(|i| !i.busy)
    }

    pub(super) fn start_drain(&mut self, call: CallId) -> Result<(), Stop> {
        if !self.home.is_draining() {
            self.home.troubles.clear();
            self.home.stir(self.now);
            self.look_for_space();
        }
        self.home.drains.push(call);
        Ok(())
    }

    /// All that is left at home waits for a sync, which a drain has tried too often.
    fn is_sync_given_up(&self) -> bool {
        self.home.only_waits_for_sync() && self.rests(&Subject::Sync) == Some(Time(u64::MAX))
    }

    fn break_ring_or_finish_drain(&mut self) {
        let home = &self.home;
        let urgent = self.is_home_urgent() || !self.goals.is_empty();
        // A drain that has given its sync up leaves what waits for it, and what waits for that.
        let rests = home.is_quiet() && !home.is_moving() || self.is_sync_given_up();
        if !rests || home.scan_from.is_some() || home.names_due.is_some() || !self.ready.is_empty() || !urgent {
            return;
        }
        // Files wait for ever behind a directory whose rename is given up.
        let files_may_go = !home.barred && !self.is_sync_given_up();
        if home.is_draining() && files_may_go && (!home.queue.is_empty() || !home.noted.is_empty()) {
            return;
        }
        self.forget_idle_troubles();
        if self.home.troubles.is_empty() && self.break_ring() {
            return;
        }
        // What is due and was not begun waits for something that is given up. Writes that wait for room are not acknowledged: they
        // may wait for what the drain gives up.
        let retrying = self.home.troubles.values().any(|t| t.tries < self.config.drain_tries_max && t.again_at > self.now);
        let writing = self.io.files.values().any(|f| !f.writes.is_empty());
        if retrying || writing || self.sync.is_running() {
            return;
        }
        if !self.sync.wanted || self.is_log_hopeless() {
            self.push_or_give_up_goals();
        }
        if !self.home.is_draining() {
            return;
        }
        if self.journal.durable < self.journal.last_change && !self.is_log_hopeless() {
            // Home must not be newer than what a power loss leaves of the journal, which would undo it.
            self.sync.wanted = true;
            return self.start_sync();
        }
        let failures = self.drain_failures();
        for call in core::mem::take(&mut self.home.drains) {
            self.reply(call, Reply::Drained { failures: failures.clone() });
        }
        self.home.stir(self.now);
    }

    /// When the machine wants to be woken for work at home.
    pub(super) fn next_home_time(&self) -> Option<Time> {
        let home = &self.home;
        if home.scan_from.is_some() && home.changes_in_flight < self.config.home_changes_max && !home.barred {
            return Some(self.now);
        }
        let queue = home.queue.first().filter(|_| self.is_write_back_async() || home.is_draining() || self.goals.hurry).map(|(at, _)| *at);
        let room = !self.are_transfers_full() && home.changes_in_flight < self.config.home_changes_max && !home.barred;
        let queue = queue.filter(|_| room);
        let names = home.names_due.filter(|_| home.changes_in_flight < self.config.home_changes_max);
        let again = home.troubles.values().map(|t| t.again_at).filter(|at| *at > self.now).min();
        [queue, names, again].into_iter().flatten().min()
    }
}
