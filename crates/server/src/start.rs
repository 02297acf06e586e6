//! Starting an instance: a new buffer, or one that is there.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use forebay_core::config::{CLEANING_SEGMENTS, NodeConfig};
use forebay_core::message::Request;
use forebay_core::node::{ConfigError, Node};
use forebay_core::recovery::{Damage, HeldBy, PieceCheck, RecoveryError, recover};
use forebay_core::time::Time;
use forebay_host::clock::Clock;
use forebay_host::driver::{Driver, Setup, Threads};
use forebay_host::log;
use forebay_host::recorder::{Recorder, Start};
use forebay_host::transport::CallPayload;
use forebay_store::{BufferDir, BufferError, BufferSettings, Home, Journal, JournalEnd, OpenedJournal, PosixHome};

use crate::ahead;
use crate::world::{StoreJournal, StoreWorld};
use crate::{Instance, Options, RecoverySummary, Takeover};

/// Why an instance did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The home directory cannot be used.
    #[error("the backing directory {} cannot be used: {source}", path.display())]
    Backing {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The buffer belongs to another home directory.
    #[error(
        "the buffer {} holds data for the backing directory {}, not for {}; drain it with `forebay recover --buffer {}`, or choose another buffer",
        buffer.display(), found.display(), wanted.display(), buffer.display()
    )]
    OtherBacking {
        /// The buffer directory.
        buffer: PathBuf,
        /// The backing directory that the buffer names.
        found: PathBuf,
        /// The backing directory that was asked for.
        wanted: PathBuf,
    },
    /// The buffer directory cannot be used.
    #[error(transparent)]
    Buffer(#[from] BufferError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The buffer has lost bytes that were durable.
    #[error("the buffer {} is damaged: {}; restore it from a copy, or take the intact files from it by hand", buffer.display(), describe(damage))]
    Damaged {
        /// The buffer directory.
        buffer: PathBuf,
        /// What is lost.
        damage: Vec<Damage>,
    },
    /// The journal has lost records that others prove were there.
    #[error("the journal of the buffer {} is damaged: {what}; nothing was changed: restore the buffer from a copy of its disk", buffer.display())]
    DamagedJournal {
        /// The buffer directory.
        buffer: PathBuf,
        /// Which file, and where.
        what: JournalEnd,
    },
    /// The buffer's records give no server.
    #[error("the buffer {} cannot be recovered: {source}", buffer.display())]
    Recovery {
        /// The buffer directory.
        buffer: PathBuf,
        /// The reason.
        source: RecoveryError,
    },
    /// The recording cannot be written.
    #[error("the recording {} cannot be written: {source}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The system refused threads.
    #[error("the server's threads cannot be started: {0}")]
    Threads(io::Error),
}

/// Damaged ranges that a message lists.
const DAMAGE_LISTED_MAX: usize = 10;

fn describe(damage: &[Damage]) -> String {
    let mut text = format!("{} ranges that had been durable do not have their checksums", damage.len());
    for Damage { path, file_offset, len } in damage.iter().take(DAMAGE_LISTED_MAX) {
        text.push_str(&format!(", {path:?} bytes {file_offset} to {}", file_offset + u64::from(*len)));
    }
    if damage.len() > DAMAGE_LISTED_MAX {
        text.push_str(", and more");
    }
    text
}

/// What is made from a buffer directory.
struct Made {
    node: Node,
    journal: Journal,
    world: Arc<StoreWorld>,
    start: Start,
    recovered: Option<RecoverySummary>,
}

/// Where home is, and how it is reached.
pub(crate) struct Backing<'a> {
    /// What names it, for ever.
    path: PathBuf,
    home: Arc<dyn Home>,
    held: Option<&'a mut HeldBy<'a>>,
}

impl<'a> Backing<'a> {
    /// The directory that the options name, or that somebody holds.
    pub(crate) fn directory(options: &Options, takeover: Option<Takeover<'a>>) -> Result<Backing<'a>, StartError> {
        let failed = |source| StartError::Backing { path: options.backing.clone(), source };
        let (path, home, held) = match takeover {
            // What stands at the path may be our own mount, which nobody serves at the moment.
            Some(Takeover { home, held }) => {
                (options.backing.clone(), PosixHome::at(options.backing.clone(), home).map_err(failed)?, Some(held))
            }
            None => {
                let path = options.backing.canonicalize().map_err(failed)?;
                let home = PosixHome::open(&path).map_err(failed)?;
                (path, home, None)
            }
        };
        Ok(Backing { path, home: Arc::new(home), held })
    }

    /// A home of any kind, under the name that the options give it.
    pub(crate) fn other(options: &Options, home: Arc<dyn Home>, held: Option<&'a mut HeldBy<'a>>) -> Backing<'a> {
        Backing { path: options.backing.clone(), home, held }
    }
}

pub(crate) fn start(options: &Options, backing: Backing<'_>) -> Result<Instance, StartError> {
    let Backing { path: backing, home, held } = backing;
    let clock = Clock::start();
    let now = clock.now();
    let made = if BufferDir::exists(&options.buffer)? {
        reopen(options, &backing, home, now, held)?
    } else {
        create(options, &backing, home, now)?
    };
    let recorder = match &options.record {
        Some(path) => {
            let failed = |source| StartError::Record { path: path.clone(), source };
            Some(Recorder::create(path, made.start).map_err(failed)?)
        }
        None => None,
    };
    let threads = Threads { home: options.home_threads, ..Threads::default() };
    let journal = Box::new(StoreJournal::new(made.journal));
    let setup = Setup { machine: made.node, now, clock, journal, world: made.world.clone(), recorder, threads };
    let driver = Driver::start(setup).map_err(StartError::Threads)?;
    if made.world.memory_is_memory() {
        ahead::start(&made.world).map_err(StartError::Threads)?;
    }
    // What home has room for is known from now on, also while home does not answer.
    driver.call(Request::StatFs, CallPayload::None);
    Ok(Instance { driver, world: made.world, recovered: made.recovered, ended: AtomicBool::new(false) })
}

/// The configuration for this process.
fn own(config: &NodeConfig) -> NodeConfig {
    NodeConfig { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw(), ..config.clone() }
}

fn create(options: &Options, backing: &Path, home: Arc<dyn Home>, now: Time) -> Result<Made, StartError> {
    let config = own(&options.node);
    // Before anything is made on disk.
    let node = Node::new(config.clone(), now)?;
    let settings = BufferSettings { backing: backing.to_path_buf(), config: config.clone(), memory_dir: options.memory_dir.clone() };
    let buffer = BufferDir::create(&options.buffer, &settings)?;
    note_fallback(&buffer);
    let OpenedJournal { journal, .. } = buffer.journal()?;
    let world = Arc::new(StoreWorld::new(buffer.log()?, home, buffer));
    Ok(Made { node, journal, world, start: Start::New { config, now }, recovered: None })
}

fn reopen(options: &Options, backing: &Path, home: Arc<dyn Home>, now: Time, held: Option<&mut HeldBy<'_>>) -> Result<Made, StartError> {
    let buffer = BufferDir::open(&options.buffer, options.memory_dir.as_deref())?;
    let superblock = buffer.superblock();
    if superblock.backing != backing {
        return Err(StartError::OtherBacking {
            buffer: options.buffer.clone(),
            found: superblock.backing.clone(),
            wanted: backing.to_path_buf(),
        });
    }
    note_fallback(&buffer);
    let geometry = superblock.geometry;
    let config = NodeConfig {
        chunk_bytes: geometry.chunk_bytes,
        segment_bytes: geometry.segment_bytes,
        segments_max: geometry.ssd_slots.saturating_sub(CLEANING_SEGMENTS),
        memory_segments_max: geometry.memory_slots,
        ..own(&options.node)
    };
    let OpenedJournal { journal, records, end, memory_intact, skipped } = buffer.journal()?;
    let mut journal_notes: Vec<String> = skipped.iter().map(ToString::to_string).collect();
    if memory_intact && matches!(end, JournalEnd::Damaged { .. }) {
        // Only the process died, so nothing explains the gap but rot; what follows it cannot be placed, and going on would begin a new
        // journal over it. After a power loss a gap in what was never synced is to be expected.
        return Err(StartError::DamagedJournal { buffer: options.buffer.clone(), what: end });
    }
    if end != JournalEnd::Clean {
        journal_notes.push(end.to_string());
    }
    let world = Arc::new(StoreWorld::new(buffer.log()?, home, buffer));

    let mut checks = Vec::new();
    let mut check = |piece: &PieceCheck| {
        let right = world.check(piece.at, piece.crc);
        checks.push(right);
        right
    };
    // The records are kept for the recording only.
    let kept = if options.record.is_some() { records.clone() } else { Vec::new() };
    let record_count = records.len() as u64;
    let failed = |error| match error {
        RecoveryError::Damaged(damage) => StartError::Damaged { buffer: options.buffer.clone(), damage },
        source => StartError::Recovery { buffer: options.buffer.clone(), source },
    };
    let recovered = recover(config.clone(), records, memory_intact, now, &mut check, held).map_err(failed)?;
    let status = recovered.node.status();
    let summary = RecoverySummary {
        records: record_count,
        dirty_bytes: status.dirty_bytes,
        dirty_names: status.dirty_names,
        cut_at: recovered.cut_at,
        memory_intact,
        journal_notes,
    };
    let start = Start::Recovered { config, records: kept, memory_intact, now, checks };
    Ok(Made { node: recovered.node, journal, world, start, recovered: Some(summary) })
}

fn note_fallback(buffer: &BufferDir) {
    if let Some(reason) = &buffer.memory().fallback {
        let path = buffer.memory().path.display();
        log::problem(&format!("the memory of the buffer is the file {path}, which is as slow as its disk: {reason}"));
    }
}
