//! Bugs made on purpose, in the host, to prove that the checkers find such bugs.

use forebay_core::effect::{Effect, HomeChange, LogRange, Slot};
use forebay_core::id::MemorySlot;
use forebay_core::record::Record;

use crate::checker::Property;

/// A bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Canary {
    /// Writes are acknowledged before their records are in the journal.
    JournalLosesItsEnd,
    /// A sync of the log says that it is done, and does nothing.
    SyncLogDoesNothing,
    /// A sync at home says that it is done, and does nothing.
    SyncHomeDoesNothing,
    /// A comparison says that all is well, although a bit was turned.
    CompareSaysEqual,
    /// A write at home that was done long ago happens once more.
    OldFlushComesLate,
    /// Two segments share their place in memory.
    SlotsAreShared,
    /// A read gives zeros for bytes that it did not wait for.
    ReadDoesNotWait,
    /// A request that is asked again does not say so.
    AskedTwice,
    /// A truncation at home is left out.
    TruncateIsLeftOut,
    /// A rename at home is left out.
    RenameIsLeftOut,
    /// An effect ends, and the machine is not told.
    CompletionIsLost,
    /// A write at home is left out, and its comparison too.
    FlushIsLeftOut,
    /// A hole is not made at home, and the look at it left out too.
    PunchIsLeftOut,
    /// Extended attributes are not set at home.
    XattrsAreLeftOut,
}

impl Canary {
    /// All bugs.
    pub const ALL: [Canary; 14] = [
        Canary::JournalLosesItsEnd,
        Canary::AskedTwice,
        Canary::SyncLogDoesNothing,
        Canary::SyncHomeDoesNothing,
        Canary::CompareSaysEqual,
        Canary::OldFlushComesLate,
        Canary::SlotsAreShared,
        Canary::ReadDoesNotWait,
        Canary::TruncateIsLeftOut,
        Canary::RenameIsLeftOut,
        Canary::CompletionIsLost,
        Canary::FlushIsLeftOut,
        Canary::PunchIsLeftOut,
        Canary::XattrsAreLeftOut,
    ];

    /// The promises that this bug breaks: each finding must be one of these.
    pub fn breaks(self) -> &'static [Property] {
        use Property::*;
        match self {
            Canary::JournalLosesItsEnd => &[Acknowledged],
            Canary::AskedTwice => &[Reads],
            Canary::SyncLogDoesNothing => &[Synced, Contract],
            Canary::SyncHomeDoesNothing => &[Drained],
            Canary::CompareSaysEqual => &[Drained, FlushOrder, Reads],
            // The machine's own comparison may meet the old bytes, too: then a drain gives up although nothing failed.
            Canary::OldFlushComesLate => &[FlushOrder, Reads, Liveness],
            Canary::SlotsAreShared => &[Capacity],
            Canary::ReadDoesNotWait => &[Reads],
            Canary::TruncateIsLeftOut => &[FlushOrder, Drained, Reads],
            Canary::RenameIsLeftOut => &[FlushOrder, Contract],
            Canary::CompletionIsLost => &[Liveness],
            Canary::FlushIsLeftOut | Canary::PunchIsLeftOut => &[FlushOrder, Reads],
            Canary::XattrsAreLeftOut => &[FlushOrder, Reads],
        }
    }

    /// Whether a change at home is left out.
    pub(crate) fn leaves_out(self, change: &HomeChange) -> bool {
        match self {
            Canary::TruncateIsLeftOut => matches!(change, HomeChange::Truncate { .. }),
            Canary::PunchIsLeftOut => matches!(change, HomeChange::Punch { .. }),
            Canary::RenameIsLeftOut => matches!(change, HomeChange::Rename { .. }),
            _ => false,
        }
    }

    /// Changes an effect on its way from the machine to the host.
    pub(crate) fn distort(self, effect: &mut Effect) {
        if let (Canary::XattrsAreLeftOut, Effect::ChangeHome { change: HomeChange::SetAttr { xattrs, .. }, .. }) = (self, &mut *effect) {
            *xattrs = None;
        }
        if self != Canary::SlotsAreShared {
            return;
        }
        match effect {
            Effect::WriteLog { pieces, .. } | Effect::ReadLog { pieces, .. } => pieces.iter_mut().for_each(|piece| share(&mut piece.at)),
            Effect::CopyLog { from, to, .. } => {
                share(from);
                share(to);
            }
            Effect::Spill { from, .. } => share_slot(from),
            Effect::WriteHome { pieces, .. } => {
                for piece in pieces {
                    share(&mut piece.at);
                    share(&mut piece.record);
                }
            }
            Effect::Journal { record: Record::SegmentOpened { memory: Some(memory), .. }, .. } => share_slot(memory),
            _ => {}
        }
    }
}

fn share(range: &mut LogRange) {
    if let Slot::Memory(slot) = &mut range.slot {
        share_slot(slot);
    }
}

fn share_slot(slot: &mut MemorySlot) {
    slot.0 &= !1;
}
