//! Parts of a whole, compared without a float.

use core::cmp::Ordering;
use core::fmt;

/// `part` of `whole`, for instance random neighbours among all neighbours of a request stream.
#[derive(Clone, Copy)]
pub struct Share {
    part: u32,
    whole: u32,
}

impl Share {
    /// Nothing.
    pub const ZERO: Share = Share::new(0, 1);

    /// `part` of `whole`, which is not 0.
    pub const fn new(part: u32, whole: u32) -> Share {
        assert!(whole > 0, "a share of nothing");
        Share { part, whole }
    }

    /// The part.
    pub const fn part(self) -> u32 {
        self.part
    }

    /// The whole.
    pub const fn whole(self) -> u32 {
        self.whole
    }

    /// Ten-thousandths, cut off: what SSDUP+ prints with four digits.
    pub const fn ten_thousandths(self) -> u64 {
        self.part as u64 * 10_000 / self.whole as u64
    }

    /// The nearest part of another whole.
    pub const fn scaled(self, whole: u32) -> u32 {
        let twice = 2 * self.part as u64 * whole as u64 + self.whole as u64;
        (twice / (2 * self.whole as u64)) as u32
    }

    /// Whether the two are further apart than `distance`.
    pub fn is_further_than(self, distance: Share, other: Share) -> bool {
        let (mine, others) = (u128::from(self.part) * u128::from(other.whole), u128::from(other.part) * u128::from(self.whole));
        let wholes = u128::from(self.whole) * u128::from(other.whole);
        mine.abs_diff(others) * u128::from(distance.whole) > u128::from(distance.part) * wholes
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Share) -> Ordering {
        (u64::from(self.part) * u64::from(other.whole)).cmp(&(u64::from(other.part) * u64::from(self.whole)))
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Share) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Share) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Share {}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.part, self.whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_compare_by_value() {
        assert_eq!(Share::new(1, 2), Share::new(64, 128));
        assert!(Share::new(57, 127) < Share::new(45, 100) && Share::new(58, 127) > Share::new(45, 100));
        assert_eq!(Share::new(91, 127).ten_thousandths(), 7165);
        assert_eq!((Share::new(1, 2).scaled(127), Share::new(1, 3).scaled(100)), (64, 33));
    }

    #[test]
    fn distances_are_strict() {
        let fifth = Share::new(2, 10);
        assert!(!Share::new(7, 10).is_further_than(fifth, Share::new(1, 2)));
        assert!(Share::new(71, 100).is_further_than(fifth, Share::new(1, 2)));
        assert!(Share::new(29, 100).is_further_than(fifth, Share::new(1, 2)));
    }
}
