//! From a request of the kernel and its answer to a record.

use std::time::Instant;

use forebay_core::errno::Errno;
use forebay_core::id::Ino;
use forebay_trace::{FileId, Flags, Op, Process, ProcessId, Record};
use rustix::fs::{OFlags, RenameFlags};

use super::who::{self, Look};
use super::{Opened, Recorder, State};
use crate::abi::{self, Reader, setattr};
use crate::answer::ENTRY_BYTES;
use crate::filesystem::Outcome;
use crate::operation::{Header, Operation};
use crate::virtual_files::is_virtual;

/// A request that was served, and its answer.
pub(crate) struct Seen<'a> {
    pub(crate) header: &'a Header,
    pub(crate) operation: Operation<'a>,
    /// When it was read.
    pub(crate) begun: Instant,
    pub(crate) outcome: Result<Outcome, Errno>,
    /// Of the answer.
    pub(crate) body: &'a [u8],
    /// Programs read and write past the kernel's pages: what is about pages is of a mapping.
    pub(crate) direct_io: bool,
}

fn open_flags(flags: u32) -> Flags {
    let flags = OFlags::from_bits_retain(flags);
    let access = flags & OFlags::RWMODE;
    let mut known = Flags::NONE;
    let mut add = |is_set, flag| known |= if is_set { flag } else { Flags::NONE };
    add(access != OFlags::WRONLY, Flags::FOR_READING);
    add(access == OFlags::WRONLY || access == OFlags::RDWR, Flags::FOR_WRITING);
    add(flags.contains(OFlags::TRUNC), Flags::TRUNCATE);
    known | data_flags(flags.bits())
}

/// How bytes move through an open file.
fn data_flags(flags: u32) -> Flags {
    let flags = OFlags::from_bits_retain(flags);
    let mut known = Flags::NONE;
    for (flag, meaning) in [(OFlags::APPEND, Flags::APPEND), (OFlags::DIRECT, Flags::DIRECT), (OFlags::DSYNC, Flags::SYNC)] {
        // O_SYNC contains O_DSYNC.
        known |= if flags.contains(flag) { meaning } else { Flags::NONE };
    }
    known
}

/// What of a request stands in its record.
struct Told {
    op: Op,
    flags: Flags,
    offset: u64,
    size: u64,
}

/// None for what is no operation of a program.
fn told(operation: &Operation<'_>, direct_io: bool) -> Option<Told> {
    let plain = |op| Told { op, flags: Flags::NONE, offset: 0, size: 0 };
    let mapped = |is_mapped| if is_mapped { Flags::MAPPED } else { Flags::NONE };
    Some(match operation {
        Operation::Lookup { .. } | Operation::GetAttr | Operation::Access { .. } => plain(Op::Stat),
        Operation::SetAttr(set) if set.valid & setattr::SIZE != 0 => Told { size: set.size, ..plain(Op::Truncate) },
        Operation::SetAttr(_) => plain(Op::SetAttr),
        Operation::ReadLink => plain(Op::ReadLink),
        Operation::SymLink { .. } => plain(Op::Symlink),
        Operation::MakeNode { .. } => plain(Op::Create),
        Operation::MakeDir { .. } => plain(Op::Mkdir),
        Operation::Unlink { .. } => plain(Op::Unlink),
        Operation::RemoveDir { .. } => plain(Op::Rmdir),
        Operation::Rename { .. } => plain(Op::Rename),
        Operation::Link { .. } => plain(Op::Link),
        Operation::Open { flags } => Told { flags: open_flags(*flags), ..plain(Op::Open) },
        Operation::Create { flags, .. } => Told { flags: open_flags(*flags) | Flags::CREATE, ..plain(Op::Open) },
        Operation::OpenDir => Told { flags: Flags::FOR_READING, ..plain(Op::Open) },
        Operation::Release { .. } | Operation::ReleaseDir { .. } => plain(Op::Close),
        Operation::Read { offset, len, for_pages, flags } => {
            let flags = data_flags(*flags) | mapped(*for_pages && direct_io);
            Told { op: Op::Read, flags, offset: *offset, size: u64::from(*len) }
        }
        Operation::Write { offset, write_flags, flags, data } => {
            let of_pages = write_flags & abi::WRITE_OF_CACHE != 0;
            // The kernel's writer uses whatever file happens to be open.
            let flags = if of_pages { mapped(direct_io) } else { data_flags(*flags) };
            Told { op: Op::Write, flags, offset: *offset, size: data.len() as u64 }
        }
        Operation::Sync { data_only } => Told { flags: if *data_only { Flags::DATA_ONLY } else { Flags::NONE }, ..plain(Op::Sync) },
        Operation::StatFs => plain(Op::StatFs),
        Operation::SetXattr { value, .. } => Told { size: value.len() as u64, ..plain(Op::SetXattr) },
        Operation::RemoveXattr { .. } => plain(Op::SetXattr),
        Operation::GetXattr { size, .. } | Operation::ListXattr { size } => Told { size: u64::from(*size), ..plain(Op::GetXattr) },
        Operation::ReadDir { len, .. } => Told { size: u64::from(*len), ..plain(Op::ReadDir) },
        Operation::Fallocate { offset, len, .. } => Told { offset: *offset, size: *len, ..plain(Op::Allocate) },
        Operation::Seek { offset, .. } => Told { offset: *offset, ..plain(Op::Seek) },
        Operation::Ioctl => plain(Op::Other),
        // What the kernel does by itself, or is answered once and for all.
        Operation::Init { .. }
        | Operation::Destroy
        | Operation::Forget { .. }
        | Operation::BatchForget { .. }
        | Operation::Flush
        | Operation::Other => return None,
    })
}

/// The inode of an answer that begins with an entry; none if it says that there is no such name.
fn entry_of(body: &[u8]) -> Option<u64> {
    Reader::new(body.get(..ENTRY_BYTES)?).u64().filter(|ino| *ino != 0)
}

/// The size of a file in attributes that begin there in an answer; 0 for what is no file.
fn size_of(body: &[u8], attributes: usize) -> u64 {
    const SIZE: usize = 8;
    const MODE: usize = 60;
    let number = |at: usize| body.get(attributes + at..).map(Reader::new);
    let mode = number(MODE).and_then(|mut reader| reader.u32()).unwrap_or(0);
    let size = number(SIZE).and_then(|mut reader| reader.u64()).unwrap_or(0);
    if mode & 0o170_000 == 0o100_000 { size } else { 0 }
}

/// The handle in the answer to an OPENDIR.
fn handle_of(body: &[u8]) -> Option<u64> {
    Reader::new(body).u64()
}

/// Names and inodes in the answer to a READDIRPLUS.
fn entries_of(body: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let mut reader = Reader::new(rest);
        let ino = reader.u64()?;
        reader.skip(ENTRY_BYTES - 8 + 16)?;
        let len = reader.u32()? as usize;
        reader.skip(4)?;
        let name = reader.bytes(len)?;
        rest = rest.get(ENTRY_BYTES + (24 + len).next_multiple_of(8)..).unwrap_or_default();
        Some((name, ino))
    })
    .filter(|(_, ino)| *ino != 0)
}

impl State {
    /// The files that a request is about, as they are called before it has changed that.
    fn files(&mut self, node: u64, operation: &Operation<'_>) -> (FileId, FileId) {
        let State { paths, names, .. } = self;
        let file = match operation {
            Operation::Lookup { name }
            | Operation::SymLink { name, .. }
            | Operation::MakeNode { name, .. }
            | Operation::MakeDir { name, .. }
            | Operation::Unlink { name }
            | Operation::RemoveDir { name }
            | Operation::Create { name, .. }
            | Operation::Rename { name, .. } => paths.file_of_name(names, node, name),
            Operation::Link { node: linked, .. } => paths.file(names, *linked),
            Operation::StatFs => FileId::NONE,
            _ => paths.file(names, node),
        };
        let other = match operation {
            Operation::Rename { new_parent, new_name, .. } => paths.file_of_name(names, *new_parent, new_name),
            Operation::Link { new_name, .. } => paths.file_of_name(names, node, new_name),
            _ => FileId::NONE,
        };
        (file, other)
    }

    /// What a request that succeeded has changed in the names that the kernel knows.
    fn follow(&mut self, node: u64, operation: &Operation<'_>, body: &[u8]) {
        let State { paths, names, .. } = self;
        match operation {
            Operation::Lookup { name }
            | Operation::SymLink { name, .. }
            | Operation::MakeNode { name, .. }
            | Operation::MakeDir { name, .. }
            | Operation::Create { name, .. }
            | Operation::Link { new_name: name, .. } => {
                if let Some(ino) = entry_of(body) {
                    paths.entry(node, name, ino);
                }
            }
            Operation::ReadDir { plus: true, .. } => entries_of(body).for_each(|(name, ino)| paths.entry(node, name, ino)),
            Operation::Unlink { name } | Operation::RemoveDir { name } => paths.removed(names, node, name),
            Operation::Rename { name, new_parent, new_name, flags } => {
                let exchanged = RenameFlags::from_bits_retain(*flags).contains(RenameFlags::EXCHANGE);
                paths.renamed(names, (node, name), (*new_parent, new_name), exchanged);
            }
            _ => {}
        }
    }
}

impl Recorder {
    /// Writes down a request that was served, before its answer goes out: the next one may rest on what it says.
    pub(crate) fn seen(&self, seen: Seen<'_>) {
        let Seen { header, operation, begun, outcome, body, direct_io } = seen;
        match operation {
            Operation::Forget { count } => return self.state.lock().paths.forget(header.node, count),
            Operation::BatchForget { items } => {
                let mut state = self.state.lock();
                return items.for_each(|(ino, count)| state.paths.forget(ino, count));
            }
            _ => {}
        }
        let Some(told) = told(&operation, direct_io) else { return };
        let is_ours = entry_of(body).is_some_and(|ino| is_virtual(Ino(ino))) && matches!(operation, Operation::Lookup { .. });
        if is_ours || is_virtual(Ino(header.node)) {
            // Files that only the mount has.
            return;
        }
        let (end, is_open) = (Instant::now(), matches!(operation, Operation::Open { .. } | Operation::Create { .. } | Operation::OpenDir));
        let Some(process) = self.process(header.thread, end, is_open) else {
            if let Operation::OpenDir = operation {
                handle_of(body).map(|handle| self.state.lock().ours.insert(handle));
            }
            return;
        };
        let result = match &outcome {
            Err(errno) => -i64::from(errno.0),
            Ok(Outcome::Data(len)) => i64::from(*len),
            Ok(_) => match &operation {
                Operation::Lookup { .. } if entry_of(body).is_none() => -i64::from(Errno::ENOENT.0),
                Operation::Write { data, .. } => data.len() as i64,
                Operation::ReadDir { .. } => body.len() as i64,
                _ => 0,
            },
        };
        let mut state = self.state.lock();
        let (file, other) = state.files(header.node, &operation);
        let mut record = Record { file, other, process, flags: told.flags, ..Record::new(told.op, self.unix_ns(begun)) };
        (record.offset, record.size, record.result) = (told.offset, told.size, result);
        if outcome.is_ok() && result == 0 {
            record.size = match &operation {
                Operation::Lookup { .. } => size_of(body, 40),
                Operation::GetAttr => size_of(body, 16),
                _ => record.size,
            };
        }
        record.duration_ns = u64::try_from(end.saturating_duration_since(begun).as_nanos()).unwrap_or(u64::MAX);
        match &operation {
            Operation::Open { .. } | Operation::Create { .. } if outcome.is_ok() => {
                state.opened.insert((false, header.unique), Opened { process, flags: told.flags, file });
            }
            Operation::OpenDir => {
                let opened = Opened { process, flags: told.flags, file };
                handle_of(body).map(|handle| state.opened.insert((true, handle), opened));
            }
            Operation::ReleaseDir { handle } if state.ours.remove(handle) => return,
            Operation::Release { handle } | Operation::ReleaseDir { handle } => {
                let is_directory = matches!(operation, Operation::ReleaseDir { .. });
                if let Some(opened) = state.opened.remove(&(is_directory, *handle)) {
                    (record.process, record.flags, record.file) = (opened.process, opened.flags, opened.file);
                }
            }
            _ => {}
        }
        if outcome.is_ok() {
            state.follow(header.node, &operation, body);
        }
        state.push(record);
    }

    /// The process of a thread; with `anew`, it may have become another program just now. None for one of our own.
    fn process(&self, thread: u32, now: Instant, anew: bool) -> Option<ProcessId> {
        if thread == 0 {
            return Some(ProcessId::NONE);
        }
        let look = self.state.lock().who.look(thread, now, anew);
        // The kernel is asked without the lock.
        if let Look::Known(process) = look {
            return Some(process);
        }
        if let Look::Again = look {
            let command = who::command(thread);
            if let Some(process) = self.state.lock().who.runs(thread, &command, now) {
                return Some(process);
            }
        }
        let process = Process { host: self.host.clone(), ..who::process(thread)? };
        let mut state = self.state.lock();
        let command = process.command.clone();
        let id = state.names.process(process).unwrap_or(ProcessId::NONE);
        state.who.learn(thread, id, command, now);
        Some(id)
    }
}
