//! Traces of I/O: the record model, the format `.fbt` (docs/FORMAT-TRACE.md), and readers of what other programs write.
//!
//! Every reader is a [`Source`]: it gives records one after the other and needs memory for the names only. [`fbt::Writer`] takes them.
#![forbid(unsafe_code)]

pub mod correct;
pub mod error;
pub mod fbt;
pub mod format;
pub mod import;
pub mod merge;
pub mod muse;
pub mod names;
pub mod record;
pub mod sort;
pub mod source;
pub mod statistics;
mod text;

pub use error::{Error, Place};
pub use format::Format;
pub use names::{Names, Process};
pub use record::{FileId, Flags, Layer, Op, ProcessId, Record};
pub use source::{About, Clock, Gap, GapReason, MemorySource, Source, Tables};
pub use text::parse_seconds;
