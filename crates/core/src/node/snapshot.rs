//! The records that give a node back: the beginning of a new journal.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::Node;
use crate::id::Ino;
use crate::record::{DataRecord, Record};

impl Node {
    /// What differs from home, and what is needed to say so. Everything else can be learned again from home.
    pub(super) fn snapshot(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        for (id, segment) in &self.io.segments.live {
            records.push(Record::SegmentOpened { segment: *id, slot: segment.slot, memory: segment.memory });
        }
        let needed = self.needed_inodes();
        let referred = self.referred_inodes(&needed);
        for (ino, inode) in &mut self.names.inodes {
            inode.journaled = needed.contains(ino);
            inode.noted = referred.contains(ino);
        }
        self.push_inodes(&needed, false, &mut records);
        self.push_inodes(&referred, true, &mut records);
        self.push_entries(&mut records);
        self.push_holes(&mut records);
        self.push_data(&mut records);
        records.extend(needed.iter().filter_map(|ino| self.names.xattrs_record(*ino)));
        // Names and bytes above have touched link counts and times: say again what they are.
        self.push_inodes(&needed, false, &mut records);
        for ino in &needed {
            if let Some(inode) = self.names.inodes.get(ino).filter(|i| i.attr_version == i.attr_home) {
                records.push(Record::AttrHome { ino: *ino, version: inode.attr_version });
            }
        }
        let intents = self.home.open_intents.values();
        records.extend(intents.map(|(ino, slots)| Record::HomeIntent { ino: *ino, slots: slots.clone() }));
        records.extend(self.once.records());
        records
    }

    fn needed_inodes(&self) -> BTreeSet<Ino> {
        let mut wanted = self.names.attr_dirty.iter().copied().collect::<Vec<_>>();
        for (parent, name, _) in self.names.divergent.values() {
            let slot = self.names.slot(*parent, name);
            wanted.extend([Some(*parent), slot.current, slot.home].into_iter().flatten());
        }
        for (ino, slots) in self.home.open_intents.values() {
            wanted.push(*ino);
            wanted.extend(slots.iter().map(|(parent, _, _)| *parent));
        }
        for (ino, file) in &self.io.files {
            let size = self.names.inodes.get(ino).map_or(0, |i| i.attr.size);
            let unsettled = file.home_known && (file.home_junk || !file.is_length_home(size) || file.cutting || !file.holes.is_empty());
            if unsettled || file.extents.dirty_bytes() > 0 || !file.is_quiet() {
                wanted.push(*ino);
            }
        }
        if self.config.takeover {
            // What clients refer to is kept for who takes over; what has no name must be told whole.
            let nameless = self.names.inodes.iter().filter(|(ino, i)| **ino != Ino::ROOT && i.home_names.is_empty() && i.links.is_empty());
            wanted.extend(nameless.filter(|(_, i)| i.lookups > 0 || i.opens > 0).map(|(ino, _)| *ino));
        }
        let mut needed = BTreeSet::new();
        while let Some(ino) = wanted.pop() {
            let Some(inode) = self.names.inodes.get(&ino) else { continue };
            if needed.insert(ino) {
                wanted.extend(inode.links.iter().chain(&inode.home_names).map(|(parent, _)| *parent));
            }
        }
        needed
    }

    /// Inodes that are as home has them and that clients refer to, with the directories above.
    fn referred_inodes(&self, needed: &BTreeSet<Ino>) -> BTreeSet<Ino> {
        let mut referred = BTreeSet::new();
        if !self.config.takeover {
            return referred;
        }
        let clients = self.names.inodes.iter().filter(|(_, i)| i.lookups > 0 || i.opens > 0);
        let mut wanted: Vec<Ino> = clients.map(|(ino, _)| *ino).collect();
        while let Some(ino) = wanted.pop() {
            let Some(inode) = self.names.inodes.get(&ino).filter(|i| i.attr_loaded && !needed.contains(&ino)) else { continue };
            if referred.insert(ino) {
                wanted.extend(inode.home_names.iter().map(|(parent, _)| *parent));
            }
        }
        referred
    }

    /// Directories before what stands in them at home: a name cannot be entered where nothing is known.
    fn push_inodes(&self, needed: &BTreeSet<Ino>, as_notes: bool, records: &mut Vec<Record>) {
        let mut begun = BTreeSet::new();
        for ino in needed {
            let mut stack = Vec::from([(*ino, false)]);
            while let Some((ino, are_parents_said)) = stack.pop() {
                if are_parents_said {
                    let record = || self.names.inode_record(ino, self.home_valid_of(ino));
                    records.extend(if as_notes { self.noted_record(ino) } else { record() });
                } else if begun.insert(ino) {
                    stack.push((ino, true));
                    let names = self.names.inodes.get(&ino).map(|i| &i.home_names).into_iter().flatten();
                    let parents = names.map(|(parent, _)| *parent).filter(|p| !begun.contains(p) && needed.contains(p));
                    stack.extend(parents.map(|parent| (parent, false)));
                }
            }
        }
    }

    fn push_entries(&self, records: &mut Vec<Record>) {
        let time_ns = self.now.as_nanos() as i64;
        let divergent = self.names.divergent.values();
        let slots = divergent.map(|(parent, name, _)| (*parent, name.clone(), self.names.slot(*parent, name))).collect::<Vec<_>>();
        for (parent, name, _) in slots.iter().filter(|(_, _, slot)| slot.home.is_some()) {
            records.push(Record::Entry { parent: *parent, name: name.clone(), ino: None, time_ns });
        }
        for (parent, name, slot) in &slots {
            if slot.current.is_some() {
                records.push(Record::Entry { parent: *parent, name: name.clone(), ino: slot.current, time_ns });
            }
        }
    }

    fn push_holes(&self, records: &mut Vec<Record>) {
        let time_ns = self.now.as_nanos() as i64;
        for (ino, file) in &self.io.files {
            let size = self.names.inodes.get(ino).map_or(0, |i| i.attr.size);
            let record = |hole: core::ops::Range<u64>| {
                let (offset, len) = (hole.start, hole.end - hole.start);
                Record::Hole { ino: *ino, offset, len, size, time_ns }
            };
            records.extend(file.holes.iter().map(record));
        }
    }

    fn push_data(&self, records: &mut Vec<Record>) {
        for (ino, file) in &self.io.files {
            for piece in file.extents.iter().filter(|p| p.dirty) {
                let (mut at, end) = (piece.segment_offset, piece.segment_offset + piece.len);
                while let Some(record) = self.io.segments.record_at(piece.segment, at).filter(|_| at < end) {
                    let len = (record.offset + record.len).min(end) - at;
                    let data = DataRecord {
                        ino: *ino,
                        file_offset: record.file_offset,
                        len: record.len,
                        segment: piece.segment,
                        segment_offset: record.offset,
                        lsn: record.lsn,
                        crc: record.crc,
                        time_ns: record.time_ns,
                    };
                    let whole = len == record.len;
                    records.push(if whole { Record::Data(data) } else { Record::DataPart { data, skip: at - record.offset, len } });
                    at += len;
                }
            }
        }
    }
}
