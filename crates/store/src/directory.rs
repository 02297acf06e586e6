//! The directory in which journals stand, so that tests can lose its power too.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::OFlags;

use crate::device::{Device, Fault, FaultyDevice, FileDevice};
use crate::random::SplitMix;

/// Named devices.
pub trait Directory: Send + Sync {
    /// Makes an empty device; fails with `AlreadyExists` if there is one of that name.
    fn create(&self, name: &str) -> io::Result<Arc<dyn Device>>;
    /// Opens an existing device.
    fn open(&self, name: &str) -> io::Result<Arc<dyn Device>>;
    /// Removes a device; one that is open stays usable.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// The names, in order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes creations and removals durable.
    fn sync(&self) -> io::Result<()>;
    /// What to call a device in a message to the user.
    fn describe(&self, name: &str) -> String;
}

/// A directory of the file system.
pub struct FileDirectory {
    path: PathBuf,
}

impl FileDirectory {
    /// The directory at `path`.
    pub fn new(path: &Path) -> FileDirectory {
        FileDirectory { path: path.to_owned() }
    }
}

impl Directory for FileDirectory {
    fn create(&self, name: &str) -> io::Result<Arc<dyn Device>> {
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600).custom_flags(flags.bits().cast_signed());
        Ok(Arc::new(FileDevice::buffered(options.open(self.path.join(name))?)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn Device>> {
        Ok(Arc::new(FileDevice::open(&self.path.join(name))?))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            // A name that is not UTF-8 is none of ours.
            names.extend(entry?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn describe(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}

/// A directory of [`FaultyDevice`]s that loses power with them. Clones share the devices.
#[derive(Clone, Default)]
pub struct FaultyDirectory {
    state: Arc<Mutex<FaultyState>>,
}

#[derive(Default)]
struct FaultyState {
    durable: BTreeMap<String, FaultyDevice>,
    current: BTreeMap<String, FaultyDevice>,
    /// Creations (with the device) and removals since the last sync.
    unsynced: Vec<(String, Option<FaultyDevice>)>,
    /// What goes wrong with the first operation on the next device that is made.
    next_fault: Option<Fault>,
}

impl FaultyDirectory {
    /// An empty directory.
    pub fn new() -> FaultyDirectory {
        FaultyDirectory::default()
    }

    /// The device of a name.
    pub fn device(&self, name: &str) -> Option<FaultyDevice> {
        self.state.lock().current.get(name).cloned()
    }

    /// The first operation on the next device that is made goes wrong.
    pub fn fail_next_create(&self, fault: Fault) {
        self.state.lock().next_fault = Some(fault);
    }

    /// Takes the power away from the directory and every device in it: of the unsynced creations and removals any subset stays.
    pub fn power_loss(&self, seed: u64) {
        let mut random = SplitMix::new(seed);
        let mut state = self.state.lock();
        for (name, device) in std::mem::take(&mut state.unsynced) {
            if random.below(2) == 0 {
                continue;
            }
            match device {
                Some(device) => state.durable.insert(name, device),
                None => state.durable.remove(&name),
            };
        }
        for device in state.durable.values() {
            device.power_loss(random.next());
        }
        state.current = state.durable.clone();
    }
}

impl Directory for FaultyDirectory {
    fn create(&self, name: &str) -> io::Result<Arc<dyn Device>> {
        let mut state = self.state.lock();
        if state.current.contains_key(name) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        let device = FaultyDevice::new();
        if let Some(fault) = state.next_fault.take() {
            device.fail_at(0, fault);
        }
        state.current.insert(name.to_owned(), device.clone());
        state.unsynced.push((name.to_owned(), Some(device.clone())));
        Ok(Arc::new(device))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn Device>> {
        let device = self.device(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(device))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.current.remove(name).ok_or(io::ErrorKind::NotFound)?;
        state.unsynced.push((name.to_owned(), None));
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.state.lock().current.keys().cloned().collect())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.durable = state.current.clone();
        state.unsynced.clear();
        Ok(())
    }

    fn describe(&self, name: &str) -> String {
        format!("(in memory) {name}")
    }
}
