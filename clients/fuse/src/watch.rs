//! Looking out for the next request: a thread that stays awake for a moment serves it sooner than one that must be woken.
//!
//! To wake a thread costs more than all the rest of a small request, and whoever has just got an answer often asks again at once. So one of
//! the threads that would sleep looks at the device for a moment first. It spends a processor that nobody else wants: it gives way at each
//! look, stops when somebody else ran meanwhile, and hardly tries where it was in vain.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

/// How long one look-out lasts at most: some round trips of a process that only asks.
const WATCH_MAX: Duration = Duration::from_micros(50);
/// A thread that gave way for longer than this has given its processor to somebody who had use for it.
const GAVE_WAY: Duration = Duration::from_micros(10);
/// Between two looks, in turns of an empty loop: each look takes a lock of the connection, for which whoever asks would have to wait.
const PAUSE_TURNS: u32 = 8;
/// So many look-outs in vain, one after the other, and most are left out.
const VAIN_MAX: u32 = 8;
/// Then one in so many is tried all the same.
const TRIED_EVERY: u32 = 32;
/// So many first looks, one after the other, that found something: whoever reads next finds something, too, and most looks are left out.
const BUSY_MIN: u32 = 8;
/// Then one in so many is made all the same.
const LOOKED_EVERY: u32 = 8;

/// The look-out that the threads of a session share: one of them at a time.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    taken: AtomicBool,
    /// Look-outs in vain since the last one that saw something.
    vain: AtomicU32,
    /// First looks that saw something, or were left out for that reason, since the last one that did not.
    at_once: AtomicU32,
}

/// How a look-out ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    AtOnce,
    InTime,
    Nothing,
}

impl Watch {
    /// Looks at `device` until there is something to read, for a moment at most. To read may still have to wait: another thread may have
    /// been there first.
    pub(crate) fn look_out(&self, device: &impl AsFd) {
        let at_once = self.at_once.load(Relaxed);
        if at_once >= BUSY_MIN && !at_once.is_multiple_of(LOOKED_EVERY) {
            self.at_once.store(at_once.wrapping_add(1).max(BUSY_MIN), Relaxed);
            return;
        }
        let vain = self.vain.load(Relaxed);
        if vain >= VAIN_MAX && !vain.is_multiple_of(TRIED_EVERY) {
            self.vain.store(vain.wrapping_add(1).max(VAIN_MAX), Relaxed);
            return;
        }
        if self.taken.swap(true, Relaxed) {
            return;
        }
        let seen = seen_in_time(device);
        self.vain.store(if seen == Seen::Nothing { vain.wrapping_add(1) } else { 0 }, Relaxed);
        self.at_once.store(if seen == Seen::AtOnce { at_once.wrapping_add(1) } else { 0 }, Relaxed);
        self.taken.store(false, Relaxed);
    }
}

fn seen_in_time(device: &impl AsFd) -> Seen {
    let mut seen = Seen::AtOnce;
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let begun = Instant::now();
    let mut looked = begun;
    loop {
        let mut wanted = [PollFd::new(device, PollFlags::IN)];
        match rustix::event::poll(&mut wanted, Some(&at_once)) {
            Ok(0) => {}
            // An error of the device is seen by whoever reads next.
            Ok(_) | Err(_) => return seen,
        }
        (0..PAUSE_TURNS).for_each(|_| std::hint::spin_loop());
        thread::yield_now();
        let now = Instant::now();
        if now - looked > GAVE_WAY || now - begun > WATCH_MAX {
            return Seen::Nothing;
        }
        looked = now;
        seen = Seen::InTime;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn what_comes_is_seen_and_what_does_not_come_is_hardly_looked_for() {
        let watch = Watch::default();
        let (reader, mut writer) = std::io::pipe().unwrap();
        for vain in 1..=VAIN_MAX {
            watch.look_out(&reader);
            assert_eq!(watch.vain.load(Relaxed), vain);
        }
        writer.write_all(b"x").unwrap();
        // Left out, until it is tried again.
        for _ in VAIN_MAX..TRIED_EVERY {
            watch.look_out(&reader);
            assert_ne!(watch.vain.load(Relaxed), 0);
        }
        watch.look_out(&reader);
        assert_eq!(watch.vain.load(Relaxed), 0, "it was seen");
        assert!(!watch.taken.load(Relaxed));
    }

    #[test]
    fn where_there_is_always_something_one_look_in_eight_is_made() {
        let watch = Watch::default();
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"x").unwrap();
        for found in 1..=BUSY_MIN {
            watch.look_out(&reader);
            assert_eq!(watch.at_once.load(Relaxed), found);
        }
        watch.look_out(&reader);
        reader.read_exact(&mut [0]).unwrap();
        // Left out, until it is looked for again.
        for _ in BUSY_MIN + 1..BUSY_MIN + LOOKED_EVERY - 1 {
            watch.look_out(&reader);
        }
        assert_eq!((watch.at_once.load(Relaxed), watch.vain.load(Relaxed)), (BUSY_MIN + LOOKED_EVERY - 1, 0));
        watch.look_out(&reader);
        watch.look_out(&reader);
        assert_eq!((watch.at_once.load(Relaxed), watch.vain.load(Relaxed)), (0, 1), "it was in vain");
    }

    #[test]
    fn one_looks_out_at_a_time() {
        let watch = Watch::default();
        let (reader, _writer) = std::io::pipe().unwrap();
        watch.taken.store(true, Relaxed);
        watch.look_out(&reader);
        assert_eq!(watch.vain.load(Relaxed), 0, "it did not look");
    }
}
