//! What can be wrong with a trace.

use std::borrow::Cow;
use std::{fmt, io};

use crate::format::Format;

/// A place in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// So many bytes from the begin.
    Byte(u64),
    /// A line; the first is 1.
    Line(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Byte(offset) => write!(formatter, "byte {offset}"),
            Place::Line(number) => write!(formatter, "line {number}"),
        }
    }
}

/// Why a trace cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused to read.
    #[error("cannot read it: {0}")]
    Read(io::Error),
    /// The operating system refused to write.
    #[error("cannot write it: {0}")]
    Write(io::Error),
    /// The content is not what its format says.
    #[error("as {}, {place} is wrong: {problem}", .format.title())]
    Malformed {
        /// What it was read as.
        format: Format,
        /// Where.
        place: Place,
        /// What.
        problem: Cow<'static, str>,
    },
    /// The content is of no format that is known.
    #[error("its content is of no known format; name one with --format ({})", Format::list())]
    Unrecognized,
    /// A format's version that this program does not read.
    #[error("it is {} of version {version}, and this program reads {readable}", .format.title())]
    Version {
        /// The format.
        format: Format,
        /// The version of the file.
        version: String,
        /// The versions that can be read.
        readable: &'static str,
    },
    /// The names are too many or too long.
    #[error(
        "a name of {bytes} bytes is too much: one may have {}, all together {}",
        crate::names::NAME_BYTES_MAX,
        crate::names::NAMES_BYTES_MAX
    )]
    Names {
        /// Of the name that was one too many, bytes.
        bytes: usize,
    },
    /// What was asked for cannot be done with this format.
    #[error("{0}")]
    Unsupported(String),
}

impl Error {
    /// Wrong content at a byte.
    pub(crate) fn at_byte(format: Format, offset: u64, problem: impl Into<Cow<'static, str>>) -> Error {
        Error::Malformed { format, place: Place::Byte(offset), problem: problem.into() }
    }

    /// Wrong content of a line.
    pub(crate) fn at_line(format: Format, number: u64, problem: impl Into<Cow<'static, str>>) -> Error {
        Error::Malformed { format, place: Place::Line(number), problem: problem.into() }
    }
}
