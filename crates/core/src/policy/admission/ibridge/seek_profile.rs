//! The seek profile (I-04): from a distance on the disk to a time.

use alloc::vec::Vec;
use thiserror::Error;

/// Why points make no profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SeekProfileError {
    /// There is nothing to interpolate between.
    #[error("a seek profile needs at least one point")]
    Empty,
    /// Distances must ascend, and times must not fall.
    #[error("point {0} of the seek profile is not further than the one before, or is reached sooner")]
    NotMonotone(usize),
}

/// Points of distance and time, with straight lines between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeekProfile {
    /// Distance in bytes, time in ns; ascending, the first one beyond 0.
    points: Vec<(u64, u64)>,
}

/// A root that becomes a line: what most disks do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeekFit {
    /// The shortest seek, ns.
    pub base_ns: u64,
    /// In addition for a distance of 1 GiB, as the root of it grows, ns.
    pub root_ns: u64,
    /// From here on the time grows as a line, bytes.
    pub knee_bytes: u64,
    /// Along the line, for each GiB, ns.
    pub line_ns_per_gib: u64,
    /// The longest distance, bytes.
    pub full_bytes: u64,
}

/// No distance is shorter than a sector.
const SECTOR_BYTES: u64 = 512;

impl SeekProfile {
    /// A profile through measured points: `(distance in bytes, time in ns)`. No distance costs nothing; beyond the last point its time
    /// holds.
    pub fn new(points: Vec<(u64, u64)>) -> Result<SeekProfile, SeekProfileError> {
        if points.is_empty() {
            return Err(SeekProfileError::Empty);
        }
        let ascends = |pair: &[(u64, u64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        if points[0].0 == 0 {
            return Err(SeekProfileError::NotMonotone(0));
        }
        match points.windows(2).position(|pair| !ascends(pair)) {
            Some(at) => Err(SeekProfileError::NotMonotone(at + 1)),
            None => Ok(SeekProfile { points }),
        }
    }

    /// The profile of a fit, in steps of a quarter.
    pub fn fitted(fit: SeekFit) -> SeekProfile {
        let root_ns = |distance: u64| {
            // The root of distance / 2^30, in 2^15ths.
            let root = u128::from(distance).isqrt();
            ((u128::from(fit.root_ns) * root) >> 15) as u64
        };
        let knee_ns = root_ns(fit.knee_bytes);
        let mut points = Vec::new();
        let mut distance = SECTOR_BYTES;
        loop {
            let last = distance >= fit.full_bytes;
            let distance_bytes = distance.min(fit.full_bytes.max(SECTOR_BYTES));
            let beyond = distance_bytes.saturating_sub(fit.knee_bytes);
            let along_ns = if beyond == 0 { root_ns(distance_bytes) } else { knee_ns + line_ns(fit.line_ns_per_gib, beyond) };
            points.push((distance_bytes, fit.base_ns + along_ns));
            if last {
                return SeekProfile { points };
            }
            distance += (distance / 4).max(SECTOR_BYTES);
        }
    }

    /// The time for a distance, ns.
    pub fn seek_ns(&self, distance: u64) -> u64 {
        if distance == 0 {
            return 0;
        }
        let behind = self.points.partition_point(|(at, _)| *at <= distance);
        match (behind.checked_sub(1).map(|at| self.points[at]), self.points.get(behind)) {
            (Some((from, from_ns)), Some((to, to_ns))) => {
                let along = u128::from(to_ns - from_ns) * u128::from(distance - from) / u128::from(to - from);
                from_ns + along as u64
            }
            (Some((_, ns)), None) => ns,
            (None, Some((_, ns))) => *ns,
            (None, None) => 0,
        }
    }
}

fn line_ns(ns_per_gib: u64, bytes: u64) -> u64 {
    ((u128::from(ns_per_gib) * u128::from(bytes)) >> 30) as u64
}
