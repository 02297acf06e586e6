//! The way to servers in other processes: docs/PROTOCOL.md.
//!
//! [`wire`] has the frames, [`handshake`] shows who has the [`Key`], [`Remote`] is a client's connection, which comes back by itself,
//! [`Server`] the other end. What is asked and answered is in [`message`].

mod client;
mod handshake;
mod key;
pub mod message;
mod server;
mod stream;
mod tcp;
mod uds;
pub mod wire;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use client::{Answer, Ask, Dial, Remote, Ticket};
pub use handshake::ClientId;
pub use key::{Key, KeyError, random};
pub use server::{Asker, ListenError, Server, Service};
pub use stream::Address;
use thiserror::Error;
use wire::WireError;

/// Why a request has no answer, or a session does not begin.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum NetError {
    /// The connection, or what came over it.
    #[error("{0}")]
    Wire(Arc<WireError>),
    /// The other side has not the same key.
    #[error("the other side has another key; give both the same key file")]
    OtherKey,
    /// The server does not want this session, or not this client.
    #[error("{0}")]
    Refused(String),
    /// There was no answer for as long as the client waits.
    #[error("the server {address} cannot be reached: {reason}")]
    Unreachable {
        /// The server.
        address: Address,
        /// What went wrong last.
        reason: String,
    },
    /// The request is longer than a message may be.
    #[error("the request is longer than {} bytes", wire::MESSAGE_BYTES_MAX)]
    TooLong,
}

impl From<WireError> for NetError {
    fn from(error: WireError) -> NetError {
        NetError::Wire(Arc::new(error))
    }
}

impl From<std::io::Error> for NetError {
    fn from(error: std::io::Error) -> NetError {
        WireError::from(error).into()
    }
}

impl NetError {
    /// Whether to try again can help without somebody doing something about it.
    pub fn may_pass(&self) -> bool {
        match self {
            NetError::Wire(error) => matches!(**error, WireError::Io(_) | WireError::Checksum),
            NetError::Unreachable { .. } => true,
            NetError::OtherKey | NetError::Refused(_) | NetError::TooLong => false,
        }
    }
}
