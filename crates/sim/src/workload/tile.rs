//! MPI-Tile-IO (W-03): a file as a plane of elements, and each process has a tile of it.

use forebay_trace::Op;

use super::{Program, Step, Steps};

/// One run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tile {
    /// Tiles beside each other.
    pub columns: u64,
    /// Tiles below each other.
    pub rows: u64,
    /// Elements of a tile's row.
    pub width: u64,
    /// Rows of elements of a tile.
    pub height: u64,
    /// Bytes of an element.
    pub element_bytes: u64,
    /// Read or write.
    pub op: Op,
}

impl Tile {
    /// As SSDUP+ runs it: 2048 x 2048 elements of 4 KiB. The first instance divides them into bands (`is_square` is false), the second
    /// one into tiles that are as nearly square as the number of processes, a power of two, allows.
    #[must_use]
    pub fn of_ssdup_plus(processes: u64, is_square: bool) -> Tile {
        let columns = if is_square { 1 << (processes.max(1).ilog2() / 2) } else { 1 };
        let rows = processes.max(1) / columns;
        Tile { columns, rows, width: 2048 / columns, height: 2048 / rows, element_bytes: 4096, op: Op::Write }
    }

    /// Bytes of a request: a row of a tile.
    #[must_use]
    pub fn request_bytes(&self) -> u64 {
        self.width * self.element_bytes
    }
}

impl Program for Tile {
    fn name(&self) -> &str {
        "tile"
    }

    fn phases(&self) -> usize {
        1
    }

    fn tasks(&self, _: usize) -> u64 {
        self.columns * self.rows
    }

    fn steps(&self, _: usize, task: u64) -> Steps {
        let this = *self;
        let (column, row) = (task % this.columns, task / this.columns);
        let step = move |line| {
            let requests_before = (row * this.height + line) * this.columns + column;
            Step { think_ns: 0, op: this.op, file: 0, offset: requests_before * this.request_bytes(), size: this.request_bytes() }
        };
        Box::new((0..this.height).map(step))
    }

    fn path(&self, _: u64) -> String {
        "tile.out".into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Workers;
    use super::super::tests::sums;
    use super::*;

    #[test]
    fn tiles_are_as_large_as_printed() {
        let tile = Tile::of_ssdup_plus(32, true);
        assert_eq!((tile.columns, tile.rows, tile.width, tile.request_bytes()), (4, 8, 512, 2 << 20));
        let columns = [16, 32, 64, 128].map(|processes| Tile::of_ssdup_plus(processes, true).columns);
        assert_eq!(columns, [4, 4, 8, 8]);
        let band = Tile::of_ssdup_plus(32, false);
        assert_eq!((band.columns, band.rows, band.request_bytes()), (1, 32, 8 << 20));
    }

    #[test]
    fn tiles_cover_the_plane() {
        for (processes, is_square) in [(16, false), (16, true), (32, true)] {
            let tile = Tile { element_bytes: 1, ..Tile::of_ssdup_plus(processes, is_square) };
            let found = sums(tile, Workers::new(processes as u32, 1));
            assert_eq!((found.written, found.space), (2048 * 2048, 2048 * 2048), "{tile:?}");
        }
    }
}
