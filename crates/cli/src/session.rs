//! The life of an instance in this process: chosen, started, mounted, drained, taken away.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use forebay_core::config::NodeConfig;
use forebay_core::message::Status;
use forebay_fuse::{MountOptions, VirtualFile};

use crate::config::{SettingError, Settings};
use crate::console::Console;
use crate::control::Ended;
use crate::control::server::ControlServer;
use crate::doctor;
use crate::drain::{self, End};
use crate::engine::{self, Engine, Legacy, Plan};
use crate::error::{Error, Exit};
use crate::last_word;
use crate::link::{Link, Resumed, ToKeeper};
use crate::metrics;
use crate::mounts;
use crate::places::{self, Choice, Content, Place};
use crate::recover;
use crate::registry::{self, Entry, ProcessId, Tag};
use crate::servers::{self, Access, Servers};
use crate::show;
use crate::signals::{Event, Events};
use crate::sizes;
use crate::tracing::Tracing;
use crate::view::{InstanceView, StatusView, quoted};

/// A mounted instance.
pub(crate) struct Session {
    pub(crate) engine: Arc<Engine>,
    pub(crate) tag: Tag,
    entry: Option<Entry>,
    control: Option<ControlServer>,
    buffer: Place,
    mount: Place,
    keeper: u32,
    tracing: Option<Tracing>,
    console: Console,
}

/// How long unmounting may take, and requests under way to end, before they are left to the end of the process.
const UNMOUNT_WITHIN: Duration = Duration::from_secs(30);

/// How an instance ended.
pub(crate) struct Closed {
    /// The error says what is left.
    pub(crate) result: Result<(), Error>,
    pub(crate) end: End,
    /// Its last state.
    pub(crate) status: Status,
}

/// What `role` starts with, and where it came from.
pub(crate) struct Opening<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) role: &'a str,
    /// It is mounted over the backing directory, in a mount namespace of this process.
    pub(crate) over: bool,
    /// Whether the control socket may stop the instance.
    pub(crate) stoppable: bool,
    /// Messages go to a file in the buffer.
    pub(crate) in_background: bool,
    pub(crate) console: Console,
    /// What runs in the mount, if it is a command.
    pub(crate) command: &'a [OsString],
    pub(crate) events: &'a Events,
    /// The way to the keeper.
    pub(crate) link: &'a Link,
}

/// A tag of this process.
pub(crate) fn own_tag(process: ProcessId, role: &str, id: &str, backing: &Path, buffer: &Place, node: &NodeConfig) -> Result<Tag, Error> {
    Ok(Tag {
        version: Tag::VERSION,
        program_version: env!("CARGO_PKG_VERSION").into(),
        id: id.into(),
        process,
        server_pid: std::process::id(),
        takeovers: 0,
        role: role.into(),
        backing: backing.into(),
        buffer: buffer.path.clone(),
        buffer_made: buffer.made,
        mount: None,
        mount_made: false,
        memory_dir: None,
        started_unix_ms: registry::unix_ms(),
        node: node.clone(),
    })
}

/// Makes the mount point, and takes away what a killed server has left there.
fn prepare_mount(choice: &Choice, console: Console) -> Result<Place, Error> {
    let dead = engine::clear_dead_mount(&choice.mount).map_err(|error| Error::Mount {
        mount: choice.mount.clone(),
        reason: format!("a dead mount stands there and cannot be taken away: {error}; try: fusermount3 -u -z {}", quoted(&choice.mount)),
    })?;
    if dead {
        console.say(&format!("took away a dead mount at {}", choice.mount.display()));
    }
    Ok(choice.make_mount()?)
}

impl Session {
    /// Starts and mounts an instance. If that fails, nothing of it stays but a buffer that holds data.
    pub(crate) fn open(opening: &Opening<'_>) -> Result<Session, Error> {
        let Opening { settings, console, .. } = opening;
        let servers = Servers::of_settings(settings)?.map(|servers| servers.name());
        if opening.over && servers.is_some() {
            return Err(Error::usage("--over mounts over a backing directory, and servers are none; leave one of the two out"));
        }
        let backing = servers.as_deref().or(settings.backing.as_deref()).ok_or(SettingError::NoBacking)?;
        let access = Access::of_settings(settings);
        let id = registry::fresh_id();
        let choice = Choice::make(settings, opening.over, backing, &id)?;
        let metrics = settings.metrics.map(metrics::listen).transpose()?;
        let record = settings.record.as_deref().map(|path| choice.recording("the recording", path)).transpose()?;
        let trace = settings.trace.as_deref().map(|path| choice.recording("the trace", path)).transpose()?;
        let memory_dir = settings.memory_dir.as_deref().map(|path| choice.memory_dir(path)).transpose()?;
        let mut left_made = false;
        if places::content(&choice.buffer)? == Content::Buffer {
            left_made = recover::before_start(&choice.buffer, &choice.backing, &access, *console, opening.events)?;
        }
        let mut node = sizes::plan(settings, &choice.buffer, *console)?;
        // Who sees every open and close could not be replaced: the kernel speaks of open files by numbers that die with the process.
        node.takeover = doctor::kernel_resends() && trace.is_none();
        if let Some(name) = places::no_local_disk(&choice.buffer) {
            console.warn(&format!(
                "the buffer {} lies on {name}, which is no local disk: expect it to be slow, or lost with the machine's power",
                choice.buffer.display()
            ));
        }
        let home = servers::home(&choice.backing, &access, &id, &choice.buffer)?;
        let mount = prepare_mount(&choice, *console)?;
        let made = choice.make_buffer().map_err(Error::from).and_then(|mut buffer| {
            buffer.made |= left_made;
            let plan = Plan {
                node: node.clone(),
                backing: &choice.backing,
                buffer: &buffer.path,
                memory_dir: memory_dir.as_deref(),
                record: record.as_deref(),
                home_threads: settings.home_threads,
                home: home.clone(),
                was_left: false,
            };
            Tag::remove_own_files(&buffer.path);
            // What cannot be removed is not empty, and therefore not ours.
            Ok((Engine::start(&plan).inspect_err(|_| drop(buffer.remove_if_made()))?, buffer))
        });
        let (engine, buffer) = made.inspect_err(|_| drop(mount.remove_if_made()))?;
        console.detail(&format!(
            "buffer {} with {} segments of {} bytes, {} of them in memory",
            buffer.path.display(),
            node.segments_max,
            node.segment_bytes,
            node.memory_segments_max
        ));
        let keeper = ProcessId::of(opening.link.keeper).map_err(Error::io("tell the keeper from other processes"))?;
        let mut tag = own_tag(keeper, opening.role, &id, &choice.backing, &buffer, &node)?;
        tag.mount = Some(mount.path.clone());
        tag.mount_made = mount.made;
        tag.memory_dir = memory_dir;
        let mut session = Session::of(opening, engine, tag, buffer, mount);
        let live_bytes_max = session.engine.status().live_bytes_max;
        let tracing = trace.map(|path| Tracing::of_instance(path, &session.tag, live_bytes_max, opening.command));
        let mounted = tracing.transpose().and_then(|tracing| {
            session.tracing = tracing;
            session.mount(opening, metrics)
        });
        match mounted {
            Ok(()) => Ok(session),
            Err(error) => {
                // Nothing was written yet: the mount never was.
                if let Err(kept) = session.close(End::Clean, false, opening.link).result {
                    console.warn(&kept.to_string());
                }
                Err(error)
            }
        }
    }

    /// Goes on with an instance of which the process that served was killed.
    pub(crate) fn resume(opening: &Opening<'_>, resumed: &Resumed, legacy: Legacy) -> Result<Session, Error> {
        let Opening { settings, console, .. } = opening;
        let no_tag = || Error::Buffer { buffer: resumed.buffer.clone(), reason: "it does not say what it is a buffer of".into() };
        let mut tag = Tag::read(&resumed.buffer).ok_or_else(no_tag)?;
        (tag.server_pid, tag.takeovers) = (std::process::id(), resumed.takeovers);
        if settings.record.is_some() {
            console.warn("the recording ends where the process that served was killed");
        }
        let access = Access { was_there: true, ..Access::of_settings(settings) };
        let plan = Plan {
            node: tag.node.clone(),
            home: servers::home(&tag.backing, &access, &tag.id, &tag.buffer)?,
            backing: &tag.backing,
            buffer: &tag.buffer,
            memory_dir: tag.memory_dir.as_deref(),
            record: None,
            home_threads: settings.home_threads,
            was_left: true,
        };
        let (engine, inheritance) = Engine::take_over(&plan, &legacy)?;
        let buffer = Place { path: tag.buffer.clone(), made: tag.buffer_made };
        let mount = Place { path: tag.mount.clone().ok_or_else(no_tag)?, made: tag.mount_made };
        let mut session = Session::of(opening, engine, tag, buffer, mount);
        let files = session.virtual_files(settings);
        session.engine.mount_again((inheritance, legacy.agreed), &session.mount.path, settings, files)?;
        // Clients wait: the rest comes after.
        opening.link.serves(Some(&legacy), session.tag.buffer.clone(), opening.in_background);
        console.detail(&format!("process {} has taken over", std::process::id()));
        session.enter_again()?;
        let metrics = settings.metrics.map(metrics::listen).transpose().unwrap_or_else(|error| {
            console.warn(&error.to_string());
            None
        });
        session.listen(opening, metrics)?;
        Ok(session)
    }

    fn of(opening: &Opening<'_>, engine: Engine, tag: Tag, buffer: Place, mount: Place) -> Session {
        let (keeper, console) = (opening.link.keeper, opening.console);
        Session { engine: Arc::new(engine), tag, entry: None, control: None, buffer, mount, keeper, tracing: None, console }
    }

    /// Writes down where it is.
    fn enter(&mut self) -> Result<(), Error> {
        self.tag.write().map_err(Error::io(format!("write to {}", self.buffer.path.display())))?;
        self.register()
    }

    /// Writes down where it is now. What the process before has written still leads here; a disk that takes no more must not end the mount.
    fn enter_again(&mut self) -> Result<(), Error> {
        if let Err(error) = self.tag.write() {
            let buffer = self.buffer.path.display();
            self.console.warn(&format!("cannot write to {buffer}: {error}; `forebay status` names the process of before"));
        }
        self.register()
    }

    fn register(&mut self) -> Result<(), Error> {
        self.entry = Some(self.tag.register().map_err(Error::io("enter the instance into the list of this user's instances"))?);
        Ok(())
    }

    fn mount(&mut self, opening: &Opening<'_>, metrics: Option<TcpListener>) -> Result<(), Error> {
        let settings = opening.settings;
        // Before it is mounted: whatever happens from now on, the buffer knows where its mount is.
        self.enter()?;
        // Nobody but the command and what it starts can see a mount of its own: other users may be among these.
        let allow_other = settings.allow_other || opening.over;
        let options = self.engine.mount_options(&self.mount.path, allow_other, settings, self.virtual_files(settings));
        let recorder = self.tracing.as_ref().map(Tracing::recorder);
        self.engine.mount(MountOptions { sees_all: recorder.is_some(), recorder, ..options })?;
        opening.link.serves(self.engine.legacy().as_ref(), self.tag.buffer.clone(), opening.in_background);
        self.listen(opening, metrics)
    }

    /// Takes questions.
    fn listen(&mut self, opening: &Opening<'_>, metrics: Option<TcpListener>) -> Result<(), Error> {
        if let Some(listener) = metrics {
            let address = metrics::serve(listener, &self.engine).map_err(Error::io("serve metrics"))?;
            opening.console.say(&format!("metrics are at http://{address}/metrics"));
        }
        let stop = opening.stoppable.then(|| opening.events.sender.clone());
        let control = ControlServer::start(self.engine.clone(), self.tag.clone(), stop);
        self.control = Some(control.map_err(Error::io("listen on the control socket"))?);
        Ok(())
    }

    /// What can be read in `.forebay` of the mount: the state and counters, and the settings.
    fn virtual_files(&self, settings: &Settings) -> Vec<VirtualFile> {
        // The mount must not keep the engine alive that keeps the mount.
        let (engine, tag) = (Arc::downgrade(&self.engine), self.tag.clone());
        let stats = move || {
            let status = engine.upgrade().map(|engine| StatusView::from(&engine.status()));
            let mut text = serde_json::to_vec_pretty(&InstanceView::new(&tag, "running", status)).unwrap_or_default();
            text.push(b'\n');
            text
        };
        let config = show::in_use(settings, &self.tag).into_bytes();
        vec![
            VirtualFile { name: "stats", content: Arc::new(stats) },
            VirtualFile { name: "config", content: Arc::new(move || config.clone()) },
        ]
    }

    /// Where it is mounted.
    pub(crate) fn mount_point(&self) -> &Path {
        &self.mount.path
    }

    /// Waits until nobody uses the mount, at most `wait`; a signal shortens it. False if nobody used it from the beginning.
    pub(crate) fn wait_until_free(&self, wait: Duration, events: &Events, console: Console, signals_seen: &mut u32) -> bool {
        let until = Instant::now() + wait;
        let mut told = false;
        loop {
            let sees = if self.mount.path == self.tag.backing { mounts::Sees::Our } else { mounts::Sees::Any };
            let users = mounts::users(&self.mount.path, sees, &[self.keeper]);
            if users.is_empty() {
                return told;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                console.warn(&format!(
                    "the mount is still in use by {}; it is detached from them, what they write from now on fails",
                    mounts::describe(&users)
                ));
                return true;
            }
            if !told {
                console.warn(&format!(
                    "the mount is in use by {}; waiting up to {} s for them to end",
                    mounts::describe(&users),
                    wait.as_secs()
                ));
                told = true;
            }
            match events.receiver.recv_timeout(left.min(Duration::from_millis(100))) {
                Ok(Event::Signal(_)) => {
                    *signals_seen += 1;
                    return true;
                }
                Err(RecvTimeoutError::Disconnected) => return true,
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Unmounts and ends the instance; `end` says how its drain went. The buffer goes if everything is home, and stays otherwise or with
    /// `keep`.
    pub(crate) fn close(mut self, end: End, keep: bool, link: &Link) -> Closed {
        self.tracing.iter().for_each(Tracing::settle);
        let unmounted = self.engine.unmount(UNMOUNT_WITHIN);
        let counters = self.engine.status().counters;
        let traced = self.tracing.take().map_or(Ok(()), |tracing| tracing.finish(Some(&counters), self.console));
        let is_over = end == End::Clean || last_word::is_all_home(&self.engine.status());
        let mut end = match end {
            End::Clean | End::Failed(_) if is_over && self.engine.close_gate(UNMOUNT_WITHIN) => End::of_last_drain(&self.engine),
            End::Clean => End::Stopped,
            end => end,
        };
        let status = self.engine.status();
        let mut result = match end.error(&self.tag) {
            None => {
                link.tell(&ToKeeper::Ends);
                self.take_away(keep)
            }
            Some(_) if is_over && last_word::is_all_home(&status) => {
                link.tell(&ToKeeper::Ends);
                let (engine, tag, console) = (self.engine.clone(), self.tag.clone(), self.console);
                let let_go = last_word::let_go(&engine, &tag, console, || self.take_away(false));
                end = if let_go.is_ok() { End::Clean } else { end };
                let_go
            }
            Some(error) => {
                let error = last_word::warn(&self.engine, &status, error);
                if self.engine.sync().is_err() {
                    self.console.warn("the buffer could not be made durable: finish it before this machine is shut down");
                }
                Err(error)
            }
        };
        if self.engine.was_cut_off() && result.is_ok() {
            result = Err(Error::Coded {
                exit: Exit::Internal,
                message: format!(
                    "the mount {} was cut off from the kernel while it was in use. Everything that was acknowledged is home and compared; \
                     what programs had stored through a mapping (or, with --kernel-cache write-back, not yet closed or synced) is lost",
                    self.mount.path.display()
                ),
            });
        }
        result = result.and(traced);
        match unmounted {
            // Not empty, or gone already: then it is no longer ours to remove.
            Ok(()) => drop(self.mount.remove_if_made()),
            Err(error) => {
                let reason =
                    format!("everything is home, but it cannot be unmounted: {error}; try: fusermount3 -u -z {}", quoted(&self.mount.path));
                result = result.and(Err(Error::Mount { mount: self.mount.path.clone(), reason }));
            }
        }
        if let Some(control) = self.control.take() {
            let failures = if let End::Failed(failures) = &end { failures.clone() } else { Vec::new() };
            control.tell_end(Ended { failures, message: result.as_ref().err().map(ToString::to_string) });
        }
        Closed { result, end, status }
    }

    fn take_away(&mut self, keep: bool) -> Result<(), Error> {
        self.engine.shutdown();
        let cannot = |error: std::io::Error| Error::Io {
            action: format!("remove the buffer {}, from which everything is home", self.buffer.path.display()),
            error,
        };
        if keep {
            // Nobody listens there any more.
            let _ = std::fs::remove_file(self.buffer.path.join("ctl"));
        } else {
            self.engine.remove_buffer().map_err(cannot)?;
            Tag::remove_own_files(&self.buffer.path);
            if self.buffer.path.exists() {
                self.buffer.remove_if_made().map_err(cannot)?;
            }
        }
        if let Some(entry) = self.entry.take() {
            entry.remove();
        }
        Ok(())
    }

    /// Drains with progress; see [`drain::watch`].
    pub(crate) fn drain(&self, events: &Events, console: Console, signals_seen: &mut u32) -> Result<(End, Duration), Error> {
        drain::watch(&self.engine, &self.tag, events, console, signals_seen)
    }
}
