//! The level of SSDUP+ (P-01, P-02): one of the shares of all streams so far, chosen by their average.
//!
//! The shares are kept in order. The higher their average, the lower the one that becomes the level: `sorted[(1 - average) * (n - 1)]`
//! (equations 2 and 3). If everything was random, nearly everything is above the level; if nothing was, only the most random stream is.
//!
//! All shares have the same whole, so they are counted by their parts, and the average is a sum. No float is needed: the index is
//! rounded by whole numbers.

use alloc::vec;
use alloc::vec::Vec;

use crate::policy::Share;

/// How the place in the sorted list, `(1 - average) * (n - 1)`, becomes a whole number. The paper does not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IndexRule {
    /// To the nearest, a half up.
    #[default]
    RoundN1,
    /// Cut off, of `(1 - average) * n`: the released source.
    SourceN,
    /// Cut off.
    FloorN1,
}

/// When the shares so far say nothing any more (P-02). The paper gives no rule; this is the released source's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResetRule {
    /// A stream that is further than this from the level deviates. The first one begins a watch.
    pub deviation: Share,
    /// A watch ends after more streams than this.
    pub watched_min: u32,
    /// If at least this share of the watched streams deviated, the list is emptied.
    pub deviating: Share,
}

impl Default for ResetRule {
    fn default() -> Self {
        ResetRule { deviation: Share::new(2, 10), watched_min: 10, deviating: Share::new(8, 10) }
    }
}

#[derive(Clone, Copy, Default)]
struct Watch {
    is_on: bool,
    watched: u32,
    deviated: u32,
}

/// See the head of this file.
#[derive(Clone)]
pub struct AdaptiveLevel {
    index_rule: IndexRule,
    reset: Option<ResetRule>,
    /// How many shares have this part.
    counts: Vec<u64>,
    /// How many there are, and the sum of their parts.
    len: u64,
    sum: u64,
    level: Share,
    watch: Watch,
    resets: u64,
}

impl AdaptiveLevel {
    /// Before the first stream, of shares of this whole. The level is one half until there are two.
    pub fn new(whole: u32, index_rule: IndexRule, reset: Option<ResetRule>) -> Self {
        assert!(whole > 0, "a share of nothing");
        AdaptiveLevel {
            index_rule,
            reset,
            counts: vec![0; whole as usize + 1],
            len: 0,
            sum: 0,
            level: Share::new(1, 2),
            watch: Watch::default(),
            resets: 0,
        }
    }

    /// The level of now.
    pub fn level(&self) -> Share {
        self.level
    }

    /// How often the list was emptied.
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// Takes the share of a stream into the list and gives the level that it is then to be compared with.
    pub fn insert(&mut self, share: Share) -> Share {
        if self.reset.is_some_and(|rule| self.has_changed(rule, share)) {
            self.counts.fill(0);
            (self.len, self.sum) = (0, 0);
            self.resets += 1;
        }
        let part = share.scaled(self.whole()).min(self.whole());
        self.counts[part as usize] += 1;
        self.len += 1;
        self.sum += u64::from(part);
        // The half holds until there are two shares; but not after a reset, when it would be the level of the traffic before.
        if self.len >= 2 || self.resets > 0 {
            self.level = Share::new(self.at(self.index()), self.whole());
        }
        self.level
    }

    fn whole(&self) -> u32 {
        self.counts.len() as u32 - 1
    }

    /// Whether this stream ends a watch that has seen the traffic change.
    fn has_changed(&mut self, rule: ResetRule, share: Share) -> bool {
        let watch = &mut self.watch;
        if share.is_further_than(rule.deviation, self.level) {
            watch.deviated += 1;
            watch.is_on = true;
        }
        let mut changed = false;
        if watch.watched > rule.watched_min {
            // The stream that ends the watch is among those that may have deviated, not among those watched: so it is in the source.
            changed = u64::from(watch.deviated) * u64::from(rule.deviating.whole())
                >= u64::from(watch.watched) * u64::from(rule.deviating.part());
            *watch = Watch::default();
        }
        watch.watched += u32::from(watch.is_on);
        changed
    }

    /// `(1 - average) * (n - 1)` as a place in the list.
    fn index(&self) -> u64 {
        let n = u128::from(self.len);
        let all = n * u128::from(self.whole());
        let rest = all - u128::from(self.sum);
        let index = match self.index_rule {
            IndexRule::RoundN1 => (2 * rest * (n - 1) + all) / (2 * all),
            IndexRule::SourceN => rest * n / all,
            IndexRule::FloorN1 => rest * (n - 1) / all,
        };
        index.min(n - 1) as u64
    }

    /// The part at a place of the sorted list.
    fn at(&self, index: u64) -> u32 {
        let mut before = 0;
        let found = self.counts.iter().position(|count| {
            before += count;
            before > index
        });
        found.unwrap_or(self.counts.len() - 1) as u32
    }
}
