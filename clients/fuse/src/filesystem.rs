//! The kernel's requests, each carried to the server and its answer back.

use forebay_client::{Client, Transport};
use forebay_core::attr::{Attr, Caller, Kind};
use forebay_core::errno::Errno;
use forebay_core::id::Ino;
use forebay_core::message::RenameMode;
use rustix::fs::{Access, OFlags, RenameFlags};

use crate::abi::{self, OPEN_DIRECT_IO, OPEN_KEEP_CACHE, OPEN_NO_FLUSH, Put};
use crate::answer::{put_attr_out, put_entry, put_no_entry, put_open, put_stat_fs};
use crate::convert::{allocate_mode, attr_change, kind_of_mode, permissions, seek_whence, xattr_mode};
use crate::held::Giving;
use crate::listing::{self, Listing};
use crate::negotiate::Agreed;
use crate::operation::{Header, Operation};
use crate::virtual_files::is_virtual;

const ENOTTY: Errno = Errno(25);
const ROOT: u32 = 0;

/// What to answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The body that was put.
    Body,
    /// So many bytes at the start of the data.
    Data(u32),
    /// Nothing: the kernel does not wait.
    Silence,
}

/// One request, the way to the server, and the space for the answer.
pub(crate) struct Exchange<'a, T: Transport> {
    pub(crate) client: Client<T>,
    pub(crate) agreed: &'a Agreed,
    /// Used if the kernel opens unasked; else nothing is in it.
    pub(crate) held: Option<&'a Giving<'a>>,
    pub(crate) header: &'a Header,
    /// The answer's body is put at the end.
    pub(crate) out: &'a mut Vec<u8>,
    /// The answer to a read.
    pub(crate) data: &'a mut Vec<u8>,
    /// The mode of the inode has changed, which the answer does not tell.
    pub(crate) mode_is_stale: bool,
}

fn has(flags: u32, flag: OFlags) -> bool {
    OFlags::from_bits_retain(flags).contains(flag)
}

impl<T: Transport> Exchange<'_, T> {
    /// Carries the request out.
    pub(crate) fn serve(&mut self, operation: Operation<'_>) -> Result<Outcome, Errno> {
        let ino = Ino(self.header.node);
        let client = &self.client;
        match operation {
            Operation::Lookup { name } => return self.lookup(ino, name),
            Operation::Forget { count } => return Ok(self.forget([(ino.0, count)].into_iter())),
            Operation::BatchForget { items } => return Ok(self.forget(items)),
            Operation::GetAttr => return self.attr(client.get_attr(ino)),
            Operation::SetAttr(set) => return self.attr(client.set_attr(ino, attr_change(&set))),
            Operation::ReadLink => self.out.extend_from_slice(client.read_link(ino)?.as_bytes()),
            Operation::SymLink { name, target } => return self.entry(client.sym_link(ino, name, target, self.caller())),
            Operation::MakeNode { name, mode, rdev } => {
                let kind = kind_of_mode(mode).ok_or(Errno::EINVAL)?;
                if kind == Kind::File && self.held.is_some() {
                    // Nothing differs but that it is open already.
                    return self.created(client.create(ino, name, permissions(mode), true, self.caller()));
                }
                return self.entry(client.make_node(ino, name, kind, permissions(mode), rdev, self.caller()));
            }
            Operation::MakeDir { name, mode } => return self.entry(client.make_dir(ino, name, permissions(mode), self.caller())),
            Operation::Unlink { name } => client.unlink(ino, name)?,
            Operation::RemoveDir { name } => client.remove_dir(ino, name)?,
            Operation::Rename { name, new_parent, new_name, flags } => {
                client.rename(ino, name, Ino(new_parent), new_name, rename_mode(flags)?)?;
            }
            Operation::Link { node, new_name } => return self.entry(client.link(Ino(node), ino, new_name)),
            // The kernel does not ask again for either: it opens by itself, and makes files with MKNOD.
            Operation::Open { .. } | Operation::Create { .. } if self.held.is_some() => return Err(Errno::ENOSYS),
            Operation::Open { .. } => {
                client.open(ino)?;
                // The number of the request names what was opened: no other open file has it.
                put_open(self.out, self.header.unique, if is_virtual(ino) { OPEN_DIRECT_IO } else { self.open_flags() });
            }
            Operation::Create { name, mode, flags } => {
                let (ino, attr) = client.create(ino, name, permissions(mode), has(flags, OFlags::EXCL), self.caller())?;
                put_entry(self.out, self.agreed.names_valid_s, ino, &attr);
                put_open(self.out, self.header.unique, self.open_flags());
            }
            Operation::Read { offset, len, .. } => return Ok(Outcome::Data(client.read(ino, offset, len, self.data)?)),
            Operation::Write { offset, write_flags, flags, data } => return self.write(ino, offset, write_flags, flags, data),
            Operation::Release { .. } => client.release(ino)?,
            Operation::Sync { .. } => client.sync(ino)?,
            Operation::StatFs => put_stat_fs(self.out, &client.stat_fs()?),
            Operation::OpenDir => put_open(self.out, client.open_dir(ino)?, 0),
            Operation::ReadDir { handle, offset, len, plus } => {
                let room_bytes = len.min(self.agreed.transfer_bytes_max);
                listing::fill(
                    client,
                    self.held,
                    &Listing { directory: ino, handle, offset, room_bytes, plus, valid_s: self.agreed.names_valid_s },
                    self.out,
                )?;
            }
            Operation::ReleaseDir { handle } => client.release_dir(handle)?,
            Operation::Destroy => {}
            Operation::Access { mask } => may_access(&client.get_attr(ino)?, mask)?,
            Operation::Ioctl => return Err(ENOTTY),
            Operation::SetXattr { name, value, flags } => {
                client.set_xattr(ino, name, value, xattr_mode(flags).ok_or(Errno::EINVAL)?)?;
            }
            Operation::GetXattr { name, size } => return self.value(&client.get_xattr(ino, name)?, size),
            Operation::ListXattr { size } => {
                let names = client.list_xattr(ino)?;
                let list: Vec<u8> = names.iter().flat_map(|name| [name.as_bytes(), &[0]].concat()).collect();
                return self.value(&list, size);
            }
            Operation::RemoveXattr { name } => client.remove_xattr(ino, name)?,
            Operation::Fallocate { offset, len, mode } => {
                // The kernel does not tell here who may leave set-id bits; it is root in general.
                let drops_set_id = self.header.uid != ROOT;
                client.allocate(ino, offset, len, allocate_mode(mode).ok_or(Errno::ENOTSUP)?, drops_set_id)?;
                self.mode_is_stale |= drops_set_id;
            }
            // The kernel may have kept bytes in what is a hole here, and does not bring them first: it shall take all for data.
            Operation::Seek { .. } if self.agreed.kernel_write_back => return Err(Errno::ENOSYS),
            Operation::Seek { offset, whence } => self.out.put_u64(client.seek(ino, offset, seek_whence(whence).ok_or(Errno::EINVAL)?)?),
            // A close: nothing is kept back here, so there is nothing to do. `ENOSYS` makes the kernel remember it and answer by itself:
            // success for the flush at a close, copy_file_range by reading and writing, always ready for poll. Locks are not asked for,
            // so that the kernel keeps them itself, for all processes of this mount.
            Operation::Flush | Operation::Init { .. } | Operation::Other => return Err(Errno::ENOSYS),
        }
        Ok(Outcome::Body)
    }

    fn caller(&self) -> Caller {
        Caller { uid: self.header.uid, gid: self.header.gid }
    }

    /// Pages stay when a file is opened again, unless all is to be asked for here. Nothing but kept pages needs to be written back at a close.
    fn open_flags(&self) -> u32 {
        match (self.agreed.direct_io, self.agreed.kernel_write_back) {
            (true, _) => OPEN_DIRECT_IO | OPEN_NO_FLUSH,
            (false, true) => OPEN_KEEP_CACHE,
            (false, false) if self.agreed.opens_unasked => OPEN_KEEP_CACHE | OPEN_NO_FLUSH,
            (false, false) => OPEN_NO_FLUSH,
        }
    }

    fn lookup(&mut self, parent: Ino, name: &[u8]) -> Result<Outcome, Errno> {
        match self.client.lookup(parent, name) {
            Err(Errno::ENOENT) => put_no_entry(self.out, self.agreed.names_valid_s),
            result => return self.entry(result),
        }
        Ok(Outcome::Body)
    }

    /// An entry, for which the server has counted a reference.
    fn entry(&mut self, result: Result<(Ino, Attr), Errno>) -> Result<Outcome, Errno> {
        let (ino, attr) = result?;
        hold(&self.client, self.held, ino, &attr)?;
        put_entry(self.out, self.agreed.names_valid_s, ino, &attr);
        Ok(Outcome::Body)
    }

    /// An entry that the server has opened already.
    fn created(&mut self, result: Result<(Ino, Attr), Errno>) -> Result<Outcome, Errno> {
        let (ino, attr) = result?;
        if let Some(held) = self.held {
            // One that the kernel may have from before is open for it already.
            held.add(
                ino,
                true,
                || Ok(()),
                || {
                    let _ = self.client.release(ino);
                },
            )?;
        }
        put_entry(self.out, self.agreed.names_valid_s, ino, &attr);
        Ok(Outcome::Body)
    }

    fn attr(&mut self, result: Result<Attr, Errno>) -> Result<Outcome, Errno> {
        put_attr_out(self.out, self.agreed.names_valid_s, Ino(self.header.node), &result?);
        Ok(Outcome::Body)
    }

    fn forget(&self, items: impl Iterator<Item = (u64, u64)>) -> Outcome {
        for (ino, count) in items.map(|(ino, count)| (Ino(ino), count)) {
            if self.held.and_then(|held| held.inherited()).is_some_and(|inherited| inherited.doubt(ino)) {
                continue;
            }
            // There is no reply in which an error could be told, and none that could matter.
            if let Some(held) = self.held {
                held.held.give_back(ino, count, || {
                    let _ = self.client.release(ino);
                });
            }
            let _ = self.client.forget(ino, count);
        }
        Outcome::Silence
    }

    /// An extended attribute or a list of them; with no room, its length.
    fn value(&mut self, value: &[u8], room_bytes: u32) -> Result<Outcome, Errno> {
        match value.len() {
            // `fuse_getxattr_out`: how much, and padding.
            len if room_bytes == 0 => {
                self.out.put_u32(len as u32);
                self.out.put_u32(0);
            }
            len if len > room_bytes as usize => return Err(Errno::ERANGE),
            _ => self.out.extend_from_slice(value),
        }
        Ok(Outcome::Body)
    }

    fn write(&mut self, ino: Ino, offset: u64, write_flags: u32, flags: u32, data: &[u8]) -> Result<Outcome, Errno> {
        // Pages that the kernel has kept belong where they are, whatever the file that happens to carry them was opened for.
        // One that is sent again belongs there too: the kernel, which lets nobody else write meanwhile, has said where.
        let again = self.header.unique & abi::UNIQUE_RESEND != 0;
        let append = has(flags, OFlags::APPEND) && write_flags & abi::WRITE_OF_CACHE == 0 && !again;
        let written = self.client.write(ino, offset, data, append, write_flags & abi::WRITE_KILL_SUIDGID != 0)?;
        self.mode_is_stale |= written.dropped_set_id;
        // O_SYNC contains O_DSYNC.
        if has(flags, OFlags::DSYNC) && !self.agreed.kernel_syncs {
            self.client.sync(ino)?;
        }
        // `fuse_write_out`: how much, and padding.
        self.out.put_u32(data.len() as u32);
        self.out.put_u32(0);
        Ok(Outcome::Body)
    }
}

/// Opens a file for the kernel, which has got a reference to it; if that fails there is no reference.
pub(crate) fn hold<T: Transport>(client: &Client<T>, held: Option<&Giving<'_>>, ino: Ino, attr: &Attr) -> Result<(), Errno> {
    let Some(held) = held else { return Ok(()) };
    held.add(ino, attr.kind == Kind::File, || client.open(ino), || {}).map_err(|errno| {
        // It was removed meanwhile, say.
        let _ = client.forget(ino, 1);
        if errno == Errno::ESTALE { Errno::ENOENT } else { errno }
    })
}

/// The answer to access(2) for root, who may do everything but execute what nobody may.
fn may_access(attr: &Attr, mask: u32) -> Result<(), Errno> {
    let executes = Access::from_bits_retain(mask).contains(Access::EXEC_OK);
    if executes && attr.kind != Kind::Directory && attr.mode & 0o111 == 0 { Err(Errno::EACCES) } else { Ok(()) }
}

fn rename_mode(flags: u32) -> Result<RenameMode, Errno> {
    match RenameFlags::from_bits_retain(flags) {
        flags if flags.is_empty() => Ok(RenameMode::Replace),
        RenameFlags::NOREPLACE => Ok(RenameMode::NoReplace),
        RenameFlags::EXCHANGE => Ok(RenameMode::Exchange),
        _ => Err(Errno::EINVAL),
    }
}
