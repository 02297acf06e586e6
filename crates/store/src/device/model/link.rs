//! A link: one direction of a network interface.

use super::bytes_ns;

/// What is known of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkSpec {
    /// The time that the first byte takes, ns.
    pub latency_ns: u64,
    /// Bytes a second.
    pub bytes_per_s: u64,
}

/// Messages leave one after the other and arrive after the latency.
#[derive(Clone, Debug)]
pub struct Link {
    spec: LinkSpec,
    free_ns: u64,
}

impl Link {
    /// A link that nothing is on.
    pub fn new(spec: LinkSpec) -> Link {
        Link { spec, free_ns: 0 }
    }

    /// When a message that is ready at `now_ns` has arrived as a whole.
    pub fn send(&mut self, now_ns: u64, bytes: u64) -> u64 {
        self.free_ns = self.free_ns.max(now_ns) + bytes_ns(bytes, self.spec.bytes_per_s);
        self.free_ns + self.spec.latency_ns
    }
}
