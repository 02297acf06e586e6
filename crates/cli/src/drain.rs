//! A drain that the user watches and may stop.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use forebay_core::message::DrainFailure;

use crate::console::{Console, Progress};
use crate::engine::Engine;
use crate::error::Error;
use crate::registry::Tag;
use crate::signals::{self, Event, Events};
use crate::view::{FailureView, recover_command};

/// How a drain ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// Everything is home and compared.
    Clean,
    /// This could not be brought home.
    Failed(Vec<FailureView>),
    /// The user stopped it.
    Stopped,
}

/// Failures that are listed; the rest is counted.
const LISTED_MAX: usize = 10;

/// Drains, shows how far it is, and stops at the second signal; `signals_seen` counts those that came before, and goes on counting.
pub(crate) fn watch(
    engine: &Arc<Engine>,
    tag: &Tag,
    events: &Events,
    console: Console,
    signals_seen: &mut u32,
) -> Result<(End, Duration), Error> {
    let started = Instant::now();
    let (for_thread, sender, mount) = (engine.clone(), events.sender.clone(), tag.mount.clone());
    std::thread::Builder::new()
        .name("drain".into())
        .spawn(move || {
            let failures = for_thread.drain(mount.as_deref());
            // The main thread is gone only if the process is about to end.
            let _ = sender.send(Event::Drained(failures));
        })
        .map_err(Error::io("start a thread"))?;
    let mut meter = console.meter();
    let end = loop {
        match events.receiver.recv_timeout(Duration::from_millis(100)) {
            Ok(Event::Drained(failures)) => break end_of(&failures),
            Ok(Event::Signal(signal)) => {
                *signals_seen += 1;
                if *signals_seen > 1 {
                    break End::Stopped;
                }
                meter.warn(&format!("{}: bringing home what is left; once more, and it stays in the buffer", signals::name(signal)));
            }
            Ok(Event::Command(_) | Event::Stop) => {}
            Err(RecvTimeoutError::Timeout) => meter.show(Progress::from(&engine.status())),
            Err(RecvTimeoutError::Disconnected) => return Err(Error::io("wait for the drain")(std::io::ErrorKind::BrokenPipe.into())),
        }
    };
    meter.finish();
    Ok((end, started.elapsed()))
}

fn end_of(failures: &[DrainFailure]) -> End {
    if failures.is_empty() { End::Clean } else { End::Failed(failures.iter().map(FailureView::from).collect()) }
}

impl End {
    /// The end of a last look that must find nothing, after the mount is gone.
    pub(crate) fn of_last_drain(engine: &Engine) -> End {
        let failures = engine.drain(None);
        if !failures.is_empty() {
            return end_of(&failures);
        }
        let status = engine.status();
        if status.dirty_bytes == 0 && status.dirty_names == 0 {
            return End::Clean;
        }
        End::Failed(vec![FailureView {
            path: ".".into(),
            step: "bring everything home".into(),
            error: format!(
                "{} bytes and {} names are left after a drain without failures; please report this",
                status.dirty_bytes, status.dirty_names
            ),
        }])
    }

    /// What the user is told if not everything is home; the buffer is at `tag.buffer`.
    pub(crate) fn error(&self, tag: &Tag) -> Option<Error> {
        let next = format!("The buffer is kept in {}; finish it with:\n  {}", tag.buffer.display(), recover_command(&tag.buffer));
        match self {
            End::Clean => None,
            End::Failed(failures) => {
                let mut lines = vec![format!("not everything could be brought home to {} and compared there:", tag.backing.display())];
                lines.extend(failures.iter().take(LISTED_MAX).map(|failure| format!("  {}", failure.line())));
                if failures.len() > LISTED_MAX {
                    lines.push(format!("  and {} more", failures.len() - LISTED_MAX));
                }
                lines.push(next);
                Some(Error::Drain(lines.join("\n")))
            }
            End::Stopped => Some(Error::Kept(format!("the drain was stopped before everything was home.\n{next}"))),
        }
    }
}
