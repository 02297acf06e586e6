//! A trace in the making: the file, and who writes it.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forebay_core::message::Counters;
use forebay_fuse::Recorder;

use crate::config::{REPLACEMENTS, WRITE_BACKS, name_of};
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::registry::Tag;
use crate::size::{self, Bytes};

/// How long closes may take to be told.
const CLOSES_WITHIN: Duration = Duration::from_millis(500);

/// A trace that is being written.
pub(crate) struct Tracing {
    path: PathBuf,
    recorder: Arc<Recorder>,
}

/// A command as one line.
fn line(command: &[OsString]) -> String {
    command.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn failed(path: &Path) -> impl FnOnce(forebay_trace::Error) -> Error {
    let message = format!("the trace {} cannot be written", path.display());
    move |error| match error {
        forebay_trace::Error::Write(error) => Error::Coded { message: format!("{message}: {error}"), exit: Exit::Internal },
        other => Error::Coded { message: format!("{message}: {other}"), exit: Exit::Internal },
    }
}

impl Tracing {
    /// Begins a trace of what is done in `root`; `facts` stand beside the command.
    pub(crate) fn start(path: PathBuf, root: &Path, command: &[OsString], facts: &[(&str, String)]) -> Result<Tracing, Error> {
        let file = File::create(&path).map_err(Error::io(format!("write the trace {}", path.display())))?;
        let mut all = vec![
            ("source", "forebay".to_owned()),
            ("program", format!("forebay {}", env!("CARGO_PKG_VERSION"))),
            ("origin", root.to_string_lossy().into_owned()),
            ("host", rustix::system::uname().nodename().to_string_lossy().into_owned()),
        ];
        if !command.is_empty() {
            all.push(("command", line(command)));
        }
        all.extend_from_slice(facts);
        let recorder = Recorder::start(file, root, &all).map_err(failed(&path))?;
        Ok(Tracing { path, recorder })
    }

    /// Begins a trace of an instance, whose files may have `live_bytes_max` in the buffer. Files have the paths that they have at home.
    pub(crate) fn of_instance(path: PathBuf, tag: &Tag, live_bytes_max: u64, command: &[OsString]) -> Result<Tracing, Error> {
        let node = &tag.node;
        let capacity = u64::from(node.segments_max) * u64::from(node.segment_bytes);
        let config = serde_json::to_string(node).unwrap_or_default();
        let facts = [
            ("buffer.node", config),
            ("buffer.capacity", size::exact(capacity)),
            ("buffer.live", size::exact(live_bytes_max)),
            ("buffer.chunk", size::exact(u64::from(node.chunk_bytes))),
            ("buffer.replacement", name_of(&REPLACEMENTS, &node.replacement).to_owned()),
            ("buffer.write-back", name_of(&WRITE_BACKS, &node.write_back).to_owned()),
        ];
        Tracing::start(path, &tag.backing, command, &facts)
    }

    /// Writes it down.
    pub(crate) fn recorder(&self) -> Arc<Recorder> {
        self.recorder.clone()
    }

    /// Takes in the last closes, before it is unmounted.
    pub(crate) fn settle(&self) {
        self.recorder.wait_for_closes(CLOSES_WITHIN);
    }

    /// Ends it, and says what is in it. What an instance has counted goes with it.
    pub(crate) fn finish(self, counters: Option<&Counters>, console: Console) -> Result<(), Error> {
        let counted = counters.and_then(|counters| serde_json::to_string(counters).ok());
        let facts: Vec<_> = counted.into_iter().map(|counted| ("buffer.counters", counted)).collect();
        let recorded = self.recorder.finish(&facts).map_err(|error| {
            let lost = self.recorder.lost();
            let message = format!("the trace {} is not complete, at least {lost} operations are missing: {error}", self.path.display());
            Error::Coded { message, exit: Exit::Internal }
        })?;
        console.say(&format!("wrote {}: {} operations in {}", self.path.display(), recorded.records, Bytes(recorded.bytes)));
        Ok(())
    }
}
