//! The records of the modules as operations.

use std::collections::HashMap;

use super::heatmap_layer;
use super::log::Module;
use super::region::Region;
use crate::error::Error;
use crate::names::{Names, Process};
use crate::record::{FileId, Flags, Layer, Op, ProcessId, Record};

/// Of a file in DXT: identity, rank, shared, host (64 bytes), counts of writes and reads.
const FILE_BYTES: usize = 104;
const HOST_AT: usize = 24;
const HOST_BYTES: usize = 64;
/// Offset, length, start, end.
const SEGMENT_BYTES: usize = 32;
/// Of a heatmap: identity, rank, width of a bin in seconds, number of bins, and two words without meaning.
const HEATMAP_BYTES: usize = 48;
/// A heatmap has some hundred bins; this is far beyond.
const BINS_MAX: u64 = 1 << 20;

/// What is needed beside a region.
pub(super) struct Context<'a> {
    pub(super) paths: &'a HashMap<u64, Vec<u8>>,
    pub(super) names: &'a mut Names,
    pub(super) epoch_ns: u64,
}

impl Context<'_> {
    fn file(&mut self, id: u64) -> Result<FileId, Error> {
        match self.paths.get(&id) {
            Some(path) => self.names.file(path),
            None => self.names.file(format!("darshan:{id}").as_bytes()),
        }
    }

    fn process(&mut self, host: &[u8], rank: i64) -> Result<ProcessId, Error> {
        let host = host.iter().copied().take_while(|byte| *byte != 0).collect::<Vec<u8>>();
        let rank = u32::try_from(rank).ok();
        self.names.process(Process { host: String::from_utf8_lossy(&host).into_owned(), rank, ..Process::default() })
    }
}

/// Seconds since the begin of the job as nanoseconds; none if that is no time.
fn nanoseconds(seconds: f64) -> Option<u64> {
    // A clock may have been a little behind when the job began.
    (seconds.is_finite() && seconds.abs() < 1e10).then(|| (seconds.max(0.0) * 1e9).round() as u64)
}

/// A file whose segments are being read.
struct File {
    file: FileId,
    process: ProcessId,
    writes: u64,
    reads: u64,
}

/// The bins of a heatmap that were read.
struct Bins {
    file: FileId,
    process: ProcessId,
    layer: Layer,
    width_ns: u64,
    /// Bytes written and bytes read.
    bytes: [Vec<u64>; 2],
    next: usize,
}

enum State {
    Between,
    Segments(File),
    Bins(Bins),
}

/// The records of one module.
pub(super) struct Records {
    region: Region,
    module: Module,
    version: u32,
    /// Whether DXT has the operations of POSIX, and of MPI-IO.
    traced: (bool, bool),
    state: State,
}

impl Records {
    pub(super) fn new(region: Region, module: Module, version: u32, traced: (bool, bool)) -> Records {
        Records { region, module, version, traced, state: State::Between }
    }

    pub(super) fn next(&mut self, mut context: Context<'_>) -> Result<Option<Record>, Error> {
        loop {
            match &mut self.state {
                State::Segments(file) if file.writes + file.reads > 0 => return self.segment(context.epoch_ns).map(Some),
                State::Bins(bins) => {
                    if let Some(record) = bins.next(context.epoch_ns) {
                        return Ok(Some(record));
                    }
                }
                State::Segments(_) | State::Between => {}
            }
            self.state = match self.module {
                Module::Heatmap => match self.bins(&mut context)? {
                    Some(bins) => State::Bins(bins),
                    None => return Ok(None),
                },
                Module::DxtPosix | Module::DxtMpiIo => match self.file(&mut context)? {
                    Some(file) => State::Segments(file),
                    None => return Ok(None),
                },
            };
        }
    }

    fn file(&mut self, context: &mut Context<'_>) -> Result<Option<File>, Error> {
        let Some(part) = self.region.part::<FILE_BYTES>()? else { return Ok(None) };
        let count = |at| u64::try_from(part.i64(at)).map_err(|_| self.region.wrong("a file has a negative number of segments"));
        let (writes, reads) = (count(FILE_BYTES - 16)?, count(FILE_BYTES - 8)?);
        let file = context.file(part.u64(0))?;
        let process = context.process(&part.bytes[HOST_AT..HOST_AT + HOST_BYTES], part.i64(8))?;
        Ok(Some(File { file, process, writes, reads }))
    }

    /// The next segment of the file that is being read; writes come first.
    fn segment(&mut self, epoch_ns: u64) -> Result<Record, Error> {
        let part = self.region.part::<SEGMENT_BYTES>()?.ok_or_else(|| self.region.wrong("segments of a file are missing"))?;
        let State::Segments(file) = &mut self.state else { return Err(self.region.wrong("a segment belongs to no file")) };
        let op = if file.writes > 0 { Op::Write } else { Op::Read };
        if op == Op::Write {
            file.writes -= 1
        } else {
            file.reads -= 1
        }
        let (Some(start_ns), Some(end_ns)) = (nanoseconds(part.f64(16)), nanoseconds(part.f64(24))) else {
            return Err(self.region.wrong("the time of a segment is no time"));
        };
        let size = u64::try_from(part.i64(8)).map_err(|_| self.region.wrong("the length of a segment is negative"))?;
        let mut record = Record::new(op, epoch_ns.saturating_add(start_ns));
        record.duration_ns = end_ns.saturating_sub(start_ns);
        record.layer = if self.module == Module::DxtMpiIo { Layer::MpiIo } else { Layer::File };
        (record.file, record.process) = (file.file, file.process);
        (record.size, record.result) = (size, size as i64);
        // The first version of MPI-IO's segments had none, and some calls of later ones have none.
        let known = self.module == Module::DxtPosix || self.version > 1;
        match u64::try_from(part.i64(0)) {
            Ok(offset) if known => record.offset = offset,
            _ => record.flags |= Flags::NO_OFFSET,
        }
        Ok(record)
    }

    fn bins(&mut self, context: &mut Context<'_>) -> Result<Option<Bins>, Error> {
        loop {
            let Some(part) = self.region.part::<HEATMAP_BYTES>()? else { return Ok(None) };
            let count = part.u64(24);
            let width_ns = nanoseconds(part.f64(16)).filter(|width| *width > 0);
            let (Some(width_ns), 0..=BINS_MAX) = (width_ns, count) else {
                return Err(self.region.wrong("a heatmap has bins without a width, or too many"));
            };
            let mut bytes = [Vec::new(), Vec::new()];
            for bins in &mut bytes {
                for _ in 0..count {
                    let bin = self.region.part::<8>()?.ok_or_else(|| self.region.wrong("bins of a heatmap are missing"))?;
                    bins.push(u64::try_from(bin.i64(0)).map_err(|_| self.region.wrong("a bin holds a negative number of bytes"))?);
                }
            }
            let layer = context.paths.get(&part.u64(0)).and_then(|path| heatmap_layer(path)).unwrap_or(Layer::Library);
            let again = matches!((layer, self.traced), (Layer::File, (true, _)) | (Layer::MpiIo, (_, true)));
            if !again {
                let (file, process) = (context.file(part.u64(0))?, context.process(&[], part.i64(8))?);
                return Ok(Some(Bins { file, process, layer, width_ns, bytes, next: 0 }));
            }
        }
    }
}

impl Bins {
    /// The next bin that is not empty.
    fn next(&mut self, epoch_ns: u64) -> Option<Record> {
        loop {
            let (bin, read) = (self.next / 2, self.next % 2);
            let size = *self.bytes[read].get(bin)?;
            self.next += 1;
            if size > 0 {
                let op = if read == 1 { Op::Read } else { Op::Write };
                let start_ns = epoch_ns.saturating_add(self.width_ns.saturating_mul(bin as u64));
                return Some(Record {
                    duration_ns: self.width_ns,
                    layer: self.layer,
                    flags: Flags::BINNED | Flags::NO_OFFSET,
                    process: self.process,
                    file: self.file,
                    size,
                    result: size as i64,
                    ..Record::new(op, start_ns)
                });
            }
        }
    }
}
