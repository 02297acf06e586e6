//! What a run was: for a person, and as JSON.

use std::path::PathBuf;
use std::time::Duration;

use forebay_core::config::NodeConfig;
use forebay_core::message::{Counters, Status};
use serde::Serialize;

use crate::config::{KERNEL_CACHES, REPLACEMENTS, Settings, WRITE_BACKS, name_of};
use crate::registry::Tag;
use crate::size::Bytes;
use crate::view::{FailureView, StatusView};

/// Everything that is known of a run at its end.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) report_version: u32,
    pub(crate) forebay_version: &'static str,
    pub(crate) command: Vec<String>,
    pub(crate) started_unix_ms: u64,
    pub(crate) ended_unix_ms: u64,
    /// What this process exits with.
    pub(crate) exit_status: u8,
    /// What the command exited with, 128 and the signal if one ended it; none if it could not be started.
    pub(crate) command_status: Option<u8>,
    /// Everything is home and compared there.
    pub(crate) drained: bool,
    pub(crate) buffer_kept: bool,
    pub(crate) message: Option<String>,
    pub(crate) failures: Vec<FailureView>,
    /// How often the process that serves was killed and another took over. The counters are of the last one.
    pub(crate) takeovers: u32,
    pub(crate) times: Times,
    pub(crate) rates: Rates,
    pub(crate) capacity_bytes: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) peak_bytes: u64,
    pub(crate) dirty_bytes: u64,
    pub(crate) dirty_names: u64,
    /// Why the log refused a write: from then on nothing new was taken.
    pub(crate) log_failed: Option<String>,
    /// Of the bytes read, those that stood in the buffer, from 0 to 1; none if nothing was read.
    pub(crate) hit_ratio: Option<f64>,
    pub(crate) counters: Counters,
    pub(crate) config: ReportConfig,
}

/// How long things took.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Times {
    /// From the start of the command to its end.
    pub(crate) application_ns: u64,
    /// From there until everything was home and compared.
    pub(crate) drain_ns: u64,
    /// All of it, with mounting and unmounting.
    pub(crate) total_ns: u64,
}

/// How fast things went; none where nothing was moved.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Rates {
    pub(crate) application_written_bytes_per_s: Option<f64>,
    pub(crate) application_read_bytes_per_s: Option<f64>,
    /// Over the command's time and the drain's: write-back begins while the command runs.
    pub(crate) home_written_bytes_per_s: Option<f64>,
}

/// What the run was told, and what was made of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct ReportConfig {
    pub(crate) backing: PathBuf,
    pub(crate) mount: Option<PathBuf>,
    pub(crate) buffer: PathBuf,
    pub(crate) replacement: &'static str,
    pub(crate) write_back: &'static str,
    pub(crate) kernel_cache: &'static str,
    pub(crate) node: NodeConfig,
}

/// Nanoseconds of `duration`.
pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn rate(bytes: u64, time_ns: u64) -> Option<f64> {
    (bytes > 0 && time_ns > 0).then(|| bytes as f64 * 1e9 / time_ns as f64)
}

/// How a run ended.
pub(crate) struct Outcome {
    pub(crate) command: Vec<String>,
    pub(crate) exit_status: u8,
    pub(crate) command_status: Option<u8>,
    pub(crate) drained: bool,
    pub(crate) buffer_kept: bool,
    pub(crate) message: Option<String>,
    pub(crate) failures: Vec<FailureView>,
    pub(crate) takeovers: u32,
    pub(crate) times: Times,
}

impl Report {
    pub(crate) fn new(outcome: Outcome, status: &Status, tag: &Tag, settings: &Settings) -> Report {
        let counters = status.counters;
        let times = outcome.times;
        Report {
            report_version: 1,
            takeovers: outcome.takeovers,
            forebay_version: env!("CARGO_PKG_VERSION"),
            command: outcome.command,
            started_unix_ms: tag.started_unix_ms,
            ended_unix_ms: crate::registry::unix_ms(),
            exit_status: outcome.exit_status,
            command_status: outcome.command_status,
            drained: outcome.drained,
            buffer_kept: outcome.buffer_kept,
            message: outcome.message,
            failures: outcome.failures,
            times,
            rates: Rates {
                application_written_bytes_per_s: rate(counters.written_bytes, times.application_ns),
                application_read_bytes_per_s: rate(counters.read_bytes, times.application_ns),
                home_written_bytes_per_s: rate(counters.home_written_bytes, times.application_ns + times.drain_ns),
            },
            capacity_bytes: status.capacity_bytes,
            memory_bytes: status.memory_bytes,
            peak_bytes: status.peak_bytes,
            dirty_bytes: status.dirty_bytes,
            dirty_names: status.dirty_names,
            log_failed: StatusView::from(status).log_failed,
            hit_ratio: (counters.read_bytes > 0).then(|| counters.hit_bytes as f64 / counters.read_bytes as f64),
            counters,
            config: ReportConfig {
                backing: tag.backing.clone(),
                mount: tag.mount.clone(),
                buffer: tag.buffer.clone(),
                replacement: name_of(&REPLACEMENTS, &settings.replacement),
                write_back: name_of(&WRITE_BACKS, &settings.write_back),
                kernel_cache: name_of(&KERNEL_CACHES, &settings.kernel_write_back),
                node: tag.node.clone(),
            },
        }
    }

    /// For a person, several lines.
    pub(crate) fn text(&self) -> String {
        let counters = &self.counters;
        let seconds = |time_ns: u64| time_ns as f64 / 1e9;
        let per_second = |rate: Option<f64>| rate.map_or(String::new(), |rate| format!(", {}/s", Bytes(rate as u64)));
        let hits = self.hit_ratio.map_or(String::new(), |ratio| format!(", {:.1} % from the buffer", ratio * 100.0));
        let status = self.command_status.map_or("did not start".into(), |status| format!("exit status {status}"));
        let mut lines = vec![
            format!("application {:.2} s, {status}", seconds(self.times.application_ns)),
            format!(
                "  in        {} in {} writes{}",
                Bytes(counters.written_bytes),
                counters.writes,
                per_second(self.rates.application_written_bytes_per_s)
            ),
            format!(
                "  out       {} in {} reads{}{hits}",
                Bytes(counters.read_bytes),
                counters.reads,
                per_second(self.rates.application_read_bytes_per_s)
            ),
            format!("drain       {:.2} s", seconds(self.times.drain_ns)),
            format!(
                "  home      {} in {} writes, {} names{}",
                Bytes(counters.home_written_bytes),
                counters.home_writes,
                counters.home_names,
                per_second(self.rates.home_written_bytes_per_s)
            ),
            format!(
                "  compared  {}, {}",
                Bytes(counters.compared_bytes),
                if self.drained { "all as written" } else { "not everything is home" }
            ),
            format!(
                "buffer      peak {} of {}, {} swaps ({} dirty), {} spilled to disk",
                Bytes(self.peak_bytes),
                Bytes(self.capacity_bytes),
                counters.swaps,
                counters.dirty_swaps,
                Bytes(counters.spilled_bytes)
            ),
        ];
        if let Some(error) = &self.log_failed {
            lines.push(format!("the buffer refused a write ({error}); from then on the application's changes failed"));
        }
        if self.takeovers > 0 {
            let times = if self.takeovers == 1 { "once".into() } else { format!("{} times", self.takeovers) };
            lines.push(format!("the process that serves was killed {times}, and another took over; what is counted is of the last one"));
        }
        if counters.home_errors > 0 {
            lines.push(format!("home gave {} errors, which were tried again", counters.home_errors));
        }
        lines.iter().map(|line| format!("forebay: {line}")).collect::<Vec<_>>().join("\n")
    }
}
