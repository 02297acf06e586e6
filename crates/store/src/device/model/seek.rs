//! The seek curve through three points of a data sheet.

use serde::{Deserialize, Serialize};

/// The three times that data sheets print, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SeekPoints {
    /// To the next track.
    pub track_ns: u64,
    /// The average over random pairs of places.
    pub average_ns: u64,
    /// From the first to the last cylinder.
    pub full_ns: u64,
}

/// `seek(x) = T + a x + b sqrt(x)`, with `x` the part of the full stroke.
///
/// The printed average is that over random pairs of places, whose distances have the density `2 (1 - x)`: so `E[x] = 1/3` and
/// `E[sqrt x] = 8/15`, from which `a` and `b` follow. Curves that take it for an average over distances fail for today's drives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SeekCurve {
    track_ns: f64,
    line_ns: f64,
    root_ns: f64,
}

impl SeekCurve {
    /// The curve through the points.
    pub fn new(points: SeekPoints) -> SeekCurve {
        let SeekPoints { track_ns, average_ns, full_ns } = points;
        let (track, average, full) = (track_ns as f64, average_ns as f64, full_ns as f64);
        let root_ns = 5.0 * (average - track) - 5.0 / 3.0 * (full - track);
        SeekCurve { track_ns: track, line_ns: full - track - root_ns, root_ns }
    }

    /// `a` and `b`, ns.
    pub fn coefficients_ns(&self) -> (f64, f64) {
        (self.line_ns, self.root_ns)
    }

    /// The time for a number of cylinders of `cylinders`; none for none.
    pub fn seek_ns(&self, distance: u64, cylinders: u64) -> u64 {
        if distance == 0 {
            return 0;
        }
        let x = distance as f64 / cylinders.saturating_sub(1).max(1) as f64;
        (self.track_ns + self.line_ns * x + self.root_ns * x.sqrt()).max(0.0) as u64
    }
}
