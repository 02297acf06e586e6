//! From the directories to a running server.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_core::errno::Errno;
use forebay_core::hybrid::{FileRange, HybridNode, Recovered, ServerPolicy};
use forebay_core::id::{HomePath, Ino};
use forebay_host::log;
use forebay_store::home::FileIdentity;
use forebay_store::{FoundFile, FoundSsd, PosixHome, SsdDir, SsdError, SsdLog};
use parking_lot::Mutex;

use super::disk::Devices;
use super::driver::{Background, Driver};
use super::files::Files;
use super::{IoNode, IoNodeOptions, IoNodeRecovery};

/// Why an I/O server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum IoNodeError {
    /// The home directory cannot be opened.
    #[error("the home directory {} cannot be opened: {source}", .path.display())]
    Home {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A policy that needs an SSD, and none is there.
    #[error("the policy {0} needs an SSD: name a directory for it, or choose the policy none")]
    NoSsd(&'static str),
    /// The SSD is too small to be divided.
    #[error("an SSD of {0} bytes is too small; give it at least {1}")]
    SmallSsd(u64, u64),
    /// See there.
    #[error(transparent)]
    Ssd(#[from] SsdError),
    /// Files that the SSD has bytes of are not there.
    #[error(
        "the SSD has bytes of {count} files that are not in {} any more, the first was {first}; put them back (as the same files, not as \
         copies), or start the server so that it gives up what is missing",
        .home.display()
    )]
    Missing {
        /// The home directory.
        home: PathBuf,
        /// A name that one of them had.
        first: String,
        /// How many.
        count: usize,
    },
    /// A file that the SSD has bytes of cannot be made ready.
    #[error("{path} cannot be made ready for what the SSD has of it: {source}")]
    File {
        /// A name of it.
        path: String,
        /// The reason.
        source: io::Error,
    },
    /// The system refused threads.
    #[error("the server's threads cannot be started: {0}")]
    Threads(io::Error),
}

/// A smaller SSD would be full with a single request of a mount, bytes.
const SSD_BYTES_MIN: u64 = 1 << 20;

pub(super) fn start(mut options: IoNodeOptions) -> Result<IoNode, IoNodeError> {
    let home_failed = |source| IoNodeError::Home { path: options.home.clone(), source };
    let home = Arc::new(PosixHome::open(&options.home).map_err(home_failed)?);
    options.home = home.path().to_owned();
    let (mut directory, mut log, mut found) = (None, None, FoundSsd::default());
    match &options.ssd {
        Some(path) => {
            if options.ssd_bytes < SSD_BYTES_MIN {
                return Err(IoNodeError::SmallSsd(options.ssd_bytes, SSD_BYTES_MIN));
            }
            let mut opened = SsdDir::open(path, &options.home, options.ssd_bytes)?;
            let (opened_log, opened_found) = opened.read()?;
            (directory, log, found) = (Some(opened), Some(opened_log), opened_found);
        }
        None if options.policy == ServerPolicy::None => {}
        None => return Err(IoNodeError::NoSsd(options.policy.name())),
    }
    assemble(options, home, directory, log, found)
}

/// A server over a log that is open.
pub(super) fn assemble(
    options: IoNodeOptions,
    home: Arc<PosixHome>,
    directory: Option<SsdDir>,
    log: Option<SsdLog>,
    found: FoundSsd,
) -> Result<IoNode, IoNodeError> {
    let files = Files::new(Arc::clone(&home));
    let mut recovery = IoNodeRecovery { lost_bytes: found.lost_bytes, ..IoNodeRecovery::default() };
    take_up(&options, &home, &files, &found, &mut recovery)?;
    let ends = ends(&found);
    let recovered = Recovered { entries: found.entries, notes: found.notes, layout: found.layout };
    let node = HybridNode::recover(options.config(options.policy), recovered);
    let devices = Arc::new(Devices::new(home, files, log));
    extend(&node, &devices, &ends)?;
    let driver = Driver::start(node, Arc::clone(&devices) as Arc<dyn Background>).map_err(IoNodeError::Threads)?;
    let policy = Mutex::new(options.policy);
    Ok(IoNode { options, policy, devices, driver, recovery, directory: Mutex::new(directory) })
}

/// Finds the files that the SSD has bytes of.
fn take_up(
    options: &IoNodeOptions,
    home: &PosixHome,
    files: &Files,
    found: &FoundSsd,
    recovery: &mut IoNodeRecovery,
) -> Result<(), IoNodeError> {
    let failed = |source: Errno| IoNodeError::Home { path: options.home.clone(), source: io::Error::from_raw_os_error(source.0) };
    let mut paths: HashMap<FileIdentity, HomePath> = HashMap::new();
    let mut elsewhere = Vec::new();
    for FoundFile { record, .. } in found.files.values().filter(|file| !file.is_gone) {
        match home.identity(&record.path).map_err(failed)? {
            Some((identity, _)) if identity == record.identity => {
                paths.insert(record.identity, record.path.clone());
            }
            _ => elsewhere.push(record.identity),
        }
    }
    if !elsewhere.is_empty() {
        paths.extend(files.find(&elsewhere).map_err(failed)?);
    }
    let mut missing = Vec::new();
    for file in found.files.values() {
        let path = paths.get(&file.record.identity).filter(|_| !file.is_gone);
        if path.is_none() && !file.is_gone && !file.is_going {
            recovery.missing_files += 1;
            // A name that was never durable, a loss of power may have taken.
            if file.is_named || found.is_same_boot {
                missing.push(format!("{:?}", file.record.path));
            }
        }
        files.restore(&file.record, path);
    }
    if let Some(first) = missing.first() {
        if !options.discards_missing {
            return Err(IoNodeError::Missing { home: options.home.clone(), first: first.clone(), count: missing.len() });
        }
        log::problem(&format!(
            "{} files are missing in {}, and what the SSD had of them is given up",
            missing.len(),
            options.home.display()
        ));
    }
    recovery.entries = found.entries.len() as u64;
    recovery.files = paths.len() as u64;
    Ok(())
}

/// The furthest end of what was found of each file.
fn ends(found: &FoundSsd) -> BTreeMap<Ino, u64> {
    let mut ends = BTreeMap::new();
    for entry in &found.entries {
        let end = ends.entry(entry.range.file).or_insert(0);
        *end = entry.range.end().max(*end);
    }
    ends
}

/// Files are as long as what the SSD has of them: a loss of power may have taken that from home.
fn extend(node: &HybridNode, devices: &Devices, ends: &BTreeMap<Ino, u64>) -> Result<(), IoNodeError> {
    for (id, end) in ends {
        let Some(known) = devices.files.get(*id).filter(|known| !known.is_gone()) else { continue };
        let (mut parts, mut gaps) = (Vec::new(), Vec::new());
        node.regions().look_up(FileRange { file: *id, offset: 0, len: *end }, &mut parts, &mut gaps);
        let Some(end) = parts.iter().map(|(_, part)| part.offset + part.len).max() else { continue };
        let extended = devices.files.open(&known).and_then(|file| known.extend(&file, end));
        extended
            .map_err(|errno| IoNodeError::File { path: format!("{:?}", known.path()), source: io::Error::from_raw_os_error(errno.0) })?;
    }
    Ok(())
}
