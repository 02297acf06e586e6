//! Montage (W-12): a mosaic of the sky. Images are projected, the overlaps of neighbours are subtracted and fitted, the images corrected,
//! and all put together: what a phase writes the next reads, so nearly all I/O is on files that the run itself made.
//!
//! Sizes are those of the thesis's third data set (its Table 2.1): 1200 MB of input, 22.7 GB read, 7.6 GB written, 7.5 GB touched. The
//! thesis prints no sizes of the files, so how the sums are spread over them is a choice, and only the sums are held against print. It
//! leaves 640 MB of reads unbuffered, about half of the input: here the other half lies outside the mosaic and is not read.

use forebay_trace::Op;

use super::{Program, Steps, sweep};

/// Images along a side of the sky that is covered, full size.
const SIDE: u64 = 24;
/// Bytes of an image's parts.
const RAW_BYTES: u64 = 2_083_333;
/// What of an image lies in the mosaic.
const RAW_READ_BYTES: u64 = 1_112_000;
/// A projected image and its weights; as much for a corrected one.
const PROJECTED_BYTES: u64 = 2_083_333;
/// What a subtraction reads of an image and its weights together: the weights of the overlap only.
const SUBTRACTED_BYTES: u64 = 3_812_000;
/// A difference.
const DIFFERENCE_BYTES: u64 = 110_000;
/// The mosaic, for each image; of it, what is written twice, first as zeros.
const MOSAIC_BYTES: u64 = 3_160_000;
const MOSAIC_AGAIN_BYTES: u64 = 1_250_000;

/// Which files there are, for each image but the differences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
enum Kind {
    Raw,
    Projected,
    Weights,
    Difference,
    Corrected,
    CorrectedWeights,
    Mosaic,
}

const KINDS: u64 = 7;

fn file(kind: Kind, number: u64) -> u64 {
    number * KINDS + kind as u64
}

/// One run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Montage {
    /// Images along a side: as many squared.
    pub side: u64,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// What is computed before each request, nanoseconds.
    pub think_ns: u64,
}

impl Default for Montage {
    /// The thesis's third data set: 312 s of computing over all.
    fn default() -> Montage {
        Montage { side: SIDE, request_bytes: 256 << 10, think_ns: 2_500_000 }
    }
}

impl Montage {
    /// What lies there before the run, bytes, read or not.
    #[must_use]
    pub fn input_bytes(&self) -> u64 {
        self.images() * RAW_BYTES
    }

    fn images(&self) -> u64 {
        self.side * self.side
    }

    /// The pair of neighbours with this number, the smaller image first: to the right, down, and both diagonals down.
    fn pair(&self, number: u64) -> (u64, u64) {
        let side = self.side;
        let (right, down) = (side * (side - 1), side * (side - 1));
        let diagonal = (side - 1) * (side - 1);
        let across = |number: u64| (number / (side - 1), number % (side - 1));
        if number < right {
            let (row, column) = across(number);
            (row * side + column, row * side + column + 1)
        } else if number < right + down {
            let first = number - right;
            (first, first + side)
        } else if number < right + down + diagonal {
            let (row, column) = across(number - right - down);
            (row * side + column, (row + 1) * side + column + 1)
        } else {
            let (row, column) = across(number - right - down - diagonal);
            (row * side + column + 1, (row + 1) * side + column)
        }
    }

    fn pairs(&self) -> u64 {
        let side = self.side;
        if side < 2 { 0 } else { 2 * side * (side - 1) + 2 * (side - 1) * (side - 1) }
    }

    /// The pairs as the workflow lists them: those of an image together.
    fn listed(&self, at: u64) -> u64 {
        let side = self.side;
        // Four directions of an image follow each other; images at the border have fewer. Only the order matters, so it is found by
        // going round: the pairs of direction d for image row r are next to those of the others.
        let per_row = [side - 1, side, side - 1, side - 1];
        let begins = [0, side * (side - 1), 2 * side * (side - 1), 2 * side * (side - 1) + (side - 1) * (side - 1)];
        let whole: u64 = per_row.iter().sum();
        let (row, mut rest) = (at / whole, at % whole);
        if row == side - 1 {
            return begins[0] + row * (side - 1) + rest;
        }
        for (count, begin) in per_row.into_iter().zip(begins) {
            if rest < count {
                return begin + row * count + rest;
            }
            rest -= count;
        }
        unreachable!("the rest is below the sum of the row's counts")
    }
}

impl Program for Montage {
    fn name(&self) -> &str {
        "montage"
    }

    /// Project, subtract, fit, correct, add.
    fn phases(&self) -> usize {
        5
    }

    fn tasks(&self, phase: usize) -> u64 {
        match phase {
            0 | 3 => self.images(),
            1 => self.pairs(),
            _ => 1,
        }
    }

    fn steps(&self, phase: usize, task: u64) -> Steps {
        let this = *self;
        let all = move |op, kind, number, bytes| sweep(op, file(kind, number), 0, bytes, this.request_bytes, this.think_ns);
        let (read, write) = (Op::Read, Op::Write);
        match phase {
            0 => Box::new(all(read, Kind::Raw, task, RAW_READ_BYTES).chain(all(write, Kind::Projected, task, PROJECTED_BYTES)).chain(all(
                write,
                Kind::Weights,
                task,
                PROJECTED_BYTES,
            ))),
            1 => {
                let pair = this.listed(task);
                let (one, other) = this.pair(pair);
                let image = move |image| {
                    all(read, Kind::Projected, image, PROJECTED_BYTES).chain(all(
                        read,
                        Kind::Weights,
                        image,
                        SUBTRACTED_BYTES - PROJECTED_BYTES,
                    ))
                };
                Box::new(image(one).chain(image(other)).chain(all(write, Kind::Difference, pair, DIFFERENCE_BYTES)))
            }
            2 => Box::new((0..this.pairs()).flat_map(move |at| all(read, Kind::Difference, this.listed(at), DIFFERENCE_BYTES))),
            3 => Box::new(
                all(read, Kind::Projected, task, PROJECTED_BYTES)
                    .chain(all(read, Kind::Weights, task, PROJECTED_BYTES))
                    .chain(all(write, Kind::Corrected, task, PROJECTED_BYTES))
                    .chain(all(write, Kind::CorrectedWeights, task, PROJECTED_BYTES)),
            ),
            _ => {
                let images = this.images();
                let part =
                    move |image, bytes| sweep(write, file(Kind::Mosaic, 0), image * MOSAIC_BYTES, bytes, this.request_bytes, this.think_ns);
                let zeros = (0..images).flat_map(move |image| part(image, MOSAIC_AGAIN_BYTES));
                let add = (0..images).flat_map(move |image| {
                    all(read, Kind::Corrected, image, PROJECTED_BYTES)
                        .chain(all(read, Kind::CorrectedWeights, image, PROJECTED_BYTES))
                        .chain(part(image, MOSAIC_BYTES))
                });
                Box::new(zeros.chain(add))
            }
        }
    }

    fn path(&self, number: u64) -> String {
        let (kind, number) = (number % KINDS, number / KINDS);
        let (folder, name) = [
            ("raw", "image"),
            ("projected", "image"),
            ("projected", "weights"),
            ("differences", "pair"),
            ("corrected", "image"),
            ("corrected", "weights"),
            ("mosaic", "mosaic"),
        ][kind as usize];
        format!("{folder}/{name}{number:04}.fits")
    }
}

#[cfg(test)]
mod tests {
    use super::super::Workers;
    use super::super::tests::{Sums, sums};
    use super::*;

    /// Within three in a hundred of the sums of Table 2.1 and 5.2.
    #[test]
    fn sums_are_as_large_as_printed() {
        let montage = Montage::default();
        let found = sums(montage, Workers::new(8, 12));
        let near = |bytes: u64, printed: f64| {
            let ours = Sums::megabytes(bytes);
            assert!((ours / printed - 1.0).abs() < 0.03, "{ours:.0} MB where {printed} are printed");
        };
        near(montage.input_bytes(), 1200.0);
        near(found.read, 22_667.0);
        near(found.written, 7_583.0);
        near(found.space, 7_500.0);
        assert!(found.r_buf >= 0.97, "{}", found.r_buf);
        let raw: u64 = found.by_file.iter().filter(|(path, _)| path.starts_with("raw/")).map(|(_, bytes)| bytes).sum();
        let intermediate = 1.0 - raw as f64 / (found.read + found.written) as f64;
        assert!((intermediate - 0.977).abs() < 0.01, "{intermediate}");
    }

    #[test]
    fn every_pair_is_listed_once_and_is_of_neighbours() {
        for side in [2, 3, 5] {
            let montage = Montage { side, ..Montage::default() };
            let mut listed: Vec<u64> = (0..montage.pairs()).map(|at| montage.listed(at)).collect();
            listed.sort_unstable();
            assert!(listed.iter().copied().eq(0..montage.pairs()), "{side}: {listed:?}");
            let mut pairs: Vec<(u64, u64)> = listed.iter().map(|pair| montage.pair(*pair)).collect();
            for (one, other) in &pairs {
                let apart = |a: u64, b: u64| a.abs_diff(b);
                assert!(one < other && *other < side * side, "{one} {other}");
                assert!(apart(one / side, other / side) <= 1 && apart(one % side, other % side) <= 1, "{one} {other}");
            }
            pairs.sort_unstable();
            pairs.dedup();
            assert_eq!(pairs.len() as u64, montage.pairs());
        }
    }
}
