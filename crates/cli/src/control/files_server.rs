//! The instance's side of a conversation about single files.

use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use forebay_core::attr::{Attr, Kind};
use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Ino};
use forebay_core::message::{DrainFailure, DrainStep, Place};

use super::files::{FileAction, FileAnswer, FileAsk, Measure};
use super::{FailureView, PROGRESS_EVERY, read_line, telling, write_line};
use crate::engine::{self, Engine, FileClient};
use crate::registry::Tag;

/// How long the one who asks may be silent: others of his connections may be at work.
const NEXT_ASK_WITHIN: Duration = Duration::from_secs(600);
/// Ranges asked for at a time.
const RANGES_MAX: u32 = 1024;
/// Entries of a directory asked for at a time.
const ENTRIES_MAX: u32 = 256;
/// Read from home at a time, at most, bytes.
const READ_BYTES_MAX: u32 = 1 << 20;
/// How long bytes that were read may take to be kept in the buffer.
const KEPT_WITHIN: Duration = Duration::from_secs(5);
/// Between two tries of what the instance has no place for at the moment.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// An inode that was looked up, with the directories on the way: all are given back at the end.
struct Held<'a> {
    client: &'a FileClient,
    ino: Ino,
    attr: Attr,
    references: Vec<Ino>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for ino in &self.references {
            // There is nobody to tell.
            let _ = self.client.forget(*ino, 1);
        }
    }
}

impl<'a> Held<'a> {
    /// Looks a path up, component by component; symlinks are not followed.
    fn find(client: &'a FileClient, path: &[u8]) -> Result<Held<'a>, Errno> {
        let mut held = Held { client, ino: Ino::ROOT, attr: client.get_attr(Ino::ROOT)?, references: Vec::new() };
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".") {
            (held.ino, held.attr) = client.lookup(held.ino, name)?;
            held.references.push(held.ino);
        }
        Ok(held)
    }

    fn measure(&self) -> Result<Measure, Errno> {
        let mut measure = Measure { kind: self.attr.kind, size: self.attr.size, buffered_bytes: 0, dirty_bytes: 0, home_only_bytes: 0 };
        if self.attr.kind != Kind::File {
            return Ok(measure);
        }
        let mut at = 0;
        loop {
            let found = self.client.where_is(self.ino, at, RANGES_MAX)?;
            (measure.size, measure.buffered_bytes, measure.dirty_bytes) = (found.size, found.buffered_bytes, found.dirty_bytes);
            measure.home_only_bytes += found.ranges.iter().filter(|range| range.place == Place::Home).map(|range| range.len).sum::<u64>();
            match found.ranges.last() {
                Some(last) if last.offset + last.len < found.size => at = last.offset + last.len,
                _ => return Ok(measure),
            }
        }
    }
}

/// One connection.
pub(super) struct Conversation<'a> {
    tag: &'a Tag,
    client: FileClient,
    stream: UnixStream,
}

/// The answer, or the reason why there is none.
type Answered = Result<Measure, FailureView>;

impl Conversation<'_> {
    /// Answers until the other side has heard enough.
    pub(super) fn serve(engine: &Engine, tag: &Tag, stream: UnixStream, mut asks: BufReader<&UnixStream>) -> io::Result<()> {
        stream.set_read_timeout(Some(NEXT_ASK_WITHIN))?;
        let mut conversation = Conversation { tag, client: engine.client(), stream };
        while let Some(ask) = read_line::<FileAsk>(&mut asks)? {
            let answered = conversation.answer(&ask)?;
            let last = match answered {
                Ok(measure) => FileAnswer::Done(measure),
                Err(failure) => FileAnswer::Failed(failure),
            };
            conversation.say(&last)?;
        }
        Ok(())
    }

    fn say(&mut self, answer: &FileAnswer) -> io::Result<()> {
        write_line(&mut self.stream, answer)
    }

    /// Answers one question; an I/O error means that nobody listens any more.
    fn answer(&mut self, ask: &FileAsk) -> io::Result<Answered> {
        let failure = |errno: Errno| {
            let failure = FailureView::of(&HomePath(ask.path.clone().into()), "be read", errno);
            // In the mount, that is: nothing is to be mended at home.
            if errno == Errno::ENOENT { FailureView { error: "there is no such file".into(), ..failure } } else { failure }
        };
        if ask.action == FileAction::Flush {
            let flushed = self.tag.mount.as_deref().map_or(Ok(()), engine::flush_kernel);
            let nothing = Measure { kind: Kind::Directory, size: 0, buffered_bytes: 0, dirty_bytes: 0, home_only_bytes: 0 };
            return Ok(flushed.map(|()| nothing).map_err(|failure| FailureView::from(&failure)));
        }
        let client = self.client.clone();
        let held = match Held::find(&client, &ask.path) {
            Ok(held) => held,
            Err(errno) => return Ok(Err(failure(errno))),
        };
        let done = match ask.action {
            FileAction::Measure | FileAction::Flush => Ok(()),
            FileAction::List => self.list(held.ino)?,
            FileAction::Where => self.ranges(&held)?,
            FileAction::StageIn { bytes_max } => self.stage_in(&held, bytes_max)?,
            FileAction::StageOut => match self.stage_out(&held)? {
                Ok(Some(failure)) => return Ok(Err(FailureView::from(&failure))),
                Ok(None) => Ok(()),
                Err(errno) => Err(errno),
            },
        };
        Ok(done.and_then(|()| held.measure()).map_err(failure))
    }

    fn list(&mut self, ino: Ino) -> io::Result<Result<(), Errno>> {
        let handle = match self.client.open_dir(ino) {
            Ok(handle) => handle,
            Err(errno) => return Ok(Err(errno)),
        };
        let mut from = 0;
        let result = loop {
            let entries = match self.client.read_dir(handle, from, ENTRIES_MAX) {
                Ok(entries) => entries,
                Err(errno) => break Ok(Err(errno)),
            };
            from = entries.last().map_or(from, |entry| entry.cookie());
            let told: io::Result<()> = entries.iter().try_for_each(|entry| {
                let answer = FileAnswer::Entry { name: entry.name.as_bytes().to_vec(), kind: entry.kind };
                write_line(&mut self.stream, &answer)
            });
            if let Err(error) = told {
                break Err(error);
            }
            if (entries.len() as u32) < ENTRIES_MAX {
                break Ok(Ok(()));
            }
        };
        // It was only read.
        let _ = self.client.release_dir(handle);
        result
    }

    fn ranges(&mut self, held: &Held<'_>) -> io::Result<Result<(), Errno>> {
        let mut at = 0;
        loop {
            let found = match self.client.where_is(held.ino, at, RANGES_MAX) {
                Ok(found) => found,
                Err(errno) => return Ok(Err(errno)),
            };
            for range in &found.ranges {
                self.say(&FileAnswer::Range(*range))?;
                at = range.offset + range.len;
            }
            if found.ranges.is_empty() || at >= found.size {
                return Ok(Ok(()));
            }
        }
    }

    /// Reads what only home has: what is read is kept in the buffer. Some of it may not be, when room is short at the moment: then it is
    /// read again, as long as that helps.
    fn stage_in(&mut self, held: &Held<'_>, bytes_max: u64) -> io::Result<Result<(), Errno>> {
        if held.attr.kind != Kind::File {
            return Ok(Ok(()));
        }
        let mut missing = u64::MAX;
        // More may be missing than may be read.
        let target = held.measure().map_or(0, |measure| measure.home_only_bytes.saturating_sub(bytes_max));
        loop {
            if let Err(errno) = self.read_in(held, bytes_max)? {
                return Ok(Err(errno));
            }
            // The last bytes may be on their way into the buffer still.
            let until = Instant::now() + KEPT_WITHIN;
            let left = loop {
                match held.measure() {
                    Err(errno) => return Ok(Err(errno)),
                    Ok(measure) if measure.home_only_bytes <= target || Instant::now() >= until => break measure.home_only_bytes,
                    Ok(_) => std::thread::sleep(AGAIN_AFTER),
                }
            };
            if left <= target || left >= missing || left > bytes_max {
                return Ok(Ok(()));
            }
            missing = left;
        }
    }

    /// Reads the parts that only home has, at most so many bytes.
    fn read_in(&mut self, held: &Held<'_>, bytes_max: u64) -> io::Result<Result<(), Errno>> {
        let unit = u64::from(self.tag.node.chunk_bytes.min(self.tag.node.segment_bytes).min(READ_BYTES_MAX));
        let mut bytes = Vec::new();
        let (mut at, mut left, mut told, mut done) = (0, bytes_max, Instant::now(), 0);
        loop {
            let found = match self.client.where_is(held.ino, at, RANGES_MAX) {
                Ok(found) => found,
                Err(errno) => return Ok(Err(errno)),
            };
            for range in &found.ranges {
                at = range.offset;
                let end = range.offset + range.len;
                while range.place == Place::Home && at < end && left > 0 {
                    let next = (at / unit + 1) * unit;
                    let len = (next.min(end) - at).min(left);
                    match self.client.read(held.ino, at, len as u32, &mut bytes) {
                        Err(errno) => return Ok(Err(errno)),
                        Ok(_) => (at, left, done) = (at + len, left - len, done + len),
                    }
                    if told.elapsed() >= PROGRESS_EVERY {
                        self.say(&FileAnswer::Progress { done_bytes: std::mem::take(&mut done), left_bytes: left })?;
                        told = Instant::now();
                    }
                }
                at = end;
            }
            if found.ranges.is_empty() || at >= found.size || left == 0 {
                break;
            }
        }
        self.say(&FileAnswer::Progress { done_bytes: done, left_bytes: 0 })?;
        Ok(Ok(()))
    }

    /// Brings it home, and tells how far that is.
    fn stage_out(&mut self, held: &Held<'_>) -> io::Result<Result<Option<DrainFailure>, Errno>> {
        let dirty = || self.client.where_is(held.ino, 0, 1).map_or(0, |found| found.dirty_bytes);
        let mut left = dirty();
        let mut tell = |now: u64| {
            let progress = FileAnswer::Progress { done_bytes: left.saturating_sub(now), left_bytes: now };
            left = now;
            write_line(&mut &self.stream, &progress)
        };
        let brought = telling(|| bring_home(&self.client, held.ino), || tell(dirty()))?;
        tell(0)?;
        Ok(brought)
    }
}

/// Asks until the instance has a place for the request.
fn bring_home(client: &FileClient, ino: Ino) -> Result<Option<DrainFailure>, Errno> {
    loop {
        match client.bring_home(ino) {
            Err(Errno::EAGAIN) => std::thread::sleep(AGAIN_AFTER),
            Err(errno @ Errno::ENOENT) => {
                return Ok(Some(DrainFailure { path: HomePath::default(), errno, step: DrainStep::Name }));
            }
            brought => return brought,
        }
    }
}
