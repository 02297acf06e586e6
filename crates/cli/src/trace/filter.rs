//! `forebay trace filter`: some operations of a trace.

use forebay_trace::fbt::Selection;
use forebay_trace::{Error, FileId, Flags, Names, ProcessId, Record, Source, Tables};

use super::args::Wanted;
use crate::paths::matches;

/// Whether each name fits, found out once.
#[derive(Default)]
struct Known {
    fits: Vec<bool>,
}

impl Known {
    fn get(&mut self, number: u32, mut fits: impl FnMut(u32) -> bool) -> bool {
        while self.fits.len() <= number as usize {
            let next = self.fits.len() as u32;
            self.fits.push(fits(next));
        }
        self.fits[number as usize]
    }
}

/// A source that gives only what is wanted.
pub(super) struct Filtered<S> {
    source: S,
    wanted: Wanted,
    files: Known,
    processes: Known,
    /// The start of the first record of the whole trace.
    begin_ns: Option<u64>,
}

/// Whether a path fits one of the patterns; those without a / concern the name alone.
fn fits_path(patterns: &[String], path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    patterns.iter().any(|pattern| matches(pattern.as_bytes(), if pattern.contains('/') { path } else { name }))
}

/// What an index can use of the wishes, for a trace that begins at `begin_ns`.
pub(super) fn selection(wanted: &Wanted, begin_ns: u64, names: &Names) -> Selection {
    let files = (!wanted.file.is_empty()).then(|| {
        let fitting = names.files().enumerate().filter(|(_, path)| fits_path(&wanted.file, path));
        fitting.map(|(number, _)| FileId(number as u32)).collect()
    });
    let until_ns = wanted.until.map_or(u64::MAX, |until| begin_ns.saturating_add(until));
    Selection { from_ns: begin_ns.saturating_add(wanted.from.unwrap_or(0)), until_ns, files }
}

impl<S: Source> Filtered<S> {
    /// `begin_ns`: when the trace begins, if that is known beforehand.
    pub(super) fn new(source: S, wanted: Wanted, begin_ns: Option<u64>) -> Filtered<S> {
        Filtered { source, wanted, files: Known::default(), processes: Known::default(), begin_ns }
    }

    fn wants(&mut self, record: &Record) -> bool {
        let wanted = &self.wanted;
        let begin_ns = *self.begin_ns.get_or_insert(record.start_ns);
        let since_ns = record.start_ns.saturating_sub(begin_ns);
        let among = |list: &[u64], value| list.is_empty() || list.contains(&value);
        let plain = (wanted.op.is_empty() || wanted.op.contains(&record.op))
            && (wanted.layer.is_empty() || wanted.layer.contains(&record.layer))
            && wanted.from.is_none_or(|from| since_ns >= from)
            && wanted.until.is_none_or(|until| since_ns < until)
            && wanted.min_size.is_none_or(|size| record.size >= size)
            && wanted.max_size.is_none_or(|size| record.size <= size)
            && (!wanted.failed || record.result < 0 && !record.flags.has(Flags::NO_RESULT));
        if !plain {
            return false;
        }
        let names = self.source.names();
        if !wanted.file.is_empty() {
            let known = |file: FileId, files: &mut Known| {
                file != FileId::NONE && files.get(file.0, |number| fits_path(&wanted.file, names.path(FileId(number))))
            };
            if !known(record.file, &mut self.files) && !known(record.other, &mut self.files) {
                return false;
            }
        }
        if wanted.process.is_empty() && wanted.rank.is_empty() && wanted.host.is_empty() {
            return true;
        }
        let of_process = |number| {
            names.who(ProcessId(number)).is_some_and(|process| {
                among(&wanted.process, process.pid)
                    && (wanted.rank.is_empty() || process.rank.is_some_and(|rank| wanted.rank.contains(&rank)))
                    && (wanted.host.is_empty() || wanted.host.contains(&process.host))
            })
        };
        record.process != ProcessId::NONE && self.processes.get(record.process.0, of_process)
    }
}

impl<S: Source> Source for Filtered<S> {
    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        while let Some(record) = self.source.next_record()? {
            if self.wants(&record) {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    fn tables(&self) -> &Tables {
        self.source.tables()
    }
}
