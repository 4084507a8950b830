//! Identity of a message's sender: compares the kernel's information about the sender with the message.

use super::trial::Trials;
use super::{DATAGRAMS, junk};
use crate::conn::{Conn, Role};
use crate::message::{self, Link, Message};
use crate::pair::{self, OtherUser, Pair};
use crate::{closer, config};
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::Ordering;
use sovia_control::{End, Junk};
use sovia_sys::datagram::{Datagram, Name, Received};
use sovia_sys::{Errno, call, diag, trace};

/// Receives the next well-formed message from `socket`. Counts and drops malformed messages.
pub(super) fn receive(socket: &Datagram) -> Option<(Message, Received)> {
    if closer::is_busy() {
        return None;
    }
    let mut buf = [0; message::LEN + 1];
    for _ in 0..DATAGRAMS {
        let received = socket.receive(&mut buf).ok()?;
        if received.truncated {
            junk(Junk::Size);
            continue;
        }
        match Message::decode(&buf[..received.len.min(buf.len())]) {
            Ok(message) => return Some((message, received)),
            Err(message::Junk::Shape) => junk(Junk::Size),
            Err(message::Junk::Version) => junk(Junk::Version),
        }
    }
    junk(Junk::Flood);
    None
}

/// Source of the proof that a message's sender holds the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// This process asks the kernel for the owner of the other end.
    Kernel,
    /// The agent supplied the socket on which the message came.
    Agent,
    /// This process has sent a Hello to the other end, and has closed the connection since then. This proves nothing of
    /// the sender's user, so only a process that this process can trace may be the sender.
    Greeted,
}

/// The sender of a message, as far as the kernel identifies the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sender {
    /// The sender's user id.
    pub(super) uid: u32,
    /// Set if the sender has this process's user, and the process id that the message names. Then the sender and
    /// this process may be able to trace each other.
    pub(super) may_be_kin: bool,
    /// Set if the rules trust the sender's user: the two processes may share memory as peers by rule.
    pub(super) is_trusted: bool,
    /// Set if the agent proved that the sender holds the other end.
    is_by_agent: bool,
}

impl Sender {
    /// Returns true if the sender may be the peer of this pair.
    pub(super) fn may_have(&self, pair: &Pair) -> bool {
        match pair.other_user {
            None => self.may_be_kin,
            Some(uid) => {
                self.is_trusted && uid == self.uid && pair.is_by_agent() == self.is_by_agent
            }
        }
    }

    /// Returns the sender's identity as a peer by rule.
    pub(super) fn as_other_user(&self) -> OtherUser {
        OtherUser { uid: self.uid, is_by_agent: self.is_by_agent }
    }
}

/// Identifies the sender of a message. Returns `None` if the sender's user does not hold the other end of `link`,
/// or if the two processes may not share memory. A process in `trials` held the other end of a connection when its
/// trial began, and may have closed this end since then.
pub(super) fn sender(
    link: &Link,
    role: Role,
    proof: Proof,
    trials: &Trials,
    message: &Message,
    received: &Received,
) -> Option<Sender> {
    if !message.link.same_connection(link) {
        junk(Junk::Stale);
        return None;
    }
    let Some((pid, uid)) = received.credentials else {
        junk(Junk::User);
        return None;
    };
    let is_by_agent = proof == Proof::Agent;
    let may_be_kin = !is_by_agent && uid == call::geteuid() && pid == message.from.pid;
    // If this user namespace has no number for the sender's user, the kernel reports an id that several users
    // share. A rule for a user's number must not match this shared id.
    let is_trusted = match trace::is_ambiguous(uid) {
        true => is_by_agent && trusts(link, role, None),
        false => proof != Proof::Greeted && trusts(link, role, Some(uid)),
    };
    let sender = Sender { uid, may_be_kin, is_trusted, is_by_agent };
    if !sender.may_be_kin && !sender.is_trusted {
        junk(Junk::User);
        return None;
    }
    let is_on_trial = sender.may_be_kin && trials.has(message.from);
    if proof == Proof::Kernel
        && !is_on_trial
        && !owns_other_end(link, role, message.link.cookie, uid)
    {
        junk(Junk::Stale);
        return None;
    }
    Some(sender)
}

/// Returns the user of a process that the agent introduced, if the rules do not trust that user.
pub(super) fn refused_user(link: &Link, role: Role, received: &Received) -> Option<u32> {
    let (_, uid) = received.credentials?;
    let known = (!trace::is_ambiguous(uid)).then_some(uid);
    (!trusts(link, role, known)).then_some(uid)
}

/// Returns true if `link` may use a VI of this pair, provided that the pair's user holds the other end.
pub(super) fn may_be_on(pair: &Pair, link: &Link, role: Role) -> bool {
    !pair.is_by_agent() && pair.other_user.is_none_or(|uid| trusts(link, role, Some(uid)))
}

/// Returns true if the rules trust user `uid` at the other end of `link`.
pub(super) fn trusts(link: &Link, role: Role, uid: Option<u32>) -> bool {
    let (end, local, peer) = seen_by(link, role);
    config::trusts(end, local, peer, uid)
}

/// Returns true if the rules trust at least one user at the other end of `link`.
pub(super) fn trusts_some(link: &Link, role: Role) -> bool {
    let (end, local, peer) = seen_by(link, role);
    config::trusts_some(end, local, peer)
}

/// Returns a connection as the end with this role sees it: the end, its own address and its peer's address.
fn seen_by(link: &Link, role: Role) -> (End, SocketAddr, SocketAddr) {
    match role {
        Role::Connector => (End::Connector, link.connector, link.acceptor),
        Role::Acceptor => (End::Acceptor, link.acceptor, link.connector),
    }
}

/// Asks the kernel if a process of this user holds the other end of `link`, and if the end has this cookie. This
/// process has `role`.
pub(super) fn owns_other_end(link: &Link, role: Role, cookie: u64, uid: u32) -> bool {
    // The kernel reports an end that no process holds as root's. Root's messages must not be taken for such an end:
    // their sender has died, and nothing can be learned about the sender any more.
    owner(link, role.other())
        .is_ok_and(|owner| owner.is_held && owner.cookie == cookie && owner.uid == uid)
}

/// Returns the kernel's information about the end of `link` that has `role`.
pub(super) fn owner(link: &Link, role: Role) -> Result<diag::Owner, Errno> {
    let (_, local, peer) = seen_by(link, role);
    diag::tcp_owner(local, peer)
}

/// Returns true if a process holds the other end of a connection, or if the kernel cannot report the holder.
pub(crate) fn peer_is_held(conn: &Conn, fd: i32) -> bool {
    if pair::get(conn.pair.load(Ordering::Relaxed)).is_some_and(|pair| pair.is_by_agent()) {
        // The kernel does not report sockets of another network namespace, and may report no socket to a process in
        // a sandbox.
        return true;
    }
    let Some((local, peer)) = addresses(fd) else { return true };
    match diag::tcp_owner(peer, local) {
        Ok(owner) => owner.is_held,
        Err(error) => error != Errno::ENOENT,
    }
}

/// Returns the connection's addresses as the program's own end sees them, local address first.
pub(crate) fn addresses(fd: i32) -> Option<(SocketAddr, SocketAddr)> {
    let name = |peer| {
        let address = call::socket_name(fd, peer).ok()?;
        Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
    };
    let (local, peer): (SocketAddr, SocketAddr) = (name(false)?, name(true)?);
    // A link-local address is ambiguous without its interface, so return `None`.
    let scoped = |ip: IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    (!scoped(local.ip())).then_some((local, peer))
}

pub(super) fn rendezvous_name(link: &Link) -> Option<Name> {
    Name::new(format!("sovia/{}-{}", link.connector, link.acceptor).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    #[test]
    fn no_user_owns_an_end_that_its_process_has_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let (connector, acceptor) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let link = Link { connector, acceptor, cookie: 0 };
        let of_client = owner(&link, Role::Connector).unwrap();
        let is_owned = |uid| owns_other_end(&link, Role::Acceptor, of_client.cookie, uid);
        assert!(is_owned(call::geteuid()));
        // The kernel keeps the closed end, as root's, until the server has received all bytes.
        client.set_nonblocking(true).unwrap();
        while (&client).write(&[0; 65536]).is_ok() {}
        drop(client);
        // A child that another test has forked may have a copy of the descriptor for a moment.
        while owner(&link, Role::Connector).unwrap().is_held {
            thread::yield_now();
        }
        assert!(!is_owned(of_client.uid) && !is_owned(0));
        drop(server);
    }
}
