//! The results of simulations as rows.

use std::fmt::Write as _;

use forebay_sim::buffer::{BufferConfig, COUNTER_NAMES, Formula, Infeasible, Outcome, write_back_name};
use serde::{Deserialize, Serialize};

use crate::parquet::{self, Column, Values};

/// One simulation, as it is printed.
#[derive(Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) capacity_bytes: u64,
    pub(super) policy: String,
    pub(super) granularity: String,
    pub(super) write_back: String,
    pub(super) nodes: u32,
    /// Why there is no result.
    pub(super) infeasible: Option<String>,
    /// IS, RHS, RMS, WS, WBS.
    pub(super) bytes: [f64; 5],
    /// Their shares.
    pub(super) shares: [f64; 5],
    pub(super) miss_ratio: f64,
    pub(super) background_bytes: u64,
    pub(super) evicted_bytes: u64,
    pub(super) dirty_left_bytes: u64,
    /// By the formulas as printed: bytes a second of an unlimited buffer and of this one, and their ratio.
    pub(super) paper: [f64; 3],
    /// The same with RMS in the total.
    pub(super) full: [f64; 3],
}

impl Row {
    pub(super) fn new(config: &BufferConfig, chunk_bytes: u32, outcome: Result<Outcome, Infeasible>) -> Row {
        let mut row = Row {
            capacity_bytes: config.capacity_bytes,
            policy: config.policy.name().into(),
            granularity: config.granularity.name().into(),
            write_back: write_back_name(config.write_back).into(),
            nodes: config.nodes,
            infeasible: None,
            bytes: [0.0; 5],
            shares: [0.0; 5],
            miss_ratio: 0.0,
            background_bytes: 0,
            evicted_bytes: 0,
            dirty_left_bytes: 0,
            paper: [0.0; 3],
            full: [0.0; 3],
        };
        match outcome {
            Err(error) => row.infeasible = Some(error.to_string()),
            Ok(outcome) => {
                let bytes = |chunks: u64| chunks * u64::from(chunk_bytes);
                let throughput = |formula| {
                    let found = outcome.throughput(formula);
                    [found.max, found.actual, found.ratio()]
                };
                row.bytes = outcome.bytes;
                row.shares = outcome.shares();
                row.miss_ratio = outcome.counters.miss_ratio();
                row.background_bytes = bytes(outcome.counters.background_chunks);
                row.evicted_bytes = bytes(outcome.counters.evicted_chunks);
                row.dirty_left_bytes = bytes(outcome.counters.dirty_chunks_left);
                row.paper = throughput(Formula::Paper);
                row.full = throughput(Formula::Full);
            }
        }
        row
    }

    pub(super) fn csv_head() -> String {
        let counters: Vec<String> = COUNTER_NAMES
            .map(|name| format!("{name}_bytes"))
            .into_iter()
            .chain(COUNTER_NAMES.map(|name| format!("{name}_share")))
            .collect();
        format!(
            "capacity_bytes,policy,granularity,write_back,nodes,{},miss_ratio,background_bytes,evicted_bytes,dirty_left_bytes,\
             paper_max_bytes_per_s,paper_actual_bytes_per_s,paper_ratio,full_max_bytes_per_s,full_actual_bytes_per_s,full_ratio,infeasible\n",
            counters.join(",")
        )
    }

    pub(super) fn csv(&self) -> String {
        let mut line = format!("{},{},{},{},{}", self.capacity_bytes, self.policy, self.granularity, self.write_back, self.nodes);
        if let Some(why) = &self.infeasible {
            let _ = write!(line, "{}\"{}\"", ",".repeat(21), why.replace('"', "\"\""));
        } else {
            let mut add = |value: f64| {
                let _ = write!(line, ",{value}");
            };
            self.bytes.into_iter().chain(self.shares).chain([self.miss_ratio]).for_each(&mut add);
            [self.background_bytes, self.evicted_bytes, self.dirty_left_bytes].into_iter().for_each(|bytes| add(bytes as f64));
            self.paper.into_iter().chain(self.full).for_each(&mut add);
            line.push(',');
        }
        line + "\n"
    }
}

/// The rows as columns, with the names of the CSV. What a buffer that is not possible does not have is not there.
pub(super) fn columns(rows: &[Row]) -> Vec<Column> {
    let whole = |name: &str, of: fn(&Row) -> u64| {
        let values = rows
            .iter()
            .map(|row| (row.infeasible.is_none() || name == "capacity_bytes" || name == "nodes").then(|| parquet::whole(of(row))));
        Column { name: name.into(), values: Values::Whole(values.collect()) }
    };
    let text =
        |name: &str, of: fn(&Row) -> Option<String>| Column { name: name.into(), values: Values::Text(rows.iter().map(of).collect()) };
    let number = |name: String, of: &dyn Fn(&Row) -> f64| {
        let values = rows.iter().map(|row| row.infeasible.is_none().then(|| of(row)));
        Column { name, values: Values::Number(values.collect()) }
    };
    let mut columns = vec![
        whole("capacity_bytes", |row| row.capacity_bytes),
        text("policy", |row| Some(row.policy.clone())),
        text("granularity", |row| Some(row.granularity.clone())),
        text("write_back", |row| Some(row.write_back.clone())),
        whole("nodes", |row| u64::from(row.nodes)),
    ];
    columns.extend(COUNTER_NAMES.iter().enumerate().map(|(at, name)| number(format!("{name}_bytes"), &|row| row.bytes[at])));
    columns.extend(COUNTER_NAMES.iter().enumerate().map(|(at, name)| number(format!("{name}_share"), &|row| row.shares[at])));
    columns.push(number("miss_ratio".into(), &|row| row.miss_ratio));
    columns.push(whole("background_bytes", |row| row.background_bytes));
    columns.push(whole("evicted_bytes", |row| row.evicted_bytes));
    columns.push(whole("dirty_left_bytes", |row| row.dirty_left_bytes));
    let throughputs = ["max_bytes_per_s", "actual_bytes_per_s", "ratio"];
    columns.extend(throughputs.iter().enumerate().map(|(at, name)| number(format!("paper_{name}"), &|row| row.paper[at])));
    columns.extend(throughputs.iter().enumerate().map(|(at, name)| number(format!("full_{name}"), &|row| row.full[at])));
    columns.push(text("infeasible", |row| row.infeasible.clone()));
    columns
}

#[cfg(test)]
mod tests {
    use forebay_core::config::WriteBack;
    use forebay_sim::buffer::{Counting, Granularity, Policy};

    use super::*;

    #[test]
    fn rows_have_as_many_fields_as_the_head() {
        let config = BufferConfig {
            capacity_bytes: 1,
            policy: Policy::Belady,
            granularity: Granularity::Chunk,
            write_back: WriteBack::Sync,
            counting: Counting::Chunks,
            nodes: 1,
        };
        let infeasible = Row::new(&config, 4096, Err(Infeasible::NoChunk { capacity_bytes: 1, chunk_bytes: 4096 }));
        let fields = |line: &str| line.matches(',').count();
        assert_eq!(fields(&Row { infeasible: None, ..infeasible }.csv()), fields(&Row::csv_head()));
        let infeasible = Row::new(&config, 4096, Err(Infeasible::NoChunk { capacity_bytes: 1, chunk_bytes: 4096 })).csv();
        assert!(infeasible.ends_with("take a larger one\"\n"));
        assert_eq!(fields(infeasible.split('"').next().unwrap_or_default()), fields(&Row::csv_head()));
    }

    #[test]
    fn columns_are_those_of_the_head() {
        let names: Vec<String> = columns(&[]).into_iter().map(|column| column.name).collect();
        assert_eq!(format!("{}\n", names.join(",")), Row::csv_head());
    }
}
