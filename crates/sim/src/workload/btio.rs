//! BTIO (W-04): the NAS benchmark BT that dumps its solution. A grid of N x N x N cells of five doubles; p = q * q processes have q blocks
//! of cells each. All dumps are written one after the other into one file, then all are read.

use forebay_trace::Op;

use super::{Program, Step, Steps, sweep};

/// Bytes of a cell: five doubles.
const CELL_BYTES: u64 = 40;

/// The size of the problem.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// 64 cells a side.
    A,
    /// 102 cells a side.
    B,
    /// 162 cells a side.
    C,
    /// 408 cells a side.
    D,
    /// 1020 cells a side.
    E,
}

impl Class {
    /// Cells along a side, and how often they are dumped.
    #[must_use]
    pub fn cells_and_dumps(self) -> (u64, u64) {
        match self {
            Class::A => (64, 40),
            Class::B => (102, 40),
            Class::C => (162, 40),
            Class::D => (408, 50),
            Class::E => (1020, 50),
        }
    }
}

/// One run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Btio {
    /// Cells along a side.
    pub cells: u64,
    /// Dumps.
    pub dumps: u64,
    /// Processes; a square number. With `collective_bytes`: those of them that write and read for all (one a node).
    pub processes: u64,
    /// "full": processes put their cells together, and each writes its share of the dump in requests of so many bytes. None is "simple":
    /// each row of a block's cells is a request.
    pub collective_bytes: Option<u64>,
    /// What is computed between two dumps, nanoseconds.
    pub think_ns: u64,
}

impl Btio {
    /// A class, "simple".
    #[must_use]
    pub fn simple(class: Class, processes: u64) -> Btio {
        let (cells, dumps) = class.cells_and_dumps();
        Btio { cells, dumps, processes: processes.max(1), collective_bytes: None, think_ns: 0 }
    }

    /// A class, "full": requests of 4 MiB by one process on each node.
    #[must_use]
    pub fn full(class: Class, nodes: u64) -> Btio {
        Btio { collective_bytes: Some(4 << 20), ..Btio::simple(class, nodes) }
    }

    /// Bytes of a dump.
    #[must_use]
    pub fn dump_bytes(&self) -> u64 {
        self.cells.pow(3) * CELL_BYTES
    }

    /// Blocks along a side.
    fn blocks(&self) -> u64 {
        self.processes.isqrt().max(1)
    }

    /// The first cell of a block along a side: blocks differ by one cell at most.
    fn block_begin(&self, block: u64) -> u64 {
        block * self.cells / self.blocks()
    }

    /// The requests of a process for a dump, "simple". Its q blocks lie on a diagonal, so that it has one in each layer of the grid.
    fn rows(self, dump: u64, process: u64, op: Op) -> impl Iterator<Item = Step> + Send {
        let blocks = self.blocks();
        let (row, column) = (process / blocks, process % blocks);
        let range = move |block: u64| self.block_begin(block)..self.block_begin(block + 1);
        (0..blocks).flat_map(move |layer| {
            let (x, y) = (range((column + layer) % blocks), range((row + layer) % blocks));
            range(layer).flat_map(move |z| {
                let x = x.clone();
                y.clone().map(move |y| {
                    let cell = x.start + self.cells * (y + self.cells * z);
                    let offset = dump * self.dump_bytes() + cell * CELL_BYTES;
                    Step { think_ns: 0, op, file: 0, offset, size: (x.end - x.start) * CELL_BYTES }
                })
            })
        })
    }
}

impl Program for Btio {
    fn name(&self) -> &str {
        "btio"
    }

    fn phases(&self) -> usize {
        2 * self.dumps as usize
    }

    fn tasks(&self, _: usize) -> u64 {
        self.processes
    }

    fn steps(&self, phase: usize, task: u64) -> Steps {
        let (this, phase) = (*self, phase as u64);
        let (op, dump) = if phase < this.dumps { (Op::Write, phase) } else { (Op::Read, phase - this.dumps) };
        let think_ns = if op == Op::Write { this.think_ns } else { 0 };
        let steps: Steps = match this.collective_bytes {
            None => Box::new(this.rows(dump, task, op)),
            Some(request) => {
                let begin = |task: u64| this.dump_bytes() * task / this.processes;
                Box::new(sweep(op, 0, dump * this.dump_bytes() + begin(task), begin(task + 1) - begin(task), request, 0))
            }
        };
        Box::new(steps.enumerate().map(move |(at, step)| if at == 0 { Step { think_ns, ..step } } else { step }))
    }

    fn path(&self, _: u64) -> String {
        "btio.out".into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Workers;
    use super::super::tests::sums;
    use super::*;

    /// The smallest request of a run, which the papers print; the largest may have one cell more.
    fn request_bytes(class: Class, processes: u64) -> u64 {
        Btio::simple(class, processes).steps(0, 0).take(100_000).map(|step| step.size).min().unwrap()
    }

    #[test]
    fn requests_are_as_large_as_printed() {
        assert_eq!([9, 16, 64, 100].map(|processes| request_bytes(Class::C, processes)), [2160, 1600, 800, 640]);
        assert_eq!((request_bytes(Class::D, 64), request_bytes(Class::E, 225)), (2040, 2720));
    }

    #[test]
    fn files_are_as_large_as_printed() {
        let bytes = |class| Btio::simple(class, 1).dump_bytes() * class.cells_and_dumps().1;
        assert_eq!((bytes(Class::C), bytes(Class::D)), (6_802_444_800, 135_834_624_000));
    }

    /// Every byte is written once and read once, by either way and any number of processes.
    #[test]
    fn the_blocks_cover_the_grid() {
        for processes in [1, 4, 9, 25] {
            for collective_bytes in [None, Some(1 << 16)] {
                let btio = Btio { cells: 23, dumps: 2, processes, collective_bytes, think_ns: 0 };
                let found = sums(btio, Workers::new(processes as u32, 1));
                let bytes = 2 * btio.dump_bytes();
                assert_eq!((found.read, found.written, found.space), (bytes, bytes, bytes), "{processes} {collective_bytes:?}");
                assert!((found.r_buf - 1.0).abs() < 1e-12, "what is read was written");
            }
        }
    }
}
