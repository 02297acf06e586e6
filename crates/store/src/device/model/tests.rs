use super::*;
use crate::device::model::disk::Disk;
use forebay_core::policy::Operation::{self, Read, Write};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const MB: u64 = 1_000_000;
const GB: u64 = 1_000_000_000;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }
}

fn disk_spec(name: &str) -> DiskSpec {
    match preset(name) {
        Some(DeviceSpec::Disk(spec)) => spec,
        other => panic!("{name} is {other:?}"),
    }
}

/// Keeps `depth` requests at the device until all are done; bytes a second.
fn rate(device: &mut ModelDevice, depth: usize, mut requests: impl Iterator<Item = (Operation, u64, u64)>) -> f64 {
    let (mut now_ns, mut bytes, mut id) = (0, 0, 0);
    loop {
        while device.pending() < depth {
            let Some((operation, offset, len)) = requests.next() else { break };
            id += 1;
            bytes += len;
            device.submit(now_ns, ModelRequest { id, operation, offset, len });
        }
        let Some(next_ns) = device.next_ns() else { return bytes as f64 / (now_ns as f64 / 1e9) };
        now_ns = next_ns;
        device.pop(now_ns).expect("something is done");
    }
}

fn random(operation: Operation, len: u64, span: u64, count: usize) -> impl Iterator<Item = (Operation, u64, u64)> {
    let mut random = Random(7);
    std::iter::repeat_with(move || (operation, random.below(span / len) * len, len)).take(count)
}

fn stream(operation: Operation, len: u64, count: u64) -> impl Iterator<Item = (Operation, u64, u64)> {
    (0..count).map(move |i| (operation, i * len, len))
}

fn assert_near(found: f64, expected: f64, per_cent: f64, what: &str) {
    assert!((found / expected - 1.0).abs() * 100.0 <= per_cent, "{what}: {found:.3} instead of {expected:.3}");
}

/// fed with table II of iBridge, the devices give its eight rates.
#[test]
fn rate_presets_return_their_rates() {
    for (name, rates) in [("ibridge-ssd", [160, 60, 140, 30]), ("ibridge-disk", [85, 15, 80, 5])] {
        let spec = preset(name).unwrap();
        let run =
            |requests: &mut dyn Iterator<Item = (Operation, u64, u64)>| rate(&mut ModelDevice::new(&spec, Scheduling::FIFO), 1, requests);
        let far = 100 * GB;
        let found = [
            run(&mut stream(Read, 4 * KIB, 20_000)),
            run(&mut random(Read, 4 * KIB, far, 20_000)),
            run(&mut stream(Write, 4 * KIB, 20_000)),
            run(&mut random(Write, 4 * KIB, far, 20_000)),
        ];
        for (found, expected) in found.iter().zip(rates) {
            assert_near(*found, expected as f64 * 1e6, 0.5, name);
        }
    }
}

/// The curve gives back its three points, and the published coefficients.
#[test]
fn seek_curves_pass_through_the_data_sheet() {
    let spec = disk_spec("constellation-500g");
    for (points, a, b) in [(spec.seek_read, 7.433, 9.417), (spec.seek_write, 7.153, 9.967)] {
        let curve = SeekCurve::new(points);
        let (line_ns, root_ns) = curve.coefficients_ns();
        assert!((line_ns / 1e6 - a).abs() < 0.001 && (root_ns / 1e6 - b).abs() < 0.001, "{line_ns} {root_ns}");
        let cylinders = 100_001;
        assert_eq!(curve.seek_ns(0, cylinders), 0);
        assert!(curve.seek_ns(cylinders - 1, cylinders).abs_diff(points.full_ns) < 10);
        let mut random = Random(1);
        let sum: u64 = (0..200_000).map(|_| curve.seek_ns(random.below(cylinders).abs_diff(random.below(cylinders)), cylinders)).sum();
        assert_near(sum as f64 / 200_000.0, points.average_ns as f64, 0.5, "average over random pairs");
    }
}

#[test]
fn write_amplification_follows_the_spare_space() {
    for (spare, expected) in [(0.07, 7.82), (0.12, 4.85), (0.28, 2.48), (0.50, 1.72), (1.0, 1.26)] {
        assert_near(write_amplification(spare), expected, 0.5, "amplification");
    }
}

/// The rates of an independent model of the same drives: random writes of a size over the whole disk or over 16 GB of it; first come
/// first served, the drive's queue of 32, and sorted batches of 128. Ours goes on sorting while requests come, which is better than
/// batches where seeks matter.
#[test]
fn random_writes_run_at_the_rates_of_another_model() {
    let cases = [
        ("constellation-500g", 500 * GB, 4 * KIB, [0.32, 0.85]),
        ("constellation-500g", 500 * GB, 64 * KIB, [4.8, 12.0]),
        ("constellation-500g", 500 * GB, 256 * KIB, [16.9, 33.4]),
        ("constellation-500g", 500 * GB, MIB, [42.8, 64.0]),
        ("constellation-500g", 16 * GB, 256 * KIB, [31.3, 58.2]),
        ("savvio-300g", 300 * GB, 4 * KIB, [0.53, 1.32]),
        ("savvio-300g", 300 * GB, 256 * KIB, [25.0, 43.8]),
        ("savvio-300g", 16 * GB, 256 * KIB, [39.3, 67.6]),
    ];
    let ncq = Scheduling { drive_queue: 32, ..Scheduling::FIFO };
    let mut faults = Vec::new();
    for (name, span, len, expected) in cases {
        for (scheduling, depth, expected) in [(Scheduling::FIFO, 1, expected[0]), (ncq, 32, expected[1])] {
            let mut device = ModelDevice::new(&preset(name).unwrap(), scheduling);
            let found = rate(&mut device, depth, random(Write, len, span, 4000)) / 1e6;
            if (found / expected - 1.0).abs() > 0.15 {
                faults.push(format!(
                    "{name} span {} GB, {} KiB, {depth} deep: {found:.2} instead of {expected} MB/s",
                    span / GB,
                    len / KIB
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn streams_run_at_the_rate_of_their_zone() {
    for (name, outer) in [("constellation-500g", 115), ("savvio-300g", 124)] {
        let spec = preset(name).unwrap();
        for operation in [Read, Write] {
            for (len, depth) in [(64 * KIB, 1), (256 * KIB, 1), (256 * KIB, 16)] {
                let mut device = ModelDevice::new(&spec, Scheduling::default());
                let found = rate(&mut device, depth, stream(operation, len, 2000));
                assert_near(found, (outer * MB) as f64, 2.0, name);
            }
        }
        let disk_spec = disk_spec(name);
        let bytes = Disk::new(&disk_spec).geometry().bytes();
        let inner = (0..1000).map(|i| (Read, bytes - 2 * GB + i * MIB, MIB));
        let found = rate(&mut ModelDevice::new(&spec, Scheduling::default()), 1, inner);
        assert_near(found, disk_spec.inner_bytes_per_s as f64, 2.0, name);
    }
}

/// The platter stands at the same angle whoever asks: the same command takes as much longer as it comes earlier, up to one turn.
#[test]
fn the_angle_of_the_platter_is_exact() {
    let spec = disk_spec("constellation-500g");
    let done = |start_ns| {
        let mut disk = Disk::new(&spec);
        disk.serve(start_ns, Read, 300 * MIB, 4 * KIB)
    };
    let (first, second) = (done(10_000_000), done(10_000_001));
    assert!(first == second || second - first >= spec.rotation_ns - 2, "{first} {second}");
    let mut turns: Vec<u64> = (0..100).map(|step| done(step * 1_000_003)).collect();
    turns.dedup();
    for pair in turns.windows(2) {
        assert_eq!((pair[1] - pair[0]) % spec.rotation_ns, 0, "the sector comes by once a turn");
    }
}

/// the deeper the window, the faster the disk; what is adjacent goes as one.
#[test]
fn a_deeper_window_is_faster() {
    let spec = preset("constellation-500g").unwrap();
    let found = [1, 8, 32, 128, 512].map(|window_requests| {
        let scheduling = Scheduling { window_requests, ..Scheduling::default() };
        rate(&mut ModelDevice::new(&spec, scheduling), 512, random(Write, 256 * KIB, 16 * GB, 8000))
    });
    assert!(found.windows(2).all(|pair| pair[1] > pair[0] * 1.02), "{found:?}");
}

/// Whatever comes is done exactly once, not before it came, and with time going forward; nothing is passed over for ever.
#[test]
fn every_request_is_done_once() {
    for name in PRESETS.map(|preset| preset.name) {
        let schedulings = [
            Scheduling::FIFO,
            Scheduling::default(),
            Scheduling { window_requests: 8, merge_bytes_max: 64 * KIB, drive_queue: 4 },
            Scheduling { window_requests: 1, merge_bytes_max: 0, drive_queue: 32 },
        ];
        for scheduling in schedulings {
            let mut random = Random(3);
            let mut device = ModelDevice::new(&preset(name).unwrap(), scheduling);
            let (mut now_ns, mut last_ns, mut came) = (0, 0, std::collections::BTreeMap::new());
            for id in 0..2000u64 {
                let operation = if random.below(3) == 0 { Read } else { Write };
                let offset = random.below(1 << 12) * 32 * KIB;
                device.submit(now_ns, ModelRequest { id, operation, offset, len: (1 + random.below(8)) * 8 * KIB });
                came.insert(id, now_ns);
                now_ns += random.below(4_000_000);
                while let Some(done) = device.pop(now_ns) {
                    assert!(done.time_ns >= last_ns && done.time_ns <= now_ns);
                    assert!(came.remove(&done.id).is_some_and(|at_ns| at_ns < done.time_ns), "{name}: {done:?}");
                    last_ns = done.time_ns;
                }
                assert_eq!(device.pending(), came.len());
            }
            while let Some(next_ns) = device.next_ns() {
                let done = device.pop(next_ns).unwrap();
                assert!(came.remove(&done.id).is_some());
            }
            assert!(came.is_empty(), "{name}: {} requests were never done", came.len());
        }
    }
}

/// What is asked late is told with the times at which it happened: an emulation that oversleeps loses nothing.
#[test]
fn a_late_caller_is_told_the_true_times() {
    let spec = preset("savvio-300g").unwrap();
    let run = |steps_ns: u64| {
        let mut device = ModelDevice::new(&spec, Scheduling::default());
        for (id, (operation, offset, len)) in (0..).zip(random(Read, 64 * KIB, 10 * GB, 200)) {
            device.submit(0, ModelRequest { id, operation, offset, len });
        }
        let (mut now_ns, mut done) = (0, Vec::new());
        while device.pending() > 0 || device.next_ns().is_some() {
            now_ns += steps_ns;
            done.extend(std::iter::from_fn(|| device.pop(now_ns)));
        }
        done
    };
    let exact = run(1_000);
    assert_eq!(exact.len(), 200);
    assert_eq!(run(7_777_777), exact);
    assert_eq!(run(1_000_000_000_000), exact);
}

#[test]
fn latencies_of_an_ssd_run_side_by_side() {
    let spec = SsdSpec {
        read_ns: 100_000,
        write_ns: 50_000,
        read_bytes_per_s: 500 * MB,
        write_bytes_per_s: 250 * MB,
        channels: 8,
        random_write_amplification_per_mille: 3000,
    };
    let run = |depth, requests: &mut dyn Iterator<Item = (Operation, u64, u64)>| {
        rate(&mut ModelDevice::new(&DeviceSpec::Ssd(spec), Scheduling::FIFO), depth, requests) / 1e6
    };
    // 100 us and 8.2 us for 4 KiB; eight times as many side by side.
    assert_near(run(1, &mut random(Read, 4 * KIB, GB, 5000)), 4096.0 / 108.192, 1.0, "one at a time");
    assert_near(run(8, &mut random(Read, 4 * KIB, GB, 5000)), 8.0 * 4096.0 / 108.192, 20.0, "eight at a time");
    assert_near(run(32, &mut stream(Read, MIB, 500)), 500.0, 1.0, "the bus");
    assert_near(run(32, &mut stream(Write, MIB, 500)), 250.0, 2.0, "in order");
    assert_near(run(32, &mut random(Write, MIB, 64 * GB, 500)), 250.0 / 3.0, 2.0, "at random");
}

#[test]
fn a_link_sends_one_message_after_the_other() {
    let mut link = Link::new(LinkSpec { latency_ns: 50_000, bytes_per_s: 117 * MB });
    assert_eq!(link.send(0, 117_000), 1_050_000);
    assert_eq!(link.send(0, 117_000), 2_050_000);
    assert_eq!(link.send(10_000_000, 0), 10_050_000);
}

/// I-04: what a measurement of the disk would give rises from its shortest seek to its longest.
#[test]
fn a_disk_gives_its_seek_profile() {
    let spec = disk_spec("constellation-500g");
    let profile = spec.seek_profile();
    assert!(profile.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
    assert!(profile[0].1.abs_diff(spec.seek_read.track_ns) < 100_000, "{:?}", profile[0]);
    assert!(profile.last().unwrap().1 > spec.seek_read.full_ns * 8 / 10);
}
