//! The same work for many numbers, on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What `work` gives for each number below `count`, in their order. On so many threads, this one among them; 0 is one for each core.
pub fn map<T: Send>(threads: usize, count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let found: Vec<Mutex<Option<T>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let take = || {
        let at = next.fetch_add(1, Ordering::Relaxed);
        found.get(at).map(|place| (at, place))
    };
    let work = || {
        while let Some((at, place)) = take() {
            let result = work(at);
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    };
    let threads = if threads == 0 { cores() } else { threads };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(work);
        }
        work();
    });
    found.into_iter().filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

/// Threads that this machine can run at a time.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whoever_made_them() {
        for (threads, count) in [(0, 50), (1, 7), (3, 2), (8, 100), (4, 0)] {
            let expected: Vec<usize> = (0..count).map(|at| at * at).collect();
            assert_eq!(map(threads, count, |at| at * at), expected);
        }
    }
}
