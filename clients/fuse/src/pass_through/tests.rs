//! Requests that no kernel has sent, to a directory of this machine.

use super::*;
use forebay_core::attr::SetTime;
use forebay_core::message::AllocateMode;

struct Bench {
    folder: tempfile::TempDir,
    through: PassThrough,
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes())
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let through = PassThrough::new(folder.path()).unwrap();
        Bench { folder, through }
    }

    fn ask(&self, request: Request) -> Reply {
        self.through.call(request, CallPayload::None)
    }

    fn lookup(&self, parent: Ino, text: &str) -> Ino {
        match self.ask(Request::Lookup { parent, name: name(text) }) {
            Reply::Entry { ino, .. } => ino,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn create(&self, text: &str, mode: u16) -> (Ino, Attr) {
        let stat = rustix::fs::stat(self.folder.path()).unwrap();
        let caller = Caller { uid: stat.st_uid, gid: stat.st_gid };
        match self.ask(Request::Create { parent: Ino::ROOT, name: name(text), mode, exclusive: true, caller }) {
            Reply::Created { ino, attr } => (ino, attr),
            other => panic!("{text}: {other:?}"),
        }
    }

    fn write(&self, ino: Ino, offset: u64, bytes: &[u8], append: bool) -> Reply {
        let request = Request::Write { ino, offset, len: bytes.len() as u32, append, drops_set_id: false };
        self.through.call(request, CallPayload::Write(bytes))
    }

    fn read(&self, ino: Ino, offset: u64, len: u32) -> Vec<u8> {
        let mut space = Vec::new();
        match self.through.call(Request::Read { ino, offset, len }, CallPayload::Read(&mut space)) {
            Reply::Read { len } => space[..len as usize].to_vec(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_file_is_used_without_its_name_and_with_a_mode_that_forbids_it() {
    let bench = Bench::new();
    let (ino, attr) = bench.create("f", 0o400);
    assert_eq!(attr.mode, 0o400);
    assert!(matches!(bench.write(ino, 0, b"first", false), Reply::Written { .. }), "who made it has it open for writing");
    bench.write(ino, 0, b" second", true);
    assert_eq!(std::fs::read(bench.folder.path().join("f")).unwrap(), b"first second");
    assert_eq!(bench.ask(Request::Unlink { parent: Ino::ROOT, name: name("f") }), Reply::Done);
    assert_eq!(bench.read(ino, 6, 100), b"second");
    let change = AttrChange { size: Some(5), mtime: Some(SetTime::At(7)), ..AttrChange::default() };
    let Reply::Attr { attr } = bench.ask(Request::SetAttr { ino, change }) else { panic!() };
    assert_eq!((attr.size, attr.mtime_ns, attr.nlink), (5, 7, 0));
    bench.ask(Request::Release { ino });
    bench.ask(Request::Forget { ino, count: 1 });
    assert_eq!(bench.ask(Request::GetAttr { ino }), Reply::Error { errno: Errno::ESTALE });
    assert_eq!(bench.through.nodes.counts().0, 1);
}

#[test]
fn what_has_no_descriptor_any_more_is_found_again_by_its_name() {
    let mut bench = Bench::new();
    bench.through.nodes.set_kept_max(4);
    std::fs::create_dir_all(bench.folder.path().join("a/b")).unwrap();
    let a = bench.lookup(Ino::ROOT, "a");
    let b = bench.lookup(a, "b");
    for number in 0..40 {
        std::fs::write(bench.folder.path().join(format!("a/b/{number}")), number.to_string()).unwrap();
    }
    let files: Vec<Ino> = (0..40).map(|number| bench.lookup(b, &number.to_string())).collect();
    let (known, kept) = bench.through.nodes.counts();
    assert!(known == 43 && kept <= 6, "{known} {kept}");
    let moved =
        Request::Rename { parent: Ino::ROOT, name: name("a"), new_parent: Ino::ROOT, new_name: name("c"), mode: RenameMode::Replace };
    assert_eq!(bench.ask(moved), Reply::Done);
    let unlinked = bench.ask(Request::Unlink { parent: b, name: name("7") });
    assert_eq!(unlinked, Reply::Done);
    for (number, ino) in files.iter().enumerate() {
        assert_eq!(bench.read(*ino, 0, 10), number.to_string().as_bytes());
    }
    // Another file in the place of one that is known: it is not taken for that.
    std::fs::rename(bench.folder.path().join("c/b/1"), bench.folder.path().join("c/b/0")).unwrap();
    (2..40).for_each(|number| drop(bench.ask(Request::GetAttr { ino: files[number] })));
    assert_eq!(bench.ask(Request::GetAttr { ino: files[0] }), Reply::Error { errno: Errno::ESTALE });
}

#[test]
fn names_links_listings_attributes_and_holes() {
    let bench = Bench::new();
    let (ino, _) = bench.create("f", 0o644);
    let stat = rustix::fs::stat(bench.folder.path().join("f")).unwrap();
    assert_eq!(ino.0, stat.st_ino, "programs see the same number as without us");
    let linked = bench.ask(Request::Link { ino, parent: Ino::ROOT, name: name("twin") });
    assert!(matches!(linked, Reply::Entry { ino: twin, attr } if twin == ino && attr.nlink == 2));
    let caller = Caller { uid: stat.st_uid, gid: stat.st_gid };
    let link = bench.ask(Request::SymLink { parent: Ino::ROOT, name: name("to"), target: name("f"), caller });
    let Reply::Entry { ino: link, .. } = link else { panic!("{link:?}") };
    assert_eq!(bench.ask(Request::ReadLink { ino: link }), Reply::Target { target: name("f") });
    let change = AttrChange { mtime: Some(SetTime::At(-5)), ..AttrChange::default() };
    assert!(matches!(bench.ask(Request::SetAttr { ino: link, change }), Reply::Attr { attr } if attr.mtime_ns == -5));

    let Reply::DirOpened { handle } = bench.ask(Request::OpenDir { ino: Ino::ROOT }) else { panic!() };
    let mut names = Vec::new();
    let mut from = 0;
    loop {
        let Reply::EntriesPlus { entries } = bench.ask(Request::ReadDirPlus { handle, from, max: 2 }) else { panic!() };
        from = entries.last().map_or(from, |(entry, _)| entry.cookie());
        names.extend(entries.iter().map(|(entry, attr)| (entry.name.clone(), attr.is_some())));
        if entries.len() < 2 {
            break;
        }
    }
    names.sort();
    assert_eq!(names, [(name("f"), true), (name("to"), true), (name("twin"), true)]);
    bench.ask(Request::ReleaseDir { handle });
    assert_eq!(bench.ask(Request::ReadDir { handle, from: 0, max: 1 }), Reply::Error { errno: Errno::ESTALE });

    bench.write(ino, 0, &[1; 1 << 16], false);
    let punch = Request::Allocate { ino, offset: 0, len: 1 << 15, mode: AllocateMode::Punch, drops_set_id: false };
    if bench.ask(punch) == Reply::Done {
        assert_eq!(bench.ask(Request::Seek { ino, offset: 0, whence: SeekWhence::Data }), Reply::Offset { offset: 1 << 15 });
    }
    let set = Request::SetXattr { ino, name: name("user.a"), value: vec![1, 2], mode: SetMode::Create };
    if bench.ask(set) == Reply::Done {
        assert_eq!(bench.ask(Request::GetXattr { ino, name: name("user.a") }), Reply::Xattr { value: vec![1, 2] });
        assert_eq!(bench.ask(Request::ListXattr { ino }), Reply::XattrNames { names: vec![name("user.a")] });
        assert_eq!(bench.ask(Request::RemoveXattr { ino, name: name("user.a") }), Reply::Done);
    }
    assert_eq!(bench.ask(Request::Sync { ino }), Reply::Done);
    assert!(matches!(bench.ask(Request::StatFs), Reply::StatFs { stat } if stat.total_bytes > 0));
    assert_eq!(bench.ask(Request::Drain), Reply::Error { errno: Errno::ENOTSUP });
}

#[test]
fn who_makes_a_file_owns_it_and_a_write_takes_set_id_bits() {
    let bench = Bench::new();
    if !bench.through.is_root {
        return;
    }
    let caller = Caller { uid: 1234, gid: 4321 };
    let make = |name: Name, mode| bench.ask(Request::Create { parent: Ino::ROOT, name, mode, exclusive: true, caller });
    let Reply::Created { ino, attr } = make(name("theirs"), 0o6755) else { panic!() };
    assert_eq!((attr.uid, attr.gid, attr.mode), (1234, 4321, 0o6755));
    let request = Request::Write { ino, offset: 0, len: 1, append: false, drops_set_id: true };
    let written = bench.through.call(request, CallPayload::Write(b"x"));
    assert_eq!(written, Reply::Written { offset: 0, len: 1, dropped_set_id: true });
    assert!(matches!(bench.ask(Request::GetAttr { ino }), Reply::Attr { attr } if attr.mode == 0o755));
}
