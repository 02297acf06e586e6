//! What an instance asks of its home, and what an I/O server does beyond that.
//!
//! Every method may be called by several threads at a time, and may wait for a device or a peer. Each change may meet its own effect of
//! before (it was carried out, and the answer was lost): what is already so counts as done.

use std::os::fd::OwnedFd;

use forebay_core::effect::{HomeAttr, HomeChange, Outcome};
use forebay_core::entries::Entries;
use forebay_core::errno::Errno;
use forebay_core::hybrid::ServerPolicy;
use forebay_core::id::{HomePath, Ino, Name, ServerId};
use forebay_core::message::{SeekWhence, StatFs};
use forebay_core::policy::admission::Reason;
use forebay_core::policy::{RequestClass, Target};
use forebay_core::xattr::Xattr;
use serde::{Deserialize, Serialize};

use super::{PosixHome, Result};

/// Where an instance brings its files: one method for each effect of the core on home.
///
/// An inode's number is the caller's: it names an open file between calls, nothing else. Whoever serves several callers goes by the path.
///
/// All errors are the file system's, or those of the way to it.
pub trait Home: Send + Sync {
    /// What it is called in messages: a path, or addresses.
    fn describe(&self) -> String;
    /// The directory itself, for a process that takes over from this one; `ENOTSUP` where home is none.
    fn root(&self) -> Result<OwnedFd> {
        Err(Errno::ENOTSUP)
    }
    /// The entries of a directory without `.` and `..`, in no order.
    fn list(&self, path: &HomePath) -> Result<Entries>;
    /// The attributes of an object, not following a symlink. The size counts every byte that a read would give.
    fn stat(&self, path: &HomePath) -> Result<HomeAttr>;
    /// The target of a symlink; `EINVAL` if it is none.
    fn read_link(&self, path: &HomePath) -> Result<Name>;
    /// Space.
    fn stat_fs(&self) -> Result<StatFs>;
    /// The user's extended attributes of an object, in the order of their names; `ENOTSUP` where there can be none.
    fn xattrs(&self, path: &HomePath) -> Result<Vec<Xattr>>;
    /// Reads from a file into `buf`; what lies behind the end of the file becomes zeros. The bytes that were there.
    fn read(&self, ino: Ino, path: &HomePath, offset: u64, buf: &mut [u8]) -> Result<u32>;
    /// Writes bytes into a file. After an error any part of them may be there.
    fn write(&self, ino: Ino, path: &HomePath, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Whether `len` bytes at `offset` have this CRC-32C, looked up on the medium where it can be. The file was synced.
    fn compare(&self, ino: Ino, path: &HomePath, offset: u64, len: u64, crc: u32) -> Result<bool>;
    /// Whether a range holds nothing but zeros, up to the file's end. The file was synced.
    fn compare_zeros(&self, ino: Ino, path: &HomePath, offset: u64, len: u64) -> Result<bool>;
    /// The next data or hole at `offset` or behind it; `None` behind the end.
    fn seek(&self, ino: Ino, path: &HomePath, offset: u64, whence: SeekWhence) -> Result<Option<u64>>;
    /// Makes durable: the data of these files, and the names in these directories.
    fn sync(&self, files: &[(Ino, HomePath)], directories: &[HomePath]) -> Result<()>;
    /// Carries out one change of names or attributes; what [`HomeChange`] says that it gives.
    fn change(&self, change: &HomeChange) -> Result<Outcome>;
    /// Whether [`Home::forget`] may have something to do. Never waits.
    fn may_hold(&self, ino: Ino) -> bool;
    /// The inode is dead, was renamed or is forgotten: nothing is kept open for it any more.
    fn forget(&self, ino: Ino);
}

/// What a client says of a read or a write (I-01): it alone knows the whole request.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct RequestHint {
    /// What the request is by itself.
    pub class: RequestClass,
    /// The servers that hold the other parts of a fragment's request, by the client's numbers.
    pub siblings: Vec<ServerId>,
}

/// Writes of one kind that a server has taken.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct WriteCount {
    /// What the client said of them.
    pub class: RequestClass,
    /// The device that they went to.
    pub target: Target,
    /// Why.
    pub reason: Reason,
    /// How many.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What an I/O server has done since its start, and how it stands.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct IoStatus {
    /// The policy of now.
    pub policy: ServerPolicy,
    /// Bytes that the SSD may hold; 0 if there is none.
    pub ssd_bytes: u64,
    /// Bytes on the SSD that are not on the disk yet; while a region is filled, what was written over counts, too.
    pub dirty_bytes: u64,
    /// Requests that are not answered.
    pub open_requests: u64,
    /// Writes by class, device and reason.
    pub writes: Vec<WriteCount>,
    /// Reads.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Of them, those that came from the SSD.
    pub read_ssd_bytes: u64,
    /// Writes that waited for room on the SSD.
    pub waits_for_room: u64,
    /// Writes that waited for others in their range.
    pub waits_for_range: u64,
    /// Writes to the disk that took older bytes on the SSD out of the way.
    pub superseding: u64,
    /// Regions that were flushed.
    pub flushes: u64,
    /// Bytes that flushes brought to the disk.
    pub flushed_bytes: u64,
    /// How long flushes rested for the sake of other requests, ns.
    pub flush_rested_ns: u64,
    /// The average service time of the disk, if the policy keeps it (I-06), ns.
    pub service_ns: Option<u64>,
    /// What the SSD's device last refused, in words; such writes went to the disk.
    pub ssd_fault: Option<String>,
}

/// An I/O server: a home that is told more of each request, and can be asked how it fares.
///
/// The methods of [`Home`] do the same as those here, for a request of which nothing is said.
pub trait IoService: Home {
    /// As [`Home::read`].
    fn read_hinted(&self, ino: Ino, path: &HomePath, offset: u64, buf: &mut [u8], hint: &RequestHint) -> Result<u32>;
    /// As [`Home::write`].
    fn write_hinted(&self, ino: Ino, path: &HomePath, offset: u64, bytes: &[u8], hint: &RequestHint) -> Result<()>;
    /// Returns when everything that was answered before stands on the disk, durably.
    fn drain(&self) -> Result<()>;
    /// The average service time of this server's disk, if its policy keeps it (I-06), ns.
    fn service_ns(&self) -> Option<u64>;
    /// The average service times of other servers' disks, never of this one, by the numbers that clients use (I-06), ns.
    fn hear_service_times(&self, times: &[(ServerId, u64)]);
    /// How it stands.
    fn status(&self) -> IoStatus;
    /// From now on requests go by this policy. What is on the SSD stays there until it is flushed.
    fn set_policy(&self, policy: ServerPolicy) -> Result<()>;
    /// Ends what goes on in the background, after what is under way, and lets go of the SSD; later calls fail. What is on the SSD
    /// stays there.
    fn stop(&self);
}

/// The methods of the same names.
impl Home for PosixHome {
    fn describe(&self) -> String {
        self.path().display().to_string()
    }

    fn root(&self) -> Result<OwnedFd> {
        self.root().map_err(|error| crate::errno(&error))
    }

    fn list(&self, path: &HomePath) -> Result<Entries> {
        self.list(path)
    }

    fn stat(&self, path: &HomePath) -> Result<HomeAttr> {
        self.stat(path)
    }

    fn read_link(&self, path: &HomePath) -> Result<Name> {
        self.read_link(path)
    }

    fn stat_fs(&self) -> Result<StatFs> {
        self.stat_fs()
    }

    fn xattrs(&self, path: &HomePath) -> Result<Vec<Xattr>> {
        self.xattrs(path)
    }

    fn read(&self, ino: Ino, path: &HomePath, offset: u64, buf: &mut [u8]) -> Result<u32> {
        self.read(ino, path, offset, buf)
    }

    fn write(&self, ino: Ino, path: &HomePath, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write(ino, path, offset, bytes)
    }

    fn compare(&self, ino: Ino, path: &HomePath, offset: u64, len: u64, crc: u32) -> Result<bool> {
        self.compare(ino, path, offset, len, crc)
    }

    fn compare_zeros(&self, ino: Ino, path: &HomePath, offset: u64, len: u64) -> Result<bool> {
        self.compare_zeros(ino, path, offset, len)
    }

    fn seek(&self, ino: Ino, path: &HomePath, offset: u64, whence: SeekWhence) -> Result<Option<u64>> {
        self.seek(ino, path, offset, whence)
    }

    fn sync(&self, files: &[(Ino, HomePath)], directories: &[HomePath]) -> Result<()> {
        self.sync(files, directories)
    }

    fn change(&self, change: &HomeChange) -> Result<Outcome> {
        self.change(change)
    }

    fn may_hold(&self, ino: Ino) -> bool {
        self.may_hold(ino)
    }

    fn forget(&self, ino: Ino) {
        self.forget(ino);
    }
}

/// A plain directory is a server without an SSD.
impl IoService for PosixHome {
    fn read_hinted(&self, ino: Ino, path: &HomePath, offset: u64, buf: &mut [u8], _hint: &RequestHint) -> Result<u32> {
        self.read(ino, path, offset, buf)
    }

    fn write_hinted(&self, ino: Ino, path: &HomePath, offset: u64, bytes: &[u8], _hint: &RequestHint) -> Result<()> {
        self.write(ino, path, offset, bytes)
    }

    fn drain(&self) -> Result<()> {
        self.sync_all()
    }

    fn service_ns(&self) -> Option<u64> {
        None
    }

    fn hear_service_times(&self, _times: &[(ServerId, u64)]) {}

    fn status(&self) -> IoStatus {
        IoStatus { policy: ServerPolicy::None, ..IoStatus::default() }
    }

    /// Only [`ServerPolicy::None`]: there is no SSD.
    fn set_policy(&self, policy: ServerPolicy) -> Result<()> {
        if policy == ServerPolicy::None { Ok(()) } else { Err(Errno::EINVAL) }
    }

    fn stop(&self) {}
}
