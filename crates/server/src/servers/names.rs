//! Names of files that are striped over servers. Each server has all of them; the first one counts.

use forebay_core::attr::Kind;
use forebay_core::effect::{HomeAttr, HomeChange, Outcome};
use forebay_core::entries::Entries;
use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Ino, Name};
use forebay_core::message::{SeekWhence, StatFs};
use forebay_core::xattr::Xattr;
use forebay_host::net::Answer;
use forebay_host::net::message::{Reply, Request, unpack};
use forebay_store::Home;

use super::data::Place;
use super::striped::ServersHome;

type Result<T> = std::result::Result<T, Errno>;

/// Bytes of paths in one request to sync; more go in several.
const SYNC_BYTES: usize = 64 << 10;
/// Machines that are started again while they sync, so often, are no home.
const SYNC_TRIES_MAX: usize = 5;

impl Home for ServersHome {
    fn describe(&self) -> String {
        self.name().to_owned()
    }

    fn list(&self, path: &HomePath) -> Result<Entries> {
        let answer = self.one(0, Request::List { path: path.clone() })?;
        unpack(&answer.payload).filter(|_| answer.reply == Reply::Listing).ok_or(Errno::EIO)
    }

    fn stat(&self, path: &HomePath) -> Result<HomeAttr> {
        let Reply::Stat(mut found) = self.one(0, Request::Stat { path: path.clone() })?.reply else { return Err(Errno::EIO) };
        if found.attr.kind == Kind::File {
            found.attr.size = self.layout.whole_len(0, found.attr.size);
            for (index, answer) in (1..).zip(self.others(&Request::Stat { path: path.clone() })?) {
                let Reply::Stat(part) = answer.reply else { return Err(Errno::EIO) };
                found.attr.size = found.attr.size.max(self.layout.whole_len(index, part.attr.size));
                found.attr.blocks += part.attr.blocks;
            }
        }
        Ok(found)
    }

    fn read_link(&self, path: &HomePath) -> Result<Name> {
        match self.one(0, Request::ReadLink { path: path.clone() })?.reply {
            Reply::Target(target) => Ok(target),
            _ => Err(Errno::EIO),
        }
    }

    /// As much as fits when the fullest server is full.
    fn stat_fs(&self) -> Result<StatFs> {
        let mut sum: Option<StatFs> = None;
        let servers = self.remotes.len() as u64;
        for answer in self.all(&Request::StatFs)? {
            let Reply::StatFs(one) = answer.reply else { return Err(Errno::EIO) };
            let least = sum.unwrap_or(one);
            sum = Some(StatFs {
                total_bytes: least.total_bytes.min(one.total_bytes),
                free_bytes: least.free_bytes.min(one.free_bytes),
                available_bytes: least.available_bytes.min(one.available_bytes),
                files: least.files.min(one.files),
                files_free: least.files_free.min(one.files_free),
                name_bytes_max: least.name_bytes_max.min(one.name_bytes_max),
            });
        }
        let least = sum.ok_or(Errno::EIO)?;
        Ok(StatFs {
            total_bytes: least.total_bytes.saturating_mul(servers),
            free_bytes: least.free_bytes.saturating_mul(servers),
            available_bytes: least.available_bytes.saturating_mul(servers),
            ..least
        })
    }

    fn xattrs(&self, path: &HomePath) -> Result<Vec<Xattr>> {
        match self.one(0, Request::Xattrs { path: path.clone() })?.reply {
            Reply::Xattrs(xattrs) => Ok(xattrs),
            _ => Err(Errno::EIO),
        }
    }

    fn read(&self, ino: Ino, path: &HomePath, offset: u64, buf: &mut [u8]) -> Result<u32> {
        self.read_bytes(Place { ino, path, offset, len: buf.len() as u64 }, buf)
    }

    fn write(&self, ino: Ino, path: &HomePath, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_bytes(Place { ino, path, offset, len: bytes.len() as u64 }, bytes)
    }

    fn compare(&self, ino: Ino, path: &HomePath, offset: u64, len: u64, crc: u32) -> Result<bool> {
        self.compare_bytes(Place { ino, path, offset, len }, crc)
    }

    fn compare_zeros(&self, ino: Ino, path: &HomePath, offset: u64, len: u64) -> Result<bool> {
        self.compare_zero_bytes(Place { ino, path, offset, len })
    }

    fn seek(&self, ino: Ino, path: &HomePath, offset: u64, whence: SeekWhence) -> Result<Option<u64>> {
        self.seek_bytes(ino, path, offset, whence)
    }

    /// What a machine has lost that was started again meanwhile is done again first.
    fn sync(&self, files: &[(Ino, HomePath)], directories: &[HomePath]) -> Result<()> {
        let _alone = self.syncing.lock();
        for _ in 0..SYNC_TRIES_MAX {
            self.redo_what_was_lost()?;
            let marks: Vec<u64> = self.unsettled.iter().map(|unsettled| unsettled.lock().next).collect();
            let done = self.sync_now(files, directories);
            // Else an error may be for want of what was lost.
            if self.is_nothing_lost() {
                done?;
                for (unsettled, mark) in self.unsettled.iter().zip(marks) {
                    unsettled.lock().changes.retain(|(number, _)| *number >= mark);
                }
                return Ok(());
            }
        }
        Err(Errno::EIO)
    }

    /// Names are made on the first server last, and removed there first: a name that can be found has all its parts. Whatever fails in
    /// between is done again as a whole.
    fn change(&self, change: &HomeChange) -> Result<Outcome> {
        let (first, others) = (0..1, 1..self.remotes.len());
        let same = |servers: std::ops::Range<usize>| self.changes(servers.map(|index| (index, change.clone())).collect());
        match change {
            HomeChange::MakeFile { .. }
            | HomeChange::MakeDir { .. }
            | HomeChange::SymLink { .. }
            | HomeChange::MakeNode { .. }
            | HomeChange::Link { .. }
            | HomeChange::Rename { .. } => {
                same(others)?;
                same(first)?;
            }
            HomeChange::Unlink { .. } | HomeChange::RemoveDir { .. } => {
                same(first)?;
                same(others)?;
            }
            HomeChange::Truncate { ino, path, size } => {
                let cut = |index| HomeChange::Truncate { ino: *ino, path: path.clone(), size: self.layout.part_len(index, *size) };
                self.each(|index| Some(cut(index)))?;
            }
            HomeChange::Punch { ino, path, offset, len } => {
                self.each(|index| {
                    let start = self.layout.part_len(index, *offset);
                    let len = self.layout.part_len(index, offset.saturating_add(*len)) - start;
                    (len > 0).then(|| HomeChange::Punch { ino: *ino, path: path.clone(), offset: start, len })
                })?;
            }
            HomeChange::SetAttr { .. } => return self.set_attr(change),
        }
        Ok(Outcome::Done)
    }

    fn may_hold(&self, _ino: Ino) -> bool {
        false
    }

    /// Servers go by paths, and have closed what a change of names concerns.
    fn forget(&self, _ino: Ino) {}
}

impl ServersHome {
    /// Asks each server for a change of its own, all at the same time.
    fn each(&self, change: impl Fn(u32) -> Option<HomeChange>) -> Result<Vec<Answer>> {
        self.changes((0..self.layout.servers).filter_map(|index| Some((index as usize, change(index)?))).collect())
    }

    fn sync_now(&self, files: &[(Ino, HomePath)], directories: &[HomePath]) -> Result<()> {
        let (mut now, mut bytes) = ((Vec::new(), Vec::new()), 0);
        let flush = |now: &mut (Vec<_>, Vec<_>)| {
            let (files, directories) = std::mem::take(now);
            self.all(&Request::Sync { files, directories }).map(drop)
        };
        // All that can be synced is, whatever becomes of the rest.
        let mut result = Ok(());
        for file in files {
            bytes += file.1.as_bytes().len() + 16;
            now.0.push(file.clone());
            if bytes > SYNC_BYTES {
                (result, bytes) = (result.and(flush(&mut now)), 0);
            }
        }
        for directory in directories {
            bytes += directory.as_bytes().len() + 16;
            now.1.push(directory.clone());
            if bytes > SYNC_BYTES {
                (result, bytes) = (result.and(flush(&mut now)), 0);
            }
        }
        if bytes > 0 { result.and(flush(&mut now)) } else { result }
    }

    /// Attributes are the same everywhere; extended ones are kept by the first server alone.
    fn set_attr(&self, change: &HomeChange) -> Result<Outcome> {
        let of = |index: u32| {
            let mut change = change.clone();
            if let (HomeChange::SetAttr { xattrs, .. }, true) = (&mut change, index > 0) {
                *xattrs = None;
            }
            Some(change)
        };
        let blocks = self.each(of)?.into_iter().map(|answer| if let Reply::Blocks(blocks) = answer.reply { blocks } else { 0 });
        let HomeChange::SetAttr { kind, .. } = change else { return Err(Errno::EINVAL) };
        Ok(Outcome::Blocks(if *kind == Kind::File { blocks.sum() } else { blocks.take(1).sum() }))
    }
}
