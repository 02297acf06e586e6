use forebay_core::attr::Kind;
use forebay_core::effect::HomeChange;
use forebay_core::id::{HomePath, Ino};
use forebay_core::time::Time;

use super::Home;
use crate::rng::Rng;

fn path(text: &str) -> HomePath {
    HomePath(text.as_bytes().into())
}

fn home(seed: u64) -> Home {
    Home::new((1000, 1000), Rng::new(seed))
}

fn make_file(home: &mut Home, at: &str) {
    home.change(&HomeChange::MakeFile { path: path(at) }, Time(5)).unwrap();
}

#[test]
fn a_file_is_written_read_and_compared() {
    let mut home = home(1);
    make_file(&mut home, "f");
    home.write(&path("f"), 4, b"abc", Time(6)).unwrap();
    assert_eq!(home.read(&path("f"), 2, 10).unwrap(), (b"\0\0abc\0\0\0\0\0".to_vec(), 5));
    assert!(!home.compare(&path("f"), 4, 3, 1).unwrap());
    assert!(!home.not_drained().is_empty());
    assert!(home.compare(&path("f"), 4, 3, crc32c::crc32c(b"abc")).unwrap());
    home.sync(&[(Ino(9), path("f"))], &[path("")]).unwrap();
    assert_eq!(home.not_drained(), Vec::<String>::new());
}

#[test]
fn what_was_synced_survives_and_the_rest_is_lost_in_parts() {
    let (mut name_lost, mut bytes_lost) = (false, false);
    for seed in 0..60 {
        let mut home = home(seed);
        make_file(&mut home, "synced");
        home.write(&path("synced"), 0, &[1; 8192], Time(6)).unwrap();
        home.sync(&[(Ino(2), path("synced"))], &[path("")]).unwrap();
        home.write(&path("synced"), 0, &[2; 8192], Time(7)).unwrap();
        make_file(&mut home, "lost");
        home.lose_power();
        let (bytes, len) = home.read(&path("synced"), 0, 8192).unwrap();
        assert_eq!(len, 8192);
        assert!(bytes.iter().all(|b| *b == 1 || *b == 2));
        bytes_lost |= bytes.contains(&1);
        name_lost |= home.stat(&path("lost")).is_err();
    }
    assert!(name_lost && bytes_lost);
}

#[test]
fn what_a_failed_sync_dropped_is_not_made_durable_by_the_next() {
    let mut home = home(3);
    make_file(&mut home, "f");
    home.write(&path("f"), 0, &[1; 100], Time(6)).unwrap();
    home.fail_sync(&[(Ino(2), path("f"))]);
    home.sync(&[(Ino(2), path("f"))], &[path("")]).unwrap();
    assert!(home.not_drained().iter().any(|reason| reason.contains("durable")));
    home.write(&path("f"), 0, &[1; 100], Time(6)).unwrap();
    home.sync(&[(Ino(2), path("f"))], &[]).unwrap();
    assert!(home.compare(&path("f"), 0, 100, crc32c::crc32c(&[1; 100])).unwrap());
    assert_eq!(home.not_drained(), Vec::<String>::new());
}

#[test]
fn a_removal_of_what_is_gone_is_done_but_noticed() {
    let mut home = home(4);
    home.change(&HomeChange::Unlink { path: path("a") }, Time(8)).unwrap();
    assert_eq!(home.breaches.len(), 1);
    home.forgiving = true;
    home.change(&HomeChange::RemoveDir { path: path("d/e") }, Time(8)).unwrap();
    assert_eq!(home.breaches.len(), 1);
}

#[test]
fn names_follow_posix() {
    let mut home = home(6);
    let mut change = |change: HomeChange| home.change(&change, Time(9)).map_err(|errno| errno.0);
    assert_eq!(change(HomeChange::MakeDir { path: path("d") }), Ok(()));
    assert_eq!(change(HomeChange::MakeFile { path: path("d/f") }), Ok(()));
    assert_eq!(change(HomeChange::RemoveDir { path: path("d") }), Err(39));
    assert_eq!(change(HomeChange::Unlink { path: path("d") }), Err(21));
    assert_eq!(change(HomeChange::Rename { from: path("d"), to: path("d/x"), again: false }), Err(22));
    assert_eq!(change(HomeChange::Rename { from: path("d"), to: path("e"), again: false }), Ok(()));
    assert_eq!(change(HomeChange::Rename { from: path("d"), to: path("e"), again: true }), Ok(()));
    assert_eq!(change(HomeChange::Rename { from: path("d"), to: path("e"), again: false }), Err(2));
    assert_eq!(change(HomeChange::Link { from: path("e/f"), to: path("g") }), Ok(()));
    assert_eq!(home.stat(&path("g")).unwrap().attr.nlink, 2);
    assert_eq!(home.stat(&path("e")).unwrap().attr.kind, Kind::Directory);
}
