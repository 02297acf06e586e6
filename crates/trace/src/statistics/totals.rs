//! What moved, in all: by file, by process and by the size of the request.

use super::chunks::is_access;
use super::patterns::Share;
use crate::record::{FileId, Op, ProcessId, Record};

/// Read and written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moved {
    /// By reading.
    pub read: Share,
    /// By writing.
    pub written: Share,
}

impl Moved {
    /// Bytes in both directions.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.read.bytes + self.written.bytes
    }

    /// Requests in both directions.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.read.requests + self.written.requests
    }

    fn add(&mut self, is_write: bool, bytes: u64) {
        let share = if is_write { &mut self.written } else { &mut self.read };
        share.requests += 1;
        share.bytes += bytes;
    }
}

/// Sums of all reads and writes at known places.
#[derive(Default)]
pub struct Totals {
    /// All of them.
    pub all: Moved,
    files: Vec<Moved>,
    processes: Vec<Moved>,
    /// Of no file or no process that is known.
    unknown: [Moved; 2],
    /// By the power of two that the size of a request reaches: 1, 2 to 3, 4 to 7 bytes and so on.
    pub sizes: Vec<Moved>,
}

impl Totals {
    /// Notes a record.
    pub fn add(&mut self, record: &Record) {
        let bytes = record.moved_bytes();
        if bytes == 0 || !is_access(record) {
            return;
        }
        let is_write = record.op == Op::Write;
        let [no_file, no_process] = &mut self.unknown;
        let file = if record.file == FileId::NONE { no_file } else { at(&mut self.files, record.file.0 as usize) };
        file.add(is_write, bytes);
        let process = if record.process == ProcessId::NONE { no_process } else { at(&mut self.processes, record.process.0 as usize) };
        process.add(is_write, bytes);
        at(&mut self.sizes, bytes.ilog2() as usize).add(is_write, bytes);
        self.all.add(is_write, bytes);
    }

    /// Files with the most bytes, and how many files moved any.
    #[must_use]
    pub fn largest_files(&self, count: usize) -> (Vec<(FileId, Moved)>, usize) {
        let (found, all) = largest(&self.files, self.unknown[0], count);
        (found.into_iter().map(|(number, moved)| (number.map_or(FileId::NONE, FileId), moved)).collect(), all)
    }

    /// Processes with the most bytes, and how many processes moved any.
    #[must_use]
    pub fn largest_processes(&self, count: usize) -> (Vec<(ProcessId, Moved)>, usize) {
        let (found, all) = largest(&self.processes, self.unknown[1], count);
        (found.into_iter().map(|(number, moved)| (number.map_or(ProcessId::NONE, ProcessId), moved)).collect(), all)
    }
}

fn at(all: &mut Vec<Moved>, index: usize) -> &mut Moved {
    if index >= all.len() {
        all.resize(index + 1, Moved::default());
    }
    &mut all[index]
}

/// Those with the most bytes, by their numbers, the unknown one without a number.
fn largest(all: &[Moved], unknown: Moved, count: usize) -> (Vec<(Option<u32>, Moved)>, usize) {
    let known = all.iter().enumerate().map(|(number, moved)| (Some(number as u32), *moved));
    let mut found: Vec<_> = known.chain([(None, unknown)]).filter(|(_, moved)| moved.requests() > 0).collect();
    let there_are = found.len();
    found.sort_by_key(|(number, moved)| (std::cmp::Reverse(moved.bytes()), *number));
    found.truncate(count);
    (found, there_are)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_by_file_process_and_size() {
        let mut totals = Totals::default();
        let record = |op, file, process, size: u64| Record {
            file: FileId(file),
            process: ProcessId(process),
            size,
            result: size as i64,
            ..Record::new(op, 0)
        };
        for record in [
            record(Op::Write, 0, 7, 4096),
            record(Op::Read, 2, 7, 4095),
            record(Op::Read, 2, u32::MAX, 5000),
            record(Op::Open, 1, 7, 0),
            Record { result: -5, ..record(Op::Read, 1, 7, 100) },
        ] {
            totals.add(&record);
        }
        let (files, count) = totals.largest_files(1);
        assert_eq!((count, files[0].0, files[0].1.bytes(), files[0].1.requests()), (2, FileId(2), 9095, 2));
        let (processes, _) = totals.largest_processes(9);
        assert_eq!(
            processes.iter().map(|(process, moved)| (*process, moved.bytes())).collect::<Vec<_>>(),
            [(ProcessId(7), 8191), (ProcessId::NONE, 5000)]
        );
        assert_eq!((totals.sizes.len(), totals.sizes[11].read.requests, totals.sizes[12].requests()), (13, 1, 2));
        assert_eq!(totals.all.written, Share { requests: 1, bytes: 4096 });
    }
}
