//! Stamps: every write call has one, and its bytes are a function of it, so that any byte tells which write it came from.

use std::collections::BTreeMap;

use forebay_core::id::Ino;

use crate::rng::mix;

/// Names a write call; used once in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Stamp(pub u64);

/// The byte at `position` of the payload of the write `stamp`. Never zero: a zero is a hole.
pub fn byte(stamp: Stamp, position: u64) -> u8 {
    word(stamp, position / 8)[(position % 8) as usize]
}

fn word(stamp: Stamp, index: u64) -> [u8; 8] {
    let mut bytes = mix(mix(stamp.0) ^ index).to_le_bytes();
    for byte in &mut bytes {
        if *byte == 0 {
            *byte = 0xA5;
        }
    }
    bytes
}

/// The whole payload of the write `stamp`.
pub fn payload(stamp: Stamp, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    for index in 0..len.div_ceil(8) as u64 {
        bytes.extend_from_slice(&word(stamp, index));
    }
    bytes.truncate(len);
    bytes
}

/// All writes of a run, to tell where a wrong byte came from.
#[derive(Default, Debug)]
pub struct Stamps {
    writes: BTreeMap<Stamp, Write>,
}

#[derive(Debug)]
struct Write {
    ino: Ino,
    offset: u64,
    len: u64,
}

impl Stamps {
    /// Remembers a write; `offset` is a guess if the write appends.
    pub fn record(&mut self, stamp: Stamp, ino: Ino, offset: u64, len: u64) {
        self.writes.insert(stamp, Write { ino, offset, len });
    }

    /// Says which write the bytes come from, for a message.
    pub fn describe(&self, bytes: &[u8]) -> String {
        let probe = &bytes[..bytes.len().min(16)];
        if probe.iter().all(|b| *b == 0) {
            return "zeros (a hole)".into();
        }
        for (stamp, write) in self.writes.iter().rev() {
            let whole = payload(*stamp, write.len as usize);
            if let Some(at) = whole.windows(probe.len()).position(|window| window == probe) {
                return format!("byte {at} of write {} (of {:?} at {}, {} bytes)", stamp.0, write.ino, write.offset, write.len);
            }
        }
        format!("bytes of no write: {probe:02x?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_is_made_of_bytes() {
        let bytes = payload(Stamp(3), 21);
        assert_eq!(bytes.len(), 21);
        assert!(bytes.iter().enumerate().all(|(at, b)| *b == byte(Stamp(3), at as u64)));
        assert!(bytes.iter().all(|b| *b != 0));
        assert_ne!(bytes, payload(Stamp(4), 21));
    }

    #[test]
    fn a_byte_tells_its_write() {
        let mut stamps = Stamps::default();
        stamps.record(Stamp(1), Ino(5), 100, 4096);
        stamps.record(Stamp(2), Ino(6), 0, 4096);
        let bytes = payload(Stamp(1), 4096);
        assert!(stamps.describe(&bytes[40..80]).starts_with("byte 40 of write 1 "));
        assert!(stamps.describe(&[0; 20]).contains("hole"));
        assert!(stamps.describe(&[1; 20]).contains("no write"));
    }
}
