//! A program whose large requests are sent in pieces, one after the other, as file systems do that move data through buffers.

use super::{Program, Steps, sweep};

/// The same program in smaller requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InPieces<P> {
    /// The program.
    pub program: P,
    /// The largest request, bytes.
    pub bytes: u64,
}

impl<P: Program> Program for InPieces<P> {
    fn name(&self) -> &str {
        self.program.name()
    }

    fn phases(&self) -> usize {
        self.program.phases()
    }

    fn tasks(&self, phase: usize) -> u64 {
        self.program.tasks(phase)
    }

    fn steps(&self, phase: usize, task: u64) -> Steps {
        let bytes = self.bytes;
        let pieces = move |step: super::Step| sweep(step.op, step.file, step.offset, step.size, bytes, step.think_ns);
        Box::new(self.program.steps(phase, task).flat_map(pieces))
    }

    fn path(&self, file: u64) -> String {
        self.program.path(file)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Tile;
    use super::*;

    #[test]
    fn pieces_are_the_whole() {
        let tile = Tile::of_ssdup_plus(64, true);
        let pieces = InPieces { program: tile, bytes: 300 << 10 };
        let whole: u64 = tile.steps(0, 9).map(|step| step.size).sum();
        assert_eq!(pieces.steps(0, 9).map(|step| step.size).sum::<u64>(), whole);
        assert!(pieces.steps(0, 9).all(|step| step.size <= 300 << 10));
        let first = tile.steps(0, 9).next().map(|step| step.offset);
        assert_eq!(pieces.steps(0, 9).next().map(|step| step.offset), first);
    }
}
