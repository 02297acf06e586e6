//! Logs of Darshan, as its runtime writes them: the modules DXT_POSIX and DXT_MPIIO, which hold each read and write, and HEATMAP, which
//! holds sums over intervals for when those were not recorded.
//!
//! Log versions 3.00, 3.10, 3.20, 3.21 and 3.41 (there are no others), compressed by zlib, bzip2 or not at all, in both byte orders.

mod log;
mod modules;
mod region;

use std::collections::HashMap;
use std::io::{Read, Seek};

use crate::error::Error;
use crate::format::Format;
use crate::record::{Layer, Record};
use crate::source::{About, Clock, Gap, GapReason, Source, Tables};

use log::{Log, Module};
use modules::Records;

/// Reads a log. The records come module by module and file by file, not by time.
pub struct Reader<R: Read + Seek> {
    log: Log<R>,
    paths: HashMap<u64, Vec<u8>>,
    tables: Tables,
    /// Modules that are still to be read, the next one last.
    waiting: Vec<Module>,
    current: Option<Records>,
}

impl<R: Read + Seek> Reader<R> {
    /// Reads the header, the job and the names.
    ///
    /// # Errors
    /// If it is no log, of another version, damaged, or without any of the modules that tell of single operations or intervals.
    pub fn new(input: R) -> Result<Reader<R>, Error> {
        let mut log = Log::open(input)?;
        let present: Vec<Module> = Module::ALL.into_iter().filter(|module| log.has(*module)).collect();
        if present.is_empty() {
            return Err(Error::Unsupported(
                "this log of Darshan holds counters only; operations are recorded if the program runs with DXT_ENABLE_IO_TRACE=1 \
                 (or, from Darshan 3.4 on, sums over intervals by themselves)"
                    .into(),
            ));
        }
        let job = log.job()?;
        let paths = log.paths()?;
        let mut about = About { clock: Clock::Unix, facts: Vec::new() }.with("source", Format::Darshan.name());
        let modules: Vec<&str> = present.iter().map(|module| module.name()).collect();
        about = about.with("darshan-version", log.version()).with("darshan-modules", modules.join(","));
        about = about.with("processes", job.processes.to_string()).with("job", job.id.to_string());
        if !job.command.is_empty() {
            about = about.with("command", job.command.clone());
        }
        let gaps = present.iter().filter(|module| log.is_partial(**module)).map(|module| truncated(*module)).collect();
        let waiting = present.into_iter().rev().collect();
        log.epoch_ns = job.start_ns;
        Ok(Reader { log, paths, tables: Tables { gaps, ..Tables::of(about) }, waiting, current: None })
    }
}

/// Whether eight bytes are the magic number that stands behind the version, in either byte order.
pub(super) fn is_magic(bytes: &[u8]) -> bool {
    bytes == log::MAGIC.to_le_bytes() || bytes == log::MAGIC.to_be_bytes()
}

/// What is missing from a module that ran out of memory.
fn truncated(module: Module) -> Gap {
    let note =
        format!("{}: Darshan ran into its limit of memory or records; later operations of some files are not in the log", module.name());
    Gap::new(GapReason::Truncated, note)
}

/// The layer that a heatmap tells of.
fn heatmap_layer(path: &[u8]) -> Option<Layer> {
    match path {
        b"heatmap:POSIX" => Some(Layer::File),
        b"heatmap:STDIO" => Some(Layer::Stdio),
        b"heatmap:MPIIO" => Some(Layer::MpiIo),
        _ => None,
    }
}

impl<R: Read + Seek> Source for Reader<R> {
    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        loop {
            if let Some(records) = &mut self.current {
                let context = modules::Context { paths: &self.paths, names: &mut self.tables.names, epoch_ns: self.log.epoch_ns };
                if let Some(record) = records.next(context)? {
                    return Ok(Some(record));
                }
            }
            let Some(module) = self.waiting.pop() else {
                self.current = None;
                return Ok(None);
            };
            // What is recorded operation by operation must not be counted again from the sums.
            let traced = (self.log.has(Module::DxtPosix), self.log.has(Module::DxtMpiIo));
            self.current = Some(Records::new(self.log.module(module)?, module, self.log.module_version(module), traced));
        }
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }
}
