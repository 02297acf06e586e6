//! Who asks: the process of a thread, and what it runs.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use forebay_trace::{Process, ProcessId};

/// For so long a thread is believed to be what it was.
const BELIEVED: Duration = Duration::from_millis(1);
/// For so long its number is believed to be the same process's, if what it runs is called the same.
const SAME: Duration = Duration::from_secs(1);
/// Threads that are remembered.
const THREADS_MAX: usize = 1 << 16;

/// A thread, as it was when it was looked at.
struct Known {
    process: ProcessId,
    command: String,
    looked: Instant,
    looked_at_all: Instant,
}

/// What is known of threads.
#[derive(Default)]
pub(super) struct Who {
    threads: HashMap<u32, Known>,
}

/// Whether a thread is known well enough.
pub(super) enum Look {
    /// Yes.
    Known(ProcessId),
    /// It is the same if it runs a program of the same name.
    Again,
    /// Not at all.
    New,
}

impl Who {
    /// What is known of a thread; with `anew`, it may have become another program just now.
    pub(super) fn look(&self, thread: u32, now: Instant, anew: bool) -> Look {
        match self.threads.get(&thread) {
            Some(known) if !anew && now.saturating_duration_since(known.looked) < BELIEVED => Look::Known(known.process),
            Some(known) if now.saturating_duration_since(known.looked_at_all) < SAME => Look::Again,
            _ => Look::New,
        }
    }

    /// The thread runs this; its process, if that is no news.
    pub(super) fn runs(&mut self, thread: u32, command: &str, now: Instant) -> Option<ProcessId> {
        let known = self.threads.get_mut(&thread).filter(|known| known.command == command)?;
        known.looked = now;
        Some(known.process)
    }

    /// The thread was looked at.
    pub(super) fn learn(&mut self, thread: u32, process: ProcessId, command: String, now: Instant) {
        if self.threads.len() >= THREADS_MAX {
            self.threads.clear();
        }
        self.threads.insert(thread, Known { process, command, looked: now, looked_at_all: now });
    }
}

/// What a thread runs, as the kernel has it; nothing if it is gone.
pub(super) fn command(thread: u32) -> String {
    let name = std::fs::read(format!("/proc/{thread}/comm")).unwrap_or_default();
    String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name)).into_owned()
}

/// Whether a thread is one of our own helpers, which look after the mount and do not use it. They are executed as `/proc/self/exe`.
fn is_helper(thread: u32, command: &str) -> bool {
    let arguments = || std::fs::read(format!("/proc/{thread}/cmdline")).unwrap_or_default();
    matches!(command, "forebay" | "exe") && arguments().split(|byte| *byte == 0).nth(1) == Some(b"flush-kernel")
}

/// The process of a thread: it waits for an answer, and so is still there, unless it was killed. None for one of our own.
pub(super) fn process(thread: u32) -> Option<Process> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:")).and_then(|number| number.trim().parse().ok());
    let pid = group.unwrap_or(u64::from(thread));
    let command = command(thread);
    (!is_helper(thread, &command)).then(|| Process { pid, thread: u64::from(thread), command, ..Process::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_looked_at_again_when_it_may_have_changed() {
        let mut who = Who::default();
        let begun = Instant::now();
        assert!(matches!(who.look(7, begun, false), Look::New));
        who.learn(7, ProcessId(0), "sh".into(), begun);
        assert!(matches!(who.look(7, begun, false), Look::Known(ProcessId(0))));
        assert!(matches!(who.look(7, begun, true), Look::Again), "it may have executed something");
        assert!(matches!(who.look(7, begun + BELIEVED, false), Look::Again));
        assert_eq!(who.runs(7, "sh", begun + BELIEVED), Some(ProcessId(0)));
        assert_eq!(who.runs(7, "cat", begun + BELIEVED), None, "another program");
        assert!(matches!(who.look(7, begun + SAME, false), Look::New), "the number may be another's by now");
    }

    #[test]
    fn this_thread_is_one_of_this_process() {
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let found = process(thread).unwrap();
        assert_eq!((found.pid, found.thread), (u64::from(std::process::id()), u64::from(thread)));
        assert_eq!(found.command, command(thread));
        assert!(!found.command.is_empty());
    }
}
