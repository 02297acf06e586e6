//! How fast a directory is, by the size of a transfer (B-13): one file is written and read in transfers of each size. Opening and
//! closing are not in the time, syncing what was written is; what is read was dropped from the kernel's memory before.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use rustix::fs::{Advice, fadvise};

/// Bytes of a run, at least: a single small transfer is too short to be timed.
const RUN_BYTES_MIN: u64 = 1 << 20;
/// Transfers of a run at most.
const RUN_TRANSFERS_MAX: u64 = 256;

/// Throughput of transfers of a size, bytes a second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Speed {
    /// Bytes of a transfer.
    pub(crate) size_bytes: u64,
    /// Reading.
    pub(crate) read_bytes_per_s: f64,
    /// Writing.
    pub(crate) write_bytes_per_s: f64,
}

/// The sizes of the published measurement: 1 to 128 KiB by 1 KiB, then by 100 KiB up to 5 MiB.
pub(crate) fn published_sizes() -> Vec<u64> {
    (1..=128).chain((1..50).map(|step| 128 + 100 * step)).map(|kib: u64| kib << 10).collect()
}

/// Powers of four from 4 KiB to 4 MiB.
pub(crate) fn few_sizes() -> Vec<u64> {
    (0..6).map(|power| 4096 << (2 * power)).collect()
}

/// Measures a directory: the median of so many runs for each size. `each` is called after each size.
pub(crate) fn measure(folder: &Path, sizes: &[u64], runs: u32, mut each: impl FnMut()) -> io::Result<Vec<Speed>> {
    let path = folder.join(format!(".forebay-curve-{}", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    // The file has no name while it is used: nothing is left of it, however this ends.
    std::fs::remove_file(&path)?;
    let largest = sizes.iter().copied().max().unwrap_or(1);
    // Not zeros: a disk or a file system may pass over those.
    let data: Vec<u8> = (0..largest).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect();
    let speed = |size: &u64| {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for _ in 0..runs.max(1) {
            let (write_s, read_s) = run(&file, &data[..*size as usize])?;
            let bytes = (transfers(*size) * size) as f64;
            writes.push(bytes / write_s);
            reads.push(bytes / read_s);
        }
        each();
        Ok(Speed { size_bytes: *size, read_bytes_per_s: median(reads), write_bytes_per_s: median(writes) })
    };
    sizes.iter().map(speed).collect()
}

fn transfers(size: u64) -> u64 {
    RUN_BYTES_MIN.div_ceil(size.max(1)).clamp(1, RUN_TRANSFERS_MAX)
}

/// Seconds of a run of writes with its sync, and of the same in reads.
fn run(file: &File, data: &[u8]) -> io::Result<(f64, f64)> {
    let size = data.len() as u64;
    let places = || (0..transfers(size)).map(|at| at * size);
    file.set_len(0)?;
    let begin = Instant::now();
    for place in places() {
        file.write_all_at(data, place)?;
    }
    file.sync_data()?;
    let write_s = begin.elapsed().as_secs_f64();
    // Where the kernel keeps it all the same (tmpfs), reading is as fast as it will be for the application.
    let _ = fadvise(file, 0, None, Advice::DontNeed);
    let mut read = vec![0; data.len()];
    let begin = Instant::now();
    for place in places() {
        file.read_exact_at(&mut read, place)?;
    }
    Ok((write_s.max(1e-9), begin.elapsed().as_secs_f64().max(1e-9)))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// As lines of a table of throughput, for `sim --rate-table`.
pub(crate) fn table(nodes: u32, level: &str, speeds: &[Speed]) -> String {
    let line = |speed: &Speed| {
        let size = speed.size_bytes;
        format!(
            "{nodes},{level},read,{size},{:.0}\n{nodes},{level},write,{size},{:.0}\n",
            speed.read_bytes_per_s.max(1.0),
            speed.write_bytes_per_s.max(1.0)
        )
    };
    speeds.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use forebay_sim::buffer::{Level, Rates};

    use super::*;

    #[test]
    fn sizes_are_those_of_the_measurement() {
        let sizes = published_sizes();
        assert_eq!((sizes.len(), sizes[0], sizes[127], sizes[128], sizes[176]), (128 + 49, 1024, 131_072, 233_472, 5_148_672));
        assert_eq!(few_sizes(), [4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304]);
    }

    #[test]
    fn a_directory_is_measured_and_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let mut count = 0;
        let speeds = measure(folder.path(), &[512, 5000, 100_000], 2, || count += 1).unwrap();
        assert_eq!((speeds.len(), count), (3, 3));
        assert!(speeds.iter().all(|speed| speed.read_bytes_per_s > 0.0 && speed.write_bytes_per_s > 0.0), "{speeds:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let rates = Rates::parse(&(table(1, "home", &speeds) + &table(1, "buffer", &speeds))).unwrap();
        assert!((rates.of(1, Level::HomeRead, 5000) / speeds[1].read_bytes_per_s - 1.0).abs() < 0.01);
    }
}
