//! Answers to READDIR and READDIRPLUS.

use forebay_client::{Client, Transport};
use forebay_core::attr::{Attr, Kind};
use forebay_core::errno::Errno;
use forebay_core::id::Ino;
use forebay_core::message::DirEntry;

use crate::abi::{OUT_HEADER_BYTES, Put};
use crate::answer::{ENTRY_BYTES, put_entry, put_no_entry};
use crate::convert::entry_type;
use crate::filesystem::hold;
use crate::held::Giving;

/// Directory entries asked for at a time; the kernel's buffer of a page holds about as many.
const ENTRIES_MAX: u32 = 128;
/// The same with attributes, which take several times as much.
const ENTRIES_PLUS_MAX: u32 = 32;
/// Bytes of `fuse_dirent` before the name.
const DIRENT_BYTES: usize = 24;

/// What is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Listing {
    pub(crate) directory: Ino,
    pub(crate) handle: u64,
    /// 0 and 1 are `.` and `..`, behind these are the server's entries: each offset is the cookie of the one before.
    pub(crate) offset: u64,
    /// Bytes that the kernel has room for.
    pub(crate) room_bytes: u32,
    /// With attributes, and a reference for each.
    pub(crate) plus: bool,
    /// For how long the kernel may keep what it is told, seconds.
    pub(crate) valid_s: u64,
}

/// Fills a body from the offset on, as far as it goes.
pub(crate) fn fill<T: Transport>(client: &Client<T>, held: Option<&Giving<'_>>, listing: &Listing, out: &mut Vec<u8>) -> Result<(), Errno> {
    for (at, name) in [".", ".."].into_iter().enumerate().skip(usize::try_from(listing.offset).unwrap_or(2)) {
        // The kernel takes the numbers of these two from its own tree, and no attributes.
        if !listing.fits(out, name.as_bytes()) {
            return Ok(());
        }
        if listing.plus {
            put_no_entry(out, listing.valid_s);
        }
        put_dirent(out, listing.directory, at as u64 + 1, Kind::Directory, name.as_bytes());
    }
    let mut from = if listing.offset <= 2 { 0 } else { listing.offset };
    loop {
        let is_last = if listing.plus {
            let mut entries = client.read_dir_plus(listing.handle, from, ENTRIES_PLUS_MAX)?.into_iter();
            let is_last = (entries.len() as u32) < ENTRIES_PLUS_MAX;
            while let Some((entry, attr)) = entries.next() {
                from = entry.cookie();
                if !listing.fits(out, entry.name.as_bytes()) {
                    give_back(client, [(entry, attr)].into_iter().chain(entries));
                    return Ok(());
                }
                match attr.filter(|attr| hold(client, held, entry.ino, attr).is_ok()) {
                    Some(attr) => put_entry(out, listing.valid_s, entry.ino, &attr),
                    // A mere name, as in the short form: it is gone, or home was not yet asked.
                    None => out.resize(out.len() + ENTRY_BYTES, 0),
                }
                put_dirent(out, entry.ino, from, entry.kind, entry.name.as_bytes());
            }
            is_last
        } else {
            let entries = client.read_dir(listing.handle, from, ENTRIES_MAX)?;
            for entry in &entries {
                from = entry.cookie();
                if !listing.fits(out, entry.name.as_bytes()) {
                    return Ok(());
                }
                put_dirent(out, entry.ino, from, entry.kind, entry.name.as_bytes());
            }
            (entries.len() as u32) < ENTRIES_MAX
        };
        if is_last {
            return Ok(());
        }
    }
}

/// Entries that the kernel has no room for are references that it will not give back.
fn give_back<T: Transport>(client: &Client<T>, entries: impl Iterator<Item = (DirEntry, Option<Attr>)>) {
    for (entry, _) in entries.filter(|(_, attr)| attr.is_some()) {
        // There is nobody to tell of an error, and nothing that could be done.
        let _ = client.forget(entry.ino, 1);
    }
}

impl Listing {
    fn fits(&self, out: &[u8], name: &[u8]) -> bool {
        let record = (DIRENT_BYTES + name.len()).next_multiple_of(8) + if self.plus { ENTRY_BYTES } else { 0 };
        out.len() - OUT_HEADER_BYTES + record <= self.room_bytes as usize
    }
}

/// `offset`: where the listing goes on behind this entry.
fn put_dirent(out: &mut Vec<u8>, ino: Ino, offset: u64, kind: Kind, name: &[u8]) {
    out.put_u64(ino.0);
    out.put_u64(offset);
    out.put_u32(name.len() as u32);
    out.put_u32(entry_type(kind));
    out.extend_from_slice(name);
    out.pad_to_8();
}
