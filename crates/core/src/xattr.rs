//! Extended attributes: the user's only. All others fail with `ENOTSUP`, as on a file system without them.

use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

use crate::errno::Errno;
use crate::id::Name;
use crate::master::NAME_BYTES_MAX;

/// The longest value, bytes, as Linux has it.
pub const XATTR_VALUE_BYTES_MAX: usize = 65_536;
/// Names and values of one inode, bytes: they are journaled as a whole.
pub const XATTRS_BYTES_MAX: usize = 128 << 10;
/// How the names begin that are the user's.
const USER: &[u8] = b"user.";

/// One extended attribute.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Xattr {
    /// Its name, with the namespace: `user.` and something.
    pub name: Name,
    /// Its value.
    pub value: Vec<u8>,
}

impl fmt::Debug for Xattr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({} bytes)", self.name, self.value.len())
    }
}

/// Whether an attribute may or must be there when it is set, as the flags of setxattr(2).
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum SetMode {
    /// Either.
    Any,
    /// `EEXIST` if it is there.
    Create,
    /// `ENODATA` if it is not.
    Replace,
}

/// Checks a name.
///
/// # Errors
/// `ENOTSUP` if it is not the user's; `ERANGE` if it is too long or empty.
pub fn check_name(name: &[u8]) -> Result<(), Errno> {
    match name {
        name if name.is_empty() || name.len() > NAME_BYTES_MAX => Err(Errno::ERANGE),
        name if !name.starts_with(USER) => Err(Errno::ENOTSUP),
        name if name.len() == USER.len() || name.contains(&0) => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

/// Sets one of an inode's attributes, which are in the order of their names.
///
/// # Errors
/// `EEXIST`, `ENODATA` by the mode; `E2BIG` for a value too long; `ENOSPC` when the inode has too many.
pub fn set(xattrs: &mut Vec<Xattr>, name: &Name, value: &[u8], mode: SetMode) -> Result<(), Errno> {
    if value.len() > XATTR_VALUE_BYTES_MAX {
        return Err(Errno::E2BIG);
    }
    let place = xattrs.binary_search_by(|xattr| xattr.name.cmp(name));
    match (place, mode) {
        (Ok(_), SetMode::Create) => return Err(Errno::EEXIST),
        (Err(_), SetMode::Replace) => return Err(Errno::ENODATA),
        _ => {}
    }
    let bytes = |xattr: &Xattr| xattr.name.as_bytes().len() + 1 + xattr.value.len();
    let others = xattrs.iter().filter(|xattr| xattr.name != *name).map(bytes).sum::<usize>();
    if others + name.as_bytes().len() + 1 + value.len() > XATTRS_BYTES_MAX {
        return Err(Errno::ENOSPC);
    }
    let value = value.to_vec();
    match place {
        Ok(at) => xattrs[at].value = value,
        Err(at) => xattrs.insert(at, Xattr { name: name.clone(), value }),
    }
    Ok(())
}

/// Removes one of an inode's attributes.
///
/// # Errors
/// `ENODATA` if it is not there.
pub fn remove(xattrs: &mut Vec<Xattr>, name: &Name) -> Result<(), Errno> {
    let at = xattrs.binary_search_by(|xattr| xattr.name.cmp(name)).map_err(|_| Errno::ENODATA)?;
    xattrs.remove(at);
    Ok(())
}

/// One of an inode's attributes.
///
/// # Errors
/// `ENODATA` if it is not there.
pub fn get<'a>(xattrs: &'a [Xattr], name: &Name) -> Result<&'a [u8], Errno> {
    let at = xattrs.binary_search_by(|xattr| xattr.name.cmp(name)).map_err(|_| Errno::ENODATA)?;
    Ok(&xattrs[at].value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn only_the_users_names_are_taken() {
        assert_eq!(check_name(b"user.a"), Ok(()));
        assert_eq!(check_name(b"security.capability"), Err(Errno::ENOTSUP));
        assert_eq!(check_name(b"system.posix_acl_access"), Err(Errno::ENOTSUP));
        assert_eq!(check_name(b"user."), Err(Errno::EINVAL));
        assert_eq!(check_name(b""), Err(Errno::ERANGE));
        assert_eq!(check_name(&[b'x'; 256]), Err(Errno::ERANGE));
    }

    #[test]
    fn set_get_and_remove_follow_their_modes() {
        let (a, b) = (Name::new(b"user.a"), Name::new(b"user.b"));
        let mut all = vec![];
        assert_eq!(set(&mut all, &b, b"2", SetMode::Replace), Err(Errno::ENODATA));
        assert_eq!(set(&mut all, &b, b"2", SetMode::Create), Ok(()));
        assert_eq!(set(&mut all, &a, b"", SetMode::Any), Ok(()));
        assert_eq!(set(&mut all, &a, b"1", SetMode::Create), Err(Errno::EEXIST));
        assert_eq!((get(&all, &a), get(&all, &b)), (Ok(&b""[..]), Ok(&b"2"[..])));
        assert!(all.is_sorted());
        assert_eq!(remove(&mut all, &a), Ok(()));
        assert_eq!(remove(&mut all, &a), Err(Errno::ENODATA));
        assert_eq!(get(&all, &a), Err(Errno::ENODATA));
        assert_eq!(set(&mut all, &a, &vec![0; XATTR_VALUE_BYTES_MAX + 1], SetMode::Any), Err(Errno::E2BIG));
        assert_eq!(set(&mut all, &a, &vec![0; XATTR_VALUE_BYTES_MAX], SetMode::Any), Ok(()));
        let (c, most) = (Name::new(b"user.c"), vec![0; XATTR_VALUE_BYTES_MAX]);
        assert_eq!(set(&mut all, &c, &most, SetMode::Any), Err(Errno::ENOSPC), "all of them have a limit");
        assert_eq!(set(&mut all, &a, &most, SetMode::Replace), Ok(()), "one in the place of another needs no more room");
    }
}
