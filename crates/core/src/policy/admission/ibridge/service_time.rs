//! The disk's average service time (I-03, I-05; equations 1 and 2).

use super::SeekProfile;

/// Which of the average and the new sample counts for seven eighths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Weights {
    /// The sample, as the paper prints it.
    #[default]
    NewCountsMore,
    /// The average, as in the scheduler that the paper refers to.
    OldCountsMore,
}

/// Follows the service time of a disk: a decaying average of what each request should have cost by distance, turn and size.
#[derive(Clone, Debug)]
pub struct ServiceTime {
    seek: SeekProfile,
    rotation_ns: u64,
    bytes_per_s: u64,
    weights: Weights,
    pub(super) average_ns: Option<u64>,
    /// Where the last request that the disk served began.
    pub(super) head: Option<u64>,
}

impl ServiceTime {
    /// Before the first request.
    pub fn new(seek: SeekProfile, rotation_ns: u64, bytes_per_s: u64, weights: Weights) -> Self {
        assert!(bytes_per_s > 0, "a disk that moves nothing");
        ServiceTime { seek, rotation_ns, bytes_per_s, weights, average_ns: None, head: None }
    }

    /// The average, from the first request on.
    pub fn average_ns(&self) -> Option<u64> {
        self.average_ns
    }

    /// What a request costs by itself: seek, half a turn, bytes. The distance is that of the first bytes, and the turn is always
    /// counted, even at no distance: as printed.
    pub fn sample_ns(&self, place: u64, len: u64) -> u64 {
        let distance = self.head.map_or(0, |head| head.abs_diff(place));
        let bytes_ns = (u128::from(len) * 1_000_000_000 / u128::from(self.bytes_per_s)) as u64;
        self.seek.seek_ns(distance) + self.rotation_ns + bytes_ns
    }

    /// The average if the disk serves this request.
    pub fn if_on_disk_ns(&self, place: u64, len: u64) -> u64 {
        let sample = self.sample_ns(place, len);
        let Some(average) = self.average_ns else { return sample };
        match self.weights {
            Weights::NewCountsMore => (average + 7 * sample) / 8,
            Weights::OldCountsMore => (7 * average + sample) / 8,
        }
    }

    /// By how much the average is lower if the SSD serves this request: then it stays as it is.
    pub fn return_ns(&self, place: u64, len: u64) -> i64 {
        let with = self.if_on_disk_ns(place, len);
        self.average_ns.map_or(0, |without| with as i64 - without as i64)
    }

    /// The disk serves this request.
    pub fn on_disk(&mut self, place: u64, len: u64) {
        self.average_ns = Some(self.if_on_disk_ns(place, len));
        self.head = Some(place);
    }

    /// The disk has served something that no client waits for.
    pub fn on_head_moved(&mut self, place: u64) {
        self.head = Some(place);
    }
}
