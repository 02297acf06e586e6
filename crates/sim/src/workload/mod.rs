//! Workloads: what applications do to files, made up by rules and seeds, or cut from a real trace, and played on any number of nodes.
//!
//! A [`Program`] says what is to be done: phases, in each of them tasks that do not wait for each other, in each of those steps in order.
//! A [`Player`] does it: so many workers take the tasks of a phase one after the other, and the next phase begins when all are done. How
//! long a step takes says a [`Pace`]. What comes out is a [`Source`](forebay_trace::Source) of records in the order of time, one by one.

mod btio;
mod himeno;
mod hpio;
mod in_pieces;
mod ior;
mod magnification;
mod miranda;
mod montage;
mod mpi_io_test;
mod pace;
mod pair;
mod player;
mod povray;
mod recorded;
mod science;
mod similar_pages;
mod supernovae;
mod tile;

use forebay_trace::Op;

pub use btio::{Btio, Class};
pub use himeno::Himeno;
pub use hpio::Hpio;
pub use in_pieces::InPieces;
pub use ior::{Ior, Pattern};
pub use magnification::{Magnification, OneServer};
pub use miranda::Miranda;
pub use montage::Montage;
pub use mpi_io_test::MpiIoTest;
pub use pace::{Buffered, Direct, Pace, Varied};
pub use pair::{Pair, heterogeneous_pair};
pub use player::{Player, Workers};
pub use povray::Povray;
pub use recorded::{Recorded, RecordedTask};
pub use science::{Alignment, Science};
pub use similar_pages::{Scan, SimilarPages};
pub use supernovae::Supernovae;
pub use tile::Tile;

/// Bytes of a megabyte as the papers count it.
pub const MB: u64 = 1_000_000;

/// One read or write of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// What the task does before it, nanoseconds.
    pub think_ns: u64,
    /// [`Op::Read`] or [`Op::Write`].
    pub op: Op,
    /// Which file, as the program counts them.
    pub file: u64,
    /// Where, bytes.
    pub offset: u64,
    /// How much, bytes.
    pub size: u64,
}

/// The steps of a task, in order.
pub type Steps = Box<dyn Iterator<Item = Step> + Send>;

/// What an application does.
pub trait Program: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Phases: none begins before the one before has ended.
    fn phases(&self) -> usize;

    /// Tasks of a phase, in the order in which workers take them.
    fn tasks(&self, phase: usize) -> u64;

    /// What a task does.
    fn steps(&self, phase: usize, task: u64) -> Steps;

    /// The path of a file.
    fn path(&self, file: u64) -> String;
}

/// Steps over `bytes` bytes of a file from `offset` on, in requests of `request_bytes`; `think_ns` before each.
pub(crate) fn sweep(
    op: Op,
    file: u64,
    offset: u64,
    bytes: u64,
    request_bytes: u64,
    think_ns: u64,
) -> impl Iterator<Item = Step> + Send + 'static {
    let request_bytes = request_bytes.max(1);
    (0..bytes.div_ceil(request_bytes)).map(move |at| {
        let done = at * request_bytes;
        Step { think_ns, op, file, offset: offset + done, size: request_bytes.min(bytes - done) }
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use forebay_trace::statistics::locality::Locality;
    use forebay_trace::{Record, Source};

    use super::*;

    /// What a program moves: bytes read, bytes written, R_buf, and bytes of the files up to their ends.
    pub(crate) struct Sums {
        pub(crate) read: u64,
        pub(crate) written: u64,
        pub(crate) r_buf: f64,
        pub(crate) space: u64,
        /// By path.
        pub(crate) by_file: BTreeMap<String, u64>,
    }

    impl Sums {
        pub(crate) fn megabytes(bytes: u64) -> f64 {
            bytes as f64 / MB as f64
        }
    }

    pub(crate) fn records(program: Arc<dyn Program>, workers: Workers) -> (Vec<Record>, Vec<String>) {
        let mut player = Player::new(program, workers, Box::new(Direct::default()));
        let mut records = Vec::new();
        while let Some(record) = player.next_record().unwrap() {
            records.push(record);
        }
        let paths = player.names().files().map(|path| String::from_utf8(path.to_vec()).unwrap()).collect();
        (records, paths)
    }

    pub(crate) fn sums(program: impl Program + 'static, workers: Workers) -> Sums {
        let (records, paths) = records(Arc::new(program), workers);
        assert!(records.is_sorted_by_key(|record| record.start_ns), "records come by time");
        let (mut locality, mut ends, mut by_file) = (Locality::default(), BTreeMap::new(), BTreeMap::new());
        for record in &records {
            locality.add(record);
            let end = ends.entry(record.file.0).or_insert(0);
            *end = record.offset.saturating_add(record.size).max(*end);
            *by_file.entry(paths[record.file.0 as usize].clone()).or_insert(0) += record.size;
        }
        let (read, written, r_buf) = (locality.read_bytes, locality.written_bytes, locality.ratio());
        Sums { read, written, r_buf, space: ends.values().sum(), by_file }
    }
}
