//! What a policy is told of a request.

use serde::{Deserialize, Serialize};

use crate::id::{Ino, ServerId};

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Operation {
    /// Bytes are asked for.
    Read,
    /// Bytes are brought.
    Write,
}

/// The devices of an I/O node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug, Default)]
pub enum Target {
    /// The large, slow one: home.
    #[default]
    Disk,
    /// The small, fast one: the buffer.
    Ssd,
}

/// What a request is by itself (I-01, I-02). The client says it, who alone knows the whole request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug, Default)]
pub enum RequestClass {
    /// Neither of the others.
    #[default]
    Ordinary,
    /// A small request as a whole (regular random request).
    Random,
    /// A small part of a larger request that several servers share.
    Fragment,
}

impl Target {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Target::Disk => "disk",
            Target::Ssd => "ssd",
        }
    }
}

impl RequestClass {
    /// Every class.
    pub const ALL: [RequestClass; 3] = [RequestClass::Ordinary, RequestClass::Random, RequestClass::Fragment];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            RequestClass::Ordinary => "ordinary",
            RequestClass::Random => "random",
            RequestClass::Fragment => "fragment",
        }
    }
}

/// A request as it arrives at an I/O server.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The file.
    pub file: Ino,
    /// Bytes from the start of this server's part of the file: the offset at which neighbours are neighbours on its disk.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Read or write.
    pub operation: Operation,
    /// What the client says of it.
    pub class: RequestClass,
    /// The servers that the other parts of the client's request went to.
    pub siblings: &'a [ServerId],
    /// Where the first byte stands on the disk, bytes from its start, as far as the server knows.
    pub place: u64,
}
