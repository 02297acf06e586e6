//! A device of which only rates are known: of long streams, and of small requests at random places.
//!
//! What follows the request before it moves at the rate of streams. Anything else costs a fixed time in addition, so that requests of
//! the size that was measured come out at the rate that was measured. The time is the same for a neighbour and for the far end: seeks
//! are in no such table.

use forebay_core::policy::Operation;
use serde::{Deserialize, Serialize};

use super::{NS_PER_S, bytes_ns};

/// Rates of a device, bytes a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RateSpec {
    /// Streams of reads.
    pub sequential_read: u64,
    /// Reads of `request_bytes` at random places.
    pub random_read: u64,
    /// Streams of writes.
    pub sequential_write: u64,
    /// Writes of `request_bytes` at random places.
    pub random_write: u64,
    /// Bytes of the requests that the random rates were measured with.
    pub request_bytes: u64,
}

impl RateSpec {
    /// The time that a request at a random place costs beside its bytes, ns.
    pub fn positioning_ns(&self, operation: Operation) -> u64 {
        let (sequential, random) = self.of(operation);
        let ns = |rate: u64| (u128::from(self.request_bytes) * u128::from(NS_PER_S) / u128::from(rate)) as u64;
        ns(random).saturating_sub(ns(sequential))
    }

    fn of(&self, operation: Operation) -> (u64, u64) {
        match operation {
            Operation::Read => (self.sequential_read, self.random_read),
            Operation::Write => (self.sequential_write, self.random_write),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Rates {
    spec: RateSpec,
    positioning_ns: [u64; 2],
    /// What the last command did and where it ended.
    last: Option<(Operation, u64)>,
}

impl Rates {
    pub(super) fn new(spec: RateSpec) -> Rates {
        let positioning_ns = [Operation::Read, Operation::Write].map(|operation| spec.positioning_ns(operation));
        Rates { spec, positioning_ns, last: None }
    }

    pub(super) fn serve(&mut self, start_ns: u64, operation: Operation, offset: u64, len: u64) -> u64 {
        let continues = self.last == Some((operation, offset));
        self.last = Some((operation, offset + len));
        let positioning_ns = if continues { 0 } else { self.positioning_ns[operation as usize] };
        start_ns + positioning_ns + bytes_ns(len, self.spec.of(operation).0)
    }
}
