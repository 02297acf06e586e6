//! Writing traces: to standard output, or to a file that stands there whole or not at all.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use forebay_trace::{Names, Record, Source, fbt, import::fio, muse};

use super::args::Target;
use super::columns;
use super::input::failed;
use super::line;
use crate::error::Error;

/// A file that gets its name when it is complete.
pub(super) struct Output {
    path: PathBuf,
    /// What it is called until then; none for standard output.
    new: Option<PathBuf>,
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(new) = &self.new {
            // It was not finished; what is left of it helps nobody.
            let _ = std::fs::remove_file(new);
        }
    }
}

impl Output {
    /// Begins to write `path`.
    pub(super) fn create(path: &Path) -> Result<(Output, Box<dyn Write>), Error> {
        if path == Path::new("-") {
            return Ok((Output { path: path.into(), new: None }, Box::new(BufWriter::new(std::io::stdout()))));
        }
        let Some(name) = path.file_name() else {
            return Err(Error::io(format!("write {}", path.display()))(std::io::ErrorKind::InvalidInput.into()));
        };
        let new = path.with_file_name(format!(".{}.{}.new", name.to_string_lossy(), std::process::id()));
        let file = File::create(&new).map_err(Error::io(format!("write {}", path.display())))?;
        Ok((Output { path: path.into(), new: Some(new) }, Box::new(BufWriter::with_capacity(1 << 20, file))))
    }

    /// Where what does not fit into memory may go: beside what is written, where there must be room for it anyway.
    pub(super) fn folder(path: &Path) -> PathBuf {
        match path.parent() {
            _ if path == Path::new("-") => std::env::temp_dir(),
            Some(parent) if parent != Path::new("") => parent.into(),
            _ => PathBuf::from("."),
        }
    }

    /// It is complete.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        if let Some(new) = self.new.take() {
            std::fs::rename(&new, &self.path).map_err(Error::io(format!("write {}", self.path.display())))?;
        }
        Ok(())
    }
}

/// Writes a source as a trace of ours; how many records it has.
pub(super) fn write_fbt(source: &mut (impl Source + ?Sized), path: &Path) -> Result<u64, Error> {
    let (output, writer) = Output::create(path)?;
    let about = source.about().clone().with("program", concat!("forebay ", env!("CARGO_PKG_VERSION")));
    let (writer, totals) = fbt::Writer::new(writer, &about).and_then(|writer| writer.write_all(source)).map_err(failed(path))?;
    drop(writer);
    output.finish()?;
    Ok(totals.records)
}

/// A writer of one of the texts, or of a table.
enum Text {
    Muse(muse::Writer<Box<dyn Write>>),
    Fio(fio::Writer<Box<dyn Write>>),
    Lines(line::Writer<Box<dyn Write>>),
    Columns(columns::Writer<Box<dyn Write>>),
}

impl Text {
    fn push(&mut self, names: &Names, record: &Record) -> Result<(), forebay_trace::Error> {
        match self {
            Text::Muse(writer) => writer.push(names, record),
            Text::Fio(writer) => writer.push(names, record),
            Text::Lines(writer) => writer.push(names, record),
            Text::Columns(writer) => writer.push(names, record),
        }
    }

    /// Ends it; how many records it could not say.
    fn finish(self, names: &Names) -> Result<u64, forebay_trace::Error> {
        let left_out = match &self {
            Text::Muse(writer) => writer.left_out(),
            Text::Fio(writer) => writer.left_out(),
            Text::Lines(_) | Text::Columns(_) => 0,
        };
        match self {
            Text::Muse(writer) => drop(writer.finish()?),
            Text::Fio(writer) => drop(writer.finish()?),
            Text::Lines(writer) => drop(writer.finish()?),
            Text::Columns(writer) => drop(writer.finish(names)?),
        }
        Ok(left_out)
    }
}

/// Writes a source in another format; how many records were read, and how many of them the format cannot say.
pub(super) fn write(source: &mut (impl Source + ?Sized), to: Target, path: &Path) -> Result<(u64, u64), Error> {
    let (output, writer) = match to {
        Target::Fbt => return write_fbt(source, path).map(|records| (records, 0)),
        _ => Output::create(path)?,
    };
    let mut text = match to {
        Target::Muse => Text::Muse(muse::Writer::new(writer)),
        Target::Fio2 => Text::Fio(fio::Writer::new(writer, 2).map_err(failed(path))?),
        Target::Fio3 => Text::Fio(fio::Writer::new(writer, 3).map_err(failed(path))?),
        Target::Parquet => Text::Columns(columns::Writer::new(writer).map_err(failed(path))?),
        Target::Fbt | Target::Json | Target::Text => Text::Lines(line::Writer::new(writer, to == Target::Json)),
    };
    let mut records = 0;
    let mut copy = || {
        while let Some(record) = source.next_record()? {
            records += 1;
            text.push(source.names(), &record)?;
        }
        Ok(())
    };
    copy().map_err(failed(path))?;
    let left_out = text.finish(source.names()).map_err(failed(path))?;
    output.finish()?;
    Ok((records, left_out))
}
