//! What programs do in a mount, written down as a trace: one record for each request of the kernel that stands for a call of a program.
//!
//! Whoever serves a request adds its record to a batch before the answer goes out. A thread of its own takes batches, by number or by time, and
//! writes them. If it cannot keep up those who serve wait for it, so that nothing is lost; if the trace cannot be written at all, what is
//! missing is counted and said, and the mount goes on.

mod paths;
mod seen;
mod who;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::BufWriter;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forebay_host::log;
use forebay_trace::fbt::{Totals, Writer};
use forebay_trace::{About, Clock, Error, FileId, Flags, Gap, GapReason, Names, Process, ProcessId, Record};
use parking_lot::Mutex;

use self::paths::Paths;
pub(crate) use self::seen::Seen;
use self::who::Who;

/// Records of a batch.
const BATCH_RECORDS: usize = 8192;
/// Batches that wait to be written, at most; whoever would add one more waits.
const BATCHES_MAX: usize = 8;
/// What a kill takes from a trace at most, if little happens: what happened in so long.
const WRITE_EVERY: Duration = Duration::from_millis(300);

/// Records, and the names that are new in them.
#[derive(Default)]
struct Batch {
    records: Vec<Record>,
    files: Vec<Arc<[u8]>>,
    processes: Vec<Process>,
}

/// A file that is open, as its close will tell: that comes when the last user has let go, on behalf of nobody, and perhaps late.
struct Opened {
    process: ProcessId,
    flags: Flags,
    file: FileId,
}

/// What those who serve share.
struct State {
    names: Names,
    /// Names that the writer has been given.
    files_sent: usize,
    processes_sent: usize,
    paths: Paths,
    who: Who,
    /// Who has opened what, by the handle that was given for it; whether that is a directory's.
    opened: HashMap<(bool, u64), Opened>,
    /// Handles of directories that our own helpers have open.
    ours: HashSet<u64>,
    records: Vec<Record>,
    /// To the writer; none when it has ended.
    sender: Option<SyncSender<Batch>>,
    lost: u64,
    /// What is known of the whole only when it is over.
    last_facts: Vec<(String, String)>,
}

impl State {
    fn take_batch(&mut self) -> Batch {
        let files: Vec<Arc<[u8]>> = self.names.files().skip(self.files_sent).map(Arc::from).collect();
        let processes: Vec<Process> = self.names.processes().skip(self.processes_sent).cloned().collect();
        self.files_sent += files.len();
        self.processes_sent += processes.len();
        Batch { records: std::mem::replace(&mut self.records, Vec::with_capacity(BATCH_RECORDS)), files, processes }
    }

    fn push(&mut self, record: Record) {
        if self.sender.is_none() {
            self.lost += 1;
            return;
        }
        self.records.push(record);
        if self.records.len() >= BATCH_RECORDS {
            let batch = self.take_batch();
            let count = batch.records.len() as u64;
            // It waits here, with everybody behind it, if the writer is that far behind.
            if self.sender.as_ref().is_none_or(|sender| sender.send(batch).is_err()) {
                self.sender = None;
                self.lost += count;
            }
        }
    }
}

/// Writes a trace of a mount. See [`MountOptions`](crate::MountOptions).
pub struct Recorder {
    state: Arc<Mutex<State>>,
    writer: Mutex<Option<JoinHandle<Result<Totals, Error>>>>,
    begun: Instant,
    begun_unix_ns: u64,
    /// This machine.
    host: String,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

/// What a finished trace holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// Operations.
    pub records: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

impl Recorder {
    /// Begins a trace in `output`, which is empty. `root` is what the paths of files are below of; `facts` are told of the whole.
    ///
    /// # Errors
    /// If `output` cannot be written, or no thread can be made.
    pub fn start(output: File, root: &Path, facts: &[(&str, String)]) -> Result<Arc<Recorder>, Error> {
        let (begun, since) = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let mut about = About { clock: Clock::Unix, ..About::default() };
        for (name, value) in facts {
            about = about.with(name, value.clone());
        }
        let writer = Writer::new(BufWriter::with_capacity(1 << 18, output), &about)?;
        let (sender, receiver) = sync_channel(BATCHES_MAX);
        let state = Arc::new(Mutex::new(State {
            names: Names::new(),
            files_sent: 0,
            processes_sent: 0,
            paths: Paths::new(root.as_os_str().as_bytes()),
            who: Who::default(),
            opened: HashMap::new(),
            ours: HashSet::new(),
            records: Vec::with_capacity(BATCH_RECORDS),
            sender: Some(sender),
            lost: 0,
            last_facts: Vec::new(),
        }));
        let shared = Arc::downgrade(&state);
        let work = move || write(writer, &receiver, &shared);
        let handle = std::thread::Builder::new().name("forebay-trace".into()).spawn(work).map_err(Error::Write)?;
        let begun_unix_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Ok(Arc::new(Recorder { state, writer: Mutex::new(Some(handle)), begun, begun_unix_ns, host }))
    }

    /// Nanoseconds since 1970, by a clock that does not jump.
    fn unix_ns(&self, at: Instant) -> u64 {
        let passed = at.saturating_duration_since(self.begun).as_nanos();
        self.begun_unix_ns.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// Writes what is left and what is known now of the whole, and ends the trace. What is served from now on is not recorded.
    ///
    /// # Errors
    /// If it could not be written as a whole; what is in the file can be read.
    pub fn finish(&self, facts: &[(&str, String)]) -> Result<Recorded, Error> {
        let Some(handle) = self.writer.lock().take() else { return Ok(Recorded { records: 0, bytes: 0 }) };
        {
            let mut state = self.state.lock();
            state.last_facts = facts.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            let batch = state.take_batch();
            let count = batch.records.len() as u64;
            // The last sender goes with this, and so the writer ends.
            if state.sender.take().is_none_or(|sender| sender.send(batch).is_err()) {
                state.lost += count;
            }
        }
        let ended = handle.join().unwrap_or_else(|_| Err(Error::Unsupported("the thread that writes the trace met a bug".into())));
        ended.map(|totals| Recorded { records: totals.records, bytes: totals.bytes })
    }

    /// Waits until the kernel has told of every close: it does so a moment after the programs have gone on. False if some are open still.
    pub fn wait_for_closes(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        while !self.state.lock().opened.is_empty() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Operations that could not be written down.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.state.lock().lost
    }
}

/// What the thread does that writes.
fn write(mut writer: Writer<BufWriter<File>>, receiver: &Receiver<Batch>, state: &Weak<Mutex<State>>) -> Result<Totals, Error> {
    let mut names = Names::new();
    let mut work = || -> Result<(), Error> {
        loop {
            match receiver.recv_timeout(WRITE_EVERY) {
                Ok(batch) => add(&mut writer, &mut names, batch)?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    let Some(state) = state.upgrade() else { continue };
                    let mut state = state.lock();
                    // What was sent meanwhile comes first: names are numbered in order.
                    let mut batches: Vec<Batch> = receiver.try_iter().collect();
                    if state.sender.is_some() {
                        batches.push(state.take_batch());
                    }
                    drop(state);
                    let mut records = 0;
                    for batch in batches {
                        records += batch.records.len();
                        add(&mut writer, &mut names, batch)?;
                    }
                    if records > 0 {
                        writer.flush(&names)?;
                    }
                }
            }
        }
    };
    if let Err(error) = work() {
        if let Some(state) = state.upgrade() {
            state.lock().sender = None;
        }
        log::problem(&format!("the trace ends after about {} operations: {error}", writer.records()));
        return Err(error);
    }
    let (lost, facts) = state.upgrade().map_or((0, Vec::new()), |state| {
        let mut state = state.lock();
        (state.lost, std::mem::take(&mut state.last_facts))
    });
    if !facts.is_empty() {
        writer.flush(&names)?;
        writer.facts(&facts)?;
    }
    if lost > 0 {
        writer.gap(&names, &Gap { count: lost, ..Gap::new(GapReason::Dropped, "operations that could not be written down") })?;
    }
    let (output, totals) = writer.finish(&names)?;
    // It is with the system now; to wait for the medium would hold the command's end up.
    output.into_inner().map_err(|error| Error::Write(error.into_error()))?;
    Ok(totals)
}

/// Adds a batch in the order of the starts: it was made in that of the ends.
fn add(writer: &mut Writer<BufWriter<File>>, names: &mut Names, mut batch: Batch) -> Result<(), Error> {
    for file in &batch.files {
        names.file(file)?;
    }
    for process in batch.processes {
        names.process(process)?;
    }
    batch.records.sort_by_key(|record| record.start_ns);
    batch.records.iter().try_for_each(|record| writer.push(names, record))
}

#[cfg(test)]
mod tests;
