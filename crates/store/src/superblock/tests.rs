use super::*;
use crate::random::SplitMix;

fn superblock() -> Superblock {
    let config = NodeConfig { seed: 77, ..NodeConfig::default() };
    Superblock {
        instance: [3; 16],
        geometry: Geometry::of(&config),
        backing: std::ffi::OsString::from_vec(b"/slow/not \xff utf-8".to_vec()).into(),
        memory_path: "/dev/shm/forebay-0-00".into(),
        memory_id: [9; 16],
        boot_id: "5d0a".to_owned(),
        made_directory: true,
        config,
    }
}

fn read_bytes(bytes: &[u8]) -> Result<Superblock, SuperblockError> {
    decode(bytes, Path::new("/buffer/superblock"))
}

#[test]
fn is_read_back_as_written_and_replaced_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("superblock");
    superblock().write(&path).unwrap();
    assert_eq!(Superblock::read(&path).unwrap(), superblock());
    let changed = Superblock { memory_id: [4; 16], ..superblock() };
    changed.write(&path).unwrap();
    assert_eq!(Superblock::read(&path).unwrap(), changed);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
}

#[test]
fn each_kind_of_damage_has_its_message() {
    let good = encode(&superblock());
    let message = |bytes: &[u8]| read_bytes(bytes).unwrap_err().to_string();
    assert!(message(b"#!/bin/sh\n").contains("not the superblock"));
    assert!(message(b"").contains("not the superblock"));
    assert!(message(&good[..12]).contains("truncated: it has 12 bytes of 20"));
    assert!(message(&good[..good.len() - 1]).contains("truncated"));
    assert!(message(&[&good[..], b"x"].concat()).contains("damaged"));
    let mut flipped = good.clone();
    flipped[40] ^= 1;
    assert!(message(&flipped).contains("checksum"));

    let mut other = good;
    other[8..12].copy_from_slice(&7_u32.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&other[..16]), &other[HEADER_BYTES..]);
    other[16..20].copy_from_slice(&crc.to_le_bytes());
    let text = message(&other);
    assert!(text.contains("version 7") && text.contains(&format!("version {FORMAT_VERSION}")), "{text}");
    assert!(text.contains("/buffer/superblock"));
}

#[test]
fn a_missing_or_odd_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("superblock");
    assert!(matches!(Superblock::read(&path), Err(SuperblockError::Missing(_))));
    std::fs::create_dir(&path).unwrap();
    assert!(matches!(Superblock::read(&path), Err(SuperblockError::Io { .. })));
    std::fs::remove_dir(&path).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    assert!(Superblock::read(&path).is_err());
}

#[test]
fn any_rot_is_a_typed_error() {
    let good = encode(&superblock());
    for seed in 0..2000 {
        let mut random = SplitMix::new(seed);
        let mut bytes = good.clone();
        for _ in 0..=random.below(5) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next() as u8;
        }
        if random.below(3) == 0 {
            bytes.truncate(random.below(bytes.len() as u64) as usize);
        }
        match read_bytes(&bytes) {
            Ok(_) => assert_eq!(bytes, good, "seed {seed}"),
            Err(error) => assert!(!error.to_string().is_empty(), "seed {seed}"),
        }
    }
}
