//! Does an emulated disk take as long as the model says, on this machine? For each disk a sequence of reads and writes, at random
//! places and in streams, one after the other and by eight threads: `cargo run --release -p forebay-store --example emulated_pace DIR`.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use forebay_core::policy::Operation;
use forebay_store::device::emulated::{Answers, EmulatedDisk};
use forebay_store::device::model::{ModelDevice, ModelRequest, Scheduling, preset};
use forebay_store::device::{Device, FileDevice};

const MIB: u64 = 1 << 20;
const FILE_BYTES: u64 = 1024 * MIB;
const REQUEST_BYTES: u64 = 64 << 10;
const REQUESTS: u64 = 400;

/// Streams of eight requests at random places, every third one read.
fn request(number: u64) -> (Operation, u64) {
    let stream = (number / 8).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let operation = if (number / 8).is_multiple_of(3) { Operation::Read } else { Operation::Write };
    (operation, stream % (FILE_BYTES / MIB) * MIB + number % 8 * REQUEST_BYTES)
}

/// The sequence with so many at a time, in virtual time.
fn modelled_s(name: &str, depth: usize) -> f64 {
    let mut device = ModelDevice::new(&preset(name).expect("it is a preset"), Scheduling::default());
    let (mut now_ns, mut next) = (0, 0);
    loop {
        while device.pending() < depth && next < REQUESTS {
            let (operation, offset) = request(next);
            device.submit(now_ns, ModelRequest { id: next, operation, offset, len: REQUEST_BYTES });
            next += 1;
        }
        let Some(next_ns) = device.next_ns() else { return now_ns as f64 / 1e9 };
        now_ns = next_ns;
        device.pop(now_ns);
    }
}

/// The same by threads on the emulated disk.
fn emulated_s(disk: &EmulatedDisk<FileDevice>, depth: usize) -> f64 {
    let (start, next) = (Instant::now(), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..depth {
            scope.spawn(|| {
                let mut buf = vec![7; REQUEST_BYTES as usize];
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= REQUESTS {
                        return;
                    }
                    let done = match request(number) {
                        (Operation::Read, offset) => disk.read_at(offset, &mut buf),
                        (Operation::Write, offset) => disk.write_at(offset, &buf),
                    };
                    done.expect("the directory is fast enough");
                }
            });
        }
    });
    start.elapsed().as_secs_f64()
}

fn main() {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let path = Path::new(&directory).join("forebay-emulated-pace");
    let made = std::fs::File::create(&path).and_then(|file| file.set_len(FILE_BYTES));
    made.unwrap_or_else(|error| panic!("cannot make {}: {error}", path.display()));
    let titles = ["disk", "at a time", "model s", "emulated s", "differs", "late us", "latest us", "below"];
    let [disk, depth, model, emulated, differs, late, latest, below] = titles;
    println!("{disk:<20} {depth:>9} {model:>9} {emulated:>11} {differs:>8} {late:>8} {latest:>10} {below:>6}");
    for name in ["constellation-500g", "savvio-300g", "ibridge-disk", "s3520-240g"] {
        for depth in [1, 8] {
            let below = FileDevice::open_direct(&path).expect("it was made");
            let disk = EmulatedDisk::new(below, &preset(name).expect("it is a preset"), Scheduling::default(), Answers::Medium);
            let (model_s, emulated_s) = (modelled_s(name, depth), emulated_s(&disk, depth));
            let emulation = disk.emulation();
            let late_us = emulation.late_ns / 1000 / emulation.requests;
            println!(
                "{name:<20} {depth:>9} {model_s:>9.3} {emulated_s:>11.3} {:>7.2}% {late_us:>8} {:>10} {:>5.1}%",
                (emulated_s / model_s - 1.0) * 100.0,
                emulation.late_ns_max / 1000,
                emulation.real_ns as f64 / emulation.model_ns as f64 * 100.0,
            );
        }
    }
    std::fs::remove_file(&path).expect("it was made");
}
