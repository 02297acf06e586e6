//! Byte ranges that something is under way for.

use alloc::collections::BTreeMap;

use super::message::FileRange;
use crate::id::{Ino, Token};

/// A set of ranges, each under the token of what is under way.
#[derive(Default, Debug)]
pub(super) struct InFlight {
    ends: BTreeMap<(Ino, u64, Token), u64>,
    /// The longest range that was ever in it: none that begins further before a place reaches it.
    len_max: u64,
}

impl InFlight {
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn insert(&mut self, token: Token, range: FileRange) {
        self.len_max = self.len_max.max(range.len);
        self.ends.insert((range.file, range.offset, token), range.end());
    }

    pub(super) fn remove(&mut self, token: Token, range: FileRange) {
        let found = self.ends.remove(&(range.file, range.offset, token));
        debug_assert!(found.is_some(), "{range:?} of {token:?} was not under way");
    }

    pub(super) fn overlaps(&self, range: FileRange) -> bool {
        if self.ends.is_empty() {
            return false;
        }
        let from = (range.file, range.offset.saturating_sub(self.len_max), Token(0));
        let to = (range.file, range.end(), Token(0));
        self.ends.range(from..to).any(|(_, end)| *end > range.offset)
    }
}
