//! Plays a program on workers: from what is to be done to records with times.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use forebay_trace::{About, Clock, Error, FileId, Process, ProcessId, Record, Source, Tables};

use super::{Pace, Program, Step, Steps};

/// Who does the work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workers {
    /// Nodes.
    pub nodes: u32,
    /// Workers of each node: one task at a time each.
    pub per_node: u32,
}

impl Workers {
    /// So many workers on each of so many nodes; at least one of each.
    #[must_use]
    pub fn new(nodes: u32, per_node: u32) -> Workers {
        Workers { nodes: nodes.max(1), per_node: per_node.max(1) }
    }

    /// All of them.
    #[must_use]
    pub fn all(self) -> u32 {
        self.nodes * self.per_node
    }
}

/// A worker at its task.
struct Worker {
    process: ProcessId,
    steps: Option<Steps>,
    /// The step that comes next.
    next: Option<Step>,
    /// When its last step has ended.
    free_ns: u64,
}

/// Gives the records of a program.
pub struct Player {
    program: Arc<dyn Program>,
    pace: Box<dyn Pace>,
    tables: Tables,
    files: HashMap<u64, FileId>,
    workers: Vec<Worker>,
    /// When the next step of each busy worker begins.
    begins: BinaryHeap<Reverse<(u64, u32)>>,
    phase: usize,
    /// The task of the phase that is taken next.
    task: u64,
}

impl Player {
    /// A program with its workers; steps take as long as `pace` says.
    #[must_use]
    pub fn new(program: Arc<dyn Program>, workers: Workers, pace: Box<dyn Pace>) -> Player {
        let about = About { clock: Clock::Relative, ..About::default() }
            .with("source", "generator")
            .with("workload", program.name())
            .with("nodes", workers.nodes.to_string())
            .with("workers", workers.all().to_string());
        let tables = Tables { about, ..Tables::default() };
        let mut player =
            Player { program, pace, tables, files: HashMap::new(), workers: Vec::new(), begins: BinaryHeap::new(), phase: 0, task: 0 };
        for rank in 0..workers.all() {
            // Neighbours in rank are on one node, as batch systems place them.
            let process = Process {
                host: format!("node{}", rank / workers.per_node),
                pid: u64::from(rank) + 1,
                rank: Some(rank),
                ..Process::default()
            };
            // A name can only be refused for its length or number, which these do not reach; what has no name is nobody's.
            let process = player.tables.names.process(process).unwrap_or(ProcessId::NONE);
            player.workers.push(Worker { process, steps: None, next: None, free_ns: 0 });
        }
        player.begin_phase();
        player
    }

    fn begin_phase(&mut self) {
        for worker in 0..self.workers.len() as u32 {
            self.go_on(worker);
        }
    }

    /// Finds the next step of a worker, in its task or in one that nobody has taken.
    fn go_on(&mut self, number: u32) {
        let worker = &mut self.workers[number as usize];
        loop {
            if let Some(step) = worker.steps.as_mut().and_then(Iterator::next) {
                worker.next = Some(step);
                self.begins.push(Reverse((worker.free_ns + step.think_ns, number)));
                return;
            }
            if self.phase >= self.program.phases() || self.task >= self.program.tasks(self.phase) {
                worker.steps = None;
                return;
            }
            worker.steps = Some(self.program.steps(self.phase, self.task));
            self.task += 1;
        }
    }

    /// All tasks of a phase are done: the next one begins for all when the last has ended.
    fn next_phase(&mut self) {
        self.phase += 1;
        self.task = 0;
        let now_ns = self.workers.iter().map(|worker| worker.free_ns).max().unwrap_or(0);
        self.workers.iter_mut().for_each(|worker| worker.free_ns = now_ns);
        self.begin_phase();
    }

    fn file(&mut self, file: u64) -> Result<FileId, Error> {
        if let Some(id) = self.files.get(&file) {
            return Ok(*id);
        }
        let id = self.tables.names.file(self.program.path(file).as_bytes())?;
        self.files.insert(file, id);
        Ok(id)
    }
}

impl Source for Player {
    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        loop {
            if let Some(Reverse((start_ns, number))) = self.begins.pop()
                && let Some(step) = self.workers[number as usize].next.take()
            {
                let end_ns = self.pace.end_ns(start_ns, &step).max(start_ns);
                let worker = &mut self.workers[number as usize];
                worker.free_ns = end_ns;
                let process = worker.process;
                self.go_on(number);
                let file = self.file(step.file)?;
                let (offset, size) = (step.offset, step.size);
                let record = Record::new(step.op, start_ns);
                return Ok(Some(Record { duration_ns: end_ns - start_ns, process, file, offset, size, result: size as i64, ..record }));
            }
            if self.phase + 1 >= self.program.phases() {
                return Ok(None);
            }
            self.next_phase();
        }
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::records;
    use super::*;
    use forebay_trace::Op;

    /// Two phases; each task writes two bytes, and the last phase has tasks without steps, too.
    struct Toy;

    impl Program for Toy {
        fn name(&self) -> &str {
            "toy"
        }

        fn phases(&self) -> usize {
            3
        }

        fn tasks(&self, phase: usize) -> u64 {
            [3, 0, 4][phase]
        }

        fn steps(&self, phase: usize, task: u64) -> Steps {
            let count = if phase == 2 && task % 2 == 1 { 0 } else { 2 };
            let step = move |at| Step { think_ns: 5, op: Op::Write, file: task, offset: at, size: 1 };
            Box::new((0..count).map(step))
        }

        fn path(&self, file: u64) -> String {
            format!("f{file}")
        }
    }

    #[test]
    fn phases_wait_for_each_other_and_workers_take_tasks() {
        let (records, paths) = records(Arc::new(Toy), Workers::new(1, 2));
        let who: Vec<(u32, &str)> = records.iter().map(|r| (r.process.0, paths[r.file.0 as usize].as_str())).collect();
        assert_eq!(who.len(), 3 * 2 + 2 * 2);
        assert_eq!(who[..4], [(0, "f0"), (1, "f1"), (0, "f0"), (1, "f1")]);
        let first_ends = records[..6].iter().map(Record::end_ns).max().unwrap();
        assert!(records[6..].iter().all(|record| record.start_ns >= first_ends + 5), "the third phase waits for the first");
        assert!(records.is_sorted_by_key(|record| record.start_ns));
    }

    #[test]
    fn the_same_program_gives_the_same_records() {
        let all = || records(Arc::new(Toy), Workers::new(2, 2));
        assert_eq!(all(), all());
        let (records, _) = all();
        let mut player = Player::new(Arc::new(Toy), Workers::new(2, 2), Box::new(super::super::Direct::default()));
        player.next_record().unwrap();
        assert_eq!(player.names().who(records[0].process).map(|process| process.host.as_str()), Some("node0"));
    }
}
