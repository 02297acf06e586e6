//! Watermarks: the flush begins above a high mark of dirty bytes and ends at a low one.
//!
//! What the page cache of the kernel and most caches do. It is wrong in the same way as the immediate flush: it does not look at what
//! else the disk has to do.

use super::{FlushPlan, FlushPolicy, FlushView};
use crate::policy::Share;

/// See the head of this file.
pub struct DirtyMarks {
    high: Share,
    low: Share,
    is_flushing: bool,
}

impl DirtyMarks {
    /// From above `high` of the capacity down to `low`.
    pub fn new(high: Share, low: Share) -> Self {
        assert!(low <= high, "the low mark lies above the high one");
        DirtyMarks { high, low, is_flushing: false }
    }
}

/// Whether the dirty bytes are more than this share of the capacity.
fn exceeds(view: &FlushView, share: Share) -> bool {
    u128::from(view.dirty_bytes) * u128::from(share.whole()) > u128::from(view.capacity_bytes) * u128::from(share.part())
}

impl FlushPolicy for DirtyMarks {
    fn plan(&mut self, view: &FlushView) -> FlushPlan {
        self.is_flushing = view.dirty_bytes > 0 && exceeds(view, if self.is_flushing { self.low } else { self.high });
        if self.is_flushing || (view.writer_waits && view.dirty_bytes > 0) { FlushPlan::Flush } else { FlushPlan::Rest(None) }
    }
}
