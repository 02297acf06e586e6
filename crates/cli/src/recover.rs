//! Finishing what a crash, or a drain that was stopped, has left in a buffer.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forebay_store::Superblock;

use crate::args::RecoverArgs;
use crate::console::Console;
use crate::control::server::ControlServer;
use crate::drain::{self, End};
use crate::engine::{self, Engine, Plan};
use crate::error::{Error, Exit};
use crate::last_word;
use crate::mounts;
use crate::places::{self, Place};
use crate::registry::{self, ProcessId, Tag};
use crate::servers::{self, Access, Servers};
use crate::session;
use crate::signals::Events;
use crate::size::Bytes;
use crate::view::{quoted, recover_command};

/// Threads that work at home; there is no application to leave room for.
const HOME_THREADS: usize = 8;

/// A buffer that nobody serves.
struct Left {
    buffer: PathBuf,
    superblock: Superblock,
    tag: Option<Tag>,
}

impl Left {
    /// Looks at the buffer in `buffer`, and refuses one that is in use.
    fn look(buffer: &Path) -> Result<Left, Error> {
        let buffer = buffer
            .canonicalize()
            .map_err(|error| Error::Buffer { buffer: buffer.into(), reason: format!("{error}; name the directory that a run has kept") })?;
        let tag = Tag::read(&buffer);
        if let Some(tag) = tag.as_ref().filter(|tag| tag.process.is_alive()) {
            let reason = format!(
                "it is in use by `forebay {}` (process {}); see `forebay status --buffer {}`",
                tag.role,
                tag.process.pid,
                quoted(&buffer)
            );
            return Err(Error::Buffer { buffer, reason });
        }
        let superblock = engine::read_superblock(&buffer)?;
        Ok(Left { buffer, superblock, tag })
    }

    /// Has the buffer belong to `backing`: the user says that its directory is there now.
    fn move_to(&mut self, backing: &Path, console: Console) -> Result<(), Error> {
        if self.superblock.backing == backing {
            return Ok(());
        }
        console.say(&format!("the buffer was for {}; it goes to {} now", self.superblock.backing.display(), backing.display()));
        self.superblock.backing = backing.into();
        let path = self.buffer.join("superblock");
        self.superblock.write(&path).map_err(|error| Error::Buffer { buffer: self.buffer.clone(), reason: error.to_string() })
    }

    /// Takes away the mount that the instance had, if it is dead.
    fn clear_mount(&self, console: Console) {
        let Some(tag) = &self.tag else { return };
        let Some(mount) = &tag.mount else { return };
        if mounts::mounted_at(mount).is_some() && mounts::is_dead(mount) {
            match engine::clear_dead_mount(mount) {
                Ok(_) => console.say(&format!("took away the dead mount at {}", mount.display())),
                Err(error) => console.warn(&format!(
                    "the dead mount at {} cannot be taken away: {error}; try: fusermount3 -u -z {}",
                    mount.display(),
                    quoted(mount)
                )),
            }
        }
        if tag.mount_made && mounts::mounted_at(mount).is_none() {
            // Gone already, or someone uses it by now: it stays.
            let _ = std::fs::remove_dir(mount);
        }
    }

    /// Brings home what the buffer holds, to `backing`, and removes the buffer's files. With `keep` they stay.
    /// Says how many signals were seen meanwhile.
    /// `force`: also if home is ahead of the buffer.
    fn finish(
        &self,
        backing: &Path,
        access: &Access,
        console: Console,
        events: &Events,
        (keep, force): (bool, bool),
    ) -> Result<u32, Error> {
        self.clear_mount(console);
        // The same as before: what the process that died has under way at servers ends first.
        let id = self.tag.as_ref().map_or_else(registry::fresh_id, |tag| tag.id.clone());
        let home = servers::any_home(backing, access, &id, &self.buffer)?;
        let place = (backing, &*home);
        if last_word::heed(&self.buffer, &self.superblock, place, force, console)? {
            return Ok(0);
        }
        let memory_dir = self.superblock.memory_path.parent();
        let plan = Plan {
            node: self.superblock.config.clone(),
            backing,
            buffer: &self.buffer,
            memory_dir,
            record: None,
            home_threads: HOME_THREADS,
            home: Servers::named(backing).map(|_| home.clone()),
            was_left: true,
        };
        let engine = Arc::new(Engine::start(&plan)?);
        self.tell_found(&engine, backing, console);
        let buffer = Place { path: self.buffer.clone(), made: self.tag.as_ref().is_some_and(|tag| tag.buffer_made) };
        let tag = session::own_tag(
            ProcessId::own().map_err(Error::io("tell this process from others"))?,
            "recover",
            &id,
            backing,
            &buffer,
            &plan.node,
        )?;
        tag.write().map_err(Error::io(format!("write to {}", self.buffer.display())))?;
        registry::forget_buffer(&self.buffer);
        let entry = tag.register().map_err(Error::io("enter the recovery into the list of this user's instances"))?;
        let _control = ControlServer::start(engine.clone(), tag.clone(), None).map_err(Error::io("listen on the control socket"))?;
        let mut signals_seen = 0;
        let (end, took) = drain::watch(&engine, &tag, events, console, &mut signals_seen)?;
        let end = if end == End::Clean { End::of_last_drain(&engine) } else { end };
        let status = engine.status();
        if let Some(error) = end.error(&tag) {
            if last_word::is_all_home(&status) {
                return last_word::let_go(&engine, &tag, console, || self.take_away(&engine)).map(|()| signals_seen);
            }
            let error = last_word::warn(&engine, &status, error);
            if engine.sync().is_err() {
                console.warn("the buffer could not be made durable: finish it before this machine is shut down");
            }
            return Err(error);
        }
        if keep {
            engine.shutdown();
        } else {
            self.take_away(&engine)?;
        }
        last_word::take_back(&self.superblock, place, console);
        entry.remove();
        let counters = status.counters;
        console.say(&format!(
            "everything is home in {} and compared there: {} written, {} compared, {} names, {:.1} s",
            backing.display(),
            Bytes(counters.home_written_bytes),
            Bytes(counters.compared_bytes),
            counters.home_names,
            took.as_secs_f64()
        ));
        Ok(signals_seen)
    }

    fn take_away(&self, engine: &Engine) -> Result<(), Error> {
        engine.shutdown();
        let cannot = Error::io(format!("remove the buffer {}, from which everything is home", self.buffer.display()));
        engine.remove_buffer().map_err(cannot)?;
        Tag::remove_own_files(&self.buffer);
        Ok(())
    }

    fn tell_found(&self, engine: &Engine, backing: &Path, console: Console) {
        let Some(found) = engine.recovered() else { return };
        console.say(&format!(
            "the buffer {} holds {} and {} names or attributes that are not home in {} ({} journal records)",
            self.buffer.display(),
            Bytes(found.dirty_bytes),
            found.dirty_names,
            backing.display(),
            found.records
        ));
        for note in &found.journal_notes {
            console.warn(note);
        }
        if found.cut_at.is_some() {
            let why = if found.memory_intact { "they are damaged" } else { "the machine was restarted, and they were in memory" };
            console.warn(&format!("the newest changes did not survive ({why}); everything that was fsynced is there"));
        }
    }

    fn made(&self) -> bool {
        self.tag.as_ref().is_some_and(|tag| tag.buffer_made)
    }
}

/// Finishes the buffer that a new instance in front of `backing` is about to use. Says whether the directory was made for a buffer, and goes
/// with it.
pub(crate) fn before_start(buffer: &Path, backing: &Path, access: &Access, console: Console, events: &Events) -> Result<bool, Error> {
    let left = Left::look(buffer)?;
    let its = &left.superblock.backing;
    if its != backing {
        let reason = format!(
            "it holds what belongs to {}, not to {}; finish it first with `{}`, or name another with --buffer",
            its.display(),
            backing.display(),
            recover_command(&left.buffer)
        );
        return Err(Error::Buffer { buffer: buffer.into(), reason });
    }
    if left.finish(backing, access, console, events, (false, false))? > 0 {
        let message = "everything that the buffer held is home; a signal came meanwhile, so nothing new was started".into();
        return Err(Error::Coded { message, exit: Exit::Kept });
    }
    Ok(left.made())
}

/// `forebay recover`.
pub(crate) fn command(args: &RecoverArgs, console: Console) -> Result<(), Error> {
    let events = Events::take_signals()?;
    let mut left = Left::look(&args.buffer)?;
    let its = &left.superblock.backing;
    let elsewhere = args.servers.as_ref().map(|list| {
        let stripe_bytes = Servers::named(its).map_or(servers::STRIPE_BYTES, |servers| servers.stripe_bytes);
        Servers { addresses: list.0.clone(), stripe_bytes }.name()
    });
    let named = elsewhere.as_deref().or(args.backing.as_deref()).unwrap_or(its);
    let backing = if Servers::named(named).is_some() { named.to_path_buf() } else { places::backing(named)? };
    let access = Access { key_file: args.key_file.clone(), wait: Duration::from_nanos(servers::WAIT_NS), was_there: false };
    left.move_to(&backing, console)?;
    left.finish(&backing, &access, console, &events, (args.keep, args.force))?;
    // One that was there before the instance belongs to its owner.
    if !args.keep && left.made() && left.buffer.exists() {
        std::fs::remove_dir(&left.buffer).map_err(Error::io(format!("remove the empty directory {}", left.buffer.display())))?;
    }
    Ok(())
}
