//! Frames: what stands on a connection. docs/PROTOCOL.md is the contract.
//!
//! Nothing that a peer sends makes this panic, or take more memory than the limits here.

use std::io::{self, IoSlice, Read, Write};

use thiserror::Error;

/// The version of the protocol; both sides must have the same.
pub const VERSION: u16 = 1;
/// Bytes before a frame's message.
pub const HEADER_BYTES: usize = 48;
/// The longest message, bytes.
pub const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// The longest payload, bytes. More goes in several frames.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

const MAGIC: [u8; 4] = *b"FBNT";
/// The header without checksum and tag.
const PLAIN_BYTES: usize = 24;
/// The header without the tag.
const CHECKED_BYTES: usize = 32;

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// The client begins.
    Hello = 1,
    /// The server's answer, with its proof that it has the key.
    Challenge = 2,
    /// The client's proof that it has the key.
    Proof = 3,
    /// The session begins.
    Welcome = 4,
    /// The server does not want this session; the message says why.
    Refused = 5,
    /// A request.
    Request = 6,
    /// A part of its answer.
    Reply = 7,
    /// Are you there?
    Ping = 8,
    /// I am.
    Pong = 9,
}

impl FrameKind {
    const ALL: [FrameKind; 9] = [
        FrameKind::Hello,
        FrameKind::Challenge,
        FrameKind::Proof,
        FrameKind::Welcome,
        FrameKind::Refused,
        FrameKind::Request,
        FrameKind::Reply,
        FrameKind::Ping,
        FrameKind::Pong,
    ];
}

/// What is wrong with what a peer has sent, or with the way there.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The connection is broken, or silent for too long.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The first bytes are not those of a frame.
    #[error("what answers there is no server of Forebay")]
    NotOurs,
    /// The peer speaks another version.
    #[error("the other side speaks version {0} of the protocol, this one version {VERSION}; use the same version of Forebay on both")]
    Version(u16),
    /// A length, a kind or a number that cannot be.
    #[error("the other side sent a frame that cannot be ({0})")]
    Malformed(&'static str),
    /// The bytes are not those that were sent.
    #[error("a frame arrived with a wrong checksum")]
    Checksum,
    /// The frame is not of this session, or not the next one.
    #[error("a frame arrived that is not of this session")]
    Tag,
}

/// The longest message and payload that are taken.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes.
    pub message_bytes_max: usize,
    /// Bytes.
    pub payload_bytes_max: usize,
}

impl Limits {
    /// Before the peer is known.
    pub const STRANGER: Limits = Limits { message_bytes_max: 1024, payload_bytes_max: 0 };
    /// Within a session.
    pub const SESSION: Limits = Limits { message_bytes_max: MESSAGE_BYTES_MAX, payload_bytes_max: PAYLOAD_BYTES_MAX };
}

/// A frame as it came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// What it is.
    pub kind: FrameKind,
    /// Another frame of the same answer follows.
    pub more: bool,
    /// The request that it belongs to.
    pub request: u64,
    /// The message, encoded.
    pub message: Vec<u8>,
    /// The bytes that go with it.
    pub payload: Vec<u8>,
}

/// What both sides know of a session, for one direction: its key, and how many frames went.
#[derive(Clone, Debug, Default)]
pub struct Seal {
    key: Option<[u8; 32]>,
    frames: u64,
}

impl Seal {
    /// No session yet: frames bear no tag.
    pub fn none() -> Seal {
        Seal::default()
    }

    /// A session's seal, at its first frame.
    pub fn of_session(key: [u8; 32]) -> Seal {
        Seal { key: Some(key), frames: 0 }
    }

    /// The tag of the next frame.
    fn next_tag<'a>(&mut self, header: &[u8], parts: impl Iterator<Item = &'a [u8]>) -> [u8; 16] {
        let Some(key) = &self.key else { return [0; 16] };
        let mut hasher = blake3::Hasher::new_keyed(key);
        hasher.update(&self.frames.to_le_bytes());
        hasher.update(header);
        parts.for_each(|part| {
            hasher.update(part);
        });
        self.frames += 1;
        let mut tag = [0; 16];
        tag.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        tag
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// What a header says, checked as far as it can be by itself.
struct Header {
    kind: FrameKind,
    more: bool,
    request: u64,
    message_len: usize,
    payload_len: usize,
    crc: u32,
}

impl Header {
    fn read(bytes: &[u8; HEADER_BYTES], limits: Limits) -> Result<Header, WireError> {
        if bytes[..4] != MAGIC {
            return Err(WireError::NotOurs);
        }
        let version = u16_at(bytes, 6);
        if version != VERSION {
            return Err(WireError::Version(version));
        }
        let kind = FrameKind::ALL.into_iter().find(|kind| *kind as u8 == bytes[4]).ok_or(WireError::Malformed("its kind"))?;
        if bytes[5] > 1 {
            return Err(WireError::Malformed("its flags"));
        }
        let (message_len, payload_len) = (u32_at(bytes, 16) as usize, u32_at(bytes, 20) as usize);
        if message_len > limits.message_bytes_max || payload_len > limits.payload_bytes_max {
            return Err(WireError::Malformed("its length"));
        }
        let mut request = [0; 8];
        request.copy_from_slice(&bytes[8..16]);
        let request = u64::from_le_bytes(request);
        Ok(Header { kind, more: bytes[5] == 1, request, message_len, payload_len, crc: u32_at(bytes, PLAIN_BYTES) })
    }
}

fn checksum<'a>(header: &[u8], parts: impl Iterator<Item = &'a [u8]>) -> u32 {
    parts.fold(crc32c::crc32c(&header[..PLAIN_BYTES]), crc32c::crc32c_append)
}

/// Reads the next frame.
///
/// # Errors
/// See [`WireError`]; after each of them nothing more can be read.
pub fn read_frame(from: &mut impl Read, seal: &mut Seal, limits: Limits) -> Result<Frame, WireError> {
    let mut header = [0; HEADER_BYTES];
    from.read_exact(&mut header)?;
    let Header { kind, more, request, message_len, payload_len, crc } = Header::read(&header, limits)?;
    let (mut message, mut payload) = (vec![0; message_len], vec![0; payload_len]);
    from.read_exact(&mut message)?;
    from.read_exact(&mut payload)?;
    if checksum(&header, [&message[..], &payload].into_iter()) != crc {
        return Err(WireError::Checksum);
    }
    let tag = seal.next_tag(&header[..CHECKED_BYTES], [&message[..], &payload].into_iter());
    // The comparison takes the same time wherever the two differ.
    if blake3::Hash::from_bytes(widened(tag)) != blake3::Hash::from_bytes(widened_slice(&header[CHECKED_BYTES..])) {
        return Err(WireError::Tag);
    }
    Ok(Frame { kind, more, request, message, payload })
}

fn widened(tag: [u8; 16]) -> [u8; 32] {
    widened_slice(&tag)
}

fn widened_slice(tag: &[u8]) -> [u8; 32] {
    let mut wide = [0; 32];
    wide[..tag.len()].copy_from_slice(tag);
    wide
}

/// What is to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// What it is.
    pub kind: FrameKind,
    /// Another frame of the same answer follows.
    pub more: bool,
    /// The request that it belongs to.
    pub request: u64,
    /// The message, encoded.
    pub message: &'a [u8],
    /// The bytes that go with it, in parts; they are not brought together.
    pub payload: &'a [&'a [u8]],
}

/// Sends a frame.
///
/// # Errors
/// `InvalidInput` if it is longer than a frame may be; what the connection says.
pub fn write_frame(to: &mut impl Write, seal: &mut Seal, frame: Outgoing<'_>) -> io::Result<()> {
    let payload_len: usize = frame.payload.iter().map(|part| part.len()).sum();
    if frame.message.len() > MESSAGE_BYTES_MAX || payload_len > PAYLOAD_BYTES_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let parts = || std::iter::once(frame.message).chain(frame.payload.iter().copied());
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&MAGIC);
    header[4] = frame.kind as u8;
    header[5] = frame.more.into();
    header[6..8].copy_from_slice(&VERSION.to_le_bytes());
    header[8..16].copy_from_slice(&frame.request.to_le_bytes());
    header[16..20].copy_from_slice(&(frame.message.len() as u32).to_le_bytes());
    header[20..24].copy_from_slice(&(payload_len as u32).to_le_bytes());
    let crc = checksum(&header, parts());
    header[PLAIN_BYTES..PLAIN_BYTES + 4].copy_from_slice(&crc.to_le_bytes());
    let tag = seal.next_tag(&header[..CHECKED_BYTES], parts());
    header[CHECKED_BYTES..].copy_from_slice(&tag);
    let mut slices: Vec<IoSlice<'_>> = std::iter::once(&header[..]).chain(parts()).map(IoSlice::new).collect();
    write_all(to, &mut slices)
}

fn write_all(to: &mut impl Write, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match to.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut slices, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: [u8; 32] = [7; 32];

    fn sent(frames: &[(u64, Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let (mut bytes, mut seal) = (Vec::new(), Seal::of_session(KEY));
        for (request, message, payload) in frames {
            let (first, second) = payload.split_at(payload.len() / 3);
            let frame = Outgoing { kind: FrameKind::Request, more: false, request: *request, message, payload: &[first, second] };
            write_frame(&mut bytes, &mut seal, frame).unwrap();
        }
        bytes
    }

    fn received(mut bytes: &[u8]) -> Vec<Result<Frame, WireError>> {
        let mut seal = Seal::of_session(KEY);
        let mut frames = Vec::new();
        while frames.last().is_none_or(Result::is_ok) {
            frames.push(read_frame(&mut bytes, &mut seal, Limits::SESSION));
        }
        frames
    }

    proptest! {
        #[test]
        fn what_is_sent_arrives(frames in prop::collection::vec((any::<u64>(), prop::collection::vec(any::<u8>(), 0..200), prop::collection::vec(any::<u8>(), 0..500)), 0..5)) {
            let got = received(&sent(&frames));
            prop_assert_eq!(got.len(), frames.len() + 1);
            for (frame, (request, message, payload)) in got.iter().zip(&frames) {
                let frame = frame.as_ref().unwrap();
                prop_assert_eq!((frame.request, &frame.message, &frame.payload), (*request, message, payload));
            }
            prop_assert!(matches!(got.last(), Some(Err(WireError::Io(_)))));
        }

        /// Whatever arrives: an error or frames, never a panic, and nothing larger than a frame may be.
        #[test]
        fn garbage_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), with_magic in any::<bool>()) {
            let mut bytes = bytes;
            if with_magic && bytes.len() > 8 {
                bytes[..4].copy_from_slice(&MAGIC);
                bytes[6..8].copy_from_slice(&VERSION.to_le_bytes());
            }
            prop_assert!(received(&bytes).iter().all(Result::is_err));
        }

        /// A bit that is changed anywhere, or a frame that is missing, sent twice or cut off, is noticed at once.
        #[test]
        fn what_was_changed_on_the_way_is_refused(bit in 0usize..8 * 300, what in 0..4) {
            let frames = [(1, vec![1; 40], vec![2; 100]), (2, vec![3; 10], vec![4; 60]), (3, vec![], vec![])];
            let whole = sent(&frames);
            let second = HEADER_BYTES + 140..2 * HEADER_BYTES + 210;
            let mut bytes = whole.clone();
            let intact = match what {
                0 => { let at = bit / 8 % bytes.len(); bytes[at] ^= 1 << (bit % 8); None }
                1 => { bytes.drain(second); Some(1) }
                2 => { let again = bytes[second.clone()].to_vec(); bytes.splice(second.end..second.end, again); Some(2) }
                _ => { bytes.truncate(bit % whole.len()); None }
            };
            let good: Vec<Frame> = received(&bytes).into_iter().filter_map(Result::ok).collect();
            prop_assert!(good.len() < 3 || what == 2);
            prop_assert!(intact.is_none_or(|intact| good.len() == intact));
            for (frame, (request, message, payload)) in good.iter().zip(&frames) {
                prop_assert_eq!((frame.request, &frame.message, &frame.payload), (*request, message, payload));
            }
        }
    }

    #[test]
    fn lengths_are_bounded_before_anything_is_taken() {
        let mut bytes = sent(&[(1, vec![], vec![])]);
        bytes[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(received(&bytes)[0], Err(WireError::Malformed("its length"))));
        let mut seal = Seal::none();
        let long = vec![0; PAYLOAD_BYTES_MAX + 1];
        let frame = Outgoing { kind: FrameKind::Reply, more: false, request: 0, message: &[], payload: &[&long] };
        assert!(write_frame(&mut Vec::new(), &mut seal, frame).is_err());
    }

    #[test]
    fn another_key_another_version_and_another_program_are_told_apart() {
        let bytes = sent(&[(1, vec![], vec![])]);
        let mut other = Seal::of_session([8; 32]);
        assert!(matches!(read_frame(&mut &bytes[..], &mut other, Limits::SESSION), Err(WireError::Tag)));
        let mut newer = bytes.clone();
        newer[6] = 9;
        assert!(matches!(received(&newer)[0], Err(WireError::Version(9))));
        assert!(matches!(received(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n        ")[0], Err(WireError::NotOurs)));
    }
}
