//! Why the other end of a connection has not answered.

use crate::conn::Role;
use crate::message::Link;
use crate::stats;
use sovia_control::Reason;
use sovia_sys::{Errno, call, diag};

/// What the kernel says of the other end of `link`, where this process plays `role`.
pub(super) fn plain(link: &Link, role: Role) -> Reason {
    let owner = match role {
        Role::Connector => diag::tcp_owner(link.acceptor, link.connector),
        Role::Acceptor => diag::tcp_owner(link.connector, link.acceptor),
    };
    match owner {
        Ok(owner) if owner.uid != call::geteuid() => {
            stats::other_user(owner.uid);
            Reason::OtherUser
        }
        // The address is this machine's, but the socket is in another network namespace, or gone.
        Err(Errno::ENOENT) => Reason::PeerNotLocal,
        _ => Reason::PeerPlain,
    }
}
