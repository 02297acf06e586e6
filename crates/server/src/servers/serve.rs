//! The server's side: each request of a client becomes a call of the I/O service.

use std::sync::Arc;

use forebay_core::effect::{HomeChange, Outcome};
use forebay_core::entries::Entries;
use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Ino, ServerId};
use forebay_host::net::message::{Bytes, Hint, Reply, Request, ServerStatus, Went, pack};
use forebay_host::net::wire::PAYLOAD_BYTES_MAX;
use forebay_host::net::{Asker, ClientId, Service};
use forebay_store::{IoService, RequestHint};

use super::part_file::{OWN_NAMES, PartFile};

/// Sums of one request for checksums.
pub(super) const CHECKSUMS_MAX: u64 = 16_384;
/// Read at a time for them, bytes.
const STEP_BYTES: u64 = 1 << 20;

/// Answers for an I/O service.
pub struct IoServer {
    service: Arc<dyn IoService>,
    part: PartFile,
    /// Names the time since the machine was started.
    boot: String,
}

impl IoServer {
    /// A server for `service`, the home directory of which is `part`'s.
    pub fn new(service: Arc<dyn IoService>, part: PartFile) -> IoServer {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        IoServer { service, part, boot: boot.trim().into() }
    }

    /// As if the machine had been started again.
    #[cfg(test)]
    pub(super) fn booted_as(self, boot: &str) -> IoServer {
        IoServer { boot: boot.into(), ..self }
    }

    fn answer(&self, asker: Asker, request: Request, payload: &[u8]) -> Result<(Reply, Vec<u8>), Errno> {
        let service = &*self.service;
        let ino = |ino| own_ino(asker.client, ino);
        let reply = match request {
            Request::Who => Reply::Home { id: self.part.id(), boot: self.boot.clone() },
            Request::Join { part } => match self.part.join(part) {
                Ok(()) => Reply::Done,
                Err(error) => Reply::Refused(error.to_string()),
            },
            Request::List { path } => return Ok((Reply::Listing, pack(&listed(&path, service.list(allowed(&path)?)?)))),
            Request::Stat { path } => Reply::Stat(service.stat(allowed(&path)?)?),
            Request::ReadLink { path } => Reply::Target(service.read_link(allowed(&path)?)?),
            Request::StatFs => Reply::StatFs(service.stat_fs()?),
            Request::Xattrs { path } => Reply::Xattrs(service.xattrs(allowed(&path)?)?),
            Request::Read { bytes, hint } => {
                let mut buf = vec![0; bounded(bytes.len)?];
                let there = service.read_hinted(ino(bytes.ino), allowed(&bytes.path)?, bytes.offset, &mut buf, &own_hint(hint))?;
                buf.truncate(there as usize);
                return Ok((Reply::Read, buf));
            }
            Request::Write { bytes, hint } => {
                if payload.len() as u64 != bytes.len {
                    return Err(Errno::EINVAL);
                }
                service.write_hinted(ino(bytes.ino), allowed(&bytes.path)?, bytes.offset, payload, &own_hint(hint))?;
                Reply::Done
            }
            Request::Checksums { bytes, unit } => self.checksums(&Bytes { ino: ino(bytes.ino), ..bytes }, unit)?,
            Request::CompareZeros { bytes } => {
                Reply::Compared(service.compare_zeros(ino(bytes.ino), allowed(&bytes.path)?, bytes.offset, bytes.len)?)
            }
            Request::Seek { ino: of, path, offset, whence } => Reply::Found(service.seek(ino(of), allowed(&path)?, offset, whence)?),
            Request::Sync { mut files, directories } => {
                for (of, path) in &mut files {
                    allowed(path)?;
                    *of = ino(*of);
                }
                directories.iter().try_for_each(|path| allowed(path).map(drop))?;
                service.sync(&files, &directories)?;
                Reply::Done
            }
            Request::Change { change } => match service.change(&own_change(asker.client, change)?)? {
                Outcome::Blocks(blocks) => Reply::Blocks(blocks),
                _ => Reply::Done,
            },
            Request::ServiceTimes { times } => {
                let own = ServerId(self.part.part().map_or(0, |part| part.index));
                let others: Vec<(ServerId, u64)> = times.into_iter().filter(|(server, _)| *server != own).collect();
                if !others.is_empty() {
                    service.hear_service_times(&others);
                }
                Reply::ServiceTime(service.service_ns())
            }
            Request::Drain => service.drain().map(|()| Reply::Done)?,
            Request::SetPolicy { policy } => match service.set_policy(policy) {
                Ok(()) => Reply::Done,
                Err(_) => Reply::Refused(format!("this server cannot go by the policy {}: it has no SSD", policy.name())),
            },
            Request::Status => Reply::Status(Box::new(self.status(asker.sessions))),
        };
        Ok((reply, Vec::new()))
    }

    /// CRC-32C of each part of a range, and a look at the medium whether it holds just that.
    fn checksums(&self, bytes: &Bytes, unit: u64) -> Result<Reply, Errno> {
        let Bytes { ino, path, offset, len } = bytes;
        let end = offset.checked_add(*len).ok_or(Errno::EINVAL)?;
        if unit == 0 || len.div_ceil(unit) > CHECKSUMS_MAX {
            return Err(Errno::EINVAL);
        }
        let (path, mut at, mut sums) = (allowed(path)?, *offset, Vec::new());
        let (mut there, mut sum_there) = (0, 0);
        let mut buf = Vec::new();
        while at < end {
            let until = (at - at % unit).saturating_add(unit).min(end);
            let mut sum = 0;
            while at < until {
                let part = (until - at).min(STEP_BYTES);
                buf.resize(part as usize, 0);
                let found = self.service.read(*ino, path, at, &mut buf)? as usize;
                sum = crc32c::crc32c_append(sum, &buf);
                sum_there = crc32c::crc32c_append(sum_there, buf.get(..found).ok_or(Errno::EIO)?);
                there += found as u64;
                at += part;
            }
            sums.push(sum);
        }
        let is_so = there == 0 || self.service.compare(*ino, path, *offset, there, sum_there)?;
        Ok(if is_so { Reply::Checksums { sums, there } } else { Reply::Checksums { sums: Vec::new(), there: 0 } })
    }

    fn status(&self, sessions: u64) -> ServerStatus {
        let status = self.service.status();
        let went = status.writes.iter().map(|count| Went {
            class: count.class.name().into(),
            to: count.target.name().into(),
            reason: count.reason.name().into(),
            requests: count.requests,
            bytes: count.bytes,
        });
        ServerStatus {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            home: self.service.describe(),
            part: self.part.part(),
            policy: status.policy.name().into(),
            sessions,
            ssd_bytes: status.ssd_bytes,
            dirty_bytes: status.dirty_bytes,
            open_requests: status.open_requests,
            writes: went.collect(),
            reads: status.reads,
            read_bytes: status.read_bytes,
            read_ssd_bytes: status.read_ssd_bytes,
            waits_for_room: status.waits_for_room,
            waits_for_range: status.waits_for_range,
            superseding: status.superseding,
            flushes: status.flushes,
            flushed_bytes: status.flushed_bytes,
            flush_rested_ns: status.flush_rested_ns,
            service_ns: status.service_ns,
            ssd_fault: status.ssd_fault,
        }
    }
}

impl Service for IoServer {
    fn serve(&self, asker: Asker, request: Request, payload: Vec<u8>) -> (Reply, Vec<u8>) {
        self.answer(asker, request, &payload).unwrap_or_else(|errno| (Reply::Failed(errno), Vec::new()))
    }
}

/// The number by which the service knows a client's file: numbers of two clients do not meet.
fn own_ino(client: ClientId, ino: Ino) -> Ino {
    let half = |at: usize| client.0[at..at + 8].iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    Ino((half(0) ^ ino.0).wrapping_mul(half(8) | 1))
}

fn own_hint(hint: Hint) -> RequestHint {
    RequestHint { class: hint.class, siblings: hint.siblings }
}

fn bounded(len: u64) -> Result<usize, Errno> {
    usize::try_from(len).ok().filter(|len| *len <= PAYLOAD_BYTES_MAX).ok_or(Errno::EINVAL)
}

fn is_own(name: &[u8]) -> bool {
    OWN_NAMES.iter().any(|own| own.as_bytes() == name)
}

/// What the server has written down at the root is nobody's to see.
fn allowed(path: &HomePath) -> Result<&HomePath, Errno> {
    let first = path.as_bytes().split(|byte| *byte == b'/').next().unwrap_or_default();
    if is_own(first) { Err(Errno::ENOENT) } else { Ok(path) }
}

fn listed(path: &HomePath, entries: Entries) -> Entries {
    if !path.as_bytes().is_empty() {
        return entries;
    }
    entries.iter().filter(|entry| !is_own(entry.name)).map(|entry| (entry.name, entry.kind)).collect()
}

fn own_change(client: ClientId, mut change: HomeChange) -> Result<HomeChange, Errno> {
    match &mut change {
        HomeChange::Truncate { ino, path, .. } | HomeChange::Punch { ino, path, .. } => {
            *ino = own_ino(client, *ino);
            allowed(path)?;
        }
        HomeChange::Link { from, to } | HomeChange::Rename { from, to, .. } => {
            allowed(from)?;
            allowed(to)?;
        }
        HomeChange::MakeFile { path }
        | HomeChange::MakeDir { path }
        | HomeChange::SymLink { path, .. }
        | HomeChange::MakeNode { path, .. }
        | HomeChange::Unlink { path }
        | HomeChange::RemoveDir { path }
        | HomeChange::SetAttr { path, .. } => {
            allowed(path)?;
        }
    }
    Ok(change)
}
