//! Why the other end of a connection has not answered.

use crate::conn::Role;
use crate::message::Link;
use crate::stats;
use sovia_control::Reason;
use sovia_sys::{Errno, call, diag};

/// What the kernel says of the other end of `link`, where this process plays `role`.
fn owner(link: &Link, role: Role) -> Result<diag::Owner, Errno> {
    match role {
        Role::Connector => diag::tcp_owner(link.acceptor, link.connector),
        Role::Acceptor => diag::tcp_owner(link.connector, link.acceptor),
    }
}

/// The user who has the other end, if that is another one than this process's.
pub(super) fn stranger(link: &Link, role: Role) -> Option<u32> {
    owner(link, role).ok().map(|owner| owner.uid).filter(|&uid| uid != call::geteuid())
}

/// The other end is that user's.
pub(super) fn other_user(uid: u32) -> Reason {
    stats::other_user(uid);
    Reason::OtherUser
}

/// The reason that shows in what the kernel says of the other end of `link`, where this process plays `role`.
pub(super) fn plain(link: &Link, role: Role) -> Reason {
    match owner(link, role) {
        Ok(owner) if owner.uid != call::geteuid() => other_user(owner.uid),
        // The address is this machine's, but the socket is in another network namespace, or gone.
        Err(Errno::ENOENT) => Reason::PeerNotLocal,
        // What systemd's RestrictAddressFamilies says, a filter's, and a kernel without sock_diag.
        Err(Errno::EAFNOSUPPORT | Errno::EPERM | Errno::EACCES | Errno::EPROTONOSUPPORT) => {
            Reason::OwnerUnknown
        }
        _ => Reason::PeerPlain,
    }
}
