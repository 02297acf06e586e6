//! What Python cannot do by itself: reading traces, analyses and simulations. Columns go over as bytes in the machine's own order, and
//! `forebay/__init__.py` makes arrays of them. Nothing here decides anything: it is all in `forebay-trace` and `forebay-sim`.

mod analysis;
mod reader;
mod study;

use std::fs::File;
use std::path::Path;

use forebay_trace::fbt::SeekReader;
use forebay_trace::sort::{RUN_RECORDS, Sorted};
use forebay_trace::{Format, Record, Source, import};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

/// The most chunks' bytes: sizes are powers of two, as everywhere in Forebay.
const CHUNK_BYTES_MIN: u32 = 512;

pyo3::create_exception!(_forebay, TraceError, PyValueError, "A trace that cannot be read; the message says where it is wrong.");

type AnySource = Box<dyn Source + Send>;

/// An error of a trace as Python's: what the system refused, or what is wrong with the content.
fn failed(path: &Path, error: &forebay_trace::Error) -> PyErr {
    let message = format!("{}: {error}", path.display());
    match error {
        forebay_trace::Error::Read(_) | forebay_trace::Error::Write(_) => PyOSError::new_err(message),
        _ => TraceError::new_err(message),
    }
}

/// Opens a trace in any format; `format` only if it cannot be told by the content.
fn open(path: &Path, format: Option<&str>) -> PyResult<AnySource> {
    let format = format_of(format)?;
    let (_, source) = import::open(Box::new(open_file(path)?), format).map_err(|error| failed(path, &error))?;
    Ok(source)
}

fn format_of(name: Option<&str>) -> PyResult<Option<Format>> {
    let find = |name| {
        let unknown = || PyValueError::new_err(format!("there is no format {name:?}; there are {}", Format::list()));
        Format::from_name(name).ok_or_else(unknown)
    };
    name.map(find).transpose()
}

/// Gives FileNotFoundError and the like, with the path.
fn open_file(path: &Path) -> PyResult<File> {
    File::open(path).map_err(|error| PyErr::from(std::io::Error::new(error.kind(), format!("{}: {error}", path.display()))))
}

/// Gives every record of a trace to `each`, by time; the paths of its files.
fn read_sorted(py: Python<'_>, path: &Path, format: Option<&str>, mut each: impl FnMut(&Record) + Send) -> PyResult<Vec<String>> {
    let (mut source, file) = (open(path, format)?, open_file(path)?);
    let format = format_of(format)?;
    let read = || {
        let is_sorted = SeekReader::of_file(file, format)?.is_some_and(|reader| reader.sorted() == Some(true));
        if !is_sorted {
            source = Box::new(Sorted::new(&mut source, RUN_RECORDS, &std::env::temp_dir())?);
        }
        while let Some(record) = source.next_record()? {
            each(&record);
        }
        Ok(source.names().shown_files())
    };
    // Other threads of Python go on meanwhile.
    py.detach(read).map_err(|error| failed(path, &error))
}

fn checked_chunk(chunk_bytes: u32) -> PyResult<u32> {
    if chunk_bytes.is_power_of_two() && chunk_bytes >= CHUNK_BYTES_MIN {
        return Ok(chunk_bytes);
    }
    Err(PyValueError::new_err(format!("chunk_bytes={chunk_bytes} is not a power of two of at least {CHUNK_BYTES_MIN}")))
}

#[pymodule]
mod _forebay {
    #[pymodule_export]
    use super::TraceError;
    #[pymodule_export]
    use super::analysis::Analysis;
    #[pymodule_export]
    use super::reader::Reader;
    #[pymodule_export]
    use super::study::Study;
}
