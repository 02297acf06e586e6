//! Simulations of one trace.

use std::path::PathBuf;

use forebay_core::config::WriteBack;
use forebay_sim::buffer::{
    BufferConfig, Counting, Formula, Granularity, Infeasible, Outcome, Policy, Rates, Workload, WorkloadBuilder, simulate,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::{checked_chunk, read_sorted};

/// A trace in memory, ready for any number of simulations.
#[pyclass(module = "forebay._forebay", frozen)]
pub struct Study {
    workload: Workload,
}

/// Capacity in bytes, policy, granularity, write-back, counting, nodes.
type Asked = (u64, String, String, String, String, u32);
/// The five counters in bytes; miss ratio; chunks written in the background, evicted, and dirty at the end, in bytes; throughput at most,
/// with this buffer, by the printed formula and with what is read again; why there is nothing of all that.
type Found = ([f64; 5], f64, [f64; 3], [f64; 4], Option<String>);

fn pick<T: Copy>(what: &str, name: &str, known: &[(&str, T)]) -> PyResult<T> {
    let names = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let found = known.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    found.ok_or_else(|| PyValueError::new_err(format!("there is no {what} {name:?}; there are {}", names())))
}

fn config((capacity_bytes, policy, granularity, write_back, counting, nodes): &Asked) -> PyResult<BufferConfig> {
    let granularities = [Granularity::Chunk, Granularity::File { dirty_only: false }, Granularity::File { dirty_only: true }];
    let countings = [Counting::Chunks, Counting::Bytes];
    if *nodes == 0 {
        return Err(PyValueError::new_err("there must be at least one node"));
    }
    Ok(BufferConfig {
        capacity_bytes: *capacity_bytes,
        policy: pick("policy", policy, &Policy::named())?,
        granularity: pick("granularity", granularity, &granularities.map(|one| (one.name(), one)))?,
        write_back: pick("way of writing back", write_back, &[("sync", WriteBack::Sync), ("async", WriteBack::Async)])?,
        counting: pick("way of counting", counting, &countings.map(|one| (one.name(), one)))?,
        nodes: *nodes,
    })
}

fn found(outcome: Result<Outcome, Infeasible>, chunk_bytes: u32) -> Found {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(why) => return ([f64::NAN; 5], f64::NAN, [f64::NAN; 3], [f64::NAN; 4], Some(why.to_string())),
    };
    let counters = &outcome.counters;
    let moved = [counters.background_chunks, counters.evicted_chunks, counters.dirty_chunks_left];
    let (paper, full) = (outcome.throughput(Formula::Paper), outcome.throughput(Formula::Full));
    let bytes = moved.map(|chunks| chunks as f64 * f64::from(chunk_bytes));
    (outcome.bytes, counters.miss_ratio(), bytes, [paper.max, paper.actual, full.max, full.actual], None)
}

#[pymethods]
impl Study {
    #[new]
    #[pyo3(signature = (path, chunk_bytes, format=None))]
    fn new(py: Python<'_>, path: PathBuf, chunk_bytes: u32, format: Option<&str>) -> PyResult<Study> {
        let mut builder = WorkloadBuilder::new(checked_chunk(chunk_bytes)?);
        let paths = read_sorted(py, &path, format, |record| builder.add(record))?;
        let workload = builder.finish(paths);
        if workload.references() == 0 {
            let message = format!("{} has no reads or writes at known places, so there is nothing to simulate", path.display());
            return Err(crate::TraceError::new_err(message));
        }
        Ok(Study { workload })
    }

    /// Bytes of the different chunks: a buffer of as many never swaps.
    #[getter]
    fn footprint_bytes(&self) -> u64 {
        self.workload.footprint_bytes()
    }

    /// Touches of chunks.
    #[getter]
    fn references(&self) -> u64 {
        self.workload.references()
    }

    /// Runs these simulations one after the other. `rate_table` is a table as `forebay sim --rate-table` takes it; without one, both
    /// levels have the same throughput for every size.
    #[pyo3(signature = (asked, home_bytes_per_s, buffer_bytes_per_s, rate_table=None))]
    fn simulate(
        &self,
        py: Python<'_>,
        asked: Vec<Asked>,
        home_bytes_per_s: f64,
        buffer_bytes_per_s: f64,
        rate_table: Option<&str>,
    ) -> PyResult<Vec<Found>> {
        if !(home_bytes_per_s > 0.0 && buffer_bytes_per_s > 0.0) {
            return Err(PyValueError::new_err("rates must be above 0"));
        }
        let rates = match rate_table {
            None => Rates::constant(home_bytes_per_s, buffer_bytes_per_s),
            Some(text) => Rates::parse(text).map_err(|error| PyValueError::new_err(error.to_string()))?,
        };
        let configs = asked.iter().map(config).collect::<PyResult<Vec<BufferConfig>>>()?;
        let chunk_bytes = self.workload.chunk_bytes();
        let run = || configs.iter().map(|config| found(simulate(&self.workload, config, &rates), chunk_bytes)).collect();
        Ok(py.detach(run))
    }
}
