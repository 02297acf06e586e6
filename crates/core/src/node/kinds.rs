//! Kinds of requests.

use crate::message::Request;

/// It makes an inode.
pub(super) fn makes_inode(request: &Request) -> bool {
    use Request::*;
    matches!(request, MakeNode { .. } | MakeDir { .. } | SymLink { .. } | Create { .. })
}

/// It changes what a crash must not lose.
pub(super) fn changes_state(request: &Request) -> bool {
    use Request::*;
    !matches!(
        request,
        Lookup { .. }
            | Forget { .. }
            | Depart
            | GetAttr { .. }
            | ReadLink { .. }
            | Open { .. }
            | Release { .. }
            | Read { .. }
            | Seek { .. }
            | GetXattr { .. }
            | ListXattr { .. }
            | OpenDir { .. }
            | ReadDir { .. }
            | ReadDirPlus { .. }
            | ReleaseDir { .. }
            | StatFs
            | Drain
            | Status
            | BringHome { .. }
            | Where { .. }
    )
}
