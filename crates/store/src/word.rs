//! Words that a buffer leaves at home when its own disk takes none: how far home is ahead of what a recovery would find in the buffer.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Mode, OFlags};

/// What a buffer has left to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// Everything that it held is home: there is nothing to be recovered.
    Finished,
    /// Home was brought further than its journal may know: a recovery could undo changes there.
    Ahead,
}

impl Word {
    const ALL: [Word; 2] = [Word::Finished, Word::Ahead];

    /// The file's name at the root of home, for the buffer that has this number.
    pub fn file_name(self, instance: &[u8; 16]) -> String {
        let what = match self {
            Word::Finished => "finished",
            Word::Ahead => "ahead",
        };
        format!(".forebay-{what}-{:032x}", u128::from_be_bytes(*instance))
    }

    fn text(self) -> &'static str {
        match self {
            Word::Finished => "Everything in this buffer of Forebay was brought here, but the buffer's disk could not note it.\n",
            Word::Ahead => "Not everything in this buffer of Forebay was brought here, and the buffer's disk could not note what was.\n",
        }
    }

    /// Leaves the word at home, durably.
    ///
    /// # Errors
    /// What home's file system says.
    pub fn leave(self, home: BorrowedFd<'_>, instance: &[u8; 16]) -> io::Result<()> {
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(home, self.file_name(instance), flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(self.text().as_bytes())?;
        file.sync_all()?;
        Ok(rustix::fs::fsync(home)?)
    }

    /// The word that the buffer has left at home, if any.
    ///
    /// # Errors
    /// What home's file system says.
    pub fn find(home: BorrowedFd<'_>, instance: &[u8; 16]) -> io::Result<Option<Word>> {
        for word in Word::ALL {
            match rustix::fs::statat(home, word.file_name(instance), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => return Ok(Some(word)),
                Err(rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Takes all words of the buffer away.
    ///
    /// # Errors
    /// What home's file system says.
    pub fn take_back(home: BorrowedFd<'_>, instance: &[u8; 16]) -> io::Result<()> {
        for word in Word::ALL {
            match rustix::fs::unlinkat(home, word.file_name(instance), AtFlags::empty()) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_word_is_found_until_it_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let home = File::open(folder.path()).unwrap();
        let (ours, theirs) = ([7; 16], [8; 16]);
        for word in Word::ALL {
            assert_eq!(Word::find(home.as_fd(), &ours).unwrap(), None);
            word.leave(home.as_fd(), &ours).unwrap();
            word.leave(home.as_fd(), &ours).unwrap();
            assert_eq!(Word::find(home.as_fd(), &ours).unwrap(), Some(word));
            assert_eq!(Word::find(home.as_fd(), &theirs).unwrap(), None);
            Word::take_back(home.as_fd(), &ours).unwrap();
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
