//! `stage-in`, `stage-out` and `where`: single files, brought into the buffer, brought home, looked at.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use forebay_core::attr::Kind;
use forebay_core::message::PlacedRange;

use crate::args::{InstanceArgs, StageArgs, WhereArgs};
use crate::console::{Console, Task, TaskMeter};
use crate::control::client::{Control, Files};
use crate::control::files::{FileAction, FileAnswer, Measure, place_name};
use crate::error::{Error, Exit};
use crate::paths::{self, Below};
use crate::registry::Tag;
use crate::remote;
use crate::size::Bytes;
use crate::view::FailureView;

/// Paths that wait for a worker.
const QUEUE_MAX: usize = 1024;
/// How often it is shown how far things are.
const SHOW_EVERY: Duration = Duration::from_millis(50);
/// Failures that are listed; the rest is counted.
const LISTED_MAX: usize = 10;
/// The longest list of paths that is read, bytes.
const LIST_BYTES_MAX: u64 = 1 << 30;

/// Which way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    In,
    Out,
}

/// A connection for asking about files.
fn files(tag: &Tag) -> Result<Files, Error> {
    Control::connect(&tag.buffer).map_err(|error| remote::unreachable(tag, &error))?.files()
}

/// The paths of a list: one a line, blank lines and lines that begin with `#` left out.
fn read_list(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let cannot = |error: std::io::Error| Error::Coded {
        message: format!("cannot read the list {}: {error}; name a file with one path a line, or - for standard input", path.display()),
        exit: Exit::Config,
    };
    let input: Box<dyn Read> =
        if path == Path::new("-") { Box::new(std::io::stdin()) } else { Box::new(std::fs::File::open(path).map_err(cannot)?) };
    let mut found = Vec::new();
    for line in std::io::BufReader::new(input.take(LIST_BYTES_MAX)).split(b'\n') {
        let line = line.map_err(cannot)?;
        let line = line.trim_ascii();
        if !line.is_empty() && line[0] != b'#' {
            found.push(PathBuf::from(OsStr::from_bytes(line)));
        }
    }
    Ok(found)
}

/// What all workers of one command know.
struct Shared {
    direction: Direction,
    task: Task,
    /// Of `stage-in`: bytes that may still be read, so that what is read does not drive out what was read before.
    budget_bytes: AtomicU64,
    files: AtomicU64,
    failures: Mutex<Vec<FailureView>>,
    /// Of `stage-in`: files to be looked at once more at the end.
    staged: Mutex<Vec<Below>>,
}

impl Shared {
    fn fail(&self, failure: FailureView) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
    }

    /// Takes up to `bytes` of what may still be read.
    fn take(&self, bytes: u64) -> u64 {
        let take = |left: u64| Some(left - left.min(bytes));
        let before = self.budget_bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).unwrap_or(0);
        before.min(bytes)
    }

    fn one(&self, files: &mut Files, path: Below) -> Result<(), Error> {
        let measure = match files.ask(&path, FileAction::Measure, |_| ())? {
            Ok(measure) => measure,
            Err(failure) => {
                self.fail(failure);
                return Ok(());
            }
        };
        let (action, expected) = match self.direction {
            Direction::Out => (FileAction::StageOut, measure.dirty_bytes),
            Direction::In if measure.kind != Kind::File => return Ok(()),
            Direction::In => {
                let bytes_max = self.take(measure.home_only_bytes);
                (FileAction::StageIn { bytes_max }, bytes_max)
            }
        };
        self.task.total_bytes.fetch_add(expected, Ordering::AcqRel);
        let mut done = 0;
        let ended = files.ask(&path, action, |answer| {
            if let FileAnswer::Progress { done_bytes, .. } = answer {
                let counted = done_bytes.min(expected - done);
                done += counted;
                self.task.done_bytes.fetch_add(counted, Ordering::AcqRel);
            }
        })?;
        self.task.done_bytes.fetch_add(expected - done, Ordering::AcqRel);
        match ended {
            Ok(_) => {
                self.files.fetch_add(1, Ordering::AcqRel);
                self.task.done_files.fetch_add(1, Ordering::AcqRel);
                if self.direction == Direction::In {
                    self.staged.lock().unwrap_or_else(PoisonError::into_inner).push(path);
                }
            }
            Err(failure) => self.fail(failure),
        }
        Ok(())
    }
}

/// Works until the queue is closed and empty.
fn work(tag: &Tag, shared: &Shared, queue: &Mutex<Receiver<Below>>) -> Result<(), Error> {
    let mut files = files(tag)?;
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(path) = next else { return Ok(()) };
        shared.one(&mut files, path)?;
    }
}

/// Puts every path that is meant into the queue; what cannot be found is noted as a failure.
fn walk(tag: &Tag, shared: &Shared, given: &[PathBuf], queue: &SyncSender<Below>) -> Result<(), Error> {
    let here = std::env::current_dir().unwrap_or_default();
    let mut files = files(tag)?;
    let mut seen = BTreeSet::new();
    for path in given {
        let below = paths::below(tag, path, &here)?;
        let there = files.ask(&below, FileAction::Measure, |_| ())?;
        let mut stack = match there {
            Ok(measure) => vec![(below, measure.kind)],
            Err(failure) if !paths::is_pattern(&below) => {
                shared.fail(failure);
                continue;
            }
            Err(failure) => {
                let mut found = Vec::new();
                for below in paths::expand(&mut files, &below)? {
                    if let Ok(measure) = files.ask(&below, FileAction::Measure, |_| ())? {
                        found.push((below, measure.kind));
                    }
                }
                if found.is_empty() {
                    shared.fail(FailureView { error: "nothing matches this pattern".into(), ..failure });
                }
                found
            }
        };
        stack.reverse();
        while let Some((below, kind)) = stack.pop() {
            if kind == Kind::Directory {
                let entries = paths::entries(&mut files, &below)?;
                stack.extend(entries.into_iter().rev().map(|(name, kind)| (paths::join(&below, &name), kind)));
            }
            // Names may lead to the same file by several ways, a path is done once.
            if seen.insert(below.clone()) && queue.send(below).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Carries the whole command out: one thread looks for paths, `jobs` others work on them.
fn carry_out(tag: &Tag, shared: &Shared, given: &[PathBuf], jobs: usize, mut meter: TaskMeter) -> Result<(), Error> {
    let (sender, receiver) = sync_channel(QUEUE_MAX);
    // Shared by the workers alone: when the last of them has failed, nobody takes paths any more, and the walk ends.
    let queue = Arc::new(Mutex::new(receiver));
    let result = std::thread::scope(|scope| {
        let mut threads = vec![scope.spawn(move || walk(tag, shared, given, &sender))];
        threads.extend((0..jobs).map(|_| {
            let queue = queue.clone();
            scope.spawn(move || work(tag, shared, &queue))
        }));
        drop(queue);
        while threads.iter().any(|thread| !thread.is_finished()) {
            meter.show(&shared.task);
            std::thread::sleep(SHOW_EVERY);
        }
        let failed = |_| Err(Error::io("work on the files")(std::io::Error::other("a thread has failed")));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(failed)).fold(Ok(()), Result::and)
    });
    meter.finish();
    result
}

/// What did not get into the buffer, or did not stay there.
fn not_in_buffer(tag: &Tag, shared: &Shared) -> Result<(Vec<(Below, u64)>, u64), Error> {
    let mut files = files(tag)?;
    let (mut missing, mut buffered) = (Vec::new(), 0);
    for path in shared.staged.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        if let Ok(Measure { home_only_bytes, buffered_bytes, .. }) = files.ask(path, FileAction::Measure, |_| ())? {
            buffered += buffered_bytes;
            if home_only_bytes > 0 {
                missing.push((path.clone(), home_only_bytes));
            }
        }
    }
    Ok((missing, buffered))
}

fn listed(head: String, lines: &[String]) -> String {
    let mut text = vec![head];
    text.extend(lines.iter().take(LISTED_MAX).map(|line| format!("  {line}")));
    if lines.len() > LISTED_MAX {
        text.push(format!("  and {} more", lines.len() - LISTED_MAX));
    }
    text.join("\n")
}

/// `forebay stage-in` and `forebay stage-out`.
pub(crate) fn command(direction: Direction, args: &StageArgs, console: Console) -> Result<(), Error> {
    let mut given = args.paths.clone();
    if let Some(list) = &args.list {
        given.extend(read_list(list)?);
    } else if given.is_empty() {
        return Err(Error::usage("say what is meant: give paths, or a file with one path a line as --list FILE"));
    }
    let tag = instance(&args.instance, given.first().map(PathBuf::as_path))?;
    let mut budget_bytes = 0;
    if direction == Direction::In {
        let view = remote::connect_to(&tag)?.status()?;
        budget_bytes = view.status.map_or(0, |status| status.live_bytes_max.saturating_sub(status.dirty_bytes));
    } else if let Err(failure) = files(&tag)?.ask(b"", FileAction::Flush, |_| ())? {
        return Err(Error::Drain(format!("the kernel could not hand over what it holds of the files: {}", failure.error)));
    }
    let shared = Shared {
        direction,
        task: Task::default(),
        budget_bytes: AtomicU64::new(budget_bytes),
        files: AtomicU64::new(0),
        failures: Mutex::default(),
        staged: Mutex::default(),
    };
    let what = if direction == Direction::In { "staging in" } else { "staging out" };
    carry_out(&tag, &shared, &given, args.jobs.into(), console.task_meter(what))?;
    let failures: Vec<String> = shared.failures.lock().unwrap_or_else(PoisonError::into_inner).iter().map(FailureView::line).collect();
    let (files, bytes) = (shared.files.load(Ordering::Acquire), Bytes(shared.task.done_bytes.load(Ordering::Acquire)));
    let home = tag.backing.display();
    if direction == Direction::In {
        return staged_in(&tag, &shared, failures, files, bytes, console);
    }
    if !failures.is_empty() {
        return Err(Error::Drain(listed(
            format!("{} of what is meant is not home in {home} and compared there:", failures.len()),
            &failures,
        )));
    }
    console.say(&format!("{files} files and directories are home in {home} and compared there; {bytes} of them were not before"));
    Ok(())
}

fn staged_in(tag: &Tag, shared: &Shared, failures: Vec<String>, files: u64, read: Bytes, console: Console) -> Result<(), Error> {
    let (missing, buffered) = not_in_buffer(tag, shared)?;
    if !failures.is_empty() {
        return Err(Error::Drain(listed(format!("{} of what is meant cannot be brought into the buffer:", failures.len()), &failures)));
    }
    if !missing.is_empty() {
        let bytes = Bytes(missing.iter().map(|(_, bytes)| bytes).sum());
        let lines: Vec<String> =
            missing.iter().map(|(path, bytes)| format!("{}: {} are only at home", String::from_utf8_lossy(path), Bytes(*bytes))).collect();
        let head =
            format!("{bytes} of {} of {files} files did not fit into the buffer (a larger --capacity would hold them):", missing.len());
        return Err(Error::Coded { message: listed(head, &lines), exit: Exit::Buffer });
    }
    console.say(&format!(
        "{files} files are in the buffer with {}; {read} of it were read from {}",
        Bytes(buffered),
        tag.backing.display()
    ));
    Ok(())
}

/// The instance that is meant, and runs: the one that is named, else the one around, else the one in which the path lies, else the only one.
fn instance(args: &InstanceArgs, path: Option<&Path>) -> Result<Tag, Error> {
    remote::running(args.mount.as_ref(), args.buffer.as_ref(), path)
}

/// One range of a file as JSON shows it.
#[derive(serde::Serialize)]
struct RangeView {
    offset: u64,
    len: u64,
    place: &'static str,
    dirty: bool,
}

/// A file as JSON shows it.
#[derive(serde::Serialize)]
struct WhereView {
    path: String,
    size: u64,
    buffered_bytes: u64,
    dirty_bytes: u64,
    ranges: Vec<RangeView>,
}

/// `forebay where`.
pub(crate) fn where_is(args: &WhereArgs) -> Result<(), Error> {
    let tag = instance(&args.instance, args.paths.first().map(PathBuf::as_path))?;
    let here = std::env::current_dir().unwrap_or_default();
    let mut files = files(&tag)?;
    let (mut views, mut failures) = (Vec::new(), Vec::new());
    for path in &args.paths {
        let below = paths::below(&tag, path, &here)?;
        let mut ranges: Vec<PlacedRange> = Vec::new();
        let ended = files.ask(&below, FileAction::Where, |answer| {
            let FileAnswer::Range(range) = answer else { return };
            match ranges.last_mut() {
                // One answer of the instance ends where its limit is.
                Some(last) if last.place == range.place && last.dirty == range.dirty && last.offset + last.len == range.offset => {
                    last.len += range.len;
                }
                _ => ranges.push(range),
            }
        })?;
        match ended {
            Ok(measure) => views.push(WhereView {
                path: String::from_utf8_lossy(&below).into_owned(),
                size: measure.size,
                buffered_bytes: measure.buffered_bytes,
                dirty_bytes: measure.dirty_bytes,
                ranges: ranges
                    .iter()
                    .map(|range| RangeView { offset: range.offset, len: range.len, place: place_name(range.place), dirty: range.dirty })
                    .collect(),
            }),
            Err(failure) => failures.push(failure.line()),
        }
    }
    if args.json {
        let text = serde_json::to_string_pretty(&views).map_err(|error| Error::io("print the places")(error.into()))?;
        crate::print(&(text + "\n"))?;
    } else {
        crate::print(&views.iter().map(WhereView::text).collect::<Vec<_>>().join("\n"))?;
    }
    if failures.is_empty() { Ok(()) } else { Err(Error::Unavailable(failures.join("\n"))) }
}

impl WhereView {
    fn text(&self) -> String {
        let mut text = format!(
            "{}: {}, {} in the buffer, {} not yet home\n",
            self.path,
            Bytes(self.size),
            Bytes(self.buffered_bytes),
            Bytes(self.dirty_bytes)
        );
        if !self.ranges.is_empty() {
            text += &format!("{:>16} {:>16}  {:<7} state\n", "offset", "bytes", "place");
        }
        for range in &self.ranges {
            let state = match (range.dirty, range.place) {
                (true, _) => "dirty",
                (false, "home") => "at home only",
                (false, "zeros") => "never written",
                _ => "clean, at home too",
            };
            text += &format!("{:>16} {:>16}  {:<7} {state}\n", range.offset, range.len, range.place);
        }
        text
    }
}
