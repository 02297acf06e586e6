//! The simulated host: the machines of `forebay-core` in virtual time, with faults, an oracle, and one checker a promise.
//!
//! [`buffer`] is the other simulator: a model of the buffer that says what a trace would gain from which size and policy. [`workload`] makes
//! the traces of applications, from rules and from recordings.
//!
//! [`rerun`] runs a trace again, through the machine of the server.
//!
//! [`hybrid`] simulates the I/O node that has a disk and an SSD.
//!
//! See `docs/SIMULATION.md`.

pub mod buffer;
pub mod bytes;
pub mod canary;
pub mod checker;
pub mod client;
pub mod home;
pub mod hybrid;
pub mod inspector;
pub mod journal;
pub mod log;
pub mod oracle;
pub mod parallel;
pub mod ranges;
pub mod rerun;
pub mod rng;
pub mod runner;
pub mod scenario;
pub mod stamp;
pub mod subject;
pub mod workload;
pub mod world;
