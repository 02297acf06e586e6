//! Readers of what other programs write.

pub mod blktrace;
pub mod darshan;
mod detect;
pub mod fio;
pub mod iosig;
pub mod oracle;
pub mod strace;
pub mod tables;
mod text;

pub use detect::{Input, detect, open};
