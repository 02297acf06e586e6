//! A program that was seen at work: the steps of its tasks, cut from traces.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_trace::statistics::chunks::is_access;
use forebay_trace::{Error, FileId, Op, Source};

use super::{Program, Step, Steps};

/// One task as it was seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecordedTask {
    steps: Arc<[Step]>,
}

/// A program whose tasks are known from traces of real runs; phases are told by who traced it.
#[derive(Clone, Debug)]
pub struct Recorded {
    name: String,
    chunk_bytes: u64,
    phases: Vec<Vec<RecordedTask>>,
    paths: Vec<String>,
    files: HashMap<String, u64>,
}

impl Recorded {
    /// Without phases yet. What a task reads or writes of one chunk without a break is one step, however small the calls were: that is what
    /// caches above a buffer make of it.
    #[must_use]
    pub fn new(name: &str, chunk_bytes: u64) -> Recorded {
        let chunk_bytes = chunk_bytes.max(1);
        Recorded { name: name.to_owned(), chunk_bytes, phases: Vec::new(), paths: Vec::new(), files: HashMap::new() }
    }

    /// The tasks that are added next wait for those before.
    pub fn begin_phase(&mut self) {
        self.phases.push(Vec::new());
    }

    /// Adds a task: the reads and writes of a trace on files that `name_of` gives a name. The steps' think times are the times between
    /// them.
    ///
    /// # Errors
    /// If the trace cannot be read.
    pub fn add_task(&mut self, source: &mut (impl Source + ?Sized), name_of: impl Fn(&str) -> Option<String>) -> Result<u64, Error> {
        let (mut steps, mut known, mut records) = (Vec::<Step>::new(), HashMap::<FileId, Option<u64>>::new(), Vec::new());
        while let Some(record) = source.next_record()? {
            if is_access(&record) && record.moved_bytes() > 0 {
                records.push(record);
            }
        }
        records.sort_by_key(|record| record.start_ns);
        let mut end_ns = records.first().map_or(0, |record| record.start_ns);
        for record in &records {
            let number = *known.entry(record.file).or_insert_with(|| {
                let path = String::from_utf8_lossy(source.names().path(record.file)).into_owned();
                name_of(&path).map(|name| self.file(name))
            });
            let Some(file) = number else { continue };
            let (op, offset, size) = (record.op, record.offset, record.moved_bytes());
            let step = Step { think_ns: record.start_ns.saturating_sub(end_ns), op, file, offset, size };
            end_ns = end_ns.max(record.end_ns());
            self.push(&mut steps, step);
        }
        let moved = steps.iter().map(|step| step.size).sum();
        if self.phases.is_empty() {
            self.begin_phase();
        }
        if let Some(phase) = self.phases.last_mut() {
            phase.push(RecordedTask { steps: steps.into() });
        }
        Ok(moved)
    }

    fn file(&mut self, name: String) -> u64 {
        let next = self.paths.len() as u64;
        *self.files.entry(name.clone()).or_insert_with(|| {
            self.paths.push(name);
            next
        })
    }

    /// Adds a step, to the one before if it goes on there within a chunk.
    fn push(&self, steps: &mut Vec<Step>, step: Step) {
        if let Some(last) = steps.last_mut()
            && (last.op, last.file, last.offset + last.size) == (step.op, step.file, step.offset)
            && last.offset / self.chunk_bytes == (step.offset + step.size - 1) / self.chunk_bytes
        {
            last.size += step.size;
            last.think_ns += step.think_ns;
            return;
        }
        steps.push(step);
    }

    /// Bytes that were read and written.
    #[must_use]
    pub fn bytes(&self, op: Op) -> u64 {
        let tasks = self.phases.iter().flatten();
        tasks.flat_map(|task| task.steps.iter()).filter(|step| step.op == op).map(|step| step.size).sum()
    }
}

impl Program for Recorded {
    fn name(&self) -> &str {
        &self.name
    }

    fn phases(&self) -> usize {
        self.phases.len()
    }

    fn tasks(&self, phase: usize) -> u64 {
        self.phases[phase].len() as u64
    }

    fn steps(&self, phase: usize, task: u64) -> Steps {
        let steps = self.phases[phase][task as usize].steps.clone();
        Box::new((0..steps.len()).map(move |at| steps[at]))
    }

    fn path(&self, file: u64) -> String {
        self.paths.get(file as usize).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::records;
    use super::super::{Himeno, Player, Workers};
    use super::*;

    /// What a player gives, cut into tasks and played again, moves the same bytes of the same files.
    #[test]
    fn a_recording_plays_what_was_recorded() {
        let himeno = Himeno { nodes: 1, checkpoints: 3, checkpoint_bytes: 10_000, think_ns: 1000, request_bytes: 1000 };
        let player = || Player::new(Arc::new(himeno), Workers::new(1, 1), Box::new(super::super::Direct::default()));
        let mut recorded = Recorded::new("again", 512);
        let moved = recorded.add_task(&mut player(), |path| (!path.ends_with("1.00000")).then(|| path.to_owned())).unwrap();
        assert_eq!((moved, recorded.bytes(Op::Write), recorded.bytes(Op::Read)), (20_000, 20_000, 0));
        let (again, paths) = records(Arc::new(recorded), Workers::new(1, 1));
        assert_eq!((again.len(), paths), (20, vec!["himeno.000.00000".to_owned(), "himeno.002.00000".to_owned()]));
    }

    #[test]
    fn pieces_of_a_chunk_are_one_step() {
        let himeno = Himeno { nodes: 1, checkpoints: 1, checkpoint_bytes: 10_000, think_ns: 1000, request_bytes: 500 };
        let mut player = Player::new(Arc::new(himeno), Workers::new(1, 1), Box::new(super::super::Direct::default()));
        let mut recorded = Recorded::new("again", 1000);
        recorded.add_task(&mut player, |path| Some(path.to_owned())).unwrap();
        let steps: Vec<Step> = recorded.steps(0, 0).collect();
        assert_eq!((steps.len(), steps[3].offset, steps[3].size), (10, 3000, 1000));
    }
}
