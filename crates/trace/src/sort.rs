//! Sorting a trace of any length by time, in bounded memory: sorted runs in a temporary file each, and a merge of the runs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Seek, Write};
use std::path::Path;

use crate::error::Error;
use crate::fbt::run;
use crate::record::Record;
use crate::source::{Source, Tables};

/// Records that are sorted in memory: about 300 MiB.
pub const RUN_RECORDS: usize = 1 << 22;
/// Records of a block of a run: few, since the merge holds a block of each run.
const BLOCK_RECORDS: usize = 1 << 12;

/// A sorted part in a temporary file.
struct Run {
    input: BufReader<File>,
    block: Vec<Record>,
    next: usize,
}

impl Run {
    /// Writes records to a file without a name in `folder`.
    fn spill(records: &[Record], folder: &Path) -> Result<Run, Error> {
        let mut output = BufWriter::new(tempfile::tempfile_in(folder).map_err(Error::Write)?);
        records.chunks(BLOCK_RECORDS).try_for_each(|block| run::write(block, &mut output))?;
        output.flush().map_err(Error::Write)?;
        let mut file = output.into_inner().map_err(|error| Error::Write(error.into_error()))?;
        file.rewind().map_err(Error::Read)?;
        Ok(Run { input: BufReader::new(file), block: Vec::new(), next: 0 })
    }

    fn next(&mut self) -> Result<Option<Record>, Error> {
        if self.next == self.block.len() {
            run::read(&mut self.input, &mut self.block)?;
            self.next = 0;
        }
        let record = self.block.get(self.next).copied();
        self.next += usize::from(record.is_some());
        Ok(record)
    }
}

/// The next record of each run, by its start; of equal ones, the earlier run first.
#[derive(Default)]
struct Runs {
    runs: Vec<Run>,
    heads: Vec<Option<Record>>,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Runs {
    fn add(&mut self, run: Run) -> Result<(), Error> {
        self.runs.push(run);
        self.heads.push(None);
        self.advance(self.runs.len() - 1)
    }

    fn advance(&mut self, number: usize) -> Result<(), Error> {
        self.heads[number] = self.runs[number].next()?;
        if let Some(record) = &self.heads[number] {
            self.heap.push(Reverse((record.start_ns, number)));
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Record>, Error> {
        let Some(Reverse((_, number))) = self.heap.pop() else { return Ok(None) };
        let record = self.heads[number];
        self.advance(number)?;
        Ok(record)
    }
}

/// The records of a source by their starts; those with equal starts stay in their order.
pub struct Sorted {
    /// If everything fitted into memory.
    memory: std::vec::IntoIter<Record>,
    runs: Runs,
    tables: Tables,
}

impl Sorted {
    /// Reads all of `source`; of more than `run_records`, parts go to files in `folder`.
    ///
    /// # Errors
    /// If the source cannot be read, or `folder` has no room.
    pub fn new(source: &mut (impl Source + ?Sized), run_records: usize, folder: &Path) -> Result<Sorted, Error> {
        let mut runs = Runs::default();
        let mut records: Vec<Record> = Vec::new();
        while let Some(record) = source.next_record()? {
            if records.len() >= run_records {
                records.sort_by_key(|record| record.start_ns);
                runs.add(Run::spill(&records, folder)?)?;
                records.clear();
            }
            records.push(record);
        }
        records.sort_by_key(|record| record.start_ns);
        let mut memory = records.into_iter();
        if !runs.runs.is_empty() {
            runs.add(Run::spill(memory.as_slice(), folder)?)?;
            memory = Vec::new().into_iter();
        }
        Ok(Sorted { memory, runs, tables: source.tables().clone() })
    }
}

impl Source for Sorted {
    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        match self.memory.next() {
            None => self.runs.next(),
            record => Ok(record),
        }
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::names::Names;
    use crate::record::Op;
    use crate::source::{About, MemorySource};

    proptest! {
        #[test]
        fn runs_give_what_a_stable_sort_gives(starts in prop::collection::vec(0..40u64, 0..120), run_records in 1..50usize) {
            let mut names = Names::new();
            let file = names.file(b"/a").unwrap();
            let mut records: Vec<Record> = Vec::new();
            for (at, start) in starts.iter().enumerate() {
                records.push(Record { file, offset: at as u64, ..Record::new(Op::Read, *start) });
            }
            let folder = tempfile::tempdir().unwrap();
            let mut source = MemorySource::new(names, About::default(), records.clone());
            let mut sorted = Sorted::new(&mut source, run_records, folder.path()).unwrap();
            let sorted = MemorySource::of(&mut sorted).unwrap();
            records.sort_by_key(|record| record.start_ns);
            prop_assert!(sorted.records().iter().eq(records.iter()));
            prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }
}
