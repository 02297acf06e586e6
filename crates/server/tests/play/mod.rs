//! What the tests of the I/O server have in common: directories, and a model of one.

#![allow(dead_code)] // Each test uses a part of it.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_core::hybrid::ServerPolicy;
use forebay_core::id::{HomePath, Ino};
use forebay_server::{IoNode, IoNodeOptions};
use forebay_store::Home;

pub const MIB: u64 = 1 << 20;

pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

pub fn seeds(seeds: std::ops::Range<u64>) -> Vec<u64> {
    match std::env::var("FOREBAY_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => seeds.collect(),
    }
}

pub fn path(name: &str) -> HomePath {
    HomePath(name.as_bytes().into())
}

pub fn options(dir: &Path, policy: ServerPolicy) -> IoNodeOptions {
    let home = dir.join("home");
    std::fs::create_dir_all(&home).unwrap();
    IoNodeOptions::new(home, dir.join("ssd"), MIB, policy)
}

pub fn start(dir: &Path, policy: ServerPolicy) -> IoNode {
    IoNode::start(options(dir, policy)).unwrap()
}

/// A directory as it should be: names of files, and the files.
#[derive(Clone, Default)]
pub struct Model {
    pub names: BTreeMap<String, u64>,
    pub files: BTreeMap<u64, Vec<u8>>,
    made: u64,
}

pub const NAMES: [&str; 6] = ["a", "b", "c", "d/a", "d/b", "d/c"];

impl Model {
    pub fn make(&mut self, name: &str) {
        if let Some(id) = self.names.get(name) {
            self.files.insert(*id, Vec::new());
            return;
        }
        self.made += 1;
        self.names.insert(name.to_owned(), self.made);
        self.files.insert(self.made, Vec::new());
    }

    pub fn any(&self, rng: &mut Rng) -> Option<(String, u64)> {
        let at = rng.below(self.names.len().max(1) as u64) as usize;
        self.names.iter().nth(at).map(|(name, id)| (name.clone(), *id))
    }

    pub fn write(&mut self, id: u64, offset: usize, bytes: &[u8]) {
        let file = self.files.get_mut(&id).unwrap();
        file.resize(file.len().max(offset + bytes.len()), 0);
        file[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    pub fn check_file(&self, node: &IoNode, root: &str, name: &str, what: &str) {
        let file = &self.files[&self.names[name]];
        let path = path(&format!("{root}/{name}"));
        assert_eq!(node.stat(&path).unwrap().attr.size, file.len() as u64, "{what}: size of {name}");
        let mut bytes = vec![1; file.len() + 10];
        assert_eq!(node.read(Ino(9), &path, 0, &mut bytes).unwrap() as usize, file.len(), "{what}: {name}");
        let different = (0..file.len()).find(|at| bytes[*at] != file[*at]);
        assert_eq!(different, None, "{what}: {name} of {} bytes", file.len());
        assert!(bytes[file.len()..].iter().all(|byte| *byte == 0), "{what}: {name} behind its end");
    }

    /// The directory itself holds what it should.
    pub fn check_home(&self, home: &Path, what: &str) {
        for (name, id) in &self.names {
            let there = std::fs::read(home.join(name)).unwrap();
            let file = &self.files[id];
            assert_eq!(there.len(), file.len(), "{what}: size of {name} at home");
            let different = (0..file.len()).find(|at| there[*at] != file[*at]);
            assert_eq!(different, None, "{what}: {name} at home");
        }
        let count = |dir: &Path| std::fs::read_dir(dir).unwrap().count();
        // "d" itself is one of them.
        assert_eq!(count(home) + count(&home.join("d")), self.names.len() + 1, "{what}");
    }
}
