use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::thread;

use forebay_core::attr::Kind;
use forebay_core::effect::{HomeChange, Outcome};
use forebay_core::message::SeekWhence;
use forebay_core::xattr::Xattr;
use rustix::fs::Uid;

use super::*;

struct Home {
    dir: tempfile::TempDir,
    home: PosixHome,
}

fn home() -> Home {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("home")).unwrap();
    let home = PosixHome::open(&dir.path().join("home")).unwrap();
    Home { dir, home }
}

impl Home {
    fn real(&self, name: &str) -> PathBuf {
        self.dir.path().join("home").join(name)
    }
}

fn path(text: &str) -> HomePath {
    HomePath(text.as_bytes().into())
}

/// What a directory of home has, by name.
fn names_and_kinds(made: &Home, directory: &str) -> Vec<(Name, Kind)> {
    let entries = made.home.list(&path(directory)).unwrap();
    let mut listed = entries.iter().map(|entry| (Name::new(entry.name), entry.kind)).collect::<Vec<_>>();
    listed.sort_by(|a, b| a.0.cmp(&b.0));
    listed
}

fn make_file(home: &PosixHome, name: &str) {
    home.change(&HomeChange::MakeFile { path: path(name) }).unwrap();
}

fn make_dir(home: &PosixHome, name: &str) {
    home.change(&HomeChange::MakeDir { path: path(name) }).unwrap();
}

fn unlink(name: &str) -> HomeChange {
    HomeChange::Unlink { path: path(name) }
}

fn rename(from: &str, to: &str, again: bool) -> HomeChange {
    HomeChange::Rename { from: path(from), to: path(to), again }
}

fn read(home: &PosixHome, ino: u64, name: &str, offset: u64, len: usize) -> Result<(u32, Vec<u8>)> {
    let mut buf = vec![0xee; len];
    let there = home.read(Ino(ino), &path(name), offset, &mut buf)?;
    Ok((there, buf))
}

/// Carries out `work` in a thread of another user, if these tests run as root; else as they run.
fn as_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let nobody = Uid::from_raw(65_534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            work()
        });
        thread.join().unwrap()
    })
}

/// A home that belongs to the user of [`as_user`].
fn user_home() -> Home {
    let made = home();
    std::fs::set_permissions(made.dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(made.real(""), Some(65_534), None).unwrap();
    }
    made
}

#[test]
fn lists_and_stats_what_is_there() {
    let made = home();
    std::fs::write(made.real("b"), b"12345").unwrap();
    std::fs::create_dir(made.real("a")).unwrap();
    symlink("/nowhere/at all", made.real("c")).unwrap();
    std::fs::hard_link(made.real("b"), made.real("a/hard")).unwrap();
    let listed = names_and_kinds(&made, "");
    let expected = [("a", Kind::Directory), ("b", Kind::File), ("c", Kind::Symlink)];
    assert_eq!(listed, expected.map(|(name, kind)| (Name::new(name.as_bytes()), kind)));

    let stat = made.home.stat(&path("a/hard")).unwrap();
    let real = std::fs::metadata(made.real("b")).unwrap();
    assert_eq!((stat.dev, stat.ino, stat.attr.nlink), (real.dev(), real.ino(), 2));
    assert_eq!((stat.attr.size, stat.attr.uid, u32::from(stat.attr.mode)), (5, real.uid(), real.mode() & 0o7777));
    assert_eq!(stat.attr.mtime_ns, real.mtime() * 1_000_000_000 + real.mtime_nsec());
    assert_eq!(made.home.stat(&path("")).unwrap().attr.kind, Kind::Directory);
    assert_eq!(made.home.read_link(&path("c")).unwrap(), Name::new(b"/nowhere/at all"));
    assert_eq!(made.home.read_link(&path("b")), Err(Errno::EINVAL));
    assert_eq!(made.home.stat(&path("none")), Err(Errno::ENOENT));
    assert_eq!(made.home.list(&path("b")), Err(Errno::ENOTDIR));
    let space = made.home.stat_fs().unwrap();
    assert!(space.total_bytes >= space.free_bytes && space.free_bytes >= space.available_bytes && space.name_bytes_max >= 255);
}

#[test]
fn nothing_outside_home_is_reached() {
    let made = home();
    std::fs::write(made.dir.path().join("secret"), b"outside").unwrap();
    symlink("..", made.real("up")).unwrap();
    symlink("../secret", made.real("link")).unwrap();
    symlink(made.dir.path(), made.real("absolute")).unwrap();
    for odd in ["../secret", "up/secret", "absolute/secret", "link", "/secret", "a//b", "./link", "a/", "nul\0"] {
        assert!(read(&made.home, 5, odd, 0, 4).is_err(), "{odd:?}");
        assert!(made.home.write(Ino(5), &path(odd), 0, b"overwritten").is_err(), "{odd:?}");
        let truncate = HomeChange::Truncate { ino: Ino(5), path: path(odd), size: 0 };
        assert!(made.home.change(&truncate).is_err(), "{odd:?}");
    }
    for below in ["up/new", "absolute/new", "../new", "up/../new"] {
        for change in [
            HomeChange::MakeFile { path: path(below) },
            HomeChange::MakeDir { path: path(below) },
            HomeChange::SymLink { path: path(below), target: Name::new(b"x") },
            rename("link", below, false),
            HomeChange::Link { from: path("link"), to: path(below) },
        ] {
            assert!(made.home.change(&change).is_err(), "{change:?}");
        }
        assert!(made.home.list(&path(below)).is_err());
    }
    for gone in ["up/secret", "absolute/secret", "../secret"] {
        assert!(made.home.change(&unlink(gone)).is_err(), "{gone}");
        assert!(made.home.stat(&path(gone)).is_err(), "{gone}");
    }
    assert_eq!(made.home.stat(&path("link")).unwrap().attr.kind, Kind::Symlink, "the link itself, not what it points to");
    assert_eq!(std::fs::read(made.dir.path().join("secret")).unwrap(), b"outside");
    assert!(!made.dir.path().join("new").exists());
}

#[test]
fn reading_gives_zeros_behind_the_end_and_in_holes() {
    let made = home();
    make_file(&made.home, "f");
    made.home.write(Ino(2), &path("f"), 10_000, b"end").unwrap();
    assert_eq!(read(&made.home, 2, "f", 9_998, 10).unwrap(), (5, b"\0\0end\0\0\0\0\0".to_vec()));
    assert_eq!(read(&made.home, 2, "f", 0, 4).unwrap(), (4, vec![0; 4]));
    assert_eq!(read(&made.home, 2, "f", 10_003, 4).unwrap(), (0, vec![0; 4]));
    assert_eq!(read(&made.home, 3, "none", 0, 4), Err(Errno::ENOENT));
}

#[test]
fn comparing_sees_every_difference() {
    let made = home();
    make_file(&made.home, "f");
    let bytes: Vec<u8> = (0..3_000_001_u32).map(|n| (n % 249) as u8).collect();
    made.home.write(Ino(2), &path("f"), 5, &bytes).unwrap();
    made.home.sync(&[(Ino(2), path("f"))], &[path("")]).unwrap();
    let len = bytes.len() as u64;
    let crc = crc32c::crc32c(&bytes);
    let compare = |offset, len, crc| made.home.compare(Ino(2), &path("f"), offset, len, crc).unwrap();
    assert!(compare(5, len, crc));
    assert!(!compare(4, len, crc));
    assert!(!compare(5, len, crc ^ 1));
    assert!(!compare(5, len + 1, crc), "the file ends before");
    assert!(compare(9, 0, 0));
    made.home.write(Ino(2), &path("f"), 2_999_999, b"!").unwrap();
    assert!(!compare(5, len, crc));
}

#[test]
fn names_are_made_once_and_again() {
    let made = home();
    let changes = [
        HomeChange::MakeDir { path: path("d") },
        HomeChange::SymLink { path: path("d/s"), target: Name::new(b"../x") },
        HomeChange::MakeNode { path: path("d/p"), kind: Kind::Fifo, rdev: 0 },
        HomeChange::MakeNode { path: path("d/sock"), kind: Kind::Socket, rdev: 0 },
        HomeChange::MakeFile { path: path("d/f") },
        HomeChange::Link { from: path("d/f"), to: path("d/g") },
        rename("d/g", "d/h", true),
        unlink("d/h"),
        HomeChange::MakeDir { path: path("d/e") },
        HomeChange::RemoveDir { path: path("d/e") },
    ];
    for round in 0..2 {
        for change in &changes {
            made.home.change(change).unwrap_or_else(|error| panic!("round {round}, {change:?}: {error:?}"));
        }
    }
    let names = names_and_kinds(&made, "d");
    let expected = [("f", Kind::File), ("p", Kind::Fifo), ("s", Kind::Symlink), ("sock", Kind::Socket)];
    assert_eq!(names, expected.map(|(name, kind)| (Name::new(name.as_bytes()), kind)));
    let mode = |name: &str| std::fs::symlink_metadata(made.real(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("d"), mode("d/f"), mode("d/p")), (0o700, 0o600, 0o600), "private until the attributes are set");
}

#[test]
fn another_object_under_the_name_is_an_error() {
    let made = home();
    make_file(&made.home, "f");
    make_dir(&made.home, "d");
    std::fs::write(made.real("other"), b"x").unwrap();
    let exists = |change: HomeChange| assert_eq!(made.home.change(&change), Err(Errno::EEXIST), "{change:?}");
    exists(HomeChange::MakeDir { path: path("f") });
    exists(HomeChange::MakeFile { path: path("d") });
    exists(HomeChange::SymLink { path: path("f"), target: Name::new(b"x") });
    exists(HomeChange::MakeNode { path: path("f"), kind: Kind::Fifo, rdev: 0 });
    exists(HomeChange::Link { from: path("f"), to: path("other") });
    assert_eq!(made.home.change(&rename("none", "new", true)), Err(Errno::ENOENT));
    assert_eq!(made.home.change(&rename("none", "f", false)), Err(Errno::ENOENT));
    assert_eq!(made.home.change(&rename("none", "f", true)), Ok(Outcome::Done));
    assert_eq!(made.home.change(&HomeChange::RemoveDir { path: path("f") }), Err(Errno::ENOTDIR));
    assert_eq!(made.home.change(&unlink("d")), Err(Errno::EISDIR));
    make_file(&made.home, "d/in");
    assert_eq!(made.home.change(&HomeChange::RemoveDir { path: path("d") }), Err(Errno::ENOTEMPTY));
    let bad_kind = HomeChange::MakeNode { path: path("n"), kind: Kind::File, rdev: 0 };
    assert_eq!(made.home.change(&bad_kind), Err(Errno::EINVAL));
    assert_eq!(made.home.write(Ino(9), &path("d"), 0, b"x"), Err(Errno::EISDIR));
}

#[test]
fn a_file_that_is_taken_over_is_empty() {
    let made = home();
    std::fs::write(made.real("f"), b"from before the crash").unwrap();
    make_file(&made.home, "f");
    assert_eq!(std::fs::metadata(made.real("f")).unwrap().len(), 0);
}

#[test]
fn a_fifo_does_not_hold_a_thread() {
    let made = home();
    made.home.change(&HomeChange::MakeNode { path: path("p"), kind: Kind::Fifo, rdev: 0 }).unwrap();
    assert!(made.home.write(Ino(4), &path("p"), 0, b"x").is_err());
    assert!(read(&made.home, 4, "p", 0, 1).is_err());
    made.home.change(&HomeChange::SymLink { path: path("s"), target: Name::new(b"p") }).unwrap();
    made.home.change(&HomeChange::MakeNode { path: path("sock"), kind: Kind::Socket, rdev: 0 }).unwrap();
    for name in ["p", "s", "sock"] {
        made.home.change(&unlink(name)).unwrap();
        assert_eq!(made.home.stat(&path(name)), Err(Errno::ENOENT), "{name}");
    }
}

#[test]
fn a_name_that_is_gone_already_may_be_removed_again() {
    let made = home();
    make_file(&made.home, "f");
    made.home.change(&unlink("f")).unwrap();
    assert!(!made.real("f").exists());
    made.home.change(&unlink("f")).unwrap();
}

/// An inode whose file was removed and made anew at home does not write to the old one.
#[test]
fn changed_names_are_opened_anew() {
    let made = home();
    make_file(&made.home, "f");
    made.home.write(Ino(2), &path("f"), 0, b"old").unwrap();
    made.home.change(&unlink("f")).unwrap();
    make_file(&made.home, "f");
    made.home.write(Ino(2), &path("f"), 0, b"new").unwrap();
    assert_eq!(std::fs::read(made.real("f")).unwrap(), b"new");

    make_file(&made.home, "g");
    made.home.write(Ino(3), &path("g"), 0, b"ggg").unwrap();
    made.home.change(&rename("g", "f", false)).unwrap();
    assert_eq!(read(&made.home, 3, "f", 0, 3).unwrap().1, b"ggg");
    make_dir(&made.home, "d");
    make_file(&made.home, "d/x");
    made.home.write(Ino(4), &path("d/x"), 0, b"first").unwrap();
    made.home.change(&rename("d", "e", false)).unwrap();
    make_dir(&made.home, "d");
    make_file(&made.home, "d/x");
    made.home.write(Ino(4), &path("d/x"), 0, b"second").unwrap();
    assert_eq!(std::fs::read(made.real("e/x")).unwrap(), b"first");
    assert_eq!(std::fs::read(made.real("d/x")).unwrap(), b"second");
}

#[test]
fn many_objects_are_synced_at_once() {
    let made = home();
    let files: Vec<_> = (0..100_u64).map(|n| (Ino(n + 2), path(&format!("f{n}")))).collect();
    for (ino, path) in &files {
        made.home.change(&HomeChange::MakeFile { path: path.clone() }).unwrap();
        made.home.write(*ino, path, 0, b"x").unwrap();
    }
    made.home.sync(&files, &[path(""), path("")]).unwrap();
    made.home.sync(&files[..3], &[path("")]).unwrap();
    let with_missing = [&files[..], &[(Ino(900), path("missing"))]].concat();
    assert_eq!(made.home.sync(&with_missing, &[]), Err(Errno::ENOENT));
    assert_eq!(made.home.sync(&[], &[path("missing")]), Err(Errno::ENOENT));
}

/// The kernel takes 4095 bytes of path at a time; applications reach deeper by going down step by step.
#[test]
fn paths_may_be_longer_than_the_kernel_takes() {
    let made = home();
    let mut deep = String::new();
    for n in 0..25 {
        deep.push_str(&format!("{n:0>200}"));
        make_dir(&made.home, &deep);
        deep.push('/');
    }
    let file = format!("{deep}file");
    assert!(file.len() > 5000);
    make_file(&made.home, &file);
    made.home.write(Ino(2), &path(&file), 3, b"deep").unwrap();
    assert_eq!(made.home.stat(&path(&file)).unwrap().attr.size, 7);
    assert_eq!(read(&made.home, 2, &file, 0, 7).unwrap().1, b"\0\0\0deep");
    assert_eq!(made.home.list(&path(deep.trim_end_matches('/'))).unwrap().len(), 1);
    made.home.change(&rename(&file, "shallow", false)).unwrap();
    made.home.change(&rename("shallow", &format!("{deep}{}", "n".repeat(255)), false)).unwrap();
    let long = HomeChange::MakeFile { path: path(&format!("{deep}{}", "n".repeat(256))) };
    assert_eq!(made.home.change(&long), Err(Errno::ENAMETOOLONG));
    made.home.change(&HomeChange::SymLink { path: path(&format!("{deep}up")), target: Name::new(b"..") }).unwrap();
    assert!(read(&made.home, 3, &format!("{deep}up/x"), 0, 1).is_err(), "no symlink is followed there either");
}

#[test]
fn attributes_are_set_exactly() {
    let made = home();
    make_file(&made.home, "f");
    make_dir(&made.home, "d");
    made.home.change(&HomeChange::SymLink { path: path("s"), target: Name::new(b"f") }).unwrap();
    let own = std::fs::metadata(made.real("f")).unwrap();
    let (uid, gid) = if own.uid() == 0 { (1234, 4321) } else { (own.uid(), own.gid()) };
    let set = |name: &str, kind, mode, mtime_ns| {
        let atime_ns = 1_000_000_007;
        made.home.change(&HomeChange::SetAttr { path: path(name), kind, mode, uid, gid, atime_ns, mtime_ns, xattrs: None }).unwrap();
        made.home.stat(&path(name)).unwrap().attr
    };
    for (name, kind, mode, mtime_ns) in [
        ("f", Kind::File, 0o6755, 1_600_000_000_123_456_789),
        ("f", Kind::File, 0o400, -1),
        ("f", Kind::File, 0o000, 0),
        ("d", Kind::Directory, 0o3777, 999),
        ("", Kind::Directory, 0o711, 5_000_000_000_000),
    ] {
        let attr = set(name, kind, mode, mtime_ns);
        assert_eq!((attr.mode, attr.uid, attr.gid), (mode, uid, gid), "{name}");
        assert_eq!((attr.atime_ns, attr.mtime_ns), (1_000_000_007, mtime_ns), "{name}");
    }
    let attr = set("s", Kind::Symlink, 0o644, 77);
    assert_eq!((attr.uid, attr.mtime_ns), (uid, 77));
    assert_eq!(made.home.stat(&path("f")).unwrap().attr.mtime_ns, 0, "what the symlink points to is untouched");
    let wrong = HomeChange::SetAttr { path: path("f"), kind: Kind::Directory, mode: 0, uid, gid, atime_ns: 0, mtime_ns: 0, xattrs: None };
    assert_eq!(made.home.change(&wrong), Err(Errno::ESTALE));
}

#[test]
fn an_owner_that_may_not_be_set_is_an_error_only_if_it_differs() {
    let made = user_home();
    as_user(|| {
        make_file(&made.home, "f");
        let stat = made.home.stat(&path("f")).unwrap().attr;
        let set = |uid| HomeChange::SetAttr {
            path: path("f"),
            kind: Kind::File,
            mode: 0o640,
            uid,
            gid: stat.gid,
            atime_ns: 1,
            mtime_ns: 2,
            xattrs: None,
        };
        made.home.change(&set(stat.uid)).unwrap();
        assert_eq!(made.home.change(&set(stat.uid + 1)), Err(Errno::EPERM));
        assert_eq!(made.home.stat(&path("f")).unwrap().attr.mode, 0o640);
    });
}

/// A file or directory may have lost its rights before its contents are home: its owner's process gets them there all the same.
#[test]
fn rights_that_the_owner_took_away_do_not_stop_the_owner() {
    let made = user_home();
    as_user(|| {
        make_dir(&made.home, "d");
        make_dir(&made.home, "d/e");
        make_file(&made.home, "d/e/f");
        make_file(&made.home, "d/e/old");
        let mode = |name: &str, kind, mode| {
            let stat = made.home.stat(&path(name)).unwrap().attr;
            let (uid, gid) = (stat.uid, stat.gid);
            let set = HomeChange::SetAttr { path: path(name), kind, mode, uid, gid, atime_ns: 0, mtime_ns: 0, xattrs: None };
            made.home.change(&set).unwrap();
        };
        mode("d/e/f", Kind::File, 0o000);
        mode("d/e", Kind::Directory, 0o500);
        mode("d", Kind::Directory, 0o000);
        made.home.write(Ino(2), &path("d/e/f"), 0, b"late").unwrap();
        made.home.forget(Ino(2));
        assert_eq!(read(&made.home, 2, "d/e/f", 0, 4).unwrap().1, b"late");
        made.home.sync(&[(Ino(2), path("d/e/f"))], &[path("d"), path("d/e")]).unwrap();
        make_file(&made.home, "d/e/new");
        make_dir(&made.home, "d/x");
        made.home.change(&rename("d/e/new", "d/x/moved", false)).unwrap();
        made.home.change(&rename("d/x", "d/e/x", false)).unwrap();
        mode("d/e/x", Kind::Directory, 0o000);
        made.home.change(&HomeChange::Link { from: path("d/e/x/moved"), to: path("d/e/linked") }).unwrap();
        made.home.change(&unlink("d/e/old")).unwrap();
        let names = |name: &str| made.home.list(&path(name)).map(|list| list.len());
        assert_eq!(names("d/e"), Ok(3), "f, linked and x");
        assert_eq!(made.home.stat(&path("d")).unwrap().attr.mode, 0);
        assert_eq!(made.home.stat(&path("d/e")).unwrap().attr.mode, 0o500);
        assert_eq!(made.home.stat(&path("d/e/f")).unwrap().attr.mode, 0);
    });
}

/// Widening a mode for a moment from several threads leaves the real one.
#[test]
fn widened_modes_are_restored_whatever_runs_beside() {
    let made = user_home();
    if as_user(|| rustix::process::geteuid().is_root()) {
        return;
    }
    as_user(|| {
        make_dir(&made.home, "d");
        std::fs::set_permissions(made.real("d"), PermissionsExt::from_mode(0o500)).unwrap();
    });
    let home = &made.home;
    thread::scope(|scope| {
        for part in 0..4 {
            scope.spawn(move || {
                as_user(|| {
                    for n in 0..50 {
                        make_file(home, &format!("d/{part}-{n}"));
                    }
                });
            });
        }
    });
    assert_eq!(std::fs::metadata(made.real("d")).unwrap().mode() & 0o7777, 0o500);
    assert_eq!(home.list(&path("d")).unwrap().len(), 200);
}

#[test]
fn what_is_no_directory_is_no_home() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), b"").unwrap();
    assert!(PosixHome::open(&dir.path().join("f")).is_err());
    assert!(PosixHome::open(&dir.path().join("none")).is_err());
}

#[test]
fn holes_are_made_found_and_looked_at() {
    let made = home();
    std::fs::write(made.real("f"), vec![7; 100_000]).unwrap();
    let punch = |offset, len| made.home.change(&HomeChange::Punch { ino: Ino(5), path: path("f"), offset, len });
    let zeros = |offset, len| made.home.compare_zeros(Ino(5), &path("f"), offset, len);
    let seek = |offset, whence| made.home.seek(Ino(5), &path("f"), offset, whence);
    assert_eq!(zeros(10_000, 1), Ok(false));
    assert_eq!(punch(10_000, 50_000), Ok(Outcome::Done));
    assert_eq!((zeros(10_000, 50_000), zeros(9_999, 10), zeros(59_999, 2)), (Ok(true), Ok(false), Ok(false)));
    // Only whole blocks become holes; what is said must agree with the bytes.
    let hole = seek(0, SeekWhence::Hole).unwrap().unwrap();
    assert!((10_000..=100_000).contains(&hole), "{hole}");
    assert!((10_000..=60_000).contains(&seek(10_000, SeekWhence::Data).unwrap().unwrap()));
    assert_eq!(seek(100_000, SeekWhence::Data), Ok(None));
    assert_eq!(punch(90_000, u64::MAX - 90_000), Ok(Outcome::Done), "it may reach behind the end");
    assert_eq!(zeros(90_000, u64::MAX - 90_000), Ok(true));
    let bytes = std::fs::read(made.real("f")).unwrap();
    assert_eq!(bytes.len(), 100_000, "the size stays");
    assert!((0..100_000).all(|at| bytes[at] == if (10_000..60_000).contains(&at) || at >= 90_000 { 0 } else { 7 }));
}

#[test]
fn extended_attributes_become_what_they_shall_be() {
    let made = user_home();
    as_user(|| {
        make_file(&made.home, "f");
        make_dir(&made.home, "d");
        if made.home.xattrs(&path("f")) == Err(Errno::ENOTSUP) {
            return eprintln!("SKIPPED: this file system has no extended attributes");
        }
        let xattr = |name: &str, value: &[u8]| Xattr { name: Name::new(name.as_bytes()), value: value.to_vec() };
        let own = std::fs::metadata(made.real("f")).unwrap();
        // A file that its owner may neither read nor write has them all the same.
        for (name, kind, mode) in [("f", Kind::File, 0), ("d", Kind::Directory, 0), ("f", Kind::File, 0o400), ("d", Kind::Directory, 0o700)]
        {
            for wanted in [vec![xattr("user.a", b""), xattr("user.b", &[7; 1000])], vec![xattr("user.b", b"other")], vec![]] {
                let set = HomeChange::SetAttr {
                    path: path(name),
                    kind,
                    mode,
                    uid: own.uid(),
                    gid: own.gid(),
                    atime_ns: 1,
                    mtime_ns: 2,
                    xattrs: Some(wanted.clone()),
                };
                assert!(matches!(made.home.change(&set), Ok(Outcome::Blocks(_))));
                assert_eq!(made.home.xattrs(&path(name)), Ok(wanted), "{name}");
                assert_eq!(made.home.stat(&path(name)).unwrap().attr.mode, mode, "{name}");
            }
        }
        std::fs::set_permissions(made.real("f"), PermissionsExt::from_mode(0o600)).unwrap();
        rustix::fs::setxattr(made.real("f"), "user.own", b"by hand", rustix::fs::XattrFlags::empty()).unwrap();
        assert_eq!(made.home.xattrs(&path("f")), Ok(vec![xattr("user.own", b"by hand")]));
        assert_eq!(made.home.xattrs(&path("none")), Err(Errno::ENOENT));
    });
}
