//! Immediate flush (S-08): a full region is flushed from the moment on that it is full, without a rest.
//!
//! Source: SSDUP, as SSDUP+ tells it (4.2.3, 5.4); the plain burst buffer does the same with the whole SSD (P-07). It is wrong while the
//! disk has requests of its own: flush and requests drive the head to and fro between them.

use super::{FlushPlan, FlushPolicy, FlushView};

/// See the head of this file.
pub struct Immediate;

impl FlushPolicy for Immediate {
    fn plan(&mut self, view: &FlushView) -> FlushPlan {
        if view.has_full_region { FlushPlan::Flush } else { FlushPlan::Rest(None) }
    }
}
