use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;

use forebay_core::config::NodeConfig;
use forebay_core::effect::{HomePiece, LogPiece, LogRange, Slot};
use forebay_core::id::{HomePath, Ino, Lsn, MemorySlot, Name, Position, SegmentId, SsdSlot};
use forebay_core::message::StatFs;
use forebay_core::record::{DataRecord, Record};

use super::*;
use crate::recorder::{self, Start};

const LOG_BYTES: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(20);

/// A machine that is as small as can be and uses every kind of effect that the driver treats in its own way.
struct Toy {
    effects: Vec<Effect>,
    waiting: BTreeMap<Token, Step>,
    next_token: u64,
    position: u64,
    sleepers: Vec<(Time, CallId)>,
    /// Makes a machine that is not the recorded one.
    altered: bool,
}

#[derive(Clone)]
#[allow(clippy::large_enum_variant)] // A test holds a few.
enum Step {
    Written { call: CallId, offset: u64, len: u32 },
    Journaled { call: CallId, offset: u64, len: u32 },
    Fetched { call: CallId, fetch: u64 },
    Answer { call: CallId, reply: Reply },
}

impl Toy {
    fn new() -> Toy {
        Toy { effects: Vec::new(), waiting: BTreeMap::new(), next_token: 0, position: 0, sleepers: Vec::new(), altered: false }
    }

    fn token(&mut self, step: Step) -> Token {
        self.next_token += 1;
        self.waiting.insert(Token(self.next_token), step);
        Token(self.next_token)
    }

    fn call(&mut self, now: Time, call: CallId, request: Request) {
        let payload = Payload::Call(call);
        let range = |offset: u64, len| LogRange { slot: Slot::Memory(MemorySlot(0)), offset: offset as u32, len };
        match request {
            Request::Write { offset, len, .. } => {
                let token = self.token(Step::Written { call, offset, len });
                let half = len / 2;
                let pieces = vec![
                    LogPiece { at: range(offset, half), payload_offset: 0 },
                    LogPiece { at: range(offset + u64::from(half), len - half), payload_offset: half },
                ];
                self.effects.push(Effect::WriteLog { token, payload, pieces });
            }
            // Inode 1 stands in the log, all others at home.
            Request::Read { ino: Ino(1), offset, len } => {
                let token = self.token(Step::Answer { call, reply: Reply::Read { len } });
                self.effects.push(Effect::ReadLog { token, payload, pieces: vec![LogPiece { at: range(offset, len), payload_offset: 0 }] });
            }
            Request::Read { ino, offset, len } => {
                let fetch = self.next_token + 1;
                let token = self.token(Step::Fetched { call, fetch });
                self.effects.push(Effect::ReadHome { token, fetch, ino, path: HomePath::default(), offset, len });
            }
            Request::Sync { .. } => {
                let token = self.token(Step::Answer { call, reply: Reply::Done });
                self.effects.push(Effect::SyncLog { token });
            }
            Request::ReadLink { ino } => {
                let token = self.token(Step::Answer { call, reply: Reply::Done });
                let pieces = Vec::<HomePiece>::new();
                self.effects.push(Effect::WriteHome { token, ino, path: HomePath::default(), offset: 0, pieces });
            }
            Request::StatFs => self.sleepers.push((now + 2_000_000, call)),
            Request::Lookup { .. } => panic!("the toy machine was asked to panic"),
            _ => {}
        }
    }

    fn done(&mut self, token: Token, result: Result<Outcome, Errno>) {
        let Some(step) = self.waiting.remove(&token) else { panic!("token {token:?} was answered twice") };
        let call = match step {
            Step::Written { call, .. } | Step::Journaled { call, .. } | Step::Fetched { call, .. } | Step::Answer { call, .. } => call,
        };
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(errno) => return self.effects.push(Effect::Reply { call, reply: Reply::Error { errno } }),
        };
        match (step, outcome) {
            (Step::Written { call, offset, len }, Outcome::Checksums(crcs)) => {
                assert_eq!(crcs.len(), 2);
                self.position += 1;
                let position = Position(self.position);
                let token = self.token(Step::Journaled { call, offset, len });
                let data = DataRecord {
                    ino: Ino(1),
                    file_offset: offset,
                    len,
                    segment: SegmentId(0),
                    segment_offset: offset as u32,
                    lsn: Lsn(self.position),
                    crc: crcs[0] ^ u32::from(self.altered),
                    time_ns: 0,
                };
                self.effects.push(Effect::Journal { token, position, record: Record::Data(data) });
            }
            (Step::Journaled { call, offset, len }, Outcome::Done) => {
                self.effects.push(Effect::Reply { call, reply: Reply::Written { offset, len, dropped_set_id: false } });
            }
            (Step::Fetched { call, fetch }, Outcome::Read { len }) => {
                let (from, to) = (Payload::Fetch(fetch), Payload::Call(call));
                self.effects.push(Effect::CopyPayload { from, from_offset: 0, to, to_offset: 0, len });
                self.effects.push(Effect::ZeroPayload { payload: to, ranges: vec![(0, 1)] });
                self.effects.push(Effect::DropFetch { fetch });
                self.effects.push(Effect::Reply { call, reply: Reply::Read { len } });
            }
            (Step::Answer { call, reply }, _) => self.effects.push(Effect::Reply { call, reply }),
            (_, outcome) => panic!("{outcome:?} is not what was asked for"),
        }
    }
}

impl Machine for Toy {
    type Input = Input;
    type Effect = Effect;
    fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Call { call, request, .. } => self.call(now, call, request),
            Input::Done { token, result } => self.done(token, result),
        }
    }
    fn handle_timeout(&mut self, now: Time) {
        let (over, rest) = self.sleepers.drain(..).partition(|(time, _)| *time <= now);
        self.sleepers = rest;
        let over: Vec<(Time, CallId)> = over;
        for (_, call) in over {
            self.effects.push(Effect::Reply { call, reply: Reply::StatFs { stat: StatFs::default() } });
        }
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.sleepers.iter().map(|(time, _)| *time).min()
    }
    fn poll_effect(&mut self) -> Option<Effect> {
        if self.effects.is_empty() { None } else { Some(self.effects.remove(0)) }
    }
}

#[derive(Default)]
struct ToyWorld {
    log: Mutex<Vec<u8>>,
    /// Writes at home wait while this is true.
    stalled: Mutex<bool>,
    stall_over: Condvar,
    stalled_writes: AtomicUsize,
}

impl ToyWorld {
    fn new() -> Arc<ToyWorld> {
        Arc::new(ToyWorld { log: Mutex::new(vec![0; LOG_BYTES]), ..ToyWorld::default() })
    }
    fn stall(&self, on: bool) {
        *self.stalled.lock() = on;
        self.stall_over.notify_all();
    }
}

fn home_byte(offset: u64) -> u8 {
    (offset % 251) as u8 | 1
}

impl World for ToyWorld {
    fn write_log(&self, payload: &[u8], pieces: &[LogPiece]) -> Result<Vec<u32>, Errno> {
        let mut log = self.log.lock();
        let mut crcs = Vec::new();
        for piece in pieces {
            let bytes = part(payload, piece.payload_offset, piece.at.len).ok_or(Errno::EINVAL)?;
            assert_ne!(bytes.first(), Some(&0xEE), "asked to panic");
            log[piece.at.offset as usize..][..bytes.len()].copy_from_slice(bytes);
            crcs.push(crc32c::crc32c(bytes));
        }
        Ok(crcs)
    }
    fn read_log(&self, payload: &mut [u8], pieces: &[LogPiece]) -> Result<(), Errno> {
        for piece in pieces {
            let bytes = part_mut(payload, piece.payload_offset, piece.at.len).ok_or(Errno::EINVAL)?;
            bytes.copy_from_slice(&self.log.lock()[piece.at.offset as usize..][..bytes.len()]);
        }
        Ok(())
    }
    fn copy_log(&self, _: LogRange, _: LogRange) -> Result<u32, Errno> {
        Err(Errno::ENOSYS)
    }
    fn spill(&self, _: MemorySlot, _: SsdSlot, _: u32, _: u32) -> Result<(), Errno> {
        Err(Errno::ENOSYS)
    }
    fn sync_log(&self) -> Result<(), Errno> {
        Ok(())
    }
    fn read_home(&self, ino: Ino, _: &HomePath, offset: u64, buffer: &mut [u8]) -> Result<u32, Errno> {
        assert_ne!(ino, Ino(13), "asked to panic");
        for (i, byte) in buffer.iter_mut().enumerate() {
            *byte = home_byte(offset + i as u64);
        }
        Ok(buffer.len() as u32)
    }
    fn home(&self, _: &Effect) -> Result<Outcome, Errno> {
        let mut stalled = self.stalled.lock();
        self.stalled_writes.fetch_add(1, Ordering::SeqCst);
        while *stalled {
            self.stall_over.wait(&mut stalled);
        }
        Ok(Outcome::Checksums(vec![0]))
    }
    fn forget_home(&self, _: Ino) {}
    fn prune_clients(&self, _: Vec<(Ino, Name, Ino)>) {}
}

#[derive(Clone, Default)]
struct ToyJournal {
    positions: Arc<Mutex<Vec<u64>>>,
    synced: Arc<AtomicUsize>,
}

impl JournalIo for ToyJournal {
    fn append(&mut self, records: &[(Position, &Record)]) -> Result<(), Errno> {
        self.positions.lock().extend(records.iter().map(|(position, _)| position.0));
        Ok(())
    }
    fn rotate(&mut self, _: Position, _: &[Record]) -> Result<(), Errno> {
        Ok(())
    }
    fn drop_old(&mut self) -> Result<(), Errno> {
        Ok(())
    }
    fn sync(&self) -> JournalSync {
        let (synced, held) = (self.synced.clone(), self.positions.lock().len());
        Box::new(move || {
            synced.fetch_max(held, Ordering::SeqCst);
            Ok(())
        })
    }
}

fn start(world: &Arc<ToyWorld>, journal: &ToyJournal, recorder: Option<Recorder>) -> Arc<Driver<Toy>> {
    let clock = Clock::start();
    let setup = Setup {
        machine: Toy::new(),
        now: clock.now(),
        clock,
        journal: Box::new(journal.clone()),
        world: world.clone() as Arc<dyn World>,
        recorder,
        threads: Threads::default(),
    };
    Arc::new(Driver::start(setup).unwrap())
}

fn write(driver: &Driver<Toy>, offset: u64, bytes: &[u8]) -> Reply {
    let request = Request::Write { ino: Ino(1), offset, len: bytes.len() as u32, append: false, drops_set_id: false };
    driver.call(request, CallPayload::Write(bytes))
}

fn read(driver: &Driver<Toy>, ino: u64, offset: u64, len: u32) -> (Reply, Vec<u8>) {
    let mut buffer = Vec::new();
    let reply = driver.call(Request::Read { ino: Ino(ino), offset, len }, CallPayload::Read(&mut buffer));
    (reply, buffer)
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        thread::yield_now();
    }
}

#[test]
fn calls_of_many_threads_get_their_own_bytes_and_the_journal_keeps_its_order() {
    let (world, journal) = (ToyWorld::new(), ToyJournal::default());
    let driver = start(&world, &journal, None);
    thread::scope(|scope| {
        for t in 0..4u64 {
            let driver = &driver;
            scope.spawn(move || {
                for i in 0..200u64 {
                    let (offset, len) = (t * 4096 + (i % 8) * 512, 512u32);
                    let bytes = vec![(t * 50 + i % 50) as u8; len as usize];
                    assert_eq!(write(driver, offset, &bytes), Reply::Written { offset, len, dropped_set_id: false });
                    assert_eq!(read(driver, 1, offset, len), (Reply::Read { len }, bytes));
                    let (reply, bytes) = read(driver, 2, i, 300);
                    assert_eq!(reply, Reply::Read { len: 300 });
                    assert_eq!(bytes[0], 0, "zeroed after the copy");
                    assert!((1..300).all(|k| bytes[k] == home_byte(i + k as u64)));
                }
            });
        }
    });
    assert_eq!(*journal.positions.lock(), (1..=800).collect::<Vec<u64>>());
    assert_eq!(driver.call(Request::Sync { ino: Ino(1) }, CallPayload::None), Reply::Done);
    assert_eq!(journal.synced.load(Ordering::SeqCst), 800);
    assert!(driver.shared.state.lock().tables_are_empty());
}

#[test]
fn a_stalled_home_blocks_neither_syncs_nor_reads_nor_the_stop() {
    let (world, journal) = (ToyWorld::new(), ToyJournal::default());
    let driver = start(&world, &journal, None);
    world.stall(true);
    let home_threads = Threads::default().home;
    let callers: Vec<_> = (0..2 * home_threads)
        .map(|_| {
            let driver = driver.clone();
            thread::spawn(move || driver.call(Request::ReadLink { ino: Ino(1) }, CallPayload::None))
        })
        .collect();
    wait_until("every background thread is stalled", || world.stalled_writes.load(Ordering::SeqCst) == home_threads - home_threads / 4);
    assert_eq!(driver.call(Request::Sync { ino: Ino(1) }, CallPayload::None), Reply::Done);
    assert_eq!(read(&driver, 2, 0, 100).0, Reply::Read { len: 100 });
    assert!(!driver.stop(Duration::ZERO), "threads are stalled at home");
    for caller in callers {
        assert_eq!(caller.join().unwrap(), Reply::Error { errno: STOPPED });
    }
    assert_eq!(write(&driver, 0, b"late"), Reply::Error { errno: STOPPED });
    world.stall(false);
    assert!(driver.stop(PATIENCE), "the threads end when home answers");
}

#[test]
fn a_caller_hears_that_it_waits_for_others_before_it_does_and_only_then() {
    let (world, journal) = (ToyWorld::new(), ToyJournal::default());
    let driver = start(&world, &journal, None);
    let told = AtomicUsize::new(0);
    let tell = || {
        told.fetch_add(1, Ordering::SeqCst);
    };
    // Done by the caller's own thread.
    let request = Request::Write { ino: Ino(1), offset: 0, len: 4, append: false, drops_set_id: false };
    assert_eq!(
        driver.call_telling(request, CallPayload::Write(b"here"), None, &tell),
        Reply::Written { offset: 0, len: 4, dropped_set_id: false }
    );
    assert_eq!(told.load(Ordering::SeqCst), 0);
    world.stall(true);
    thread::scope(|scope| {
        let call = scope.spawn(|| driver.call_telling(Request::ReadLink { ino: Ino(1) }, CallPayload::None, None, &tell));
        wait_until("the caller says that it waits", || told.load(Ordering::SeqCst) == 1);
        world.stall(false);
        assert_eq!(call.join().unwrap(), Reply::Done);
    });
    assert_eq!(told.load(Ordering::SeqCst), 1, "once");
}

#[test]
fn a_panic_while_carrying_out_an_effect_costs_that_effect_only() {
    let (world, journal) = (ToyWorld::new(), ToyJournal::default());
    let driver = start(&world, &journal, None);
    assert_eq!(read(&driver, 13, 0, 100).0, Reply::Error { errno: Errno::EIO });
    assert_eq!(write(&driver, 0, &[0xEE; 10]), Reply::Error { errno: Errno::EIO });
    assert_eq!(read(&driver, 2, 0, 100).0, Reply::Read { len: 100 });
}

#[test]
fn a_panic_of_the_machine_answers_every_call() {
    let (world, journal) = (ToyWorld::new(), ToyJournal::default());
    let driver = start(&world, &journal, None);
    world.stall(true);
    let open = {
        let driver = driver.clone();
        thread::spawn(move || driver.call(Request::ReadLink { ino: Ino(1) }, CallPayload::None))
    };
    wait_until("the call is at home", || world.stalled_writes.load(Ordering::SeqCst) == 1);
    let lookup = Request::Lookup { parent: Ino(1), name: Name::new(b"x") };
    assert_eq!(driver.call(lookup, CallPayload::None), Reply::Error { errno: Errno::EIO });
    assert_eq!(open.join().unwrap(), Reply::Error { errno: Errno::EIO });
    assert_eq!(write(&driver, 0, b"x"), Reply::Error { errno: Errno::EIO });
    world.stall(false);
    assert!(driver.stop(PATIENCE));
}

#[test]
fn timeouts_come_and_bad_payloads_are_refused() {
    let driver = start(&ToyWorld::new(), &ToyJournal::default(), None);
    thread::scope(|scope| {
        for _ in 0..3 {
            let waiter = scope.spawn(|| driver.call(Request::StatFs, CallPayload::None));
            assert_eq!(waiter.join().unwrap(), Reply::StatFs { stat: StatFs::default() });
        }
    });
    let wrong = Request::Write { ino: Ino(1), offset: 0, len: 5, append: false, drops_set_id: false };
    assert_eq!(driver.call(wrong.clone(), CallPayload::Write(b"four")), Reply::Error { errno: Errno::EINVAL });
    assert_eq!(driver.call(wrong, CallPayload::None), Reply::Error { errno: Errno::EINVAL });
}

#[test]
fn a_recording_replays_to_the_same_effects() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.rec");
    let config = NodeConfig::default();
    let start_of_run = Start::New { config, now: Time(7) };
    let driver = start(&ToyWorld::new(), &ToyJournal::default(), Some(Recorder::create(&path, start_of_run.clone()).unwrap()));
    for i in 0..50u64 {
        write(&driver, i * 100, &[i as u8; 100]);
        read(&driver, 2, i, 100);
    }
    driver.call(Request::StatFs, CallPayload::None);
    assert!(driver.stop(PATIENCE));

    let fresh = |how: Start| {
        assert_eq!(how, start_of_run);
        Ok(Toy::new())
    };
    let report = recorder::replay(&path, fresh).unwrap();
    assert_eq!((report.difference, report.cut_at), (None, None));
    // Start; a write is three events, a read two, the wait two. A write has 3 effects, a read 5, the wait 1.
    assert_eq!((report.steps, report.effects), (1 + 50 * 5 + 2, 50 * 8 + 1));

    let altered = recorder::replay(&path, |_| Ok(Toy { altered: true, ..Toy::new() })).unwrap();
    let difference = altered.difference.unwrap();
    assert!(matches!(difference.effects[..], [Effect::Journal { .. }]), "{difference:?}");
    assert_eq!(difference.step, 2);

    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 3]).unwrap();
    let cut = recorder::replay(&path, |_| Ok(Toy::new())).unwrap();
    assert_eq!((cut.steps, cut.difference), (report.steps - 1, None));
    assert!(cut.cut_at.is_some());
    std::fs::write(&path, b"something else").unwrap();
    assert!(recorder::replay(&path, |_| Ok(Toy::new())).unwrap_err().to_string().contains("run.rec is not a recording"));
}
