//! A record as a line of text, or of JSON.

use std::io::Write;

use forebay_trace::{Error, FileId, Flags, Names, Record};
use serde_json::json;

/// Writes lines.
pub(super) struct Writer<W: Write> {
    output: W,
    json: bool,
    begun: bool,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(output: W, json: bool) -> Writer<W> {
        Writer { output, json, begun: false }
    }

    pub(super) fn push(&mut self, names: &Names, record: &Record) -> Result<(), Error> {
        let line = if self.json { as_json(names, record) } else { as_text(names, record) };
        let head =
            if self.json || self.begun { "" } else { "# start_s duration_s op layer offset size result host pid thread rank flags path\n" };
        self.begun = true;
        self.output.write_all(format!("{head}{line}\n").as_bytes()).map_err(Error::Write)
    }

    pub(super) fn finish(mut self) -> Result<W, Error> {
        self.output.flush().map_err(Error::Write)?;
        Ok(self.output)
    }
}

fn path(names: &Names, file: FileId) -> String {
    String::from_utf8_lossy(&forebay_trace::muse::encode_path(names.path(file))).into_owned()
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

fn as_text(names: &Names, record: &Record) -> String {
    let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let unknown = |flag, text: String| if record.flags.has(flag) { "-".to_owned() } else { text };
    let process = names.who(record.process).cloned().unwrap_or_default();
    let rank = process.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
    let first = path(names, record.file);
    let other = if record.other == FileId::NONE { String::new() } else { format!(" {}", path(names, record.other)) };
    format!(
        "{} {} {} {} {} {} {} {} {} {} {rank} {} {}{other}",
        seconds(record.start_ns),
        unknown(Flags::NO_DURATION, seconds(record.duration_ns)),
        record.op,
        record.layer,
        unknown(Flags::NO_OFFSET, record.offset.to_string()),
        record.size,
        unknown(Flags::NO_RESULT, record.result.to_string()),
        or_dash(&process.host),
        process.pid,
        process.thread,
        record.flags,
        or_dash(&first),
    )
}

fn as_json(names: &Names, record: &Record) -> String {
    let process = names.who(record.process).cloned().unwrap_or_default();
    let lossy = |file: FileId| (file != FileId::NONE).then(|| String::from_utf8_lossy(names.path(file)).into_owned());
    let flags = record.flags.to_string();
    let flags: Vec<&str> = if flags == "-" { Vec::new() } else { flags.split(',').collect() };
    json!({
        "start_ns": record.start_ns,
        "duration_ns": record.duration_ns,
        "op": record.op.name(),
        "layer": record.layer.name(),
        "offset": record.offset,
        "size": record.size,
        "result": record.result,
        "host": process.host,
        "pid": process.pid,
        "thread": process.thread,
        "rank": process.rank,
        "command": process.command,
        "file": lossy(record.file),
        "other": lossy(record.other),
        "flags": flags,
    })
    .to_string()
}
