//! Random numbers that a printed seed brings back.

/// A small generator (SplitMix64): every seed is a good one.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }

    /// One of these.
    pub fn choose<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// A size: small ones as likely as large ones, often on or beside a page's edge.
    pub fn size(&mut self, max: u64) -> u64 {
        let magnitude = self.below(u64::from(64 - max.leading_zeros())) + 1;
        let size = self.below(1 << magnitude);
        let rounded = match self.below(4) {
            0 => size & !4095,
            1 => (size & !4095) + 1,
            _ => size,
        };
        rounded.min(max)
    }

    /// `len` bytes that no other seed gives.
    #[must_use]
    pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
        let mut random = Random::new(seed);
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&random.bits().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

/// The seeds of a random test: `FOREBAY_SEED` alone if it is set, else the first `count` numbers, or new ones until
/// `FOREBAY_SOAK_MINUTES` are over. Each is printed before it is used.
pub fn seeds(test: &'static str, count: u64) -> impl Iterator<Item = u64> {
    let number =
        |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap_or_else(|_| panic!("{name}={text}: no number")));
    let fixed = number("FOREBAY_SEED");
    let soak = number("FOREBAY_SOAK_MINUTES").map(|minutes| std::time::Duration::from_secs(60 * minutes));
    let begun = std::time::Instant::now();
    let first = if soak.is_some() { std::process::id().into() } else { 0 };
    let mut given = 0;
    std::iter::from_fn(move || {
        let more = match (fixed, soak) {
            (Some(_), _) => given < 1,
            (None, Some(time)) => begun.elapsed() < time,
            (None, None) => given < count,
        };
        if !more {
            return None;
        }
        let seed = fixed.unwrap_or(first + given);
        given += 1;
        eprintln!("{test}: FOREBAY_SEED={seed}");
        Some(seed)
    })
}
