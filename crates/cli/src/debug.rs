//! `forebay debug`: one archive with what a bug report needs. Settings, states, counters, messages and sizes; no byte of any file, and of
//! names only those that a message or the table of mounts happens to hold.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_core::record::Record;
use forebay_store::journal::JournalIdentity;
use forebay_store::{FileDirectory, Journal, Superblock};

use crate::archive::Archive;
use crate::args::DebugArgs;
use crate::config::{Layers, Settings};
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::registry::{self, State, Tag};
use crate::{doctor, remote, show};

/// Of a message file, its last bytes.
const LOG_TAIL_BYTES: u64 = 256 << 10;
/// Instances that are looked at, the newest.
const INSTANCES_MAX: usize = 32;
/// A journal longer than this is not read.
const JOURNAL_BYTES_MAX: u64 = 256 << 20;

const README: &str = "What `forebay debug` has put together for a bug report:\n\
    version.txt     the program and the system\n\
    settings.txt    every setting and where it came from\n\
    doctor.json     what this machine has and lacks\n\
    mounts.txt      the table of mounts\n\
    N/status.json   of each instance: its state and counters\n\
    N/instance.json, N/superblock.txt, N/files.txt, N/journal.txt, N/log.txt\n\
    \x20               its places and sizes, counts of its journal's records, its last messages\n\
    No bytes of files are in here. Messages, settings and the table of mounts hold paths: look through them before you send this.\n";

/// The last `most` bytes of a file.
fn tail(path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn version() -> String {
    let system = std::fs::read_to_string("/proc/version").unwrap_or_default();
    let memory: String =
        std::fs::read_to_string("/proc/meminfo").unwrap_or_default().lines().take(5).map(|line| format!("{line}\n")).collect();
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let user = rustix::process::geteuid().as_raw();
    format!("forebay {}\n{system}{processors} processors\n{memory}user {user}\n", env!("CARGO_PKG_VERSION"))
}

/// The files of a buffer directory, by name and size.
fn files(buffer: &Path) -> String {
    let entries = match std::fs::read_dir(buffer) {
        Ok(entries) => entries,
        Err(error) => return format!("{error}\n"),
    };
    let mut lines: Vec<String> = entries
        .flatten()
        .map(|entry| {
            let size = entry.metadata().map_or_else(|error| error.to_string(), |meta| meta.len().to_string());
            format!("{:>16} {}\n", size, entry.file_name().to_string_lossy())
        })
        .collect();
    lines.sort();
    lines.concat()
}

fn kind(record: &Record) -> &'static str {
    match record {
        Record::SegmentOpened { .. } => "SegmentOpened",
        Record::SegmentSpilled { .. } => "SegmentSpilled",
        Record::Data(_) => "Data",
        Record::DataPart { .. } => "DataPart",
        Record::Moved { .. } => "Moved",
        Record::Flushed { .. } => "Flushed",
        Record::Inode(_) => "Inode",
        Record::Entry { .. } => "Entry",
        Record::HomeEntry { .. } => "HomeEntry",
        Record::HomeIntent { .. } => "HomeIntent",
        Record::Synced { .. } => "Synced",
        Record::SnapshotEnd => "SnapshotEnd",
        Record::Answered { record: Some(record), .. } => kind(record),
        Record::Answered { record: None, .. } => "Answered",
        Record::DataPieces { .. } => "DataPieces",
        Record::Noted(_) => "Noted",
        _ => "others",
    }
}

/// How many records of each kind the journal holds, and how it ends. A journal that is being written may seem to end in the middle.
fn journal(buffer: &Path, superblock: &Superblock) -> String {
    let bytes: u64 = std::fs::read_dir(buffer)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("journal"))
        .filter_map(|entry| Some(entry.metadata().ok()?.len()))
        .sum();
    if bytes > JOURNAL_BYTES_MAX {
        return format!("{bytes} bytes, too many to be read for this\n");
    }
    let identity = JournalIdentity { instance: superblock.instance, memory_id: superblock.memory_id };
    let opened = match Journal::open(Arc::new(FileDirectory::new(buffer)), identity, superblock.memory_path.exists()) {
        Ok(opened) => opened,
        Err(error) => return format!("{error}\n"),
    };
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, record) in &opened.records {
        *counts.entry(kind(record)).or_default() += 1;
    }
    let position = |at: Option<&(forebay_core::id::Position, Record)>| at.map_or(0, |(position, _)| position.0);
    let mut text = format!("positions {} to {}\n", position(opened.records.first()), position(opened.records.last()));
    text += &format!("{}; the memory file is {}\n", opened.end, if opened.memory_intact { "the one that it speaks of" } else { "another" });
    text.extend(counts.iter().map(|(kind, count)| format!("{count:>12} {kind}\n")));
    text.extend(opened.skipped.iter().map(|skipped| format!("passed over: {skipped}\n")));
    text
}

/// All about one instance, each part under its name.
fn instance(tag: &Tag, state: State) -> Vec<(&'static str, Vec<u8>)> {
    let json = |value: &dyn erased::Json| value.pretty().into_bytes();
    let mut parts = vec![
        ("instance.json", json(tag)),
        ("status.json", json(&remote::view(tag, state))),
        ("files.txt", files(&tag.buffer).into_bytes()),
    ];
    match Superblock::read(&tag.buffer.join("superblock")) {
        Ok(superblock) => {
            let text = format!("{:#?}\n{:#?}\n", superblock.geometry, superblock.config);
            parts.push(("superblock.txt", text.into_bytes()));
            parts.push(("journal.txt", journal(&tag.buffer, &superblock).into_bytes()));
        }
        Err(error) => parts.push(("superblock.txt", format!("{error}\n").into_bytes())),
    }
    // Only a mount in the background has one.
    parts.extend(tail(&tag.buffer.join("log"), LOG_TAIL_BYTES).ok().map(|bytes| ("log.txt", bytes)));
    parts
}

/// Values that can be printed as JSON, without naming their types.
mod erased {
    pub(super) trait Json {
        fn pretty(&self) -> String;
    }

    impl<T: serde::Serialize> Json for T {
        fn pretty(&self) -> String {
            serde_json::to_string_pretty(self).unwrap_or_else(|error| error.to_string())
        }
    }
}

/// `forebay debug`. Settings that cannot be read are part of what is to be reported.
pub(crate) fn command(args: &DebugArgs, settings: Result<(Layers, Settings), Error>, console: Console) -> Result<(), Error> {
    let seconds = registry::unix_ms() / 1000;
    let path = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("forebay-debug-{seconds}.tar")));
    let cannot = |error: std::io::Error| Error::Coded {
        message: format!("cannot write the archive {}: {error}; name a file that does not exist yet with --out", path.display()),
        exit: Exit::Config,
    };
    let file = File::options().write(true).create_new(true).mode(0o600).open(&path).map_err(cannot)?;
    let settings = settings.map_or_else(|error| format!("{error}\n"), |(layers, settings)| show::table(&layers, &settings));
    let checks = erased::Json::pretty(&doctor::checks());
    let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let version = version();
    let mut archive = Archive::new(file, seconds);
    let folder = "forebay-debug";
    let parts: [(&str, &[u8]); 5] = [
        ("README.txt", README.as_bytes()),
        ("version.txt", version.as_bytes()),
        ("settings.txt", settings.as_bytes()),
        ("doctor.json", checks.as_bytes()),
        ("mounts.txt", &mounts),
    ];
    for (name, bytes) in parts {
        archive.add(&format!("{folder}/{name}"), bytes).map_err(cannot)?;
    }
    let instances = registry::list();
    for (number, (tag, state)) in instances.iter().rev().take(INSTANCES_MAX).enumerate() {
        for (name, bytes) in instance(tag, *state) {
            archive.add(&format!("{folder}/{}/{name}", number + 1), &bytes).map_err(cannot)?;
        }
    }
    archive.finish().and_then(|file| file.sync_all()).map_err(cannot)?;
    console.say(&format!("wrote {}; it holds no data of files, but paths: look through it before you send it", path.display()));
    Ok(())
}
