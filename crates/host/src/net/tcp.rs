//! Connections over TCP.

use std::io;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Connects to the first of a host's addresses that answers.
pub(super) fn connect(address: &str, within: Duration) -> io::Result<TcpStream> {
    let mut result = Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    for address in address.to_socket_addrs()? {
        result = TcpStream::connect_timeout(&address, within);
        if result.is_ok() {
            break;
        }
    }
    let stream = result?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

pub(super) fn listen(address: &str) -> io::Result<(TcpListener, String)> {
    let listener = TcpListener::bind(address)?;
    let bound = listener.local_addr()?.to_string();
    Ok((listener, bound))
}

pub(super) fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
