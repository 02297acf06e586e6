//! Histograms of reuse distances, and what they say of a buffer's size.

/// How often each distance was seen. The counts are whole where nothing was sampled.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Histogram {
    /// Uses at each distance.
    pub counts: Vec<f64>,
    /// Uses that were the first of their chunk.
    pub first_uses: f64,
}

impl Histogram {
    /// Notes `weight` uses at a distance; none is a first use.
    pub fn add(&mut self, distance: Option<u64>, weight: f64) {
        match distance {
            None => self.first_uses += weight,
            Some(distance) => {
                let at = distance as usize;
                if at >= self.counts.len() {
                    self.counts.resize(at + 1, 0.0);
                }
                self.counts[at] += weight;
            }
        }
    }

    /// All uses.
    #[must_use]
    pub fn uses(&self) -> f64 {
        self.first_uses + self.counts.iter().sum::<f64>()
    }

    /// The sum of two.
    #[must_use]
    pub fn plus(&self, other: &Histogram) -> Histogram {
        let mut counts = vec![0.0; self.counts.len().max(other.counts.len())];
        for (at, count) in self.counts.iter().enumerate().chain(other.counts.iter().enumerate()) {
            counts[at] += count;
        }
        Histogram { counts, first_uses: self.first_uses + other.first_uses }
    }

    /// Uses in ranges of distance 0, 1, 2 to 3, 4 to 7 and so on: the first distance of each range, and how many.
    #[must_use]
    pub fn by_powers(&self) -> Vec<(u64, f64)> {
        let mut ranges: Vec<(u64, f64)> = Vec::new();
        for (distance, count) in self.counts.iter().enumerate().filter(|(_, count)| **count != 0.0) {
            let from = if distance == 0 { 0 } else { 1 << distance.ilog2() };
            match ranges.last_mut() {
                Some((last, sum)) if *last == from => *sum += count,
                _ => ranges.push((from, *count)),
            }
        }
        ranges
    }

    /// The distance that at least this share of all uses again do not exceed; none without any.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = share * self.counts.iter().sum::<f64>();
        let mut sum = 0.0;
        self.counts
            .iter()
            .position(|count| {
                sum += count;
                sum > 0.0 && sum >= wanted
            })
            .map(|at| at as u64)
    }

    /// The miss ratios of LRU with these capacities, in chunks and in any order: a use hits if its distance is below the capacity.
    #[must_use]
    pub fn miss_ratios(&self, capacities: &[u64]) -> Vec<f64> {
        let uses = self.uses();
        let mut sums = Vec::with_capacity(self.counts.len() + 1);
        let mut sum = 0.0;
        sums.push(0.0);
        for count in &self.counts {
            sum += count;
            sums.push(sum);
        }
        let hits = |capacity: u64| sums[usize::try_from(capacity).unwrap_or(usize::MAX).min(self.counts.len())];
        capacities.iter().map(|capacity| if uses == 0.0 { 0.0 } else { (uses - hits(*capacity)) / uses }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_ratios() {
        let mut histogram = Histogram::default();
        for distance in [None, None, None, None, Some(1), Some(2), Some(3)] {
            histogram.add(distance, 1.0);
        }
        assert_eq!(histogram.miss_ratios(&[0, 1, 2, 3, 4, 100]), [7.0, 7.0, 6.0, 5.0, 4.0, 4.0].map(|misses| misses / 7.0));
        assert_eq!(histogram.by_powers(), [(1, 1.0), (2, 2.0)]);
        assert_eq!((histogram.quantile(0.5), histogram.quantile(1.0), Histogram::default().quantile(0.5)), (Some(2), Some(3), None));
        assert_eq!(histogram.plus(&histogram).uses(), 14.0);
    }
}
