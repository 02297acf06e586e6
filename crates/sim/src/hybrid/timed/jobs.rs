//! Programs in a closed loop.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::sync::Arc;

use forebay_core::policy::Operation;
use forebay_trace::Op;

use super::JobTime;
use crate::rng::Rng;
use crate::workload::{Program, Step, Steps};

/// One parallel program at work: a process for each of its tasks.
#[derive(Clone)]
pub struct Job {
    /// What its processes do. Phases do not wait for each other.
    pub program: Arc<dyn Program>,
    /// The number of its first file; files have numbers from 0.
    pub file: u64,
    /// Room on the disks for each of its files, bytes.
    pub file_bytes: u64,
    /// How many requests a process may be ahead of the slowest one; 0 is a barrier after each.
    pub skew: u64,
    /// What a process does before each of its requests but the first, ns.
    pub client_ns: u64,
    /// The longest pause of a process beside that, ns; it draws one.
    pub pause_ns_max: u64,
    /// It begins so long after the job with this number has ended; `None`: at once.
    pub after: Option<(usize, u64)>,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Job { file, skew, pause_ns_max, after, .. } = self;
        write!(f, "{} over file {file}, skew {skew}, pauses up to {pause_ns_max} ns, after {after:?}", self.program.name())
    }
}

impl Job {
    /// A program over one file that begins at once: processes drift apart by up to three requests.
    pub fn new(program: impl Program + 'static, file: u64, file_bytes: u64) -> Job {
        Job { program: Arc::new(program), file, file_bytes, skew: 3, client_ns: 0, pause_ns_max: 0, after: None }
    }
}

/// A request of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ProcessRequest {
    pub(super) file: u64,
    pub(super) operation: Operation,
    pub(super) offset: u64,
    pub(super) len: u64,
}

struct Process {
    job: usize,
    steps: Peekable<Steps>,
    sent: u64,
    answered: u64,
    /// It may not send before the slowest of its job has caught up.
    waits: bool,
}

struct JobState {
    job: Job,
    first: u32,
    processes: u32,
    /// How many processes that have not ended have had so many answers, from the fewest on.
    fewest: u64,
    at: VecDeque<u32>,
    /// Processes that have not ended.
    left: u32,
    time: JobTime,
    has_begun: bool,
}

/// Programs that run at once, or after each other.
pub struct Jobs {
    jobs: Vec<JobState>,
    processes: Vec<Process>,
    rng: Rng,
}

impl Jobs {
    /// Programs before their first request.
    pub fn new(jobs: Vec<Job>, seed: u64) -> Jobs {
        let (mut states, mut processes) = (Vec::new(), Vec::new());
        for (number, job) in jobs.into_iter().enumerate() {
            let first = processes.len() as u32;
            let ranks = job.program.tasks(0);
            let mut left = 0;
            for rank in 0..ranks {
                let program = Arc::clone(&job.program);
                let steps = (0..program.phases()).flat_map(move |phase| program.steps(phase, rank));
                let mut steps = (Box::new(steps) as Steps).peekable();
                left += u32::from(steps.peek().is_some());
                processes.push(Process { job: number, steps, sent: 0, answered: 0, waits: false });
            }
            let (processes, at) = (ranks as u32, [left].into());
            states.push(JobState { job, first, processes, fewest: 0, at, left, time: JobTime::default(), has_begun: false });
        }
        Jobs { jobs: states, processes, rng: Rng::new(seed) }
    }

    pub(super) fn processes(&self) -> u32 {
        self.processes.len() as u32
    }

    /// Where each file begins on a server's disk: one behind the other.
    pub(super) fn places(&self, servers: u64, stripe_bytes: u64) -> Vec<u64> {
        let files = self.jobs.iter().map(|state| state.job.file).max().map_or(0, |file| file + 1);
        let mut next = 0;
        let bytes_of = |file| self.jobs.iter().filter(|state| state.job.file == file).map(|state| state.job.file_bytes).max().unwrap_or(0);
        let place = |file| {
            let place = next;
            next += bytes_of(file).div_ceil(stripe_bytes * servers) * stripe_bytes;
            place
        };
        (0..files).map(place).collect()
    }

    /// When each job ran.
    pub fn times(&self) -> Vec<JobTime> {
        self.jobs.iter().map(|state| state.time).collect()
    }

    /// Whether every request is answered.
    pub(super) fn are_done(&self) -> bool {
        self.jobs.iter().all(|state| state.left == 0)
    }

    pub(super) fn next(&mut self, process: u32, now_ns: u64) -> Option<ProcessRequest> {
        let this = &mut self.processes[process as usize];
        let state = &mut self.jobs[this.job];
        if state.job.after.is_some() && !state.has_begun {
            return None;
        }
        if this.sent > this.answered || this.steps.peek().is_none() {
            return None;
        }
        if this.sent > state.fewest + state.job.skew {
            this.waits = true;
            return None;
        }
        if !state.has_begun {
            (state.has_begun, state.time.from_ns) = (true, now_ns);
        }
        let Step { op, file, offset, size, .. } = this.steps.next()?;
        this.sent += 1;
        state.time.bytes += size;
        state.time.requests += 1;
        let operation = if op == Op::Write { Operation::Write } else { Operation::Read };
        Some(ProcessRequest { file: state.job.file + file, operation, offset, len: size })
    }

    /// A process has its answer. Gives those that may send now, and when.
    pub(super) fn on_answer(&mut self, process: u32, now_ns: u64) -> Vec<(u32, u64)> {
        let this = &mut self.processes[process as usize];
        let number = this.job;
        let state = &mut self.jobs[number];
        let place = (this.answered - state.fewest) as usize;
        this.answered += 1;
        state.at[place] -= 1;
        state.time.to_ns = now_ns;
        let mut may_send = Vec::new();
        if let Some(next) = this.steps.peek() {
            if state.at.len() == place + 1 {
                state.at.push_back(0);
            }
            state.at[place + 1] += 1;
            may_send.push((process, now_ns + next.think_ns + state.job.client_ns + self.rng.below(state.job.pause_ns_max + 1)));
        } else {
            state.left -= 1;
        }
        let fewest_before = state.fewest;
        while state.at.len() > 1 && state.at[0] == 0 {
            state.at.pop_front();
            state.fewest += 1;
        }
        if state.fewest > fewest_before {
            for waiting in state.first..state.first + state.processes {
                if std::mem::take(&mut self.processes[waiting as usize].waits) {
                    may_send.push((waiting, now_ns));
                }
            }
        }
        if self.jobs[number].left == 0 {
            self.begin_after(number, now_ns, &mut may_send);
        }
        may_send
    }

    fn begin_after(&mut self, ended: usize, now_ns: u64, may_send: &mut Vec<(u32, u64)>) {
        for state in &mut self.jobs {
            if let Some((_, gap_ns)) = state.job.after.filter(|(before, _)| *before == ended) {
                (state.has_begun, state.time.from_ns) = (true, now_ns + gap_ns);
                may_send.extend((state.first..state.first + state.processes).map(|process| (process, now_ns + gap_ns)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Ior, Pattern};

    /// W-01: nobody is further ahead of the slowest one than the skew allows, and everybody comes to the end.
    #[test]
    fn processes_drift_apart_by_the_skew_at_most() {
        for skew in [0, 1, 3] {
            let ior = Ior { bytes: 40 * 10, request_bytes: 10, ..Ior::of_ssdup_plus(Pattern::Strided, 4, 0, 1) };
            let mut jobs = Jobs::new(vec![Job { skew, ..Job::new(ior, 0, 400) }], 1);
            // The first process is answered whenever it can be, the others one after the other.
            let mut sent = [0u64; 4];
            let mut furthest = 0;
            while !jobs.are_done() {
                for process in [0, 0, 0, 0, 0, 1, 2, 3] {
                    if jobs.next(process, 0).is_some() {
                        sent[process as usize] += 1;
                        jobs.on_answer(process, 0);
                        furthest = furthest.max(sent[0] - sent[3]);
                    }
                }
            }
            assert_eq!((sent, furthest), ([10; 4], skew + 1));
        }
    }
}
