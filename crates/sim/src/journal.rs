//! The simulated journal: files of ordered records, of which a power loss leaves a prefix.

use forebay_core::id::Position;
use forebay_core::record::Record;

use crate::rng::Rng;

/// All journal files, the oldest first.
#[derive(Debug)]
pub struct Journal {
    files: Vec<File>,
    files_made: u64,
    /// The memory file in use; a power loss takes it.
    memory: u64,
}

/// What is found after a crash.
#[derive(Debug)]
pub struct Opened {
    /// The records.
    pub records: Vec<(Position, Record)>,
    /// Whether the memory file that they speak of is there.
    pub memory_intact: bool,
}

#[derive(Debug)]
struct File {
    number: u64,
    records: Vec<(Position, Record)>,
    /// Records that are on the medium.
    durable: usize,
    /// The memory file that its records speak of.
    memory: u64,
    /// A sync of it has failed: no later one proves anything.
    lost: bool,
}

/// What a sync that has begun will have made durable when it ends: of each file, how many records.
#[derive(Debug)]
pub struct JournalSync(Vec<(u64, usize)>);

impl Default for Journal {
    fn default() -> Self {
        Journal { files: vec![File { number: 0, records: Vec::new(), durable: 0, memory: 0, lost: false }], files_made: 1, memory: 0 }
    }
}

impl Journal {
    /// Appends a record; says what is wrong with its position.
    pub fn append(&mut self, position: Position, record: Record) -> Result<(), String> {
        let file = self.files.last_mut().expect("there is always a file");
        if let Some((last, _)) = file.records.last()
            && position.0 != last.0 + 1
        {
            return Err(format!("{position:?} was journaled after {last:?}: {record:?}"));
        }
        file.records.push((position, record));
        Ok(())
    }

    /// Begins a new file with these records, on the medium when it is done; says what is wrong with its position.
    pub fn rotate(&mut self, position: Position, records: Vec<Record>) -> Result<(), String> {
        let numbered: Vec<_> = (position.0..).map(Position).zip(records).collect();
        let last = self.files.iter().rev().find_map(|file| file.records.last());
        if let Some((last, _)) = last
            && position <= *last
        {
            return Err(format!("a new journal began at {position:?}, after {last:?}"));
        }
        let durable = numbered.len();
        self.files.push(File { number: self.files_made, records: numbered, durable, memory: self.memory, lost: false });
        self.files_made += 1;
        Ok(())
    }

    /// Removes all files but the newest; says so if a power loss would then leave nothing to believe in.
    pub fn drop_old(&mut self) -> Result<(), String> {
        let newest = self.files.pop().expect("there is always a file");
        let believed = newest.number == 0 || has_mark(&newest.records[..newest.durable]);
        self.files.clear();
        let first = newest.records.first().map(|(position, _)| *position);
        self.files.push(newest);
        if believed { Ok(()) } else { Err(format!("older journals were dropped before the one from {first:?} on could be believed")) }
    }

    /// What recovery gets: the newest file that is whole, and that is either marked as durable or speaks of the memory file in use.
    /// Newer ones are gone for good.
    pub fn open(&mut self) -> Opened {
        let memory = self.memory;
        let whole = |file: &File| file.number == 0 || snapshot_end(&file.records).is_some();
        let believed = |file: &File| whole(file) && (file.number == 0 || file.memory == memory || has_mark(&file.records));
        let chosen = self.files.iter().rposition(believed).or_else(|| self.files.iter().position(whole));
        self.files.truncate(chosen.map_or(0, |at| at + 1));
        if self.files.is_empty() {
            self.files = Journal::default().files;
        }
        let file = self.files.last_mut().expect("there is always a file");
        file.durable = file.records.len();
        Opened { records: file.records.clone(), memory_intact: file.memory == memory }
    }

    /// A sync begins: it covers what is appended now.
    pub fn begin_sync(&self) -> JournalSync {
        JournalSync(self.files.iter().map(|file| (file.number, file.records.len())).collect())
    }

    /// A sync ends.
    pub fn finish_sync(&mut self, sync: JournalSync) {
        for (number, len) in sync.0 {
            if let Some(file) = self.files.iter_mut().find(|file| file.number == number && !file.lost) {
                file.durable = file.durable.max(len);
            }
        }
    }

    /// A sync has failed.
    pub fn lose_syncs(&mut self) {
        if let Some(file) = self.files.last_mut() {
            file.lost = true;
        }
    }

    /// Whether there is one file only: no snapshot waits to be believed.
    pub fn is_settled(&self) -> bool {
        self.files.len() == 1
    }

    /// The process dies while the newest file is being made: a part of it may be there.
    pub fn tear_newest(&mut self, rng: &mut Rng) {
        if let Some(file) = self.files.last_mut() {
            file.records.truncate(rng.below(file.records.len() as u64 + 1) as usize);
            file.durable = 0;
        }
    }

    /// A canary's doing: the last records were acknowledged, and not written.
    pub fn lose_end(&mut self, records: usize) {
        if let Some(file) = self.files.last_mut() {
            let kept = file.records.len().saturating_sub(records);
            file.records.truncate(kept.max(snapshot_end(&file.records).map_or(0, |end| end + 1)));
            file.durable = file.durable.min(file.records.len());
        }
    }

    /// The power fails: of each file, what was synced is there, and some of what was not.
    pub fn lose_power(&mut self, rng: &mut Rng) {
        self.memory += 1;
        for file in &mut self.files {
            let unsynced = (file.records.len() - file.durable) as u64;
            let kept = match rng.below(3) {
                0 => 0,
                1 => unsynced,
                _ => rng.below(unsynced + 1),
            };
            file.records.truncate(file.durable + kept as usize);
            file.durable = file.records.len();
        }
        self.files.retain(|file| file.number == 0 || !file.records.is_empty());
    }

    /// Records in the newest file.
    pub fn len(&self) -> usize {
        self.files.last().map_or(0, |file| file.records.len())
    }

    /// Whether nothing was ever journaled.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The index of the record that ends the snapshot.
fn snapshot_end(records: &[(Position, Record)]) -> Option<usize> {
    records.iter().position(|(_, record)| *record == Record::SnapshotEnd)
}

/// Whether a record says that everything up to the end of the snapshot is on the medium, also the payload that it speaks of.
fn has_mark(records: &[(Position, Record)]) -> bool {
    snapshot_end(records).is_some_and(|end| {
        let end_position = records[end].0;
        records[end..].iter().any(|(_, record)| matches!(record, Record::Synced { upto } if *upto >= end_position))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn synced(upto: u64) -> Record {
        Record::Synced { upto: Position(upto) }
    }

    #[test]
    fn positions_are_consecutive() {
        let mut journal = Journal::default();
        journal.append(Position(3), synced(0)).unwrap();
        journal.append(Position(4), synced(0)).unwrap();
        assert!(journal.append(Position(6), synced(0)).is_err());
        assert!(journal.rotate(Position(4), vec![]).is_err());
    }

    #[test]
    fn what_was_synced_survives_a_power_loss_and_the_rest_is_a_prefix() {
        for seed in 0..100 {
            let mut journal = Journal::default();
            for at in 0..10 {
                journal.append(Position(at), synced(at)).unwrap();
            }
            let sync = journal.begin_sync();
            for at in 10..20 {
                journal.append(Position(at), synced(at)).unwrap();
            }
            journal.finish_sync(sync);
            journal.lose_power(&mut Rng::new(seed));
            let records = journal.open().records;
            assert!((10..=20).contains(&records.len()));
            assert!(records.iter().enumerate().all(|(at, (position, _))| position.0 == at as u64));
        }
    }

    #[test]
    fn a_torn_snapshot_is_not_used() {
        for seed in 0..100 {
            let mut journal = Journal::default();
            journal.append(Position(0), synced(0)).unwrap();
            journal.rotate(Position(1), vec![synced(0), Record::SnapshotEnd]).unwrap();
            journal.tear_newest(&mut Rng::new(seed));
            assert!([1, 2].contains(&journal.open().records.len()));
        }
    }

    #[test]
    fn a_journal_is_believed_after_a_power_loss_only_with_its_mark() {
        for marked in [false, true] {
            let mut journal = Journal::default();
            journal.append(Position(0), synced(0)).unwrap();
            let sync = journal.begin_sync();
            journal.finish_sync(sync);
            journal.rotate(Position(1), vec![synced(0), Record::SnapshotEnd]).unwrap();
            if marked {
                journal.append(Position(3), synced(2)).unwrap();
                let sync = journal.begin_sync();
                journal.finish_sync(sync);
            }
            journal.lose_power(&mut Rng::new(1));
            let opened = journal.open();
            assert_eq!(opened.records.len(), if marked { 3 } else { 1 });
            assert!(!opened.memory_intact);
        }
    }

    #[test]
    fn old_journals_are_dropped_only_behind_a_believed_one() {
        let mut journal = Journal::default();
        journal.rotate(Position(0), vec![Record::SnapshotEnd]).unwrap();
        assert!(journal.drop_old().is_err());
        let mut journal = Journal::default();
        journal.rotate(Position(0), vec![Record::SnapshotEnd]).unwrap();
        journal.append(Position(1), synced(0)).unwrap();
        let sync = journal.begin_sync();
        journal.finish_sync(sync);
        assert!(journal.drop_old().is_ok());
    }
}
