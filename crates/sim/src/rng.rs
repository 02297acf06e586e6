//! Random numbers of the simulator: all of a run's chance comes from one seed.

/// A splitmix64 generator.
///
/// The simulator has its own, because a run must be the same on every machine and with every version of every dependency.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

/// The finalizer of splitmix64: a bijection of 64-bit words whose outputs look random.
pub fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Rng {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Rng {
        Rng { state: mix(seed) }
    }

    /// A generator of its own stream, so that more draws in one part of the world leave the others alone.
    pub fn fork(&mut self) -> Rng {
        Rng::new(self.next_u64())
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next_u64() % end }
    }

    /// A number of `start..=last`.
    pub fn range(&mut self, start: u64, last: u64) -> u64 {
        debug_assert!(start <= last);
        start + self.below(last - start + 1)
    }

    /// True `per_mille` times in a thousand.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// One of the items.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// The index of one of the weights, each as likely as its weight.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let total: u64 = weights.iter().map(|w| u64::from(*w)).sum();
        let mut at = self.below(total);
        for (index, weight) in weights.iter().enumerate() {
            if at < u64::from(*weight) {
                return index;
            }
            at -= u64::from(*weight);
        }
        weights.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_same_numbers() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
        assert_ne!(Rng::new(7).next_u64(), Rng::new(8).next_u64());
    }

    #[test]
    fn weights_are_kept() {
        let mut rng = Rng::new(1);
        let mut counts = [0u32; 3];
        for _ in 0..10_000 {
            counts[rng.weighted(&[1, 0, 3])] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!(counts[2] > 2 * counts[0], "{counts:?}");
    }
}
