//! The user's extended attributes of objects of home.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};

use forebay_core::errno::Errno;
use forebay_core::id::{HomePath, Name};
use forebay_core::xattr::{self, Xattr};
use rustix::fs::{Mode, OFlags, XattrFlags};

use super::attributes::proc_path;
use super::{PosixHome, Result, errno};

/// An attribute that is asked for to learn whether there can be any.
const PROBE: &CStr = c"user.forebay";

impl PosixHome {
    /// The user's extended attributes of an object, in the order of their names.
    ///
    /// # Errors
    /// The file system's; `ENOTSUP` if it has none.
    pub fn xattrs(&self, path: &HomePath) -> Result<Vec<Xattr>> {
        let fd = self.open_at_home(path, OFlags::PATH, Mode::empty())?;
        let place = proc_path(fd.as_fd());
        let mut found = Vec::new();
        for name in self.xattr_names(fd.as_fd())? {
            // One that has gone since the listing is not there.
            let len = || rustix::fs::getxattr_query(&*place, &*name);
            match self.sized(fd.as_fd(), len, |value| rustix::fs::getxattr(&*place, &*name, value)) {
                Ok(value) => found.push(Xattr { name: Name::new(&name), value }),
                Err(Errno::ENODATA) => {}
                Err(error) => return Err(error),
            }
        }
        if found.is_empty() {
            let probed = rustix::fs::getxattr_query(&*place, PROBE);
            if let Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) = probed {
                return Err(Errno::ENOTSUP);
            }
        }
        found.sort();
        Ok(found)
    }

    fn xattr_names(&self, fd: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>> {
        let place = proc_path(fd);
        let names = self.sized(fd, || rustix::fs::listxattr_query(&*place), |names| rustix::fs::listxattr(&*place, names))?;
        let all = names.split(|byte| *byte == 0).filter(|name| xattr::check_name(name).is_ok());
        Ok(all.map(<[u8]>::to_vec).collect())
    }

    /// What a call gives that fills a buffer; `len` says how large that must be.
    fn sized(
        &self,
        fd: BorrowedFd<'_>,
        len: impl Fn() -> rustix::io::Result<usize>,
        call: impl Fn(&mut [u8]) -> rustix::io::Result<usize>,
    ) -> Result<Vec<u8>> {
        loop {
            let len = self.with_owners_right(fd, 0o400, &len)?;
            let mut bytes = vec![0; len];
            if len == 0 {
                return Ok(bytes);
            }
            match self.with_owners_right(fd, 0o400, || call(&mut bytes)) {
                // It has grown meanwhile.
                Err(Errno::ERANGE) => {}
                result => {
                    bytes.truncate(result?);
                    return Ok(bytes);
                }
            }
        }
    }

    fn with_owners_right<T>(&self, fd: BorrowedFd<'_>, right: u32, mut work: impl FnMut() -> rustix::io::Result<T>) -> Result<T> {
        match work() {
            Err(rustix::io::Errno::ACCESS) => self.with_rights(&[fd], right, work),
            result => result.map_err(errno),
        }
    }

    /// Gives an object these of the user's extended attributes, and no others.
    pub(super) fn set_xattrs(&self, fd: BorrowedFd<'_>, wanted: &[Xattr]) -> Result<()> {
        let place = proc_path(fd);
        let is_wanted = |name: &[u8]| wanted.iter().any(|xattr| xattr.name.as_bytes() == name);
        for name in self.xattr_names(fd)?.iter().filter(|name| !is_wanted(name)) {
            match self.with_owners_right(fd, 0o200, || rustix::fs::removexattr(&*place, name.as_slice())) {
                Err(Errno::ENODATA) => {}
                result => result?,
            }
        }
        for Xattr { name, value } in wanted {
            self.with_owners_right(fd, 0o200, || rustix::fs::setxattr(&*place, name.as_bytes(), value, XattrFlags::empty()))?;
        }
        Ok(())
    }
}
