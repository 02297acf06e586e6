//! The flush of full regions (S-06, S-08, S-11, P-04): the oldest filling first, its files in order, each from front to back.

use super::*;
use crate::id::Ino;

/// The flush of a region.
#[derive(Debug)]
struct Current {
    generation: Generation,
    /// The walk goes on here.
    cursor: (Ino, u64),
    step: Step,
    from: Time,
    rested_ns: u64,
    resting_since: Option<Time>,
    bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Ranges are on their way.
    Walk,
    /// The disk is synced, or the note is written.
    Settle,
    /// All is settled; reads are still under way in the region.
    Unread,
}

/// Where the flush stands.
#[derive(Default, Debug)]
pub(super) struct State {
    current: Option<Current>,
    /// When the policy wants to be asked again.
    pub(super) wake: Option<Time>,
    /// After an error, nothing is tried before.
    retry_at: Option<Time>,
    pace: Pace,
}

/// What flushes keep to beside their policy.
#[derive(Default, Debug)]
struct Pace {
    /// By the cap on their rate, the next range may go then.
    rate_from: Time,
    /// Ranges are on their way since then.
    busy_from: Time,
    /// Until then the disk is the clients', if they use it.
    yield_until: Time,
}

impl Pace {
    /// A range is sent home.
    fn on_begin(&mut self, now: Time, is_first: bool, bytes: u64, bytes_per_s_max: Option<u64>) {
        if let Some(rate) = bytes_per_s_max {
            let ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
            self.rate_from = self.rate_from.max(now) + u64::try_from(ns).unwrap_or(u64::MAX);
        }
        if is_first {
            self.busy_from = now;
        }
    }

    /// No range is on its way any more: what flushes had of the disk's time, clients have in proportion.
    fn on_end(&mut self, now: Time, foreground: Option<Share>) {
        let Some(share) = foreground.filter(|share| share.part() < share.whole()) else { return };
        let had_ns = u128::from(now.since_ns(self.busy_from));
        let owed_ns = had_ns * u128::from(share.part()) / u128::from(share.whole() - share.part());
        self.yield_until = now + u64::try_from(owed_ns).unwrap_or(u64::MAX);
    }
}

impl HybridNode {
    /// Everything that stands on the SSD now is to go home, whatever the flush policy says.
    pub(super) fn drain(&mut self, call: CallId) {
        self.regions.seal();
        self.drains.push_back((call, self.regions.newest()));
    }

    fn flush_view(&self) -> FlushView {
        FlushView {
            now: self.now,
            traffic: self.admission.traffic(),
            disk_requests: self.disk_requests,
            disk_used: self.disk_used,
            client_active: self.client_active,
            client_requests: self.client_requests,
            writer_waits: !self.roomless.is_empty(),
            has_full_region: self.regions.oldest_full().is_some(),
            dirty_bytes: self.regions.dirty_bytes(),
            capacity_bytes: self.regions.capacity_bytes(),
            is_draining: !self.drains.is_empty(),
        }
    }

    /// Whether the next range may go home now.
    fn may_flush(&mut self) -> bool {
        if let Some(retry_at) = self.flush.retry_at {
            if self.now < retry_at {
                self.flush.wake = Some(retry_at);
                return false;
            }
            self.flush.retry_at = None;
        }
        let view = self.flush_view();
        let plan = if view.is_draining { FlushPlan::Flush } else { self.flush_policy.plan(&view) };
        let now = self.now;
        if let Some(current) = &mut self.flush.current {
            match plan {
                FlushPlan::Rest(_) => {
                    current.resting_since.get_or_insert(now);
                }
                FlushPlan::Flush => current.rested_ns += current.resting_since.take().map_or(0, |since| now.since_ns(since)),
            }
        }
        match plan {
            FlushPlan::Flush => view.is_draining || self.keeps_pace(&view),
            FlushPlan::Rest(until) => {
                self.flush.wake = until;
                false
            }
        }
    }

    /// Whether the next range is neither too soon for the cap on the rate nor in the way of clients.
    fn keeps_pace(&mut self, view: &FlushView) -> bool {
        let pace = &self.flush.pace;
        let mut from = self.config.flush_bytes_per_s_max.map_or(Time(0), |_| pace.rate_from);
        let clients_use_the_disk = view.disk_requests > 0 || view.disk_used.is_some_and(|used| used >= pace.busy_from);
        if self.config.foreground_share.is_some() && clients_use_the_disk && !view.writer_waits {
            if !self.flushes.is_empty() {
                // One at a time, so that what comes meanwhile has not many before it.
                return false;
            }
            from = from.max(pace.yield_until);
        }
        if from <= self.now {
            return true;
        }
        self.flush.wake = Some(from);
        false
    }

    /// Does what there is to do for the flush: after everything that happens.
    pub(super) fn pump_flush(&mut self) {
        // An error's pause ends by itself, whatever the policy says.
        self.flush.wake = self.flush.retry_at.filter(|retry_at| self.now < *retry_at);
        self.answer_drains();
        loop {
            self.take_next_region();
            if self.is_all_home() {
                self.settle();
            }
            let is_walking = self.flush.current.as_ref().is_none_or(|current| current.step == Step::Walk);
            if !is_walking || self.flushes.len() >= self.config.flush_depth as usize || !self.may_flush() {
                return;
            }
            if self.flush.current.is_none() {
                // The policy wants to flush what no full region holds.
                if self.regions.dirty_bytes() == 0 || self.regions.oldest_full().is_some() {
                    return;
                }
                self.regions.seal();
                if self.regions.oldest_full().is_none() {
                    return;
                }
                continue;
            }
            if !self.flush_next_range() {
                return;
            }
        }
    }

    fn take_next_region(&mut self) {
        if self.flush.current.is_some() {
            return;
        }
        let Some(region) = self.regions.oldest_full().filter(|region| region.writes == 0) else { return };
        let generation = region.generation();
        if let Some(region) = self.regions.get_mut(generation) {
            region.freeze();
        }
        self.flush.current = Some(Current {
            generation,
            cursor: (Ino(0), 0),
            step: Step::Walk,
            from: self.now,
            rested_ns: 0,
            resting_since: None,
            bytes: 0,
        });
    }

    /// Whether the walk is at its end. What follows needs nobody's leave: it hardly uses the disk, and somebody may wait for the room.
    fn is_all_home(&self) -> bool {
        let Some(current) = self.flush.current.as_ref().filter(|current| current.step == Step::Walk) else { return false };
        let is_home = self.regions.get(current.generation).is_none_or(|region| region.dirty_bytes() == 0);
        is_home && self.flushes.is_empty() && self.flush.retry_at.is_none_or(|retry_at| self.now >= retry_at)
    }

    /// Sends the next range home. Returns whether another one may follow.
    fn flush_next_range(&mut self) -> bool {
        let Some(current) = &mut self.flush.current else { return false };
        let Some(region) = self.regions.get(current.generation) else { return false };
        let Some((range, parts)) = next_range(region, current.cursor, self.config.flush_bytes_max) else { return false };
        let is_busy = self.disk_writes.overlaps(range) || self.changes.overlaps(range);
        if is_busy || self.blocked.iter().any(|waiting| waiting.access.range.overlaps(&range)) {
            return false;
        }
        current.cursor = (range.file, range.end());
        current.bytes += range.len;
        self.counters.flushed.add(range.len);
        self.flush.pace.on_begin(self.now, self.flushes.is_empty(), range.len, self.config.flush_bytes_per_s_max);
        let writes = parts.len() as u32;
        let token = self.emit(Purpose::Flush { range, writes }, |token| Effect::Flush { token, range, parts });
        self.flushes.insert(token, range);
        true
    }

    pub(super) fn on_flushed(&mut self, token: Token, range: FileRange, writes: u32, result: Result<(), Errno>) {
        self.flushes.remove(token, range);
        if self.flushes.is_empty() {
            self.flush.pace.on_end(self.now, self.config.foreground_share);
        }
        self.admission.on_flushed(&self.disk_view(), range.len, u64::from(writes));
        let Some(current) = &mut self.flush.current else { return };
        match result {
            Ok(()) => {
                if let Some(region) = self.regions.get_mut(current.generation) {
                    region.mark_clean(range);
                }
            }
            Err(_) => {
                // The walk begins again; what is home already is clean.
                current.cursor = (Ino(0), 0);
                self.flush.retry_at = Some(self.now + self.config.retry_ns);
            }
        }
        self.retry_blocked();
    }

    /// All ranges are home: before the region may be used again, they must be so durably, and recovery must know.
    fn settle(&mut self) {
        let Some(current) = &mut self.flush.current else { return };
        debug_assert!(
            self.regions.get(current.generation).is_none_or(|region| region.dirty_bytes() == 0),
            "the walk left something behind"
        );
        current.step = Step::Settle;
        self.emit(Purpose::SyncFlushed, |token| Effect::SyncDisk { token });
    }

    pub(super) fn on_flush_synced(&mut self, result: Result<(), Errno>) {
        let Some(current) = &mut self.flush.current else { return };
        if result.is_err() {
            // What the disk was given may be lost, and a later sync would not tell: all of it goes home again.
            current.cursor = (Ino(0), 0);
            let generation = current.generation;
            if let Some(region) = self.regions.get_mut(generation) {
                region.mark_dirty();
            }
            return self.settle_later();
        }
        let note = Note::Emptied(current.generation);
        self.emit(Purpose::NoteEmptied, |token| Effect::Note { token, note });
    }

    pub(super) fn on_emptied_noted(&mut self, result: Result<(), Errno>) {
        if result.is_err() {
            return self.settle_later();
        }
        if let Some(current) = &mut self.flush.current {
            current.step = Step::Unread;
            // From now on the disk answers, so that no end of reads keeps the region.
            self.regions.forget(current.generation);
        }
        self.empty_if_unread();
    }

    fn settle_later(&mut self) {
        if let Some(current) = &mut self.flush.current {
            current.step = Step::Walk;
            self.flush.retry_at = Some(self.now + self.config.retry_ns);
        }
    }

    /// Empties the region whose flush is settled, if no read is under way in it.
    pub(super) fn empty_if_unread(&mut self) {
        let Some(current) = self.flush.current.as_ref().filter(|current| current.step == Step::Unread) else { return };
        let generation = current.generation;
        if self.regions.get(generation).is_some_and(|region| region.reads > 0) {
            return;
        }
        let report = FlushReport { generation, from: current.from, to: self.now, rested_ns: current.rested_ns, bytes: current.bytes };
        self.counters.flush(report);
        self.flush.current = None;
        self.regions.empty(generation);
        self.divide_anew();
        self.retry_roomless();
    }

    fn answer_drains(&mut self) {
        while let Some((call, upto)) = self.drains.front().copied() {
            let is_home = self.regions.iter().all(|region| region.state() == RegionState::Empty || region.generation() > upto);
            if !is_home {
                return;
            }
            self.drains.pop_front();
            // What went to the disk directly must be durable, too.
            self.open.insert(call, Open { effects: 1, result: Ok(()) });
            self.emit(Purpose::Sync { call }, |token| Effect::SyncDisk { token });
        }
    }
}

/// The next dirty bytes of a region from the cursor on: adjacent pieces as one range.
fn next_range(region: &Region, cursor: (Ino, u64), bytes_max: u64) -> Option<(FileRange, Vec<SsdPart>)> {
    for (file, map) in region.files().range(cursor.0..) {
        let from = if *file == cursor.0 { cursor.1 } else { 0 };
        let Some(first) = map.first_dirty(from) else { continue };
        let mut range = FileRange { file: *file, offset: first.offset, len: 0 };
        let mut parts = Vec::new();
        for piece in map.overlapping(first.offset..first.offset.saturating_add(bytes_max)) {
            if piece.offset != range.end() || !piece.dirty {
                break;
            }
            range.len += u64::from(piece.len);
            parts.push(SsdPart { at: region.at(&piece), len: u64::from(piece.len), offset: piece.offset });
        }
        return Some((range, parts));
    }
    None
}
