//! Many simulations of one trace: in parallel over all cores, in an order that does not depend on them, and resumable.
//!
//! Each result is a line that is appended to a file as soon as it is there, with the configuration's key in front. Who goes on later finds
//! the lines there and runs only what is missing. The first line names the trace: a file of another trace is refused.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use thiserror::Error;

use super::{BufferConfig, Rates, Workload, simulate};
use crate::parallel;

/// How far a sweep is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Configurations that are done, those of an earlier run among them.
    pub done: usize,
    /// All of them.
    pub all: usize,
}

/// Why a sweep ended early.
#[derive(Debug, Error)]
pub enum SweepError {
    /// The file of results cannot be read or written.
    #[error("cannot use the results in {path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The file belongs to another trace, or to other rates.
    #[error("{path} holds results of another trace, chunk size or table of throughput; name another file, or remove it")]
    OfAnother {
        /// The file.
        path: PathBuf,
    },
}

/// Simulations to do.
pub struct Sweep<'a> {
    /// The trace.
    pub workload: &'a Workload,
    /// The throughput of both levels.
    pub rates: &'a Rates,
    /// What to simulate; the results come in this order.
    pub configs: &'a [BufferConfig],
    /// Threads at work; 0 is one for each core.
    pub threads: usize,
}

impl Sweep<'_> {
    /// Runs what is not in `results` yet; for each configuration, the line that `line` makes of its outcome, or of why there is none.
    ///
    /// # Errors
    /// If the file of results cannot be used.
    pub fn run(
        &self,
        results: Option<&Path>,
        line: impl Fn(&BufferConfig, Result<super::Outcome, super::Infeasible>) -> String + Sync,
        progress: impl Fn(Progress) + Sync,
    ) -> Result<Vec<String>, SweepError> {
        let journal = results.map(|path| Journal::open(path, self.title())).transpose()?;
        let (mut known, journal) = match journal {
            Some((journal, known)) => (known, Some(journal)),
            None => (HashMap::new(), None),
        };
        let mut lines: Vec<Option<String>> = self.configs.iter().map(|config| known.remove(&config.key())).collect();
        let missing: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].is_none()).collect();
        let (done, failed) = (AtomicUsize::new(lines.len() - missing.len()), Mutex::new(None));
        let journal = Mutex::new(journal);
        progress(Progress { done: done.load(Ordering::Relaxed), all: lines.len() });
        let simulated = parallel::map(self.threads, missing.len(), |at| {
            if lock(&failed).is_some() {
                return None;
            }
            let config = &self.configs[missing[at]];
            let text = line(config, simulate(self.workload, config, self.rates));
            if let Some(journal) = &mut *lock(&journal)
                && let Err(error) = journal.append(&config.key(), &text)
            {
                *lock(&failed) = Some(error);
            }
            progress(Progress { done: done.fetch_add(1, Ordering::Relaxed) + 1, all: self.configs.len() });
            Some(text)
        });
        if let Some(error) = lock(&failed).take() {
            return Err(error);
        }
        for (at, line) in missing.into_iter().zip(simulated) {
            lines[at] = line;
        }
        Ok(lines.into_iter().flatten().collect())
    }

    /// What the results depend on beside the configuration.
    fn title(&self) -> String {
        let rates = format!("{:?}", self.rates);
        let sum = rates.bytes().fold(0u64, |sum, byte| sum.rotate_left(5).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(byte));
        format!("# forebay sim 1, trace {:016x}, rates {sum:016x}", self.workload.fingerprint())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The file of results.
struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// The file, and the results in it by key. A last line that was cut off is removed.
    fn open(path: &Path, title: String) -> Result<(Journal, HashMap<String, String>), SweepError> {
        let fail = |error| SweepError::Io { path: path.to_owned(), error };
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(fail)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(fail)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = text[..whole].lines();
        match lines.next() {
            Some(first) if first != title => return Err(SweepError::OfAnother { path: path.to_owned() }),
            None if !title.starts_with(&text) => return Err(SweepError::OfAnother { path: path.to_owned() }),
            _ => {}
        }
        let known = lines.filter_map(|line| line.split_once('\t')).map(|(key, line)| (key.to_owned(), line.to_owned())).collect();
        file.set_len(whole as u64).map_err(fail)?;
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        if whole == 0 {
            file.write_all(format!("{title}\n").as_bytes()).map_err(fail)?;
        }
        Ok((Journal { path: path.to_owned(), file }, known))
    }

    fn append(&mut self, key: &str, line: &str) -> Result<(), SweepError> {
        let text = format!("{key}\t{line}\n");
        self.file.write_all(text.as_bytes()).map_err(|error| SweepError::Io { path: self.path.clone(), error })
    }
}
