//! A trace in memory, as the model needs it: each operation cut into chunks, and chunks and files with small numbers.

use forebay_trace::statistics::chunks::{ChunkNumbers, Continuation, Touches};
use forebay_trace::{FileId, Record};

use super::identities::Identities;

/// In a reference: it writes. The rest is the chunk's number.
const WRITE: u32 = 1 << 31;

/// One touch of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reference {
    chunk_and_write: u32,
    /// Bytes that were asked for.
    pub(super) bytes: u32,
}

impl Reference {
    pub(super) fn chunk(self) -> u32 {
        self.chunk_and_write & !WRITE
    }

    pub(super) fn is_write(self) -> bool {
        self.chunk_and_write & WRITE != 0
    }
}

/// One operation: when, and where its references end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) start_ns: u64,
    pub(super) references_end: u64,
}

/// A trace, ready for any number of simulations.
pub struct Workload {
    pub(super) chunk_bytes: u32,
    pub(super) references: Vec<Reference>,
    pub(super) operations: Vec<Operation>,
    /// The process of each operation, if that is of interest.
    pub(super) processes: Vec<u32>,
    /// The hash of each chunk's name.
    pub(super) hashes: Vec<u32>,
    /// The file of each chunk.
    pub(super) files: Vec<u32>,
    /// Chunks of each file, up to the last byte that the trace speaks of.
    pub(super) file_chunks: Vec<u64>,
    pub(super) paths: Vec<String>,
}

impl Workload {
    /// Bytes of a chunk.
    #[must_use]
    pub fn chunk_bytes(&self) -> u32 {
        self.chunk_bytes
    }

    /// The touches of each operation, and when it began.
    pub(super) fn by_operation(&self) -> impl Iterator<Item = (u64, &[Reference])> {
        let mut from = 0;
        self.operations.iter().map(move |operation| {
            let to = operation.references_end as usize;
            (operation.start_ns, &self.references[std::mem::replace(&mut from, to)..to])
        })
    }

    /// Touches of chunks.
    #[must_use]
    pub fn references(&self) -> u64 {
        self.references.len() as u64
    }

    /// Different chunks: a buffer of as many never swaps.
    #[must_use]
    pub fn chunks(&self) -> u32 {
        self.hashes.len() as u32
    }

    /// Bytes of the different chunks.
    #[must_use]
    pub fn footprint_bytes(&self) -> u64 {
        u64::from(self.chunks()) * u64::from(self.chunk_bytes)
    }

    /// The path of a file.
    #[must_use]
    pub fn path(&self, file: usize) -> &str {
        self.paths.get(file).map_or("?", |path| path)
    }

    /// A workload without operations, with the same chunks and files.
    pub(super) fn clone_names(&self) -> Workload {
        Workload {
            chunk_bytes: self.chunk_bytes,
            references: Vec::new(),
            operations: Vec::new(),
            processes: Vec::new(),
            hashes: self.hashes.clone(),
            files: self.files.clone(),
            file_chunks: self.file_chunks.clone(),
            paths: self.paths.clone(),
        }
    }

    /// A number that another trace hardly has.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut sum = 0u64;
        let mut add = |word: u64| sum = (sum.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        add(u64::from(self.chunk_bytes));
        self.references.iter().for_each(|r| add(u64::from(r.chunk_and_write) << 32 | u64::from(r.bytes)));
        self.operations.iter().for_each(|o| add(o.start_ns));
        sum
    }
}

/// Takes the records of a trace one after the other, in the order of their times.
pub struct WorkloadBuilder {
    identities: Identities,
    touches: Touches,
    numbers: ChunkNumbers,
    workload: Workload,
    /// The end of each file that the trace speaks of.
    file_ends: Vec<u64>,
    has_processes: bool,
    /// The time of the last record: time does not go back.
    now_ns: u64,
}

impl WorkloadBuilder {
    /// For chunks of this many bytes, a power of two.
    #[must_use]
    pub fn new(chunk_bytes: u32) -> WorkloadBuilder {
        let workload = Workload {
            chunk_bytes,
            references: Vec::new(),
            operations: Vec::new(),
            processes: Vec::new(),
            hashes: Vec::new(),
            files: Vec::new(),
            file_chunks: Vec::new(),
            paths: Vec::new(),
        };
        WorkloadBuilder {
            identities: Identities::default(),
            touches: Touches::new(chunk_bytes, Continuation::Off),
            numbers: ChunkNumbers::new(),
            workload,
            file_ends: Vec::new(),
            has_processes: false,
            now_ns: 0,
        }
    }

    /// Keeps in mind which process each operation is of, for [`Workload::varied`].
    #[must_use]
    pub fn with_processes(self) -> WorkloadBuilder {
        WorkloadBuilder { has_processes: true, ..self }
    }

    /// Room for this many records, if that is known.
    pub fn reserve(&mut self, records: usize) {
        self.workload.references.reserve(records);
        self.workload.operations.reserve(records);
    }

    /// Adds a record; one that moves no bytes, or of no known file, is of no interest.
    pub fn add(&mut self, record: &Record) {
        use forebay_core::id::{ChunkId, Ino};
        if record.file == FileId::NONE {
            return;
        }
        self.identities.follow(record);
        let record = &Record { file: self.identities.of(record.file), ..*record };
        let (workload, numbers) = (&mut self.workload, &mut self.numbers);
        let before = workload.references.len();
        self.touches.of(record, |touch| {
            let chunk = numbers.number(touch.file, touch.index);
            if chunk as usize == workload.hashes.len() {
                let name = ChunkId { ino: Ino(u64::from(touch.file.0) + 1), index: touch.index };
                workload.hashes.push(forebay_core::policy::replacement::hash(name));
                workload.files.push(touch.file.0);
            }
            assert!(chunk < WRITE, "more different chunks than can be numbered: take larger ones");
            let write = if touch.is_write { WRITE } else { 0 };
            workload.references.push(Reference { chunk_and_write: chunk | write, bytes: touch.bytes });
        });
        if workload.references.len() == before {
            return;
        }
        self.now_ns = self.now_ns.max(record.start_ns);
        workload.operations.push(Operation { start_ns: self.now_ns, references_end: workload.references.len() as u64 });
        if self.has_processes {
            workload.processes.push(record.process.0);
        }
        let file = record.file.0 as usize;
        if file >= self.file_ends.len() {
            self.file_ends.resize(file + 1, 0);
        }
        self.file_ends[file] = self.file_ends[file].max(record.offset.saturating_add(record.moved_bytes()));
    }

    /// The workload; `paths` are those of the files by their numbers, for messages.
    #[must_use]
    pub fn finish(mut self, paths: Vec<String>) -> Workload {
        let chunk_bytes = u64::from(self.workload.chunk_bytes);
        self.workload.file_chunks = self.file_ends.iter().map(|end| end.div_ceil(chunk_bytes)).collect();
        self.workload.paths = self.identities.paths(paths);
        self.workload
    }
}
