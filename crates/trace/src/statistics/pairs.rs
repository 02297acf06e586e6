//! Small numbers for pairs of numbers, given in the order in which the pairs are first seen.

const EMPTY: u32 = u32::MAX;
/// Places of the smallest table; a power of two.
const PLACES_MIN: usize = 64;

/// The finalizer of SplitMix64 over both numbers and a seed. It maps no pair to itself: a sample by hash has no favourites.
#[must_use]
pub fn mix(first: u32, second: u64, seed: u64) -> u64 {
    let mut z =
        second.wrapping_add(u64::from(first).wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_add(seed).wrapping_add(0x6A09_E667_F3BC_C909);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[derive(Clone, Copy)]
struct Place {
    second: u64,
    first: u32,
    number: u32,
}

/// A hash table with linear probing; nothing leaves it one by one.
pub(crate) struct Pairs {
    places: Vec<Place>,
    len: u32,
}

impl Default for Pairs {
    fn default() -> Self {
        Pairs::new()
    }
}

impl Pairs {
    pub(crate) fn new() -> Pairs {
        Pairs { places: vec![Place { second: 0, first: 0, number: EMPTY }; PLACES_MIN], len: 0 }
    }

    /// The number of a pair, and whether it is new. Numbers are 0, 1, 2 and so on.
    ///
    /// # Panics
    /// Beyond 2^32 - 1 pairs, which would need 100 GB here.
    pub(crate) fn number(&mut self, first: u32, second: u64) -> (u32, bool) {
        let mask = self.places.len() - 1;
        let mut at = mix(first, second, 0) as usize & mask;
        loop {
            let place = self.places[at];
            if place.number == EMPTY {
                break;
            }
            if place.second == second && place.first == first {
                return (place.number, false);
            }
            at = (at + 1) & mask;
        }
        let number = self.len;
        assert!(number < EMPTY, "more different chunks than can be numbered");
        self.places[at] = Place { second, first, number };
        self.len += 1;
        if self.len as usize * 2 > self.places.len() {
            self.grow();
        }
        (number, true)
    }

    /// The number of a pair that has one.
    pub(crate) fn find(&self, first: u32, second: u64) -> Option<u32> {
        let mask = self.places.len() - 1;
        let mut at = mix(first, second, 0) as usize & mask;
        loop {
            let place = self.places[at];
            if place.number == EMPTY {
                return None;
            }
            if place.second == second && place.first == first {
                return Some(place.number);
            }
            at = (at + 1) & mask;
        }
    }

    /// Only those pairs whose numbers are kept, with new numbers in the same order; of each old number, the new one.
    pub(crate) fn keep(&mut self, is_kept: impl Fn(u32) -> bool) -> Vec<Option<u32>> {
        let mut renumbered = vec![None; self.len as usize];
        let mut kept: Vec<Place> = std::mem::take(self).places;
        kept.retain(|place| place.number != EMPTY && is_kept(place.number));
        kept.sort_unstable_by_key(|place| place.number);
        for place in kept {
            renumbered[place.number as usize] = Some(self.number(place.first, place.second).0);
        }
        renumbered
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    fn grow(&mut self) {
        let empty = Place { second: 0, first: 0, number: EMPTY };
        let old = std::mem::take(&mut self.places);
        self.places = vec![empty; old.len() * 2];
        let mask = self.places.len() - 1;
        for place in old.into_iter().filter(|place| place.number != EMPTY) {
            let mut at = mix(place.first, place.second, 0) as usize & mask;
            while self.places[at].number != EMPTY {
                at = (at + 1) & mask;
            }
            self.places[at] = place;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn agrees_with_a_map() {
        let (mut pairs, mut map) = (Pairs::new(), HashMap::new());
        let mut random = 7u64;
        for _ in 0..20_000 {
            random = mix(0, random, 3);
            let (first, second) = ((random % 5) as u32, ((random >> 8) % 1000) << (random >> 20 & 31));
            let next = map.len() as u32;
            assert_eq!(pairs.find(first, second), map.get(&(first, second)).copied());
            let expected = *map.entry((first, second)).or_insert(next);
            assert_eq!(pairs.number(first, second), (expected, expected == next));
            assert_eq!(pairs.len() as usize, map.len());
        }
    }
}
