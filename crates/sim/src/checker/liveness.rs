//! Every request is answered, and none fails because of the buffer.

use std::collections::BTreeMap;

use forebay_core::errno::Errno;
use forebay_core::id::CallId;
use forebay_core::message::Request;
use forebay_core::time::Time;

/// How long a request may take while nothing fails, ns. Far above what the slowest scenario needs.
const ANSWER_NS_MAX: u64 = 600_000_000_000;

/// Open requests, and what has failed meanwhile.
#[derive(Debug, Default)]
pub struct Liveness {
    open: BTreeMap<CallId, (Time, Request)>,
    healthy_since: Time,
    home_errors: BTreeMap<i32, Time>,
    home_fault_at: Option<Time>,
    log_has_failed: bool,
}

impl Liveness {
    /// A request begins.
    pub fn asked(&mut self, now: Time, call: CallId, request: &Request) {
        self.open.insert(call, (now, request.clone()));
    }

    /// A request ends. Gives when it began.
    pub fn answered(&mut self, call: CallId) -> Option<(Time, Request)> {
        self.open.remove(&call)
    }

    /// The process has died.
    pub fn crashed(&mut self, now: Time) {
        self.open.clear();
        self.log_has_failed = false;
        self.healthy_since = now;
    }

    /// Another process goes on with what was asked.
    pub fn taken_over(&mut self, now: Time) {
        self.open.values_mut().for_each(|(since, _)| *since = now);
        self.healthy_since = now;
    }

    /// An effect at home failed; a request may show it if it needed to read home.
    pub fn home_failed(&mut self, now: Time, errno: Errno, is_read: bool) {
        self.home_fault_at = Some(now);
        self.healthy_since = now;
        if is_read {
            self.home_errors.insert(errno.0, now);
        }
    }

    /// An effect of the log or the journal failed.
    pub fn log_failed(&mut self) {
        self.log_has_failed = true;
    }

    /// Home answers late.
    pub fn stalled(&mut self, until: Time) {
        self.healthy_since = self.healthy_since.max(until);
    }

    /// Whether the log has failed since the start of the process.
    pub fn log_has_failed(&self) -> bool {
        self.log_has_failed
    }

    /// Whether something at home failed since `then`.
    pub fn home_failed_since(&self, then: Time) -> bool {
        self.home_fault_at.is_some_and(|at| at >= then)
    }

    /// Whether a request that began at `since` may fail with `errno`: if home said so when it was read, or the log has failed.
    pub fn may_fail(&self, since: Time, errno: Errno) -> bool {
        self.log_has_failed || self.home_errors.get(&errno.0).is_some_and(|at| *at >= since)
    }

    /// A request that should have been answered.
    pub fn overdue(&self, now: Time) -> Option<String> {
        self.open.iter().find_map(|(call, (since, request))| {
            let waited_ns = now.since_ns((*since).max(self.healthy_since));
            (waited_ns > ANSWER_NS_MAX).then(|| format!("{call:?} {request:?} has waited for {} s", waited_ns / 1_000_000_000))
        })
    }

    /// A request has waited for long, whatever has failed meanwhile.
    pub fn waits_for_long(&self, now: Time) -> bool {
        self.open.values().any(|(since, _)| now.since_ns(*since) > ANSWER_NS_MAX)
    }

    /// Nothing more will happen; requests that are open will never be answered.
    pub fn deadlock(&self) -> Option<String> {
        let open: Vec<_> = self.open.iter().map(|(call, (_, request))| format!("{call:?} {request:?}")).collect();
        if open.is_empty() { None } else { Some(format!("nothing more will happen, but these are open: {}", open.join("; "))) }
    }
}
