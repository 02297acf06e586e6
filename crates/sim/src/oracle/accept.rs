//! Whether an answer is the one that a state calls for; what an answer shows is then known for good.

use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_core::attr::{Attr, Kind};
use forebay_core::errno::Errno;
use forebay_core::id::{Ino, Name};
use forebay_core::message::{DirEntry, Place, PlacedRange, Reply, SeekWhence};

use super::expected::Expected;
use super::state::{DirHandle, Inode, ModelIno, State, TimeSpan};

/// Where a name stands in a listing.
fn cookie_of(name: &Name) -> u64 {
    DirEntry { ino: Ino::ROOT, kind: Kind::File, name: name.clone() }.cookie()
}

impl State {
    /// Checks an answer against what it must be, and notes what it shows: numbers, times, and what a crash had left open.
    ///
    /// # Errors
    /// Says why this state does not allow the answer.
    pub fn accept(&mut self, expected: &Expected, reply: &Reply, payload: &[u8]) -> Result<(), String> {
        match (expected, reply) {
            (Expected::Anything, reply) => self.accept_anything(reply),
            (Expected::Done, Reply::Done) => Ok(()),
            (Expected::DoneOrGone(_), Reply::Error { errno: Errno::ENOENT | Errno::ESTALE }) => Ok(()),
            (Expected::DoneOrGone(expected), reply) => self.accept(expected, reply, payload),
            (Expected::Error(allowed), Reply::Error { errno }) if allowed.contains(errno) => Ok(()),
            (Expected::Entry(model, inode), Reply::Entry { ino, attr } | Reply::Created { ino, attr }) => {
                // It may have lost its last name between this request and its answer.
                self.inodes.entry(*model).or_insert_with(|| Rc::new(Inode { nlink: 0, opens: 0, ..(**inode).clone() }));
                self.bind(*ino, *model)?;
                self.accept_attr(*model, inode, attr)
            }
            (Expected::Attr(model, inode), Reply::Attr { attr }) => self.accept_attr(*model, inode, attr),
            (Expected::Target(expected), Reply::Target { target }) if expected == target => Ok(()),
            (Expected::Read { ino, inode, offset, len }, Reply::Read { len: got }) => {
                self.accept_read(*ino, inode, *offset, *len, &payload[..*got as usize])
            }
            (Expected::Written { offset, len, .. }, Reply::Written { offset: at, len: taken, .. }) if offset == at && len == taken => {
                Ok(())
            }
            (Expected::Found { inode, offset, whence }, reply) => check_found(inode, *offset, *whence, reply),
            (Expected::Xattr(expected), Reply::Xattr { value }) if expected == value => Ok(()),
            (Expected::XattrNames(expected), Reply::XattrNames { names }) if expected == names => Ok(()),
            (Expected::DirOpened(dir), Reply::DirOpened { handle }) => {
                self.handles.insert(*handle, DirHandle { dir: *dir, left: BTreeMap::new(), lost: false });
                Ok(())
            }
            (Expected::Entries { handle, from, max, inode }, Reply::Entries { entries }) => {
                self.accept_entries(*handle, *from, *max, inode, entries)
            }
            (Expected::Where { inode, from, max }, Reply::Where { ranges, size, buffered_bytes, dirty_bytes }) => {
                check_size(inode, *size)?;
                check_ranges(ranges, *from, *max, *size, *buffered_bytes, *dirty_bytes)
            }
            (expected, reply) => Err(format!("the answer was {reply:?}, expected was {}", brief(expected))),
        }
    }

    fn accept_anything(&mut self, reply: &Reply) -> Result<(), String> {
        match reply {
            Reply::Entry { .. } | Reply::Created { .. } => Err(format!("{reply:?} names an inode that the model does not know")),
            _ => Ok(()),
        }
    }

    fn accept_attr(&mut self, model: ModelIno, seen: &Rc<Inode>, attr: &Attr) -> Result<(), String> {
        check_attr(seen, attr).map_err(|what| format!("attributes of {model:?}: {what}"))?;
        // What has changed since the answer was settled is not what the answer shows.
        if Rc::ptr_eq(self.inode_if_there(model).unwrap_or(seen), seen) && self.inodes.contains_key(&model) {
            let open_time = seen.mtime != TimeSpan::exactly(attr.mtime_ns);
            let open_size = seen.file().is_some_and(|data| data.size != data.size_max);
            if open_time {
                self.inode_mut(model).mtime = TimeSpan::exactly(attr.mtime_ns);
            }
            if open_size {
                self.file_mut(model).settle_size(attr.size);
            }
        }
        Ok(())
    }

    fn inode_if_there(&self, model: ModelIno) -> Option<&Rc<Inode>> {
        self.inodes.get(&model)
    }

    fn accept_read(&mut self, model: ModelIno, seen: &Rc<Inode>, offset: u64, len: u32, bytes: &[u8]) -> Result<(), String> {
        let data = seen.file().ok_or("a read of what is not a file succeeded")?;
        let (got, asked) = (bytes.len() as u64, u64::from(len));
        let least = data.size.saturating_sub(offset).min(asked);
        let most = data.size_max.saturating_sub(offset).min(asked);
        if !(least..=most).contains(&got) {
            return Err(format!("a read of {len} bytes at {offset} of {model:?} gave {got} bytes; its size is {}", data.size));
        }
        if let Some(at) = data.first_wrong(offset, bytes) {
            let skip = (at - offset) as usize;
            let expected = data.bytes.slice(at, (bytes.len() - skip).min(16));
            return Err(format!(
                "byte {at} of {model:?} (read of {len} at {offset}) is wrong: {}",
                Wrong { seen: &bytes[skip..], expected: &expected }
            ));
        }
        if self.inode_if_there(model).is_some_and(|inode| Rc::ptr_eq(inode, seen)) {
            match got {
                0 if asked > 0 => self.file_mut(model).ends_by(offset),
                got if got < asked => self.file_mut(model).settle_size(offset + got),
                _ => {}
            }
            if !data.is_settled() {
                self.file_mut(model).settle_bytes(offset, bytes);
            }
        }
        Ok(())
    }

    fn accept_entries(&mut self, handle: u64, from: u64, max: u32, seen: &Rc<Inode>, entries: &[DirEntry]) -> Result<(), String> {
        let mut left = if from == 0 {
            seen.dir().ok_or("a listing of what is not a directory succeeded")?.clone()
        } else {
            let open = self.handles.get(&handle).ok_or("an unknown directory handle was listed")?;
            let later = |(name, ino): (&Name, &ModelIno)| (cookie_of(name) > from).then(|| (name.clone(), *ino));
            match seen.dir().filter(|_| open.lost) {
                Some(now) => now.iter().filter_map(later).collect(),
                None => open.left.clone(),
            }
        };
        let expected_count = left.len().min(max as usize);
        if entries.len() != expected_count {
            return Err(format!(
                "a listing gave {} entries {:?}, expected were {expected_count} of {left:?}",
                entries.len(),
                names(entries)
            ));
        }
        for entry in entries {
            let Some(model) = left.remove(&entry.name) else {
                return Err(format!("a listing gave {:?}, which is not or no longer among {left:?}", entry.name));
            };
            self.check_entry(entry, model)?;
        }
        if let Some(handle) = self.handles.get_mut(&handle) {
            (handle.left, handle.lost) = (left, false);
        }
        Ok(())
    }

    fn check_entry(&self, entry: &DirEntry, model: ModelIno) -> Result<(), String> {
        if let Some(inode) = self.inode_if_there(model)
            && inode.kind != entry.kind
        {
            return Err(format!("a listing says that {:?} is a {:?}, but it is a {:?}", entry.name, entry.kind, inode.kind));
        }
        match self.inos.get(&entry.ino) {
            Some(bound) if *bound != model => {
                Err(format!("a listing says that {:?} is {:?}, which is {bound:?}, not {model:?}", entry.name, entry.ino))
            }
            _ => Ok(()),
        }
    }
}

/// Checks what was read against all that the file may have been meanwhile, byte by byte.
///
/// # Errors
/// Says what none of these explains.
pub fn check_read_of_any(versions: &[Rc<Inode>], offset: u64, len: u32, bytes: &[u8]) -> Result<(), String> {
    let files: Vec<_> = versions.iter().filter_map(|inode| inode.file()).collect();
    let there = |size: u64| size.saturating_sub(offset).min(u64::from(len));
    let least = files.iter().map(|data| there(data.size)).min().unwrap_or(0);
    let most = files.iter().map(|data| there(data.size_max)).max().unwrap_or(0);
    let got = bytes.len() as u64;
    if !(least..=most).contains(&got) {
        return Err(format!("a read of {len} bytes at {offset} gave {got} bytes, expected were {least} to {most}"));
    }
    let slices: Vec<Vec<u8>> = files.iter().map(|data| data.bytes.slice(offset, bytes.len())).collect();
    for (index, seen) in bytes.iter().enumerate() {
        let at = offset + index as u64;
        let other = |data: &&super::state::FileData| data.others.contains(at, *seen);
        if !slices.iter().any(|slice| slice[index] == *seen) && !files.iter().any(other) {
            let seen = Wrong { seen: &bytes[index..], expected: &slices[0][index..(index + 16).min(bytes.len())] };
            return Err(format!("byte {at} is of no version: {seen}"));
        }
    }
    Ok(())
}

/// A search for data or a hole: nothing but zeros may be passed over, and a hole holds zeros.
fn check_found(inode: &Inode, offset: u64, whence: SeekWhence, reply: &Reply) -> Result<(), String> {
    let data = inode.file().ok_or("a search in what is not a file succeeded")?;
    if data.size != data.size_max || !data.is_settled() {
        return Ok(());
    }
    let size = data.size;
    let is_right = match (whence, reply) {
        (_, Reply::Error { errno: Errno::ENXIO }) if offset >= size => true,
        (_, _) if offset >= size => false,
        (SeekWhence::Data, Reply::Error { errno: Errno::ENXIO }) => data.bytes.find(offset, size, false).is_none(),
        (SeekWhence::Data, Reply::Offset { offset: at }) => (offset..size).contains(at) && data.bytes.find(offset, *at, false).is_none(),
        (SeekWhence::Hole, Reply::Offset { offset: at }) => (offset..size).contains(at) && data.bytes.slice(*at, 1) == [0] || *at == size,
        _ => false,
    };
    if is_right { Ok(()) } else { Err(format!("a search for {whence:?} from {offset} in a file of {size} bytes gave {reply:?}")) }
}

fn check_size(inode: &Inode, size: u64) -> Result<(), String> {
    match inode.file() {
        Some(data) if !(data.size..=data.size_max).contains(&size) => {
            Err(format!("the size is {size}, expected was {} to {}", data.size, data.size_max))
        }
        _ => Ok(()),
    }
}

/// Where a file is: ranges without a gap from where it was asked for, to the end unless there are as many as were asked for.
///
/// # Errors
/// Says what is wrong with them.
fn check_ranges(ranges: &[PlacedRange], from: u64, max: u32, size: u64, buffered: u64, dirty: u64) -> Result<(), String> {
    let mut at = from.min(size);
    let (mut buffered_seen, mut dirty_seen) = (0, 0);
    for range in ranges {
        let in_buffer = matches!(range.place, Place::Memory | Place::Ssd);
        if range.offset != at || range.len == 0 || range.offset + range.len > size || (range.dirty && !in_buffer) {
            return Err(format!("{range:?} cannot follow at {at} of a file of {size} bytes, in {ranges:?}"));
        }
        at += range.len;
        buffered_seen += if in_buffer { range.len } else { 0 };
        dirty_seen += if range.dirty { range.len } else { 0 };
    }
    if ranges.len() > max as usize || (ranges.len() < max as usize && at != size) {
        return Err(format!("{} ranges of at most {max} end at {at} of {size}: {ranges:?}", ranges.len()));
    }
    let whole = from == 0 && at == size;
    if buffered_seen > buffered || dirty_seen > dirty || whole && (buffered_seen, dirty_seen) != (buffered, dirty) {
        return Err(format!("{buffered} bytes are said to be in the buffer and {dirty} to be dirty, but there are {ranges:?}"));
    }
    Ok(())
}

/// Attributes against the model's inode.
///
/// # Errors
/// Says which attribute is wrong.
pub fn check_attr(inode: &Inode, attr: &Attr) -> Result<(), String> {
    let owner = (inode.kind, inode.uid, inode.gid);
    if owner != (attr.kind, attr.uid, attr.gid) {
        return Err(format!("kind and owner are {:?}, expected were {owner:?}", (attr.kind, attr.uid, attr.gid)));
    }
    if inode.kind != Kind::Symlink && inode.mode != attr.mode {
        return Err(format!("the mode is {:o}, expected was {:o}", attr.mode, inode.mode));
    }
    if inode.kind != Kind::Directory && inode.nlink != attr.nlink {
        return Err(format!("it has {} names, expected were {}", attr.nlink, inode.nlink));
    }
    check_size(inode, attr.size)?;
    if !inode.mtime.contains(attr.mtime_ns) {
        return Err(format!("the mtime is {}, expected was one of {:?}", attr.mtime_ns, inode.mtime.0));
    }
    Ok(())
}

/// Bytes that are not the expected ones; a message that can be explained later, when all writes are at hand.
struct Wrong<'a> {
    seen: &'a [u8],
    expected: &'a [u8],
}

impl std::fmt::Display for Wrong<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seen = &self.seen[..self.seen.len().min(16)];
        write!(f, "seen {{{}}} expected {{{}}}", hex(seen), hex(self.expected))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn names(entries: &[DirEntry]) -> Vec<(&Name, Ino)> {
    entries.iter().map(|entry| (&entry.name, entry.ino)).collect()
}

/// An expectation without its bytes.
fn brief(expected: &Expected) -> String {
    match expected {
        Expected::Entry(ino, inode) => format!("an entry: {ino:?}, a {:?}", inode.kind),
        Expected::Attr(ino, _) => format!("attributes of {ino:?}"),
        Expected::Read { ino, offset, len, .. } => format!("{len} bytes of {ino:?} at {offset}"),
        Expected::Entries { inode, .. } => format!("a listing of {:?}", inode.dir().map(|dir| dir.keys().collect::<Vec<_>>())),
        other => format!("{other:?}"),
    }
}
