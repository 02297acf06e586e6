//! The large buffers: how many there are is bounded, and so is what they hold in memory.

use parking_lot::{Condvar, Mutex};

/// What all large buffers may take up: so many writes can wait for room before requests stay in the kernel, those that would not wait
/// included. With writes of at most 512 KiB it is 67.
const ALL_BYTES_MAX: usize = 34 << 20;
/// However small they are.
const COUNT_MAX: usize = 256;
/// So many buffers take up memory as a whole at once: those of the threads that read when none waits.
const WHOLE_MAX: usize = 8;
/// Bytes of each further one that do.
const TOUCHED_BYTES: usize = 64 << 10;
const PAGE_BYTES: usize = 4096;
/// Free buffers that are kept for the next use.
const FREE_MAX: usize = 4;

pub(crate) struct Buffers {
    bytes: usize,
    /// Buffers in all.
    count_max: usize,
    state: Mutex<State>,
    given: Condvar,
}

#[derive(Default)]
struct State {
    free: Vec<Vec<u8>>,
    /// Buffers in all, free or not.
    all: usize,
    closed: bool,
}

impl Buffers {
    /// Buffers of at least so many bytes each.
    pub(crate) fn new(bytes: usize) -> Buffers {
        let count_max = (ALL_BYTES_MAX / bytes.max(1)).clamp(4, COUNT_MAX);
        Buffers { bytes, count_max, state: Mutex::default(), given: Condvar::new() }
    }

    /// A buffer, waiting for one if all are in use; `None` when closed.
    pub(crate) fn take(&self) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(buffer) = state.free.pop() {
                return Some(buffer);
            }
            if state.all < self.count_max {
                state.all += 1;
                let touched_bytes = if state.all <= WHOLE_MAX { self.bytes } else { TOUCHED_BYTES };
                drop(state);
                let mut buffer = vec![0; self.bytes];
                // Pages are touched ahead: if the process is killed while the kernel copies a request into a page that is not there yet,
                // that request fails. All pages of all buffers would be too much memory.
                buffer.iter_mut().take(touched_bytes).step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
                return Some(buffer);
            }
            self.given.wait(&mut state);
        }
    }

    /// A buffer is used no longer.
    pub(crate) fn give(&self, buffer: Vec<u8>) {
        let mut state = self.state.lock();
        if state.free.len() < FREE_MAX {
            state.free.push(buffer);
            drop(state);
        } else {
            state.all -= 1;
            drop(state);
            drop(buffer);
        }
        self.given.notify_one();
    }

    /// Nobody waits any longer.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.given.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_than_the_limit_and_one_that_is_given_is_taken() {
        let buffers = Buffers::new(1 << 20);
        let mut taken: Vec<_> = (0..34).map(|_| buffers.take().unwrap()).collect();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| buffers.take().map(|buffer| buffer.len()));
            buffers.give(taken.pop().unwrap());
            assert_eq!(waiting.join().unwrap(), Some(1 << 20));
        });
        taken.into_iter().for_each(|buffer| buffers.give(buffer));
        assert_eq!(buffers.state.lock().free.len(), FREE_MAX);
        buffers.close();
        assert_eq!(buffers.take(), None);
    }
}
