//! A device that loses power and fails on command.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::memory::write_growing;
use super::{Device, SECTOR_BYTES, short_read};
use crate::random::SplitMix;

/// What goes wrong with one operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The operation fails with `EIO` and does nothing.
    Eio,
    /// A write fails with `ENOSPC` and does nothing; so does a sync, and what it should have made durable is lost.
    Enospc,
    /// The first half of a transfer is carried out, then it fails.
    Short,
    /// A sync fails with `EIO`, and what it should have made durable is lost, as the page cache loses it.
    LostSync,
}

/// A device that keeps apart what was synced and what was not. Clones share the bytes.
#[derive(Clone, Default)]
pub struct FaultyDevice {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// What a power loss cannot take.
    durable: Vec<u8>,
    /// What a reader sees.
    current: Vec<u8>,
    /// Writes since the last sync, in order: the first sector, and the bytes of all their sectors as of then.
    unsynced: Vec<(u64, Box<[u8]>)>,
    operations: u64,
    faults: BTreeMap<u64, Fault>,
}

impl FaultyDevice {
    /// An empty device.
    pub fn new() -> FaultyDevice {
        FaultyDevice::default()
    }

    /// The operation number `n` from now on (0 is the next one) goes wrong. Reads, writes and syncs count.
    pub fn fail_at(&self, n: u64, fault: Fault) {
        let mut state = self.state.lock();
        let at = state.operations + n;
        state.faults.insert(at, fault);
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// Sector writes that a power loss now could take.
    pub fn unsynced_sectors(&self) -> usize {
        self.state.lock().unsynced.iter().map(|(_, bytes)| bytes.len().div_ceil(SECTOR_BYTES)).sum()
    }

    /// Takes the power away: an arbitrary subset of the unsynced sector writes reaches the medium, in an arbitrary order.
    /// The same seed does the same.
    pub fn power_loss(&self, seed: u64) {
        let mut random = SplitMix::new(seed);
        let mut state = self.state.lock();
        let unsynced = std::mem::take(&mut state.unsynced);
        let sectors = |(first, bytes): &'_ (u64, Box<[u8]>)| {
            let first = *first;
            (first..).zip(bytes.chunks(SECTOR_BYTES).map(<[u8]>::to_vec)).collect::<Vec<_>>()
        };
        let mut writes: Vec<(u64, Vec<u8>)> = unsynced.iter().flat_map(sectors).collect();
        // Some losses take nearly all, some nearly nothing.
        let kept_of_256 = random.below(257);
        random.shuffle(&mut writes);
        let durable = &mut state.durable;
        for (sector, bytes) in writes {
            if random.below(256) < kept_of_256 {
                write_growing(durable, sector * SECTOR_BYTES as u64, &bytes);
            }
        }
        state.current = state.durable.clone();
        state.faults.clear();
    }

    /// Changes durable and current bytes alike, as rot would.
    pub fn rot(&self, offset: u64, mask: u8) {
        let mut state = self.state.lock();
        let at = offset as usize;
        if let Some(byte) = state.durable.get_mut(at) {
            *byte ^= mask;
        }
        if let Some(byte) = state.current.get_mut(at) {
            *byte ^= mask;
        }
    }
}

impl State {
    fn begin(&mut self) -> Option<Fault> {
        let fault = self.faults.remove(&self.operations);
        self.operations += 1;
        fault
    }

    fn write(&mut self, offset: u64, buf: &[u8]) {
        if buf.is_empty() {
            return;
        }
        write_growing(&mut self.current, offset, buf);
        let first = offset as usize / SECTOR_BYTES;
        let end = (offset as usize + buf.len()).next_multiple_of(SECTOR_BYTES).min(self.current.len());
        self.unsynced.push((first as u64, self.current[first * SECTOR_BYTES..end].into()));
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let start = offset as usize;
        let part = start.checked_add(buf.len()).and_then(|end| self.current.get(start..end));
        buf.copy_from_slice(part.ok_or_else(|| short_read(offset, buf.len()))?);
        Ok(())
    }
}

fn os_error(errno: rustix::io::Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.raw_os_error())
}

impl Device for FaultyDevice {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        match state.begin() {
            None => state.read(offset, buf),
            Some(Fault::Short) => {
                let half = buf.len() / 2;
                state.read(offset, &mut buf[..half])?;
                Err(short_read(offset, buf.len()))
            }
            Some(_) => Err(os_error(rustix::io::Errno::IO)),
        }
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        match state.begin() {
            None => {
                state.write(offset, buf);
                Ok(())
            }
            Some(Fault::Short) => {
                state.write(offset, &buf[..buf.len() / 2]);
                Err(io::Error::from(io::ErrorKind::WriteZero))
            }
            Some(Fault::Enospc) => Err(os_error(rustix::io::Errno::NOSPC)),
            Some(_) => Err(os_error(rustix::io::Errno::IO)),
        }
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        match state.begin() {
            None => {
                let State { durable, unsynced, .. } = &mut *state;
                for (sector, bytes) in unsynced.drain(..) {
                    write_growing(durable, sector * SECTOR_BYTES as u64, &bytes);
                }
                Ok(())
            }
            Some(fault) => {
                if matches!(fault, Fault::LostSync | Fault::Enospc) {
                    state.unsynced.clear();
                }
                Err(os_error(if fault == Fault::Enospc { rustix::io::Errno::NOSPC } else { rustix::io::Errno::IO }))
            }
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.state.lock().current.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synced_bytes_stay_and_unsynced_sectors_are_whole_or_gone() {
        let mut kept = [false; 2];
        for seed in 0..100 {
            let device = FaultyDevice::new();
            device.write_at(0, &[1; 4096]).unwrap();
            device.sync().unwrap();
            device.write_at(0, &[2; 2048]).unwrap();
            device.write_at(512, &[3; 512]).unwrap();
            device.power_loss(seed);
            let mut bytes = [0; 4096];
            device.read_at(0, &mut bytes).unwrap();
            for (n, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "seed {seed}: sector {n} is torn");
                let allowed: &[u8] = match n {
                    1 => &[1, 2, 3],
                    0..4 => &[1, 2],
                    _ => &[1],
                };
                assert!(allowed.contains(&sector[0]), "seed {seed}: sector {n} holds {}", sector[0]);
            }
            kept[usize::from(bytes[0] == 2)] = true;
        }
        assert_eq!(kept, [true, true], "both outcomes must occur among the seeds");
    }

    #[test]
    fn faults_come_when_told() {
        let device = FaultyDevice::new();
        device.fail_at(0, Fault::Enospc);
        device.fail_at(1, Fault::Short);
        device.fail_at(3, Fault::Eio);
        device.fail_at(4, Fault::LostSync);
        assert_eq!(device.write_at(0, b"abcd").unwrap_err().raw_os_error(), Some(28));
        assert_eq!(device.len().unwrap(), 0);
        assert!(device.write_at(0, b"abcd").is_err());
        assert_eq!(device.len().unwrap(), 2);
        device.write_at(0, b"abcd").unwrap();
        assert_eq!(device.sync().unwrap_err().raw_os_error(), Some(5));
        assert_eq!(device.unsynced_sectors(), 2);
        assert!(device.sync().is_err());
        assert_eq!(device.unsynced_sectors(), 0);
        assert_eq!(device.operations(), 5);
    }
}
