//! Threads for what may take long: work at home, spills and syncs.
//!
//! Home and log have threads of their own, so that a home that stalls does not keep memory from being spilled. Of the home threads
//! some take only what a caller waits for (listings, attributes, reads), so that write-back cannot occupy them all.

use crossbeam_channel::{Receiver, Sender, never, select_biased, unbounded};
use forebay_core::effect::Effect;

use super::state::Job;

/// Who carries out a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lane {
    /// Work on the log and on fetched bytes.
    Log,
    /// Work at home that a caller waits for.
    Foreground,
    /// Other work at home.
    Background,
}

impl Lane {
    fn of(effect: &Effect) -> Lane {
        match effect {
            Effect::ListHome { .. }
            | Effect::StatHome { .. }
            | Effect::ReadLinkHome { .. }
            | Effect::StatFsHome { .. }
            | Effect::XattrsHome { .. }
            | Effect::SeekHome { .. }
            | Effect::ReadHome { .. } => Lane::Foreground,
            Effect::WriteHome { .. }
            | Effect::CompareHome { .. }
            | Effect::CompareZerosHome { .. }
            | Effect::SyncHome { .. }
            | Effect::ChangeHome { .. }
            | Effect::ForgetHome { .. }
            | Effect::PruneClients { .. } => Lane::Background,
            _ => Lane::Log,
        }
    }
}

/// The queues. Their lengths are bounded by the machine's limits on effects in flight.
pub(super) struct Queues {
    log: (Sender<Job>, Receiver<Job>),
    foreground: (Sender<Job>, Receiver<Job>),
    background: (Sender<Job>, Receiver<Job>),
}

impl Queues {
    pub(super) fn new() -> Queues {
        Queues { log: unbounded(), foreground: unbounded(), background: unbounded() }
    }

    pub(super) fn send(&self, job: Job) {
        let queue = match Lane::of(&job.effect) {
            Lane::Log => &self.log,
            Lane::Foreground => &self.foreground,
            Lane::Background => &self.background,
        };
        // Both ends live in this struct, so that the queue cannot be closed.
        let _ = queue.0.send(job);
    }

    /// What a thread takes its jobs from, in the order of preference.
    pub(super) fn source(&self, lanes: &[Lane], stop: Receiver<()>) -> Source {
        let pick = |lane, queue: &(Sender<Job>, Receiver<Job>)| if lanes.contains(&lane) { queue.1.clone() } else { never() };
        Source {
            stop,
            log: pick(Lane::Log, &self.log),
            foreground: pick(Lane::Foreground, &self.foreground),
            background: pick(Lane::Background, &self.background),
        }
    }
}

/// Where a thread takes its jobs from.
pub(super) struct Source {
    stop: Receiver<()>,
    log: Receiver<Job>,
    foreground: Receiver<Job>,
    background: Receiver<Job>,
}

impl Source {
    /// The next job, waiting for it; `None` when the thread is to end.
    pub(super) fn next(&self) -> Option<Job> {
        select_biased! {
            recv(self.stop) -> _ => None,
            recv(self.log) -> job => job.ok(),
            recv(self.foreground) -> job => job.ok(),
            recv(self.background) -> job => job.ok(),
        }
    }
}
