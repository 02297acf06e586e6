//! Tables as text: MSR Cambridge, the Storage Performance Council, and what Recorder's utilities make.

use std::borrow::Cow;
use std::io::BufRead;

use super::text::{Parser, Problem, State, TextReader, csv, no};
use crate::format::Format;
use crate::names::Process;
use crate::record::{Flags, Layer, Op, Record};
use crate::source::Clock;
use crate::text::{number, seconds};

/// 1970 in the clock of Windows, which counts 100 ns from 1601.
const UNIX_IN_FILETIME: u64 = 116_444_736_000_000_000;
const FILETIME_NS: u64 = 100;
const SECTOR_BYTES: u64 = 512;

fn read_or_write(field: &[u8]) -> Option<Op> {
    match field.first().map(u8::to_ascii_lowercase) {
        Some(b'r') => Some(Op::Read),
        Some(b'w') => Some(Op::Write),
        _ => None,
    }
}

fn moved(record: &mut Record, size: u64) -> Result<(), Problem> {
    (record.size, record.result) = (size, i64::try_from(size).map_err(|_| "the size is too large")?);
    Ok(())
}

fn parts(line: &[u8]) -> Result<Vec<Cow<'_, [u8]>>, Problem> {
    csv(line).ok_or_else(|| "a quote is not closed, or something follows it".into())
}

/// Understands `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, times in units of 100 ns.
#[derive(Debug, Default)]
pub struct Msr;

/// Reads MSR Cambridge's traces.
pub type MsrReader<R> = TextReader<R, Msr>;

impl<R: BufRead> MsrReader<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> MsrReader<R> {
        TextReader::with(input, Msr)
    }
}

impl Parser for Msr {
    const FORMAT: Format = Format::Msr;

    fn line(&mut self, line: &[u8], state: &mut State) -> Result<(), Problem> {
        if line.trim_ascii().is_empty() || line.starts_with(b"Timestamp") {
            return Ok(());
        }
        let parts = parts(line)?;
        let [time, host, disk, kind, offset, size, response] = &parts[..] else {
            return Err(format!("there are {} columns instead of 7", parts.len()).into());
        };
        let value = |what, field: &[u8]| number(field).ok_or_else(|| no(what, field));
        let start_ns = value("time", time)?.checked_sub(UNIX_IN_FILETIME).and_then(|time| time.checked_mul(FILETIME_NS));
        let op = read_or_write(kind).ok_or_else(|| no("Read or Write", kind))?;
        let mut record = Record::new(op, start_ns.ok_or_else(|| no("time after 1970 in units of 100 ns since 1601", time))?);
        record.duration_ns = value("response time", response)?.checked_mul(FILETIME_NS).ok_or_else(|| no("response time", response))?;
        record.layer = Layer::Block;
        record.offset = value("offset", offset)?;
        moved(&mut record, value("size", size)?)?;
        record.file = state.tables.names.file(&[host.as_ref(), b"/disk", disk].concat())?;
        let host = String::from_utf8_lossy(host).into_owned();
        record.process = state.tables.names.process(Process { host, ..Process::default() })?;
        state.tables.about.clock = Clock::Unix;
        state.ready.push_back(record);
        Ok(())
    }
}

/// Understands `ASU,LBA,Size,Opcode,Timestamp`: sectors of 512 bytes, bytes, seconds; more columns are passed over.
#[derive(Debug, Default)]
pub struct Spc;

/// Reads traces of the Storage Performance Council, as UMass keeps them.
pub type SpcReader<R> = TextReader<R, Spc>;

impl<R: BufRead> SpcReader<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> SpcReader<R> {
        TextReader::with(input, Spc)
    }
}

impl Parser for Spc {
    const FORMAT: Format = Format::Spc;

    fn line(&mut self, line: &[u8], state: &mut State) -> Result<(), Problem> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let parts = parts(line)?;
        let [unit, sector, size, kind, time, ..] = &parts[..] else {
            return Err(format!("there are {} columns instead of 5", parts.len()).into());
        };
        let value = |what, field: &[u8]| number(field).ok_or_else(|| no(what, field));
        let op = read_or_write(kind).ok_or_else(|| no("r or w", kind))?;
        let mut record = Record::new(op, seconds(time).ok_or_else(|| no("time in seconds", time))?);
        (record.layer, record.flags) = (Layer::Block, Flags::NO_DURATION | Flags::NO_RESULT);
        record.offset = value("block address", sector)?.checked_mul(SECTOR_BYTES).ok_or_else(|| no("block address", sector))?;
        moved(&mut record, value("size", size)?)?;
        record.file = state.tables.names.file(format!("asu{}", value("storage unit", unit)?).as_bytes())?;
        state.ready.push_back(record);
        Ok(())
    }
}

/// Where Recorder's columns are.
#[derive(Clone, Copy, Debug)]
struct Columns {
    file: usize,
    rank: usize,
    function: usize,
    offset: usize,
    size: usize,
    start: usize,
    end: usize,
}

impl Columns {
    fn find(header: &[Cow<'_, [u8]>]) -> Option<Columns> {
        let place = |names: &[&[u8]]| header.iter().position(|column| names.contains(&column.to_ascii_lowercase().as_slice()));
        Some(Columns {
            file: place(&[b"file", b"file_id", b"filename", b"path"])?,
            rank: place(&[b"rank"])?,
            function: place(&[b"function", b"func"])?,
            offset: place(&[b"offset"])?,
            size: place(&[b"size", b"count"])?,
            start: place(&[b"start", b"tstart"])?,
            end: place(&[b"end", b"tend"])?,
        })
    }
}

/// Understands a table of intervals with a header that names its columns: file, rank, function, offset, size, start and end in seconds.
#[derive(Debug, Default)]
pub struct Recorder {
    columns: Option<Columns>,
}

/// Reads what Recorder's utilities make of its traces.
pub type RecorderReader<R> = TextReader<R, Recorder>;

impl<R: BufRead> RecorderReader<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> RecorderReader<R> {
        TextReader::with(input, Recorder::default())
    }
}

/// Whether a line is such a header.
pub(super) fn is_recorder_header(line: &[u8]) -> bool {
    csv(line).is_some_and(|header| Columns::find(&header).is_some())
}

impl Parser for Recorder {
    const FORMAT: Format = Format::Recorder;

    fn line(&mut self, line: &[u8], state: &mut State) -> Result<(), Problem> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let parts = parts(line)?;
        let Some(columns) = self.columns else {
            let found = Columns::find(&parts);
            self.columns = Some(found.ok_or("the header does not name the columns file, rank, function, offset, size, start and end")?);
            return Ok(());
        };
        let field = |place: usize| parts.get(place).map(Cow::as_ref).ok_or_else(|| Problem::from("the line is shorter than its header"));
        let function = field(columns.function)?.to_ascii_lowercase();
        let has = |word: &[u8]| function.windows(word.len()).any(|window| window == word);
        let op = if has(b"write") || has(b"fprintf") {
            Op::Write
        } else if has(b"read") {
            Op::Read
        } else {
            return Err(no("function that reads or writes", &function));
        };
        let time = |place| field(place).and_then(|text| seconds(text).ok_or_else(|| no("time in seconds", text)));
        let (start_ns, end_ns) = (time(columns.start)?, time(columns.end)?);
        let mut record = Record::new(op, start_ns);
        record.duration_ns = end_ns.saturating_sub(start_ns);
        record.layer = match function.first() {
            Some(b'm') if function.starts_with(b"mpi") => Layer::MpiIo,
            Some(b'f') => Layer::Stdio,
            Some(b'h') => Layer::Library,
            _ => Layer::File,
        };
        record.flags = if has(b"_all") { Flags::COLLECTIVE | Flags::NO_RESULT } else { Flags::NO_RESULT };
        let size = field(columns.size)?;
        moved(&mut record, number(size).ok_or_else(|| no("size", size))?)?;
        match field(columns.offset)? {
            b"-1" => record.flags |= Flags::NO_OFFSET,
            offset => record.offset = number(offset).ok_or_else(|| no("offset", offset))?,
        }
        let rank = field(columns.rank)?;
        let rank = number(rank).and_then(|rank| u32::try_from(rank).ok()).ok_or_else(|| no("rank", rank))?;
        record.file = state.tables.names.file(field(columns.file)?)?;
        record.process = state.tables.names.process(Process { rank: Some(rank), ..Process::default() })?;
        state.ready.push_back(record);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::testing::all;
    use super::*;

    #[test]
    fn msr_is_read() {
        let text = "128166372003061629,hm,1,Read,383496192,32768,113736\n128166372016382155,hm,1,Write,2822144,4096,23736\n";
        let source = all(MsrReader::new(text.as_bytes())).unwrap();
        let [read, write] = [source.records()[0], source.records()[1]];
        assert_eq!((read.op, read.offset, read.size, read.duration_ns), (Op::Read, 383_496_192, 32768, 11_373_600));
        assert_eq!(read.start_ns, 1_172_163_600_306_162_900);
        assert_eq!((write.op, source.tables.names.path(write.file)), (Op::Write, &b"hm/disk1"[..]));
    }

    #[test]
    fn spc_is_read() {
        let source = all(SpcReader::new(&b"0,303567,3584,w,0.000000\n1,55590,3072,R,0.026214\n"[..])).unwrap();
        let [write, read] = [source.records()[0], source.records()[1]];
        assert_eq!((write.op, write.offset, write.size), (Op::Write, 303_567 * 512, 3584));
        assert_eq!((read.op, read.start_ns, source.tables.names.path(read.file)), (Op::Read, 26_214_000, &b"asu1"[..]));
    }

    #[test]
    fn recorder_is_read() {
        let text = ",file_id,rank,function,offset,size,start,end\n0,\"/a,b\",3,MPI_File_write_at_all,10,20,0.5,0.75\n1,/c,0,fread,-1,5,1e-05,0.1\n";
        let source = all(RecorderReader::new(text.as_bytes())).unwrap();
        let [write, read] = [source.records()[0], source.records()[1]];
        assert_eq!(
            (write.layer, write.offset, write.duration_ns, source.tables.names.path(write.file)),
            (Layer::MpiIo, 10, 250_000_000, &b"/a,b"[..])
        );
        assert!(write.flags.has(Flags::COLLECTIVE) && read.flags.has(Flags::NO_OFFSET));
        assert_eq!((read.layer, read.start_ns), (Layer::Stdio, 10_000));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let errors = [
            all(MsrReader::new(&b"128166372003061629,hm,1,Read,383496192,32768,113736\n5,hm,1,Read,0,1,1\n"[..])).unwrap_err(),
            all(SpcReader::new(&b"0,303567,3584,w,0.000000\n0,1,2,q,0\n"[..])).unwrap_err(),
            all(RecorderReader::new(&b"file,rank,function,offset,size,start,end\n/a,0,close,0,0,0,0\n"[..])).unwrap_err(),
        ];
        assert!(errors.iter().all(|error| error.to_string().contains("line 2")), "{errors:?}");
    }
}
