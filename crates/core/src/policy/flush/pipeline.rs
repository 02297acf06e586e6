//! What two regions gain (P-05; equations 4 to 7): the time until the last write is accepted.
//!
//! Data comes in `stages` parts of the same size, of which the SSD holds `buffered`. The times are those of one part. This is a model to
//! compare measurements with; nothing is decided by it. It leaves out the flush of what is still on the SSD at the end.

/// The parameters of the model; times in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pipeline {
    /// Parts in all.
    pub stages: u64,
    /// Parts that the SSD holds; at most `stages`.
    pub buffered: u64,
    /// To write a part to the SSD.
    pub ssd_ns: u64,
    /// To write a part to the disk.
    pub disk_ns: u64,
    /// To flush a part.
    pub flush_ns: u64,
}

impl Pipeline {
    /// Equation 4: the SSD is filled once, and the rest goes to the disk.
    pub fn without_ns(&self) -> u64 {
        self.buffered * self.ssd_ns + (self.stages - self.buffered) * self.disk_ns
    }

    /// Equations 5 and 6: one region is filled while the other is flushed. Under interference (equation 7) `flush_ns` is larger.
    pub fn with_ns(&self) -> u64 {
        self.buffered * self.ssd_ns + (self.stages - self.buffered) * self.flush_ns.max(self.ssd_ns)
    }
}
