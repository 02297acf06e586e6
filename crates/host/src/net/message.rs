//! What clients ask of an I/O server, and what it answers.

use forebay_core::attr::Kind;
use forebay_core::effect::{HomeAttr, HomeChange};
use forebay_core::entries::Entries;
use forebay_core::errno::Errno;
use forebay_core::hybrid::ServerPolicy;
use forebay_core::id::{HomePath, Ino, Name, ServerId};
use forebay_core::message::{SeekWhence, StatFs};
use forebay_core::policy::RequestClass;
use forebay_core::xattr::Xattr;
use serde::{Deserialize, Serialize};

/// A server's home, for ever: it is written down there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug, Default)]
pub struct HomeId(pub [u8; 16]);

impl std::fmt::Display for HomeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl std::str::FromStr for HomeId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<HomeId, Self::Err> {
        u128::from_str_radix(text, 16).map(|id| HomeId(id.to_be_bytes()))
    }
}

/// Which part of which home a server holds.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Part {
    /// The home of the first server; it names them all.
    pub first: HomeId,
    /// Which of the servers this is, from 0.
    pub index: u32,
    /// How many there are.
    pub servers: u32,
    /// Bytes of a stripe.
    pub stripe_bytes: u64,
}

/// What a client says of a request for bytes (I-01, I-02).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct Hint {
    /// What the request is by itself.
    pub class: RequestClass,
    /// The servers that hold the other parts of the request.
    pub siblings: Vec<ServerId>,
}

/// Bytes of this server's part of a file.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Bytes {
    /// The client's number for the file.
    pub ino: Ino,
    /// Where it stands.
    pub path: HomePath,
    /// Bytes from the start of the part.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// What a client asks.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[allow(missing_docs)] // The fields say it by their names and types.
pub enum Request {
    /// Which home is this? Answer: `Home`.
    Who,
    /// The client takes the server for this part. Answer: `Done`; `Refused` if it is another one, or holds something else.
    Join { part: Part },
    /// Answer: `Listing`, in parts.
    List { path: HomePath },
    /// Answer: `Stat`.
    Stat { path: HomePath },
    /// Answer: `Target`.
    ReadLink { path: HomePath },
    /// Answer: `StatFs`.
    StatFs,
    /// Answer: `Xattrs`.
    Xattrs { path: HomePath },
    /// Answer: `Read`, with a payload of the bytes that are there.
    Read { bytes: Bytes, hint: Hint },
    /// The payload goes there. Answer: `Done`.
    Write { bytes: Bytes, hint: Hint },
    /// CRC-32C of the range's parts: from its start to the next multiple of `unit`, and so on; read from the medium where that can be.
    /// What lies behind the end is zeros. Answer: `Checksums`; none if the medium gives other bytes than the cache.
    Checksums { bytes: Bytes, unit: u64 },
    /// Answer: `Compared`.
    CompareZeros { bytes: Bytes },
    /// Answer: `Found`.
    Seek { ino: Ino, path: HomePath, offset: u64, whence: SeekWhence },
    /// Answer: `Done`.
    Sync { files: Vec<(Ino, HomePath)>, directories: Vec<HomePath> },
    /// Answer: `Done` or `Blocks`.
    Change { change: HomeChange },
    /// What the client knows of all servers' disks (I-06): their service times, ns. Answer: `ServiceTime`.
    ServiceTimes { times: Vec<(ServerId, u64)> },
    /// Everything on the SSD goes to the disk. Answer: `Done`.
    Drain,
    /// Another policy decides from now on. Answer: `Done` or `Refused`.
    SetPolicy { policy: ServerPolicy },
    /// Answer: `Status`.
    Status,
}

/// What a server answers.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[allow(missing_docs)] // The fields say it by their names and types.
pub enum Reply {
    Done,
    Failed(Errno),
    /// What was asked for cannot be, in words.
    Refused(String),
    /// Which home, and which boot of the machine: what was not synced in another one may be lost.
    Home {
        id: HomeId,
        boot: String,
    },
    /// The payload is a list of entries, see [`pack`].
    Listing,
    Stat(HomeAttr),
    Target(Name),
    StatFs(StatFs),
    Xattrs(Vec<Xattr>),
    Read,
    /// And how many bytes are there before the end.
    Checksums {
        sums: Vec<u32>,
        there: u64,
    },
    Compared(bool),
    Found(Option<u64>),
    Blocks(u64),
    /// Its own disk's service time, ns; none if it has measured none.
    ServiceTime(Option<u64>),
    Status(Box<ServerStatus>),
}

/// Writes of one kind that a server has taken.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Went {
    /// Their class: ordinary, random or fragment.
    pub class: String,
    /// The device that they went to: disk or ssd.
    pub to: String,
    /// Why.
    pub reason: String,
    /// How many.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The state of a server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct ServerStatus {
    /// The program's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// The home directory.
    pub home: String,
    /// Which part it holds; none before the first client has come.
    pub part: Option<Part>,
    /// The policy that decides, by its name.
    pub policy: String,
    /// Sessions of clients; who asks is one.
    pub sessions: u64,
    /// Bytes that the SSD may hold.
    pub ssd_bytes: u64,
    /// Bytes on the SSD that are not on the disk.
    pub dirty_bytes: u64,
    /// Requests that are not answered.
    pub open_requests: u64,
    /// Where writes went, and why.
    pub writes: Vec<Went>,
    /// Reads.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Of them, those that came from the SSD.
    pub read_ssd_bytes: u64,
    /// Writes that waited for room on the SSD.
    pub waits_for_room: u64,
    /// Writes that waited for others in their range.
    pub waits_for_range: u64,
    /// Writes to the disk that took older bytes on the SSD out of the way.
    pub superseding: u64,
    /// Regions that were flushed.
    pub flushes: u64,
    /// Bytes that flushes brought to the disk.
    pub flushed_bytes: u64,
    /// How long flushes rested for the sake of other requests, ns.
    pub flush_rested_ns: u64,
    /// The average service time of the disk, ns, if the policy keeps it.
    pub service_ns: Option<u64>,
    /// What the SSD's device last refused.
    pub ssd_fault: Option<String>,
}

const KINDS: [Kind; 7] = [Kind::File, Kind::Directory, Kind::Symlink, Kind::Fifo, Kind::Socket, Kind::CharDevice, Kind::BlockDevice];

/// A listing as bytes: of each entry its kind, the length of its name, and the name.
pub fn pack(entries: &Entries) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries.iter() {
        let kind = KINDS.iter().position(|known| *known == entry.kind).unwrap_or_default() as u8;
        // A name of a file system is shorter.
        let Ok(len) = u16::try_from(entry.name.len()) else { continue };
        bytes.push(kind);
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(entry.name);
    }
    bytes
}

/// The listing that bytes say; `None` if they are none, or name what no directory holds.
pub fn unpack(mut bytes: &[u8]) -> Option<Entries> {
    let mut entries = Entries::default();
    while let Some((head, rest)) = bytes.split_first_chunk::<3>() {
        let kind = *KINDS.get(usize::from(head[0]))?;
        let (name, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes([head[1], head[2]])))?;
        if name.is_empty() || name == b"." || name == b".." || name.iter().any(|byte| matches!(byte, 0 | b'/')) {
            return None;
        }
        entries.push(name, kind, None);
        bytes = rest;
    }
    entries.shrink_to_fit();
    bytes.is_empty().then_some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn garbage_makes_no_message(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let _ = postcard::from_bytes::<Request>(&bytes);
            let _ = postcard::from_bytes::<Reply>(&bytes);
            let _ = unpack(&bytes);
        }

        #[test]
        fn listings_arrive(names in prop::collection::vec((prop::collection::vec(1u8..=255, 1..40), 0usize..7), 0..50)) {
            let mut entries = Entries::default();
            for (name, kind) in &names {
                let name: Vec<u8> = name.iter().map(|byte| if *byte == b'/' || *byte == b'.' { b'_' } else { *byte }).collect();
                entries.push(&name, KINDS[*kind], None);
            }
            entries.shrink_to_fit();
            prop_assert_eq!(unpack(&pack(&entries)), Some(entries));
        }
    }

    #[test]
    fn names_that_no_directory_holds_are_refused() {
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0b"] {
            let mut bytes = vec![0, name.len() as u8, 0];
            bytes.extend_from_slice(name);
            assert_eq!(unpack(&bytes), None);
        }
        assert_eq!(unpack(&[0, 5, 0, b'x']), None);
        assert_eq!(unpack(&[9, 1, 0, b'x']), None);
    }
}
