//! What becomes of a buffer whose disk took no more records: home is, or may be, ahead of what a recovery would find in it.

use std::path::Path;

use forebay_core::errno::Errno;
use forebay_core::message::Status;
use forebay_store::{BufferDir, Home, Superblock, Word};

use crate::console::Console;
use crate::engine::Engine;
use crate::error::{Error, Exit};
use crate::registry::{self, Tag};
use crate::view::{quoted, recover_command};

/// The disk of the buffer took no more records, but everything is home.
pub(crate) fn is_all_home(status: &Status) -> bool {
    is_ahead(status) && status.dirty_bytes == 0 && status.dirty_names == 0
}

fn is_ahead(status: &Status) -> bool {
    status.log_failed.or(status.log_waits).is_some()
}

/// Lets go of a buffer from which everything is home, though it could not note that. It is removed; what cannot be removed must never be
/// recovered, and home is told so.
pub(crate) fn let_go(engine: &Engine, tag: &Tag, console: Console, remove: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    let word = engine.prepare_word();
    let all_home = format!("everything is home in {} and compared there", tag.backing.display());
    let Err(error) = remove() else {
        console.warn(&format!("the buffer's disk took no more at the end, but {all_home}; the buffer is removed"));
        return Ok(());
    };
    let place = tag.buffer.display();
    let left = word.map_or(Err(Errno::ENOENT), |(home, number)| Word::Finished.leave(&*home, &number));
    let next = match left {
        Ok(()) => {
            format!("Remove {place} when its disk is well, or have `{}` do so: it does nothing else to it", recover_command(&tag.buffer))
        }
        Err(errno) => {
            let error = std::io::Error::from_raw_os_error(errno.0);
            format!("Remove {place} when its disk is well, and do NOT recover it: that could undo changes at home ({error})")
        }
    };
    let message = format!("{all_home}, but the buffer's disk took no more, and the buffer cannot be removed ({error}).\n{next}");
    Err(Error::Coded { message, exit: Exit::Internal })
}

/// The same if not everything is home: what is said of that, with a warning if home may be ahead.
pub(crate) fn warn(engine: &Engine, status: &Status, error: Error) -> Error {
    let (Error::Drain(text), true) = (&error, is_ahead(status)) else { return error };
    // Without the word a recovery goes on as after a power loss.
    if let Some((home, number)) = engine.prepare_word() {
        let _ = Word::Ahead.leave(&*home, &number);
    }
    Error::Drain(format!(
        "{text}\nThe buffer's disk took no more records: home may be ahead of it, and what is newer there could be undone. \
         Copy the files in question aside first, then add --force"
    ))
}

/// Looks for what the buffer has left to say before it is recovered. True if it is finished, and gone now.
pub(crate) fn heed(
    buffer: &Path,
    superblock: &Superblock,
    (backing, home): (&Path, &dyn Home),
    force: bool,
    console: Console,
) -> Result<bool, Error> {
    let at_home = |errno: Errno| Error::io(format!("look at {}", backing.display()))(std::io::Error::from_raw_os_error(errno.0));
    match Word::find(home, &superblock.instance).map_err(at_home)? {
        None => Ok(false),
        Some(Word::Ahead) if force => Ok(false),
        Some(Word::Ahead) => Err(Error::Drain(format!(
            "the disk of the buffer {} failed, and {} was brought further than the buffer may know: to recover it could undo changes there. \
             Copy the files in question aside first, then use `{} --force`",
            buffer.display(),
            backing.display(),
            recover_command(buffer)
        ))),
        Some(Word::Finished) => {
            let cannot = |error: String| Error::Buffer { buffer: buffer.into(), reason: format!("it cannot be removed: {error}") };
            let opened = BufferDir::open(buffer, superblock.memory_path.parent()).map_err(|error| cannot(error.to_string()))?;
            opened.remove().map_err(|error| cannot(error.to_string()))?;
            Tag::remove_own_files(buffer);
            registry::forget_buffer(buffer);
            take_back(superblock, (backing, home), console);
            console.say(&format!(
                "everything in the buffer {} had been brought home to {}; it is removed",
                buffer.display(),
                backing.display()
            ));
            Ok(true)
        }
    }
}

/// The buffer is recovered: it has nothing more to say.
pub(crate) fn take_back(superblock: &Superblock, (backing, home): (&Path, &dyn Home), console: Console) {
    if let Err(errno) = Word::take_back(home, &superblock.instance) {
        let error = std::io::Error::from_raw_os_error(errno.0);
        let name = Word::Finished.file_name(&superblock.instance);
        console.warn(&format!("{} cannot be removed: {error}", quoted(&backing.join(name))));
    }
}
