use std::rc::Rc;

use forebay_core::attr::{Attr, Caller, Kind};
use forebay_core::id::{CallId, Ino, Name};
use forebay_core::message::{Reply, Request};
use forebay_core::time::Time;

use super::state::State;
use super::{Contradiction, Oracle};

struct Bench {
    oracle: Oracle,
    calls: u64,
    now: u64,
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes())
}

fn attr(kind: Kind, size: u64, mtime_ns: u64) -> Attr {
    let times = mtime_ns as i64;
    Attr { kind, mode: 0o644, nlink: 1, uid: 0, gid: 0, size, blocks: 0, rdev: 0, atime_ns: times, mtime_ns: times, ctime_ns: times }
}

impl Bench {
    fn new() -> Bench {
        Bench { oracle: Oracle::new(State::new(0o755, (0, 0)), true), calls: 0, now: 1000 }
    }

    fn ask(&mut self, request: Request, payload: &[u8]) -> CallId {
        self.calls += 1;
        self.now += 10;
        self.oracle.ask(Time(self.now), CallId(self.calls), request, Rc::new(payload.to_vec()));
        CallId(self.calls)
    }

    fn answer(&mut self, call: CallId, reply: Reply, payload: &[u8]) -> Result<(), Contradiction> {
        self.now += 10;
        self.oracle.answer(Time(self.now), call, &reply, payload)
    }

    fn ask_create(&mut self) -> CallId {
        let caller = Caller::default();
        self.ask(Request::Create { parent: Ino::ROOT, name: name("f"), mode: 0o644, exclusive: false, caller }, b"")
    }

    fn create(&mut self) {
        let call = self.ask_create();
        let made_at = self.now;
        self.answer(call, Reply::Created { ino: Ino(5), attr: attr(Kind::File, 0, made_at) }, b"").unwrap();
    }

    fn ask_write(&mut self, offset: u64, bytes: &[u8]) -> CallId {
        self.ask(Request::Write { ino: Ino(5), offset, len: bytes.len() as u32, append: false, drops_set_id: false }, bytes)
    }

    fn written(&mut self, call: CallId, offset: u64, len: u32) {
        self.answer(call, Reply::Written { offset, len, dropped_set_id: false }, b"").unwrap();
    }

    fn ask_read(&mut self) -> CallId {
        self.ask(Request::Read { ino: Ino(5), offset: 0, len: 100 }, b"")
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), Contradiction> {
        let call = self.ask_read();
        self.answer(call, Reply::Read { len: bytes.len() as u32 }, bytes)
    }

    fn lookup(&mut self) -> CallId {
        self.ask(Request::Lookup { parent: Ino::ROOT, name: name("f") }, b"")
    }
}

#[test]
fn an_acknowledged_write_is_read() {
    let mut bench = Bench::new();
    bench.create();
    let call = bench.ask_write(2, b"abc");
    bench.written(call, 2, 3);
    assert_eq!(bench.read(b"\0\0abc"), Ok(()));
    assert!(bench.read(b"\0\0abX").is_err());
}

#[test]
fn a_read_beside_a_write_sees_either_and_after_it_the_new() {
    for seen in [&b"aaa"[..], b"bbb"] {
        let mut bench = Bench::new();
        bench.create();
        let call = bench.ask_write(0, b"aaa");
        bench.written(call, 0, 3);
        let write = bench.ask_write(0, b"bbb");
        assert_eq!(bench.read(seen), Ok(()));
        let second = bench.read(b"aaa");
        assert_eq!(second.is_ok(), seen == b"aaa", "what was seen once is not unseen");
        if second.is_ok() {
            bench.written(write, 0, 3);
            assert!(bench.read(b"aaa").is_err());
        }
    }
}

#[test]
fn two_writes_under_way_may_end_in_either_order_but_in_one() {
    for (first, then) in [(&b"aaaa"[..], &b"bbbb"[..]), (b"bbbb", b"aaaa")] {
        let mut bench = Bench::new();
        bench.create();
        let (a, b) = (bench.ask_write(0, b"aaaa"), bench.ask_write(0, b"bbbb"));
        bench.written(b, 0, 4);
        bench.written(a, 0, 4);
        assert_eq!(bench.oracle.world_count(), 2);
        assert!(bench.read(first).is_ok());
        assert!(bench.read(then).is_err());
    }
    let mut bench = Bench::new();
    bench.create();
    let (a, b) = (bench.ask_write(0, b"aaaa"), bench.ask_write(0, b"bbbb"));
    bench.written(b, 0, 4);
    bench.written(a, 0, 4);
    assert!(bench.read(b"aabX").is_err(), "a byte of neither");
}

#[test]
fn a_killed_write_is_there_in_part_and_an_acknowledged_one_in_whole() {
    let mut bench = Bench::new();
    bench.create();
    let call = bench.ask_write(0, b"aaaa");
    bench.written(call, 0, 4);
    bench.ask_write(2, b"bbbb");
    bench.oracle.kill(Time(5000));
    let call = bench.lookup();
    bench.answer(call, Reply::Entry { ino: Ino(5), attr: attr(Kind::File, 5, 3000) }, b"").unwrap();
    assert!(bench.read(b"aaaab").is_ok());
    assert!(bench.read(b"aabbb").is_err(), "what was seen after the crash stays");

    let mut bench = Bench::new();
    bench.create();
    let call = bench.ask_write(0, b"aaaa");
    bench.written(call, 0, 4);
    bench.oracle.kill(Time(5000));
    let call = bench.lookup();
    assert!(bench.answer(call, Reply::Error { errno: forebay_core::errno::Errno::ENOENT }, b"").is_err());
}

#[test]
fn a_power_loss_leaves_a_prefix_that_has_what_was_synced() {
    for (size, possible) in [(0, false), (1, true), (2, true), (3, true), (4, false)] {
        let mut bench = Bench::new();
        bench.create();
        for (at, byte) in [b"a", b"b", b"c"].into_iter().enumerate() {
            let call = bench.ask_write(at as u64, byte);
            bench.written(call, at as u64, 1);
            if at == 0 {
                let sync = bench.ask(Request::Sync { ino: Ino(5) }, b"");
                bench.answer(sync, Reply::Done, b"").unwrap();
            }
        }
        bench.oracle.lose_power(Time(5000));
        let call = bench.lookup();
        let mut seen = attr(Kind::File, size, 0);
        // The write of each byte was handled between its call and its answer, 20 ns after the one before; the sync took 20 more.
        seen.mtime_ns = [1020, 1035, 1075, 1095, 1095][size as usize];
        let answer = bench.answer(call, Reply::Entry { ino: Ino(5), attr: seen }, b"");
        assert_eq!(answer.is_ok(), possible, "size {size}: {answer:?}");
        if possible {
            assert!(bench.read(&b"abc"[..size as usize]).is_ok());
        }
    }
}

#[test]
fn a_failed_call_did_not_happen_unless_it_may_have() {
    let mut bench = Bench::new();
    bench.create();
    let call = bench.ask_write(0, b"aaaa");
    bench.oracle.failed(Time(4000), call, false);
    assert!(bench.read(b"").is_ok());
    let call = bench.ask_write(0, b"aaaa");
    bench.oracle.failed(Time(4100), call, true);
    assert!(bench.read(b"aaaa").is_ok());
}

#[test]
fn concurrent_creates_of_one_name_give_one_file() {
    let mut bench = Bench::new();
    let (a, b) = (bench.ask_create(), bench.ask_create());
    let made_at = bench.now;
    let created = |ino| Reply::Created { ino: Ino(ino), attr: attr(Kind::File, 0, made_at) };
    bench.answer(a, created(5), b"").unwrap();
    assert!(bench.answer(b, created(6), b"").is_err());
}
