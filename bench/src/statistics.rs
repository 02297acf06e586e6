//! Minimum, median and maximum of few runs.

use serde::{Deserialize, Serialize};

/// What several runs gave.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The one in the middle; the mean of the two there if their number is even.
    pub median: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// The spread of these values, of which there is at least one.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn of(values: &[f64]) -> Spread {
        assert!(!values.is_empty(), "no runs");
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Spread { min: sorted[0], median, max: sorted[sorted.len() - 1] }
    }

    /// The spread of the ratios within each run.
    ///
    /// # Panics
    /// When there is no run.
    #[must_use]
    pub fn of_ratios(values: &[f64], to: &[f64]) -> Spread {
        let ratios: Vec<f64> = values.iter().zip(to).map(|(value, to)| value / to).collect();
        Spread::of(&ratios)
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn takes_the_middle_and_divides_run_by_run() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Spread { min: 1.0, median: 2.0, max: 3.0 });
        assert_eq!(Spread::of(&[4.0, 1.0]).median, 2.5);
        assert_eq!(Spread::of_ratios(&[2.0, 9.0, 4.0], &[1.0, 3.0, 1.0]), Spread { min: 2.0, median: 3.0, max: 4.0 });
    }
}
