//! Admission: which device does a request go to?
//!
//! One file per algorithm. `none` and `all` are what the others are measured against (P-08, P-07); `ssdup` and `ssdup+` look at streams
//! of writes, `ibridge` at each request and what it costs the disk, `cut-off` at runs, `forebay` at what the disk's time is worth.

mod adaptive_level;
mod all;
mod cut_off;
mod forebay;
pub mod ibridge;
mod none;
mod ssdup;
mod ssdup_plus;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;

pub use adaptive_level::{AdaptiveLevel, IndexRule, ResetRule};
pub use all::{All, WhileFlushing};
pub use cut_off::CutOff;
pub use forebay::{Costs, Forebay, ForebayConfig};
pub use ibridge::{IBridge, IBridgeConfig};
pub use none::Nothing;
pub use ssdup::{Ssdup, Watermarks};
pub use ssdup_plus::{SsdupPlus, SsdupPlusConfig};

use serde::{Deserialize, Serialize};

use super::detector::StreamConfig;
use super::{Arrival, RequestClass, Target};
use crate::id::ServerId;
use crate::time::Time;

/// What an admission policy may know of the I/O node.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdmissionView {
    /// The buffer as a whole is being emptied and takes nothing meanwhile.
    pub buffer_is_flushing: bool,
    /// A part of the buffer is full and to be flushed.
    pub flush_is_due: bool,
    /// The disk has not taken all requests that it was given.
    pub disk_is_full: bool,
    /// Bytes that the buffer takes before something has to be flushed.
    pub free_bytes: u64,
    /// Bytes that it can hold.
    pub capacity_bytes: u64,
}

/// What an admission policy is told of the disk when that has done something.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskView {
    /// Now.
    pub now: Time,
    /// Requests of clients wait for it.
    pub is_full: bool,
    /// A flush is under way.
    pub is_flushing: bool,
}

/// Why a request goes where it goes; reports count them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
pub enum Reason {
    /// There is no buffer in this policy.
    NoBuffer,
    /// Everything is buffered.
    Everything,
    /// The buffer is being emptied.
    Flushing,
    /// The stream before was random.
    RandomStream,
    /// The stream before was not random.
    OrderedStream,
    /// The disk would need longer than it does on average.
    Return,
    /// The disk would not need longer than it does on average.
    NoReturn,
    /// A request of a class that always goes to the disk.
    Class,
    /// It continues a long run.
    LongRun,
    /// It continues no long run.
    ShortRun,
    /// The policy wanted the SSD, where there was no room.
    NoRoom,
    /// The disk has nothing else to do.
    SpareTime,
    /// The disk is busy, and the SSD has room.
    SpareRoom,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 13] = [
        Reason::NoBuffer,
        Reason::Everything,
        Reason::Flushing,
        Reason::RandomStream,
        Reason::OrderedStream,
        Reason::Return,
        Reason::NoReturn,
        Reason::Class,
        Reason::LongRun,
        Reason::ShortRun,
        Reason::NoRoom,
        Reason::SpareTime,
        Reason::SpareRoom,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Reason::NoBuffer => "no-buffer",
            Reason::Everything => "everything",
            Reason::Flushing => "flushing",
            Reason::RandomStream => "random-stream",
            Reason::OrderedStream => "ordered-stream",
            Reason::Return => "return",
            Reason::NoReturn => "no-return",
            Reason::Class => "class",
            Reason::LongRun => "long-run",
            Reason::ShortRun => "short-run",
            Reason::NoRoom => "no-room",
            Reason::SpareTime => "spare-time",
            Reason::SpareRoom => "spare-room",
        }
    }
}

/// Where a request goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// A write: the device that takes it. A read of what only the disk has: [`Target::Ssd`] if it is worth a copy on the SSD, once
    /// that is idle; the disk serves it in any case.
    pub target: Target,
    /// Why.
    pub reason: Reason,
    /// What the SSD saves of the disk's time, ns; only [`IBridge`] and [`Forebay`] say so.
    pub return_ns: i64,
}

impl Verdict {
    /// A verdict without a return.
    pub const fn new(target: Target, reason: Reason) -> Verdict {
        Verdict { target, reason, return_ns: 0 }
    }
}

/// An admission policy: asked once for each request, in the order of their arrival.
pub trait Admission: Send {
    /// Where does the request go? Reads are asked about when some of their bytes are only on the disk.
    fn admit(&mut self, view: &AdmissionView, arrival: &Arrival<'_>) -> Verdict;

    /// The disk serves the request: what [`Admission::admit`] said, or since the SSD had no room.
    fn on_disk(&mut self, _arrival: &Arrival<'_>) {}

    /// The disk serves something else, for instance a flush: its head stands at `place`.
    fn on_background(&mut self, _place: u64) {}

    /// The disk has taken a write of a client.
    fn on_disk_done(&mut self, _view: &DiskView, _bytes: u64) {}

    /// A flush has brought home a range that so many writes had put down.
    fn on_flushed(&mut self, _view: &DiskView, _bytes: u64, _writes: u64) {}

    /// The average service times of all servers' disks, as last heard (I-06), ns.
    fn on_service_times(&mut self, _times: &[(ServerId, u64)]) {}

    /// What the SSD holds has become more: an item of this class, with the return of its verdict.
    fn on_insert(&mut self, _class: RequestClass, _return_ns: i64) {}

    /// An item has left the SSD.
    fn on_remove(&mut self, _class: RequestClass, _return_ns: i64) {}

    /// Which device the current traffic of writes goes to; flush policies look at it.
    fn traffic(&self) -> Target;

    /// The average service time of this server's disk, if the policy keeps it (I-06), ns.
    fn service_ns(&self) -> Option<u64> {
        None
    }

    /// Bytes of a buffer of `capacity_bytes` that items of a class may hold, if classes are kept apart (I-08).
    fn allocation_bytes(&self, _class: RequestClass, _capacity_bytes: u64) -> Option<u64> {
        None
    }
}

/// An admission policy and its parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AdmissionConfig {
    /// P-08: no buffer.
    None,
    /// P-07: everything.
    All(WhileFlushing),
    /// S-05: watermarks on the random share of streams.
    Ssdup(StreamConfig, Watermarks),
    /// P-01 to P-03: a level that follows the streams.
    SsdupPlus(StreamConfig, SsdupPlusConfig),
    /// I-01 to I-08: what the SSD saves of the disk's time.
    IBridge(IBridgeConfig),
    /// All but runs of at least so many bytes.
    CutOff {
        /// Bytes of a run from which on it goes to the disk.
        run_bytes_min: u64,
    },
    /// What the disk's time is worth.
    Forebay(ForebayConfig),
}

impl AdmissionConfig {
    /// The policy.
    pub fn build(&self) -> Box<dyn Admission> {
        match self {
            AdmissionConfig::None => Box::new(Nothing),
            AdmissionConfig::All(while_flushing) => Box::new(All::new(*while_flushing)),
            AdmissionConfig::Ssdup(stream, watermarks) => Box::new(Ssdup::new(*stream, *watermarks)),
            AdmissionConfig::SsdupPlus(stream, config) => Box::new(SsdupPlus::new(*stream, *config)),
            AdmissionConfig::IBridge(config) => Box::new(IBridge::new(config.clone())),
            AdmissionConfig::CutOff { run_bytes_min } => Box::new(CutOff::new(*run_bytes_min)),
            AdmissionConfig::Forebay(config) => Box::new(Forebay::new(*config)),
        }
    }
}
