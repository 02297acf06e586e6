//! Processes in a closed loop.

use forebay_core::policy::Operation;

use super::JobTime;
use crate::rng::Rng;

/// Where a process goes with its requests (W-01).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Each process has its segment of the file, from front to back.
    Contiguous,
    /// All processes go through the file together, one request beside the other.
    Strided,
    /// Each process has its segment, in random order.
    Random,
}

/// One parallel program: processes that write or read one file.
#[derive(Clone, Debug)]
pub struct Job {
    /// Which file; files have numbers from 0.
    pub file: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Processes.
    pub processes: u32,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// In which order.
    pub pattern: Pattern,
    /// Read or write.
    pub operation: Operation,
    /// How many requests a process may be ahead of the slowest one.
    pub skew: u64,
    /// The longest pause of a process between two requests, ns; it draws one.
    pub pause_ns_max: u64,
    /// It begins so long after the job with this number has ended; `None`: at once.
    pub after: Option<(usize, u64)>,
}

impl Job {
    /// Requests of each process.
    pub fn requests(&self) -> u64 {
        self.file_bytes / u64::from(self.processes) / self.request_bytes
    }

    /// Where a process goes with its request of this number.
    pub fn offset(&self, process: u32, request: u64) -> u64 {
        let (requests, process) = (self.requests(), u64::from(process));
        match self.pattern {
            Pattern::Contiguous => (process * requests + request) * self.request_bytes,
            Pattern::Strided => (request * u64::from(self.processes) + process) * self.request_bytes,
            Pattern::Random => (process * requests + permuted(request, requests, self.file ^ (process << 20))) * self.request_bytes,
        }
    }
}

/// The number at a place of a random order of the numbers below `count`, without a list of them: a cipher of four rounds on as many
/// bits as the numbers have, walked until it comes out below `count`.
fn permuted(at: u64, count: u64, seed: u64) -> u64 {
    let half_bits = (64 - count.saturating_sub(1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1u64 << half_bits) - 1;
    let mut at = at;
    loop {
        let (mut left, mut right) = (at >> half_bits, at & mask);
        for round in 0..4u64 {
            let mixed = crate::rng::mix(right ^ crate::rng::mix(seed ^ (round << 32)));
            (left, right) = (right, left ^ (mixed & mask));
        }
        at = left << half_bits | right;
        if at < count {
            return at;
        }
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

#[derive(Clone, Debug)]
struct Process {
    job: usize,
    rank: u32,
    sent: u64,
    answered: u64,
    /// It may not send before the slowest of its job has caught up.
    waits: bool,
}

#[derive(Clone, Debug)]
struct JobState {
    job: Job,
    first: u32,
    /// How many processes have had so many answers, from the fewest on.
    fewest: u64,
    at: std::collections::VecDeque<u32>,
    left: u64,
    time: JobTime,
    has_begun: bool,
}

/// Programs that run at once, or after each other.
#[derive(Clone, Debug)]
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
            processes.extend((0..job.processes).map(|rank| Process { job: number, rank, sent: 0, answered: 0, waits: false }));
            let (left, at) = (job.requests() * u64::from(job.processes), [job.processes].into());
            states.push(JobState { job, first, fewest: 0, at, left, time: JobTime::default(), has_begun: false });
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
        if this.sent == state.job.requests() || this.sent > this.answered {
            return None;
        }
        if this.sent > state.fewest + state.job.skew {
            this.waits = true;
            return None;
        }
        if !state.has_begun {
            (state.has_begun, state.time.from_ns) = (true, now_ns);
        }
        let offset = state.job.offset(this.rank, this.sent);
        this.sent += 1;
        state.time.bytes += state.job.request_bytes;
        Some(ProcessRequest { file: state.job.file, operation: state.job.operation, offset, len: state.job.request_bytes })
    }

    /// A process has its answer. Gives those that may send now, and when.
    pub(super) fn on_answer(&mut self, process: u32, now_ns: u64) -> Vec<(u32, u64)> {
        let this = &mut self.processes[process as usize];
        let number = this.job;
        let state = &mut self.jobs[number];
        let place = (this.answered - state.fewest) as usize;
        this.answered += 1;
        state.at[place] -= 1;
        if state.at.len() == place + 1 {
            state.at.push_back(0);
        }
        state.at[place + 1] += 1;
        state.left -= 1;
        state.time.to_ns = now_ns;
        let mut may_send = vec![(process, now_ns + self.rng.below(state.job.pause_ns_max + 1))];
        let fewest_before = state.fewest;
        while state.at.len() > 1 && state.at[0] == 0 {
            state.at.pop_front();
            state.fewest += 1;
        }
        if state.fewest > fewest_before {
            for waiting in state.first..state.first + state.job.processes {
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
                may_send.extend((state.first..state.first + state.job.processes).map(|process| (process, now_ns + gap_ns)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_gives_every_number_once() {
        for count in [1, 2, 3, 64, 100, 1000] {
            let mut all: Vec<u64> = (0..count).map(|at| permuted(at, count, 7)).collect();
            assert!(count < 10 || all.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count() < count as usize / 4);
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    /// W-01: each pattern covers the file once.
    #[test]
    fn patterns_cover_the_file() {
        for pattern in [Pattern::Contiguous, Pattern::Strided, Pattern::Random] {
            let job = Job {
                file: 0,
                file_bytes: 64 * 256,
                processes: 8,
                request_bytes: 256,
                pattern,
                operation: Operation::Write,
                skew: 0,
                pause_ns_max: 0,
                after: None,
            };
            let mut all: Vec<u64> = (0..8).flat_map(|p| (0..job.requests()).map(move |r| (p, r))).map(|(p, r)| job.offset(p, r)).collect();
            all.sort_unstable();
            assert_eq!(all, (0..64).map(|block| block * 256).collect::<Vec<_>>(), "{pattern:?}");
        }
    }
}
