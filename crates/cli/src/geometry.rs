//! From sizes to the shape of a buffer: how large a segment is, and how many of them there are.

use forebay_core::config::NodeConfig;
use thiserror::Error;

use crate::size::{Bytes, exact};

/// Smallest segment: below it, the header of a segment and the cost of a spill weigh too much.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 256 << 10;
/// Largest segment: a spill or a cleaning moves one, and should not hold the device for long.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 8 << 20;
/// Fewest segments with which the log can still clean itself.
pub(crate) const SEGMENTS_MIN: u64 = 8;
/// Fewest segments in memory: one is filled while another is spilled.
pub(crate) const MEMORY_SEGMENTS_MIN: u64 = 2;
/// Smallest capacity.
pub(crate) const CAPACITY_BYTES_MIN: u64 = SEGMENT_BYTES_MIN * SEGMENTS_MIN;
/// Smallest memory.
pub(crate) const MEMORY_BYTES_MIN: u64 = SEGMENT_BYTES_MIN * MEMORY_SEGMENTS_MIN;
/// Smallest chunk: a page, the unit in which the kernel reads.
pub(crate) const CHUNK_BYTES_MIN: u64 = 4096;
/// Largest chunk.
pub(crate) const CHUNK_BYTES_MAX: u64 = 64 << 20;

/// Why sizes make no buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(crate) enum GeometryError {
    #[error("the capacity of {} is too small: a buffer holds at least {}; give --capacity {} or more",
        Bytes(*.0), Bytes(CAPACITY_BYTES_MIN), exact(CAPACITY_BYTES_MIN))]
    CapacityTooSmall(u64),
    #[error("the capacity of {} is too large: a buffer holds at most {}; give a smaller --capacity",
        Bytes(*.0), Bytes(u64::from(u32::MAX) * SEGMENT_BYTES_MAX))]
    CapacityTooLarge(u64),
    #[error("the memory of {} is too small: a buffer needs at least {} of it; give --memory {} or more",
        Bytes(*.0), Bytes(MEMORY_BYTES_MIN), exact(MEMORY_BYTES_MIN))]
    MemoryTooSmall(u64),
    #[error("the chunk of {} bytes is no power of two; give --chunk {} or {}", .0, exact(1 << .0.ilog2()), exact(2 << .0.ilog2()))]
    ChunkNoPowerOfTwo(u64),
    #[error("the chunk of {} is out of range: it is from {} to {}; 1MiB is usual", Bytes(*.0), Bytes(CHUNK_BYTES_MIN), Bytes(CHUNK_BYTES_MAX))]
    ChunkOutOfRange(u64),
    #[error("a chunk of {} is too large for a capacity of {}: at least {SEGMENTS_MIN} chunks must fit; give a smaller --chunk or a larger --capacity",
        Bytes(*.chunk_bytes), Bytes(*.capacity_bytes))]
    ChunkTooLargeForCapacity { chunk_bytes: u64, capacity_bytes: u64 },
}

/// What the books of a record take in memory at most, bytes: itself, its piece of an index, and its place in a new journal.
const RECORD_BOOKS_BYTES: u64 = 256;
/// What the books of an inode take in memory at most, bytes, while it differs from home.
const INODE_BOOKS_BYTES: u64 = 3 << 10;
/// Records and inodes that the 64 MiB beside `--memory` have room for.
const RECORDS_BESIDE: u64 = 1 << 16;
const INODES_BESIDE: u64 = 6000;

/// How much of the memory is for books. The 64 MiB beside it are enough for a small buffer, a large one has more to remember.
fn books_bytes(memory_bytes: u64) -> u64 {
    memory_bytes / 8
}

/// The largest power of two that is not above `value`, which is not 0.
fn power_of_two_floor(value: u64) -> u64 {
    1 << value.ilog2()
}

/// Puts the shape that fits these sizes, in bytes, into `config`. Memory beyond the capacity is of no use and not taken.
pub(crate) fn apply(config: &mut NodeConfig, capacity_bytes: u64, memory_bytes: u64, chunk_bytes: u64) -> Result<(), GeometryError> {
    if capacity_bytes < CAPACITY_BYTES_MIN {
        return Err(GeometryError::CapacityTooSmall(capacity_bytes));
    }
    if memory_bytes < MEMORY_BYTES_MIN {
        return Err(GeometryError::MemoryTooSmall(memory_bytes));
    }
    if !(CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&chunk_bytes) {
        return Err(GeometryError::ChunkOutOfRange(chunk_bytes));
    }
    if !chunk_bytes.is_power_of_two() {
        return Err(GeometryError::ChunkNoPowerOfTwo(chunk_bytes));
    }
    if chunk_bytes > capacity_bytes / SEGMENTS_MIN {
        return Err(GeometryError::ChunkTooLargeForCapacity { chunk_bytes, capacity_bytes });
    }
    // Small enough that a full buffer has some 64 segments to choose from, and that memory holds a few.
    let wanted_bytes = (capacity_bytes / 64).min(memory_bytes / 4).max(1);
    let segment_bytes = power_of_two_floor(wanted_bytes).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
    let segments_max = u32::try_from(capacity_bytes / segment_bytes).map_err(|_| GeometryError::CapacityTooLarge(capacity_bytes))?;
    let books_bytes = books_bytes(memory_bytes);
    let memory_segments_max = ((memory_bytes - books_bytes) / segment_bytes).clamp(MEMORY_SEGMENTS_MIN, u64::from(segments_max));
    config.chunk_bytes = chunk_bytes as u32;
    config.segment_bytes = segment_bytes as u32;
    config.segments_max = segments_max;
    config.memory_segments_max = memory_segments_max as u32;
    let limit = |beside: u64, bytes: u64| u32::try_from(beside + books_bytes / 2 / bytes).unwrap_or(u32::MAX);
    config.records_max = limit(RECORDS_BESIDE, RECORD_BOOKS_BYTES);
    config.inodes_max = limit(INODES_BESIDE, INODE_BOOKS_BYTES);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(capacity: u64, memory: u64, chunk: u64) -> Result<(u64, u64, u64), GeometryError> {
        let mut config = NodeConfig::default();
        apply(&mut config, capacity, memory, chunk)?;
        assert_eq!(u64::from(config.chunk_bytes), chunk);
        Ok((config.segment_bytes.into(), config.segments_max.into(), config.memory_segments_max.into()))
    }

    #[test]
    fn segments_follow_the_capacity() {
        assert_eq!(shape(4 << 30, 1 << 30, 1 << 20), Ok((8 << 20, 512, 112)));
        assert_eq!(shape(64 << 20, 16 << 20, 1 << 20), Ok((1 << 20, 64, 14)));
        assert_eq!(shape(2 << 20, 2 << 20, 64 << 10), Ok((256 << 10, 8, 7)));
        assert_eq!(shape(100 << 30, 1 << 20, 1 << 20), Ok((256 << 10, 409_600, 3)));
        assert_eq!(shape(1 << 50, 1 << 40, 1 << 20), Ok((8 << 20, 1 << 27, 7 << 14)));
    }

    #[test]
    fn no_bound_is_exceeded() {
        let mut value = 88_172_645_463_325_252u64;
        for _ in 0..5000 {
            value ^= value << 13;
            value ^= value >> 7;
            value ^= value << 17;
            let capacity = CAPACITY_BYTES_MIN + (value >> (24 + value % 16));
            let memory = MEMORY_BYTES_MIN + (value.rotate_left(17) >> (24 + value % 16));
            let (segment, segments, in_memory) = shape(capacity, memory, 64 << 10).expect("legal sizes");
            assert!(segments >= SEGMENTS_MIN && in_memory >= MEMORY_SEGMENTS_MIN && in_memory <= segments);
            assert!(segment * segments <= capacity && segment * in_memory <= memory, "{capacity} {memory}");
            assert!(segment * segments > capacity - segment, "a whole segment is left unused: {capacity}");
        }
    }

    #[test]
    fn each_error_names_the_number_and_the_remedy() {
        for (sizes, parts) in [
            ((0, 1 << 30, 1 << 20), ["0 B", "--capacity 2MiB"]),
            (((2 << 20) - 1, 1 << 30, 1 << 20), ["2 MiB", "--capacity 2MiB"]),
            ((u64::MAX, 1 << 40, 1 << 20), ["16.0 EiB", "smaller --capacity"]),
            ((1 << 30, 0, 1 << 20), ["0 B", "--memory 512KiB"]),
            ((1 << 30, 1 << 30, 0), ["0 B", "4 KiB to 64 MiB"]),
            ((1 << 30, 1 << 30, 1 << 32), ["4 GiB", "4 KiB to 64 MiB"]),
            ((1 << 30, 1 << 30, 3 << 20), ["3145728 bytes", "--chunk 2MiB or 4MiB"]),
            ((2 << 20, 1 << 20, 1 << 20), ["chunk of 1 MiB", "smaller --chunk"]),
        ] {
            let (capacity, memory, chunk) = sizes;
            let text = shape(capacity, memory, chunk).expect_err("illegal sizes").to_string();
            for part in parts {
                assert!(text.contains(part), "{text:?} lacks {part:?}");
            }
        }
    }
}
