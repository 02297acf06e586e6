use super::*;
use crate::device::emulated::tests::{TestClock, Void};
use crate::device::emulated::{Answers, Clock, EmulatedDisk};
use crate::device::model::{DiskSpec, ModelDevice, ModelRequest, Scheduling, SsdSpec, preset};

/// The model itself, in its own time.
struct InModel {
    device: ModelDevice,
    now_ns: u64,
    bytes: u64,
    may_write: bool,
}

impl Subject for InModel {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn may_write(&self) -> bool {
        self.may_write
    }

    fn pause_ns(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    fn one(&mut self, operation: Operation, offset: u64, len: u64) -> io::Result<u64> {
        self.many(1, operation, &[offset], len)
    }

    fn many(&mut self, depth: usize, operation: Operation, offsets: &[u64], len: u64) -> io::Result<u64> {
        let (from_ns, mut next) = (self.now_ns, offsets.iter());
        loop {
            while self.device.pending() < depth {
                let Some(offset) = next.next() else { break };
                self.device.submit(self.now_ns, ModelRequest { id: 0, operation, offset: *offset, len });
            }
            let Some(next_ns) = self.device.next_ns() else { return Ok(self.now_ns - from_ns) };
            self.now_ns = next_ns;
            self.device.pop(next_ns);
        }
    }
}

fn assert_near(found: u64, expected: u64, per_cent: f64, what: &str) {
    assert!((found as f64 / expected as f64 - 1.0).abs() * 100.0 <= per_cent, "{what}: {found} instead of {expected}");
}

fn assert_same_disk(found: &DiskSpec, expected: &DiskSpec, name: &str) {
    let what = |field: &str| format!("{name}, {field}");
    assert_near(found.rotation_ns, expected.rotation_ns, 0.5, &what("turn"));
    assert_near(found.outer_bytes_per_s, expected.outer_bytes_per_s, 1.0, &what("outer rate"));
    assert_near(found.inner_bytes_per_s, expected.inner_bytes_per_s, 1.0, &what("inner rate"));
    for (found, expected, operation) in [(found.seek_read, expected.seek_read, "read"), (found.seek_write, expected.seek_write, "write")] {
        // What a command costs and what the shortest seek adds to it is little beside the waits that it is told apart from.
        assert!(found.track_ns.abs_diff(expected.track_ns) < 150_000, "{} {found:?}", what(operation));
        assert_near(found.average_ns, expected.average_ns, 3.0, &what(operation));
        assert_near(found.full_ns, expected.full_ns, 3.0, &what(operation));
    }
    assert!(found.command_ns.abs_diff(expected.command_ns) < 150_000, "{} {}", what("command"), found.command_ns);
    assert_near(found.buffer_bytes, expected.buffer_bytes, 5.0, &what("buffer"));
    assert_near(found.interface_bytes_per_s, expected.interface_bytes_per_s, 5.0, &what("interface"));
}

fn disk_spec(name: &str) -> DiskSpec {
    match preset(name) {
        Some(DeviceSpec::Disk(spec)) => spec,
        other => panic!("{name} is {other:?}"),
    }
}

/// H-14: an emulated disk of known parameters gives them back, though its clock oversleeps.
#[test]
fn an_emulated_disk_is_what_it_was_made_from() {
    for name in ["constellation-500g", "savvio-300g"] {
        let expected = disk_spec(name);
        let clock = TestClock::new(10_000);
        let below = Void { bytes: expected.capacity_bytes };
        let spec = DeviceSpec::Disk(expected);
        let disk = EmulatedDisk::with_clock(below, &spec, Scheduling::FIFO, Answers::Medium, clock.clone());
        let mut subject = Real::new(&disk, &clock, expected.capacity_bytes, true);
        let profile = profile(&mut subject, Effort::default(), &mut |_| {}).unwrap();
        let DeviceSpec::Disk(found) = profile.spec else { panic!("{:?}", profile.spec) };
        assert_same_disk(&found, &expected, name);
        // Minutes, not an afternoon.
        assert!(clock.now_ns() < 200_000_000_000, "{} s", clock.now_ns() / 1_000_000_000);
        assert_eq!(crate::device::model::parse(&crate::device::model::text(&profile.spec)).unwrap(), profile.spec);
    }
}

/// Without leave to write, reads stand for writes.
#[test]
fn a_disk_that_is_only_read() {
    let expected = disk_spec("savvio-300g");
    let device = ModelDevice::new(&DeviceSpec::Disk(expected), Scheduling::FIFO);
    let mut subject = InModel { device, now_ns: 0, bytes: expected.capacity_bytes, may_write: false };
    let profile = profile(&mut subject, Effort::default(), &mut |_| {}).unwrap();
    let DeviceSpec::Disk(found) = profile.spec else { panic!("{:?}", profile.spec) };
    assert_same_disk(&found, &DiskSpec { seek_write: expected.seek_read, ..expected }, "only read");
    assert!(profile.assumed.iter().any(|line| line.contains("writes")), "{:?}", profile.assumed);
}

/// H-14, for SSDs: within 3 %.
#[test]
fn an_ssd_is_what_it_was_made_from() {
    let expected = SsdSpec {
        read_ns: 100_000,
        write_ns: 50_000,
        read_bytes_per_s: 500_000_000,
        write_bytes_per_s: 250_000_000,
        channels: 8,
        random_write_amplification_per_mille: 3000,
    };
    let device = ModelDevice::new(&DeviceSpec::Ssd(expected), Scheduling::FIFO);
    let mut subject = InModel { device, now_ns: 0, bytes: 64 << 30, may_write: true };
    let profile = profile(&mut subject, Effort::default(), &mut |_| {}).unwrap();
    let DeviceSpec::Ssd(found) = profile.spec else { panic!("{:?}", profile.spec) };
    assert_near(found.read_ns, expected.read_ns, 3.0, "latency of reads");
    assert_near(found.write_ns, expected.write_ns, 3.0, "latency of writes");
    assert_near(found.read_bytes_per_s, expected.read_bytes_per_s, 3.0, "rate of reads");
    assert_near(found.write_bytes_per_s, expected.write_bytes_per_s, 3.0, "rate of writes");
    assert_eq!(found.channels, expected.channels);
    assert_near(found.random_write_amplification_per_mille, expected.random_write_amplification_per_mille, 3.0, "amplification");
}

#[test]
fn a_device_that_is_too_small_is_refused() {
    let device = ModelDevice::new(&preset("nvme").unwrap(), Scheduling::FIFO);
    let mut subject = InModel { device, now_ns: 0, bytes: 1 << 20, may_write: false };
    assert!(matches!(profile(&mut subject, Effort::QUICK, &mut |_| {}), Err(ProfileError::Small { bytes: 1_048_576 })));
}
