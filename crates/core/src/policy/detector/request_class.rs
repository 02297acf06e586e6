//! Random requests and fragments (I-01, I-02), told by size.
//!
//! A small request is random whatever comes before it. Of a larger one that does not fall on the borders of stripes, small parts are
//! left over for one server or two, and those hold up the whole request: fragments.
//!
//! Source: iBridge, II and II-A. It is wrong for small requests that follow each other, which the server's disk would have merged.

use crate::policy::RequestClass;

/// Tells requests apart by their size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FragmentRule {
    /// A request below is random; a part of a larger one, up to this and including it, is a fragment. Bytes.
    pub threshold_bytes: u64,
}

impl Default for FragmentRule {
    fn default() -> Self {
        FragmentRule { threshold_bytes: 20 << 10 }
    }
}

impl FragmentRule {
    /// The class of a part of `part_bytes` of a request of `whole_bytes` that `servers` servers share.
    ///
    /// A small request that crosses the border of a stripe is random, and its parts are no fragments (I-02).
    pub fn class(self, whole_bytes: u64, servers: usize, part_bytes: u64) -> RequestClass {
        if whole_bytes < self.threshold_bytes {
            RequestClass::Random
        } else if servers > 1 && part_bytes <= self.threshold_bytes {
            RequestClass::Fragment
        } else {
            RequestClass::Ordinary
        }
    }
}
