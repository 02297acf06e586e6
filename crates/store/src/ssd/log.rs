//! The SSD of an I/O server: its log, and the maps that say what stands in it.
//!
//! Each filling of a region has a map of its own, which is removed when all of the filling is home. So nothing has to be rewritten, and
//! what a recovery reads is what it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_core::hybrid::{Entry, Layout, Note};
use forebay_core::id::{HomePath, Ino};
use parking_lot::Mutex;

use super::format::{FRAMES_AT, Header, Record};
use crate::device::Device;
use crate::directory::Directory;
use crate::home::FileIdentity;

const MAP_PREFIX: &str = "map-";

/// The name of the map of a filling.
pub(super) fn map_name(generation: u64) -> String {
    format!("{MAP_PREFIX}{generation:016x}")
}

/// Whether this is the name of a map.
pub(super) fn is_map_name(name: &str) -> bool {
    name.strip_prefix(MAP_PREFIX).is_some_and(|rest| rest.len() == 16 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// What the maps know of a file whose bytes stand in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileRecord {
    /// Its number in entries.
    pub file: Ino,
    /// Which file it is.
    pub identity: FileIdentity,
    /// One of its names.
    pub path: HomePath,
}

pub(super) struct Map {
    pub(super) device: Arc<dyn Device>,
    pub(super) header: Header,
    /// The next frame goes here.
    pub(super) tail: u64,
    /// Up to here it is durable.
    pub(super) synced: u64,
    /// Files that it has a record of.
    pub(super) files: BTreeSet<Ino>,
    /// A sync has failed: what was written may have left the page cache without having reached the medium.
    pub(super) in_doubt: bool,
}

impl Map {
    pub(super) fn append(&mut self, records: &[Record]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for record in records {
            self.header.frame(self.tail + bytes.len() as u64, record, &mut bytes);
        }
        // After an error the next frames take the same place.
        self.device.write_at(self.tail, &bytes)?;
        self.tail += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.synced == self.tail && !self.in_doubt {
            return Ok(());
        }
        if self.in_doubt {
            let mut bytes = vec![0; usize::try_from(self.tail).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?];
            self.device.read_at(0, &mut bytes)?;
            self.device.write_at(0, &bytes)?;
        }
        let result = self.device.sync();
        self.in_doubt = result.is_err();
        result?;
        self.synced = self.tail;
        Ok(())
    }
}

pub(super) struct Maps {
    /// By filling.
    pub(super) maps: BTreeMap<u64, Map>,
    /// Maps were made that the directory on the medium may not know.
    pub(super) is_directory_dirty: bool,
}

/// The log of an SSD and its maps. All methods can be called at the same time.
pub struct SsdLog {
    pub(super) instance: [u8; 16],
    pub(super) directory: Arc<dyn Directory>,
    pub(super) data: Arc<dyn Device>,
    pub(super) maps: Mutex<Maps>,
    /// A sync of the log has failed, after which the page cache may have forgotten what it should have written.
    pub(super) is_data_lost: AtomicBool,
}

impl SsdLog {
    /// Writes bytes to their place, then their entry: a crash leaves both, or no entry. `file` says of which file they are.
    ///
    /// # Errors
    /// The devices'; then there is no entry.
    pub fn append(&self, entry: &Entry, layout: Layout, bytes: &[u8], file: impl FnOnce() -> FileRecord) -> io::Result<()> {
        self.data.write_at(entry.at, bytes)?;
        let crc = crc32c::crc32c(bytes);
        let mut maps = self.maps.lock();
        let map = self.map_of(&mut maps, entry.generation.0, layout)?;
        let mut records = Vec::with_capacity(2);
        let is_known = map.files.contains(&entry.range.file);
        if !is_known {
            let FileRecord { file, identity, path } = file();
            records.push(Record::File { file: file.0, identity, path: path.as_bytes().to_vec() });
        }
        let Entry { range, lsn, at, .. } = entry;
        records.push(Record::Entry { file: range.file.0, offset: range.offset, len: range.len, lsn: lsn.0, at: *at, crc });
        map.append(&records)?;
        map.files.insert(range.file);
        Ok(())
    }

    fn map_of<'a>(&self, maps: &'a mut Maps, generation: u64, layout: Layout) -> io::Result<&'a mut Map> {
        if !maps.maps.contains_key(&generation) {
            let name = map_name(generation);
            let device = match self.directory.create(&name) {
                // What a failed creation has left behind.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.directory.remove(&name)?;
                    self.directory.create(&name)?
                }
                device => device?,
            };
            let header = Header { instance: self.instance, generation, layout };
            device.write_at(0, &header.encode())?;
            let map = Map { device, header, tail: FRAMES_AT, synced: 0, files: BTreeSet::new(), in_doubt: false };
            maps.is_directory_dirty = true;
            maps.maps.insert(generation, map);
        }
        maps.maps.get_mut(&generation).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Reads bytes of the log.
    ///
    /// # Errors
    /// The device's.
    pub fn read(&self, at: u64, buf: &mut [u8]) -> io::Result<()> {
        self.data.read_at(at, buf)
    }

    /// Writes a note, durably.
    ///
    /// # Errors
    /// The devices'; then the note may be there or not.
    pub fn note(&self, note: &Note) -> io::Result<()> {
        match note {
            Note::Superseded { range, lsn } => {
                let record = Record::Superseded { file: range.file.0, offset: range.offset, len: range.len, lsn: lsn.0 };
                self.append_durably(&record)
            }
            Note::Emptied(generation) => {
                let mut maps = self.maps.lock();
                let done: Vec<u64> = maps.maps.range(..=generation.0).map(|(number, _)| *number).collect();
                for number in done {
                    match self.directory.remove(&map_name(number)) {
                        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                        _ => {}
                    }
                    // Before the sync: a map that may be gone takes no more records.
                    maps.maps.remove(&number);
                }
                self.directory.sync()
            }
        }
    }

    /// The last name of a file is about to be removed (`is_gone` is false), or was: durably.
    ///
    /// # Errors
    /// The devices'.
    pub fn note_removal(&self, file: Ino, is_gone: bool) -> io::Result<()> {
        self.append_durably(&if is_gone { Record::Gone { file: file.0 } } else { Record::Going { file: file.0 } })
    }

    /// What concerns entries goes into the newest map, which is removed after all the others.
    fn append_durably(&self, record: &Record) -> io::Result<()> {
        let mut maps = self.maps.lock();
        // Without a map there is no entry that it could concern.
        let Some(mut newest) = maps.maps.last_entry() else { return Ok(()) };
        newest.get_mut().append(std::slice::from_ref(record))?;
        newest.get_mut().sync()?;
        self.sync_directory(&mut maps)
    }

    fn sync_directory(&self, maps: &mut Maps) -> io::Result<()> {
        if maps.is_directory_dirty {
            self.directory.sync()?;
            maps.is_directory_dirty = false;
        }
        Ok(())
    }

    /// Whether a map has a record of the file: some of its bytes may stand in the log.
    pub fn knows(&self, file: Ino) -> bool {
        self.maps.lock().maps.values().any(|map| map.files.contains(&file))
    }

    /// Makes every completed append durable. `named` are files whose names are durable at home.
    ///
    /// # Errors
    /// The devices'. What the page cache may have forgotten after a failed sync of the log stays an error for good.
    pub fn sync(&self, named: &[Ino]) -> io::Result<()> {
        let tails: Vec<(u64, u64)> = self.maps.lock().maps.iter().map(|(number, map)| (*number, map.tail)).collect();
        if tails.is_empty() {
            return Ok(());
        }
        if self.is_data_lost.load(Ordering::Acquire) {
            return Err(io::Error::other("an earlier sync of the SSD's log has failed"));
        }
        if let Err(error) = self.data.sync() {
            self.is_data_lost.store(!self.data.bypasses_cache(), Ordering::Release);
            return Err(error);
        }
        let mut maps = self.maps.lock();
        for (number, upto) in tails {
            let Some(map) = maps.maps.get_mut(&number) else { continue };
            let mut records: Vec<Record> =
                named.iter().filter(|file| map.files.contains(file)).map(|file| Record::Named { file: file.0 }).collect();
            if map.synced < upto {
                records.push(Record::Synced { upto });
            }
            if !records.is_empty() {
                map.append(&records)?;
            }
            map.sync()?;
        }
        self.sync_directory(&mut maps)
    }
}
