//! `status`, `drain` and `umount`: commands that ask a running instance.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use crate::args::{StatusArgs, TargetArgs, UmountArgs};
use crate::console::Console;
use crate::control::Command;
use crate::control::client::Control;
use crate::error::Error;
use crate::mounts;
use crate::registry::{self, State, Tag};
use crate::view::{InstanceView, recover_command};

/// Which instance is meant.
enum Target {
    Mount(PathBuf),
    Buffer(PathBuf),
}

impl Target {
    fn of(mount: Option<&PathBuf>, buffer: Option<&PathBuf>) -> Option<Target> {
        match (mount, buffer) {
            (_, Some(buffer)) => Some(Target::Buffer(buffer.clone())),
            (Some(mount), None) => Some(Target::Mount(mount.clone())),
            (None, None) => None,
        }
    }

    /// The tag of the instance, and whether it runs.
    fn find(&self) -> Result<(Tag, State), Error> {
        match self {
            Target::Buffer(path) => {
                let none = |why: String| Error::Unavailable(format!("there is no instance with its buffer in {}: {why}", path.display()));
                let real = path.canonicalize().map_err(|error| none(error.to_string()))?;
                let tag = Tag::read(&real).ok_or_else(|| none("the directory holds no buffer of this version of forebay".into()))?;
                let state = if tag.process.is_alive() { State::Running } else { State::Left };
                Ok((tag, state))
            }
            Target::Mount(path) => {
                let mount = resolve(path);
                let found = registry::list().into_iter().rev().find(|(tag, _)| tag.mount.as_ref() == Some(&mount));
                found.ok_or_else(|| {
                    let known: Vec<String> =
                        registry::list().into_iter().filter_map(|(tag, _)| tag.mount).map(|mount| mount.display().to_string()).collect();
                    let known = if known.is_empty() {
                        "this user has no instances".into()
                    } else {
                        format!("this user's instances are mounted at {}", known.join(", "))
                    };
                    Error::Unavailable(format!("no instance of this user is mounted at {}; {known}", path.display()))
                })
            }
        }
    }
}

/// The path that the list has for `path`. A mount itself is not asked: it may be dead, or wait for a home that has stopped.
fn resolve(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let named = match (absolute.parent().and_then(|parent| parent.canonicalize().ok()), absolute.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => absolute,
    };
    if mounts::mounted_at(&named).is_some() { named } else { named.canonicalize().unwrap_or(named) }
}

/// The instance that is meant, when the one who asks may have left it open.
fn target(args: &TargetArgs) -> Result<Target, Error> {
    let around = std::env::var_os("FOREBAY_MOUNT").map(PathBuf::from);
    Target::of(args.mount.as_ref(), args.buffer.as_ref())
        .or_else(|| around.map(Target::Mount))
        .ok_or_else(|| Error::usage("say which instance is meant: give its MOUNT, or its --buffer DIR"))
}

/// The running instance that files belong to: the one that is named, else the one around, else the one in which `path` lies, or else the
/// working directory, else the only one.
pub(crate) fn running(mount: Option<&PathBuf>, buffer: Option<&PathBuf>, path: Option<&Path>) -> Result<Tag, Error> {
    let around = std::env::var_os("FOREBAY_MOUNT").map(PathBuf::from);
    if let Some(target) = Target::of(mount, buffer).or_else(|| around.map(Target::Mount)) {
        let (tag, state) = target.find()?;
        return if state == State::Left { Err(left(&tag)) } else { Ok(tag) };
    }
    let mut all: Vec<Tag> = registry::list().into_iter().filter(|(_, state)| *state == State::Running).map(|(tag, _)| tag).collect();
    let here = std::env::current_dir().unwrap_or_default();
    let whole = path.map_or_else(|| here.clone(), |path| here.join(path));
    let depth = |tag: &Tag| {
        let tops = [tag.mount.as_deref(), Some(tag.backing.as_path())];
        tops.into_iter().flatten().filter(|top| whole.starts_with(top)).map(|top| top.components().count()).max()
    };
    match all.iter().enumerate().filter_map(|(at, tag)| Some((depth(tag)?, at))).max() {
        Some((_, at)) => Ok(all.swap_remove(at)),
        None if all.len() == 1 => Ok(all.swap_remove(0)),
        None if all.is_empty() => Err(Error::Unavailable("this user has no running instances".into())),
        None => Err(Error::usage("say which instance is meant: give its mount as --mount MOUNT, or its --buffer DIR")),
    }
}

/// Its process is gone.
fn left(tag: &Tag) -> Error {
    Error::Unavailable(format!(
        "the process that served the buffer {} is gone; bring home what it left with:\n  {}",
        tag.buffer.display(),
        recover_command(&tag.buffer)
    ))
}

/// It does not let us in.
pub(crate) fn unreachable(tag: &Tag, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            Error::Unavailable(format!("process {} does not listen yet, or is about to end; try again", tag.process.pid))
        }
        _ => Error::Unavailable(format!("cannot reach process {} through {}: {error}", tag.process.pid, tag.buffer.join("ctl").display())),
    }
}

/// A connection to the instance of `tag`.
pub(crate) fn connect_to(tag: &Tag) -> Result<Control, Error> {
    Control::connect(&tag.buffer).map_err(|error| unreachable(tag, &error))
}

/// A connection to a running instance.
fn connect(target: &Target) -> Result<(Tag, Control), Error> {
    let (tag, state) = target.find()?;
    if state == State::Left {
        return Err(left(&tag));
    }
    let control = connect_to(&tag)?;
    Ok((tag, control))
}

/// Has an instance do something that ends with everything home.
fn follow(target: &Target, command: Command, console: Console) -> Result<Tag, Error> {
    let (tag, control) = connect(target)?;
    let ended = control.follow(command, console.meter())?;
    if let Some(message) = ended.message {
        return Err(Error::Drain(message));
    }
    if !ended.failures.is_empty() {
        let mut lines = vec![format!("not everything could be brought home to {}; the instance goes on trying:", tag.backing.display())];
        lines.extend(ended.failures.iter().take(10).map(|failure| format!("  {}", failure.line())));
        if ended.failures.len() > 10 {
            lines.push(format!("  and {} more", ended.failures.len() - 10));
        }
        return Err(Error::Drain(lines.join("\n")));
    }
    Ok(tag)
}

/// `forebay drain`.
pub(crate) fn drain(args: &TargetArgs, console: Console) -> Result<(), Error> {
    let tag = follow(&target(args)?, Command::Drain, console)?;
    console.say(&format!("everything is home in {} and compared there", tag.backing.display()));
    Ok(())
}

/// `forebay umount`.
pub(crate) fn umount(args: &UmountArgs, console: Console) -> Result<(), Error> {
    let target = target(&args.target)?;
    let tag = follow(&target, Command::Stop { force: args.force }, console)?;
    console.say(&format!("everything is home in {} and compared there; unmounted", tag.backing.display()));
    Ok(())
}

/// What can be said of an instance now.
pub(crate) fn view(tag: &Tag, state: State) -> InstanceView {
    if state == State::Left {
        return InstanceView::new(tag, "left", None);
    }
    let answer = Control::connect(&tag.buffer).ok().and_then(|control| control.status().ok());
    answer.unwrap_or_else(|| InstanceView::new(tag, "silent", None))
}

/// `forebay status`.
pub(crate) fn status(args: &StatusArgs, console: Console) -> Result<(), Error> {
    let Some(seconds) = args.watch else { return show(args, console, false).map(drop) };
    let mut shown = false;
    for _ in 0..args.times.unwrap_or(u64::MAX) {
        if shown {
            std::thread::sleep(std::time::Duration::from_secs(seconds.into()));
        }
        if !show(args, console, shown)? {
            break;
        }
        shown = true;
    }
    Ok(())
}

/// Shows the instances that are meant; says whether there are any. One that was `shown` before and has ended is no error.
fn show(args: &StatusArgs, console: Console, shown: bool) -> Result<bool, Error> {
    let found = match Target::of(args.mount.as_ref(), args.buffer.as_ref()) {
        Some(target) => match target.find() {
            Err(_) if shown => Vec::new(),
            found => vec![found?],
        },
        None => registry::list(),
    };
    let views: Vec<InstanceView> = found.iter().map(|(tag, state)| view(tag, *state)).collect();
    let watching = args.watch.is_some();
    if args.json {
        let text = if watching { serde_json::to_string(&views) } else { serde_json::to_string_pretty(&views) };
        crate::print(&(text.map_err(|error| Error::io("print the state")(error.into()))? + "\n"))?;
    } else if views.is_empty() {
        console.say(if shown { "there is no instance any more" } else { "this user has no instances" });
    } else {
        let text = views.iter().map(InstanceView::text).collect::<Vec<_>>().join("\n");
        // A terminal shows the newest state in the place of the last; elsewhere a blank line parts them.
        let before = match (watching && io::stdout().is_terminal(), shown) {
            (true, _) => "\x1b[H\x1b[2J",
            (false, true) => "\n",
            (false, false) => "",
        };
        crate::print(&format!("{before}{text}"))?;
    }
    Ok(!views.is_empty())
}
