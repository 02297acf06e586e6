//! Several traces as one, by time (M-03). The clocks of nodes drift apart; how much is not known here, so the order between nodes is what
//! their clocks say, and the order of each node is kept.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::Error;
use crate::names::{Names, Process};
use crate::record::{FileId, ProcessId, Record};
use crate::source::{Gap, Source, Tables};

/// Turns the numbers of one trace into those of another.
#[derive(Debug, Default)]
pub struct Renumber {
    files: Vec<FileId>,
    processes: Vec<ProcessId>,
    /// The host of processes that have none.
    pub host: String,
}

impl Renumber {
    /// Takes what is new in `from` into `into`.
    ///
    /// # Errors
    /// If the names become too many.
    pub fn update(&mut self, from: &Names, into: &mut Names) -> Result<(), Error> {
        for path in from.files().skip(self.files.len()) {
            self.files.push(into.file(path)?);
        }
        for process in from.processes().skip(self.processes.len()) {
            let host = if process.host.is_empty() { self.host.clone() } else { process.host.clone() };
            self.processes.push(into.process(Process { host, ..process.clone() })?);
        }
        Ok(())
    }

    /// The number of a file.
    #[must_use]
    pub fn file(&self, file: FileId) -> FileId {
        self.files.get(file.0 as usize).copied().unwrap_or(FileId::NONE)
    }

    /// The number of a process.
    #[must_use]
    pub fn process(&self, process: ProcessId) -> ProcessId {
        self.processes.get(process.0 as usize).copied().unwrap_or(ProcessId::NONE)
    }

    /// The record with the other numbers.
    #[must_use]
    pub fn record(&self, record: &Record) -> Record {
        Record { file: self.file(record.file), other: self.file(record.other), process: self.process(record.process), ..*record }
    }
}

struct Input<S> {
    source: S,
    renumber: Renumber,
    /// Its next record, with our numbers.
    next: Option<Record>,
}

/// The records of several sources, each of them sorted, by their starts; of equal ones, the earlier source first.
pub struct Merge<S: Source> {
    inputs: Vec<Input<S>>,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    tables: Tables,
}

impl<S: Source> Merge<S> {
    /// Merges these sources; the text is the host of processes that have none.
    ///
    /// # Errors
    /// If one cannot be read, or if some count from 1970 and others do not.
    pub fn new(sources: impl IntoIterator<Item = (S, String)>) -> Result<Merge<S>, Error> {
        let inputs =
            sources.into_iter().map(|(source, host)| Input { source, renumber: Renumber { host, ..Renumber::default() }, next: None });
        let mut merge = Merge { inputs: inputs.collect(), heap: BinaryHeap::new(), tables: Tables::default() };
        for number in 0..merge.inputs.len() {
            merge.advance(number)?;
        }
        let mut clocks = merge.inputs.iter().map(|input| input.source.about().clock);
        if let Some(first) = clocks.next() {
            if clocks.any(|clock| clock != first) {
                let message = "some of the traces count time from 1970 and others from their begin; they have no order in time";
                return Err(Error::Unsupported(message.into()));
            }
            merge.tables.about.clock = first;
        }
        for input in &merge.inputs {
            for fact in &input.source.about().facts {
                if !merge.tables.about.facts.contains(fact) {
                    merge.tables.about.facts.push(fact.clone());
                }
            }
        }
        Ok(merge)
    }

    /// Takes the next record of an input.
    fn advance(&mut self, number: usize) -> Result<(), Error> {
        let input = &mut self.inputs[number];
        let before_ns = input.next.map_or(0, |record| record.start_ns);
        let next = input.source.next_record()?;
        input.renumber.update(input.source.names(), &mut self.tables.names)?;
        input.next = next.map(|record| input.renumber.record(&record));
        let Some(record) = &input.next else {
            for gap in input.source.gaps() {
                let (file, process) = (input.renumber.file(gap.file), input.renumber.process(gap.process));
                self.tables.gaps.push(Gap { file, process, ..gap.clone() });
            }
            return Ok(());
        };
        if record.start_ns < before_ns {
            let message =
                format!("trace {} of those to merge goes back in time at {} ns; it must be sorted first", number + 1, record.start_ns);
            return Err(Error::Unsupported(message));
        }
        self.heap.push(Reverse((record.start_ns, number)));
        Ok(())
    }
}

impl<S: Source> Source for Merge<S> {
    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        let Some(Reverse((_, number))) = self.heap.pop() else { return Ok(None) };
        let record = self.inputs[number].next;
        self.advance(number)?;
        Ok(record)
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::Op;
    use crate::source::{About, Clock, MemorySource};

    fn source(node: u32, starts: &[u64]) -> (MemorySource, String) {
        let mut names = Names::new();
        let file = names.file(if node == 0 { b"/a" } else { b"/shared" }).unwrap();
        let process = names.process(Process { pid: 7, ..Process::default() }).unwrap();
        let records =
            starts.iter().enumerate().map(|(at, start)| Record { offset: at as u64, file, process, ..Record::new(Op::Write, *start) });
        (MemorySource::new(names, About::default(), records), format!("n{node}"))
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_each_order_is_kept(mut starts in prop::collection::vec(prop::collection::vec(0..50u64, 0..30), 1..5)) {
            starts.iter_mut().for_each(|starts| starts.sort_unstable());
            let sources = starts.iter().enumerate().map(|(node, starts)| source(node as u32, starts));
            let mut merge = Merge::new(sources).unwrap();
            let mut merged = Vec::new();
            while let Some(record) = merge.next_record().unwrap() {
                merged.push(record);
            }
            prop_assert_eq!(merged.len(), starts.iter().map(Vec::len).sum::<usize>());
            prop_assert!(merged.is_sorted_by_key(|record| record.start_ns));
            let mut last = Vec::new();
            for (node, starts) in starts.iter().enumerate() {
                let host = format!("n{node}");
                let own: Vec<&Record> = merged.iter().filter(|record| merge.names().who(record.process).unwrap().host == host).collect();
                prop_assert_eq!(own.iter().map(|record| record.start_ns).collect::<Vec<_>>(), starts.clone());
                prop_assert!(own.is_sorted_by_key(|record| record.offset), "the order of a node");
                last.push(own.len());
            }
            prop_assert!(merge.names().files().len() <= 2, "a path has one number");
        }
    }

    #[test]
    fn a_source_that_goes_back_in_time_is_refused_and_so_are_two_clocks() {
        let mut merge = Merge::new([source(0, &[5, 3])]);
        let refused = merge.as_mut().map(|merge| merge.next_record().is_err()).unwrap_or(true);
        assert!(refused);
        let (mut unix, host) = source(1, &[1]);
        unix.tables.about.clock = Clock::Unix;
        assert!(Merge::new([source(0, &[1]), (unix, host)]).is_err());
    }
}
