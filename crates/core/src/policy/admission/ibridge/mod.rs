//! iBridge (I-01 to I-08): what does the SSD save of the disk's time?
//!
//! The disk's average service time is kept ([`ServiceTime`]). Only random requests and fragments are asked about, and go to the SSD if
//! the disk would need longer for them than it does on average: that is their return. A fragment on the server whose disk is the slowest
//! of those that share the request holds up the others; it returns their waiting, too (equation 3). The SSD is divided between the two
//! classes by their average returns ([`Partition`]).
//!
//! Source: iBridge, II-A and II-B. It is wrong when many random requests have raised the average so far that the next ones seem cheap,
//! and it never looks at the scheduler's queue, which makes seeks shorter than the distance between two arrivals.

mod partition;
mod seek_profile;
mod service_board;
mod service_time;
#[cfg(test)]
pub(super) mod tests;

use alloc::collections::BTreeMap;

pub use partition::{Partition, PartitionMode};
pub use seek_profile::{SeekFit, SeekProfile, SeekProfileError};
pub use service_board::{EXCHANGE_NS, ServiceBoard};
pub use service_time::{ServiceTime, Weights};

use super::{Admission, AdmissionView, Reason, Verdict};
use crate::id::ServerId;
use crate::policy::{Arrival, RequestClass, Target};

/// What iBridge is told of the disk, and how it divides the SSD.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IBridgeConfig {
    /// This server's own number.
    pub server: ServerId,
    /// From a distance on the disk to the time that the head needs for it.
    pub seek: SeekProfile,
    /// The average time until the platter has turned to the place, ns.
    pub rotation_ns: u64,
    /// The disk's peak rate, bytes a second.
    pub bytes_per_s: u64,
    /// How much the last request counts.
    pub weights: Weights,
    /// How the SSD is divided.
    pub partition: PartitionMode,
}

/// See the head of this file.
pub struct IBridge {
    server: ServerId,
    service: ServiceTime,
    partition: Partition,
    /// What was last heard of the others.
    others: BTreeMap<ServerId, u64>,
}

impl IBridge {
    /// The policy before its first request.
    pub fn new(config: IBridgeConfig) -> Self {
        let partition = Partition::new(config.partition);
        let service = ServiceTime::new(config.seek, config.rotation_ns, config.bytes_per_s, config.weights);
        IBridge { server: config.server, service, partition, others: BTreeMap::new() }
    }

    /// The return of a request, ns (I-05, I-07).
    fn return_ns(&self, arrival: &Arrival<'_>) -> i64 {
        let own = self.service.return_ns(arrival.place, arrival.len);
        match arrival.class {
            RequestClass::Fragment => own.saturating_add(self.siblings_ns(arrival.siblings)),
            _ => own,
        }
    }

    /// What the others of a fragment's request wait for this server's disk, which is the slowest; 0 if it is not (I-07). Times are
    /// those before this request. A server that was never heard of does not count; one that is silent counts as last heard.
    fn siblings_ns(&self, siblings: &[ServerId]) -> i64 {
        let Some(own) = self.service.average_ns() else { return 0 };
        let slowest_other = siblings.iter().filter_map(|server| self.others.get(server)).max();
        match slowest_other {
            Some(other) if own > *other => (own - other).saturating_mul(siblings.len() as u64).try_into().unwrap_or(i64::MAX),
            _ => 0,
        }
    }
}

impl Admission for IBridge {
    fn admit(&mut self, _view: &AdmissionView, arrival: &Arrival<'_>) -> Verdict {
        if arrival.class == RequestClass::Ordinary {
            return Verdict::new(Target::Disk, Reason::Class);
        }
        let return_ns = self.return_ns(arrival);
        let (target, reason) = if return_ns > 0 { (Target::Ssd, Reason::Return) } else { (Target::Disk, Reason::NoReturn) };
        Verdict { target, reason, return_ns }
    }

    fn on_disk(&mut self, arrival: &Arrival<'_>) {
        self.service.on_disk(arrival.place, arrival.len);
    }

    fn on_background(&mut self, place: u64) {
        self.service.on_head_moved(place);
    }

    fn on_service_times(&mut self, times: &[(ServerId, u64)]) {
        self.others.extend(times.iter().copied().filter(|(server, _)| *server != self.server));
    }

    fn on_insert(&mut self, class: RequestClass, return_ns: i64) {
        self.partition.on_insert(class, return_ns);
    }

    fn on_remove(&mut self, class: RequestClass, return_ns: i64) {
        self.partition.on_remove(class, return_ns);
    }

    /// Some of it goes to the SSD, most to the disk.
    fn traffic(&self) -> Target {
        Target::Disk
    }

    fn service_ns(&self) -> Option<u64> {
        self.service.average_ns()
    }

    fn allocation_bytes(&self, class: RequestClass, capacity_bytes: u64) -> Option<u64> {
        Some(self.partition.allocation_bytes(class, capacity_bytes))
    }
}
