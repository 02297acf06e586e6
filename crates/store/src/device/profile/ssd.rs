//! An SSD from outside: rates with many requests at a time, latencies with one, channels, random writes.

use forebay_core::policy::Operation;

use super::{BLOCK_BYTES, Bench, Profile, ProfileError, bytes_ns, rate};
use crate::device::model::{DeviceSpec, SsdSpec};

const MIB: u64 = 1 << 20;
const LARGE_BYTES: u64 = 256 << 10;
/// Requests that are under way when a rate is measured, and when channels are counted.
const RATE_DEPTH: usize = 16;
const CHANNELS_DEPTH: usize = 64;
/// Requests to count channels by: enough that the start of as many threads is nothing beside them.
const CHANNELS_REQUESTS_MIN: usize = 8192;
const CHANNELS_MAX: u64 = 65_536;
/// Each sample of the effort stands for so many requests here, which are short.
const REQUESTS_FACTOR: u32 = 4;

pub(super) fn profile(bench: &mut Bench<'_>, on_step: &mut dyn FnMut(&str)) -> Result<Profile, ProfileError> {
    let count = (bench.effort.samples * REQUESTS_FACTOR) as usize;
    let (mut found, mut assumed) = (Vec::new(), Vec::new());
    on_step("rate of reads");
    let places = in_order(bench, count);
    let read_bytes_per_s = many_rate(bench, Operation::Read, &places)?;
    on_step("latency of reads");
    let small_read_ns = bench.median_ns(Operation::Read, BLOCK_BYTES, count)?;
    let read_ns = small_read_ns.saturating_sub(bytes_ns(BLOCK_BYTES, read_bytes_per_s));
    on_step("channels");
    let small: Vec<u64> = (0..CHANNELS_REQUESTS_MIN.max(count * 4)).map(|_| bench.random_place(BLOCK_BYTES)).collect();
    let all_ns = bench.subject.many(CHANNELS_DEPTH, Operation::Read, &small, BLOCK_BYTES)?;
    // So many small reads are under way on average while as many as possible are asked for (Little's law).
    let channels = (small.len() as u64 * small_read_ns + all_ns / 2) / all_ns.max(1);
    found.push(format!("{} reads of 4 KiB a second with {CHANNELS_DEPTH} at a time", rate(small.len() as u64, all_ns)));
    let mut spec = SsdSpec {
        read_ns,
        write_ns: read_ns,
        read_bytes_per_s,
        write_bytes_per_s: read_bytes_per_s,
        channels: channels.clamp(1, CHANNELS_MAX) as u32,
        random_write_amplification_per_mille: 1000,
    };
    if bench.subject.may_write() {
        writes(bench, count, &mut spec, on_step)?;
    } else {
        assumed.push("writes: as fast as reads, since nothing may be written".to_owned());
    }
    Ok(Profile { spec: DeviceSpec::Ssd(spec), found, assumed })
}

fn writes(bench: &mut Bench<'_>, count: usize, spec: &mut SsdSpec, on_step: &mut dyn FnMut(&str)) -> Result<(), ProfileError> {
    on_step("rate of writes");
    let places = in_order(bench, count);
    spec.write_bytes_per_s = many_rate(bench, Operation::Write, &places)?;
    on_step("latency of writes");
    let mut times = Vec::with_capacity(count);
    for number in 0..count as u64 {
        times.push(bench.subject.one(Operation::Write, number * BLOCK_BYTES, BLOCK_BYTES)?);
    }
    spec.write_ns = super::median(&mut times).saturating_sub(bytes_ns(BLOCK_BYTES, spec.write_bytes_per_s));
    on_step("random writes");
    let places: Vec<u64> = (0..count).map(|_| bench.random_place(LARGE_BYTES)).collect();
    let random_bytes_per_s = many_rate(bench, Operation::Write, &places)?;
    // One that is faster at random than in order has nothing to clean up; the rest is noise.
    spec.random_write_amplification_per_mille = (spec.write_bytes_per_s * 1000 / random_bytes_per_s).max(1000);
    Ok(())
}

/// Places of large requests from front to back, as far as there are any.
fn in_order(bench: &Bench<'_>, count: usize) -> Vec<u64> {
    let room = (bench.subject.bytes() - MIB) / LARGE_BYTES;
    (0..count as u64).map(|number| number % room * LARGE_BYTES).collect()
}

fn many_rate(bench: &mut Bench<'_>, operation: Operation, places: &[u64]) -> Result<u64, ProfileError> {
    let ns = bench.subject.many(RATE_DEPTH, operation, places, LARGE_BYTES)?;
    Ok(rate(places.len() as u64 * LARGE_BYTES, ns))
}
