//! The test of striping magnification (W-07): requests over several servers, and one of those kept busy by somebody else.
//!
//! With `k` servers, a request of `k` stripes is on the servers 0 to `k - 1`; one kilobyte more is on server `k`, where a second program
//! reads at random. The whole request waits for that kilobyte.
//!
//! Request `r` of process `p` of `n` begins at `(r * n + p) * servers * unit`: each round of stripes is used by one request alone, so that
//! all begin at server 0. The second program reads `unit` bytes at `row * servers * unit + k * unit`, `row` drawn at random. How the file is
//! laid out is not printed; this is the choice that puts the last kilobyte where the paper says.

use forebay_trace::Op;

use super::{Program, Step, Steps};
use crate::rng::Rng;

/// The program that is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Magnification {
    /// Processes.
    pub processes: u64,
    /// Requests of each.
    pub requests: u64,
    /// Servers of the file system.
    pub servers: u64,
    /// Bytes of a stripe.
    pub unit_bytes: u64,
    /// Stripes of a request; fewer than there are servers.
    pub stripes: u64,
    /// Bytes of it on the next server: 0, or a fragment.
    pub fragment_bytes: u64,
}

impl Magnification {
    /// As iBridge runs it: 16 processes read over eight servers, stripes of 64 KiB, a fragment of 1 KiB or none.
    #[must_use]
    pub fn of_ibridge(stripes: u64, has_fragment: bool, requests: u64) -> Magnification {
        let fragment_bytes = if has_fragment { 1 << 10 } else { 0 };
        Magnification { processes: 16, requests, servers: 8, unit_bytes: 64 << 10, stripes, fragment_bytes }
    }

    /// Where a process goes with a request.
    #[must_use]
    pub fn offset(&self, process: u64, request: u64) -> u64 {
        (request * self.processes + process) * self.servers * self.unit_bytes
    }

    /// Bytes of a request.
    #[must_use]
    pub fn request_bytes(&self) -> u64 {
        self.stripes * self.unit_bytes + self.fragment_bytes
    }

    /// Bytes of the file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.offset(0, self.requests)
    }
}

impl Program for Magnification {
    fn name(&self) -> &str {
        "magnify"
    }

    fn phases(&self) -> usize {
        1
    }

    fn tasks(&self, _: usize) -> u64 {
        self.processes
    }

    fn steps(&self, _: usize, task: u64) -> Steps {
        let this = *self;
        let step =
            move |request| Step { think_ns: 0, op: Op::Read, file: 0, offset: this.offset(task, request), size: this.request_bytes() };
        Box::new((0..this.requests).map(step))
    }

    fn path(&self, _: u64) -> String {
        "magnify.in".into()
    }
}

/// The program that keeps one server busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OneServer {
    /// Processes.
    pub processes: u64,
    /// Requests of each.
    pub requests: u64,
    /// Servers of the file system.
    pub servers: u64,
    /// Bytes of a stripe, and of a request.
    pub unit_bytes: u64,
    /// The server.
    pub server: u64,
    /// Rounds of stripes in the file.
    pub rows: u64,
    /// Whether it goes through its stripes from front to back instead of at random.
    pub is_ordered: bool,
    /// Read or write.
    pub op: Op,
    /// Of the places.
    pub seed: u64,
}

impl OneServer {
    /// As iBridge runs it beside the other program: reads of 64 KiB at random, from server 0 of eight.
    #[must_use]
    pub fn reading_at_random(processes: u64, requests: u64, rows: u64) -> OneServer {
        let (servers, unit_bytes) = (8, 64 << 10);
        OneServer { processes, requests, servers, unit_bytes, server: 0, rows, is_ordered: false, op: Op::Read, seed: 1 }
    }
}

impl Program for OneServer {
    fn name(&self) -> &str {
        "one-server"
    }

    fn phases(&self) -> usize {
        1
    }

    fn tasks(&self, _: usize) -> u64 {
        self.processes
    }

    fn steps(&self, _: usize, task: u64) -> Steps {
        let this = *self;
        let mut rng = Rng::new(this.seed ^ (task << 32));
        Box::new((0..this.requests).map(move |request| {
            let row = if this.is_ordered { (task * this.requests + request) % this.rows } else { rng.below(this.rows) };
            let stripe = row * this.servers + this.server;
            Step { think_ns: 0, op: this.op, file: 0, offset: stripe * this.unit_bytes, size: this.unit_bytes }
        }))
    }

    fn path(&self, _: u64) -> String {
        "one-server.in".into()
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::id::ServerId;
    use forebay_core::layout::Striped;
    use forebay_core::policy::RequestClass;
    use forebay_core::policy::detector::FragmentRule;

    use super::*;

    /// The first `k` servers have a stripe of each request, the next one its kilobyte; the other program is on that server alone.
    #[test]
    fn the_last_kilobyte_is_on_the_busy_server() {
        let layout = Striped { base: ServerId(0), servers: 8, stripe_bytes: 64 << 10 };
        for stripes in 1..8 {
            for has_fragment in [false, true] {
                let program = Magnification::of_ibridge(stripes, has_fragment, 20);
                for step in program.steps(0, 5) {
                    let mut subs = Vec::new();
                    layout.split(step.offset, step.size, FragmentRule::default(), &mut subs);
                    let expected: Vec<u32> = (0..stripes as u32 + u32::from(has_fragment)).collect();
                    assert_eq!(subs.iter().map(|sub| sub.server.0).collect::<Vec<_>>(), expected);
                    let fragments: Vec<_> = subs.iter().filter(|sub| sub.class == RequestClass::Fragment).map(|sub| sub.len).collect();
                    assert_eq!(fragments, if has_fragment { vec![1024] } else { vec![] });
                }
            }
            let busy = OneServer { server: stripes, ..OneServer::reading_at_random(2, 50, 100) };
            for step in busy.steps(0, 1) {
                assert_eq!(layout.place(step.offset).0, ServerId(stripes as u32));
                assert!(step.offset + step.size <= 100 * 8 * (64 << 10));
            }
        }
    }
}
