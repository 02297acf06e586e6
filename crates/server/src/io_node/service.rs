//! The I/O server as a home, and as a service.

use std::sync::Arc;

use forebay_core::effect::{HomeAttr, HomeChange, Outcome};
use forebay_core::entries::Entries;
use forebay_core::errno::Errno;
use forebay_core::hybrid::{Counters, FileRange, Input, Request, ServerPolicy};
use forebay_core::id::{HomePath, Ino, Name, ServerId};
use forebay_core::message::{SeekWhence, StatFs};
use forebay_core::xattr::Xattr;
use forebay_host::log;
use forebay_store::home::drop_pages;
use forebay_store::{Home, IoService, IoStatus, RequestHint, WriteCount, errno};

use super::files::KnownFile;
use super::{IoNode, Result, STOP_PATIENCE};

/// Compared at a time, bytes.
const COMPARE_BYTES: usize = 256 << 10;

/// Offsets and lengths, in order.
type Ranges = Vec<(u64, u64)>;

impl IoNode {
    fn file(&self, path: &HomePath) -> Result<Arc<KnownFile>> {
        self.devices.files.at(path, |id| self.devices.is_on_ssd(id))
    }

    fn size(&self, known: &KnownFile) -> Result<u64> {
        let file = self.devices.files.open(known)?;
        Ok(file.metadata().map_err(|error| errno(&error))?.len())
    }

    /// Reads until `buf` is full or the file ends; says how much. Behind the end: zeros.
    fn read_some(&self, known: &KnownFile, offset: u64, buf: &mut [u8], hint: &RequestHint) -> Result<usize> {
        let there = self.size(known)?.saturating_sub(offset).min(buf.len() as u64) as usize;
        self.read_file(known, offset, &mut buf[..there], hint)?;
        buf[there..].fill(0);
        Ok(there)
    }

    /// What the SSD has of a range and what only the disk has, both in the order of the file.
    fn divide(&self, known: &KnownFile, offset: u64, len: u64) -> (Ranges, Ranges) {
        let (mut parts, mut gaps) = (Vec::new(), Vec::new());
        let range = FileRange { file: known.id, offset, len };
        self.driver.inspect(|node| node.regions().look_up(range, &mut parts, &mut gaps));
        let mut parts: Ranges = parts.iter().map(|(_, part)| (part.offset, part.len)).collect();
        let mut gaps: Ranges = gaps.iter().map(|gap| (gap.start, gap.end - gap.start)).collect();
        parts.sort_unstable();
        gaps.sort_unstable();
        (parts, gaps)
    }

    /// The known file that loses its last name by a change, if it is one.
    fn doomed_by(&self, change: &HomeChange) -> Result<Option<Arc<KnownFile>>> {
        let (path, from) = match change {
            HomeChange::Unlink { path } => (path, None),
            HomeChange::Rename { from, to, .. } => (to, Some(from)),
            _ => return Ok(None),
        };
        let Some((identity, 1)) = self.devices.home.identity(path)? else { return Ok(None) };
        if let Some(from) = from {
            // Renaming a name to itself removes nothing, and what is not there replaces nothing.
            match self.devices.home.identity(from)? {
                Some((same, _)) if same == identity => return Ok(None),
                None if self.devices.home.stat(from).is_err() => return Ok(None),
                _ => {}
            }
        }
        Ok(self.devices.files.identified(identity))
    }

    /// Carries out a change of names.
    fn change_names(&self, change: &HomeChange) -> Result<Outcome> {
        loop {
            if let Some(doomed) = self.doomed_by(change)? {
                let mut outcome = None;
                let result = self.change_file(&doomed, 0, u64::MAX, || {
                    outcome = self.remove_last_name(&doomed, change)?;
                    // Else the names are others by now, and nothing was done.
                    outcome.as_ref().map(|_| ()).ok_or(Errno::EAGAIN)
                });
                match (result, outcome) {
                    (Err(Errno::EAGAIN), None) => continue,
                    (result, outcome) => return result.map(|()| outcome.unwrap_or(Outcome::Done)),
                }
            }
            let _names = self.devices.files.change_names();
            if self.doomed_by(change)?.is_none() {
                let outcome = self.devices.home.change(change)?;
                self.on_names_changed(change);
                return Ok(outcome);
            }
        }
    }

    /// Removes the last name of a file of which nothing is under way. `None` if it is not the last one, or another file's, by now.
    fn remove_last_name(&self, doomed: &KnownFile, change: &HomeChange) -> Result<Option<Outcome>> {
        let _names = self.devices.files.change_names();
        if self.doomed_by(change)?.is_none_or(|now| now.id != doomed.id) {
            return Ok(None);
        }
        let on_ssd = self.devices.ssd.as_ref().filter(|ssd| ssd.knows(doomed.id));
        let note = |is_gone| match on_ssd {
            Some(ssd) => ssd.note_removal(doomed.id, is_gone).map_err(|error| errno(&error)),
            None => Ok(()),
        };
        note(false)?;
        let outcome = self.devices.home.change(change)?;
        self.on_names_changed(change);
        self.devices.files.gone(doomed);
        if note(true).is_err() {
            // It was said that it would go, and it is not there: that is enough for a recovery.
            log::problem("the SSD does not take a note of a file's removal; it is known from the one before");
        }
        Ok(Some(outcome))
    }

    fn on_names_changed(&self, change: &HomeChange) {
        match change {
            HomeChange::Unlink { path } => self.devices.files.forget_names(path),
            HomeChange::Rename { from, to, .. } => self.devices.files.move_names(from, to),
            _ => {}
        }
    }

    /// Makes a file, or empties the one that is there.
    fn make_file(&self, change: &HomeChange, path: &HomePath) -> Result<Outcome> {
        loop {
            if self.devices.home.identity(path)?.is_some() {
                let known = self.file(path)?;
                self.change_file(&known, 0, u64::MAX, || self.devices.home.change(change).map(drop))?;
                return Ok(Outcome::Done);
            }
            let _names = self.devices.files.change_names();
            if self.devices.home.identity(path)?.is_none() {
                return self.devices.home.change(change);
            }
        }
    }

    fn truncate(&self, path: &HomePath, size: u64) -> Result<Outcome> {
        let known = self.file(path)?;
        self.change_file(&known, size, u64::MAX - size, || {
            let file = self.devices.files.open(&known)?;
            known.set_len(&file, size)?;
            self.devices.is_unsynced(known.id, &file)
        })?;
        Ok(Outcome::Done)
    }

    fn punch(&self, change: &HomeChange, path: &HomePath, offset: u64, len: u64) -> Result<Outcome> {
        let known = self.file(path)?;
        if len > 0 {
            self.change_file(&known, offset, len.min(u64::MAX - offset), || {
                self.devices.home.change(change)?;
                let file = self.devices.files.open(&known)?;
                self.devices.is_unsynced(known.id, &file)
            })?;
        }
        Ok(Outcome::Done)
    }

    fn set_attr(&self, change: &HomeChange, path: &HomePath) -> Result<Outcome> {
        let known = match self.devices.home.identity(path)? {
            Some((identity, _)) => self.devices.files.identified(identity),
            None => None,
        };
        // A flush puts back what it finds, which must not be what was before this.
        let _alone = known.as_ref().map(|known| known.attributes.lock());
        self.devices.home.change(change)
    }
}

impl Home for IoNode {
    fn describe(&self) -> String {
        self.devices.home.path().display().to_string()
    }

    fn list(&self, path: &HomePath) -> Result<Entries> {
        self.devices.home.list(path)
    }

    fn stat(&self, path: &HomePath) -> Result<HomeAttr> {
        self.devices.home.stat(path)
    }

    fn read_link(&self, path: &HomePath) -> Result<Name> {
        self.devices.home.read_link(path)
    }

    fn stat_fs(&self) -> Result<StatFs> {
        self.devices.home.stat_fs()
    }

    fn xattrs(&self, path: &HomePath) -> Result<Vec<Xattr>> {
        self.devices.home.xattrs(path)
    }

    fn read(&self, ino: Ino, path: &HomePath, offset: u64, buf: &mut [u8]) -> Result<u32> {
        self.read_hinted(ino, path, offset, buf, &RequestHint::default())
    }

    fn write(&self, ino: Ino, path: &HomePath, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_hinted(ino, path, offset, bytes, &RequestHint::default())
    }

    fn compare(&self, _ino: Ino, path: &HomePath, offset: u64, len: u64, crc: u32) -> Result<bool> {
        let known = self.file(path)?;
        drop_pages(&*self.devices.files.open(&known)?, offset, len);
        let mut buffer = vec![0; COMPARE_BYTES.min(usize::try_from(len).unwrap_or(COMPARE_BYTES))];
        let (mut sum, mut done) = (0, 0);
        while done < len {
            let part = buffer.len().min(usize::try_from(len - done).unwrap_or(usize::MAX));
            if self.read_some(&known, offset + done, &mut buffer[..part], &RequestHint::default())? < part {
                return Ok(false);
            }
            sum = crc32c::crc32c_append(sum, &buffer[..part]);
            done += part as u64;
        }
        Ok(sum == crc)
    }

    fn compare_zeros(&self, ino: Ino, path: &HomePath, offset: u64, len: u64) -> Result<bool> {
        let known = self.file(path)?;
        let end = self.size(&known)?.min(offset.saturating_add(len));
        let (parts, gaps) = self.divide(&known, offset, end.saturating_sub(offset));
        let mut buffer = Vec::new();
        for (mut at, mut len) in parts {
            while len > 0 {
                let part = len.min(COMPARE_BYTES as u64);
                buffer.resize(part as usize, 0);
                self.read_some(&known, at, &mut buffer, &RequestHint::default())?;
                if buffer.iter().any(|byte| *byte != 0) {
                    return Ok(false);
                }
                (at, len) = (at + part, len - part);
            }
        }
        for (at, len) in gaps {
            if !self.devices.home.compare_zeros(ino, path, at, len)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What the SSD has is data, whatever the disk says of it.
    fn seek(&self, ino: Ino, path: &HomePath, offset: u64, whence: SeekWhence) -> Result<Option<u64>> {
        let known = self.file(path)?;
        if !self.devices.is_on_ssd(known.id) {
            return self.devices.home.seek(ino, path, offset, whence);
        }
        let size = self.size(&known)?;
        if offset >= size {
            return Ok(None);
        }
        let (parts, _) = self.divide(&known, offset, size - offset);
        let mut at = offset;
        loop {
            let there = self.devices.home.seek(ino, path, at, whence)?;
            if whence == SeekWhence::Data {
                let first = parts.first().map(|(from, _)| *from);
                return Ok([there, first].into_iter().flatten().min());
            }
            let Some(hole) = there else { return Ok(None) };
            match parts.iter().find(|(from, len)| (*from..from + len).contains(&hole)) {
                Some((from, len)) if from + len < size => at = from + len,
                Some(_) => return Ok(Some(size)),
                None => return Ok(Some(hole)),
            }
        }
    }

    fn sync(&self, files: &[(Ino, HomePath)], directories: &[HomePath]) -> Result<()> {
        if !files.is_empty() {
            self.driver.call(Request::Sync, |work| Err(super::unexpected(&work.effect)))?;
        }
        self.devices.home.sync(&[], directories)
    }

    fn change(&self, change: &HomeChange) -> Result<Outcome> {
        match change {
            HomeChange::MakeFile { path } => self.make_file(change, path),
            HomeChange::Truncate { path, size, .. } => self.truncate(path, *size),
            HomeChange::Punch { path, offset, len, .. } => self.punch(change, path, *offset, *len),
            HomeChange::SetAttr { path, .. } => self.set_attr(change, path),
            HomeChange::MakeDir { .. }
            | HomeChange::SymLink { .. }
            | HomeChange::MakeNode { .. }
            | HomeChange::Link { .. }
            | HomeChange::Unlink { .. }
            | HomeChange::RemoveDir { .. }
            | HomeChange::Rename { .. } => self.change_names(change),
        }
    }

    fn may_hold(&self, ino: Ino) -> bool {
        self.devices.home.may_hold(ino)
    }

    fn forget(&self, ino: Ino) {
        self.devices.home.forget(ino);
    }
}

impl IoService for IoNode {
    fn read_hinted(&self, _ino: Ino, path: &HomePath, offset: u64, buf: &mut [u8], hint: &RequestHint) -> Result<u32> {
        let there = self.read_some(&*self.file(path)?, offset, buf, hint)?;
        u32::try_from(there).map_err(|_| Errno::EINVAL)
    }

    fn write_hinted(&self, _ino: Ino, path: &HomePath, offset: u64, bytes: &[u8], hint: &RequestHint) -> Result<()> {
        self.write_file(&*self.file(path)?, offset, bytes, hint)
    }

    fn drain(&self) -> Result<()> {
        self.driver.call(Request::Drain, |work| Err(super::unexpected(&work.effect)))
    }

    fn service_ns(&self) -> Option<u64> {
        self.driver.inspect(|node| node.admission().service_ns())
    }

    fn hear_service_times(&self, times: &[(ServerId, u64)]) {
        self.driver.tell(Input::ServiceTimes(times.to_vec()));
    }

    fn status(&self) -> IoStatus {
        let open_requests = self.driver.open_calls() as u64;
        let (counters, dirty_bytes): (Counters, u64) = self.driver.inspect(|node| (node.counters().clone(), node.regions().dirty_bytes()));
        let writes = counters.writes.iter().map(|((class, target, reason), count)| WriteCount {
            class: *class,
            target: *target,
            reason: *reason,
            requests: count.requests,
            bytes: count.bytes,
        });
        IoStatus {
            policy: *self.policy.lock(),
            ssd_bytes: if self.devices.ssd.is_some() { self.options.ssd_bytes } else { 0 },
            dirty_bytes,
            open_requests,
            writes: writes.collect(),
            reads: counters.reads.requests,
            read_bytes: counters.reads.bytes,
            read_ssd_bytes: counters.read_ssd_bytes,
            waits_for_room: counters.waits_for_room,
            waits_for_range: counters.waits_for_range,
            superseding: counters.superseding,
            flushes: counters.flushes,
            flushed_bytes: counters.flushed.bytes,
            flush_rested_ns: counters.rested_ns,
            service_ns: self.service_ns(),
            ssd_fault: self.devices.ssd_fault.lock().clone(),
        }
    }

    fn set_policy(&self, policy: ServerPolicy) -> Result<()> {
        if self.devices.ssd.is_none() && policy != ServerPolicy::None {
            return Err(Errno::EINVAL);
        }
        let mut current = self.policy.lock();
        if *current != policy {
            self.driver.tell(Input::Configure(Box::new(self.options.config(policy))));
            *current = policy;
        }
        Ok(())
    }

    fn stop(&self) {
        if self.driver.stop(STOP_PATIENCE) {
            self.directory.lock().take();
        } else {
            log::problem(&format!("{} or its SSD does not answer; the SSD is locked until this process ends", self.describe()));
        }
    }
}
