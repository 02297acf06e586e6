//! Opening traces, sorting what is not sorted, and saying what is missing from them.

use std::fs::File;
use std::path::{Path, PathBuf};

use forebay_trace::correct::{Corrected, Overhead};
use forebay_trace::fbt::SeekReader;
use forebay_trace::merge::Merge;
use forebay_trace::sort::{RUN_RECORDS, Sorted};
use forebay_trace::{Format, Source, import};

use super::args::{CorrectArgs, ReadArgs};
use crate::console::Console;
use crate::error::{Error, Exit};

/// Gaps beyond these are counted, not told.
const GAPS_TOLD_MAX: usize = 5;

/// Any source of records.
pub(super) type AnySource = Box<dyn Source + Send>;

/// An error of a trace, with its name and an exit status: what is wrong with its content, or what the system refused.
pub(super) fn failed(path: &Path) -> impl Fn(forebay_trace::Error) -> Error {
    let shown = if path == Path::new("-") { "standard input or output".to_owned() } else { path.display().to_string() };
    move |error| match error {
        forebay_trace::Error::Read(error) => Error::Io { action: format!("read {shown}"), error },
        forebay_trace::Error::Write(error) => Error::Io { action: format!("write {shown}"), error },
        forebay_trace::Error::Unsupported(message) => Error::Coded { message: format!("{shown}: {message}"), exit: Exit::Data },
        other => Error::Data(format!("{shown}: {other}")),
    }
}

fn open_file(path: &Path) -> Result<File, Error> {
    File::open(path).map_err(|error| {
        let missing = error.kind() == std::io::ErrorKind::NotFound;
        let message = format!("cannot open the trace {}: {error}", path.display());
        Error::Coded { message, exit: if missing { Exit::Usage } else { Exit::Internal } }
    })
}

/// Opens a trace, whatever its format.
pub(super) fn open(path: &Path, read: &ReadArgs) -> Result<(Format, AnySource), Error> {
    let input: import::Input = if path == Path::new("-") { Box::new(std::io::stdin()) } else { Box::new(open_file(path)?) };
    import::open(input, read.format).map_err(failed(path))
}

/// A trace of ours that can be sought; none if it is another format or a pipe.
pub(super) fn open_indexed(path: &Path, read: &ReadArgs) -> Result<Option<SeekReader<File>>, Error> {
    if path == Path::new("-") {
        return Ok(None);
    }
    SeekReader::of_file(open_file(path)?, read.format).map_err(failed(path))
}

/// The records of a trace by time; `folder` takes what does not fit into memory.
pub(super) fn sorted(path: &Path, read: &ReadArgs, correct: &CorrectArgs, folder: &Path, share: usize) -> Result<AnySource, Error> {
    let is_sorted = open_indexed(path, read)?.is_some_and(|reader| reader.sorted() == Some(true));
    let (_, mut source) = open(path, read)?;
    if !is_sorted {
        let run_records = (RUN_RECORDS / share.max(1)).max(1 << 16);
        source = Box::new(Sorted::new(&mut source, run_records, folder).map_err(failed(path))?);
    }
    if correct.overhead.is_empty() {
        return Ok(source);
    }
    let mut overhead = Overhead::new(correct.overhead.iter().copied()).map_err(|error| Error::usage(format!("--overhead: {error}")))?;
    overhead.previous = correct.overhead_previous;
    Ok(Box::new(Corrected::new(source, overhead)))
}

/// Several traces as one; processes without a machine get the name of their trace as one, so that equal numbers stay apart.
pub(super) fn merged(paths: &[PathBuf], read: &ReadArgs, correct: &CorrectArgs, folder: &Path) -> Result<AnySource, Error> {
    if let [path] = paths {
        return sorted(path, read, correct, folder, 1);
    }
    let label = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let sources = paths.iter().map(|path| Ok((sorted(path, read, correct, folder, paths.len())?, label(path))));
    let sources = sources.collect::<Result<Vec<_>, Error>>()?;
    let merge = Merge::new(sources).map_err(|error| match error {
        forebay_trace::Error::Unsupported(message) => Error::Coded { message, exit: Exit::Data },
        other => failed(Path::new("the traces to merge"))(other),
    })?;
    Ok(Box::new(merge))
}

/// Says what is known to be missing.
pub(super) fn tell_gaps(source: &(impl Source + ?Sized), console: Console) {
    let gaps = source.gaps();
    for gap in gaps.iter().take(GAPS_TOLD_MAX) {
        let count = if gap.count > 0 { format!("{} operations, ", gap.count) } else { String::new() };
        console.warn(&format!("the trace is not complete ({count}{}): {}", gap.reason, gap.note));
    }
    if gaps.len() > GAPS_TOLD_MAX {
        console.warn(&format!("and {} more gaps; `forebay trace info` counts them", gaps.len() - GAPS_TOLD_MAX));
    }
}
