//! Lists of names, as long as a directory is large: so they take little more than the names themselves.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::attr::Kind;
use crate::id::Ino;
use crate::master::hash;

/// An entry in this many is remembered by its place, so that a list can be read from the middle.
const MARK_EVERY: usize = 64;
/// Set in an entry's first byte when its inode follows.
const HAS_INO: u8 = 0x80;
/// Bytes of an entry before the name: kind and length.
const HEAD_BYTES: usize = 3;

const KINDS: [Kind; 7] = [Kind::File, Kind::Directory, Kind::Symlink, Kind::Fifo, Kind::Socket, Kind::CharDevice, Kind::BlockDevice];

/// An entry of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryRef<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its kind.
    pub kind: Kind,
    /// Its inode, if one was given.
    pub ino: Option<Ino>,
}

impl EntryRef<'_> {
    /// Its place among the entries of its directory: at least 16, at most `i64::MAX`. It depends on nothing but the name, so that a listing can
    /// be gone on with when the snapshot that it began with is lost.
    pub fn cookie(&self) -> u64 {
        (hash(self.name) >> 1).max(16)
    }
}

/// The entries of a directory, packed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct Entries {
    bytes: Vec<u8>,
    marks: Vec<u32>,
    count: u32,
}

impl Entries {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends an entry. One that has no place any more, behind four billion bytes of names, is left out.
    pub fn push(&mut self, name: &[u8], kind: Kind, ino: Option<Ino>) {
        let (Ok(len), Ok(at)) = (u16::try_from(name.len()), u32::try_from(self.bytes.len())) else { return };
        if self.len().is_multiple_of(MARK_EVERY) {
            self.marks.push(at);
        }
        let code = KINDS.iter().position(|known| *known == kind).unwrap_or_default() as u8;
        self.bytes.push(code | if ino.is_some() { HAS_INO } else { 0 });
        self.bytes.extend_from_slice(&len.to_le_bytes());
        if let Some(ino) = ino {
            self.bytes.extend_from_slice(&ino.0.to_le_bytes());
        }
        self.bytes.extend_from_slice(name);
        self.count += 1;
    }

    /// The entries in order.
    pub fn iter(&self) -> impl Iterator<Item = EntryRef<'_>> {
        self.from(0)
    }

    /// The entries in order, from this one on.
    pub fn from(&self, index: usize) -> impl Iterator<Item = EntryRef<'_>> {
        let start = self.marks.get(index / MARK_EVERY).map_or(self.bytes.len(), |mark| *mark as usize);
        let mut rest = self.bytes.get(start..).unwrap_or_default();
        core::iter::from_fn(move || {
            let (entry, behind) = split_entry(rest)?;
            rest = behind;
            Some(entry)
        })
        .skip(index % MARK_EVERY)
    }

    /// The entries in the order of their cookies, which are in that order already, from behind one on.
    pub fn behind(&self, cookie: u64) -> impl Iterator<Item = EntryRef<'_>> {
        let is_before = |place: &u32| self.at(*place).is_some_and(|entry| entry.cookie() <= cookie);
        let mark = self.marks.partition_point(is_before).saturating_sub(1);
        self.from(mark * MARK_EVERY).skip_while(move |entry| entry.cookie() <= cookie)
    }

    /// The same entries in the order of their cookies.
    pub fn in_order(&self) -> Entries {
        let mut places = Vec::with_capacity(self.len());
        let mut rest = self.bytes.as_slice();
        while let Some((entry, behind)) = split_entry(rest) {
            places.push((entry.cookie(), (self.bytes.len() - rest.len()) as u32));
            rest = behind;
        }
        places.sort_unstable();
        let mut entries = Entries::default();
        entries.bytes.reserve_exact(self.bytes.len());
        places.iter().filter_map(|(_, place)| self.at(*place)).for_each(|entry| entries.push(entry.name, entry.kind, entry.ino));
        entries.shrink_to_fit();
        entries
    }

    fn at(&self, place: u32) -> Option<EntryRef<'_>> {
        split_entry(self.bytes.get(place as usize..)?).map(|(entry, _)| entry)
    }

    /// Gives back what was taken in advance.
    pub fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
        self.marks.shrink_to_fit();
    }
}

/// The first entry and what is behind it.
fn split_entry(bytes: &[u8]) -> Option<(EntryRef<'_>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
    let len = usize::from(u16::from_le_bytes([head[1], head[2]]));
    let kind = *KINDS.get(usize::from(head[0] & !HAS_INO))?;
    let (ino, rest) = if head[0] & HAS_INO == 0 {
        (None, rest)
    } else {
        let (ino, rest) = rest.split_first_chunk::<8>()?;
        (Some(Ino(u64::from_le_bytes(*ino))), rest)
    };
    let (name, rest) = rest.split_at_checked(len)?;
    Some((EntryRef { name, kind, ino }, rest))
}

impl<'a> FromIterator<(&'a [u8], Kind)> for Entries {
    fn from_iter<T: IntoIterator<Item = (&'a [u8], Kind)>>(entries: T) -> Entries {
        let mut packed = Entries::default();
        entries.into_iter().for_each(|(name, kind)| packed.push(name, kind, None));
        packed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn what_is_packed_is_found_again_from_everywhere() {
        let mut packed = Entries::default();
        let entry = |i: usize| (alloc::format!("name {}", "x".repeat(i % 250)), KINDS[i % 7], i.is_multiple_of(3).then_some(Ino(i as u64)));
        for i in 0..1000 {
            let (name, kind, ino) = entry(i);
            packed.push(name.as_bytes(), kind, ino);
        }
        assert_eq!(packed.len(), 1000);
        for from in [0, 1, 63, 64, 65, 500, 999, 1000, 5000] {
            let found = packed.from(from).map(|e| (String::from_utf8_lossy(e.name).into_owned(), e.kind, e.ino)).collect::<Vec<_>>();
            let wanted = (from..1000).map(entry).collect::<Vec<_>>();
            assert_eq!(found, wanted, "from {from}");
        }
    }

    #[test]
    fn an_entry_takes_little_more_than_its_name() {
        let mut packed = Entries::default();
        for i in 0..100_000 {
            packed.push(alloc::format!("entry-{i:08}").as_bytes(), Kind::File, None);
        }
        packed.shrink_to_fit();
        assert!(packed.bytes.len() + 4 * packed.marks.len() < 100_000 * (14 + 4), "{}", packed.bytes.len());
    }
}
