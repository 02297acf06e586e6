//! The real host: gives a machine time, inputs and completions, and carries out what it asks. It decides nothing.
//!
//! [`driver`] runs one machine with real threads, [`recorder`] keeps what went in so that a run can be replayed, [`transport`] is
//! the way of a request from a client to a server,
//! [`net`] speaks with servers in other processes.

#![forbid(unsafe_code)]

pub mod clock;
pub mod driver;
pub mod log;
pub mod net;
pub mod recorder;
pub mod transport;
