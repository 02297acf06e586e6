//! A device as a subject.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use forebay_core::policy::Operation;

use super::Subject;
use crate::device::Device;
use crate::device::emulated::Clock;

/// A device and a clock.
pub struct Real<'a, D, C> {
    device: &'a D,
    clock: &'a C,
    bytes: u64,
    may_write: bool,
    buffer: Vec<u8>,
}

impl<'a, D: Device, C: Clock> Real<'a, D, C> {
    /// The first `bytes` of a device, which may be written over or not.
    pub fn new(device: &'a D, clock: &'a C, bytes: u64, may_write: bool) -> Real<'a, D, C> {
        Real { device, clock, bytes, may_write, buffer: Vec::new() }
    }
}

/// Bytes that no drive can make shorter.
fn fill(buffer: &mut Vec<u8>, len: u64) {
    let mut state = buffer.len() as u64;
    buffer.resize_with(len as usize, || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    });
}

fn transfer<D: Device>(device: &D, operation: Operation, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    match operation {
        Operation::Read => device.read_at(offset, buffer),
        Operation::Write => device.write_at(offset, buffer),
    }
}

impl<D: Device, C: Clock> Subject for Real<'_, D, C> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn may_write(&self) -> bool {
        self.may_write
    }

    fn pause_ns(&mut self, ns: u64) {
        self.clock.sleep_until_ns(self.clock.now_ns() + ns);
    }

    fn one(&mut self, operation: Operation, offset: u64, len: u64) -> io::Result<u64> {
        fill(&mut self.buffer, len);
        let from_ns = self.clock.now_ns();
        transfer(self.device, operation, offset, &mut self.buffer)?;
        Ok(self.clock.now_ns() - from_ns)
    }

    fn many(&mut self, depth: usize, operation: Operation, offsets: &[u64], len: u64) -> io::Result<u64> {
        fill(&mut self.buffer, len);
        let next = AtomicUsize::new(0);
        let work = || -> io::Result<()> {
            let mut buffer = self.buffer.clone();
            while let Some(offset) = offsets.get(next.fetch_add(1, Ordering::Relaxed)) {
                transfer(self.device, operation, *offset, &mut buffer)?;
            }
            Ok(())
        };
        let from_ns = self.clock.now_ns();
        let results: Vec<io::Result<()>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..depth).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))).collect()
        });
        results.into_iter().collect::<io::Result<()>>()?;
        Ok(self.clock.now_ns() - from_ns)
    }
}
