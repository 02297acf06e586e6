//! Taking the cost of the tracing file system out of the times between operations (M-06; the thesis's equations 5.6 to 5.8).
//!
//! The time that a program thinks between two operations, as a trace shows it, holds the overhead of the file system that traced. Its rate
//! is measured beforehand at several sizes with a file system that does no I/O; what the nearest size says is taken off. For one node's trace,
//! before it is merged with others.

use crate::error::Error;
use crate::record::Record;
use crate::source::{Source, Tables};
use crate::text::SECOND_NS;

/// Rates of the tracing file system alone, by the size of operations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overhead {
    /// Sizes and bytes per second, the smallest size first.
    rates: Vec<(u64, u64)>,
    /// Take off what the operation before cost, in which the overhead lies, instead of what this one costs, as the equation has it.
    pub previous: bool,
}

impl Overhead {
    /// Measured rates: sizes and bytes per second.
    ///
    /// # Errors
    /// If there is none, or one is zero.
    pub fn new(rates: impl IntoIterator<Item = (u64, u64)>) -> Result<Overhead, Error> {
        let mut rates: Vec<(u64, u64)> = rates.into_iter().collect();
        rates.sort_unstable();
        if rates.is_empty() || rates.iter().any(|(_, rate)| *rate == 0) {
            return Err(Error::Unsupported("a correction needs at least one rate, and none of 0 bytes per second".into()));
        }
        Ok(Overhead { rates, previous: false })
    }

    /// What an operation costs, nanoseconds: its size by the rate of the nearest size that was measured, the smaller one if two are as near.
    #[must_use]
    pub fn cost_ns(&self, record: &Record) -> u64 {
        if !record.op.moves_data() || record.size == 0 {
            return 0;
        }
        let above = self.rates.partition_point(|(size, _)| *size < record.size);
        let near = [above.checked_sub(1), Some(above)].into_iter().flatten().filter_map(|at| self.rates.get(at));
        let rate = near.min_by_key(|(size, _)| size.abs_diff(record.size)).map_or(1, |(_, rate)| *rate);
        let cost = (u128::from(record.size) * u128::from(SECOND_NS) + u128::from(rate) / 2) / u128::from(rate);
        u64::try_from(cost).unwrap_or(u64::MAX)
    }
}

/// A source with corrected starts.
#[derive(Debug)]
pub struct Corrected<S: Source> {
    source: S,
    overhead: Overhead,
    /// Start as it was, start as corrected, and cost of the record before.
    before: Option<(u64, u64, u64)>,
}

impl<S: Source> Corrected<S> {
    /// Corrects the starts of a sorted source.
    pub fn new(source: S, overhead: Overhead) -> Corrected<S> {
        Corrected { source, overhead, before: None }
    }
}

impl<S: Source> Source for Corrected<S> {
    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        let Some(mut record) = self.source.next_record()? else { return Ok(None) };
        let (was_ns, cost_ns) = (record.start_ns, self.overhead.cost_ns(&record));
        if let Some((before_ns, corrected_ns, before_cost_ns)) = self.before {
            let taken_ns = if self.overhead.previous { before_cost_ns } else { cost_ns };
            // Overhead that is estimated above the gap must not turn the order round.
            record.start_ns = corrected_ns.saturating_add(was_ns.saturating_sub(before_ns).saturating_sub(taken_ns));
        }
        self.before = Some((was_ns, record.start_ns, cost_ns));
        Ok(Some(record))
    }

    fn tables(&self) -> &Tables {
        self.source.tables()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::muse;

    fn corrected(previous: bool, text: &str) -> Vec<u64> {
        let mut overhead = Overhead::new([(1024, 20_000_000), (12 * 1024, 90_000_000), (16 * 1024, 100_000_000)]).unwrap();
        overhead.previous = previous;
        let mut source = Corrected::new(muse::Reader::new(text.as_bytes()), overhead);
        let mut starts = Vec::new();
        while let Some(record) = source.next_record().unwrap() {
            starts.push(record.start_ns);
        }
        starts
    }

    #[test]
    fn the_gaps_of_the_figure_come_out_as_computed() {
        let text = "1478024308.996711 0.1 1 o /a 0 0\n1478024308.998007 0.1 1 r /a 0 16384\n1478024308.998506 0.1 1 r /a 16384 12174\n";
        let gaps = |starts: Vec<u64>| [starts[1] - starts[0], starts[2] - starts[1]];
        assert_eq!(gaps(corrected(false, text)), [1_132_160, 363_733]);
        assert_eq!(gaps(corrected(true, text)), [1_296_000, 335_160], "the open before costs nothing");
    }

    #[test]
    fn starts_never_go_back() {
        assert_eq!(
            corrected(false, "1 0.1 1 o /a 0 0\n1 0.1 1 w /a 0 1000000000\n2 0.1 1 c /a 0 0\n"),
            [1_000_000_000, 1_000_000_000, 2_000_000_000]
        );
        assert!(Overhead::new([]).is_err() && Overhead::new([(1, 0)]).is_err());
    }
}
