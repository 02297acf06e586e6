//! The simulated hybrid I/O node: the machine of `forebay_core::hybrid` over devices in virtual time.
//!
//! [`world`] is for right and wrong: small devices whose every byte has a stamp, effects that take random times, happen in parts and
//! fail, processes that are killed and power that fails, and an oracle ([`oracle`]) that knows which writes a read may show.
//!
//! [`timed`] is for fast and slow: several servers over models of disks and SSDs, with parallel programs as clients.

pub mod oracle;
pub mod scenario;
pub mod timed;
pub mod world;
