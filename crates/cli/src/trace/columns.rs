//! Records as a table of columns.

use std::io::Write;

use forebay_trace::{Error, FileId, Flags, Names, Record};

use crate::parquet::{self, Column, Values};

/// Rows of a group: so many are in memory.
const ROWS: usize = 1 << 15;

/// Writes records as a Parquet file. Times are nanoseconds; what is not known is null.
pub(super) struct Writer<W: Write> {
    output: parquet::Writer<W>,
    rows: Vec<Record>,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(output: W) -> Result<Writer<W>, Error> {
        Ok(Writer { output: parquet::Writer::new(output).map_err(Error::Write)?, rows: Vec::with_capacity(ROWS) })
    }

    pub(super) fn push(&mut self, names: &Names, record: &Record) -> Result<(), Error> {
        self.rows.push(*record);
        if self.rows.len() == ROWS { self.flush(names) } else { Ok(()) }
    }

    fn flush(&mut self, names: &Names) -> Result<(), Error> {
        let written = self.output.group(&columns(&self.rows, names)).map_err(Error::Write);
        self.rows.clear();
        written
    }

    pub(super) fn finish(mut self, names: &Names) -> Result<W, Error> {
        self.flush(names)?;
        self.output.finish().map_err(Error::Write)
    }
}

fn columns(rows: &[Record], names: &Names) -> Vec<Column> {
    let whole = |name: &str, of: &dyn Fn(&Record) -> Option<i64>| Column {
        name: name.into(),
        values: Values::Whole(rows.iter().map(of).collect()),
    };
    let text = |name: &str, of: &dyn Fn(&Record) -> Option<String>| Column {
        name: name.into(),
        values: Values::Text(rows.iter().map(of).collect()),
    };
    let path = |file: FileId| (file != FileId::NONE).then(|| String::from_utf8_lossy(names.path(file)).into_owned());
    let known = |record: &Record, flag, value: i64| (!record.flags.has(flag)).then_some(value);
    vec![
        whole("start_ns", &|record| Some(parquet::whole(record.start_ns))),
        whole("duration_ns", &|record| known(record, Flags::NO_DURATION, parquet::whole(record.duration_ns))),
        text("op", &|record| Some(record.op.name().into())),
        text("layer", &|record| Some(record.layer.name().into())),
        text("path", &|record| path(record.file)),
        text("other_path", &|record| path(record.other)),
        whole("offset", &|record| known(record, Flags::NO_OFFSET, parquet::whole(record.offset))),
        whole("size", &|record| Some(parquet::whole(record.size))),
        whole("result", &|record| known(record, Flags::NO_RESULT, record.result)),
        text("host", &|record| names.who(record.process).map(|who| who.host.clone())),
        whole("pid", &|record| names.who(record.process).map(|who| parquet::whole(who.pid))),
        whole("thread", &|record| names.who(record.process).map(|who| parquet::whole(who.thread))),
        whole("rank", &|record| names.who(record.process).and_then(|who| who.rank).map(i64::from)),
        text("flags", &|record| Some(record.flags.to_string())),
    ]
}
