//! Parallel and sequential parts of a run (B-19): times in which several processes live, and those in which one does or none. Within a
//! parallel part the order of operations is chance; across parts it is fixed.

use super::chunks::is_access;
use crate::record::Record;

/// A part of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// When it begins, as the trace counts time, nanoseconds.
    pub from_ns: u64,
    /// When it ends.
    pub to_ns: u64,
    /// The most processes that lived at a time.
    pub processes_max: u32,
}

impl Part {
    /// Whether several processes lived.
    #[must_use]
    pub fn is_parallel(&self) -> bool {
        self.processes_max > 1
    }
}

/// Notes when processes live: from the begin of their first read or write to the end of their last.
#[derive(Default)]
pub struct Phases {
    lives: Vec<Option<(u64, u64)>>,
}

impl Phases {
    /// Notes a record.
    pub fn add(&mut self, record: &Record) {
        if !is_access(record) || record.process == crate::record::ProcessId::NONE {
            return;
        }
        let at = record.process.0 as usize;
        if at >= self.lives.len() {
            self.lives.resize(at + 1, None);
        }
        let (begin, end) = self.lives[at].get_or_insert((record.start_ns, record.end_ns()));
        *begin = (*begin).min(record.start_ns);
        *end = (*end).max(record.end_ns());
    }

    /// Processes that read or wrote.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.lives.iter().flatten().count()
    }

    /// The parts in the order of time, without gaps: a time when nobody lives belongs to the sequential part around it.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        // An end comes before a begin at the same time: who follows another is not parallel to it.
        let mut events: Vec<(u64, i32)> =
            self.lives.iter().flatten().flat_map(|(begin, end)| [(*begin, 1), ((*end).max(begin + 1), -1)]).collect();
        events.sort_unstable();
        let (mut parts, mut living) = (Vec::<Part>::new(), 0i32);
        for (at, (time, change)) in events.iter().enumerate() {
            living += change;
            let Some((next, _)) = events.get(at + 1).filter(|(next, _)| next > time) else { continue };
            let part = Part { from_ns: *time, to_ns: *next, processes_max: living as u32 };
            match parts.last_mut() {
                Some(last) if last.is_parallel() == part.is_parallel() => {
                    last.to_ns = part.to_ns;
                    last.processes_max = last.processes_max.max(part.processes_max);
                }
                _ => parts.push(part),
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Op, ProcessId};

    #[test]
    fn parts_alternate() {
        let mut phases = Phases::default();
        for (process, start_ns, duration_ns) in [(0, 0, 10), (1, 10, 5), (2, 12, 8), (3, 13, 1), (1, 18, 1), (4, 30, 10), (4, 45, 5)] {
            let process = ProcessId(process);
            phases.add(&Record { process, duration_ns, size: 1, result: 1, ..Record::new(Op::Read, start_ns) });
        }
        let parts: Vec<(u64, u64, u32)> = phases.parts().iter().map(|part| (part.from_ns, part.to_ns, part.processes_max)).collect();
        assert_eq!(parts, [(0, 12, 1), (12, 19, 3), (19, 50, 1)]);
        assert_eq!(phases.processes(), 5);
    }
}
