//! Idle write-back (I-14): whatever is dirty goes home in quiet periods, and when a writer needs the room.
//!
//! Source: iBridge, II-B and III-A, which leaves open what quiet means: here, no request of a client for `idle_ns`. It is wrong when
//! clients never rest: then each new item has to wait until an old one is home.

use super::{FlushPlan, FlushPolicy, FlushView};

/// See the head of this file.
pub struct Idle {
    idle_ns: u64,
}

impl Idle {
    /// It is quiet after so long without a request of a client, ns.
    pub fn new(idle_ns: u64) -> Self {
        Idle { idle_ns }
    }
}

impl FlushPolicy for Idle {
    fn plan(&mut self, view: &FlushView) -> FlushPlan {
        if view.dirty_bytes == 0 {
            return FlushPlan::Rest(None);
        }
        if view.writer_waits {
            return FlushPlan::Flush;
        }
        match view.clients_quiet(self.idle_ns) {
            Ok(()) => FlushPlan::Flush,
            Err(until) => FlushPlan::Rest(until),
        }
    }
}
