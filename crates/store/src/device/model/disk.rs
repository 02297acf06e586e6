//! A disk: an arm that seeks, and a platter whose angle is known at every moment.
//!
//! A command costs its overhead, the seek, the wait until the first sector comes by, and the passing of its bytes. A command that goes on
//! where the last one ended costs only the passing, as long as the drive's buffer covers the time between: drives read ahead, and
//! hold writes back until they can go on with them.

use forebay_core::policy::Operation;
use serde::{Deserialize, Serialize};

use super::geometry::{Geometry, Place};
use super::seek::{SeekCurve, SeekPoints};
use super::{NS_PER_S, bytes_ns};

/// What a data sheet says of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// Bytes; the model has at least as many.
    pub capacity_bytes: u64,
    /// One turn, ns: 60 s by the turns a minute.
    pub rotation_ns: u64,
    /// What each command costs before anything moves, ns.
    pub command_ns: u64,
    /// Seeks before a read.
    pub seek_read: SeekPoints,
    /// Seeks before a write, which wait until the head has settled.
    pub seek_write: SeekPoints,
    /// The rate of a long transfer at the outer edge, where addresses begin, bytes a second.
    pub outer_bytes_per_s: u64,
    /// The same at the inner edge.
    pub inner_bytes_per_s: u64,
    /// Surfaces with a head each.
    pub heads: u32,
    /// From one head to the next, ns.
    pub head_switch_ns: u64,
    /// From one cylinder to the next within a transfer, ns.
    pub cylinder_switch_ns: u64,
    /// What the drive reads ahead, or holds back of a stream of writes, bytes.
    pub buffer_bytes: u64,
    /// The interface to the host, bytes a second.
    pub interface_bytes_per_s: u64,
}

impl DiskSpec {
    /// The time of half a turn, on average, ns.
    pub fn average_rotation_ns(&self) -> u64 {
        self.rotation_ns / 2
    }

    /// Distances in bytes and the time of a seek before a read, from 512 bytes to the whole disk in steps of a quarter: what a
    /// measurement of the drive would give.
    pub fn seek_profile(&self) -> Vec<(u64, u64)> {
        let disk = Disk::new(self);
        let (bytes, cylinders) = (disk.geometry.bytes(), disk.geometry.cylinders());
        let mut points = Vec::new();
        let mut distance = 512u64;
        while distance < bytes {
            // Even the shortest distance may be to the next track.
            let apart = (u128::from(distance) * u128::from(cylinders) / u128::from(bytes)) as u64;
            points.push((distance, disk.read.seek_ns(apart.max(1), cylinders)));
            distance += (distance / 4).max(512);
        }
        points
    }
}

/// A disk at some moment; see the head of this file.
#[derive(Clone, Debug)]
pub struct Disk {
    geometry: Geometry,
    read: SeekCurve,
    write: SeekCurve,
    rotation_ns: u64,
    command_ns: u64,
    interface_bytes_per_s: u64,
    /// How long the drive covers a pause in a stream.
    buffer_ns: u64,
    cylinder: u64,
    /// What the last command did, where it ended, and when its last byte passed under the head.
    last: Option<(Operation, u64, u64)>,
}

impl Disk {
    /// A disk with its head at the outer edge.
    pub fn new(spec: &DiskSpec) -> Disk {
        Disk {
            geometry: Geometry::new(spec),
            read: SeekCurve::new(spec.seek_read),
            write: SeekCurve::new(spec.seek_write),
            rotation_ns: spec.rotation_ns,
            command_ns: spec.command_ns,
            interface_bytes_per_s: spec.interface_bytes_per_s,
            buffer_ns: (u128::from(spec.buffer_bytes) * u128::from(NS_PER_S) / u128::from(spec.outer_bytes_per_s)) as u64,
            cylinder: 0,
            last: None,
        }
    }

    /// Its tracks.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Seek and wait for the first sector, ns, if the arm sets off at `from_ns`.
    fn positioning_ns(&self, from_ns: u64, operation: Operation, place: &Place) -> u64 {
        let curve = if operation == Operation::Read { &self.read } else { &self.write };
        let seek_ns = curve.seek_ns(self.cylinder.abs_diff(place.cylinder), self.geometry.cylinders());
        let angle_ns = (from_ns + seek_ns) % self.rotation_ns;
        seek_ns + (place.angle_ns + self.rotation_ns - angle_ns) % self.rotation_ns
    }

    /// How long the drive needs to reach the first sector of a command that it takes up now.
    pub(super) fn reach_ns(&self, now_ns: u64, operation: Operation, offset: u64, place: &Place) -> u64 {
        match self.continues(now_ns, operation, offset) {
            true => 0,
            false => self.positioning_ns(now_ns + self.command_ns, operation, place),
        }
    }

    /// Whether a command at this time would go on in the stream of the last one.
    fn continues(&self, start_ns: u64, operation: Operation, offset: u64) -> bool {
        self.last
            .is_some_and(|(last, end, media_ns)| last == operation && end == offset && start_ns.saturating_sub(media_ns) <= self.buffer_ns)
    }

    /// Takes a command at `start_ns`; returns when it is done.
    pub(super) fn serve(&mut self, start_ns: u64, operation: Operation, offset: u64, len: u64) -> u64 {
        let place = self.geometry.locate(offset);
        let (transfer_ns, cylinder) = self.geometry.transfer(&place, len);
        let ready_ns = start_ns + self.command_ns;
        let (done_ns, media_ns) = match self.last {
            Some((_, _, last_ns)) if self.continues(start_ns, operation, offset) => {
                // From one track to the next within the stream: the transfer knows only switches inside of itself.
                let media_ns = last_ns + self.geometry.switch_before_ns(&place) + transfer_ns;
                let done_ns = media_ns.max(ready_ns + bytes_ns(len, self.interface_bytes_per_s));
                // What was read ahead stays ahead; writes begin when they are there.
                let media_ns = if operation == Operation::Read { media_ns } else { media_ns.max(ready_ns) };
                (done_ns, media_ns)
            }
            _ => {
                let done_ns = ready_ns + self.positioning_ns(ready_ns, operation, &place) + transfer_ns;
                (done_ns, done_ns)
            }
        };
        self.cylinder = cylinder;
        self.last = Some((operation, offset + len, media_ns));
        done_ns
    }
}
