//! A conversation about single files: on a connection that began with [`super::Command::Files`], lines of [`FileAsk`], each answered by
//! lines of [`FileAnswer`] until one that ends it. Paths are below the mount, bytes as they are.

use forebay_core::attr::Kind;
use forebay_core::message::{Place, PlacedRange};
use serde::{Deserialize, Serialize};

use super::FailureView;

/// What is asked about a path.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct FileAsk {
    pub(crate) path: Vec<u8>,
    pub(crate) action: FileAction,
}

/// What is to be done with it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileAction {
    /// Say what it is, and how much of it is where.
    Measure,
    /// Say what is in it.
    List,
    /// Say where each of its bytes is.
    Where,
    /// Have the kernel hand over what it holds of all files.
    Flush,
    /// Read what only home has, at most so many bytes, so that it is in the buffer.
    StageIn { bytes_max: u64 },
    /// Bring it home and compare it there.
    StageOut,
}

/// A line of an answer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileAnswer {
    /// Of `List`.
    Entry { name: Vec<u8>, kind: Kind },
    /// Of `Where`.
    Range(PlacedRange),
    /// Of `StageIn` and `StageOut`: bytes that are done since the last such line, and bytes that are left.
    Progress { done_bytes: u64, left_bytes: u64 },
    /// The end: it is done, and this is how it stands.
    Done(Measure),
    /// The end: it could not be done.
    Failed(FailureView),
}

/// How much of a file is where.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct Measure {
    pub(crate) kind: Kind,
    pub(crate) size: u64,
    pub(crate) buffered_bytes: u64,
    pub(crate) dirty_bytes: u64,
    /// Bytes that only home has; what was never written is nowhere.
    pub(crate) home_only_bytes: u64,
}

/// A place in a word.
pub(crate) fn place_name(place: Place) -> &'static str {
    match place {
        Place::Memory => "memory",
        Place::Ssd => "ssd",
        Place::Home => "home",
        Place::Nowhere => "zeros",
    }
}
