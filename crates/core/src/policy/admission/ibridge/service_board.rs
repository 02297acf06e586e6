//! The exchange of service times (I-06): servers report, the board tells all of them what it knows.
//!
//! The board stands with the metadata server. A value stays until its server reports another, so that one which has gone silent is
//! remembered as it was.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::id::ServerId;

/// How often servers report and the board tells, ns.
pub const EXCHANGE_NS: u64 = 1_000_000_000;

/// The last service time of each server.
#[derive(Clone, Debug, Default)]
pub struct ServiceBoard {
    times: BTreeMap<ServerId, u64>,
}

impl ServiceBoard {
    /// Nobody has reported.
    pub fn new() -> Self {
        Self::default()
    }

    /// A server says how long its disk takes, ns.
    pub fn on_report(&mut self, server: ServerId, service_ns: u64) {
        self.times.insert(server, service_ns);
    }

    /// What all servers are to be told.
    pub fn times(&self) -> Vec<(ServerId, u64)> {
        self.times.iter().map(|(server, ns)| (*server, *ns)).collect()
    }
}
