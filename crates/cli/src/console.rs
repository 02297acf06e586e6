//! What the user sees on standard error: messages, and the progress of a drain.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay_core::message::Status;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::size::Bytes;

/// How much is said.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Verbosity {
    Quiet,
    Normal,
    Verbose,
}

/// Says things to the user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    verbosity: Verbosity,
    terminal: bool,
}

/// Between two lines that tell a log file how far a drain is.
const PLAIN_PROGRESS: Duration = Duration::from_secs(15);

impl Console {
    pub(crate) fn new(verbosity: Verbosity) -> Console {
        Console { verbosity, terminal: std::io::stderr().is_terminal() }
    }

    /// What is always said: something is wrong, or needs the user.
    pub(crate) fn warn(&self, message: &str) {
        // Nothing is left to do when standard error is closed.
        let _ = std::io::stderr().write_all(format!("forebay: {message}\n").as_bytes());
    }

    /// What is said unless the user wants quiet.
    pub(crate) fn say(&self, message: &str) {
        if self.verbosity >= Verbosity::Normal {
            self.warn(message);
        }
    }

    /// Several lines that are said as they are, unless the user wants quiet.
    pub(crate) fn say_plain(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
        }
    }

    /// What is said to a user who wants to know more.
    pub(crate) fn detail(&self, message: &str) {
        if self.verbosity >= Verbosity::Verbose {
            self.warn(message);
        }
    }

    /// A bar, on a terminal.
    fn bar(&self, what: &str) -> Option<ProgressBar> {
        (self.terminal && self.verbosity >= Verbosity::Normal).then(|| {
            let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template(&format!(
                "forebay: {what} {{wide_bar}} {{binary_bytes}}/{{binary_total_bytes}} {{binary_bytes_per_sec}} ETA {{eta}} {{msg}}"
            ));
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        })
    }

    /// Shows a drain: a bar on a terminal, now and then a line elsewhere.
    pub(crate) fn meter(&self) -> Meter {
        Meter { console: *self, bar: self.bar("draining"), total_bytes: 0, started: Instant::now(), told: Instant::now() }
    }

    /// Shows work on many files, in the same way.
    pub(crate) fn task_meter(&self, what: &'static str) -> TaskMeter {
        TaskMeter { console: *self, what, bar: self.bar(what), started: Instant::now(), told: Instant::now() }
    }
}

/// A bar for so many steps of a kind, on a terminal.
pub(crate) fn steps_bar(steps: u64, kind: &str) -> ProgressBar {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(steps) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template(&format!("{{wide_bar}} {{pos}} of {{len}} {kind}, {{eta}} left")) {
        bar.set_style(style);
    }
    bar
}

/// How far work on many files is.
#[derive(Debug, Default)]
pub(crate) struct Task {
    pub(crate) done_files: AtomicU64,
    pub(crate) done_bytes: AtomicU64,
    /// As far as it is known: it grows while files are found.
    pub(crate) total_bytes: AtomicU64,
}

/// Shows how far work on many files is.
#[derive(Debug)]
pub(crate) struct TaskMeter {
    console: Console,
    what: &'static str,
    bar: Option<ProgressBar>,
    started: Instant,
    told: Instant,
}

impl TaskMeter {
    pub(crate) fn show(&mut self, task: &Task) {
        let load = |number: &AtomicU64| number.load(Ordering::Acquire);
        let (files, done_bytes, total_bytes) = (load(&task.done_files), load(&task.done_bytes), load(&task.total_bytes));
        if let Some(bar) = &self.bar {
            bar.set_length(total_bytes);
            bar.set_position(done_bytes);
            bar.set_message(format!("{files} files"));
        } else if self.told.elapsed() >= PLAIN_PROGRESS {
            self.told = Instant::now();
            let rate = Bytes((done_bytes as f64 / self.started.elapsed().as_secs_f64()) as u64);
            let what = self.what;
            self.console.say(&format!("{what}: {} of {}, {files} files, {rate}/s", Bytes(done_bytes), Bytes(total_bytes)));
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Shows how far a drain is.
#[derive(Debug)]
pub(crate) struct Meter {
    console: Console,
    bar: Option<ProgressBar>,
    total_bytes: u64,
    started: Instant,
    told: Instant,
}

/// How far a drain is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Progress {
    /// Bytes that are not yet home and compared.
    pub(crate) dirty_bytes: u64,
    /// Names and attributes that are not yet home.
    pub(crate) dirty_names: u64,
    /// Errors of home that are being retried.
    pub(crate) troubles: u64,
}

impl From<&Status> for Progress {
    fn from(status: &Status) -> Progress {
        Progress { dirty_bytes: status.dirty_bytes, dirty_names: status.dirty_names, troubles: status.troubles.len() as u64 }
    }
}

impl Meter {
    /// Shows `progress`. Others may write while a drain runs, so the total only ever grows.
    pub(crate) fn show(&mut self, progress: Progress) {
        self.total_bytes = self.total_bytes.max(progress.dirty_bytes);
        let done_bytes = self.total_bytes - progress.dirty_bytes;
        let mut message = String::new();
        if progress.dirty_bytes == 0 && progress.dirty_names > 0 {
            message = format!("{} names", progress.dirty_names);
        }
        if progress.troubles > 0 {
            message = format!("{} paths in trouble, trying again", progress.troubles);
        }
        if let Some(bar) = &self.bar {
            bar.set_length(self.total_bytes);
            bar.set_position(done_bytes);
            bar.set_message(message);
        } else if self.told.elapsed() >= PLAIN_PROGRESS {
            self.told = Instant::now();
            let seconds = self.started.elapsed().as_secs_f64();
            let rate = Bytes((done_bytes as f64 / seconds) as u64);
            let note = if message.is_empty() { message } else { format!(", {message}") };
            self.console.say(&format!("draining: {} of {} home, {rate}/s{note}", Bytes(done_bytes), Bytes(self.total_bytes)));
        }
    }

    /// Says something while the bar stays below it.
    pub(crate) fn warn(&self, message: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.console.warn(message)),
            None => self.console.warn(message),
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
