//! What clients do when: work, read back after a crash, close, drain.

use forebay_core::attr::Kind;
use forebay_core::effect::HomeChange;
use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Ino, Name};
use forebay_core::message::{Reply, Request, Status};
use forebay_core::time::Time;

use super::{Event, Result, START_NS, Weather, World};
use crate::checker::Property;
use crate::home::Home;
use crate::inspector::Inspector;
use crate::rng::Rng;
use crate::scenario::Workload;
use crate::stamp::{self, Stamp, Stamps};
use crate::subject::Subject;

/// Drains that may give up after the last fault: the first may have begun before it.
const DRAINS_MAX: u32 = 2;

/// How often the clients go without giving back what they hold.
const DEPARTS_PER_MILLE: u64 = 300;

/// How long home fails now and then, ns: after that it is well for good.
const WEATHER_NS_MAX: u64 = 120_000_000_000;

/// What the clients are at.
#[derive(Debug)]
pub(super) enum Phase {
    /// Each asks what it likes.
    Running,
    /// After a crash, everything is read back.
    Inspecting(Inspector),
    /// Each gives back what it holds.
    Closing,
    /// Everything goes home.
    Draining { drains: u32 },
    /// After the drain, everything is read back.
    LastLook(Inspector),
    /// The end.
    Over,
}

impl PartialEq for Phase {
    fn eq(&self, other: &Phase) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl<M: Subject> World<M> {
    pub(super) fn begin_running(&mut self) {
        self.phase = Phase::Running;
        for client in 0..self.clients.len() {
            let pause_ns = self.clients[client].pause_ns();
            self.schedule(1_000 + pause_ns, Event::Ask(client));
        }
    }

    /// It is a client's turn.
    pub(super) fn ask_next(&mut self, client: usize) -> Result<()> {
        let request = match &mut self.phase {
            Phase::Running if self.actions_left == 0 => return self.begin_closing(),
            Phase::Running => {
                self.actions_left -= 1;
                Some(self.clients[client].next_request())
            }
            Phase::Inspecting(inspector) | Phase::LastLook(inspector) => inspector.next_request(),
            Phase::Closing => self.clients[client].next_to_close(),
            Phase::Draining { .. } => Some(Request::Drain),
            Phase::Over => None,
        };
        match request {
            Some(request) => {
                self.ask(client, request);
                Ok(())
            }
            None => self.phase_ends(client),
        }
    }

    /// A client was answered.
    pub(super) fn answered(&mut self, client: usize, request: &Request, reply: &Reply) -> Result<()> {
        let mut pause_ns = 1_000;
        match &mut self.phase {
            Phase::Running | Phase::Closing => {
                self.clients[client].answered(request, reply);
                pause_ns = self.clients[client].pause_ns();
            }
            Phase::Inspecting(inspector) | Phase::LastLook(inspector) => {
                inspector.answered(request, reply);
                if matches!(reply, Reply::Error { .. }) {
                    pause_ns = 50_000_000;
                }
            }
            Phase::Draining { .. } => return self.drain_ends(reply),
            Phase::Over => return Ok(()),
        }
        self.schedule(pause_ns, Event::Ask(client));
        Ok(())
    }

    fn phase_ends(&mut self, client: usize) -> Result<()> {
        match self.phase {
            Phase::Inspecting(_) => {
                if self.judged_by == Property::Synced {
                    self.oracle.forget_history();
                }
                self.judged_by = Property::Reads;
                self.begin_running();
            }
            Phase::Closing if self.calls.is_empty() && self.clients.iter().all(|client| client.holds_nothing()) => {
                self.phase = Phase::Draining { drains: 0 };
                self.queue.retain(|_, event| !matches!(event, Event::Ask(_)));
                self.schedule(1_000, Event::Ask(client));
            }
            Phase::LastLook(_) => return self.last_look_ends(),
            _ => {}
        }
        Ok(())
    }

    fn begin_closing(&mut self) -> Result<()> {
        if !self.calls.is_empty() {
            return Ok(());
        }
        self.phase = Phase::Closing;
        self.weather = Default::default();
        self.queue.retain(|_, event| !matches!(event, Event::Ask(_) | Event::Weather | Event::Disk));
        self.disk_at_the_end();
        if self.liveness.log_has_failed() && !self.journal_is_broken {
            // A log that has failed is used again only by a new process.
            return self.crash_now(false, None);
        }
        if self.chance.chance(DEPARTS_PER_MILLE) {
            self.clients.iter_mut().for_each(|client| client.forget_all());
            self.ask(0, Request::Depart);
            return Ok(());
        }
        for client in 0..self.clients.len() {
            self.schedule(1_000, Event::Ask(client));
        }
        Ok(())
    }

    fn drain_ends(&mut self, reply: &Reply) -> Result<()> {
        let Phase::Draining { drains } = &mut self.phase else { return Ok(()) };
        *drains += 1;
        let drains = *drains;
        if self.journal_is_broken {
            // It could be brought home or not: what a further crash would leave, no journal says.
            self.check_home_without_journal(reply)?;
            self.phase = Phase::Over;
            return Ok(());
        }
        if self.is_meddled {
            // It may have given up what has lost its place at home. That it ends is what counts.
            self.phase = Phase::Over;
            return Ok(());
        }
        if self.disk.is_full() {
            // A drain has an end all the same. When there is space again, the next one has everything home.
            self.disk.has_space();
            self.phase = Phase::Draining { drains: 0 };
            self.schedule(1_000, Event::Ask(0));
            return Ok(());
        }
        match reply {
            Reply::Drained { failures } if failures.is_empty() => {
                let Status { dirty_bytes, dirty_names, .. } = self.machine().status();
                if (dirty_bytes, dirty_names) != (0, 0) {
                    let left = format!("everything went home, but {dirty_bytes} bytes and {dirty_names} names are left");
                    return Err(self.violation(Property::Liveness, left));
                }
                self.phase = Phase::LastLook(Inspector::new(2 * self.scenario.config.chunk_bytes, self.scenario.workload.is_complete));
            }
            Reply::Drained { failures } if drains >= DRAINS_MAX => {
                return Err(self.violation(Property::Liveness, format!("home is well, but a drain gave up: {failures:?}")));
            }
            Reply::Drained { .. } => {}
            other => return Err(self.violation(Property::Liveness, format!("a drain was answered with {other:?}"))),
        }
        self.schedule(1_000, Event::Ask(0));
        Ok(())
    }

    /// Everything is home, and was read once more. One last crash must change nothing.
    fn last_look_ends(&mut self) -> Result<()> {
        if self.scenario.faults.crashes > 0 && !self.last_crash_is_over {
            self.last_crash_is_over = true;
            self.crashes_left = 0;
            let power = self.scenario.faults.power_loss_per_mille > 0;
            return self.crash_now(power, None);
        }
        self.phase = Phase::Over;
        Ok(())
    }

    /// Whether effects of the log may fail now.
    pub(super) fn log_may_fail(&self) -> bool {
        self.phase == Phase::Running && self.actions_left > 0
    }

    /// For a while home refuses every change, or answers nothing.
    fn begin_spell(&mut self) {
        let mut length_ns = *self.chance.pick(&[300_000_000, 3_000_000_000, 20_000_000_000]);
        if self.chance.chance(300) {
            length_ns = 60_000_000_000;
            self.weather.stalled_until = self.now + length_ns;
        } else {
            self.weather.refusing = Some(*self.chance.pick(&[Errno::EIO, Errno::ENOSPC, Errno::EDQUOT, Errno::EROFS]));
        }
        self.liveness.stalled(self.now + length_ns);
        self.schedule(length_ns, Event::Weather);
    }

    /// Somebody removes a tree at home, or a file, or changes its bytes.
    fn meddle(&mut self) {
        let mut paths = Vec::new();
        self.home.walk(&mut |path, _| paths.push(HomePath(path.as_bytes().into())));
        paths.retain(|path| !path.as_bytes().is_empty());
        if paths.is_empty() {
            return;
        }
        let path = self.chance.pick(&paths).clone();
        let breaches = self.home.breaches.len();
        self.is_meddled = true;
        self.home.forgiving = true;
        let is_file = self.home.stat(&path).is_ok_and(|there| there.attr.kind == Kind::File);
        self.say(|| format!("=== somebody changes {path:?} at home"));
        match self.chance.below(3) {
            0 if is_file => self.home.write_unnoticed(&path, self.chance.below(5000), b"from elsewhere"),
            1 if is_file => {
                // No more than that it is another length.
                let change = HomeChange::Truncate { ino: Ino(0), path, size: self.chance.below(5000) };
                let _ = self.home.change(&change, self.now);
            }
            _ => {
                let below = |other: &&HomePath| {
                    let rest = other.as_bytes().strip_prefix(path.as_bytes());
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
                };
                let mut doomed: Vec<_> = paths.iter().filter(below).cloned().collect();
                doomed.sort_by_key(|path| std::cmp::Reverse(path.as_bytes().len()));
                for path in doomed {
                    let is_dir = self.home.stat(&path).is_ok_and(|there| there.attr.kind == Kind::Directory);
                    let change = if is_dir { HomeChange::RemoveDir { path } } else { HomeChange::Unlink { path } };
                    let _ = self.home.change(&change, self.now);
                }
            }
        }
        self.home.breaches.truncate(breaches);
    }

    /// Home gets better or worse.
    pub(super) fn change_weather(&mut self) {
        let weather_is_over = self.now.since_ns(Time(START_NS)) > WEATHER_NS_MAX;
        if weather_is_over || (self.phase != Phase::Running && !matches!(self.phase, Phase::Inspecting(_))) {
            self.weather = Weather::default();
            return;
        }
        self.weather.failing = !self.weather.failing && self.chance.chance(700);
        self.weather.refusing = None;
        let faults = &self.scenario.faults;
        let (meddled, spells) = (faults.home_meddled_per_mille, faults.home_spell_per_mille);
        if meddled > 0 && self.chance.chance(meddled) {
            self.meddle();
        }
        if spells > 0 && self.chance.chance(spells) {
            return self.begin_spell();
        }
        if self.chance.chance(self.scenario.faults.home_stall_per_mille) {
            let stall_ns = *self.chance.pick(&[10_000_000, 300_000_000, 3_000_000_000]);
            self.weather.stalled_until = self.now + stall_ns;
            self.liveness.stalled(self.weather.stalled_until);
        }
        let length_ns = *self.chance.pick(&[1_000_000, 50_000_000, 700_000_000]);
        self.schedule(length_ns, Event::Weather);
    }
}

/// Puts things into the home directory that are there before the run.
pub(super) fn furnish(home: &mut Home, workload: &Workload, rng: &mut Rng, stamps: &mut Stamps) {
    let mut dirs = vec![String::new()];
    let mut files: Vec<String> = Vec::new();
    for number in 0..workload.at_home {
        let at = Time(START_NS - rng.below(1_000_000_000_000));
        let dir = rng.pick(&dirs).clone();
        let name = format!("n{}", rng.below(workload.names));
        let path = if dir.is_empty() { name } else { format!("{dir}/{name}") };
        let home_path = HomePath(path.as_bytes().into());
        // A name that is taken makes a smaller tree, no more.
        let made = match rng.below(10) {
            0..=1 => home.make(&home_path, Kind::Directory, 0o755, at).map(|_| dirs.push(path)),
            2 => home.change(&HomeChange::SymLink { path: home_path.clone(), target: Name::new(b"some/where") }, at),
            3 => home.make(&home_path, Kind::Fifo, 0o600, at).map(drop),
            4 if workload.links_at_home && !files.is_empty() => {
                let from = HomePath(rng.pick(&files).as_bytes().into());
                home.change(&HomeChange::Link { from, to: home_path.clone() }, at)
            }
            _ => home.make(&home_path, Kind::File, 0o644, at).map(|_| {
                let len = rng.below(workload.file_bytes_max.min(200_000) + 1);
                let stamp = Stamp((1 << 32) + number);
                stamps.record(stamp, Ino(0), 0, len);
                let written = home.write(&home_path, 0, &stamp::payload(stamp, len as usize), at);
                assert_eq!(written, Ok(()), "a file that was made is there");
                files.push(path);
            }),
        };
        if workload.is_complete && made.is_ok() && rng.chance(400) {
            home.give_xattr(&home_path, Name::new(format!("user.{}", rng.below(3)).as_bytes()), b"from home");
        }
    }
    home.breaches.clear();
    home.settle();
}
