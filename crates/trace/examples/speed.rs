//! How fast traces are written and read, and how much memory that takes: `cargo run --release -p forebay-trace --example speed -- FILE RECORDS`.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::time::Instant;

use forebay_trace::fbt::{Reader, Writer};
use forebay_trace::{About, Names, Op, Process, Record, Source};

/// The most memory that this process had so far, MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib / 1024)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, records] = &arguments[..] else { return Err("give a file and a number of records".into()) };
    let records: u64 = records.parse()?;
    let mut names = Names::new();
    let files = (0..1000).map(|number| names.file(format!("/data/{number}").as_bytes())).collect::<Result<Vec<_>, _>>()?;
    let process = names.process(Process { pid: 1, ..Process::default() })?;
    let begun = Instant::now();
    let mut writer = Writer::new(BufWriter::new(File::create(path)?), &About::default())?;
    // A generator of numbers without a pattern: half of the records are sequential, half are anywhere.
    let mut state = 1u64;
    for number in 0..records {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = state >> 33;
        let mut record = Record::new(if random.is_multiple_of(3) { Op::Write } else { Op::Read }, number * 1000 + random % 900);
        record.file = files[(random % 1000) as usize];
        record.process = process;
        record.offset = if random & 1 == 0 { number * 4096 } else { random * 512 };
        (record.size, record.result, record.duration_ns) = (4096, 4096, random % 100_000);
        writer.push(&names, &record)?;
    }
    let (_, totals) = writer.finish(&names)?;
    let seconds = begun.elapsed().as_secs_f64();
    let rate = records as f64 / seconds / 1e6;
    println!(
        "wrote {records} records, {} bytes ({:.1} each): {rate:.2} million a second",
        totals.bytes,
        totals.bytes as f64 / records as f64
    );
    let begun = Instant::now();
    let mut reader = Reader::new(BufReader::new(File::open(path)?))?;
    let (mut read, mut bytes) = (0u64, 0u64);
    while let Some(record) = reader.next_record()? {
        read += 1;
        bytes += record.moved_bytes();
    }
    let rate = read as f64 / begun.elapsed().as_secs_f64() / 1e6;
    println!("read {read} records of {bytes} bytes: {rate:.2} million a second; peak memory {} MiB", peak_mib());
    Ok(())
}
