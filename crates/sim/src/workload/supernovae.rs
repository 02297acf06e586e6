//! Supernovae (W-13): a workflow over images of a telescope. Each image is reduced to something smaller, which later stages read and write.
//!
//! The thesis prints 2.4 GB of input and 5.0 GB of I/O, as much read as written, 4.2 GB of it on intermediate files. So 0.8 GB of the input are
//! read, a third of it, and the stages after that read 1.7 GB of the 2.5 GB that they write.

use forebay_trace::Op;

use super::{MB, Program, Steps, sweep};

/// One run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Supernovae {
    /// Images.
    pub images: u64,
    /// Bytes of an image.
    pub image_bytes: u64,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// What is computed before each request, nanoseconds.
    pub think_ns: u64,
}

impl Default for Supernovae {
    fn default() -> Supernovae {
        Supernovae { images: 300, image_bytes: 8 * MB, request_bytes: 256 << 10, think_ns: 10_000_000 }
    }
}

impl Supernovae {
    /// So many parts of an image's 240.
    fn part(&self, parts: u64) -> u64 {
        self.image_bytes * parts / 240
    }
}

impl Program for Supernovae {
    fn name(&self) -> &str {
        "supernovae"
    }

    /// Reduce, subtract from a reference, look for candidates.
    fn phases(&self) -> usize {
        3
    }

    fn tasks(&self, _: usize) -> u64 {
        self.images
    }

    fn steps(&self, phase: usize, task: u64) -> Steps {
        let this = *self;
        let all = move |op, kind: u64, parts| sweep(op, task * 4 + kind, 0, this.part(parts), this.request_bytes, this.think_ns);
        let (read, write) = (Op::Read, Op::Write);
        match phase {
            0 => Box::new(all(read, 0, 80).chain(all(write, 1, 130))),
            1 => Box::new(all(read, 1, 100).chain(all(write, 2, 110))),
            _ => Box::new(all(read, 2, 70).chain(all(write, 3, 10))),
        }
    }

    fn path(&self, file: u64) -> String {
        format!("{}/{:04}", ["images", "reduced", "subtracted", "candidates"][(file % 4) as usize], file / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Workers;
    use super::super::tests::{Sums, sums};
    use super::*;

    #[test]
    fn sums_are_as_large_as_printed() {
        let supernovae = Supernovae::default();
        let found = sums(supernovae, Workers::new(4, 4));
        let near = |bytes: u64, printed: f64| {
            let ours = Sums::megabytes(bytes);
            assert!((ours / printed - 1.0).abs() < 0.01, "{ours:.0} MB where {printed} are printed");
        };
        near(supernovae.images * supernovae.image_bytes, 2400.0);
        near(found.read + found.written, 5000.0);
        near(found.read, 2500.0);
        let input: u64 = found.by_file.iter().filter(|(path, _)| path.starts_with("images/")).map(|(_, bytes)| bytes).sum();
        near(found.read + found.written - input, 4200.0);
    }
}
