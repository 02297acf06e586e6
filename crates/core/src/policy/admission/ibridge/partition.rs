//! The dynamic partition of the SSD (I-08): each class has room in proportion to its average return.

use crate::policy::{RequestClass, Share};

/// How the SSD is divided between random requests and fragments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PartitionMode {
    /// By average returns; in halves until both classes have items.
    #[default]
    Dynamic,
    /// This share for random requests, the rest for fragments (I-15).
    Static(Share),
}

#[derive(Clone, Copy, Default)]
struct Returns {
    items: u64,
    sum_ns: u64,
}

/// Keeps the sums that the division needs.
#[derive(Clone)]
pub struct Partition {
    mode: PartitionMode,
    random: Returns,
    fragments: Returns,
}

impl Partition {
    /// With no item yet.
    pub fn new(mode: PartitionMode) -> Self {
        Partition { mode, random: Returns::default(), fragments: Returns::default() }
    }

    fn of(&mut self, class: RequestClass) -> Option<&mut Returns> {
        match class {
            RequestClass::Random => Some(&mut self.random),
            RequestClass::Fragment => Some(&mut self.fragments),
            RequestClass::Ordinary => None,
        }
    }

    /// An item with this return is there now. Only what returns anything is let in, so none is negative.
    pub fn on_insert(&mut self, class: RequestClass, return_ns: i64) {
        if let Some(returns) = self.of(class) {
            returns.items += 1;
            returns.sum_ns += return_ns.max(0) as u64;
        }
    }

    /// An item with this return is gone.
    pub fn on_remove(&mut self, class: RequestClass, return_ns: i64) {
        if let Some(returns) = self.of(class) {
            debug_assert!(returns.items > 0, "more items of {class:?} left than came");
            returns.items = returns.items.saturating_sub(1);
            returns.sum_ns = returns.sum_ns.saturating_sub(return_ns.max(0) as u64);
        }
    }

    /// Bytes that a class may hold.
    pub fn allocation_bytes(&self, class: RequestClass, capacity_bytes: u64) -> u64 {
        let random = self.random_bytes(capacity_bytes);
        match class {
            RequestClass::Random => random,
            RequestClass::Fragment => capacity_bytes - random,
            RequestClass::Ordinary => 0,
        }
    }

    fn random_bytes(&self, capacity_bytes: u64) -> u64 {
        if let PartitionMode::Static(share) = self.mode {
            return (u128::from(capacity_bytes) * u128::from(share.part()) / u128::from(share.whole())) as u64;
        }
        if self.random.items == 0 || self.fragments.items == 0 {
            return capacity_bytes / 2;
        }
        // average(r) / (average(r) + average(f)), without the divisions. Shifting both alike keeps the products within their type.
        let random = u128::from(self.random.sum_ns) * u128::from(self.fragments.items);
        let fragments = u128::from(self.fragments.sum_ns) * u128::from(self.random.items);
        let shift = 64u32.saturating_sub((random + fragments).leading_zeros());
        let (random, fragments) = (random >> shift, fragments >> shift);
        if random + fragments == 0 {
            return capacity_bytes / 2;
        }
        (u128::from(capacity_bytes) * random / (random + fragments)) as u64
    }
}
