//! The load: what one process does to its files, through plain system calls.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Write a new file from its start to its end.
    WriteSequential,
    /// Overwrite every block of a file once, in random order.
    WriteRandom,
    /// Read a file from its start to its end.
    ReadSequential,
    /// Read every block of a file once, in random order.
    ReadRandom,
    /// Make empty files in a directory of the process's own.
    Create,
    /// Ask for the attributes of these files.
    Stat,
    /// Remove them.
    Unlink,
}

/// How much of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amount {
    /// Bytes of the process's file.
    pub file_bytes: u64,
    /// Bytes of one call.
    pub block_bytes: u64,
    /// Files, for actions on names.
    pub files: u64,
}

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Work {
    /// Calls that count: reads, writes, creates, stats or unlinks.
    pub operations: u64,
    /// Bytes read or written.
    pub bytes: u64,
}

impl std::ops::AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        self.operations += other.operations;
        self.bytes += other.bytes;
    }
}

/// The places of a process: its data file and its directory of files.
fn places(directory: &Path, process: u64) -> (PathBuf, PathBuf) {
    (directory.join(format!("data-{process}")), directory.join(format!("names-{process}")))
}

/// The blocks `0..count` in an order that looks random and is the same every time.
fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..count).collect();
    let mut state = seed | 1;
    for index in (1..order.len()).rev() {
        // xorshift64: good enough to defeat read-ahead.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(index, (state % (index as u64 + 1)) as usize);
    }
    order
}

/// Carries the action out for one process.
///
/// # Errors
/// The first error of a system call; a read that ends early is one.
pub fn perform(action: Action, amount: Amount, directory: &Path, process: u64) -> io::Result<Work> {
    let (data, names) = places(directory, process);
    let blocks = amount.file_bytes / amount.block_bytes;
    let mut buffer = vec![process as u8 ^ 0x5a; amount.block_bytes as usize];
    let name = |index: u64| names.join(format!("file-{index:06}"));
    let of_data = Work { operations: blocks, bytes: blocks * amount.block_bytes };
    let of_names = Work { operations: amount.files, bytes: 0 };
    match action {
        Action::WriteSequential => {
            let file = File::create(&data)?;
            for block in 0..blocks {
                file.write_all_at(&buffer, block * amount.block_bytes)?;
            }
            Ok(of_data)
        }
        Action::WriteRandom => {
            let file = File::options().write(true).open(&data)?;
            for block in shuffled(blocks, process + 1) {
                file.write_all_at(&buffer, block * amount.block_bytes)?;
            }
            Ok(of_data)
        }
        Action::ReadSequential | Action::ReadRandom => {
            let file = File::open(&data)?;
            let order = if action == Action::ReadRandom { shuffled(blocks, process + 1) } else { (0..blocks).collect() };
            for block in order {
                file.read_exact_at(&mut buffer, block * amount.block_bytes)?;
            }
            Ok(of_data)
        }
        Action::Create => {
            for index in 0..amount.files {
                File::options().write(true).create_new(true).open(name(index))?;
            }
            Ok(of_names)
        }
        Action::Stat => {
            for index in shuffled(amount.files, process + 1) {
                fs::metadata(name(index))?;
            }
            Ok(of_names)
        }
        Action::Unlink => {
            for index in 0..amount.files {
                fs::remove_file(name(index))?;
            }
            Ok(of_names)
        }
    }
}

/// Makes what the action needs and is not part of it: a file to read or overwrite, files to stat or remove.
///
/// # Errors
/// The first error of a system call.
pub fn prepare(action: Action, amount: Amount, directory: &Path, process: u64) -> io::Result<()> {
    let (_, names) = places(directory, process);
    match action {
        Action::WriteSequential => Ok(()),
        Action::Create => fs::create_dir_all(names),
        Action::WriteRandom | Action::ReadSequential | Action::ReadRandom => {
            let whole = Amount { block_bytes: amount.file_bytes.min(1 << 20), ..amount };
            perform(Action::WriteSequential, whole, directory, process).map(|_| ())
        }
        Action::Stat | Action::Unlink => {
            fs::create_dir_all(names)?;
            perform(Action::Create, amount, directory, process).map(|_| ())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_action_does_what_it_counts() {
        let folder = tempfile::tempdir().unwrap();
        let amount = Amount { file_bytes: 1 << 18, block_bytes: 4096, files: 20 };
        let actions = [Action::WriteSequential, Action::WriteRandom, Action::ReadSequential, Action::ReadRandom, Action::Create];
        for action in actions.into_iter().chain([Action::Stat, Action::Unlink]) {
            let directory = folder.path().join(format!("{action:?}"));
            fs::create_dir(&directory).unwrap();
            prepare(action, amount, &directory, 3).unwrap();
            let work = perform(action, amount, &directory, 3).unwrap();
            let data = fs::metadata(directory.join("data-3")).map_or(0, |metadata| metadata.len());
            let names = fs::read_dir(directory.join("names-3")).map_or(0, |entries| entries.count() as u64);
            let expected = match action {
                Action::Create | Action::Stat => (0, 20, 20),
                Action::Unlink => (0, 0, 20),
                _ => (1 << 18, 0, 64),
            };
            assert_eq!((data, names, work.operations), expected, "{action:?}");
        }
    }

    #[test]
    fn an_order_visits_each_block_once() {
        let order = shuffled(1000, 7);
        assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 1000);
        assert_ne!(order, (0..1000).collect::<Vec<_>>());
    }
}
