//! Reasons for which the other end of a connection has not answered.

use super::proof::owner;
use crate::conn::Role;
use crate::message::Link;
use crate::stats;
use sovia_control::Reason;
use sovia_sys::{Errno, call, diag};

/// Returns the user of the end that `owner` describes, if this user differs from this process's user. Ignores root
/// if no process holds the end: for an end that is closed or not yet accepted, the kernel may report root.
fn other_owner(owner: &diag::Owner) -> Option<u32> {
    let is_known = owner.is_held || owner.uid != 0;
    Some(owner.uid).filter(|&uid| is_known && uid != call::geteuid())
}

/// Returns the user of the other end of `link`, if this user differs from this process's user.
pub(super) fn user_of_other_end(link: &Link, role: Role) -> Option<u32> {
    owner(link, role.other()).ok().and_then(|owner| other_owner(&owner))
}

/// Records that the other end belongs to user `uid`, and returns [`Reason::OtherUser`].
pub(super) fn other_user(uid: u32) -> Reason {
    stats::other_user(uid);
    Reason::OtherUser
}

/// Returns the reason that follows from the kernel's information about the other end of `link`. This process has
/// `role`.
pub(super) fn plain(link: &Link, role: Role) -> Reason {
    match owner(link, role.other()) {
        Ok(owner) => other_owner(&owner).map_or(Reason::PeerPlain, other_user),
        // The kernel finds no other end. The other end is closed, or is in another network namespace that uses the
        // same address.
        Err(Errno::ENOENT) => match owner(link, role) {
            Ok(own) if own.is_established => Reason::PeerNotLocal,
            _ => Reason::PeerPlain,
        },
        // These errors come from systemd's RestrictAddressFamilies, from a seccomp filter, or from a kernel without
        // sock_diag.
        Err(Errno::EAFNOSUPPORT | Errno::EPERM | Errno::EACCES | Errno::EPROTONOSUPPORT) => {
            Reason::OwnerUnknown
        }
        _ => Reason::PeerPlain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn an_end_that_has_gone_is_not_elsewhere() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let (connector, acceptor) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let link = Link { connector, acceptor, cookie: 0 };
        assert_eq!(plain(&link, Role::Connector), Reason::PeerPlain);
        // A close with unread bytes resets the connection, and the kernel removes both ends.
        std::io::Write::write_all(&mut &client, b"unread").unwrap();
        drop(server);
        while owner(&link, Role::Acceptor) != Err(Errno::ENOENT) {
            std::thread::yield_now();
        }
        assert_eq!(plain(&link, Role::Connector), Reason::PeerPlain);
    }
}
