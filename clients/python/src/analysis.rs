//! What one pass over a trace finds out.

use std::path::PathBuf;

use forebay_core::config::ReplacementKind;
use forebay_trace::statistics::{self, Options};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::{checked_chunk, read_sorted};

/// Reuse distances and miss ratios of a trace.
#[pyclass(module = "forebay._forebay", frozen)]
pub struct Analysis {
    found: statistics::Analysis,
}

#[pymethods]
impl Analysis {
    #[new]
    #[pyo3(signature = (path, chunk_bytes, format=None, seed=1))]
    fn new(py: Python<'_>, path: PathBuf, chunk_bytes: u32, format: Option<&str>, seed: u64) -> PyResult<Analysis> {
        let mut found = statistics::Analysis::new(Options { chunk_bytes: checked_chunk(chunk_bytes)?, seed, ..Options::default() });
        read_sorted(py, &path, format, |record| found.add(record))?;
        Ok(Analysis { found })
    }

    /// Different chunks.
    #[getter]
    fn chunks(&self) -> u64 {
        self.found.chunks()
    }

    /// The share of chunks that the curves of policies other than LRU rest on: 1 if they are exact.
    #[getter]
    fn kept_share(&self) -> f64 {
        self.found.kept_share()
    }

    /// R_buf: the share of requests that touch what was touched before.
    #[getter]
    fn locality(&self) -> f64 {
        self.found.locality.ratio()
    }

    /// The miss ratios of a policy with buffers of these many bytes.
    fn miss_ratios(&self, py: Python<'_>, policy: &str, capacities_bytes: Vec<u64>) -> PyResult<Vec<f64>> {
        let known = ReplacementKind::NAMED;
        let names = || known.map(|(name, _)| name).join(", ");
        let (_, kind) = known
            .into_iter()
            .find(|(name, _)| *name == policy)
            .ok_or_else(|| PyValueError::new_err(format!("there is no policy {policy:?}; there are {}", names())))?;
        let chunk_bytes = u64::from(self.found.options().chunk_bytes);
        let capacities: Vec<u64> = capacities_bytes.iter().map(|bytes| bytes / chunk_bytes).collect();
        Ok(py.detach(|| self.found.miss_ratios(kind, &capacities)))
    }

    /// How often each reuse distance, in chunks, was seen, of reads and of writes, and the uses that were the first of their chunk. None if
    /// there were too many chunks: then the curves rest on a sample.
    fn reuse_distances(&self) -> Option<[(Vec<f64>, f64); 2]> {
        let reuse = self.found.reuse.as_ref()?;
        Some([&reuse.reads, &reuse.writes].map(|histogram| (histogram.counts.clone(), histogram.first_uses)))
    }
}
