//! The format `.fbt`: blocks of columns, each with its checksum (docs/FORMAT-TRACE.md).

mod block;
mod columns;
mod index;
mod read;
pub(crate) mod run;
mod seek;
mod tables;
mod write;

pub use index::IndexEntry;
pub(crate) use read::fill;
pub use read::{Ending, Reader};
pub use seek::{SeekReader, Selection};
pub use write::{BLOCK_RECORDS, Totals, Writer};

#[cfg(test)]
mod tests;
