//! Layouts: which server holds which bytes of a file.

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::id::ServerId;
use crate::policy::RequestClass;
use crate::policy::detector::FragmentRule;

/// Round-robin striping: stripe `k` of a file is on server `base + k mod servers`, behind those of its stripes that it has already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Striped {
    /// The server of the first stripe.
    pub base: ServerId,
    /// Servers that hold stripes; at least 1.
    pub servers: u32,
    /// Bytes of a stripe; at least 1.
    pub stripe_bytes: u64,
}

/// What one server is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubRequest {
    /// The server.
    pub server: ServerId,
    /// Bytes from the start of the server's part of the file.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// What it is in the eyes of the server (I-01, I-02).
    pub class: RequestClass,
}

impl Striped {
    /// The server that holds a byte, and where in its part of the file.
    pub fn place(&self, offset: u64) -> (ServerId, u64) {
        let (stripe, within) = (offset / self.stripe_bytes, offset % self.stripe_bytes);
        let servers = u64::from(self.servers);
        let server = ServerId(self.base.0 + (stripe % servers) as u32);
        (server, stripe / servers * self.stripe_bytes + within)
    }

    /// How many of a file's first `len` bytes are in the part of the `index`th server, counted from the base: so long is that part of a file
    /// of this size.
    pub fn part_len(&self, index: u32, len: u64) -> u64 {
        let (stripes, within) = (len / self.stripe_bytes, len % self.stripe_bytes);
        let (rounds, rest) = (stripes / u64::from(self.servers), stripes % u64::from(self.servers));
        let last = match u64::from(index).cmp(&rest) {
            Ordering::Less => self.stripe_bytes,
            Ordering::Equal => within,
            Ordering::Greater => 0,
        };
        rounds * self.stripe_bytes + last
    }

    /// Where a byte of the `index`th server's part stands in the file; the largest offset if that is beyond all files.
    pub fn whole_offset(&self, index: u32, part_offset: u64) -> u64 {
        let (round, within) = (part_offset / self.stripe_bytes, part_offset % self.stripe_bytes);
        let stripe = round.checked_mul(u64::from(self.servers)).and_then(|stripe| stripe.checked_add(u64::from(index)));
        let start = stripe.and_then(|stripe| stripe.checked_mul(self.stripe_bytes));
        start.and_then(|start| start.checked_add(within)).unwrap_or(u64::MAX)
    }

    /// The size of a file of which the `index`th server's part has this length, as far as that part knows.
    pub fn whole_len(&self, index: u32, part_len: u64) -> u64 {
        part_len.checked_sub(1).map_or(0, |last| self.whole_offset(index, last).saturating_add(1))
    }

    /// Appends the sub-requests of a request, in the order of their first bytes.
    ///
    /// A request is cut at the borders of stripes. What is adjacent in a server's part of the file is one sub-request.
    pub fn split(&self, offset: u64, len: u64, rule: FragmentRule, out: &mut Vec<SubRequest>) {
        let first = out.len();
        let (mut at, end) = (offset, offset.saturating_add(len));
        while at < end {
            let (server, local) = self.place(at);
            let bytes = (end - at).min(self.stripe_bytes - at % self.stripe_bytes);
            at += bytes;
            // The server's latest sub-request is the only one that this can continue.
            match out[first..].iter_mut().rev().find(|sub| sub.server == server) {
                Some(sub) if sub.offset + sub.len == local => sub.len += bytes,
                _ => out.push(SubRequest { server, offset: local, len: bytes, class: RequestClass::Ordinary }),
            }
        }
        // Each server has one: stripes of one server that a contiguous request touches are adjacent there.
        let parts = out.len() - first;
        for sub in &mut out[first..] {
            sub.class = rule.class(len, parts, sub.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const KIB: u64 = 1 << 10;
    const EIGHT: Striped = Striped { base: ServerId(0), servers: 8, stripe_bytes: 64 * KIB };

    fn split(layout: Striped, offset: u64, len: u64, threshold_bytes: u64) -> Vec<SubRequest> {
        let mut out = vec![];
        layout.split(offset, len, FragmentRule { threshold_bytes }, &mut out);
        out
    }

    fn sizes(offset_kib: u64, len_kib: u64) -> Vec<u64> {
        split(EIGHT, offset_kib * KIB, len_kib * KIB, 20 * KIB).iter().map(|sub| sub.len / KIB).collect()
    }

    ///
    #[test]
    fn requests_are_cut_at_the_borders_of_stripes() {
        assert_eq!(sizes(0, 65), [64, 1]);
        assert_eq!(sizes(1, 64), [63, 1]);
        assert_eq!(sizes(0, 129), [64, 64, 1]);
        assert_eq!(sizes(32, 33), [32, 1]);
        let two = Striped { base: ServerId(3), servers: 2, ..EIGHT };
        let sub = |server, offset| SubRequest { server: ServerId(server), offset, len: 128 * KIB, class: RequestClass::Ordinary };
        assert_eq!(split(two, 256 * KIB, 256 * KIB, 20 * KIB), [sub(3, 128 * KIB), sub(4, 128 * KIB)]);
    }

    /// Each byte has one place, and the sub-requests of a range cover exactly the places of its bytes.
    #[test]
    fn sub_requests_cover_the_bytes() {
        let layout = Striped { base: ServerId(1), servers: 3, stripe_bytes: 5 };
        for offset in 0..40 {
            for len in 1..50 {
                let mut covered: Vec<(u32, u64)> = vec![];
                for sub in split(layout, offset, len, 0) {
                    covered.extend((sub.offset..sub.offset + sub.len).map(|at| (sub.server.0, at)));
                }
                let mut expected: Vec<(u32, u64)> = (offset..offset + len).map(|at| layout.place(at)).map(|(s, at)| (s.0, at)).collect();
                covered.sort_unstable();
                expected.sort_unstable();
                assert_eq!(covered, expected, "{offset} {len}");
            }
        }
    }

    /// The lengths of parts and of the whole lead to each other, and agree with where each byte is.
    #[test]
    fn the_parts_say_how_long_the_whole_is() {
        let layout = Striped { base: ServerId(2), servers: 3, stripe_bytes: 5 };
        for len in 0..100 {
            let parts: Vec<u64> = (0..3).map(|index| layout.part_len(index, len)).collect();
            let counted = |index: u32| (0..len).filter(|at| layout.place(*at).0 == ServerId(2 + index)).count() as u64;
            assert_eq!(parts, (0..3).map(counted).collect::<Vec<_>>(), "{len}");
            assert_eq!((0..3).map(|index| layout.whole_len(index, parts[index as usize])).max(), Some(len));
            let (server, local) = layout.place(len);
            assert_eq!(layout.whole_offset(server.0 - 2, local), len);
            let mut split = vec![];
            layout.split(len, 17, FragmentRule { threshold_bytes: 0 }, &mut split);
            for sub in split {
                let index = sub.server.0 - 2;
                assert_eq!((sub.offset, sub.offset + sub.len), (layout.part_len(index, len), layout.part_len(index, len + 17)));
            }
        }
        assert_eq!(layout.whole_offset(2, u64::MAX), u64::MAX);
        assert_eq!(layout.part_len(0, u64::MAX) + layout.part_len(1, u64::MAX) + layout.part_len(2, u64::MAX), u64::MAX);
    }

    /// Bytes in fragments of sequential requests, in hundredths of a per cent.
    fn fragment_share(request_kib: u64, threshold_kib: u64) -> u64 {
        let requests = (0..64).flat_map(|k| split(EIGHT, k * request_kib * KIB, request_kib * KIB, threshold_kib * KIB));
        let bytes: u64 = requests.filter(|sub| sub.class == RequestClass::Fragment).map(|sub| sub.len).sum();
        (bytes * 10_000 + 32 * request_kib * KIB) / (64 * request_kib * KIB)
    }

    /// I-01, with the shares that follow from the paper's own definition.
    #[test]
    fn fragments_have_their_share_of_the_bytes() {
        assert_eq!([33, 65, 129].map(|request| fragment_share(request, 20)), [1989, 1010, 509]);
        assert_eq!([10, 20, 30, 40].map(|threshold| fragment_share(65, threshold)), [264, 1010, 2236, 3942]);
        assert_eq!(fragment_share(64, 20), 0, "aligned requests have no fragments");
    }

    /// I-02: a small request across a border is one random request, not two fragments.
    #[test]
    fn a_small_request_is_random_even_across_a_border() {
        let parts = split(EIGHT, 60 * KIB, 10 * KIB, 20 * KIB);
        assert_eq!(
            parts.iter().map(|sub| (sub.len / KIB, sub.class)).collect::<Vec<_>>(),
            [(4, RequestClass::Random), (6, RequestClass::Random)]
        );
        assert_eq!(FragmentRule::default().class(20 * KIB, 1, 20 * KIB), RequestClass::Ordinary, "the threshold itself is not below it");
    }
}
