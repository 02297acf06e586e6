//! The curve of seeks through measured points.

use crate::device::model::SeekPoints;

/// A distance as a part of the full stroke, and the time of the seek, ns.
pub(super) type Point = (f64, f64);

/// `T + a x + b sqrt(x)` with the least sum of squares; `None` if the points do not determine it.
pub(super) fn seek_points(points: &[Point]) -> Option<SeekPoints> {
    // Normal equations of three unknowns.
    let mut rows = [[0.0f64; 4]; 3];
    for (x, ns) in points {
        let terms = [1.0, *x, x.sqrt()];
        for (row, term) in rows.iter_mut().zip(terms) {
            for (cell, other) in row.iter_mut().zip(terms) {
                *cell += term * other;
            }
            row[3] += term * ns;
        }
    }
    let [track, line, root] = solve(rows)?;
    let track = track.max(0.0);
    let average = (track + line / 3.0 + root * 8.0 / 15.0).max(track);
    let full = (track + line + root).max(average);
    Some(SeekPoints { track_ns: track as u64, average_ns: average as u64, full_ns: full as u64 })
}

/// Gauss, with the largest element first.
fn solve(mut rows: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let largest = (column..3).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, largest);
        let pivot = rows[column];
        if pivot[column].abs() < 1e-9 {
            return None;
        }
        for (number, row) in rows.iter_mut().enumerate().filter(|(number, _)| *number != column) {
            debug_assert!(number != column);
            let factor = row[column] / pivot[column];
            row.iter_mut().zip(pivot).for_each(|(cell, other)| *cell -= factor * other);
        }
    }
    let mut found = [0.0; 3];
    for (column, value) in found.iter_mut().enumerate() {
        *value = rows[column][3] / rows[column][column];
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::model::SeekCurve;

    #[test]
    fn a_curve_comes_back() {
        let points = SeekPoints { track_ns: 500_000, average_ns: 8_000_000, full_ns: 17_350_000 };
        let curve = SeekCurve::new(points);
        let cylinders = 1_000_001;
        let measured: Vec<Point> = (1..=20u64).map(|at| (at as f64 / 20.0, curve.seek_ns(at * 50_000, cylinders) as f64)).collect();
        let found = seek_points(&measured).unwrap();
        for (found, expected) in [(found.track_ns, points.track_ns), (found.average_ns, points.average_ns), (found.full_ns, points.full_ns)]
        {
            assert!(found.abs_diff(expected) < 100, "{found} {expected}");
        }
        assert_eq!(seek_points(&measured[..2]), None);
    }
}
