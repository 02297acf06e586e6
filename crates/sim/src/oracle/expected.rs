//! What the answer to a request must be.

use std::rc::Rc;

use forebay_core::errno::Errno;
use forebay_core::id::Name;
use forebay_core::message::SeekWhence;

use super::state::{Inode, ModelIno, are_alike, have_same_shape, merge_times};

/// What the answer to a request must be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expected {
    /// `Done`.
    Done,
    /// `Entry` or `Created`, and the inode as it was.
    Entry(ModelIno, Rc<Inode>),
    /// `Attr`, and the inode as it was.
    Attr(ModelIno, Rc<Inode>),
    /// A symlink's target.
    Target(Name),
    /// Bytes of the inode as it was.
    #[allow(missing_docs)] // As in the request.
    Read { ino: ModelIno, inode: Rc<Inode>, offset: u64, len: u32 },
    /// A write was taken; the file as it was before.
    #[allow(missing_docs)] // As in the answer.
    Written { offset: u64, len: u32, before: Rc<Inode> },
    /// The next data or hole of the inode as it was.
    #[allow(missing_docs)] // As in the request.
    Found { inode: Rc<Inode>, offset: u64, whence: SeekWhence },
    /// The value of an extended attribute.
    Xattr(Vec<u8>),
    /// The names of all extended attributes.
    XattrNames(Vec<Name>),
    /// A directory was opened.
    DirOpened(ModelIno),
    /// Entries of the directory as it was.
    #[allow(missing_docs)] // As in the request.
    Entries { handle: u64, from: u64, max: u32, inode: Rc<Inode> },
    /// Ranges without a gap of the file as it was.
    #[allow(missing_docs)] // As in the request.
    Where { inode: Rc<Inode>, from: u64, max: u32 },
    /// One of these errors.
    Error(&'static [Errno]),
    /// This, or an error: what is asked for has lost its last name.
    DoneOrGone(Box<Expected>),
    /// Anything: the oracle has no opinion.
    Anything,
    /// Nothing: in this state the request cannot have been made.
    Impossible,
}

impl Expected {
    fn inode(&self) -> Option<&Rc<Inode>> {
        match self {
            Expected::Entry(_, inode)
            | Expected::Attr(_, inode)
            | Expected::Read { inode, .. }
            | Expected::Entries { inode, .. }
            | Expected::Found { inode, .. }
            | Expected::Where { inode, .. } => Some(inode),
            Expected::DoneOrGone(expected) => expected.inode(),
            _ => None,
        }
    }

    fn inode_mut(&mut self) -> Option<&mut Rc<Inode>> {
        match self {
            Expected::Entry(_, inode)
            | Expected::Attr(_, inode)
            | Expected::Read { inode, .. }
            | Expected::Entries { inode, .. }
            | Expected::Found { inode, .. }
            | Expected::Where { inode, .. } => Some(inode),
            Expected::DoneOrGone(expected) => expected.inode_mut(),
            _ => None,
        }
    }

    /// Whether the two differ in times at most.
    pub(super) fn is_like(&self, other: &Expected) -> bool {
        match (self, other) {
            (Expected::Entry(a_ino, a), Expected::Entry(b_ino, b)) | (Expected::Attr(a_ino, a), Expected::Attr(b_ino, b)) => {
                a_ino == b_ino && are_alike(a, b)
            }
            // The same request of the same call: only the inode can differ.
            (Expected::Read { ino: a_ino, inode: a, .. }, Expected::Read { ino: b_ino, inode: b, .. }) => a_ino == b_ino && are_alike(a, b),
            (Expected::Entries { inode: a, .. }, Expected::Entries { inode: b, .. })
            | (Expected::Found { inode: a, .. }, Expected::Found { inode: b, .. })
            | (Expected::Where { inode: a, .. }, Expected::Where { inode: b, .. }) => are_alike(a, b),
            (Expected::Written { offset: a_offset, len: a_len, .. }, Expected::Written { offset: b_offset, len: b_len, .. }) => {
                (a_offset, a_len) == (b_offset, b_len)
            }
            (Expected::DoneOrGone(a), Expected::DoneOrGone(b)) => a.is_like(b),
            (a, b) => a == b,
        }
    }

    /// Whether the two differ in times and in a file's bytes at most.
    pub(super) fn has_same_shape(&self, other: &Expected) -> bool {
        match (self, other) {
            (Expected::Entry(a_ino, a), Expected::Entry(b_ino, b)) | (Expected::Attr(a_ino, a), Expected::Attr(b_ino, b)) => {
                a_ino == b_ino && have_same_shape(a, b)
            }
            (Expected::DoneOrGone(a), Expected::DoneOrGone(b)) => a.has_same_shape(b),
            (a, b) => a.is_like(b),
        }
    }

    /// Lets every time be one of both.
    pub(super) fn merge_times(&mut self, other: &Expected) {
        if let (Some(into), Some(other)) = (self.inode_mut(), other.inode()) {
            merge_times(into, other);
        }
    }
}

impl From<Errno> for Expected {
    fn from(errno: Errno) -> Expected {
        Expected::Error(match errno {
            Errno::ENOENT => &[Errno::ENOENT, Errno::ESTALE],
            Errno::ENOTDIR => &[Errno::ENOTDIR],
            Errno::ENODATA => &[Errno::ENODATA],
            Errno::EEXIST => &[Errno::EEXIST],
            Errno::EISDIR => &[Errno::EISDIR],
            Errno::EINVAL => &[Errno::EINVAL],
            Errno::EPERM => &[Errno::EPERM],
            Errno::ENAMETOOLONG => &[Errno::ENAMETOOLONG],
            Errno::ENOTEMPTY => &[Errno::ENOTEMPTY, Errno::EEXIST],
            Errno::ESTALE => return Expected::Impossible,
            other => panic!("the model does not know {other:?}"),
        })
    }
}
