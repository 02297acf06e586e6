//! What a server's home says of itself: which home it is, and which part of what it holds. It stands there as `.forebay`, a name that no
//! mount shows and no file has.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use forebay_host::net::message::{HomeId, Part};
use forebay_host::net::random;
use parking_lot::Mutex;
use rustix::fs::FlockOperation;
use thiserror::Error;

/// Its name at the root of home.
const NAME: &str = ".forebay";
/// Beside it while it is written.
const DRAFT: &str = ".forebay-draft";
/// Names at the root that are not the client's.
pub(super) const OWN_NAMES: [&str; 2] = [NAME, DRAFT];
const FIRST_LINE: &str = "A home of forebay serve; do not change this file.";
const BYTES_MAX: u64 = 4096;

/// Why a directory cannot be served, or not for this client.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PartError {
    /// The file system's error.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// Another process serves it.
    #[error("{} is served by another process", .0.display())]
    Served(PathBuf),
    /// The file is not what this program writes.
    #[error("{}: line {line} cannot be understood; restore the file from a copy, or serve an empty directory", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
    },
    /// It holds another part.
    #[error("{home} holds part {} of {} in stripes of {} bytes, and was asked for as part {} of {} in stripes of {} bytes{}", .there.index, .there.servers, .there.stripe_bytes, .wanted.index, .wanted.servers, .wanted.stripe_bytes, other_first(.there, .wanted))]
    OtherPart {
        /// The home directory.
        home: String,
        /// What it holds.
        there: Part,
        /// What was asked for.
        wanted: Part,
    },
    /// What is there was not written by servers.
    #[error("{0} holds files already; a home that is a part of several has to be empty at first")]
    NotEmpty(String),
}

fn other_first(there: &Part, wanted: &Part) -> &'static str {
    if there.first == wanted.first { "; name the servers in the order of the first time" } else { ", of other servers" }
}

/// A home that is served, by this process alone as long as this lives.
#[derive(Debug)]
pub struct PartFile {
    home: PathBuf,
    id: HomeId,
    part: Mutex<Option<Part>>,
    /// Locked.
    _directory: File,
}

impl PartFile {
    /// Takes the home directory at `home` for this process, and gives it an identity if it has none.
    ///
    /// # Errors
    /// See [`PartError`].
    pub fn open(home: &Path) -> Result<PartFile, PartError> {
        let failed = |error| PartError::Io { path: home.into(), error };
        let directory = File::open(home).map_err(failed)?;
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(PartError::Served(home.into())),
            // A file system without locks: the user keeps order.
            Ok(()) | Err(rustix::io::Errno::NOTSUP | rustix::io::Errno::NOSYS) => {}
            Err(error) => return Err(failed(error.into())),
        }
        let path = home.join(NAME);
        let (id, part) = match File::open(&path) {
            Ok(file) => {
                let mut text = String::new();
                file.take(BYTES_MAX).read_to_string(&mut text).map_err(|error| PartError::Io { path: path.clone(), error })?;
                read(&text).map_err(|line| PartError::Damaged { path, line })?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let id = HomeId(random().map_err(failed)?);
                write(home, id, None)?;
                (id, None)
            }
            Err(error) => return Err(PartError::Io { path, error }),
        };
        Ok(PartFile { home: home.into(), id, part: Mutex::new(part), _directory: directory })
    }

    /// Which home it is.
    pub fn id(&self) -> HomeId {
        self.id
    }

    /// Which part it holds.
    pub fn part(&self) -> Option<Part> {
        *self.part.lock()
    }

    /// Has it hold this part from now on, or says why it cannot.
    ///
    /// # Errors
    /// See [`PartError`].
    pub fn join(&self, wanted: Part) -> Result<(), PartError> {
        let mut part = self.part.lock();
        match &*part {
            // A single server holds whole files, whatever the stripes.
            Some(there) if (there.first, there.servers, wanted.servers) == (wanted.first, 1, 1) => Ok(()),
            Some(there) if *there == wanted => Ok(()),
            Some(there) => Err(PartError::OtherPart { home: self.home.display().to_string(), there: *there, wanted }),
            None => {
                if wanted.servers > 1 && self.holds_files()? {
                    return Err(PartError::NotEmpty(self.home.display().to_string()));
                }
                write(&self.home, self.id, Some(&wanted))?;
                *part = Some(wanted);
                Ok(())
            }
        }
    }

    fn holds_files(&self) -> Result<bool, PartError> {
        let failed = |error| PartError::Io { path: self.home.clone(), error };
        for entry in std::fs::read_dir(&self.home).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if name != NAME && name != DRAFT && name != "lost+found" {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What the file's text says; else the line that does not.
fn read(text: &str) -> Result<(HomeId, Option<Part>), usize> {
    let mut lines = text.lines();
    if lines.next() != Some(FIRST_LINE) {
        return Err(1);
    }
    let hex = |text: &str| text.parse::<HomeId>().ok();
    let id = lines.next().and_then(|line| line.strip_prefix("home ")).and_then(hex).ok_or(2usize)?;
    let Some(line) = lines.next() else { return Ok((id, None)) };
    let words: Vec<&str> = line.split(' ').collect();
    let ["part", index, "of", servers, "stripe", stripe, "first", first] = words[..] else { return Err(3) };
    let part = || {
        let (index, servers, stripe_bytes) = (index.parse().ok()?, servers.parse().ok()?, stripe.parse().ok()?);
        let part = Part { first: hex(first)?, index, servers, stripe_bytes };
        (part.index < part.servers && part.stripe_bytes > 0).then_some(part)
    };
    part().map(|part| (id, Some(part))).ok_or(3)
}

fn text(id: HomeId, part: Option<&Part>) -> String {
    let mut text = format!("{FIRST_LINE}\nhome {id}\n");
    if let Some(Part { first, index, servers, stripe_bytes }) = part {
        text.push_str(&format!("part {index} of {servers} stripe {stripe_bytes} first {first}\n"));
    }
    text
}

/// Replaces the file, durably.
fn write(home: &Path, id: HomeId, part: Option<&Part>) -> Result<(), PartError> {
    let (draft, path) = (home.join(DRAFT), home.join(NAME));
    let failed = |error| PartError::Io { path: path.clone(), error };
    let mut file = File::create(&draft).map_err(failed)?;
    file.write_all(text(id, part).as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::rename(&draft, &path).map_err(failed)?;
    File::open(home).and_then(|home| home.sync_all()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: Part = Part { first: HomeId([77; 16]), index: 1, servers: 3, stripe_bytes: 65_536 };

    #[test]
    fn what_is_written_is_read() {
        for part in [None, Some(PART)] {
            assert_eq!(read(&text(HomeId([5; 16]), part.as_ref())), Ok((HomeId([5; 16]), part)));
        }
        assert_eq!(read("something else"), Err(1));
        assert_eq!(read(&format!("{FIRST_LINE}\nhome x\n")), Err(2));
        assert_eq!(read(&format!("{FIRST_LINE}\nhome 5\npart 3 of 3 stripe 1 first 5\n")), Err(3));
    }

    #[test]
    fn a_home_is_one_part_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let file = PartFile::open(folder.path()).unwrap();
        let id = file.id();
        assert_eq!(file.part(), None);
        file.join(PART).unwrap();
        file.join(PART).unwrap();
        assert!(matches!(PartFile::open(folder.path()), Err(PartError::Served(_))));
        drop(file);
        let file = PartFile::open(folder.path()).unwrap();
        assert_eq!((file.id(), file.part()), (id, Some(PART)));
        for other in [Part { index: 0, ..PART }, Part { stripe_bytes: 1, ..PART }, Part { first: HomeId([78; 16]), ..PART }] {
            let error = file.join(other).unwrap_err();
            assert!(error.to_string().contains("holds part 1 of 3 in stripes of 65536 bytes"), "{error}");
        }
    }

    #[test]
    fn files_that_were_there_can_be_whole_but_no_parts() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("old"), "old").unwrap();
        let file = PartFile::open(folder.path()).unwrap();
        assert!(matches!(file.join(PART), Err(PartError::NotEmpty(_))));
        file.join(Part { index: 0, servers: 1, ..PART }).unwrap();
        file.join(Part { index: 0, servers: 1, stripe_bytes: 7, ..PART }).unwrap();
        assert!(file.join(PART).is_err());
    }
}
