//! The first exchange with the kernel: which version, which abilities, how large.

use std::io;
use std::os::fd::OwnedFd;

use forebay_core::errno::Errno;
use serde::{Deserialize, Serialize};

use crate::abi::{IN_HEADER_BYTES, MAJOR, MINOR, Put, READ_BUFFER_BYTES_MIN, WRITE_IN_BYTES, init};
use crate::answer::{self, Answer};
use crate::operation::{self, Header, Operation};

/// The largest write of one request, bytes.
const WRITE_BYTES_MAX: u32 = 512 << 10;
/// The smallest that the kernel takes for an answer.
const WRITE_BYTES_MIN: u32 = 4096;
/// Requests that the kernel may have under way without a process waiting for each (read-ahead, write-back). Fewer than there are large buffers:
/// its write-back must leave some for those who wait.
const BACKGROUND_MAX: u16 = 48;
/// From so many of them on the kernel calls the mount congested, and slows what makes more.
const BACKGROUND_CONGESTED: u16 = BACKGROUND_MAX / 4 * 3;
const PAGE_BYTES: u32 = 4096;
/// The oldest minor version (Linux 5.4) that this speaks: since it the kernel tells all its limits in the form that is read here.
const MINOR_MIN: u32 = 31;
/// The oldest minor version (Linux 6.2) of which it is known that the kernel asks for the sync of an `O_SYNC` write.
const MINOR_SYNCS: u32 = 38;

/// What the mount would like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    /// The kernel keeps written bytes back; it is an error if it cannot.
    pub(crate) kernel_write_back: bool,
    /// The longest write that the server takes, bytes.
    pub(crate) write_bytes_max: u32,
    /// Each open, close, read and write of a program is to be a request: nothing is answered from pages or by the kernel itself.
    pub(crate) sees_all: bool,
    /// See [`Agreed::names_valid_s`].
    pub(crate) names_valid_s: u64,
}

/// What was agreed; a process that takes the connection over is told.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Agreed {
    /// The longest write, and read, of one request.
    pub transfer_bytes_max: u32,
    /// The kernel itself asks for a sync after a write to a file that was opened with `O_SYNC` or `O_DSYNC`.
    pub kernel_syncs: bool,
    /// The kernel keeps written bytes back.
    pub kernel_write_back: bool,
    /// The kernel opens and closes files by itself, once it was told that there is no such request.
    pub opens_unasked: bool,
    /// The kernel can send again what was not answered.
    pub resends: bool,
    /// Reads and writes of programs go past the kernel's pages.
    pub direct_io: bool,
    /// For how long the kernel may keep names and attributes that it was told, seconds.
    pub names_valid_s: u64,
}

impl Agreed {
    /// Bytes that a buffer needs for the longest request.
    pub(crate) fn request_bytes_max(&self) -> usize {
        (IN_HEADER_BYTES + WRITE_IN_BYTES + self.transfer_bytes_max as usize)
            .max(READ_BUFFER_BYTES_MIN)
            .next_multiple_of(PAGE_BYTES as usize)
    }
}

/// Answers the kernel's first request.
pub(crate) fn handshake(device: &OwnedFd, wishes: &Wishes) -> io::Result<Agreed> {
    let mut buffer = vec![0; READ_BUFFER_BYTES_MIN.max((WRITE_BYTES_MAX + PAGE_BYTES) as usize)];
    loop {
        let len = match rustix::io::read(device, &mut buffer[..]) {
            Ok(len) => len,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN | rustix::io::Errno::NOENT) => continue,
            Err(errno) => return Err(errno.into()),
        };
        let bytes = buffer.get(..len).unwrap_or_default();
        let Some(header) = operation::header(bytes) else { return Err(protocol("the kernel's first request cannot be read")) };
        let Some(Operation::Init { major, minor, max_readahead, flags }) = operation::parse(&header, bytes) else {
            return Err(protocol("the kernel's first request is not INIT"));
        };
        if major > MAJOR {
            // It will ask again, in our version.
            send(device, &header, &only_version())?;
            continue;
        }
        match agree(major, minor, max_readahead, flags, wishes) {
            Ok((agreed, body)) => {
                send(device, &header, &body)?;
                return Ok(agreed);
            }
            Err(error) => {
                let _ = answer::send_error(device, header.unique, Errno(rustix::io::Errno::PROTO.raw_os_error()));
                return Err(error);
            }
        }
    }
}

fn protocol(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, text)
}

fn send(device: &OwnedFd, header: &Header, body: &[u8]) -> io::Result<()> {
    let mut answer = Answer::default();
    answer.begin().extend_from_slice(body);
    Ok(answer.send(device, header.unique)?)
}

fn only_version() -> Vec<u8> {
    let mut body = Vec::new();
    body.put_u32(MAJOR);
    body.put_u32(MINOR);
    body.resize(64, 0);
    body
}

/// Chooses; gives `fuse_init_out`, too.
fn agree(major: u32, minor: u32, max_readahead: u32, offered: u64, wishes: &Wishes) -> io::Result<(Agreed, Vec<u8>)> {
    if major < MAJOR || minor < MINOR_MIN {
        return Err(protocol(&format!("this kernel speaks FUSE {major}.{minor}, {MAJOR}.{MINOR_MIN} (Linux 5.4) is needed")));
    }
    if wishes.kernel_write_back && offered & init::WRITEBACK_CACHE == 0 {
        return Err(protocol("this kernel has no write-back cache for FUSE"));
    }
    // Each is an optimisation; a kernel without it works. All changes come through this kernel, so that neither names nor pages need to
    // be looked at again: a new size must not make it drop the pages that it holds (EXPLICIT_INVAL_DATA). ABORT_ERROR tells an aborted
    // connection from an unmounted one. The server takes set-id bits from what is written (HANDLE_KILLPRIV_V2): else the kernel would ask
    // before each write whether the file has capabilities.
    let mut wanted = init::ASYNC_READ
        | init::BIG_WRITES
        | init::MAX_PAGES
        | init::ASYNC_DIO
        | init::PARALLEL_DIROPS
        | init::DO_READDIRPLUS
        | init::READDIRPLUS_AUTO
        | init::CACHE_SYMLINKS
        | init::EXPLICIT_INVAL_DATA
        | init::ABORT_ERROR
        | init::HANDLE_KILLPRIV_V2
        | init::INIT_EXT
        | init::HAS_RESEND;
    if wishes.kernel_write_back {
        wanted |= init::WRITEBACK_CACHE;
    }
    if wishes.sees_all {
        // Where it is missing, files that are open past the pages could not be mapped: programs come first, the pages stay.
        wanted |= init::DIRECT_IO_ALLOW_MMAP;
    }
    let flags = wanted & offered;
    let transfer_bytes_max = wishes.write_bytes_max.clamp(WRITE_BYTES_MIN, WRITE_BYTES_MAX) / PAGE_BYTES * PAGE_BYTES;
    let mut body = Vec::with_capacity(64);
    body.put_u32(MAJOR);
    body.put_u32(MINOR.min(minor));
    body.put_u32(max_readahead.min(transfer_bytes_max));
    body.put_u32(flags as u32);
    body.put_u16(BACKGROUND_MAX);
    body.put_u16(BACKGROUND_CONGESTED);
    body.put_u32(transfer_bytes_max);
    // Nanoseconds in which times are told.
    body.put_u32(1);
    body.put_u16((transfer_bytes_max / PAGE_BYTES) as u16);
    // No mapping of memory.
    body.put_u16(0);
    body.put_u32((flags >> 32) as u32);
    body.resize(64, 0);
    let agreed = Agreed {
        transfer_bytes_max,
        kernel_syncs: minor >= MINOR_SYNCS,
        kernel_write_back: flags & init::WRITEBACK_CACHE != 0,
        opens_unasked: offered & init::NO_OPEN_SUPPORT != 0 && !wishes.sees_all,
        resends: offered & init::HAS_RESEND != 0,
        direct_io: flags & init::DIRECT_IO_ALLOW_MMAP != 0,
        names_valid_s: wishes.names_valid_s,
    };
    Ok((agreed, body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Reader;

    const WISHES: Wishes = Wishes { kernel_write_back: false, write_bytes_max: 256 << 10, sees_all: false, names_valid_s: 9 };

    #[test]
    fn only_what_is_offered_is_taken() {
        let (agreed, body) = agree(7, 45, 128 << 10, init::MAX_PAGES | init::WRITEBACK_CACHE, &WISHES).unwrap();
        let expected = Agreed {
            transfer_bytes_max: 256 << 10,
            kernel_syncs: true,
            kernel_write_back: false,
            opens_unasked: false,
            resends: false,
            direct_io: false,
            names_valid_s: 9,
        };
        assert_eq!(agreed, expected);
        assert!(agreed.request_bytes_max() >= (256 << 10) + IN_HEADER_BYTES + WRITE_IN_BYTES);
        let mut reader = Reader::new(&body);
        let fields: Vec<u32> = std::iter::from_fn(|| reader.u32()).collect();
        assert_eq!(fields[..4], [7, MINOR, 128 << 10, init::MAX_PAGES as u32]);
        assert_eq!((fields[5], fields[7] & 0xffff, fields.len()), (256 << 10, 64, 16));
        let (agreed, body) =
            agree(7, 31, 1 << 30, u64::MAX, &Wishes { kernel_write_back: true, write_bytes_max: u32::MAX, ..WISHES }).unwrap();
        assert_eq!((agreed.kernel_write_back, agreed.kernel_syncs, agreed.transfer_bytes_max), (true, false, WRITE_BYTES_MAX));
        assert_eq!(Reader::new(&body[4..]).u32(), Some(31));
    }

    #[test]
    fn who_wants_to_see_all_is_asked_for_all_that_the_kernel_can_be_made_to_ask() {
        let sees_all = Wishes { sees_all: true, ..WISHES };
        let (agreed, _) = agree(7, 45, 0, u64::MAX, &sees_all).unwrap();
        assert!(agreed.direct_io && !agreed.opens_unasked);
        let (agreed, _) = agree(7, 38, 0, !init::DIRECT_IO_ALLOW_MMAP, &sees_all).unwrap();
        assert!(!agreed.direct_io && !agreed.opens_unasked, "an older kernel");
        let (agreed, _) = agree(7, 45, 0, u64::MAX, &WISHES).unwrap();
        assert!(!agreed.direct_io && agreed.opens_unasked);
    }

    #[test]
    fn kernels_that_cannot_are_refused() {
        assert!(agree(7, 30, 0, u64::MAX, &WISHES).is_err());
        assert!(agree(6, 45, 0, u64::MAX, &WISHES).is_err());
        assert!(agree(7, 45, 0, 0, &Wishes { kernel_write_back: true, ..WISHES }).is_err());
    }
}
