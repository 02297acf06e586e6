//! What the kernel is told without having asked.

use std::os::fd::OwnedFd;
use std::sync::Weak;

use forebay_core::id::Ino;
use rustix::io::Errno;

use crate::abi::Put;
use crate::answer;

/// `FUSE_NOTIFY_INVAL_INODE`.
const INVAL_INODE: i32 = 2;
/// `FUSE_NOTIFY_INVAL_ENTRY`.
const INVAL_ENTRY: i32 = 3;

/// `FUSE_NOTIFY_RESEND`.
pub(crate) const RESEND: i32 = 7;

/// Whether the kernel knows an inode. It forgets the inode's attributes.
pub(crate) fn is_known(device: &OwnedFd, ino: Ino) -> bool {
    !matches!(answer::notify(device, INVAL_INODE, &inode_body(ino, false)), Err(Errno::NOENT | Errno::NODEV))
}

fn inode_body(ino: Ino, bytes: bool) -> Vec<u8> {
    let mut body = Vec::new();
    body.put_u64(ino.0);
    // A negative offset means the attributes alone, length 0 to the end.
    body.put_u64(if bytes { 0 } else { -1i64 as u64 });
    body.put_u64(0);
    body
}

/// Tells the kernel what it must not keep any longer. Does nothing once the mount has ended.
#[derive(Clone, Debug)]
pub struct Notifier {
    pub(crate) device: Weak<OwnedFd>,
}

impl Notifier {
    /// The kernel forgets the attributes of an inode, and with `bytes` also the pages of its file that are not dirty.
    ///
    /// With `bytes` it waits for requests about these pages: never call it so from a thread that serves the mount.
    pub fn forget_inode(&self, ino: Ino, bytes: bool) {
        self.tell(INVAL_INODE, &inode_body(ino, bytes));
    }

    /// The kernel forgets what it knows of a name; unless it is in use, also its inode.
    ///
    /// It waits for requests that change the directory: never call it from a thread that serves the mount.
    pub fn forget_name(&self, directory: Ino, name: &[u8]) {
        let mut body = Vec::new();
        body.put_u64(directory.0);
        body.put_u32(name.len() as u32);
        body.put_u32(0);
        body.extend_from_slice(name);
        body.push(0);
        self.tell(INVAL_ENTRY, &body);
    }

    fn tell(&self, code: i32, body: &[u8]) {
        if let Some(device) = self.device.upgrade() {
            // An error means that the kernel does not know it, or that there is no mount any more: it is forgotten either way.
            let _ = answer::notify(&device, code, body);
        }
    }
}
