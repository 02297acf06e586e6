//! Readers of what other programs write.

pub mod darshan;
