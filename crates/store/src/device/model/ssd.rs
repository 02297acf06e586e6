//! An SSD: latency that channels hide, a bus that nothing hides, and writes that cost more when they are not in order.
//!
//! Each command waits for a channel, is busy there for the latency, and then moves its bytes over the bus, one command after the other.
//! Writes that do not go on where a stream of writes ended move their bytes more than once: the drive has to clean up behind them.

use forebay_core::policy::Operation;
use serde::{Deserialize, Serialize};

use super::bytes_ns;

/// What is known of an SSD.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SsdSpec {
    /// The time until the first byte of a read, ns.
    pub read_ns: u64,
    /// The time until a write is taken, ns.
    pub write_ns: u64,
    /// The rate of reads with all channels busy, bytes a second.
    pub read_bytes_per_s: u64,
    /// The rate of writes in order, bytes a second.
    pub write_bytes_per_s: u64,
    /// Commands whose latencies run side by side; at least 1.
    pub channels: u32,
    /// How often a byte is written in the end that was written at a random place, in thousandths: 1000 for a new drive.
    pub random_write_amplification_per_mille: u64,
}

/// How often each byte is written that is written at random places, all over a drive with this share of spare space, when blocks are
/// cleaned in the order of their age: `a / (a + W(-a e^-a))` with `a = 1 + spare` and `W` the main branch of Lambert's function.
pub fn write_amplification(spare: f64) -> f64 {
    let a = 1.0 + spare;
    let target = -a * (-a).exp();
    // Newton on w e^w = target, from within the branch above -1.
    let mut w = 0.0f64;
    for _ in 0..100 {
        let e = w.exp();
        w -= (w * e - target) / (e * (w + 1.0));
        w = w.max(-1.0 + 1e-12);
    }
    a / (a + w)
}

/// Streams of writes that are known; the oldest is forgotten.
const STREAMS: usize = 8;

#[derive(Clone, Debug)]
pub(super) struct Ssd {
    spec: SsdSpec,
    /// When each channel is free.
    channels_ns: Vec<u64>,
    bus_ns: u64,
    /// Where streams of writes go on, the latest last.
    streams: Vec<u64>,
}

impl Ssd {
    pub(super) fn new(spec: SsdSpec) -> Ssd {
        Ssd { spec, channels_ns: vec![0; spec.channels.max(1) as usize], bus_ns: 0, streams: Vec::with_capacity(STREAMS) }
    }

    /// Whether a write goes on in a stream; it is one from now on in any case.
    fn goes_on(&mut self, offset: u64, len: u64) -> bool {
        let known = self.streams.iter().rposition(|end| *end == offset);
        if known.is_some() || self.streams.len() == STREAMS {
            self.streams.remove(known.unwrap_or(0));
        }
        self.streams.push(offset + len);
        known.is_some()
    }

    pub(super) fn serve(&mut self, start_ns: u64, operation: Operation, offset: u64, len: u64) -> u64 {
        let (latency_ns, transfer_ns) = match operation {
            Operation::Read => (self.spec.read_ns, bytes_ns(len, self.spec.read_bytes_per_s)),
            Operation::Write => {
                let per_mille = if self.goes_on(offset, len) { 1000 } else { self.spec.random_write_amplification_per_mille };
                (self.spec.write_ns, bytes_ns(len, self.spec.write_bytes_per_s) * per_mille / 1000)
            }
        };
        let channel_ns = self.channels_ns.iter_mut().min().expect("there is a channel");
        let ready_ns = start_ns.max(*channel_ns) + latency_ns;
        let done_ns = ready_ns.max(self.bus_ns) + transfer_ns;
        *channel_ns = done_ns;
        self.bus_ns = done_ns;
        done_ns
    }
}
