//! Where the bytes of a file are: a walk through its index, in pieces of bounded length.

use alloc::vec::Vec;
use core::ops::Range;

use super::Node;
use crate::id::Ino;
use crate::master::Stop;
use crate::message::{Place, PlacedRange, Reply};

/// Pieces of the index that one answer looks at, at most.
const PIECES_MAX: usize = 4096;
/// Ranges in one answer, at most.
const RANGES_MAX: u32 = 1024;

/// Adds a range, as one with the last if it continues that.
fn push(ranges: &mut Vec<PlacedRange>, range: Range<u64>, place: Place, dirty: bool) {
    if range.is_empty() {
        return;
    }
    match ranges.last_mut() {
        Some(last) if last.offset + last.len == range.start && last.place == place && last.dirty == dirty => {
            last.len += range.end - range.start;
        }
        _ => ranges.push(PlacedRange { offset: range.start, len: range.end - range.start, place, dirty }),
    }
}

impl Node {
    pub(super) fn where_is(&self, ino: Ino, from: u64, max: u32) -> Result<Reply, Stop> {
        let size = self.regular_file(ino)?;
        let home_valid = self.home_valid_of(ino).min(size);
        let (buffered_bytes, dirty_bytes) =
            self.io.files.get(&ino).map_or((0, 0), |file| (file.extents.bytes(), file.extents.dirty_bytes()));
        let ranges_max = max.clamp(1, RANGES_MAX) as usize;
        let mut ranges = Vec::new();
        let start = from.min(size);
        let mut at = start;
        // What is not in the buffer is at home, and behind home's part it is zeros that stand nowhere.
        let gap = |ranges: &mut Vec<PlacedRange>, gap: Range<u64>| {
            if !self.io.files.contains_key(&ino) {
                push(ranges, gap.start..gap.end.min(home_valid), Place::Home, false);
                return push(ranges, gap.start.max(home_valid)..gap.end, Place::Nowhere, false);
            }
            let mut at = gap.start;
            for there in self.home_gaps(ino, &gap, home_valid) {
                push(ranges, at..there.start, Place::Nowhere, false);
                at = there.end;
                push(ranges, there, Place::Home, false);
            }
            push(ranges, at..gap.end, Place::Nowhere, false);
        };
        let mut looked = 0;
        for piece in self.io.files.get(&ino).into_iter().flat_map(|file| file.extents.overlapping(start..size)) {
            if looked == PIECES_MAX || ranges.len() > ranges_max {
                break;
            }
            looked += 1;
            gap(&mut ranges, at..piece.offset);
            let in_memory = self.io.segments.live.get(&piece.segment).is_some_and(|segment| segment.memory.is_some());
            push(&mut ranges, piece.offset..piece.end(), if in_memory { Place::Memory } else { Place::Ssd }, piece.dirty);
            at = piece.end();
        }
        if looked < PIECES_MAX && ranges.len() <= ranges_max {
            gap(&mut ranges, at..size);
        }
        ranges.truncate(ranges_max);
        Ok(Reply::Where { ranges, size, buffered_bytes, dirty_bytes })
    }
}
