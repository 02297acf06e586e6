//! A client and a server over real sockets: answers, breaks, wrong keys and garbage.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use forebay_core::effect::HomeChange;
use forebay_core::id::{HomePath, Ino};
use parking_lot::{Condvar, Mutex};
use proptest::prelude::*;
use tempfile::TempDir;

use super::message::{Bytes, Hint, HomeId, Reply, Request};
use super::*;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(30);

fn key(text: &str) -> Key {
    Key::from_text(text.as_bytes(), "the test").unwrap()
}

fn ours() -> Key {
    key("the key of these tests")
}

fn here(id: u8) -> Reply {
    Reply::Home { id: HomeId([id; 16]), boot: "one".into() }
}

fn path(text: &str) -> HomePath {
    HomePath(text.as_bytes().into())
}

/// Answers a write with its own bytes, and keeps requests for a path "held" until it is told to let them go.
#[derive(Default)]
struct Echo {
    held: Mutex<(bool, u32)>,
    changed: Condvar,
    renames: Mutex<Vec<bool>>,
    served: AtomicU32,
}

impl Echo {
    fn hold(&self) {
        self.held.lock().0 = true;
    }

    fn let_go(&self) {
        self.held.lock().0 = false;
        self.changed.notify_all();
    }

    fn wait_held(&self, wanted: u32) {
        let mut held = self.held.lock();
        while held.1 != wanted {
            assert!(!self.changed.wait_for(&mut held, LONG).timed_out(), "{} requests are held, not {wanted}", held.1);
        }
    }
}

impl Service for Echo {
    fn serve(&self, _: Asker, request: Request, payload: Vec<u8>) -> (Reply, Vec<u8>) {
        self.served.fetch_add(1, Ordering::Relaxed);
        match request {
            Request::Who => (here(7), vec![]),
            Request::Write { bytes, .. } => (Reply::Found(Some(bytes.offset)), payload),
            Request::List { path } => (Reply::Listing, vec![path.as_bytes()[0]; 5 << 20]),
            Request::Stat { path } if path.as_bytes() == b"panic" => panic!("as the test wants it"),
            Request::Change { change: HomeChange::Rename { again, .. } } => {
                self.renames.lock().push(again);
                let mut held = self.held.lock();
                held.1 += 1;
                self.changed.notify_all();
                while held.0 {
                    self.changed.wait(&mut held);
                }
                held.1 -= 1;
                self.changed.notify_all();
                (Reply::Done, vec![])
            }
            _ => (Reply::Done, vec![]),
        }
    }
}

struct Place {
    folder: TempDir,
    service: Arc<Echo>,
}

impl Place {
    fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap(), service: Arc::default() }
    }

    fn unix(&self) -> Address {
        Address::Unix(self.folder.path().join("socket"))
    }

    fn listen(&self, address: &Address) -> Server {
        Server::listen(std::slice::from_ref(address), ours(), self.service.clone()).unwrap()
    }
}

fn dial(address: &Address, key: Key, client: u8, patience: Duration) -> Remote {
    Remote::start(Dial { address: address.clone(), key, client: ClientId([client; 16]), patience }).unwrap()
}

fn ask(request: Request) -> Ask<'static> {
    Ask { request, payload: vec![] }
}

fn rename() -> Request {
    Request::Change { change: HomeChange::Rename { from: path("a"), to: path("b"), again: false } }
}

fn write(offset: u64, len: u64) -> Request {
    Request::Write { bytes: Bytes { ino: Ino(1), path: path("f"), offset, len }, hint: Hint::default() }
}

#[test]
fn many_requests_are_under_way_on_one_connection() {
    let place = Place::new();
    for address in [place.unix(), Address::Tcp("127.0.0.1:0".into())] {
        let server = place.listen(&address);
        let remote = dial(&server.addresses()[0], ours(), 1, LONG);
        remote.connected(LONG).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..50u64 {
                let remote = &remote;
                scope.spawn(move || {
                    for step in 0..20u64 {
                        let bytes = vec![(thread + step) as u8; (step * 1000) as usize];
                        let (first, second) = bytes.split_at(bytes.len() / 2);
                        let offset = thread * 1000 + step;
                        let answer = remote.call(Ask { request: write(offset, 0), payload: vec![first, second] }).unwrap();
                        assert_eq!(answer, Answer { reply: Reply::Found(Some(offset)), payload: bytes.clone() });
                    }
                });
            }
        });
        assert_eq!(server.sessions(), 1);
        assert!(server.stop(LONG));
    }
}

#[test]
fn a_long_answer_comes_in_parts() {
    let place = Place::new();
    let server = place.listen(&place.unix());
    let remote = dial(&place.unix(), ours(), 1, LONG);
    let answer = remote.call(ask(Request::List { path: path("xy") })).unwrap();
    assert_eq!((answer.reply, answer.payload), (Reply::Listing, vec![b'x'; 5 << 20]));
    let long = ask(Request::List { path: HomePath(vec![b'x'; wire::MESSAGE_BYTES_MAX].into()) });
    assert!(matches!(remote.call(long), Err(NetError::TooLong)));
    assert!(server.stop(LONG));
}

/// A client of which a request is at work when its connection breaks asks again only when that has ended; and says then that it may have happened.
#[test]
fn a_request_of_an_earlier_session_ends_before_the_next_one_begins() {
    let place = Place::new();
    let server = place.listen(&place.unix());
    let remote = dial(&place.unix(), ours(), 1, LONG);
    remote.connected(LONG).unwrap();
    place.service.hold();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| remote.call(ask(rename())));
        place.service.wait_held(1);
        // The same client from elsewhere, as when its process was killed: its session does not begin yet.
        let other = dial(&place.unix(), ours(), 1, LONG);
        let until = Instant::now() + LONG;
        while remote.connected(Duration::ZERO).is_ok() && Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(other.connected(SHORT).is_err() && remote.connected(SHORT).is_err());
        // Another client's does.
        let stranger = dial(&place.unix(), ours(), 2, LONG);
        assert_eq!(stranger.call(ask(Request::Who)).unwrap().reply, here(7));
        assert_eq!(place.service.held.lock().1, 1);
        place.service.let_go();
        drop(other);
        assert_eq!(asking.join().unwrap().unwrap().reply, Reply::Done);
    });
    let renames = place.service.renames.lock().clone();
    assert_eq!((renames.first(), renames.last()), (Some(&false), Some(&true)), "{renames:?}");
    assert!(server.stop(LONG));
}

#[test]
fn a_server_that_goes_and_comes_back_is_waited_for() {
    let place = Place::new();
    let mut server = place.listen(&place.unix());
    let remote = dial(&place.unix(), ours(), 1, LONG);
    remote.begin_with(vec![(Request::Who, here(7))]);
    remote.connected(LONG).unwrap();
    for _ in 0..3 {
        let before = place.service.served.load(Ordering::Relaxed);
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let mut answered = 0;
                while !stop.load(Ordering::Relaxed) {
                    let answer = remote.call(Ask { request: write(9, 0), payload: vec![&[1, 2]] }).unwrap();
                    assert_eq!((answer.reply, answer.payload), (Reply::Found(Some(9)), vec![1, 2]));
                    answered += 1;
                }
                answered
            });
            let until = Instant::now() + LONG;
            while place.service.served.load(Ordering::Relaxed) < before + 20 && Instant::now() < until {
                std::thread::yield_now();
            }
            assert!(server.stop(LONG));
            let again = place.listen(&place.unix());
            remote.connected(LONG).unwrap();
            stop.store(true, Ordering::Relaxed);
            assert!(asking.join().unwrap() > 0);
            server = again;
        });
    }
    assert!(server.stop(LONG));
}

#[test]
fn who_has_another_key_or_meets_another_home_is_refused_at_once() {
    let place = Place::new();
    let server = place.listen(&place.unix());
    let begun = Instant::now();
    let error = dial(&place.unix(), key("quite another key"), 1, LONG).connected(LONG).unwrap_err();
    assert!(error.to_string().contains("another key"), "{error}");
    let other = dial(&place.unix(), ours(), 1, LONG);
    // Before the first connection or after it: it counts from the next one on.
    other.begin_with(vec![(Request::Who, here(8))]);
    let met = other.connected(LONG);
    if met.is_ok() {
        assert!(server.stop(LONG));
        let again = place.listen(&place.unix());
        let until = Instant::now() + LONG;
        while other.connected(SHORT).is_ok() && Instant::now() < until {}
        assert!(other.connected(LONG).unwrap_err().to_string().contains("another home"));
        assert!(again.stop(LONG));
    }
    assert!(begun.elapsed() < LONG);
}

#[test]
fn a_server_that_stays_away_is_not_waited_for_for_ever() {
    let place = Place::new();
    let remote = dial(&place.unix(), ours(), 1, SHORT);
    let error = remote.call(ask(Request::Who)).unwrap_err();
    assert!(matches!(error, NetError::Unreachable { .. }), "{error}");
    let server = place.listen(&place.unix());
    remote.connected(LONG).unwrap();
    assert!(server.stop(LONG));
}

#[test]
fn a_request_that_panics_ends_its_session_only() {
    let place = Place::new();
    let server = place.listen(&place.unix());
    let remote = dial(&place.unix(), ours(), 1, SHORT);
    remote.connected(LONG).unwrap();
    assert!(remote.call(ask(Request::Stat { path: path("panic") })).is_err());
    let other = dial(&place.unix(), ours(), 2, LONG);
    assert_eq!(other.call(ask(Request::Who)).unwrap().reply, here(7));
    assert!(server.stop(LONG));
}

/// What a listener sends whose peer is a stranger; a server answers nothing that is no frame.
fn talk(address: &Address, bytes: &[u8]) -> Vec<u8> {
    let Address::Tcp(address) = address else { unreachable!() };
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    // The server may have hung up already.
    let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_server_outlives_garbage(mut bytes in prop::collection::vec(any::<u8>(), 0..400), kind in 0u8..12, as_frame in any::<bool>()) {
        let place = Place::new();
        let server = place.listen(&Address::Tcp("127.0.0.1:0".into()));
        if as_frame && bytes.len() >= wire::HEADER_BYTES {
            let mut seal = wire::Seal::none();
            let message = bytes.split_off(20);
            let mut framed = Vec::new();
            let frame = wire::Outgoing { kind: wire::FrameKind::Hello, more: false, request: 0, message: &message, payload: &[] };
            wire::write_frame(&mut framed, &mut seal, frame).unwrap();
            framed[4] = kind;
            framed.extend_from_slice(&bytes);
            bytes = framed;
        }
        let answer = talk(&server.addresses()[0], &bytes);
        prop_assert!(answer.len() < 1000);
        let remote = dial(&server.addresses()[0], ours(), 1, LONG);
        prop_assert_eq!(remote.call(ask(Request::Who)).unwrap().reply, here(7));
        prop_assert!(server.stop(LONG));
    }
}
