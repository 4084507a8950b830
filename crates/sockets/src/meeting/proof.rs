//! Which process has sent a message: what the kernel says of the sender, compared with what the message says.

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

/// The next message that has the right form; others are counted and dropped.
pub(super) fn hear(socket: &Datagram) -> Option<(Message, Received)> {
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

/// What shows that the process which speaks has the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// The kernel, which is asked.
    Kernel,
    /// The agent, by which the message's socket has come.
    Agent,
}

/// Who speaks, as far as the kernel has said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Speaker {
    /// The user.
    pub(super) uid: u32,
    /// Whether it is a process of this one's user, whose id is the one that it says: the two may be able to trace each
    /// other.
    pub(super) may_be_kin: bool,
    /// Whether the rules trust the user: the two may share memory as strangers.
    pub(super) is_trusted: bool,
    /// Whether the agent has shown it.
    is_far: bool,
}

impl Speaker {
    /// Whether it may be the process that has the other side of a pair.
    pub(super) fn may_have(&self, pair: &Pair) -> bool {
        match pair.other_user {
            None => self.may_be_kin,
            Some(uid) => self.is_trusted && uid == self.uid && pair.is_far() == self.is_far,
        }
    }

    /// The same as a stranger.
    pub(super) fn as_other_user(&self) -> OtherUser {
        OtherUser { uid: self.uid, is_far: self.is_far }
    }
}

/// Who has sent a message, if that process's user holds the other end of `link`, and the two may meet.
pub(super) fn speaker(
    link: &Link,
    role: Role,
    proof: Proof,
    message: &Message,
    received: &Received,
) -> Option<Speaker> {
    if !message.link.same_connection(link) {
        junk(Junk::Stale);
        return None;
    }
    let Some((pid, uid)) = received.credentials else {
        junk(Junk::User);
        return None;
    };
    let is_far = proof == Proof::Agent;
    let may_be_kin = !is_far && uid == call::geteuid() && pid == message.from.pid;
    // Whoever has no number here is one user to the agent, though many to this process.
    let is_trusted = match trace::is_ambiguous(uid) {
        true => is_far && trusts(link, role, None),
        false => trusts(link, role, Some(uid)),
    };
    let speaker = Speaker { uid, may_be_kin, is_trusted, is_far };
    if !speaker.may_be_kin && !speaker.is_trusted {
        junk(Junk::User);
        return None;
    }
    if !is_far && !owns_other_end(link, role, message.link.cookie, uid) {
        junk(Junk::Stale);
        return None;
    }
    Some(speaker)
}

/// The user of a process that the agent has introduced, if the rules do not trust that user.
pub(super) fn refused_user(link: &Link, role: Role, received: &Received) -> Option<u32> {
    let (_, uid) = received.credentials?;
    let known = (!trace::is_ambiguous(uid)).then_some(uid);
    (!trusts(link, role, known)).then_some(uid)
}

/// Whether `link` may be on a VI of that pair, if the kernel knows its other end as that one's user's.
pub(super) fn may_be_on(pair: &Pair, link: &Link, role: Role) -> bool {
    !pair.is_far() && pair.other_user.is_none_or(|uid| trusts(link, role, Some(uid)))
}

/// Whether the rules trust the user who has the other end of `link`.
pub(super) fn trusts(link: &Link, role: Role, uid: Option<u32>) -> bool {
    let (end, local, peer) = seen_by(link, role);
    config::trusts(end, local, peer, uid)
}

/// Whether the rules trust some user with the other end of `link`.
pub(super) fn trusts_some(link: &Link, role: Role) -> bool {
    let (end, local, peer) = seen_by(link, role);
    config::trusts_some(end, local, peer)
}

/// A connection as its end of that role sees it: the end, its own address, and its peer's.
fn seen_by(link: &Link, role: Role) -> (End, SocketAddr, SocketAddr) {
    match role {
        Role::Connector => (End::Connector, link.connector, link.acceptor),
        Role::Acceptor => (End::Acceptor, link.acceptor, link.connector),
    }
}

/// Asks the kernel about the other end of `link`, where we play `role`.
pub(super) fn owns_other_end(link: &Link, role: Role, cookie: u64, uid: u32) -> bool {
    owner(link, role.other()).is_ok_and(|owner| owner.cookie == cookie && owner.uid == uid)
}

/// Returns what the kernel says of the end of `link` that plays `role`.
pub(super) fn owner(link: &Link, role: Role) -> Result<diag::Owner, Errno> {
    let (_, local, peer) = seen_by(link, role);
    diag::tcp_owner(local, peer)
}

/// Whether any process holds the other end of a connection, as the kernel knows. Where it does not say, one does.
pub(crate) fn peer_is_held(conn: &Conn, fd: i32) -> bool {
    if pair::get(conn.pair.load(Ordering::Relaxed)).is_some_and(|pair| pair.is_far()) {
        // The kernel knows its socket in another network namespace, or tells this process nothing.
        return true;
    }
    let Some((local, peer)) = addresses(fd) else { return true };
    match diag::tcp_owner(peer, local) {
        Ok(owner) => owner.is_held,
        Err(error) => error != Errno::ENOENT,
    }
}

/// The connection's addresses as the program's own end sees them, local first.
pub(crate) fn addresses(fd: i32) -> Option<(SocketAddr, SocketAddr)> {
    let name = |peer| {
        let address = call::socket_name(fd, peer).ok()?;
        Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
    };
    let (local, peer): (SocketAddr, SocketAddr) = (name(false)?, name(true)?);
    // A scoped address says nothing without its interface.
    let scoped = |ip: IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    (!scoped(local.ip())).then_some((local, peer))
}

pub(super) fn rendezvous(link: &Link) -> Option<Name> {
    Name::new(format!("sovia/{}-{}", link.connector, link.acceptor).as_bytes())
}
