//! The first exchange: both sides show that they have the key, and agree on keys for this session alone.

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};

use super::NetError;
use super::key::{Key, random, same};
use super::wire::{Frame, FrameKind, Limits, Outgoing, Seal, WireError, read_frame, write_frame};

/// Who asks, for as long as its buffer lasts: a server does not begin a session before it has ended those of the same client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub struct ClientId(pub [u8; 16]);

impl ClientId {
    /// The client that these make, all together.
    pub fn of(parts: &[&[u8]]) -> ClientId {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let mut id = [0; 16];
        id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        ClientId(id)
    }

    /// A client that nobody else is.
    ///
    /// # Errors
    /// The system's, if it has no random bytes.
    pub fn fresh() -> std::io::Result<ClientId> {
        random().map(ClientId)
    }
}

#[derive(Serialize, Deserialize)]
struct Hello {
    nonce: [u8; 32],
    client: ClientId,
}

#[derive(Serialize, Deserialize)]
struct Challenge {
    nonce: [u8; 32],
    proof: [u8; 32],
}

/// A session's beginning.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) struct Welcome {
    /// Requests that may be under way at a time.
    pub(super) requests_max: u32,
}

/// The seals of both directions.
pub(super) struct Seals {
    pub(super) to_server: Seal,
    pub(super) to_client: Seal,
}

fn seals(key: &Key, hello: &[u8], nonce: &[u8; 32]) -> Seals {
    let seal = |direction| Seal::of_session(key.proof(direction, &[hello, nonce]));
    Seals { to_server: seal("session, to the server"), to_client: seal("session, to the client") }
}

fn send(to: &mut impl Write, seal: &mut Seal, kind: FrameKind, message: &impl Serialize) -> Result<Vec<u8>, WireError> {
    let message = postcard::to_allocvec(message).map_err(|_| WireError::Malformed("its message"))?;
    write_frame(to, seal, Outgoing { kind, more: false, request: 0, message: &message, payload: &[] })?;
    Ok(message)
}

fn expect<'a, T: Deserialize<'a>>(frame: &'a Frame, kind: FrameKind) -> Result<T, NetError> {
    if frame.kind == FrameKind::Refused {
        return Err(NetError::Refused(String::from_utf8_lossy(&frame.message).into_owned()));
    }
    if frame.kind != kind {
        return Err(WireError::Malformed("its kind").into());
    }
    postcard::from_bytes(&frame.message).map_err(|_| WireError::Malformed("its message").into())
}

/// The client's side.
pub(super) fn as_client<S: Read + Write>(stream: &mut S, key: &Key, client: ClientId) -> Result<(Seals, Welcome), NetError> {
    let hello = Hello { nonce: random().map_err(WireError::Io)?, client };
    let hello = send(stream, &mut Seal::none(), FrameKind::Hello, &hello)?;
    let frame = read_frame(stream, &mut Seal::none(), Limits::STRANGER)?;
    let challenge: Challenge = expect(&frame, FrameKind::Challenge)?;
    if !same(&challenge.proof, &key.proof("server", &[&hello, &challenge.nonce])) {
        return Err(NetError::OtherKey);
    }
    send(stream, &mut Seal::none(), FrameKind::Proof, &key.proof("client", &[&hello, &challenge.nonce]))?;
    let mut seals = seals(key, &hello, &challenge.nonce);
    let frame = read_frame(stream, &mut seals.to_client, Limits::STRANGER)?;
    let welcome = expect(&frame, FrameKind::Welcome)?;
    Ok((seals, welcome))
}

/// The server's side, up to the welcome; who it is that asks.
pub(super) fn as_server<S: Read + Write>(stream: &mut S, key: &Key) -> Result<(Seals, ClientId), NetError> {
    let frame = read_frame(stream, &mut Seal::none(), Limits::STRANGER)?;
    let Hello { client, .. } = expect(&frame, FrameKind::Hello)?;
    let hello = frame.message;
    let nonce = random().map_err(WireError::Io)?;
    let challenge = Challenge { nonce, proof: key.proof("server", &[&hello, &nonce]) };
    send(stream, &mut Seal::none(), FrameKind::Challenge, &challenge)?;
    let frame = read_frame(stream, &mut Seal::none(), Limits::STRANGER)?;
    let proof: [u8; 32] = expect(&frame, FrameKind::Proof)?;
    if !same(&proof, &key.proof("client", &[&hello, &nonce])) {
        return Err(NetError::OtherKey);
    }
    Ok((seals(key, &hello, &nonce), client))
}

/// Begins the session, for the client.
pub(super) fn welcome(to: &mut impl Write, seal: &mut Seal, welcome: Welcome) -> Result<(), WireError> {
    send(to, seal, FrameKind::Welcome, &welcome).map(drop)
}

/// Says that there will be no session, under the session's key.
pub(super) fn refuse(to: &mut impl Write, seal: &mut Seal, why: &str) -> Result<(), WireError> {
    Ok(write_frame(to, seal, Outgoing { kind: FrameKind::Refused, more: false, request: 0, message: why.as_bytes(), payload: &[] })?)
}
