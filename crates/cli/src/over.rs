//! A mount namespace of this process's own, so that a view can be mounted over the backing directory itself and only the command sees it.
//!
//! Root makes one directly. Others make a user namespace with it, in which they are who they were: files keep the look of belonging to
//! them, those of others look as if they belonged to nobody. It must happen before this process has a second thread.

use std::io;

use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags, configure_capability_in_ambient_set};

use crate::error::{Error, Exit};

/// Who wants to see mounts of its own.
#[derive(Clone, Copy)]
pub(crate) struct Asker {
    /// What the user asked for.
    name: &'static str,
    /// How root would.
    as_root: &'static str,
}

impl Asker {
    pub(crate) const RUN: Asker = Asker { name: "--over", as_root: "sudo forebay run --over ..." };
    pub(crate) const TRACE: Asker = Asker { name: "`forebay trace`", as_root: "sudo forebay trace ..." };
}

/// A refusal, with the command that mends it behind a fixed phrase, by which `doctor` finds it.
fn refused(what: &str, error: io::Error, mend: &str) -> Error {
    let message = format!("{what} ({error}); mend it with: {mend}");
    Error::Coded { message, exit: Exit::Unavailable }
}

/// Leaves the namespaces that are named.
#[allow(deprecated)] // Its successor is for flags that concern file descriptors, of which another thread might know; these are none.
fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    rustix::thread::unshare(flags)
}

/// What forbids user namespaces here, as a command that allows them.
fn allow_user_namespaces(error: Errno) -> &'static str {
    let says = |path: &str, value: &str| std::fs::read_to_string(path).is_ok_and(|text| text.trim() == value);
    if says("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "sudo sysctl kernel.unprivileged_userns_clone=1"
    } else if says("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    } else if error == Errno::NOSPC || says("/proc/sys/user/max_user_namespaces", "0") {
        "sudo sysctl user.max_user_namespaces=10000"
    } else {
        "run it as root; or without --over, in a mount of its own (in a container, start it with: --security-opt seccomp=unconfined)"
    }
}

/// The process that serves is another one: it may do what this one may. Who is not root would lose that when a program is executed.
fn hand_on_capabilities() -> Result<(), Errno> {
    let sets = rustix::thread::capabilities(None)?;
    rustix::thread::set_capabilities(None, CapabilitySets { inheritable: sets.permitted, ..sets })?;
    sets.permitted.iter().try_for_each(|capability| configure_capability_in_ambient_set(capability, true))
}

/// What this thread starts from now on may do no more than its user, as if nothing had been handed on.
pub(crate) fn keep_capabilities() {
    // Where nothing was handed on, nothing is to be taken back.
    let _ = rustix::thread::clear_ambient_capability_set();
    if let Ok(sets) = rustix::thread::capabilities(None) {
        let _ = rustix::thread::set_capabilities(None, CapabilitySets { inheritable: CapabilitySet::empty(), ..sets });
    }
}

/// Has this process, and what it starts, see mounts of its own from now on. Mounts made elsewhere still arrive.
///
/// Called before any thread is started: the kernel refuses a user namespace to a process with several.
pub(crate) fn enter(asker: Asker) -> Result<(), Error> {
    let Asker { name, as_root } = asker;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut mend = as_root;
    match unshare(UnshareFlags::NEWNS) {
        Ok(()) => {}
        Err(Errno::PERM) => {
            unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).map_err(|error| {
                let what = format!("this user may not make a user namespace, which {name} needs");
                refused(&what, error.into(), allow_user_namespaces(error))
            })?;
            mend = allow_user_namespaces(Errno::PERM);
            let map = |file: &str, text: String| {
                let path = format!("/proc/self/{file}");
                std::fs::write(&path, text).map_err(|error| refused(&format!("{path} cannot be written, which {name} needs"), error, mend))
            };
            // The kernel takes a map of groups only from who has given up changing them.
            map("setgroups", "deny".into())?;
            map("uid_map", format!("{uid} {uid} 1"))?;
            map("gid_map", format!("{gid} {gid} 1"))?;
            hand_on_capabilities().map_err(|error| {
                refused(&format!("what this user may do here cannot be handed on, which {name} needs"), error.into(), mend)
            })?;
        }
        Err(error) => return Err(refused(&format!("no mount namespace can be made, which {name} needs"), error.into(), mend)),
    }
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .map_err(|error| refused(&format!("mounts cannot be made private, which {name} needs"), error.into(), mend))
}
