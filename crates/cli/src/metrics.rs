//! Counters for Prometheus, over HTTP: one thread, one connection at a time, each with a deadline.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use forebay_core::message::Status;

use crate::engine::Engine;
use crate::error::{Error, Exit};

/// The longest request that is read, bytes.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// How long a request and its answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The address that a text means: `PORT` on this machine alone, or `ADDRESS:PORT`.
pub(crate) fn parse(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim();
    if let Ok(port) = text.parse::<u16>() {
        return Ok(([127, 0, 0, 1], port).into());
    }
    text.parse().map_err(|_| "write a port (9100), or an address and a port (127.0.0.1:9100, [::1]:9100)".into())
}

/// Listens, before anything is mounted: an address that cannot be had is an error of the command line.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).map_err(|error| Error::Coded {
        message: format!("cannot serve metrics at {address}: {error}; name another address or port with --metrics (0 takes a free one)"),
        exit: Exit::Config,
    })
}

/// Serves until the instance or the process ends; gives the address.
pub(crate) fn serve(listener: TcpListener, engine: &Arc<Engine>) -> io::Result<SocketAddr> {
    let address = listener.local_addr()?;
    let engine = Arc::downgrade(engine);
    std::thread::Builder::new().name("metrics".into()).spawn(move || {
        for stream in listener.incoming().flatten() {
            // Whoever asked is gone: there is nobody to tell.
            let _ = answer(stream, &engine);
        }
    })?;
    Ok(address)
}

/// Reads the head of a request, and nothing behind it.
fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let until = Instant::now() + ANSWER_WITHIN;
    let mut head = Vec::new();
    let mut part = [0; 512];
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") && !head.windows(2).any(|bytes| bytes == b"\n\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > REQUEST_BYTES_MAX {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => break,
            len => head.extend_from_slice(&part[..len]),
        }
    }
    Ok(head)
}

fn answer(mut stream: TcpStream, engine: &Weak<Engine>) -> io::Result<()> {
    stream.set_write_timeout(Some(ANSWER_WITHIN))?;
    let head = read_head(&mut stream)?;
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(u8::is_ascii_whitespace);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    let (status, body) = match (method, path, engine.upgrade()) {
        (b"GET" | b"HEAD", b"/metrics" | b"/", Some(engine)) => ("200 OK", text(&engine.status())),
        (b"GET" | b"HEAD", b"/metrics" | b"/", None) => ("503 Service Unavailable", "the instance has ended\n".into()),
        (b"GET" | b"HEAD", ..) => ("404 Not Found", "the metrics are at /metrics\n".into()),
        _ => ("405 Method Not Allowed", "only GET is understood\n".into()),
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    if method != b"HEAD" {
        stream.write_all(body.as_bytes())?;
    }
    stream.flush()
}

/// The state in Prometheus' text format.
fn text(status: &Status) -> String {
    let counters = &status.counters;
    let sums: [(&str, u64, &str); 18] = [
        ("writes", counters.writes, "Write requests."),
        ("written_bytes", counters.written_bytes, "Bytes written by the application."),
        ("reads", counters.reads, "Read requests."),
        ("read_bytes", counters.read_bytes, "Bytes read by the application."),
        ("hit_bytes", counters.hit_bytes, "Bytes read that stood in the buffer."),
        ("first_read_bytes", counters.first_read_bytes, "Bytes read that had never been in the buffer."),
        ("reread_bytes", counters.reread_bytes, "Bytes read that had been swapped out of the buffer."),
        ("swaps", counters.swaps, "Chunks swapped out to make room."),
        ("dirty_swaps", counters.dirty_swaps, "Chunks that had to be written back first."),
        ("home_read_bytes", counters.home_read_bytes, "Bytes read from home."),
        ("home_written_bytes", counters.home_written_bytes, "Bytes written home."),
        ("home_writes", counters.home_writes, "Write calls at home."),
        ("compared_bytes", counters.compared_bytes, "Bytes compared at home."),
        ("home_names", counters.home_names, "Names made, changed or removed at home."),
        ("cleaned_bytes", counters.cleaned_bytes, "Bytes moved inside the log to make room."),
        ("spilled_bytes", counters.spilled_bytes, "Bytes written from memory to the SSD."),
        ("log_syncs", counters.log_syncs, "Syncs of the log."),
        ("home_errors", counters.home_errors, "Errors that home gave."),
    ];
    let gauges: [(&str, u64, &str); 12] = [
        ("capacity_bytes", status.capacity_bytes, "Bytes that the buffer may hold."),
        ("memory_bytes", status.memory_bytes, "Bytes that memory may hold."),
        ("used_bytes", status.used_bytes, "Bytes in use in the buffer."),
        ("used_memory_bytes", status.used_memory_bytes, "Bytes in use in memory."),
        ("peak_bytes", status.peak_bytes, "The most that was ever in use."),
        ("live_bytes", status.live_bytes, "Bytes of files in the buffer."),
        ("dirty_bytes", status.dirty_bytes, "Bytes not yet home."),
        ("dirty_names", status.dirty_names, "Names and attributes not yet home."),
        ("waiting_requests", status.waiting.iter().map(|waiting| u64::from(waiting.requests)).sum(), "Requests that wait."),
        ("draining", status.draining.into(), "Whether a drain is under way."),
        ("troubles", status.troubles.len() as u64, "Paths in trouble at home, at most 16 are counted."),
        ("log_failed", status.log_failed.is_some().into(), "Whether the log has refused a write."),
    ];
    let mut text = String::new();
    let sums = sums.map(|(name, value, help)| (format!("{name}_total"), value, help, "counter"));
    let gauges = gauges.map(|(name, value, help)| (name.to_string(), value, help, "gauge"));
    for (name, value, help, kind) in sums.into_iter().chain(gauges) {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "# HELP forebay_{name} {help}\n# TYPE forebay_{name} {kind}\nforebay_{name} {value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_port_or_both() {
        assert_eq!(parse("9100").unwrap(), "127.0.0.1:9100".parse().unwrap());
        assert_eq!(parse("0.0.0.0:1").unwrap(), "0.0.0.0:1".parse().unwrap());
        assert_eq!(parse("[::1]:9100").unwrap(), "[::1]:9100".parse().unwrap());
        for wrong in ["", "70000", "localhost", "1.2.3.4", ":"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_metric_has_help_type_and_a_number() {
        let text = text(&Status { dirty_bytes: 7, ..Status::default() });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3 * 30);
        for three in lines.chunks(3) {
            let name = three[2].split(' ').next().unwrap();
            assert!(three[0].starts_with(&format!("# HELP {name} ")) && three[1].starts_with(&format!("# TYPE {name} ")), "{three:?}");
        }
        assert!(text.contains("\nforebay_dirty_bytes 7\n"));
    }
}
