//! Which file is meant: a number for each file of home that stays while its names change.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::sync::Arc;

use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Ino};
use forebay_store::home::{FileIdentity, OpenedFile};
use forebay_store::{FileRecord, PosixHome};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

type Result<T> = std::result::Result<T, Errno>;

/// Open files that are kept for their next use.
const OPEN_FILES_MAX: usize = 512;
/// Files that are known; beyond, those that nobody needs are forgotten.
const KNOWN_FILES_MAX: usize = 1 << 16;
/// As far as anybody knows, files stand on the disk one behind the other with so much room for each, bytes.
const PLACE_STEP_BITS: u32 = 32;

/// A file of home.
pub(super) struct KnownFile {
    /// Its number, in the machine and on the SSD.
    pub(super) id: Ino,
    /// Which file it is.
    pub(super) identity: FileIdentity,
    inner: Mutex<Inner>,
    /// Held while its times and mode are put back after a flush, and while somebody sets them.
    pub(super) attributes: Mutex<()>,
}

struct Inner {
    /// One of its names, as far as is known.
    path: HomePath,
    open: Option<Arc<File>>,
    is_gone: bool,
}

impl KnownFile {
    fn new(id: Ino, identity: FileIdentity, path: HomePath, open: Option<Arc<File>>) -> KnownFile {
        KnownFile { id, identity, inner: Mutex::new(Inner { path, open, is_gone: false }), attributes: Mutex::new(()) }
    }

    /// Where a byte stands on the disk, as far as the server knows.
    pub(super) fn place(&self, offset: u64) -> u64 {
        (self.id.0 << PLACE_STEP_BITS).wrapping_add(offset)
    }

    /// It has no name any more.
    pub(super) fn is_gone(&self) -> bool {
        self.inner.lock().is_gone
    }

    /// What the SSD's maps say of it.
    pub(super) fn record(&self) -> FileRecord {
        FileRecord { file: self.id, identity: self.identity, path: self.path() }
    }

    /// One of its names, as far as is known.
    pub(super) fn path(&self) -> HomePath {
        self.inner.lock().path.clone()
    }

    /// Makes the file at least so long.
    pub(super) fn extend(&self, file: &File, size: u64) -> Result<()> {
        // Two that ask at the same time must not shorten it.
        let _alone = self.inner.lock();
        let there = file.metadata().map_err(|error| forebay_store::errno(&error))?.len();
        if there < size { file.set_len(size).map_err(|error| forebay_store::errno(&error)) } else { Ok(()) }
    }

    /// Cuts it off, or makes it longer.
    pub(super) fn set_len(&self, file: &File, size: u64) -> Result<()> {
        let _alone = self.inner.lock();
        file.set_len(size).map_err(|error| forebay_store::errno(&error))
    }
}

#[derive(Default)]
struct Table {
    by_path: BTreeMap<Box<[u8]>, Ino>,
    by_identity: HashMap<FileIdentity, Ino>,
    files: HashMap<Ino, Arc<KnownFile>>,
    last: u64,
    /// Files that are open, the oldest first.
    opened: VecDeque<Ino>,
    /// From this many on, it is looked for files to forget.
    prune_at: usize,
}

/// Every file that was asked for, or has bytes on the SSD.
pub(super) struct Files {
    home: Arc<PosixHome>,
    table: Mutex<Table>,
    /// Held for writing while a name changes: nobody must remember a name of before.
    names: RwLock<()>,
}

impl Files {
    pub(super) fn new(home: Arc<PosixHome>) -> Files {
        let table = Table { prune_at: KNOWN_FILES_MAX, ..Table::default() };
        Files { home, table: Mutex::new(table), names: RwLock::new(()) }
    }

    /// Takes up a file that was found on the SSD; `path` is where it stands, `None` if it is gone.
    pub(super) fn restore(&self, record: &FileRecord, path: Option<&HomePath>) {
        let mut table = self.table.lock();
        let known = KnownFile::new(record.file, record.identity, path.unwrap_or(&record.path).clone(), None);
        known.inner.lock().is_gone = path.is_none();
        if let Some(path) = path {
            table.by_path.insert(path.as_bytes().into(), record.file);
            table.by_identity.insert(record.identity, record.file);
        }
        table.files.insert(record.file, Arc::new(known));
        table.last = table.last.max(record.file.0);
    }

    /// For who changes names. Nothing that waits for the machine may be done meanwhile.
    pub(super) fn change_names(&self) -> RwLockWriteGuard<'_, ()> {
        self.names.write()
    }

    /// The regular file of this name. `needed` says of which files something is on the SSD.
    pub(super) fn at(&self, path: &HomePath, needed: impl Fn(Ino) -> bool) -> Result<Arc<KnownFile>> {
        if let Some(file) = self.known_at(path) {
            return Ok(file);
        }
        let names = self.names.read();
        self.open_at(&names, path, needed)
    }

    fn known_at(&self, path: &HomePath) -> Option<Arc<KnownFile>> {
        let table = self.table.lock();
        table.files.get(table.by_path.get(path.as_bytes())?).cloned()
    }

    fn open_at(&self, _names: &RwLockReadGuard<'_, ()>, path: &HomePath, needed: impl Fn(Ino) -> bool) -> Result<Arc<KnownFile>> {
        let OpenedFile { file, identity, .. } = self.home.open_identified(path)?;
        let mut table = self.table.lock();
        let id = match table.by_identity.get(&identity) {
            Some(id) => *id,
            None => {
                if table.files.len() >= table.prune_at {
                    table.prune(needed);
                }
                table.last += 1;
                let id = Ino(table.last);
                table.by_identity.insert(identity, id);
                let known = KnownFile::new(id, identity, path.clone(), Some(Arc::new(file)));
                table.files.insert(id, Arc::new(known));
                table.on_opened(id);
                id
            }
        };
        table.by_path.insert(path.as_bytes().into(), id);
        table.files.get(&id).cloned().ok_or(Errno::ESTALE)
    }

    /// The file with this number.
    pub(super) fn get(&self, id: Ino) -> Option<Arc<KnownFile>> {
        self.table.lock().files.get(&id).cloned()
    }

    /// The file with this identity, if it is known.
    pub(super) fn identified(&self, identity: FileIdentity) -> Option<Arc<KnownFile>> {
        let table = self.table.lock();
        table.files.get(table.by_identity.get(&identity)?).cloned()
    }

    /// The open file itself; looked for under all names of home if need be. `ESTALE` if it has none any more.
    pub(super) fn open(&self, known: &KnownFile) -> Result<Arc<File>> {
        let path = {
            let inner = known.inner.lock();
            if inner.is_gone {
                return Err(Errno::ESTALE);
            }
            if let Some(file) = &inner.open {
                return Ok(Arc::clone(file));
            }
            inner.path.clone()
        };
        let _names = self.names.read();
        let mut opened = self.home.open_identified(&path).ok().filter(|opened| opened.identity == known.identity);
        if opened.is_none() {
            let path = self.find(&[known.identity])?.remove(&known.identity).ok_or(Errno::ESTALE)?;
            opened = self.home.open_identified(&path).ok().filter(|opened| opened.identity == known.identity);
            known.inner.lock().path = path;
        }
        let file = Arc::new(opened.ok_or(Errno::ESTALE)?.file);
        known.inner.lock().open = Some(Arc::clone(&file));
        self.table.lock().on_opened(known.id);
        Ok(file)
    }

    /// Looks for files under all names of home.
    pub(super) fn find(&self, wanted: &[FileIdentity]) -> Result<HashMap<FileIdentity, HomePath>> {
        let mut found = HashMap::new();
        self.home.walk_files(&mut |path, identity| {
            if wanted.contains(&identity) {
                found.insert(identity, path.clone());
            }
        })?;
        Ok(found)
    }

    /// A name, and all below it, means something else from now on.
    pub(super) fn forget_names(&self, path: &HomePath) {
        self.table.lock().take_names(path);
    }

    /// A name, and all below it, is another one from now on.
    pub(super) fn move_names(&self, from: &HomePath, to: &HomePath) {
        let mut table = self.table.lock();
        table.take_names(to);
        for (path, id) in table.take_names(from) {
            let mut moved = to.as_bytes().to_vec();
            moved.extend_from_slice(&path[from.as_bytes().len()..]);
            if let Some(file) = table.files.get(&id) {
                file.inner.lock().path = HomePath(moved.as_slice().into());
            }
            table.by_path.insert(moved.into(), id);
        }
    }

    /// The file has lost its last name.
    pub(super) fn gone(&self, known: &KnownFile) {
        let mut inner = known.inner.lock();
        inner.is_gone = true;
        inner.open = None;
        drop(inner);
        self.table.lock().by_identity.remove(&known.identity);
    }
}

impl Table {
    fn on_opened(&mut self, id: Ino) {
        self.opened.push_back(id);
        if self.opened.len() > OPEN_FILES_MAX
            && let Some(oldest) = self.opened.pop_front()
            && let Some(file) = self.files.get(&oldest)
        {
            file.inner.lock().open = None;
        }
    }

    /// Takes out a path and what is below it.
    fn take_names(&mut self, path: &HomePath) -> Vec<(Box<[u8]>, Ino)> {
        let path = path.as_bytes();
        let mut below = path.to_vec();
        below.push(b'/');
        let is_below = |name: &[u8]| name.starts_with(&below);
        let from_below = self.by_path.range::<[u8], _>((std::ops::Bound::Included(&*below), std::ops::Bound::Unbounded));
        let mut names: Vec<Box<[u8]>> = from_below.map(|(name, _)| name).take_while(|name| is_below(name)).cloned().collect();
        names.push(path.into());
        names.into_iter().filter_map(|name| self.by_path.remove(&name).map(|id| (name, id))).collect()
    }

    /// Forgets the files that nobody is at and that have nothing on the SSD.
    fn prune(&mut self, needed: impl Fn(Ino) -> bool) {
        self.files.retain(|id, file| Arc::strong_count(file) > 1 || needed(*id));
        let Table { by_path, by_identity, files, .. } = self;
        by_path.retain(|_, id| files.contains_key(id));
        by_identity.retain(|_, id| files.contains_key(id));
        self.opened.retain(|id| files.contains_key(id));
        self.prune_at = (2 * self.files.len()).max(KNOWN_FILES_MAX);
    }
}
