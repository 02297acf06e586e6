//! Spare time: full regions go home while no client waits for the disk.
//!
//! Part of the policy `forebay`. A flush that is asked for piece by piece takes what the clients leave of the disk, and they take it back
//! as soon as one of them waits. It is wrong if clients hardly ever let the disk rest and the SSD is small: then it waits until writers
//! wait, too.

use super::{FlushPlan, FlushPolicy, FlushView};

/// See the head of this file.
pub struct SpareTime;

impl FlushPolicy for SpareTime {
    fn plan(&mut self, view: &FlushView) -> FlushPlan {
        let may = view.has_full_region && (view.disk_requests == 0 || view.writer_waits);
        if may { FlushPlan::Flush } else { FlushPlan::Rest(None) }
    }
}
