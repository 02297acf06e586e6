//! The side of the commands.

use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::files::{FileAction, FileAnswer, FileAsk, Measure};
use super::{Answer, Ask, Command, Ended, FailureView, VERSION, read_line, with_socket_path, write_line};
use crate::console::Meter;
use crate::error::Error;
use crate::view::InstanceView;

/// How long a living instance may be silent: while it drains it tells its progress, five times a second.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// How long `status` waits.
const STATUS_WITHIN: Duration = Duration::from_secs(5);

/// A connection to an instance.
pub(crate) struct Control {
    stream: UnixStream,
}

impl Control {
    /// Connects to the instance of `buffer`.
    pub(crate) fn connect(buffer: &Path) -> io::Result<Control> {
        Ok(Control { stream: with_socket_path(buffer, |path| UnixStream::connect(path))? })
    }

    fn ask(&mut self, command: Command, within: Duration) -> io::Result<BufReader<UnixStream>> {
        self.stream.set_read_timeout(Some(within))?;
        self.stream.set_write_timeout(Some(within))?;
        write_line(&mut self.stream, &Ask { version: VERSION, command })?;
        Ok(BufReader::new(self.stream.try_clone()?))
    }

    /// Its state.
    pub(crate) fn status(mut self) -> Result<InstanceView, Error> {
        let mut answers = self.ask(Command::Status, STATUS_WITHIN).map_err(lost)?;
        match read_line(&mut answers).map_err(lost)? {
            Some(Answer::Status(view)) => Ok(*view),
            Some(Answer::Refused { reason }) => Err(Error::Unavailable(reason)),
            _ => Err(lost(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Begins a conversation about single files.
    pub(crate) fn files(mut self) -> Result<Files, Error> {
        let answers = self.ask(Command::Files, ANSWER_WITHIN).map_err(lost)?;
        Ok(Files { stream: self.stream, answers })
    }

    /// Has it drain, or stop, and shows how far it is.
    pub(crate) fn follow(mut self, command: Command, mut meter: Meter) -> Result<Ended, Error> {
        let mut answers = self.ask(command, ANSWER_WITHIN).map_err(lost)?;
        loop {
            match read_line(&mut answers).map_err(lost)? {
                Some(Answer::Progress(progress)) => meter.show(progress),
                Some(Answer::Ended(ended)) => {
                    meter.finish();
                    return Ok(ended);
                }
                Some(Answer::Refused { reason }) => return Err(Error::Unavailable(reason)),
                Some(Answer::Status(_)) | None => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
            }
        }
    }
}

/// A conversation about single files.
pub(crate) struct Files {
    stream: UnixStream,
    answers: BufReader<UnixStream>,
}

/// What an instance of another version says to a question that it does not know.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Line {
    Known(FileAnswer),
    Other(Answer),
}

impl Files {
    /// Asks about a path; `each` is given every line but the last.
    pub(crate) fn ask(
        &mut self,
        path: &[u8],
        action: FileAction,
        mut each: impl FnMut(FileAnswer),
    ) -> Result<Result<Measure, FailureView>, Error> {
        write_line(&mut self.stream, &FileAsk { path: path.to_vec(), action }).map_err(lost)?;
        loop {
            match read_line(&mut self.answers).map_err(lost)? {
                Some(Line::Known(FileAnswer::Done(measure))) => return Ok(Ok(measure)),
                Some(Line::Known(FileAnswer::Failed(failure))) => return Ok(Err(failure)),
                Some(Line::Known(answer)) => each(answer),
                Some(Line::Other(Answer::Refused { reason })) => return Err(Error::Unavailable(reason)),
                Some(Line::Other(_)) | None => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
            }
        }
    }
}

/// The instance went away in the middle of an answer.
fn lost(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            Error::Unavailable("the instance does not answer; see what it does with `forebay status`".into())
        }
        _ => Error::Unavailable(format!("the instance went away before it had answered ({error}); see what it left with `forebay status`")),
    }
}
