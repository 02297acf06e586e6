//! What effects do to the log, the journal and home.

use forebay_core::effect::{Effect, HomePiece, LogRange, Outcome, Slot};
use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Token};
use forebay_core::message::StatFs;

use super::effects::InFlight;
use super::{Event, Result, World};
use crate::canary::Canary;
use crate::checker::Property;
use crate::subject::Subject;

/// A write at home that will happen once more.
#[derive(Debug)]
pub(super) struct LateWrite {
    path: HomePath,
    offset: u64,
    bytes: Vec<u8>,
}

type Performed = std::result::Result<Outcome, Errno>;

impl<M: Subject> World<M> {
    /// Carries out a part of an effect, now.
    pub(super) fn perform(&mut self, token: Token, part: u32) -> Result<()> {
        let Some(mut in_flight) = self.in_flight.remove(&token) else { return Ok(()) };
        if in_flight.failure.is_none() || in_flight.happens {
            let result = match in_flight.effect.clone() {
                Effect::WriteHome { .. } => self.write_home(&mut in_flight, part),
                Effect::Spill { from, offset, len, .. } if part == 0 => {
                    in_flight.gathered = self.log.read(LogRange { slot: Slot::Memory(from), offset, len }).to_vec();
                    Ok(Outcome::Done)
                }
                Effect::Spill { to, offset, len, .. } => {
                    self.log.write(LogRange { slot: Slot::Ssd(to), offset, len }, &in_flight.gathered);
                    Ok(Outcome::Done)
                }
                Effect::Journal { position, record, .. } => {
                    let appended = self.journal.append(position, record);
                    self.require(Property::Contract, appended)?;
                    Ok(Outcome::Done)
                }
                Effect::RotateJournal { position, records, .. } => {
                    let rotated = self.journal.rotate(position, records);
                    self.require(Property::Contract, rotated)?;
                    Ok(Outcome::Done)
                }
                Effect::SyncLog { .. } => {
                    let (log, journal) = in_flight.sync.take().expect("a sync has begun");
                    if self.canary != Some(Canary::SyncLogDoesNothing) {
                        self.log.finish_sync(log);
                        self.journal.finish_sync(journal);
                    }
                    Ok(Outcome::Done)
                }
                effect => self.perform_simple(&effect),
            };
            in_flight.result = Some(result);
        }
        self.in_flight.insert(token, in_flight);
        self.check_breaches()
    }

    fn perform_simple(&mut self, effect: &Effect) -> Performed {
        match effect {
            Effect::WriteLog { payload, pieces, .. } => {
                let mut sums = Vec::new();
                for piece in pieces {
                    let start = piece.payload_offset as usize;
                    let bytes = self.payload_mut(*payload)[start..start + piece.at.len as usize].to_vec();
                    sums.push(crc32c::crc32c(&bytes));
                    self.log.write(piece.at, &bytes);
                }
                Ok(Outcome::Checksums(sums))
            }
            Effect::ReadLog { payload, pieces, .. } => {
                for piece in pieces {
                    let start = piece.payload_offset as usize;
                    let mut bytes = self.log.read(piece.at).to_vec();
                    if self.canary == Some(Canary::ReadDoesNotWait) && self.chance.chance(50) {
                        bytes.fill(0);
                    }
                    self.payload_mut(*payload)[start..start + bytes.len()].copy_from_slice(&bytes);
                }
                Ok(Outcome::Done)
            }
            Effect::CopyLog { from, to, .. } => {
                let bytes = self.log.read(*from).to_vec();
                self.log.write(*to, &bytes);
                Ok(Outcome::Checksums(vec![crc32c::crc32c(&bytes)]))
            }
            effect => self.perform_at_home(effect),
        }
    }

    fn perform_at_home(&mut self, effect: &Effect) -> Performed {
        match effect {
            Effect::ListHome { path, .. } => self.home.list(path).map(Outcome::Listing),
            Effect::StatHome { path, .. } => self.home.stat(path).map(Outcome::Stat),
            Effect::ReadLinkHome { path, .. } => self.home.read_link(path).map(Outcome::Target),
            Effect::StatFsHome { .. } => {
                let stat = StatFs {
                    total_bytes: 1 << 40,
                    free_bytes: 1 << 39,
                    available_bytes: 1 << 39,
                    files: 1 << 20,
                    files_free: 1 << 19,
                    name_bytes_max: 255,
                };
                Ok(Outcome::StatFs(stat))
            }
            Effect::ReadHome { fetch, path, offset, len, .. } => {
                let (bytes, there) = self.home.read(path, *offset, *len)?;
                self.fetches.insert(*fetch, bytes);
                Ok(Outcome::Read { len: there })
            }
            Effect::CompareHome { path, offset, len, crc, .. } => {
                let equal = self.home.compare(path, *offset, *len, *crc)?;
                Ok(Outcome::Compared { equal })
            }
            Effect::CompareZerosHome { path, offset, len, .. } => {
                let equal = self.home.compare_zeros(path, *offset, *len)?;
                Ok(Outcome::Compared { equal })
            }
            Effect::XattrsHome { path, .. } => self.home.xattrs(path).map(Outcome::Xattrs),
            Effect::SeekHome { path, offset, whence, .. } => self.home.seek(path, *offset, *whence).map(Outcome::Found),
            Effect::SyncHome { files, directories, .. } => {
                if self.canary == Some(Canary::SyncHomeDoesNothing) {
                    return Ok(Outcome::Done);
                }
                self.home.sync(files, directories)?;
                Ok(Outcome::Done)
            }
            Effect::ChangeHome { change, .. } => {
                if self.canary.is_some_and(|canary| canary.leaves_out(change)) {
                    return Ok(Outcome::Done);
                }
                self.home.change(change, self.now)?;
                Ok(Outcome::Done)
            }
            other => unreachable!("{other:?} is not carried out here"),
        }
    }

    /// One part of a write at home: the first gathers the bytes, each writes a third of them, the last may turn a bit.
    fn write_home(&mut self, in_flight: &mut InFlight, part: u32) -> Performed {
        let Effect::WriteHome { path, offset, pieces, .. } = in_flight.effect.clone() else { return Err(Errno::EINVAL) };
        if part == 0 {
            in_flight.gathered = self.gather(&pieces)?;
        } else if let Some(Err(errno)) = in_flight.result {
            return Err(errno);
        }
        let bytes = &in_flight.gathered;
        let (start, end) = (bytes.len() * part as usize / 3, bytes.len() * (part as usize + 1) / 3);
        // An effect that fails may have written its beginning only.
        let cut_short = in_flight.failure.is_some() && part > 0;
        if start < end && !cut_short && self.canary != Some(Canary::FlushIsLeftOut) {
            self.home.write(&path, offset + start as u64, &bytes[start..end], self.now)?;
        }
        if part == 2 && !cut_short {
            self.turn_a_bit(&path, offset, bytes.len() as u64);
            if self.canary == Some(Canary::OldFlushComesLate) && self.chance.chance(300) {
                self.late_writes.push_back(LateWrite { path, offset, bytes: bytes.clone() });
                let late_ns = self.delays.range(1_000_000, 400_000_000);
                self.schedule(late_ns, Event::LateWrite);
            }
        }
        Ok(Outcome::Checksums(vec![crc32c::crc32c(bytes)]))
    }

    fn turn_a_bit(&mut self, path: &HomePath, offset: u64, len: u64) {
        let flips = match self.canary {
            Some(Canary::CompareSaysEqual) => 50,
            _ if self.weather.failing => self.scenario.faults.home_flip_per_mille,
            _ => 0,
        };
        if self.chance.chance(flips) {
            self.summary.faults += 1;
            self.liveness.home_failed(self.now, Errno::EIO, false);
            self.home.flip_bit(path, offset, len);
        }
    }

    /// A canary's doing: a write at home happens once more.
    pub(super) fn write_late(&mut self) {
        if let Some(late) = self.late_writes.pop_front() {
            self.home.write_unnoticed(&late.path, late.offset, &late.bytes);
        }
    }

    fn gather(&self, pieces: &[HomePiece]) -> std::result::Result<Vec<u8>, Errno> {
        let mut bytes = Vec::new();
        for piece in pieces {
            if self.is_unreadable(piece.at.slot) || crc32c::crc32c(self.log.read(piece.record)) != piece.record_crc {
                return Err(Errno::EIO);
            }
            bytes.extend_from_slice(self.log.read(piece.at));
        }
        Ok(bytes)
    }
}
