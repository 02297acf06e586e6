//! The records of a trace, as columns.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use forebay_trace::{Flags, Layer, Op, Record, Source, Tables};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::{AnySource, failed, open};

/// Gives the records of a trace in batches. (The lock is for Python's sake: what it holds must be able to pass between threads.)
#[pyclass(module = "forebay._forebay")]
pub struct Reader {
    path: PathBuf,
    source: Mutex<AnySource>,
}

/// Columns that grow record by record.
#[derive(Default)]
struct Columns {
    start_ns: Vec<u8>,
    duration_ns: Vec<u8>,
    op: Vec<u8>,
    layer: Vec<u8>,
    flags: Vec<u8>,
    process: Vec<u8>,
    file: Vec<u8>,
    other: Vec<u8>,
    offset: Vec<u8>,
    size: Vec<u8>,
    result: Vec<u8>,
}

impl Columns {
    fn push(&mut self, record: &Record) {
        self.start_ns.extend(record.start_ns.to_ne_bytes());
        self.duration_ns.extend(record.duration_ns.to_ne_bytes());
        self.op.push(record.op as u8);
        self.layer.push(record.layer as u8);
        self.flags.extend(record.flags.0.to_ne_bytes());
        self.process.extend(record.process.0.to_ne_bytes());
        self.file.extend(record.file.0.to_ne_bytes());
        self.other.extend(record.other.0.to_ne_bytes());
        self.offset.extend(record.offset.to_ne_bytes());
        self.size.extend(record.size.to_ne_bytes());
        self.result.extend(record.result.to_ne_bytes());
    }

    fn named(&self) -> [(&'static str, &[u8]); 11] {
        [
            ("start_ns", &self.start_ns),
            ("duration_ns", &self.duration_ns),
            ("op", &self.op),
            ("layer", &self.layer),
            ("flags", &self.flags),
            ("process", &self.process),
            ("file", &self.file),
            ("other", &self.other),
            ("offset", &self.offset),
            ("size", &self.size),
            ("result", &self.result),
        ]
    }
}

impl Reader {
    fn tables(&mut self) -> &Tables {
        self.source.get_mut().unwrap_or_else(PoisonError::into_inner).tables()
    }
}

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (path, format=None))]
    fn new(path: PathBuf, format: Option<&str>) -> PyResult<Reader> {
        let source = open(&path, format)?;
        Ok(Reader { path, source: Mutex::new(source) })
    }

    /// The next so many records, as columns of bytes by name; None at the end.
    fn batch<'py>(&mut self, py: Python<'py>, records_max: usize) -> PyResult<Option<Bound<'py, PyDict>>> {
        let source = self.source.get_mut().unwrap_or_else(PoisonError::into_inner);
        let read = || {
            let mut columns = Columns::default();
            while columns.op.len() < records_max
                && let Some(record) = source.next_record()?
            {
                columns.push(&record);
            }
            Ok(columns)
        };
        let columns = py.detach(read).map_err(|error| failed(&self.path, &error))?;
        if columns.op.is_empty() {
            return Ok(None);
        }
        let dict = PyDict::new(py);
        for (name, bytes) in columns.named() {
            dict.set_item(name, PyBytes::new(py, bytes))?;
        }
        Ok(Some(dict))
    }

    /// The paths of the files, by their numbers, as far as was read.
    fn files(&mut self) -> Vec<String> {
        self.tables().names.shown_files()
    }

    /// What is known of the trace as a whole, as far as was read.
    fn facts(&mut self) -> Vec<(String, String)> {
        self.tables().about.facts.clone()
    }

    /// What is known to be missing, in words, as far as was read.
    fn gaps(&mut self) -> Vec<String> {
        self.tables().gaps.iter().map(|gap| format!("{}: {}", gap.reason, gap.note)).collect()
    }

    /// The names of the operations, by their numbers.
    #[staticmethod]
    fn operations() -> Vec<&'static str> {
        Op::ALL.iter().map(|op| op.name()).collect()
    }

    /// The names of the layers, by their numbers.
    #[staticmethod]
    fn layers() -> Vec<&'static str> {
        Layer::ALL.iter().map(|layer| layer.name()).collect()
    }

    /// The names of the bits of flags, the lowest first.
    #[staticmethod]
    fn flags() -> Vec<&'static str> {
        Flags::NAMES.to_vec()
    }
}
