//! `forebay trace info`: what a trace holds.

use std::collections::BTreeMap;

use forebay_trace::{Clock, Flags, Source};
use serde_json::json;

use crate::size::Bytes;

/// Operations and bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    operations: u64,
    bytes: u64,
    failed: u64,
    time_ns: u64,
}

/// What was counted.
#[derive(Debug, Default)]
pub(super) struct Info {
    records: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    end_ns: u64,
    unsorted: bool,
    by_op: BTreeMap<(String, String), Sum>,
    files: usize,
    processes: usize,
    unix: bool,
    facts: Vec<(String, String)>,
    gaps: Vec<String>,
}

impl Info {
    /// Reads all of a source.
    pub(super) fn of(source: &mut (impl Source + ?Sized)) -> Result<Info, forebay_trace::Error> {
        let mut info = Info::default();
        while let Some(record) = source.next_record()? {
            info.records += 1;
            info.unsorted |= record.start_ns < info.last_ns;
            info.first_ns = Some(info.first_ns.map_or(record.start_ns, |first| first.min(record.start_ns)));
            info.last_ns = info.last_ns.max(record.start_ns);
            info.end_ns = info.end_ns.max(record.end_ns());
            let sum = info.by_op.entry((record.layer.name().to_owned(), record.op.name().to_owned())).or_default();
            sum.operations += 1;
            sum.bytes = sum.bytes.saturating_add(record.moved_bytes());
            sum.failed += u64::from(record.result < 0 && !record.flags.has(Flags::NO_RESULT));
            sum.time_ns = sum.time_ns.saturating_add(record.duration_ns);
        }
        (info.files, info.processes) = (source.names().files().len(), source.names().processes().len());
        info.unix = source.about().clock == Clock::Unix;
        info.facts = source.about().facts.clone();
        info.gaps = source.gaps().iter().map(|gap| format!("{}: {}", gap.reason, gap.note)).collect();
        Ok(info)
    }

    fn span_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.first_ns.unwrap_or(self.end_ns))
    }

    pub(super) fn json(&self, format: &str) -> String {
        let one = |((layer, op), sum): (&(String, String), &Sum)| json!({"layer": layer, "op": op, "operations": sum.operations, "bytes": sum.bytes, "failed": sum.failed, "time_ns": sum.time_ns});
        let sums: Vec<_> = self.by_op.iter().map(one).collect();
        let facts: BTreeMap<&str, &str> = self.facts.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let value = json!({
            "format": format,
            "records": self.records,
            "files": self.files,
            "processes": self.processes,
            "clock": if self.unix { "unix" } else { "relative" },
            "first_ns": self.first_ns,
            "span_ns": self.span_ns(),
            "sorted": !self.unsorted,
            "sums": sums,
            "facts": facts,
            "gaps": self.gaps,
        });
        format!("{value:#}\n")
    }

    pub(super) fn text(&self, format: &str) -> String {
        let mut lines = vec![
            format!("format      {format}"),
            format!("operations  {}{}", self.records, if self.unsorted { ", not in the order of time" } else { "" }),
            format!("files       {}", self.files),
            format!("processes   {}", self.processes),
            format!("time        {:.6} s", self.span_ns() as f64 / 1e9),
        ];
        if let (true, Some(first)) = (self.unix, self.first_ns) {
            lines.push(format!("begin       {}.{:09} s since 1970", first / 1_000_000_000, first % 1_000_000_000));
        }
        lines.extend(self.facts.iter().map(|(name, value)| format!("{name:<11} {}", value.escape_debug())));
        lines.push(format!("{:<8} {:<10} {:>12} {:>12} {:>9} {:>14}", "layer", "operation", "number", "bytes", "failed", "in them, s"));
        for ((layer, op), sum) in &self.by_op {
            let bytes = if sum.bytes > 0 { Bytes(sum.bytes).to_string() } else { "-".to_owned() };
            let time_s = sum.time_ns as f64 / 1e9;
            lines.push(format!("{layer:<8} {op:<10} {:>12} {bytes:>12} {:>9} {time_s:>14.6}", sum.operations, sum.failed));
        }
        lines.extend(self.gaps.iter().map(|gap| format!("MISSING     {gap}")));
        lines.join("\n") + "\n"
    }
}
