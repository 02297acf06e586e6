//! The same inputs give the same effects: a digest of all effects of a run, to compare with that of the same run.

use std::fmt::Write;

use forebay_core::effect::Effect;
use forebay_core::time::Time;

use crate::rng::mix;

/// A digest of effects in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Digest {
    value: u64,
    effects: u64,
}

struct Hasher<'a>(&'a mut u64);

impl Write for Hasher<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for chunk in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            *self.0 = mix(*self.0 ^ u64::from_le_bytes(word));
        }
        Ok(())
    }
}

impl Digest {
    /// Takes an effect in.
    pub fn add(&mut self, now: Time, effect: &Effect) {
        self.effects += 1;
        let _ = write!(Hasher(&mut self.value), "{now:?} {effect:?}");
    }

    /// How many effects there were.
    pub fn effects(&self) -> u64 {
        self.effects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_effects_matters() {
        let (a, b) = (Effect::DropOldJournals, Effect::DropFetch { fetch: 1 });
        let digest = |effects: &[&Effect]| {
            let mut digest = Digest::default();
            effects.iter().for_each(|effect| digest.add(Time(1), effect));
            digest
        };
        assert_eq!(digest(&[&a, &b]), digest(&[&a, &b]));
        assert_ne!(digest(&[&a, &b]), digest(&[&b, &a]));
    }
}
