//! The sizes that the settings leave open, from what the machine has.

use std::path::{Path, PathBuf};

use forebay_core::config::NodeConfig;
use thiserror::Error;

use crate::config::Settings;
use crate::console::Console;
use crate::error::Error;
use crate::geometry::{self, CAPACITY_BYTES_MIN, MEMORY_BYTES_MIN};
use crate::places;
use crate::size::{Bytes, exact};

/// The capacity, where the disk has room for it.
const CAPACITY_BYTES_DEFAULT: u64 = 4 << 30;
/// The memory, where the machine has four times as much.
const MEMORY_BYTES_DEFAULT: u64 = 1 << 30;
/// Where memory files lie.
const MEMORY_DIR: &str = "/dev/shm";

/// Why a size does not fit the machine.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(crate) enum SpaceError {
    #[error("a capacity of {} does not fit: the file system of {} has {} free; give --capacity {} or less, or another --buffer",
        Bytes(*.wanted_bytes), .buffer.display(), Bytes(*.free_bytes), exact(.free_bytes >> 20 << 20))]
    Disk { wanted_bytes: u64, free_bytes: u64, buffer: PathBuf },
    #[error("memory of {} does not fit: {} has {} free; give --memory {} or less, or another --memory-dir",
        Bytes(*.wanted_bytes), .folder.display(), Bytes(*.free_bytes), exact(.free_bytes >> 20 << 20))]
    Memory { wanted_bytes: u64, free_bytes: u64, folder: PathBuf },
}

/// The memory of the machine, or what the control group allows of it, bytes.
fn machine_memory_bytes() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10;
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse::<u64>().ok());
    Some(limit.map_or(total, |limit| limit.min(total)))
}

/// The capacity: what was asked for if it fits, else what is usual, or less on a full disk.
fn capacity_bytes(asked: Option<u64>, free_bytes: Option<u64>, buffer: &Path, console: Console) -> Result<u64, SpaceError> {
    let free_bytes = free_bytes.unwrap_or(u64::MAX);
    match asked {
        Some(wanted_bytes) if wanted_bytes > free_bytes => Err(SpaceError::Disk { wanted_bytes, free_bytes, buffer: buffer.into() }),
        Some(wanted_bytes) => Ok(wanted_bytes),
        None => {
            // A tenth stays free for the journal, and for others.
            let room_bytes = free_bytes - free_bytes / 10;
            if room_bytes < CAPACITY_BYTES_MIN {
                return Err(SpaceError::Disk { wanted_bytes: CAPACITY_BYTES_MIN, free_bytes, buffer: buffer.into() });
            }
            if room_bytes < CAPACITY_BYTES_DEFAULT {
                let rounded = room_bytes >> 20 << 20;
                console.say(&format!(
                    "the capacity is {}, because {} has no more than {} free",
                    Bytes(rounded),
                    buffer.display(),
                    Bytes(free_bytes)
                ));
                return Ok(rounded);
            }
            Ok(CAPACITY_BYTES_DEFAULT)
        }
    }
}

/// The memory: what was asked for if it fits, else what is usual, or less on a small machine.
fn memory_bytes(asked: Option<u64>, free_bytes: Option<u64>, machine_bytes: Option<u64>, folder: &Path) -> Result<u64, SpaceError> {
    let free_bytes = free_bytes.unwrap_or(u64::MAX);
    let wanted_bytes = asked.unwrap_or_else(|| {
        let quarter_bytes = machine_bytes.unwrap_or(u64::MAX) / 4;
        // Half of a small memory file system is left to those who share it.
        MEMORY_BYTES_DEFAULT.min(quarter_bytes).min(free_bytes / 2).max(MEMORY_BYTES_MIN)
    });
    if wanted_bytes > free_bytes {
        return Err(SpaceError::Memory { wanted_bytes, free_bytes, folder: folder.into() });
    }
    Ok(wanted_bytes)
}

/// The configuration of a node whose buffer lies at `buffer`.
pub(crate) fn plan(settings: &Settings, buffer: &Path, console: Console) -> Result<NodeConfig, Error> {
    let mut node = NodeConfig {
        replacement: settings.replacement,
        write_back: settings.write_back,
        write_back_delay_ns: settings.write_back_delay_ns,
        // Small transfers are short: more of them than threads keep every thread at work.
        home_transfers_max: 4 * settings.home_threads as u32,
        seed: crate::registry::unix_ms(),
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        ..NodeConfig::default()
    };
    let folder = settings.memory_dir.as_deref().unwrap_or(Path::new(MEMORY_DIR));
    let capacity = match settings.capacity_bytes {
        // The shape decides about a size that is no size, before the disk is asked.
        Some(bytes) if bytes < CAPACITY_BYTES_MIN => bytes,
        asked => capacity_bytes(asked, places::free_bytes(buffer), buffer, console)?,
    };
    let memory = match settings.memory_bytes {
        Some(bytes) if bytes < MEMORY_BYTES_MIN => bytes,
        asked => memory_bytes(asked.map(|bytes| bytes.min(capacity)), places::free_bytes(folder), machine_memory_bytes(), folder)?,
    };
    geometry::apply(&mut node, capacity, memory.min(capacity), settings.chunk_bytes)?;
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::Verbosity;

    fn capacity(asked: Option<u64>, free: u64) -> Result<u64, SpaceError> {
        capacity_bytes(asked, Some(free), Path::new("/b"), Console::new(Verbosity::Quiet))
    }

    #[test]
    fn the_capacity_fits_the_disk() {
        assert_eq!(capacity(None, 100 << 30), Ok(4 << 30));
        assert_eq!(capacity(None, 1 << 30), Ok(921 << 20));
        assert_eq!(capacity(Some(8 << 30), 9 << 30), Ok(8 << 30));
        let error = capacity(Some(8 << 30), 7 << 30).unwrap_err().to_string();
        assert!(error.contains("8 GiB") && error.contains("--capacity 7GiB") && error.contains("/b"), "{error}");
        assert!(capacity(None, 1 << 20).is_err());
    }

    #[test]
    fn the_memory_fits_the_machine() {
        let memory = |asked, free, machine| memory_bytes(asked, Some(free), Some(machine), Path::new("/dev/shm"));
        assert_eq!(memory(None, 24 << 30, 24 << 30), Ok(1 << 30));
        assert_eq!(memory(None, 24 << 30, 2 << 30), Ok(512 << 20));
        assert_eq!(memory(None, 64 << 20, 24 << 30), Ok(32 << 20));
        assert_eq!(memory(Some(2 << 30), 24 << 30, 2 << 30), Ok(2 << 30));
        let error = memory(Some(2 << 30), 64 << 20, 24 << 30).unwrap_err().to_string();
        assert!(error.contains("/dev/shm has 64 MiB free") && error.contains("--memory 64MiB"), "{error}");
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(machine_memory_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
