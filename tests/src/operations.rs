//! Random operations of a program on a small set of names, so that they meet often: the same seed gives the same operations,
//! whatever the file system answers.
//!
//! Each operation makes at most one change. What it saw (an error number, bytes, attributes) is returned, so that two file systems
//! can be compared after every step.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{self as sys, AtFlags, FallocateFlags, Gid, Mode, OFlags, RenameFlags, SeekFrom, Timespec, Timestamps, Uid, XattrFlags};

use crate::listing::CLOCK_TIMES_FROM_NS;
use crate::random::Random;

/// Open files that an executor holds at most.
const OPEN_MAX: u64 = 4;

/// The furthest byte that a common write may reach, and that a rare, sparse one may.
const COMMON_BYTES_MAX: u64 = 300 << 10;
const SPARSE_BYTES_MAX: u64 = 3 << 20;
const WRITE_BYTES_MAX: u64 = 100 << 10;

const FILES: &[&str] = &["a", "b", "c", "long-name.data"];
const DIRECTORIES: &[&str] = &["d", "e"];

/// One operation. Paths are relative to the root of the executor.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // The names are the system calls'; `slot` is one of the executor's open files.
pub enum Operation {
    Create { path: String, mode: u32 },
    Write { path: String, offset: u64, len: u64, seed: u64 },
    Append { path: String, len: u64, seed: u64 },
    Truncate { path: String, size: u64 },
    Empty { path: String },
    Read { path: String, offset: u64, len: u64 },
    Open { slot: u64, path: String },
    WriteOpen { slot: u64, offset: u64, len: u64, seed: u64 },
    ReadOpen { slot: u64, offset: u64, len: u64 },
    TruncateOpen { slot: u64, size: u64 },
    SyncOpen { slot: u64, data_only: bool },
    Close { slot: u64 },
    Rename { from: String, to: String, flags: u32 },
    Unlink { path: String },
    MakeDir { path: String, mode: u32 },
    RemoveDir { path: String },
    SymLink { target: String, path: String },
    Link { from: String, to: String },
    Mode { path: String, mode: u32 },
    Owner { path: String, uid: u32, gid: u32 },
    Times { path: String, seconds: i64, nanoseconds: i64, follow: bool },
    Stat { path: String },
    List { path: String },
    SyncDir { path: String },
    Allocate { path: String, mode: u32, offset: u64, len: u64 },
    Seek { path: String, offset: u64, data: bool },
    CopyRange { from: String, from_offset: u64, to: String, to_offset: u64, len: u64 },
    SetXattr { path: String, name: &'static str, len: u64, seed: u64, flags: u32 },
    GetXattr { path: String, name: &'static str },
    RemoveXattr { path: String, name: &'static str },
    ListXattr { path: String },
}

impl Operation {
    /// Whether its success makes everything before it durable.
    #[must_use]
    pub fn syncs(&self) -> bool {
        matches!(self, Operation::SyncOpen { .. })
    }

    /// Whether it may have happened in part when the file system died under it.
    #[must_use]
    pub fn writes(&self) -> bool {
        matches!(self, Operation::Write { .. } | Operation::Append { .. } | Operation::WriteOpen { .. })
    }
}

impl Operation {
    /// Whether a write took fewer bytes than it was given: a file system that dies between two requests of one write makes it so.
    #[must_use]
    pub fn is_cut_short(&self, seen: &Seen) -> bool {
        match (self, seen) {
            (Operation::Write { len, .. } | Operation::WriteOpen { len, .. } | Operation::Append { len, .. }, Ok(seen)) => {
                !seen.starts_with(&format!("{len} bytes "))
            }
            _ => false,
        }
    }
}

/// What to draw from.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Changes of owner, too: only root may.
    pub owners: bool,
    /// Of 100 operations, this many are syncs of an open file.
    pub syncs_percent: u64,
    /// The longest single write, bytes.
    pub write_bytes_max: u64,
    /// Holes, space, searches and copies within files, too.
    pub ranges: bool,
    /// Extended attributes, too: where both file systems have them.
    pub xattrs: bool,
}

impl Default for Mix {
    fn default() -> Mix {
        Mix { owners: false, syncs_percent: 2, write_bytes_max: WRITE_BYTES_MAX, ranges: false, xattrs: false }
    }
}

/// The operations of a seed, without an end.
pub struct Operations {
    random: Random,
    mix: Mix,
}

impl Operations {
    /// The operations of this seed.
    #[must_use]
    pub fn new(seed: u64, mix: Mix) -> Operations {
        Operations { random: Random::new(seed ^ 0x0f0e_5bad_c0ff_ee00), mix }
    }

    /// A path of one to three parts out of few names. Most files have files' names and most directories have directories', so that
    /// most operations find what they need; some do not, so that errors are compared, too.
    fn path(&mut self, leaves: [&[&str]; 2]) -> String {
        let mut parts = Vec::new();
        while parts.len() < 2 && self.random.below(2) == 0 {
            parts.push(*self.random.choose(DIRECTORIES));
        }
        let unusual = usize::from(self.random.below(8) == 0);
        parts.push(*self.random.choose(leaves[unusual]));
        parts.join("/")
    }

    fn file(&mut self) -> String {
        self.path([FILES, DIRECTORIES])
    }

    fn directory(&mut self) -> String {
        self.path([DIRECTORIES, FILES])
    }

    fn any(&mut self) -> String {
        if self.random.below(3) == 0 { self.directory() } else { self.file() }
    }

    fn place(&mut self) -> (u64, u64) {
        let sparse = self.random.below(20) == 0;
        let offset = self.random.size(if sparse { SPARSE_BYTES_MAX } else { COMMON_BYTES_MAX });
        (offset, self.random.size(self.mix.write_bytes_max))
    }

    fn slot(&mut self) -> u64 {
        self.random.below(OPEN_MAX)
    }

    fn of_data(&mut self) -> Operation {
        let path = self.file();
        let (offset, len) = self.place();
        let seed = self.random.bits();
        match self.random.below(12) {
            0..=4 => Operation::Write { path, offset, len, seed },
            5 => Operation::Append { path, len, seed },
            6 => Operation::Truncate { path, size: offset },
            7 => Operation::Empty { path },
            _ => Operation::Read { path, offset, len },
        }
    }

    fn of_ranges(&mut self) -> Operation {
        let path = self.file();
        let (offset, len) = self.place();
        let (keep, punch, zero) = (FallocateFlags::KEEP_SIZE, FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE);
        match self.random.below(10) {
            0..=5 => {
                // The last one is what no file system takes.
                let modes = [punch | keep, punch | keep, zero, zero | keep, FallocateFlags::empty(), keep, punch];
                Operation::Allocate { path, mode: self.random.choose(&modes).bits(), offset, len }
            }
            6 | 7 => Operation::Seek { path, offset, data: self.random.below(2) == 0 },
            _ => {
                let (to_offset, len) = self.place();
                Operation::CopyRange { from: path, from_offset: offset, to: self.file(), to_offset, len }
            }
        }
    }

    fn of_xattrs(&mut self) -> Operation {
        let path = self.any();
        let name = *self.random.choose(&["user.a", "user.b", "user.a.long.name", "none"]);
        let flags = *self.random.choose(&[XattrFlags::empty(), XattrFlags::empty(), XattrFlags::CREATE, XattrFlags::REPLACE]);
        match self.random.below(9) {
            0..=3 => Operation::SetXattr { path, name, len: self.random.below(80), seed: self.random.bits(), flags: flags.bits() },
            4 | 5 => Operation::GetXattr { path, name },
            6 => Operation::RemoveXattr { path, name },
            _ => Operation::ListXattr { path },
        }
    }

    fn of_open_files(&mut self) -> Operation {
        let slot = self.slot();
        let (offset, len) = self.place();
        let seed = self.random.bits();
        match self.random.below(10) {
            0..=2 => Operation::Open { slot, path: self.file() },
            3..=5 => Operation::WriteOpen { slot, offset, len, seed },
            6 | 7 => Operation::ReadOpen { slot, offset, len },
            8 => Operation::TruncateOpen { slot, size: offset },
            _ => Operation::Close { slot },
        }
    }

    fn of_names(&mut self) -> Operation {
        let mode = 0o700 | self.random.below(0o100) as u32;
        match self.random.below(18) {
            0..=5 => Operation::Create { path: self.file(), mode: mode & 0o766 },
            6..=8 => Operation::MakeDir { path: self.directory(), mode },
            9 => Operation::Unlink { path: self.file() },
            10 => Operation::RemoveDir { path: self.directory() },
            11..=13 => {
                let flags = *self.random.choose(&[0, 0, 0, RenameFlags::NOREPLACE.bits(), RenameFlags::EXCHANGE.bits()]);
                let (from, to) = if self.random.below(3) == 0 { (self.directory(), self.directory()) } else { (self.file(), self.file()) };
                Operation::Rename { from, to, flags }
            }
            14 => Operation::SymLink { target: self.any(), path: self.file() },
            15 | 16 => Operation::Link { from: self.file(), to: self.file() },
            _ => Operation::List { path: self.directory() },
        }
    }

    fn of_attributes(&mut self) -> Operation {
        let path = self.any();
        match self.random.below(if self.mix.owners { 6 } else { 5 }) {
            0 => Operation::Mode { path, mode: 0o700 | self.random.below(0o100) as u32 },
            1 => {
                // Before the epoch, and after 32 bits of seconds would have ended the other way.
                let seconds = self.random.below(1_100_000_000) as i64 - 50_000_000;
                let nanoseconds = self.random.below(1_000_000_000) as i64;
                Operation::Times { path, seconds, nanoseconds, follow: self.random.below(2) == 0 }
            }
            5 => Operation::Owner { path, uid: self.random.below(3) as u32 * 1000, gid: self.random.below(3) as u32 * 1000 },
            _ => Operation::Stat { path },
        }
    }
}

impl Iterator for Operations {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        let drawn = self.random.below(100);
        if drawn < self.mix.syncs_percent {
            return Some(match self.random.below(4) {
                0 => Operation::SyncDir { path: self.directory() },
                data_only => Operation::SyncOpen { slot: self.slot(), data_only: data_only == 1 },
            });
        }
        let rare = if self.mix.ranges || self.mix.xattrs { self.random.below(100) } else { 50 };
        if self.mix.ranges && rare < 12 {
            return Some(self.of_ranges());
        }
        if self.mix.xattrs && rare >= 92 {
            return Some(self.of_xattrs());
        }
        Some(match drawn {
            0..=34 => self.of_data(),
            35..=59 => self.of_open_files(),
            60..=86 => self.of_names(),
            _ => self.of_attributes(),
        })
    }
}

/// Carries operations out below a directory.
pub struct Executor {
    root: PathBuf,
    open: Vec<Option<File>>,
}

/// What an operation came to: a description that is equal on file systems that behave the same, or an error number.
pub type Seen = Result<String, i32>;

impl Executor {
    /// An executor below `root`.
    #[must_use]
    pub fn new(root: &Path) -> Executor {
        Executor { root: root.to_owned(), open: (0..OPEN_MAX).map(|_| None).collect() }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn opened(&self, slot: u64) -> io::Result<&File> {
        self.open[slot as usize].as_ref().ok_or_else(|| io::Error::from_raw_os_error(9))
    }

    /// Carries one operation out.
    pub fn run(&mut self, operation: &Operation) -> Seen {
        self.carry_out(operation).map_err(|error| error.raw_os_error().unwrap_or(-1))
    }

    /// The path that an operation writes to, if it has one: an open file is found through its descriptor.
    #[must_use]
    pub fn target(&self, operation: &Operation) -> Option<PathBuf> {
        match operation {
            Operation::Write { path, .. } | Operation::Append { path, .. } => Some(self.at(path)),
            Operation::WriteOpen { slot, .. } => {
                let file = self.opened(*slot).ok()?;
                Some(PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file))))
            }
            _ => None,
        }
    }

    fn carry_out(&mut self, operation: &Operation) -> io::Result<String> {
        let nothing = || Ok(String::new());
        match operation {
            Operation::Create { path, mode } => {
                let how = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                sys::open(self.at(path), how, Mode::from_raw_mode(*mode))?;
                nothing()
            }
            Operation::Write { path, offset, len, seed } => write(&File::options().write(true).open(self.at(path))?, *offset, *len, *seed),
            Operation::Append { path, len, seed } => {
                let file = File::options().append(true).open(self.at(path))?;
                let count = io::Write::write(&mut &file, &Random::bytes(*seed, *len as usize))?;
                Ok(format!("{count} bytes appended"))
            }
            Operation::Truncate { path, size } => {
                File::options().write(true).open(self.at(path))?.set_len(*size)?;
                nothing()
            }
            Operation::Empty { path } => {
                File::options().write(true).truncate(true).open(self.at(path))?;
                nothing()
            }
            Operation::Read { path, offset, len } => read(&File::open(self.at(path))?, *offset, *len),
            Operation::Open { slot, path } => {
                self.open[*slot as usize] = Some(File::options().read(true).write(true).open(self.at(path))?);
                nothing()
            }
            Operation::WriteOpen { slot, offset, len, seed } => write(self.opened(*slot)?, *offset, *len, *seed),
            Operation::ReadOpen { slot, offset, len } => read(self.opened(*slot)?, *offset, *len),
            Operation::TruncateOpen { slot, size } => {
                self.opened(*slot)?.set_len(*size)?;
                let metadata = self.opened(*slot)?.metadata()?;
                Ok(format!("{} bytes, {} names", metadata.size(), metadata.nlink()))
            }
            Operation::SyncOpen { slot, data_only } => {
                let file = self.opened(*slot)?;
                if *data_only {
                    file.sync_data()?
                } else {
                    file.sync_all()?
                }
                nothing()
            }
            Operation::Close { slot } => {
                self.open[*slot as usize] = None;
                nothing()
            }
            other => self.carry_out_on_names(other),
        }
    }

    fn carry_out_on_names(&self, operation: &Operation) -> io::Result<String> {
        match operation {
            Operation::Rename { from, to, flags } => {
                sys::renameat_with(sys::CWD, self.at(from), sys::CWD, self.at(to), RenameFlags::from_bits_retain(*flags))?;
            }
            Operation::Unlink { path } => sys::unlink(self.at(path))?,
            Operation::MakeDir { path, mode } => sys::mkdir(self.at(path), Mode::from_raw_mode(*mode))?,
            Operation::RemoveDir { path } => sys::rmdir(self.at(path))?,
            Operation::SymLink { target, path } => sys::symlink(target, self.at(path))?,
            Operation::Link { from, to } => sys::link(self.at(from), self.at(to))?,
            Operation::Mode { path, mode } => std::fs::set_permissions(self.at(path), Permissions::from_mode(*mode))?,
            Operation::Owner { path, uid, gid } => {
                let (uid, gid) = (Uid::from_raw(*uid), Gid::from_raw(*gid));
                sys::chownat(sys::CWD, self.at(path), Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
            }
            Operation::Times { path, seconds, nanoseconds, follow } => {
                let time = Timespec { tv_sec: *seconds, tv_nsec: *nanoseconds };
                let times = Timestamps { last_access: time, last_modification: time };
                let flags = if *follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
                sys::utimensat(sys::CWD, self.at(path), &times, flags)?;
            }
            Operation::Stat { path } => return stat(&self.at(path)),
            Operation::List { path } => return list(&self.at(path)),
            Operation::SyncDir { path } => {
                let directory = sys::open(self.at(path), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
                sys::fsync(directory)?;
            }
            Operation::Seek { path, offset, data } => {
                return search(&File::options().read(true).write(true).open(self.at(path))?, *offset, *data);
            }
            Operation::Allocate { path, mode, offset, len } => {
                let file = File::options().write(true).open(self.at(path))?;
                sys::fallocate(&file, FallocateFlags::from_bits_retain(*mode), *offset, *len)?;
                return Ok(format!("{} bytes", file.metadata()?.size()));
            }
            Operation::CopyRange { from, from_offset, to, to_offset, len } => {
                let (from, to) = (File::open(self.at(from))?, File::options().write(true).open(self.at(to))?);
                let count = sys::copy_file_range(&from, Some(&mut { *from_offset }), &to, Some(&mut { *to_offset }), *len as usize)?;
                return Ok(format!("{count} bytes copied"));
            }
            Operation::SetXattr { path, name, len, seed, flags } => {
                sys::setxattr(self.at(path), *name, &Random::bytes(*seed, *len as usize), XattrFlags::from_bits_retain(*flags))?;
            }
            Operation::GetXattr { path, name } => {
                let mut value = [0; 100];
                let len = sys::getxattr(self.at(path), *name, &mut value)?;
                return Ok(format!("{:?}", &value[..len]));
            }
            Operation::RemoveXattr { path, name } => sys::removexattr(self.at(path), *name)?,
            Operation::ListXattr { path } => return list_xattrs(&self.at(path)),
            of_data => unreachable!("{of_data:?} is carried out elsewhere"),
        }
        Ok(String::new())
    }
}

fn write(file: &File, offset: u64, len: u64, seed: u64) -> io::Result<String> {
    let count = file.write_at(&Random::bytes(seed, len as usize), offset)?;
    Ok(format!("{count} bytes written"))
}

fn read(file: &File, offset: u64, len: u64) -> io::Result<String> {
    let mut bytes = vec![0; len as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(format!("{filled} bytes with CRC {:08x}", crc32c::crc32c(&bytes[..filled])))
}

fn stat(path: &Path) -> io::Result<String> {
    let metadata = path.symlink_metadata()?;
    let (mode, uid, gid) = (metadata.mode(), metadata.uid(), metadata.gid());
    // A directory's size and number of names are a file system's own affair.
    let (size, names) = if metadata.is_dir() { (0, 0) } else { (metadata.size(), metadata.nlink()) };
    let mtime_ns = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    let mtime = if mtime_ns < CLOCK_TIMES_FROM_NS { mtime_ns.to_string() } else { "the clock's".into() };
    let target = if metadata.is_symlink() { std::fs::read_link(path)?.display().to_string() } else { String::new() };
    Ok(format!("mode {mode:o} owner {uid}:{gid} size {size} names {names} mtime {mtime} target {target}"))
}

fn list(path: &Path) -> io::Result<String> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        entries.push(format!("{:?} {:?}", entry.file_name(), entry.file_type()?));
    }
    entries.sort();
    Ok(entries.join(", "))
}

/// The names of the user's extended attributes.
fn list_xattrs(path: &Path) -> io::Result<String> {
    let mut names = vec![0; 1 << 16];
    let len = sys::listxattr(path, &mut names)?;
    let all = names[..len].split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let mut own: Vec<_> = all.filter(|name| name.starts_with("user.")).collect();
    own.sort();
    Ok(own.join(", "))
}

/// Where exactly data and holes begin is a file system's own affair. What it says must agree with the bytes.
fn search(file: &File, offset: u64, data: bool) -> io::Result<String> {
    let size = file.metadata()?.size();
    let zeros = |from: u64, to: u64| -> io::Result<bool> {
        let mut bytes = vec![0; (to - from) as usize];
        file.read_exact_at(&mut bytes, from)?;
        Ok(bytes.iter().all(|byte| *byte == 0))
    };
    let found = sys::seek(file, if data { SeekFrom::Data(offset) } else { SeekFrom::Hole(offset) });
    let is_right = match found {
        Ok(at) if data => (offset..size).contains(&at) && zeros(offset, at)?,
        Ok(at) => (offset..=size).contains(&at) && (at == size || zeros(at, at + 1)?),
        Err(rustix::io::Errno::NXIO) => offset >= size || data && zeros(offset, size)?,
        Err(error) => return Err(error.into()),
    };
    if is_right { Ok(String::new()) } else { Err(io::Error::other(format!("a search from {offset} gave {found:?}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_seed_gives_the_same_operations_and_most_kinds_succeed() {
        let mix = Mix { owners: crate::process::is_root(), ranges: true, ..Mix::default() };
        let first: Vec<Operation> = Operations::new(7, mix).take(3000).collect();
        assert_eq!(first, Operations::new(7, mix).take(3000).collect::<Vec<_>>());
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (mut left, mut right) = (Executor::new(one.path()), Executor::new(two.path()));
        let mut succeeded: BTreeMap<String, u32> = BTreeMap::new();
        for operation in &first {
            let seen = left.run(operation);
            assert_eq!(seen, right.run(operation), "{operation:?}");
            let kind = format!("{operation:?}").split(' ').next().unwrap().to_owned();
            *succeeded.entry(kind).or_default() += u32::from(seen.is_ok());
        }
        assert!(succeeded.len() >= 26, "{succeeded:?}");
        assert!(succeeded.values().all(|count| *count > 0), "{succeeded:?}");
        assert!(succeeded.values().sum::<u32>() > 1000, "{succeeded:?}");
        let trees = [&one, &two].map(|root| crate::listing::list(root.path()).unwrap());
        crate::listing::assert_same(&trees[0], &trees[1], crate::listing::Times::Set, "the same operations on two directories");
    }
}
