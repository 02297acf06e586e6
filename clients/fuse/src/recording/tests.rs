//! Recordings of requests that no kernel has sent.

use std::io::{Read, Seek};

use forebay_core::errno::Errno;
use forebay_trace::Source;
use forebay_trace::fbt::Reader;

use super::*;
use crate::abi::Put;
use crate::answer::ENTRY_BYTES;
use crate::filesystem::Outcome;
use crate::operation::{Header, Operation};

pub(super) struct Bench {
    pub(super) recorder: Arc<Recorder>,
    file: File,
    unique: u64,
}

impl Bench {
    fn new() -> Bench {
        let file = tempfile::tempfile().unwrap();
        let recorder = Recorder::start(file.try_clone().unwrap(), Path::new("/data"), &[("command", "test".into())]).unwrap();
        Bench { recorder, file, unique: 0 }
    }

    fn seen(&mut self, node: u64, operation: Operation<'_>, outcome: Result<Outcome, Errno>, body: &[u8]) -> u64 {
        self.unique += 2;
        let header = Header { len: 0, opcode: 0, unique: self.unique, node, uid: 0, gid: 0, thread: 0 };
        self.recorder.seen(Seen { header: &header, operation, begun: Instant::now(), outcome, body, direct_io: true });
        self.unique
    }

    fn done(&mut self, node: u64, operation: Operation<'_>, entry: u64) -> u64 {
        let mut body = Vec::new();
        body.put_u64(entry);
        body.resize(ENTRY_BYTES, 0);
        self.seen(node, operation, Ok(Outcome::Body), if entry == u64::MAX { &[] } else { &body })
    }

    /// Operation, path and second path, flags, offset, size and result of each record.
    fn read(mut self) -> Vec<String> {
        self.recorder.finish(&[]).unwrap();
        self.file.rewind().unwrap();
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes).unwrap();
        let mut reader = Reader::new(&bytes[..]).unwrap();
        let mut lines = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            let path = |file| String::from_utf8_lossy(reader.names().path(file)).into_owned();
            let (file, other) = (path(record.file), path(record.other));
            lines.push(format!("{} {file} {other} {} {} {} {}", record.op, record.flags, record.offset, record.size, record.result));
        }
        assert!(reader.gaps().is_empty(), "{:?}", reader.gaps());
        lines
    }
}

#[test]
fn files_have_the_paths_that_they_had() {
    const NONE: u64 = u64::MAX;
    let mut bench = Bench::new();
    bench.done(1, Operation::MakeDir { name: b"d", mode: 0o755 }, 10);
    bench.done(10, Operation::Lookup { name: b"f" }, 0);
    let opened = bench.done(10, Operation::Create { name: b"f", mode: 0o644, flags: 0o1102 | 0x4000 }, 11);
    bench.seen(11, Operation::Write { offset: 5, write_flags: 0, flags: 0x401, data: b"abc" }, Ok(Outcome::Body), &[]);
    bench.done(1, Operation::Rename { name: b"d", new_parent: 1, new_name: b"e", flags: 0 }, NONE);
    bench.seen(11, Operation::Read { offset: 0, len: 9, for_pages: true, flags: 0 }, Ok(Outcome::Data(8)), &[]);
    bench.done(10, Operation::Unlink { name: b"f" }, NONE);
    bench.seen(11, Operation::Write { offset: 0, write_flags: 1, flags: 0x401, data: b"x" }, Err(Errno::EIO), &[]);
    bench.done(11, Operation::Release { handle: opened }, NONE);
    bench.done(11, Operation::Forget { count: 1 }, NONE);
    bench.done(10, Operation::Sync { data_only: true }, NONE);
    bench.seen(1, Operation::Flush, Err(Errno::ENOSYS), &[]);
    let state = bench.recorder.state.clone();
    let left = {
        let state = state.lock();
        (state.paths.len(), state.opened.len())
    };
    let expected = [
        "mkdir /data/d  - 0 0 0",
        "stat /data/d/f  - 0 0 -2",
        "open /data/d/f  direct,create,truncate,for-reading,for-writing 0 0 0",
        "write /data/d/f  append 5 3 3",
        "rename /data/d /data/e - 0 0 0",
        "read /data/e/f  mapped 0 9 8",
        "unlink /data/e/f  - 0 0 0",
        "write /data/e/f  mapped 0 1 -5",
        "close /data/d/f  direct,create,truncate,for-reading,for-writing 0 0 0",
        "sync /data/e  data-only 0 0 0",
    ];
    assert_eq!(bench.read(), expected);
    assert_eq!(left, (2, 0), "the kernel knows one directory, and nothing is open");
}

#[test]
fn a_listing_with_attributes_tells_names() {
    let mut bench = Bench::new();
    let mut body = Vec::new();
    for (ino, name) in [(0u64, &b"."[..]), (20, b"long-name"), (21, b"g")] {
        body.put_u64(ino);
        body.resize(body.len() + ENTRY_BYTES - 8, 0);
        body.put_u64(ino);
        body.put_u64(7);
        body.put_u32(name.len() as u32);
        body.put_u32(8);
        body.extend_from_slice(name);
        body.resize(body.len() + name.len().next_multiple_of(8) - name.len(), 0);
    }
    bench.seen(1, Operation::ReadDir { handle: 1, offset: 0, len: 4096, plus: true }, Ok(Outcome::Body), &body);
    bench.seen(21, Operation::GetAttr, Ok(Outcome::Body), &[]);
    bench.seen(20, Operation::GetAttr, Ok(Outcome::Body), &[]);
    assert_eq!(bench.read()[1..], ["stat /data/g  - 0 0 0", "stat /data/long-name  - 0 0 0"]);
}

#[test]
fn everything_is_in_the_file_a_moment_later_and_nothing_is_lost_when_much_happens() {
    let mut bench = Bench::new();
    let file = bench.file.try_clone().unwrap();
    bench.done(1, Operation::StatFs, u64::MAX);
    let deadline = Instant::now() + Duration::from_secs(60);
    while file.metadata().unwrap().len() < 100 || count(&file) < 1 {
        assert!(Instant::now() < deadline, "it was not written");
        std::thread::yield_now();
    }
    let many = 20 * BATCH_RECORDS as u64 + 3;
    for _ in 0..many {
        bench.done(1, Operation::GetAttr, u64::MAX);
    }
    assert_eq!(bench.recorder.lost(), 0);
    assert_eq!(bench.read().len() as u64, many + 1);
}

/// Records of a trace that is not finished.
fn count(file: &File) -> usize {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let Ok(mut reader) = Reader::new(&bytes[..]) else { return 0 };
    std::iter::from_fn(|| reader.next_record().unwrap()).count()
}

#[test]
fn a_trace_that_cannot_be_written_ends_and_says_how_much_is_missing() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let recorder = match Recorder::start(full, Path::new("/data"), &[]) {
        Ok(recorder) => recorder,
        Err(error) => panic!("it is buffered: {error}"),
    };
    let mut bench = Bench { recorder, file: tempfile::tempfile().unwrap(), unique: 0 };
    let deadline = Instant::now() + Duration::from_secs(60);
    while bench.recorder.lost() == 0 {
        assert!(Instant::now() < deadline, "nobody noticed");
        bench.done(1, Operation::GetAttr, u64::MAX);
    }
    assert!(bench.recorder.finish(&[]).is_err());
}
