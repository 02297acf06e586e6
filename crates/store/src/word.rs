//! Words that a buffer leaves at home when its own disk takes none: how far home is ahead of what a recovery would find in the buffer.

use forebay_core::effect::HomeChange;
use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Ino};

use crate::Home;

/// No file of an instance has this number.
const WORD: Ino = Ino(u64::MAX);

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

    fn path(self, instance: &[u8; 16]) -> HomePath {
        HomePath(self.file_name(instance).into_bytes().into())
    }

    /// Leaves the word at home, durably.
    ///
    /// # Errors
    /// What home says.
    pub fn leave(self, home: &dyn Home, instance: &[u8; 16]) -> Result<(), Errno> {
        let path = self.path(instance);
        home.change(&HomeChange::MakeFile { path: path.clone() })?;
        home.write(WORD, &path, 0, self.text().as_bytes())?;
        home.sync(&[(WORD, path)], &[HomePath::default()])
    }

    /// The word that the buffer has left at home, if any.
    ///
    /// # Errors
    /// What home says.
    pub fn find(home: &dyn Home, instance: &[u8; 16]) -> Result<Option<Word>, Errno> {
        for word in Word::ALL {
            match home.stat(&word.path(instance)) {
                Ok(_) => return Ok(Some(word)),
                Err(Errno::ENOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Takes all words of the buffer away.
    ///
    /// # Errors
    /// What home says.
    pub fn take_back(home: &dyn Home, instance: &[u8; 16]) -> Result<(), Errno> {
        Word::ALL.into_iter().try_for_each(|word| home.change(&HomeChange::Unlink { path: word.path(instance) }).map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PosixHome;

    #[test]
    fn a_word_is_found_until_it_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let home = PosixHome::open(folder.path()).unwrap();
        let (ours, theirs) = ([7; 16], [8; 16]);
        for word in Word::ALL {
            assert_eq!(Word::find(&home, &ours).unwrap(), None);
            word.leave(&home, &ours).unwrap();
            word.leave(&home, &ours).unwrap();
            assert_eq!(Word::find(&home, &ours).unwrap(), Some(word));
            assert_eq!(Word::find(&home, &theirs).unwrap(), None);
            Word::take_back(&home, &ours).unwrap();
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
