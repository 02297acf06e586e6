//! Which bytes may a read show?
//!
//! Each byte of a file is a register. A version of it (a write) may be shown until something is known to have come after it: a write
//! that was asked for after this one had ended, and has been answered; or a read that showed another version, and was asked for after
//! this one had ended. Whoever asks after that was known must not be shown it any more.
//!
//! A write that was answered with an error may have happened in part, and may come to light at any time until its bytes are written again.
//!
//! A write that was not answered before a crash may have happened or not: it ends with the crash, and hides nothing. After a loss of
//! power only what a sync has covered hides anything.

use std::collections::BTreeMap;

/// Says which write a byte comes from; 0: none.
pub type Stamp = u32;

/// A time that has not come.
const NEVER: u64 = u64::MAX;

#[derive(Clone, Debug)]
struct Write {
    start: u64,
    end: u64,
    answered: bool,
    failed: bool,
    synced: bool,
}

#[derive(Clone, Debug)]
struct Version {
    stamp: Stamp,
    /// From here on it is known to be hidden.
    hidden_at: u64,
}

/// Everything that clients were told; see the head of this file.
#[derive(Clone, Debug)]
pub struct Oracle {
    writes: BTreeMap<Stamp, Write>,
    /// By file and offset.
    bytes: BTreeMap<(u64, u64), Vec<Version>>,
}

impl Default for Oracle {
    fn default() -> Self {
        Self::new()
    }
}

impl Oracle {
    /// Nothing was written.
    pub fn new() -> Oracle {
        let first = Write { start: 0, end: 0, answered: true, failed: false, synced: true };
        Oracle { writes: BTreeMap::from([(0, first)]), bytes: BTreeMap::new() }
    }

    fn versions(&mut self, file: u64, offset: u64) -> &mut Vec<Version> {
        self.bytes.entry((file, offset)).or_insert_with(|| vec![Version { stamp: 0, hidden_at: NEVER }])
    }

    /// A client asks for a write.
    pub fn write_begins(&mut self, now: u64, stamp: Stamp, file: u64, offsets: std::ops::Range<u64>) {
        self.writes.insert(stamp, Write { start: now, end: NEVER, answered: false, failed: false, synced: false });
        for offset in offsets {
            self.versions(file, offset).push(Version { stamp, hidden_at: NEVER });
        }
    }

    /// A write has been answered; `succeeded` is false if with an error: then it may have happened in part.
    pub fn write_ends(&mut self, now: u64, stamp: Stamp, succeeded: bool, file: u64, offsets: std::ops::Range<u64>) {
        let Some(write) = self.writes.get_mut(&stamp) else { return };
        (write.end, write.answered, write.failed) = (now, succeeded, !succeeded);
        if succeeded {
            let start = write.start;
            for offset in offsets {
                self.hide(file, offset, stamp, start, now, true);
            }
        }
    }

    /// From `now` on, whatever ended before `start` is hidden behind this version; what has failed, only if this is a write.
    fn hide(&mut self, file: u64, offset: u64, stamp: Stamp, start: u64, now: u64, by_write: bool) {
        let Oracle { writes, bytes } = self;
        for version in bytes.get_mut(&(file, offset)).into_iter().flatten() {
            let write = &writes[&version.stamp];
            if version.stamp != stamp && write.end < start && (by_write || !write.failed) {
                version.hidden_at = version.hidden_at.min(now);
            }
        }
    }

    /// A read that was asked for at `start` is answered with these stamps. Says what is wrong with them.
    pub fn read_ends(&mut self, start: u64, now: u64, file: u64, offset: u64, stamps: &[Stamp]) -> Result<(), String> {
        for (offset, stamp) in (offset..).zip(stamps) {
            self.check(start, now, file, offset, *stamp)?;
            self.hide(file, offset, *stamp, start, now, false);
        }
        Ok(())
    }

    /// Whether somebody who asked between `start` and `now` may be shown this version.
    pub fn check(&mut self, start: u64, now: u64, file: u64, offset: u64, stamp: Stamp) -> Result<(), String> {
        let Some(version) = self.versions(file, offset).iter().find(|version| version.stamp == stamp).cloned() else {
            return Err(format!("byte {offset} of file {file} shows write {stamp}, which was never there"));
        };
        let write = &self.writes[&stamp];
        if version.hidden_at < start || write.start > now {
            let all = &self.bytes[&(file, offset)];
            return Err(format!(
                "byte {offset} of file {file} shows write {stamp} ({write:?}) at {start}..{now}, hidden since {}: {all:?}",
                version.hidden_at
            ));
        }
        Ok(())
    }

    /// A sync that was asked for at `start` has been answered.
    pub fn sync_ends(&mut self, start: u64) {
        for write in self.writes.values_mut().filter(|write| write.answered && write.end < start) {
            write.synced = true;
        }
    }

    /// The process was killed: what was not answered ends here, done or not.
    pub fn crash(&mut self, now: u64) {
        for write in self.writes.values_mut().filter(|write| write.end == NEVER) {
            write.end = now;
        }
    }

    /// The power failed: only what was synced hides anything.
    pub fn power_loss(&mut self, now: u64) {
        self.crash(now);
        // What is not there any more cannot be synced later.
        self.writes.values_mut().filter(|write| !write.synced).for_each(|write| write.answered = false);
        let Oracle { writes, bytes } = self;
        for versions in bytes.values_mut() {
            let synced: Vec<u64> = versions.iter().filter(|v| writes[&v.stamp].synced).map(|v| writes[&v.stamp].start).collect();
            for version in versions {
                let end = writes[&version.stamp].end;
                version.hidden_at = if synced.iter().any(|start| end < *start) { now } else { NEVER };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(oracle: &mut Oracle, start: u64, now: u64, stamp: Stamp) -> bool {
        oracle.read_ends(start, now, 1, 0, &[stamp]).is_ok()
    }

    #[test]
    fn an_answered_write_hides_what_ended_before_it() {
        let mut oracle = Oracle::new();
        oracle.write_begins(10, 1, 1, 0..1);
        assert!(read(&mut oracle.clone(), 11, 12, 0) && read(&mut oracle.clone(), 11, 12, 1));
        oracle.write_ends(20, 1, true, 1, 0..1);
        assert!(!read(&mut oracle.clone(), 21, 22, 0) && read(&mut oracle.clone(), 15, 22, 0));
        assert!(read(&mut oracle, 21, 22, 1) && !read(&mut oracle, 21, 22, 9));
    }

    #[test]
    fn writes_at_the_same_time_may_come_in_either_order_but_not_in_both() {
        let mut oracle = Oracle::new();
        oracle.write_begins(10, 1, 1, 0..1);
        oracle.write_begins(11, 2, 1, 0..1);
        oracle.write_ends(20, 1, true, 1, 0..1);
        oracle.write_ends(21, 2, true, 1, 0..1);
        assert!(read(&mut oracle.clone(), 30, 31, 1) && read(&mut oracle.clone(), 30, 31, 2));
        assert!(read(&mut oracle, 30, 31, 1));
        assert!(!read(&mut oracle, 32, 33, 2), "the first read has seen that it came before");
    }

    #[test]
    fn a_crash_leaves_what_was_not_answered_open() {
        let mut oracle = Oracle::new();
        oracle.write_begins(10, 1, 1, 0..1);
        oracle.crash(15);
        assert!(read(&mut oracle.clone(), 20, 21, 0) && read(&mut oracle.clone(), 20, 21, 1));
        assert!(read(&mut oracle, 20, 21, 0));
        assert!(!read(&mut oracle, 22, 23, 1), "it did not happen");
    }

    #[test]
    fn a_failed_write_may_come_to_light_until_it_is_written_over() {
        let mut oracle = Oracle::new();
        oracle.write_begins(10, 1, 1, 0..1);
        oracle.write_ends(11, 1, false, 1, 0..1);
        assert!(read(&mut oracle, 20, 21, 0));
        assert!(read(&mut oracle.clone(), 22, 23, 1));
        oracle.write_begins(30, 2, 1, 0..1);
        oracle.write_ends(31, 2, true, 1, 0..1);
        assert!(!read(&mut oracle, 40, 41, 1));
    }

    #[test]
    fn a_loss_of_power_keeps_what_was_synced() {
        let mut oracle = Oracle::new();
        for (stamp, start) in [(1, 10), (2, 20)] {
            oracle.write_begins(start, stamp, 1, 0..1);
            oracle.write_ends(start + 1, stamp, true, 1, 0..1);
            if stamp == 1 {
                oracle.sync_ends(15);
            }
        }
        oracle.power_loss(30);
        assert!(!read(&mut oracle.clone(), 40, 41, 0));
        assert!(read(&mut oracle.clone(), 40, 41, 1) && read(&mut oracle.clone(), 40, 41, 2));
    }
}
