//! From the records of a journal to a node.
//!
//! History is the longest prefix of the journal whose bytes are there: a record whose payload is not in the log although it should be
//! ends history, if it is newer than the last sync. If it is older, the medium has lost what it had promised to keep, and that is damage.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::attr::Kind;
use crate::config::NodeConfig;
use crate::effect::LogRange;
use crate::extent::Piece;
use crate::id::{HomePath, Ino, Lsn, Name, Position, SegmentId};
use crate::io_node::LogRecord;
use crate::master::Inode;
use crate::node::{ConfigError, Node};
use crate::record::{DataRecord, InodeRecord, Record};
use crate::time::Time;

/// A payload whose presence the host must check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PieceCheck {
    /// The record that says it is there.
    pub position: Position,
    /// The file.
    pub ino: Ino,
    /// Bytes from the file's start.
    pub file_offset: u64,
    /// Where the bytes should be.
    pub at: LogRange,
    /// Their CRC-32C.
    pub crc: u32,
}

/// A payload that the medium lost after it was synced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The file's path below the mount.
    pub path: HomePath,
    /// Bytes from the file's start.
    pub file_offset: u64,
    /// Bytes.
    pub len: u32,
}

/// Why a journal does not give a node.
#[derive(thiserror::Error, Clone, PartialEq, Eq, Debug)]
pub enum RecoveryError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Synced bytes are damaged.
    #[error("{} of the buffer's synced pieces are damaged, the first one in {}", .0.len(), first(.0))]
    Damaged(Vec<Damage>),
}

fn first(damage: &[Damage]) -> String {
    damage.first().map_or_else(String::new, |d| alloc::format!("{:?}, {} bytes at {}", d.path, d.len, d.file_offset))
}

/// What clients hold of an inode beyond the death of the process that gave it to them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Held {
    /// References.
    pub lookups: u64,
    /// Open handles.
    pub opens: u32,
}

/// Says what clients hold of an inode. It is asked of each inode that the journal knows.
pub type HeldBy<'a> = dyn FnMut(Ino, Kind) -> Held + 'a;

/// A recovered node.
pub struct Recovered {
    /// The node. Its first effect begins a new journal.
    pub node: Node,
    /// Where history was cut, if bytes that were never synced are missing.
    pub cut_at: Option<Position>,
}

/// Replays `records`, in the order of their positions, and has the host check each payload that is not yet home.
///
/// With `held` the node takes over from one that was killed: clients go on with the inodes that they hold, and ask again what they had
/// asked. Without it nothing of before is in use.
///
/// `memory_intact` says whether the memory file is the one that the journal speaks of; after a power loss it is not.
///
/// # Errors
/// When the configuration cannot be used, or synced bytes are damaged.
pub fn recover(
    config: NodeConfig,
    mut records: Vec<(Position, Record)>,
    memory_intact: bool,
    now: Time,
    check: &mut dyn FnMut(&PieceCheck) -> bool,
    mut held: Option<&mut HeldBy<'_>>,
) -> Result<Recovered, RecoveryError> {
    let mut cut_at = None;
    loop {
        let mut replay = Replay::new(Node::new(config.clone(), now)?);
        for (position, record) in &records {
            replay.apply(*position, record);
        }
        replay.finish(memory_intact, held.as_deref_mut());
        if memory_intact {
            // Only the process died: a record was appended after its payload stood in the log, so each of them must be there.
            replay.kept = Position(u64::MAX);
        }
        let (mut damage, mut cut) = (Vec::new(), None::<Position>);
        for piece in replay.checks() {
            if !check(&piece) {
                if piece.position <= replay.kept {
                    let path = replay.node.names.current_path(piece.ino).unwrap_or_default();
                    damage.push(Damage { path, file_offset: piece.file_offset, len: piece.at.len });
                } else {
                    cut = Some(cut.map_or(piece.position, |c| c.min(piece.position)));
                }
            }
        }
        if !damage.is_empty() {
            return Err(RecoveryError::Damaged(damage));
        }
        let Some(cut) = cut else {
            let last = records.last().map_or(Position(0), |(position, _)| *position);
            // Positions beyond a cut are never used again: what is left of them must not pass for the new history.
            let last = cut_at.map_or(last, |c: (Position, Position)| c.1.max(last));
            let mut node = replay.node;
            let intents = replay.intents.into_iter().map(|intent| (intent.ino, intent.slots)).collect();
            node.begin_after_recovery(last, intents, now);
            return Ok(Recovered { node, cut_at: cut_at.map(|c| c.0) });
        };
        let end = records.last().map_or(cut, |(position, _)| *position);
        cut_at = Some((cut, cut_at.map_or(end, |c| c.1.max(end))));
        records.retain(|(position, _)| *position < cut);
    }
}

struct Replay {
    node: Node,
    /// Records up to here were promised to be on the medium: synced, or in the snapshot.
    kept: Position,
    positions: BTreeMap<(SegmentId, u32), Position>,
    lsn_max: Lsn,
    /// Changes at home of which nobody knows whether they happened, with the names that are not yet settled.
    intents: Vec<Intent>,
    /// Inodes that are as home has them.
    noted: BTreeSet<Ino>,
    /// Inodes without a name that have not had one yet: of a request that was cut off before it gave them one.
    unborn: BTreeSet<Ino>,
}

/// A change of names at home. It counts as a whole or not at all: a cut of history can fall between the records that settle it.
struct Intent {
    ino: Ino,
    slots: Vec<(Ino, Name, Option<Ino>)>,
    /// What the journal says became of the first of the slots, second, and so on; none where it does not say.
    settled: Vec<Option<Option<Ino>>>,
}

impl Replay {
    fn new(node: Node) -> Replay {
        Replay {
            node,
            kept: Position(0),
            positions: BTreeMap::new(),
            lsn_max: Lsn(0),
            intents: Vec::new(),
            noted: BTreeSet::new(),
            unborn: BTreeSet::new(),
        }
    }

    fn apply(&mut self, position: Position, record: &Record) {
        let node = &mut self.node;
        match record {
            Record::SegmentOpened { segment, slot, memory } => node.io.segments.reopen(*segment, *slot, *memory),
            Record::SegmentSpilled { segment } => {
                if let Some(segment) = node.io.segments.live.get_mut(segment) {
                    segment.memory = None;
                }
            }
            Record::Data(data) => self.data(position, data, 0, data.len),
            Record::DataPieces { pieces } => pieces.iter().for_each(|data| self.data(position, data, 0, data.len)),
            Record::DataPart { data, skip, len } => self.data(position, data, *skip, *len),
            Record::Moved { from, data } => self.moved(position, *from, data),
            Record::Flushed { ino, offset, len, lsn } => {
                let end = offset.saturating_add(*len);
                let dirty_bytes_before = node.io.dirty_bytes;
                node.io.mark_clean(*ino, *offset..end, *lsn);
                let clean_bytes = dirty_bytes_before - node.io.dirty_bytes;
                let file = node.io.file_mut(*ino);
                file.home_valid = file.home_valid.max(end);
                if let Ok(inode) = node.names.inode_mut(*ino) {
                    inode.attr.grew_at_home(clean_bytes);
                }
            }
            Record::Inode(inode) => self.inode(inode),
            Record::Size { ino, size, time_ns } => self.size(*ino, *size, *time_ns),
            Record::Hole { ino, offset, len, size, time_ns } => {
                let range = *offset..offset.saturating_add(*len);
                node.io.remove(*ino, range.clone());
                node.io.file_mut(*ino);
                node.io.change_holes(*ino, |holes| holes.insert(range));
                if let Ok(inode) = node.names.inode_mut(*ino) {
                    inode.attr.size = *size;
                }
                self.data_changed(*ino, *time_ns);
            }
            Record::HoleHome { ino, offset, len } => {
                node.io.change_holes(*ino, |holes| holes.remove(*offset..offset.saturating_add(*len)));
            }
            Record::Xattrs { ino, xattrs, time_ns } => {
                if let Ok(inode) = node.names.inode_mut(*ino) {
                    (inode.xattrs, inode.xattrs_differ) = (Some(xattrs.clone()), true);
                    inode.attr.ctime_ns = *time_ns;
                    inode.attr_version += 1;
                    node.names.attr_dirty.insert(*ino);
                }
            }
            Record::InodeGone { ino } => {
                self.noted.remove(ino);
                node.io.remove(*ino, 0..u64::MAX);
                node.io.files.remove(ino);
                node.names.remove_inode(*ino);
            }
            Record::Forgotten { ino } => {
                self.noted.remove(ino);
                node.io.remove(*ino, 0..u64::MAX);
                node.io.files.remove(ino);
                node.names.forget_inode(*ino, false);
            }
            Record::Entry { parent, name, ino, time_ns } => {
                node.names.detach(*parent, name, time(*time_ns));
                if let Some(ino) = ino {
                    self.unborn.remove(ino);
                    node.names.attach(*parent, name, *ino, time(*time_ns));
                }
            }
            Record::Rename { parent, name, new_parent, new_name, exchange, time_ns } => {
                node.names.rename((*parent, name), (*new_parent, new_name), *exchange, time(*time_ns));
            }
            Record::HomeEntry { parent, name, ino } => {
                if !self.settle(*parent, name, *ino) {
                    self.node.names.set_home(*parent, name, *ino, Time::default());
                }
            }
            Record::HomeIntent { ino, slots } => {
                self.intents.push(Intent { ino: *ino, slots: slots.clone(), settled: Vec::from_iter(slots.iter().map(|_| None)) });
            }
            Record::AttrHome { ino, .. } => {
                if let Ok(inode) = node.names.inode_mut(*ino) {
                    inode.attr_home = inode.attr_version;
                    inode.xattrs_differ = false;
                    node.names.attr_dirty.remove(ino);
                }
            }
            Record::Synced { upto } => self.kept = self.kept.max(*upto),
            // Half a snapshot is no state that ever was: history cannot be cut within it.
            Record::SnapshotEnd => {
                self.kept = self.kept.max(position);
                // A snapshot tells of those without a name because somebody has them.
                self.unborn.clear();
            }
            Record::Noted(inode) => self.noted(inode),
            Record::Answered { lane, request, reply, record } => {
                node.once.replay(*lane, *request, reply);
                if let Some(record) = record {
                    self.apply(position, record);
                }
            }
        }
    }

    fn data(&mut self, position: Position, data: &DataRecord, skip: u32, len: u32) {
        let fits = skip.checked_add(len).is_some_and(|end| end <= data.len) && len > 0;
        let fits = fits && data.segment_offset.checked_add(data.len).is_some_and(|end| end <= self.node.config().segment_bytes);
        let fits = fits && data.file_offset.checked_add(u64::from(data.len)).is_some_and(|end| end <= i64::MAX as u64);
        if !fits || !self.log_record(position, data) {
            return;
        }
        let node = &mut self.node;
        if node.names.inode(data.ino).is_err() {
            return;
        }
        let offset = data.file_offset + u64::from(skip);
        let segment_offset = data.segment_offset + skip;
        node.io.insert_dirty(data.ino, Piece { offset, len, segment: data.segment, segment_offset, lsn: data.lsn, dirty: true });
        self.lsn_max = self.lsn_max.max(data.lsn);
        if let Ok(inode) = node.names.inode_mut(data.ino) {
            inode.attr.size = inode.attr.size.max(offset + u64::from(len));
        }
        self.data_changed(data.ino, data.time_ns);
    }

    /// Enters the record in its segment; false if the segment is not there any more.
    fn log_record(&mut self, position: Position, data: &DataRecord) -> bool {
        let Some(segment) = self.node.io.segments.live.get_mut(&data.segment) else { return false };
        let at = segment.records.partition_point(|r| r.offset < data.segment_offset);
        if segment.records.get(at).is_none_or(|r| r.offset != data.segment_offset) {
            segment.records.insert(
                at,
                LogRecord {
                    offset: data.segment_offset,
                    len: data.len,
                    ino: data.ino,
                    file_offset: data.file_offset,
                    lsn: data.lsn,
                    crc: data.crc,
                    time_ns: data.time_ns,
                },
            );
        }
        self.positions.entry((data.segment, data.segment_offset)).or_insert(position);
        true
    }

    fn moved(&mut self, position: Position, from: SegmentId, data: &DataRecord) {
        let Some(end) = data.file_offset.checked_add(u64::from(data.len)) else { return };
        let range = data.file_offset..end;
        let old = match self.node.io.files.get(&data.ino) {
            Some(file) => file.extents.overlapping(range).filter(|p| p.segment == from && p.lsn == data.lsn && p.dirty).collect(),
            None => Vec::new(),
        };
        if old.is_empty() || !self.log_record(position, data) {
            return;
        }
        for piece in old {
            let segment_offset = data.segment_offset + (piece.offset - data.file_offset) as u32;
            self.node.io.remove(data.ino, piece.offset..piece.end());
            self.node.io.insert_dirty(data.ino, Piece { segment: data.segment, segment_offset, ..piece });
        }
    }

    fn inode(&mut self, record: &InodeRecord) {
        let node = &mut self.node;
        let ino = record.ino;
        let known = node.names.inode(ino).is_ok();
        if self.noted.remove(&ino) {
            node.io.file_mut(ino).home_valid = record.home_valid;
            for (parent, name) in &record.home_names {
                if node.names.slot(*parent, name).home != Some(ino) {
                    node.names.adopt_home_name(*parent, name, ino);
                }
            }
        }
        if !known {
            node.names.reserve_ino(ino);
            if record.home_names.is_empty() {
                node.names.insert_new(ino, record.attr, record.target.clone());
                self.unborn.insert(ino);
            } else {
                node.names.inodes.insert(ino, Box::new(Inode { target: record.target.clone(), ..Inode::of_home(record.attr.kind) }));
            }
            node.io.file_mut(ino).home_valid = record.home_valid;
            node.names.set_home_id(ino, record.home_id);
            for (parent, name) in &record.home_names {
                node.names.adopt_home_name(*parent, name, ino);
            }
        }
        if let Ok(inode) = node.names.inode_mut(ino) {
            inode.attr = record.attr;
            inode.attr_loaded = true;
            inode.attr_version = record.attr_version;
            inode.attr_home = record.attr_home;
            inode.journaled = true;
            if inode.attr_version != inode.attr_home {
                node.names.attr_dirty.insert(ino);
            }
        }
    }

    fn noted(&mut self, record: &InodeRecord) {
        let names = &mut self.node.names;
        if let Ok(inode) = names.inode_mut(record.ino) {
            // The root is always there, but nothing else of it is known.
            if record.ino == Ino::ROOT && !inode.attr_loaded {
                (inode.attr, inode.attr_loaded, inode.noted) = (record.attr, true, true);
                (inode.attr_version, inode.attr_home) = (record.attr_version, record.attr_home);
                self.noted.insert(Ino::ROOT);
            }
            return;
        }
        let InodeRecord { ino, attr, attr_version, attr_home, .. } = *record;
        let target = record.target.clone();
        let inode = Inode { attr, attr_loaded: true, attr_version, attr_home, target, noted: true, ..Inode::of_home(attr.kind) };
        names.adopt_clean(ino, inode, &record.home_names);
        names.set_home_id(ino, record.home_id);
        self.noted.insert(ino);
    }

    fn size(&mut self, ino: Ino, size: u64, time_ns: i64) {
        let node = &mut self.node;
        node.io.remove(ino, size..u64::MAX);
        let file = node.io.file_mut(ino);
        file.home_valid = file.home_valid.min(size);
        node.io.change_holes(ino, |holes| holes.remove(size..u64::MAX));
        if let Ok(inode) = node.names.inode_mut(ino) {
            inode.attr.size = size;
        }
        self.data_changed(ino, time_ns);
    }

    /// A file's bytes changed.
    fn data_changed(&mut self, ino: Ino, time_ns: i64) {
        let names = &mut self.node.names;
        if let Ok(inode) = names.inode_mut(ino) {
            inode.attr.mtime_ns = time_ns;
            inode.attr.ctime_ns = time_ns;
            inode.attr_version += 1;
            names.attr_dirty.insert(ino);
        }
    }

    /// What a change was to do to this name is done, or was given up. False if no change in flight was about the name.
    fn settle(&mut self, parent: Ino, name: &Name, ino: Option<Ino>) -> bool {
        let place = |intent: &Intent| intent.slots.iter().position(|(p, n, _)| *p == parent && n == name);
        let Some((at, slot)) = self.intents.iter().enumerate().find_map(|(at, intent)| Some((at, place(intent)?))) else { return false };
        self.intents[at].settled[slot] = Some(ino);
        if self.intents[at].settled.iter().all(Option::is_some) {
            let Intent { slots, settled, .. } = self.intents.remove(at);
            for ((parent, name, _), ino) in slots.into_iter().zip(settled.into_iter().flatten()) {
                self.node.names.set_home(parent, &name, ino, Time::default());
            }
        }
        true
    }

    /// Gives the clients what they hold, and forgets what home has and nobody holds.
    fn give_held(&mut self, held: Option<&mut HeldBy<'_>>) {
        let names = &mut self.node.names;
        let mut kept = BTreeSet::new();
        let takes_over = held.is_some();
        if let Some(held) = held {
            self.node.once.take_over();
            for (ino, inode) in names.inodes.iter_mut().filter(|(ino, _)| **ino != Ino::ROOT && !self.unborn.contains(ino)) {
                let Held { lookups, opens } = held(*ino, inode.attr.kind);
                (inode.lookups, inode.opens) = (lookups, opens);
                if lookups > 0 || opens > 0 {
                    kept.insert(*ino);
                }
            }
            let mut wanted: Vec<Ino> = kept.iter().copied().collect();
            while let Some(inode) = wanted.pop().and_then(|ino| names.inodes.get(&ino)) {
                wanted.extend(inode.home_names.iter().map(|(parent, _)| *parent).filter(|parent| kept.insert(*parent)));
            }
        } else {
            self.node.once.clear();
        }
        for ino in core::mem::take(&mut self.noted).into_iter().filter(|ino| !kept.contains(ino)) {
            if ino != Ino::ROOT {
                names.forget_inode(ino, false);
            } else if !takes_over && let Ok(root) = names.inode_mut(ino) {
                (root.attr_loaded, root.noted) = (false, false);
            }
        }
    }

    /// Drops what is home or of no use, and fills in what follows from the rest.
    fn finish(&mut self, memory_intact: bool, held: Option<&mut HeldBy<'_>>) {
        self.give_held(held);
        let node = &mut self.node;
        let inos = node.io.files.keys().copied().collect::<Vec<_>>();
        for ino in inos {
            let dead = node.names.inode(ino).is_ok_and(|i| !i.is_reachable() && ino != Ino::ROOT) || node.names.inode(ino).is_err();
            let useless = |p: &Piece| dead || !p.dirty;
            let pieces = node.io.files.get(&ino).map_or_else(Vec::new, |f| f.extents.iter().filter(useless).collect());
            for piece in pieces {
                node.io.remove(ino, piece.offset..piece.end());
            }
            let kind = node.names.inode(ino).map(|i| i.attr.kind);
            if dead || kind != Ok(Kind::File) {
                node.io.files.remove(&ino);
                continue;
            }
            let orphan = node.names.inode(ino).is_ok_and(Inode::is_orphan);
            let at_home = node.names.inode(ino).is_ok_and(|i| !i.home_names.is_empty());
            let file = node.io.file_mut(ino);
            file.home_known = true;
            file.home_valid = if at_home { file.home_valid } else { 0 };
            file.home_end = file.home_valid;
            // Transfers may have been under way that nobody wrote down.
            file.home_junk = at_home;
            let home_valid = file.home_valid;
            node.io.change_holes(ino, |holes| holes.remove(home_valid..u64::MAX));
            if let (Ok(inode), true) = (node.names.inode_mut(ino), at_home && !orphan) {
                inode.attr_version += 1;
                node.names.attr_dirty.insert(ino);
            }
        }
        let intended = self.intents.iter().map(|intent| intent.ino).collect();
        node.names.drop_orphans(&intended);
        let segment_bytes = node.config().segment_bytes;
        for segment in node.io.segments.live.values_mut() {
            segment.filled = segment_bytes;
            segment.on_ssd = true;
            if !memory_intact {
                segment.memory = None;
            }
            let end = segment.records.last().map_or(0, |r| r.offset + r.len);
            segment.unspilled = segment.memory.map(|_| (0, end)).filter(|hull| hull.1 > 0);
        }
        node.set_next_lsn(self.lsn_max);
    }

    /// Every log record that holds a dirty piece.
    fn checks(&self) -> Vec<PieceCheck> {
        let mut seen = BTreeMap::new();
        for (ino, file) in &self.node.io.files {
            for piece in file.extents.iter().filter(|p| p.dirty) {
                let (mut at, end) = (piece.segment_offset, piece.segment_offset + piece.len);
                while let Some(record) = self.node.io.segments.record_at(piece.segment, at).filter(|_| at < end) {
                    let Some(range) = self.node.io.segments.range(piece.segment, record.offset, record.len) else { break };
                    let position = self.positions.get(&(piece.segment, record.offset)).copied().unwrap_or_default();
                    let check = PieceCheck { position, ino: *ino, file_offset: record.file_offset, at: range, crc: record.crc };
                    seen.insert((piece.segment, record.offset), check);
                    at = record.offset + record.len;
                }
            }
        }
        seen.into_values().collect()
    }
}

fn time(ns: i64) -> Time {
    Time(ns.max(0) as u64)
}
