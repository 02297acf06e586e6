//! From records to references: which chunks an operation touches, each with a small number, and whether it only goes on where the one
//! before ended (B-17).

use super::pairs::Pairs;
use crate::record::{FileId, Flags, Layer, Op, ProcessId, Record};

const NONE: u32 = u32::MAX;
/// All tables together have this many places, and then as many times the chunks that there are: most files are dense.
const PLACES_MIN: u64 = 1 << 22;
const PLACES_PER_CHUNK: u64 = 4;

/// Numbers for chunks of files, given in the order in which the chunks are first seen.
pub struct ChunkNumbers {
    /// For each file the numbers of its first chunks.
    tables: Vec<Vec<u32>>,
    /// Places in all tables.
    places: u64,
    /// Chunks that were beyond their file's table when they were first seen: their place here, and from there their number.
    far: Pairs,
    far_numbers: Vec<u32>,
    count: u32,
}

impl ChunkNumbers {
    /// No chunk yet.
    #[must_use]
    pub fn new() -> ChunkNumbers {
        ChunkNumbers { tables: Vec::new(), places: 0, far: Pairs::new(), far_numbers: Vec::new(), count: 0 }
    }

    /// The number of a chunk, a new one if it has none.
    #[inline]
    pub fn number(&mut self, file: FileId, index: u64) -> u32 {
        let table = self.tables.get(file.0 as usize);
        match table.and_then(|table| table.get(index as usize)) {
            Some(number) if *number != NONE => *number,
            _ => self.search(file, index),
        }
    }

    /// The number of a chunk that is not in its file's table.
    fn search(&mut self, file: FileId, index: u64) -> u32 {
        let is_near = self.make_room(file, index);
        let far = if is_near { self.far.find(file.0, index) } else { Some(self.far.number(file.0, index).0) };
        self.far_numbers.resize(self.far.len() as usize, NONE);
        let mut number = far.map_or(NONE, |place| self.far_numbers[place as usize]);
        if number == NONE {
            number = self.count;
            self.count += 1;
        }
        if is_near {
            self.tables[file.0 as usize][index as usize] = number;
        } else if let Some(place) = far {
            self.far_numbers[place as usize] = number;
        }
        number
    }

    /// Whether a chunk has a place in its file's table; makes one if that costs little.
    fn make_room(&mut self, file: FileId, index: u64) -> bool {
        if file == FileId::NONE {
            return false;
        }
        let at = file.0 as usize;
        let old = self.tables.get(at).map_or(0, |table| table.len() as u64);
        if index < old {
            return true;
        }
        let Some(new) = index.checked_add(1).and_then(u64::checked_next_power_of_two) else { return false };
        if self.places + (new - old) > PLACES_MIN + u64::from(self.count) * PLACES_PER_CHUNK {
            return false;
        }
        if at >= self.tables.len() {
            self.tables.resize_with(at + 1, Vec::new);
        }
        self.tables[at].resize(new as usize, NONE);
        self.places += new - old;
        true
    }

    /// How many chunks have numbers.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }
}

impl Default for ChunkNumbers {
    fn default() -> Self {
        ChunkNumbers::new()
    }
}

/// Whose last access an operation can be the continuation of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Continuation {
    /// The same process's, to the same file.
    #[default]
    PerProcess,
    /// Anybody's, to the same file.
    PerFile,
    /// Nobody's: every touch of a chunk is a reference of its own.
    Off,
}

/// A part of an operation: what of it lies in one chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch {
    /// Which file.
    pub file: FileId,
    /// Which chunk of it.
    pub index: u64,
    /// Bytes of the operation in this chunk.
    pub bytes: u32,
    /// Whether they were written; else they were read.
    pub is_write: bool,
    /// The operation begins where the one before ended, and that one touched this chunk, too: it is no use again.
    pub is_continued: bool,
}

/// Cuts operations at the borders of chunks.
pub struct Touches {
    chunk_shift: u32,
    continuation: Continuation,
    streams: Pairs,
    /// The end of the last access of each stream.
    ends: Vec<u64>,
    /// The stream that was used last, by file and whose it is.
    last_stream: (FileId, u64, u32),
}

/// Whether a record moves bytes at a known place, told by the layer that everything passes. What libraries above tell of is told again
/// by that layer.
#[must_use]
pub fn is_access(record: &Record) -> bool {
    record.op.moves_data()
        && record.flags.0 & (Flags::BINNED | Flags::NO_OFFSET).0 == 0
        && !matches!(record.layer, Layer::MpiIo | Layer::Library)
}

impl Touches {
    /// Chunks of `chunk_bytes`.
    ///
    /// # Panics
    /// If that is no power of two below 4 GiB.
    #[must_use]
    pub fn new(chunk_bytes: u32, continuation: Continuation) -> Touches {
        assert!(chunk_bytes.is_power_of_two(), "a chunk of {chunk_bytes} bytes: it must be a power of two");
        Touches {
            chunk_shift: chunk_bytes.trailing_zeros(),
            continuation,
            streams: Pairs::new(),
            ends: Vec::new(),
            last_stream: (FileId::NONE, u64::MAX, 0),
        }
    }

    /// Gives each chunk that a record touches, in order; nothing for a record that moves no bytes.
    pub fn of(&mut self, record: &Record, mut touch: impl FnMut(Touch)) {
        let bytes = record.moved_bytes();
        if bytes == 0 || !is_access(record) {
            return;
        }
        let (begin, end) = (record.offset, record.offset.saturating_add(bytes));
        let is_continuation = self.goes_on(record.file, record.process, begin, end) && begin & ((1 << self.chunk_shift) - 1) != 0;
        let is_write = record.op == Op::Write;
        let (first, last) = (begin >> self.chunk_shift, (end - 1) >> self.chunk_shift);
        for index in first..=last {
            let chunk_begin = index << self.chunk_shift;
            let chunk_end = chunk_begin.saturating_add(1 << self.chunk_shift);
            let bytes = (end.min(chunk_end) - begin.max(chunk_begin)) as u32;
            touch(Touch { file: record.file, index, bytes, is_write, is_continued: index == first && is_continuation });
        }
    }

    /// Notes where an access ends; whether it begins where the one before in its stream ended.
    fn goes_on(&mut self, file: FileId, process: ProcessId, begin: u64, end: u64) -> bool {
        let stream = match self.continuation {
            Continuation::Off => return false,
            Continuation::PerFile => 0,
            Continuation::PerProcess => u64::from(process.0),
        };
        let (last_file, last, mut number) = self.last_stream;
        if (last_file, last) != (file, stream) {
            let is_new;
            (number, is_new) = self.streams.number(file.0, stream);
            self.last_stream = (file, stream, number);
            if is_new {
                self.ends.push(end);
                return false;
            }
        }
        let stream = number;
        std::mem::replace(&mut self.ends[stream as usize], end) == begin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(op: Op, process: u32, offset: u64, size: u64) -> Record {
        Record { file: FileId(3), process: ProcessId(process), offset, size, result: size as i64, ..Record::new(op, 0) }
    }

    fn touches(continuation: Continuation, records: &[Record]) -> Vec<(u64, u32, bool)> {
        let (mut found, mut touches) = (Vec::new(), Touches::new(4096, continuation));
        for record in records {
            touches.of(record, |t| found.push((t.index, t.bytes, t.is_continued)));
        }
        found
    }

    #[test]
    fn operations_are_cut_at_chunks() {
        let records = [access(Op::Read, 1, 4000, 8292), access(Op::Write, 1, 12_292, 0), access(Op::Read, 1, 8192, 1)];
        assert_eq!(
            touches(Continuation::PerProcess, &records),
            [(0, 96, false), (1, 4096, false), (2, 4096, false), (3, 4, false), (2, 1, false)]
        );
        let failed = Record { result: -5, ..access(Op::Read, 1, 0, 10) };
        assert_eq!(touches(Continuation::Off, &[failed, Record { layer: Layer::MpiIo, ..access(Op::Read, 1, 0, 10) }]), []);
    }

    /// B-17: r(0, 2K), r(2K, 3K) is one use of the chunk, r(0, 2K), r(0, 3K) are two.
    #[test]
    fn what_goes_on_is_no_use_again() {
        let appended = [access(Op::Read, 1, 0, 2048), access(Op::Read, 1, 2048, 1024)];
        let again = [access(Op::Read, 1, 0, 2048), access(Op::Read, 1, 0, 3072)];
        let by_another = [access(Op::Read, 1, 0, 2048), access(Op::Read, 2, 2048, 1024)];
        let continued = |mode, records: &[Record]| touches(mode, records)[1].2;
        assert!(continued(Continuation::PerProcess, &appended) && !continued(Continuation::PerProcess, &again));
        assert!(!continued(Continuation::PerProcess, &by_another) && continued(Continuation::PerFile, &by_another));
        assert!(!continued(Continuation::Off, &appended));
    }

    #[test]
    fn chunks_have_one_number_each() {
        let mut numbers = ChunkNumbers::new();
        let all: Vec<u32> =
            [(1, 0), (1, 1), (2, 0), (1, 1 << 40), (1, 0), (2, 0)].map(|(file, index)| numbers.number(FileId(file), index)).into();
        assert_eq!(all, [0, 1, 2, 3, 0, 2]);
        assert_eq!(numbers.count(), 4);
        assert_eq!((numbers.number(FileId::NONE, 5), numbers.number(FileId::NONE, 5)), (4, 4));
    }

    /// Near and far chunks, and those that come into reach when their file has grown.
    #[test]
    fn numbers_agree_with_a_map() {
        let (mut numbers, mut map) = (ChunkNumbers::new(), std::collections::HashMap::new());
        for n in 0..60_000u64 {
            let random = super::super::pairs::mix(0, n, 6);
            let (file, index) = ((random % 3) as u32, (random >> 8) % (1000 << (random >> 40 & 7)));
            let next = map.len() as u32;
            assert_eq!(numbers.number(FileId(file), index), *map.entry((file, index)).or_insert(next));
        }
        assert_eq!(numbers.count() as usize, map.len());
    }
}
