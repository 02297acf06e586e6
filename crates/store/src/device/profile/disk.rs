//! A disk from outside: rates at both edges, the turn, the curve of seeks, what it reads ahead.

use forebay_core::policy::Operation;

use super::fit::{Point, seek_points};
use super::{BLOCK_BYTES, Bench, Profile, ProfileError, bytes_ns, median, rate};
use crate::device::model::{DeviceSpec, DiskSpec, Geometry, SeekPoints};

const MIB: u64 = 1 << 20;
/// A stream is measured over so many requests of a mebibyte.
const STREAM_REQUESTS: u64 = 32;
/// Parts of the full stroke at which seeks are measured. Short ones, of which the first point is made, are measured more often.
const DISTANCES: [f64; 18] = [0.0002, 0.0005, 0.001, 0.004, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
const SHORT: f64 = 0.015;
const SHORT_FACTOR: u32 = 4;
/// What is assumed if a drive hides its turn: 7200 a minute.
const TURN_NS_ASSUMED: u64 = 8_333_333;
/// Turns that a disk may take, ns: 15 000 to 3600 a minute, with some to spare. What answers faster does so from its memory.
const TURN_NS: std::ops::RangeInclusive<u64> = 3_500_000..=18_000_000;
/// Surfaces, which nothing shows.
const HEADS_ASSUMED: u32 = 4;
/// So many per cent of the times are left out at either end.
const STRAY_PER_CENT: usize = 5;
/// The longest pause of a stream that is tried, ns.
const PAUSE_NS_MAX: u64 = 500_000_000;
const PAUSE_NS_MIN: u64 = 1_000_000;
const PAUSE_STEPS: u32 = 12;
const PAUSE_TRIES: u32 = 5;

pub(super) fn profile(bench: &mut Bench<'_>, on_step: &mut dyn FnMut(&str)) -> Result<Profile, ProfileError> {
    let mut assumed = vec![format!("heads: {HEADS_ASSUMED}, and the time of a switch between them that of the shortest seek")];
    on_step("rates");
    let bytes = bench.subject.bytes();
    let outer_bytes_per_s = stream_rate(bench, 0)?;
    // An inner edge that is faster than the outer one is noise: the model has none.
    let inner_bytes_per_s = stream_rate(bench, (bytes - (STREAM_REQUESTS + 1) * MIB) / MIB * MIB)?.min(outer_bytes_per_s);
    on_step("turn");
    // Reading the same bytes again may come out of the drive's memory; writing them cannot.
    let operation = if bench.subject.may_write() { Operation::Write } else { Operation::Read };
    let rotation_ns = turn_ns(bench, operation, &mut assumed)?;
    let command_ns = command_ns(bench, operation, rotation_ns, outer_bytes_per_s)?;
    let mut spec = DiskSpec {
        capacity_bytes: bytes,
        rotation_ns,
        command_ns,
        seek_read: SeekPoints { track_ns: 0, average_ns: 0, full_ns: 0 },
        seek_write: SeekPoints { track_ns: 0, average_ns: 0, full_ns: 0 },
        outer_bytes_per_s,
        inner_bytes_per_s,
        heads: HEADS_ASSUMED,
        head_switch_ns: 0,
        cylinder_switch_ns: 0,
        buffer_bytes: 0,
        interface_bytes_per_s: outer_bytes_per_s,
    };
    on_step("seeks before reads");
    let mut found = Vec::new();
    spec.seek_read = seeks(bench, Operation::Read, &spec, &mut found)?;
    on_step("seeks before writes");
    spec.seek_write = spec.seek_read;
    if bench.subject.may_write() {
        spec.seek_write = seeks(bench, Operation::Write, &spec, &mut found)?;
    } else {
        assumed.push("seeks before writes: those before reads, since nothing may be written".to_owned());
    }
    (spec.head_switch_ns, spec.cylinder_switch_ns) = (spec.seek_read.track_ns, spec.seek_read.track_ns);
    on_step("reading ahead");
    read_ahead(bench, &mut spec, &mut assumed)?;
    Ok(Profile { spec: DeviceSpec::Disk(spec), found, assumed })
}

/// The rate of a stream of reads, bytes a second; the first one, which seeks, does not count.
fn stream_rate(bench: &mut Bench<'_>, from: u64) -> Result<u64, ProfileError> {
    bench.subject.one(Operation::Read, from, MIB)?;
    let mut ns = 0;
    for number in 1..=STREAM_REQUESTS {
        ns += bench.subject.one(Operation::Read, from + number * MIB, MIB)?;
    }
    Ok(rate(STREAM_REQUESTS * MIB, ns))
}

/// The same bytes come by once a turn.
fn turn_ns(bench: &mut Bench<'_>, operation: Operation, assumed: &mut Vec<String>) -> Result<u64, ProfileError> {
    let mut times = Vec::new();
    for _ in 0..bench.effort.samples.max(8) {
        times.push(bench.subject.one(operation, BLOCK_BYTES, BLOCK_BYTES)?);
    }
    let found = median(&mut times);
    if TURN_NS.contains(&found) {
        return Ok(found);
    }
    assumed.push(format!("the turn: 7200 a minute; the same bytes come again after {} us, from the drive's memory", found / 1000));
    Ok(TURN_NS_ASSUMED)
}

/// What a command costs before anything moves: the time to places that need no seek.
fn command_ns(bench: &mut Bench<'_>, operation: Operation, rotation_ns: u64, bytes_per_s: u64) -> Result<u64, ProfileError> {
    let track_bytes = (u128::from(bytes_per_s) * u128::from(rotation_ns) / 1_000_000_000) as u64;
    // All round the first track, so that waits are anything up to a turn.
    let blocks = (track_bytes / BLOCK_BYTES).max(2);
    let mut times = Vec::new();
    for _ in 0..bench.effort.samples * SHORT_FACTOR {
        let place = bench.random.below(blocks) * BLOCK_BYTES;
        times.push(bench.subject.one(operation, place, BLOCK_BYTES)?);
    }
    Ok(without_wait_ns(&mut times, rotation_ns).saturating_sub(bytes_ns(BLOCK_BYTES, bytes_per_s)))
}

/// What is left of times without the wait for the sector, which is half a turn on average. The average is right also where single times
/// are not, since an answer that comes late makes the time that follows too short; what strays far on either side is left out.
fn without_wait_ns(times: &mut [u64], rotation_ns: u64) -> u64 {
    times.sort_unstable();
    let strays = times.len() * STRAY_PER_CENT / 100;
    let kept = &times[strays..times.len() - strays];
    (kept.iter().sum::<u64>() / kept.len() as u64).saturating_sub(rotation_ns / 2)
}

/// The curve of seeks (I-04): for each distance the average of many times, less the wait for the sector.
fn seeks(bench: &mut Bench<'_>, operation: Operation, spec: &DiskSpec, found: &mut Vec<String>) -> Result<SeekPoints, ProfileError> {
    let geometry = Geometry::new(spec);
    let last = geometry.cylinders() - 1;
    let mut points: Vec<Point> = Vec::new();
    let mut at = 0u64;
    for part in DISTANCES {
        let distance = ((last as f64 * part) as u64).max(1);
        let samples = if part < SHORT { bench.effort.samples * SHORT_FACTOR } else { bench.effort.samples };
        let mut times = Vec::new();
        for sample in 0..=samples {
            // Up and down where it fits, from another place each time.
            let free = last - distance;
            at = match (sample, at + distance <= last, at >= distance) {
                (0, _, _) => bench.random.below(free + 1),
                (_, true, true) if sample % 2 == 0 => at - distance,
                (_, true, _) => at + distance,
                _ => at - distance,
            };
            let cylinder = geometry.cylinder(at);
            let within = bench.random.below(((cylinder.end - cylinder.start) / BLOCK_BYTES).max(1)) * BLOCK_BYTES;
            let place = (cylinder.start + within).min(spec.capacity_bytes - BLOCK_BYTES) / BLOCK_BYTES * BLOCK_BYTES;
            let ns = bench.subject.one(operation, place, BLOCK_BYTES)?;
            if sample > 0 {
                let bytes_per_s = spec.outer_bytes_per_s - (spec.outer_bytes_per_s - spec.inner_bytes_per_s) * at / last;
                times.push(ns.saturating_sub(bytes_ns(BLOCK_BYTES, bytes_per_s)));
            }
        }
        let seek_ns = without_wait_ns(&mut times, spec.rotation_ns).saturating_sub(spec.command_ns);
        found.push(format!("{operation:?} at {:.4} of the full stroke: seek {} us", part, seek_ns / 1000));
        // What was measured more often counts more often.
        let point = (distance as f64 / last as f64, seek_ns as f64);
        points.extend(std::iter::repeat_n(point, (samples / bench.effort.samples) as usize));
    }
    seek_points(&points).ok_or_else(|| ProfileError::Senseless("no curve of seeks".to_owned()))
}

/// How long a pause the drive covers by reading ahead, and how fast it gives away what it has read.
fn read_ahead(bench: &mut Bench<'_>, spec: &mut DiskSpec, assumed: &mut Vec<String>) -> Result<(), ProfileError> {
    const LEN: u64 = 64 << 10;
    let ready_ns = spec.command_ns + bytes_ns(LEN, spec.outer_bytes_per_s) + 100_000;
    let (mut place, edge) = (0, spec.capacity_bytes - MIB);
    let mut after = |bench: &mut Bench<'_>, pause_ns: u64, len: u64| -> Result<u64, ProfileError> {
        place = if place + 2 * LEN + len > edge { 0 } else { place };
        bench.subject.one(Operation::Read, place, LEN)?;
        bench.subject.one(Operation::Read, place + LEN, LEN)?;
        bench.subject.pause_ns(pause_ns);
        let ns = bench.subject.one(Operation::Read, place + 2 * LEN, len)?;
        // Each try is a stream of its own.
        place += 2 * LEN + len + MIB;
        Ok(ns)
    };
    let (mut covered_ns, mut missed_ns) = (PAUSE_NS_MIN, PAUSE_NS_MAX);
    for _ in 0..PAUSE_STEPS {
        // Their geometric middle.
        let pause_ns = (u128::from(covered_ns) * u128::from(missed_ns)).isqrt() as u64;
        let mut is_covered = true;
        for _ in 0..PAUSE_TRIES {
            // The sector may happen to come by; not each time at pauses that differ.
            let less_ns = bench.random.below(pause_ns.min(spec.rotation_ns) / 8 + 1);
            is_covered &= after(bench, pause_ns - less_ns, LEN)? <= ready_ns;
        }
        if is_covered {
            covered_ns = pause_ns;
        } else {
            missed_ns = pause_ns;
        }
    }
    if covered_ns == PAUSE_NS_MIN {
        assumed.push("reading ahead: none was seen".to_owned());
        return Ok(());
    }
    spec.buffer_bytes = (u128::from(covered_ns) * u128::from(spec.outer_bytes_per_s) / 1_000_000_000) as u64;
    let pause_ns = covered_ns / 2;
    let mut of = |len: u64| -> Result<u64, ProfileError> {
        let mut times = Vec::new();
        for _ in 0..8 {
            times.push(after(bench, pause_ns, len)?);
        }
        Ok(median(&mut times))
    };
    let (short_ns, long_ns) = (of(LEN)?, of(8 * LEN)?);
    spec.interface_bytes_per_s = rate(7 * LEN, long_ns.saturating_sub(short_ns)).clamp(spec.outer_bytes_per_s, 100_000_000_000);
    Ok(())
}
