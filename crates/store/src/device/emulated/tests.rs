use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::device::MemoryDevice;
use crate::device::model::{Completion, ModelDevice, ModelRequest, PRESETS, preset};
use crate::random::SplitMix;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;

/// A clock that stands still unless somebody waits or works, and then oversleeps by anything up to a limit.
#[derive(Clone)]
pub(in crate::device) struct TestClock {
    now_ns: Arc<AtomicU64>,
    random: Arc<Mutex<SplitMix>>,
    oversleep_ns_max: u64,
}

impl TestClock {
    pub(in crate::device) fn new(oversleep_ns_max: u64) -> TestClock {
        TestClock { now_ns: Arc::default(), random: Arc::new(Mutex::new(SplitMix::new(5))), oversleep_ns_max }
    }

    fn pass(&self, ns: u64) {
        self.now_ns.fetch_add(ns, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::SeqCst)
    }

    fn sleep_until_ns(&self, time_ns: u64) {
        let over_ns = self.random.lock().below(self.oversleep_ns_max + 1);
        self.now_ns.fetch_max(time_ns + over_ns, Ordering::SeqCst);
    }
}

/// Memory that takes some time.
struct Below {
    memory: MemoryDevice,
    clock: TestClock,
    io_ns_max: u64,
}

impl Below {
    fn work<T>(&self, result: T) -> T {
        let ns = self.clock.random.lock().below(self.io_ns_max + 1);
        self.clock.pass(ns);
        result
    }
}

impl Device for Below {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.work(self.memory.read_at(offset, buf))
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        self.work(self.memory.write_at(offset, buf))
    }

    fn sync(&self) -> io::Result<()> {
        self.work(Ok(()))
    }

    fn len(&self) -> io::Result<u64> {
        self.memory.len()
    }
}

/// A device without bytes, for disks that would not fit into memory.
pub(in crate::device) struct Void {
    pub(in crate::device) bytes: u64,
}

impl Device for Void {
    fn read_at(&self, _offset: u64, _buf: &mut [u8]) -> io::Result<()> {
        Ok(())
    }

    fn write_at(&self, _offset: u64, _buf: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }
}

const DEVICE_BYTES: u64 = 64 * MIB;

fn disk(name: &str, answers: Answers, oversleep_ns_max: u64, io_ns_max: u64) -> (TestClock, EmulatedDisk<Below, TestClock>) {
    let clock = TestClock::new(oversleep_ns_max);
    let below = Below { memory: MemoryDevice::new(DEVICE_BYTES as usize), clock: clock.clone(), io_ns_max };
    (clock.clone(), EmulatedDisk::with_clock(below, &preset(name).unwrap(), Scheduling::default(), answers, clock))
}

/// Requests of a client: streams, jumps, pauses.
fn requests(count: usize) -> Vec<(Operation, u64, u64, u64)> {
    let mut random = SplitMix::new(11);
    let mut next = 0;
    let mut request = || {
        let operation = if random.below(3) == 0 { Operation::Read } else { Operation::Write };
        let len = (1 + random.below(16)) * 4 * KIB;
        let offset = if random.below(2) == 0 { next } else { random.below(DEVICE_BYTES / MIB) * MIB };
        let offset = offset.min(DEVICE_BYTES - len);
        next = offset + len;
        (operation, offset, len, if random.below(4) == 0 { random.below(5 * MS) } else { 0 })
    };
    (0..count).map(|_| request()).collect()
}

/// the same sequence takes the same time on the model and on an emulated disk with a slow scheduler and slow I/O.
#[test]
fn a_sequence_takes_as_long_as_in_the_model() {
    let requests = requests(2000);
    for preset_name in PRESETS.map(|preset| preset.name).iter().filter(|name| **name != "nvme") {
        let mut model = ModelDevice::new(&preset(preset_name).unwrap(), Scheduling::default());
        let mut model_ns = 0;
        for (id, (operation, offset, len, pause_ns)) in (0..).zip(&requests) {
            model_ns += pause_ns;
            model.submit(model_ns, ModelRequest { id, operation: *operation, offset: *offset, len: *len });
            model_ns = model.next_ns().unwrap();
            assert_eq!(model.pop(model_ns), Some(Completion { time_ns: model_ns, id }));
        }
        let (clock, disk) = disk(preset_name, Answers::Medium, MS, 50_000);
        let mut buf = vec![0; 64 * KIB as usize];
        for (operation, offset, len, pause_ns) in &requests {
            clock.pass(*pause_ns);
            let buf = &mut buf[..*len as usize];
            match operation {
                Operation::Read => disk.read_at(*offset, buf).unwrap(),
                Operation::Write => disk.write_at(*offset, buf).unwrap(),
            }
        }
        let late_ns = clock.now_ns().abs_diff(model_ns);
        assert!(late_ns <= MS, "{preset_name}: {} instead of {model_ns} ns", clock.now_ns());
        assert!(late_ns * 50 <= model_ns, "within 2 %");
        let emulation = disk.emulation();
        assert_eq!(emulation.requests, 2000);
        assert!(emulation.late_ns > 2000 * MS / 10, "the clock did oversleep: {emulation:?}");
    }
}

/// The same with many requests at once: who polls late loses nothing, since the model goes on from its own times.
#[test]
fn a_queue_keeps_its_pace() {
    const DEPTH: usize = 32;
    let requests = requests(4000);
    for preset_name in ["constellation-500g", "savvio-300g", "mk0120-120g"] {
        let spec = preset(preset_name).unwrap();
        let run = |oversleep_ns_max: u64| {
            let mut pace = Pace::new(&spec, Scheduling { drive_queue: 4, ..Scheduling::default() }, Answers::Medium);
            let (mut random, mut now_ns, mut at, mut pending) = (SplitMix::new(3), 0, 0, 0);
            loop {
                while pending < DEPTH && at < requests.len() {
                    let (operation, offset, len, _) = requests[at];
                    pace.submit(now_ns, operation, offset, len);
                    (at, pending) = (at + 1, pending + 1);
                }
                let Some(next_ns) = pace.next_ns() else { return pace.time_ns };
                now_ns = now_ns.max(next_ns + random.below(oversleep_ns_max + 1));
                for done in pace.collect(now_ns) {
                    pace.on_answered(now_ns - done.time_ns);
                    pending -= 1;
                }
            }
        };
        let (exact, late) = (run(0), run(MS / 2));
        assert!(late.abs_diff(exact) * 50 <= exact, "{preset_name}: {late} instead of {exact} ns");
    }
}

/// Threads get their own bytes back, whoever of them sleeps for all.
#[test]
fn threads_get_their_bytes() {
    for answers in [Answers::Medium, Answers::Window] {
        let (clock, disk) = disk("s3520-240g", answers, 20_000, 1000);
        thread::scope(|scope| {
            for number in 0..8u64 {
                let disk = &disk;
                scope.spawn(move || {
                    for round in 0..40u64 {
                        let at = (number * 40 + round) * 8 * KIB;
                        let bytes = vec![(number * 40 + round) as u8; 8 * KIB as usize];
                        disk.write_at(at, &bytes).unwrap();
                        if round % 8 == 0 {
                            disk.sync().unwrap();
                        }
                        let mut found = vec![0; bytes.len()];
                        disk.read_at(at, &mut found).unwrap();
                        assert_eq!(found, bytes);
                    }
                });
            }
        });
        assert_eq!(disk.emulation().requests, 8 * (40 * 2 + 5));
        assert!(clock.now_ns() > MS);
    }
}

/// Writes behind: answered while the window has room, then at the disk's pace; a sync waits for all of them.
#[test]
fn a_window_answers_ahead_of_the_disk() {
    let (clock, disk) = disk("savvio-300g", Answers::Window, 0, 0);
    let mut random = SplitMix::new(1);
    let mut write = || disk.write_at(random.below(DEVICE_BYTES / MIB) * MIB, &[1; 4096]).unwrap();
    (0..128).for_each(|_| write());
    assert_eq!(clock.now_ns(), 0);
    (0..50).for_each(|_| write());
    let filled_ns = clock.now_ns();
    assert!(filled_ns > 10 * MS, "{filled_ns}");
    disk.sync().unwrap();
    assert!(clock.now_ns() > filled_ns + 100 * MS, "128 random writes were left");
    let synced_ns = clock.now_ns();
    disk.sync().unwrap();
    assert_eq!(clock.now_ns(), synced_ns);
}

#[test]
fn a_slow_device_below_is_refused() {
    let run = |io_ns_max| {
        let (_, disk) = disk("savvio-300g", Answers::Medium, 0, io_ns_max);
        let results: Vec<io::Result<()>> =
            requests(4000).iter().map(|(_, offset, len, _)| disk.write_at(*offset, &vec![0; *len as usize])).collect();
        (disk.emulation().is_true(), results.into_iter().find_map(Result::err).map(|error| error.to_string()))
    };
    assert_eq!(run(2 * MS), (true, None));
    let (is_true, error) = run(10 * MS);
    let error = error.expect("it is refused");
    assert!(!is_true, "{error}");
    assert!(error.contains("too slow") && error.contains("faster device"), "{error}");
}
