//! What the kernel is told: answers made into bytes.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use forebay_core::attr::Attr;
use forebay_core::errno::Errno;
use forebay_core::id::Ino;
use forebay_core::message::StatFs;

use crate::abi::{OUT_HEADER_BYTES, Put};
use crate::convert::{mode, seconds};
use crate::virtual_files::is_virtual;

/// Inode numbers are never used again, so there is one generation.
const GENERATION: u64 = 0;
/// What stat(2) shows as the size for efficient I/O: the page, in which the kernel caches.
const BLOCK_BYTES: u32 = 4096;
/// Unit of statfs, bytes.
const STATFS_UNIT_BYTES: u64 = 4096;
/// Bytes of `fuse_entry_out`.
pub(crate) const ENTRY_BYTES: usize = 128;

/// An answer under construction: a header, and a body that [`Answer::begin`] gives. The space is used again and again.
#[derive(Default)]
pub(crate) struct Answer {
    bytes: Vec<u8>,
}

impl Answer {
    /// Begins anew; the body is to be put at the end.
    pub(crate) fn begin(&mut self) -> &mut Vec<u8> {
        self.bytes.clear();
        self.bytes.resize(OUT_HEADER_BYTES, 0);
        &mut self.bytes
    }

    /// The body that was put.
    pub(crate) fn body(&self) -> &[u8] {
        self.bytes.get(OUT_HEADER_BYTES..).unwrap_or_default()
    }

    /// Sends the body that was put.
    pub(crate) fn send(&mut self, device: &OwnedFd, unique: u64) -> rustix::io::Result<()> {
        self.set_header(unique, 0);
        rustix::io::write(device, &self.bytes).map(drop)
    }

    /// Sends that it is done.
    pub(crate) fn send_empty(&mut self, device: &OwnedFd, unique: u64) -> rustix::io::Result<()> {
        self.begin();
        self.send(device, unique)
    }

    /// Sends these bytes as the body.
    pub(crate) fn send_data(&mut self, device: &OwnedFd, unique: u64, data: &[u8]) -> rustix::io::Result<()> {
        self.begin();
        self.set_header(unique, data.len());
        rustix::io::writev(device, &[IoSlice::new(&self.bytes), IoSlice::new(data)]).map(drop)
    }

    fn set_header(&mut self, unique: u64, more_bytes: usize) {
        let header = header(self.bytes.len() + more_bytes, 0, unique);
        if let Some(place) = self.bytes.first_chunk_mut::<OUT_HEADER_BYTES>() {
            *place = header;
        }
    }
}

/// `fuse_out_header`.
fn header(len: usize, error: i32, unique: u64) -> [u8; OUT_HEADER_BYTES] {
    let mut header = [0; OUT_HEADER_BYTES];
    header[..4].copy_from_slice(&(len as u32).to_ne_bytes());
    header[4..8].copy_from_slice(&error.to_ne_bytes());
    header[8..].copy_from_slice(&unique.to_ne_bytes());
    header
}

/// Answers with an error.
pub(crate) fn send_error(device: &OwnedFd, unique: u64, errno: Errno) -> rustix::io::Result<()> {
    rustix::io::write(device, &header(OUT_HEADER_BYTES, -errno.0.clamp(1, 511), unique)).map(drop)
}

/// Tells the kernel something that it has not asked for: `code` is one of `enum fuse_notify_code`.
pub(crate) fn notify(device: &OwnedFd, code: i32, body: &[u8]) -> rustix::io::Result<()> {
    let header = header(OUT_HEADER_BYTES + body.len(), code, 0);
    rustix::io::writev(device, &[IoSlice::new(&header), IoSlice::new(body)]).map(drop)
}

/// For how many seconds the kernel may keep an inode's name and attributes, if those of others may be kept for `valid_s`.
fn valid(ino: Ino, valid_s: u64) -> u64 {
    if is_virtual(ino) { 0 } else { valid_s }
}

/// `fuse_attr`.
fn put_attr(out: &mut Vec<u8>, ino: Ino, attr: &Attr) {
    let times = [attr.atime_ns, attr.mtime_ns, attr.ctime_ns].map(seconds);
    out.put_u64(ino.0);
    out.put_u64(attr.size);
    out.put_u64(attr.blocks);
    times.iter().for_each(|(seconds, _)| out.put_u64(*seconds as u64));
    times.iter().for_each(|(_, nanoseconds)| out.put_u32(*nanoseconds));
    for value in [mode(attr), attr.nlink, attr.uid, attr.gid, attr.rdev, BLOCK_BYTES, 0] {
        out.put_u32(value);
    }
}

/// `fuse_entry_out` of an inode that is there.
pub(crate) fn put_entry(out: &mut Vec<u8>, valid_s: u64, ino: Ino, attr: &Attr) {
    out.put_u64(ino.0);
    out.put_u64(GENERATION);
    out.put_u64(valid(ino, valid_s));
    out.put_u64(valid(ino, valid_s));
    out.put_u64(0);
    put_attr(out, ino, attr);
}

/// Tells the kernel that there is no such name, in a form that it may keep.
pub(crate) fn put_no_entry(out: &mut Vec<u8>, valid_s: u64) {
    out.put_u64(0);
    out.put_u64(GENERATION);
    out.put_u64(valid_s);
    out.resize(out.len() + ENTRY_BYTES - 24, 0);
}

/// `fuse_attr_out`.
pub(crate) fn put_attr_out(out: &mut Vec<u8>, valid_s: u64, ino: Ino, attr: &Attr) {
    out.put_u64(valid(ino, valid_s));
    out.put_u64(0);
    put_attr(out, ino, attr);
}

/// `fuse_open_out`.
pub(crate) fn put_open(out: &mut Vec<u8>, handle: u64, flags: u32) {
    out.put_u64(handle);
    out.put_u32(flags);
    out.put_u32(0);
}

/// `fuse_statfs_out`.
pub(crate) fn put_stat_fs(out: &mut Vec<u8>, stat: &StatFs) {
    for bytes in [stat.total_bytes, stat.free_bytes, stat.available_bytes] {
        out.put_u64(bytes / STATFS_UNIT_BYTES);
    }
    out.put_u64(stat.files);
    out.put_u64(stat.files_free);
    for value in [STATFS_UNIT_BYTES as u32, stat.name_bytes_max, STATFS_UNIT_BYTES as u32] {
        out.put_u32(value);
    }
    out.resize(out.len() + 28, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::attr::Kind;

    #[test]
    fn structures_have_the_kernels_lengths() {
        let attr = Attr {
            kind: Kind::File,
            mode: 0o644,
            nlink: 1,
            uid: 2,
            gid: 3,
            size: 4,
            blocks: 5,
            rdev: 0,
            atime_ns: -1,
            mtime_ns: 1_000_000_007,
            ctime_ns: 0,
        };
        let length = |put: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            put(&mut out);
            out.len()
        };
        assert_eq!(length(&|out| put_entry(out, 1, Ino(2), &attr)), ENTRY_BYTES);
        assert_eq!(length(&|out| put_no_entry(out, 1)), ENTRY_BYTES);
        assert_eq!(length(&|out| put_attr_out(out, 1, Ino(2), &attr)), 104);
        assert_eq!(length(&|out| put_open(out, 1, 2)), 16);
        assert_eq!(length(&|out| put_stat_fs(out, &StatFs::default())), 80);
        let mut out = Vec::new();
        put_attr(&mut out, Ino(2), &attr);
        assert_eq!(out[24..32], (-1i64).to_ne_bytes(), "a time before 1970 is negative seconds and nanoseconds after them");
        assert_eq!(out[48..60], [999_999_999u32, 7, 0].map(u32::to_ne_bytes).concat());
    }
}
