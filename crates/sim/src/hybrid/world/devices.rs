//! The bytes of the simulated disk and SSD, each with the stamp of its write.

use std::collections::BTreeMap;

use super::{Entry, Generation, Layout, Note, Stamp};
use crate::rng::Rng;

#[derive(Clone, Debug, Default)]
struct Byte {
    durable: Stamp,
    /// What was written since, and when.
    volatile: Vec<(u64, Stamp)>,
}

impl Byte {
    fn latest(&self) -> Stamp {
        self.volatile.last().map_or(self.durable, |(_, stamp)| *stamp)
    }
}

/// A disk with a cache that a loss of power empties.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    bytes: BTreeMap<(u64, u64), Byte>,
    writes: u64,
}

impl Disk {
    /// Writes so far.
    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    pub(super) fn write(&mut self, file: u64, offset: u64, stamps: &[Stamp]) {
        self.writes += 1;
        for (offset, stamp) in (offset..).zip(stamps) {
            self.bytes.entry((file, offset)).or_default().volatile.push((self.writes, *stamp));
        }
    }

    pub(super) fn read(&self, file: u64, offset: u64, len: u64) -> Vec<Stamp> {
        (offset..offset + len).map(|offset| self.bytes.get(&(file, offset)).map_or(0, Byte::latest)).collect()
    }

    /// What was written up to `issued` is durable.
    pub(super) fn sync(&mut self, issued: u64) {
        for byte in self.bytes.values_mut() {
            let synced = byte.volatile.partition_point(|(write, _)| *write <= issued);
            if let Some((_, stamp)) = byte.volatile.drain(..synced).next_back() {
                byte.durable = stamp;
            }
        }
    }

    /// Of what was not synced, any may have reached the platter.
    pub(super) fn power_loss(&mut self, rng: &mut Rng) {
        for byte in self.bytes.values_mut() {
            let kept = rng.below(byte.volatile.len() as u64 + 1) as usize;
            if let Some((_, stamp)) = kept.checked_sub(1).map(|at| byte.volatile[at]) {
                byte.durable = stamp;
            }
            byte.volatile.clear();
        }
    }

    /// What would be there after a loss of power, whatever happens.
    pub(super) fn durable(&self, file: u64, offset: u64) -> Result<Stamp, Vec<(u64, Stamp)>> {
        match self.bytes.get(&(file, offset)) {
            Some(byte) if !byte.volatile.is_empty() => Err(byte.volatile.clone()),
            byte => Ok(byte.map_or(0, |byte| byte.durable)),
        }
    }
}

/// An SSD's log, and what recovery finds there.
#[derive(Clone, Debug)]
pub(super) struct Ssd {
    bytes: Vec<Stamp>,
    entries: Vec<(u64, Entry)>,
    /// How the SSD was divided when the latest entry was made.
    pub(super) layout: Option<Layout>,
    pub(super) notes: Vec<Note>,
    writes: u64,
    synced: u64,
    /// The end of what was appended to each filling.
    ends: BTreeMap<Generation, u64>,
}

impl Ssd {
    pub(super) fn new(bytes: u64) -> Ssd {
        Ssd {
            bytes: vec![0; bytes as usize],
            entries: Vec::new(),
            layout: None,
            notes: Vec::new(),
            writes: 0,
            synced: 0,
            ends: BTreeMap::new(),
        }
    }

    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    /// S-09: appended bytes are behind all others of their filling. And what recovery may still need is not overwritten.
    pub(super) fn check_append(&mut self, entry: &Entry) -> Result<(), String> {
        let end = self.ends.entry(entry.generation).or_insert(0);
        if entry.at < *end {
            return Err(format!("{entry:?} begins before the end {end} of its filling"));
        }
        *end = entry.at + entry.range.len;
        if *end > self.bytes.len() as u64 {
            return Err(format!("{entry:?} ends beyond the SSD"));
        }
        let emptied = |generation| self.notes.contains(&Note::Emptied(generation));
        let meets = |(_, old): &&(u64, Entry)| old.at < entry.at + entry.range.len && entry.at < old.at + old.range.len;
        match self.entries.iter().filter(meets).find(|(_, old)| !emptied(old.generation)) {
            Some((_, old)) => Err(format!("{entry:?} overwrites {old:?}, which a recovery would find")),
            None => Ok(()),
        }
    }

    pub(super) fn write(&mut self, at: u64, stamps: &[Stamp]) {
        self.bytes[at as usize..][..stamps.len()].copy_from_slice(stamps);
    }

    pub(super) fn enter(&mut self, entry: Entry) {
        self.writes += 1;
        self.entries.push((self.writes, entry));
    }

    pub(super) fn read(&self, at: u64, len: u64) -> Vec<Stamp> {
        self.bytes[at as usize..][..len as usize].to_vec()
    }

    /// Another place of the log.
    pub(super) fn somewhere_else(&self, at: u64) -> u64 {
        at / 2
    }

    pub(super) fn sync(&mut self, issued: u64) {
        self.synced = self.synced.max(issued);
    }

    /// Of the entries that were not synced, any may be lost.
    pub(super) fn power_loss(&mut self, rng: &mut Rng) {
        let synced = self.synced;
        self.entries.retain(|(write, _)| *write <= synced || rng.chance(500));
        self.synced = self.writes;
    }

    /// A process begins: numbers of fillings that left no entry behind are given again.
    pub(super) fn restart(&mut self) {
        self.ends.clear();
    }

    /// What recovery finds. Bytes that a later filling has overwritten in part do not match their checksum.
    pub(super) fn entries(&self) -> Vec<Entry> {
        self.entries.iter().map(|(_, entry)| *entry).collect()
    }
}
