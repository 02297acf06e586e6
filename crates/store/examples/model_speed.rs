//! Requests a second that the models of devices handle on one core: `cargo run --release -p forebay-store --example model_speed`.

use forebay_core::policy::Operation;
use forebay_store::device::model::{ModelDevice, ModelRequest, PRESETS, Scheduling};
use rustix::time::{ClockId, clock_gettime};

const REQUESTS: u64 = 1_000_000;
const OUTSTANDING: u64 = 256;

/// What this thread has used, so that what else runs on the machine does not count.
fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Keeps the device busy with requests of 64 KiB; requests a second of processor time, in millions.
fn speed(device: &mut ModelDevice, random: bool) -> f64 {
    let mut state = 1u64;
    let start_s = processor_s();
    let mut submit = |device: &mut ModelDevice, now_ns, id: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let block = if random { state >> 42 } else { id };
        device.submit(now_ns, ModelRequest { id, operation: Operation::Write, offset: block << 16, len: 1 << 16 });
    };
    (0..OUTSTANDING).for_each(|id| submit(device, 0, id));
    let mut next = OUTSTANDING;
    while let Some(now_ns) = device.next_ns() {
        while device.pop(now_ns).is_some() {
            if next < REQUESTS {
                submit(device, now_ns, next);
                next += 1;
            }
        }
    }
    REQUESTS as f64 / (processor_s() - start_s) / 1e6
}

fn main() {
    let drive = |drive_queue| Scheduling { drive_queue, ..Scheduling::default() };
    let schedulings = [("first come, first served", Scheduling::FIFO), ("window of 128", drive(1)), ("and the drive's 32", drive(32))];
    println!("{:<20} {:<26} {:>10} {:>10}   million requests a second", "device", "queue", "ordered", "random");
    for preset in &PRESETS {
        for (name, scheduling) in schedulings {
            let of = |random| speed(&mut ModelDevice::new(&preset.spec, scheduling), random);
            println!("{:<20} {:<26} {:>10.2} {:>10.2}", preset.name, name, of(false), of(true));
        }
    }
}
