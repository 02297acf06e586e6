//! Every decision of Forebay, and nothing that does anything.
//!
//! A [`machine::Machine`] takes inputs and gives effects. [`node::Node`] is the machine of one server: the namespace and the I/O node.
//! No I/O, no clock, no threads, no payload bytes; `no_std` proves it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod attr;
pub mod config;
pub mod effect;
pub mod entries;
pub mod errno;
pub mod extent;
pub mod hybrid;
pub mod id;
pub mod io_node;
pub mod layout;
pub mod machine;
pub mod master;
pub mod message;
pub mod node;
pub mod policy;
pub mod record;
pub mod recovery;
pub mod time;
pub mod xattr;
