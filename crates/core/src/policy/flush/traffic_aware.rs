//! Traffic-aware flush (P-04): a full region waits while the writes of clients go to the disk.
//!
//! It is flushed while they go to the SSD, when the disk has been idle for a while, and when it must: a writer waits for room, which
//! there is none of before a region is empty.
//!
//! Source: SSDUP+, 2.4.2 and 4.2.3; the paper does not speak of the last two, without which a flush at the end of a job would never
//! come and two full regions would stop everything. It is wrong when the traffic changes with each stream: then it rests and goes on for
//! too short a time to win anything.

use super::{FlushPlan, FlushPolicy, FlushView};
use crate::policy::Target;

/// See the head of this file.
pub struct TrafficAware {
    idle_ns: u64,
}

impl TrafficAware {
    /// The disk counts as idle after so long without a request of a client, ns.
    pub fn new(idle_ns: u64) -> Self {
        TrafficAware { idle_ns }
    }
}

impl FlushPolicy for TrafficAware {
    fn plan(&mut self, view: &FlushView) -> FlushPlan {
        if !view.has_full_region {
            return FlushPlan::Rest(None);
        }
        if view.traffic == Target::Ssd || view.writer_waits {
            return FlushPlan::Flush;
        }
        match view.disk_idle(self.idle_ns) {
            Ok(()) => FlushPlan::Flush,
            Err(until) => FlushPlan::Rest(until),
        }
    }
}
