//! Requests about extended attributes. They are learned from home when they are first needed, journaled as a whole when one changes, and
//! go home with the other attributes.

use alloc::vec::Vec;

use super::{Node, errno_of};
use crate::attr::Kind;
use crate::effect::Outcome;
use crate::errno::Errno;
use crate::id::{CallId, Ino, Name};
use crate::master::{Need, Stop};
use crate::message::{Reply, Request};
use crate::xattr::{self, Xattr};

impl Node {
    pub(super) fn xattr_call(&mut self, call: CallId, request: &Request) -> Result<(), Stop> {
        match request {
            Request::GetXattr { ino, name } => {
                xattr::check_name(name.as_bytes())?;
                self.check_home_has_xattrs()?;
                let value = xattr::get(self.xattrs_of(*ino)?, name)?.to_vec();
                self.reply(call, Reply::Xattr { value });
                Ok(())
            }
            Request::ListXattr { ino } => {
                let names = self.xattrs_of(*ino)?.iter().map(|xattr| xattr.name.clone()).collect();
                self.reply(call, Reply::XattrNames { names });
                Ok(())
            }
            Request::SetXattr { ino, name, value, mode } => {
                self.change_xattrs(call, *ino, name, |xattrs| xattr::set(xattrs, name, value, *mode))
            }
            Request::RemoveXattr { ino, name } => self.change_xattrs(call, *ino, name, |xattrs| xattr::remove(xattrs, name)),
            _ => Err(Errno::ENOSYS.into()),
        }
    }

    /// What an inode has; nothing, where it can have none.
    fn xattrs_of(&self, ino: Ino) -> Result<&[Xattr], Stop> {
        let inode = self.names.loaded(ino)?;
        match &inode.xattrs {
            Some(xattrs) => Ok(xattrs),
            None if inode.home_names.is_empty() && ino != Ino::ROOT => Ok(&[]),
            None if !can_have(inode.attr.kind) => Ok(&[]),
            None => Err(Stop::Need(Need::Xattrs(ino))),
        }
    }

    fn change_xattrs(
        &mut self,
        call: CallId,
        ino: Ino,
        name: &Name,
        change: impl FnOnce(&mut Vec<Xattr>) -> Result<(), Errno>,
    ) -> Result<(), Stop> {
        xattr::check_name(name.as_bytes())?;
        if !can_have(self.names.loaded(ino)?.attr.kind) {
            return Err(Errno::EPERM.into());
        }
        self.check_home_has_xattrs()?;
        let mut xattrs = self.xattrs_of(ino)?.to_vec();
        change(&mut xattrs)?;
        self.ensure_journaled(ino);
        let now_ns = self.now.as_nanos() as i64;
        let inode = self.names.inode_mut(ino)?;
        (inode.xattrs, inode.xattrs_differ) = (Some(xattrs), true);
        inode.attr.ctime_ns = now_ns;
        inode.attr_version += 1;
        let is_dir = inode.dir.is_some();
        self.names.attr_changed(ino);
        if !is_dir {
            self.home.note_dirty(ino);
        }
        if let Some(record) = self.names.xattrs_record(ino) {
            self.record_and_reply(record, call, Reply::Done);
        }
        Ok(())
    }

    /// What home could not take is not taken here.
    fn check_home_has_xattrs(&self) -> Result<(), Stop> {
        match self.home_xattrs {
            Some(true) => Ok(()),
            Some(false) => Err(Errno::ENOTSUP.into()),
            None => Err(Stop::Need(Need::Xattrs(Ino::ROOT))),
        }
    }

    pub(super) fn xattrs_done(&mut self, ino: Ino, result: Result<Outcome, Errno>) {
        self.home.leave(ino);
        let is_there = !matches!(result, Err(Errno::ENOTSUP | Errno::ENOSYS));
        let outcome = match result {
            Ok(Outcome::Xattrs(xattrs)) => Ok(xattrs),
            Err(Errno::ENOTSUP | Errno::ENOSYS) => Ok(Vec::new()),
            other => Err(errno_of(other)),
        };
        let outcome = outcome.map(|xattrs| {
            if ino == Ino::ROOT {
                self.home_xattrs = Some(is_there);
            }
            if let Ok(inode) = self.names.inode_mut(ino) {
                inode.xattrs.get_or_insert(xattrs);
            }
        });
        self.unpark(&Need::Xattrs(ino), outcome);
    }
}

/// As Linux has it: only files and directories have attributes of the user's.
fn can_have(kind: Kind) -> bool {
    matches!(kind, Kind::File | Kind::Directory)
}
