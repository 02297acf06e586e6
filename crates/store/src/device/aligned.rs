//! Aligned buffers, kept for the next use.

use parking_lot::Mutex;

/// What O_DIRECT asks of offsets, lengths and addresses on every device met so far, bytes.
pub(super) const ALIGN_BYTES: usize = 4096;

/// A buffer whose bytes start at a multiple of [`ALIGN_BYTES`].
pub(super) struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    fn new(len: usize) -> AlignedBuffer {
        let bytes = vec![0; len + ALIGN_BYTES];
        // The address of a Vec's bytes does not change while its capacity stays, and nothing here grows it.
        let start = bytes.as_ptr().align_offset(ALIGN_BYTES);
        AlignedBuffer { bytes, start, len }
    }

    pub(super) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

/// Buffers of one size; at most `kept_max` wait for their next use, so that a burst of callers leaves no memory behind.
pub(super) struct BufferPool {
    free: Mutex<Vec<AlignedBuffer>>,
    buffer_bytes: usize,
    kept_max: usize,
}

impl BufferPool {
    pub(super) fn new(buffer_bytes: usize, kept_max: usize) -> BufferPool {
        BufferPool { free: Mutex::new(Vec::new()), buffer_bytes, kept_max }
    }

    /// Runs `work` with a buffer of the pool's size; what the buffer holds at first is arbitrary.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut [u8]) -> T) -> T {
        let taken = self.free.lock().pop();
        let mut buffer = taken.unwrap_or_else(|| AlignedBuffer::new(self.buffer_bytes));
        let result = work(buffer.as_mut());
        let mut free = self.free.lock();
        if free.len() < self.kept_max {
            free.push(buffer);
        }
        result
    }

    pub(super) fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_reused() {
        let pool = BufferPool::new(8192, 1);
        let first = pool.with(|buffer| {
            assert_eq!(buffer.len(), 8192);
            assert_eq!(buffer.as_ptr().addr() % ALIGN_BYTES, 0);
            buffer.as_ptr().addr()
        });
        let second = pool.with(|buffer| {
            // A second buffer while the first is out: both cannot be kept afterwards.
            pool.with(|inner| assert_ne!(inner.as_ptr().addr(), buffer.as_ptr().addr()));
            buffer.as_ptr().addr()
        });
        assert_eq!(first, second);
        assert_eq!(pool.free.lock().len(), 1);
    }
}
