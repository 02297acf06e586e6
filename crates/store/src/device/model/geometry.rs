//! Where a byte stands on a disk: cylinder, and angle of the platter.

/// Bytes of a sector.
const SECTOR_BYTES: u64 = super::super::SECTOR_BYTES as u64;
/// Zones, from the outer edge to the inner one, each with as many sectors on all of its tracks.
const ZONES: u64 = 16;

/// Where a byte stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) cylinder: u64,
    /// The time from the index mark until the byte passes under the head, ns; below one turn.
    pub(super) angle_ns: u64,
    zone: usize,
    track: u64,
    within: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Zone {
    first_byte: u64,
    first_track: u64,
    track_bytes: u64,
}

/// Tracks of a disk, in the order of the addresses: all heads of a cylinder, then the next cylinder inwards.
///
/// Tracks are turned against each other by as much as the platter turns while the head changes, so that a long transfer goes on at once.
#[derive(Clone, PartialEq, Debug)]
pub struct Geometry {
    zones: Vec<Zone>,
    heads: u64,
    cylinders: u64,
    bytes: u64,
    rotation_ns: u64,
    head_switch_ns: u64,
    cylinder_switch_ns: u64,
}

impl Geometry {
    /// A disk of about `capacity_bytes`, whose long transfers run at the given rates at the outer and the inner edge.
    pub fn new(spec: &super::DiskSpec) -> Geometry {
        let heads = u64::from(spec.heads.max(1));
        let switches_ns = (heads - 1) * spec.head_switch_ns + spec.cylinder_switch_ns;
        // A cylinder takes its turns and its switches; the rates printed for drives have both in them.
        let cylinder_ns = heads * spec.rotation_ns + switches_ns;
        let track_bytes = |zone: u64| {
            let (outer, inner) = (spec.outer_bytes_per_s, spec.inner_bytes_per_s.min(spec.outer_bytes_per_s));
            let rate = outer - (outer - inner) * zone / (ZONES - 1);
            let bytes = u128::from(rate) * u128::from(cylinder_ns) / u128::from(super::NS_PER_S) / u128::from(heads);
            (bytes as u64 / SECTOR_BYTES).max(1) * SECTOR_BYTES
        };
        let turn: u64 = (0..ZONES).map(track_bytes).sum();
        let zone_cylinders = spec.capacity_bytes.div_ceil(turn * heads).max(1);
        let mut zones = Vec::with_capacity(ZONES as usize);
        let (mut first_byte, mut first_track) = (0, 0);
        for zone in 0..ZONES {
            let track_bytes = track_bytes(zone);
            zones.push(Zone { first_byte, first_track, track_bytes });
            first_track += zone_cylinders * heads;
            first_byte += zone_cylinders * heads * track_bytes;
        }
        Geometry {
            zones,
            heads,
            cylinders: zone_cylinders * ZONES,
            bytes: first_byte,
            rotation_ns: spec.rotation_ns,
            head_switch_ns: spec.head_switch_ns,
            cylinder_switch_ns: spec.cylinder_switch_ns,
        }
    }

    /// Bytes of the disk.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Cylinders.
    pub fn cylinders(&self) -> u64 {
        self.cylinders
    }

    /// The bytes of a cylinder.
    pub fn cylinder(&self, cylinder: u64) -> std::ops::Range<u64> {
        let track = cylinder.min(self.cylinders - 1) * self.heads;
        let zone = self.zones.partition_point(|zone| zone.first_track <= track) - 1;
        let Zone { first_byte, first_track, track_bytes } = self.zones[zone];
        let from = first_byte + (track - first_track) * track_bytes;
        from..from + self.heads * track_bytes
    }

    /// Where a byte stands; places beyond the end are counted from the start again.
    pub(super) fn locate(&self, byte: u64) -> Place {
        let byte = byte % self.bytes;
        let zone = self.zones.partition_point(|zone| zone.first_byte <= byte) - 1;
        let Zone { first_byte, first_track, track_bytes } = self.zones[zone];
        let track = first_track + (byte - first_byte) / track_bytes;
        let within = (byte - first_byte) % track_bytes;
        let (cylinder, head) = (track / self.heads, track % self.heads);
        let cylinder_skew_ns = (self.heads - 1) * self.head_switch_ns + self.cylinder_switch_ns;
        let skew_ns = cylinder * cylinder_skew_ns + head * self.head_switch_ns;
        let angle_ns = (within * self.rotation_ns / track_bytes + skew_ns) % self.rotation_ns;
        Place { cylinder, angle_ns, zone, track, within }
    }

    /// The time from the end of the track before to a place that begins a track; 0 within a track.
    pub(super) fn switch_before_ns(&self, place: &Place) -> u64 {
        match (place.within, place.track % self.heads) {
            (0, 0) => self.cylinder_switch_ns,
            (0, _) => self.head_switch_ns,
            _ => 0,
        }
    }

    /// The time that `len` bytes from a place on take to pass, switches between tracks included, and the cylinder of the last one.
    pub(super) fn transfer(&self, place: &Place, len: u64) -> (u64, u64) {
        let Place { mut zone, mut track, mut within, .. } = *place;
        let (mut left, mut ns) = (len, 0);
        loop {
            let track_bytes = self.zones[zone].track_bytes;
            let here = left.min(track_bytes - within);
            ns += here * self.rotation_ns / track_bytes;
            left -= here;
            if left == 0 {
                return (ns, track / self.heads);
            }
            (track, within) = (track + 1, 0);
            ns += if track % self.heads == 0 { self.cylinder_switch_ns } else { self.head_switch_ns };
            if track / self.heads >= self.cylinders {
                (zone, track) = (0, 0);
            } else if self.zones.get(zone + 1).is_some_and(|next| next.first_track == track) {
                zone += 1;
            }
        }
    }
}
