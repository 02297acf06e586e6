//! The index of a file's buffered bytes.

use std::hint::black_box;

use forebay_core::extent::{ExtentMap, Piece};
use forebay_core::id::{Lsn, SegmentId};

use crate::harness::{Bench, Random, Run, timed};

const BLOCK: u64 = 4096;
/// One operation of a figure that does not grow with the map.
const PROBES: u64 = 200_000;

fn block(index: u64, lsn: u64) -> Piece {
    // Blocks fill 4 MiB segments in the order of their writing, as the log does.
    let (segment, segment_offset) = (SegmentId(lsn >> 10), ((lsn & 1023) << 12) as u32);
    Piece { offset: index * BLOCK, len: BLOCK as u32, segment, segment_offset, lsn: Lsn(lsn), dirty: true }
}

fn map_of(order: impl Iterator<Item = u64>) -> ExtentMap {
    let mut map = ExtentMap::new();
    let (mut removed, mut refused) = (Vec::new(), Vec::new());
    for (index, lsn) in order.zip(1..) {
        map.insert(block(index, lsn), &mut removed, &mut refused);
    }
    map
}

fn timed_build(n: u64, order: impl Iterator<Item = u64>) -> Run {
    let mut built = ExtentMap::new();
    let run = timed(n, || built = map_of(order));
    assert_eq!(built.len() as u64, n);
    run
}

/// Replaces parts of `PROBES` random blocks: all of a block, or its middle half, which splits the old piece.
fn overwrite(map: &ExtentMap, n: u64, whole: bool) -> Run {
    let (mut map, mut random) = (map.clone(), Random(3));
    let (mut removed, mut refused) = (Vec::new(), Vec::new());
    let run = timed(PROBES, || {
        for lsn in n + 1..=n + PROBES {
            let mut piece = block(random.below(n), lsn);
            if !whole {
                piece.offset += BLOCK / 4;
                piece.len /= 2;
            }
            map.insert(piece, &mut removed, &mut refused);
            removed.clear();
        }
    });
    assert_eq!(map.bytes(), n * BLOCK);
    run
}

fn lookup(map: &ExtentMap, n: u64) -> Run {
    let mut random = Random(4);
    let mut found = 0;
    let run = timed(PROBES, || {
        for _ in 0..PROBES {
            let offset = random.below(n * BLOCK);
            found += map.overlapping(offset..offset + 1).map(|p| u64::from(p.len)).sum::<u64>();
        }
    });
    assert_eq!(found, PROBES);
    run
}

fn walk(map: &ExtentMap, n: u64) -> Run {
    timed(n, || {
        let mut end = 0;
        for piece in map.iter() {
            assert_eq!(black_box(&piece).offset, end);
            end = piece.end();
        }
    })
}

/// What a flush asks of the index: the dirty pieces in file order, marked clean in steps of 1 MiB.
fn flush(map: &ExtentMap, n: u64) -> Run {
    let mut map = map.clone();
    let run = timed(n, || {
        let (mut at, mut batch_start) = (0, 0);
        while let Some(piece) = map.first_dirty(at) {
            at = piece.end();
            if at - batch_start >= 1 << 20 {
                map.mark_clean(batch_start..at, Lsn(u64::MAX >> 1));
                batch_start = at;
            }
        }
        map.mark_clean(batch_start..at, Lsn(u64::MAX >> 1));
    });
    assert_eq!(map.dirty_bytes(), 0);
    run
}

/// Finds the one dirty piece, at the end of the file, from the file's start.
fn first_dirty(map: &ExtentMap, n: u64) -> Run {
    let mut map = map.clone();
    let last = n * BLOCK - BLOCK;
    map.mark_clean(0..last, Lsn(u64::MAX >> 1));
    timed(PROBES, || {
        for _ in 0..PROBES {
            assert_eq!(black_box(&map).first_dirty(0).map(|p| p.offset), Some(last));
        }
    })
}

/// Bytes of memory that the process gained while `build` ran, a piece; what was built is kept, so that no freed memory is taken again.
fn resident_bytes(n: u64, kept: &mut Vec<ExtentMap>, build: impl FnOnce() -> ExtentMap) -> f64 {
    let pages = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(f64::NAN)
    };
    let before = pages();
    kept.push(build());
    (pages() - before) * 4096.0 / n as f64
}

fn memory(bench: &mut Bench, n: u64) {
    let mut kept = Vec::new();
    bench.figure("extent memory, ascending", n, "bytes", || resident_bytes(n, &mut kept, || map_of(0..n)));
    let order = Random(1).permutation(n);
    bench.figure("extent memory, shuffled", n, "bytes", || resident_bytes(n, &mut kept, || map_of(order.iter().copied())));
    // A file of one write: 100 000 of them, as a job that makes many small files has.
    let files = n / 10;
    let mut small = Vec::with_capacity(files as usize * 5);
    bench.figure("extent memory, file of one piece", files, "bytes", || {
        resident_bytes(files, &mut kept, || {
            small.extend((0..files).map(|lsn| map_of(std::iter::once(lsn))));
            ExtentMap::new()
        })
    });
}

pub fn run(bench: &mut Bench) {
    let (sizes, memory_n): (&[u64], u64) = match (bench.options.test, bench.options.full) {
        (true, _) => (&[1000], 1000),
        (false, false) => (&[1_000, 10_000, 100_000, 1_000_000], 200_000),
        (false, true) => (&[1_000, 10_000, 100_000, 1_000_000, 10_000_000], 1_000_000),
    };
    // First, while the process has no freed memory to take again.
    memory(bench, memory_n);
    for &n in sizes {
        bench.nanoseconds("extent insert, ascending", n, || timed_build(n, 0..n));
        bench.nanoseconds("extent insert, descending", n, || timed_build(n, (0..n).rev()));
        let order = Random(1).permutation(n);
        bench.nanoseconds("extent insert, shuffled", n, || timed_build(n, order.iter().copied()));
        let map = map_of(order.iter().copied());
        bench.nanoseconds("extent overwrite, whole piece", n, || overwrite(&map, n, true));
        bench.nanoseconds("extent overwrite, middle of piece", n, || overwrite(&map, n, false));
        bench.nanoseconds("extent lookup", n, || lookup(&map, n));
        bench.nanoseconds("extent ordered walk", n, || walk(&map, n));
        bench.nanoseconds("extent flush", n, || flush(&map, n));
        bench.nanoseconds("extent first dirty", n, || first_dirty(&map, n));
    }
}
