//! A connection, of whatever kind.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{tcp, uds};

/// Where a server listens: `HOST:PORT`, or `unix:` and a path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Address {
    /// A host's name or number, and a port.
    Tcp(String),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Address {
    /// Reads an address as a user writes it.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Address, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let absolute = Path::new(path).is_absolute();
            return if absolute {
                Ok(Address::Unix(path.into()))
            } else {
                Err("write unix: and an absolute path, as in unix:/run/fb.sock".into())
            };
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(Address::Tcp(text.into())),
            _ => Err("write HOST:PORT, as in 10.0.0.1:7070, or unix:/PATH".into()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A connection. Both directions are used at the same time, each by one thread.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Connects.
    pub(crate) fn connect(address: &Address, within: Duration) -> io::Result<Stream> {
        match address {
            Address::Tcp(address) => tcp::connect(address, within).map(Stream::Tcp),
            Address::Unix(path) => uds::connect(path).map(Stream::Unix),
        }
    }

    /// How long a read may be without a byte before it says [`io::ErrorKind::WouldBlock`], and how long a write.
    pub(crate) fn set_timeouts(&self, read: Duration, write: Duration) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(Some(read)).and_then(|()| stream.set_write_timeout(Some(write))),
            Stream::Unix(stream) => stream.set_read_timeout(Some(read)).and_then(|()| stream.set_write_timeout(Some(write))),
        }
    }

    /// Ends both directions: whoever reads or writes wakes up.
    pub(crate) fn end(&self) {
        // One that is broken already is at its end.
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Read for &Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).read(buf),
            Stream::Unix(stream) => (&mut &*stream).read(buf),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).write(buf),
            Stream::Unix(stream) => (&mut &*stream).write(buf),
        }
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).write_vectored(bufs),
            Stream::Unix(stream) => (&mut &*stream).write_vectored(bufs),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a stream with patience: between two bytes of it `idle` may do something, and no more than `silence_max` may pass.
pub(crate) struct Patient<'a, F> {
    pub(crate) stream: &'a Stream,
    pub(crate) silence_max: Duration,
    /// When a byte came last.
    pub(crate) heard: Instant,
    /// Asked each time that a read had nothing for the stream's time-out, with how long nothing has come.
    pub(crate) idle: F,
}

impl<F: FnMut(Duration)> Read for Patient<'_, F> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match (&mut &*self.stream).read(buf) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    let silence = self.heard.elapsed();
                    if silence >= self.silence_max {
                        return Err(io::Error::new(io::ErrorKind::TimedOut, "the other side is silent"));
                    }
                    (self.idle)(silence);
                }
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the other side has closed the connection")),
                result => {
                    self.heard = Instant::now();
                    return result;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_written() {
        for text in ["127.0.0.1:7070", "server-1:80", "[::1]:9", "unix:/run/fb.sock"] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "host", "host:", ":80", "host:99999", "unix:", "unix:relative"] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }
}
