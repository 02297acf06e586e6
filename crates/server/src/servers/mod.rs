//! I/O servers, from both sides: [`IoServer`] answers for one, [`ServersHome`] is a home that is made of several.
//!
//! Each server keeps the whole tree of names. Of a file each holds the stripes that are its own, one behind the other, in a file of the
//! same name. docs/PROTOCOL.md says what is sent.

mod data;
mod names;
mod part_file;
mod serve;
mod striped;
#[cfg(test)]
mod tests;

pub use part_file::{PartError, PartFile};
pub use serve::IoServer;
pub use striped::{ConnectError, ServersHome, ServersOptions};
