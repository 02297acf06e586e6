//! The buffer stays within its limits; bytes of a slot that something refers to are not written.

use std::collections::BTreeMap;

use forebay_core::config::NodeConfig;
use forebay_core::effect::{Effect, LogRange, Slot};
use forebay_core::id::{MemorySlot, SsdSlot, Token};
use forebay_core::message::Status;
use forebay_core::record::Record;

use crate::ranges::Ranges;

/// What effects in flight refer to, and what was written since each slot was opened.
#[derive(Debug)]
pub struct Capacity {
    config: NodeConfig,
    in_flight: BTreeMap<Token, InFlight>,
    /// Slots that were opened since the process began, with the bytes written since.
    opened: BTreeMap<Slot, Ranges>,
    /// Records that were begun in the slot since it was opened.
    records: BTreeMap<Slot, u32>,
}

#[derive(Debug, Default)]
struct InFlight {
    reads: Vec<LogRange>,
    writes: Vec<LogRange>,
    class: Option<Class>,
    is_spill: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Transfer,
    Change,
}

impl Capacity {
    /// A checker of this node's limits.
    pub fn new(config: NodeConfig) -> Capacity {
        Capacity { config, in_flight: BTreeMap::new(), opened: BTreeMap::new(), records: BTreeMap::new() }
    }

    /// The process has died.
    pub fn crashed(&mut self) {
        self.in_flight.clear();
        self.opened.clear();
        self.records.clear();
    }

    /// An effect begins. Says which limit it breaks.
    pub fn begin(&mut self, token: Option<Token>, effect: &Effect) -> Result<(), String> {
        if let Effect::Journal { record: Record::SegmentOpened { slot, memory, .. }, .. } = effect {
            self.open(Slot::Ssd(*slot))?;
            if let Some(memory) = memory {
                self.open(Slot::Memory(*memory))?;
            }
        }
        let in_flight = ranges_of(effect);
        for range in in_flight.reads.iter().chain(&in_flight.writes) {
            self.check_bounds(*range)?;
        }
        for write in &in_flight.writes {
            self.check_write(*write, effect)?;
        }
        // A spill may take bytes along that are just being written: they are spilled again when they are there.
        for read in in_flight.reads.iter().filter(|_| !matches!(effect, Effect::Spill { .. })) {
            if let Some(writer) = self.find(|other| &other.writes, *read) {
                return Err(format!("{effect:?} reads {read:?} while {writer:?} writes it"));
            }
        }
        if let Some(token) = token {
            self.in_flight.insert(token, in_flight);
        }
        self.check_queues()
    }

    /// An effect has ended; with `failed`, its bytes do not count as written.
    pub fn end(&mut self, token: Token, failed: bool) {
        let Some(ended) = self.in_flight.remove(&token) else { return };
        if failed {
            for write in ended.writes {
                if let Some(written) = self.opened.get_mut(&write.slot) {
                    written.remove(u64::from(write.offset), u64::from(write.offset + write.len));
                }
            }
        }
    }

    /// What the node says about itself.
    pub fn check_status(&self, status: &Status) -> Result<(), String> {
        let capacity_bytes = u64::from(self.config.segments_max) * u64::from(self.config.segment_bytes);
        let memory_bytes = u64::from(self.config.memory_segments_max) * u64::from(self.config.segment_bytes);
        if status.used_bytes > capacity_bytes || status.peak_bytes > capacity_bytes || status.used_memory_bytes > memory_bytes {
            return Err(format!("the buffer holds more than its {capacity_bytes} bytes, {memory_bytes} in memory: {status:?}"));
        }
        let records_max = u64::from(self.config.ssd_slots()) * u64::from(self.config.segment_bytes / self.config.record_bytes_min() + 1);
        if status.log_records > records_max {
            return Err(format!("{} records are kept, and {records_max} is the most: {status:?}", status.log_records));
        }
        Ok(())
    }

    fn open(&mut self, slot: Slot) -> Result<(), String> {
        let inside = match slot {
            Slot::Memory(MemorySlot(index)) => index < self.config.memory_segments_max,
            Slot::Ssd(SsdSlot(index)) => index < self.config.ssd_slots(),
        };
        if !inside {
            return Err(format!("a segment was opened in {slot:?}, which is not among the slots"));
        }
        let in_use = |range: &&LogRange| range.slot == slot;
        for (token, other) in &self.in_flight {
            if let Some(range) = other.reads.iter().chain(&other.writes).find(in_use) {
                return Err(format!("a segment was opened in {slot:?} while {token:?} refers to {range:?}"));
            }
        }
        self.opened.insert(slot, Ranges::default());
        self.records.insert(slot, 0);
        Ok(())
    }

    fn check_bounds(&self, range: LogRange) -> Result<(), String> {
        let (index, count) = match range.slot {
            Slot::Memory(slot) => (slot.0, self.config.memory_segments_max),
            Slot::Ssd(slot) => (slot.0, self.config.ssd_slots()),
        };
        let end = u64::from(range.offset) + u64::from(range.len);
        if index < count && end <= u64::from(self.config.segment_bytes) { Ok(()) } else { Err(format!("{range:?} is outside of the log")) }
    }

    fn check_write(&mut self, write: LogRange, effect: &Effect) -> Result<(), String> {
        let is_no_spill = |other: &&InFlight| !other.is_spill;
        let reader = self.in_flight.iter().find(|(_, other)| is_no_spill(other) && other.reads.iter().any(|read| overlap(*read, write)));
        if let Some(user) = reader.map(|(token, _)| *token).or_else(|| self.find(|other| &other.writes, write)) {
            return Err(format!("{effect:?} writes {write:?} while {user:?} refers to it"));
        }
        // A spill puts the same bytes where they were before, if it is done twice.
        if matches!(effect, Effect::Spill { .. }) {
            return Ok(());
        }
        let Some(written) = self.opened.get_mut(&write.slot) else {
            return Err(format!("{effect:?} writes into {:?}, in which no segment was opened", write.slot));
        };
        let (start, end) = (u64::from(write.offset), u64::from(write.offset + write.len));
        if written.overlaps(start, end) {
            return Err(format!("{effect:?} writes {write:?}, of which some was written before"));
        }
        written.insert(start, end);
        let records = self.records.entry(write.slot).or_default();
        *records += 1;
        let records_max = self.config.segment_bytes / self.config.record_bytes_min() + 1;
        if *records > records_max {
            return Err(format!("{:?} got {records} records, and {records_max} are its share", write.slot));
        }
        Ok(())
    }

    fn find(&self, ranges: impl Fn(&InFlight) -> &Vec<LogRange>, range: LogRange) -> Option<Token> {
        self.in_flight.iter().find(|(_, other)| ranges(other).iter().any(|other| overlap(*other, range))).map(|(token, _)| *token)
    }

    fn check_queues(&self) -> Result<(), String> {
        let count = |class| self.in_flight.values().filter(|effect| effect.class == Some(class)).count();
        let limits = [(Class::Transfer, self.config.home_transfers_max as usize), (Class::Change, self.config.home_changes_max as usize)];
        match limits.into_iter().find(|(class, limit)| count(*class) > *limit) {
            Some((class, limit)) => Err(format!("{} effects of class {class:?} are in flight, at most {limit} may be", count(class))),
            None => Ok(()),
        }
    }
}

fn overlap(a: LogRange, b: LogRange) -> bool {
    a.slot == b.slot && a.offset < b.offset + b.len && b.offset < a.offset + a.len
}

fn ranges_of(effect: &Effect) -> InFlight {
    let (mut reads, mut writes, mut class) = (Vec::new(), Vec::new(), None);
    match effect {
        Effect::WriteLog { pieces, .. } => writes.extend(pieces.iter().map(|piece| piece.at)),
        Effect::ReadLog { pieces, .. } => reads.extend(pieces.iter().map(|piece| piece.at)),
        Effect::CopyLog { from, to, .. } => {
            reads.push(*from);
            writes.push(*to);
        }
        Effect::Spill { from, to, offset, len, .. } => {
            reads.push(LogRange { slot: Slot::Memory(*from), offset: *offset, len: *len });
            writes.push(LogRange { slot: Slot::Ssd(*to), offset: *offset, len: *len });
        }
        Effect::WriteHome { pieces, .. } => {
            reads.extend(pieces.iter().map(|piece| piece.record));
            class = Some(Class::Transfer);
        }
        Effect::CompareHome { .. } => class = Some(Class::Transfer),
        Effect::ChangeHome { .. } => class = Some(Class::Change),
        _ => {}
    }
    InFlight { reads, writes, class, is_spill: matches!(effect, Effect::Spill { .. }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::effect::{LogPiece, Payload};
    use forebay_core::id::{CallId, Position, SegmentId};

    fn opened(slot: u32) -> Effect {
        let record = Record::SegmentOpened { segment: SegmentId(9), slot: SsdSlot(slot), memory: Some(MemorySlot(0)) };
        Effect::Journal { token: Token(90), position: Position(1), record }
    }

    fn range(offset: u32) -> LogRange {
        LogRange { slot: Slot::Memory(MemorySlot(0)), offset, len: 100 }
    }

    fn write(token: u64, offset: u32) -> Effect {
        let pieces = vec![LogPiece { at: range(offset), payload_offset: 0 }];
        Effect::WriteLog { token: Token(token), payload: Payload::Call(CallId(1)), pieces }
    }

    fn read(token: u64, offset: u32) -> Effect {
        let pieces = vec![LogPiece { at: range(offset), payload_offset: 0 }];
        Effect::ReadLog { token: Token(token), payload: Payload::Call(CallId(1)), pieces }
    }

    #[test]
    fn slots_in_use_are_left_alone() {
        let mut capacity = Capacity::new(NodeConfig::default());
        assert!(capacity.begin(Some(Token(1)), &write(1, 0)).is_err(), "nothing is opened there");
        assert!(capacity.begin(None, &opened(3)).is_ok());
        assert!(capacity.begin(Some(Token(1)), &write(1, 0)).is_ok());
        assert!(capacity.begin(None, &opened(4)).is_err(), "the write is under way");
        capacity.end(Token(1), false);
        assert!(capacity.begin(Some(Token(2)), &write(2, 50)).is_err(), "bytes are written once");
        assert!(capacity.begin(Some(Token(3)), &read(3, 0)).is_ok());
        assert!(capacity.begin(None, &opened(4)).is_err(), "a read is under way");
        capacity.end(Token(3), false);
        assert!(capacity.begin(None, &opened(4)).is_ok());
        assert!(capacity.begin(None, &opened(1 << 20)).is_err(), "there is no such slot");
    }
}
