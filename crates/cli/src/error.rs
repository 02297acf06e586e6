//! What can go wrong, as the user is told, and the exit status that goes with it.

use std::path::PathBuf;

use thiserror::Error;

use crate::config::SettingError;
use crate::geometry::GeometryError;
use crate::places::PlaceError;
use crate::sizes::SpaceError;

/// Exit statuses of `forebay` itself; the numbers are those of sysexits.h and of the shell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Exit {
    /// The command line cannot be understood.
    Usage = 64,
    /// A file's content is wrong: a damaged buffer, another version, a recording that replays differently.
    Data = 65,
    /// Cannot mount, or there is no such instance.
    Unavailable = 69,
    /// A defect of Forebay, or of the system under it.
    Internal = 70,
    /// The buffer cannot be made or opened.
    Buffer = 73,
    /// Not everything could be brought home and compared; the buffer is kept.
    Drain = 74,
    /// The drain was stopped by a signal; the buffer is kept.
    Kept = 75,
    /// The configuration or a directory that it names is wrong.
    Config = 78,
    /// The command was found and could not be executed.
    NotExecutable = 126,
    /// The command was not found.
    NotFound = 127,
}

/// A failure of a command.
#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    Space(#[from] SpaceError),
    #[error("the buffer {} cannot be used: {reason}", .buffer.display())]
    Buffer { buffer: PathBuf, reason: String },
    #[error("the buffer {} cannot be read: {reason}", .buffer.display())]
    Damaged { buffer: PathBuf, reason: String },
    #[error("cannot mount at {}: {reason}", .mount.display())]
    Mount { mount: PathBuf, reason: String },
    #[error("{0}")]
    Unavailable(String),
    #[error("{0}")]
    Drain(String),
    #[error("{0}")]
    Kept(String),
    #[error("{0}")]
    Data(String),
    #[error("cannot {action}: {error}")]
    Io { action: String, error: std::io::Error },
    #[error("{message}")]
    Coded { message: String, exit: Exit },
    /// The command could not be started.
    #[error("{message}")]
    Refused { code: u8, message: String },
    /// Another process has said already what went wrong.
    #[error("")]
    Told(u8),
}

impl Error {
    /// A fault of the command line.
    pub(crate) fn usage(message: impl Into<String>) -> Error {
        Error::Coded { message: message.into(), exit: Exit::Usage }
    }

    /// The exit status of this failure.
    pub(crate) fn code(&self) -> u8 {
        let exit = match self {
            Error::Setting(error) if error.is_usage() => Exit::Usage,
            Error::Setting(_) | Error::Geometry(_) | Error::Place(_) | Error::Space(_) => Exit::Config,
            Error::Buffer { .. } => Exit::Buffer,
            Error::Damaged { .. } | Error::Data(_) => Exit::Data,
            Error::Mount { .. } | Error::Unavailable(_) => Exit::Unavailable,
            Error::Drain(_) => Exit::Drain,
            Error::Kept(_) => Exit::Kept,
            Error::Io { .. } => Exit::Internal,
            Error::Coded { exit, .. } => *exit,
            Error::Told(code) | Error::Refused { code, .. } => return *code,
        };
        exit as u8
    }

    /// An I/O error of `forebay` itself while it tried to `action`.
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let action = action.into();
        move |error| Error::Io { action, error }
    }
}
