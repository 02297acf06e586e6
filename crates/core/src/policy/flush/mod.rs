//! Flush: when is the SSD emptied?
//!
//! One file per algorithm. A policy is asked before each piece of a flush, so that a flush can rest in the middle. It decides about
//! time only; what is flushed, and in which order, is the machine's.

mod idle;
mod immediate;
mod pipeline;
mod spare;
#[cfg(test)]
mod tests;
mod traffic_aware;
mod watermarks;

use alloc::boxed::Box;

pub use idle::Idle;
pub use immediate::Immediate;
pub use pipeline::Pipeline;
pub use spare::SpareTime;
pub use traffic_aware::TrafficAware;
pub use watermarks::DirtyMarks;

use super::{Share, Target};
use crate::time::Time;

/// What a flush policy may know of the I/O node.
#[derive(Clone, Copy, Debug)]
pub struct FlushView {
    /// Now.
    pub now: Time,
    /// Which device the writes of now go to ([`super::admission::Admission::traffic`]).
    pub traffic: Target,
    /// Requests of clients that the disk has not finished.
    pub disk_requests: u64,
    /// When the disk last took or finished a request of a client; `None`: never.
    pub disk_used: Option<Time>,
    /// When a client last asked for anything, or got its answer; `None`: never.
    pub client_active: Option<Time>,
    /// Requests of clients that are not answered.
    pub client_requests: u64,
    /// A write waits for room on the SSD.
    pub writer_waits: bool,
    /// A region (or all that there is) is full and to be flushed.
    pub has_full_region: bool,
    /// Bytes on the SSD that are not home, and what it could hold.
    pub dirty_bytes: u64,
    /// What the SSD can hold, bytes.
    pub capacity_bytes: u64,
    /// Everything is to go home, come what may.
    pub is_draining: bool,
}

impl FlushView {
    /// Whether no request of a client has been at the disk for so long; if not, when that may be the case at the earliest, unless an
    /// event comes before.
    fn disk_idle(&self, idle_ns: u64) -> Result<(), Option<Time>> {
        quiet(self.now, self.disk_requests, self.disk_used, idle_ns)
    }

    /// Whether no client has asked for anything for so long; if not, when that may be the case.
    fn clients_quiet(&self, idle_ns: u64) -> Result<(), Option<Time>> {
        quiet(self.now, self.client_requests, self.client_active, idle_ns)
    }
}

fn quiet(now: Time, requests: u64, last: Option<Time>, idle_ns: u64) -> Result<(), Option<Time>> {
    match last {
        _ if requests > 0 => Err(None),
        Some(last) if now.since_ns(last) < idle_ns => Err(Some(last + idle_ns)),
        _ => Ok(()),
    }
}

/// What the flush does now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushPlan {
    /// The next piece goes home.
    Flush,
    /// Nothing goes home. Ask again when something has happened, and at this time, if there is one.
    Rest(Option<Time>),
}

/// A flush policy: asked before each piece, and whenever something that it looks at has changed.
pub trait FlushPolicy: Send {
    /// Does the next piece go home now? A node that drains does not ask.
    fn plan(&mut self, view: &FlushView) -> FlushPlan;
}

/// A flush policy and its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushConfig {
    /// S-08: full regions, at once and without a rest.
    Immediate,
    /// P-04: full regions, when the disk has nothing better to do.
    TrafficAware {
        /// The disk counts as idle after so long without a request, ns.
        idle_ns: u64,
    },
    /// I-14: anything dirty, in quiet periods.
    Idle {
        /// It is quiet after so long without a request, ns.
        idle_ns: u64,
    },
    /// Full regions, while no client waits for the disk.
    SpareTime,
    /// Anything dirty, from a high mark down to a low one.
    Watermarks {
        /// It begins above this share of the capacity.
        high: Share,
        /// It ends at this one.
        low: Share,
    },
}

/// What the papers' programs take for idle: SSDUP+'s looks at the disk once a millisecond; iBridge gives none.
pub const IDLE_NS: u64 = 10_000_000;

impl FlushConfig {
    /// The policy.
    pub fn build(self) -> Box<dyn FlushPolicy> {
        match self {
            FlushConfig::Immediate => Box::new(Immediate),
            FlushConfig::TrafficAware { idle_ns } => Box::new(TrafficAware::new(idle_ns)),
            FlushConfig::Idle { idle_ns } => Box::new(Idle::new(idle_ns)),
            FlushConfig::SpareTime => Box::new(SpareTime),
            FlushConfig::Watermarks { high, low } => Box::new(DirtyMarks::new(high, low)),
        }
    }
}
