//! What wakes the main thread, and the signals among it.

use std::sync::mpsc::{Receiver, Sender, channel};

use forebay_core::message::DrainFailure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::Error;
use crate::link::{CommandState, Link};

/// What the main thread waits for.
#[derive(Debug)]
pub(crate) enum Event {
    /// This process got a signal that asks it to end.
    Signal(i32),
    /// News of the command.
    Command(CommandState),
    /// A drain that the main thread began has ended.
    Drained(Vec<DrainFailure>),
    /// Someone asked over the control socket to unmount and end.
    Stop,
}

/// Both ends of the queue of events; signals go into it from now on.
#[derive(Debug)]
pub(crate) struct Events {
    pub(crate) sender: Sender<Event>,
    pub(crate) receiver: Receiver<Event>,
}

/// The name of a signal.
pub(crate) fn name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).map_or_else(|| format!("signal {signal}"), String::from)
}

/// Signals that were ignored when the program began, as `nohup` has it, stay so.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

/// Takes the signals that ask a program to end, and hands each on until that fails.
pub(crate) fn take(hand_on: impl Fn(i32) -> bool + Send + 'static) -> Result<(), Error> {
    let mut wanted = vec![SIGINT, SIGTERM];
    wanted.extend([SIGHUP, SIGQUIT].into_iter().filter(|signal| !is_ignored(*signal)));
    let mut signals = Signals::new(wanted).map_err(Error::io("take signals"))?;
    let listen = move || {
        for signal in signals.forever() {
            if !hand_on(signal) {
                return;
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listen).map(drop).map_err(Error::io("start a thread"))
}

impl Events {
    /// Takes the signals that ask a program to end.
    pub(crate) fn take_signals() -> Result<Events, Error> {
        let (sender, receiver) = channel();
        let to_main = sender.clone();
        take(move |signal| to_main.send(Event::Signal(signal)).is_ok())?;
        Ok(Events { sender, receiver })
    }

    /// For a process that is kept: what comes from the keeper. Signals that reach this process have reached the keeper as well, as those of the
    /// terminal do; it is the keeper who counts them.
    pub(crate) fn from_keeper(link: &Link) -> Result<Events, Error> {
        let (sender, receiver) = channel();
        take(|_| true)?;
        link.listen(sender.clone())?;
        Ok(Events { sender, receiver })
    }
}
