//! The buffer as a model of two levels (B-01): what an application's trace would meet with a buffer of some size, policy and way of
//! writing back, and what it would gain. The policies are those of the server.
//!
//! All I/O goes through the buffer, level 1, which is finite; home, level 2, is not. A read of what is not in the buffer brings it in, a
//! write enters it; when there is no room something goes, and what of it is dirty goes home first. A write to a part of a chunk that
//! is not there brings nothing in. Time is not simulated: the counters of bytes give it, by the throughput of both levels (B-03).

mod background;
mod belady;
mod chunks;
mod files;
mod identities;
mod rates;
mod result;
mod sweep;
mod vary;
mod workload;

use forebay_core::config::{ReplacementKind, WriteBack};
use thiserror::Error;

pub use belady::Belady;
pub use rates::{Level, RateError, Rates};
pub use result::{COUNTER_NAMES, Counters, Formula, Outcome, Throughput, Times};
pub use sweep::{Progress, Sweep, SweepError};
pub use vary::Order;
pub use workload::{Workload, WorkloadBuilder};

/// Who chooses what goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// A policy of the server.
    Online(ReplacementKind),
    /// The one that is used again last goes: needs the future, and is the bound for all others (Belady's MIN; our choice for B-12).
    Belady,
}

impl Policy {
    /// Every policy, under the name that users give it.
    #[must_use]
    pub fn named() -> Vec<(&'static str, Policy)> {
        let online = ReplacementKind::NAMED.map(|(name, kind)| (name, Policy::Online(kind)));
        online.into_iter().chain([("belady", Policy::Belady)]).collect()
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Policy::named().into_iter().find(|(_, policy)| *policy == self).map_or("?", |(name, _)| name)
    }
}

/// What is swapped in and out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Granularity {
    /// Chunks (B-06).
    Chunk,
    /// Whole files (B-07): a file must fit into the buffer.
    File {
        /// Only the dirty chunks of a file go home when it is swapped out, not all of it.
        dirty_only: bool,
    },
}

impl Granularity {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Granularity::Chunk => "chunk",
            Granularity::File { dirty_only: false } => "file",
            Granularity::File { dirty_only: true } => "file-dirty",
        }
    }
}

/// In what the counters count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Counting {
    /// Every touch of a chunk counts as the chunk.
    #[default]
    Chunks,
    /// Hits and writes count the bytes that were asked for; what moves between the levels counts as chunks.
    Bytes,
}

impl Counting {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Counting::Chunks => "chunks",
            Counting::Bytes => "bytes",
        }
    }
}

/// A buffer to simulate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BufferConfig {
    /// Bytes of the buffer, over all nodes.
    pub capacity_bytes: u64,
    /// Who chooses what goes.
    pub policy: Policy,
    /// What goes.
    pub granularity: Granularity,
    /// When dirty chunks go home: at eviction (B-04), or also in between, as fast as home takes them (B-05).
    pub write_back: WriteBack,
    /// In what the counters count.
    pub counting: Counting,
    /// Nodes of the buffer (B-14): they choose the throughput.
    pub nodes: u32,
}

impl BufferConfig {
    /// A name that no other configuration has; it never changes.
    #[must_use]
    pub fn key(&self) -> String {
        let write_back = write_back_name(self.write_back);
        let (policy, granularity, counting) = (self.policy.name(), self.granularity.name(), self.counting.name());
        format!("{},{policy},{granularity},{write_back},{counting},{}", self.capacity_bytes, self.nodes)
    }
}

/// The name of a way of writing back.
#[must_use]
pub fn write_back_name(write_back: WriteBack) -> &'static str {
    match write_back {
        WriteBack::Sync => "sync",
        WriteBack::Async => "async",
    }
}

/// Why a configuration cannot run a trace.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Infeasible {
    /// The buffer holds no chunk.
    #[error("the buffer of {capacity_bytes} bytes is smaller than a chunk of {chunk_bytes}; take a larger one")]
    NoChunk {
        /// Bytes of the buffer.
        capacity_bytes: u64,
        /// Bytes of a chunk.
        chunk_bytes: u32,
    },
    /// A file does not fit into the buffer as a whole.
    #[error(
        "infeasible: the file \"{path}\" of {file_bytes} bytes does not fit into the buffer of {capacity_bytes}; swap by chunks, or take a larger one"
    )]
    FileTooLarge {
        /// The largest file.
        path: String,
        /// Its bytes, in whole chunks.
        file_bytes: u64,
        /// Bytes of the buffer.
        capacity_bytes: u64,
    },
}

/// Runs a trace through a buffer. Same workload, same configuration, same counters.
///
/// # Errors
/// If the buffer is too small for a chunk, or by files for the largest file.
pub fn simulate(workload: &Workload, config: &BufferConfig, rates: &Rates) -> Result<Outcome, Infeasible> {
    let chunk_bytes = workload.chunk_bytes();
    if config.capacity_bytes < u64::from(chunk_bytes) {
        return Err(Infeasible::NoChunk { capacity_bytes: config.capacity_bytes, chunk_bytes });
    }
    let counters = match config.granularity {
        Granularity::Chunk => chunks::run(workload, config, rates),
        Granularity::File { dirty_only } => files::run(workload, config, rates, dirty_only)?,
    };
    Ok(Outcome::new(counters, workload, config, rates))
}
