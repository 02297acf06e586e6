//! The frame of a log: header, job, names, and where each module's region is.

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};

use super::region::{Compression, Region, u32_at, u64_at};
use crate::error::Error;
use crate::format::Format;
use crate::names::{NAME_BYTES_MAX, NAMES_BYTES_MAX};
use crate::text::SECOND_NS;

pub(super) const MAGIC: u64 = 6_567_223;
/// The job record with the command line and the mounts, decompressed, bytes; it is written with 4096.
const JOB_BYTES_MAX: u64 = 1 << 20;
const METADATA_BYTES: usize = 1024;

/// A module that tells of single operations, or of intervals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Module {
    DxtPosix,
    DxtMpiIo,
    Heatmap,
}

impl Module {
    pub(super) const ALL: [Module; 3] = [Module::DxtPosix, Module::DxtMpiIo, Module::Heatmap];

    pub(super) fn name(self) -> &'static str {
        match self {
            Module::DxtPosix => "DXT_POSIX",
            Module::DxtMpiIo => "DXT_MPIIO",
            Module::Heatmap => "HEATMAP",
        }
    }

    /// The versions of its records that are known.
    fn versions(self) -> std::ops::RangeInclusive<u32> {
        match self {
            Module::DxtMpiIo => 1..=2,
            Module::DxtPosix | Module::Heatmap => 1..=1,
        }
    }
}

/// What differs between the versions of the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Layout {
    modules: usize,
    /// The places of the three modules among them; later versions put modules in between.
    places: [Option<usize>; 3],
    /// Where the flags of partial modules, the place of the names, and so on the table of modules begin.
    partial_at: usize,
    names_at: usize,
    /// Names have their length in front, instead of a zero behind.
    counted_names: bool,
    /// The job's times have nanoseconds.
    precise_times: bool,
}

impl Layout {
    fn of(version: &str) -> Option<Layout> {
        let old = Layout {
            modules: 16,
            places: [Some(8), Some(9), None],
            partial_at: 20,
            names_at: 24,
            counted_names: false,
            precise_times: false,
        };
        match version {
            "3.00" => Some(Layout { counted_names: true, ..old }),
            "3.10" => Some(old),
            "3.20" | "3.21" => Some(Layout { places: [Some(9), Some(10), Some(14)], ..old }),
            "3.41" => Some(Layout {
                modules: 64,
                places: [Some(10), Some(11), Some(15)],
                partial_at: 24,
                names_at: 32,
                counted_names: false,
                precise_times: true,
            }),
            _ => None,
        }
    }

    fn table_at(&self) -> usize {
        self.names_at + 16
    }

    fn versions_at(&self) -> usize {
        self.table_at() + 16 * self.modules
    }

    fn header_bytes(&self) -> usize {
        // The whole is aligned to eight bytes.
        (self.versions_at() + 4 * self.modules).next_multiple_of(8)
    }
}

/// The job that was traced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Job {
    /// Since 1970, nanoseconds.
    pub(super) start_ns: u64,
    pub(super) processes: i64,
    pub(super) id: i64,
    pub(super) command: String,
}

/// An open log.
pub(super) struct Log<R> {
    input: R,
    version: String,
    layout: Layout,
    header: Vec<u8>,
    big_endian: bool,
    compression: Compression,
    /// When the job began, since 1970, nanoseconds; known after the job was read.
    pub(super) epoch_ns: u64,
}

fn wrong(at: usize, problem: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::at_byte(Format::Darshan, at as u64, problem)
}

impl<R: Read + Seek> Log<R> {
    pub(super) fn open(mut input: R) -> Result<Log<R>, Error> {
        input.seek(SeekFrom::Start(0)).map_err(Error::Read)?;
        let mut header = Vec::new();
        (&mut input).take(16).read_to_end(&mut header).map_err(Error::Read)?;
        if header.len() < 16 {
            return Err(wrong(header.len(), "the file ends within its header"));
        }
        let version: String = header[..8].iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect();
        let big_endian = match (u64_at(&header, 8, false), u64_at(&header, 8, true)) {
            (MAGIC, _) => false,
            (_, MAGIC) => true,
            _ => return Err(wrong(8, "the magic number is neither in this byte order nor in the other")),
        };
        let readable = "versions 3.00, 3.10, 3.20, 3.21 and 3.41";
        let Some(layout) = Layout::of(&version) else {
            return Err(Error::Version { format: Format::Darshan, version, readable });
        };
        (&mut input).take(layout.header_bytes() as u64 - 16).read_to_end(&mut header).map_err(Error::Read)?;
        if header.len() < layout.header_bytes() {
            return Err(wrong(header.len(), "the file ends within its header"));
        }
        let compression = match header[16] {
            0 => Compression::Zlib,
            1 => Compression::Bzip2,
            2 => Compression::None,
            _ => return Err(wrong(16, "the kind of compression is not known")),
        };
        let log = Log { input, version, layout, header, big_endian, compression, epoch_ns: 0 };
        log.check_modules()?;
        Ok(log)
    }

    fn check_modules(&self) -> Result<(), Error> {
        for module in Module::ALL {
            let version = self.module_version(module);
            if self.has(module) && !module.versions().contains(&version) {
                let at = self.layout.versions_at() + 4 * self.place(module).unwrap_or(0);
                return Err(wrong(at, format!("records of {} have version {version}, which is not known", module.name())));
            }
        }
        Ok(())
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    fn place(&self, module: Module) -> Option<usize> {
        self.layout.places[module as usize]
    }

    fn map(&self, at: usize) -> (u64, u64) {
        (u64_at(&self.header, at, self.big_endian), u64_at(&self.header, at + 8, self.big_endian))
    }

    pub(super) fn has(&self, module: Module) -> bool {
        self.place(module).is_some_and(|place| self.map(self.layout.table_at() + 16 * place).1 > 0)
    }

    pub(super) fn module_version(&self, module: Module) -> u32 {
        self.place(module).map_or(0, |place| u32_at(&self.header, self.layout.versions_at() + 4 * place, self.big_endian))
    }

    /// Whether the module says of itself that it could not record everything.
    pub(super) fn is_partial(&self, module: Module) -> bool {
        let flags = if self.layout.modules > 32 {
            u64_at(&self.header, self.layout.partial_at, self.big_endian)
        } else {
            u64::from(u32_at(&self.header, self.layout.partial_at, self.big_endian))
        };
        self.place(module).is_some_and(|place| flags >> place & 1 == 1)
    }

    fn region(&mut self, (offset, length): (u64, u64), what: &'static str) -> Result<Region, Error> {
        self.input.seek(SeekFrom::Start(offset)).map_err(|_| wrong(0, format!("the place of {what} lies outside of any file")))?;
        let mut stored = Vec::new();
        (&mut self.input).take(length).read_to_end(&mut stored).map_err(Error::Read)?;
        if (stored.len() as u64) < length {
            let problem = format!("the file is cut off within {what}: {} of {length} bytes are there", stored.len());
            return Err(Error::at_byte(Format::Darshan, offset, problem));
        }
        Ok(Region::new(stored, self.compression, what, offset, self.big_endian))
    }

    pub(super) fn module(&mut self, module: Module) -> Result<Region, Error> {
        let place = self.place(module).unwrap_or(0);
        self.region(self.map(self.layout.table_at() + 16 * place), module.name())
    }

    /// The job's record stands between the header and whatever comes next.
    pub(super) fn job(&mut self) -> Result<Job, Error> {
        let start = self.layout.header_bytes() as u64;
        let maps = std::iter::once(self.layout.names_at).chain((0..self.layout.modules).map(|place| self.layout.table_at() + 16 * place));
        let end = maps.map(|at| self.map(at)).filter(|(_, length)| *length > 0).map(|(offset, _)| offset).min();
        let length =
            end.and_then(|end| end.checked_sub(start)).ok_or_else(|| wrong(self.layout.names_at, "a region lies within the header"))?;
        let mut region = self.region((start, length), "the job record")?;
        let bytes = region.all(JOB_BYTES_MAX)?;
        let fields = if self.layout.precise_times { 7 } else { 5 };
        if bytes.len() < 8 * fields + METADATA_BYTES {
            return Err(region.wrong("the job record is too short"));
        }
        let field = |number: usize| u64_at(&bytes, 8 * number, self.big_endian) as i64;
        let (seconds, nanoseconds) = if self.layout.precise_times { (field(1), field(2)) } else { (field(1), 0) };
        let start_ns = u64::try_from(seconds).ok().and_then(|seconds| seconds.checked_mul(SECOND_NS));
        let start_ns = start_ns.and_then(|start| start.checked_add(u64::try_from(nanoseconds).ok()?));
        let command =
            bytes[8 * fields + METADATA_BYTES..].iter().copied().take_while(|byte| !matches!(byte, 0 | b'\n')).collect::<Vec<u8>>();
        Ok(Job {
            start_ns: start_ns.ok_or_else(|| region.wrong("the job began before 1970 or after 2554"))?,
            processes: field(fields - 2),
            id: field(fields - 1),
            command: String::from_utf8_lossy(&command).into_owned(),
        })
    }

    /// The paths of files, by the numbers that records use.
    pub(super) fn paths(&mut self) -> Result<HashMap<u64, Vec<u8>>, Error> {
        let map = self.map(self.layout.names_at);
        if map.1 == 0 {
            return Ok(HashMap::new());
        }
        let mut region = self.region(map, "the names")?;
        let bytes = region.all(NAMES_BYTES_MAX)?;
        let mut paths = HashMap::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (id, path, behind) = self.name(rest).ok_or_else(|| region.wrong("a name is not whole, or too long"))?;
            paths.entry(id).or_insert_with(|| path.to_vec());
            rest = behind;
        }
        Ok(paths)
    }

    /// The name at the begin of `bytes`, and what is behind it.
    fn name<'a>(&self, bytes: &'a [u8]) -> Option<(u64, &'a [u8], &'a [u8])> {
        let (head, rest) = bytes.split_at_checked(8)?;
        let id = u64_at(head, 0, self.big_endian);
        let (path, rest) = if self.layout.counted_names {
            let (length, rest) = rest.split_at_checked(4)?;
            rest.split_at_checked(u32_at(length, 0, self.big_endian) as usize)?
        } else {
            let end = rest.iter().position(|byte| *byte == 0)?;
            (&rest[..end], &rest[end + 1..])
        };
        (path.len() <= NAME_BYTES_MAX).then_some((id, path, rest))
    }
}
