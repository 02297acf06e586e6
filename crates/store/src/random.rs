//! Small helpers around randomness: names that nobody else has, and a seeded generator for faults.

use std::io;

/// Sixteen bytes from the kernel's generator.
pub(crate) fn random_id() -> io::Result<[u8; 16]> {
    let mut id = [0; 16];
    let mut filled = 0;
    while filled < id.len() {
        filled += rustix::rand::getrandom(&mut id[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(id)
}

/// An id in the usual hexadecimal form.
pub(crate) fn hex(id: &[u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SplitMix64: small, and good enough to choose what a power loss takes.
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `bound - 1`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for n in (1..items.len()).rev() {
            items.swap(n, self.below(n as u64 + 1) as usize);
        }
    }
}
