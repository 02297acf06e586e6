//! HPIO (W-02): many small regions of a file, each process's together or dealt out in turn.

use forebay_trace::Op;

use super::{Program, Step, Steps};

/// One run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hpio {
    /// Processes.
    pub processes: u64,
    /// Regions of each process.
    pub regions: u64,
    /// Bytes of a region.
    pub region_bytes: u64,
    /// Bytes between two regions.
    pub spacing_bytes: u64,
    /// Whether a process's regions stand together (`c-c`) or in turn with the others' (`c-nc`).
    pub is_contiguous: bool,
    /// Read or write.
    pub op: Op,
}

impl Hpio {
    /// As SSDUP+ runs it: 32 processes write 8 GiB without gaps.
    #[must_use]
    pub fn of_ssdup_plus(region_bytes: u64, is_contiguous: bool) -> Hpio {
        let regions = (8 << 30) / (32 * region_bytes.max(1));
        Hpio { processes: 32, regions, region_bytes, spacing_bytes: 0, is_contiguous, op: Op::Write }
    }

    /// Where a region of a process begins.
    #[must_use]
    pub fn offset(&self, process: u64, region: u64) -> u64 {
        let number = if self.is_contiguous { process * self.regions + region } else { region * self.processes + process };
        number * (self.region_bytes + self.spacing_bytes)
    }
}

impl Program for Hpio {
    fn name(&self) -> &str {
        "hpio"
    }

    fn phases(&self) -> usize {
        1
    }

    fn tasks(&self, _: usize) -> u64 {
        self.processes
    }

    fn steps(&self, _: usize, task: u64) -> Steps {
        let this = *self;
        let step = move |region| Step { think_ns: 0, op: this.op, file: 0, offset: this.offset(task, region), size: this.region_bytes };
        Box::new((0..this.regions).map(step))
    }

    fn path(&self, _: u64) -> String {
        "hpio.out".into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Workers;
    use super::super::tests::sums;
    use super::*;

    #[test]
    fn regions_are_as_many_as_printed() {
        let regions = [32, 64, 128, 256].map(|kib| Hpio::of_ssdup_plus(kib << 10, true).regions);
        assert_eq!(regions, [8192, 4096, 2048, 1024]);
    }

    #[test]
    fn regions_stand_together_or_in_turn() {
        let hpio = Hpio { processes: 4, regions: 3, region_bytes: 10, spacing_bytes: 2, is_contiguous: true, op: Op::Write };
        let of = |hpio: Hpio, process| [0, 1, 2].map(|region| hpio.offset(process, region));
        assert_eq!(of(hpio, 1), [36, 48, 60]);
        assert_eq!(of(Hpio { is_contiguous: false, ..hpio }, 1), [12, 60, 108]);
        for is_contiguous in [true, false] {
            let found = sums(Hpio { is_contiguous, ..hpio }, Workers::new(4, 1));
            assert_eq!((found.written, found.space), (120, 12 * 12 - 2));
        }
    }
}
