//! The files and processes that a trace speaks of, each named once.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Error;
use crate::record::{FileId, ProcessId};

/// The most that all names of a trace may have together, bytes: they are the only part of a trace that is kept in memory.
pub const NAMES_BYTES_MAX: u64 = 2 << 30;
/// The longest name, bytes.
pub const NAME_BYTES_MAX: usize = 64 << 10;
/// What a name costs beside its bytes, about.
const NAME_OVERHEAD_BYTES: u64 = 64;

/// Who did something.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Process {
    /// The machine; empty if not known.
    pub host: String,
    /// The process; 0 if not known.
    pub pid: u64,
    /// The thread; 0 if not known.
    pub thread: u64,
    /// The number among the processes of a parallel program.
    pub rank: Option<u32>,
    /// What it runs; empty if not known.
    pub command: String,
}

/// The names of a trace. Only ever grows, so that a number keeps its meaning.
#[derive(Clone, Debug, Default)]
pub struct Names {
    files: Vec<Arc<[u8]>>,
    file_ids: HashMap<Arc<[u8]>, FileId>,
    processes: Vec<Arc<Process>>,
    process_ids: HashMap<Arc<Process>, ProcessId>,
    bytes: u64,
}

impl Names {
    /// No names yet.
    #[must_use]
    pub fn new() -> Names {
        Names::default()
    }

    fn count(&mut self, bytes: usize, number: usize) -> Result<u32, Error> {
        self.bytes += bytes as u64 + NAME_OVERHEAD_BYTES;
        match u32::try_from(number) {
            Ok(number) if number < u32::MAX && bytes <= NAME_BYTES_MAX && self.bytes <= NAMES_BYTES_MAX => Ok(number),
            _ => Err(Error::Names { bytes }),
        }
    }

    /// The number of a file, a new one if it has none yet.
    ///
    /// # Errors
    /// If the name is longer than [`NAME_BYTES_MAX`], or all together would be larger than [`NAMES_BYTES_MAX`].
    pub fn file(&mut self, path: &[u8]) -> Result<FileId, Error> {
        if let Some(id) = self.file_ids.get(path) {
            return Ok(*id);
        }
        let id = FileId(self.count(path.len(), self.files.len())?);
        let path: Arc<[u8]> = path.into();
        self.files.push(path.clone());
        self.file_ids.insert(path, id);
        Ok(id)
    }

    /// The number of a process, a new one if it has none yet.
    ///
    /// # Errors
    /// As [`Names::file`].
    pub fn process(&mut self, process: Process) -> Result<ProcessId, Error> {
        if let Some(id) = self.process_ids.get(&process) {
            return Ok(*id);
        }
        let id = ProcessId(self.count(process.host.len() + process.command.len(), self.processes.len())?);
        let process = Arc::new(process);
        self.processes.push(process.clone());
        self.process_ids.insert(process, id);
        Ok(id)
    }

    /// The path of a file; empty if there is no such file.
    #[must_use]
    pub fn path(&self, file: FileId) -> &[u8] {
        self.files.get(file.0 as usize).map_or(&[], |path| path)
    }

    /// Who a process is, if it is named.
    #[must_use]
    pub fn who(&self, process: ProcessId) -> Option<&Process> {
        self.processes.get(process.0 as usize).map(|process| &**process)
    }

    /// All paths, in the order of their numbers.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.files.iter().map(|path| &**path)
    }

    /// All paths as texts, in the order of their numbers; what is no UTF-8 is replaced.
    #[must_use]
    pub fn shown_files(&self) -> Vec<String> {
        self.files().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
    }

    /// All processes, in the order of their numbers.
    pub fn processes(&self) -> impl ExactSizeIterator<Item = &Process> {
        self.processes.iter().map(|process| &**process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number() {
        let mut names = Names::new();
        let first = names.file(b"/a").unwrap();
        assert_eq!((names.file(b"/b").unwrap(), names.file(b"/a").unwrap()), (FileId(1), first));
        assert_eq!((names.path(first), names.path(FileId::NONE)), (&b"/a"[..], &b""[..]));
        let process = Process { pid: 3, ..Process::default() };
        let id = names.process(process.clone()).unwrap();
        assert_eq!((names.process(process.clone()).unwrap(), names.who(id)), (id, Some(&process)));
        assert_eq!(names.who(ProcessId::NONE), None);
        assert!(names.file(&vec![b'x'; NAME_BYTES_MAX + 1]).is_err());
    }
}
