//! Darshan's logs: made ones in every version, compression and byte order, damaged ones, and real ones beside Darshan's own library.

#[path = "darshan/build.rs"]
mod build;

use std::collections::HashMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

use build::{Compression, File, Heatmap, Log};
use forebay_trace::import::darshan::Reader;
use forebay_trace::{Error, Flags, GapReason, Layer, MemorySource, Op};
use proptest::prelude::*;

const VERSIONS: [&str; 5] = ["3.00", "3.10", "3.20", "3.21", "3.41"];
const COMPRESSIONS: [Compression; 3] = [Compression::Zlib, Compression::Bzip2, Compression::None];

fn log(version: &'static str, compression: Compression, big_endian: bool) -> Log {
    let segment = |at: i64| (at * 4096, 4096 + at, 0.5 + at as f64 * 0.001, 0.5 + at as f64 * 0.001 + 0.000_25);
    let file = |id, rank, writes: i64, reads: i64| File {
        id,
        rank,
        host: "node17",
        writes: (0..writes).map(segment).collect(),
        reads: (0..reads).map(segment).collect(),
    };
    Log {
        version,
        compression,
        big_endian,
        names: vec![(77, "/scratch/a file"), (1 << 63 | 5, "/scratch/b"), (9, "heatmap:STDIO"), (10, "heatmap:POSIX")],
        posix: vec![file(77, 0, 30, 0), file(77, 1, 3, 4), file(1 << 63 | 5, 0, 0, 0), file(1 << 63 | 5, 1, 0, 9)],
        mpiio: vec![file(77, 0, 2, 1)],
        mpiio_version: if version == "3.41" || version == "3.21" { 2 } else { 1 },
        heatmaps: vec![
            Heatmap { id: 9, rank: 3, width_s: 0.1, writes: vec![0, 100, 0, 7], reads: vec![5, 0, 0, 0] },
            Heatmap { id: 10, rank: 3, width_s: 0.1, writes: vec![1, 2, 3, 4], reads: vec![0, 0, 0, 0] },
        ],
        partial: false,
    }
}

fn read(bytes: &[u8]) -> Result<MemorySource, Error> {
    MemorySource::of(&mut Reader::new(Cursor::new(bytes))?)
}

#[test]
fn every_version_compression_and_byte_order_gives_the_same() {
    for version in VERSIONS {
        for compression in COMPRESSIONS {
            for big_endian in [false, true] {
                let source = read(&log(version, compression, big_endian).bytes())
                    .unwrap_or_else(|error| panic!("{version} {compression:?}: {error}"));
                check_made(version, &source);
            }
        }
    }
}

fn check_made(version: &str, source: &MemorySource) {
    let records: Vec<_> = source.records().iter().copied().collect();
    let of = |layer: Layer| records.iter().filter(|record| record.layer == layer).count();
    assert_eq!((of(Layer::File), of(Layer::MpiIo)), (30 + 7 + 9, 3), "the heatmap of POSIX is what DXT has already");
    assert_eq!(of(Layer::Stdio), if version < "3.20" { 0 } else { 3 });
    let first = records[0];
    assert_eq!(source.tables.names.path(first.file), b"/scratch/a file");
    let process = source.tables.names.who(first.process).unwrap();
    assert_eq!((process.host.as_str(), process.rank), ("node17", Some(0)));
    let epoch_ns = if version == "3.41" { 1_600_000_000_250_000_000 } else { 1_600_000_000_000_000_000 };
    assert_eq!((first.start_ns, first.duration_ns), (epoch_ns + 500_000_000, 250_000));
    let second = records[1];
    assert_eq!((second.op, second.offset, second.size, second.result), (Op::Write, 4096, 4097, 4097));
    let collective = records.iter().find(|record| record.layer == Layer::MpiIo).unwrap();
    assert_eq!(collective.flags.has(Flags::NO_OFFSET), version < "3.21", "offsets came with the second version");
    if let Some(bin) = records.iter().find(|record| record.layer == Layer::Stdio) {
        assert_eq!((bin.op, bin.size, bin.start_ns, bin.duration_ns), (Op::Read, 5, epoch_ns, 100_000_000));
        assert!(bin.flags.has(Flags::BINNED));
    }
    assert_eq!(source.tables.about.fact("command"), Some("./app --in a b"));
    assert!(source.tables.gaps.is_empty());
}

#[test]
fn a_log_that_is_not_complete_says_so() {
    for version in VERSIONS {
        let source = read(&Log { partial: true, ..log(version, Compression::Zlib, version == "3.10") }.bytes()).unwrap();
        assert_eq!(source.tables.gaps.len(), 1, "{version}");
        assert_eq!(source.tables.gaps[0].reason, GapReason::Truncated);
        assert!(source.tables.gaps[0].note.contains("DXT_POSIX"));
    }
}

#[test]
fn heatmaps_stand_in_where_operations_were_not_recorded() {
    let source = read(&Log { posix: Vec::new(), mpiio: Vec::new(), ..log("3.41", Compression::Zlib, false) }.bytes()).unwrap();
    assert_eq!(source.records().len(), 3 + 4);
    let counters = Log { posix: Vec::new(), mpiio: Vec::new(), heatmaps: Vec::new(), ..log("3.41", Compression::Zlib, false) };
    assert!(read(&counters.bytes()).unwrap_err().to_string().contains("DXT_ENABLE_IO_TRACE"));
}

#[test]
fn a_log_that_is_cut_off_is_an_error_with_its_place() {
    let bytes = log("3.21", Compression::Zlib, false).bytes();
    for cut in [0, 8, 15, 40, 359, 400, bytes.len() / 2, bytes.len() - 1] {
        let error = read(&bytes[..cut]).unwrap_err();
        assert!(error.to_string().contains("byte "), "{cut}: {error}");
    }
    let mut unknown = bytes.clone();
    unknown[2] = b'9';
    assert!(matches!(read(&unknown), Err(Error::Version { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_changed_log_is_read_without_a_panic(
        version in 0..5usize, compression in 0..3usize, big_endian: bool, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), header: bool,
    ) {
        let mut bytes = log(VERSIONS[version], COMPRESSIONS[compression], big_endian).bytes();
        for (at, value) in changes {
            let within = if header { 360 } else { bytes.len() };
            bytes[at.index(within)] = value;
        }
        let _ = read(&bytes);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..3000), version in 0..5usize, magic: bool) {
        let mut bytes = bytes;
        if magic && bytes.len() > 17 {
            bytes[..8].copy_from_slice(&[VERSIONS[version].as_bytes(), &[0; 4]].concat());
            bytes[8..16].copy_from_slice(&6_567_223u64.to_le_bytes());
            bytes[16] %= 3;
        }
        let _ = read(&bytes);
    }
}

/// What scripts/setup unpacked of the package `darshan`: its library and its example logs.
fn package() -> Option<PathBuf> {
    let cache =
        std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let folder = cache.map(|cache| cache.join("forebay/darshan-3.5.0")).filter(|folder| folder.is_dir());
    if folder.is_none() {
        eprintln!("SKIPPED: the package darshan is not there (scripts/setup)");
    }
    folder
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().contains(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// What the library says, one value for each line.
fn oracle(package: &Path, log: &Path) -> Vec<serde_json::Value> {
    let library = files(package, "libdarshan-util").pop().expect("the package has the library");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/darshan/oracle.py");
    let output = Command::new("python3").arg(script).arg(library).arg(log).output().expect("python3 runs");
    assert!(output.status.success(), "{}: {}", log.display(), String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// An operation as both can say it: layer, path, rank, host, op, offset, size, start, end.
type Said = (Layer, String, Option<u32>, String, String, Option<u64>, u64, u64, u64);

/// What the library's lines mean; heatmaps of layers that were traced are left out.
fn expected(lines: &[serde_json::Value], mpiio_offsets: bool) -> Vec<Said> {
    let epoch_ns = lines[0]["start_s"].as_u64().unwrap() * 1_000_000_000 + lines[0]["start_ns"].as_u64().unwrap();
    let names: HashMap<String, String> = serde_json::from_value(lines[1]["names"].clone()).unwrap();
    let has = |module: &str| lines.iter().any(|line| line["partial"] == module);
    let ns = |seconds: f64| (seconds.max(0.0) * 1e9).round() as u64;
    let mut all = Vec::new();
    for line in lines.iter().filter(|line| line["module"].is_string()) {
        let path = names.get(&line["id"].to_string()).cloned().unwrap_or_default();
        let rank = u32::try_from(line["rank"].as_i64().unwrap()).ok();
        if line["module"] != "HEATMAP" {
            let layer = if line["module"] == "DXT_MPIIO" { Layer::MpiIo } else { Layer::File };
            let offset = u64::try_from(line["offset"].as_i64().unwrap()).ok().filter(|_| layer == Layer::File || mpiio_offsets);
            let (start, end) = (ns(line["start"].as_f64().unwrap()), ns(line["end"].as_f64().unwrap()));
            let (host, op) = (line["host"].as_str().unwrap().to_owned(), line["op"].as_str().unwrap().to_owned());
            let size = line["length"].as_u64().unwrap();
            all.push((layer, path, rank, host, op, offset, size, epoch_ns + start, epoch_ns + end.max(start)));
            continue;
        }
        let (layer, again) = match path.as_str() {
            "heatmap:POSIX" => (Layer::File, has("DXT_POSIX")),
            "heatmap:MPIIO" => (Layer::MpiIo, has("DXT_MPIIO")),
            _ => (Layer::Stdio, false),
        };
        let width = ns(line["width"].as_f64().unwrap());
        for op in ["write", "read"] {
            let bins = line[op].as_array().unwrap().iter().map(|bin| bin.as_u64().unwrap());
            for (bin, size) in bins.enumerate().filter(|(_, size)| *size > 0 && !again) {
                let start = epoch_ns + bin as u64 * width;
                all.push((layer, path.clone(), rank, String::new(), op.to_owned(), None, size, start, start + width));
            }
        }
    }
    all.sort();
    all
}

fn said(source: &MemorySource) -> Vec<Said> {
    let one = |record: &forebay_trace::Record| {
        let process = source.tables.names.who(record.process).unwrap();
        let path = String::from_utf8(source.tables.names.path(record.file).to_vec()).unwrap();
        let offset = (!record.flags.has(Flags::NO_OFFSET)).then_some(record.offset);
        let (host, op) = (process.host.clone(), record.op.to_string());
        (record.layer, path, process.rank, host, op, offset, record.size, record.start_ns, record.end_ns())
    };
    let mut all: Vec<Said> = source.records().iter().map(one).collect();
    all.sort();
    all
}

#[test]
fn real_logs_say_what_darshans_own_library_reads() {
    let Some(package) = package() else { return };
    let mut operations = 0;
    for path in files(&package, ".darshan") {
        let bytes = std::fs::read(&path).unwrap();
        match read(&bytes) {
            Ok(source) => {
                let expected = expected(&oracle(&package, &path), true);
                operations += expected.len();
                assert!(said(&source) == expected, "{} differs", path.display());
            }
            Err(Error::Unsupported(_)) => {
                let lines = oracle(&package, &path);
                assert!(!lines.iter().any(|line| line["module"].is_string()), "{} has operations", path.display());
            }
            Err(error) => panic!("{}: {error}", path.display()),
        }
    }
    assert!(operations > 7_000, "only {operations} operations in all logs");
}

#[test]
fn made_logs_say_what_darshans_own_library_reads() {
    let Some(package) = package() else { return };
    let folder = tempfile::tempdir().unwrap();
    for version in VERSIONS {
        // The library of the package was built without bzip2.
        for compression in [Compression::Zlib, Compression::None] {
            for big_endian in [false, true] {
                let made = log(version, compression, big_endian);
                let path = folder.path().join(format!("{version}-{compression:?}-{big_endian}.darshan"));
                std::fs::write(&path, made.bytes()).unwrap();
                let expected = expected(&oracle(&package, &path), made.mpiio_version > 1);
                assert!(said(&read(&made.bytes()).unwrap()) == expected, "{} differs", path.display());
            }
        }
    }
}
