//! Getting a file descriptor of a FUSE mount.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::thread::CapabilitySet;

use crate::{MountError, MountOptions};

/// The setuid program that mounts for ordinary users.
pub(crate) const HELPER: &str = "fusermount3";
const DEVICE: &str = "/dev/fuse";

/// Mounts on `mountpoint`; gives the descriptor on which the kernel will ask.
pub(crate) fn open_mounted(mountpoint: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let device = open_device()?;
    match mount_directly(&device, mountpoint, options) {
        Ok(()) => Ok(device.into()),
        Err(Errno::PERM) => mount_with_helper(mountpoint, options),
        Err(errno) => Err(MountError::Refused { path: mountpoint.into(), reason: io::Error::from(errno).to_string() }),
    }
}

/// The helper opens the device with its caller's permissions, so that this tells for both ways.
fn open_device() -> Result<File, MountError> {
    OpenOptions::new().read(true).write(true).open(DEVICE).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => MountError::NoDevice,
        _ if source.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => MountError::NoDevice,
        _ => MountError::DeviceDenied { source },
    })
}

/// Whether every check of permissions would let this user pass: root, with what makes it root, outside of any container of users.
fn passes_all_checks() -> bool {
    let is_root = rustix::process::getuid().is_root() && rustix::process::geteuid().is_root();
    let overrides = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::FOWNER));
    let all_users = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    is_root && overrides && all_users.split_whitespace().eq(["0", "0", "4294967295"])
}

/// With mount(2), for who may call it. Set-user-id bits and devices work, as they do on the home directory's file system.
///
/// The kernel checks permissions (`default_permissions`), and for that asks for a directory's attributes whenever something in it has
/// changed. Where only root can get in, who passes every check, it is spared the question.
fn mount_directly(device: &File, mountpoint: &Path, options: &MountOptions) -> Result<(), Errno> {
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={}",
        device.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw()
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    if options.allow_other || !passes_all_checks() {
        data.push_str(",default_permissions");
    }
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    rustix::mount::mount(options.source.as_str(), mountpoint, "fuse.forebay", MountFlags::empty(), data.as_c_str())
}

/// The helper mounts and sends the descriptor over a socket, which is its standard input: so nothing needs to be inherited otherwise.
fn mount_with_helper(mountpoint: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let refused = |reason: String| MountError::Refused { path: mountpoint.into(), reason };
    let (ours, theirs) = UnixStream::pair().map_err(|error| refused(error.to_string()))?;
    let mut flags = format!("default_permissions,nosuid,nodev,subtype=forebay,fsname={}", escape(&options.source));
    if options.allow_other {
        flags.push_str(",allow_other");
    }
    let child = Command::new(HELPER)
        .arg("-o")
        .arg(flags)
        .arg("--")
        .arg(mountpoint)
        .env("_FUSE_COMMFD", "0")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let child = match child {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(MountError::NoHelper),
        Err(error) => return Err(refused(format!("{HELPER} cannot be run: {error}"))),
    };
    let received = receive_descriptor(&ours);
    let output = child.wait_with_output().map_err(|error| refused(error.to_string()))?;
    let message = String::from_utf8_lossy(&output.stderr).trim().to_string();
    match received {
        Ok(Some(device)) => Ok(device),
        _ if message.contains("user_allow_other") => Err(MountError::AllowOtherDenied),
        _ if !message.is_empty() => Err(refused(message)),
        Ok(None) => Err(refused(format!("{HELPER} ended with {} and gave no reason", output.status))),
        Err(errno) => Err(refused(format!("nothing was received from {HELPER}: {}", io::Error::from(errno)))),
    }
}

/// `None` if the other end was closed without one.
fn receive_descriptor(socket: &UnixStream) -> Result<Option<OwnedFd>, Errno> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    loop {
        match recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
            Ok(_) => break,
        }
    }
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(descriptors.flatten().next())
}

/// In the helper's options a comma ends one.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,")
}
