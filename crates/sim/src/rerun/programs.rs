//! When programs ask: each operation so long after what it waited for as in the trace.
//!
//! A thread does one operation after the other. One that had other threads begin and end since its last operation has waited for them, as a shell
//! does; a thread's first operation comes after whatever ended last before it.

use std::collections::{BTreeSet, HashMap};

use forebay_trace::{ProcessId, Record};

const NONE: u32 = u32::MAX;

/// The operations of a trace, and what each waits for.
pub(super) struct Programs {
    /// How long after what it waited for each began, ns.
    thinks_ns: Vec<u64>,
    /// What waits for each.
    followers: Vec<Vec<u32>>,
    due: BTreeSet<(u64, usize)>,
}

impl Programs {
    pub(super) fn new(records: &[Record]) -> Programs {
        let mut programs = Programs { thinks_ns: vec![0; records.len()], followers: vec![Vec::new(); records.len()], due: BTreeSet::new() };
        let causes = causes(records);
        for (at, record) in records.iter().enumerate() {
            match causes[at] {
                NONE => {
                    programs.due.insert((record.start_ns, at));
                }
                cause => {
                    programs.thinks_ns[at] = record.start_ns.saturating_sub(records[cause as usize].end_ns());
                    programs.followers[cause as usize].push(at as u32);
                }
            }
        }
        programs
    }

    /// The next operation, and when.
    pub(super) fn next_due(&self) -> Option<(u64, usize)> {
        self.due.first().copied()
    }

    /// It has begun.
    pub(super) fn begin(&mut self, record: usize) {
        if self.next_due().is_some_and(|(_, first)| first == record) {
            self.due.pop_first();
        }
    }

    /// It has ended.
    pub(super) fn end(&mut self, record: usize, now_ns: u64) {
        for follower in std::mem::take(&mut self.followers[record]) {
            self.due.insert((now_ns + self.thinks_ns[follower as usize], follower as usize));
        }
    }
}

/// What each operation waited for.
fn causes(records: &[Record]) -> Vec<u32> {
    struct Thread {
        first_ns: u64,
        last: u32,
        last_end_ns: u64,
    }
    let mut lives: HashMap<ProcessId, Thread> = HashMap::new();
    for (at, record) in records.iter().enumerate() {
        let life = lives.entry(record.process).or_insert(Thread { first_ns: record.start_ns, last: at as u32, last_end_ns: 0 });
        life.last = at as u32;
        life.last_end_ns = life.last_end_ns.max(record.end_ns());
    }
    // Threads by their end, so that those which ended within a pause are found.
    let mut ends: Vec<(u64, u64, u32)> = lives.values().map(|life| (life.last_end_ns, life.first_ns, life.last)).collect();
    ends.sort_unstable();
    let mut last_of: HashMap<ProcessId, usize> = HashMap::new();
    let mut causes = vec![NONE; records.len()];
    let mut by_end: Vec<(u64, u32)> = records.iter().enumerate().map(|(at, record)| (record.end_ns(), at as u32)).collect();
    by_end.sort_unstable();
    let before = |sorted: &[(u64, u32)], ns: u64| {
        let at = sorted.partition_point(|(end_ns, _)| *end_ns <= ns);
        at.checked_sub(1).map(|at| sorted[at].1)
    };
    for (at, record) in records.iter().enumerate() {
        causes[at] = match last_of.get(&record.process) {
            Some(own) => {
                let own_end_ns = records[*own].end_ns();
                let upto = ends.partition_point(|(end_ns, ..)| *end_ns <= record.start_ns);
                let within = ends[..upto].iter().rev().take_while(|(end_ns, ..)| *end_ns > own_end_ns);
                within.clone().find(|(_, first_ns, _)| *first_ns >= own_end_ns).map_or(*own as u32, |(_, _, last)| *last)
            }
            None => before(&by_end, record.start_ns).unwrap_or(NONE),
        };
        // Only what comes before in the order of the trace can have been waited for.
        if causes[at] != NONE && causes[at] as usize >= at {
            causes[at] = last_of.get(&record.process).map_or(NONE, |own| *own as u32);
        }
        last_of.insert(record.process, at);
    }
    causes
}
