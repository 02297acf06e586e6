//! Connections over sockets of the file system.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

pub(super) fn connect(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(path)
}

/// Listens at `path`; a socket that a server of before has left, and that nobody answers at, is replaced.
pub(super) fn listen(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            match UnixStream::connect(path) {
                Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
                _ => return Err(error),
            }
            UnixListener::bind(path)
        }
        result => result,
    }
}
